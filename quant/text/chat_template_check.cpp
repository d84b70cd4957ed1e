// The chat template's rules of quant/text/tokenizer_check.h, and those of control tokens.
#include <algorithm>
#include <cstring>
#include <string_view>

#include "quant/format/reason.h"
#include "quant/text/call_format.h"
#include "quant/text/template_tokens.h"
#include "quant/text/tokenizer_check.h"
#include "quant/text/unicode.h"

namespace cria {
namespace {

using format::ChatRule;
using format::ChatString;
using format::ChatTemplateHeader;
using format::ChatUnit;
using format::kNone;

constexpr const char* kUnknownControls =
    "a text outside its tokens would give a control token"_reason;

bool is_style(const format::ChatValueStyle& style, size_t place) {
  const bool has_tags = style.form == format::ChatValueForm::kTags;
  if (has_tags || style.form == format::ChatValueForm::kMembers) {
    const uint32_t known = has_tags ? format::kChatOwnLists : 0;
    return place == static_cast<size_t>(format::ChatStyle::kTool) && style.indent == 0 &&
           style.depth == 0 && (style.flags & ~known) == 0;
  }
  return static_cast<uint8_t>(style.form) < format::kChatValueForms &&
         style.indent <= format::kMostChatIndent && style.depth <= format::kMostChatDepth &&
         (style.flags & ~format::kKnownChatValueFlags) == 0;
}

bool is_trim(uint32_t trim) { return trim < format::kChatTrims; }
bool are_trims(uint8_t trims) { return is_trim(trims & 0xf) && is_trim(trims >> 4); }

const char* check_header(const ChatTemplateHeader& header) {
  if (header.kind == 0 || header.kind >= format::kChatKinds) return "its kind is unknown"_reason;
  if ((header.flags & ~format::kKnownChatFlags) != 0) return "it has unknown flags"_reason;
  if (header.n_rules > format::kMaxChatRules) return "it has too many rules"_reason;
  if (header.not_blank >> format::kChatUnits != 0) return "it has an unknown unit"_reason;
  if (!are_trims(header.result_trims)) return "it trims in an unknown way"_reason;
  for (size_t i = 0; i < format::kChatStyles; ++i) {
    if (!is_style(header.styles[i], i)) return "it writes values in an unknown way"_reason;
  }
  for (size_t i = 0; i < format::kChatStrings; ++i) {
    const bool is_joints = i == static_cast<size_t>(ChatString::kJoints);
    const uint32_t most = is_joints ? format::kMaxChatJointBytes : format::kMaxChatStringBytes;
    if (header.string_bytes[i] > most) return "a string is too long"_reason;
  }
  return nullptr;
}

const char* check_rules(const ChatTemplate& chat) {
  const bool moves_system = (chat.header.flags & format::kChatSystemInLast) != 0;
  const uint32_t may_be_left_out = bit_of(ChatUnit::kThinking) | bit_of(ChatUnit::kText) |
                                   bit_of(ChatUnit::kCall) |
                                   (moves_system ? bit_of(ChatUnit::kSystem) : 0);
  // A text is left out only beside calls: where messages begin does not depend on it.
  constexpr uint32_t kHasCalls = format::kChatHasCalls << format::kChatRight;
  for (size_t i = 0; i < chat.header.n_rules; ++i) {
    const ChatRule rule = chat_rule(chat, i);
    const uint32_t n_joints = chat.header.string_bytes[static_cast<size_t>(ChatString::kJoints)];
    if (((rule.left | rule.right) >> format::kChatUnits) != 0)
      return "it has an unknown unit"_reason;
    if (rule.places >> format::kChatPlaces != 0 || (rule.values & ~rule.places) != 0)
      return "it has an unknown place"_reason;
    if (rule.text > n_joints || rule.n_bytes > n_joints - rule.text)
      return "a joint reaches past the strings"_reason;
    if (!are_trims(rule.trims)) return "it trims in an unknown way"_reason;
    if (rule.leaves_out > 1) return "a rule has an unknown action"_reason;
    if (rule.leaves_out == 0) continue;
    const bool is_text = (rule.right & bit_of(ChatUnit::kText)) != 0;
    if ((rule.right & ~may_be_left_out) != 0 || (is_text && (rule.values & kHasCalls) == 0))
      return "it leaves out a part that must stay"_reason;
  }
  return nullptr;
}

bool has_zero(std::span<const char> text) {
  return std::find(text.begin(), text.end(), '\0') != text.end();
}

// Whether after every zero byte stands one of the letters, most of them at most.
bool slots_hold(std::span<const char> text, std::string_view letters, uint32_t most) {
  uint32_t n = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\0') continue;
    ++i;
    if (i == text.size() || letters.find(text[i]) == std::string_view::npos || ++n > most)
      return false;
  }
  return true;
}

const char* check_slots(const ChatTemplate& chat) {
  const std::span<const char> date = chat_string(chat, ChatString::kDate);
  const std::span<const char> date_format = chat_string(chat, ChatString::kDateFormat);
  if (date.size() > format::kMaxChatDateBytes) return "its date is too long"_reason;
  if (has_zero(date) || has_zero(date_format)) return "its date has a zero byte"_reason;
  if (date.empty() != date_format.empty())
    return "its date and the format of its date do not come together"_reason;
  const bool has_tools = !chat_string(chat, ChatString::kTool).empty();
  const std::string_view of_joints = date.empty() ? (has_tools ? "t" : "") : has_tools ? "dt" : "d";
  for (size_t i = 0; i < chat.header.n_rules; ++i) {
    if (!slots_hold(chat_joint(chat, chat_rule(chat, i)), of_joints, format::kMaxChatSlots))
      return "a joint has an unknown place"_reason;
  }
  const format::ChatValueStyle& of_tool =
      chat.header.styles[static_cast<size_t>(format::ChatStyle::kTool)];
  const bool is_function = of_tool.form == format::ChatValueForm::kTags ||
                           of_tool.form == format::ChatValueForm::kMembers;
  const struct {
    ChatString string;
    std::string_view letters;
  } kPatterns[] = {{ChatString::kCall, "niax"},
                   {ChatString::kArgument, "kv"},
                   {ChatString::kArgumentBetween, ""},
                   {ChatString::kResult, "nir"},
                   {ChatString::kTool, is_function ? "f" : "wfnep"},
                   {ChatString::kToolBetween, ""}};
  for (const auto& [string, letters] : kPatterns) {
    if (!slots_hold(chat_string(chat, string), letters, format::kMaxChatSlots))
      return "a pattern has an unknown place"_reason;
  }
  for (auto i = static_cast<size_t>(ChatString::kNotInSystem);
       i <= static_cast<size_t>(ChatString::kNotInResult); ++i) {
    const std::span<const char> texts = chat_string(chat, static_cast<ChatString>(i));
    if (!texts.empty() && texts.back() != '\0') return "a list of texts does not end"_reason;
  }
  return nullptr;
}

const char* check_calls(const ChatTemplate& chat) {
  const std::span<const char> stored = chat_string(chat, ChatString::kCallFormat);
  CallFormat call_format = {};
  if (stored.empty()) return nullptr;
  return check_call_format({reinterpret_cast<const uint8_t*>(stored.data()), stored.size()},
                           &call_format);
}

}  // namespace

