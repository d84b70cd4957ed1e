// Chat templates: opening the section, the order of the texts, what a user's text cannot do.
#include <gtest/gtest.h>

#include <random>

#include "tests/support/chat_sections.h"
#include "tests/support/seeds.h"

#include "tests/unit/runtime/text/tokenizer_section.h"

namespace cria {
namespace {

using format::ChatString;
using format::ChatTemplateHeader;
using format::ChatTrim;
using format::ChatUnit;
using format::PreTokenizer;
using test::bit_of;
using test::byte_level_section;
using test::ChatSection;
using test::Frames;
using test::JointRule;
using test::OpenTokenizer;
using test::Tokens;

const Frames kFrames = {.start = "<bos>",
                        .system = {"[S]", "[/S]"},
                        .later = {"[s]", "[/s]"},
                        .user = {"[U]", "<eos>"},
                        .text = {"[A]", "<eos>"},
                        .open = "[T]",
                        .end = "[E]"};

// first: rules that come before those of the frames.
ChatSection framed(const Frames& frames = kFrames, std::vector<JointRule> first = {}) {
  ChatSection section;
  section.rules = std::move(first);
  for (JointRule& rule : frames.rules()) section.rules.push_back(std::move(rule));
  return section;
}

constexpr uint32_t of_right(uint32_t place) { return place << format::kChatRight; }
constexpr uint32_t kAnyUnit = (1U << format::kChatUnits) - 1;

// What the left content loses at its end and the right one at its beginning.
constexpr uint8_t trims(ChatTrim left, ChatTrim right) {
  return static_cast<uint8_t>(static_cast<uint32_t>(left) | static_cast<uint32_t>(right) << 4);
}

ChatMessage message(ChatRole role, std::string_view text) { return {role, text}; }
ChatMessage system_message(std::string_view text) { return message(ChatRole::kSystem, text); }
ChatMessage user(std::string_view text) { return message(ChatRole::kUser, text); }
ChatMessage assistant(std::string_view text) { return message(ChatRole::kAssistant, text); }

using Turn = ChatEnd;

// A template on the byte-level tokenizer, which gives back the text of what it encodes.
class Chat {
 public:
  explicit Chat(const ChatSection& section)
      : tokenizer_(byte_level_section(PreTokenizer::kStages)), section_(section.bytes()) {
    EXPECT_EQ(chat_template_open(section_, &chat_), Status::kOk);
  }
  [[nodiscard]] Status try_encode(const Conversation& conversation, size_t first,
                                  size_t workspace_bytes, Tokens* tokens) const {
    std::vector<uint8_t> workspace(workspace_bytes);
    size_t n_tokens = 0;
    const Status status =
        chat_encode(tokenizer_.get(), chat_, conversation, first, workspace, *tokens, &n_tokens);
    if (status == Status::kOk) tokens->resize(n_tokens);
    return status;
  }
  [[nodiscard]] Tokens encode(const Conversation& conversation, size_t first = 0) const {
    constexpr size_t kPlenty = 1 << 16;
    Tokens tokens(kPlenty);
    EXPECT_EQ(try_encode(conversation, first, kPlenty, &tokens), Status::kOk)
        << refusal(conversation);
    return tokens;
  }
  [[nodiscard]] Tokens encode(const std::vector<ChatMessage>& messages, size_t first,
                              Turn turn) const {
    return encode({messages, turn}, first);
  }
  [[nodiscard]] std::string text(const Conversation& conversation, size_t first = 0) const {
    std::string text;
    for (const uint32_t token : encode(conversation, first)) {
      const std::span<const char> piece = token_text(tokenizer_.get(), token);
      text.append(piece.data(), piece.size());
    }
    return text;
  }
  [[nodiscard]] std::string text(const std::vector<ChatMessage>& messages, size_t first,
                                 Turn turn) const {
    return text({messages, turn}, first);
  }
  [[nodiscard]] std::string refusal(const Conversation& conversation) const {
    const char* reason = chat_refusal(chat_, conversation);
    return reason == nullptr ? "" : reason;
  }
  [[nodiscard]] std::string refusal(const std::vector<ChatMessage>& messages, Turn turn) const {
    return refusal(Conversation{messages, turn});
  }
  [[nodiscard]] const Tokenizer& tokenizer() const { return tokenizer_.get(); }
  [[nodiscard]] const ChatTemplate& get() const { return chat_; }

