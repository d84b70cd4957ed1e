#include "platforms/hosted/base/token_ids.h"

#include <charconv>
#include <system_error>

namespace cria::hosted {
namespace {

bool separates(char c) { return c == ' ' || c == ',' || c == '\t' || c == '\r'; }

}  // namespace

std::string read_token_ids(std::string_view line, uint32_t vocab_size, std::vector<uint32_t>* ids) {
  const char* at = line.data();
  const char* const end = at + line.size();
  for (;;) {
    while (at != end && separates(*at)) ++at;
    if (at == end) return "";
    uint32_t id = 0;
    const auto [next, error] = std::from_chars(at, end, id);
    if (next == at || (next != end && !separates(*next))) return "is not a list of token ids";
    if (error != std::errc() || id >= vocab_size) {
      return "has a token id that is not below the model's " + std::to_string(vocab_size) +
             " tokens";
    }
    ids->push_back(id);
    at = next;
  }
}

}  // namespace cria::hosted
