// Regexes of published tokenizers as tables, walked by the runtime. tests/cli/text_probe_test.py
// compares more of them with another implementation.
#include "converter/pre_tokenizer_names.h"

#include <gtest/gtest.h>

#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "converter/error.h"
#include "converter/pre_tokenizer_tables.h"
#include "quant/text/pre_tokenizer_check.h"
#include "runtime/text/pre_tokenizer.h"

namespace cria::converter {
namespace {

constexpr const char* kNames[] = {"default",        "gpt-2",      "smollm", "llama-bpe",
                                  "qwen2",          "tekken",     "gpt-4o", "deepseek-llm",
                                  "deepseek-coder", "deepseek-v3"};

struct Cut {
  std::string words;  // with bars between them
  uint64_t n_read;
};

Cut cut_with(const std::vector<uint8_t>& bytes, std::string_view text) {
  PreTokenizerTables tables;
  if (const char* wrong = check_pre_tokenizer(bytes, &tables)) return {wrong, 0};
  const PrefixedText view = {text.data(), text.size(), false};
  StageCutter cutter(tables, view);
  Cut result = {"", 0};
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = cutter.word_end(begin);
    if (end <= begin || end > text.size()) return {"no progress", 0};
    if (begin > 0) result.words += '|';
    result.words += text.substr(begin, end - begin);
    begin = end;
  }
  result.n_read = cutter.n_read();
  return result;
}

Cut cut(std::span<const SplitRule> rules, std::string_view text) {
  return cut_with(build_pre_tokenizer_tables(rules, "the test"), text);
}

std::string words(std::string_view name, std::string_view text) {
  const NamedPreTokenizer* const found = find_pre_tokenizer(name);
  return found == nullptr ? "no such name" : cut(found->rules, text).words;
}

std::string words_of(std::string_view regex, std::string_view text) {
  const SplitRule rule = {regex};
  return cut({&rule, 1}, text).words;
}

struct Row {
  const char* name;
  const char* text;
  const char* expected;
};

TEST(PreTokenizerNamesTest, CutAsTheirRegexes) {
  constexpr Row kRows[] = {
      {"gpt-2", "Hello world", "Hello| world"},
      {"gpt-2", "don't DON'T", "don|'t| DON|'|T"},
      {"gpt-2", "a \n b", "a| \n| b"},
      {"gpt-2", "\xC3\xA9t\xC3\xA9 \xE4\xBD\xA0", "\xC3\xA9t\xC3\xA9| \xE4\xBD\xA0"},
      {"default", "hello world 12345", "hello| world| |123|45"},
      {"default", "a,, b \xC2\xBF<c>\n\n d 1234a", "a|,,| b| |\xC2\xBF<|c|>|\n\n| d| |123|4|a"},
      {"smollm", "12a 3", "1|2|a| |3"},
      {"smollm", "a  1", "a|  |1"},
      {"smollm", "\xC2\xBD\xD9\xA3", "\xC2\xBD|\xD9\xA3"},
      {"smollm", "-1", "-|1"},
      {"llama-bpe", "DON'T I'LL", "DON|'T| I|'LL"},
      {"llama-bpe", "it'\xC5\xBF", "it|'\xC5\xBF"},
      {"llama-bpe", "1234567", "123|456|7"},
      {"llama-bpe", "a.b (abc", "a|.b| (|abc"},
      {"llama-bpe", "a \n\n  b", "a| \n\n| | b"},
      {"llama-bpe", "x!!\r\n\r\ny", "x|!!\r\n\r\n|y"},
      {"llama-bpe", "a   ", "a|   "},
      {"llama-bpe", "\xC2\xA0x 'x", "\xC2\xA0x| '|x"},
      {"qwen2", "a123 b", "a|1|2|3| b"},
      {"tekken", "HelloWORLD12 a/\n", "Hello|WORLD|1|2| a|/\n"},
      {"gpt-4o", "don't HelloWORLD's 1234", "don't| Hello|WORLD's| |123|4"},
      {"deepseek-llm", "ab 12\n x  ", "ab| |12|\n| x|  "},
      {"deepseek-coder", "a, b1\xE4\xB8\xAD\xE6\x96\x87", "a|,| b|1|\xE4\xB8\xAD\xE6\x96\x87"},
      {"deepseek-v3", "a1234 (b !c", "a|123|4| (|b| !|c"},
  };
  for (const Row& row : kRows) {
    EXPECT_EQ(words(row.name, row.text), row.expected) << row.name;
  }
  EXPECT_EQ(find_pre_tokenizer("no such name"), nullptr);
}

TEST(PreTokenizerNamesTest, EveryNameMakesTables) {
  for (const char* name : {"phi-2", "starcoder", "refact", "granite", "falcon3", "glm4", "mpt"}) {
    EXPECT_EQ(words(name, "ab cd"), "ab| cd") << name;
  }
}

// Each byte is read a few times, whatever the text: runs that are read for nothing again and again.
TEST(PreTokenizerNamesTest, CuttingIsLinearForEveryText) {
  constexpr size_t kBytes = 6000;
  constexpr uint64_t kMostReads = 24;
  const std::string_view units[] = {" ",
                                    "\n",
                                    "\n ",
                                    " \n",
                                    "a",
                                    "A",
                                    "'",
                                    "'r",
                                    "a'",
                                    "1",
                                    "!",
                                    "\t ",
                                    "aA",
                                    "! ",
                                    "!\n",
                                    "\xC2\xA0",
                                    "\xE4\xB8\xAD",
                                    "\xCC\x81",
                                    "A\xCC\x81",
                                    " A",
                                    "1 ",
                                    "\r",
                                    "\n  \n   ",
                                    "\xE4\xB8\xAD"
                                    "A",
                                    "\xFF",
                                    "a    "};
  size_t compared = 0;
  for (const char* name : kNames) {
    const auto tables = build_pre_tokenizer_tables(find_pre_tokenizer(name)->rules, "the test");
    for (const std::string_view first : units) {
      for (const std::string_view second : units) {
        std::string text;
        while (text.size() < kBytes / 2) text += first;
        while (text.size() < kBytes) text += second;
        const Cut done = cut_with(tables, text);
        ASSERT_LE(done.n_read, kMostReads * text.size()) << name << '\n' << first << '\n' << second;
        ASSERT_NE(done.words, "no progress");
        ++compared;
      }
    }
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_EQ(compared, std::size(kNames) * std::size(units) * std::size(units));
}

std::string error_of(std::string_view regex) {
  try {
    return words_of(regex, "");
  } catch (const ProgramError& error) {
    return error.what();
  }
}

// Each would take longer than anyone waits: every node counts, those too that take no character.
TEST(PreTokenizerNamesTest, NestedRepetitionsOfNothingEnd) {
  for (const char* nothing : {"()", "(?:)", "(|)", "(?:(?:)|())", "(a{0})", "((?:a?){0})"}) {
    for (const char* counts : {"{256}", "{0,256}", "{200,256}", "{,256}"}) {
      for (const size_t depth : {4, 8, 30}) {
        std::string regex = nothing;
        for (size_t i = 0; i < depth; ++i) regex = "(?:" + regex + counts + ")";
        const std::string around = "a" + regex + "|[^a]+|a";
        EXPECT_NE(error_of(around).find("repetitions written out"), std::string::npos) << around;
      }
    }
  }
  // What is repeated without end is asked each time whether it may be empty.
  std::string regex = "b";
  for (size_t i = 0; i < 12; ++i) regex = "(?:(?:" + regex + ")+){16}";
  EXPECT_NE(error_of(regex).find("repetitions written out"), std::string::npos);
  EXPECT_EQ(words_of("a(?:(){256}){100}|[^a]+", "aba"), "a|b|a");
}

TEST(PreTokenizerNamesTest, WhatIsNotSupportedIsNamedWithItsPlace) {
  struct Refused {
    const char* regex;
    const char* problem;
  };
  constexpr Refused kRows[] = {
      {"ab(?<=x)", "at byte 2: this kind of group"},
      {"(?>a)", "at byte 0: this kind of group"},
      {"(?m:a)", "at byte 0: this kind of group"},
      {"a(?=bc)", "at byte 1: looking ahead"},
      {"a(?!(?:b))", "at byte 1: looking ahead"},
      {"^a", "at byte 0: ^"},
      {"a\\b", "at byte 1: \\b"},
      {"(a)\\1", "at byte 3: \\1"},
      {"\\p{Greek}", "\\p{Greek}"},
      {"\\pL", "without braces"},
      {"\\xff", "that is not ASCII"},
      {"\\x{110000}", "not the code of a character"},
      {"[a", "without a closing bracket"},
      {"[]", "empty part"},
      {"[b-a]", "a range whose end is not a later character"},
      {"[\\s-a]", "a range that does not begin with a character"},
      {"[[:alpha:]]", "named class"},
      {"(a", "without a closing parenthesis"},
      {"a)", "at byte 1: a parenthesis"},
      {"*a", "repetition of nothing"},
      {"a**", "repetition of a repetition"},
      {"a{2}?", "{n}?"},
      {"a{3,2}", "reversed"},
      {"a{,}", "no number"},
      {"a{1000}", "more than 256"},
      {"(?:a?)*", "endless repetition"},
      {"(?:ab)++", "possessive repetition of more"},
      {"a|", "empty text"},
      {"a*", "empty text"},
      {"[^\\s\\S]", "matches nothing"},
      {"a(?i)b", "(?i) in the middle"},
      {"(?i:\\p{L})", "not ASCII under (?i)"},
      {"(?i:\xC3\xA9)", "not ASCII under (?i)"},
      {"(?i:ss)", "ligature"},
      {"(?:(?:(?:(?:a{64}){64}){64}){64})", "too large"},
      {"(?:a|b)*a(?:a|b){20}", "states"},
      {"[ab]*a|b", "more than linear"},
      {"a+b|a", "more than linear"},
      {"\\p{L}+\\.|\\p{L}", "more than linear"},
  };
  for (const Refused& row : kRows) {
    EXPECT_NE(error_of(row.regex).find(row.problem), std::string::npos)
        << row.regex << ": " << error_of(row.regex);
    EXPECT_TRUE(error_of(row.regex).starts_with("the test: the pre_tokenizer's regex '"))
        << row.regex;
  }
  EXPECT_NE(error_of(std::string(1 << 15, 'a')).find("bytes"), std::string::npos);
  EXPECT_NE(error_of(std::string(100, '(')).find("nested"), std::string::npos);
  EXPECT_NE(error_of(std::string(100, '[')).find("nested"), std::string::npos);
  const std::vector<SplitRule> many(format::kMaxSplitStages + 1, SplitRule{"a"});
  EXPECT_THROW((void)build_pre_tokenizer_tables(many, "the test"), ProgramError);
}

TEST(PreTokenizerNamesTest, MatchesAreThoseThatBacktrackingPrefers) {
  EXPECT_EQ(words_of("a|ab", "abab"), "a|b|a|b");
  EXPECT_EQ(words_of("ab|a", "abaab"), "ab|a|ab");
  EXPECT_EQ(words_of("a+?b?", "aabab"), "a|ab|ab");
  EXPECT_EQ(words_of("(?i)k", "kK\xE2\x84\xAAx"), "k|K|\xE2\x84\xAA|x");
  EXPECT_EQ(words_of("[a-d&&[^b]]+", "abcd"), "a|b|cd");
  EXPECT_EQ(words_of("[^\\P{Lu}A]+", "ABCAx"), "A|BC|Ax");
  EXPECT_EQ(words_of("\\p{Han}+",
                     "a\xE4\xB8\xAD\xE6\x96\x87"
                     "b"),
            "a|\xE4\xB8\xAD\xE6\x96\x87|b");
  EXPECT_EQ(words_of("a{2,3}", "aaaaaa aa"), "aaa|aaa| |aa");
  EXPECT_EQ(words_of("a{,2}b", "aaab"), "a|aab");
  EXPECT_EQ(words_of("x{2}+", "xxxxx"), "xxxx|x");
  EXPECT_EQ(words_of("\\s+$", "a  \n b  "), "a|  |\n b|  ");
}

TEST(PreTokenizerNamesTest, AModelGetsItsTablesAndTheirName) {
  TokenizerModel model;
  set_pre_tokenizer(find_pre_tokenizer("llama-bpe")->rules, "the test", &model);
  EXPECT_EQ(model.pre_tokenizer, format::PreTokenizer::kStages);
  EXPECT_EQ(model.pre_tokenizer_name, "llama3");
  EXPECT_FALSE(model.pre_tokenizer_tables.empty());
  set_pre_tokenizer({}, "the test", &model);
  EXPECT_EQ(model.pre_tokenizer, format::PreTokenizer::kWhole);
  EXPECT_TRUE(model.pre_tokenizer_tables.empty());
}

}  // namespace
}  // namespace cria::converter
