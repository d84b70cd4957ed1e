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

struct DotprodDot {
  static int32x4_t add16(int32x4_t sum, int8x16_t q, int8x16_t k) { return vdotq_s32(sum, q, k); }
};

}  // namespace

void scores_q8_dotprod(const QuantizedRows& q, size_t head_dim, const int8_t* keys,
                       const float* key_scales, float multiplier, size_t n, float* scores,
                       size_t stride) {
  scores_by_query<scores_q8_frame<DotprodDot>>(q, head_dim, keys, key_scales, multiplier, n, scores,
                                               stride);
}

}  // namespace cria
