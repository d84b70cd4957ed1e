// What cria.h says of single tokens: texts, which are special, the longest.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/test_session.h"
#include "tests/system/tiny_chat_model.h"

namespace cria {
namespace {

using test::exact_config;
using test::MemorySource;
using test::TestSession;
using test::tiny_source;

constexpr std::string_view kEndOfTurn = "<|eot_id|>";

std::string text_of_token(const cria_model* model, uint32_t token) {
  size_t n_bytes = 0;
  const char* const text = cria_token_text(model, token, &n_bytes);
  EXPECT_NE(text, nullptr) << token;
  return {text, n_bytes};
}

uint32_t find_special(const cria_model* model, std::string_view text) {
  return cria_find_special(model, text.data(), text.size());
}

std::vector<uint32_t> encode(TestSession& session, std::string_view text, uint32_t flags) {
  std::vector<uint32_t> tokens(64);
  size_t n_tokens = 0;
  EXPECT_EQ(cria_encode(session.workspace(), text.data(), text.size(), flags, tokens.data(),
                        tokens.size(), &n_tokens),
            CRIA_OK);
  tokens.resize(n_tokens);
  return tokens;
}

TEST(TokenQueries, TextsOfTokensAreTheTextThatWasEncoded) {
  TestSession session(tiny_source(), exact_config());
  for (const std::string_view text : {"the llama eats", "\xC3\xA4 \xF0\x9F\xA6\x99!", ""}) {
    std::string joined;
    for (const uint32_t token : encode(session, text, 0)) {
      joined += text_of_token(session.model(), token);
    }
    EXPECT_EQ(joined, text);
  }
}

TEST(TokenQueries, ATokenThatIsNotThereHasNoText) {
  TestSession session(tiny_source(), exact_config());
  for (const uint32_t token : {cria_vocab_size(session.model()), CRIA_NO_TOKEN}) {
    size_t n_bytes = 1;
    EXPECT_EQ(cria_token_text(session.model(), token, &n_bytes), nullptr);
    EXPECT_EQ(n_bytes, 0u);
    EXPECT_EQ(cria_token_is_special(session.model(), token), 0);
  }
  EXPECT_EQ(cria_token_text(session.model(), 0, nullptr), nullptr);
}

TEST(TokenQueries, SpecialTokensAreFoundByTheirTextAndNoOthers) {
  TestSession session(tiny_source(), exact_config());
  size_t n_special = 0;
  for (uint32_t token = 0; token < cria_vocab_size(session.model()); ++token) {
    size_t n_bytes = 0;
    if (cria_token_text(session.model(), token, &n_bytes) == nullptr) continue;
    const std::string text = text_of_token(session.model(), token);
    const bool is_special = cria_token_is_special(session.model(), token) != 0;
    n_special += is_special ? 1 : 0;
    EXPECT_EQ(find_special(session.model(), text), is_special ? token : CRIA_NO_TOKEN) << text;
    // Written out, only it becomes itself where special tokens are parsed.
    if (is_special) {
      EXPECT_EQ(encode(session, text, CRIA_ENCODE_PARSE), std::vector<uint32_t>{token}) << text;
    }
  }
  EXPECT_GT(n_special, 2u);
  const uint32_t end = find_special(session.model(), kEndOfTurn);
  ASSERT_NE(end, CRIA_NO_TOKEN);
  EXPECT_NE(cria_is_end_token(session.model(), end), 0);
  EXPECT_EQ(find_special(session.model(), kEndOfTurn.substr(1)), CRIA_NO_TOKEN);
  EXPECT_EQ(find_special(session.model(), kEndOfTurn.substr(0, 3)), CRIA_NO_TOKEN);
  EXPECT_EQ(find_special(session.model(), ""), CRIA_NO_TOKEN);
  EXPECT_EQ(cria_find_special(session.model(), nullptr, 0), CRIA_NO_TOKEN);
}

TEST(TokenQueries, TheLongestTokenSaysHowMuchOneDecodes) {
  TestSession session(tiny_source(), exact_config());
  const size_t longest = cria_longest_token_bytes(session.model());
  size_t seen = 0;
  for (uint32_t token = 0; token < cria_vocab_size(session.model()); ++token) {
    size_t n_bytes = 0;
    static_cast<void>(cria_token_text(session.model(), token, &n_bytes));
    seen = std::max(seen, n_bytes);
  }
  EXPECT_EQ(seen, longest);

  std::vector<char> text(3 * longest + 8);
  cria_text_state state = {};
  state.show_special = 1;
  for (uint32_t token = 0; token < cria_vocab_size(session.model()); ++token) {
    size_t n_bytes = 0;
    ASSERT_EQ(cria_decode_token(session.model(), &state, token, text.data(), text.size(), &n_bytes),
              CRIA_OK);
    ASSERT_LE(n_bytes, text.size());
  }
  size_t n_bytes = 0;
  EXPECT_EQ(cria_decode_token(session.model(), &state, 0, text.data(), text.size() - 1, &n_bytes),
            CRIA_BUFFER_TOO_SMALL);
}

TEST(TokenQueries, WithoutAModelOrATokenizerThereAreNoTokens) {
  static_cast<void>(tiny_source());  // writes the checkpoint
  const MemorySource source(
      test::convert_folder(test::temporary_folder() / "tiny",
                           {format::NumberFormat::kInt4, 32, format::Compression::kStored, false}));
  TestSession session(source, exact_config());
  for (const cria_model* model : {session.model(), static_cast<const cria_model*>(nullptr)}) {
    size_t n_bytes = 1;
    EXPECT_EQ(cria_token_text(model, 0, &n_bytes), nullptr);
    EXPECT_EQ(n_bytes, 0u);
    EXPECT_EQ(cria_longest_token_bytes(model), 0u);
    EXPECT_EQ(cria_token_is_special(model, 0), 0);
    EXPECT_EQ(find_special(model, kEndOfTurn), CRIA_NO_TOKEN);
  }
}

TEST(TokenQueries, TextThatContinuesEncodesAsTheWhole) {
  TestSession session(tiny_source(), exact_config());
  const std::string_view text = "the llama eats";
  const std::vector<uint32_t> whole = encode(session, text, CRIA_ENCODE_SPECIAL);
  for (const size_t cut : {text.find(' '), text.rfind(' ')}) {
    std::vector<uint32_t> parts = encode(session, text.substr(0, cut), CRIA_ENCODE_SPECIAL);
    const std::vector<uint32_t> rest = encode(session, text.substr(cut), CRIA_ENCODE_CONTINUES);
    parts.insert(parts.end(), rest.begin(), rest.end());
    EXPECT_EQ(parts, whole) << cut;
  }
}

}  // namespace
}  // namespace cria
