#include "converter/gguf/gguf_tokenizer.h"

#include <gtest/gtest.h>

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

TEST(GgufTokenizer, ThatIsNotReadIsRefusedByName) {
  Json metadata = byte_level();
  metadata["tokenizer.ggml.pre"] = "nobodys";
  expect_refused(metadata, {"m.gguf", "'nobodys' is not known", "--no-tokenizer"});
  metadata = byte_level();
  metadata["tokenizer.ggml.model"] = "t5";
  expect_refused(metadata, {"tokenizer.ggml.model 't5' is not supported"});
}

TEST(GgufTokenizer, WithBrokenListsIsRefused) {
  for (const char* key : {"tokens", "merges"}) {
    Json metadata = byte_level();
    metadata.erase("tokenizer.ggml." + std::string(key));
    expect_refused(metadata, {key, "is missing"});
  }
  Json metadata = byte_level();
  metadata["tokenizer.ggml.token_type"] = {1};
  expect_refused(metadata, {"token_type has another length"});
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

TEST(GgufTokenizer, IdsPastTheTokensAreNone) {
  Json metadata = sentencepiece();
  metadata["tokenizer.ggml.bos_token_id"] = 0xffffffffu;
  EXPECT_EQ(read(metadata).bos_token, format::kNone);
}

}  // namespace
}  // namespace cria::converter
