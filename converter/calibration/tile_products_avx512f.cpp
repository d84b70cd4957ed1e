#include "converter/calibration/tile_products.h"

#if defined(__AVX512F__)
#include <immintrin.h>

#include "converter/calibration/tile_products_loops.h"

namespace cria::converter {
namespace {

struct Avx512 {
  using Register = __m512;
  static constexpr size_t kRegisters = 1;
  static constexpr size_t kMostRows = 16;

  CRIA_TILE_INLINE void load(const float* from, Register* to) { *to = _mm512_loadu_ps(from); }
  CRIA_TILE_INLINE void load(const uint16_t* from, Register* to) {
    const __m256i halves = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    *to = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
  }
  CRIA_TILE_INLINE void store(const Register& from, float* to) { _mm512_storeu_ps(to, from); }
  CRIA_TILE_INLINE void fused_add(const Register& x, float y, Register* sum) {
    *sum = _mm512_fmadd_ps(x, _mm512_set1_ps(y), *sum);
  }
};

}  // namespace

TileProducts tile_products_avx512f() { return TileLoops<Avx512>::table("avx512f"); }

}  // namespace cria::converter
#endif
