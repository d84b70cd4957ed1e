#include "converter/chat_template/tool_dialogues.h"

#include <iterator>
#include <map>
#include <random>
#include <string>
#include <utility>

#include "converter/chat_template/stored_form.h"
#include "quant/text/chat_template_format.h"

namespace cria::converter {
namespace {

constexpr const char* kTexts[] = {
    "a",     "What is a llama?", "Hello,\nworld", "42",  "\xC3\xA9t\xC3\xA9", "{{ messages }}",
    "\"q\"", "a < b > c",        "- one\n- two",  "user"};

constexpr const char* kOddTexts[] = {"",        " ",         " \n", "<think>\nr\n</think>\n\nq",
                                     "<think>", "r</think>q"};

constexpr const char* kTools[] = {
    R"({"type": "function", "function": {"name": "ping", "description": "Tell whether it answers.", "parameters": {"type": "object", "properties": {}}}})",
    R"({"type": "function", "function": {"name": "list_rooms", "description": "List the rooms."}})",
    R"({"type": "function", "function": {"name": "get_weather", "description": "The weather now, e.g. in Z\u00fcrich", "parameters": {"type": "object", "properties": {"city": {"type": "string", "description": "The city"}, "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"}}, "required": ["city"]}}})",
    R"({"type": "function", "function": {"name": "add", "description": "Adds \"numbers\".\nTwo lines, it's <b>", "parameters": {"type": "object", "properties": {"numbers": {"type": "array", "items": {"type": "number"}, "minItems": 1}, "precise": {"type": "boolean", "default": false}, "deep": {"type": "object", "properties": {"x": {"type": ["string", "null"]}}}}, "required": ["numbers"], "additionalProperties": false}, "strict": true}})",
};

constexpr const char* kArguments[] = {
    "{}",
    R"({"city": "Z\u00fcrich", "unit": "celsius"})",
    R"({"numbers": [1, 2.5, -3, 1e30, 0.10], "precise": true, "deep": {"x": null, "y": {}}})",
    R"({"text": "say \"it's\"\n\ttwice \\ <b> & \ud83e\udd99", "n": 42, "none": null, "list": []})",
};

constexpr const char* kResults[] = {"18 \xC2\xB0, light rain", "0.5",
                                    R"({"ok": true, "id": "<42>"})", " \"quoted\"\nand it's <b>\n"};

// What messages are made of.
class Maker {
 public:
  Maker(uint64_t seed, bool repeats_ids) : repeats_ids_(repeats_ids), random_(seed) {}

  // As the strictest templates want it.
  static std::string id_of(size_t call) {
    return "call000" + std::to_string(call / 10 % 10) + std::to_string(call % 10);
  }

  uint32_t choose(size_t n) { return static_cast<uint32_t>(random_() % n); }
  // is_odd: with texts that templates look for.
  void begin(bool is_odd) {
    n_calls_ = 0;
    is_odd_ = is_odd;
  }

