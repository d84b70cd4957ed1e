#include "converter/chat_template/patterns.h"

#include <algorithm>
#include <functional>

#include "converter/chat_template/marked_samples.h"
#include "converter/chat_template/text_gaps.h"
#include "quant/text/json_print.h"

namespace cria::converter {
namespace {

using format::ChatString;
using format::ChatStyle;
using format::ChatTrim;
using format::ChatValueForm;
using format::ChatValueStyle;

constexpr const char* kUser = "Uq0xz";
constexpr const char* kName = "Cq0xz";
constexpr const char* kId = "idq0xz123";
constexpr const char* kResultName = "Rnq0xz";
constexpr const char* kResultId = "idq0xz124";
constexpr const char* kResult = "Rq0xz";

class StringSink : public TextSink {
 public:
  void put(std::span<const char> text) override { written.append(text.data(), text.size()); }
  std::string written;
};

std::string printed(const std::string& json, const ChatValueStyle& style) {
  StringSink sink;
  print_json(json, style, &sink);
  return std::move(sink.written);
}

std::string printed_text(const std::string& text, const ChatValueStyle& style) {
  StringSink sink;
  print_string(text, style, &sink);
  return std::move(sink.written);
}

// Ways to print a whole value, the usual first.
std::vector<ChatValueStyle> value_styles(bool with_depths) {
  std::vector<ChatValueStyle> styles;
  const auto add = [&](uint8_t indent, uint8_t depth, uint8_t flags) {
    styles.push_back({ChatValueForm::kJson, indent, depth, flags});
  };
  for (const uint8_t escapes : {uint8_t{0}, format::kChatEscapes}) {
    add(0, 0, escapes);
    add(0, 0, escapes | format::kChatTight);
    for (const uint8_t indent : {uint8_t{4}, uint8_t{2}}) {
      for (uint8_t depth = 0; depth <= (with_depths ? 3 : 0); ++depth) add(indent, depth, escapes);
    }
  }
  styles.push_back({ChatValueForm::kPython, 0, 0, 0});
  return styles;
}

std::vector<ChatValueStyle> text_styles() {
  std::vector<ChatValueStyle> styles = {{ChatValueForm::kBare, 0, 0, 0},
                                        {ChatValueForm::kJson, 0, 0, 0},
                                        {ChatValueForm::kJson, 0, 0, format::kChatEscapes},
                                        {ChatValueForm::kPython, 0, 0, 0},
                                        {ChatValueForm::kQuoted, 0, 0, 0},
                                        {ChatValueForm::kSingleQuoted, 0, 0, 0}};
  return styles;
}

// Where a text stands once; npos: nowhere, or more than once.
size_t find_once(const std::string& text, const std::string& what) {
  const size_t at = text.find(what);
  if (what.empty() || at == std::string::npos) return std::string::npos;
  return text.find(what, at + 1) == std::string::npos ? at : std::string::npos;
}

// What stands in a text at places, as a pattern from the first to the last of them.
struct Slot {
  size_t begin;
  size_t end;
  char letter;
};
std::string pattern_of(const std::string& text, std::vector<Slot> slots) {
  std::sort(slots.begin(), slots.end(),
            [](const Slot& a, const Slot& b) { return a.begin < b.begin; });
  std::string pattern;
  for (size_t i = 0; i < slots.size(); ++i) {
    if (i > 0) pattern += text.substr(slots[i - 1].end, slots[i].begin - slots[i - 1].end);
    pattern += '\0';
    pattern += slots[i].letter;
  }
  return pattern;
}

void add_slots(const std::string& text, size_t begin, size_t end, const std::string& what,
               char letter, std::vector<Slot>* slots) {
  for (size_t at = text.find(what, begin); at < end; at = text.find(what, at + what.size())) {
    slots->push_back({at, at + what.size(), letter});
  }
}

class PatternFinder {
 public:
  PatternFinder(const TemplateRenderer& renderer, StoredTemplate* stored)
      : renderer_(renderer), stored_(*stored) {}

