#include "converter/chat_template/text_gaps.h"

#include <cstddef>
#include <string_view>

namespace cria::converter {

std::string without_end(const std::string& text, const std::string& end) {
  return text.substr(0, text.size() - end.size());
}
std::string without_begin(const std::string& text, const std::string& begin) {
  return text.substr(begin.size());
}
bool begins_with(const std::string& text, const std::string& begin) {
  return text.compare(0, begin.size(), begin) == 0;
}
bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

std::optional<Gaps> gaps_of(const std::string& text, std::initializer_list<const char*> contents) {
  Gaps gaps;
  size_t at = 0;
  for (const std::string_view content : contents) {
    const size_t found = text.find(content, at);
    if (found == std::string::npos) return std::nullopt;
    if (text.find(content, found + content.size()) != std::string::npos) return std::nullopt;
    gaps.push_back(text.substr(at, found - at));
    at = found + content.size();
  }
  gaps.push_back(text.substr(at));
  return gaps;
}

}  // namespace cria::converter
