// Files of the tiktoken library.
#include "converter/tiktoken_model.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "converter/error.h"

namespace cria::converter {
namespace {

constexpr const char* kWhere = "tokenizer.model";

template <typename Function>
std::string error_of(const Function& function) {
  try {
    function();
  } catch (const ProgramError& error) {
    EXPECT_EQ(error.code(), ExitCode::kInvalidInput);
    return error.what();
  }
  return "";
}

TEST(TiktokenModelTest, TellsItsFilesApart) {
  const auto is_tiktoken = [](const std::string& text) {
    return is_tiktoken_file(std::vector<uint8_t>(text.begin(), text.end()));
  };
  EXPECT_TRUE(is_tiktoken("IQ== 0\nIg== 1\n"));
  EXPECT_FALSE(is_tiktoken("IQ==0\n"));
  EXPECT_FALSE(is_tiktoken("IQ== \n"));
  EXPECT_FALSE(is_tiktoken("IQ== 0"));
  EXPECT_FALSE(is_tiktoken(""));
  EXPECT_FALSE(is_tiktoken("\x0a\x05IQ== 0"));
}

TEST(TiktokenModelTest, ReadsBase64AndRanks) {
  EXPECT_EQ(parse_tiktoken_file("IQ== 0\nIiM= 1\nYWJj 2\n/+8A 3", kWhere),
            (std::vector<std::string>{"!", "\"#", "abc", std::string("\xff\xef\0", 3)}));
  EXPECT_TRUE(parse_tiktoken_file("", kWhere).empty());
}

TEST(TiktokenModelTest, NamesTheLineOfWhatIsBroken) {
  const char* const rows[] = {"IQ== 0\nIg= 1\n",        "IQ== 0\nIg==\n",   "IQ== 0\nI=== 1\n",
                              "IQ== 0\n=Ig= 1\n",       "IQ== 0\nIh== 1\n", "IQ== 0\nIg== x\n",
                              "IQ== 0\nIg== -1\n",      "IQ== 0\n 1\n",     "IQ== 0\nI*== 1\n",
                              "IQ== 0\nIg== 12345678\n"};
  for (const char* text : rows) {
    const std::string error = error_of([text] { (void)parse_tiktoken_file(text, kWhere); });
    EXPECT_EQ(error, "tokenizer.model: line 2 is not a token in base64 and its rank") << text;
  }
  for (const char* text : {"IQ== 0\nIg== 2\n", "IQ== 0\nIg== 0\n"}) {
    const std::string error = error_of([text] { (void)parse_tiktoken_file(text, kWhere); });
    EXPECT_NE(error.find("where 1 is next"), std::string::npos) << error;
  }
}

std::vector<std::string> all_bytes() {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  return tokens;
}

TEST(TiktokenModelTest, EveryWayToMakeATokenIsAMergeOfItsRank) {
  std::vector<std::string> tokens = all_bytes();
  tokens.insert(tokens.end(), {"ab", "bc", "abc"});
  const TokenizerModel model = tokenizer_from_ranks(tokens, kWhere);
  ASSERT_EQ(model.merges.size(), 4U);
  const auto is_merge = [&](size_t i, const std::string& left, const std::string& right,
                            uint32_t result) {
    const TokenizerMerge& merge = model.merges[i];
    return model.tokens[merge.left].text == left && model.tokens[merge.right].text == right &&
           merge.result == result && merge.rank == result;
  };
  EXPECT_TRUE(is_merge(0, "a", "b", 256));
  EXPECT_TRUE(is_merge(1, "b", "c", 257));
  EXPECT_TRUE(is_merge(2, "a", "bc", 258));
  EXPECT_TRUE(is_merge(3, "ab", "c", 258));
  EXPECT_EQ(model.flags, format::kIgnoreMerges);
  EXPECT_EQ(model.byte_tokens[255], 255U);
}

TEST(TiktokenModelTest, RefusesWhatIsNoVocabulary) {
  std::vector<std::string> tokens = all_bytes();
  tokens.emplace_back("a");
  EXPECT_NE(error_of([&] { (void)tokenizer_from_ranks(tokens, kWhere); }).find("97 and 256"),
            std::string::npos);
  tokens = all_bytes();
  tokens.pop_back();
  EXPECT_NE(error_of([&] { (void)tokenizer_from_ranks(tokens, kWhere); }).find("byte 255"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              (void)tokenizer_from_llama3_ranks(all_bytes(), {}, kWhere);
            }).find("256 tokens"),
            std::string::npos);
}

// As many tokens as Llama 3 has, of which those past the bytes are long.
TEST(TiktokenModelTest, Llama3HasSpecialTokensThatItsFileDoesNot) {
  std::vector<std::string> tokens = all_bytes();
  while (tokens.size() < 128000) tokens.push_back("long" + std::to_string(tokens.size()));
  const AddedToken renamed = {128004, "<|mine|>", true, false, false, false};
  const TokenizerModel model = tokenizer_from_llama3_ranks(tokens, {&renamed, 1}, kWhere);
  ASSERT_EQ(model.tokens.size(), 128256U);
  EXPECT_EQ(model.tokens[128000].text, "<|begin_of_text|>");
  EXPECT_EQ(model.tokens[128004].text, "<|mine|>");
  EXPECT_EQ(model.tokens[128009].text, "<|eot_id|>");
  EXPECT_EQ(model.tokens[128011].text, "<|reserved_special_token_3|>");
  EXPECT_EQ(model.tokens[128255].text, "<|reserved_special_token_247|>");
  EXPECT_EQ(model.pre_tokenizer, format::PreTokenizer::kStages);
  EXPECT_EQ(model.bos_token, 128000U);
}

}  // namespace
}  // namespace cria::converter
