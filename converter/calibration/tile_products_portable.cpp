// For processors without a fused multiply-add, and those that have no file of their own.
#include <bit>

#include "converter/calibration/tile_products_loops.h"

namespace cria::converter {
namespace {

// x * y + z rounded once. In double the product is exact; a sum that is not is made odd in its last
// bit, so that rounding it to float errs no further (rounding to odd, Boldo and Melquiond 2008).
// Finite numbers only.
CRIA_TILE_INLINE float fused(float x, float y, float z) {
  const double product = static_cast<double>(x) * static_cast<double>(y);
  const double addend = static_cast<double>(z);
  const double sum = product + addend;
  const double part = sum - product;
  const double error = (product - (sum - part)) + (addend - part);
  const auto bits = std::bit_cast<int64_t>(sum);
  const bool is_even = (bits & 1) == 0;
  // One more in size where the error points away from zero, else one less.
  const int64_t step = (error > 0) == (sum > 0) ? 1 : -1;
  const int64_t odd = error != 0 && is_even ? bits + step : bits;
  return static_cast<float>(std::bit_cast<double>(odd));
}

struct Portable {
  struct Register {
    float lanes[kTile];
  };
  static constexpr size_t kRegisters = 1;
  static constexpr size_t kMostRows = 8;

  CRIA_TILE_INLINE void load(const float* from, Register* to) {
    for (size_t i = 0; i < kTile; ++i) to->lanes[i] = from[i];
  }
  CRIA_TILE_INLINE void load(const uint16_t* from, Register* to) {
    for (size_t i = 0; i < kTile; ++i) {
      to->lanes[i] = std::bit_cast<float>(static_cast<uint32_t>(from[i]) << 16);
    }
  }
  CRIA_TILE_INLINE void store(const Register& from, float* to) {
    for (size_t i = 0; i < kTile; ++i) to[i] = from.lanes[i];
  }
  CRIA_TILE_INLINE void fused_add(const Register& x, float y, Register* sum) {
    for (size_t i = 0; i < kTile; ++i) sum->lanes[i] = fused(x.lanes[i], y, sum->lanes[i]);
  }
};

}  // namespace

TileProducts tile_products_portable() { return TileLoops<Portable>::table("portable"); }

}  // namespace cria::converter
