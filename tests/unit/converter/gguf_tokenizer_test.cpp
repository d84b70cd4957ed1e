#include "converter/gguf/gguf_tokenizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "tests/unit/converter/converter_fixtures.h"

namespace cria::converter {
namespace {

Json byte_level() {
  return {{"tokenizer.ggml.model", "gpt2"},
          {"tokenizer.ggml.pre", "gpt-2"},
          {"tokenizer.ggml.tokens", {"a", "b", "ab", "\xC4\xA0", "<|end|>", "<tool>", "[PAD]"}},
          {"tokenizer.ggml.token_type", {1, 1, 1, 1, 3, 4, 5}},
          {"tokenizer.ggml.merges", {"a b"}},
          {"tokenizer.ggml.eos_token_id", 4}};
}

Json sentencepiece() {
  return {{"tokenizer.ggml.model", "llama"},
          {"tokenizer.ggml.tokens", {"<unk>", "<s>", "</s>", "<0x41>", "a", "b", "ab", "[PAD]"}},
          {"tokenizer.ggml.token_type", {2, 3, 3, 6, 1, 1, 1, 5}},
          {"tokenizer.ggml.scores", {0, 0, 0, 0, -2.5, -3, -1, 0}},
          {"tokenizer.ggml.bos_token_id", 1},
          {"tokenizer.ggml.eos_token_id", 2}};
}

TokenizerModel read(const Json& metadata) {
  // Numbers of no sign, as a file has them.
  return read_gguf_tokenizer(Json::parse(metadata.dump()), "m.gguf");
}

void expect_refused(const Json& metadata, const std::vector<std::string>& parts) {
  test::expect_invalid(parts, [&] { static_cast<void>(read(metadata)); });
}

TEST(GgufTokenizer, OfBytesHasTokensMergesAndTypes) {
  const TokenizerModel model = read(byte_level());
  EXPECT_EQ(model.kind, format::TokenizerKind::kByteLevelBpe);
  EXPECT_EQ(model.pre_tokenizer_name, "gpt-2");
  ASSERT_EQ(model.merges.size(), 1u);
  EXPECT_EQ(model.merges[0].result, 2u);
  EXPECT_EQ(model.byte_tokens[' '], 3u);
  EXPECT_EQ(model.tokens[4].flags, format::kTokenAdded | format::kTokenSpecial);
  EXPECT_EQ(model.tokens[5].flags, format::kTokenAdded);
  EXPECT_TRUE(model.tokens.size() <= 6 || model.tokens[6].text.empty());
  EXPECT_EQ(model.eos_token, 4u);
  EXPECT_EQ(model.bos_token, format::kNone);
  EXPECT_EQ(model.flags & (format::kAddBos | format::kAddEos), 0u);
}

TEST(GgufTokenizer, OfLlamaBpeIgnoresMergesAndAddsBos) {
  Json metadata = byte_level();
  metadata["tokenizer.ggml.pre"] = "llama-bpe";
  metadata["tokenizer.ggml.bos_token_id"] = 4;
  const TokenizerModel model = read(metadata);
  EXPECT_EQ(model.flags, format::kIgnoreMerges | format::kAddBos);
  metadata["tokenizer.ggml.add_bos_token"] = false;
  EXPECT_EQ(read(metadata).flags, format::kIgnoreMerges);
}

TEST(GgufTokenizer, OfSentencePieceMergesByScore) {
  const TokenizerModel model = read(sentencepiece());
  EXPECT_EQ(model.kind, format::TokenizerKind::kSentencePieceBpe);
  EXPECT_EQ(model.byte_tokens['A'], 3u);
  ASSERT_EQ(model.merges.size(), 1u);
  EXPECT_EQ(model.merges[0].result, 6u);
  EXPECT_EQ(model.unknown_token, 0u);
  const uint32_t wanted =
      format::kAddBos | format::kByteFallback | format::kPrependSpace | format::kStripSpace;
  EXPECT_EQ(model.flags & wanted, wanted);
  Json metadata = sentencepiece();
  metadata.erase("tokenizer.ggml.bos_token_id");
  EXPECT_EQ(read(metadata).bos_token, 1u) << "what such a vocabulary has unless it says otherwise";
  metadata["tokenizer.ggml.add_space_prefix"] = false;
  EXPECT_EQ(read(metadata).flags & format::kPrependSpace, 0u);
}

Json of_gemma4() {
  return {{"tokenizer.ggml.model", "gemma4"},
          {"tokenizer.ggml.tokens",
           {"<pad>", "<eos>", "<bos>", "<0x41>", "a", "b", "ab", "\xE2\x96\x81", "\n", "\n\n",
            "<|tool_call>", "<turn|>"}},
          {"tokenizer.ggml.scores", {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
          {"tokenizer.ggml.token_type", {3, 3, 3, 6, 1, 1, 1, 1, 1, 1, 4, 3}},
          {"tokenizer.ggml.merges", {"\n \n", "a b"}},
          {"tokenizer.ggml.bos_token_id", 2},
          {"tokenizer.ggml.eos_token_id", 1},
          {"tokenizer.ggml.add_space_prefix", false},
          {"tokenizer.ggml.add_bos_token", true}};
}

TEST(GgufTokenizer, OfGemma4MarksSpacesAndFallsBackToBytes) {
  const TokenizerModel model = read(of_gemma4());
  EXPECT_EQ(model.kind, format::TokenizerKind::kSentencePieceBpe);
  EXPECT_EQ(model.flags, format::kAddBos | format::kByteFallback | format::kFuseUnknown);
  EXPECT_EQ(model.byte_tokens['A'], 3u);
  ASSERT_EQ(model.merges.size(), 2u);
  EXPECT_EQ(model.merges[0].result, 9u);
  EXPECT_EQ(model.merges[1].result, 6u);
  EXPECT_EQ(model.tokens[10].flags, format::kTokenAdded);
  EXPECT_EQ(model.tokens[11].flags, format::kTokenAdded | format::kTokenSpecial);
  EXPECT_EQ(model.bos_token, 2u);
  EXPECT_EQ(model.eos_token, 1u);
  EXPECT_EQ(gguf_turn_ends(Json::parse(of_gemma4().dump())), (std::vector<uint32_t>{1, 11}));
}

TEST(GgufTokenizer, OfGemma4WithLinesInsideATokenIsRefused) {
  Json metadata = of_gemma4();
  metadata["tokenizer.ggml.tokens"][6] = "a\n";
  metadata["tokenizer.ggml.merges"] = {"a \n"};
  expect_refused(metadata, {"tokenizer.ggml.merges", "newline", "Hugging Face folder"});
}

TEST(GgufTokenizer, ThatIsNotReadIsRefusedByName) {
  Json metadata = byte_level();
  metadata["tokenizer.ggml.pre"] = "nobodys";
  expect_refused(metadata, {"m.gguf", "'nobodys' is not known", "--no-tokenizer"});
  metadata = byte_level();
  metadata["tokenizer.ggml.model"] = "t5";
  expect_refused(metadata, {"tokenizer.ggml.model 't5' is not supported"});
}

TEST(GgufTokenizer, WithScoresThatStandInNoOrderIsRefused) {
  Json metadata = Json::parse(sentencepiece().dump());
  metadata["tokenizer.ggml.scores"][5] = std::nanf("");
  test::expect_invalid({"m.gguf: piece 5 has a score that is not a number"},
                       [&] { static_cast<void>(read_gguf_tokenizer(metadata, "m.gguf")); });
  metadata["tokenizer.ggml.scores"][5] = -std::numeric_limits<float>::infinity();
  EXPECT_EQ(read_gguf_tokenizer(metadata, "m.gguf").merges.size(), 1u);
}

TEST(GgufTokenizer, WithBrokenListsIsRefused) {
  for (const char* key : {"tokens", "merges"}) {
    Json metadata = byte_level();
    metadata.erase("tokenizer.ggml." + std::string(key));
    expect_refused(metadata, {key, "is missing"});
  }
  Json metadata = byte_level();
  metadata["tokenizer.ggml.token_type"] = {1};
  expect_refused(metadata, {"token_type differs in length"});
  metadata = byte_level();
  metadata["tokenizer.ggml.token_type"][0] = 9;
  expect_refused(metadata, {"token_type has an unknown type"});
  metadata = byte_level();
  metadata["tokenizer.ggml.tokens"][1] = "a";
  expect_refused(metadata, {"has 'a' twice"});
  metadata = byte_level();
  metadata["tokenizer.ggml.tokens"] = 3;
  expect_refused(metadata, {"tokens", "a list"});
  metadata = sentencepiece();
  metadata["tokenizer.ggml.scores"] = {1};
  expect_refused(metadata, {"scores must have as many items as tokens"});
}

TEST(GgufTokenizer, IdsPastTheTokensAreThoseOfTheKind) {
  Json metadata = sentencepiece();
  metadata["tokenizer.ggml.bos_token_id"] = 0xffffffffu;
  EXPECT_EQ(read(metadata).bos_token, 1u);
  metadata = byte_level();
  metadata["tokenizer.ggml.eos_token_id"] = 0xffffffffu;
  EXPECT_EQ(read(metadata).eos_token, format::kNone);
}

TEST(GgufTokenizer, WithoutAPreTokenizerIsCutAsLlamaCppDoesWithAWarning) {
  Json metadata = byte_level();
  EXPECT_TRUE(read(metadata).warnings.empty());
  metadata["tokenizer.ggml.pre"] = "default";
  EXPECT_TRUE(read(metadata).warnings.empty()) << "the file says it";
  metadata["tokenizer.ggml.pre"] = "";
  EXPECT_EQ(read(metadata).warnings.size(), 1u);
  metadata.erase("tokenizer.ggml.pre");
  const TokenizerModel model = read(metadata);
  EXPECT_EQ(model.pre_tokenizer_name, "default");
  ASSERT_EQ(model.warnings.size(), 1u);
  EXPECT_NE(model.warnings[0].find("tokenizer.ggml.pre is missing"), std::string::npos);
  EXPECT_EQ(model.flags & format::kAddBos, 0u);
}

TEST(GgufTokenizer, ThatAddsABosWhichItDoesNotNameIsRefused) {
  Json metadata = byte_level();
  metadata["tokenizer.ggml.pre"] = "llama-bpe";
  expect_refused(metadata, {"tokenizer.ggml.bos_token_id is missing"});
  metadata["tokenizer.ggml.add_bos_token"] = false;
  EXPECT_EQ(read(metadata).flags, format::kIgnoreMerges);
}

// Whatever the file says of them.
TEST(GgufTokenizer, TokensThatEndTurnsByTheirTextsAreControlTokens) {
  for (const char* text : {"<|eot_id|>", "<|im_end|>", "<|endoftext|>", "</s>", "<end_of_turn>"}) {
    for (const int type : {1, 3, 4}) {
      Json metadata = byte_level();
      metadata["tokenizer.ggml.tokens"][5] = text;
      metadata["tokenizer.ggml.token_type"][5] = type;
      metadata = Json::parse(metadata.dump());
      EXPECT_EQ(read(metadata).tokens[5].flags, format::kTokenAdded | format::kTokenSpecial)
          << text;
      EXPECT_EQ(gguf_turn_ends(metadata), (std::vector<uint32_t>{4, 5})) << text;
    }
  }
  Json metadata = byte_level();
  metadata["tokenizer.ggml.token_type"][4] = 5;
  EXPECT_TRUE(gguf_turn_ends(Json::parse(metadata.dump())).empty()) << "it is not used";
}

TEST(GgufTokenizer, OfPhi3TakesTheSpaceBehindItsTokens) {
  const auto strips = [](const Json& metadata, uint32_t id) {
    return (read(metadata).tokens[id].flags & format::kTokenStripRight) != 0;
  };
  Json metadata = sentencepiece();
  EXPECT_FALSE(strips(metadata, 2));
  metadata["general.architecture"] = "phi3";
  for (const auto& [id, wanted] : {std::pair{0u, false}, {1u, false}, {2u, true}, {4u, false}}) {
    EXPECT_EQ(strips(metadata, id), wanted) << id;
  }
  metadata["general.architecture"] = "llama";
  for (const char* name : {"Phi-3 Mini", "my-phi3-tune"}) {
    metadata["general.name"] = name;
    EXPECT_TRUE(strips(metadata, 2)) << name;
  }
  metadata["general.name"] = "Phi 4";
  EXPECT_FALSE(strips(metadata, 2));
}

TEST(GgufTokenizer, NamesTokensForTemplates) {
  Json metadata = byte_level();
  metadata["tokenizer.ggml.padding_token_id"] = 5;
  metadata["tokenizer.ggml.unknown_token_id"] = 99;
  const TokenizerConfig config = gguf_tokenizer_config(Json::parse(metadata.dump()), "m.gguf");
  EXPECT_EQ(config.text_of("pad_token"), "<tool>");
  EXPECT_EQ(config.text_of("unk_token"), "");
}

TEST(GgufTokenizer, UserDefinedPiecesAreLookedForInTheTextAsItIs) {
  Json metadata = sentencepiece();
  metadata["tokenizer.ggml.token_type"][7] = 4;
  metadata["tokenizer.ggml.tokens"][7] = "<tool>";
  EXPECT_EQ(read(metadata).tokens[7].flags, format::kTokenAdded);
  metadata["tokenizer.ggml.tokens"][7] = "\xE2\x96\x81\xE2\x96\x81";
  EXPECT_EQ(read(metadata).tokens[7].flags, format::kTokenAdded | format::kTokenNormalized);
}

}  // namespace
}  // namespace cria::converter