  void run() {
    for (const bool has_tools : {false, true}) {
      for (const bool has_result : {true, false}) {
        for (const char* result_id : {kResultId, kId}) {
          if (stored_[ChatString::kCall].empty()) find_call(has_tools, has_result, result_id);
        }
      }
      for (const char* result_id : {kResultId, kId}) {
        if (stored_[ChatString::kResult].empty()) find_result(has_tools, result_id);
      }
    }
    find_number();
    for (const bool has_system : {false, true}) {
      if (stored_[ChatString::kTool].empty()) find_tool(has_system);
    }
  }

 private:
  [[nodiscard]] std::vector<std::optional<std::string>> render(
      const std::vector<std::string>& arguments, const std::string& result, bool has_tools,
      bool has_result, const char* result_id) const {
    std::vector<Dialogue> dialogues;
    for (const std::string& text : arguments) {
      Dialogue dialogue;
      dialogue.opens_turn = has_result;
      if (has_tools) dialogue.tools = {marked_tool(7)};
      dialogue.messages = {{ChatRole::kUser, kUser, {}, {}, {}, {}},
                           {ChatRole::kAssistant, {}, {}, {{kName, text, kId}}, {}, {}}};
      if (has_result) {
        const bool is_own = result_id == kResultId;
        dialogue.messages.push_back(
            {ChatRole::kTool, result, {}, {}, is_own ? kResultName : kName, result_id});
      }
      dialogues.push_back(std::move(dialogue));
    }
    return render_all(renderer_, dialogues);
  }

  void find_call(bool has_tools, bool has_result, const char* result_id) {
    const std::string rich =
        R"({"kq0x": "Vq0x \u00e9\"<\n'", "kq1x": [1, 2.5, -3, true, null, {"a": "b"}, []],)"
        R"( "kq2x": {"e": {}, "n": 1e30, "s": "x'y"}, "kq3x": false, "kq4x": null, "kq5x": "plain"})";
    const auto texts = render({rich, "{}", R"({"kq0x": 7001})", R"({"kq0x": 7001, "kq1x": 7002})"},
                              kResult, has_tools, has_result, result_id);
    if (!texts[0] || texts[0]->find(kName) == std::string::npos) return;
    for (const ChatValueStyle& style : value_styles(false)) {
      const std::string whole = printed(rich, style);
      if (find_once(*texts[0], whole) == std::string::npos) continue;
      stored_.style(ChatStyle::kArguments) = style;
      take_call(*texts[0], whole, has_result);
      return;
    }
    if (texts[1] && texts[2] && texts[3])
      find_arguments(rich, *texts[0], *texts[1], *texts[2], *texts[3], has_result);
  }

  // From the first of what a call is made of to the last.
  void take_call(const std::string& text, const std::string& arguments, bool has_result) {
    const size_t at = text.find(arguments);
    const size_t user = text.find(kUser);
    const size_t begin = user == std::string::npos ? 0 : user;
    size_t end = has_result ? text.find(kResult) : text.size();
    std::vector<Slot> slots = {{at, at + arguments.size(), format::kChatSlotArguments}};
    add_slots(text, begin, at, kName, format::kChatSlotName, &slots);
    add_slots(text, begin, std::min(end, text.size()), kId, format::kChatSlotId, &slots);
    // After arguments the same id may be the result's.
    if (text.find(kResultId) == std::string::npos && has_result) {
      std::erase_if(slots, [at](const Slot& slot) { return slot.begin > at; });
    }
    stored_[ChatString::kCall] = pattern_of(text, slots);
  }

