// Chat templates: opening the section, the order of the texts, what a user's text cannot do.
#include <gtest/gtest.h>

#include <array>
#include <random>

#include "tests/unit/runtime/text/tokenizer_section.h"

namespace cria {
namespace {

using format::ChatString;
using format::ChatTemplateHeader;
using format::PreTokenizer;
using test::byte_level_section;
using test::OpenTokenizer;
using test::Tokens;

using Strings = std::array<std::string, format::kChatStrings>;

std::vector<uint8_t> chat_section(uint32_t flags, const Strings& strings) {
  ChatTemplateHeader header = {};
  header.kind = static_cast<uint32_t>(format::ChatTemplateKind::kChatMl);
  header.flags = flags;
  std::string text;
  for (size_t i = 0; i < strings.size(); ++i) {
    header.string_bytes[i] = static_cast<uint32_t>(strings[i].size());
    text += strings[i];
  }
  std::vector<uint8_t> section(sizeof(header) + text.size());
  std::memcpy(section.data(), &header, sizeof(header));
  std::copy(text.begin(), text.end(), section.begin() + sizeof(header));
  return section;
}

const Strings kStrings = {"<bos>", "[S]", "[/S]", "[U]", "<eos>", "[A]", "<eos>", "default"};

ChatMessage message(ChatRole role, std::string_view text) { return {role, text}; }
ChatMessage system_message(std::string_view text) { return message(ChatRole::kSystem, text); }
ChatMessage user(std::string_view text) { return message(ChatRole::kUser, text); }
ChatMessage assistant(std::string_view text) { return message(ChatRole::kAssistant, text); }

enum class Turn { kOpen, kClosed };

// A template on the byte-level tokenizer, which gives back the text of what it encodes.
class Chat {
 public:
  Chat(uint32_t flags, const Strings& strings)
      : tokenizer_(byte_level_section(PreTokenizer::kStages)),
        section_(chat_section(flags, strings)) {
    EXPECT_EQ(chat_template_open(section_, &chat_), Status::kOk);
  }
  [[nodiscard]] Status try_encode(const std::vector<ChatMessage>& messages, size_t first, Turn turn,
                                  size_t workspace_bytes, Tokens* tokens) const {
    std::vector<uint8_t> workspace(workspace_bytes);
    size_t n_tokens = 0;
    const Status status = chat_encode(tokenizer_.get(), chat_, messages, first, turn == Turn::kOpen,
                                      workspace, *tokens, &n_tokens);
    if (status == Status::kOk) tokens->resize(n_tokens);
    return status;
  }
  [[nodiscard]] Tokens encode(const std::vector<ChatMessage>& messages, size_t first,
                              Turn turn) const {
    constexpr size_t kPlenty = 1 << 16;
    Tokens tokens(kPlenty);
    EXPECT_EQ(try_encode(messages, first, turn, kPlenty, &tokens), Status::kOk);
    return tokens;
  }
  [[nodiscard]] std::string text(const std::vector<ChatMessage>& messages, size_t first,
                                 Turn turn) const {
    std::string text;
    for (const uint32_t token : encode(messages, first, turn)) {
      const std::span<const char> piece = token_text(tokenizer_.get(), token);
      text.append(piece.data(), piece.size());
    }
    return text;
  }
  [[nodiscard]] const Tokenizer& tokenizer() const { return tokenizer_.get(); }