 private:
  OpenTokenizer tokenizer_;
  std::vector<uint8_t> section_;
  ChatTemplate chat_ = {};
};

TEST(ChatTemplateTest, PutsTheTextsInOrder) {
  const Chat chat(framed());
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

TEST(ChatTemplateTest, TheFirstRuleThatMatchesGivesTheJoint) {
  const uint32_t last = of_right(format::kChatLast);
  const Chat chat(framed(kFrames, {{kAnyUnit, bit_of(ChatUnit::kText), "<eos>[L]", last},
                                   {bit_of(ChatUnit::kText), bit_of(ChatUnit::kOpen), "<eos>[T2]"},
                                   {bit_of(ChatUnit::kStart), bit_of(ChatUnit::kUser),
                                    "<bos>[tools][U]", format::kChatHasTools}}));
  const std::vector<ChatMessage> answered = {user("hi"), assistant("yo")};
  EXPECT_EQ(chat.text(answered, 0, Turn::kClosed), "<bos>[U]hi<eos>[L]yo<eos>[E]");
  EXPECT_EQ(chat.text(answered, 0, Turn::kOpened), "<bos>[U]hi<eos>[L]yo<eos>[T2]");
  EXPECT_EQ(chat.text(answered, 0, Turn::kGoesOn), "<bos>[U]hi<eos>[A]yo<eos>");
  EXPECT_EQ(chat.text({user("hi"), system_message("be"), user("so")}, 0, Turn::kClosed),
            "<bos>[U]hi<eos>[s]be[/s][U]so<eos>[E]");
}

TEST(ChatTemplateTest, PutsTheSystemTextIntoTheLastQuestion) {
  ChatSection section = framed();
  section.header.flags = format::kChatSystemInLast;
  const Chat chat(section);
  const std::vector<ChatMessage> messages = {system_message("be"), user("hi"), assistant("yo"),
                                             user("so")};
  EXPECT_EQ(chat.text(messages, 0, Turn::kOpened),
            "<bos>[U]hi<eos>[A]yo<eos>[S]be[/S][U]so<eos>[T]");
  EXPECT_EQ(chat.text(messages, 0, Turn::kGoesOn), "<bos>[U]hi<eos>[A]yo<eos>[U]so<eos>");
  EXPECT_FALSE(chat_keeps_answers(chat.tokenizer(), chat.get(), ChatThinking::kAsIs));
  // A rule of the question's places may leave the system text out.
  const std::vector<ChatMessage> answered = {messages[0], messages[1], messages[2]};
  EXPECT_EQ(chat.text(answered, 0, Turn::kClosed), "<bos>[S]be[/S][U]hi<eos>[A]yo<eos>[E]");
  const uint32_t last = of_right(format::kChatLast);
  section.rules.insert(section.rules.begin(),
                       {kAnyUnit, bit_of(ChatUnit::kSystem), "", last, 0, true});
  EXPECT_EQ(Chat(section).text(answered, 0, Turn::kClosed),
            "<bos>[S]be[/S][U]hi<eos>[A]yo<eos>[E]");
  EXPECT_EQ(Chat(section).text(messages, 0, Turn::kClosed),
            "<bos>[U]hi<eos>[A]yo<eos>[U]so<eos>[E]");
}

TEST(ChatTemplateTest, TrimsContentsWhereTheRulesSay) {
  const std::string text = " \n\xC2\xA0hi\tho\x1c\xE3\x80\x80 ";
  EXPECT_EQ(Chat(framed()).text({user(text)}, 0, Turn::kClosed), "<bos>[U]" + text + "<eos>[E]");
  ChatSection section = framed();
  for (JointRule& rule : section.rules) {
    const bool is_left = rule.left == bit_of(ChatUnit::kUser);
    const bool is_right = rule.right == bit_of(ChatUnit::kUser);
    const bool is_text = rule.right == bit_of(ChatUnit::kText);
    rule.trims =
        trims(is_left ? ChatTrim::kSpace : ChatTrim::kNothing, is_right  ? ChatTrim::kSpace
                                                               : is_text ? ChatTrim::kNewlines
                                                                         : ChatTrim::kNothing);
  }
  const Chat chat(section);
  EXPECT_EQ(chat.text({user(text)}, 0, Turn::kClosed), "<bos>[U]hi\tho<eos>[E]");
  EXPECT_EQ(chat.text({user(" \n ")}, 0, Turn::kClosed), "<bos>[U]<eos>[E]");
  EXPECT_EQ(chat.text({user("a"), assistant("\n\n b\n"), user("\nc")}, 0, Turn::kClosed),
            "<bos>[U]a<eos>[A] b\n<eos>[U]c<eos>[E]");
}

TEST(ChatTemplateTest, DropsTheThinkingInEarlierAnswers) {
  ChatSection section = framed();
  section.header.flags = format::kChatDropThinking | format::kChatDropNewlines;
  const Chat chat(section);
  EXPECT_EQ(chat.text({user("a"), assistant("<think>x</think>y</think>\n\nb"), user("c")}, 0,
                      Turn::kClosed),
            "<bos>[U]a<eos>[A]b<eos>[U]c<eos>[E]");
  EXPECT_NE(chat.refusal({user("a"), assistant("x</think>b")}, Turn::kClosed), "");
}

std::string slot(char letter) { return {'\0', letter}; }

TEST(ChatTemplateTest, WritesTheDateThatItIsGiven) {
  ChatSection section = framed(kFrames, {{bit_of(ChatUnit::kStart), bit_of(ChatUnit::kUser),
                                          "<bos>on " + slot(format::kChatSlotDate) + ".[U]"}});
  section[ChatString::kDate] = "26 Jul";
  section[ChatString::kDateFormat] = "%d %b";
  const Chat chat(section);
  const std::vector<ChatMessage> messages = {user("a")};
  EXPECT_EQ(chat.text({messages, Turn::kClosed}), "<bos>on 26 Jul.[U]a<eos>[E]");
  const Conversation dated = {messages, Turn::kClosed, std::string_view("<eos>")};
  EXPECT_EQ(chat.text(dated), "<bos>on <eos>.[U]a<eos>[E]");
  const Tokens tokens = chat.encode(dated);
  EXPECT_EQ(std::count(tokens.begin(), tokens.end(), chat.tokenizer().header.eos_token), 1);
}

// A template with tools, thinking, calls and results.
ChatSection with_tools() {
  const uint32_t thinking = bit_of(ChatUnit::kThinking);
  const uint32_t call = bit_of(ChatUnit::kCall);
  const uint32_t result = bit_of(ChatUnit::kResult);
  const uint32_t text = bit_of(ChatUnit::kText);
  const uint32_t asked = bit_of(ChatUnit::kUser) | result;
  ChatSection section =
      framed(kFrames, {{bit_of(ChatUnit::kStart), bit_of(ChatUnit::kUser),
                        "<bos>[" + slot(format::kChatSlotTools) + "][U]", format::kChatHasTools},
                       {asked, thinking, "<eos>[A](", of_right(format::kChatAfterQuestions)},
                       {asked, thinking, "", 0, 0, true},
                       {thinking, text, ")"},
                       {thinking, call, ")"},
                       {asked, text | call, "<eos>[A]"},
                       {text | call, call, "+"},
                       {call, result, "<eos>[R]"},
                       {result, result, "[R]"},
                       {result, bit_of(ChatUnit::kOpen), "<eos>[T]"},
                       {result, bit_of(ChatUnit::kUser), "<eos>[U]"}});
  section[ChatString::kCall] =
      slot(format::kChatSlotName) + "(" + slot(format::kChatSlotArguments) + ")";
  section[ChatString::kResult] = slot(format::kChatSlotText);
  section[ChatString::kTool] = slot(format::kChatSlotWhole);
  section[ChatString::kToolBetween] = ";";
  section.header.styles[static_cast<size_t>(format::ChatStyle::kResult)].form =
      format::ChatValueForm::kBare;
  return section;
}

constexpr std::string_view kTool = R"({"type":"function","function":{"name":"f"}})";
constexpr std::string_view kToolShown = R"({"type": "function", "function": {"name": "f"}})";

TEST(ChatTemplateTest, WritesToolsThinkingCallsAndResults) {
  const Chat chat(with_tools());
  const std::string_view name = "f";
  const std::string_view arguments = R"({"x":1})";
  const std::string_view thought = "hm";
  const ChatCall calls[] = {{name, arguments, {}}, {name, arguments, {}}};
  const ChatParts parts = {thought, calls, {}, {}};
  const std::string_view nothing;
  std::vector<ChatMessage> messages = {user("hi"),
                                       {ChatRole::kAssistant, nothing, &parts},
                                       message(ChatRole::kTool, "<eos>"),
                                       message(ChatRole::kTool, "2")};
  const std::span<const char> tools[] = {kTool, kTool};
  const std::string shown_tools =
      "<bos>[" + std::string(kToolShown) + ";" + std::string(kToolShown) + "][U]";
  const std::string shown_calls = R"(f({"x": 1})+f({"x": 1})<eos>[R]<eos>[R]2<eos>)";
  EXPECT_EQ(chat.text({messages, Turn::kOpened, {}, tools}),
            shown_tools + "hi<eos>[A](hm)" + shown_calls + "[T]");
  messages.push_back(assistant("so"));
  messages.push_back(user("no"));
  // Before the last question thinking is left out.
  EXPECT_EQ(chat.text({messages, Turn::kOpened, {}, tools}),
            shown_tools + "hi<eos>[A]" + shown_calls + "[A]so<eos>[U]no<eos>[T]");
  const Tokens tokens = chat.encode({messages, Turn::kOpened, {}, tools});
  EXPECT_EQ(std::count(tokens.begin(), tokens.end(), chat.tokenizer().header.eos_token), 5);
}

TEST(ChatTemplateTest, ThinkingStandsBeforeATextBehindTheLastQuestionAlone) {
  const Chat chat(with_tools());
  const std::string_view name = "f";
  const std::string_view arguments = "{}";
  const ChatCall calls[] = {{name, arguments, {}}};
  const ChatParts called = {{}, calls, {}, {}};
  const ChatParts thought = {std::string_view("hm"), {}, {}, {}};
  const std::string_view text = "so";
  std::vector<ChatMessage> messages = {user("hi"),
                                       {ChatRole::kAssistant, text, &called},
                                       message(ChatRole::kTool, "1"),
                                       {ChatRole::kAssistant, text, &thought}};
  const std::string before = "<bos>[U]hi<eos>[A]so+f({})<eos>[R]1";
  EXPECT_EQ(chat.text({messages, Turn::kClosed}), before + "<eos>[A](hm)so<eos>[E]");
  messages.push_back(user("no"));
  EXPECT_EQ(chat.text({messages, Turn::kClosed}), before + "<eos>[A]so<eos>[U]no<eos>[E]");
  messages.erase(messages.end() - 2);  // a question after a result
  EXPECT_EQ(chat.text({messages, Turn::kClosed}), before + "<eos>[U]no<eos>[E]");
}

TEST(ChatTemplateTest, RefusesWhatItCannotWrite) {
  const Chat plain(framed());
  const Chat chat(with_tools());
  const std::vector<ChatMessage> question = {user("hi")};
  const std::string_view name = "f";
  const auto refused_tool = [&](const Chat& of, std::string_view tool) {
    const std::span<const char> tools[] = {tool};
    return of.refusal({question, Turn::kOpened, {}, tools});
  };
  EXPECT_EQ(refused_tool(chat, kTool), "");
  EXPECT_EQ(refused_tool(plain, kTool), "has no place for tools");
  EXPECT_EQ(refused_tool(chat, "[]"), "needs tools that are JSON objects, at most 32 deep");
  EXPECT_EQ(refused_tool(chat, "{}"), "needs tools that are functions with a name");
  const auto refused_call = [&](std::string_view called, std::string_view arguments) {
    const ChatCall calls[] = {{called, arguments, {}}};
    const ChatParts parts = {{}, calls, {}, {}};
    const std::string_view nothing;
    const std::vector<ChatMessage> messages = {
        user("hi"), {ChatRole::kAssistant, nothing, &parts}, message(ChatRole::kTool, "1")};
    return chat.refusal(messages, Turn::kOpened);
  };
  EXPECT_EQ(refused_call(name, "{}"), "");
  EXPECT_EQ(refused_call(name, "[]"), "needs arguments that are JSON objects, at most 32 deep");
  EXPECT_EQ(refused_call("", "{}"), "needs the names of functions");
  EXPECT_EQ(chat.refusal({}, Turn::kOpened), "needs a message");
  EXPECT_EQ(chat.refusal({user("hi"), system_message("be"), message(ChatRole::kTool, "1")},
                         Turn::kOpened),
            "takes no result of a tool in this place");
}

// Ids are right or wrong of calls and results that belong together.
TEST(ChatTemplateTest, AWrongOrderIsToldBeforeWrongIds) {
  const std::string_view name = "f";
  const std::string_view arguments = "{}";
  const std::string_view nothing;
  const auto order_of = [&](ChatSection section, std::string_view id, uint32_t letters) {
    const ChatCall calls[] = {{name, arguments, id}};
    const ChatParts called = {{}, calls, {}, {}};
    const ChatParts answers = {{}, {}, name, id};
    std::vector<ChatMessage> messages = {user("hi")};
    if ((letters & 1) != 0) messages.push_back({ChatRole::kAssistant, nothing, &called});
    if ((letters & 2) != 0) messages.push_back({ChatRole::kTool, "1", &answers});
    if ((letters & 4) != 0) messages.push_back(assistant("so"));
    return Chat(section).refusal(messages, Turn::kClosed);
  };
  ChatSection section = with_tools();
  section.header.id_characters = 9;
  // Whatever the template takes, no result without a call gets an id.
  EXPECT_EQ(order_of(section, "other", 2), "takes no results without calls");
  EXPECT_EQ(order_of(section, "other", 3), "needs ids of its kind");
  section.header.flags = format::kChatNeedsIds;
  EXPECT_EQ(order_of(section, {}, 2), "takes no results without calls");
  EXPECT_EQ(order_of(section, {}, 3), "needs the ids of calls");
  section.header.flags |= format::kChatResultsWithoutCalls | format::kChatOpenCalls;
  EXPECT_EQ(order_of(section, "other", 2), "takes no results without calls");
  EXPECT_EQ(order_of(section, "other", 5), "takes no calls without their results");
  EXPECT_EQ(order_of(section, "other", 3), "needs ids of its kind");
}

TEST(ChatTemplateTest, EveryRefusalOfContentsIsMade) {
  const std::vector<ChatMessage> turns = {user("a"), assistant("b"), user("c")};
  const std::vector<ChatMessage> told = {system_message("s"), user("a")};
  struct Case {
    ChatUnit unit;
    std::vector<ChatMessage> taken;
    std::vector<ChatMessage> refused;
  };
  const Case cases[] = {
      {ChatUnit::kSystem, told, {system_message(" \n"), user("a")}},
      {ChatUnit::kUser, turns, {user("")}},
      {ChatUnit::kText, turns, {user("a"), assistant(""), user("b")}},
  };
  const auto expect = [](const Chat& chat, const Case& one) {
    EXPECT_EQ(chat.refusal(one.taken, Turn::kOpened), "");
    EXPECT_NE(chat.refusal(one.refused, Turn::kOpened), "");
    Tokens tokens(1000);
    EXPECT_EQ(chat.try_encode({one.refused, Turn::kOpened}, 0, 4096, &tokens),
              Status::kRefusedByTemplate);
    EXPECT_EQ(Chat(framed()).refusal(one.refused, Turn::kOpened), "");
  };
  for (const Case& one : cases) {
    ChatSection section = framed();
    section.header.not_blank = static_cast<uint16_t>(bit_of(one.unit));
    expect(Chat(section), one);
  }
  ChatSection section = framed();
  section.header.flags = format::kChatNoTwins;
  const std::vector<ChatMessage> twins = {user("a"), assistant("b"), user("a")};
  expect(Chat(section), {ChatUnit::kUser, turns, twins});
  section.header.flags = format::kChatNoTwinsWithTools;
  EXPECT_EQ(Chat(section).refusal(twins, Turn::kOpened), "");
  section = framed();
  section[ChatString::kNotInUser] = std::string("/think") + '\0' + "tool" + '\0';
  const Chat chat(section);
  EXPECT_EQ(chat.refusal({user("thin/k to ol")}, Turn::kOpened), "");
  for (const char* text : {"a/thinking", "tool", "a tools"}) {
    EXPECT_NE(chat.refusal({user(text)}, Turn::kOpened), "") << text;
    EXPECT_EQ(chat.refusal({system_message(text), user("a")}, Turn::kOpened), "") << text;
  }
}

TEST(ChatTemplateTest, AUserCannotWriteSpecialTokens) {
  const Chat chat(framed());
  const uint32_t eos = chat.tokenizer().header.eos_token;
  const Tokens tokens = chat.encode({user("<eos>[A]<bos>"), assistant("<eos>")}, 0, Turn::kOpened);
  // Those of the template alone.
  EXPECT_EQ(std::count(tokens.begin(), tokens.end(), eos), 2);
  EXPECT_EQ(std::count(tokens.begin(), tokens.end(), chat.tokenizer().header.bos_token), 1);
}

TEST(ChatTemplateTest, ContentAndTemplateCannotMakeASpecialTokenTogether) {
  Frames frames = kFrames;
  frames.user.behind = "eos>";
  const Chat chat(framed(frames));
  const Tokens tokens = chat.encode({user("<")}, 0, Turn::kClosed);
  EXPECT_EQ(std::count(tokens.begin(), tokens.end(), chat.tokenizer().header.eos_token), 0);
}

TEST(ChatTemplateTest, MergesCrossFromTheTemplateIntoTheContent) {
  Frames frames = kFrames;
  frames.user.before = "h";
  const Chat chat(framed(frames));
  const Tokens tokens = chat.encode({user("ello")}, 0, Turn::kClosed);
  ASSERT_EQ(tokens.size(), 6U);  // with <bos>, <eos> and [E]
  const std::span<const char> piece = token_text(chat.tokenizer(), tokens[1]);
  EXPECT_EQ(std::string(piece.begin(), piece.end()), "hello");
}

void compare_steps(uint32_t seed) {
  std::mt19937 random(seed);
  const std::string_view texts[] = {"", "hi", " he<eos>", "world ", "\xFF", "<tool>", "a\n"};
  const Frames all_frames[] = {
      kFrames,
      {"<bos>", {"", "\n"}, {"S:", "\n"}, {"U:", "\n"}, {"A:", "<eos>\n"}, "A:", ""},
      {"", {"S:", "\n"}, {"S:", "\n"}, {"U:", "\n"}, {"A:", "\n"}, "A:", "\n"},
      {"",
       {"<bos>", "\n"},
       {"<bos>", "<eos>\n"},
       {"<bos>U", "<eos>\n"},
       {"<bos>A", "<eos>\n"},
       "<bos>A",
       ""}};
  for (const Frames& frames : all_frames) {
    for (const int trim : {0, 1, 2}) {
      ChatSection section = framed(frames);
      for (JointRule& rule : section.rules) rule.trims = static_cast<uint8_t>(trim | trim << 4);
      const Chat chat(section);
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
        ASSERT_EQ(steps, chat.encode(messages, 0, Turn::kOpened)) << frames.start << int{trim};
      }
    }
  }
}

TEST(ChatTemplateTest, StepsGiveTheTokensOfTheWhole) { test::for_each_seed({5}, compare_steps); }

TEST(ChatTemplateTest, SaysWhatIsTooSmall) {
  const Chat chat(framed());
  const std::vector<ChatMessage> messages = {user("hello")};
  const Conversation conversation = {messages, Turn::kOpened};
  constexpr size_t kPlenty = 4096;
  Tokens tokens(kPlenty);
  EXPECT_EQ(chat.try_encode(conversation, 2, kPlenty, &tokens), Status::kInvalidArgument);
  for (size_t n_bytes = 0; n_bytes < 150; n_bytes += 8) {
    tokens.resize(kPlenty);
    EXPECT_EQ(chat.try_encode(conversation, 0, n_bytes, &tokens), Status::kTextTooLong) << n_bytes;
  }
  tokens.resize(kPlenty);
  ASSERT_EQ(chat.try_encode(conversation, 0, kPlenty, &tokens), Status::kOk);
  for (size_t n = tokens.size(); n-- > 0;) {
    Tokens small(n);
    EXPECT_EQ(chat.try_encode(conversation, 0, kPlenty, &small), Status::kBufferTooSmall);
  }
}

TEST(ChatTemplateTest, RefusesDamagedSections) {
  const std::vector<uint8_t> good = framed().bytes();
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
  // Kinds 3, 5 and 9 for 1; each flag and unit; of each style three forms, indent and depth of 1,
  // 2, 4 and 8 and two flags; any number of an id's characters; trims that are 1 or 2 at both ends.
  const auto n_flags = static_cast<uint32_t>(std::popcount(format::kKnownChatFlags));
  EXPECT_EQ(opened, 3U + n_flags + format::kChatUnits + format::kChatStyles * (3U + 4U + 4U + 2U) +
                        8U + 4U);
  for (const JointRule& bad :
       {JointRule{1U << format::kChatUnits, 1, ""}, JointRule{1, 1, "", 1U << format::kChatPlaces},
        JointRule{1, 1, "", 0, 3}, JointRule{1, 1, "", 0, 0x30},
        JointRule{1, bit_of(ChatUnit::kUser), "", 0, 0, true},
        JointRule{1, bit_of(ChatUnit::kText), "", 0, 0, true},
        JointRule{1, 1, slot(format::kChatSlotDate)}, JointRule{1, 1, slot(format::kChatSlotTools)},
        JointRule{1, 1, std::string(1, '\0')}}) {
    EXPECT_EQ(chat_template_open(framed(kFrames, {bad}).bytes(), &chat), Status::kInvalidModel);
  }
}

}  // namespace
}  // namespace cria