  void add_tools(Dialogue* dialogue) {
    const size_t n = 1 + choose(3);
    for (size_t i = 0; i < n; ++i) dialogue->tools.emplace_back(kTools[choose(std::size(kTools))]);
  }
  std::string text() {
    if (is_odd_ && choose(3) == 0) return kOddTexts[choose(std::size(kOddTexts))];
    std::string text;
    if (choose(8) == 0) text += choose(2) == 0 ? "\n" : " ";
    const size_t n = 1 + choose(3);
    for (size_t i = 0; i < n; ++i) {
      if (i > 0) text += choose(4) == 0 ? "\n" : " ";
      text += kTexts[choose(std::size(kTexts))];
    }
    if (choose(8) == 0) text += choose(2) == 0 ? "\n\n" : " ";
    return text;
  }
  DialogueMessage message(ChatRole role) { return {role, text(), {}, {}, {}, {}}; }
  DialogueMessage answer() {
    DialogueMessage answer = message(ChatRole::kAssistant);
    if (choose(3) == 0) answer.thinking = text();
    return answer;
  }
  DialogueMessage calling() {
    DialogueMessage message = {ChatRole::kAssistant, {}, {}, {}, {}, {}};
    if (choose(3) == 0) message.content = text();
    if (choose(3) == 0) message.thinking = text();
    const size_t n = 1 + choose(choose(4) == 0 ? 3 : 2);
    for (size_t k = 0; k < n; ++k) {
      message.calls.push_back({k == 0 ? "get_weather" : "add",
                               kArguments[choose(std::size(kArguments))],
                               id_of(choose(repeats_ids_ ? 8 : 1) == 1 ? 0 : n_calls_++)});
    }
    return message;
  }
  DialogueMessage result(const DialogueCall& call) {
    const bool is_odd = is_odd_ && choose(3) == 0;
    return {
        ChatRole::kTool, is_odd ? text() : kResults[choose(std::size(kResults))], {}, {}, call.name,
        call.id};
  }
  // A question, rounds of calls and results, an answer; the last turn may end anywhere.
  void add_turn(size_t n_rounds, bool is_last, std::vector<DialogueMessage>* messages) {
    messages->push_back(message(ChatRole::kUser));
    for (size_t i = 0; i < n_rounds; ++i) {
      if (is_last && choose(5) == 0) return;
      DialogueMessage calls = calling();
      std::vector<DialogueMessage> results;
      for (const DialogueCall& call : calls.calls) results.push_back(result(call));
      messages->push_back(std::move(calls));
      if (is_last && choose(5) == 0) return;
      for (DialogueMessage& result : results) messages->push_back(std::move(result));
    }
    if (is_last && choose(2) == 0) return;
    messages->push_back(answer());
  }

 private:
  const bool repeats_ids_;
  size_t n_calls_ = 0;
  bool is_odd_ = false;
  std::mt19937_64 random_;
};

class Disorder {
 public:
  Disorder(Parts parts, bool switches)
      : with_calls_(parts != Parts::kTexts),
        with_tools_(parts == Parts::kAll),
        switches_(switches) {}

  Dialogue next() {
    Dialogue dialogue;
    make_.begin(false);
    if (with_tools_ && make_.choose(3) != 0) make_.add_tools(&dialogue);
    if (switches_) dialogue.thinking = static_cast<ChatThinking>(make_.choose(3));
    dialogue.opens_turn = make_.choose(2) == 0;
    if (make_.choose(4) == 0) {
      const size_t n = 1 + make_.choose(5);
      for (size_t i = 0; i < n; ++i) dialogue.messages.push_back(any());
      return dialogue;
    }
    if (make_.choose(2) == 0) dialogue.messages.push_back(make_.message(ChatRole::kSystem));
    const size_t n_turns = 1 + make_.choose(2);
    for (size_t i = 0; i < n_turns; ++i) {
      make_.add_turn(with_calls_ ? make_.choose(3) : 0, i + 1 == n_turns, &dialogue.messages);
    }
    disturb(&dialogue.messages);
    return dialogue;
  }

 private:
  using Messages = std::vector<DialogueMessage>;

  DialogueMessage any() {
    switch (make_.choose(with_calls_ ? 6 : 4)) {
      case 0:
        return make_.message(ChatRole::kSystem);
      case 1:
        return make_.message(ChatRole::kUser);
      case 2:
      case 3: {
        DialogueMessage answer = make_.answer();
        if (!with_calls_) answer.thinking.clear();
        return answer;
      }
      case 4:
        return make_.calling();
      default:
        return make_.result(
            {make_.choose(2) == 0 ? "get_weather" : "add", "{}", Maker::id_of(make_.choose(3))});
    }
  }
  void disturb(Messages* messages) {
    const auto at = messages->begin() + static_cast<std::ptrdiff_t>(make_.choose(messages->size()));
    switch (make_.choose(4)) {
      case 0:
        if (messages->size() > 1) messages->erase(at);
        return;
      case 1: {
        const DialogueMessage same = *at;
        messages->insert(at, 1 + make_.choose(2), same);
        return;
      }
      case 2:
        if (at + 1 != messages->end()) std::swap(*at, *(at + 1));
        return;
      default:
        messages->insert(at, any());
    }
  }

