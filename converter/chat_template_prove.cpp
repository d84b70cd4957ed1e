#include "converter/chat_template_prove.h"

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

std::string shown_probe(const Probe& probe) {
  constexpr size_t kMostMessages = 6;
  constexpr size_t kMostBytes = 24;
  std::string text;
  for (size_t i = 0; i < std::min(probe.size(), kMostMessages); ++i) {
    const std::string& content = probe[i].content;
    const bool is_cut = content.size() > kMostBytes;
    if (i > 0) text += ", ";
    text += kChatRoleNames[static_cast<size_t>(probe[i].role)];
    text += " '" + shown(content.substr(0, kMostBytes)) + (is_cut ? "...'" : "'");
  }
  if (probe.size() > kMostMessages) text += ", ...";
  return probe.empty() ? "no message" : text;
}

namespace {

constexpr uint32_t kLongIn = 24;  // one of so many contents

std::vector<std::string> common_words() { return {std::begin(kWords), std::end(kWords)}; }

bool agrees_both(const StoredTemplate& stored, const TemplateRenderer& renderer,
                 const Probe& probe) {
  return agrees(stored, renderer, probe, true) && agrees(stored, renderer, probe, false);
}

// What the template looks for in contents and the form does not refuse, several at once.
std::optional<Probe> find_difference_by_words(const StoredTemplate& stored,
                                              const TemplateRenderer& renderer) {
  constexpr size_t kConversations = 100;
  constexpr size_t kMostMessages = 4;
  constexpr uint32_t kOftenLong = 3;
  std::vector<std::string> words = common_words();
  for (const std::string& word : renderer.source().tested) {
    bool is_refused = word.empty();
    for (const ChatString list :
         {ChatString::kNotInSystem, ChatString::kNotInUser, ChatString::kNotInAssistant}) {
      is_refused |= ('\0' + stored[list]).find('\0' + word + '\0') != std::string::npos;
    }
    if (!is_refused) words.push_back(word);
  }
  Generator generator(std::move(words), kOftenLong);
  for (size_t i = 0; i < kConversations; ++i) {
    const Probe probe = generator.next(1 + i % kMostMessages);
    if (!agrees_both(stored, renderer, probe)) return probe;
  }
  return std::nullopt;
}

// As many messages as the template may count.
std::optional<Probe> find_difference_by_numbers(const StoredTemplate& stored,
                                                const TemplateRenderer& renderer) {
  constexpr size_t kMostNumbers = 32;
  constexpr size_t kLargestNumber = 512;
  constexpr size_t kAround = 3;
  std::set<size_t> lengths;
  for (const size_t number : renderer.source().numbers) {
    if (number > kLargestNumber) throw std::runtime_error("it counts further than to 512");
    for (size_t n = number > 0 ? number - 1 : 0; n <= number + kAround; ++n) lengths.insert(n);
  }
  if (lengths.size() > kMostNumbers * kAround) throw std::runtime_error("it has too many numbers");
  for (const size_t length : lengths) {
    Probe probe;
    for (size_t i = 0; i < length; ++i) {
      probe.push_back({i % 2 == 0 ? ChatRole::kUser : ChatRole::kAssistant, "a"});
    }
    if (!agrees_both(stored, renderer, probe)) return probe;
    probe.insert(probe.begin(), {ChatRole::kSystem, "b"});
    if (!agrees_both(stored, renderer, probe)) return probe;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Probe> find_difference(const StoredTemplate& stored,
                                     const TemplateRenderer& renderer) {
  constexpr size_t kPerLength = 50;  // conversations before they get longer
  constexpr size_t kDated = 40;
  constexpr CalendarDate kDates[] = {{2026, 2, 9}, {1999, 12, 31}};
  const bool has_date = !stored[ChatString::kDateFormat].empty();
  Generator generator(common_words(), kLongIn);
  for (size_t i = 0; i < kProofConversations; ++i) {
    const Probe probe = generator.next(1 + i / kPerLength);
    for (const bool opens_turn : {true, false}) {
      if (!agrees(stored, renderer, probe, opens_turn)) return probe;
      if (!has_date || i >= kDated) continue;
      for (const CalendarDate& date : kDates) {
        if (!agrees(stored, renderer, probe, opens_turn, date)) return probe;
      }
    }
  }
  if (auto probe = find_difference_by_words(stored, renderer)) return probe;
  return find_difference_by_numbers(stored, renderer);
}

}  // namespace cria::converter
