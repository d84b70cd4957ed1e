// The search for added tokens finds what a search that tries every token at every place finds, and
// does so in time on the worst tables that open.
#include "quant/text/added_tokens.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <random>

#include "tests/support/cpu_time.h"
#include "tests/support/long_under_asan.h"
#include "tests/support/seeds.h"
#include "tests/unit/runtime/text/tokenizer_section.h"

namespace cria {
namespace {

using format::kNone;
using format::PreTokenizer;
using test::kMark;
using test::OpenTokenizer;
using test::TokenizerSection;

struct Found {
  size_t begin;
  size_t end;
  uint32_t token;
};

// Length of the text at place that the token's text stands for; 0: it does not stand there.
size_t length_at(const std::string& text, size_t place, std::string_view token, bool folds) {
  const size_t from = place;
  while (!token.empty()) {
    if (place == text.size()) return 0;
    if (folds && text[place] == ' ') {
      if (!token.starts_with(kMark)) return 0;
      token.remove_prefix(3);
    } else {
      if (token[0] != text[place]) return 0;
      token.remove_prefix(1);
    }
    ++place;
  }
  return place - from;
}

// The same search by trial: tokens without flags that swallow space.
Found search_by_trial(const Tokenizer& t, const std::string& text, AddedStage stage,
                      std::span<const TextRange> plain, bool folds) {
  for (size_t place = 0; place < text.size(); ++place) {
    Found best = {place, place, kNone};
    size_t longest = 0;
    for (uint32_t i = 0; i < t.header.n_added; ++i) {
      const uint32_t token = t.added_tokens[i];
      const bool normalized = (t.token_flags[token] & format::kTokenNormalized) != 0;
      if (normalized != (stage == AddedStage::kNormalized)) continue;
      const std::span<const char> bytes = token_text(t, token);
      const size_t n = length_at(text, place, {bytes.data(), bytes.size()}, folds && normalized);
      const bool is_forbidden =
          is_special(t, token) && std::any_of(plain.begin(), plain.end(), [&](TextRange range) {
            return place < range.end && place + n > range.begin;
          });
      if (n == 0 || is_forbidden || bytes.size() <= longest) continue;
      longest = bytes.size();
      best = {place, place + n, token};
    }
    if (best.token != kNone) return best;
  }
  return {text.size(), text.size(), kNone};
}

std::string random_text(std::mt19937* random, size_t most) {
  const char* const kPieces[] = {"a", "b", " ", kMark, "<", "\xE2"};
  std::string text;
  for (size_t n = (*random)() % most + 1; n > 0; --n) text += kPieces[(*random)() % 6];
  return text;
}

void compare_with_trial(uint32_t seed) {
  std::mt19937 random(seed);
  size_t n_found = 0;
  for (int table = 0; table < 60; ++table) {
    const bool folds = table % 2 == 0;
    TokenizerSection section = folds ? test::sentencepiece_section(0, true)
                                     : test::byte_level_section(PreTokenizer::kStages);
    for (size_t n = random() % 40 + 1; n > 0; --n) {
      const std::string text = random_text(&random, 5);
      const bool is_known = std::any_of(section.added.begin(), section.added.end(),
                                        [&](uint32_t id) { return section.texts[id] == text; });
      if (is_known) continue;
      const uint8_t flags = static_cast<uint8_t>(random() % 2 * format::kTokenSpecial |
                                                 random() % 2 * format::kTokenNormalized);
      section.added.push_back(section.add(text, format::kTokenAdded | flags));
    }
    section.put_in_order();
    const OpenTokenizer tokenizer(section);
    ASSERT_EQ(tokenizer.status(), Status::kOk);
    const AddedTokens added(tokenizer.get());
    for (int round = 0; round < 100; ++round) {
      const std::string text = random_text(&random, 30);
      const size_t begin = random() % (text.size() + 1);
      const TextRange plain[] = {{begin, begin + random() % (text.size() - begin + 1)}};
      for (const AddedStage stage : {AddedStage::kRaw, AddedStage::kNormalized}) {
        const PrefixedText whole = {text.data(), text.size(), false};
        const AddedMatch match = added.find({whole, stage, 0, plain, false}, 0);
        const Found wanted = search_by_trial(tokenizer.get(), text, stage, plain, folds);
        ASSERT_EQ(match.token, wanted.token) << table << " '" << text << "'";
        ASSERT_EQ(match.begin, wanted.begin);
        ASSERT_EQ(match.end, wanted.end);
        if (match.token != kNone) ++n_found;
      }
    }
  }
  EXPECT_GT(n_found, 5000U);
}

TEST(AddedTokensTest, FindsWhatTryingEveryTokenFinds) {
  test::for_each_seed({9}, compare_with_trial);
}

// Tokens that a text of one letter agrees with to their last byte, which is another: `lengths`
// lengths up to `longest`, as many tokens of each as make n_tokens.
TokenizerSection worst_section(size_t n_tokens, size_t longest, size_t lengths, bool folds) {
  TokenizerSection section = folds ? test::sentencepiece_section(format::kByteFallback, true)
                                   : test::byte_level_section(PreTokenizer::kStages);
  const uint8_t flags =
      folds ? format::kTokenAdded | format::kTokenNormalized : format::kTokenAdded;
  constexpr size_t kTail = 4;
  const std::string unit = folds ? kMark : "a";
  for (size_t i = 0; i < n_tokens; ++i) {
    std::string text;
    while (text.size() + unit.size() + kTail <= longest - i % lengths * unit.size()) text += unit;
    size_t number = i / lengths;
    for (size_t digit = 0; digit < kTail; ++digit, number /= 25) {
      text += static_cast<char>('A' + number % 25);
    }
    section.added.push_back(section.add(text, flags));
  }
  section.put_in_order();
  return section;
}

TEST(AddedTokensTest, TheWorstTablesCostNoMoreThanTheirLongestTokens) {
  CRIA_SKIP_UNDER_ASAN();
  constexpr size_t kTextBytes = 1 << 14;
  // 0.06 s at rest; far above what it takes under an emulator or sanitizers, far below the minutes
  // of trying each.
  constexpr double kMostSeconds = 10.0;
  struct Table {
    const char* name;
    size_t n_tokens;
    size_t longest;
    size_t lengths;
    bool folds;
  };
  const Table kTables[] = {{"100,000 tokens of one length", 100000, 600, 1, false},
                           {"100,000 tokens of many lengths", 100000, 60, 50, false},
                           {"two lengths of 1,024", 8000, 1024, 2, false},
                           {"100,000 tokens of spaces", 100000, 600, 1, true},
                           {"tokens of spaces of many lengths", 100000, 90, 25, true}};
  for (const Table& table : kTables) {
    const TokenizerSection section =
        worst_section(table.n_tokens, table.longest, table.lengths, table.folds);
    const OpenTokenizer tokenizer(section);
    ASSERT_EQ(tokenizer.status(), Status::kOk) << table.name;
    const std::string text(kTextBytes, table.folds ? ' ' : 'a');
    test::Tokens tokens;
    const double seconds = test::thread_seconds_of([&] {
      tokens = tokenizer.encode(text, {false, true, false});
    });
    std::printf("%s: %.3f s\n", table.name, seconds);
    EXPECT_GT(tokens.size(), 1U);
    EXPECT_LT(seconds, kMostSeconds) << table.name;
  }
}

}  // namespace
}  // namespace cria
