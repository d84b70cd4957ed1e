// The chat template section of a model file: how a conversation becomes text.
//
// ChatTemplateHeader, then the strings, one after the other, as text that is encoded with added
// tokens recognised. A conversation is
//   begin, then per message  <role>_prefix content <role>_suffix, then at its turn the
//   assistant's generation prefix = kAssistantPrefix (unless kChatOpenTurnEmpty).
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>

namespace cria::format {

enum class ChatTemplateKind : uint32_t {
  kLlama3 = 1,
  kLlama32 = 2,  // always has a system message, which starts with two dates
  kLlama2 = 3,   // system folded into the first user message
  kMistral = 4,  // [INST]; system text goes before the user's
  kChatMl = 5,
  kZephyr = 6,  // <|user|> ... </s>, TinyLlama
  kGranite = 7,
};

// Names of the kinds, by their values; 0: no template.
inline constexpr const char* kChatTemplateNames[] = {"none",    "llama3", "llama3.2", "llama2",
                                                     "mistral", "chatml", "zephyr",   "granite"};
static_assert(std::size(kChatTemplateNames) == static_cast<size_t>(ChatTemplateKind::kGranite) + 1);

enum class ChatString : uint32_t {
  kBegin = 0,  // once, before everything; BOS is here and not added again
  kSystemPrefix = 1,
  kSystemSuffix = 2,
  kUserPrefix = 3,
  kUserSuffix = 4,
  kAssistantPrefix = 5,
  kAssistantSuffix = 6,
  kDefaultSystem = 7,  // content of the system message when the caller gives none
};
inline constexpr size_t kChatStrings = 8;

// Bits of ChatTemplateHeader::flags.
inline constexpr uint32_t kChatTrim = 1 << 0;          // contents lose leading and trailing space
inline constexpr uint32_t kChatAlwaysSystem = 1 << 1;  // a system message even without a text
inline constexpr uint32_t kChatSystemInUser = 1 << 2;  // system message stands inside the first
                                                       // user message, behind kUserPrefix
inline constexpr uint32_t kChatOpenTurnEmpty = 1
                                               << 3;  // the assistant's turn is opened by nothing:
                                                      // kAssistantPrefix is only in history
inline constexpr uint32_t kKnownChatFlags = 0x0f;
inline constexpr uint32_t kMaxChatStringBytes = 1 << 12;

struct ChatTemplateHeader {
  uint32_t kind;  // ChatTemplateKind, for people
  uint32_t flags;
  uint32_t string_bytes[kChatStrings];
  uint8_t reserved[24];
};
static_assert(sizeof(ChatTemplateHeader) == 64);

}  // namespace cria::format
