#include "quant/model_layout.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>
#include <string>

#include "quant/tile16.h"
#include "tests/support/test_configs.h"

namespace cria {
namespace {

using format::ModelConfig;
using format::NumberFormat;
using format::TensorRole;

ModelConfig int4_config() { return test::small_config(NumberFormat::kInt4, 32); }

std::string name_of(const TensorSpec& spec) {
  char name[64];
  tensor_name(spec, name, sizeof name);
  return name;
}

TEST(ModelLayout, CanonicalOrderIsTheOneOfTheFormat) {
  ModelConfig c = int4_config();
  c.n_layers = 1;
  c.flags = format::kQkvBias | format::kOutputBias | format::kMlpBias;
  const std::vector<std::string> want = {"rope.inverse_frequencies",
                                         "embedding",
                                         "layers.0.attention_norm",
                                         "layers.0.q",
                                         "layers.0.q.bias",
                                         "layers.0.k",
                                         "layers.0.k.bias",
                                         "layers.0.v",
                                         "layers.0.v.bias",
                                         "layers.0.o",
                                         "layers.0.o.bias",
                                         "layers.0.ffn_norm",
                                         "layers.0.gate",
                                         "layers.0.gate.bias",
                                         "layers.0.up",
                                         "layers.0.up.bias",
                                         "layers.0.down",
                                         "layers.0.down.bias",
                                         "final_norm",
                                         "lm_head"};
  ASSERT_EQ(tensor_count(c), want.size());
  for (uint32_t i = 0; i < want.size(); ++i) EXPECT_EQ(name_of(tensor_spec(c, i)), want[i]);
}

TEST(ModelLayout, TiedModelsStoreNoOutputMatrix) {
  ModelConfig c = int4_config();
  const uint32_t untied = tensor_count(c);
  c.flags = format::kTiedEmbedding;
  EXPECT_EQ(tensor_count(c), untied - 1);
  EXPECT_EQ(tensor_spec(c, untied - 2).role, TensorRole::kFinalNorm);
}

TEST(ModelLayout, EveryTensorHasItsOwnNameAndLayer) {
  ModelConfig c = int4_config();
  c.n_layers = 13;
  std::set<std::string> names;
  for (uint32_t i = 0; i < tensor_count(c); ++i) {
    EXPECT_TRUE(names.insert(name_of(tensor_spec(c, i))).second);
  }
  EXPECT_EQ(names.count("layers.12.down"), 1u);
}

TEST(ModelLayout, ChunksCutEachPlaneApart) {
  ModelConfig c = int4_config();
  c.vocab_size = 128256;
  c.d_model = 2048;
  const TensorSpec embedding = tensor_spec(c, 1);
  // 128256 x 2048 nibbles are 501 chunks of 256 KiB exactly; 64 scales of 2 bytes a row 62.625.
  EXPECT_EQ(tensor_code_bytes(embedding), 501u * format::kChunkRawBytes);
  EXPECT_EQ(tensor_chunk_count(embedding), 501u + 63u);
  EXPECT_EQ(tensor_chunk_count(tensor_spec(c, 0)), 1u);
}

TEST(ModelLayout, RefusesEveryFieldOutOfRange) {
  EXPECT_EQ(check_config(int4_config()), nullptr);
  struct Case {
    const char* field;
    void (*spoil)(ModelConfig& c);
  };
  const Case cases[] = {
      {"architecture", [](ModelConfig& c) { c.architecture = 4; }},
      {"flags", [](ModelConfig& c) { c.flags = 0x10; }},
      {"n_layers", [](ModelConfig& c) { c.n_layers = 0; }},
      {"n_layers", [](ModelConfig& c) { c.n_layers = 0xffffffff; }},
      {"d_model", [](ModelConfig& c) { c.d_model = (1 << 17) + 1; }},
      {"n_heads", [](ModelConfig& c) { c.n_heads = 0; }},
      {"n_kv_heads", [](ModelConfig& c) { c.n_kv_heads = 3; }},
      {"n_kv_heads", [](ModelConfig& c) { c.n_kv_heads = 8; }},
      {"head_dim", [](ModelConfig& c) { c.head_dim = 15; }},
      {"n_heads * head_dim", [](ModelConfig& c) { c.n_heads = 1024, c.head_dim = 512; }},
      {"d_ff", [](ModelConfig& c) { c.d_ff = 0; }},
      {"vocab_size", [](ModelConfig& c) { c.vocab_size = (1 << 21) + 1; }},
      {"max_context", [](ModelConfig& c) { c.max_context = 0x7fffffff; }},
      {"planned_context", [](ModelConfig& c) { c.planned_context = c.max_context + 1; }},
      {"sliding_window", [](ModelConfig& c) { c.sliding_window = 0xffffffff; }},
      {"rms_epsilon", [](ModelConfig& c) { c.rms_epsilon = -1; }},
      {"embedding_multiplier",
       [](ModelConfig& c) { c.embedding_multiplier = std::numeric_limits<float>::quiet_NaN(); }},
      {"residual_multiplier",
       [](ModelConfig& c) { c.residual_multiplier = std::numeric_limits<float>::infinity(); }},
      {"attention_multiplier",
       [](ModelConfig& c) { c.attention_multiplier = std::numeric_limits<float>::infinity(); }},
      {"logits_divisor", [](ModelConfig& c) { c.logits_divisor = 0; }},
      {"rope_factor",
       [](ModelConfig& c) { c.rope_factor = std::numeric_limits<float>::infinity(); }},
      {"compression", [](ModelConfig& c) { c.compression = 2; }},
      {"bos_token", [](ModelConfig& c) { c.bos_token = 50; }},
      {"n_end_tokens", [](ModelConfig& c) { c.n_end_tokens = 17; }},
      {"end_tokens", [](ModelConfig& c) { c.end_tokens[0] = 50; }},
      {"end_tokens", [](ModelConfig& c) { c.end_tokens[1] = 1; }},
      {"matrix_format", [](ModelConfig& c) { c.matrix_format[3].number_format = 6; }},
      {"matrix_format", [](ModelConfig& c) { c.matrix_format[3].group_size = 16; }},
      {"matrix_format", [](ModelConfig& c) { c.matrix_format[8].reserved = 1; }},
      {"reserved", [](ModelConfig& c) { c.reserved[71] = 1; }},
  };
  for (const Case& k : cases) {
    ModelConfig c = int4_config();
    k.spoil(c);
    const char* field = check_config(c);
    ASSERT_NE(field, nullptr) << k.field;
    EXPECT_STREQ(field, k.field);
  }
}

TEST(ModelLayout, RefusesATiedModelWhoseOutputHasAnotherFormat) {
  ModelConfig c = int4_config();
  c.flags = format::kTiedEmbedding;
  EXPECT_EQ(check_config(c), nullptr);
  c.matrix_format[8] = {static_cast<uint8_t>(NumberFormat::kInt8), 0, 0};
  EXPECT_STREQ(check_config(c), "matrix_format");
}

// The sums over tensors, made one tensor at a time.
TEST(ModelLayout, PlacesEqualTheSumsOfWhatLiesBefore) {
  size_t n_compared = 0;
  for (uint32_t flags = 0; flags <= format::kKnownFlags; ++flags) {
    for (const uint32_t n_layers : {1u, 2u, 5u}) {
      format::ModelConfig c = test::small_config(format::NumberFormat::kBf16, 0);
      c.flags = flags;
      c.n_layers = n_layers;
      c.d_model = 17;
      c.vocab_size = 20000;  // more than one chunk
      uint64_t all = 0;
      uint64_t vectors_and_embedding = 0;
      uint64_t n_chunks = 0;
      uint64_t last_end = 0;
      for (uint32_t i = 0; i < tensor_count(c); ++i) {
        ASSERT_EQ(tensor_offset(c, i, KeptTensors::kAll), all);
        ASSERT_EQ(tensor_offset(c, i, KeptTensors::kVectorsAndEmbedding), vectors_and_embedding);
        ASSERT_EQ(first_chunk_of(c, i), n_chunks);
        const TensorSpec spec = tensor_spec(c, i);
        const uint64_t n_bytes = round_up(tensor_bytes(spec), format::kAlignment);
        last_end = all + tensor_bytes(spec);
        all += n_bytes;
        if (!spec.is_matrix || i == 1) vectors_and_embedding += n_bytes;
        n_chunks += tensor_chunk_count(spec);
        ++n_compared;
      }
      EXPECT_EQ(all_tensor_bytes(c), all);
      EXPECT_EQ(chunk_count(c), n_chunks);
      EXPECT_EQ(uncompressed_data_bytes(c), last_end);
    }
  }
  EXPECT_GT(n_compared, 1000u);
}

}  // namespace
}  // namespace cria
