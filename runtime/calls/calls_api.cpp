// The functions of cria_calls.h.
#include <algorithm>

#include <cria_calls.h>
#include "quant/format/align.h"
#include "quant/text/call_format.h"
#include "runtime/base/arena.h"
#include "runtime/calls/answer_reader.h"
#include "runtime/calls/tools.h"

struct cria_calls {
  cria::calls::AnswerReader reader;
};

namespace cria::calls {
namespace {

struct Input {
  std::span<const uint8_t> stored;
  std::string_view tools;
  size_t hold_bytes;
};

// What a reader takes, in the order in which make takes it.
Status need_bytes(const Input& input, CallFormat* form, size_t* n_values, size_t* n_bytes) {
  constexpr size_t kMostHold = size_t{1} << 30;
  if (input.hold_bytes < CRIA_CALLS_LEAST_HOLD || input.hold_bytes > kMostHold) {
    return Status::kInvalidArgument;
  }
  if (check_call_format(input.stored, form) != nullptr) return Status::kCorrupt;
  *n_values = 0;
  if (!input.tools.empty()) CRIA_TRY(Tools::count(input.tools, n_values));
  // Less than 2^31: texts of tools have a limit, too.
  *n_bytes = static_cast<size_t>(aligned(sizeof(cria_calls)) +
                                 aligned(*n_values * sizeof(json::SchemaValue)) +
                                 aligned(input.hold_bytes));
  return Status::kOk;
}

Status make(std::span<uint8_t> memory, const Input& input, cria_calls** calls) {
  CallFormat form = {};
  size_t n_values = 0;
  size_t n_bytes = 0;
  CRIA_TRY(need_bytes(input, &form, &n_values, &n_bytes));
  if (memory.size() < n_bytes) return Status::kMemoryTooSmall;
  Arena arena(memory.data(), memory.size());
  cria_calls* c = nullptr;
  json::SchemaValue* values = nullptr;
  char* hold = nullptr;
  CRIA_TRY(take(&arena, sizeof *c, &c));
  CRIA_TRY(take(&arena, n_values * sizeof *values, &values));
  CRIA_TRY(take(&arena, input.hold_bytes, &hold));
  Tools tools;
  if (!input.tools.empty()) CRIA_TRY(Tools::read(input.tools, values, &tools));
  c->reader.make(form, tools, {hold, input.hold_bytes});
  *calls = c;
  return Status::kOk;
}

// False for a null that stands for bytes.
bool read_input(const void* stored, size_t n_stored, const char* tools, size_t n_tools,
                size_t hold_bytes, Input* input) {
  if (stored == nullptr || (tools == nullptr && n_tools != 0)) return false;
  *input = {{static_cast<const uint8_t*>(stored), n_stored}, {tools, n_tools}, hold_bytes};
  return true;
}

}  // namespace
}  // namespace cria::calls

using cria::to_public;

extern "C" {

cria_status cria_calls_required(const void* format, size_t n_format, const char* tools,
                                size_t n_tools, size_t hold_bytes, size_t* n_bytes) {
  cria::calls::Input input;
  if (n_bytes == nullptr ||
      !cria::calls::read_input(format, n_format, tools, n_tools, hold_bytes, &input)) {
    return CRIA_INVALID_ARGUMENT;
  }
  cria::CallFormat form = {};
  size_t n_values = 0;
  size_t total = 0;
  const cria::Status status = cria::calls::need_bytes(input, &form, &n_values, &total);
  if (status == cria::Status::kOk) *n_bytes = total;
  return to_public(status);
}

cria_status cria_calls_make(void* memory, size_t n_bytes, const void* format, size_t n_format,
                            const char* tools, size_t n_tools, size_t hold_bytes,
                            cria_calls** calls) {
  cria::calls::Input input;
  if (memory == nullptr || calls == nullptr ||
      !cria::calls::read_input(format, n_format, tools, n_tools, hold_bytes, &input)) {
    return CRIA_INVALID_ARGUMENT;
  }
  *calls = nullptr;
  if (!cria::is_aligned(memory)) return CRIA_MISALIGNED;
  return to_public(cria::calls::make({static_cast<uint8_t*>(memory), n_bytes}, input, calls));
}

uint32_t cria_calls_written(const void* format, size_t n_format) {
  cria::CallFormat form = {};
  if (format == nullptr ||
      cria::check_call_format({static_cast<const uint8_t*>(format), n_format}, &form) != nullptr) {
    return 0;
  }
  const bool thinks = !form.text(cria::format::CallString::kThinkingBegin).empty() ||
                      !form.text(cria::format::CallString::kThinkingEnd).empty();
  return (form.kind != cria::format::CallKind::kNoCalls ? +CRIA_WRITES_CALLS : 0U) |
         (thinks ? +CRIA_WRITES_THINKING : 0U);
}

void cria_calls_take(cria_calls* calls, int is_on) {
  if (calls != nullptr) calls->reader.take_calls(is_on != 0);
}

cria_status cria_calls_begin(cria_calls* calls, const char* opened, size_t n_opened) {
  if (calls == nullptr || (opened == nullptr && n_opened != 0)) return CRIA_INVALID_ARGUMENT;
  calls->reader.begin({opened, n_opened});
  return CRIA_OK;
}

cria_status cria_calls_read(cria_calls* calls, const char* text, size_t n_bytes,
                            cria_calls_tell_fn tell, void* context) {
  if (calls == nullptr || tell == nullptr || (text == nullptr && n_bytes != 0)) {
    return CRIA_INVALID_ARGUMENT;
  }
  if (!calls->reader.is_open()) return CRIA_BAD_STATE;
  calls->reader.read({text, n_bytes}, tell, context);
  return CRIA_OK;
}

cria_status cria_calls_finish(cria_calls* calls, cria_calls_ending ended, cria_calls_tell_fn tell,
                              void* context, cria_calls_ending* ending) {
  if (calls == nullptr || tell == nullptr || ending == nullptr) return CRIA_INVALID_ARGUMENT;
  if (!calls->reader.is_open()) return CRIA_BAD_STATE;
  const bool is_cut = calls->reader.finish(ended == CRIA_CALLS_CUT, tell, context);
  *ending = is_cut ? CRIA_CALLS_CUT : CRIA_CALLS_STOPPED;
  return CRIA_OK;
}

}  // extern "C"
