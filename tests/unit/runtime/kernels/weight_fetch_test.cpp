// Which addresses x86 kernels ask for ahead of use: no result shows it when they are wrong.
#include "runtime/kernels/weight_fetch.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

namespace cria {
namespace {

TEST(NextPage, IsTheOneBehindTheAddress) {
  EXPECT_EQ(next_page(0), 4096u);
  EXPECT_EQ(next_page(4095), 4096u);
  EXPECT_EQ(next_page(4096), 8192u);
  EXPECT_EQ(next_page(8192 + 255), 12288u);
}

TEST(BeginsPage, IsTrueOfOneGroupOfEachPageWhereverAStreamBegins) {
  constexpr uintptr_t kPages = 9;
  for (const size_t n_bytes : {64, 256, 512, 1024, 4096}) {
    for (const uintptr_t first : {0, 8, 64, 192, 255, 640, 4032, 4095}) {
      size_t n_asked[kPages] = {};
      for (uintptr_t at = first; at < kPages * 4096; at += n_bytes) {
        if (begins_page(at, n_bytes)) ++n_asked[at / 4096];
      }
      for (uintptr_t page = 1; page < kPages; ++page) {  // the first may begin before the stream
        EXPECT_EQ(n_asked[page], 1u) << n_bytes << " bytes from " << first << ", page " << page;
      }
    }
  }
}

// Of a matrix whose groups have no scales.
TEST(BeginsPage, IsNeverTrueOfGroupsOfNothing) {
  for (const uintptr_t at : {0, 64, 4096}) EXPECT_FALSE(begins_page(at, 0));
}

}  // namespace
}  // namespace cria
