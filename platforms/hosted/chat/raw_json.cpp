#include "platforms/hosted/chat/raw_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "platforms/hosted/base/json_source.h"

namespace cria::hosted {
namespace {

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

// A walk over text that is known to be JSON.
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

  std::vector<std::string_view> elements() {
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
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
  }

  bool take(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    skip_space();
    return true;
  }

  // One value and the space after it.
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
    while (end > begin && is_space(text_[end - 1])) --end;
    return text_.substr(begin, end - begin);
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

std::optional<std::string_view> raw_member(std::string_view object,
                                           std::initializer_list<std::string_view> names) {
  std::optional<std::string_view> found = json_source(object).text;
  for (const std::string_view name : names) {
    found = RawJson(*found).member(name);
    if (!found) break;
  }
  return found;
}

std::string_view raw_path(std::string_view object, std::string_view path) {
  std::string_view value = path.empty() ? std::string_view() : object;
  while (!value.empty() && !path.empty()) {
    const size_t end = std::min(path.find('/'), path.size());
    value = raw_member(value, {path.substr(0, end)}).value_or(std::string_view());
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return value;
}

std::vector<std::string_view> raw_elements(std::string_view array) {
  return RawJson(json_source(array).text).elements();
}

}  // namespace cria::hosted
