#include "runtime/calls/grammar_rules.h"

#include <algorithm>
#include <initializer_list>

#include "quant/text/utf8.h"
#include "runtime/calls/marker.h"
#include "runtime/json/schema_text.h"
#include "runtime/json/text_part.h"

namespace cria::calls {
namespace {

using format::CallKind;
using format::CallString;
using json::ArgumentStyle;
using json::RuleKind;
using json::Rules;
using json::Tag;

std::string_view without_blanks_behind(std::string_view text) {
  while (!text.empty() && is_call_blank(text.back())) text.remove_suffix(1);
  return text;
}

bool starts_end_with_blanks(const CallFormat& form) {
  for (std::string_view rest = form.text(CallString::kStart); !rest.empty();) {
    if (is_call_blank(next_call_text(&rest).back())) return true;
  }
  return false;
}

// Rules are made from the last to the first: what follows a rule is there, or has its place.
class RuleMaker {
 public:
  RuleMaker(const CallFormat& form, const GrammarDemands& demands, Rules* rules)
      : form_(form), demands_(demands), rules_(rules) {}

  Status make(Beginnings* beginnings);

 private:
  enum class Place : uint8_t { kMarked, kBare };

  uint8_t reserve();
  uint8_t add(RuleKind kind, uint8_t next);
  uint8_t id(uint8_t next);
  void set(uint8_t rule, RuleKind kind, uint8_t first, size_t n);
  uint8_t blanks(uint8_t next) { return add(RuleKind::kBlanks, next); }
  void set_fork(uint8_t rule, std::initializer_list<uint8_t> alternatives);
  uint8_t fork(std::initializer_list<uint8_t> alternatives);
  void put(std::string_view text);
  void put_json(std::string_view text);
  void put_marker(std::string_view text);
  void begin_branches() {
    first_branch_ = rules_->n_branches;
    text_begin_ = rules_->n_text;
  }
  void end_branch(uint8_t next);
  void end_branches(uint8_t rule, RuleKind kind);
  uint8_t text(std::string_view text, uint8_t next);
  uint8_t texts_of(CallString list, uint8_t next);
  [[nodiscard]] bool has(CallString string) const { return !form_.text(string).empty(); }
  [[nodiscard]] bool may_repeat() const { return !demands_.one_call; }

  uint8_t keys(std::string_view before, CallString list, std::string_view behind, uint8_t next);
  uint8_t object(uint8_t next, Place place);
  uint8_t object_name(Place place, uint8_t name);
  uint8_t behind_object(uint8_t next);
  uint8_t end_block();
  uint8_t in_list(uint8_t first, uint8_t call);
  uint8_t objects(Place place);
  uint8_t function(uint8_t next);
  uint8_t functions(Place place);
  uint8_t named();
  uint8_t header(uint8_t arguments);
  uint8_t calls();
  uint8_t free_text(bool may_end, uint8_t calls, uint8_t behind_thinking);
  uint8_t opening(uint8_t bare_calls, uint8_t calls);
  void put_tags();
  void settle_ends();

