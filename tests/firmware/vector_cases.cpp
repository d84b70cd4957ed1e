// Cases of everything that is not a matrix product.
#include "quant/numbers/float16.h"
#include "quant/numbers/tile16.h"
#include "tests/firmware/kernel_trial.h"

namespace cria::firmware_test {
namespace {

constexpr size_t kMostElements = 70;
constexpr size_t kMostHeadDim = 96;
constexpr size_t kMostPositions = 20;
constexpr size_t kMostQueries = kHasQueryBlocks ? 4 : 1;

void compare_quantized(KernelTrial& t, size_t n, size_t n_padded, size_t group, Fill fill) {
  if (t.kernels().quantize_row == kScalarKernels.quantize_row) return;
  const size_t n_groups = n_padded / group;
  const auto x = t.input_floats(n, fill);
  const float size = t.below(3) == 0 ? 0x1p-39f : 1.0f;  // around the smallest that counts
  for (float& v : x) v *= size;
  const auto codes = t.output<int8_t>(n_padded);
  const auto scales = t.output<float>(n_groups);
  const bool wants_sums = t.below(4) != 0;
  const auto sums = t.output<int32_t>(wants_sums ? n_groups : 0);
  kScalarKernels.quantize_row(x.data(), n, n_padded, group, codes.want.data(), scales.want.data(),
                              wants_sums ? sums.want.data() : nullptr);
  t.guarded([&] {
    t.kernels().quantize_row(x.data(), n, n_padded, group, codes.got.data(), scales.got.data(),
                             wants_sums ? sums.got.data() : nullptr);
  });
  t.expect_same("quantize_row scales", scales);
  t.expect_equal("quantize_row codes", codes);
  t.expect_equal("quantize_row sums", sums);
}

void compare_norms(KernelTrial& t, size_t n, Fill fill) {
  if (t.kernels().rms_norm == kScalarKernels.rms_norm) return;
  const auto x = t.input_floats(n, fill);
  const auto weight = t.input_floats(n, Fill::kModerate);
  const auto y = t.output<float>(n);
  kScalarKernels.rms_norm(x.data(), weight.data(), n, 1e-5f, y.want.data());
  t.guarded([&] { t.kernels().rms_norm(x.data(), weight.data(), n, 1e-5f, y.got.data()); });
  t.expect_same("rms_norm", y);
}

void compare_ropes(KernelTrial& t, size_t half, Fill fill) {
  if (t.kernels().rope == kScalarKernels.rope) return;
  const size_t n_heads = 1 + t.below(3);
  const auto x = t.output_floats(n_heads * half * 2, fill);
  const auto cos = t.input_floats(half, Fill::kModerate);
  const auto sin = t.input_floats(half, Fill::kModerate);
  kScalarKernels.rope(x.want.data(), n_heads, half * 2, cos.data(), sin.data());
  t.guarded([&] { t.kernels().rope(x.got.data(), n_heads, half * 2, cos.data(), sin.data()); });
  t.expect_same("rope", x);
}

void compare_silus(KernelTrial& t, size_t n, Fill fill) {
  const SiluMul scalar = kScalarKernels.silu_mul;
  const SiluMul kernel = t.kernels().silu_mul;
  if (kernel == scalar) return;
  const auto gate = t.output_floats(n, fill);
  for (size_t i = 0; i < n; ++i) {
    // Below that, the exponential's inverse makes subnormals.
    if (!t.has_subnormals() && gate.got[i] < -80.0f) gate.got[i] = gate.want[i] = -80.0f;
  }
  const auto up = t.input_floats(n, Fill::kModerate);
  scalar(gate.want.data(), up.data(), n);
  t.guarded([&] { kernel(gate.got.data(), up.data(), n); });
  t.expect_same("silu_mul", gate);
}

void compare_sums(KernelTrial& t, size_t n, Fill fill) {
  if (t.kernels().add_scaled == kScalarKernels.add_scaled) return;
  const auto x = t.output_floats(n, fill);
  const auto y = t.input_floats(n, fill);
  kScalarKernels.add_scaled(x.want.data(), y.data(), 0.3f, n);
  t.guarded([&] { t.kernels().add_scaled(x.got.data(), y.data(), 0.3f, n); });
  t.expect_same("add_scaled", x);
}

void compare_exponentials(KernelTrial& t, size_t n, Fill fill) {
  if (t.kernels().exp_sum == kScalarKernels.exp_sum) return;
  const auto scores = t.output_floats(n, fill);
  for (size_t i = 0; i < n; ++i) {
    // Multiples of 1/64 around both ends of exp's range, ties of its rounding among them.
    if (t.below(2) == 0) continue;
    const auto around = static_cast<float>(static_cast<int>(t.below(12800)) - 6400) / 64.0f;
    scores.got[i] = scores.want[i] = around;
  }
  const float max = t.below(2) == 0 ? 0.0f : 1.5f;
  const float want = kScalarKernels.exp_sum(scores.want.data(), n, max);
  float got = 0.0f;
  t.guarded([&] { got = t.kernels().exp_sum(scores.got.data(), n, max); });
  t.expect_same("exp_sum", scores);
  t.expect_same("exp_sum's sum", got, want);
}

void compare_scores(KernelTrial& t, size_t head_dim, Fill fill) {
  if (t.kernels().scores_q8 == kScalarKernels.scores_q8) return;
  const size_t n = t.below(kMostPositions);
  const size_t n_queries = 1 + t.below(kMostQueries);
  const size_t padded = round_up(head_dim, kActivationGroup);
  const size_t n_groups = n_queries * padded / kActivationGroup;
  const auto q = t.input_codes(n_queries * padded, fill);
  const auto sums = t.input<int32_t>(n_groups);
  for (int32_t& sum : sums) sum = 0;
  for (size_t i = 0; i < q.size(); ++i) {
    if (i % padded >= head_dim) q[i] = 0;
    sums[i / kActivationGroup] += q[i];
  }
  const auto keys = t.input_codes(n * head_dim, fill);
  const auto q_scales = t.input_floats(n_groups, scale_fill(fill));
  const auto key_scales = t.input_floats(n, scale_fill(fill));
  const size_t stride = n + t.below(3);
  const auto scores = t.output<float>((n_queries - 1) * stride + n);
  const QuantizedRows queries = {q.data(), q_scales.data(), sums.data(), n_queries};
  kScalarKernels.scores_q8(queries, head_dim, keys.data(), key_scales.data(), 0.125f, n,
                           scores.want.data(), stride);
  t.guarded([&] {
    t.kernels().scores_q8(queries, head_dim, keys.data(), key_scales.data(), 0.125f, n,
                          scores.got.data(), stride);
  });
  t.expect_same("scores_q8", scores);
}

void compare_float_scores(KernelTrial& t, size_t head_dim, Fill fill) {
  if (t.kernels().scores_f32 == kScalarKernels.scores_f32) return;
  const size_t n = t.below(kMostPositions);
  const auto q = t.input_floats(head_dim, fill);
  const auto keys = t.input_floats(n * head_dim, fill);
  const auto scores = t.output<float>(n);
  kScalarKernels.scores_f32(q.data(), head_dim, keys.data(), 0.3f, n, scores.want.data());
  t.guarded(
      [&] { t.kernels().scores_f32(q.data(), head_dim, keys.data(), 0.3f, n, scores.got.data()); });
  t.expect_same("scores_f32", scores);
}

// Weights of a block of queries for n positions.
WeightRows input_weights(KernelTrial& t, size_t n) {
  const size_t n_queries = 1 + t.below(kMostQueries);
  const size_t stride = n + t.below(3);
  const auto weights = t.input_floats((n_queries - 1) * stride + n, Fill::kWide);
  const auto rescale = t.input_floats(n_queries, Fill::kModerate);
  return {weights.data(), stride, rescale.data(), n_queries};
}

void compare_weighted_sums(KernelTrial& t, size_t head_dim, Fill fill) {
  if (t.kernels().weighted_sum_q8 == kScalarKernels.weighted_sum_q8) return;
  const size_t n = t.below(kMostPositions);
  const WeightRows w = input_weights(t, n);
  const auto values = t.input_codes(n * head_dim, fill);
  const auto scales = t.input_floats(n, Fill::kWide);
  const auto out = t.output_floats(w.n_rows * head_dim, fill);
  kScalarKernels.weighted_sum_q8(w, values.data(), scales.data(), n, head_dim, out.want.data());
  t.guarded([&] {
    t.kernels().weighted_sum_q8(w, values.data(), scales.data(), n, head_dim, out.got.data());
  });
  t.expect_same("weighted_sum_q8", out);
}

void compare_weighted_float_sums(KernelTrial& t, size_t head_dim, Fill fill) {
  if (t.kernels().weighted_sum_f32 == kScalarKernels.weighted_sum_f32) return;
  const size_t n = t.below(kMostPositions);
  const auto weights = t.input_floats(n, Fill::kWide);
  const auto values = t.input_floats(n * head_dim, fill);
  const auto out = t.output_floats(head_dim, fill);
  kScalarKernels.weighted_sum_f32(weights.data(), values.data(), n, head_dim, 0.7f,
                                  out.want.data());
  t.guarded([&] {
    t.kernels().weighted_sum_f32(weights.data(), values.data(), n, head_dim, 0.7f, out.got.data());
  });
  t.expect_same("weighted_sum_f32", out);
}

void compare_weighted_nibbles(KernelTrial& t, size_t head_dim, Fill fill) {
  if (t.kernels().weighted_sum_q4 == kScalarKernels.weighted_sum_q4) return;
  const size_t n = t.below(kMostPositions);
  const WeightRows w = input_weights(t, n);
  const auto codes = t.input_codes(n * value_bytes(head_dim), fill);
  const auto* const values = reinterpret_cast<const uint8_t*>(codes.data());
  const auto wide_scales = t.input_floats(n * value_groups(head_dim), Fill::kWide);
  const auto scales = t.output<uint16_t>(wide_scales.size());
  for (size_t i = 0; i < wide_scales.size(); ++i) {
    scales.got[i] = scales.want[i] = f32_to_bf16(wide_scales[i]);
  }
  const auto out = t.output_floats(w.n_rows * head_dim, fill);
  kScalarKernels.weighted_sum_q4(w, values, scales.want.data(), n, head_dim, out.want.data());
  t.guarded([&] {
    t.kernels().weighted_sum_q4(w, values, scales.got.data(), n, head_dim, out.got.data());
  });
  t.expect_same("weighted_sum_q4", out);
}

}  // namespace

// Every case of n elements or of heads of n, in arrays of both kinds and with all fills.
void compare_vectors(KernelTrial& t) {
  using Case = void (*)(KernelTrial & t, size_t n, Fill fill);
  constexpr Case kOfElements[] = {compare_norms, compare_ropes, compare_silus, compare_sums,
                                  compare_exponentials};
  constexpr Case kOfHeads[] = {compare_scores, compare_float_scores, compare_weighted_sums,
                               compare_weighted_float_sums, compare_weighted_nibbles};
  const auto run = [&t](Case compare, size_t n) {
    for (const Side side : kSides) {
      for (const Fill fill : kFills) {
        t.begin(side);
        compare(t, n, t.allowed(fill));
      }
    }
  };
  for (const Case compare : kOfElements) {
    for (size_t n = 1; n <= kMostElements; ++n) run(compare, n);
  }
  for (const Case compare : kOfHeads) {
    for (size_t n = 2; n <= kMostHeadDim; ++n) run(compare, n);
  }
  for (size_t n = 1; n <= kMostElements; ++n) {
    run([](KernelTrial& trial, size_t count,
           Fill fill) { compare_quantized(trial, count, round_up(count, 64), 32, fill); },
        n);
    run([](KernelTrial& trial, size_t count,
           Fill fill) { compare_quantized(trial, count, count, count, fill); },
        n);
  }
}

}  // namespace cria::firmware_test
