#include "platforms/hosted/eval/eval_windows.h"

#include <gtest/gtest.h>

#include <numeric>

namespace cria::hosted {
namespace {

constexpr uint32_t kBos = 900;
constexpr uint32_t kNoBos = 0xffffffff;

std::vector<uint32_t> counting(size_t count) {
  std::vector<uint32_t> tokens(count);
  std::iota(tokens.begin(), tokens.end(), 0U);
  return tokens;
}

TEST(SplitDocuments, LeavesEmptyPartsOut) {
  EXPECT_EQ(split_documents("#ab##c#", "#"), (std::vector<std::string_view>{"ab", "c"}));
  EXPECT_EQ(split_documents("ab", "<bos>"), (std::vector<std::string_view>{"ab"}));
  EXPECT_EQ(split_documents("a<bos>\n<bos>b", "<bos>"),
            (std::vector<std::string_view>{"a", "\n", "b"}));
  EXPECT_TRUE(split_documents("", "#").empty());
  EXPECT_TRUE(split_documents("##", "#").empty());
}

TEST(SplitDocuments, AnEmptySeparatorCutsNothing) {
  EXPECT_EQ(split_documents("ab", ""), (std::vector<std::string_view>{"ab"}));
}

TEST(CutWindows, EachWindowStartsWithBosAndEveryTokenIsScoredOnce) {
  for (size_t count = 0; count < 20; ++count) {
    for (size_t window = 2; window < 8; ++window) {
      std::vector<EvalWindow> windows;
      cut_windows(counting(count), kBos, window, &windows);
      std::vector<uint32_t> scored;
      for (const EvalWindow& w : windows) {
        ASSERT_EQ(w.tokens.front(), kBos);
        ASSERT_LE(w.tokens.size(), window);
        ASSERT_GE(w.tokens.size(), 2u);
        scored.insert(scored.end(), w.tokens.begin() + 1, w.tokens.end());
      }
      EXPECT_EQ(scored, counting(count)) << count << " tokens, window of " << window;
    }
  }
}

// A text of millions of short documents must not take a context for each.
TEST(CutWindows, AWindowTakesNoMoreMemoryThanItsTokens) {
  std::vector<EvalWindow> windows;
  cut_windows(counting(3), kBos, size_t{1} << 20, &windows);
  ASSERT_EQ(windows.size(), 1u);
  EXPECT_LE(windows[0].tokens.capacity(), 4u);
}

TEST(CutWindows, WithoutBosTheFirstTokenOfAWindowIsContextAlone) {
  std::vector<EvalWindow> windows;
  cut_windows(counting(7), kNoBos, 3, &windows);
  ASSERT_EQ(windows.size(), 2u);  // a last window of one token scores nothing
  EXPECT_EQ(windows[0].tokens, (std::vector<uint32_t>{0, 1, 2}));
  EXPECT_EQ(windows[1].tokens, (std::vector<uint32_t>{3, 4, 5}));
}

TEST(CutHalves, WindowsAreWholeBeginWithBosAndScoreBehindTheirMiddle) {
  std::vector<EvalWindow> windows;
  cut_halves(counting(23), kBos, 5, &windows);
  ASSERT_EQ(windows.size(), 4U);
  EXPECT_EQ(windows[1].tokens, (std::vector<uint32_t>{kBos, 6, 7, 8, 9}));
  EXPECT_EQ(windows[1].first_scored, 3U);
  windows.clear();
  cut_halves(counting(8), kNoBos, 4, &windows);
  ASSERT_EQ(windows.size(), 2U);
  EXPECT_EQ(windows[1].tokens, (std::vector<uint32_t>{4, 5, 6, 7}));
  EXPECT_EQ(windows[1].first_scored, 3U);
  windows.clear();
  cut_halves(counting(3), kBos, 4, &windows);
  EXPECT_TRUE(windows.empty());
}

}  // namespace
}  // namespace cria::hosted
