#include "quant/model/model_layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "quant/format/align.h"
#include "quant/model/role_names.h"
#include "quant/numbers/tile16.h"
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
using format::NumberFormat;
using format::TensorRole;

ConfigParts int4_config() { return test::small_config(NumberFormat::kInt4, 32); }

std::string name_of(const TensorSpec& spec) {
  char name[64];
  tensor_name(spec, name, sizeof name);
  return name;
}

// The format's tables of roles, by their numbers -------------------------------------------------

// role form [n_matrices x] rows x cols; forms: M matrix, F matrix of f32, v vector (of cols).
std::string line_of(const TensorSpec& spec) {
  constexpr char kForms[] = {'M', 'F', 'v'};
  std::string line = std::to_string(static_cast<int>(spec.role)) + ' ' +
                     kForms[static_cast<size_t>(spec.form)] + ' ';
  if (!spec.is_matrix()) return line + std::to_string(spec.shape.cols);
  if (spec.n_matrices != 1) line += std::to_string(spec.n_matrices) + 'x';
  return line + std::to_string(spec.shape.rows) + 'x' + std::to_string(spec.shape.cols);
}

using Lines = std::vector<std::string>;

// Of the first layer, or outside the layers.
Lines lines_of(ConfigParts c, uint32_t layer) {
  test::mend_counts(&c);
  EXPECT_EQ(check_config(c.view()), nullptr) << check_config(c.view());
  Lines lines;
  TensorWalk walk(c.view());
  for (TensorSpec spec = {}; walk.next(kMatrixFormats[0], &spec);) {
    EXPECT_EQ(spec.kind, spec.layer == format::kNone ? 255 : c.layers[spec.layer]);
    if (spec.layer == layer) lines.push_back(line_of(spec));
  }
  return lines;
}

// 40 wide; the kinds are those of small_kind: of attention and latent attention 6 heads of keys 12
// and values 10 wide, of mixers 4 and 5 two key heads for six values heads.
ConfigParts wide_40(Mixer mixer, FeedForward feed_forward, uint32_t flags) {
  ConfigParts c = test::small_config(mixer, feed_forward);
  c.model.d_model = 40;
  c.kinds[0].flags = flags;
  return c;
}

Lines mixer_lines(Mixer mixer, uint32_t flags) {
  return lines_of(wide_40(mixer, FeedForward::kNothing, flags), 0);
}
Lines feed_forward_lines(FeedForward feed_forward, uint32_t flags) {
  return lines_of(wide_40(Mixer::kNothing, feed_forward, flags), 0);
}

TEST(Roles, OutsideTheLayers) {
  ConfigParts c = wide_40(Mixer::kAttention, FeedForward::kDense, 0);
  c.model.n_rope_tables = 0;
  c.model.rope_tables[0] = {};
  c.model.flags = format::kTiedEmbedding;
  EXPECT_EQ(lines_of(c, format::kNone), (Lines{"1 M 50x40", "11 v 40"}));
  c.model.flags = format::kLearnedPositions;
  c.model.final_norm = 2;
  c.model.per_layer_width = 6;
  c.model.n_rope_tables = 3;
  c.model.rope_tables[0] = {3, 1, 0, 0};
  c.model.rope_tables[1] = {5, 1, 7, 0};  // two sets
  c.model.rope_tables[2] = {256, 1, 0, 0};
  c.layers.assign(3, 0);
  EXPECT_EQ(lines_of(c, format::kNone), (Lines{"0 v 269", "1 M 50x40", "23 v 5120", "24 M 150x6",
                                               "25 M 3x6x40", "26 v 6", "11 v 80", "12 M 50x40"}));
}

