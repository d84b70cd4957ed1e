// Conversations against the text that the models' own Jinja templates make of them.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "converter/chat_template/form_import.h"
#include "converter/chat_template/named_templates.h"
#include "tests/support/folders.h"
#include "tests/support/long_under_asan.h"
#include "tests/system/tokenizer_fixture.h"

namespace cria {
namespace {

using nlohmann::json;
using test::read_text;
using test::TestTokenizer;
using test::Tokens;

constexpr EncodeOptions kParse = {false, true, false};
constexpr uint32_t kLlama3Vocab = 128256;
constexpr uint32_t kDemoVocab = 2048;

// Messages of a row; the row owns the texts.
std::vector<ChatMessage> messages_of(const json& row) {
  std::vector<ChatMessage> messages;
  for (const json& entry : row) {
    messages.push_back(test::message(entry["role"].get_ref<const std::string&>(),
                                     entry["content"].get_ref<const std::string&>()));
  }
  return messages;
}

// The template: Jinja, or a name.
std::vector<uint8_t> section_of(const std::string& chat_template, const std::string& bos,
                                const std::string& eos) {
  const auto named = converter::find_named_template(chat_template);
  converter::ImportedChatTemplate imported =
      converter::import_chat_template({chat_template,
                                       {{"bos_token", bos}, {"eos_token", eos}},
                                       named.value_or(format::kChatKindOwn)});
  if (imported.section.empty()) throw std::runtime_error("the template " + imported.problem);
  return std::move(imported.section);
}

// The Llama 3.2 tokenizer with a chat template of the test's choice.
TestTokenizer llama3_with_template(const std::string& chat_template) {
  converter::ImportedTokenizer imported =
      converter::import_tokenizer(test::references() / "tokenizers/llama-3.2", kLlama3Vocab);
  imported.chat_section = section_of(chat_template, "<|begin_of_text|>", "<|eot_id|>");
  return TestTokenizer(std::move(imported), kLlama3Vocab);
}

bool mentions_control_token(const std::vector<ChatMessage>& messages) {
  return std::any_of(messages.begin(), messages.end(), [](const ChatMessage& message) {
    const std::string_view text(message.content.data(), message.content.size());
    return text.find("<|") != std::string_view::npos;
  });
}

// Encodes each message by itself, after those before it.
Tokens encode_in_steps(const TestTokenizer& tokenizer, const std::vector<ChatMessage>& messages,
                       ChatEnd last) {
  Tokens all;
  for (size_t n = 1; n <= messages.size(); ++n) {
    const std::vector<ChatMessage> known(messages.begin(),
                                         messages.begin() + static_cast<ptrdiff_t>(n));
    const ChatEnd end = n == messages.size() ? last : ChatEnd::kGoesOn;
    const Tokens step = tokenizer.encode_chat(known, n - 1, end);
    all.insert(all.end(), step.begin(), step.end());
  }
  return all;
}

size_t count(const Tokens& tokens, uint32_t wanted) {
  return static_cast<size_t>(std::count(tokens.begin(), tokens.end(), wanted));
}

void expect_rows(const json& set) {
  constexpr size_t kRows = 8;
  constexpr uint32_t kEot = 128009;
  const TestTokenizer tokenizer = llama3_with_template(set["chat_template"].get<std::string>());
  size_t compared = 0;
  for (const json& row : set["rows"]) {
    const std::vector<ChatMessage> messages = messages_of(row["messages"]);
    const auto text = row["text"].get<std::string>();
    // The older template opens the assistant's turn whether asked to or not.
    const ChatEnd end =
        text.ends_with("assistant<|end_header_id|>\n\n") ? ChatEnd::kOpened : ChatEnd::kClosed;
    SCOPED_TRACE(text);
    const Tokens tokens = tokenizer.encode_chat(messages, 0, end);
    EXPECT_EQ(tokenizer.decode(tokens, true), text);
    EXPECT_EQ(encode_in_steps(tokenizer, messages, end), tokens);
    if (mentions_control_token(messages)) {
      // A user's "<|eot_id|>" is text, which the template engine cannot say.
      EXPECT_EQ(count(tokenizer.encode(text, kParse), kEot), count(tokens, kEot) + 1);
    } else {
      EXPECT_EQ(tokens, tokenizer.encode(text, kParse));
    }
    ++compared;
  }
  EXPECT_EQ(compared, kRows);
}

TEST(ChatVectorsTest, Llama3EqualsItsJinjaTemplate) {
  CRIA_SKIP_WITHOUT_REFERENCE();
  expect_rows(json::parse(read_text(test::references() / "vectors/chat.json"))["llama-3-instruct"]);
}

TEST(ChatVectorsTest, Llama32EqualsItsJinjaTemplate) {
  CRIA_SKIP_UNDER_ASAN();
  CRIA_SKIP_WITHOUT_REFERENCE();
  expect_rows(
      json::parse(read_text(test::references() / "vectors/chat.json"))["llama-3.2-instruct"]);
}

TEST(ChatVectorsTest, Llama3EqualsMetasDialogPrompt) {
  CRIA_SKIP_WITHOUT_REFERENCE();
  const json file = json::parse(
      read_text(test::references() / "vectors/tokenizers/meta_llama3.test_tokenizer.json"));
  // The template of the reference opens the assistant's turn whether asked to or not.
  const TestTokenizer tokenizer = llama3_with_template("llama3");
  const json& dialog = file["encode_dialog_prompt"];
  EXPECT_EQ(tokenizer.encode_chat(messages_of(dialog["dialog"]), 0, ChatEnd::kOpened),
            dialog["ids"].get<Tokens>());
  const json& single = file["encode_message"];
  Tokens tokens = tokenizer.encode_chat(messages_of(json::array({single})), 0, ChatEnd::kClosed);
  tokens.erase(tokens.begin());  // BOS
  EXPECT_EQ(tokens, single["ids"].get<Tokens>());
}

TEST(ChatVectorsTest, Llama2HasBosAndEosInEveryExchange) {
  CRIA_SKIP_WITHOUT_REFERENCE();
  constexpr uint32_t kVocab = 32000;
  const auto folder = test::references() / "tokenizers/llama-2";
  const test::LinkedFolder model_only({folder / "tokenizer.model"});
  const std::vector<ChatMessage> messages = {
      test::message("system", "Be brief."), test::message("user", "Who </s> are you?"),
      test::message("assistant", "A llama."), test::message("user", "<s> Why?")};
  for (const std::filesystem::path& source : {folder, model_only.path()}) {
    converter::ImportedTokenizer imported = converter::import_tokenizer(source, kVocab);
    imported.chat_section = section_of("llama2", "<s>", "</s>");
    const TestTokenizer tokenizer(std::move(imported), kVocab);
    const Tokens tokens = tokenizer.encode_chat(messages, 0, ChatEnd::kOpened);
    EXPECT_EQ(encode_in_steps(tokenizer, messages, ChatEnd::kOpened), tokens);
    EXPECT_EQ(tokens.front(), 1U);
    EXPECT_EQ(count(tokens, 1), 2U);
    EXPECT_EQ(count(tokens, 2), 1U);
    // Without its control tokens the conversation is the text of the template.
    EXPECT_EQ(tokenizer.decode(tokens, false).find("<<SYS>>\nBe brief.\n<</SYS>>\n\nWho </s> are"),
              std::string("[INST] ").size());
    // One exchange equals the text that the template gives.
    const Tokens first =
        tokenizer.encode_chat({test::message("user", "Hi there")}, 0, ChatEnd::kOpened);
    EXPECT_EQ(first, tokenizer.encode("<s>[INST] Hi there [/INST]", kParse));
  }
}

TEST(ChatVectorsTest, DemoModelEncodesItsGoldenPrompts) {
  const std::filesystem::path folder = test::demo_folder();
  const TestTokenizer tokenizer(folder, kDemoVocab);
  EXPECT_EQ(tokenizer.imported().chat_name, "own");
  EXPECT_TRUE(tokenizer.imported().warnings.empty());
  const json golden = json::parse(read_text(folder / "golden.json"));
  size_t chats = 0;
  size_t texts = 0;
  for (const json& row : golden["prompts"]) {
    const auto expected = row["prompt_ids"].get<Tokens>();
    if (row["prompt"].is_string()) {
      EXPECT_EQ(tokenizer.encode(row["prompt"].get<std::string>(), {true, false, false}), expected);
      ++texts;
    } else {
      EXPECT_EQ(tokenizer.encode_chat(messages_of(row["prompt"]), 0, ChatEnd::kOpened), expected);
      ++chats;
    }
    EXPECT_EQ(tokenizer.decode(row["greedy_ids"].get<Tokens>(), true),
              row["greedy_text"].get<std::string>());
  }
  EXPECT_EQ(chats, 6U);
  EXPECT_EQ(texts, 2U);
  const std::string corpus = read_text(folder / "heldout_plain.txt");
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(corpus, kParse), true), corpus);
}

}  // namespace
}  // namespace cria
