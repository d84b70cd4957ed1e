// Token ids in a text, a document or sequence a line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cria::hosted {

// Reads the decimal ids of one line, with blanks, tabs or commas between them. Returns what is
// wrong with the line, to follow "line 3 ", or nothing.
[[nodiscard]] std::string read_token_ids(std::string_view line, uint32_t vocab_size,
                                         std::vector<uint32_t>* ids);

}  // namespace cria::hosted