const char* check_chat_template(std::span<const uint8_t> section, ChatTemplate* chat) {
  constexpr const char* kWrongSize = "its rules and strings do not fill its section"_reason;
  if (section.size() < sizeof(ChatTemplateHeader)) return "its section is too short"_reason;
  ChatTemplate result = {};
  std::memcpy(&result.header, section.data(), sizeof(result.header));
  if (const char* wrong = check_header(result.header)) return wrong;
  std::span<const uint8_t> rest = section.subspan(sizeof(result.header));
  const size_t n_rule_bytes = result.header.n_rules * sizeof(ChatRule);
  if (n_rule_bytes > rest.size()) return kWrongSize;
  result.rules = rest.data();
  rest = rest.subspan(n_rule_bytes);
  for (size_t i = 0; i < format::kChatStrings; ++i) {
    const size_t n_bytes = result.header.string_bytes[i];
    if (n_bytes > rest.size()) return kWrongSize;
    result.strings[i] = reinterpret_cast<const char*>(rest.data());
    rest = rest.subspan(n_bytes);
  }
  if (!rest.empty()) return kWrongSize;
  if (const char* wrong = check_rules(result)) return wrong;
  if (const char* wrong = check_slots(result)) return wrong;
  if (const char* wrong = check_calls(result)) return wrong;
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
  for (size_t i = 0; i < chat.header.n_rules; ++i) {
    const ChatRule rule = chat_rule(chat, i);
    if ((rule.left & bit_of(ChatUnit::kText)) == 0 || (rule.right & bit_of(ChatUnit::kUser)) == 0) {
      continue;
    }
    visit_added(AddedTokens(tokenizer), chat_joint(chat, rule), false, [&](uint32_t token) {
      if (end == kNone && is_control_text(tokenizer, token)) end = token;
    });
    break;
  }
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
    return "the token that ends the chat template's answers is not an end token of the config"_reason;
  }
  return nullptr;
}

}  // namespace cria