TEST(Roles, AroundTheBlocks) {
  ConfigParts c = wide_40(Mixer::kShortConvolution, FeedForward::kDense, 0x0180000f);
  c.model.per_layer_width = 6;
  c.kinds[0].norm = 2;  // weights, then biases
  EXPECT_EQ(lines_of(c, 0), (Lines{"2 v 80", "3 M 40x40", "4 M 40x40", "5 M 40x40", "42 v 120",
                                   "6 M 40x40", "27 v 80", "7 v 80", "9 M 22x40", "10 M 40x22",
                                   "28 v 80", "67 M 6x40", "68 M 40x6", "69 v 80", "70 v 1"}));
  c.kinds[0].norm = 1;
  c.kinds[0].flags = 0x0180000a;
  EXPECT_EQ(lines_of(c, 0), (Lines{"3 M 40x40", "4 M 40x40", "5 M 40x40", "42 v 120", "6 M 40x40",
                                   "27 v 40", "9 M 22x40", "10 M 40x22", "28 v 40", "67 M 6x40",
                                   "68 M 40x6", "69 v 40", "70 v 1"}));
  // A layer without a feed-forward may have a factor.
  EXPECT_EQ(mixer_lines(Mixer::kShortConvolution, 1u << 24),
            (Lines{"3 M 40x40", "4 M 40x40", "5 M 40x40", "42 v 120", "6 M 40x40", "70 v 1"}));
}

TEST(Roles, OfAttention) {
  EXPECT_EQ(mixer_lines(Mixer::kAttention, 0),
            (Lines{"3 M 72x40", "4 M 24x40", "5 M 20x40", "6 M 40x60"}));
  EXPECT_EQ(
      mixer_lines(Mixer::kAttention, 1u << 4),
      (Lines{"3 M 72x40", "13 v 72", "4 M 24x40", "14 v 24", "5 M 20x40", "15 v 20", "6 M 40x60"}));
  EXPECT_EQ(mixer_lines(Mixer::kAttention, 1u << 5),
            (Lines{"3 M 72x40", "4 M 24x40", "5 M 20x40", "6 M 40x60", "16 v 40"}));
  const uint32_t all = 1u << 4 | 1u << 5 | 1u << 9 | 1u << 11 | 1u << 12 | 1u << 13;
  EXPECT_EQ(mixer_lines(Mixer::kAttention, all | 1u << 7),
            (Lines{"3 M 72x40", "13 v 72", "4 M 24x40", "14 v 24", "5 M 20x40", "15 v 20",
                   "20 v 12", "21 v 12", "29 v 10", "30 M 60x40", "31 v 60", "32 v 6", "33 v 60",
                   "6 M 40x60", "16 v 40"}));
  EXPECT_EQ(mixer_lines(Mixer::kAttention, 1u << 8 | 1u << 12),
            (Lines{"3 M 72x40", "4 M 24x40", "5 M 20x40", "20 v 72", "21 v 24", "30 M 60x40",
                   "6 M 40x60"}));
  // Values that are keys have no matrix, but may have a norm.
  ConfigParts c = wide_40(Mixer::kAttention, FeedForward::kNothing, 1u << 4 | 1u << 9 | 1u << 10);
  c.kinds[0].value_dim = 12;
  EXPECT_EQ(lines_of(c, 0),
            (Lines{"3 M 72x40", "13 v 72", "4 M 24x40", "14 v 24", "29 v 12", "6 M 40x72"}));
}

TEST(Roles, OfAttentionToSharedKeys) {
  for (const uint32_t norms : {1u << 7, 1u << 8}) {
    const uint32_t all = 1u << 4 | 1u << 5 | norms | 1u << 11 | 1u << 12 | 1u << 13;
    ConfigParts c = wide_40(Mixer::kAttention, FeedForward::kNothing, all);
    c.kinds.push_back(c.kinds[0]);
    c.kinds[1].shared_with = 0;
    c.layers = {0, 1};
    EXPECT_EQ(lines_of(c, 1),
              (Lines{"3 M 72x40", "13 v 72", norms == 1u << 7 ? "20 v 12" : "20 v 72", "30 M 60x40",
                     "31 v 60", "32 v 6", "33 v 60", "6 M 40x60", "16 v 40"}));
  }
}

TEST(Roles, OfLatentAttention) {
  EXPECT_EQ(
      mixer_lines(Mixer::kLatentAttention, 1u << 4 | 1u << 5),
      (Lines{"34 M 14x40", "35 v 14", "36 v 14", "3 M 72x14", "37 M 18x40", "38 v 18", "39 v 18",
             "4 M 4x40", "14 v 4", "40 M 6x18x8", "41 M 6x10x18", "6 M 40x60", "16 v 40"}));
  ConfigParts c = wide_40(Mixer::kLatentAttention, FeedForward::kNothing, 0);
  EXPECT_EQ(lines_of(c, 0), (Lines{"34 M 14x40", "36 v 14", "3 M 72x14", "37 M 18x40", "39 v 18",
                                   "4 M 4x40", "40 M 6x18x8", "41 M 6x10x18", "6 M 40x60"}));
  c.kinds[0].query_rank = 0;
  c.kinds[0].shared_key_dim = 0;
  for (const uint32_t flags : {0u, 1u << 4}) {
    c.kinds[0].flags = flags;
    Lines want = {"3 M 72x40", "37 M 18x40"};
    if (flags != 0) want.emplace_back("38 v 18");
    for (const char* line : {"39 v 18", "40 M 6x18x12", "41 M 6x10x18", "6 M 40x60"}) {
      want.emplace_back(line);
    }
    EXPECT_EQ(lines_of(c, 0), want);
  }
}

