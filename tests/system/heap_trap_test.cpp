// After cria_open nothing allocates: not prefill, decode, sampling, text, state, on any backend,
// with one thread and with the pool that the programs use.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <new>

#include "platforms/hosted/base/thread_pool.h"
#include "tests/support/isa_list.h"
#include "tests/support/model_files.h"
#include "tests/support/plain_chat.h"
#include "tests/support/sampling.h"
#include "tests/support/sampling_of.h"
#include "tests/support/test_session.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CRIA_TEST_SANITIZED 1
// GCC ships the sanitizers' runtime without this interface's header.
extern "C" int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void*,
                                                                           size_t),
                                                         void (*on_free)(const volatile void*));
#else
#define CRIA_TEST_SANITIZED 0
#endif

namespace {

std::atomic<bool> trap_armed{false};
std::atomic<size_t> trapped{0};

void note_allocation() {
  if (trap_armed.load(std::memory_order_relaxed)) ++trapped;
}

}  // namespace

#if CRIA_TEST_SANITIZED
namespace {
const int kHooked = __sanitizer_install_malloc_and_free_hooks(
    [](const volatile void*, size_t) { note_allocation(); }, [](const volatile void*) {});
}
#else
// operator new calls malloc, so these six catch it all. A dynamic program takes its own definitions
// before libc's; a static one would then hold both, so there the linker entries every call into one
// of __wrap_NAME (tests/CMakeLists.txt).
#ifdef CRIA_TEST_STATIC
#define CRIA_TRAP(name) __wrap_##name
extern "C" void* __real_mmap(void* address, size_t n_bytes, int protection, int flags, int file,
                             off_t offset);
#else
#define CRIA_TRAP(name) name
#endif

extern "C" {
void* __libc_malloc(size_t n_bytes);
void* __libc_calloc(size_t n, size_t n_bytes);
void* __libc_realloc(void* p, size_t n_bytes);
void* __libc_memalign(size_t alignment, size_t n_bytes);

void* CRIA_TRAP(malloc)(size_t n_bytes) {
  note_allocation();
  return __libc_malloc(n_bytes);
}
void* CRIA_TRAP(calloc)(size_t n, size_t n_bytes) {
  note_allocation();
  return __libc_calloc(n, n_bytes);
}
void* CRIA_TRAP(realloc)(void* p, size_t n_bytes) {
  note_allocation();
  return __libc_realloc(p, n_bytes);
}
int CRIA_TRAP(posix_memalign)(void** out, size_t alignment, size_t n_bytes) {
  note_allocation();
  *out = __libc_memalign(alignment, n_bytes);
  return *out == nullptr ? 12 : 0;
}
void* CRIA_TRAP(aligned_alloc)(size_t alignment, size_t n_bytes) {
  note_allocation();
  return __libc_memalign(alignment, n_bytes);
}
void* CRIA_TRAP(mmap)(void* address, size_t n_bytes, int protection, int flags, int file,
                      off_t offset) {
  note_allocation();
#ifdef CRIA_TEST_STATIC
  return __real_mmap(address, n_bytes, protection, flags, file, offset);
#else
  return reinterpret_cast<void*>(
      syscall(SYS_mmap, address, n_bytes, protection, flags, file, offset));
#endif
}
}
#endif

