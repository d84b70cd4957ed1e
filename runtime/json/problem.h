// A refusal as callers get it.
#pragma once

#include <algorithm>

#include <cria_json.h>
#include "runtime/base/status.h"
#include "runtime/json/schema_text.h"
#include "runtime/json/text_part.h"

namespace cria::json {

// problem may be null; it is filled for what is said of schemas, else empty.
inline void say_problem(Status status, const Refusal& refusal, cria_json_problem* problem) {
  if (problem == nullptr) return;
  *problem = {};
  if (status != Status::kUnsupported && status != Status::kTextTooLong) return;
  problem->offset = refusal.offset;
  problem->reason = refusal.reason;
  const std::string_view keyword = part_of(refusal.keyword, 0, sizeof problem->keyword - 1);
  std::copy(keyword.begin(), keyword.end(), problem->keyword);
}

}  // namespace cria::json
