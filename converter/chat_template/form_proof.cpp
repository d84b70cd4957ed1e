#include "converter/chat_template/form_proof.h"

#include <algorithm>
#include <iterator>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "converter/error.h"

namespace cria::converter {
namespace {

using format::ChatString;

constexpr const char* kWords[] = {
    "a",
    "What is a llama?",
    "Hello,",
    "42",
    "don't",
    "\xC3\xA9t\xC3\xA9",
    "\xE7\xBE\x8A\xE9\xA9\xBC",
    "\xF0\x9F\xA6\x99",
    "\xD9\x85\xD8\xB1\xD8\xAD\xD8\xA8\xD8\xA7",
    "{{ messages }}",
    "{% if x %}",
    "'quoted'",
    "\"twice\"",
    "\\n",
    "<|im_end|>",
    "<|eot_id|>",
    "[/INST]",
    "</s>",
    "<s>",
    "<<SYS>>",
    "user",
    "assistant:",
    "system\n",
    "### Instruction:",
    "a < b > c",
    "&amp;",
    "$x$",
    "-",
    "#",
};
constexpr const char* kSpaces[] = {
    " ",  " ",  " ",    " ",    " ",  "\n",   "\n",       "\n",           "\n\n",
    "  ", "\t", " \n ", "\r\n", "\r", "\v\f", "\xC2\xA0", "\xE3\x80\x80", "\x1c"};

class Generator {
 public:
  explicit Generator(std::vector<std::string> words, uint32_t long_in)
      : words_(std::move(words)), long_in_(long_in) {}

  Probe next(size_t n_messages) {
    constexpr uint32_t kSystemIn = 2;  // one of so many conversations
    constexpr uint32_t kDisorderIn = 8;
    Probe probe;
    if (choose(kSystemIn) == 0) probe.push_back({ChatRole::kSystem, content()});
    const bool is_disordered = choose(kDisorderIn) == 0;
    for (size_t i = 0; i < n_messages; ++i) {
      const auto role = is_disordered ? choose(3) : i % 2 == 0 ? 1 : 2;
      probe.push_back({static_cast<ChatRole>(role), content()});
    }
    return probe;
  }

 private:
  // Below n: the library's distributions differ between platforms.
  uint32_t choose(size_t n) { return static_cast<uint32_t>(random_() % n); }

  std::string content() {
    constexpr uint32_t kEmptyIn = 16;
    constexpr uint32_t kSameIn = 12;  // as the content before
    constexpr size_t kLong = 300;
    constexpr size_t kShort = 5;
    if (choose(kEmptyIn) == 0) return "";
    if (choose(kSameIn) == 0) return last_;
    const size_t n = 1 + choose(choose(long_in_) == 0 ? kLong : kShort);
    std::string text;
    if (choose(4) == 0) text += kSpaces[choose(std::size(kSpaces))];
    for (size_t i = 0; i < n; ++i) {
      if (i > 0) text += kSpaces[choose(std::size(kSpaces))];
      text += words_[choose(words_.size())];
    }
    if (choose(4) == 0) text += kSpaces[choose(std::size(kSpaces))];
    last_ = text;
    return text;
  }

  const std::vector<std::string> words_;
  const uint32_t long_in_;
  std::string last_;
  std::mt19937_64 random_{11};
};

}  // namespace

namespace {

constexpr uint32_t kLongIn = 24;  // one of so many contents

std::vector<std::string> common_words() { return {std::begin(kWords), std::end(kWords)}; }

// The first of them for which the form gives another text than the template.
std::optional<Dialogue> first_difference(const StoredForm& form, const TemplateRenderer& renderer,
                                         const std::vector<Dialogue>& dialogues) {
  const auto texts = render_all(renderer, dialogues);
  for (size_t i = 0; i < dialogues.size(); ++i) {
    const auto text = form.text(dialogues[i]);
    if (text && text != texts[i]) return dialogues[i];
  }
  return std::nullopt;
}

void add_both(const Probe& probe, std::vector<Dialogue>* dialogues) {
  for (const bool opens_turn : {true, false}) dialogues->push_back(dialogue_of(probe, opens_turn));
}

// What the template looks for in contents and the form does not refuse, several at once.
std::vector<Dialogue> dialogues_of_words(const StoredTemplate& stored,
                                         const TemplateRenderer& renderer) {
  constexpr size_t kConversations = 100;
  constexpr size_t kMostMessages = 4;
  constexpr uint32_t kOftenLong = 3;
  std::vector<std::string> words = common_words();
  for (const std::string& word : renderer.source().tested) {
    bool is_refused = word.empty();
    for (const ChatString list :
         {ChatString::kNotInSystem, ChatString::kNotInUser, ChatString::kNotInText}) {
      is_refused |= ('\0' + stored[list]).find('\0' + word + '\0') != std::string::npos;
    }
    if (!is_refused) words.push_back(word);
  }
  Generator generator(std::move(words), kOftenLong);
  std::vector<Dialogue> dialogues;
  for (size_t i = 0; i < kConversations; ++i) {
    add_both(generator.next(1 + i % kMostMessages), &dialogues);
  }
  return dialogues;
}

// As many messages as the template may count.
std::vector<Dialogue> dialogues_of_numbers(const TemplateRenderer& renderer) {
  constexpr size_t kMostNumbers = 32;
  constexpr size_t kLargestNumber = 512;
  constexpr size_t kAround = 3;
  std::set<size_t> lengths;
  for (const size_t number : renderer.source().numbers) {
    if (number > kLargestNumber) throw std::runtime_error("it counts further than to 512");
    for (size_t n = number > 0 ? number - 1 : 0; n <= number + kAround; ++n) lengths.insert(n);
  }
  if (lengths.size() > kMostNumbers * kAround) throw std::runtime_error("it has too many numbers");
  std::vector<Dialogue> dialogues;
  for (const size_t length : lengths) {
    Probe probe;
    for (size_t i = 0; i < length; ++i) {
      probe.push_back({i % 2 == 0 ? ChatRole::kUser : ChatRole::kAssistant, "a"});
    }
    add_both(probe, &dialogues);
    probe.insert(probe.begin(), {ChatRole::kSystem, "b"});
    add_both(probe, &dialogues);
  }
  return dialogues;
}

}  // namespace

std::optional<Dialogue> find_difference(const StoredTemplate& stored,
                                        const TemplateRenderer& renderer) {
  constexpr size_t kPerLength = 50;  // conversations before they get longer
  constexpr size_t kDated = 40;
  constexpr CalendarDate kDates[] = {{2026, 2, 9}, {1999, 12, 31}};
  const StoredForm form(stored);
  const bool has_date = !stored[ChatString::kDateFormat].empty();
  Generator generator(common_words(), kLongIn);
  std::vector<Dialogue> dialogues;
  for (size_t i = 0; i < kProofConversations; ++i) {
    const Probe probe = generator.next(1 + i / kPerLength);
    add_both(probe, &dialogues);
    if (!has_date || i >= kDated) continue;
    for (const CalendarDate& date : kDates)
      dialogues.push_back(dialogue_of(probe, i % 2 == 0, date));
  }
  if (auto found = first_difference(form, renderer, dialogues)) return found;
  if (auto found = first_difference(form, renderer, dialogues_of_words(stored, renderer))) {
    return found;
  }
  return first_difference(form, renderer, dialogues_of_numbers(renderer));
}

// With tools -------------------------------------------------------------------------------------

namespace {

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

constexpr const char* kResults[] = {
    "18 \xC2\xB0"
    "C, light rain",
    "0.5", R"({"ok": true, "id": "<42>"})", " \"quoted\"\nand it's <b>\n"};

class ToolGenerator {
 public:
  explicit ToolGenerator(bool switches) : switches_(switches) {}

