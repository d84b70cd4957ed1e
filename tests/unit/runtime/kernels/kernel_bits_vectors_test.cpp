// Vector and attention kernels of every ISA against the scalar reference
// (tests/unit/runtime/kernels/kernel_bits.h).
#include <array>

#include "quant/numbers/float16.h"
#include "quant/numbers/tile16.h"
#include "runtime/base/scalar_math.h"
#include "runtime/kernels/scalar/scalar.h"
#include "tests/unit/runtime/kernels/kernel_bits.h"

namespace cria {
namespace {

// Vectors ---------------------------------------------------------------------------------------

constexpr size_t kLengths[] = {0,   1,   2,   3,   4,   5,   7,    8,   9,   12,  15,
                               16,  17,  23,  31,  32,  33,  47,   48,  63,  64,  65,
                               80,  95,  96,  100, 127, 128, 129,  130, 172, 255, 256,
                               257, 300, 511, 512, 513, 576, 1000, 2048};

// Calls check(n, fill, edge) for all of them.
template <class Check>
void for_vectors(Check check) {
  for (const size_t n : kLengths) {
    for (const Fill fill : kFills) {
      for (const Edge edge : kEdges) check(n, fill, edge);
    }
  }
}

void compare_quantize_row(QuantizeRow got, const std::vector<float>& x, size_t n_padded,
                          size_t group, Edge edge) {
  static Guarded rooms[4] = {Guarded(kRoom), Guarded(kRoom), Guarded(kRoom), Guarded(kRoom)};
  const size_t n_groups = n_padded / group;
  std::vector<int8_t> codes(n_padded, 99);
  std::vector<float> scales(n_groups, 99.0f);
  std::vector<int32_t> sums(n_groups, 99);
  kScalarKernels.quantize_row(x.data(), x.size(), n_padded, group, codes.data(), scales.data(),
                              sums.data());
  const float* x_got = rooms[0].copy(x.data(), x.size(), edge);
  auto* codes_got = rooms[1].place<int8_t>(n_padded, edge);
  auto* scales_got = rooms[2].place<float>(n_groups, edge);
  auto* sums_got = rooms[3].place<int32_t>(n_groups, edge);
  for (int32_t* const wanted_sums : {sums_got, static_cast<int32_t*>(nullptr)}) {
    std::memset(codes_got, 99, n_padded);
    std::memset(scales_got, 99, n_groups * sizeof(float));
    got(x_got, x.size(), n_padded, group, codes_got, scales_got, wanted_sums);
    EXPECT_TRUE(same_arrays(codes.data(), codes_got, n_padded))
        << x.size() << " of " << n_padded << " in groups of " << group;
    EXPECT_TRUE(same_arrays(scales.data(), scales_got, n_groups));
    EXPECT_TRUE(same_arrays(sums.data(), sums_got, n_groups));
  }
}

void check_quantize_row(const Kernels& table) {
  for_vectors([&](size_t n, Fill fill, Edge edge) {
    const std::vector<float> x = floats(n, fill, static_cast<unsigned>(n));
    const size_t padded = round_up(n, kActivationGroup);
    compare_quantize_row(table.quantize_row, x, padded, kActivationGroup, edge);
    compare_quantize_row(table.quantize_row, x, padded + 96, kActivationGroup, edge);
    for (const size_t multiple : {64u, 128u}) {
      compare_quantize_row(table.quantize_row, x, round_up(n, multiple), kActivationGroup, edge);
    }
    std::vector<float> small = x;
    for (float& v : small) v *= 0x1p-39f;
    if (kHasSubnormals || fill != Fill::kWide) {
      compare_quantize_row(table.quantize_row, small, padded, kActivationGroup, edge);
    }
    if (n == 0) return;
    compare_quantize_row(table.quantize_row, x, n, n, edge);
    compare_quantize_row(table.quantize_row, x, padded, padded, edge);
  });
  // Values that fall between two codes, and magnitudes around the smallest that counts.
  for (const float size : {127.0f, 0x1.fp-41f, 0x1p-40f, 0x1.8p-40f, 3e38f}) {
    for (const size_t n : {64u, 1024u}) {  // few groups, and blocks of sixteen
      std::vector<float> x(n, size);
      for (size_t i = 0; i < n; ++i) {
        if (i % 32 != 0) x[i] *= (static_cast<float>(i % 64) - 31.5f) / 127.0f;
      }
      compare_quantize_row(table.quantize_row, x, n, 32, Edge::kEnd);
      compare_quantize_row(table.quantize_row, x, n, 64, Edge::kEnd);
    }
  }
  // One group that counts as zeros, or just does not, among others.
  for (size_t group = 0; group < 17; ++group) {
    for (const float odd :
         {std::numeric_limits<float>::quiet_NaN(), -kInfinity, 0x1.fp-41f, -0x1p-40f}) {
      std::vector<float> x = floats(17 * kActivationGroup, Fill::kRandom, 1);
      float* const first = x.data() + group * kActivationGroup;
      if (std::fabs(odd) < 1.0f) std::fill_n(first, kActivationGroup, 0.0f);
      first[group] = odd;
      compare_quantize_row(table.quantize_row, x, x.size(), kActivationGroup, Edge::kEnd);
    }
  }
}

void compare_quantize_values(QuantizeValues got, const std::vector<float>& x, Edge edge) {
  static Guarded rooms[3] = {Guarded(kRoom), Guarded(kRoom), Guarded(kRoom)};
  const size_t n_bytes = value_bytes(x.size());
  const size_t n_groups = value_groups(x.size());
  std::vector<uint8_t> codes(n_bytes, 99);
  std::vector<uint16_t> scales(n_groups, 99);
  kScalarKernels.quantize_values(x.data(), x.size(), codes.data(), scales.data());
  const float* x_got = rooms[0].copy(x.data(), x.size(), edge);
  auto* codes_got = rooms[1].place<uint8_t>(n_bytes, edge);
  auto* scales_got = rooms[2].place<uint16_t>(n_groups, edge);
  std::memset(codes_got, 98, n_bytes);
  got(x_got, x.size(), codes_got, scales_got);
  EXPECT_TRUE(same_arrays(codes.data(), codes_got, n_bytes)) << x.size();
  EXPECT_TRUE(same_arrays(scales.data(), scales_got, n_groups)) << x.size();
}

void check_quantize_values(const Kernels& table) {
  for_vectors([&](size_t n, Fill fill, Edge edge) {
    std::vector<float> x = floats(n, fill, static_cast<unsigned>(n));
    compare_quantize_values(table.quantize_values, x, edge);
    // Groups of one sign.
    for (const float sign : {1.0f, -1.0f}) {
      std::vector<float> same_sign = x;
      for (float& v : same_sign) v = std::copysign(v, sign);
      compare_quantize_values(table.quantize_values, same_sign, edge);
    }
    for (float& v : x) v *= 0x1p-39f;
    if (kHasSubnormals || fill != Fill::kWide) {
      compare_quantize_values(table.quantize_values, x, edge);
    }
  });
  // Values between two codes, both ends in a group, and magnitudes around the smallest that counts.
  for (const float size : {8.0f, -8.0f, 8.015f, -7.98f, 0x1.fp-41f, 0x1p-40f, 0x1.8p-40f, 3e38f}) {
    for (const size_t place : {0u, 31u, 40u}) {
      std::vector<float> x(64);
      for (size_t i = 0; i < x.size(); ++i) {
        x[i] = size * ((static_cast<float>(i % 32) - 15.5f) / 16.0f);
      }
      x[place] = size;
      compare_quantize_values(table.quantize_values, x, Edge::kEnd);
      x[place ^ 1] = -size;
      compare_quantize_values(table.quantize_values, x, Edge::kEnd);
    }
  }
}

void check_rms_norm(const Kernels& table) {
  static Guarded rooms[3] = {Guarded(kRoom), Guarded(kRoom), Guarded(kRoom)};
  for_vectors([&](size_t n, Fill fill, Edge edge) {
    const std::vector<float> x = floats(n, fill, 1);
    const std::vector<float> weight = floats(n, Fill::kRandom, 2);
    std::vector<float> y(n);
    kScalarKernels.rms_norm(x.data(), weight.data(), n, 1e-5f, y.data());
    auto* got = rooms[2].place<float>(n, edge);
    table.rms_norm(rooms[0].copy(x.data(), n, edge), rooms[1].copy(weight.data(), n, edge), n,
                   1e-5f, got);
    EXPECT_TRUE(same_arrays(y.data(), got, n)) << n;
    auto* in_place = rooms[2].copy(x.data(), n, edge);
    table.rms_norm(in_place, rooms[1].copy(weight.data(), n, edge), n, 1e-5f, in_place);
    EXPECT_TRUE(same_arrays(y.data(), in_place, n)) << n << " in place";
  });
}

void check_rope(const Kernels& table) {
  static Guarded rooms[3] = {Guarded(kRoom), Guarded(kRoom), Guarded(kRoom)};
  for_vectors([&](size_t half, Fill fill, Edge edge) {
    const size_t n_heads = 3;
    const size_t n = n_heads * half * 2;
    std::vector<float> x = floats(n, fill, 1);
    const std::vector<float> cos = floats(half, Fill::kRandom, 2);
    const std::vector<float> sin = floats(half, Fill::kRandom, 3);
    float* got = rooms[0].copy(x.data(), n, edge);
    kScalarKernels.rope(x.data(), n_heads, half * 2, cos.data(), sin.data());
    table.rope(got, n_heads, half * 2, rooms[1].copy(cos.data(), half, edge),
               rooms[2].copy(sin.data(), half, edge));
    EXPECT_TRUE(same_arrays(x.data(), got, n)) << half;
  });
}

// Below it e^x times the least of Fill::kWide is subnormal, or nearly.
constexpr float kLowestNormal = -70.0f;

void check_silu_mul(const Kernels& table) {
  static Guarded rooms[2] = {Guarded(kRoom), Guarded(kRoom)};
  for_vectors([&](size_t n, Fill fill, Edge edge) {
    std::vector<float> gate = floats(n, fill, 1);
    for (float& g : gate) {
      g *= 20.0f;
      if (!kHasSubnormals && g < kLowestNormal) g = kLowestNormal;
    }
    const std::vector<float> up = floats(n, fill, 2);
    float* got = rooms[0].copy(gate.data(), n, edge);
    kScalarKernels.silu_mul(gate.data(), up.data(), n);
    table.silu_mul(got, rooms[1].copy(up.data(), n, edge), n);
    EXPECT_TRUE(same_arrays(gate.data(), got, n)) << n;
  });
}

void check_layer_norm(const Kernels& table) {
  static Guarded rooms[3] = {Guarded(kRoom), Guarded(kRoom), Guarded(kRoom)};
  for_vectors([&](size_t n, Fill fill, Edge edge) {
    if (n == 0) return;
    const std::vector<float> x = floats(n, fill, 1);
    const std::vector<float> weight_bias = floats(2 * n, Fill::kRandom, 2);
    std::vector<float> y(n);
    kScalarVariants.layer_norm(x.data(), weight_bias.data(), n, 1e-5f, y.data());
    const float* weights = rooms[1].copy(weight_bias.data(), 2 * n, edge);
    float* got = rooms[2].copy(y.data(), n, edge);
    table.variants.layer_norm(rooms[0].copy(x.data(), n, edge), weights, n, 1e-5f, got);
    EXPECT_TRUE(same_arrays(y.data(), got, n)) << n;
    float* in_place = rooms[2].copy(x.data(), n, edge);
    table.variants.layer_norm(in_place, weights, n, 1e-5f, in_place);
    EXPECT_TRUE(same_arrays(y.data(), in_place, n)) << n << " in place";
  });
}

// Each activation, with up and without; the clamped one has one always.
void check_activations(const Kernels& table) {
  constexpr size_t kClamped = static_cast<size_t>(format::Activation::kClampedSwiglu) - 1;
  static Guarded rooms[2] = {Guarded(kRoom), Guarded(kRoom)};
  for_vectors([&](size_t n, Fill fill, Edge edge) {
    std::vector<float> x = floats(n, fill, 1);
    for (float& g : x) {
      g *= 20.0f;
      if (!kHasSubnormals && g < kLowestNormal) g = kLowestNormal;
    }
    const std::vector<float> up = floats(n, fill, 2);
    for (size_t act = 0; act < std::size(table.variants.activate); ++act) {
      for (const bool is_gated : {true, false}) {
        if (!is_gated && act == kClamped) continue;
        std::vector<float> want = x;
        float* got = rooms[0].copy(x.data(), n, edge);
        kScalarVariants.activate[act](want.data(), is_gated ? up.data() : nullptr, n, 1.702f, 7.0f);
        const float* got_up = rooms[1].copy(up.data(), n, edge);
        table.variants.activate[act](got, is_gated ? got_up : nullptr, n, 1.702f, 7.0f);
        EXPECT_TRUE(same_arrays(want.data(), got, n)) << n << " activation " << act;
      }
    }
  });
}

void check_sigmoid_mul(const Kernels& table) {
  static Guarded rooms[2] = {Guarded(kRoom), Guarded(kRoom)};
  for_vectors([&](size_t n, Fill fill, Edge edge) {
    std::vector<float> y = floats(n, fill, 1);
    const std::vector<float> gate = floats(n, Fill::kRandom, 2);
    float* got = rooms[0].copy(y.data(), n, edge);
    kScalarVariants.sigmoid_mul(y.data(), gate.data(), n);
    table.variants.sigmoid_mul(got, rooms[1].copy(gate.data(), n, edge), n);
    EXPECT_TRUE(same_arrays(y.data(), got, n)) << n;
  });
}

void check_cap_and_clip(const Kernels& table) {
  static Guarded room(kRoom);
  for_vectors([&](size_t n, Fill fill, Edge edge) {
    const std::vector<float> x = floats(n, fill, 1);
    for (const float limit : {0.3f, 30.0f}) {
      for (const auto kernel : {&VariantKernels::cap, &VariantKernels::clip}) {
        std::vector<float> want = x;
        float* got = room.copy(x.data(), n, edge);
        (kScalarVariants.*kernel)(want.data(), n, limit);
        (table.variants.*kernel)(got, n, limit);
        EXPECT_TRUE(same_arrays(want.data(), got, n)) << n;
      }
    }
  });
}

void check_add_scaled(const Kernels& table) {
  static Guarded rooms[2] = {Guarded(kRoom), Guarded(kRoom)};
  for_vectors([&](size_t n, Fill fill, Edge edge) {
    std::vector<float> x = floats(n, fill, 1);
    const std::vector<float> y = floats(n, fill, 2);
    for (const float multiplier : {1.0f, 0.22f}) {
      float* got = rooms[0].copy(x.data(), n, edge);
      kScalarKernels.add_scaled(x.data(), y.data(), multiplier, n);
      table.add_scaled(got, rooms[1].copy(y.data(), n, edge), multiplier, n);
      EXPECT_TRUE(same_arrays(x.data(), got, n)) << n;
    }
  });
}

void check_exp_sum(const Kernels& table) {
  static Guarded room(kRoom);
  for_vectors([&](size_t n, Fill fill, Edge edge) {
    for (const float max : {0.0f, 3.0f, -2.0f}) {
      std::vector<float> scores = floats(n, fill, 1);
      for (float& s : scores) s *= 30.0f;
      float* got = room.copy(scores.data(), n, edge);
      const float want_sum = kScalarKernels.exp_sum(scores.data(), n, max);
      const float got_sum = table.exp_sum(got, n, max);
      EXPECT_TRUE(same_arrays(scores.data(), got, n)) << n;
      EXPECT_TRUE(same_arrays(&want_sum, &got_sum, 1)) << n;
    }
  });
}

// Every exponent and sign that exp can meet, and the ends of its range.
void check_exp(const Kernels& table) {
  std::vector<float> want;
  for (const float end : {kExpLowest, kExpHighest}) {
    want.insert(want.end(), {std::nextafter(end, -kInfinity), end, std::nextafter(end, kInfinity)});
  }
  for (uint32_t bits = 0; bits < 0xffff0000u; bits += 65521) {
    want.push_back(std::bit_cast<float>(bits));
  }
  for (float x = -90.0f; x < 90.0f; x += 0.0173f) want.push_back(x);
  // Ties of its rounding among them.
  for (int x = -6400; x < 6400; ++x) want.push_back(static_cast<float>(x) / 64.0f);
  for (const float max : {0.0f, 1.5f}) {
    std::vector<float> scalar = want;
    std::vector<float> got = want;
    const float want_sum = kScalarKernels.exp_sum(scalar.data(), scalar.size(), max);
    const float got_sum = table.exp_sum(got.data(), got.size(), max);
    EXPECT_TRUE(same_arrays(scalar.data(), got.data(), scalar.size()));
    EXPECT_TRUE(same_arrays(&want_sum, &got_sum, 1));
  }
}

// Attention -------------------------------------------------------------------------------------

constexpr size_t kHeadDims[] = {1,  2,  3,  4,  5,  7,  8,  9,  12,  15,  16,  17,  20,  23,  31,
                                32, 33, 48, 63, 64, 65, 80, 96, 100, 127, 128, 129, 255, 256, 300};
// No power of two: products with one are exact in any order.
constexpr float kMultiplier = 0.3f;
constexpr size_t kPositions[] = {0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 69};

template <class Check>
void for_heads(Check check) {
  for (const size_t head_dim : kHeadDims) {
    for (const size_t n : kPositions) {
      for (const Edge edge : kEdges) check(head_dim, n, edge);
    }
  }
}

// Queries of a block. Which of them meets which head and number of positions changes from case to
// case, so that all of them stay few enough; strides are larger than the positions.
constexpr size_t kQueries[] = {1, 2, 3, 4, 5, 7, 16, 33};
constexpr size_t kMoreThanPositions[] = {0, 1, 5};

struct BlockShape {
  size_t n_queries;
  size_t stride;
};

// One query, and another number of them.
std::array<BlockShape, 2> block_shapes(size_t head_dim, size_t n, size_t kind) {
  const size_t i = head_dim + 3 * n + 5 * kind;
  return {{{1, n}, {block_rows(kQueries[i % std::size(kQueries)]), n + kMoreThanPositions[i % 3]}}};
}

void compare_scores_q8(ScoresQ8 got, const BlockShape& shape, size_t head_dim, size_t n, Codes kind,
                       Edge edge) {
  static Guarded rooms[6] = {Guarded(kRoom), Guarded(kRoom), Guarded(kRoom),
                             Guarded(kRoom), Guarded(kRoom), Guarded(kRoom)};
  const size_t padded = round_up(head_dim, kActivationGroup);
  const size_t n_groups = shape.n_queries * padded / kActivationGroup;
  const auto seed = static_cast<unsigned>(head_dim * 100 + n);
  std::vector<int8_t> q = codes(shape.n_queries * padded, kind, seed);
  std::vector<int32_t> q_sums(n_groups);
  for (size_t i = 0; i < q.size(); ++i) {
    if (i % padded >= head_dim) q[i] = 0;
    q_sums[i / kActivationGroup] += q[i];
  }
  const std::vector<int8_t> keys = codes(n * head_dim, kind, seed + 1);
  std::vector<float> q_scales = scales(n_groups, kind, seed + 2);
  std::vector<float> key_scales = scales(n, kind, seed + 3);
  if (kind == Codes::kEnds) {  // no format has negative ones, but sums of both signs are harder
    q_scales = floats(n_groups, Fill::kWide, seed + 2);
    key_scales = floats(n, Fill::kWide, seed + 3);
  }
  // The last row ends with its last score.
  const size_t size = (shape.n_queries - 1) * shape.stride + n;
  std::vector<float> want(size, 99.0f);
  const std::vector<float> before = want;
  kScalarKernels.scores_q8({q.data(), q_scales.data(), q_sums.data(), shape.n_queries}, head_dim,
                           keys.data(), key_scales.data(), kMultiplier, n, want.data(),
                           shape.stride);
  auto* scores = rooms[5].copy(before.data(), size, edge);
  const QuantizedRows queries = {rooms[0].copy(q.data(), q.size(), edge),
                                 rooms[1].copy(q_scales.data(), n_groups, edge),
                                 rooms[2].copy(q_sums.data(), n_groups, edge), shape.n_queries};
  got(queries, head_dim, rooms[3].copy(keys.data(), keys.size(), edge),
      rooms[4].copy(key_scales.data(), n, edge), kMultiplier, n, scores, shape.stride);
  EXPECT_TRUE(same_arrays(want.data(), scores, size))
      << head_dim << " " << n << " " << shape.n_queries;
}

void check_scores_q8(const Kernels& table) {
  for_heads([&](size_t head_dim, size_t n, Edge edge) {
    for (const Codes kind : kCodes) {
      for (const BlockShape& shape : block_shapes(head_dim, n, static_cast<size_t>(kind))) {
        compare_scores_q8(table.scores_q8, shape, head_dim, n, kind, edge);
      }
    }
  });
}

void check_scores_f32(const Kernels& table) {
  static Guarded rooms[3] = {Guarded(kRoom), Guarded(kRoom), Guarded(kRoom)};
  for_heads([&](size_t head_dim, size_t n, Edge edge) {
    for (const Fill fill : kFills) {
      const std::vector<float> q = floats(head_dim, fill, 1);
      const std::vector<float> keys = floats(n * head_dim, fill, 2);
      std::vector<float> scores(n);
      kScalarKernels.scores_f32(q.data(), head_dim, keys.data(), kMultiplier, n, scores.data());
      auto* got = rooms[2].place<float>(n, edge);
      table.scores_f32(rooms[0].copy(q.data(), head_dim, edge), head_dim,
                       rooms[1].copy(keys.data(), keys.size(), edge), kMultiplier, n, got);
      EXPECT_TRUE(same_arrays(scores.data(), got, n)) << head_dim << " " << n;
    }
  });
}

// Weights of a block's queries for n positions, and its sums before them; wide, moderate or
// special.
struct WeightedBlock {
  WeightedBlock(const BlockShape& shape, size_t head_dim, size_t n, Fill fill)
      : weights(floats((shape.n_queries - 1) * shape.stride + n, fill, 1)),
        rescale(floats(shape.n_queries, Fill::kRandom, 5)),
        out(floats(shape.n_queries * head_dim, fill, 4)),
        rows({weights.data(), shape.stride, rescale.data(), shape.n_queries}) {
    rescale[0] = 0.7f;
    if (shape.n_queries > 1) rescale[1] = 0.0f;
    if (shape.n_queries > 2) rescale[2] = 1.0f;
  }
  std::vector<float> weights;
  std::vector<float> rescale;
  std::vector<float> out;
  WeightRows rows;