  // Arguments that are written one by one: what stands around keys and values.
  void find_arguments(const std::string& rich, const std::string& text, const std::string& none,
                      const std::string& one, const std::string& two, bool has_result) {
    const auto gaps0 = gaps_of(none, {kName});
    const auto gaps1 = gaps_of(one, {kName, "kq0x", "7001"});
    const auto gaps2 = gaps_of(two, {kName, "kq0x", "7001", "kq1x", "7002"});
    if (!gaps0 || !gaps1 || !gaps2) return;
    const std::string& front = (*gaps1)[1];
    const std::string& middle = (*gaps1)[2];
    const std::string& back = (*gaps1)[3];
    const std::string& between = (*gaps2)[3];
    if ((*gaps2)[1] != front || (*gaps2)[2] != middle || (*gaps2)[4] != middle ||
        (*gaps2)[5] != back) {
      return;
    }
    struct Around {
      std::string before;
      std::string behind;
      std::string between;
    };
    std::vector<Around> ways;
    if (front + back == (*gaps0)[1]) ways.push_back({"", "", between});
    // What stands between two belongs to the one before, to both or to the one after.
    for (size_t n_shared = 0; n_shared <= between.size(); ++n_shared) {
      for (size_t n = 0; n + n_shared <= between.size(); ++n) {
        const std::string behind = between.substr(0, n);
        const std::string before = between.substr(n + n_shared);
        if (ends_with(front, before) && begins_with(back, behind) &&
            without_end(front, before) + without_begin(back, behind) == (*gaps0)[1]) {
          ways.push_back({before, behind, between.substr(n, n_shared)});
        }
      }
    }
    const std::string slot_key = {'\0', format::kChatSlotKey};
    const std::string slot_value = {'\0', format::kChatSlotValue};
    for (const Around& way : ways) {
      stored_[ChatString::kArgument] = way.before + slot_key + middle + slot_value + way.behind;
      stored_[ChatString::kArgumentBetween] = way.between;
      if (find_value_styles(rich, text, has_result)) return;
    }
    stored_[ChatString::kArgument].clear();
    stored_[ChatString::kArgumentBetween].clear();
  }

  bool find_value_styles(const std::string& rich, const std::string& text, bool has_result) {
    stored_[ChatString::kCall] = {'\0', format::kChatSlotArguments};
    const std::vector<ChatValueStyle> whole = value_styles(false);
    for (const ChatValueStyle& of_text : text_styles()) {
      for (const ChatValueStyle& of_list : whole) {
        for (const ChatValueStyle& of_object : whole) {
          for (const ChatValueForm of_other : {ChatValueForm::kJson, ChatValueForm::kPython}) {
            stored_.style(ChatStyle::kText) = of_text;
            stored_.style(ChatStyle::kList) = of_list;
            stored_.style(ChatStyle::kObject) = of_object;
            stored_.style(ChatStyle::kOther) = {of_other, 0, 0, 0};
            const DialogueMessage call = {ChatRole::kAssistant, {}, {},
                                          {{kName, rich, {}}},  {}, {}};
            const std::string written = *StoredForm(stored_).call_text(call, 0);
            if (find_once(text, written) == std::string::npos) continue;
            take_call(text, written, has_result);
            return true;
          }
        }
      }
    }
    stored_[ChatString::kCall].clear();
    return false;
  }

  // Whether a 0 in the pattern of a call is its number among those of its message.
  void find_number() {
    constexpr size_t kMany = 11;  // some have two digits
    const std::string pattern = stored_[ChatString::kCall];
    if (pattern.find('0') == std::string::npos) return;
    Dialogue dialogue = marked_dialogue("UC");
    std::vector<DialogueCall>& calls = dialogue.messages[1].calls;
    while (calls.size() < kMany) calls.push_back(calls[calls.size() % 2]);
    const auto text = render_all(renderer_, {dialogue})[0];
    if (!text) return;
    const auto holds = [&] {
      const StoredForm form(stored_);
      size_t at = 0;
      for (size_t i = 0; i < kMany && at != std::string::npos; ++i) {
        at = text->find(*form.call_text(dialogue.messages[1], i), at);
      }
      return at != std::string::npos;
    };
    if (holds()) return;
    for (size_t at = pattern.find('0'); at != std::string::npos; at = pattern.find('0', at + 1)) {
      stored_[ChatString::kCall] = pattern;
      stored_[ChatString::kCall].replace(at, 1, std::string{'\0', format::kChatSlotNumber});
      if (holds()) return;
    }
    stored_[ChatString::kCall] = pattern;
  }

