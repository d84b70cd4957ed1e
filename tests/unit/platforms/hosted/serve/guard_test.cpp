#include "platforms/hosted/serve/guard.h"

#include <gtest/gtest.h>

#include "platforms/hosted/base/program_error.h"
#include "platforms/hosted/serve/api_error.h"

namespace cria::hosted {
namespace {

RequestHead head_with(const std::string& host, const char* origin = nullptr) {
  RequestHead head;
  head.method = "GET";
  head.host = host;
  head.local_address = "192.168.1.5";
  head.has_origin = origin != nullptr;
  if (origin != nullptr) head.origin = origin;
  return head;
}

bool is_allowed(const Guard& guard, const RequestHead& head) {
  try {
    guard.check_site(head);
    return true;
  } catch (const ApiError& error) {
    EXPECT_EQ(error.http_status(), 403);
    return false;
  }
}

TEST(Guard, AnswersToTheNamesOfThisMachine) {
  const Guard guard({.host = "127.0.0.1", .origins = {"https://chat.example:8443"}, .keys = {}});
  for (const char* host : {"localhost", "LocalHost:80", "127.0.0.1", "127.255.1.2:1", "[::1]",
                           "[::1]:8080", "chat.example", "[0:0:0:0:0:0:0:1]"}) {
    EXPECT_TRUE(is_allowed(guard, head_with(host))) << host;
  }
  for (const char* host : {"", ":80", "evil.example", "localhost.", "127.0.0.1.evil", "128.0.0.1",
                           "[::2]", "[::1", "[::1]x", "localhost:80:80", "localhost:", "127.1",
                           "192.168.1.5", "a b", "localhost\t", "localhost/"}) {
    EXPECT_FALSE(is_allowed(guard, head_with(host))) << host;
  }
}

TEST(Guard, AnswersToTheAddressThatAClientReached) {
  for (const char* listens : {"0.0.0.0", "::"}) {
    const Guard open({.host = listens, .origins = {}, .keys = {}});
    EXPECT_TRUE(is_allowed(open, head_with("192.168.1.5:8080"))) << listens;
    EXPECT_FALSE(is_allowed(open, head_with("192.168.1.6:8080"))) << listens;
    EXPECT_FALSE(is_allowed(open, head_with("pi.local"))) << listens;
  }
  const Guard one({.host = "192.168.1.5", .origins = {}, .keys = {}});
  EXPECT_TRUE(is_allowed(one, head_with("192.168.1.5")));
}

TEST(Guard, LetsPagesOfItsOwnAndOfListedSitesAsk) {
  const Guard guard({.host = "127.0.0.1", .origins = {"https://chat.example"}, .keys = {}});
  EXPECT_TRUE(is_allowed(guard, head_with("localhost:80", "http://localhost:80")));
  EXPECT_TRUE(is_allowed(guard, head_with("localhost:80", "https://chat.example")));
  for (const char* origin : {"", "null", "http://localhost", "https://localhost:80", "file://",
                             "http://chat.example", "https://chat.example:443", "http://evil"}) {
    const RequestHead head = head_with("localhost:80", origin);
    EXPECT_FALSE(is_allowed(guard, head)) << origin;
    EXPECT_EQ(guard.cross_origin_headers(head).size(), 1u) << origin;  // Vary alone
  }
}

TEST(Guard, ComparesWholeKeys) {
  const Guard guard({.host = "127.0.0.1", .origins = {}, .keys = {"first", "second"}});
  const auto opens = [&guard](const std::string& bearer, const std::string& key) {
    RequestHead head;
    head.authorization = bearer;
    head.api_key = key;
    try {
      guard.check_key(head);
      return true;
    } catch (const ApiError& error) {
      EXPECT_EQ(error.http_status(), 401);
      return false;
    }
  };
  EXPECT_TRUE(opens("Bearer first", ""));
  EXPECT_TRUE(opens("bearer   second", ""));
  EXPECT_TRUE(opens("", "second"));
  EXPECT_TRUE(opens("Basic x", "first"));
  for (const char* wrong : {"", "f", "firs", "firstfirst", "firstsecond", "First", "first "}) {
    EXPECT_FALSE(opens(std::string("Bearer ") + wrong, wrong)) << wrong;
  }
  EXPECT_FALSE(opens("first", ""));
}

TEST(Guard, ReadsKeysALineEach) {
  EXPECT_EQ(keys_of("a\r\n\n  b \nc", "f"), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(keys_of("\xef\xbb\xbf"
                    "a\n",
                    "f"),
            std::vector<std::string>{"a"});
  EXPECT_THROW(keys_of("", "f"), ProgramError);
  try {
    keys_of("a\n\n\nb c\n", "f");
    ADD_FAILURE();
  } catch (const ProgramError& error) {
    EXPECT_NE(std::string(error.what()).find("line 4 "), std::string::npos) << error.what();
  }
  EXPECT_THROW(keys_of(" \n\r\n", "f"), ProgramError);
  EXPECT_THROW(keys_of("a b", "f"), ProgramError);
  EXPECT_THROW(keys_of(std::string("a\0b", 3), "f"), ProgramError);
}

TEST(Guard, KnowsAnOriginFromWhatLooksLikeOne) {
  for (const char* origin : {"http://a", "https://a.b:1", "app://a-b_c", "http://[::1]:80"}) {
    EXPECT_TRUE(is_origin(origin)) << origin;
  }
  for (const char* none : {"", "*", "a", "null", "http://", "http://a/", "http://A", "://a",
                           "http://a:b", "http://a b", "http://a\r\nX: y"}) {
    EXPECT_FALSE(is_origin(none)) << none;
  }
}

}  // namespace
}  // namespace cria::hosted
