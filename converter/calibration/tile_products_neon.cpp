#include "converter/calibration/tile_products.h"

// Not Armv7's NEON, which takes subnormal numbers for zero.
#if defined(__aarch64__)
#include <arm_neon.h>

#include "converter/calibration/tile_products_loops.h"

namespace cria::converter {
namespace {

struct Neon {
  using Register = float32x4_t;
  static constexpr size_t kRegisters = 4;
  static constexpr size_t kMostRows = 6;

  CRIA_TILE_INLINE void load(const float* from, Register* to) { *to = vld1q_f32(from); }
  CRIA_TILE_INLINE void load(const uint16_t* from, Register* to) {
    *to = vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(from), 16));
  }
  CRIA_TILE_INLINE void store(const Register& from, float* to) { vst1q_f32(to, from); }
  CRIA_TILE_INLINE void fused_add(const Register& x, float y, Register* sum) {
    *sum = vfmaq_n_f32(*sum, x, y);
  }
};

}  // namespace

TileProducts tile_products_neon() { return TileLoops<Neon>::table("neon"); }

}  // namespace cria::converter
#endif
