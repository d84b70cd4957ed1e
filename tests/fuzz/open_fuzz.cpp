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
  cria_session* session = nullptr;
  if (cria_open(memory.data(), memory.size(), &source.source(), &input.config, &session) !=
      CRIA_OK) {
    return 0;
  }
  expect(cria_memory_used(session) == plan.total, "a session takes what was planned, to the byte");
  try_session(session, input.text, input.settings);
  return 0;
}

}  // namespace cria::fuzz