namespace cria {
namespace {

using format::NumberFormat;

TEST(HeapTrap, CatchesEveryWayToAllocate) {
#if CRIA_TEST_SANITIZED
  ASSERT_GT(kHooked, 0);
#endif
  trapped = 0;
  trap_armed = true;
  void* volatile p = std::malloc(10);
  int* volatile q = new int[3];
  trap_armed = false;
  std::free(p);
  delete[] q;
  EXPECT_GE(trapped, 2u);
}

struct Outputs {
  uint32_t tokens[512];
  char text[CRIA_TEXT_BYTES];
  float logits[3 * 2048];
};

// Everything a program does between opening and forgetting a session, n_tokens long.
void converse(const cria_instance& cria, size_t n_tokens, Outputs* out, uint8_t* state,
              size_t state_bytes) {
  const cria_message message = {CRIA_USER, "What is a cria?", 15};
  size_t n = 0;
  ASSERT_EQ(test::encode_chat(cria.workspace, &message, 1, 0, 1, out->tokens, 512, &n), CRIA_OK);
  ASSERT_EQ(cria_prefill(cria.workspace, cria.session, out->tokens, n), CRIA_OK);
  cria_text_state stream = {};
  const cria_sampling sampling = test::sampling_of(0.8f, 0.95f, 0.05f, 1.1f, 40);
  for (size_t i = 0; i < n_tokens; ++i) {
    uint32_t token = 0;
    ASSERT_EQ(cria_sample(cria.workspace, cria.session, &sampling, &token), CRIA_OK);
    ASSERT_EQ(cria_decode_token(cria.model, &stream, token, out->text, sizeof out->text, &n),
              CRIA_OK);
    ASSERT_EQ(cria_prefill(cria.workspace, cria.session, &token, 1), CRIA_OK);
  }
  ASSERT_EQ(cria_encode(cria.workspace, "Once upon a time", 16, 0, out->tokens, 512, &n), CRIA_OK);
  const cria_batch_entry entry = {cria.session, out->tokens, 3, out->logits, {}};
  ASSERT_EQ(cria_step(cria.workspace, &entry, 1), CRIA_OK);
  ASSERT_LE(cria_state_size(cria.session), state_bytes);
  const size_t used = cria_state_size(cria.session);
  ASSERT_EQ(cria_state_save(cria.session, state, used), CRIA_OK);
  ASSERT_EQ(cria_reset(cria.session, 0), CRIA_OK);
  ASSERT_EQ(cria_state_load(cria.session, state, used), CRIA_OK);
}

class HeapTrapOn : public testing::TestWithParam<cria_backend> {};

TEST_P(HeapTrapOn, SeesNothingThroughAConversation) {
  const size_t n_tokens = test::sweep_step() == 1 ? 200 : 30;
  const NumberFormat formats[] = {NumberFormat::kInt4, NumberFormat::kInt8, NumberFormat::kF32};
  for (const NumberFormat weights : formats) {
    const uint16_t group = weights == NumberFormat::kInt4 ? 32 : 0;
    const test::MemorySource source(test::convert_folder(
        test::demo_folder(), {weights, group, format::Compression::kZstd, true}));
    for (const uint32_t n_threads : {1u, 2u}) {
      hosted::ThreadPool pool(n_threads, hosted::FewerThreads::kAreRefused);
      cria_config config = {};
      config.backend = GetParam();
      config.n_threads = n_threads;
      config.isa_mask = test::runnable_isas().back().mask;
      config.parallel_for = pool.hook();
      config.parallel_context = pool.context();
      cria_model_info info = {};
      cria_memory_plan plan = {};
      ASSERT_EQ(cria_inspect(&source.source(), &info), CRIA_OK);
      ASSERT_EQ(info.vocab_size, 2048u);
      ASSERT_EQ(cria_plan(&info, &config, &plan), CRIA_OK);
      test::AlignedMemory memory(plan.total);
      auto out = std::make_unique<Outputs>();
      std::vector<uint8_t> state(size_t{4} << 20);
      cria_instance cria = {};
      ASSERT_EQ(cria_open(memory.data(), plan.total, &source.source(), &config, &cria), CRIA_OK);
      test::AlignedMemory of_session(plan.session.total);
      test::AlignedMemory of_workspace(plan.workspace.total);
      trapped = 0;
      trap_armed = true;
      converse(cria, n_tokens, out.get(), state.data(), state.size());
      // Nor does beginning another conversation with the same model.
      cria_instance other = {cria.model, nullptr, nullptr};
      ASSERT_EQ(
          cria_start(of_session.data(), of_session.size(), cria.model, &config, &other.session),
          CRIA_OK);
      ASSERT_EQ(cria_make_workspace(of_workspace.data(), of_workspace.size(), cria.model, &config,
                                    &other.workspace),
                CRIA_OK);
      converse(other, 1, out.get(), state.data(), state.size());
      trap_armed = false;
      std::printf("%zu allocations in %zu tokens\n", trapped.load(), n_tokens);
      EXPECT_EQ(trapped, 0u) << n_threads << " threads, format " << static_cast<int>(weights);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, HeapTrapOn, testing::ValuesIn(test::built_backends()),
                         test::backend_label);

}  // namespace
}  // namespace cria
