// The library's stack use is bounded and small: everything it does runs on a painted stack, and how
// much of the paint is gone is measured.
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <string_view>
#include <vector>

#include <cria_call_grammar.h>
#include <cria_json.h>
#include "tests/support/call_trial.h"
#include "tests/support/in_turn.h"
#include "tests/support/isa_list.h"
#include "tests/support/model_files.h"
#include "tests/support/plain_chat.h"
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
  life->expect_ok(test::encode_chat(cria.workspace, messages, std::size(messages), 0, 1,
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
  std::vector<NumberFormat> formats = {NumberFormat::kInt4, NumberFormat::kInt8,
                                       NumberFormat::kF32};
  if (GetParam() == CRIA_BACKEND_EXACT) formats.push_back(NumberFormat::kInt4Nl);
  size_t most = 0;
  for (const NumberFormat weights : formats) {
    const bool has_groups = has_group_scales(weights);
    const auto group_size = static_cast<uint16_t>(has_groups ? 32 : 0);
    const test::Bytes bytes = test::convert_folder(
        test::demo_folder(), {weights, group_size, format::Compression::kZstd, true});
    const test::MemorySource source(bytes);
    Life life = {};
    life.source = &source.source();
    life.config.backend = GetParam();
    life.config.n_threads = 2;
    life.config.parallel_for = test::in_turn;
    ASSERT_EQ(cria_inspect(life.source, &life.info), CRIA_OK);
    for (const uint32_t prefill_chunk : {0U, 7U, 15U, 16U}) {
      life.config.prefill_chunk = prefill_chunk;
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
  }
  std::printf("stack of a session's life (%s): %zu bytes\n",
              test::backend_label({GetParam(), 0}).c_str(), most);
  EXPECT_LE(most, kMostBytes);
  EXPECT_GT(most, size_t{1024});  // the paint was looked at
}

INSTANTIATE_TEST_SUITE_P(Backends, StackUse, testing::ValuesIn(test::built_backends()),
                         test::backend_label);

// A schema is compiled and a document written under its masks.
void write_json(const cria_model* model, std::vector<float>* logits, test::AlignedMemory* first,
                test::AlignedMemory* second, int* n_failed) {
  constexpr std::string_view kSchema =
      R"({"type":"object","properties":{"a":{"anyOf":[{"type":"string","pattern":"^[a-z ]{2,9}$"},)"
      R"({"type":"string","maxLength":5},{"const":{"x":[1]}}]},"b":{"type":"number","minimum":0.5},)"
      R"("c":{"$ref":"#"}},"required":["a","b"],"additionalProperties":{"type":"string"}})";
  const auto expect_ok = [&](cria_status status) { *n_failed += status == CRIA_OK ? 0 : 1; };
  size_t n_bytes = 0;
  cria_json_vocabulary* vocabulary = nullptr;
  cria_json* json = nullptr;
  cria_json_problem problem = {};
  cria_json_state state;
  expect_ok(cria_json_vocabulary_required(model, &n_bytes));
  expect_ok(cria_json_make_vocabulary(first->data(), first->size(), model, &vocabulary));
  expect_ok(cria_json_required(vocabulary, kSchema.data(), kSchema.size(), &n_bytes, &problem));
  expect_ok(cria_json_make(second->data(), second->size(), vocabulary, kSchema.data(),
                           kSchema.size(), &json, &problem));
  if (json == nullptr) return;
  expect_ok(cria_json_begin(json, &state));
  uint32_t chance = 1;
  for (int i = 0; i < 200; ++i) {
    std::fill(logits->begin(), logits->end(), 0.0F);
    expect_ok(cria_json_mask(json, &state, logits->data(), logits->size()));
    uint32_t token = 0;
    for (uint32_t k = 0; k < 64 || (*logits)[token] < 0; ++k) {
      chance = chance * 1664525 + 1013904223;
      token = (chance >> 8) % static_cast<uint32_t>(logits->size());
    }
    expect_ok(cria_json_accept(json, &state, token));
    if (cria_json_progress_of(json, &state) == CRIA_JSON_CLOSED) {
      expect_ok(cria_json_begin(json, &state));
    }
  }
}

TEST(StackUseOfJson, IsBoundedFromTheSchemaToTheLastMask) {
#ifdef CRIA_TEST_SANITIZED
  GTEST_SKIP() << "sanitizers widen every frame";
#endif
  constexpr size_t kMostJsonBytes = 16 * 1024;  // docs/json.md
  const test::Bytes bytes = test::convert_folder(
      test::demo_folder(), {NumberFormat::kInt4, 32, format::Compression::kZstd, true});
  const test::MemorySource source(bytes);
  test::TestSession session(source, {});
  const cria_model* const model = session.model();
  std::vector<float> logits(cria_vocab_size(model));
  test::AlignedMemory first(size_t{4} << 20);
  test::AlignedMemory second(size_t{4} << 20);
  int n_failed = 0;
  const size_t used =
      stack_bytes_of([&] { write_json(model, &logits, &first, &second, &n_failed); });
  std::printf("stack of a document: %zu bytes\n", used);
  EXPECT_EQ(n_failed, 0);
  EXPECT_LE(used, kMostJsonBytes);
}

// A grammar is made and an answer written under its masks, with what is forced.
void write_calls(const cria_instance& cria, const std::vector<uint8_t>& form,
                 std::vector<float>* logits, test::AlignedMemory* first,
                 test::AlignedMemory* second, int* n_failed) {
  constexpr std::string_view kTools =
      R"([{"name":"f","parameters":{"properties":{"a":{"type":"string","pattern":"^[a-z ]{2,9}$"},)"
      R"("b":{"anyOf":[{"type":"number"},{"type":"array"}]}},"required":["a","b"]}},{"name":"g"}])";
  const auto expect_ok = [&](cria_status status) { *n_failed += status == CRIA_OK ? 0 : 1; };
  size_t n_bytes = 0;
  cria_json_vocabulary* vocabulary = nullptr;
  cria_call_grammar* grammar = nullptr;
  cria_call_problem problem = {};
  cria_call_order order = {};
  cria_call_state state;
  order.format = form.data();
  order.n_format = form.size();
  order.tools = kTools.data();
  order.n_tools = kTools.size();
  order.choice = CRIA_TOOLS_REQUIRED;
  expect_ok(cria_json_make_vocabulary(first->data(), first->size(), cria.model, &vocabulary));
  expect_ok(cria_call_grammar_required(vocabulary, &order, &n_bytes, &problem));
  expect_ok(cria_call_grammar_make(second->data(), second->size(), vocabulary, &order, &grammar,
                                   &problem));
  if (grammar == nullptr) return;
  expect_ok(cria_call_grammar_begin(grammar, "a text", 6, &state));
  uint32_t chance = 1;
  for (int i = 0; i < 200; ++i) {
    uint32_t forced[32];
    size_t n_forced = 0;
    expect_ok(
        cria_call_grammar_forced_tokens(grammar, &state, cria.workspace, forced, 32, &n_forced));
    for (size_t k = 0; k < n_forced; ++k) {
      expect_ok(cria_call_grammar_accept(grammar, &state, forced[k]));
    }
    std::fill(logits->begin(), logits->end(), 0.0F);
    expect_ok(cria_call_grammar_mask(grammar, &state, logits->data(), logits->size()));
    uint32_t token = 0;
    for (uint32_t k = 0; k < 64 || (*logits)[token] < 0; ++k) {
      chance = chance * 1664525 + 1013904223;
      token = (chance >> 8) % static_cast<uint32_t>(logits->size());
    }
    expect_ok(cria_call_grammar_accept(grammar, &state, token));
    if (cria_call_grammar_progress_of(grammar, &state) == CRIA_CALL_CLOSED) {
      expect_ok(cria_call_grammar_begin(grammar, "", 0, &state));
    }
  }
}

TEST(StackUseOfCalls, IsBoundedFromTheToolsToTheLastMask) {
#ifdef CRIA_TEST_SANITIZED
  GTEST_SKIP() << "sanitizers widen every frame";
#endif
  const test::Bytes bytes = test::convert_folder(
      test::demo_folder(), {NumberFormat::kInt4, 32, format::Compression::kZstd, true});
  const test::MemorySource source(bytes);
  test::TestSession session(source, {});
  std::vector<float> logits(cria_vocab_size(session.model()));
  test::AlignedMemory first(size_t{4} << 20);
  test::AlignedMemory second(size_t{4} << 20);
  size_t most = 0;
  for (const char* const name : {"qwen2.5-7b-instruct", "lfm2", "qwen3-coder-30b", "gemma-4-31b"}) {
    const auto form = test::call_form_of(name);
    int n_failed = 0;
    most = std::max(most, stack_bytes_of([&] {
                      write_calls(session.instance(), form, &logits, &first, &second, &n_failed);
                    }));
    EXPECT_EQ(n_failed, 0) << name;
  }
  std::printf("stack of calls: %zu bytes\n", most);
  EXPECT_LE(most, kMostBytes);
}

}  // namespace
}  // namespace cria
