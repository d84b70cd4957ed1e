#include "quant/model_layout.h"

#include <gtest/gtest.h>

#include <cstring>
#include <iterator>
#include <limits>
#include <set>
#include <string>

#include "quant/tile16.h"
#include "tests/support/matrix_formats.h"
#include "tests/support/test_configs.h"

namespace cria {
namespace {

using format::ModelConfig;
using format::NumberFormat;
using format::TensorRole;

constexpr size_t kInt4G32 = place_of({NumberFormat::kInt4, 32});

ModelConfig int4_config() { return test::small_config(NumberFormat::kInt4, 32); }

std::string name_of(const TensorSpec& spec) {
  char name[64];
  tensor_name(spec, name, sizeof name);
  return name;
}

TEST(ModelLayout, CanonicalOrderIsTheOneOfTheFormat) {
  ModelConfig c = int4_config();
  c.n_layers = 1;
  c.flags = format::kKnownFlags & ~format::kTiedEmbedding;
  test::mend_counts(&c);
  const std::vector<std::string> want = {"rope.inverse_frequencies",
                                         "rope.long_inverse_frequencies",
                                         "embedding",
                                         "layers.0.attention_norm",
                                         "layers.0.q",
                                         "layers.0.q.bias",
                                         "layers.0.k",
                                         "layers.0.k.bias",
                                         "layers.0.v",
                                         "layers.0.v.bias",
                                         "layers.0.q_norm",
                                         "layers.0.k_norm",
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
  for (uint32_t i = 0; i < want.size(); ++i) EXPECT_EQ(name_of(test::spec_at(c, i)), want[i]);
}

TEST(ModelLayout, TiedModelsStoreNoOutputMatrix) {
  ModelConfig c = int4_config();
  const uint32_t untied = tensor_count(c);
  c.flags = format::kTiedEmbedding;
  EXPECT_EQ(tensor_count(c), untied - 1);
  EXPECT_EQ(test::spec_at(c, untied - 2).role, TensorRole::kFinalNorm);
}

TEST(ModelLayout, EveryTensorHasItsOwnNameAndLayer) {
  ModelConfig c = int4_config();
  c.n_layers = 13;
  test::mend_counts(&c);
  std::set<std::string> names;
  for (uint32_t i = 0; i < tensor_count(c); ++i) {
    EXPECT_TRUE(names.insert(name_of(test::spec_at(c, i))).second);
  }
  EXPECT_EQ(names.count("layers.12.down"), 1u);
}

TEST(ModelLayout, TheRopesAreAsLongAsWhatTheyTurn) {
  ModelConfig c = int4_config();
  EXPECT_EQ(tensor_spec(c, 0, kMatrixFormats[0]).shape.cols, c.head_dim / 2);
  c.flags = format::kLongRope | format::kQkNorm;
  c.rotary_dim = 6;
  c.original_context = 16;
  test::mend_counts(&c);
  ASSERT_EQ(check_config(c), nullptr);
  EXPECT_EQ(tensor_spec(c, 0, kMatrixFormats[0]).shape.cols, 3u);
  EXPECT_EQ(tensor_spec(c, 1, kMatrixFormats[0]).shape.cols, 3u);
  EXPECT_EQ(tensor_spec(c, 1, kMatrixFormats[0]).role, TensorRole::kRopeLongInverseFrequencies);
}

TEST(ModelLayout, WhatRopeMayBeHasLimits) {
  const auto refused = [](const auto& change) {
    ModelConfig c = int4_config();
    change(&c);
    const char* field = check_config(c);
    return std::string(field != nullptr ? field : "");
  };
  for (const uint32_t turned : {3u, 16u, 18u, UINT32_MAX}) {
    EXPECT_EQ(refused([&](ModelConfig* c) { c->rotary_dim = turned; }), "rotary_dim") << turned;
  }
  for (const uint32_t turned : {0u, 2u, 14u}) {
    EXPECT_EQ(refused([&](ModelConfig* c) { c->rotary_dim = turned; }), "") << turned;
  }
  EXPECT_EQ(refused([](ModelConfig* c) { c->original_context = 1; }), "original_context");
  for (const uint32_t original : {0u, 128u, UINT32_MAX}) {
    EXPECT_EQ(refused([&](ModelConfig* c) {
                c->flags = format::kLongRope;
                c->original_context = original;
              }),
              "original_context");
  }
  EXPECT_EQ(refused([](ModelConfig* c) {
              c->flags = format::kLongRope;
              c->original_context = 127;
            }),
            "");
  const auto with_layers = [&](uint32_t period, uint32_t low, uint32_t high) {
    return refused([&](ModelConfig* c) {
      c->no_rope_period = period;
      c->no_rope_layers[0] = low;
      c->no_rope_layers[1] = high;
    });
  };
  EXPECT_EQ(with_layers(65, 1, 0), "no_rope_period");
  EXPECT_EQ(with_layers(0, 1, 0), "no_rope_layers");
  EXPECT_EQ(with_layers(4, 0, 0), "no_rope_layers");
  EXPECT_EQ(with_layers(4, 0x10, 0), "no_rope_layers");
  EXPECT_EQ(with_layers(32, 1, 1), "no_rope_layers");
  EXPECT_EQ(with_layers(4, 0x08, 0), "");
  EXPECT_EQ(with_layers(33, 0, 1), "");
  EXPECT_EQ(with_layers(64, UINT32_MAX, UINT32_MAX), "");
}

TEST(ModelLayout, LayersWithoutRopeComeRoundAndRound) {
  ModelConfig c = int4_config();
  for (size_t layer = 0; layer < 8; ++layer) EXPECT_TRUE(has_rope(c, layer));
  c.no_rope_period = 4;
  c.no_rope_layers[0] = 0b1000;
  for (size_t layer = 0; layer < 100; ++layer) EXPECT_EQ(has_rope(c, layer), layer % 4 != 3);
  c.no_rope_period = 64;
  c.no_rope_layers[0] = 0;
  c.no_rope_layers[1] = 1u << 31;
  for (size_t layer = 0; layer < 200; ++layer) EXPECT_EQ(has_rope(c, layer), layer % 64 != 63);
}

TEST(ModelLayout, ChunksCutEachPlaneApart) {
  ModelConfig c = int4_config();
  c.vocab_size = 128256;
  c.d_model = 2048;
  const TensorSpec embedding = test::spec_at(c, 1);
  // 128256 x 2048 nibbles are 501 chunks of 256 KiB exactly; 64 scales of 2 bytes a row 62.625.
  EXPECT_EQ(tensor_code_bytes(embedding), 501u * format::kChunkRawBytes);
  EXPECT_EQ(tensor_chunk_count(embedding), 501u + 63u);
  EXPECT_EQ(tensor_chunk_count(test::spec_at(c, 0)), 1u);
}

TEST(ModelLayout, RefusesEveryFieldOutOfRange) {
  EXPECT_EQ(check_config(int4_config()), nullptr);
  struct Case {
    const char* field;
    void (*spoil)(ModelConfig& c);
  };
  const Case cases[] = {
      {"architecture", [](ModelConfig& c) { c.architecture = 9; }},
      {"flags", [](ModelConfig& c) { c.flags = 0x80; }},
      {"flags",
       [](ModelConfig& c) {
         c.flags |= format::kSignedScales;  // int8 has none of groups
         test::set_all_formats(&c, {NumberFormat::kInt8, 0});
       }},
      {"flags",
       [](ModelConfig& c) {
         c.flags |= format::kSignedScales;  // those of int8g32 are positive
         test::set_all_formats(&c, {NumberFormat::kInt8G32, 32});
       }},
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
      {"n_matrices", [](ModelConfig& c) { c.n_matrices[3][kInt4G32] = 1; }},
      {"n_matrices", [](ModelConfig& c) { c.n_matrices[3][kInt4G32] = 3; }},
      {"n_matrices", [](ModelConfig& c) { c.n_matrices[3][0] = 1; }},
      {"n_matrices", [](ModelConfig& c) { c.n_matrices[3][0] = 0xffff; }},
      {"n_matrices",
       [](ModelConfig& c) {
         c.n_matrices[3][kInt4G32] = 1;
         c.n_matrices[3][std::size(kMatrixFormats)] = 1;
       }},
      {"n_matrices", [](ModelConfig& c) { c.flags = format::kTiedEmbedding; }},
      {"n_matrices", [](ModelConfig& c) { c.n_matrices[8][kInt4G32] = 0; }},
      {"reserved", [](ModelConfig& c) { c.reserved[55] = 1; }},
  };
  for (const Case& k : cases) {
    ModelConfig c = int4_config();
    k.spoil(c);
    const char* field = check_config(c);
    ASSERT_NE(field, nullptr) << k.field;
    EXPECT_STREQ(field, k.field);
  }
}

// A config with matrices of every format, spread over the layers in a way that no role shares.
ModelConfig mixed_config(uint32_t flags, uint32_t n_layers, std::vector<MatrixFormat>* formats) {
  ModelConfig c = test::small_config(NumberFormat::kBf16, 0);
  c.flags = flags;
  c.original_context = (flags & format::kLongRope) != 0 ? 64 : 0;
  c.rotary_dim = (flags & format::kQkNorm) != 0 ? 6 : 0;
  c.n_layers = n_layers;
  c.d_model = 17;
  c.vocab_size = 20000;  // more than one chunk
  std::memset(c.n_matrices, 0, sizeof c.n_matrices);
  formats->clear();
  for (uint32_t i = 0; i < tensor_count(c); ++i) {
    formats->push_back(kMatrixFormats[(i * i + flags) % std::size(kMatrixFormats)]);
    count_tensor(tensor_spec(c, i, formats->back()), &c.n_matrices);
  }
  return c;
}

// The sums over kinds of tensors, made one tensor at a time.
TEST(ModelLayout, SumsEqualThoseOverAllTensors) {
  size_t n_compared = 0;
  for (uint32_t flags = 0; flags <= format::kKnownFlags; ++flags) {
    for (const uint32_t n_layers : {1u, 2u, 5u}) {
      std::vector<MatrixFormat> formats;
      const ModelConfig c = mixed_config(flags, n_layers, &formats);
      ASSERT_EQ(check_config(c), nullptr);
      uint64_t all = 0;
      uint64_t vectors_and_embedding = 0;
      uint64_t n_chunks = 0;
      uint64_t last_end = 0;
      for (uint32_t i = 0; i < tensor_count(c); ++i) {
        const TensorSpec spec = tensor_spec(c, i, formats[i]);
        const uint64_t n_bytes = round_up(tensor_bytes(spec), format::kAlignment);
        last_end = all + tensor_bytes(spec);
        all += n_bytes;
        const bool is_embedding = spec.role == TensorRole::kEmbedding;
        if (!spec.is_matrix || is_embedding) vectors_and_embedding += n_bytes;
        n_chunks += tensor_chunk_count(spec);
        ++n_compared;
      }
      EXPECT_EQ(all_tensor_bytes(c), all);
      EXPECT_EQ(kept_tensor_bytes(c, KeptTensors::kVectorsAndEmbedding), vectors_and_embedding);
      EXPECT_EQ(chunk_count(c), n_chunks);
      EXPECT_EQ(uncompressed_data_bytes(c), last_end);
    }
  }
  EXPECT_GT(n_compared, 1000u);
}

TEST(ModelLayout, SignsAreForScalesOfNibblesAlone) {
  ModelConfig c = int4_config();
  c.flags |= format::kSignedScales;
  for (const MatrixFormat f : kMatrixFormats) {
    const bool is_int4 =
        f.number_format == NumberFormat::kInt4 || f.number_format == NumberFormat::kInt4Nl;
    EXPECT_EQ(tensor_spec(c, 3, f).has_signed_scales, is_int4) << row_of(f.number_format).name;
    EXPECT_FALSE(tensor_spec(c, 0, f).has_signed_scales);
  }
}

TEST(ModelLayout, ANumberFormatTakesTheGroupsItHas) {
  for (const MatrixFormat f : kMatrixFormats) {
    EXPECT_EQ(matrix_format(f.number_format, f.group_size), f);
    const MatrixFormat smallest = matrix_format(f.number_format, 48);
    EXPECT_EQ(smallest.number_format, f.number_format);
    EXPECT_EQ(smallest.group_size, f.group_size == 0 ? 0 : 32);
  }
  EXPECT_EQ(matrix_format(NumberFormat::kInt8G32, 64).group_size, 32);
}

TEST(ModelLayout, AnEntryIsReadBackOnlyWhereItBelongs) {
  std::vector<MatrixFormat> formats;
  const ModelConfig c = mixed_config(format::kQkvBias, 3, &formats);
  for (uint32_t i = 0; i < tensor_count(c); ++i) {
    const TensorSpec spec = tensor_spec(c, i, formats[i]);
    const format::TensorEntry entry = tensor_entry(spec, 7);
    TensorSpec read = {};
    ASSERT_TRUE(read_entry(c, i, entry, &read));
    EXPECT_EQ(read.role, spec.role);
    EXPECT_EQ(read.layer, spec.layer);
    EXPECT_EQ(read.is_matrix, spec.is_matrix);
    EXPECT_EQ(read.shape, spec.shape);
    for (uint32_t other = 0; other < tensor_count(c); ++other) {
      if (other == i) continue;
      EXPECT_FALSE(read_entry(c, other, entry, &read)) << i << ' ' << other;
    }
    // Every bit but those of first_chunk, which has its own check, is one that counts.
    for (size_t bit = 0; bit < sizeof entry * 8; ++bit) {
      format::TensorEntry changed = entry;
      auto* bytes = reinterpret_cast<uint8_t*>(&changed);
      bytes[bit / 8] = static_cast<uint8_t>(bytes[bit / 8] ^ 1u << bit % 8);
      const bool is_first_chunk = bit / 8 >= offsetof(format::TensorEntry, first_chunk) &&
                                  bit / 8 < offsetof(format::TensorEntry, n_chunks);
      EXPECT_EQ(read_entry(c, i, changed, &read), is_first_chunk) << i << ' ' << bit;
    }
  }
}

TEST(ModelLayout, AFormatThatIsNotCountedForTheRoleIsRefused) {
  const ModelConfig c = int4_config();
  for (const MatrixFormat f : kMatrixFormats) {
    const format::TensorEntry entry = tensor_entry(tensor_spec(c, 3, f), 0);
    TensorSpec read = {};
    EXPECT_EQ(read_entry(c, 3, entry, &read), f == (MatrixFormat{NumberFormat::kInt4, 32}));
  }
}

}  // namespace
}  // namespace cria
