// The rules of a config section, said once more from docs/model_format.md: each field at its limits
// and beyond.
#include "quant/model/model_config.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cfloat>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "quant/model/model_layout.h"
#include "tests/support/matrix_formats.h"
#include "tests/support/random_kinds.h"
#include "tests/support/seeds.h"
#include "tests/support/test_configs.h"

namespace cria {
namespace {

namespace flag = format::flag;
using format::FeedForward;
using format::LayerKind;
using format::Mixer;
using format::ModelScalars;
using format::NumberFormat;

constexpr Mixer kMixers[] = {Mixer::kNothing,          Mixer::kAttention, Mixer::kLatentAttention,
                             Mixer::kShortConvolution, Mixer::kDeltaRule, Mixer::kStateSpace};
constexpr FeedForward kFeedForwards[] = {FeedForward::kNothing, FeedForward::kDense,
                                         FeedForward::kExperts};

// Calls test(config) of a valid model of each mixer and feed-forward.
template <typename Test>
void for_each_block(const Test& test) {
  for (const Mixer mixer : kMixers) {
    for (const FeedForward feed_forward : kFeedForwards) {
      if (mixer == Mixer::kNothing && feed_forward == FeedForward::kNothing) continue;
      SCOPED_TRACE("mixer " + std::to_string(static_cast<int>(mixer)) + ", feed-forward " +
                   std::to_string(static_cast<int>(feed_forward)));
      test(test::small_config(mixer, feed_forward));
    }
  }
}

// What is wrong with a section; nothing where it is taken.
std::string fault_of(const std::vector<uint8_t>& section) {
  ConfigBytes bytes = {};
  if (section.size() > sizeof bytes.bytes) return "too long";
  std::copy(section.begin(), section.end(), bytes.bytes);
  Config config;
  const char* const field = read_config({bytes.bytes, section.size()}, &config);
  return field == nullptr ? "" : field;
}
std::string fault_of(ConfigParts c) {
  const std::string found = fault_of(test::section_of(c.view()));
  const char* const field = check_config(c.view());
  EXPECT_EQ(found, field == nullptr ? "" : field);
  return found;
}

// The same with counts that hold, where there are matrices that could be counted.
std::string fault_with_counts(ConfigParts c) {
  if (test::has_tensors(c.view())) test::mend_counts(&c);
  return fault_of(std::move(c));
}

ConfigParts llama() { return test::small_config(NumberFormat::kInt4, 32); }
ConfigParts attention() { return test::small_config(Mixer::kAttention, FeedForward::kDense); }
ConfigParts latent() { return test::small_config(Mixer::kLatentAttention, FeedForward::kNothing); }
ConfigParts experts() { return test::small_config(Mixer::kNothing, FeedForward::kExperts); }

// A field with its limits: set gives it a value, and others what they need then.
struct Limits {
  const char* field;
  std::function<ConfigParts(uint32_t)> made;
  std::vector<uint32_t> taken;
  std::vector<uint32_t> refused;
};

void expect_limits(const std::vector<Limits>& all) {
  for (const Limits& l : all) {
    for (const uint32_t value : l.taken) {
      EXPECT_EQ(fault_with_counts(l.made(value)), "") << l.field << ' ' << value;
    }
    for (const uint32_t value : l.refused) {
      EXPECT_EQ(fault_with_counts(l.made(value)), l.field) << value;
    }
  }
}

template <typename Set>
std::function<ConfigParts(uint32_t)> of_model(const Set& set) {
  return [set](uint32_t value) {
    ConfigParts c = llama();
    set(&c.model, value);
    return c;
  };
}
// base is a function that makes a config of one kind.
template <typename Base, typename Set>
std::function<ConfigParts(uint32_t)> of_kind(const Base& base, const Set& set) {
  return [base, set](uint32_t value) {
    ConfigParts c = base();
    set(&c.kinds[0], value);
    return c;
  };
}
// With a field of a kind alone.
template <typename Base, typename Field>
std::function<ConfigParts(uint32_t)> of_field(const Base& base, Field LayerKind::*field) {
  return of_kind(base, [field](LayerKind* k, uint32_t value) {
    k->*field = static_cast<Field>(value);
    ASSERT_EQ(uint32_t{k->*field}, value);
  });
}

TEST(ModelConfig, ScalarsHaveLimits) {
  constexpr uint32_t kMost = UINT32_MAX;
  expect_limits({
      {"flags",
       of_model([](ModelScalars* m, uint32_t v) { m->flags = v; }),
       {0, 1, 2, 4, 7},
       {8, 16, 1u << 31, kMost}},
      {"d_model",
       of_model([](ModelScalars* m, uint32_t v) { m->d_model = v; }),
       {1, 1 << 17},
       {0, (1 << 17) + 1, kMost}},
      {"vocab_size",
       of_model([](ModelScalars* m, uint32_t v) { m->vocab_size = v; }),
       {3, 1 << 21},
       {0, (1 << 21) + 1, kMost}},
      {"max_context",
       of_model([](ModelScalars* m, uint32_t v) { m->max_context = v; }),
       {64, 1 << 24},
       {0, (1 << 24) + 1, kMost}},
      {"planned_context",
       of_model([](ModelScalars* m, uint32_t v) { m->planned_context = v; }),
       {1, 128},
       {0, 129, kMost}},
      {"compression",
       of_model([](ModelScalars* m, uint32_t v) { m->compression = v; }),
       {0, 1},
       {2, 3, kMost}},  // 2 is for models with a role that stays
      {"final_norm",
       of_model([](ModelScalars* m, uint32_t v) { m->final_norm = v; }),
       {1, 2},
       {0, 3, kMost}},
      {"per_layer_width",
       of_model([](ModelScalars* m, uint32_t v) { m->per_layer_width = v; }),
       {0, 1, 4096},
       {4097, kMost}},
      {"bos_token",
       of_model([](ModelScalars* m, uint32_t v) { m->bos_token = v; }),
       {0, 49, kMost},
       {50, kMost - 1}},
      {"n_end_tokens",
       of_model([](ModelScalars* m, uint32_t v) {
         m->n_end_tokens = v;
         if (v == 0) m->end_tokens[0] = 0;
       }),
       {0, 1, 16},
       {17, kMost}},
      {"end_tokens",
       of_model([](ModelScalars* m, uint32_t v) { m->end_tokens[0] = v; }),
       {0, 49},
       {50, kMost}},
      {"end_tokens",
       of_model([](ModelScalars* m, uint32_t v) { m->end_tokens[1] = v; }),
       {0},
       {1, kMost}},
      {"end_tokens",
       of_model([](ModelScalars* m, uint32_t v) { m->end_tokens[15] = v; }),
       {0},
       {1, kMost}},
      {"rope_tables",
       of_model([](ModelScalars* m, uint32_t v) { m->rope_tables[1].n_pairs = v; }),
       {0},
       {1, kMost}},
      {"rope_tables",
       of_model([](ModelScalars* m, uint32_t v) { m->rope_tables[0].reserved = v; }),
       {0},
       {1, kMost}},
      {"rope_tables",
       of_model([](ModelScalars* m, uint32_t v) { m->rope_tables[0].original_context = v; }),
       {0, 1, 127},
       {128, kMost}},
      {"pooling",
       of_model([](ModelScalars* m, uint32_t v) { m->pooling = v; }),
       {0, 1, 2, 3},
       {4, kMost}},
  });
  for (size_t i = 0; i < sizeof ModelScalars{}.reserved; ++i) {
    ConfigParts c = llama();
    c.model.reserved[i] = 1;
    EXPECT_EQ(fault_of(c), "reserved") << i;
  }
}

TEST(ModelConfig, RopeTablesThatAreUsedAreFour) {
  const auto with_tables = [](uint32_t n) {
    ConfigParts c = llama();
    c.model.n_rope_tables = n;
    for (uint32_t i = 0; i < format::kMaxRopeTables; ++i) {
      c.model.rope_tables[i] = i < n ? format::RopeTable{8, -1.5f, 1, 0} : format::RopeTable{};
    }
    if (n == 0) c.kinds[0].rope_table = format::kNoTable;
    return c;
  };
  expect_limits({{"n_rope_tables", with_tables, {0, 1, 2, 3, 4}, {5, UINT32_MAX}}});
  const auto with_pairs = [](uint32_t n) {
    ConfigParts c = llama();
    c.model.rope_tables[0].n_pairs = n;
    c.kinds[0].key_dim = 512;
    return c;
  };
  expect_limits({{"rope_tables", with_pairs, {1, 255, 256}, {0, 257, UINT32_MAX}}});
}

TEST(ModelConfig, EmbeddingsHaveALengthWhereTheModelMakesSome) {
  for (uint32_t pooling = 0; pooling <= 3; ++pooling) {
    ConfigParts c = llama();
    c.model.flags |= format::kUnitEmbeddings;
    c.model.pooling = pooling;
    EXPECT_EQ(fault_of(c), pooling == 0 ? "flags" : "") << pooling;
  }
}

TEST(ModelConfig, OneVectorOfLearnedPositionsFits) {
  const auto with = [](uint32_t max_context) {
    ConfigParts c = llama();
    c.model.flags = format::kLearnedPositions;
    c.model.d_model = 1 << 17;
    c.model.max_context = max_context;
    return c;
  };
  expect_limits({{"max_context", with, {64, 1 << 14}, {(1 << 14) + 1, 1 << 24}}});
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNotANumber = std::numeric_limits<float>::quiet_NaN();

// Which floats a field may have.
struct FloatRule {
  std::vector<float> taken;
  std::vector<float> refused;
};
const FloatRule kFinite = {{0, 1, -1, FLT_MAX, -FLT_MAX, FLT_TRUE_MIN, -FLT_TRUE_MIN},
                           {kInfinity, -kInfinity, kNotANumber, -kNotANumber}};
const FloatRule kNoneOrAbove = {{0, FLT_TRUE_MIN, 30, FLT_MAX},
                                {-FLT_TRUE_MIN, -1, kInfinity, -kInfinity, kNotANumber}};
const FloatRule kAbove = {{FLT_TRUE_MIN, 1, FLT_MAX},
                          {0, -0.0f, -1, kInfinity, -kInfinity, kNotANumber}};
const FloatRule kBelowOne = {{0, FLT_TRUE_MIN, 1e-5f, 0x1.fffffep-1f},
                             {1, 2, -1e-9f, kInfinity, -kInfinity, kNotANumber}};

template <typename Struct>
struct FloatField {
  const char* name;
  float Struct::*field;
  const FloatRule* rule;
};

// place: the struct that has the field.
template <typename Struct, typename Place>
void expect_rule(const FloatField<Struct>& f, const ConfigParts& base, const Place& place) {
  for (const float value : f.rule->taken) {
    ConfigParts c = base;
    place(&c)->*f.field = value;
    if (std::string(f.name) == "query_growth" && value == 0) c.kinds[0].query_growth_period = 0;
    EXPECT_EQ(fault_with_counts(c), "") << f.name << ' ' << value;
  }
  for (const float value : f.rule->refused) {
    ConfigParts c = base;
    place(&c)->*f.field = value;
    EXPECT_EQ(fault_with_counts(c), f.name) << value;
  }
}

TEST(ModelConfig, FloatsOfAModelHaveLimits) {
  const FloatField<ModelScalars> fields[] = {
      {"norm_epsilon", &ModelScalars::norm_epsilon, &kBelowOne},
      {"embedding_multiplier", &ModelScalars::embedding_multiplier, &kFinite},
      {"residual_multiplier", &ModelScalars::residual_multiplier, &kFinite},
      {"logits_divisor", &ModelScalars::logits_divisor, &kAbove},
      {"logits_cap", &ModelScalars::logits_cap, &kNoneOrAbove},
      {"per_layer_table_multiplier", &ModelScalars::per_layer_table_multiplier, &kFinite},
      {"per_layer_input_multiplier", &ModelScalars::per_layer_input_multiplier, &kFinite},
      {"per_layer_sum_multiplier", &ModelScalars::per_layer_sum_multiplier, &kFinite},
  };
  ConfigParts base = llama();
  base.model.per_layer_width = 6;
  for (const auto& f : fields) expect_rule(f, base, [](ConfigParts* c) { return &c->model; });
  const FloatField<format::RopeTable> factor = {"rope_tables", &format::RopeTable::factor,
                                                &kFinite};
  expect_rule(factor, base, [](ConfigParts* c) { return &c->model.rope_tables[0]; });
}

// Also not the zero that is negative.
TEST(ModelConfig, MultipliersOfPerLayerEmbeddingsAreZeroWithoutThem) {
  for (float ModelScalars::*const field :
       {&ModelScalars::per_layer_table_multiplier, &ModelScalars::per_layer_input_multiplier,
        &ModelScalars::per_layer_sum_multiplier}) {
    for (const float value : {1.0f, -0.0f, FLT_TRUE_MIN}) {
      ConfigParts c = llama();
      c.model.*field = value;
      EXPECT_EQ(fault_of(c), "per_layer_width");
    }
  }
}

// Fields of kinds -------------------------------------------------------------------------------

TEST(ModelConfig, BlocksThatDoNotExistAreRefused) {
  expect_limits({
      {"mixer", of_field(llama, &LayerKind::mixer), {}, {6, 7, 255}},
      {"feed_forward", of_field(llama, &LayerKind::feed_forward), {}, {3, 255}},
      {"norm", of_field(llama, &LayerKind::norm), {1, 2}, {0, 3, 255}},
      {"activation", of_field(llama, &LayerKind::activation), {1, 2, 3}, {0, 5, 255}},
      {"router_score", of_field(experts, &LayerKind::router_score), {1, 2}, {0, 3, 255}},
  });
  ConfigParts c = llama();
  c.kinds[0] = test::small_kind(Mixer::kNothing, FeedForward::kNothing);
  EXPECT_EQ(fault_with_counts(c), "mixer");
}

TEST(ModelConfig, AttentionHasLimits) {
  const auto heads = [](LayerKind* k, uint32_t n) {
    k->n_query_heads = k->n_key_heads = k->n_value_heads = static_cast<uint16_t>(n);
  };
  expect_limits({
      {"n_query_heads", of_kind(attention, heads), {1, 2, 1023, 1024}, {0, 1025, 65535}},
      {"n_key_heads", of_field(attention, &LayerKind::n_key_heads), {2}, {0, 4, 5, 12, 1025}},
      {"n_value_heads", of_field(attention, &LayerKind::n_value_heads), {2}, {0, 1, 3, 6, 1025}},
      {"key_dim",
       of_field(attention, &LayerKind::key_dim),
       {2, 510, 512},
       {0, 1, 3, 11, 511, 513, 514, 65534}},
      {"value_dim",
       of_field(attention, &LayerKind::value_dim),
       {2, 510, 512},
       {0, 1, 3, 11, 511, 513, 514, 65534}},
      {"window",
       of_field(attention, &LayerKind::window),
       {0, 1, 1 << 24},
       {(1 << 24) + 1, UINT32_MAX}},
      {"rope_table",
       of_kind(attention,
               [](LayerKind* k, uint32_t v) {
                 k->key_dim = 16;  // of table 0
                 k->rope_table = static_cast<uint8_t>(v);
               }),
       {0, 255},
       {1, 3, 254}},
      {"rope_table",
       of_kind(attention,
               [](LayerKind* k, uint32_t v) {
                 k->rope_table = 0;  // turns 16
                 k->key_dim = static_cast<uint16_t>(v);
               }),
       {16, 18},
       {2, 14}},
  });
  // All heads together.
  const auto wide_queries = [](LayerKind* k, uint32_t n) {
    k->key_dim = 512;
    k->n_key_heads = k->n_value_heads = 1;
    k->n_query_heads = static_cast<uint16_t>(n);
  };
  expect_limits({{"n_query_heads", of_kind(attention, wide_queries), {256}, {257, 1024}}});
  const auto wide_values = [](LayerKind* k, uint32_t n) {
    k->value_dim = 512;
    k->n_key_heads = k->n_value_heads = 1;
    k->n_query_heads = static_cast<uint16_t>(n);
  };
  expect_limits({{"value_dim", of_kind(attention, wide_values), {256}, {257, 1024}}});
}

TEST(ModelConfig, LatentAttentionHasLimits) {
  expect_limits({
      {"n_query_heads", of_field(latent, &LayerKind::n_query_heads), {1, 1024}, {0, 1025, 65535}},
      {"n_key_heads", of_field(latent, &LayerKind::n_key_heads), {1}, {0, 2, 6, 1025}},
      {"n_value_heads", of_field(latent, &LayerKind::n_value_heads), {1}, {0, 2, 6, 1025}},
      {"key_dim", of_field(latent, &LayerKind::key_dim), {6, 512}, {0, 1, 7, 513, 514}},
      {"value_dim", of_field(latent, &LayerKind::value_dim), {2, 512}, {0, 1, 7, 513, 514}},
      {"query_rank",
       of_field(latent, &LayerKind::query_rank),
       {0, 1, 1 << 14},
       {(1 << 14) + 1, 65535}},
      {"latent_rank", of_field(latent, &LayerKind::latent_rank), {2, 3, 512}, {0, 1, 513, 65535}},
      {"shared_key_dim",
       of_field(latent, &LayerKind::shared_key_dim),
       {0, 2, 10},
       {1, 3, 11, 12, 14, 65534, 65535}},
      {"shared_key_dim",  // at least two elements are a head's own
       of_kind(latent,
               [](LayerKind* k, uint32_t v) {
                 k->key_dim = 512;
                 k->shared_key_dim = static_cast<uint16_t>(v);
               }),
       {0, 510},
       {511, 512}},
      {"window", of_field(latent, &LayerKind::window), {0, 1 << 24}, {(1 << 24) + 1}},
      {"rope_table",
       of_kind(latent,
               [](LayerKind* k, uint32_t v) {
                 k->key_dim = 64;
                 k->shared_key_dim = static_cast<uint16_t>(v);
                 k->rope_table = 0;  // turns 16
               }),
       {16, 18, 62},
       {0, 2, 14}},
      {"latent_rank",
       of_kind(latent,
               [](LayerKind* k, uint32_t v) {
                 k->n_query_heads = 512;
                 k->latent_rank = static_cast<uint16_t>(v);
               }),
       {256},
       {257, 512}},
      {"n_query_heads",
       of_kind(latent,
               [](LayerKind* k, uint32_t v) {
                 k->key_dim = 512;
                 k->n_query_heads = static_cast<uint16_t>(v);
               }),
       {256},
       {257}},
      {"value_dim",
       of_kind(latent,
               [](LayerKind* k, uint32_t v) {
                 k->value_dim = 512;
                 k->n_query_heads = static_cast<uint16_t>(v);
               }),
       {256},
       {257}},
  });
}

TEST(ModelConfig, RecurrencesHaveLimits) {
  const auto heads = [](LayerKind* k, uint32_t n) {
    k->n_query_heads = k->n_key_heads = k->n_value_heads = static_cast<uint16_t>(n);
  };
  for (const Mixer mixer : {Mixer::kDeltaRule, Mixer::kStateSpace}) {
    const auto base = [mixer] { return test::small_config(mixer, FeedForward::kNothing); };
    expect_limits({
        {"n_query_heads", of_kind(base, heads), {1, 1024}, {0, 1025}},
        {"n_key_heads", of_field(base, &LayerKind::n_key_heads), {2}, {0, 1, 3, 6}},
        {"n_value_heads", of_field(base, &LayerKind::n_value_heads), {2, 4, 1024}, {0, 1, 3, 5}},
        {"key_dim", of_field(base, &LayerKind::key_dim), {2, 512}, {0, 3, 513, 514}},
        {"value_dim", of_field(base, &LayerKind::value_dim), {2, 512}, {0, 3, 513, 514}},
        {"n_value_heads",
         of_kind(base,
                 [](LayerKind* k, uint32_t v) {
                   k->value_dim = 512;
                   k->n_value_heads = static_cast<uint16_t>(v);
                 }),
         {256},
         {258, 1024}},
        {"n_query_heads",
         of_kind(base,
                 [](LayerKind* k, uint32_t v) {
                   k->key_dim = 512;
                   k->n_query_heads = k->n_key_heads = k->n_value_heads = static_cast<uint16_t>(v);
                 }),
         {256},
         {257, 1024}},
    });
  }
  for (const Mixer mixer : {Mixer::kShortConvolution, Mixer::kDeltaRule, Mixer::kStateSpace}) {
    const auto base = [mixer] { return test::small_config(mixer, FeedForward::kDense); };
    expect_limits(
        {{"conv_taps", of_field(base, &LayerKind::conv_taps), {2, 3, 8}, {0, 1, 9, 255}}});
  }
}

TEST(ModelConfig, FeedForwardsHaveLimits) {
  expect_limits({
      {"d_ff", of_field(attention, &LayerKind::d_ff), {1, 1 << 19}, {0, (1 << 19) + 1, UINT32_MAX}},
      {"d_ff", of_field(experts, &LayerKind::d_ff), {0, 1, 1 << 19}, {(1 << 19) + 1, UINT32_MAX}},
      {"expert_ff",
       of_field(experts, &LayerKind::expert_ff),
       {1, 1 << 19},
       {0, (1 << 19) + 1, UINT32_MAX}},
      {"n_experts", of_field(experts, &LayerKind::n_experts), {2, 3, 1024}, {0, 1025, 65535}},
      {"n_experts",  // all experts' rows together
       of_kind(experts,
               [](LayerKind* k, uint32_t v) {
                 k->expert_ff = 1 << 19;
                 k->n_experts = static_cast<uint16_t>(v);
               }),
       {2, 32},
       {33, 1024}},
      {"n_chosen", of_field(experts, &LayerKind::n_chosen), {1, 8}, {0, 9, 64, 65535}},
      {"n_chosen",
       of_kind(experts,
               [](LayerKind* k, uint32_t v) {
                 k->n_experts = 100;
                 k->n_chosen = static_cast<uint16_t>(v);
               }),
       {1, 64},
       {65, 100}},
  });
}

TEST(ModelConfig, GroupsOfExpertsHoldThoseThatAreChosen) {
  struct Case {
    const char* field;  // at fault, or ""
    uint16_t n_experts, n_chosen, n_groups, n_groups_chosen;
    uint8_t rank;
  };
  const Case cases[] = {
      {"", 8, 2, 0, 0, 0},
      {"n_groups_chosen", 8, 2, 0, 1, 0},
      {"group_rank", 8, 2, 0, 0, 1},
      {"group_rank", 8, 2, 0, 0, 2},
      {"", 8, 2, 1, 1, 1},
      {"", 8, 2, 4, 1, 2},
      {"", 8, 2, 4, 4, 1},
      {"", 8, 2, 8, 2, 1},
      {"n_groups", 8, 2, 3, 2, 1},
      {"n_groups", 8, 2, 16, 2, 1},
      {"n_groups", 8, 2, 1025, 2, 1},
      {"n_groups", 8, 2, 65535, 2, 1},
      {"n_groups_chosen", 8, 2, 4, 0, 1},
      {"n_groups_chosen", 8, 2, 4, 5, 1},
      {"n_groups_chosen", 8, 3, 4, 1, 1},
      {"", 8, 3, 4, 2, 1},
      {"n_groups_chosen", 8, 2, 8, 1, 1},
      {"n_groups_chosen", 8, 2, 4, 65535, 1},
      {"group_rank", 8, 2, 4, 2, 0},
      {"group_rank", 8, 2, 4, 2, 3},
      {"group_rank", 8, 2, 4, 2, 255},
      {"group_rank", 8, 2, 8, 2, 2},  // groups of one
      {"", 1, 1, 1, 1, 1},
      {"group_rank", 1, 1, 1, 1, 2},
      {"", 1024, 64, 1024, 64, 1},
      {"n_groups_chosen", 1024, 64, 1024, 63, 1},
  };
  for (const Case& k : cases) {
    ConfigParts c = experts();
    c.kinds[0].n_experts = k.n_experts;
    c.kinds[0].n_chosen = k.n_chosen;
    c.kinds[0].n_groups = k.n_groups;
    c.kinds[0].n_groups_chosen = k.n_groups_chosen;
    c.kinds[0].group_rank = k.rank;
    EXPECT_EQ(fault_with_counts(c), k.field)
        << k.n_groups << ' ' << k.n_groups_chosen << ' ' << int{k.rank};
  }
}

TEST(ModelConfig, FloatsOfAKindHaveLimits) {
  const FloatField<LayerKind> of_any[] = {
      {"norm_epsilon", &LayerKind::norm_epsilon, &kBelowOne},
      {"inner_epsilon", &LayerKind::inner_epsilon, &kBelowOne},
  };
  const FloatField<LayerKind> of_scores[] = {
      {"score_multiplier", &LayerKind::score_multiplier, &kFinite},
      {"score_cap", &LayerKind::score_cap, &kNoneOrAbove},
      {"query_growth", &LayerKind::query_growth, &kFinite},
  };
  const FloatField<LayerKind> clip = {"qkv_clip", &LayerKind::qkv_clip, &kNoneOrAbove};
  const FloatField<LayerKind> unit = {"unit_epsilon", &LayerKind::unit_epsilon, &kBelowOne};
  const FloatField<LayerKind> of_experts[] = {
      {"router_epsilon", &LayerKind::router_epsilon, &kBelowOne},
      {"router_scale", &LayerKind::router_scale, &kFinite},
  };
  const auto place = [](ConfigParts* c) { return &c->kinds[0]; };
  for_each_block([&](const ConfigParts& base) {
    for (const auto& f : of_any) expect_rule(f, base, place);
    const auto mixer = static_cast<Mixer>(base.kinds[0].mixer);
    ConfigParts growing = base;
    growing.kinds[0].query_growth_period = 4;
    if (mixer == Mixer::kAttention || mixer == Mixer::kLatentAttention) {
      expect_rule(of_scores[0], base, place);
      expect_rule(of_scores[1], base, place);
      expect_rule(of_scores[2], growing, place);
    }
    if (mixer == Mixer::kAttention) expect_rule(clip, base, place);
    if (mixer == Mixer::kDeltaRule) expect_rule(unit, base, place);
    if (base.kinds[0].feed_forward != static_cast<uint8_t>(FeedForward::kExperts)) return;
    for (const auto& f : of_experts) expect_rule(f, base, place);
  });
}

TEST(ModelConfig, AGrowthHasAPeriod) {
  for (const auto& base : {attention, latent}) {
    const auto with_growth = [](LayerKind* k, uint32_t period) {
      k->query_growth = -0.1f;
      k->query_growth_period = period;
    };
    expect_limits({{"query_growth_period",
                    of_kind(base, with_growth),
                    {1, 1 << 24},
                    {0, (1 << 24) + 1, UINT32_MAX}},
                   {"query_growth_period",
                    of_field(base, &LayerKind::query_growth_period),
                    {0},
                    {1, 1 << 24, UINT32_MAX}}});
  }
}

TEST(ModelConfig, AClampedActivationHasItsNumbers) {
  const auto place = [](ConfigParts* c) { return &c->kinds[0]; };
  for (const FeedForward feed_forward : {FeedForward::kDense, FeedForward::kExperts}) {
    ConfigParts c = test::small_config(Mixer::kAttention, feed_forward);
    LayerKind& k = c.kinds[0];
    k.activation = static_cast<uint8_t>(format::Activation::kClampedSwiglu);
    k.activation_alpha = 1.702f;
    k.activation_limit = 7;
    EXPECT_EQ(fault_with_counts(c), "flags");  // it is always gated
    k.flags |= flag::kGated;
    EXPECT_EQ(fault_with_counts(c), "");
    expect_rule(FloatField<LayerKind>{"activation_alpha", &LayerKind::activation_alpha, &kFinite},
                c, place);
    expect_rule(FloatField<LayerKind>{"activation_limit", &LayerKind::activation_limit, &kAbove}, c,
                place);
    k.activation = static_cast<uint8_t>(format::Activation::kSilu);
    EXPECT_EQ(fault_with_counts(c), "activation_alpha");
    k.activation_alpha = 0;
    EXPECT_EQ(fault_with_counts(c), "activation_limit");
  }
}

// A field that nobody uses is zero; where and how many bytes it has, and who uses it.
struct Use {
  const char* field;
  size_t offset;
  size_t bytes;
  const char* users;  // digits of mixers, letters of feed-forwards: d, e
};
constexpr Use kUses[] = {
    {"activation", 3, 1, "de"},
    {"n_query_heads", 8, 2, "1245"},
    {"n_key_heads", 10, 2, "1245"},
    {"n_value_heads", 12, 2, "1245"},
    {"key_dim", 14, 2, "1245"},
    {"value_dim", 16, 2, "1245"},
    {"query_rank", 18, 2, "2"},
    {"latent_rank", 20, 2, "2"},
    {"shared_key_dim", 22, 2, "2"},
    {"conv_taps", 26, 1, "345"},
    {"router_score", 27, 1, "e"},
    {"window", 28, 4, "12"},
    {"score_multiplier", 32, 4, "12"},
    {"score_cap", 36, 4, "12"},
    {"qkv_clip", 40, 4, "1"},
    {"query_growth", 44, 4, "12"},
    {"query_growth_period", 48, 4, "12"},
    {"unit_epsilon", 60, 4, "4"},
    {"d_ff", 64, 4, "de"},
    {"expert_ff", 68, 4, "e"},
    {"n_experts", 72, 2, "e"},
    {"n_chosen", 74, 2, "e"},
    {"n_groups", 76, 2, "e"},
    {"n_groups_chosen", 78, 2, "e"},
    {"group_rank", 80, 1, "e"},
    {"reserved", 81, 3, ""},
    {"router_epsilon", 84, 4, "e"},
    {"router_scale", 88, 4, "e"},
    {"activation_alpha", 92, 4, ""},  // of an activation that none of these has
    {"activation_limit", 96, 4, ""},
    {"reserved", 100, 28, ""},
};

bool is_used(const Use& use, const LayerKind& k) {
  const std::string users = use.users;
  constexpr char kLetters[] = {'-', 'd', 'e'};
  return users.find(static_cast<char>('0' + k.mixer)) != std::string::npos ||
         users.find(kLetters[k.feed_forward]) != std::string::npos;
}

TEST(ModelConfig, FieldsThatNobodyUsesAreZeroBitByBit) {
  size_t n_refused = 0;
  for_each_block([&](ConfigParts c) {
    const LayerKind& k = c.kinds[0];
    EXPECT_EQ(fault_of(c), "");
    for (const Use& use : kUses) {
      if (is_used(use, k)) continue;
      for (size_t bit = 0; bit < use.bytes * 8; ++bit) {
        std::vector<uint8_t> section = test::section_of(c.view());
        section[sizeof(ModelScalars) + use.offset + bit / 8] = static_cast<uint8_t>(1u << bit % 8);
        EXPECT_EQ(fault_of(section), use.field) << bit;
        ++n_refused;
      }
    }
    const bool has_scores = k.mixer == 1 || k.mixer == 2;
    for (const uint8_t value : {uint8_t{0}, uint8_t{1}, uint8_t{254}}) {
      ConfigParts changed = c;
      changed.kinds[0].rope_table = value;
      if (!has_scores) {
        EXPECT_EQ(fault_of(changed), "rope_table");
      }
      changed = c;
      changed.kinds[0].shared_with = value;
      EXPECT_EQ(fault_of(changed), "shared_with");
    }
  });
  EXPECT_GT(n_refused, 5000u);
}

// Flags -----------------------------------------------------------------------------------------

// Whether a flag may be set in a kind of these blocks, of a model with per-layer embeddings, with
// keys and values of its own and of one width, silu, and an MLP beside experts.
bool may_have(uint32_t bit, const LayerKind& k) {
  const bool has_mixer = k.mixer != 0;
  const bool has_feed_forward = k.feed_forward != 0;
  const bool is_attention = k.mixer == 1;
  const bool is_recurrence = k.mixer >= 3;
  const bool is_dense = k.feed_forward == 1;
  const bool is_experts = k.feed_forward == 2;
  switch (bit) {
    case 0:
    case 1:
    case 4:
    case 5:
      return has_mixer;
    case 2:
    case 3:
    case 6:
    case 15:
    case 23:
      return has_feed_forward;
    case 7:
    case 8:
    case 9:
    case 10:
    case 11:
    case 12:
    case 13:
      return is_attention;
    case 14:
      return is_dense;
    case 16:
    case 17:
    case 18:
    case 19:
    case 20:
    case 21:
    case 22:
      return is_experts;
    case 24:
      return true;
    case 25:
      return is_recurrence;
    case 26:
      return k.mixer == 5;
    default:
      return false;
  }
}

TEST(ModelConfig, FlagsGoWithTheirBlocks) {
  size_t n_taken = 0;
  for_each_block([&](ConfigParts c) {
    c.model.per_layer_width = 6;
    LayerKind& k = c.kinds[0];
    k.value_dim = k.key_dim;
    for (uint32_t bit = 0; bit < 32; ++bit) {
      k.flags = 1u << bit;
      EXPECT_EQ(fault_with_counts(c), may_have(bit, k) ? "" : "flags") << bit;
      n_taken += may_have(bit, k) ? 1 : 0;
    }
    // All that go together.
    k.flags = 0;
    for (uint32_t bit = 0; bit < 32; ++bit) k.flags |= may_have(bit, k) ? 1u << bit : 0;
    k.flags &= ~flag::kWholeNorms;
    EXPECT_EQ(fault_with_counts(c), "");
  });
  EXPECT_GT(n_taken, 150u);
}

TEST(ModelConfig, FlagsHaveConditions) {
  const auto fault = [](ConfigParts c, uint32_t flags) {
    c.kinds[0].flags |= flags;
    return fault_with_counts(std::move(c));
  };
  EXPECT_EQ(fault(attention(), flag::kHeadNorms), "");
  EXPECT_EQ(fault(attention(), flag::kWholeNorms), "");
  EXPECT_EQ(fault(attention(), flag::kHeadNorms | flag::kWholeNorms), "flags");
  EXPECT_EQ(fault(attention(), flag::kValuesAreKeys), "flags");  // widths differ
  EXPECT_EQ(fault(llama(), flag::kValuesAreKeys), "");
  ConfigParts alone = experts();
  alone.kinds[0].d_ff = 0;
  EXPECT_EQ(fault(alone, 0), "");
  EXPECT_EQ(fault(alone, flag::kSharedGate), "flags");
  EXPECT_EQ(fault(alone, flag::kBranchNorms), "flags");
  EXPECT_EQ(fault(llama(), flag::kPerLayerInput), "flags");
  ConfigParts per_layer = llama();
  per_layer.model.per_layer_width = 6;
  EXPECT_EQ(fault(per_layer, flag::kPerLayerInput), "");
  LayerKind& k = per_layer.kinds[0];
  k.activation = static_cast<uint8_t>(format::Activation::kClampedSwiglu);
  k.activation_limit = 7;
  EXPECT_EQ(fault(per_layer, 0), "");
  EXPECT_EQ(fault(per_layer, flag::kPerLayerInput), "flags");
}

TEST(ModelConfig, SignedScalesAreOfNibbles) {
  for (const MatrixFormat f : kMatrixFormats) {
    ConfigParts c = test::small_config(f.number_format, f.group_size);
    c.model.flags = format::kSignedScales;
    const bool has_nibbles =
        f.number_format == NumberFormat::kInt4 || f.number_format == NumberFormat::kInt4Nl;
    EXPECT_EQ(fault_of(c), has_nibbles ? "" : "flags");
  }
}

TEST(ModelConfig, StayingRolesAreThoseOfExpertsAndPerLayerTables) {
  const auto fault = [](ConfigParts c) {
    c.model.compression = 2;
    return fault_with_counts(std::move(c));
  };
  EXPECT_EQ(fault(llama()), "compression");
  EXPECT_EQ(fault(experts()), "");
  ConfigParts per_layer = llama();
  per_layer.model.per_layer_width = 6;
  EXPECT_EQ(fault(per_layer), "");
}

// Layers and kinds ------------------------------------------------------------------------------

ConfigParts of_layers(size_t n_kinds, std::vector<uint8_t> layers) {
  ConfigParts c = llama();
  c.kinds.assign(n_kinds, c.kinds[0]);
  c.layers = std::move(layers);
  return c;
}

TEST(ModelConfig, KindsAreNumberedAsTheyAppear) {
  const auto fault = [](size_t n_kinds, std::vector<uint8_t> layers) {
    return fault_with_counts(of_layers(n_kinds, std::move(layers)));
  };
  EXPECT_EQ(fault(1, {0}), "");
  EXPECT_EQ(fault(2, {0, 1}), "");
  EXPECT_EQ(fault(2, {0, 0, 1, 0, 1}), "");
  EXPECT_EQ(fault(3, {0, 1, 0, 2, 1}), "");
  // More than there are would be past the kinds: the counts are not looked at.
  for (const auto& layers : std::vector<std::vector<uint8_t>>{
           {0, 0}, {1, 0}, {0, 2}, {1, 1}, {0, 255}, {0, 1, 2}, {255, 255}}) {
    EXPECT_EQ(fault_of(of_layers(2, layers)), "layers");
  }
  EXPECT_EQ(fault_of(of_layers(3, {0, 2, 1})), "layers");
  std::vector<uint8_t> sixteen;
  for (uint8_t i = 0; i < 16; ++i) sixteen.push_back(i);
  EXPECT_EQ(fault(16, sixteen), "");
  sixteen.push_back(16);
  EXPECT_EQ(fault_of(of_layers(17, sixteen)), "n_kinds");
  EXPECT_EQ(fault(1, std::vector<uint8_t>(1024, 0)), "");
  EXPECT_EQ(fault(1, std::vector<uint8_t>(1025, 0)), "n_layers");
}

TEST(ModelConfig, LayersArePaddedWithZeros) {
  for (size_t n = 1; n <= 17; ++n) {
    ConfigParts c = of_layers(1, std::vector<uint8_t>(n, 0));
    test::mend_counts(&c);
    const std::vector<uint8_t> section = test::section_of(c.view());
    const size_t begin = sizeof(ModelScalars) + sizeof(LayerKind);
    for (size_t at = begin + n; at < begin + (n + 7) / 8 * 8; ++at) {
      std::vector<uint8_t> changed = section;
      changed[at] = 1;
      EXPECT_EQ(fault_of(changed), "layers") << n << ' ' << at;
    }
    EXPECT_EQ(fault_of(section), "") << n;
  }
}

// Kind 1 reads what layers of kind 0 have written.
ConfigParts sharing() {
  ConfigParts c = attention();
  c.kinds.push_back(c.kinds[0]);
  c.kinds[1].shared_with = 0;
  c.layers = {0, 1, 1};
  return c;
}

TEST(ModelConfig, SharedKeysAndValuesAreThereBefore) {
  const auto fault = [](const std::function<void(ConfigParts*)>& change) {
    ConfigParts c = sharing();
    change(&c);
    return fault_with_counts(c);
  };
  EXPECT_EQ(fault([](ConfigParts*) {}), "");
  // What belongs to queries may differ.
  EXPECT_EQ(fault([](ConfigParts* c) { c->kinds[1].n_query_heads = 2; }), "");
  EXPECT_EQ(fault([](ConfigParts* c) { c->kinds[1].score_multiplier = 2; }), "");
  EXPECT_EQ(fault([](ConfigParts* c) { c->kinds[0].flags |= flag::kValueNorm; }), "");
  EXPECT_EQ(fault([](ConfigParts* c) { c->kinds[1].shared_with = 1; }), "shared_with");
  EXPECT_EQ(fault([](ConfigParts* c) { c->kinds[1].shared_with = 2; }), "shared_with");
  EXPECT_EQ(fault([](ConfigParts* c) { c->kinds[1].shared_with = 254; }), "shared_with");
  EXPECT_EQ(fault([](ConfigParts* c) { c->kinds[1].n_key_heads = c->kinds[1].n_value_heads = 1; }),
            "shared_with");
  EXPECT_EQ(fault([](ConfigParts* c) { c->kinds[1].key_dim = 14; }), "shared_with");
  EXPECT_EQ(fault([](ConfigParts* c) { c->kinds[1].value_dim = 12; }), "shared_with");
  EXPECT_EQ(fault([](ConfigParts* c) { c->kinds[1].window = 3; }), "shared_with");
  EXPECT_EQ(fault([](ConfigParts* c) { c->kinds[0].window = 3; }), "shared_with");
  EXPECT_EQ(fault([](ConfigParts* c) { c->kinds[1].flags |= flag::kValueNorm; }), "flags");
  EXPECT_EQ(fault([](ConfigParts* c) {
              for (LayerKind& k : c->kinds) k.value_dim = 12;
              c->kinds[1].flags |= flag::kValuesAreKeys;
            }),
            "flags");
  // Of a kind that appears later, that shares itself, or that is no attention.
  EXPECT_EQ(fault([](ConfigParts* c) {
              c->kinds[0].shared_with = 1;
              c->kinds[1].shared_with = format::kNoKind;
            }),
            "shared_with");
  EXPECT_EQ(fault([](ConfigParts* c) {
              c->kinds.push_back(c->kinds[1]);
              c->kinds[2].shared_with = 1;
              c->layers = {0, 1, 2};
            }),
            "shared_with");
  EXPECT_EQ(fault([](ConfigParts* c) {
              c->kinds[0] = test::small_kind(Mixer::kDeltaRule, FeedForward::kDense);
            }),
            "shared_with");
}

// Counts ----------------------------------------------------------------------------------------

// Counts of a Llama of two layers: those of the kind, then embedding and lm_head.
constexpr uint8_t kF32Place = 0;
constexpr uint8_t kF16Place = 1;

ConfigParts counted() {
  ConfigParts c = test::small_config(NumberFormat::kF32, 0);
  return c;
}

TEST(ModelConfig, CountsAscendByKindRoleAndFormat) {
  const ConfigParts c = counted();
  const format::MatrixCount want[] = {{3, 0, 0, 2},  {4, 0, 0, 2},   {5, 0, 0, 2},
                                      {6, 0, 0, 2},  {8, 0, 0, 2},   {9, 0, 0, 2},
                                      {10, 0, 0, 2}, {1, 255, 0, 1}, {12, 255, 0, 1}};
  ASSERT_EQ(c.counts.size(), std::size(want));
  EXPECT_EQ(std::memcmp(c.counts.data(), want, sizeof want), 0);
  for (size_t i = 0; i + 1 < c.counts.size(); ++i) {
    ConfigParts changed = c;
    std::swap(changed.counts[i], changed.counts[i + 1]);
    EXPECT_EQ(fault_of(changed), "matrix counts") << i;
  }
}

TEST(ModelConfig, CountsAreThoseOfTheMatrices) {
  const ConfigParts c = counted();
  for (size_t i = 0; i < c.counts.size(); ++i) {
    const auto fault = [&](const std::function<void(std::vector<format::MatrixCount>*)>& change) {
      ConfigParts changed = c;
      change(&changed.counts);
      return fault_of(changed);
    };
    using Counts = std::vector<format::MatrixCount>;
    const auto place = static_cast<std::ptrdiff_t>(i);
    EXPECT_EQ(fault([&](Counts* n) { n->erase(n->begin() + place); }), "matrix counts");
    EXPECT_EQ(fault([&](Counts* n) { n->insert(n->begin() + place, (*n)[i]); }), "matrix counts");
    for (const uint32_t wrong : {0u, c.counts[i].count - 1, c.counts[i].count + 1, UINT32_MAX}) {
      EXPECT_EQ(fault([&](Counts* n) { (*n)[i].count = wrong; }), "matrix counts") << wrong;
    }
    // Two formats: of two layers one each, of one tensor too many.
    const auto split = [&](uint32_t first, uint32_t second) {
      return fault([&](Counts* n) {
        (*n)[i].count = first;
        format::MatrixCount more = (*n)[i];
        more.format = kF16Place;
        more.count = second;
        n->insert(n->begin() + place + 1, more);
      });
    };
    EXPECT_EQ(split(1, 1), c.counts[i].count == 2 ? "" : "matrix counts");
    EXPECT_EQ(split(c.counts[i].count, 0), "matrix counts");
    EXPECT_EQ(split(0, c.counts[i].count), "matrix counts");
    EXPECT_EQ(split(c.counts[i].count, 1), "matrix counts");
    EXPECT_EQ(split(c.counts[i].count, UINT32_MAX), "matrix counts");
    EXPECT_EQ(fault([&](Counts* n) { (*n)[i].format = 12; }), "");
    EXPECT_EQ(fault([&](Counts* n) { (*n)[i].format = 13; }), "matrix counts");
    EXPECT_EQ(fault([&](Counts* n) { (*n)[i].format = 255; }), "matrix counts");
    EXPECT_EQ(fault([&](Counts* n) { (*n)[i].kind = 1; }), "matrix counts");
    EXPECT_EQ(fault([&](Counts* n) { (*n)[i].kind = 254; }), "matrix counts");
  }
}

// Of roles that are not there, that are no matrices, or that do not exist.
TEST(ModelConfig, NothingElseIsCounted) {
  for (uint32_t role = 0; role <= UINT16_MAX; role = role < 300 ? role + 1 : role * 2 + 1) {
    for (const uint8_t kind : {uint8_t{0}, uint8_t{1}, uint8_t{255}}) {
      ConfigParts c = counted();
      const format::MatrixCount more = {static_cast<uint16_t>(role), kind, kF32Place, 1};
      auto place = c.counts.begin();
      bool is_there = false;
      const auto before = [](const format::MatrixCount& a, const format::MatrixCount& b) {
        return a.kind != b.kind ? a.kind < b.kind : a.role < b.role;
      };
      for (; place != c.counts.end() && before(*place, more); ++place) {
      }
      is_there = place != c.counts.end() && place->kind == kind && place->role == role;
      if (is_there) continue;
      c.counts.insert(place, more);
      EXPECT_EQ(fault_of(c), "matrix counts") << role << ' ' << int{kind};
    }
  }
}

TEST(ModelConfig, AStackCountsAsOne) {
  ConfigParts c = test::small_config(Mixer::kLatentAttention, FeedForward::kExperts);
  for (const format::MatrixCount& count : c.counts) {
    EXPECT_EQ(count.count, count.kind == format::kNoKind ? 1u : 2u) << count.role;
  }
  EXPECT_EQ(fault_of(c), "");
}

// Sizes -----------------------------------------------------------------------------------------

TEST(ModelConfig, ASectionIsAsLongAsItsCountsSay) {
  ConfigParts c = llama();
  EXPECT_EQ(config_bytes(c.view().model[0]), 256u + 128 + 8 + 9 * 8);
  const std::vector<uint8_t> section = test::section_of(c.view());
  ASSERT_EQ(section.size(), 256u + 128 + 8 + 9 * 8);
  for (size_t n = 0; n < section.size(); ++n) {
    EXPECT_EQ(fault_of(std::vector<uint8_t>(section.data(), section.data() + n)),
              "size of the config");
  }
  std::vector<uint8_t> longer = section;
  longer.resize(section.size() + 8);
  EXPECT_EQ(fault_of(longer), "size of the config");
  // A Llama 3.2 1B of the design.
  c.model.flags = format::kTiedEmbedding;
  c.layers.assign(16, 0);
  test::mend_counts(&c);
  EXPECT_EQ(test::section_of(c.view()).size(), 256u + 128 + 16 + 64);
}

TEST(ModelConfig, ASectionIsAtMost4096Bytes) {
  // Kinds and layers of every size, and as many counts as fit: one more does not.
  for (const uint32_t n_kinds : {1u, 2u, 16u}) {
    for (const uint32_t n_layers : {16u, 17u, 1024u}) {
      const uint32_t n_counts = (4096 - 256 - 128 * n_kinds - (n_layers + 7) / 8 * 8) / 8;
      ModelScalars m = {};
      m.n_kinds = n_kinds;
      m.n_layers = n_layers;
      m.n_counts = n_counts;
      EXPECT_EQ(config_bytes(m), 4096u);
      ConfigParts c = of_layers(n_kinds, std::vector<uint8_t>(n_layers, 0));
      c.counts.assign(n_counts, {});
      EXPECT_EQ(test::section_of(c.view()).size(), 4096u);
      EXPECT_NE(fault_of(test::section_of(c.view())), "n_counts");
      c.counts.push_back({});
      EXPECT_TRUE(test::section_of(c.view()).empty());
      EXPECT_STREQ(check_config(c.view()), "n_counts");
    }
  }
  ConfigParts c = of_layers(1, {0});
  c.counts.assign(463, {});
  EXPECT_EQ(test::section_of(c.view()).size(), 4096u);
  EXPECT_EQ(fault_of(c), "matrix counts");
  c.counts.clear();
  EXPECT_EQ(fault_of(c), "n_counts");
  c.counts.assign(464, {});
  EXPECT_STREQ(check_config(c.view()), "n_counts");
  // Scalars alone are refused before what they ask for is looked at.
  for (uint32_t ModelScalars::*const field :
       {&ModelScalars::n_layers, &ModelScalars::n_kinds, &ModelScalars::n_counts}) {
    for (const uint32_t value : {0u, UINT32_MAX}) {
      ConfigParts changed = llama();
      std::vector<uint8_t> section = test::section_of(changed.view());
      ModelScalars m;
      std::memcpy(&m, section.data(), sizeof m);
      m.*field = value;
      std::memcpy(section.data(), &m, sizeof m);
      EXPECT_EQ(fault_of(section).substr(0, 2), "n_");
    }
  }
}

// Sections of random kinds ----------------------------------------------------------------------

TEST(ModelConfig, RandomKindsComeBackAsTheyWereWritten) {
  test::for_each_seed({1, 2, 3}, [](uint32_t seed) {
    for (uint32_t i = 0; i < 300; ++i) {
      ConfigParts c = test::random_kinds(seed * 1000 + i, test::all_kinds());
      ASSERT_EQ(fault_of(c), "") << i;
      ConfigBytes section;
      const size_t n_bytes = write_config(c.view(), &section);
      ASSERT_EQ(n_bytes, config_bytes(c.model));
      Config read;
      ASSERT_EQ(read_config({section.bytes, n_bytes}, &read), nullptr);
      ConfigParts again = test::parts_of(read);
      EXPECT_EQ(std::memcmp(&again.model, &c.model, sizeof c.model), 0);
      EXPECT_EQ(again.layers, c.layers);
      ASSERT_EQ(again.kinds.size(), c.kinds.size());
      ASSERT_EQ(again.counts.size(), c.counts.size());
      EXPECT_EQ(std::memcmp(again.kinds.data(), c.kinds.data(), read.kinds.size_bytes()), 0);
      EXPECT_EQ(std::memcmp(again.counts.data(), c.counts.data(), read.counts.size_bytes()), 0);
      EXPECT_EQ(view_config(section).counts.data(), read.counts.data());
      EXPECT_EQ(test::section_of(again.view()), test::section_of(c.view()));
    }
  });
}

TEST(ModelConfig, RandomKindsHaveWhatIsAskedFor) {
  size_t n_mixers[6] = {};
  size_t n_feed_forwards[3] = {};
  uint32_t flags = 0;
  size_t n_sharing = 0;
  for (uint32_t seed = 0; seed < 500; ++seed) {
    for (const LayerKind& k : test::random_kinds(seed, test::all_kinds()).kinds) {
      ++n_mixers[k.mixer];
      ++n_feed_forwards[k.feed_forward];
      flags |= k.flags;
      n_sharing += k.shared_with != format::kNoKind ? 1 : 0;
    }
    for (const LayerKind& k : test::random_kinds(seed, test::plain_kinds()).kinds) {
      EXPECT_EQ(k.mixer, 1);
      EXPECT_EQ(k.feed_forward, 1);
      EXPECT_EQ(k.key_dim, k.value_dim);
      EXPECT_EQ(k.activation, 1);
      const uint32_t always = flag::kMixerNorm | flag::kFfnNorm | flag::kGated;
      EXPECT_EQ(k.flags & always, always);
      EXPECT_EQ(k.flags & ~(always | flag::kMixerBias | flag::kOutputBias | flag::kFfnBias |
                            flag::kHeadNorms),
                0u);
    }
  }
  for (const size_t n : n_mixers) EXPECT_GT(n, 50u);
  for (const size_t n : n_feed_forwards) EXPECT_GT(n, 50u);
  EXPECT_EQ(flags, (1u << 27) - 1);
  EXPECT_GT(n_sharing, 50u);
}

// What any changed byte leaves is refused, or a config of which all that follows can be computed.
TEST(ModelConfig, WhatIsTakenHasATensorList) {
  size_t n_taken = 0;
  size_t n_refused = 0;
  for (uint32_t seed = 0; seed < 12; ++seed) {
    ConfigParts c = test::random_kinds(seed, test::all_kinds());
    const std::vector<uint8_t> section = test::section_of(c.view());
    ConfigBytes bytes = {};
    for (size_t bit = 0; bit < section.size() * 8; ++bit) {
      std::memcpy(bytes.bytes, section.data(), section.size());
      bytes.bytes[bit / 8] = static_cast<uint8_t>(bytes.bytes[bit / 8] ^ 1u << bit % 8);
      Config read;
      if (read_config({bytes.bytes, section.size()}, &read) != nullptr) {
        ++n_refused;
        continue;
      }
      ++n_taken;
      uint32_t n = 0;
      TensorWalk walk(read);
      for (TensorSpec spec = {}; walk.next(kMatrixFormats[0], &spec);) {
        EXPECT_NE(tensor_bytes(spec), 0u);
        ++n;
      }
      EXPECT_EQ(n, tensor_count(read));
    }
  }
  EXPECT_GT(n_taken, 5000u);
  EXPECT_GT(n_refused, 20000u);
}

}  // namespace
}  // namespace cria
