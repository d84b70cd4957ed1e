#include "converter/calibration/tile_products.h"

#include <vector>

namespace cria::converter {

std::span<const TileProducts> all_tile_products() {
  static const std::vector<TileProducts> kAll = [] {
    std::vector<TileProducts> all;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) all.push_back(tile_products_avx512f());
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
      all.push_back(tile_products_fma());
    }
#elif defined(__aarch64__)
    all.push_back(tile_products_neon());
#endif
    all.push_back(tile_products_portable());
    return all;
  }();
  return kAll;
}

}  // namespace cria::converter