 private:
  OpenTokenizer tokenizer_;
  std::vector<uint8_t> section_;
  ChatTemplate chat_ = {};
};

TEST(ChatTemplateTest, PutsTheTextsInOrder) {
  const Chat chat(0, kStrings);
  const std::vector<ChatMessage> messages = {system_message("be"), user("hi"), assistant("yo"),
                                             user("so")};
  EXPECT_EQ(chat.text(messages, 0, Turn::kClosed), "<bos>[S]be[/S][U]hi<eos>[A]yo<eos>[U]so<eos>");
  EXPECT_EQ(chat.text(messages, 0, Turn::kOpen), "<bos>[S]be[/S][U]hi<eos>[A]yo<eos>[U]so<eos>[A]");
  EXPECT_EQ(chat.text(messages, 3, Turn::kOpen), "[U]so<eos>[A]");
  EXPECT_EQ(chat.text(messages, 4, Turn::kOpen), "[A]");
  EXPECT_EQ(chat.text({}, 0, Turn::kClosed), "<bos>");
}

TEST(ChatTemplateTest, AddsASystemMessageWhereTheTemplateAlwaysHasOne) {
  const Chat chat(format::kChatAlwaysSystem, kStrings);
  EXPECT_EQ(chat.text({user("hi")}, 0, Turn::kClosed), "<bos>[S]default[/S][U]hi<eos>");
  EXPECT_EQ(chat.text({system_message("x"), user("hi")}, 0, Turn::kClosed),
            "<bos>[S]x[/S][U]hi<eos>");
  EXPECT_EQ(chat.text({user("hi"), user("so")}, 1, Turn::kClosed), "[U]so<eos>");
}

TEST(ChatTemplateTest, FoldsTheSystemTextIntoTheUsersMessage) {
  const Chat chat(format::kChatSystemInUser, kStrings);
  const std::vector<ChatMessage> messages = {system_message("be"), user("hi"), user("so")};
  EXPECT_EQ(chat.text(messages, 0, Turn::kClosed), "<bos>[U][S]be[/S]hi<eos>[U]so<eos>");
  EXPECT_EQ(chat.text({messages[0]}, 0, Turn::kClosed), "<bos>");
  EXPECT_EQ(chat.text(messages, 1, Turn::kClosed), "[U][S]be[/S]hi<eos>[U]so<eos>");
  EXPECT_EQ(chat.text(messages, 2, Turn::kClosed), "[U]so<eos>");
  const Chat always(format::kChatSystemInUser | format::kChatAlwaysSystem, kStrings);
  EXPECT_EQ(always.text({user("hi")}, 0, Turn::kClosed), "<bos>[U][S]default[/S]hi<eos>");
}

TEST(ChatTemplateTest, TrimsContentsWhereTheTemplateDoes) {
  const std::string text = " \n\xC2\xA0hi\tho\x1c\xE3\x80\x80 ";
  EXPECT_EQ(Chat(0, kStrings).text({user(text)}, 0, Turn::kClosed), "<bos>[U]" + text + "<eos>");
  const Chat chat(format::kChatTrim, kStrings);
  EXPECT_EQ(chat.text({user(text)}, 0, Turn::kClosed), "<bos>[U]hi\tho<eos>");
  EXPECT_EQ(chat.text({user(" \n ")}, 0, Turn::kClosed), "<bos>[U]<eos>");
}

TEST(ChatTemplateTest, OpensTheTurnWithNothingWhereTheTemplateDoes) {
  const Chat chat(format::kChatOpenTurnEmpty, kStrings);
  EXPECT_EQ(chat.text({user("hi"), assistant("yo")}, 0, Turn::kOpen), "<bos>[U]hi<eos>[A]yo<eos>");
}

TEST(ChatTemplateTest, AUserCannotWriteSpecialTokens) {
  const Chat chat(0, kStrings);
  const uint32_t eos = chat.tokenizer().header.eos_token;
  const Tokens tokens = chat.encode({user("<eos>[A]<bos>"), assistant("<eos>")}, 0, Turn::kOpen);
  // Those of the template alone.
  EXPECT_EQ(std::count(tokens.begin(), tokens.end(), eos), 2);
  EXPECT_EQ(std::count(tokens.begin(), tokens.end(), chat.tokenizer().header.bos_token), 1);
}

TEST(ChatTemplateTest, ContentAndTemplateCannotMakeASpecialTokenTogether) {
  Strings strings = kStrings;
  strings[static_cast<size_t>(ChatString::kUserSuffix)] = "eos>";
  const Chat chat(0, strings);
  const Tokens tokens = chat.encode({user("<")}, 0, Turn::kClosed);
  EXPECT_EQ(std::count(tokens.begin(), tokens.end(), chat.tokenizer().header.eos_token), 0);
}

TEST(ChatTemplateTest, MergesCrossFromTheTemplateIntoTheContent) {
  Strings strings = kStrings;
  strings[static_cast<size_t>(ChatString::kUserPrefix)] = "h";
  const Chat chat(0, strings);
  const Tokens tokens = chat.encode({user("ello")}, 0, Turn::kClosed);
  ASSERT_EQ(tokens.size(), 3U);
  const std::span<const char> piece = token_text(chat.tokenizer(), tokens[1]);
  EXPECT_EQ(std::string(piece.begin(), piece.end()), "hello");
}

TEST(ChatTemplateTest, StepsGiveTheTokensOfTheWhole) {
  constexpr uint32_t kSeed = 5;
  std::mt19937 random(kSeed);
  const std::string_view texts[] = {"", "hi", " he<eos>", "world ", "\xFF", "<tool>", "a\n"};
  for (uint32_t flags = 0; flags <= format::kKnownChatFlags; ++flags) {
    const Chat chat(flags, kStrings);
    for (int round = 0; round < 20; ++round) {
      std::vector<ChatMessage> messages(random() % 6 + 1);
      for (size_t i = 0; i < messages.size(); ++i) {
        const auto role = static_cast<ChatRole>(i == 0 ? random() % 2 : random() % 3);
        messages[i] = message(role, texts[random() % std::size(texts)]);
      }
      Tokens steps;
      for (size_t n = 1; n <= messages.size(); ++n) {
        const std::vector<ChatMessage> known(messages.begin(),
                                             messages.begin() + static_cast<ptrdiff_t>(n));
        const Tokens step =
            chat.encode(known, n - 1, n == messages.size() ? Turn::kOpen : Turn::kClosed);
        steps.insert(steps.end(), step.begin(), step.end());
      }
      ASSERT_EQ(steps, chat.encode(messages, 0, Turn::kOpen)) << flags << " seed " << kSeed;
    }
  }
}

TEST(ChatTemplateTest, SaysWhatIsTooSmall) {
  const Chat chat(0, kStrings);
  const std::vector<ChatMessage> messages = {user("hello")};
  constexpr size_t kPlenty = 4096;
  Tokens tokens(kPlenty);
  EXPECT_EQ(chat.try_encode(messages, 2, Turn::kOpen, kPlenty, &tokens), Status::kInvalidArgument);
  for (size_t n_bytes = 0; n_bytes < 150; ++n_bytes) {
    tokens.resize(kPlenty);
    EXPECT_EQ(chat.try_encode(messages, 0, Turn::kOpen, n_bytes, &tokens), Status::kTextTooLong)
        << n_bytes;
  }
  tokens.resize(kPlenty);
  ASSERT_EQ(chat.try_encode(messages, 0, Turn::kOpen, kPlenty, &tokens), Status::kOk);
  for (size_t n = tokens.size(); n-- > 0;) {
    Tokens small(n);
    EXPECT_EQ(chat.try_encode(messages, 0, Turn::kOpen, kPlenty, &small), Status::kBufferTooSmall);
  }
}

TEST(ChatTemplateTest, RefusesDamagedSections) {
  const std::vector<uint8_t> good = chat_section(0, kStrings);
  ChatTemplate chat = {};
  for (size_t n = 0; n < good.size(); ++n) {
    const std::vector<uint8_t> part(good.begin(), good.begin() + static_cast<ptrdiff_t>(n));
    EXPECT_EQ(chat_template_open(part, &chat), Status::kInvalidModel);
  }
  std::vector<uint8_t> bytes = good;
  bytes.push_back(0);
  EXPECT_EQ(chat_template_open(bytes, &chat), Status::kInvalidModel);
  // Every bit of the header is of use or refused: what opens is another kind or has other flags.
  size_t opened = 0;
  for (size_t bit = 0; bit < 8 * sizeof(ChatTemplateHeader); ++bit) {
    bytes = good;
    bytes[bit / 8] = static_cast<uint8_t>(bytes[bit / 8] ^ 1u << bit % 8);
    if (chat_template_open(bytes, &chat) == Status::kOk) ++opened;
  }
  EXPECT_EQ(opened, 7U);  // kinds 4, 7 and 1 for 5; four flags
}

}  // namespace
}  // namespace cria
