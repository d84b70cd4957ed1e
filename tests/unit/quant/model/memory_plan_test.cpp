#include "quant/model/memory_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "quant/model/model_layout.h"
#include "tests/support/matrix_formats.h"
#include "tests/support/random_kinds.h"
#include "tests/support/seeds.h"
#include "tests/support/test_configs.h"

namespace cria {
namespace {

// A config's section and a view of it, which a ConfigParts would not give to const functions.
class Model {
 public:
  explicit Model(ConfigParts c) {
    test::mend_counts(&c);
    EXPECT_EQ(check_config(c.view()), nullptr) << check_config(c.view());
    EXPECT_NE(write_config(c.view(), &section_), 0u);
  }
  [[nodiscard]] Config view() const { return view_config(section_); }

 private:
  ConfigBytes section_;
};

ConfigParts llama_parts() {
  ConfigParts c = test::small_config(format::NumberFormat::kInt4, 32);
  c.model.flags = format::kTiedEmbedding;
  c.model.d_model = 2048;
  c.model.vocab_size = 128256;
  c.model.max_context = 131072;
  c.model.planned_context = 2048;
  c.model.compression = static_cast<uint32_t>(format::FileCompression::kAny);
  c.kinds[0].n_query_heads = 32;
  c.kinds[0].n_key_heads = c.kinds[0].n_value_heads = 8;
  c.kinds[0].d_ff = 8192;
  test::set_head_dim(&c, 64);
  c.layers.assign(16, 0);
  return c;
}

Config llama_1b() {
  static const Model model(llama_parts());
  return model.view();
}

PlanInput exact_input(uint32_t context) {
  PlanInput in = {};
  in.context = context;
  in.n_threads = 2;
  in.prefill_chunk = 64;
  in.max_entries = 1;
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
  // The record, the config in whole blocks, roles of its kind and of the model, 16 layers and their
  // 9 tensors, three more and a tied one.
  EXPECT_EQ(plan.model.objects, 2240u + 512 + 2 * 128 + 16 * 64 + (16 * 9 + 4) * 64);
  EXPECT_EQ(plan.model.tokenizer, 8'000'064u + 128);
  // 1,235,746,816 weights of 4.5 bits, 33 norms of 2048 f32, 32 RoPE frequencies.
  EXPECT_EQ(plan.model.weights, 1235746816u / 2 + 1235746816u / 16 + 33u * 8192 + 128);
  EXPECT_EQ(plan.model.backend, 0u);
  EXPECT_EQ(plan.session.objects, 256u + 128);
  EXPECT_EQ(plan.session.kv_cache, 16u * 8 * 2048 * 2 * (64 + 4));
  EXPECT_EQ(plan.session.history, 8192u);
  EXPECT_EQ(plan.session.logits, (128256u + 2048u) * 4);
  EXPECT_EQ(plan.workspace.objects, 512u);
  EXPECT_EQ(plan.workspace.backend, 0u);
  // Of 64 rows: x, normed, what a block adds; gate and up; inputs of 8192 as int8 with scales and
  // sums; cosines and sines; 16 bytes for each row. Attention's scratch is where gate and up are.
  EXPECT_EQ(plan.workspace.running, 3u * 64 * 2048 * 4 + 2 * 64 * 8192 * 4 +
                                        64 * (8192 + 2 * 8192 / 32 * 4) + 64 * 64 * 4 + 64 * 16);
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
}

#if CRIA_WITH_LATENT
// Of DeepSeek's size: 584 bytes a position and layer, whatever the heads; k8v4 has no other.
TEST(MemoryPlan, OfLatentAttentionARowAndAKeyAPosition) {
  ConfigParts c = test::small_config(format::Mixer::kLatentAttention, format::FeedForward::kDense);
  c.kinds[0].latent_rank = 512;
  c.kinds[0].key_dim = 192;
  c.kinds[0].shared_key_dim = 64;
  PlanInput in = exact_input(100);
  constexpr uint64_t kRows = 2 * 100;
  const auto kv_cache = [&](KvFormat kv_format) {
    in.kv_format = kv_format;
    MemoryPlan plan;
    EXPECT_TRUE(plan_memory(Model(c).view(), in, &plan));
    expect_totals(plan);
    return plan.session.kv_cache;
  };
  EXPECT_EQ(kv_cache(KvFormat::kInt8), kRows * (512 + 64) + 2 * 832);
  EXPECT_EQ(kv_cache(KvFormat::kK8V4), kRows * (512 + 64) + 2 * 832);
  EXPECT_EQ(kv_cache(KvFormat::kF32), kRows * (512 + 64) * 4);
  c.kinds[0].shared_key_dim = 0;
  EXPECT_EQ(kv_cache(KvFormat::kInt8), kRows * 512 + 832);
}

// A stack has rows for each of its matrices.
TEST(MemoryPlan, TakesTheInputsOfStacks) {
  ConfigParts c =
      test::small_config(format::Mixer::kLatentAttention, format::FeedForward::kExperts);
  const ProductInputs most = most_inputs(Model(c).view(), 10);
  EXPECT_EQ(most.rows, 60u);  // 6 heads, and 2 experts of a token
  EXPECT_EQ(most.segments, 8u);
  EXPECT_EQ(most.values, 60u * 128);
  EXPECT_EQ(most_inputs(Model(c).view(), 1).segments, 6u);
  EXPECT_EQ(most_inputs(llama_1b(), 10).rows, 10u);
  EXPECT_EQ(most_inputs(llama_1b(), 10).segments, 1u);
  EXPECT_EQ(most_inputs(llama_1b(), 10).values, 81920u);
}
#endif

struct StateCase {
  uint16_t key_dim;
  uint16_t value_dim;
  std::vector<uint32_t> row_bytes;
};

// The last group of a head may be shorter, and each part is whole blocks.
TEST(MemoryPlan, PartsOfAKvCacheLieOneBehindTheOther) {
  const StateCase cases[] = {{2, 2, {2, 1, 4, 2}},     {30, 30, {30, 15, 4, 2}},
                             {32, 32, {32, 16, 4, 2}}, {34, 34, {34, 17, 4, 4}},
                             {80, 80, {80, 40, 4, 6}}, {128, 128, {128, 64, 4, 8}},
                             {24, 66, {24, 33, 4, 6}}};
  for (const StateCase& k : cases) {
    ConfigParts c = llama_parts();
    c.kinds[0].rope_table = format::kNoTable;
    c.kinds[0].key_dim = k.key_dim;
    c.kinds[0].value_dim = k.value_dim;
    PlanInput in = exact_input(3);
    in.kv_format = KvFormat::kK8V4;
    Carver counting;
    const StateLayout counted = lay_out_state(c.view(), 0, in, &counting);
    std::vector<uint8_t> memory(counting.taken() + 1);
    Carver carver(memory.data());
    const StateLayout state = lay_out_state(c.view(), 0, in, &carver);
    constexpr uint64_t kRows = 16 * 8 * 3;  // a multiple of 64
    const uint8_t* end = memory.data();
    ASSERT_EQ(state.parts.n, k.row_bytes.size());
    EXPECT_EQ(state.n_positions, 3u);
    for (size_t i = 0; i < state.parts.n; ++i) {
      EXPECT_EQ(counted.memory[i], nullptr);
      EXPECT_EQ(state.memory[i], end);
      EXPECT_EQ(state.parts.n_heads, 8u);
      EXPECT_EQ(state.parts.parts[i].row_bytes, k.row_bytes[i]);
      end += kRows * k.row_bytes[i];
    }
    EXPECT_EQ(memory.data() + carver.taken(), end);
    EXPECT_EQ(counting.taken(), carver.taken());
  }
}

// Three kinds: all positions, a ring, and keys and values of the first kind.
ConfigParts three_kinds() {
  ConfigParts c = test::small_config(format::Mixer::kAttention, format::FeedForward::kDense);
  c.model.max_context = 4096;
  c.kinds.assign(3, c.kinds[0]);
  c.kinds[1].window = 100;
  c.kinds[1].n_query_heads = 3;
  c.kinds[1].n_key_heads = c.kinds[1].n_value_heads = 3;
  c.kinds[2].shared_with = 0;
  c.kinds[2].n_query_heads = 2;
  c.layers = {0, 1, 1, 0, 2, 1, 2};
  return c;
}

TEST(MemoryPlan, EachKindKeepsWhatItsLayersAttendTo) {
  const Model model(three_kinds());
  const Config c = model.view();
  PlanInput in = exact_input(1000);
  EXPECT_EQ(layers_of(c, 0), 2u);
  EXPECT_EQ(layers_of(c, 1), 3u);
  EXPECT_EQ(layers_of(c, 2), 2u);
  // 100 positions and the 63 that are written before they are read, in tiles of 64.
  EXPECT_EQ(kept_positions(c.kinds[0], 1000, 64), 1000u);
  EXPECT_EQ(kept_positions(c.kinds[1], 1000, 64), 192u);
  EXPECT_EQ(kept_positions(c.kinds[1], 192, 64), 192u);
  EXPECT_EQ(kept_positions(c.kinds[1], 191, 64), 191u);
  EXPECT_EQ(kept_positions(c.kinds[1], 1000, 29), 128u);
  EXPECT_EQ(kept_positions(c.kinds[1], 1000, 30), 192u);
  MemoryPlan plan;
  ASSERT_TRUE(plan_memory(c, in, &plan));
  constexpr uint64_t kRowBytes = 12 + 10 + 4 + 4;
  EXPECT_EQ(plan.session.kv_cache, (2u * 2 * 1000 + 3 * 3 * 192) * kRowBytes);
  EXPECT_EQ(plan.session.objects, 256u + 320);
  expect_totals(plan);
  Carver carver;
  EXPECT_EQ(lay_out_state(c, 2, in, &carver).parts.n, 0u);
  EXPECT_EQ(carver.taken(), 0u);
  // The ring is longer than the context: then it is the context.
  in.context = 100;
  ASSERT_TRUE(plan_memory(c, in, &plan));
  EXPECT_EQ(plan.session.kv_cache, 2u * 2 * 100 * 12 + (2u * 2 * 100 * 10 + 32) +
                                       2 * (2u * 2 * 100 * 4) + 10816 + 9024 + 2 * 3648);
  in.context = 1;
  ASSERT_TRUE(plan_memory(c, in, &plan));
  expect_totals(plan);
}

// The scratch of the kind that needs most, and its widest heads.
TEST(MemoryPlan, AStepHasTheScratchOfTheLargestBlock) {
  ConfigParts c = three_kinds();
  const auto running = [&](uint32_t rows) {
    const Model model(c);
    PlanInput in = exact_input(1000);
    in.prefill_chunk = rows;
    MemoryPlan plan;
    EXPECT_TRUE(plan_memory(model.view(), in, &plan));
    Carver carver;
    (void)lay_out_step(model.view(), in, &carver);
    EXPECT_EQ(plan.workspace.running, carver.taken());
    return plan.workspace.running;
  };
  // 64 rows by 2 threads: 32 queries together, each with 64 scores, 10 sums, 32 codes, a scale, a
  // sum, a factor and 32 bytes.
  constexpr uint64_t kTiles = 2 * 32 * (64 * 4 + 10 * 4 + 32 + 4 + 4 + 4 + 32);
  constexpr uint64_t kInputs = 64 * (128 + 2 * 4 * 4);
  constexpr uint64_t kOthers = 64 * (2 * 64 * 4 + 64 * 4) + kInputs + 64 * 2 * 8 * 4 + 64 * 16;
  EXPECT_EQ(running(64), kOthers + 64u * (72 + 24 + 20) * 4 + kTiles);
  c.kinds[1].value_dim = 40;  // 3 * 40 values are wider than d_model and 6 * 10
  EXPECT_EQ(running(64), kOthers + 64u * (120 - 64) * 4 + 64 * (36 + 36 + 120) * 4 + kTiles +
                             2u * 32 * (40 - 10) * 4);
  c = three_kinds();
  c.kinds[2].d_ff = 1000;
  const uint64_t wider_inputs = 64 * ((1024 - 128) + 2 * 28 * 4);
  EXPECT_EQ(running(64), kOthers + wider_inputs + 64 * 1000 * 4);
  c.kinds[2].flags |= format::flag::kGated;
  EXPECT_EQ(running(64), kOthers + wider_inputs + 2 * 64 * 1000 * 4);
  // A gate on what attention brings back.
  c = three_kinds();
  c.kinds[0].flags |= format::flag::kOutputGate;
  EXPECT_EQ(running(64), kOthers + 64u * (72 + 24 + 20 + 60) * 4 + kTiles);
  // Per-layer embeddings: what is embedded stays, and a layer's inputs and its gate may be what
  // needs most.
  c = three_kinds();
  c.model.per_layer_width = 128;
  EXPECT_EQ(running(64), kOthers + 64u * 64 * 4 + 64u * (72 + 24 + 20) * 4 + kTiles);
  c.model.per_layer_width = 2000;
  c.kinds[2].flags |= format::flag::kPerLayerInput;
  const uint64_t gated_inputs = 64 * ((2048 - 128) + 2 * 60 * 4);
  EXPECT_EQ(running(64), kOthers + gated_inputs + 64u * 64 * 4 + 64u * 2 * 2000 * 4);
}

// Moving keys and values has room in what running takes, however little that is.
TEST(MemoryPlan, MovingRowsFitsIntoRunning) {
  ConfigParts c = three_kinds();
  c.model.d_model = 1;
  c.kinds[1].key_dim = 512;
  const Model model(c);
  PlanInput in = exact_input(10);
  in.prefill_chunk = 1;
  in.n_threads = 100;
  MemoryPlan plan;
  ASSERT_TRUE(plan_memory(model.view(), in, &plan));
  EXPECT_EQ(moving_floats(model.view(), 100), 512u + 2 * (512 + 10) * 100);
  EXPECT_GE(plan.workspace.running, moving_floats(model.view(), 100) * 4);
}

TEST(MemoryPlan, StayingRolesStayInAMappedFile) {
  ConfigParts c = test::small_config(format::Mixer::kAttention, format::FeedForward::kExperts);
  c.model.per_layer_width = 6;
  c.model.compression = static_cast<uint32_t>(format::FileCompression::kKeepsLarge);
  const Model model(c);
  uint64_t staying = 0;
  TensorKinds kinds(model.view());
  for (TensorKind kind = {}; kinds.next(&kind);) {
    const auto role = static_cast<int>(kind.spec.role);
    if (role != 24 && role != 58 && role != 60 && role != 62) continue;
    staying += kind.n * ((tensor_bytes(kind.spec) + 63) / 64 * 64);
  }
  EXPECT_GT(staying, 0u);
  for (const bool mapped : {false, true}) {
    PlanInput in = exact_input(100);
    in.mapped = mapped;
    in.tokenizer_bytes = in.chat_template_bytes = 0;
    MemoryPlan plan;
    ASSERT_TRUE(plan_memory(model.view(), in, &plan));
    EXPECT_EQ(plan.in_place, mapped ? staying : 0);
    EXPECT_EQ(plan.model.weights, all_tensor_bytes(model.view()) - plan.in_place);
    EXPECT_EQ(plan.loading, 2u * (160 + 256) * 1024);
    expect_totals(plan);
  }
}

// A session has so many slots more than snapshots; each has the blocks of all layers.
TEST(MemoryPlan, BlocksOfStateAreThereOnceASlot) {
  ConfigParts parts = test::small_config(format::NumberFormat::kF32, 0);
  parts.kinds.push_back(
      test::small_kind(format::Mixer::kShortConvolution, format::FeedForward::kDense));
  parts.layers = {0, 1, 1, 1};
  test::set_all_formats(&parts, kMatrixFormats[0]);
  const Model model(parts);
  const Config c = model.view();
  PlanInput in = exact_input(100);
  MemoryPlan plan;
  ASSERT_TRUE(plan_memory(c, in, &plan));
  constexpr uint64_t kBlock = (3 - 1) * 64 * 4;
  for (const uint32_t n_snapshots : {0u, 1u, 2u, 7u, 256u}) {
    in.n_snapshots = n_snapshots;
    MemoryPlan larger;
    ASSERT_TRUE(plan_memory(c, in, &larger));
    EXPECT_EQ(state_slots(c, n_snapshots), n_snapshots + 2);
    EXPECT_EQ(larger.session.kv_cache - plan.session.kv_cache, n_snapshots * 3 * kBlock);
    EXPECT_EQ(larger.session.objects, 256u + 192 + (8 * (n_snapshots + 2) + 63) / 64 * 64);
    expect_totals(larger);
    Carver carver;
    const StateLayout layout = lay_out_state(c, 1, in, &carver);
    EXPECT_EQ(layout.n_positions, n_snapshots + 2);
    EXPECT_EQ(layout.parts.keeps, Keeps::kBlock);
    EXPECT_EQ(carver.taken(), 3 * (n_snapshots + 2) * kBlock);
  }
  // Other models pay nothing.
  const Model plain(test::small_config(format::NumberFormat::kF32, 0));
  in.n_snapshots = 0;
  ASSERT_TRUE(plan_memory(plain.view(), in, &plan));
  in.n_snapshots = 256;
  MemoryPlan same;
  ASSERT_TRUE(plan_memory(plain.view(), in, &same));
  EXPECT_EQ(state_slots(plain.view(), 256), 0u);
  EXPECT_EQ(same.total, plan.total);
}

// Of blocks that are built: others have no scratch yet.
TEST(MemoryPlan, PlansOfRandomKindsAddUp) {
  size_t n_planned = 0;
  test::for_each_seed({5, 6}, [&](uint32_t seed) {
    for (uint32_t i = 0; i < 200; ++i) {
      const Model model(test::random_kinds(seed * 1000 + i, test::plain_kinds()));
      const Config c = model.view();
      PlanInput in = exact_input(1 + i % c.model->max_context);
      in.prefill_chunk = 1 + i % 70;
      in.n_threads = 1 + i % 3;
      in.mapped = i % 2 == 0;
      in.kv_format = static_cast<KvFormat>(i % 3);
      MemoryPlan plan;
      ASSERT_TRUE(plan_memory(c, in, &plan));
      expect_totals(plan);
      uint64_t state = 0;
      for (size_t kind = 0; kind < c.kinds.size(); ++kind) {
        Carver carver;
        const StateLayout layout = lay_out_state(c, kind, in, &carver);
        EXPECT_LE(layout.n_positions, in.context);
        state += carver.taken();
      }
      EXPECT_EQ(plan.session.kv_cache, state);
      EXPECT_EQ(plan.session.objects, 256 + (96 * c.kinds.size() + 63) / 64 * 64);
      const uint64_t objects = 2240 + (config_bytes(*c.model) + 63) / 64 * 64 +
                               128 * (c.kinds.size() + 1) + 64 * c.layers.size() +
                               64 * (tensor_count(c) + 1);
      // A config is read to where the model will be.
      EXPECT_EQ(plan.model.objects, std::max<uint64_t>(objects, 4096));
      ++n_planned;
    }
  });
  EXPECT_GE(n_planned, 400u);
}

TEST(MemoryPlan, MappedStoredFilesKeepWeightsAndTablesOutOfTheArena) {
  ConfigParts parts = llama_parts();
  parts.model.compression = 0;
  const Model model(parts);
  const Config c = model.view();
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
  in.max_entries = 5;
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
  in.max_entries = 4;
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
    // A record and a config of some 500 bytes; but any config is read to where the model will be.
    EXPECT_EQ(plan.model.objects, 4096u);
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
  ConfigParts parts = llama_parts();
  parts.model.d_model = format::kMaxModelWidth;
  parts.model.vocab_size = format::kMaxVocab;
  parts.model.max_context = format::kMaxContext;
  parts.kinds[0].n_query_heads = 1024;
  parts.kinds[0].n_key_heads = parts.kinds[0].n_value_heads = 1024;
  parts.kinds[0].d_ff = format::kMaxFfnWidth;
  test::set_head_dim(&parts, 128);
  parts.layers.assign(format::kMaxLayers, 0);
  const Model model(parts);
  const Config c = model.view();
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
  in.max_entries = 4096;
  in.n_threads = 256;
  MemoryPlan plan;
  ASSERT_TRUE(plan_memory(c, in, &plan));
  EXPECT_EQ(plan.session.kv_cache, uint64_t{1024} * 1024 * format::kMaxContext * 128 * 4 * 2);
  expect_totals(plan);
  // Rows and threads that nobody has do not wrap either.
  PlanInput absurd = in;
  absurd.prefill_chunk = absurd.max_entries = absurd.n_threads = absurd.max_text_bytes = UINT32_MAX;
  if (plan_memory(c, absurd, &plan)) expect_totals(plan);
  EXPECT_GT(plan.total, uint64_t{1} << 50);
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
