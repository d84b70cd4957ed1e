#include "converter/chat_template/call_form.h"

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>

#include "converter/chat_template/dialogue.h"
#include "converter/chat_template/known_call_forms.h"
#include "converter/chat_template/marked_samples.h"

namespace cria::converter {
namespace {

using format::CallKind;
using format::CallString;
using Json = nlohmann::ordered_json;

constexpr const char* kName = "Cq0xz";
constexpr const char* kOtherName = "Cq1xz";
constexpr const char* kId = "idq00xz1a";
constexpr const char* kOtherId = "idq01xz1a";
constexpr const char* kKey = "kq0x";
constexpr const char* kValue = "vq0x";
constexpr const char* kSecondKey = "kq1x";
constexpr const char* kSecondValue = "vq1x";
constexpr const char* kArguments = R"({"kq0x": "vq0x", "kq1x": "vq1x"})";
constexpr const char* kOtherValue = "vq2x";
constexpr const char* kOtherArguments = R"({"kq2x": "vq2x"})";

std::string trimmed(const std::string& text) { return std::string(without_blanks(text)); }

// What stands before what, and after it.
std::string before(const std::string& text, size_t at) { return text.substr(0, at); }
std::string behind(const std::string& text, size_t at) { return text.substr(at); }

// Answers as the model has to write them, where earlier answers are written so ------------------

struct ShownCalls {
  std::string one;
  std::string two;
};

size_t shared_begin(const std::string& a, const std::string& b) {
  return static_cast<size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first -
                             a.begin());
}
size_t shared_end(const std::string& a, const std::string& b) {
  return static_cast<size_t>(std::mismatch(a.rbegin(), a.rend(), b.rbegin(), b.rend()).first -
                             a.rbegin());
}

// Where the last one of words begins that the text has; 0: it has none.
size_t last_of(const std::string& text, std::initializer_list<const char*> words) {
  size_t last = 0;
  for (const char* word : words) {
    const size_t at = text.rfind(word);
    if (at != std::string::npos) last = std::max(last, at);
  }
  return last;
}

// Where a text can be cut without cutting a marker: at most at, or at least.
size_t cut_before(const std::string& text, size_t at) {
  for (const auto& [open, close] : {std::pair{'<', '>'}, std::pair{'[', ']'}}) {
    const size_t begin = before(text, at).rfind(open);
    if (begin == std::string::npos) continue;
    const size_t end = text.find(close, begin);
    // A bracket that nothing closes is that of a list.
    if (end == std::string::npos ? open == '<' : end >= at) at = begin;
  }
  return at;
}
size_t cut_behind(const std::string& text, size_t at) {
  const size_t begin = before(text, at).rfind('<');
  const size_t end = text.find('>', begin);
  return begin != std::string::npos && end != std::string::npos && end >= at ? end + 1 : at;
}

class CallsShown {
 public:
  CallsShown(const TemplateRenderer& renderer, bool has_tools) : renderer_(renderer) {
    if (has_tools) tools_ = {marked_tool(0)};
  }

  // nullopt: the template refuses them, or shows none.
  [[nodiscard]] std::optional<ShownCalls> find() const {
    Dialogue answer = begun();
    answer.messages.push_back({ChatRole::kAssistant, "Aq1xz", {}, {}, {}, {}});
    Dialogue opened = begun();
    opened.opens_turn = true;
    const auto texts = render_all(renderer_, {answer, opened, called(1), called(2)});
    if (!texts[0] || !texts[2] || texts[2]->find(kValue) == std::string::npos) return std::nullopt;
    const size_t mark = texts[0]->find("Aq1xz");
    if (mark == std::string::npos) return std::nullopt;
    size_t begin = cut_before(*texts[2], std::min(mark, shared_begin(*texts[0], *texts[2])));
    if (texts[1] && texts[2]->starts_with(*texts[1])) begin = texts[1]->size();
    const std::string behind_answer = behind(*texts[0], mark + std::strlen("Aq1xz"));
    const std::string turn_end = trimmed(behind_answer);
    const auto cut = [&](const std::string& text) {
      const size_t n = std::min(behind_answer.size(), shared_end(*texts[0], text));
      size_t end = cut_behind(text, text.size() - n);
      // The first after the calls: some templates write more of a text that is empty.
      const size_t said = last_of(text, {kName, kOtherName, kSecondValue, kOtherValue});
      const size_t turn = turn_end.empty() ? std::string::npos : text.find(turn_end, said);
      end = std::min(end, turn);
      return begin < end ? without_thinking(text.substr(begin, end - begin)) : std::string();
    };
    return ShownCalls{cut(*texts[2]), texts[3] ? cut(*texts[3]) : ""};
  }

