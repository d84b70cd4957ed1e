// Attention scores over the int8 cache for processors with AVX-VNNI, and the table of the ISA;
// score_blocks.h has the algorithm. What is not here is AVX2's.
#include "runtime/kernels/overrides.h"
#include "runtime/kernels/score_blocks.h"

#if !defined(__AVX2__) || !defined(__AVXVNNI__)
#error "Build this file with the flags of its ending (cmake/KernelFlags.cmake)."
#endif

#include <immintrin.h>

#include "runtime/kernels/x86/key_quads.h"
#include "runtime/kernels/x86/lanes_avx2.h"

namespace cria {
namespace {

struct Part : EightLanes {
  static constexpr size_t kLanes = 8;
  static constexpr size_t kSteps = kActivationGroup / 4;
  static constexpr bool kSplitsQueries = false;
  static constexpr int kOffsetBits = 7;  // keys are unsigned bytes, 128 is added

  static void split_keys(const int8_t* const (&rows)[kLanes], Ints* steps, size_t stride) {
    Ints quads[kSteps];
    transpose_keys(rows, quads);
#pragma GCC unroll 8
    for (size_t i = 0; i < kSteps; ++i) {
      steps[i * stride] = _mm256_xor_si256(quads[i], _mm256_set1_epi8(static_cast<char>(0x80)));
    }
  }
  // What the offset adds is taken away before.
  static Ints start(const int32_t* q_sum) {
    const Ints offset = _mm256_slli_epi32(_mm256_set1_epi32(*q_sum), kOffsetBits);
    return _mm256_sub_epi32(_mm256_setzero_si256(), offset);
  }
  using EightLanes::add;
  static Ints add(Ints sum, Ints keys, Ints query) {
    return _mm256_dpbusd_avx_epi32(sum, keys, query);
  }
};

}  // namespace

void override_avxvnni(Kernels* table, uint32_t /*isa_mask*/) {
  table->scores_q8 = ScoreBlocks<Part>::scores_q8;
  fill_linear_avxvnni(table);
}

}  // namespace cria
