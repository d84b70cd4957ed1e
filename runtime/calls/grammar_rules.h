// The rules of an answer: what a form of calls puts around names and arguments.
#pragma once

#include "quant/text/call_format.h"
#include "runtime/base/status.h"
#include "runtime/json/rules.h"

namespace cria::calls {

struct GrammarDemands {
  bool may_call;   // else what would begin a call is nothing
  bool must_call;  // else text may come first, or alone
  bool one_call;
  bool may_think;  // before calls that must come
};

// Where answers begin, as rules.
struct Beginnings {
  uint8_t closed;    // thinking is not open
  uint8_t thinking;  // it is
  uint8_t any;       // text in which calls begin
};

// Null: rules can be made for the form; else why not, static text that reads on from "the form of
// calls ".
[[nodiscard]] const char* check_grammar_form(const CallFormat& form, bool must_call);

// kUnsupported for a form whose texts have no room.
[[nodiscard]] Status make_rules(const CallFormat& form, const GrammarDemands& demands,
                                json::Rules* rules, Beginnings* beginnings);

// What stands in no string of arguments; empty: there is nothing.
[[nodiscard]] std::string_view value_mark(const CallFormat& form);
[[nodiscard]] json::ArgumentStyle argument_style(const CallFormat& form);

}  // namespace cria::calls