 private:
  [[nodiscard]] Dialogue begun() const {
    Dialogue dialogue = marked_dialogue("U");
    dialogue.tools = tools_;
    dialogue.opens_turn = false;
    return dialogue;
  }
  [[nodiscard]] Dialogue called(int n_calls) const {
    Dialogue dialogue = begun();
    DialogueMessage message = {ChatRole::kAssistant, {}, {}, {{kName, kArguments, kId}}, {}, {}};
    if (n_calls > 1) message.calls.push_back({kOtherName, kOtherArguments, kOtherId});
    dialogue.messages.push_back(std::move(message));
    return dialogue;
  }
  // Thinking that is empty stands before calls too.
  static std::string without_thinking(const std::string& text) {
    for (const char* end : {"</think>", "</seed:think>", "[/THINK]", "<|END_THINKING|>"}) {
      const size_t at = text.find(end);
      if (at != std::string::npos && at < text.find(kName)) {
        return behind(text, at + std::strlen(end));
      }
    }
    return text;
  }

  const TemplateRenderer& renderer_;
  std::vector<std::string> tools_;
};

// What the answers say --------------------------------------------------------------------------

// Arguments as one JSON object, or as Python prints it, at at.
std::string whole_arguments(const std::string& text, size_t* at) {
  for (const char* separators : {", : ", ",:"}) {
    const std::string between(separators, separators[1] == ' ' ? 2 : 1);
    const std::string colon(separators + between.size());
    for (const char* quote : {"\"", "'"}) {
      const auto quoted = [&](const char* word) { return quote + std::string(word) + quote; };
      const std::string whole = "{" + quoted(kKey) + colon + quoted(kValue) + between +
                                quoted(kSecondKey) + colon + quoted(kSecondValue) + "}";
      *at = text.find(whole);
      if (*at != std::string::npos) return whole;
    }
  }
  return "";
}

// Lists are read with their brackets or without.
std::string without_bracket(std::string text, char bracket, bool at_end) {
  const std::string inner = trimmed(text);
  if (inner.empty() || (at_end ? inner.back() : inner.front()) != bracket) return text;
  const size_t at = at_end ? text.rfind(bracket) : text.find(bracket);
  return at_end ? before(text, at) : behind(text, at + 1);
}

void set_around(const std::string& start, const std::string& end, CallForm* form) {
  const std::string begin = without_bracket(start, '[', true);
  const std::string close = without_bracket(end, ']', false);
  if (trimmed(begin).empty()) {
    form->flags |= format::kCallsBare;
  } else {
    (*form)[CallString::kStart] = call_list({begin});
  }
  if (!trimmed(close).empty()) (*form)[CallString::kEnd] = close;
}

// The largest object that has the name in it.
bool read_json(const std::string& shown, CallForm* form) {
  size_t at = 0;
  const std::string arguments = whole_arguments(shown, &at);
  if (arguments.empty()) return false;
  // Python's way of printing arguments is none of the model's.
  const std::string text = before(shown, at) + kArguments + behind(shown, at + arguments.size());
  const size_t name = text.find(kName);
  for (size_t begin = text.find('{'); begin < name; begin = text.find('{', begin + 1)) {
    for (size_t end = text.rfind('}'); end != std::string::npos && end > name;
         end = end > 0 ? text.rfind('}', end - 1) : std::string::npos) {
      const std::string object = text.substr(begin, end + 1 - begin);
      if (!Json::accept(object)) continue;
      form->kind = CallKind::kJson;
      const Json members = Json::parse(object);
      for (const auto& [key, value] : members.items()) {
        if (key == kName) form->flags |= format::kCallsNameIsKey;
        if (value == kName) (*form)[CallString::kNameKeys] = call_list({key});
        if (value.is_object() && key != kName) {
          // Models write either of the two words.
          const bool is_usual = key == "arguments" || key == "parameters";
          (*form)[CallString::kArgumentsKeys] =
              is_usual && text.find("tool_name") == std::string::npos
                  ? call_list({"arguments", "parameters"})
                  : call_list({key});
        }
        const bool is_id = key == "id" || key.ends_with("_id");
        if (is_id && value != kName) (*form)[CallString::kIdKeys] = call_list({key});
      }
      set_around(before(text, begin), behind(text, end + 1), form);
      return true;
    }
  }
  return false;
}

bool read_python(const std::string& shown, CallForm* form) {
  const size_t name = shown.find(kName);
  const size_t open = name + std::strlen(kName);
  const size_t close = shown.rfind(')');
  if (open >= shown.size() || shown[open] != '(' || close == std::string::npos) return false;
  if (shown.find(std::string(kKey) + "=") == std::string::npos) return false;
  form->kind = CallKind::kPython;
  (*form)[CallString::kNameKeys] = call_list({"name"});
  (*form)[CallString::kArgumentsKeys] = call_list({"arguments", "parameters"});
  set_around(before(shown, name), behind(shown, close + 1), form);
  return true;
}

// A header and arguments: what stands before the name and after the arguments is of all calls or
// of each, which two calls tell.
struct Framed {
  std::string front;  // before the first header
  std::string begin;  // before each
  std::string end;    // after each
  std::string back;   // after the last
};
Framed framed(const std::string& front, const std::string& back, const std::string& between) {
  const size_t n = cut_behind(front, front.size() - shared_end(front, between));
  const size_t most = between.size() - std::min(between.size(), front.size() - n);
  const size_t m = cut_before(back, std::min(shared_begin(back, between), most));
  Framed f = {before(front, n), behind(front, n), before(back, m), behind(back, m)};
  // Where each call has markers around its own, those are what several may share.
  const size_t outer = f.begin.find('>');
  const size_t closing = f.end.rfind('<');
  const bool is_nested = trimmed(f.front).empty() && outer != std::string::npos &&
                         closing != std::string::npos && closing > f.end.find('>');
  if (!is_nested || trimmed(behind(f.begin, outer + 1)).empty()) return f;
  return {before(f.begin, outer + 1), behind(f.begin, outer + 1), before(f.end, closing),
          behind(f.end, closing)};
}

void set_framed(const Framed& f, CallForm* form) {
  // Without a text of all calls that of each starts them.
  const bool has_front = !trimmed(f.front).empty();
  (*form)[CallString::kStart] = call_list({has_front ? f.front : f.begin});
  const auto set = [form](CallString which, const std::string& text) {
    if (!trimmed(text).empty()) (*form)[which] = text;
  };
  if (has_front) set(CallString::kCallBegin, f.begin);
  set(CallString::kCallEnd, f.end);
  set(CallString::kEnd, f.back);
}

// An id and what stands between it and the name, or the other way round.
void take_id(std::string* front, std::string* middle, CallForm* form) {
  const size_t in_front = front->find(kId);
  const size_t in_middle = middle->find(kId);
  if (in_front != std::string::npos) {
    (*form)[CallString::kNameBegin] = behind(*front, in_front + std::strlen(kId));
    *front = before(*front, in_front);
  } else if (in_middle != std::string::npos) {
    (*form)[CallString::kIdBegin] = before(*middle, in_middle);
    *middle = behind(*middle, in_middle + std::strlen(kId));
  }
}

// What stands between two calls, as far as the second one's name or id.
std::optional<std::string> between_calls(const std::string& two, size_t from) {
  const size_t name = two.find(kOtherName, from);
  const size_t id = two.find(kOtherId, from);
  if (name == std::string::npos) return std::nullopt;
  return two.substr(from, std::min(name, id) - from);
}

bool read_named(const ShownCalls& shown, CallForm* form) {
  size_t at = 0;
  const std::string arguments = whole_arguments(shown.one, &at);
  const size_t name = shown.one.find(kName);
  if (arguments.empty() || name == std::string::npos || name > at) return false;
  std::string front = before(shown.one, name);
  std::string middle = shown.one.substr(name + std::strlen(kName), at - name - std::strlen(kName));
  const std::string back = behind(shown.one, at + arguments.size());
  form->kind = CallKind::kNamed;
  take_id(&front, &middle, form);
  if (trimmed(middle).empty()) return false;
  (*form)[CallString::kArgumentsBegin] = middle;
  const size_t first = shown.two.find(arguments);
  const auto between = first != std::string::npos
                           ? between_calls(shown.two, first + arguments.size())
                           : std::nullopt;
  set_framed(framed(front, back, between.value_or("")), form);
  return true;
}

bool read_tagged(const ShownCalls& shown, CallForm* form) {
  const std::string& one = shown.one;
  const size_t name = one.find(kName);
  const size_t key = one.find(kKey, name);
  const size_t value = one.find(kValue, key);
  const size_t second = one.find(kSecondKey, value);
  const size_t last = one.find(kSecondValue, second);
  if (last == std::string::npos) return false;
  const size_t n_key = std::strlen(kKey);
  const size_t n_value = std::strlen(kValue);
  const std::string header = one.substr(name + std::strlen(kName), key - name - std::strlen(kName));
  const std::string key_end = one.substr(key + n_key, value - key - n_key);
  const std::string between_values = one.substr(value + n_value, second - value - n_value);
  const std::string rest = behind(one, last + n_value);
  // What ends a value begins what stands after the last one, what begins a key ends the header.
  const size_t n_end = cut_before(between_values, shared_begin(between_values, rest));
  const std::string key_begin = behind(between_values, n_end);
  if (n_end == 0 || trimmed(key_begin).empty() || !header.ends_with(key_begin)) return false;
  form->kind = CallKind::kTagged;
  const auto set = [form](CallString which, const std::string& text) {
    if (!trimmed(text).empty()) (*form)[which] = text;
  };
  set(CallString::kArgumentsBegin, before(header, header.size() - key_begin.size()));
  set(CallString::kKeyBegin, key_begin);
  set(CallString::kKeyEnd, key_end);
  set(CallString::kValueEnd, before(between_values, n_end));
  const std::string back = behind(rest, n_end);
  const size_t in_two = shown.two.find(kSecondValue);
  const auto between = in_two != std::string::npos
                           ? between_calls(shown.two, in_two + n_value + n_end)
                           : std::nullopt;
  set_framed(framed(before(one, name), back, between.value_or("")), form);
  return true;
}

std::string bytes_of(const CallForm& form) {
  format::CallFormatHeader header = {};
  header.kind = static_cast<uint32_t>(form.kind);
  header.flags = form.flags;
  std::string texts;
  for (size_t i = 0; i < format::kCallStrings; ++i) {
    header.string_bytes[i] = static_cast<uint32_t>(form.strings[i].size());
    texts += form.strings[i];
  }
  std::string bytes(sizeof header, '\0');
  std::memcpy(bytes.data(), &header, sizeof header);
  return bytes + texts;
}

// Null: bytes are those of a form, which read points into.
const char* read_form(const std::string& bytes, CallFormat* read) {
  return check_call_format({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, read);
}

bool holds(const CallForm& form) {
  const std::string bytes = bytes_of(form);
  CallFormat read = {};
  return read_form(bytes, &read) == nullptr;
}

bool find_calls(const TemplateRenderer& renderer, CallForm* form) {
  const std::string& jinja = renderer.source().text;
  if (set_known_calls(jinja, KnownForms::kStronger, form)) return true;
  const CallForm without = *form;
  for (const bool has_tools : {true, false}) {
    const auto shown = CallsShown(renderer, has_tools).find();
    if (!shown) continue;
    if (read_json(shown->one, form) && holds(*form)) return true;
    *form = without;
    if (read_python(shown->one, form) && holds(*form)) return true;
    *form = without;
    if (read_named(*shown, form) && holds(*form)) return true;
    *form = without;
    if (read_tagged(*shown, form) && holds(*form)) return true;
    *form = without;
  }
  return set_known_calls(jinja, KnownForms::kAll, form);
}

}  // namespace

std::string call_list(const std::vector<std::string>& texts) {
  std::string list;
  for (const std::string& text : texts) list += text + '\0';
  return list;
}

bool has_calls(const std::string& call_format) {
  CallFormat read = {};
  return read_form(call_format, &read) == nullptr && read.kind != CallKind::kNoCalls;
}

std::string derive_call_format(const TemplateRenderer& renderer, uint32_t id_characters) {
  CallForm form;
  add_known_markers(renderer.source().text, &form);
  const bool calls = find_calls(renderer, &form);
  if (!calls && form[CallString::kThinkingEnd].empty()) return "";
  form.flags |= id_characters << format::kCallIdCharacters;
  return holds(form) ? bytes_of(form) : "";
}

}  // namespace cria::converter
