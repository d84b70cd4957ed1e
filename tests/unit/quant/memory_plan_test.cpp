#include "quant/memory_plan.h"

#include <gtest/gtest.h>

#include "quant/model_layout.h"
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
  return c;
}

PlanInput exact_input(uint32_t context) {
  PlanInput in = {};
  in.context = context;
  in.n_threads = 2;
  in.prefill_chunk = 64;
  in.max_text_bytes = 8192;
  in.kv_format = KvFormat::kInt8;
  in.tokenizer_bytes = 8'000'001;
  in.chat_template_bytes = 100;
  in.backend_keeps_tile16 = true;
  return in;
}

// Pins exact byte totals of a Llama 3.2 1B, worked out by hand.
TEST(MemoryPlan, OfAOneBillionParameterModelIsWhatTheArithmeticSays) {
  MemoryPlan plan;
  ASSERT_TRUE(plan_memory(llama_1b(), exact_input(2048), &plan));
  // 1,235,746,816 weights of 4.5 bits, 33 norms of 2048 f32, 32 RoPE frequencies.
  EXPECT_EQ(plan.weights, 1235746816u / 2 + 1235746816u / 16 + 33u * 8192 + 128);
  EXPECT_EQ(plan.kv_cache, 16u * 8 * 2048 * 2 * (64 + 4));
  EXPECT_EQ(plan.history, 8192u);
  EXPECT_EQ(plan.logits, 128256u * 4);
  EXPECT_EQ(plan.objects, 4096u + 16 * 1024);
  EXPECT_EQ(plan.tokenizer, 8'000'064u + 128);
  EXPECT_EQ(plan.loading, 2u * (160 + 256) * 1024);
  EXPECT_EQ(plan.sampling, 128256u * 8);
  EXPECT_EQ(plan.in_place, 0u);
  EXPECT_EQ(plan.step, plan.running);
  EXPECT_EQ(plan.total, plan.objects + plan.tokenizer + plan.weights + plan.backend +
                            plan.kv_cache + plan.history + plan.logits + plan.step);
}

TEST(MemoryPlan, MappedStoredFilesKeepWeightsAndTablesOutOfTheArena) {
  format::ModelConfig c = llama_1b();
  c.compression = 0;
  PlanInput in = exact_input(2048);
  in.mapped = true;
  MemoryPlan plan;
  ASSERT_TRUE(plan_memory(c, in, &plan));
  EXPECT_EQ(plan.weights, 0u);
  EXPECT_EQ(plan.tokenizer, 0u);
  EXPECT_EQ(plan.loading, 0u);
  EXPECT_EQ(plan.in_place, all_tensor_bytes(c) + 8'000'064 + 128);
}

TEST(MemoryPlan, OnlyTheKvCacheAndTheHistoryGrowWithTheContext) {
  MemoryPlan small, large;
  PlanInput in = exact_input(512);
  ASSERT_TRUE(plan_memory(llama_1b(), in, &small));
  in.context = 4096;
  ASSERT_TRUE(plan_memory(llama_1b(), in, &large));
  EXPECT_EQ(large.total - small.total,
            large.kv_cache - small.kv_cache + large.history - small.history);
  EXPECT_EQ(large.kv_cache, 8 * small.kv_cache);
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
  ASSERT_EQ(check_config(c), nullptr);
  PlanInput in = exact_input(format::kMaxContext);
  in.kv_format = KvFormat::kF32;
  in.prefill_chunk = 4096;
  in.n_threads = 256;
  MemoryPlan plan;
  ASSERT_TRUE(plan_memory(c, in, &plan));
  EXPECT_EQ(plan.kv_cache, uint64_t{1024} * 1024 * format::kMaxContext * 128 * 4 * 2);
  in.backend_model_bytes = uint64_t{1} << 63;
  EXPECT_FALSE(plan_memory(c, in, &plan));
}

}  // namespace
}  // namespace cria
