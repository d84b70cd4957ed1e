// The chat template's rules of quant/tokenizer_check.h, and those of control tokens.
#include <algorithm>
#include <cstring>

#include "quant/all_zero.h"
#include "quant/reason.h"
#include "quant/template_tokens.h"
#include "quant/tokenizer_check.h"
#include "quant/unicode.h"

namespace cria {
namespace {

using format::ChatString;
using format::ChatTemplateHeader;
using format::kNone;

constexpr const char* kUnknownControls = "text that no token has would give a control token"_reason;

bool is_trim(uint32_t trims, uint32_t place) {
  return (trims >> (place * 2) & format::kChatTrimMask) <=
         static_cast<uint32_t>(format::ChatTrim::kNewlines);
}

const char* check_header(const ChatTemplateHeader& header) {
  constexpr uint32_t kInside = format::kChatSystemInUser | format::kChatSystemInLast;
  if (header.kind == 0 || header.kind >= format::kChatKinds) return "its kind is unknown"_reason;
  if ((header.flags & ~format::kKnownChatFlags) != 0) return "it has unknown flags"_reason;
  if ((header.flags & kInside) == kInside) return "its system text has two places"_reason;
  if (header.trims >> (format::kChatTrimPlaces * 2) != 0)
    return "it trims what is no content"_reason;
  for (uint32_t place = 0; place < format::kChatTrimPlaces; ++place) {
    if (!is_trim(header.trims, place)) return "it trims in an unknown way"_reason;
  }
  for (const uint32_t n_bytes : header.string_bytes) {
    if (n_bytes > format::kMaxChatStringBytes) return "a string is too long"_reason;
  }
  return all_zero(header.reserved) ? nullptr : "reserved bytes are not zero"_reason;
}

bool has_zero(std::span<const char> text) {
  return std::find(text.begin(), text.end(), '\0') != text.end();
}

// Zero bytes stand where a date is to be, if there is one, and behind the texts of a list.
const char* check_zeros(const ChatTemplate& chat) {
  const std::span<const char> date = chat_string(chat, ChatString::kDate);
  const std::span<const char> date_format = chat_string(chat, ChatString::kDateFormat);
  if (date.size() > format::kMaxChatDateBytes) return "its date is too long"_reason;
  if (has_zero(date) || has_zero(date_format)) return "its date has a zero byte"_reason;
  if (date.empty() != date_format.empty())
    return "its date has no format, or the other way round"_reason;
  for (size_t i = 0; i < format::kChatTexts && date.empty(); ++i) {
    if (has_zero(chat_string(chat, static_cast<ChatString>(i))))
      return "a string has the place of a date and there is none"_reason;
  }
  for (const ChatString list :
       {ChatString::kNotInSystem, ChatString::kNotInUser, ChatString::kNotInAssistant}) {
    const std::span<const char> texts = chat_string(chat, list);
    if (!texts.empty() && texts.back() != '\0') return "a list of texts does not end"_reason;
  }
  return nullptr;
}

}  // namespace

const char* check_chat_template(std::span<const uint8_t> section, ChatTemplate* chat) {
  constexpr const char* kWrongSize = "its strings are not what its section holds"_reason;
  if (section.size() < sizeof(ChatTemplateHeader)) return "its section is too short"_reason;
  ChatTemplate result = {};
  std::memcpy(&result.header, section.data(), sizeof(result.header));
  if (const char* wrong = check_header(result.header)) return wrong;
  std::span<const uint8_t> rest = section.subspan(sizeof(result.header));
  for (size_t i = 0; i < format::kChatStrings; ++i) {
    const size_t n_bytes = result.header.string_bytes[i];
    if (n_bytes > rest.size()) return kWrongSize;
    result.strings[i] = reinterpret_cast<const char*>(rest.data());
    rest = rest.subspan(n_bytes);
  }
  if (!rest.empty()) return kWrongSize;
  if (const char* wrong = check_zeros(result)) return wrong;
  *chat = result;
  return nullptr;
}

bool is_control_text(const Tokenizer& tokenizer, uint32_t token) {
  std::span<const char> text = token_text(tokenizer, token);
  while (!text.empty()) {
    const Utf8Char c = decode_utf8(text.data(), text.size());
    if (!is_white_space(c.code) && c.code != kSpaceMark) return true;
    text = text.subspan(c.n_bytes);
  }
  return false;
}

uint32_t template_end_token(const Tokenizer& tokenizer, const ChatTemplate& chat) {
  uint32_t end = kNone;
  const std::span<const char> suffix = chat_string(chat, ChatString::kAssistantSuffix);
  visit_added(AddedTokens(tokenizer), suffix, false, [&](uint32_t token) {
    if (end == kNone && is_control_text(tokenizer, token)) end = token;
  });
  return end;
}

const char* check_control_tokens(const Tokenizer& tokenizer, const ChatTemplate* chat,
                                 const format::ModelScalars& config) {
  const uint32_t* const ends = config.end_tokens;
  const uint32_t* const behind = ends + config.n_end_tokens;
  for (const uint32_t* end = ends; end != behind; ++end) {
    if (*end < tokenizer.header.n_tokens && !token_text(tokenizer, *end).empty() &&
        !is_special(tokenizer, *end)) {
      return "an end token of the config is not special"_reason;
    }
    if (*end == tokenizer.header.unknown_token) return kUnknownControls;
  }
  if (chat == nullptr) return nullptr;
  const char* wrong = nullptr;
  visit_template_tokens(tokenizer, *chat, [&](uint32_t token) {
    if (!is_special(tokenizer, token))
      wrong = "an added token of the chat template is not special"_reason;
    if (token == tokenizer.header.unknown_token) wrong = kUnknownControls;
  });
  if (wrong != nullptr) return wrong;
  const uint32_t end = template_end_token(tokenizer, *chat);
  if (end != kNone && std::find(ends, behind, end) == behind) {
    return "the token that ends the chat template's answers is no end token of the config"_reason;
  }
  return nullptr;
}

}  // namespace cria
