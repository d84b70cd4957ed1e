// The library's stack use is bounded and small: everything it does runs on a painted stack, and how
// much of the paint is gone is measured.
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <functional>

#include "tests/support/isa_list.h"
#include "tests/support/model_files.h"
#include "tests/support/sampling_of.h"
#include "tests/support/test_session.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CRIA_TEST_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define CRIA_TEST_SANITIZED 1
#endif
#endif

namespace cria {
namespace {

using format::NumberFormat;

constexpr size_t kStackBytes = size_t{1} << 20;
constexpr uint8_t kPaint = 0xa5;
// What docs/security.md promises; the thread's own record at the stack's top is in it.
constexpr size_t kMostBytes = 24 * 1024;

// Bytes of stack that work takes on a thread of its own.
size_t stack_bytes_of(const std::function<void()>& work) {
  void* const stack =
      mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT_NE(stack, MAP_FAILED);
  const auto* const bytes = static_cast<const uint8_t*>(stack);
  std::fill_n(static_cast<uint8_t*>(stack), kStackBytes, kPaint);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  EXPECT_EQ(pthread_attr_setstack(&attributes, stack, kStackBytes), 0);
  pthread_t thread;
  const auto run = [](void* argument) -> void* {
    (*static_cast<const std::function<void()>*>(argument))();
    return nullptr;
  };
  EXPECT_EQ(pthread_create(&thread, &attributes, run, const_cast<std::function<void()>*>(&work)),
            0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
  const auto* const first_used =
      std::find_if(bytes, bytes + kStackBytes, [](uint8_t byte) { return byte != kPaint; });
  const auto used = static_cast<size_t>(bytes + kStackBytes - first_used);
  munmap(stack, kStackBytes);
  return used;
}

// A file is verified and a session lives: statuses are noted, not asserted, since GoogleTest's
// macros take stack.
struct Life {
  const cria_source* source;
  cria_config config;
  void* memory;
  size_t memory_bytes;
  uint8_t* state;
  size_t state_bytes;
  cria_model_info info;
  cria_memory_plan plan;
  uint32_t tokens[512];
  char text[CRIA_TEXT_BYTES];
  int n_failed;

  void expect_ok(cria_status status) { n_failed += status == CRIA_OK ? 0 : 1; }
};

void live(Life* life) {
  const cria_message messages[] = {{CRIA_SYSTEM, "Be brief.", 9},
                                   {CRIA_USER, "What is a cria?", 15}};
  const cria_sampling sampling = test::sampling_of(0.8f, 0.95f, 0.05f, 1.1f, 40);
  cria_instance cria = {};
  size_t n = 0;
  life->expect_ok(cria_inspect(life->source, &life->info));
  life->expect_ok(
      cria_verify(life->source, life->memory, life->memory_bytes, nullptr, nullptr, nullptr));
  life->expect_ok(cria_plan(&life->info, &life->config, &life->plan));
  life->expect_ok(cria_open(life->memory, life->memory_bytes, life->source, &life->config, &cria));
  if (cria.session == nullptr) return;
  life->expect_ok(cria_encode(cria.workspace, "Once upon a time", 16, CRIA_ENCODE_PARSE,
                              life->tokens, std::size(life->tokens), &n));
  life->expect_ok(cria_encode_chat(cria.workspace, messages, std::size(messages), 0, 1,
                                   life->tokens, std::size(life->tokens), &n));
  life->expect_ok(cria_prefill(cria.workspace, cria.session, life->tokens, n));
  cria_text_state stream = {};
  for (int i = 0; i < 4; ++i) {
    uint32_t token = 0;
    life->expect_ok(cria_sample(cria.workspace, cria.session, &sampling, &token));
    life->expect_ok(
        cria_decode_token(cria.model, &stream, token, life->text, sizeof life->text, &n));
    life->expect_ok(cria_prefill(cria.workspace, cria.session, &token, 1));
  }
  const size_t used = std::min(cria_state_size(cria.session), life->state_bytes);
  life->expect_ok(cria_state_save(cria.session, life->state, used));
  life->expect_ok(cria_state_load(cria.session, life->state, used));
}

class StackUse : public testing::TestWithParam<cria_backend> {};

TEST_P(StackUse, IsBoundedThroughTheWholeLifeOfASession) {
#ifdef CRIA_TEST_SANITIZED
  GTEST_SKIP() << "sanitizers widen every frame";
#endif
  const NumberFormat formats[] = {NumberFormat::kInt4, NumberFormat::kInt8, NumberFormat::kF32};
  size_t most = 0;
  for (const NumberFormat weights : formats) {
    const auto group_size = static_cast<uint16_t>(weights == NumberFormat::kInt4 ? 32 : 0);
    const test::Bytes bytes = test::convert_folder(
        test::demo_folder(), {weights, group_size, format::Compression::kZstd, true});
    const test::MemorySource source(bytes);
    Life life = {};
    life.source = &source.source();
    life.config.backend = GetParam();
    ASSERT_EQ(cria_inspect(life.source, &life.info), CRIA_OK);
    ASSERT_EQ(cria_plan(&life.info, &life.config, &life.plan), CRIA_OK);
    test::AlignedMemory memory(static_cast<size_t>(life.plan.total));
    std::vector<uint8_t> state(static_cast<size_t>(life.plan.session.total) + 65536);
    life.memory = memory.data();
    life.memory_bytes = memory.size();
    life.state = state.data();
    life.state_bytes = state.size();
    for (const test::IsaRow& isa : test::runnable_isas()) {
      life.config.isa_mask = isa.mask;
      most = std::max(most, stack_bytes_of([&life] { live(&life); }));
      EXPECT_EQ(life.n_failed, 0) << isa.name;
    }
  }
  std::printf("stack of a session's life (%s): %zu bytes\n",
              test::backend_label({GetParam(), 0}).c_str(), most);
  EXPECT_LE(most, kMostBytes);
  EXPECT_GT(most, size_t{1024});  // the paint was looked at
}

INSTANTIATE_TEST_SUITE_P(Backends, StackUse, testing::ValuesIn(test::built_backends()),
                         test::backend_label);

}  // namespace
}  // namespace cria
