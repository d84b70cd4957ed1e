#include "platforms/hosted/serve/styles/ollama/rfc3339.h"

#include <gtest/gtest.h>

#include <limits>

namespace cria::hosted {
namespace {

TEST(Rfc3339, TimesHaveNanosecondsAndAZone) {
  EXPECT_EQ(rfc3339(0), "1970-01-01T00:00:00.000000000Z");
  EXPECT_EQ(rfc3339(951'782'399'000'000'001), "2000-02-28T23:59:59.000000001Z");
  EXPECT_EQ(rfc3339(951'782'400'123'456'789), "2000-02-29T00:00:00.123456789Z");
  EXPECT_EQ(rfc3339(std::numeric_limits<int64_t>::max()), "2262-04-11T23:47:16.854775807Z");
}

}  // namespace
}  // namespace cria::hosted
