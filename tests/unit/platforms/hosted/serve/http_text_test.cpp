#include "platforms/hosted/serve/http_text.h"

#include <gtest/gtest.h>

#include <optional>

namespace cria::hosted {
namespace {

TEST(HttpText, EscapesAreTwoHexadecimalDigitsAndNoNul) {
  EXPECT_EQ(percent_decoded("my%20model%2ecria"), "my model.cria");
  EXPECT_EQ(percent_decoded("100%25+%C3%a9"), "100%+\xc3\xa9");
  EXPECT_EQ(percent_decoded("%2525"), "%25");
  EXPECT_EQ(percent_decoded(""), "");
  for (const char* none : {"%", "a%", "%2", "%zz", "%2g", "%g2", "%+1", "%-1", "% 1", "%%20", "%00",
                           "a%00b", "%0x41"}) {
    EXPECT_EQ(percent_decoded(none), std::nullopt) << none;
  }
}

TEST(HttpText, AQueryHasAValueHoweverItIsWritten) {
  for (const char* query : {"a=1", "b=2&a=1", "a=1&b", "%61=%31", "&&a=1&", "a=2&a=1"}) {
    EXPECT_TRUE(query_has(query, "a", "1")) << query;
  }
  for (const char* query : {"", "a", "a=", "a=11", "aa=1", "b=a=1", "a=1=", "%3d=1", "a%3d1"}) {
    EXPECT_FALSE(query_has(query, "a", "1")) << query;
  }
}

}  // namespace
}  // namespace cria::hosted
