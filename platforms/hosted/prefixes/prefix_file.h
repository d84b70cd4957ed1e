// The file that keeps the state of a prefix, so that a model need not read its tokens again:
//
//   offset       bytes
//   0            112     "criaprm3", then what decides the state's bits as text, then zeros
//   112          8       bytes of the state
//   120          8       n, tokens of the prefix
//   128          4 n     the tokens
//   128 + 4 n    ...     the state of cria_state_save
//
// Numbers are little-endian.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "platforms/hosted/session/model_session.h"

namespace cria::hosted {

constexpr size_t kPrefixHeadBytes = 128;

struct PrefixHead {
  std::string terms;  // the first 112 bytes
  uint64_t n_state_bytes = 0;
  uint64_t n_tokens = 0;

  [[nodiscard]] std::string bytes() const;
  [[nodiscard]] uint64_t state_offset() const {
    return kPrefixHeadBytes + n_tokens * sizeof(uint32_t);
  }
  [[nodiscard]] uint64_t file_bytes() const { return state_offset() + n_state_bytes; }
  bool operator==(const PrefixHead&) const = default;
};

// What the bits of a model's states depend on: the first bytes of its files.
std::string state_terms(const ModelSession& model);

// Whether a file that begins so is one of any model and version.
bool begins_prefix_file(std::string_view start);

// The head at the start of a file. None: it is no such file, or its sizes are impossible.
std::optional<PrefixHead> read_prefix_head(std::string_view start);

// States may be used up to multiples of this: only exact has the same bits wherever a chunk begins.
size_t reuse_step(const ModelSession& model);

// Writes a file whole or not at all. goes_on is asked between parts of it; after a false nothing is
// written and the result is false. Throws OutputError.
bool write_prefix_file(const std::string& path, const std::string& terms,
                       std::span<const uint32_t> tokens, std::span<const uint8_t> state,
                       const std::function<bool()>& goes_on);

// Loads a state and compares its tokens with those of the file. CRIA_BAD_STATE where they differ;
// then the session is empty.
cria_status load_prefix(cria_session* session, std::span<const uint32_t> tokens,
                        std::span<const uint8_t> state);

}  // namespace cria::hosted
