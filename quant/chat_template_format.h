// The chat template section of a model file: how a conversation becomes text.
//
// ChatTemplateHeader, then the strings, one after the other, as text that is encoded with added
// tokens recognised. A zero byte in a string stands for the date: what the caller says, else kDate.
//
// The text of a conversation is, one after the other:
//   kBegin; kNoSystem, unless the first message is the system's
//   per message       <role>_prefix content <role>_suffix
//   at the end        kTurn, which opens the assistant's turn (kTurnAfterAssistant behind an
//                     assistant's message), or kEnd where the turn is not opened
// A system message that is not the first has kLaterSystem strings. An assistant's message that is
// the last has kLastAssistant strings. With kChatSystemInUser the first system message and its
// strings, or kNoSystem, stand behind the kUserPrefix of the first user's message; with
// kChatSystemInLast behind that of the user's message that is the last of the conversation, and
// nowhere in one that ends otherwise.
//
// What a template refuses, or does that this form cannot say, is refused: no flag guesses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>

namespace cria::format {

// What ChatTemplateHeader::kind says, for people: where the template came from. 0: no template.
inline constexpr const char* kChatTemplateNames[] = {
    "none",    "own",    "file",   "chatml", "llama2", "llama3", "llama3.2",
    "mistral", "zephyr", "vicuna", "alpaca", "phi3",   "qwen3",  "granite"};
inline constexpr uint32_t kChatKindOwn = 1;    // of the checkpoint
inline constexpr uint32_t kChatKindFile = 2;   // of a file that was named
inline constexpr uint32_t kChatKindNamed = 3;  // the first of those that cria-convert has
inline constexpr uint32_t kChatKinds = std::size(kChatTemplateNames);

enum class ChatString : uint32_t {
  kBegin = 0,  // BOS is here and not added again
  kSystemPrefix = 1,
  kSystemSuffix = 2,
  kUserPrefix = 3,
  kUserSuffix = 4,
  kAssistantPrefix = 5,
  kAssistantSuffix = 6,
  kNoSystem = 7,
  kLaterSystemPrefix = 8,
  kLaterSystemSuffix = 9,
  kLastAssistantPrefix = 10,
  kLastAssistantSuffix = 11,
  kTurn = 12,
  kTurnAfterAssistant = 13,
  kEnd = 14,
  // These are no text of a conversation:
  kDate = 15,        // the date in the text, where nobody says another
  kDateFormat = 16,  // how strftime writes it; empty: no date
  // What contents of a role may not have in them: texts that each end with a zero byte.
  kNotInSystem = 17,
  kNotInUser = 18,
  kNotInAssistant = 19,
};
inline constexpr size_t kChatStrings = 20;
inline constexpr size_t kChatTexts = 15;  // those up to kEnd

// Bits of ChatTemplateHeader::flags.
inline constexpr uint32_t kChatSystemInUser = 1 << 0;
inline constexpr uint32_t kChatSystemInLast = 1 << 1;
inline constexpr uint32_t kChatTrimTogether = 1 << 2;  // a user's content is trimmed together with
                                                       // the system text that stands before it
inline constexpr uint32_t kChatDropThinking = 1 << 3;  // of an assistant's content only what is
                                                       // behind the last "</think>" counts
inline constexpr uint32_t kChatDropNewlines = 1 << 4;  // ... without newlines at its beginning
// Conversations that are refused:
inline constexpr uint32_t kChatNoSystem = 1 << 5;         // with a system message
inline constexpr uint32_t kChatOnlyFirstSystem = 1 << 6;  // with one that is not the first message
// whose others are not user, assistant, user...
inline constexpr uint32_t kChatAlternates = 1 << 7;
inline constexpr uint32_t kChatNeedsUser = 1 << 8;              // without a user's message
inline constexpr uint32_t kChatNotLastSystem = 1 << 9;          // that end with the system's
inline constexpr uint32_t kChatNotLastAssistant = 1 << 10;      // that end with the assistant's
inline constexpr uint32_t kChatNoTurnAfterAssistant = 1 << 11;  // ... whose turn is opened again
inline constexpr uint32_t kChatNoBlankSystem = 1 << 12;  // with a content of white space or nothing
inline constexpr uint32_t kChatNoBlankUser = 1 << 13;
inline constexpr uint32_t kChatNoBlankAssistant = 1 << 14;
inline constexpr uint32_t kKnownChatFlags = 0x7fff;

// What contents lose at an end: ChatTemplateHeader::trims has two bits for each of these, at
// ChatTrimPlace.
enum class ChatTrim : uint32_t { kNothing = 0, kSpace = 1, kNewlines = 2 };
enum class ChatTrimPlace : uint32_t {
  kSystemLeft = 0,
  kSystemRight = 2,
  kUserLeft = 4,
  kUserRight = 6,
  kAssistantLeft = 8,
  kAssistantRight = 10,
  kLastAssistantLeft = 12,
  kLastAssistantRight = 14,
};
inline constexpr uint32_t kChatTrimMask = 3;
inline constexpr uint32_t kChatTrimPlaces = 8;

inline constexpr uint32_t kMaxChatStringBytes = 1 << 12;
inline constexpr uint32_t kMaxChatDateBytes = 64;

struct ChatTemplateHeader {
  uint32_t kind;  // of kChatTemplateNames
  uint32_t flags;
  uint32_t trims;
  uint32_t string_bytes[kChatStrings];
  uint8_t reserved[4];
};
static_assert(sizeof(ChatTemplateHeader) == 96);

}  // namespace cria::format
