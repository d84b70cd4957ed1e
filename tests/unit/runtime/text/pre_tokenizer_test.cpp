// Where words start and end.
#include "runtime/text/pre_tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/support/seeds.h"
#include "tests/unit/runtime/text/word_tables.h"

namespace cria {
namespace {

using format::PreTokenizer;
using format::SplitBehavior;
using test::gpt2_tables;
using test::WordTables;
using test::xy_tables;

std::string words_of(const PrefixedText& view, const auto& end_of_word) {
  std::string shown;
  for (size_t begin = 0; begin < view.n_bytes;) {
    const size_t end = end_of_word(begin);
    if (end <= begin || end > view.n_bytes) return "no progress";
    if (begin > 0) shown += '|';
    for (size_t i = begin; i < end; ++i) shown += view.byte_at(i);
    begin = end;
  }
  return shown;
}

std::string words(PreTokenizer kind, std::string_view text, bool has_prefix) {
  const PrefixedText view = {text.data(), text.size() + (has_prefix ? 1 : 0), has_prefix};
  return words_of(view, [&](size_t begin) { return word_end(kind, view, begin); });
}

std::string words(PreTokenizer kind, std::string_view text) { return words(kind, text, false); }

std::string words(const WordTables& made, std::string_view text, bool has_prefix) {
  const PrefixedText view = {text.data(), text.size() + (has_prefix ? 1 : 0), has_prefix};
  const std::vector<uint8_t> bytes = made.bytes();
  PreTokenizerTables tables;
  if (const char* wrong = check_pre_tokenizer(bytes, &tables)) return wrong;
  StageCutter cutter(tables, view);
  return words_of(view, [&](size_t begin) { return cutter.word_end(begin); });
}

std::string words(const WordTables& made, std::string_view text) {
  return words(made, text, false);
}

struct Row {
  const char* text;
  const char* expected;
};

TEST(PreTokenizerTest, StagesWalkTheirTables) {
  constexpr Row kRows[] = {
      {"Hello world", "Hello| world"},
      {"don't DON'T", "don|'t| DON|'|T"},
      {"a  b", "a| | b"},
      {"a \n b", "a| \n| b"},
      {"x   ", "x|   "},
      {"12345 67", "12345| 67"},
      {"a1b", "a|1|b"},
      {" ...!? ok", " ...!?| ok"},
      {"'re're", "'re|'re"},
      {"\xC3\xA9t\xC3\xA9 \xE4\xBD\xA0\xE5\xA5\xBD", "\xC3\xA9t\xC3\xA9| \xE4\xBD\xA0\xE5\xA5\xBD"},
      {"\t\tx", "\t|\t|x"},
  };
  for (const Row& row : kRows) EXPECT_EQ(words(gpt2_tables(), row.text), row.expected);
}

// The regex x: one state more, in which the match ends whatever follows.
WordTables single_x(SplitBehavior behavior, bool inverted) {
  WordTables tables = xy_tables({0, 4, 0, 0, 1, 1, 1, 1});
  tables.stages[0].behavior = static_cast<uint16_t>(behavior);
  tables.stages[0].inverted = inverted ? 1 : 0;
  return tables;
}

// As the tokenizers library documents them, with x for the dash.
TEST(PreTokenizerTest, BehaviorsCutMatchesAndTheTextBetweenThem) {
  constexpr std::string_view kText = "thexfinalxxcountdownx";
  const auto cut = [&](SplitBehavior behavior) { return words(single_x(behavior, false), kText); };
  EXPECT_EQ(cut(SplitBehavior::kIsolated), "the|x|final|x|x|countdown|x");
  EXPECT_EQ(cut(SplitBehavior::kMergedWithPrevious), "thex|finalx|x|countdownx");
  EXPECT_EQ(cut(SplitBehavior::kMergedWithNext), "the|xfinal|x|xcountdown|x");
  EXPECT_EQ(cut(SplitBehavior::kContiguous), "the|x|final|xx|countdown|x");
}

TEST(PreTokenizerTest, InvertedStagesMatchWhatIsBetween) {
  constexpr std::string_view kText = "aaxxbb";
  const auto cut = [&](SplitBehavior behavior) { return words(single_x(behavior, true), kText); };
  EXPECT_EQ(cut(SplitBehavior::kIsolated), "aa|x|x|bb");
  EXPECT_EQ(cut(SplitBehavior::kMergedWithPrevious), "aa|x|xbb");
  EXPECT_EQ(cut(SplitBehavior::kMergedWithNext), "aax|x|bb");
  EXPECT_EQ(cut(SplitBehavior::kContiguous), "aa|x|x|bb");
}

// The regex x*y: on a text of x alone each walk reads up to the end for nothing.
WordTables many_x_then_y() { return xy_tables({0, 2, 4, 0, 1, 1, 1, 1}); }

TEST(PreTokenizerTest, WalksForNothingAreRememberedSoThatCuttingIsLinear) {
  constexpr size_t kBytes = 100000;
  constexpr uint64_t kMostReads = 4;
  const std::vector<uint8_t> bytes = many_x_then_y().bytes();
  PreTokenizerTables tables;
  ASSERT_EQ(check_pre_tokenizer(bytes, &tables), nullptr);
  const std::string text(kBytes, 'x');
  const PrefixedText view = {text.data(), text.size(), false};
  StageCutter cutter(tables, view);
  EXPECT_EQ(cutter.word_end(0), kBytes);
  EXPECT_LE(cutter.n_read(), kMostReads * kBytes);
  EXPECT_EQ(words(many_x_then_y(), "xxxzxxyxy"), "xxxz|xxy|xy");
}

// (?:xz)*y, whose walks for nothing alternate between two states: no converter writes that.
TEST(PreTokenizerTest, TablesThatReadTooMuchAreGivenUp) {
  constexpr size_t kBytes = 100000;
  WordTables hostile = xy_tables({0, 4, 6, 0, 2, 0, 0, 0, 1, 1, 1, 1});
  const std::vector<uint8_t> bytes = hostile.bytes();
  PreTokenizerTables tables;
  ASSERT_EQ(check_pre_tokenizer(bytes, &tables), nullptr);
  std::string text;
  while (text.size() < kBytes) text += "xz";
  const PrefixedText view = {text.data(), text.size(), false};
  StageCutter cutter(tables, view);
  EXPECT_EQ(cutter.word_end(0), 0U);
  EXPECT_LE(cutter.n_read(), uint64_t{format::kMaxReadsPerByte + 2} * text.size());
  EXPECT_EQ(words(hostile, "xzxzyxy"), "xzxzy|x|y");
}

TEST(PreTokenizerTest, LaterStagesCutThePiecesOfEarlierOnes) {
  // Each x apart, then xy as one: what the first stage has cut stays cut.
  WordTables tables =
      xy_tables({0, 4, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 6, 0, 1, 1, 1, 1});
  tables.header.n_stages = 2;
  tables.stages = {{3, 0, 0}, {4, 0, 0}};
  // With the second stage first there are pieces of x and y.
  EXPECT_EQ(words(tables, "axyb"), "a|x|yb");
  std::swap(tables.stages[0], tables.stages[1]);
  std::rotate(tables.transitions.begin(), tables.transitions.begin() + 12,
              tables.transitions.end());
  EXPECT_EQ(words(tables, "axyb"), "a|x|y|b");
}

TEST(PreTokenizerTest, EveryRuleOfTheTablesIsChecked) {
  struct Broken {
    const char* what;
    void (*change)(WordTables*);
  };
  constexpr Broken kRows[] = {
      {"no classes", [](auto* t) { t->header.n_classes = 0; }},
      {"too many classes", [](auto* t) { t->header.n_classes = 256; }},
      {"no runs", [](auto* t) { t->header.n_runs = 0; }},
      {"too many runs", [](auto* t) { t->header.n_runs = format::kMaxClassRuns + 1; }},
      {"no stages", [](auto* t) { t->header.n_stages = 0; }},
      {"too many stages", [](auto* t) { t->header.n_stages = format::kMaxSplitStages + 1; }},
      {"too many transitions",
       [](auto* t) { t->header.n_transitions = format::kMaxTransitions + 1; }},
      {"another size", [](auto* t) { t->transitions.push_back(0); }},
      {"class of ASCII", [](auto* t) { t->header.ascii_classes[0] = 3; }},
      {"class of a run", [](auto* t) { t->runs[0] |= 3; }},
      {"first run", [](auto* t) { t->runs[0] += 1 << format::kRunClassBits; }},
      {"order of runs",
       [](auto* t) {
         t->runs.push_back(t->runs[0]);
         t->header.n_runs = 2;
       }},
      {"run past Unicode",
       [](auto* t) {
         t->runs.push_back(0x110000U << format::kRunClassBits);
         t->header.n_runs = 2;
       }},
      {"one state", [](auto* t) { t->stages[0].n_states = 1; }},
      {"too many states", [](auto* t) { t->stages[0].n_states = 4; }},
      {"transitions of no state", [](auto* t) { t->stages[0].n_states = 2; }},
      {"behavior", [](auto* t) { t->stages[0].behavior = 4; }},
      {"inverted", [](auto* t) { t->stages[0].inverted = 2; }},
      {"next state", [](auto* t) { t->transitions[4] = 6; }},
      {"living dead state", [](auto* t) { t->transitions[1] = 4; }},
      {"accepting dead state", [](auto* t) { t->transitions[0] = 1; }},
      {"on behind the text", [](auto* t) { t->transitions[11] = 4; }},
      {"match without text", [](auto* t) { t->transitions[4] = 1; }},
  };
  PreTokenizerTables tables;
  EXPECT_EQ(check_pre_tokenizer(single_x(SplitBehavior::kIsolated, false).bytes(), &tables),
            nullptr);
  for (const Broken& row : kRows) {
    WordTables broken = single_x(SplitBehavior::kIsolated, false);
    row.change(&broken);
    EXPECT_NE(check_pre_tokenizer(broken.bytes(), &tables), nullptr) << row.what;
  }
  const std::vector<uint8_t> bytes = single_x(SplitBehavior::kIsolated, false).bytes();
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_NE(check_pre_tokenizer(std::span(bytes).first(size), &tables), nullptr) << size;
  }
}

TEST(PreTokenizerTest, SpaceRunsStartWords) {
  EXPECT_EQ(words(PreTokenizer::kSpaceRuns, "  ab c  "), "  ab| c|  ");
  EXPECT_EQ(words(PreTokenizer::kSpaceRuns, "a\xE2\x96\x81 b\nc"), "a|\xE2\x96\x81 b\nc");
}

TEST(PreTokenizerTest, MetaspaceStartsAWordAtEachSpace) {
  EXPECT_EQ(words(PreTokenizer::kMetaspace, "  ab c"), " | ab| c");
}

TEST(PreTokenizerTest, PrefixCountsAsASpace) {
  EXPECT_EQ(words(gpt2_tables(), "ab c", true), " ab| c");
  EXPECT_EQ(words(gpt2_tables(), "\nab", true), " |\n|ab");
  EXPECT_EQ(words(PreTokenizer::kSpaceRuns, "ab c", true), " ab| c");
  EXPECT_EQ(words(PreTokenizer::kSpaceRuns, "", true), " ");
}

void cut_random_bytes(uint32_t seed) {
  std::mt19937 random(seed);
  const std::string_view alphabet = "a1 '\n\rsT.\xC3\xA9\xE2\x96\x81\xF0\x80\xFF";
  const WordTables tables = gpt2_tables();
  for (int round = 0; round < 2000; ++round) {
    std::string text(random() % 24, ' ');
    for (char& c : text) c = alphabet[random() % alphabet.size()];
    for (const PreTokenizer kind : {PreTokenizer::kWhole, PreTokenizer::kStages,
                                    PreTokenizer::kSpaceRuns, PreTokenizer::kMetaspace}) {
      for (const bool has_prefix : {false, true}) {
        std::string shown = kind == PreTokenizer::kStages ? words(tables, text, has_prefix)
                                                          : words(kind, text, has_prefix);
        std::erase(shown, '|');
        ASSERT_EQ(shown, (has_prefix ? " " : "") + text) << static_cast<uint32_t>(kind);
      }
    }
  }
}

TEST(PreTokenizerTest, EveryKindCutsRandomBytesCompletely) {
  test::for_each_seed({20240726}, cut_random_bytes);
}

}  // namespace
}  // namespace cria