  const CallFormat& form_;
  GrammarDemands demands_;
  Rules* rules_;
  bool is_full_ = false;
  uint8_t first_branch_ = 0;
  uint32_t text_begin_ = 0;
  uint8_t end_ = 0;
  uint8_t after_ = 0;  // a block of calls: another one, or the end
};

uint8_t RuleMaker::reserve() {
  if (rules_->n_rules == json::kMostRules) {
    is_full_ = true;
    return json::kNeverRule;
  }
  rules_->rules[rules_->n_rules] = {};
  return rules_->n_rules++;
}

uint8_t RuleMaker::add(RuleKind kind, uint8_t next) {
  const uint8_t rule = reserve();
  if (rule == json::kNeverRule) return rule;
  rules_->rules[rule].kind = kind;
  rules_->rules[rule].next = next;
  return rule;
}

uint8_t RuleMaker::id(uint8_t next) {
  const uint8_t rule = add(RuleKind::kId, next);
  if (rule != json::kNeverRule) rules_->rules[rule].n = form_.id_characters();
  return rule;
}

void RuleMaker::set(uint8_t rule, RuleKind kind, uint8_t first, size_t n) {
  if (rule == json::kNeverRule) return;
  json::Rule& r = rules_->rules[rule];
  r.kind = kind;
  r.first = first;
  r.n = static_cast<uint8_t>(n);
}

void RuleMaker::set_fork(uint8_t rule, std::initializer_list<uint8_t> alternatives) {
  if (alternatives.size() > json::kMostAlternatives - rules_->n_alternatives) {
    is_full_ = true;
    return;
  }
  const uint8_t first = rules_->n_alternatives;
  for (const uint8_t rule_there : alternatives) {
    rules_->alternatives[rules_->n_alternatives++] = rule_there;
  }
  set(rule, RuleKind::kFork, first, alternatives.size());
}

uint8_t RuleMaker::fork(std::initializer_list<uint8_t> alternatives) {
  const uint8_t rule = reserve();
  set_fork(rule, alternatives);
  return rule;
}

void RuleMaker::put(std::string_view text) {
  if (text.size() > json::kMostRuleText - rules_->n_text) {
    is_full_ = true;
    return;
  }
  std::copy(text.begin(), text.end(), rules_->text + rules_->n_text);
  rules_->n_text += static_cast<uint32_t>(text.size());
}

// As it stands in a string of JSON.
void RuleMaker::put_json(std::string_view text) {
  while (!text.empty()) {
    const Utf8Char c = decode_utf8(text.data(), text.size());
    char written[6];
    put({written, json::put_json_character(c.code, written)});
    text.remove_prefix(c.n_bytes);
  }
}

// With a space for blanks in a row.
void RuleMaker::put_marker(std::string_view text) {
  bool was_blank = false;
  for (const char c : without_blanks(text)) {
    const bool is_blank = is_call_blank(c);
    if (!is_blank) put({&c, 1});
    if (is_blank && !was_blank) put(" ");
    was_blank = is_blank;
  }
}

// What was put since the branch before it.
void RuleMaker::end_branch(uint8_t next) {
  if (rules_->n_branches == json::kMostBranches) {
    is_full_ = true;
    return;
  }
  rules_->branches[rules_->n_branches++] = {{text_begin_, rules_->n_text - text_begin_}, next};
  text_begin_ = rules_->n_text;
}

void RuleMaker::end_branches(uint8_t rule, RuleKind kind) {
  json::Branch* const first = rules_->branches + first_branch_;
  json::Branch* const end = rules_->branches + rules_->n_branches;
  std::sort(first, end, [this](const json::Branch& a, const json::Branch& b) {
    return rules_->part(a.text) < rules_->part(b.text);
  });
  set(rule, kind, first_branch_, static_cast<size_t>(end - first));
}

uint8_t RuleMaker::text(std::string_view text, uint8_t next) {
  if (text.empty()) return next;
  const uint8_t rule = reserve();
  begin_branches();
  put(text);
  end_branch(next);
  end_branches(rule, RuleKind::kTexts);
  return rule;
}

// One of a list, as the form writes them.
uint8_t RuleMaker::texts_of(CallString list, uint8_t next) {
  const uint8_t rule = reserve();
  begin_branches();
  for (std::string_view rest = form_.text(list); !rest.empty();) {
    put(next_call_text(&rest));
    end_branch(next);
  }
  end_branches(rule, RuleKind::kTexts);
  return rule;
}

// One of a list's keys.
uint8_t RuleMaker::keys(std::string_view before, CallString list, std::string_view behind,
                        uint8_t next) {
  const uint8_t rule = reserve();
  begin_branches();
  for (std::string_view rest = form_.text(list); !rest.empty();) {
    put(before);
    put_json(next_call_text(&rest));
    put(behind);
    end_branch(next);
  }
  end_branches(rule, RuleKind::kTexts);
  return rule;
}

// The end of an object that is a call, with an id before it or without.
uint8_t RuleMaker::behind_object(uint8_t next) {
  const uint8_t close = text("}", next);
  if (!has(CallString::kIdKeys) || form_.has(format::kCallsNameIsKey)) return close;
  const uint8_t id_rule = id(text("\"}", next));
  return fork({close, keys(", \"", CallString::kIdKeys, "\": \"", id_rule)});
}

// From the opening brace on.
uint8_t RuleMaker::object(uint8_t next, Place place) {
  const uint8_t arguments = add(RuleKind::kArguments, behind_object(next));
  if (form_.has(format::kCallsNameIsKey)) {
    const uint8_t name = add(RuleKind::kName, text("\": ", arguments));
    if (place == Place::kMarked) return text("{\"", name);
    return text("{", blanks(text("\"", name)));
  }
  const uint8_t key = keys("\", \"", CallString::kArgumentsKeys, "\": ", arguments);
  return object_name(place, add(RuleKind::kName, key));
}

uint8_t RuleMaker::object_name(Place place, uint8_t name) {
  if (place == Place::kBare) {
    const uint8_t key = keys("\"", CallString::kNameKeys, "\":", blanks(text("\"", name)));
    const uint8_t type = text("\"type\":", blanks(text("\"function\",", blanks(key))));
    return text("{", blanks(fork({key, type})));
  }
  const uint8_t first = keys("{\"", CallString::kNameKeys, "\": \"", name);
  if (!has(CallString::kIdKeys)) return first;
  const uint8_t id_rule = id(keys("\", \"", CallString::kNameKeys, "\": \"", name));
  return fork({first, keys("{\"", CallString::kIdKeys, "\": \"", id_rule)});
}

// What ends a block of calls.
uint8_t RuleMaker::end_block() {
  return text(without_blanks_behind(form_.text(CallString::kEnd)), after_);
}

// A list from its bracket on; first is a rule that was reserved for what is after a call in it.
uint8_t RuleMaker::in_list(uint8_t first, uint8_t call) {
  const uint8_t close = text("]", end_block());
  if (may_repeat()) {
    set_fork(first, {blanks(close), blanks(text(",", blanks(call)))});
  } else {
    set_fork(first, {blanks(close)});
  }
  return text("[", blanks(call));
}

uint8_t RuleMaker::objects(Place place) {
  const uint8_t behind = reserve();
  const uint8_t list = in_list(behind, object(behind, place));
  const bool has_end = has(CallString::kEnd);
  if (has_end || place == Place::kMarked || !may_repeat()) {
    return fork({object(end_block(), place), list});
  }
  const uint8_t more = reserve();
  const uint8_t alone = object(more, place);
  set_fork(more, {end_, blanks(text(";", blanks(alone)))});
  return fork({alone, list});
}

uint8_t RuleMaker::function(uint8_t next) {
  return add(RuleKind::kName, text("(", add(RuleKind::kArguments, next)));
}

uint8_t RuleMaker::functions(Place place) {
  const uint8_t behind = reserve();
  const uint8_t list = in_list(behind, function(behind));
  if (place == Place::kBare) return list;
  const uint8_t more = reserve();
  const uint8_t alone = function(more);
  if (has(CallString::kEnd) && may_repeat()) {
    set_fork(more, {end_block(), text("\n", alone)});
  } else {
    set_fork(more, {end_block()});
  }
  return fork({alone, list});
}

// From after kCallBegin on.
uint8_t RuleMaker::header(uint8_t arguments) {
  const std::string_view begin = form_.text(CallString::kArgumentsBegin);
  const uint8_t open = begin.empty() ? blanks(arguments) : text(begin, arguments);
  uint8_t behind_name = open;
  if (has(CallString::kIdBegin)) {
    behind_name = fork({open, text(form_.text(CallString::kIdBegin), id(open))});
  } else if (form_.has(format::kCallsIdHoldsName)) {
    behind_name = fork({open, text(":", add(RuleKind::kIndex, open))});
  }
  const uint8_t name = add(RuleKind::kName, behind_name);
  const std::string_view name_begin = form_.text(CallString::kNameBegin);
  if (name_begin.empty()) return name;
  const uint8_t first = text(name_begin, name);
  if (form_.has(format::kCallsIdHoldsName)) return first;
  return fork({first, id(first)});
}

uint8_t RuleMaker::named() {
  const uint8_t more = reserve();
  const uint8_t arguments = add(RuleKind::kArguments, text(form_.text(CallString::kCallEnd), more));
  const std::string_view call_begin = form_.text(CallString::kCallBegin);
  const uint8_t call = text(call_begin, header(arguments));
  if (call_begin.empty() || !may_repeat()) {
    set_fork(more, {end_block()});
  } else {
    set_fork(more, {end_block(), blanks(call)});
  }
  return call;
}

// After what starts calls.
uint8_t RuleMaker::calls() {
  switch (form_.kind) {
    case CallKind::kNoCalls:
      return json::kNeverRule;
    case CallKind::kJson:
      return objects(Place::kMarked);
    case CallKind::kPython:
      return functions(Place::kMarked);
    default:
      return named();
  }
}

// Text up to what starts calls, or thinking up to what ends it.
uint8_t RuleMaker::free_text(bool may_end, uint8_t calls, uint8_t behind_thinking) {
  const uint8_t rule = reserve();
  begin_branches();
  for (std::string_view rest = form_.text(CallString::kStart); !rest.empty();) {
    put_marker(next_call_text(&rest));
    end_branch(calls);
  }
  const bool is_thinking = behind_thinking != json::kNeverRule;
  for (std::string_view rest = form_.text(CallString::kThinkingEnd);
       is_thinking && !rest.empty();) {
    put_marker(next_call_text(&rest));
    end_branch(behind_thinking);
  }
  for (std::string_view rest = form_.text(CallString::kAnswerBegin);
       is_thinking && !rest.empty();) {
    put_marker(next_call_text(&rest));
    end_branch(json::kNeverRule);
  }
  end_branches(rule, RuleKind::kFree);
  rules_->rules[rule].may_end = may_end;
  return rule;
}

// Text that may begin as a call that no marker starts: it is one once a key or a name is whole.
uint8_t RuleMaker::opening(uint8_t bare_calls, uint8_t text) {
  const uint8_t rule = reserve();
  begin_branches();
  const auto put_keys = [this](std::string_view before, CallString list) {
    for (std::string_view rest = form_.text(list); !rest.empty();) {
      put(before);
      put("{\"");
      put_json(next_call_text(&rest));
      put("\"");
      end_branch(json::kNeverRule);
    }
  };
  for (const std::string_view before : {"", "["}) {
    for (const CallString list :
         {CallString::kNameKeys, CallString::kArgumentsKeys, CallString::kIdKeys}) {
      put_keys(before, list);
    }
    put(before);
    put("{\"type\":\"function\"");
    end_branch(json::kNeverRule);
  }
  if (form_.kind == CallKind::kPython) {
    put("[");
    put({&json::kNameRun, 1});
    put("(");
    end_branch(json::kNeverRule);
  }
  end_branches(rule, RuleKind::kOpening);
  rules_->rules[rule].next = text;
  rules_->rules[rule].other = bare_calls;
  rules_->rules[rule].may_end = true;
  return rule;
}

void RuleMaker::put_tags() {
  const auto tag = [this](std::string_view text) {
    const json::TextPart part = {rules_->n_text, static_cast<uint32_t>(text.size())};
    put(text);
    return part;
  };
  const auto set_tag = [&](Tag which, CallString string) {
    rules_->tags[static_cast<size_t>(which)] = tag(form_.text(string));
  };
  set_tag(Tag::kKeyBegin, CallString::kKeyBegin);
  set_tag(Tag::kKeyEnd, CallString::kKeyEnd);
  set_tag(Tag::kValueEnd, CallString::kValueEnd);
  rules_->mark = tag(value_mark(form_));
  rules_->tags[static_cast<size_t>(Tag::kStringMark)] = rules_->mark;
}

// Where what comes next is the end, or may be nothing.
void RuleMaker::settle_ends() {
  for (bool changes = true; changes;) {
    changes = false;
    for (uint32_t i = 0; i < rules_->n_rules; ++i) {
      json::Rule& rule = rules_->rules[i];
      bool may_end = rule.may_end || rule.kind == RuleKind::kEnd;
      if (rule.kind == RuleKind::kBlanks) may_end = rules_->rules[rule.next].may_end;
      for (uint32_t k = 0; rule.kind == RuleKind::kFork && k < rule.n; ++k) {
        may_end = may_end || rules_->rules[rules_->alternatives[rule.first + k]].may_end;
      }
      changes = changes || may_end != rule.may_end;
      rule.may_end = may_end;
    }
  }
}

Status RuleMaker::make(Beginnings* beginnings) {
  *rules_ = {};
  rules_->style = argument_style(form_);
  rules_->n_rules = 1;  // kNeverRule
  put_tags();
  end_ = add(RuleKind::kEnd, json::kNeverRule);
  const bool has_start = has(CallString::kStart) && form_.kind != CallKind::kNoCalls;
  const bool is_bare = form_.has(format::kCallsBare);
  const bool ends_blocks =
      has(CallString::kEnd) || form_.kind == CallKind::kNamed || form_.kind == CallKind::kTagged;
  const uint8_t start = reserve();
  after_ = has_start && may_repeat() && ends_blocks ? fork({end_, blanks(start)}) : end_;
  uint8_t marked = json::kNeverRule;
  if (has_start && demands_.may_call) {
    marked = calls();
    begin_branches();
    for (std::string_view rest = form_.text(CallString::kStart); !rest.empty();) {
      put(next_call_text(&rest));
      end_branch(marked);
    }
    end_branches(start, RuleKind::kTexts);
  }
  uint8_t bare = json::kNeverRule;
  if (is_bare && demands_.may_call) {
    bare = form_.kind == CallKind::kPython ? functions(Place::kBare) : objects(Place::kBare);
  }
  const bool has_blanks = form_.kind == CallKind::kJson || form_.kind == CallKind::kPython ||
                          has(CallString::kCallBegin) || starts_end_with_blanks(form_);
  const uint8_t found = marked == json::kNeverRule || !has_blanks ? marked : blanks(marked);
  const uint8_t text = free_text(true, found, json::kNeverRule);
  *beginnings = {text, text, text};
  const bool thinks = has(CallString::kThinkingEnd);
  if (!demands_.must_call) {
    if (is_bare) {
      beginnings->closed = opening(bare, text);
      if (thinks) beginnings->thinking = free_text(true, found, beginnings->closed);
    }
  } else {
    const uint8_t first = fork({start, bare});
    const uint8_t last = blanks(first);
    uint8_t behind_thinking = last;
    if (has(CallString::kAnswerEnd)) {
      behind_thinking = fork({last, blanks(texts_of(CallString::kAnswerEnd, last))});
    }
    *beginnings = {first, first, text};
    if (thinks && demands_.may_think) {
      beginnings->thinking = free_text(false, found, behind_thinking);
      if (has(CallString::kThinkingBegin)) {
        beginnings->closed =
            fork({first, texts_of(CallString::kThinkingBegin, beginnings->thinking)});
      }
    } else if (thinks) {
      beginnings->thinking = texts_of(CallString::kThinkingEnd, behind_thinking);
    }
  }
  settle_ends();
  rules_->start = beginnings->closed;
  return is_full_ ? Status::kTextTooLong : Status::kOk;
}

bool is_json_mark_byte(char c) {
  constexpr std::string_view kOfJson = "{}[]\",:'+-.\\";
  const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  const bool is_digit = c >= '0' && c <= '9';
  return c <= ' ' || c > '~' || is_letter || is_digit || kOfJson.find(c) != std::string_view::npos;
}

}  // namespace

std::string_view value_mark(const CallFormat& form) {
  if (form.kind == CallKind::kTagged) return without_blanks(form.text(CallString::kValueEnd));
  return form.kind == CallKind::kNamed ? without_blanks(form.text(CallString::kStringMark))
                                       : std::string_view();
}

ArgumentStyle argument_style(const CallFormat& form) {
  if (form.kind == CallKind::kPython) return ArgumentStyle::kPython;
  if (form.kind == CallKind::kTagged) return ArgumentStyle::kTagged;
  return value_mark(form).empty() ? ArgumentStyle::kJson : ArgumentStyle::kMarked;
}

const char* check_grammar_form(const CallFormat& form, bool must_call) {
  if (form.kind == CallKind::kNoCalls) return must_call ? "has no calls" : nullptr;
  const std::string_view mark = value_mark(form);
  // What ends a value in tags is looked for in JSON, too.
  const std::string_view others = form.kind == CallKind::kTagged ? "\"\\\n\r\t" : "\n\r\t";
  if (!mark.empty() &&
      (is_json_mark_byte(mark.front()) || mark.find_first_of(others) != std::string_view::npos)) {
    return "has values whose end may be a part of JSON";
  }
  if (form.kind != CallKind::kNamed && form.kind != CallKind::kTagged) return nullptr;
  // What may stand after a name, or an id before one.
  for (const CallString string : {CallString::kArgumentsBegin, CallString::kIdBegin,
                                  CallString::kKeyBegin, CallString::kCallEnd, CallString::kEnd}) {
    const std::string_view text = form.text(string);
    if (!text.empty() && is_name_byte(text.front())) return "does not say where names end";
  }
  const std::string_view name_begin = form.text(CallString::kNameBegin);
  if (!name_begin.empty() && !form.has(format::kCallsIdHoldsName) &&
      is_name_byte(name_begin.front())) {
    return "does not say where ids end";
  }
  return nullptr;
}

Status make_rules(const CallFormat& form, const GrammarDemands& demands, Rules* rules,
                  Beginnings* beginnings) {
  return RuleMaker(form, demands, rules).make(beginnings);
}

}  // namespace cria::calls
