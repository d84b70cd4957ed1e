// JSON that somebody else wrote, before it is parsed: what every reader of both programs does
// alike.
#pragma once

#include <cstddef>
#include <string_view>

namespace cria::hosted {

struct JsonSource {
  // After the one byte order mark of UTF-8 that some editors put in front. Places that are told
  // are counted from here.
  std::string_view text;
  // After the first thing in text that no JSON has and the library passes over: a second mark, or
  // a NUL, which it takes for the end. 0: there is none.
  size_t end_of_wrong;
};

JsonSource json_source(std::string_view bytes);

}  // namespace cria::hosted
