#include "quant/memory_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "quant/model_layout.h"
#include "tests/support/matrix_formats.h"
#include "tests/support/test_configs.h"

namespace cria {
namespace {

format::ModelConfig llama_1b() {
  format::ModelConfig c = test::small_config(format::NumberFormat::kInt4, 32);
  c.flags = format::kTiedEmbedding;
  c.n_layers = 16;
  c.d_model = 2048;
  c.n_heads = 32;
  c.n_kv_heads = 8;
  c.head_dim = 64;
  c.d_ff = 8192;
  c.vocab_size = 128256;
  c.max_context = 131072;
  c.planned_context = 2048;
  c.compression = static_cast<uint32_t>(format::Compression::kZstd);
  test::mend_counts(&c);
  return c;
}

PlanInput exact_input(uint32_t context) {
  PlanInput in = {};
  in.context = context;
  in.n_threads = 2;
  in.prefill_chunk = 64;
  in.max_turns = 1;
  in.max_text_bytes = 8192;
  in.kv_format = KvFormat::kInt8;
  in.tokenizer_bytes = 8'000'001;
  in.chat_template_bytes = 100;
  in.backend_keeps_tile16 = true;
  return in;
}

// The sums that the header promises, and that every object is a whole number of blocks.
void expect_totals(const MemoryPlan& plan) {
  const MemoryPlan::Model& m = plan.model;
  const MemoryPlan::Session& s = plan.session;
  const MemoryPlan::Workspace& w = plan.workspace;
  EXPECT_EQ(m.total, m.objects + m.tokenizer + m.weights + m.backend);
  EXPECT_EQ(s.total, s.objects + s.kv_cache + s.history + s.logits);
  EXPECT_EQ(scratch_bytes(w), std::max({w.running, w.sampling, w.encoding}));
  EXPECT_EQ(w.total, w.objects + w.backend + scratch_bytes(w));
  EXPECT_EQ(plan.total, m.total + s.total + std::max(w.total, plan.loading));
  for (const uint64_t bytes :
       {m.objects, m.tokenizer, m.weights, m.backend, s.objects, s.kv_cache, s.history, s.logits,
        w.objects, w.backend, w.running, w.sampling, w.encoding, plan.loading}) {
    EXPECT_EQ(bytes % format::kAlignment, 0u);
  }
}

// Pins exact byte totals of a Llama 3.2 1B, worked out by hand.
TEST(MemoryPlan, OfAOneBillionParameterModelIsWhatTheArithmeticSays) {
  MemoryPlan plan;
  ASSERT_TRUE(plan_memory(llama_1b(), exact_input(2048), &plan));
  EXPECT_EQ(plan.model.objects, 2112u + 16 * 1024);
  EXPECT_EQ(plan.model.tokenizer, 8'000'064u + 128);
  // 1,235,746,816 weights of 4.5 bits, 33 norms of 2048 f32, 32 RoPE frequencies.
  EXPECT_EQ(plan.model.weights, 1235746816u / 2 + 1235746816u / 16 + 33u * 8192 + 128);
  EXPECT_EQ(plan.model.backend, 0u);
  EXPECT_EQ(plan.session.objects, 256u);
  EXPECT_EQ(plan.session.kv_cache, 16u * 8 * 2048 * 2 * (64 + 4));
  EXPECT_EQ(plan.session.history, 8192u);
  EXPECT_EQ(plan.session.logits, (128256u + 2048u) * 4);
  EXPECT_EQ(plan.workspace.objects, 512u);
  EXPECT_EQ(plan.workspace.backend, 0u);
  // Of 64 rows: x, normed, projected; gate and up; inputs of 8192 as int8 with scales and sums;
  // cosines and sines; attention of two threads by 32 queries; 16 bytes for each row.
  EXPECT_EQ(plan.workspace.running,
            3u * 64 * 2048 * 4 + 2 * 64 * 8192 * 4 + 64 * (8192 + 2 * 8192 / 32 * 4) + 64 * 64 * 4 +
                2 * 32 * (64 * 4 + 64 * 4 + 64 + 2 * 2 * 4 + 4 + 24) + 64 * 16);
  EXPECT_EQ(plan.workspace.sampling, 128256u * 8);
  EXPECT_EQ(plan.workspace.encoding, (8192u + 16) * 28);
  EXPECT_EQ(plan.loading, 2u * (160 + 256) * 1024);
  EXPECT_EQ(plan.in_place, 0u);
  expect_totals(plan);
  // Running is the largest of what shares the workspace's memory, and larger than loading.
  EXPECT_EQ(plan.workspace.total, 512 + plan.workspace.running);
  EXPECT_EQ(plan.total, plan.model.total + plan.session.total + plan.workspace.total);
}

// A row is a position of one head: codes of keys and values, a scale each, or of values a bf16 for
// each 32.
TEST(MemoryPlan, OfAKvCacheIsWhatItsFormatTakes) {
  constexpr uint64_t kRows = 16 * 8 * 2048;
  PlanInput in = exact_input(2048);
  MemoryPlan plan;
  for (const auto& [kv_format, row_bytes] :
       {std::pair{KvFormat::kInt8, 64 + 4 + 64 + 4}, std::pair{KvFormat::kF32, 8 * 64},
        std::pair{KvFormat::kK8V4, 64 + 4 + 32 + 2 * 2}}) {
    in.kv_format = kv_format;
    ASSERT_TRUE(plan_memory(llama_1b(), in, &plan));
    EXPECT_EQ(plan.session.kv_cache, kRows * static_cast<uint64_t>(row_bytes));
    expect_totals(plan);
  }
  // The last group of a head may be shorter, and each part is whole blocks.
  struct Case {
    uint32_t head_dim;
    KvRowBytes k8v4;
  };
  for (const Case& k :
       {Case{2, {2, 1, 4, 2}}, Case{30, {30, 15, 4, 2}}, Case{32, {32, 16, 4, 2}},
        Case{34, {34, 17, 4, 4}}, Case{80, {80, 40, 4, 6}}, Case{128, {128, 64, 4, 8}}}) {
    const KvRowBytes row = kv_row_bytes(k.head_dim, KvFormat::kK8V4);
    EXPECT_EQ(row.keys, k.k8v4.keys);
    EXPECT_EQ(row.values, k.k8v4.values);
    EXPECT_EQ(row.key_scales, k.k8v4.key_scales);
    EXPECT_EQ(row.value_scales, k.k8v4.value_scales);
    format::ModelConfig c = llama_1b();
    c.head_dim = k.head_dim;
    const KvLayout layout = kv_layout(c, 3, KvFormat::kK8V4);
    constexpr uint64_t kLayoutRows = 16 * 8 * 3;  // a multiple of 64
    EXPECT_EQ(layout.total,
              kLayoutRows * (row.keys + row.values + row.key_scales + row.value_scales));
    EXPECT_EQ(layout.keys + layout.values + layout.key_scales + layout.value_scales, layout.total);
  }
}

TEST(MemoryPlan, MappedStoredFilesKeepWeightsAndTablesOutOfTheArena) {
  format::ModelConfig c = llama_1b();
  c.compression = 0;
  PlanInput in = exact_input(2048);
  in.mapped = true;
  MemoryPlan plan;
  ASSERT_TRUE(plan_memory(c, in, &plan));
  EXPECT_EQ(plan.model.weights, 0u);
  EXPECT_EQ(plan.model.tokenizer, 0u);
  EXPECT_EQ(plan.model.total, plan.model.objects);
  EXPECT_EQ(plan.loading, 0u);
  EXPECT_EQ(plan.in_place, all_tensor_bytes(c) + 8'000'064 + 128);
  expect_totals(plan);
}

TEST(MemoryPlan, OnlyTheKvCacheAndTheHistoryGrowWithTheContext) {
  MemoryPlan small, large;
  PlanInput in = exact_input(512);
  ASSERT_TRUE(plan_memory(llama_1b(), in, &small));
  in.context = 4096;
  ASSERT_TRUE(plan_memory(llama_1b(), in, &large));
  EXPECT_EQ(large.total - small.total, large.session.kv_cache - small.session.kv_cache +
                                           large.session.history - small.session.history);
  EXPECT_EQ(large.session.kv_cache, 8 * small.session.kv_cache);
  EXPECT_EQ(large.session.total - small.session.total, large.total - small.total);
  EXPECT_EQ(large.model.total, small.model.total);
  EXPECT_EQ(large.workspace.total, small.workspace.total);
  EXPECT_EQ(large.loading, small.loading);
}

// So that a session costs the same on every workspace, and sessions of other contexts share one.
TEST(MemoryPlan, EachObjectDependsOnItsOwnWishesAlone) {
  MemoryPlan usual, other;
  ASSERT_TRUE(plan_memory(llama_1b(), exact_input(512), &usual));
  PlanInput in = exact_input(512);
  in.n_threads = 7;
  in.prefill_chunk = 16;
  in.max_turns = 5;
  in.max_text_bytes = 100;
  in.backend_workspace_bytes = 100;
  in.backend_step_bytes = 1000;
  in.backend_load_bytes = 10000;
  ASSERT_TRUE(plan_memory(llama_1b(), in, &other));
  EXPECT_EQ(std::memcmp(&usual.model, &other.model, sizeof usual.model), 0);
  EXPECT_EQ(std::memcmp(&usual.session, &other.session, sizeof usual.session), 0);
  EXPECT_EQ(other.workspace.backend, 128u);
  EXPECT_EQ(other.workspace.encoding, 116u * 28 + 16);  // to a multiple of 64
  EXPECT_EQ(other.loading, 7u * (160 + 256) * 1024 + 10048);
  expect_totals(other);
  in = exact_input(512);
  in.backend_keeps_tile16 = false;
  in.backend_model_bytes = 1000;
  ASSERT_TRUE(plan_memory(llama_1b(), in, &other));
  EXPECT_EQ(other.model.backend, 1024u);
  // Vectors and the embedding, which is tied, are read in the file's layout by every backend.
  EXPECT_EQ(other.model.weights, 128256u * (2048 / 2 + 2048 / 16) + 33u * 8192 + 128);
  EXPECT_EQ(std::memcmp(&usual.session, &other.session, sizeof usual.session), 0);
  EXPECT_EQ(std::memcmp(&usual.workspace, &other.workspace, sizeof usual.workspace), 0);
  expect_totals(other);
}

TEST(MemoryPlan, LogitsOfSeveralTurnsTakeRoomInTheWorkspace) {
  MemoryPlan one, four;
  PlanInput in = exact_input(512);
  ASSERT_TRUE(plan_memory(llama_1b(), in, &one));
  in.max_turns = 4;
  ASSERT_TRUE(plan_memory(llama_1b(), in, &four));
  EXPECT_EQ(four.workspace.running - one.workspace.running, 4u * 128256 * 4);
  EXPECT_EQ(four.workspace.total - one.workspace.total, 4u * 128256 * 4);
  expect_totals(four);
}

TEST(MemoryPlan, TextAloneNeedsTheTablesAndAWorkspaceToEncode) {
  PlanInput in = exact_input(2048);
  in.text_only = true;
  // What a backend would ask for is not there either.
  in.backend_model_bytes = 64;
  in.backend_workspace_bytes = 64;
  in.backend_load_bytes = 64;
  for (const bool mapped : {false, true}) {
    in.mapped = mapped;
    MemoryPlan plan;
    ASSERT_TRUE(plan_memory(llama_1b(), in, &plan));
    EXPECT_EQ(plan.model.objects, 2112u);
    EXPECT_EQ(plan.model.tokenizer, mapped ? 0 : 8'000'064u + 128);
    EXPECT_EQ(plan.model.weights, 0u);
    EXPECT_EQ(plan.model.backend, 0u);
    EXPECT_EQ(plan.session.total, 0u);
    EXPECT_EQ(plan.workspace.running, 0u);
    EXPECT_EQ(plan.workspace.sampling, 0u);
    EXPECT_EQ(plan.workspace.total, 512 + plan.workspace.encoding);
    EXPECT_EQ(plan.loading, 0u);
    EXPECT_EQ(plan.in_place, mapped ? 8'000'064u + 128 : 0);
    expect_totals(plan);
  }
}

TEST(MemoryPlan, LargestModelTheFormatAllowsDoesNotOverflow) {
  format::ModelConfig c = llama_1b();
  c.n_layers = format::kMaxLayers;
  c.d_model = format::kMaxModelWidth;
  c.n_heads = 1024;
  c.n_kv_heads = 1024;
  c.head_dim = 128;
  c.d_ff = format::kMaxFfnWidth;
  c.vocab_size = format::kMaxVocab;
  c.max_context = format::kMaxContext;
  test::mend_counts(&c);
  ASSERT_EQ(check_config(c), nullptr);
  PlanInput in = exact_input(format::kMaxContext);
  for (const KvFormat kv_format : {KvFormat::kInt8, KvFormat::kK8V4}) {
    in.kv_format = kv_format;
    MemoryPlan plan;
    ASSERT_TRUE(plan_memory(c, in, &plan));
    const uint64_t row_bytes = kv_format == KvFormat::kInt8 ? 2 * (128 + 4) : 128 + 4 + 64 + 8;
    EXPECT_EQ(plan.session.kv_cache, uint64_t{1024} * 1024 * format::kMaxContext * row_bytes);
  }
  in.kv_format = KvFormat::kF32;
  in.prefill_chunk = 4096;
  in.max_turns = 4096;
  in.n_threads = 256;
  MemoryPlan plan;
  ASSERT_TRUE(plan_memory(c, in, &plan));
  EXPECT_EQ(plan.session.kv_cache, uint64_t{1024} * 1024 * format::kMaxContext * 128 * 4 * 2);
  expect_totals(plan);
  uint64_t PlanInput::*const backend_bytes[] = {
      &PlanInput::backend_model_bytes, &PlanInput::backend_workspace_bytes,
      &PlanInput::backend_step_bytes, &PlanInput::backend_load_bytes};
  for (uint64_t PlanInput::*const bytes : backend_bytes) {
    PlanInput too_much = in;
    too_much.*bytes = uint64_t{1} << 63;
    EXPECT_FALSE(plan_memory(c, too_much, &plan));
  }
}

}  // namespace
}  // namespace cria
