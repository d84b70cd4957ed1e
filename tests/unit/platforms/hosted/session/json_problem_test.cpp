#include "platforms/hosted/session/json_problem.h"

#include <gtest/gtest.h>

namespace cria::hosted {
namespace {

std::string told(const std::string& schema, const std::string& at, const char* keyword) {
  cria_json_problem problem = {};
  problem.offset = schema.find(at);
  problem.reason = "is wrong";
  std::snprintf(problem.keyword, sizeof problem.keyword, "%s", keyword);
  return text_of_problem(problem, schema);
}

TEST(JsonProblem, SaysWhereAKeywordIs) {
  const std::string schema =
      R"({"type":1,"properties":{"a,{\"":{"anyOf":[true,{"x":2},{"const":3}]},"b":{"y":[4]}}})";
  EXPECT_EQ(told(schema, "1", "type"), "byte 8: \"type\" is wrong");
  EXPECT_EQ(told(schema, "2", "x"), R"(byte 52, in /properties/a,{\"/anyOf/1: "x" is wrong)");
  EXPECT_EQ(told(schema, "{\"const", "const"),
            R"(byte 55, in /properties/a,{\"/anyOf/2: "const" is wrong)");
  EXPECT_EQ(told(schema, "[4", "y"), R"(byte 78, in /properties/b: "y" is wrong)");
  EXPECT_EQ(told("[[[", "[[", ""), "byte 0: the schema is wrong");
}

}  // namespace
}  // namespace cria::hosted
