#include "converter/calibration/tile_products.h"

#if defined(__FMA__)
#include <immintrin.h>

#include "converter/calibration/tile_products_loops.h"

namespace cria::converter {
namespace {

struct Fma {
  using Register = __m256;
  static constexpr size_t kRegisters = 2;
  static constexpr size_t kMostRows = 6;

  CRIA_TILE_INLINE void load(const float* from, Register* to) { *to = _mm256_loadu_ps(from); }
  CRIA_TILE_INLINE void load(const uint16_t* from, Register* to) {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    *to = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
  }
  CRIA_TILE_INLINE void store(const Register& from, float* to) { _mm256_storeu_ps(to, from); }
  CRIA_TILE_INLINE void fused_add(const Register& x, float y, Register* sum) {
    *sum = _mm256_fmadd_ps(x, _mm256_set1_ps(y), *sum);
  }
};

}  // namespace

TileProducts tile_products_fma() { return TileLoops<Fma>::table("fma"); }

}  // namespace cria::converter
#endif