TEST(Roles, OfAShortConvolution) {
  EXPECT_EQ(mixer_lines(Mixer::kShortConvolution, 1u << 4 | 1u << 5 | 1u << 25),
            (Lines{"3 M 40x40", "13 v 40", "4 M 40x40", "14 v 40", "5 M 40x40", "15 v 40",
                   "42 v 120", "43 v 40", "6 M 40x40", "16 v 40"}));
}

// 2 * 12 queries, as many keys and 6 * 10 values are 108 channels.
TEST(Roles, OfTheGatedDeltaRule) {
  EXPECT_EQ(mixer_lines(Mixer::kDeltaRule, 1u << 4 | 1u << 5 | 1u << 25),
            (Lines{"3 M 24x40", "13 v 24", "4 M 24x40", "14 v 24", "5 M 60x40", "15 v 60",
                   "30 M 60x40", "31 v 60", "44 F 6x40", "45 v 6", "46 F 6x40", "47 v 6",
                   "42 v 432", "43 v 108", "48 v 6", "49 v 6", "33 v 10", "6 M 40x60", "16 v 40"}));
  EXPECT_EQ(mixer_lines(Mixer::kDeltaRule, 0),
            (Lines{"3 M 24x40", "4 M 24x40", "5 M 60x40", "30 M 60x40", "44 F 6x40", "46 F 6x40",
                   "42 v 432", "48 v 6", "49 v 6", "33 v 10", "6 M 40x60"}));
}

TEST(Roles, OfAStateSpace) {
  EXPECT_EQ(mixer_lines(Mixer::kStateSpace, 1u << 4 | 1u << 5 | 1u << 25 | 1u << 26),
            (Lines{"3 M 24x40", "13 v 24", "4 M 24x40", "14 v 24", "5 M 60x40", "15 v 60",
                   "30 M 60x40", "31 v 60", "44 F 6x40", "45 v 6", "42 v 432", "43 v 108", "48 v 6",
                   "49 v 6", "50 v 6", "33 v 60", "6 M 40x60", "16 v 40"}));
  EXPECT_EQ(mixer_lines(Mixer::kStateSpace, 0),
            (Lines{"3 M 24x40", "4 M 24x40", "5 M 60x40", "30 M 60x40", "44 F 6x40", "42 v 432",
                   "48 v 6", "49 v 6", "50 v 6", "33 v 60", "6 M 40x60"}));
}

TEST(Roles, OfADenseFeedForward) {
  EXPECT_EQ(feed_forward_lines(FeedForward::kDense, 0), (Lines{"9 M 22x40", "10 M 40x22"}));
  EXPECT_EQ(feed_forward_lines(FeedForward::kDense, 1u << 6),
            (Lines{"9 M 22x40", "18 v 22", "10 M 40x22", "19 v 40"}));
  EXPECT_EQ(
      feed_forward_lines(FeedForward::kDense, 1u << 6 | 1u << 14 | 1u << 15),
      (Lines{"8 M 22x40", "17 v 22", "9 M 22x40", "18 v 22", "51 v 22", "10 M 40x22", "19 v 40"}));
}

