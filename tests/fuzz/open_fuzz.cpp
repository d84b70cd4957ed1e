// A hostile model file, opened and used: tests/fuzz/hostile_input.h says what an input is.
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/hostile_input.h"
#include "tests/fuzz/noted_models.h"
#include "tests/fuzz/session_trial.h"
#include "tests/support/guarded_source.h"

namespace cria::fuzz {

int fuzz_one(const uint8_t* data, size_t size) {
  constexpr uint64_t kMostMemory = uint64_t{16} << 20;
  const HostileInput input = read_hostile_input(data, size);
  if (input.source_bytes == input.file.size()) note_model(input.file);
  const test::GuardedSource source(input.file, input.source_bytes, input.access);
  cria_model_info info = {};
  if (cria_inspect(&source.source(), &info) != CRIA_OK) return 0;
  cria_memory_plan plan = {};
  if (cria_plan(&info, &input.config, &plan) != CRIA_OK || plan.total > kMostMemory) {
    return 0;
  }
  test::AlignedMemory memory(static_cast<size_t>(plan.total));
  cria_instance cria = {};
  if (cria_open(memory.data(), memory.size(), &source.source(), &input.config, &cria) != CRIA_OK) {
    expect(test::bytes_of(cria) == 0, "what cannot be opened gives no object");
    return 0;
  }
  expect(cria_model_bytes(cria.model) == plan.model.total &&
             cria_session_bytes(cria.session) == plan.session.total &&
             cria_workspace_bytes(cria.workspace) == plan.workspace.total,
         "each object takes what was planned, to the byte");
  expect((cria.session == nullptr) == (input.config.text_only != 0),
         "there is a session unless text was asked for alone");
  try_session(cria, input.text, input.settings);
  test::AlignedMemory of_other(static_cast<size_t>(plan.session.total));
  cria_session* other = nullptr;
  const cria_status started =
      cria_start(of_other.data(), of_other.size(), cria.model, &input.config, &other);
  expect(started == (input.config.text_only != 0 ? CRIA_NO_WEIGHTS : CRIA_OK),
         "a model with weights has as many sessions as one likes");
  if (other != nullptr) try_step(cria, other, input.text);
  return 0;
}

}  // namespace cria::fuzz
