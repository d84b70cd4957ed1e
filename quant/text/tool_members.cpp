#include "quant/text/tool_members.h"

#include <algorithm>
#include <iterator>
#include <string_view>

namespace cria {
namespace {

using format::ChatValueForm;
using format::ChatValueStyle;
using Text = std::span<const char>;

constexpr ChatValueStyle kQuoted = {ChatValueForm::kQuoted, 0, 0, 0};

void put(std::string_view text, TextSink* sink) { sink->put(text); }

}  // namespace

const char* members_refusal(Text function) {
  constexpr const char* kKnown[] = {"name", "description", "parameters", "strict"};
  Text key;
  Text value;
  for (JsonMembers members(function); members.next(&key, &value);) {
    const bool is_known = std::any_of(std::begin(kKnown), std::end(kKnown),
                                      [&](const char* name) { return is_json_name(key, name); });
    if (!is_known) return "needs functions of a name, a description, parameters and strict only";
  }
  return nullptr;
}

void print_members(Text function, TextSink* sink) {
  const char* before = "{";
  Text key;
  Text value;
  for (JsonMembers members(function); members.next(&key, &value); before = ", ") {
    put(before, sink);
    print_json(key, kQuoted, sink);
    put(": ", sink);
    print_json(value, kQuoted, sink);  // what is no text is JSON
  }
  put("}", sink);
}

}  // namespace cria