// Eight experts of 26, beside an MLP of 22.
TEST(Roles, OfExperts) {
  EXPECT_EQ(
      feed_forward_lines(FeedForward::kExperts, 0x7f0000 | 1u << 6 | 1u << 15),
      (Lines{"55 v 40",      "52 F 8x40", "53 v 8",       "54 v 8",   "56 v 8",       "57 v 40",
             "58 M 8x26x40", "59 v 208",  "60 M 8x26x40", "61 v 208", "62 M 8x40x26", "63 v 320",
             "64 v 40",      "65 v 40",   "8 M 22x40",    "17 v 22",  "9 M 22x40",    "18 v 22",
             "10 M 40x22",   "19 v 40",   "66 v 40"}));
  EXPECT_EQ(feed_forward_lines(FeedForward::kExperts, 0),
            (Lines{"52 F 8x40", "60 M 8x26x40", "62 M 8x40x26", "9 M 22x40", "10 M 40x22"}));
  ConfigParts c = wide_40(Mixer::kNothing, FeedForward::kExperts, 1u << 6 | 1u << 15);
  c.kinds[0].d_ff = 0;
  EXPECT_EQ(lines_of(c, 0), (Lines{"52 F 8x40", "58 M 8x26x40", "59 v 208", "60 M 8x26x40",
                                   "61 v 208", "62 M 8x40x26", "63 v 320"}));
  c = wide_40(Mixer::kNothing, FeedForward::kExperts, 1u << 22);
  c.kinds[0].norm = 2;
  EXPECT_EQ(lines_of(c, 0), (Lines{"52 F 8x40", "57 v 80", "60 M 8x26x40", "62 M 8x40x26",
                                   "64 v 80", "9 M 22x40", "10 M 40x22", "66 v 80"}));
}

TEST(Roles, OfALlamaAreThoseOfEveryLayer) {
  ConfigParts c = int4_config();
  for (const uint32_t layer : {0u, 1u}) {
    EXPECT_EQ(lines_of(c, layer),
              (Lines{"2 v 64", "3 M 64x64", "4 M 32x64", "5 M 32x64", "6 M 64x64", "7 v 64",
                     "8 M 96x64", "9 M 96x64", "10 M 64x96"}));
  }
}

// Names, chunks, bytes ---------------------------------------------------------------------------

TEST(ModelLayout, TiedModelsStoreNoOutputMatrix) {
  ConfigParts c = int4_config();
  const uint32_t untied = tensor_count(c.view());
  c.model.flags = format::kTiedEmbedding;
  test::mend_counts(&c);
  EXPECT_EQ(tensor_count(c.view()), untied - 1);
  EXPECT_EQ(test::spec_at(c.view(), untied - 2).role, TensorRole::kFinalNorm);
  EXPECT_EQ(model_matrix(c.view(), TensorRole::kLmHead),
            model_matrix(c.view(), TensorRole::kEmbedding));
}

TEST(ModelLayout, EveryTensorHasItsOwnNameAndLayer) {
  for (uint32_t seed = 0; seed < 30; ++seed) {
    ConfigParts c = test::random_kinds(seed, test::all_kinds());
    std::set<std::string> names;
    TensorWalk walk(c.view());
    for (TensorSpec spec = {}; walk.next(kMatrixFormats[0], &spec);) {
      EXPECT_TRUE(names.insert(name_of(spec)).second) << name_of(spec);
      EXPECT_STRNE(role_name(spec.role), "");
    }
  }
  ConfigParts c = int4_config();
  c.layers.assign(13, 0);
  EXPECT_EQ(name_of(tensor_spec(c.view(), 2 + 12 * 9 + 8, kMatrixFormats[0])), "layers.12.down");
  char name[9];
  tensor_name(tensor_spec(c.view(), 2 + 12 * 9 + 8, kMatrixFormats[0]), name, sizeof name);
  EXPECT_STREQ(name, "layers.1");
}

TEST(ModelLayout, ChunksCutEachPlaneApart) {
  ConfigParts c = int4_config();
  c.model.vocab_size = 128256;
  c.model.d_model = 2048;
  const TensorSpec embedding = test::spec_at(c.view(), 1);
  // 128256 x 2048 nibbles are 501 chunks of 256 KiB exactly; 64 scales of 2 bytes a row 62.625.
  EXPECT_EQ(tensor_code_bytes(embedding), 501u * format::kChunkRawBytes);
  EXPECT_EQ(tensor_chunk_count(embedding), 501u + 63u);
  EXPECT_EQ(tensor_chunk_count(test::spec_at(c.view(), 0)), 1u);
}

