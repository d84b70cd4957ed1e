// How a model writes calls of tools, thinking and text into its answers.
//
// CallFormatHeader, then the strings, one after the other. A list is texts that each end with a
// zero byte. Blanks at the ends of a string, and runs of them inside, stand for any blanks, or
// none; but a newline that ends kKeyEnd or begins kValueEnd is no part of the value between them.
//
// An answer is text. It may have parts of thinking, between texts of kThinkingBegin and
// kThinkingEnd. Texts of kAnswerBegin and kAnswerEnd are no part of it. Calls are
//
//   kStart  { kCallBegin  a call  kCallEnd }  kEnd
//
// where a program does without kCallEnd and kEnd when they are missing. A call is, by its kind:
//   kJson, kPython  an object that has members kNameKeys, kArgumentsKeys and maybe kIdKeys, or
//                   name(key=value, ...); several stand one after another, or in [] with commas
//   kNamed          a header, then the arguments as an object
//   kTagged         a header, then kKeyBegin key kKeyEnd value kValueEnd for each argument
// A header is: an id and kNameBegin, or nothing; the name; kIdBegin and an id, or nothing; then
// kArgumentsBegin. Where that is empty, the first byte that is no part of a name ends it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace cria::format {

// kNoCalls: the model calls no tools, and the strings say how it thinks and answers.
enum class CallKind : uint32_t { kNoCalls = 0, kJson = 1, kPython = 2, kNamed = 3, kTagged = 4 };
inline constexpr uint32_t kCallKinds = 5;

enum class CallString : uint32_t {
  // Lists:
  kThinkingBegin = 0,
  kThinkingEnd = 1,
  kAnswerBegin = 2,  // also ends thinking
  kAnswerEnd = 3,
  kStart = 4,
  kNameKeys = 5,
  kArgumentsKeys = 6,
  kIdKeys = 7,
  // Texts:
  kCallBegin = 8,
  kNameBegin = 9,
  kIdBegin = 10,
  kArgumentsBegin = 11,
  kKeyBegin = 12,
  kKeyEnd = 13,
  kValueEnd = 14,
  kCallEnd = 15,
  kEnd = 16,
  kStringMark = 17,  // stands around strings in arguments, whose keys have no quotes
};
inline constexpr size_t kCallStrings = 18;
inline constexpr size_t kCallLists = 8;

// Bits of CallFormatHeader::flags.
inline constexpr uint32_t kCallsBare = 1 << 0;       // also without kStart, where an answer begins
inline constexpr uint32_t kCallsNameIsKey = 1 << 1;  // kJson: {name: arguments}
inline constexpr uint32_t kCallsIdHoldsName = 1
                                              << 2;  // the header without kArgumentsBegin is the id
// From this bit on, eight of them: ids have so many letters and digits; 0: any.
inline constexpr uint32_t kCallIdCharacters = 8;
inline constexpr uint32_t kMostCallIdCharacters = 64;
inline constexpr uint32_t kKnownCallFlags = 0x7 | 0xff << kCallIdCharacters;

inline constexpr size_t kMostCallTextBytes = 96;
inline constexpr size_t kMostCallTexts = 8;  // of a list

struct CallFormatHeader {
  uint32_t kind;
  uint32_t flags;
  uint32_t string_bytes[kCallStrings];
};
static_assert(sizeof(CallFormatHeader) == 80);

}  // namespace cria::format

namespace cria {

// What check_call_format has accepted.
struct CallFormat {
  format::CallKind kind;
  uint32_t flags;
  std::array<std::string_view, format::kCallStrings> strings;

  [[nodiscard]] std::string_view text(format::CallString string) const {
    return strings[static_cast<size_t>(string)];
  }
  [[nodiscard]] bool has(uint32_t flag) const { return (flags & flag) != 0; }
  [[nodiscard]] uint8_t id_characters() const {
    return static_cast<uint8_t>(flags >> format::kCallIdCharacters);
  }
};

// Takes the next text off the front of a list that is not empty.
[[nodiscard]] std::string_view next_call_text(std::string_view* list);

[[nodiscard]] constexpr bool is_call_blank(char c) {
  return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

// Without blanks at its ends.
[[nodiscard]] std::string_view without_blanks(std::string_view text);

// Checks every length, list and kind of stored bytes, and points call_format into them. Returns
// null, or the rule that does not hold: static text that reads on from "the form of calls: ".
[[nodiscard]] const char* check_call_format(std::span<const uint8_t> stored,
                                            CallFormat* call_format);

}  // namespace cria
