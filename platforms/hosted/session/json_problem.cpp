#include "platforms/hosted/session/json_problem.h"

#include <algorithm>
#include <cstdlib>
#include <span>
#include <string>
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

// A member's name, with its escapes of JSON, as a JSON pointer has it.
std::string pointer_name(std::string_view name) {
  std::string text;
  for (const char c : name) text += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  return text;
}

// The way to the object that begins at a byte, or that a member there is of: names and indices.
std::vector<std::string> path_to(std::string_view schema, size_t offset) {
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
  std::vector<std::string> path;
  const bool begins = offset < schema.size() && schema[offset] == '{';
  for (size_t i = 0; i + (begins ? 0 : 1) < levels.size(); ++i) {
    const Level& level = levels[i];
    path.push_back(level.is_object ? pointer_name(level.name) : std::to_string(level.index));
  }
  return path;
}

// "in /properties/a"; of an empty path nothing.
std::string shown_path(std::span<const std::string> path) {
  constexpr size_t kMostShown = 200;
  std::string text;
  for (const std::string& name : path) text += "/" + name;
  if (text.size() > kMostShown) text = "..." + text.substr(text.size() - kMostShown);
  return text.empty() ? text : "in " + printable(text);
}

std::string told(const cria_json_problem& problem) {
  const std::string_view keyword = problem.keyword;
  return (keyword.empty() ? "the schema" : "\"" + shown(keyword) + "\"") + " " + problem.reason;
}

}  // namespace

std::string text_of_problem(const cria_json_problem& problem, std::string_view schema) {
  const bool has_path = problem.keyword[0] != 0;
  const std::string path = has_path ? shown_path(path_to(schema, problem.offset)) : "";
  return text_of("byte %zu", problem.offset) + (path.empty() ? "" : ", " + path) + ": " +
         told(problem);
}

std::string text_of_problem(const cria_call_problem& problem, std::string_view tools) {
  if (problem.tool[0] == 0) return "the tools: " + text_of_problem(problem.schema, tools);
  // After the tool's number and "function", of which some requests have none.
  const std::vector<std::string> path = path_to(tools, problem.schema.offset);
  const size_t n_known = std::min<size_t>(path.size(), 2);
  const std::string where = shown_path(std::span(path).subspan(n_known));
  const size_t index = path.empty() ? 0 : std::strtoul(path[0].c_str(), nullptr, 10);
  return text_of("tool %zu ('%s'): ", index + 1, shown(problem.tool).c_str()) +
         (where.empty() ? "" : where + ": ") + told(problem.schema);
}

}  // namespace cria::hosted
