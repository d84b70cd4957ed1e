#include "platforms/hosted/base/file_kind.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string>

namespace cria::hosted {
namespace {

TEST(FileKind, HasAWordForEach) {
  EXPECT_EQ(std::string(file_kind(S_IFDIR | 0755)), "a folder");
  EXPECT_EQ(std::string(file_kind(S_IFIFO | 0600)), "a named pipe");
  EXPECT_EQ(std::string(file_kind(S_IFSOCK | 0600)), "a socket");
  EXPECT_EQ(std::string(file_kind(S_IFCHR | 0600)), "a device");
  EXPECT_EQ(std::string(file_kind(S_IFBLK | 0600)), "a device");
  EXPECT_EQ(std::string(file_kind(S_IFREG | 0600)), "a regular file");
}

}  // namespace
}  // namespace cria::hosted
