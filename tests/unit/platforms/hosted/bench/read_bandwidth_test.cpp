#include "platforms/hosted/bench/read_bandwidth.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace cria::hosted {
namespace {

constexpr size_t kWordsOfLine = 8;

// Else a way could look fast because it leaves lines out.
TEST(ReadAll, EachWayReadsEveryWordOnce) {
  for (const size_t n_lines : {0, 1, 63, 64, 65, 96, 161, 1000}) {
    std::vector<uint64_t> words(n_lines * kWordsOfLine);
    uint64_t sum = 0;
    for (size_t i = 0; i < words.size(); ++i) sum += words[i] = i * i + 1;
    for (const ReadAhead ahead : kReadAheads) {
      EXPECT_EQ(read_all(words.data(), words.size() * sizeof(uint64_t), ahead), sum)
          << n_lines << " lines, way " << static_cast<int>(ahead);
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