  Dialogue next() {
    Dialogue dialogue;
    n_calls_ = 0;
    if (choose(6) != 0) {
      const size_t n = 1 + choose(3);
      for (size_t i = 0; i < n; ++i) dialogue.tools.emplace_back(kTools[choose(std::size(kTools))]);
    }
    if (choose(2) == 0) add(&dialogue, ChatRole::kSystem);
    const size_t n_turns = 1 + choose(3);
    for (size_t i = 0; i < n_turns; ++i) add_turn(&dialogue, i + 1 == n_turns);
    dialogue.opens_turn = choose(2) == 0;
    if (switches_) dialogue.thinking = static_cast<ChatThinking>(choose(3));
    return dialogue;
  }

 private:
  uint32_t choose(size_t n) { return static_cast<uint32_t>(random_() % n); }
  std::string text() {
    std::string text;
    if (choose(8) == 0) text += choose(2) == 0 ? "\n" : " ";
    const size_t n = 1 + choose(4);
    for (size_t i = 0; i < n; ++i) {
      if (i > 0) text += choose(4) == 0 ? "\n" : " ";
      text += kWords[choose(std::size(kWords))];
    }
    if (choose(8) == 0) text += choose(2) == 0 ? "\n\n" : " ";
    return text;
  }
  void add(Dialogue* dialogue, ChatRole role) {
    dialogue->messages.push_back({role, text(), {}, {}, {}, {}});
  }
  // A question, rounds of calls and results, an answer; the last turn may end anywhere.
  void add_turn(Dialogue* dialogue, bool is_last) {
    add(dialogue, ChatRole::kUser);
    const size_t n_rounds = choose(3);
    for (size_t i = 0; i < n_rounds; ++i) {
      if (is_last && choose(6) == 0) return;
      DialogueMessage message = {ChatRole::kAssistant, {}, {}, {}, {}, {}};
      if (choose(3) == 0) message.content = text();
      if (choose(3) == 0) message.thinking = text();
      const size_t n = 1 + choose(2);
      std::vector<DialogueMessage> results;
      for (size_t k = 0; k < n; ++k) {
        const std::string id = "call0000" + std::to_string(n_calls_++ % 10);
        const std::string name = k == 0 ? "get_weather" : "add";
        message.calls.push_back({name, kArguments[choose(std::size(kArguments))], id});
        results.push_back(
            {ChatRole::kTool, kResults[choose(std::size(kResults))], {}, {}, name, id});
      }
      dialogue->messages.push_back(std::move(message));
      if (is_last && choose(6) == 0) return;
      for (DialogueMessage& result : results) dialogue->messages.push_back(std::move(result));
    }
    if (is_last && choose(2) == 0) return;
    add(dialogue, ChatRole::kAssistant);
    if (choose(3) == 0) dialogue->messages.back().thinking = text();
  }

  const bool switches_;
  size_t n_calls_ = 0;
  std::mt19937_64 random_{12};
};

}  // namespace

std::optional<Dialogue> find_difference_with_tools(const StoredTemplate& stored,
                                                   const TemplateRenderer& renderer) {
  constexpr size_t kConversations = 250;
  ToolGenerator generator(switches_thinking(renderer.source().reads));
  std::vector<Dialogue> dialogues;
  for (size_t i = 0; i < kConversations; ++i) dialogues.push_back(generator.next());
  return first_difference(StoredForm(stored), renderer, dialogues);
}

}  // namespace cria::converter