// Each matrix of a stack begins at a tile: 26 rows take two of them.
TEST(ModelLayout, AStackIsItsMatricesOneBehindTheOther) {
  ConfigParts c = wide_40(Mixer::kLatentAttention, FeedForward::kExperts, 0);
  size_t n_stacks = 0;
  for (const MatrixFormat f : kMatrixFormats) {
    TensorWalk walk(c.view());
    for (TensorSpec spec = {}; walk.next(f, &spec);) {
      if (spec.n_matrices == 1) continue;
      ++n_stacks;
      EXPECT_EQ(tensor_code_bytes(spec),
                spec.n_matrices * tile_count(spec.shape.rows) * tile_code_bytes(spec.shape));
      EXPECT_EQ(tensor_scale_bytes(spec),
                spec.n_matrices * tile_count(spec.shape.rows) * tile_scale_bytes(spec.shape));
      const format::TensorEntry entry = tensor_entry(spec, 3);
      EXPECT_EQ(entry.n_matrices, spec.n_matrices);
      EXPECT_EQ(entry.raw_bytes, spec.n_matrices * matrix_bytes(spec.shape));
    }
  }
  EXPECT_EQ(n_stacks, std::size(kMatrixFormats) * 2 * 4);
  // expert_up in int4 by 32: 8 experts of 2 tiles of 64 padded columns, half a byte each, and two
  // scales of 2 bytes a row.
  const TensorSpec up = [&] {
    TensorWalk walk(c.view());
    TensorSpec spec = {};
    while (walk.next({NumberFormat::kInt4, 32}, &spec) && spec.role != TensorRole::kExpertUp) {
    }
    return spec;
  }();
  EXPECT_EQ(tensor_code_bytes(up), 8u * 2 * 16 * 64 / 2);
  EXPECT_EQ(tensor_scale_bytes(up), 8u * 2 * 16 * 2 * 2);
}

// The largest tensors and stacks that limits allow, computed without overflow.
TEST(ModelLayout, TheLargestTensorsFit64Bits) {
  ConfigParts c = int4_config();
  c.model.d_model = 1 << 17;
  c.model.vocab_size = 1 << 21;
  c.model.per_layer_width = 4096;
  c.layers.assign(1024, 0);
  c.kinds[0] = test::small_kind(Mixer::kLatentAttention, FeedForward::kExperts);
  LayerKind& k = c.kinds[0];
  k.flags |= flag::kFfnBias | flag::kPerLayerInput;
  k.n_experts = 1024;
  k.expert_ff = 1 << 14;
  k.n_query_heads = 256;
  k.key_dim = k.value_dim = k.latent_rank = 512;
  test::set_all_formats(&c, kMatrixFormats[0]);
  ASSERT_EQ(check_config(c.view()), nullptr) << check_config(c.view());
  uint64_t largest = 0;
  uint64_t largest_stack = 0;
  TensorWalk walk(c.view());
  for (TensorSpec spec = {}; walk.next(kMatrixFormats[0], &spec);) {
    uint64_t& most = spec.n_matrices == 1 ? largest : largest_stack;
    most = std::max(most, tensor_bytes(spec));
  }
  EXPECT_EQ(largest, uint64_t{1} << 45);
  EXPECT_EQ(largest_stack, uint64_t{1} << 43);
  EXPECT_EQ(tensor_spec(c.view(), 2, kMatrixFormats[0]).shape.rows, 1u << 31);
}

// Sums and places, over random kinds -------------------------------------------------------------

TEST(ModelLayout, GoingToATensorIsSteppingToIt) {
  size_t n_compared = 0;
  test::for_each_seed({7, 8}, [&](uint32_t seed) {
    for (uint32_t i = 0; i < 60; ++i) {
      ConfigParts c = test::random_kinds(seed * 1000 + i, test::all_kinds());
      TensorWalk stepping(c.view());
      TensorWalk going(c.view());
      const MatrixFormat f = kMatrixFormats[i % std::size(kMatrixFormats)];
      uint32_t index = 0;
      for (TensorSpec spec = {}; stepping.next(f, &spec); ++index) {
        const TensorSpec at = tensor_spec(c.view(), index, f);
        TensorSpec gone = {};
        going.go_to(index);
        ASSERT_TRUE(going.next(f, &gone));
        for (const TensorSpec& other : {at, gone}) {
          ASSERT_EQ(line_of(other), line_of(spec)) << index;
          ASSERT_EQ(other.layer, spec.layer);
          ASSERT_EQ(other.kind, spec.kind);
          ASSERT_EQ(other.shape, spec.shape);
        }
        ++n_compared;
      }
      EXPECT_EQ(index, tensor_count(c.view()));
      TensorSpec none = {};
      going.go_to(index);
      EXPECT_FALSE(going.next(f, &none));
    }
  });
  EXPECT_GT(n_compared, 5000u);
}

