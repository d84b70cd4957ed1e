#include "converter/calibration/tile_products.h"

#include <vector>

namespace cria::converter {

std::span<const TileProducts> all_tile_products() {
  static const std::vector<TileProducts> kAll = [] {
    std::vector<TileProducts> all;
    for (const TileProducts& level : {tile_products_avx512f(), tile_products_fma(),
                                      tile_products_neon(), tile_products_portable()}) {
      if (level.floats != nullptr) all.push_back(level);
    }
    return all;
  }();
  return kAll;
}

}  // namespace cria::converter
