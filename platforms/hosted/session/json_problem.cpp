#include "platforms/hosted/session/json_problem.h"

#include <string_view>

#include "platforms/hosted/base/print_format.h"
#include "platforms/hosted/base/shown_text.h"

namespace cria::hosted {

std::string text_of_problem(const cria_json_problem& problem) {
  const std::string_view keyword = problem.keyword;
  const std::string subject = keyword.empty() ? "the schema" : "\"" + shown(keyword) + "\"";
  return text_of("byte %zu: ", problem.offset) + subject + " " + problem.reason;
}

}  // namespace cria::hosted
