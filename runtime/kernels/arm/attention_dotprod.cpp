// Attention scores for AArch64 cores with dot products.
// Contracts are in runtime/kernels/kernels.h.
#include "runtime/kernels/arm/neon.h"

#if !defined(__aarch64__) || !defined(__ARM_FEATURE_DOTPROD)
#error "Build this file with -march=armv8.2-a+dotprod (cmake/KernelFlags.cmake)."
#endif

#include <arm_neon.h>

#include "runtime/kernels/arm/neon_scores.h"

namespace cria {
namespace {

constexpr size_t kBlockKeys = 8;     // that queries of a block meet at once
constexpr size_t kLeastQueries = 3;  // for which turning the keys around pays
constexpr size_t kHalves = kBlockKeys / kFloatsPerVector;
constexpr size_t kQuads = kActivationGroup / 4;

struct DotprodDot {
  static int32x4_t first16(int8x16_t q, int8x16_t k) { return add16(vdupq_n_s32(0), q, k); }
  static int32x4_t add16(int32x4_t sum, int8x16_t q, int8x16_t k) { return vdotq_s32(sum, q, k); }
};

// A group of kBlockKeys keys: of each four inputs those of four keys in a vector.
struct KeyGroup {
  int8x16_t quads[kQuads][kHalves];
};

// 16 inputs of four keys, stride apart.
void turn_keys(const int8_t* keys, size_t stride, size_t half, int8x16_t (*quads)[kHalves]) {
  const auto load = [&](size_t i) { return vreinterpretq_s32_s8(vld1q_s8(keys + i * stride)); };
  const int32x4_t a = load(0);
  const int32x4_t b = load(1);
  const int32x4_t c = load(2);
  const int32x4_t d = load(3);
  const int64x2_t ab_even = vreinterpretq_s64_s32(vtrn1q_s32(a, b));
  const int64x2_t ab_odd = vreinterpretq_s64_s32(vtrn2q_s32(a, b));
  const int64x2_t cd_even = vreinterpretq_s64_s32(vtrn1q_s32(c, d));
  const int64x2_t cd_odd = vreinterpretq_s64_s32(vtrn2q_s32(c, d));
  quads[0][half] = vreinterpretq_s8_s64(vtrn1q_s64(ab_even, cd_even));
  quads[1][half] = vreinterpretq_s8_s64(vtrn1q_s64(ab_odd, cd_odd));
  quads[2][half] = vreinterpretq_s8_s64(vtrn2q_s64(ab_even, cd_even));
  quads[3][half] = vreinterpretq_s8_s64(vtrn2q_s64(ab_odd, cd_odd));
}

// n <= 32 inputs of kBlockKeys keys.
KeyGroup load_keys(const int8_t* keys, size_t head_dim, size_t n) {
  int8_t padded[kBlockKeys][kActivationGroup];
  const KeyRows rows = pad_keys(keys, head_dim, kBlockKeys, n, padded);
  KeyGroup group;
  for (size_t half = 0; half < kHalves; ++half) {
    const int8_t* four = rows.keys + half * kFloatsPerVector * rows.stride;
    turn_keys(four, rows.stride, half, group.quads);
    turn_keys(four + kBytesPerVector, rows.stride, half, group.quads + kQuads / 2);
  }
  return group;
}

template <int kLane, size_t kQueries>
void add_quad(const int8x16_t (&keys)[kHalves], const int8x16_t (&q)[kQueries],
              int32x4_t (&dots)[kQueries][kHalves]) {
#pragma GCC unroll 2
  for (size_t i = 0; i < kQueries; ++i) {
#pragma GCC unroll 2
    for (size_t h = 0; h < kHalves; ++h)
      dots[i][h] = vdotq_laneq_s32(dots[i][h], keys[h], q[i], kLane);
  }
}

// Queries from one on: their codes and scales are strides apart, as their scores.
struct QueryRows {
  const int8_t* codes;
  size_t code_stride;
  const float* scales;
  size_t scale_stride;
  float* scores;
  size_t stride;

