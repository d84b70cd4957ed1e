#include "platforms/hosted/bench/read_bandwidth.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <span>

namespace cria::hosted {
namespace {

constexpr size_t kWordsOfLine = 8;

// Else a way could look fast because it leaves lines out.
TEST(ReadAll, EachWayReadsEveryWordOnce) {
  constexpr size_t kMostWords = 1000 * kWordsOfLine;
  alignas(4096) static uint64_t memory[kMostWords + kWordsOfLine];
  for (const size_t first : {0, 1, 5}) {  // of a page
    const std::span<uint64_t> all = std::span(memory).subspan(first);
    for (size_t i = 0; i < all.size(); ++i) all[i] = i * i + 1;
    for (const size_t n_lines : {0, 1, 63, 64, 65, 96, 130, 161, 1000}) {
      const std::span<uint64_t> words = all.first(n_lines * kWordsOfLine);
      const uint64_t sum = std::accumulate(words.begin(), words.end(), uint64_t{0});
      for (const ReadAhead ahead : kReadAheads) {
        EXPECT_EQ(read_all(words.data(), words.size_bytes(), ahead), sum)
            << n_lines << " lines, way " << static_cast<int>(ahead);
      }
    }
  }
}

TEST(MeasureReadBandwidth, IsASpeedForThreadsThatDoNotDivideTheMemory) {
  const double speed = measure_read_bandwidth(3);
  EXPECT_GT(speed, 1e6);
  EXPECT_LT(speed, 1e13);
}

}  // namespace
}  // namespace cria::hosted