bool stays(TensorRole role) {
  const auto number = static_cast<int>(role);
  return number == 24 || number == 58 || number == 60 || number == 62;
}

// The sums over kinds of tensors, made one tensor at a time.
TEST(ModelLayout, SumsEqualThoseOverAllTensors) {
  size_t n_compared = 0;
  test::for_each_seed({3, 4}, [&](uint32_t seed) {
    for (uint32_t n = 0; n < 300; ++n) {
      ConfigParts c = test::random_kinds(seed * 1000 + n, test::all_kinds());
      c.model.vocab_size += n % 5 == 0 ? 20000 : 0;  // more than one chunk
      const std::vector<MatrixFormat> formats = test::formats_of(c.view());
      ASSERT_EQ(formats.size(), tensor_count(c.view()));
      TensorBytes all = {};
      TensorBytes vectors_and_tables = {};
      uint64_t n_chunks = 0;
      uint64_t last_end = 0;
      uint64_t widest = 0;
      TensorWalk walk(c.view());
      TensorSpec spec = {};
      for (uint32_t i = 0; i < formats.size(); ++i) {
        ASSERT_TRUE(walk.next(formats[i], &spec));
        const uint64_t n_bytes = aligned(tensor_bytes(spec));
        const bool stored =
            c.model.compression == 0 || (c.model.compression == 2 && stays(spec.role));
        EXPECT_EQ(is_stored(c.view(), spec), stored);
        last_end = all.in_memory + all.in_place + tensor_bytes(spec);
        (stored ? all.in_place : all.in_memory) += n_bytes;
        const bool is_table =
            spec.role == TensorRole::kEmbedding || spec.role == TensorRole::kPerLayerTable;
        if (!spec.is_matrix() || is_table) {
          (stored ? vectors_and_tables.in_place : vectors_and_tables.in_memory) += n_bytes;
        }
        if (spec.is_matrix()) widest = std::max<uint64_t>(widest, spec.shape.cols);
        n_chunks += tensor_chunk_count(spec);
        ++n_compared;
      }
      ASSERT_FALSE(walk.next(kMatrixFormats[0], &spec));
      EXPECT_EQ(all_tensor_bytes(c.view()), all.in_memory + all.in_place);
      for (const bool mapped : {false, true}) {
        const auto expect = [&](KeptTensors kept, const TensorBytes& want) {
          const TensorBytes got = kept_tensor_bytes(c.view(), kept, mapped);
          EXPECT_EQ(got.in_place, mapped ? want.in_place : 0);
          EXPECT_EQ(got.in_memory, want.in_memory + (mapped ? 0 : want.in_place));
        };
        expect(KeptTensors::kAll, all);
        expect(KeptTensors::kVectorsAndTables, vectors_and_tables);
      }
      EXPECT_EQ(chunk_count(c.view()), n_chunks);
      EXPECT_EQ(uncompressed_data_bytes(c.view()), last_end);
      EXPECT_EQ(widest_input(c.view()), (widest + 127) / 128 * 128);
    }
  });
  EXPECT_GT(n_compared, 10000u);
}

TEST(ModelLayout, KindsOfTensorsAreCountedOnce) {
  for (uint32_t seed = 0; seed < 100; ++seed) {
    ConfigParts c = test::random_kinds(seed, test::all_kinds());
    uint32_t n = 0;
    uint32_t n_counted = 0;
    TensorKinds kinds(c.view());
    for (TensorKind kind = {}; kinds.next(&kind);) {
      EXPECT_GE(kind.n, 1u);
      n += kind.n;
      if (kind.spec.form != TensorForm::kMatrix) continue;
      const size_t count = count_of(c.view(), kind.spec);
      ASSERT_LT(count, c.counts.size());
      EXPECT_EQ(c.counts[count].count, kind.n);
      ++n_counted;
    }
    EXPECT_EQ(n, tensor_count(c.view()));
    EXPECT_EQ(n_counted, c.counts.size());
  }
}

