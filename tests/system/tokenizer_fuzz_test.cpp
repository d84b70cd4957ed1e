// Real tokenizers on random bytes, and damaged sections of theirs.
#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <random>

#include "tests/support/folders.h"
#include "tests/support/seeds.h"
#include "tests/system/tokenizer_fixture.h"

namespace cria {
namespace {

using test::demo_folder;
using test::TestTokenizer;
using test::Tokens;

constexpr std::initializer_list<uint32_t> kSeeds = {20241120};
constexpr uint32_t kVocabLimit = 1 << 18;

std::string random_text(std::mt19937* random) {
  constexpr std::string_view kPieces[] = {" ",
                                          "  ",
                                          "\n",
                                          "a",
                                          "The",
                                          "'s",
                                          "123",
                                          "<s>",
                                          "</s>",
                                          "<unk>",
                                          "<|eot_id|>",
                                          "<|im_start|>",
                                          "\xC3",
                                          "\xE2\x96",
                                          "\xE2\x96\x81",
                                          "\xF0\x9F",
                                          "\xF0\x9F\xA6\x99",
                                          "\xFF"};
  std::string text;
  const size_t n_pieces = (*random)() % 40;
  const bool bytes_only = (*random)() % 3 == 0;
  for (size_t i = 0; i < n_pieces; ++i) {
    if (bytes_only || (*random)() % 4 == 0) {
      text += static_cast<char>((*random)() % 256);
    } else {
      text += kPieces[(*random)() % std::size(kPieces)];
    }
  }
  return text;
}

bool is_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<uint8_t>(text[i]);
    const size_t n = lead < 0x80 ? 1 : lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 0;
    if (n == 0 || n > text.size() - i) return false;
    for (size_t k = 1; k < n; ++k) {
      if ((static_cast<uint8_t>(text[i + k]) & 0xc0) != 0x80) return false;
    }
    i += n;
  }
  return true;
}

void encode_random_bytes(const TestTokenizer& tokenizer, uint32_t seed) {
  // SmolLM has no token for the bytes that are in no UTF-8, and leaves them out.
  const uint32_t* const byte_tokens = tokenizer.get().byte_tokens;
  const bool keeps_bytes =
      tokenizer.get().header.kind == static_cast<uint32_t>(format::TokenizerKind::kByteLevelBpe) &&
      std::find(byte_tokens, byte_tokens + 256, format::kNone) == byte_tokens + 256;
  std::mt19937 random(seed);
  for (int round = 0; round < 3000; ++round) {
    const std::string text = random_text(&random);
    SCOPED_TRACE("round " + std::to_string(round));
    const EncodeOptions options = {random() % 2 == 0, random() % 2 == 0, random() % 2 == 0};
    const Tokens tokens = tokenizer.encode(text, options);
    for (const uint32_t token : tokens) ASSERT_LT(token, tokenizer.get().header.n_tokens);
    const std::string decoded = tokenizer.decode(tokens, true);
    ASSERT_TRUE(is_utf8(decoded));
    if (keeps_bytes && !options.add_special) {
      std::string bytes;
      for (const uint32_t token : tokens) {
        const auto piece = token_text(tokenizer.get(), token);
        bytes.append(piece.data(), piece.size());
      }
      ASSERT_EQ(bytes, text);
    }
    // Less of everything must give an error, not harm.
    std::vector<uint8_t> workspace(random() % (text.size() + 1) * kEncodeBytesPerSymbol);
    Tokens few(random() % (tokens.size() + 1));
    size_t n_tokens = 0;
    const Status status =
        tokenizer_encode(tokenizer.get(), text, options, workspace, few, &n_tokens);
    ASSERT_TRUE(status == Status::kOk || status == Status::kTextTooLong ||
                status == Status::kBufferTooSmall);
    if (status == Status::kOk) {
      ASSERT_EQ(n_tokens, tokens.size());
    }
  }
}

