#include "runtime/calls/marker.h"

#include "quant/text/call_format.h"

namespace cria::calls {

Match match_marker(std::string_view marker, std::string_view text, size_t* n_bytes) {
  size_t at = 0;
  for (const char expected : marker) {
    if (is_call_blank(expected)) {
      while (at < text.size() && is_call_blank(text[at])) ++at;
      continue;
    }
    if (at == text.size()) return Match::kPart;
    if (text[at] != expected) return Match::kNone;
    ++at;
  }
  *n_bytes = at;
  return Match::kWhole;
}

bool is_name_byte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '.' || c == '/';
}

}  // namespace cria::calls