TEST(ModelLayout, SignsAreForScalesOfNibblesAlone) {
  ConfigParts c = int4_config();
  c.model.flags |= format::kSignedScales;
  for (const MatrixFormat f : kMatrixFormats) {
    const bool is_int4 =
        f.number_format == NumberFormat::kInt4 || f.number_format == NumberFormat::kInt4Nl;
    EXPECT_EQ(tensor_spec(c.view(), 3, f).has_signed_scales, is_int4)
        << number_format_name(f.number_format);
    EXPECT_FALSE(tensor_spec(c.view(), 0, f).has_signed_scales);
  }
}

TEST(ModelLayout, ANumberFormatTakesTheGroupsItHas) {
  for (const MatrixFormat f : kMatrixFormats) {
    EXPECT_EQ(matrix_format(f.number_format, f.group_size), f);
    const MatrixFormat smallest = matrix_format(f.number_format, 48);
    EXPECT_EQ(smallest.number_format, f.number_format);
    const uint16_t own = is_trained_bits(f.number_format) ? f.group_size : 32;
    EXPECT_EQ(smallest.group_size, f.group_size == 0 ? 0 : own);
  }
  EXPECT_EQ(matrix_format(NumberFormat::kInt8G32, 64).group_size, 32);
}

// Every bit of a directory's entry is one that counts, but those of first_chunk, which has its own
// check.
TEST(ModelLayout, AnEntryIsReadBackOnlyWhereItBelongs) {
  size_t n_read = 0;
  for (uint32_t seed = 0; seed < std::size(kMatrixFormats); ++seed) {
    ConfigParts c = test::random_kinds(seed, test::all_kinds());
    test::set_all_formats(&c, kMatrixFormats[seed]);  // of two, either would do
    const std::vector<MatrixFormat> formats = test::formats_of(c.view());
    const auto read_at = [&](uint32_t index, const format::TensorEntry& entry, TensorSpec* spec) {
      TensorWalk walk(c.view());
      walk.go_to(index);
      return read_entry(c.view(), &walk, entry, spec);
    };
    for (uint32_t i = 0; i < formats.size(); ++i) {
      const TensorSpec spec = tensor_spec(c.view(), i, formats[i]);
      const format::TensorEntry entry = tensor_entry(spec, 7);
      TensorSpec read = {};
      ASSERT_TRUE(read_at(i, entry, &read));
      ++n_read;
      EXPECT_EQ(read.role, spec.role);
      EXPECT_EQ(read.layer, spec.layer);
      EXPECT_EQ(read.kind, spec.kind);
      EXPECT_EQ(read.form, spec.form);
      EXPECT_EQ(read.n_matrices, spec.n_matrices);
      EXPECT_EQ(read.shape, spec.shape);
      for (uint32_t other = 0; other < formats.size(); ++other) {
        if (other == i) continue;
        EXPECT_FALSE(read_at(other, entry, &read)) << i << ' ' << other;
      }
      for (size_t bit = 0; bit < sizeof entry * 8; ++bit) {
        format::TensorEntry changed = entry;
        auto* bytes = reinterpret_cast<uint8_t*>(&changed);
        bytes[bit / 8] = static_cast<uint8_t>(bytes[bit / 8] ^ 1u << bit % 8);
        const bool is_first_chunk = bit / 8 >= offsetof(format::TensorEntry, first_chunk) &&
                                    bit / 8 < offsetof(format::TensorEntry, n_chunks);
        EXPECT_EQ(read_at(i, changed, &read), is_first_chunk) << i << ' ' << bit;
      }
    }
    format::TensorEntry entry = tensor_entry(tensor_spec(c.view(), 0, formats[0]), 0);
    TensorSpec read = {};
    EXPECT_FALSE(read_at(static_cast<uint32_t>(formats.size()), entry, &read));
  }
  EXPECT_GT(n_read, 100u);
}

TEST(ModelLayout, AFormatThatIsNotCountedForTheRoleIsRefused) {
  ConfigParts c = int4_config();
  for (const MatrixFormat f : kMatrixFormats) {
    const format::TensorEntry entry = tensor_entry(tensor_spec(c.view(), 3, f), 0);
    TensorSpec read = {};
    TensorWalk walk(c.view());
    walk.go_to(3);
    EXPECT_EQ(read_entry(c.view(), &walk, entry, &read),
              f == (MatrixFormat{NumberFormat::kInt4, 32}));
  }
}

}  // namespace
}  // namespace cria
