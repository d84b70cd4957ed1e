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

// Names as JSON pointers have them.
TEST(JsonProblem, APathHasEscapes) {
  const std::string schema = R"({"properties":{"a/b~c":{"x":2}}})";
  EXPECT_EQ(told(schema, "2", "x"), R"(byte 28, in /properties/a~1b~0c: "x" is wrong)");
}

TEST(JsonProblem, OfAToolIsToldByItsNumberAndFromItsFunction) {
  const std::string tools =
      R"([{"function":{"name":"f"}},{"type":"function","function":{"name":"g","strict":true,)"
      R"("parameters":{"type":"object","properties":{"a":{"x":2}}}}}])";
  const auto of_tool = [&](const char* tool, const char* at, const char* keyword) {
    cria_call_problem problem = {};
    problem.schema.offset = tools.find(at);
    problem.schema.reason = "is wrong";
    std::snprintf(problem.tool, sizeof problem.tool, "%s", tool);
    std::snprintf(problem.schema.keyword, sizeof problem.schema.keyword, "%s", keyword);
    return text_of_problem(problem, tools);
  };
  EXPECT_EQ(of_tool("g", "2}", "x"), R"(tool 2 ('g'): in /parameters/properties/a: "x" is wrong)");
  EXPECT_EQ(of_tool("g", R"({"type":"object")", "parameters"),
            R"(tool 2 ('g'): in /parameters: "parameters" is wrong)");
  EXPECT_EQ(of_tool("g", R"({"type":"object")", ""),
            "tool 2 ('g'): in /parameters: the schema is wrong");
  EXPECT_EQ(of_tool("f", R"("f")", "name"), R"(tool 1 ('f'): "name" is wrong)");
  EXPECT_EQ(of_tool("", "[", ""), "the tools: byte 0: the schema is wrong");
}

}  // namespace
}  // namespace cria::hosted
