// What families of models write, told by texts that their chat templates have in them: for those
// that show no calls of earlier answers, or show them otherwise than the model writes them.
#pragma once

#include <string_view>

#include "converter/chat_template/call_form.h"

namespace cria::converter {

// Adds the markers of thinking and answers.
void add_known_markers(std::string_view jinja, CallForm* form);

// Sets kind, flags and strings of calls and returns true where the template is of a known family:
// those that write calls otherwise than their templates show them, or all.
enum class KnownForms { kStronger, kAll };
bool set_known_calls(std::string_view jinja, KnownForms which, CallForm* form);

}  // namespace cria::converter
