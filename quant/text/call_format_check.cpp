#include <algorithm>
#include <cstring>

#include "quant/format/reason.h"
#include "quant/text/call_format.h"

namespace cria {
namespace {

using format::CallKind;
using format::CallString;

const char* check_text(std::string_view text) {
  if (text.size() > format::kMostCallTextBytes) return "a text is too long"_reason;
  if (text.find('\0') != std::string_view::npos) return "a text has a zero byte"_reason;
  if (without_blanks(text).empty()) return "a text is blank"_reason;
  return nullptr;
}

const char* check_list(std::string_view list) {
  if (!list.empty() && list.back() != '\0') return "a list of texts does not end"_reason;
  for (size_t n = 0; !list.empty(); ++n) {
    if (n == format::kMostCallTexts) return "a list has too many texts"_reason;
    if (const char* wrong = check_text(next_call_text(&list))) return wrong;
  }
  return nullptr;
}

const char* check_kind(const CallFormat& f) {
  const auto has = [&f](CallString string) { return !f.text(string).empty(); };
  const bool is_json = f.kind == CallKind::kJson || f.kind == CallKind::kPython;
  if (f.has(format::kCallsBare) && !is_json) return "calls of its kind need a marker"_reason;
  if (f.kind == CallKind::kNoCalls) {
    return has(CallString::kStart) ? "it has markers of calls but no kind"_reason : nullptr;
  }
  if (!has(CallString::kStart) && !f.has(format::kCallsBare)) return "nothing starts calls"_reason;
  if (is_json && !f.has(format::kCallsNameIsKey) &&
      (!has(CallString::kNameKeys) || !has(CallString::kArgumentsKeys))) {
    return "objects of calls lack a key"_reason;
  }
  if (f.kind == CallKind::kTagged &&
      (!has(CallString::kKeyBegin) || !has(CallString::kKeyEnd) || !has(CallString::kValueEnd) ||
       !(has(CallString::kCallEnd) || has(CallString::kEnd)))) {
    return "arguments in tags lack a tag"_reason;
  }
  return nullptr;
}

}  // namespace

std::string_view next_call_text(std::string_view* list) {
  const size_t n_bytes = std::min(list->find('\0'), list->size());
  const std::string_view text(list->data(), n_bytes);
  list->remove_prefix(std::min(n_bytes + 1, list->size()));
  return text;
}

std::string_view without_blanks(std::string_view text) {
  while (!text.empty() && is_call_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_call_blank(text.back())) text.remove_suffix(1);
  return text;
}

const char* check_call_format(std::span<const uint8_t> stored, CallFormat* call_format) {
  constexpr const char* kWrongSize = "its strings do not fill it"_reason;
  format::CallFormatHeader header = {};
  if (stored.size() < sizeof header) return "it is too short"_reason;
  std::memcpy(&header, stored.data(), sizeof header);
  if (header.kind >= format::kCallKinds) return "its kind is unknown"_reason;
  if ((header.flags & ~format::kKnownCallFlags) != 0) return "it has unknown flags"_reason;
  CallFormat result = {static_cast<CallKind>(header.kind), header.flags, {}};
  if (result.id_characters() > format::kMostCallIdCharacters) return "its ids are too long"_reason;
  std::span<const uint8_t> rest = stored.subspan(sizeof header);
  for (size_t i = 0; i < format::kCallStrings; ++i) {
    const size_t n_bytes = header.string_bytes[i];
    if (n_bytes > rest.size()) return kWrongSize;
    const std::string_view text(reinterpret_cast<const char*>(rest.data()), n_bytes);
    rest = rest.subspan(n_bytes);
    result.strings[i] = text;
    const bool is_list = i < format::kCallLists;
    if (const char* wrong = is_list        ? check_list(text)
                            : text.empty() ? nullptr
                                           : check_text(text)) {
      return wrong;
    }
  }
  if (!rest.empty()) return kWrongSize;
  if (const char* wrong = check_kind(result)) return wrong;
  *call_format = result;
  return nullptr;
}

}  // namespace cria