  [[nodiscard]] QueryRows from(size_t i) const {
    return {codes + i * code_stride, code_stride, scales + i * scale_stride, scale_stride,
            scores + i * stride,     stride};
  }
};

// What becomes of scores after the last group.
struct ScoreScales {
  float32x4_t keys[kHalves];
  float multiplier;
};

// The first kQueries queries. Inlined wherever it stands: the keys live in registers.
template <size_t kQueries, bool kIsFirst, bool kIsLast>
[[gnu::always_inline]] inline void add_queries(const KeyGroup& keys, const ScoreScales& scales,
                                               const QueryRows& rows) {
  int8x16_t low[kQueries];
  int8x16_t high[kQueries];
  int32x4_t dots[kQueries][kHalves];
#pragma GCC unroll 2
  for (size_t i = 0; i < kQueries; ++i) {
    const int8_t* q = rows.codes + i * rows.code_stride;
    low[i] = vld1q_s8(q);
    high[i] = vld1q_s8(q + kBytesPerVector);
#pragma GCC unroll 2
    for (size_t h = 0; h < kHalves; ++h) dots[i][h] = vdupq_n_s32(0);
  }
  add_quad<0>(keys.quads[0], low, dots);
  add_quad<1>(keys.quads[1], low, dots);
  add_quad<2>(keys.quads[2], low, dots);
  add_quad<3>(keys.quads[3], low, dots);
  add_quad<0>(keys.quads[4], high, dots);
  add_quad<1>(keys.quads[5], high, dots);
  add_quad<2>(keys.quads[6], high, dots);
  add_quad<3>(keys.quads[7], high, dots);
#pragma GCC unroll 2
  for (size_t i = 0; i < kQueries; ++i) {
    float* scores = rows.scores + i * rows.stride;
    const float scale = rows.scales[i * rows.scale_stride];
#pragma GCC unroll 2
    for (size_t h = 0; h < kHalves; ++h, scores += kFloatsPerVector) {
      float32x4_t sum = kIsFirst ? vdupq_n_f32(0.0f) : vld1q_f32(scores);
      sum = vaddq_f32(sum, vmulq_n_f32(vcvtq_f32_s32(dots[i][h]), scale));
      if constexpr (kIsLast) sum = vmulq_n_f32(vmulq_f32(sum, scales.keys[h]), scales.multiplier);
      vst1q_f32(scores, sum);
    }
  }
}

template <bool kIsFirst, bool kIsLast>
void add_group(const KeyGroup& group, const ScoreScales& score_scales, const QueryRows& all,
               size_t n_queries) {
  const KeyGroup keys = group;
  const ScoreScales scales = score_scales;
  QueryRows rows = all;
  for (; n_queries >= 2; n_queries -= 2, rows = rows.from(2)) {
    add_queries<2, kIsFirst, kIsLast>(keys, scales, rows);
  }
  if (n_queries != 0) add_queries<1, kIsFirst, kIsLast>(keys, scales, rows);
}

// All queries' scores of kBlockKeys keys. Between groups the scores' places hold the sums so far.
void scores_of_keys(const QuantizedRows& q, size_t head_dim, const int8_t* keys,
                    const float* key_scales, float multiplier, float* scores, size_t stride) {
  const size_t n_groups = (head_dim + kActivationGroup - 1) / kActivationGroup;
  const ScoreScales score_scales = {
      {vld1q_f32(key_scales), vld1q_f32(key_scales + kFloatsPerVector)}, multiplier};
  for (size_t g = 0; g < n_groups; ++g) {
    const size_t begin = g * kActivationGroup;
    const size_t rest = head_dim - begin;
    const KeyGroup group =
        load_keys(keys + begin, head_dim, rest < kActivationGroup ? rest : kActivationGroup);
    const QueryRows rows = {
        q.codes + begin, n_groups * kActivationGroup, q.scales + g, n_groups, scores, stride};
    const bool is_last = g + 1 == n_groups;
    const auto add = g == 0 ? (is_last ? add_group<true, true> : add_group<true, false>)
                            : (is_last ? add_group<false, true> : add_group<false, false>);
    add(group, score_scales, rows, q.n_rows);
  }
}

}  // namespace

void scores_q8_dotprod(const QuantizedRows& q, size_t head_dim, const int8_t* keys,
                       const float* key_scales, float multiplier, size_t n, float* scores,
                       size_t stride) {
  size_t j = 0;
  if (q.n_rows >= kLeastQueries) {
    for (; j + kBlockKeys <= n; j += kBlockKeys) {
      scores_of_keys(q, head_dim, keys + j * head_dim, key_scales + j, multiplier, scores + j,
                     stride);
    }
  }
  scores_by_query<scores_q8_frame<DotprodDot>>(q, head_dim, keys + j * head_dim, key_scales + j,
                                               multiplier, n - j, scores + j, stride);
}

}  // namespace cria
