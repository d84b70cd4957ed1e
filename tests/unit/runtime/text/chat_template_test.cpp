// Chat templates: opening the section, the order of the texts, what a user's text cannot do.
#include <gtest/gtest.h>

#include <array>
#include <random>

#include "tests/support/seeds.h"

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

std::vector<uint8_t> chat_section(uint32_t flags, const Strings& strings, uint32_t trims = 0) {
  ChatTemplateHeader header = {};
  header.kind = format::kChatKindOwn;
  header.flags = flags;
  header.trims = trims;
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

const Strings kStrings = {"<bos>", "[S]",  "[/S]", "[U]",   "<eos>", "[A]",  "<eos>", "",
                          "[s]",   "[/s]", "[L]",  "<eos>", "[T]",   "[T2]", "[E]"};

Strings with(Strings strings, ChatString which, std::string text) {
  strings[static_cast<size_t>(which)] = std::move(text);
  return strings;
}

ChatMessage message(ChatRole role, std::string_view text) { return {role, text}; }
ChatMessage system_message(std::string_view text) { return message(ChatRole::kSystem, text); }
ChatMessage user(std::string_view text) { return message(ChatRole::kUser, text); }
ChatMessage assistant(std::string_view text) { return message(ChatRole::kAssistant, text); }

using Turn = ChatEnd;

// A template on the byte-level tokenizer, which gives back the text of what it encodes.
class Chat {
 public:
  Chat(uint32_t flags, const Strings& strings, uint32_t trims = 0)
      : tokenizer_(byte_level_section(PreTokenizer::kStages)),
        section_(chat_section(flags, strings, trims)) {
    EXPECT_EQ(chat_template_open(section_, &chat_), Status::kOk);
  }
  [[nodiscard]] Status try_encode(const std::vector<ChatMessage>& messages, size_t first, Turn turn,
                                  size_t workspace_bytes, Tokens* tokens) const {
    std::vector<uint8_t> workspace(workspace_bytes);
    size_t n_tokens = 0;
    const Status status = chat_encode(tokenizer_.get(), chat_, {messages, turn, date_}, first,
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
  [[nodiscard]] std::string refusal(const std::vector<ChatMessage>& messages, Turn turn) const {
    const char* reason = chat_refusal(chat_, {messages, turn, {}});
    return reason == nullptr ? "" : reason;
  }
  void set_date(std::string_view date) { date_ = date; }
  [[nodiscard]] const Tokenizer& tokenizer() const { return tokenizer_.get(); }
  [[nodiscard]] const ChatTemplate& get() const { return chat_; }

 private:
  std::string_view date_;
  OpenTokenizer tokenizer_;
  std::vector<uint8_t> section_;
  ChatTemplate chat_ = {};
};

constexpr uint32_t trim(format::ChatTrimPlace place, format::ChatTrim how) {
  return static_cast<uint32_t>(how) << static_cast<uint32_t>(place);
}

TEST(ChatTemplateTest, PutsTheTextsInOrder) {
  const Chat chat(0, kStrings);
  const std::vector<ChatMessage> messages = {system_message("be"), user("hi"), assistant("yo"),
                                             user("so")};
  EXPECT_EQ(chat.text(messages, 0, Turn::kClosed),
            "<bos>[S]be[/S][U]hi<eos>[A]yo<eos>[U]so<eos>[E]");
  EXPECT_EQ(chat.text(messages, 0, Turn::kOpened),
            "<bos>[S]be[/S][U]hi<eos>[A]yo<eos>[U]so<eos>[T]");
  EXPECT_EQ(chat.text(messages, 3, Turn::kOpened), "[U]so<eos>[T]");
  EXPECT_EQ(chat.text(messages, 4, Turn::kOpened), "[T]");
  EXPECT_EQ(chat.text({}, 0, Turn::kGoesOn), "<bos>");
}

TEST(ChatTemplateTest, LastAndLaterMessagesHaveStringsOfTheirOwn) {
  const Chat chat(0, kStrings);
  const std::vector<ChatMessage> answered = {user("hi"), assistant("yo")};
  EXPECT_EQ(chat.text(answered, 0, Turn::kClosed), "<bos>[U]hi<eos>[L]yo<eos>[E]");
  EXPECT_EQ(chat.text(answered, 0, Turn::kOpened), "<bos>[U]hi<eos>[L]yo<eos>[T2]");
  EXPECT_EQ(chat.text(answered, 0, Turn::kGoesOn), "<bos>[U]hi<eos>[A]yo<eos>");
  EXPECT_EQ(chat.text({user("hi"), system_message("be"), user("so")}, 0, Turn::kClosed),
            "<bos>[U]hi<eos>[s]be[/s][U]so<eos>[E]");
}

TEST(ChatTemplateTest, WritesWhatStandsThereWithoutASystemText) {
  const Strings strings = with(kStrings, ChatString::kNoSystem, "[S]default<eos>");
  const Chat chat(0, strings);
  EXPECT_EQ(chat.text({user("hi")}, 0, Turn::kClosed), "<bos>[S]default<eos>[U]hi<eos>[E]");
  EXPECT_EQ(chat.text({system_message("x"), user("hi")}, 0, Turn::kClosed),
            "<bos>[S]x[/S][U]hi<eos>[E]");
  const Chat inside(format::kChatSystemInUser, strings);
  EXPECT_EQ(inside.text({user("hi"), user("so")}, 0, Turn::kClosed),
            "<bos>[U][S]default<eos>hi<eos>[U]so<eos>[E]");
}

TEST(ChatTemplateTest, FoldsTheSystemTextIntoTheUsersMessage) {
  const Chat chat(format::kChatSystemInUser, kStrings);
  const std::vector<ChatMessage> messages = {system_message("be"), user("hi"), user("so")};
  EXPECT_EQ(chat.text(messages, 0, Turn::kClosed), "<bos>[U][S]be[/S]hi<eos>[U]so<eos>[E]");
  EXPECT_EQ(chat.text(messages, 1, Turn::kClosed), "[U][S]be[/S]hi<eos>[U]so<eos>[E]");
  EXPECT_EQ(chat.text(messages, 2, Turn::kClosed), "[U]so<eos>[E]");
  EXPECT_EQ(chat.refusal({messages[0]}, Turn::kClosed), "takes no system text as the last message");
  EXPECT_EQ(chat.refusal({messages[0], assistant("a"), user("b")}, Turn::kClosed),
            "takes a system text before a user's message only");
}

TEST(ChatTemplateTest, PutsTheSystemTextIntoTheLastQuestion) {
  const Chat chat(format::kChatSystemInLast, kStrings);
  const std::vector<ChatMessage> messages = {system_message("be"), user("hi"), assistant("yo"),
                                             user("so")};
  EXPECT_EQ(chat.text(messages, 0, Turn::kOpened),
            "<bos>[U]hi<eos>[A]yo<eos>[U][S]be[/S]so<eos>[T]");
  EXPECT_EQ(chat.text(messages, 0, Turn::kGoesOn), "<bos>[U]hi<eos>[A]yo<eos>[U]so<eos>");
  EXPECT_FALSE(chat_keeps_answers(chat.tokenizer(), chat.get()));
}

TEST(ChatTemplateTest, TrimsContentsWhereTheTemplateDoes) {
  using format::ChatTrim;
  using format::ChatTrimPlace;
  const std::string text = " \n\xC2\xA0hi\tho\x1c\xE3\x80\x80 ";
  EXPECT_EQ(Chat(0, kStrings).text({user(text)}, 0, Turn::kClosed), "<bos>[U]" + text + "<eos>[E]");
  const Chat both(0, kStrings,
                  trim(ChatTrimPlace::kUserLeft, ChatTrim::kSpace) |
                      trim(ChatTrimPlace::kUserRight, ChatTrim::kSpace));
  EXPECT_EQ(both.text({user(text)}, 0, Turn::kClosed), "<bos>[U]hi\tho<eos>[E]");
  EXPECT_EQ(both.text({user(" \n ")}, 0, Turn::kClosed), "<bos>[U]<eos>[E]");
  const Chat newlines(0, kStrings, trim(ChatTrimPlace::kAssistantLeft, ChatTrim::kNewlines));
  EXPECT_EQ(newlines.text({user("a"), assistant("\n\n b\n"), user("\nc")}, 0, Turn::kClosed),
            "<bos>[U]a<eos>[A] b\n<eos>[U]\nc<eos>[E]");
}

TEST(ChatTemplateTest, TrimsSystemAndQuestionAsOneText) {
  using format::ChatTrim;
  using format::ChatTrimPlace;
  const Chat chat(format::kChatSystemInUser | format::kChatTrimTogether,
                  with(kStrings, ChatString::kSystemSuffix, "\n\n"),
                  trim(ChatTrimPlace::kUserLeft, ChatTrim::kSpace) |
                      trim(ChatTrimPlace::kUserRight, ChatTrim::kSpace));
  EXPECT_EQ(chat.text({system_message("be"), user(" hi ")}, 0, Turn::kClosed),
            "<bos>[U][S]be\n\n hi<eos>[E]");
  EXPECT_EQ(chat.text({system_message("be"), user(" ")}, 0, Turn::kClosed),
            "<bos>[U][S]be<eos>[E]");
  EXPECT_EQ(chat.text({user(" hi ")}, 0, Turn::kClosed), "<bos>[U]hi<eos>[E]");
}

TEST(ChatTemplateTest, DropsTheThinkingOfEarlierAnswers) {
  const Chat chat(format::kChatDropThinking | format::kChatDropNewlines, kStrings);
  EXPECT_EQ(chat.text({user("a"), assistant("<think>x</think>y</think>\n\nb"), user("c")}, 0,
                      Turn::kClosed),
            "<bos>[U]a<eos>[A]b<eos>[U]c<eos>[E]");
  EXPECT_NE(chat.refusal({user("a"), assistant("x</think>b")}, Turn::kClosed), "");
}

TEST(ChatTemplateTest, WritesTheDateThatItIsGiven) {
  Strings strings = with(kStrings, ChatString::kNoSystem, std::string("on ") + '\0' + ".");
  strings = with(strings, ChatString::kDate, "26 Jul");
  strings = with(strings, ChatString::kDateFormat, "%d %b");
  Chat chat(0, strings);
  EXPECT_EQ(chat.text({user("a")}, 0, Turn::kClosed), "<bos>on 26 Jul.[U]a<eos>[E]");
  chat.set_date("<eos>");
  EXPECT_EQ(chat.text({user("a")}, 0, Turn::kClosed), "<bos>on <eos>.[U]a<eos>[E]");
  const Tokens tokens = chat.encode({user("a")}, 0, Turn::kClosed);
  EXPECT_EQ(std::count(tokens.begin(), tokens.end(), chat.tokenizer().header.eos_token), 1);
}

TEST(ChatTemplateTest, EveryRefusalIsMade) {
  const std::vector<ChatMessage> turns = {user("a"), assistant("b"), user("c")};
  const std::vector<ChatMessage> answered = {user("a"), assistant("b")};
  const std::vector<ChatMessage> told = {system_message("s"), user("a")};
  const std::vector<ChatMessage> later = {user("a"), system_message("s"), user("b")};
  struct Case {
    uint32_t flag;
    std::vector<ChatMessage> taken;
    std::vector<ChatMessage> refused;
  };
  const Case cases[] = {
      {format::kChatNoSystem, turns, told},
      {format::kChatOnlyFirstSystem, told, later},
      {format::kChatAlternates, turns, {user("a"), user("b")}},
      {format::kChatAlternates, told, {assistant("a")}},
      {format::kChatNeedsUser, turns, {system_message("s")}},
      {format::kChatNotLastSystem, told, {user("a"), system_message("s")}},
      {format::kChatNotLastAssistant, turns, answered},
      {format::kChatNoTurnAfterAssistant, turns, answered},
      {format::kChatNoBlankSystem, told, {system_message(" \n"), user("a")}},
      {format::kChatNoBlankUser, turns, {user("")}},
      {format::kChatNoBlankAssistant, turns, {user("a"), assistant(""), user("b")}},
  };
  for (const Case& one : cases) {
    const Chat chat(one.flag, kStrings);
    EXPECT_EQ(chat.refusal(one.taken, Turn::kOpened), "") << one.flag;
    EXPECT_NE(chat.refusal(one.refused, Turn::kOpened), "") << one.flag;
    Tokens tokens(1000);
    EXPECT_EQ(chat.try_encode(one.refused, 0, Turn::kOpened, 4096, &tokens),
              Status::kRefusedByTemplate);
    EXPECT_EQ(Chat(0, kStrings).refusal(one.refused, Turn::kOpened), "") << one.flag;
  }
  EXPECT_EQ(Chat(format::kChatNoTurnAfterAssistant, kStrings).refusal(answered, Turn::kClosed), "");
  const std::string words = std::string("/think") + '\0' + "tool" + '\0';
  const Chat chat(0, with(kStrings, ChatString::kNotInUser, words));
  EXPECT_EQ(chat.refusal({user("thin/k to ol")}, Turn::kOpened), "");
  for (const char* text : {"a/thinking", "tool", "a tools"}) {
    EXPECT_NE(chat.refusal({user(text)}, Turn::kOpened), "") << text;
    EXPECT_EQ(chat.refusal({system_message(text), user("a")}, Turn::kOpened), "") << text;
  }
}

TEST(ChatTemplateTest, AUserCannotWriteSpecialTokens) {
  const Chat chat(0, kStrings);
  const uint32_t eos = chat.tokenizer().header.eos_token;
  const Tokens tokens = chat.encode({user("<eos>[A]<bos>"), assistant("<eos>")}, 0, Turn::kOpened);
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
  ASSERT_EQ(tokens.size(), 6U);  // with <bos>, <eos> and [E]
  const std::span<const char> piece = token_text(chat.tokenizer(), tokens[1]);
  EXPECT_EQ(std::string(piece.begin(), piece.end()), "hello");
}

void compare_steps(uint32_t seed) {
  std::mt19937 random(seed);
  const std::string_view texts[] = {"", "hi", " he<eos>", "world ", "\xFF", "<tool>", "a\n"};
  const Strings sets[] = {
      kStrings,
      {"<bos>", "", "\n", "U:", "\n", "A:", "<eos>\n", "\n", "S:", "\n", "A:", "<eos>", "A:", "A:"},
      {"", "S:", "\n", "U:", "\n", "A:", "\n", "", "S:", "\n", "A:", "\n", "A:", "A:", "\n"},
      {"", "<bos>", "\n", "<bos>U", "<eos>\n", "<bos>A", "<eos>\n", "", "<bos>", "<eos>\n",
       "<bos>A", "<eos>\n", "<bos>A", "<bos>A"}};
  for (uint32_t form = 0; form < 12; ++form) {
    const uint32_t flags = form % 3 | (form / 3 % 2 == 0 ? 0 : format::kChatTrimTogether);
    const Chat chat(flags, sets[form / 3]);
    for (int round = 0; round < 20; ++round) {
      std::vector<ChatMessage> messages(random() % 6 + 1);
      for (size_t i = 0; i < messages.size(); ++i) {
        auto role = static_cast<ChatRole>(i == 0 ? random() % 2 : 1 + random() % 2);
        if (i + 1 == messages.size() || i == 1) role = ChatRole::kUser;
        messages[i] = message(role, texts[random() % std::size(texts)]);
      }
      Tokens steps;
      for (size_t n = 1; n <= messages.size(); ++n) {
        const std::vector<ChatMessage> known(messages.begin(),
                                             messages.begin() + static_cast<ptrdiff_t>(n));
        const Tokens step =
            chat.encode(known, n - 1, n == messages.size() ? Turn::kOpened : Turn::kGoesOn);
        steps.insert(steps.end(), step.begin(), step.end());
      }
      ASSERT_EQ(steps, chat.encode(messages, 0, Turn::kOpened)) << flags;
    }
  }
}

TEST(ChatTemplateTest, StepsGiveTheTokensOfTheWhole) { test::for_each_seed({5}, compare_steps); }

TEST(ChatTemplateTest, SaysWhatIsTooSmall) {
  const Chat chat(0, kStrings);
  const std::vector<ChatMessage> messages = {user("hello")};
  constexpr size_t kPlenty = 4096;
  Tokens tokens(kPlenty);
  EXPECT_EQ(chat.try_encode(messages, 2, Turn::kOpened, kPlenty, &tokens),
            Status::kInvalidArgument);
  for (size_t n_bytes = 0; n_bytes < 150; n_bytes += 8) {
    tokens.resize(kPlenty);
    EXPECT_EQ(chat.try_encode(messages, 0, Turn::kOpened, n_bytes, &tokens), Status::kTextTooLong)
        << n_bytes;
  }
  tokens.resize(kPlenty);
  ASSERT_EQ(chat.try_encode(messages, 0, Turn::kOpened, kPlenty, &tokens), Status::kOk);
  for (size_t n = tokens.size(); n-- > 0;) {
    Tokens small(n);
    EXPECT_EQ(chat.try_encode(messages, 0, Turn::kOpened, kPlenty, &small),
              Status::kBufferTooSmall);
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
  // Kinds 3, 5 and 9 for 1; all flags, of which each is known; trims of a place that are 1 or 2.
  EXPECT_EQ(opened, 3U + 15U + 2U * format::kChatTrimPlaces);
}

}  // namespace
}  // namespace cria
