#include "platforms/hosted/session/json_problem.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "platforms/hosted/base/print_format.h"
#include "platforms/hosted/base/shown_text.h"

namespace cria::hosted {
namespace {

// A container that is open, and which of its members or items is at hand.
struct Level {
  bool is_object;
  std::string_view name;
  size_t index;
};

// As a JSON pointer, names as they are written: the way to the object that begins at a byte, or
// that a member there is of.
std::string path_to(std::string_view schema, size_t offset) {
  std::vector<Level> levels;
  std::string_view string;  // read last
  for (size_t at = 0; at < std::min(offset, schema.size()); ++at) {
    const char c = schema[at];
    if (c == '"') {
      const size_t begin = ++at;
      while (at < schema.size() && schema[at] != '"') at += schema[at] == '\\' ? 2 : 1;
      string = schema.substr(begin, std::min(at, schema.size()) - begin);
    } else if (c == '{' || c == '[') {
      levels.push_back({c == '{', {}, 0});
    } else if (levels.empty()) {
      continue;
    } else if (c == ':') {
      levels.back().name = string;
    } else if (c == ',') {
      ++levels.back().index;
    } else if (c == '}' || c == ']') {
      levels.pop_back();
    }
  }
  std::string path;
  const bool begins = offset < schema.size() && schema[offset] == '{';
  for (size_t i = 0; i + (begins ? 0 : 1) < levels.size(); ++i) {
    const Level& level = levels[i];
    path += "/" + (level.is_object ? std::string(level.name) : std::to_string(level.index));
  }
  constexpr size_t kMostShown = 200;
  return path.size() > kMostShown ? "..." + path.substr(path.size() - kMostShown) : path;
}

}  // namespace

std::string text_of_problem(const cria_json_problem& problem, std::string_view schema) {
  const std::string_view keyword = problem.keyword;
  const std::string subject = keyword.empty() ? "the schema" : "\"" + shown(keyword) + "\"";
  const std::string path = keyword.empty() ? "" : path_to(schema, problem.offset);
  return text_of("byte %zu", problem.offset) + (path.empty() ? "" : ", in " + shown(path)) + ": " +
         subject + " " + problem.reason;
}

}  // namespace cria::hosted