  const bool with_calls_;
  const bool with_tools_;
  const bool switches_;
  Maker make_{13, true};
};

// All that is several ways at once is one.
uint32_t known_way(uint32_t ways) {
  constexpr uint32_t kMany = format::kChatManyDisorders | format::kChatManyDisorders
                                                              << format::kChatPlain;
  return (ways & kMany) != 0 ? ways & kMany : ways;
}

}  // namespace

std::vector<Dialogue> tool_dialogues(bool switches_thinking) {
  constexpr size_t kConversations = 500;
  constexpr size_t kOddIn = 5;
  Maker make(12, false);
  std::vector<Dialogue> dialogues;
  for (size_t i = 0; i < kConversations; ++i) {
    Dialogue dialogue;
    make.begin(i % kOddIn == 0);
    if (make.choose(6) != 0) make.add_tools(&dialogue);
    if (make.choose(2) == 0) dialogue.messages.push_back(make.message(ChatRole::kSystem));
    const size_t n_turns = 1 + make.choose(3);
    for (size_t k = 0; k < n_turns; ++k) {
      make.add_turn(make.choose(3), k + 1 == n_turns, &dialogue.messages);
    }
    dialogue.opens_turn = make.choose(2) == 0;
    if (switches_thinking) dialogue.thinking = static_cast<ChatThinking>(make.choose(3));
    dialogues.push_back(std::move(dialogue));
  }
  return dialogues;
}

std::vector<Dialogue> crowded_dialogues(size_t n) {
  const DialogueMessage question = {ChatRole::kUser, "a", {}, {}, {}, {}};
  const auto result = [](const DialogueCall& call) {
    return DialogueMessage{ChatRole::kTool, "18", {}, {}, call.name, call.id};
  };
  Dialogue of_tools = {.messages = {question}};
  for (size_t i = 0; i < n; ++i) of_tools.tools.emplace_back(kTools[i % std::size(kTools)]);
  Dialogue of_calls = {.messages = {question}, .tools = {kTools[2]}};
  DialogueMessage calls = {ChatRole::kAssistant, {}, {}, {}, {}, {}};
  for (size_t i = 0; i < n; ++i) {
    calls.calls.push_back({"get_weather", kArguments[1], Maker::id_of(i)});
  }
  of_calls.messages.push_back(calls);
  for (const DialogueCall& call : calls.calls) of_calls.messages.push_back(result(call));
  Dialogue of_arguments = {.messages = {question}, .tools = {kTools[2]}};
  DialogueCall call = {"get_weather", "{", Maker::id_of(0)};
  for (size_t i = 0; i < n; ++i) {
    const std::string number = std::to_string(i);
    call.arguments.append(i == 0 ? "\"k" : ", \"k").append(number).append("\": ").append(number);
  }
  call.arguments += "}";
  of_arguments.messages.push_back({ChatRole::kAssistant, {}, {}, {call}, {}, {}});
  of_arguments.messages.push_back(result(call));
  return {of_tools, of_calls, of_arguments};
}

std::vector<Dialogue> disordered_dialogues(Parts parts, bool switches_thinking) {
  constexpr size_t kOfEach = 50;  // way, alone or several at once
  constexpr size_t kTries = 8000;
  Disorder disorder(parts, switches_thinking);
  std::map<uint32_t, size_t> n_known;
  std::vector<Dialogue> dialogues;
  for (size_t i = 0; i < kTries; ++i) {
    Dialogue dialogue = disorder.next();
    const uint32_t ways = disorder_of(dialogue);
    const bool is_known = ways == 0 || n_known[known_way(ways)]++ >= kOfEach;
    if (!is_known) dialogues.push_back(std::move(dialogue));
  }
  return dialogues;
}

}  // namespace cria::converter
