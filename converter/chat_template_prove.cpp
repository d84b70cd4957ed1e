#include "converter/chat_template_prove.h"

#include <algorithm>
#include <iterator>
#include <random>

#include "converter/error.h"

namespace cria::converter {
namespace {

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
constexpr const char* kSpaces[] = {" ", " ", " ", "\n", "\n\n", "  ", "\t", " \n "};

class Generator {
 public:
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
    constexpr uint32_t kLongIn = 24;
    constexpr size_t kLong = 300;
    constexpr size_t kShort = 5;
    if (choose(kEmptyIn) == 0) return "";
    const size_t n = 1 + choose(choose(kLongIn) == 0 ? kLong : kShort);
    std::string text;
    if (choose(4) == 0) text += kSpaces[choose(std::size(kSpaces))];
    for (size_t i = 0; i < n; ++i) {
      if (i > 0) text += kSpaces[choose(std::size(kSpaces))];
      text += kWords[choose(std::size(kWords))];
    }
    if (choose(4) == 0) text += kSpaces[choose(std::size(kSpaces))];
    return text;
  }

  std::mt19937_64 random_{11};
};

}  // namespace

std::string shown_probe(const Probe& probe) {
  constexpr const char* kNames[] = {"system", "user", "assistant"};
  constexpr size_t kMostMessages = 6;
  constexpr size_t kMostBytes = 24;
  std::string text;
  for (size_t i = 0; i < std::min(probe.size(), kMostMessages); ++i) {
    const std::string& content = probe[i].content;
    const bool is_cut = content.size() > kMostBytes;
    if (i > 0) text += ", ";
    text += kNames[static_cast<size_t>(probe[i].role)];
    text += " '" + shown(content.substr(0, kMostBytes)) + (is_cut ? "...'" : "'");
  }
  if (probe.size() > kMostMessages) text += ", ...";
  return probe.empty() ? "no message" : text;
}

std::optional<Probe> find_difference(const StoredTemplate& stored,
                                     const TemplateRenderer& renderer) {
  constexpr size_t kPerLength = 50;  // conversations before they get longer
  constexpr size_t kDated = 40;
  constexpr CalendarDate kDates[] = {{2026, 2, 9}, {1999, 12, 31}};
  const bool has_date = !stored[format::ChatString::kDateFormat].empty();
  Generator generator;
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
  return std::nullopt;
}

}  // namespace cria::converter