  void find_result(bool has_tools, const char* result_id) {
    const std::string rich = std::string(kResult) + " \xC3\xA9\"<\n'x";
    const std::string padded = std::string(kBeforeMark) + kResult + std::string(kBehindMark);
    const auto text = render({R"({"kq0x": "vq0x"})"}, rich, has_tools, true, result_id)[0];
    const auto trimmed = render({R"({"kq0x": "vq0x"})"}, padded, has_tools, true, result_id)[0];
    if (!text || !trimmed) return;
    for (const ChatValueStyle& style : text_styles()) {
      const std::string written = printed_text(rich, style);
      const size_t at = find_once(*text, written);
      if (at == std::string::npos) continue;
      // The call before has the same name and perhaps the same id.
      size_t begin = 0;
      for (const char* mark : {kUser, kName, "kq0x", "vq0x"}) {
        const size_t found = text->rfind(mark, at);
        if (found != std::string::npos && (mark != kName || result_id == kResultId)) {
          begin = std::max(begin, found + 1);
        }
      }
      const bool is_own = result_id == kResultId;
      std::vector<Slot> slots = {{at, at + written.size(), format::kChatSlotText}};
      add_slots(*text, begin, text->size(), is_own ? kResultName : kName, format::kChatSlotName,
                &slots);
      add_slots(*text, begin, text->size(), result_id, format::kChatSlotId, &slots);
      stored_[ChatString::kResult] = pattern_of(*text, slots);
      stored_.style(ChatStyle::kResult) = style;
      find_result_trims(padded, *trimmed, is_own ? kResultName : kName, result_id);
      return;
    }
  }

  void find_result_trims(const std::string& padded, const std::string& text, const char* name,
                         const char* id) {
    // The most that stands there: nothing trimmed contains all else.
    for (const uint8_t end : {uint8_t{0}, uint8_t{2}, uint8_t{1}}) {
      for (const uint8_t begin : {uint8_t{0}, uint8_t{2}, uint8_t{1}}) {
        stored_.result_trims = static_cast<uint8_t>(begin | end << 4);
        const DialogueMessage result = {ChatRole::kTool, padded, {}, {}, name, id};
        const auto written = StoredForm(stored_).result_text(result);
        if (find_once(text, *written) != std::string::npos && is_written_so_by_its_call()) return;
      }
    }
    stored_[ChatString::kResult].clear();
  }

  // Whether it is also what is written for a result of the call before it: templates look for a
  // call's name by its id.
  [[nodiscard]] bool is_written_so_by_its_call() const {
    const DialogueMessage result = {ChatRole::kTool, kResult, {}, {}, kName, kId};
    const auto written = StoredForm(stored_).result_text(result);
    for (const bool has_tools : {true, false}) {
      const auto text = render({R"({"kq0x": "vq0x"})"}, kResult, has_tools, true, kId)[0];
      if (text) return text->find(*written) != std::string::npos;
    }
    return true;
  }

