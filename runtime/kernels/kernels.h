// Contracts of the kernels. Every ISA fills a table of these; each must return the bits of the
// scalar reference (runtime/kernels/scalar/*.cpp), which stays naive for ever.
//
// Names: <op>_<weights>_<activations>_<isa>. q4, q4nl, q8, q8g, q1, q2: int4, int4nl, int8,
// int8g32, bit1 and bit2, codes with scales; f32, f16, bf16: floats. Matrices are in layout tile16
// (quant/numbers/tile16.h). Nothing is read or written outside the arrays named; they need the
// natural alignment of their types, planes 64 bytes. No kernel fails. n == 0 rows or elements do
// nothing. Calls with disjoint outputs may run at the same time.
//
// Every product and sum is rounded to f32 by itself (-ffp-contract=off). "Lanes" means: element i
// goes to partial sum i % 16, in ascending order, and the 16 sums are added as a tree of
// (j, j + 8), (j, j + 4), (j, j + 2), (0, 1).
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>

#include "quant/numbers/tile16.h"
#include "quant/numbers/value_groups.h"
#include "runtime/kernels/isas.h"

namespace cria {

inline constexpr size_t kActivationGroup = 32;
inline constexpr size_t kSumLanes = 16;
// Activations whose largest magnitude in a group is below this count as zeros, so that products of
// scales stay normal numbers.
inline constexpr float kSmallestActivation = 0x1p-40f;

// Quantizes one row of activations to int8, a scale for each group of 32:
//   scale = max|x| / 127, code = round_half_even(x * (127 / max|x|))
// A group whose max|x| is below kSmallestActivation or not finite gets scale 0 and codes 0.
//   x       [n]
//   codes   [n_padded], zeros past n; n_padded % group == 0
//   scales  [n_padded / group]
//   sums    [n_padded / group], the sum of each group's codes, or null when nobody wants them
// group is 32, or n_padded for one scale a row.
using QuantizeRow = void (*)(const float* x, size_t n, size_t n_padded, size_t group, int8_t* codes,
                             float* scales, int32_t* sums);

// Quantizes the values of one position and KV head to 4 bits (quant/numbers/value_groups.h). Of
// each group of 32:
//   scale = bf16(m / -8), m its element of the largest magnitude, the negative one of two;
//   code = min(round_half_even(x * (1 / scale)), 7)
// m takes -8, all others are within -8..7. A group that counts as zeros for QuantizeRow has scale 0
// and codes 0.
//   x       [n]
//   codes   [value_bytes(n)]
//   scales  [value_groups(n)] bf16
using QuantizeValues = void (*)(const float* x, size_t n, uint8_t* codes, uint16_t* scales);

// A block of quantized activations, all for inputs padded to a multiple of 32.
struct QuantizedRows {
  const int8_t* codes;  // [n_rows][padded]
  const float* scales;  // [n_rows][padded / 32]
  const int32_t* sums;  // [n_rows][padded / 32]: for products of unsigned with signed bytes
  size_t n_rows;
};

// Rows [16 * first_tile, min(rows, 16 * last_tile)) of y [n_rows][y_stride] = W * x:
//   acc = 0; for each group g of 32 inputs, ascending:
//     acc += float(integer dot product of group g) * (weight_scale * x_scales[g])
// x is padded to padded_cols(shape). Codes count as the values they stand for (value_of_code).
// Scales of int4, int4nl, bit1 and bit2 may be negative.
using MatmulQ8 = void (*)(const MatrixShape& shape, const uint8_t* codes, const uint8_t* scales,
                          size_t first_tile, size_t last_tile, const QuantizedRows& x, float* y,
                          size_t y_stride);

// The same for float weights: acc = 0; for each input k, ascending: acc += w[k] * x[k].
//   x [n_rows][cols] f32
using MatmulF32 = void (*)(const MatrixShape& shape, const uint8_t* codes, size_t first_tile,
                           size_t last_tile, const float* x, size_t n_rows, float* y,
                           size_t y_stride);

// y[i] = (x[i] * r) * weight[i], r = 1 / sqrt(sum(x*x) / n + epsilon); the sum in lanes.
// y may be x.
using RmsNorm = void (*)(const float* x, const float* weight, size_t n, float epsilon, float* y);

// Rotates n_heads vectors of head_dim in place, element i with i + head_dim / 2:
//   a' = a * cos[i] - b * sin[i],  b' = b * cos[i] + a * sin[i]
using Rope = void (*)(float* x, size_t n_heads, size_t head_dim, const float* cos,
                      const float* sin);

// gate[i] = (gate[i] / (1 + exp(-gate[i]))) * up[i], exp of runtime/base/scalar_math.h.
using SiluMul = void (*)(float* gate, const float* up, size_t n);

// x[i] += y[i] * multiplier.
using AddScaled = void (*)(float* x, const float* y, float multiplier, size_t n);

// Attention's kernels take blocks of queries, of one query where this is false: 32-bit processors'
// would gain nothing, and firmware would grow.
inline constexpr bool kHasQueryBlocks = sizeof(size_t) > sizeof(uint32_t);
[[nodiscard]] static constexpr size_t block_rows(size_t n_rows) {
  return kHasQueryBlocks ? n_rows : 1;
}

// Scores of n positions of one KV head: for int8 keys, of each query i of a block
//   scores[i][j] = ((sum over groups g of 32, ascending, of float(integer dot) * q.scales[i][g])
//                  * key_scales[j]) * multiplier
// queries are padded as the rows of a product, keys are not: the last group may be shorter; for f32
// keys and one query scores[j] = (dot in lanes) * multiplier.
//   keys        [n][head_dim]
//   key_scales  [n]
//   scores      [q.n_rows][stride], of which n of each row are written
using ScoresQ8 = void (*)(const QuantizedRows& q, size_t head_dim, const int8_t* keys,
                          const float* key_scales, float multiplier, size_t n, float* scores,
                          size_t stride);
using ScoresF32 = void (*)(const float* q, size_t head_dim, const float* keys, float multiplier,
                           size_t n, float* scores);

// scores[j] = exp(scores[j] - max); returns their sum in lanes.
using ExpSum = float (*)(float* scores, size_t n, float max);

// What a block of queries weighs the values of positions with.
struct WeightRows {
  const float* weights;  // [n_rows][stride]
  size_t stride;
  const float* rescale;  // [n_rows]
  size_t n_rows;
};

// For each query i of a block out[i][d] = out[i][d] * rescale[i],
// then for each position j, ascending:
//   int8    out[i][d] += (weights[i][j] * value_scales[j]) * float(values[j][d])
//   4 bits  out[i][d] += (weights[i][j] * value_scales[j][d / 32]) * float(code of values[j][d])
// and for one query of an f32 cache out[d] += weights[j] * values[j][d].
//   values        of 4 bits as quant/numbers/value_groups.h says: [n][value_bytes(head_dim)]
//   value_scales  of 4 bits: [n][value_groups(head_dim)] bf16
//   out           [w.n_rows][head_dim]
using WeightedSumQ8 = void (*)(const WeightRows& w, const int8_t* values, const float* value_scales,
                               size_t n, size_t head_dim, float* out);
using WeightedSumF32 = void (*)(const float* weights, const float* values, size_t n,
                                size_t head_dim, float rescale, float* out);
using WeightedSumQ4 = void (*)(const WeightRows& w, const uint8_t* values,
                               const uint16_t* value_scales, size_t n, size_t head_dim, float* out);

// What only some families compute; null where a build has none of it (kHasVariants).
//
// y[i] = ((x[i] - mean) * r) * weight[i] + bias[i], mean = sum(x) / n,
// r = 1 / sqrt(sum((x - mean) * (x - mean)) / n + epsilon); both sums in lanes. y may be x.
//   weight_bias  [2 * n], biases after the weights
using LayerNorm = void (*)(const float* x, const float* weight_bias, size_t n, float epsilon,
                           float* y);

// gate[i] = act(gate[i]) * up[i], without up (null) act(gate[i]). exp is that of
// runtime/base/scalar_math.h, sigmoid(v) = 1 / (1 + exp(-v)).
//   silu           v / (1 + exp(-v))
//   gelu           by tanh: v / (1 + exp(-u)), u = (v + (v * v) * v * 0.044715) * (2 sqrt(2 / pi))
//   relu squared   r * r, r = v < 0 ? 0 : v
//   clamped swiglu ((w + 1) * g) / (1 + exp(-(alpha * g))), g = min(v, limit), w = up within
//                  +-limit; has an up
using Activate = void (*)(float* gate, const float* up, size_t n, float alpha, float limit);

// y[i] = y[i] / (1 + exp(-gate[i])).
using SigmoidMul = void (*)(float* y, const float* gate, size_t n);

// x[i] = cap * tanh(x[i] / cap), tanh(v) = (e - 1) / (e + 1), e = exp(v + v).
using Cap = void (*)(float* x, size_t n, float cap);

// x[i] within +-limit.
using Clip = void (*)(float* x, size_t n, float limit);

struct VariantKernels {
  LayerNorm layer_norm;
  Activate activate[format::kActivations];  // by format::Activation, from silu on
  SigmoidMul sigmoid_mul;
  Cap cap;
  Clip clip;
};

// What only layers with a state of fixed size compute; null where a build has none of them
// (kHasBlocks). A state is [n_keys][n_values]. Sums begin with 0 and go over keys i, ascending.
//
// out[j] = sum over i of key[i] * state[i][j].
using RecallValues = void (*)(const float* state, const float* key, size_t n_keys, size_t n_values,
                              float* out);

// What a position does to a state.
struct StateUpdate {
  float decay;
  const float* key;    // [n_keys]
  const float* value;  // [n_values]
  const float* query;  // [n_keys]
};
// to[i][j] = from[i][j] * decay + key[i] * value[j]; out[j] = sum over i of query[i] * to[i][j].
// to may be from; out is none of the arrays that are read.
using AdvanceState = void (*)(const float* from, const StateUpdate& update, size_t n_keys,
                              size_t n_values, float* to, float* out);

struct StateKernels {
  RecallValues recall_values;
  AdvanceState advance_state;
};

// The product of each number format, by place_of.
union Product {
  MatmulQ8 codes;    // of a format of integers
  MatmulF32 floats;  // of all others
};
struct Products {
  Product of[std::size(kNumberFormatList)];
};

// Static, as what files of several ISAs include must be (runtime/kernels/overrides.h).
[[nodiscard]] static constexpr size_t place_of(format::NumberFormat number_format) {
  return static_cast<size_t>(number_format) - 1;
}

// What an ISA does not fill is that of the ISA below it.
struct Kernels {
  const char* isa = "";  // the highest one that put kernels here
  QuantizeRow quantize_row;
  QuantizeValues quantize_values;
  Products products;
  RmsNorm rms_norm;
  Rope rope;
  SiluMul silu_mul;
  AddScaled add_scaled;
  ScoresQ8 scores_q8;
  ScoresF32 scores_f32;
  ExpSum exp_sum;
  WeightedSumQ8 weighted_sum_q8;
  WeightedSumF32 weighted_sum_f32;
  WeightedSumQ4 weighted_sum_q4;
  VariantKernels variants;
  StateKernels states;
};

// Tiles that a product may take together, with more rows of activations than are given for its
// kind of weights: parts of a matrix that begin at their multiples break up none.
inline constexpr size_t kMostTilesTogether = 2;
inline constexpr size_t kIntegerRowsOfSingleTiles = 6;
inline constexpr size_t kFloatRowsOfSingleTiles = 1;

// Fills table with the best kernels among those that mask allows and this build has. The caller
// vouches that the CPU has every ISA of mask; mask 0 means what the build was compiled for. Bits of
// ISAs that this build lacks are ignored. False when nothing is left.
[[nodiscard]] bool select_kernels(uint32_t mask, Kernels* table);
// Bits of the ISAs this build has kernels for.
[[nodiscard]] uint32_t built_isas();
// What mask 0 stands for.
[[nodiscard]] uint32_t baseline_isas();

extern const Kernels kScalarKernels;

}  // namespace cria
