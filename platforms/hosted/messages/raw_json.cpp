#include "platforms/hosted/messages/raw_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

namespace cria::hosted {
namespace {

// A walk over a text.
class RawJson {
 public:
  explicit RawJson(std::string_view text) : text_(text) { skip_space(); }

  std::optional<std::string_view> member(std::string_view name) {
    std::optional<std::string_view> found;
    if (!take('{')) return found;
    while (at_ < text_.size() && text_[at_] != '}') {
      const std::string_view key = value();
      take(':');
      const std::string_view its_value = value();
      if (is_name(key, name)) found = its_value;
      take(',');
    }
    return found;
  }

  std::vector<std::string_view> items() {
    std::vector<std::string_view> found;
    if (!take('[')) return found;
    while (at_ < text_.size() && text_[at_] != ']') {
      found.push_back(value());
      take(',');
    }
    return found;
  }

 private:
  // "json_sch\u0065ma" is json_schema too.
  static bool is_name(std::string_view key, std::string_view name) {
    if (key.find('\\') != std::string_view::npos)
      return nlohmann::json::parse(key).get<std::string>() == name;
    return key.size() >= 2 && key.substr(1, key.size() - 2) == name;
  }

  void skip_space() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r')) {
      ++at_;
    }
  }

  bool take(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    skip_space();
    return true;
  }

  // One value and the space behind it.
  std::string_view value() {
    const size_t begin = at_;
    int depth = 0;
    bool in_string = false;
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (in_string) {
        if (c == '\\') ++at_;
        in_string = c != '"';
        continue;
      }
      if (c == '"') in_string = true;
      if (depth == 0 && (c == ',' || c == ':' || c == ']' || c == '}')) break;
      if (c == '[' || c == '{') ++depth;
      if (c == ']' || c == '}') --depth;
    }
    size_t end = std::min(at_, text_.size());
    at_ = end;
    while (end > begin && (text_[end - 1] == ' ' || text_[end - 1] == '\t' ||
                           text_[end - 1] == '\n' || text_[end - 1] == '\r')) {
      --end;
    }
    return text_.substr(begin, end - begin);
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

std::optional<std::string_view> member_text(std::string_view json, std::string_view name) {
  return RawJson(json).member(name);
}

std::vector<std::string_view> item_texts(std::string_view json) { return RawJson(json).items(); }

}  // namespace cria::hosted
