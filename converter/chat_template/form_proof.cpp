#include "converter/chat_template/form_proof.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "converter/chat_template/tool_dialogues.h"

namespace cria::converter {
namespace {

using format::bit_of;
using format::ChatString;
using format::ChatUnit;

constexpr const char* kTexts[] = {
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

constexpr uint32_t kLongIn = 24;  // one of so many contents

std::vector<std::string> common_words() { return {std::begin(kTexts), std::end(kTexts)}; }

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

// As many tools, calls of a message and arguments as the template may count, and more than the
// others have.
std::vector<Dialogue> dialogues_of_crowds(const TemplateRenderer& renderer) {
  constexpr size_t kMany = 8;
  constexpr size_t kMost = 64;  // of numbers; those beyond are of tokens and texts
  std::set<size_t> crowds = {kMany};
  for (const size_t number : renderer.source().numbers) {
    if (number > 2 && number <= kMost) crowds.insert({number, number + 1, number + 2});
  }
  std::vector<Dialogue> dialogues;
  for (const size_t n : crowds) {
    for (Dialogue& dialogue : crowded_dialogues(n)) dialogues.push_back(std::move(dialogue));
  }
  return dialogues;
}

// What a form may refuse of a conversation: bits of kChatDisorderFlags, from kBlanks on units whose
// content is blank, from kWords on contents with a marker of thinking, a list and a marker each.
using Refusals = uint64_t;
constexpr uint32_t kBlanks = 32;
constexpr uint32_t kWords = kBlanks + format::kChatUnits;
constexpr const char* kThinkingMarkers[] = {"<think>", "</think>"};
constexpr size_t kMarkers = std::size(kThinkingMarkers);
constexpr ChatString kLists[] = {ChatString::kNotInSystem, ChatString::kNotInUser,
                                 ChatString::kNotInThinking, ChatString::kNotInText,
                                 ChatString::kNotInResult};

Refusals refusals_of(ChatUnit unit, ChatString list, const std::string& text) {
  Refusals refusals = 0;
  if (text.find_first_not_of(" \t\r\n\v\f") == std::string::npos) {
    refusals |= Refusals{bit_of(unit)} << kBlanks;
  }
  const auto index = static_cast<size_t>(std::find(std::begin(kLists), std::end(kLists), list) -
                                         std::begin(kLists));
  for (size_t i = 0; i < kMarkers; ++i) {
    if (text.find(kThinkingMarkers[i]) == std::string::npos) continue;
    refusals |= Refusals{1} << (kWords + index * kMarkers + i);
  }
  return refusals;
}

// Those that would refuse it.
Refusals refusals_of(const Dialogue& dialogue) {
  Refusals refusals = disorder_of(dialogue);
  for (const DialogueMessage& message : dialogue.messages) {
    switch (message.role) {
      case ChatRole::kSystem:
        refusals |= refusals_of(ChatUnit::kSystem, ChatString::kNotInSystem, message.content);
        break;
      case ChatRole::kUser:
        refusals |= refusals_of(ChatUnit::kUser, ChatString::kNotInUser, message.content);
        break;
      case ChatRole::kTool:
        refusals |= refusals_of(ChatUnit::kResult, ChatString::kNotInResult, message.content);
        break;
      case ChatRole::kAssistant: {
        const bool is_alone = message.thinking.empty() && message.calls.empty();
        if (!message.thinking.empty()) {
          refusals |=
              refusals_of(ChatUnit::kThinking, ChatString::kNotInThinking, message.thinking);
        }
        if (message.content.empty() && !message.calls.empty()) break;
        refusals |= refusals_of(is_alone ? ChatUnit::kText : ChatUnit::kCall,
                                ChatString::kNotInText, message.content);
      }
    }
  }
  return refusals;
}

void refuse(Refusals refusals, StoredTemplate* stored) {
  stored->flags |= static_cast<uint32_t>(refusals) & format::kChatDisorderFlags;
  stored->not_blank |=
      static_cast<uint32_t>(refusals >> kBlanks) & ((1U << format::kChatUnits) - 1);
  for (size_t i = 0; i < std::size(kLists) * kMarkers; ++i) {
    if ((refusals >> (kWords + i) & 1) == 0) continue;
    (*stored)[kLists[i / kMarkers]] += std::string(kThinkingMarkers[i % kMarkers]) + '\0';
  }
}

// What form and template make of conversations that the form does not refuse.
class Comparison {
 public:
  Comparison(const StoredTemplate& stored, const TemplateRenderer& renderer)
      : form_(stored), renderer_(renderer) {}

  void add(std::vector<Dialogue> dialogues) {
    const auto texts = render_all(renderer_, dialogues);
    for (size_t i = 0; i < dialogues.size(); ++i) {
      const auto text = form_.text(dialogues[i]);
      if (!text) continue;
      const Refusals refusals = refusals_of(dialogues[i]);
      all_.push_back({std::move(dialogues[i]), refusals, text == texts[i]});
    }
  }

  // The first that differs and that cannot be refused; nullopt: none.
  [[nodiscard]] std::optional<Dialogue> difference() const {
    for (const One& one : all_) {
      if (!one.is_equal && one.refusals == 0) return one.dialogue;
    }
    return std::nullopt;
  }
  // The first that differs and that a form does not refuse; nullopt: none.
  [[nodiscard]] std::optional<Dialogue> difference(const StoredForm& form) const {
    for (const One& one : all_) {
      if (!one.is_equal && form.text(one.dialogue)) return one.dialogue;
    }
    return std::nullopt;
  }

  // The fewest with which nothing else differs: of a conversation that may be refused for several
  // reasons, that by which the fewest are lost that do not differ. A form that says one disorder
  // wrongly is not trusted with several at once.
  [[nodiscard]] Refusals refusals() const {
    Refusals chosen = 0;
    for (const One& one : all_) {
      if (!one.is_equal && std::has_single_bit(one.refusals)) chosen |= one.refusals;
    }
    for (const One& one : all_) {
      if (!one.is_equal && (one.refusals & chosen) == 0) chosen |= cheapest(one.refusals, chosen);
    }
    constexpr Refusals kPlain = format::kChatPlainDisorders << format::kChatPlain;
    constexpr Refusals kOthers = format::kChatDisorderFlags & ~kPlain;
    if ((chosen & kPlain) != 0) chosen |= format::kChatManyDisorders << format::kChatPlain;
    if ((chosen & kOthers) != 0) chosen |= format::kChatManyDisorders;
    return chosen;
  }

 private:
  struct One {
    Dialogue dialogue;
    Refusals refusals;
    bool is_equal;
  };

  // One of the bits of refusals.
  [[nodiscard]] Refusals cheapest(Refusals refusals, Refusals chosen) const {
    Refusals best = 0;
    std::ptrdiff_t least = 0;
    for (Refusals rest = refusals; rest != 0; rest &= rest - 1) {
      const Refusals bit = rest & (~rest + 1);
      const auto loss = std::count_if(all_.begin(), all_.end(), [&](const One& one) {
        return one.is_equal && (one.refusals & chosen) == 0 && (one.refusals & bit) != 0;
      });
      if (best != 0 && loss >= least) continue;
      best = bit;
      least = loss;
    }
    return best;
  }

  const StoredForm form_;
  const TemplateRenderer& renderer_;
  std::vector<One> all_;
};

std::vector<Dialogue> plain_dialogues(bool has_date) {
  constexpr size_t kPerLength = 50;  // conversations before they get longer
  constexpr size_t kDated = 40;
  constexpr CalendarDate kDates[] = {{2026, 2, 9}, {1999, 12, 31}};
  Generator generator(common_words(), kLongIn);
  std::vector<Dialogue> dialogues;
  for (size_t i = 0; i < kProofConversations; ++i) {
    const Probe probe = generator.next(1 + i / kPerLength);
    add_both(probe, &dialogues);
    if (!has_date || i >= kDated) continue;
    for (const CalendarDate& date : kDates)
      dialogues.push_back(dialogue_of(probe, i % 2 == 0, date));
  }
  return dialogues;
}

}  // namespace

std::optional<Dialogue> prove_form(const TemplateRenderer& renderer, bool with_tools,
                                   StoredTemplate* stored) {
  const bool switches = switches_thinking(renderer.source().reads);
  Comparison comparison(*stored, renderer);
  // What differs most often comes first, so that less is rendered in vain.
  if (with_tools) {
    comparison.add(tool_dialogues(switches));
    comparison.add(dialogues_of_crowds(renderer));
    if (auto found = comparison.difference()) return found;
  }
  comparison.add(plain_dialogues(!(*stored)[ChatString::kDateFormat].empty()));
  comparison.add(dialogues_of_words(*stored, renderer));
  comparison.add(dialogues_of_numbers(renderer));
  if (auto found = comparison.difference()) return found;
  comparison.add(disordered_dialogues(Parts::kTexts, switches));
  if (with_tools) {
    const bool has_tools = !(*stored)[ChatString::kTool].empty();
    comparison.add(disordered_dialogues(has_tools ? Parts::kAll : Parts::kCalls, switches));
  }
  refuse(comparison.refusals(), stored);
  return comparison.difference(StoredForm(*stored));
}

}  // namespace cria::converter
