// The merge loop against one that searches the whole word for each merge.
#include "runtime/text/bpe.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <utility>

#include "tests/support/seeds.h"
#include "tests/unit/runtime/text/tokenizer_section.h"

namespace cria {
namespace {

using format::kNone;
using test::Tokens;

struct Rule {
  uint32_t rank;
  uint32_t result;
};
using Rules = std::map<std::pair<uint32_t, uint32_t>, Rule>;

Tokens merge_naively(Tokens word, const Rules& rules) {
  for (;;) {
    size_t best = word.size();
    for (size_t i = 0; i + 1 < word.size(); ++i) {
      const auto rule = rules.find({word[i], word[i + 1]});
      if (rule == rules.end()) continue;
      if (best == word.size() || rule->second.rank < rules.at({word[best], word[best + 1]}).rank) {
        best = i;
      }
    }
    if (best == word.size()) return word;
    word[best] = rules.at({word[best], word[best + 1]}).result;
    word.erase(word.begin() + static_cast<ptrdiff_t>(best) + 1);
  }
}

// Tokens with random merges, many of equal rank; the texts do not matter to the loop.
struct RandomTables {
  explicit RandomTables(std::mt19937* random) {
    constexpr uint32_t kTokens = 24;
    for (uint32_t left = 0; left < kTokens; ++left) {
      for (uint32_t right = 0; right < kTokens; ++right) {
        if ((*random)() % 3 != 0) continue;
        const Rule rule = {static_cast<uint32_t>((*random)() % 20),
                           static_cast<uint32_t>((*random)() % kTokens)};
        rules[{left, right}] = rule;
        merges.push_back({right, rule.rank, rule.result});
      }
      merge_ends.push_back(static_cast<uint32_t>(merges.size()));
    }
    tokenizer.header.n_tokens = kTokens;
    tokenizer.merge_ends = merge_ends.data();
    tokenizer.merges = merges.data();
  }
  RandomTables(const RandomTables&) = delete;
  RandomTables& operator=(const RandomTables&) = delete;

  Rules rules;
  Tokens merge_ends;
  std::vector<format::MergeEntry> merges;
  Tokenizer tokenizer = {};
};

Tokens merge_with_heap(const Tokens& word, BpeWord* bpe) {
  bpe->clear();
  for (const uint32_t token : word) EXPECT_TRUE(bpe->append(token));
  bpe->merge();
  Tokens merged;
  for (uint32_t i = bpe->first(); i != kNone; i = bpe->next(i)) merged.push_back(bpe->token(i));
  EXPECT_LE(merged.size(), word.size());
  return merged;
}

void compare_random_words(uint32_t seed) {
  constexpr size_t kLongest = 60;
  std::mt19937 random(seed);
  size_t compared = 0;
  for (int table = 0; table < 50; ++table) {
    const RandomTables tables(&random);
    std::vector<uint8_t> workspace(kLongest * kEncodeBytesPerSymbol);
    BpeWord bpe(tables.tokenizer, workspace);
    for (int round = 0; round < 50; ++round) {
      Tokens word(random() % (kLongest + 1));
      for (uint32_t& token : word) {
        token = static_cast<uint32_t>(random() % tables.merge_ends.size());
      }
      ASSERT_EQ(merge_with_heap(word, &bpe), merge_naively(word, tables.rules));
      ++compared;
    }
  }
  EXPECT_EQ(compared, 2500U);
}

TEST(BpeTest, EqualsTheNaiveLoopOnRandomWords) { test::for_each_seed({7}, compare_random_words); }

TEST(BpeTest, TakesTheLeftmostOfEqualRanks) {
  test::TokenizerSection section(format::TokenizerKind::kByteLevelBpe,
                                 format::PreTokenizer::kWhole);
  section.byte_tokens['a'] = section.add("a");
  section.merge("a", "a");
  const test::OpenTokenizer tokenizer(section);
  ASSERT_EQ(tokenizer.status(), Status::kOk);
  EXPECT_EQ(tokenizer.pieces("aaa", {}), "aa|a");
  EXPECT_EQ(tokenizer.pieces("aaaaa", {}), "aa|aa|a");
}

TEST(BpeTest, AppendStopsWhereTheWorkspaceEnds) {
  std::mt19937 random(1);
  const RandomTables tables(&random);
  std::vector<uint8_t> workspace(3 * kEncodeBytesPerSymbol - 1);
  BpeWord bpe(tables.tokenizer, workspace);
  EXPECT_TRUE(bpe.append(0));
  EXPECT_TRUE(bpe.append(0));
  EXPECT_FALSE(bpe.append(0));
  bpe.clear();
  EXPECT_EQ(bpe.first(), kNone);
  bpe.merge();
  EXPECT_EQ(bpe.first(), kNone);
}

}  // namespace
}  // namespace cria
