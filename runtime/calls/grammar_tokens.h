// Tokens that a grammar of calls must look at: those that have to do with a form's markers.
#pragma once

#include "quant/text/call_format.h"
#include "runtime/base/arena.h"
#include "runtime/base/status.h"
#include "runtime/json/masks.h"

namespace cria::calls {

struct MarkedCounts {
  uint32_t n_specials;
  uint32_t special_bytes;
  uint32_t n_in_text;
  uint32_t n_in_values;
  uint32_t longest;  // of all tokens, in bytes
};

// Time: that of a look at each byte of the vocabulary, and at markers that may begin there.
[[nodiscard]] MarkedCounts count_marked(const CallFormat& form,
                                        const cria_json_vocabulary& vocabulary);
[[nodiscard]] uint64_t marked_bytes(const MarkedCounts& counts);
[[nodiscard]] Status take_marked(const CallFormat& form, const cria_json_vocabulary& vocabulary,
                                 const MarkedCounts& counts, Arena* arena,
                                 json::MarkedTokens* marked);

}  // namespace cria::calls
