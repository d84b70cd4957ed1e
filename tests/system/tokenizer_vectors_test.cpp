// The converter's import and the runtime's encoder against what other implementations give.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/support/cpu_time.h"
#include "tests/support/long_under_asan.h"
#include "tests/support/sampling.h"
#include "tests/system/tokenizer_fixture.h"

namespace cria {
namespace {

using nlohmann::json;
using test::read_text;
using test::TestTokenizer;
using test::Tokens;

constexpr EncodeOptions kPlain = {false, false, false};
constexpr EncodeOptions kParse = {false, true, false};
constexpr EncodeOptions kParseAndAdd = {true, true, false};
constexpr EncodeOptions kAdd = {true, false, false};

constexpr uint32_t kLlama2Vocab = 32000;
constexpr uint32_t kLlama3Vocab = 128256;
constexpr uint32_t kLlama3Bos = 128000;
constexpr uint32_t kSmolLmVocab = 49152;
constexpr uint32_t kQwen3Vocab = 151936;

TestTokenizer llama2_json() { return {test::references() / "tokenizers/llama-2", kLlama2Vocab}; }

TestTokenizer llama2_model() {
  const auto folder = test::references() / "tokenizers/llama-2";
  const test::LinkedFolder linked({folder / "tokenizer.model", folder / "tokenizer_config.json"});
  return {linked.path(), kLlama2Vocab};
}

TestTokenizer llama3() { return {test::references() / "tokenizers/llama-3.2", kLlama3Vocab}; }

// Meta's own file, without tokenizer.json.
TestTokenizer llama3_tiktoken() {
  const auto folder = test::references() / "tokenizers/llama-3.2";
  const test::LinkedFolder linked({folder / "tokenizer.model"});
  return {linked.path(), kLlama3Vocab};
}

TestTokenizer smollm() { return {test::references() / "tokenizers/smollm", kSmolLmVocab}; }

TestTokenizer qwen3() { return {test::references() / "tokenizers/qwen3", kQwen3Vocab}; }

std::vector<json> json_lines(const std::string& name) {
  const std::string text = read_text(test::references() / "vectors/tokenizers" / name);
  std::vector<json> rows;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    if (end > begin) rows.push_back(json::parse(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return rows;
}

constexpr size_t kRows = 250;

// Those rows were made with special tokens recognised in the text.
void expect_row(const TestTokenizer& tokenizer, const json& row) {
  const auto text = row["text"].get<std::string>();
  SCOPED_TRACE(text);
  EXPECT_EQ(tokenizer.encode(text, kParse), row["ids"].get<Tokens>());
  EXPECT_EQ(tokenizer.encode(text, kParseAndAdd),
            row.value("ids_with_special", row["ids"]).get<Tokens>());
  if (!row.contains("decoded")) return;
  EXPECT_EQ(tokenizer.decode(row["ids"].get<Tokens>(), true), row["decoded"].get<std::string>());
}

void expect_rows(const TestTokenizer& tokenizer, const std::string& name) {
  const std::vector<json> rows = json_lines(name);
  EXPECT_EQ(rows.size(), kRows);
  for (const json& row : rows) expect_row(tokenizer, row);
}

TEST(TokenizerVectorsTest, Llama2JsonEqualsHuggingFace) {
  CRIA_SKIP_WITHOUT_REFERENCE();
  expect_rows(llama2_json(), "llama-2.jsonl");
}

TEST(TokenizerVectorsTest, Llama3EqualsHuggingFace) {
  CRIA_SKIP_WITHOUT_REFERENCE();
  expect_rows(llama3(), "llama-3.2.jsonl");
}

TEST(TokenizerVectorsTest, Llama3OfTiktokenEqualsHuggingFace) {
  CRIA_SKIP_UNDER_ASAN();
  CRIA_SKIP_WITHOUT_REFERENCE();
  const TestTokenizer tokenizer = llama3_tiktoken();
  expect_rows(tokenizer, "llama-3.2.jsonl");
  // The special tokens have the same names.
  const TestTokenizer of_json = llama3();
  for (uint32_t token = kLlama3Bos; token < kLlama3Vocab; ++token) {
    const auto text = token_text(tokenizer.get(), token);
    const auto expected = token_text(of_json.get(), token);
    EXPECT_EQ(std::string(text.begin(), text.end()), std::string(expected.begin(), expected.end()));
    EXPECT_TRUE(is_special(tokenizer.get(), token));
  }
}

TEST(TokenizerVectorsTest, SmolLmEqualsHuggingFace) {
  CRIA_SKIP_WITHOUT_REFERENCE();
  expect_rows(smollm(), "smollm.jsonl");
}

TEST(TokenizerVectorsTest, Qwen3EqualsHuggingFace) {
  CRIA_SKIP_WITHOUT_REFERENCE();
  expect_rows(qwen3(), "qwen3.jsonl");
}

// tokenizer.json of Llama 2 finds "<s>" only after a space and has no token for U+00A0; its
// tokenizer.model differs in both.
TEST(TokenizerVectorsTest, Llama2ModelEqualsHuggingFaceWhereTheFilesAgree) {
  CRIA_SKIP_WITHOUT_REFERENCE();
  const TestTokenizer tokenizer = llama2_model();
  size_t compared = 0;
  size_t others = 0;
  for (const json& row : json_lines("llama-2.jsonl")) {
    const auto text = row["text"].get<std::string>();
    if (text == "<s></s><unk>") {
      EXPECT_EQ(tokenizer.encode(text, kParse), (Tokens{1, 2, 0}));
      EXPECT_EQ(tokenizer.encode(text, kPlain), llama2_json().encode(text, kPlain));
      EXPECT_EQ(tokenizer.decode({1, 2, 0}, true), text);
      EXPECT_EQ(tokenizer.decode({1, 2, 0}, false), "");
      ++others;
    } else if (text.find("nb\u00a0sp") != std::string::npos) {
      // As the SentencePiece library gives.
      EXPECT_EQ(tokenizer.encode(text, kPlain),
                (Tokens{5225, 30166, 2103, 302, 29890, 30081, 1028, 29871, 30358, 680, 12122}));
      EXPECT_EQ(tokenizer.decode(tokenizer.encode(text, kPlain), true), text);
      ++others;
    } else {
      expect_row(tokenizer, row);
      ++compared;
    }
  }
  EXPECT_EQ(compared, kRows - 2);
  EXPECT_EQ(others, 2U);
}

TEST(TokenizerVectorsTest, PlainTextNeverBecomesASpecialToken) {
  CRIA_SKIP_UNDER_ASAN();
  CRIA_SKIP_WITHOUT_REFERENCE();
  const std::string text = " <s> </s><|begin_of_text|>a<|eot_id|><|im_start|> <|endoftext|>";
  const auto expect_none = [&](const TestTokenizer& tokenizer) {
    const Tokens tokens = tokenizer.encode(text, kPlain);
    for (const uint32_t token : tokens) {
      EXPECT_EQ(tokenizer.get().token_flags[token] & format::kTokenSpecial, 0) << token;
    }
    EXPECT_EQ(tokenizer.decode(tokens, false), text);
  };
  expect_none(llama2_json());
  expect_none(llama2_model());
  expect_none(llama3());
  expect_none(llama3_tiktoken());
  expect_none(smollm());
  expect_none(qwen3());
}

// llama.cpp's files: texts, each followed by a line with a mark, and a line of ids for each.
void expect_llama_cpp(const TestTokenizer& tokenizer, const std::string& name) {
  const std::string mark = "\n__ggml_vocab_test__\n";
  const auto folder = test::references() / "vectors/tokenizers";
  const std::string texts = read_text(folder / (name + ".inp"));
  std::istringstream lines(read_text(folder / (name + ".out")));
  constexpr size_t kTexts = 46;
  size_t compared = 0;
  std::string line;
  for (size_t begin = 0; begin < texts.size();) {
    const size_t end = texts.find(mark, begin);
    ASSERT_NE(end, std::string::npos);
    ASSERT_TRUE(std::getline(lines, line));
    std::istringstream numbers(line);
    Tokens expected;
    for (uint32_t id = 0; numbers >> id;) expected.push_back(id);
    const std::string text = texts.substr(begin, end - begin);
    EXPECT_EQ(tokenizer.encode(text, kPlain), expected) << text;
    EXPECT_EQ(tokenizer.decode(expected, true), text);
    begin = end + mark.size();
    ++compared;
  }
  EXPECT_EQ(compared, kTexts);
}

TEST(TokenizerVectorsTest, Llama2EqualsLlamaCpp) {
  CRIA_SKIP_WITHOUT_REFERENCE();
  expect_llama_cpp(llama2_json(), "ggml-vocab-llama-spm.gguf");
  expect_llama_cpp(llama2_model(), "ggml-vocab-llama-spm.gguf");
}

TEST(TokenizerVectorsTest, Llama3EqualsLlamaCpp) {
  CRIA_SKIP_UNDER_ASAN();
  CRIA_SKIP_WITHOUT_REFERENCE();
  expect_llama_cpp(llama3(), "ggml-vocab-llama-bpe.gguf");
  expect_llama_cpp(llama3_tiktoken(), "ggml-vocab-llama-bpe.gguf");
}

json vector_file(const std::string& name) {
  return json::parse(read_text(test::references() / "vectors/tokenizers" / name));
}

// Options of a row there: BOS is there, and a space is put before the text or, decoding, taken
// away. A row without options has both.
TEST(TokenizerVectorsTest, Llama2EqualsLlamaTokenizerJs) {
  CRIA_SKIP_WITHOUT_REFERENCE();
  const json file = vector_file("belladoreai.llama-tokenizer-js.tests.json");
  constexpr size_t kEncoded = 12;
  constexpr size_t kDecoded = 20;
  const auto expect = [&](const TestTokenizer& tokenizer) {
    size_t compared = 0;
    for (const json& row : file["encode"]) {
      ASSERT_EQ(row["opts"], json({true, true, true}));
      EXPECT_EQ(tokenizer.encode(row["text"].get<std::string>(), kAdd), row["ids"].get<Tokens>());
      ++compared;
    }
    for (const json& row : file["decode"]) {
      const bool skips_bos = row["opts"].empty() || row["opts"][0].get<bool>();
      const bool strips = row["opts"].empty() || row["opts"][1].get<bool>();
      auto ids = row["ids"].get<Tokens>();
      const auto text = row["text"].get<std::string>();
      SCOPED_TRACE(row.dump());
      const bool has_bos = ids.front() == 1;
      if (skips_bos && has_bos) ids.erase(ids.begin());
      if (has_bos && !skips_bos) {
        EXPECT_EQ(tokenizer.decode(ids, true), text);
      } else {
        EXPECT_EQ((strips ? "" : " ") + tokenizer.decode(ids, true), text);
      }
      ++compared;
    }
    EXPECT_EQ(compared, kEncoded + kDecoded);
  };
  expect(llama2_json());
  expect(llama2_model());
}

constexpr uint32_t kLlama3Eos = 128001;

Tokens enclosed(Tokens tokens, bool bos, bool eos) {
  if (bos) tokens.insert(tokens.begin(), kLlama3Bos);
  if (eos) tokens.push_back(kLlama3Eos);
  return tokens;
}

TEST(TokenizerVectorsTest, Llama3EqualsLlama3TokenizerJs) {
  CRIA_SKIP_UNDER_ASAN();
  CRIA_SKIP_WITHOUT_REFERENCE();
  const json file = vector_file("belladoreai.llama3-tokenizer-js.tests.json");
  const TestTokenizer tokenizer = llama3();
  size_t compared = 0;
  size_t others = 0;
  for (const json& row : file["encode"]) {
    const json options = row["opts"].empty() ? json() : row["opts"][0];
    const auto ids = row["ids"].get<Tokens>();
    const Tokens tokens = tokenizer.encode(row["text"].get<std::string>(), kParse);
    const bool bos = !options.is_object() || options.value("bos", true);
    const bool eos = !options.is_object() || options.value("eos", true);
    if (options.is_object() && options.contains("unexpectedSpecialTokenFallback")) {
      // That library puts a token of the caller's choice for special tokens that do not exist.
      constexpr size_t kExisting = 13;
      EXPECT_TRUE(
          std::equal(ids.begin(), ids.begin() + kExisting, enclosed(tokens, bos, eos).begin()));
      ++others;
      continue;
    }
    EXPECT_EQ(enclosed(tokens, bos, eos), ids) << row["text"];
    ++compared;
  }
  for (const json& row : file["decode"]) {
    EXPECT_EQ(tokenizer.decode(row["ids"].get<Tokens>(), true), row["text"].get<std::string>());
    ++compared;
  }
  constexpr size_t kEncoded = 21;
  constexpr size_t kDecoded = 21;
  EXPECT_EQ(compared, kEncoded + kDecoded);
  EXPECT_EQ(others, 1U);
}

TEST(TokenizerVectorsTest, Llama3EqualsMetasOwnTests) {
  CRIA_SKIP_UNDER_ASAN();
  CRIA_SKIP_WITHOUT_REFERENCE();
  const json file = vector_file("meta_llama3.test_tokenizer.json");
  const TestTokenizer tokenizer = llama3();
  for (const auto& [text, id] : file["special"].items()) {
    EXPECT_EQ(tokenizer.encode(text, kParse), Tokens{id.get<uint32_t>()});
  }
  ASSERT_EQ(file["encode"].size(), 1U);
  const json& row = file["encode"][0];
  EXPECT_EQ(enclosed(tokenizer.encode(row["text"].get<std::string>(), kPlain), true, true),
            row["ids"].get<Tokens>());
  ASSERT_EQ(file["decode"].size(), 1U);
  EXPECT_EQ(tokenizer.decode(file["decode"][0]["ids"].get<Tokens>(), true),
            file["decode"][0]["text"].get<std::string>());
}

std::filesystem::path story_folder() { return test::references() / "trained/story-hf"; }

TEST(TokenizerVectorsTest, StoryModelEncodesItsPrompt) {
  CRIA_SKIP_WITHOUT_REFERENCE();
  constexpr uint32_t kStoryVocab = 2048;
  const TestTokenizer tokenizer(story_folder(), kStoryVocab);
  const json expected = json::parse(read_text(story_folder() / "expected.json"));
  const auto text = expected["prompt_text"].get<std::string>();
  EXPECT_EQ(tokenizer.encode(text, kAdd), expected["prompt"].get<Tokens>());
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(text, kAdd), false), text);
  // transformers puts a space between special tokens that is not in the text.
  Tokens all = expected["prompt"].get<Tokens>();
  const auto greedy = expected["greedy"].get<Tokens>();
  all.insert(all.end(), greedy.begin(), greedy.end());
  auto shown = expected["greedy_text"].get<std::string>();
  shown.erase(0, shown.find(" about"));
  EXPECT_TRUE(tokenizer.decode(all, true).ends_with(shown)) << tokenizer.decode(all, true);
}

TEST(TokenizerVectorsTest, TheCorpusRoundTripsInSecondsAtMost) {
  CRIA_SKIP_UNDER_ASAN();
  CRIA_SKIP_WITHOUT_REFERENCE();
  const std::string text = read_text(test::references() / "corpus/frankenstein.txt");
  // 0.08 s at rest; a cost that grows with the square of 430 KB takes hours.
  constexpr double kMostSeconds = 60.0;
  const auto expect = [&](const TestTokenizer& tokenizer, const char* name) {
    std::vector<uint8_t> workspace = test::workspace_for(text.size());
    Tokens tokens(text.size());
    size_t n_tokens = 0;
    Status status = Status::kOk;
    const double seconds = test::thread_seconds_of([&] {
      status = tokenizer_encode(tokenizer.get(), text, kPlain, workspace, tokens, &n_tokens);
    });
    ASSERT_EQ(status, Status::kOk);
    std::printf("%s: %zu tokens in %.3f s\n", name, n_tokens, seconds);
    EXPECT_LT(seconds, kMostSeconds);
    tokens.resize(n_tokens);
    EXPECT_EQ(tokenizer.decode(tokens, true), text);
  };
  expect(llama2_json(), "llama-2");
  expect(llama2_model(), "llama-2 (SentencePiece)");
  expect(llama3(), "llama-3.2");
  expect(llama3_tiktoken(), "llama-3.2 (tiktoken)");
  expect(smollm(), "smollm");
  expect(qwen3(), "qwen3");
}

}  // namespace
}  // namespace cria