  // The same in guarded memory.
  WeightRows copy(Guarded* weights_room, Guarded* rescale_room, Edge edge) const {
    return {weights_room->copy(weights.data(), weights.size(), edge), rows.stride,
            rescale_room->copy(rescale.data(), rescale.size(), edge), rows.n_rows};
  }
};

void check_weighted_sum_q8(const Kernels& table) {
  static Guarded rooms[5] = {Guarded(kRoom), Guarded(kRoom), Guarded(kRoom), Guarded(kRoom),
                             Guarded(kRoom)};
  for_heads([&](size_t head_dim, size_t n, Edge edge) {
    for (const Fill fill : kFills) {
      const bool is_wide = fill == Fill::kWide;
      const std::vector<int8_t> values =
          codes(n * head_dim, is_wide ? Codes::kEnds : Codes::kRandom, 2);
      const std::vector<float> value_scales = floats(n, is_wide ? Fill::kWide : Fill::kRandom, 3);
      for (const BlockShape& shape : block_shapes(head_dim, n, static_cast<size_t>(fill))) {
        WeightedBlock block(shape, head_dim, n, fill);
        float* got = rooms[3].copy(block.out.data(), block.out.size(), edge);
        kScalarKernels.weighted_sum_q8(block.rows, values.data(), value_scales.data(), n, head_dim,
                                       block.out.data());
        table.weighted_sum_q8(block.copy(&rooms[0], &rooms[4], edge),
                              rooms[1].copy(values.data(), values.size(), edge),
                              rooms[2].copy(value_scales.data(), n, edge), n, head_dim, got);
        EXPECT_TRUE(same_arrays(block.out.data(), got, block.out.size()))
            << head_dim << " " << n << " " << shape.n_queries;
      }
    }
  });
}

void check_weighted_sum_f32(const Kernels& table) {
  static Guarded rooms[3] = {Guarded(kRoom), Guarded(kRoom), Guarded(kRoom)};
  for_heads([&](size_t head_dim, size_t n, Edge edge) {
    for (const Fill fill : kFills) {
      const std::vector<float> weights = floats(n, fill, 1);
      const std::vector<float> values = floats(n * head_dim, fill, 2);
      std::vector<float> out = floats(head_dim, fill, 4);
      float* got = rooms[2].copy(out.data(), head_dim, edge);
      kScalarKernels.weighted_sum_f32(weights.data(), values.data(), n, head_dim, 0.7f, out.data());
      table.weighted_sum_f32(rooms[0].copy(weights.data(), n, edge),
                             rooms[1].copy(values.data(), values.size(), edge), n, head_dim, 0.7f,
                             got);
      EXPECT_TRUE(same_arrays(out.data(), got, head_dim)) << head_dim << " " << n;
    }
  });
}

void check_weighted_sum_q4(const Kernels& table) {
  static Guarded rooms[5] = {Guarded(kRoom), Guarded(kRoom), Guarded(kRoom), Guarded(kRoom),
                             Guarded(kRoom)};
  for_heads([&](size_t head_dim, size_t n, Edge edge) {
    for (const Fill fill : kFills) {
      std::mt19937 random(static_cast<unsigned>(head_dim * 100 + n));
      std::vector<uint8_t> values(n * value_bytes(head_dim));
      for (uint8_t& pair : values) pair = static_cast<uint8_t>(random());
      const bool is_wide = fill == Fill::kWide;
      const std::vector<float> wanted_scales =
          floats(n * value_groups(head_dim), is_wide ? Fill::kWide : Fill::kRandom, 3);
      std::vector<uint16_t> value_scales;
      for (const float scale : wanted_scales) value_scales.push_back(f32_to_bf16(scale));
      for (const BlockShape& shape : block_shapes(head_dim, n, static_cast<size_t>(fill))) {
        WeightedBlock block(shape, head_dim, n, fill);
        float* got = rooms[3].copy(block.out.data(), block.out.size(), edge);
        kScalarKernels.weighted_sum_q4(block.rows, values.data(), value_scales.data(), n, head_dim,
                                       block.out.data());
        table.weighted_sum_q4(block.copy(&rooms[0], &rooms[4], edge),
                              rooms[1].copy(values.data(), values.size(), edge),
                              rooms[2].copy(value_scales.data(), value_scales.size(), edge), n,
                              head_dim, got);
        EXPECT_TRUE(same_arrays(block.out.data(), got, block.out.size()))
            << head_dim << " " << n << " " << shape.n_queries;
      }
    }
  });
}

// States of a fixed size ------------------------------------------------------------------------

void check_recall_values(const Kernels& table) {
  static Guarded rooms[3] = {Guarded(kRoom), Guarded(kRoom), Guarded(kRoom)};
  for_heads([&](size_t n_values, size_t n_keys, Edge edge) {
    for (const Fill fill : kFills) {
      const std::vector<float> state = floats(n_keys * n_values, fill, 1);
      const std::vector<float> key = floats(n_keys, fill, 2);
      std::vector<float> out(n_values, 99.0f);
      float* got = rooms[2].copy(out.data(), n_values, edge);
      kScalarStates.recall_values(state.data(), key.data(), n_keys, n_values, out.data());
      table.states.recall_values(rooms[0].copy(state.data(), state.size(), edge),
                                 rooms[1].copy(key.data(), n_keys, edge), n_keys, n_values, got);
      EXPECT_TRUE(same_arrays(out.data(), got, n_values)) << n_values << " " << n_keys;
    }
  });
}

// To another state, and in place.
void check_advance_state(const Kernels& table) {
  static Guarded rooms[6] = {Guarded(kRoom), Guarded(kRoom), Guarded(kRoom),
                             Guarded(kRoom), Guarded(kRoom), Guarded(kRoom)};
  for_heads([&](size_t n_values, size_t n_keys, Edge edge) {
    for (const Fill fill : kFills) {
      const std::vector<float> from = floats(n_keys * n_values, fill, 1);
      const std::vector<float> key = floats(n_keys, Fill::kRandom, 2);
      const std::vector<float> value = floats(n_values, fill, 3);
      const std::vector<float> query = floats(n_keys, Fill::kRandom, 4);
      std::vector<float> to(from.size());
      std::vector<float> out(n_values);
      kScalarStates.advance_state(from.data(), {0.7f, key.data(), value.data(), query.data()},
                                  n_keys, n_values, to.data(), out.data());
      const StateUpdate update = {0.7f, rooms[0].copy(key.data(), n_keys, edge),
                                  rooms[1].copy(value.data(), n_values, edge),
                                  rooms[2].copy(query.data(), n_keys, edge)};
      for (const bool is_in_place : {false, true}) {
        float* const got_from = rooms[3].copy(from.data(), from.size(), edge);
        float* const got_to =
            is_in_place ? got_from : rooms[4].copy(from.data(), from.size(), edge);
        auto* const got = rooms[5].place<float>(n_values, edge);
        table.states.advance_state(got_from, update, n_keys, n_values, got_to, got);
        EXPECT_TRUE(same_arrays(to.data(), got_to, to.size())) << n_values << " " << n_keys;
        EXPECT_TRUE(same_arrays(out.data(), got, n_values)) << n_values << " " << n_keys;
      }
    }
  });
}

constexpr KernelRow kKernelRows[] = {
    {"quantize_row", check_quantize_row},
    {"quantize_values", check_quantize_values},
    {"rms_norm", check_rms_norm},
    {"rope", check_rope},
    {"silu_mul", check_silu_mul},
    {"layer_norm", check_layer_norm},
    {"activations", check_activations},
    {"sigmoid_mul", check_sigmoid_mul},
    {"cap_and_clip", check_cap_and_clip},
    {"add_scaled", check_add_scaled},
    {"scores_q8", check_scores_q8},
    {"scores_f32", check_scores_f32},
    {"exp_sum", check_exp_sum},
    {"exp", check_exp},
    {"weighted_sum_q8", check_weighted_sum_q8},
    {"weighted_sum_f32", check_weighted_sum_f32},
    {"weighted_sum_q4", check_weighted_sum_q4},
    {"recall_values", check_recall_values},
    {"advance_state", check_advance_state},
};

class VectorBits : public KernelBits {};

TEST_P(VectorBits, EqualTheScalarReference) { expect_scalar_bits(); }

INSTANTIATE_TEST_SUITE_P(Isas, VectorBits,
                         testing::Combine(testing::ValuesIn(test::runnable_isas()),
                                          testing::ValuesIn(kKernelRows)),
                         case_label);

}  // namespace
}  // namespace cria