  void find_tool(bool has_system) {
    Dialogue dialogue = marked_dialogue(has_system ? "SU" : "U");
    dialogue.tools = {marked_tool(0), marked_tool(1)};
    const auto rendered = render_all(renderer_, {dialogue})[0];
    if (!rendered) return;
    for (const char slot : {format::kChatSlotWhole, format::kChatSlotFunction}) {
      for (const ChatValueStyle& style : value_styles(true)) {
        if (take_tool({'\0', slot}, style, *rendered, dialogue)) return;
      }
    }
    for (const uint8_t flags : {uint8_t{0}, format::kChatOwnLists}) {
      const ChatValueStyle tags = {ChatValueForm::kTags, 0, 0, flags};
      if (take_tool({'\0', format::kChatSlotFunction}, tags, *rendered, dialogue)) return;
    }
    const ChatValueStyle of_members = {ChatValueForm::kMembers, 0, 0, 0};
    if (take_tool({'\0', format::kChatSlotFunction}, of_members, *rendered, dialogue) &&
        takes_any_members(dialogue)) {
      return;
    }
    // Written field by field.
    for (const ChatValueStyle& style : value_styles(true)) {
      const auto pattern = tool_pattern(*rendered, style);
      if (pattern && take_tool(*pattern, style, *rendered, dialogue)) return;
    }
    stored_[ChatString::kTool].clear();
    stored_[ChatString::kToolBetween].clear();
  }

  // Whether functions are written so whatever members they have, and in any order.
  [[nodiscard]] bool takes_any_members(Dialogue dialogue) const {
    dialogue.tools = {
        R"({"type": "function", "function": {"parameters": {"type": "object"}, "name": "Nq2xz"}})",
        R"({"type": "function", "function": {"strict": true, "description": "D \"q\"",)"
        R"( "name": "Nq3xz", "parameters": {"type": "object", "properties": {}}}})"};
    const auto text = render_all(renderer_, {dialogue})[0];
    const auto written = StoredForm(stored_).tools_text(dialogue);
    return text && text->find(*written) != std::string::npos;
  }

  // Whether both tools are written so; then what stands between them is found.
  bool take_tool(const std::string& pattern, const ChatValueStyle& style, const std::string& text,
                 const Dialogue& dialogue) {
    stored_[ChatString::kTool] = pattern;
    stored_[ChatString::kToolBetween].clear();
    stored_.style(ChatStyle::kTool) = style;
    const StoredForm form(stored_);
    const auto one = form.tools_text({.messages = {}, .tools = {dialogue.tools[0]}});
    const auto other = form.tools_text({.messages = {}, .tools = {dialogue.tools[1]}});
    const size_t first = text.find(*one);
    if (first == std::string::npos) return false;
    const size_t second = text.find(*other, first + one->size());
    if (second == std::string::npos) return false;
    const size_t behind = first + one->size();
    stored_[ChatString::kToolBetween] = text.substr(behind, second - behind);
    return true;
  }

  [[nodiscard]] static std::optional<std::string> tool_pattern(const std::string& text,
                                                               const ChatValueStyle& style) {
    const std::string tool = marked_tool(0);
    std::span<const char> key;
    std::span<const char> function;
    std::span<const char> value;
    JsonMembers members(tool);
    static_cast<void>(members.next(&key, &function) && members.next(&key, &function));
    std::vector<Slot> slots;
    JsonMembers fields(function);
    constexpr ChatValueStyle kBare = {ChatValueForm::kBare, 0, 0, 0};
    for (const char letter :
         {format::kChatSlotName, format::kChatSlotDescription, format::kChatSlotParameters}) {
      if (!fields.next(&key, &value)) return std::nullopt;
      const bool is_text = letter != format::kChatSlotParameters;
      const std::string written = printed({value.begin(), value.end()}, is_text ? kBare : style);
      const size_t at = text.find(written);
      if (at == std::string::npos) return std::nullopt;
      slots.push_back({at, at + written.size(), letter});
    }
    if (slots[0].end > slots[1].begin || slots[1].end > slots[2].begin) return std::nullopt;
    return pattern_of(text, slots);
  }

  const TemplateRenderer& renderer_;
  StoredTemplate& stored_;
};

}  // namespace

void find_patterns(const TemplateRenderer& renderer, StoredTemplate* stored) {
  PatternFinder(renderer, stored).run();
}

}  // namespace cria::converter
