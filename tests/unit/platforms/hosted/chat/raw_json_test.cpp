#include "platforms/hosted/chat/raw_json.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cria::hosted {
namespace {

TEST(RawJson, MembersAreTheTextThatWasSent) {
  const std::string body =
      R"( { "a" : [1, {"b": "}"}] , "f" :{"t":"\"," , "s" : {"z":1,"a" : 2} }, "n":null,"f2":{}})";
  EXPECT_EQ(raw_member(body, {"f", "s"}), R"({"z":1,"a" : 2})");
  EXPECT_EQ(raw_member(body, {"a"}), R"([1, {"b": "}"}])");
  EXPECT_EQ(raw_member(body, {"n"}), "null");
  EXPECT_EQ(raw_member(body, {"f", "t"}), R"("\",")");
  EXPECT_EQ(raw_member(body, {"f2"}), "{}");
  for (const char* none : {"b", "z", "", "f3"}) {
    EXPECT_EQ(raw_member(body, {none}), std::nullopt) << none;
  }
  EXPECT_EQ(raw_member(body, {"a", "b"}), std::nullopt);
  EXPECT_EQ(raw_member(R"({"a":1,"a":2})", {"a"}), "2");
  EXPECT_EQ(raw_member(R"({"a":1,"\u0061":2,"\\u0061":3,"\"":4})", {"a"}), "2");
  EXPECT_EQ(raw_member(R"({"f":{"\u0073" : [1]}})", {"f", "s"}), "[1]");
  EXPECT_EQ(raw_member(R"({"a":1,"\"":4})", {"\""}), "4");
}

TEST(RawJson, ElementsAreTheTextThatWasSent) {
  using Texts = std::vector<std::string_view>;
  EXPECT_EQ(raw_elements(R"( [ 1.50 , {"a":[2,3]},"]", [ ] ] )"),
            (Texts{"1.50", R"({"a":[2,3]})", R"("]")", "[ ]"}));
  EXPECT_EQ(raw_elements("[]"), Texts());
  EXPECT_EQ(raw_elements("\xef\xbb\xbf[null]"), Texts{"null"});
  EXPECT_EQ(raw_elements(R"({"a":1})"), Texts());
  EXPECT_EQ(raw_elements(""), Texts());
}

}  // namespace
}  // namespace cria::hosted
