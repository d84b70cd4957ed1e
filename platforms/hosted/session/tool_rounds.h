// Whether a model's chat template shows it tools, and what their calls came to: one rule for all
// programs that offer tools.
#pragma once

#include <cria.h>

namespace cria::hosted {

struct ToolRounds {
  bool are_taken = false;   // a question with a tool, and two rounds of a call and its result
  bool of_several = false;  // and also of two calls in one message, with their results
};

// Asks the template; no text is encoded. A model without a template takes none.
[[nodiscard]] ToolRounds tool_rounds_of(const cria_model_info& info, cria_workspace* workspace);

// Why a model that calls tools is offered none; reads on from "its chat template ".
inline constexpr const char* kTakesNoRounds =
    "has no place for tools, or none for what calls came to";

}  // namespace cria::hosted
