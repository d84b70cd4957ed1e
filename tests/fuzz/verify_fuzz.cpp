// cria_verify and cria_open give one answer on every file: tests/fuzz/hostile_input.h says what an
// input is.
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/hostile_input.h"
#include "tests/support/guarded_source.h"

namespace cria::fuzz {
namespace {

cria_status verify(const test::GuardedSource& source) {
  cria_model_info info = {};
  size_t n_bytes = CRIA_VERIFY_SCRATCH_BYTES;
  if (cria_inspect(&source.source(), &info) == CRIA_OK) {
    expect(cria_verify_required(&info, &n_bytes) == CRIA_OK,
           "what can be inspected can be verified");
  }
  test::AlignedMemory scratch(n_bytes);
  uint64_t bad_offset = 0;
  const cria_status status =
      cria_verify(&source.source(), scratch.data(), scratch.size(), nullptr, nullptr, &bad_offset);
  expect(bad_offset <= source.source().size, "an error lies in the file");
  return status;
}

}  // namespace

int fuzz_one(const uint8_t* data, size_t size) {
  constexpr uint64_t kMostMemory = uint64_t{16} << 20;
  HostileInput input = read_hostile_input(data, size);
  input.config.skip_checksums = 0;
  input.config.text_only = 0;  // it would leave the data unread
  const test::GuardedSource source(input.file, input.source_bytes, input.access);
  cria_status verdicts[3];
  size_t n = 0;
  for (const auto access : {test::Access::kMap, test::Access::kRead, test::Access::kBoth}) {
    verdicts[n++] = verify(test::GuardedSource(input.file, input.source_bytes, access));
  }
  expect(verdicts[0] == verdicts[1] && verdicts[0] == verdicts[2],
         "cria_verify says the same however the source hands out its bytes");
  cria_model_info info = {};
  const cria_status inspected = cria_inspect(&source.source(), &info);
  expect(inspected == CRIA_OK || verdicts[0] != CRIA_OK, "what is verified can be inspected");
  if (inspected != CRIA_OK) return 0;
  cria_memory_plan plan = {};
  if (cria_plan(&info, &input.config, &plan) != CRIA_OK || plan.total > kMostMemory) {
    return 0;
  }
  test::AlignedMemory memory(static_cast<size_t>(plan.total));
  cria_instance cria = {};
  const cria_status opened =
      cria_open(memory.data(), memory.size(), &source.source(), &input.config, &cria);
  if (opened == CRIA_UNSUPPORTED || opened == CRIA_BACKEND_FAILED) return 0;
  expect((opened == CRIA_OK) == (verdicts[0] == CRIA_OK),
         "cria_verify accepts exactly what cria_open accepts");
  return 0;
}

}  // namespace cria::fuzz