void encode_random_bytes(const TestTokenizer& tokenizer) {
  test::for_each_seed(kSeeds, [&](uint32_t seed) { encode_random_bytes(tokenizer, seed); });
}

TEST(TokenizerFuzzTest, DemoTokenizerTakesRandomBytes) {
  encode_random_bytes(TestTokenizer(demo_folder(), kVocabLimit));
}

TEST(TokenizerFuzzTest, EveryReferenceTokenizerTakesRandomBytes) {
  CRIA_SKIP_WITHOUT_REFERENCE();
  const auto tokenizers = test::references() / "tokenizers";
  const test::LinkedFolder model_only({tokenizers / "llama-2/tokenizer.model"});
  size_t tried = 0;
  for (const auto& folder : {tokenizers / "llama-2", model_only.path(), tokenizers / "llama-3.2",
                             tokenizers / "smollm", test::references() / "trained/story-hf"}) {
    SCOPED_TRACE(folder);
    encode_random_bytes(TestTokenizer(folder, kVocabLimit));
    ++tried;
  }
  EXPECT_EQ(tried, 5U);
}

// Flips a few bits, opens, and uses what opens.
void damage_section(const std::vector<uint8_t>& good, int rounds, uint32_t seed) {
  std::mt19937 random(seed);
  size_t opened = 0;
  size_t refused = 0;
  for (int round = 0; round < rounds; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    std::vector<uint8_t> bytes = good;
    // Half of the damage goes to the header, which decides how the rest is read.
    const size_t range = random() % 2 == 0 ? sizeof(format::TokenizerHeader) : bytes.size();
    for (size_t flips = random() % 3 + 1; flips > 0; --flips) {
      bytes[random() % range] ^= static_cast<uint8_t>(1u << random() % 8);
    }
    if (random() % 8 == 0) bytes.resize(random() % (bytes.size() + 1));
    Tokenizer tokenizer = {};
    if (tokenizer_open(bytes, kVocabLimit, &tokenizer) != Status::kOk) {
      ++refused;
      continue;
    }
    ++opened;
    const std::string text = random_text(&random);
    std::vector<uint8_t> workspace = test::workspace_for(text.size());
    Tokens tokens(3 * text.size() + 3);
    std::vector<char> out(tokenizer.header.longest_token * size_t{3} + 8);
    size_t n_tokens = 0;
    if (tokenizer_encode(tokenizer, text, {true, true, false}, workspace, tokens, &n_tokens) !=
        Status::kOk) {
      continue;
    }
    DecodeState state = {};
    for (size_t i = 0; i < n_tokens; ++i) {
      ASSERT_LT(tokens[i], tokenizer.header.n_tokens);
      ASSERT_LE(tokenizer_decode(tokenizer, tokens[i], true, &state, out), out.size());
    }
  }
  EXPECT_GT(opened, 0U);
  EXPECT_GT(refused, 0U);
}

void damage_section(const std::vector<uint8_t>& good, int rounds) {
  test::for_each_seed(kSeeds, [&](uint32_t seed) { damage_section(good, rounds, seed); });
}

TEST(TokenizerFuzzTest, DamagedDemoSectionsDoNoHarm) {
  const TestTokenizer tokenizer(demo_folder(), kVocabLimit);
  damage_section(tokenizer.imported().tokenizer_section, 20000);
}

TEST(TokenizerFuzzTest, DamagedSentencePieceSectionsDoNoHarm) {
  CRIA_SKIP_WITHOUT_REFERENCE();
  const TestTokenizer tokenizer(test::references() / "trained/story-hf", kVocabLimit);
  damage_section(tokenizer.imported().tokenizer_section, 20000);
  const TestTokenizer llama2(test::references() / "tokenizers/llama-2", kVocabLimit);
  damage_section(llama2.imported().tokenizer_section, 300);
}

}  // namespace
}  // namespace cria
