#include "converter/calibration/symmetric_factor.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "platforms/hosted/base/shared_loop.h"

namespace cria::converter {
namespace {

constexpr size_t kBlock = 64;
constexpr size_t kBlockTiles = kBlock / kTile;
constexpr size_t kTileValues = kTile * kTile;

// A block of kBlock x kBlock, row by row.
using Block = std::vector<float>;

// The Cholesky factor of a block in place, in the lower triangle; false: there is none.
bool factor_block(Block* block) {
  for (size_t i = 0; i < kBlock; ++i) {
    float* const row = block->data() + i * kBlock;
    for (size_t j = 0; j <= i; ++j) {
      const float* const other = block->data() + j * kBlock;
      double sum = static_cast<double>(row[j]);
      for (size_t k = 0; k < j; ++k) {
        sum -= static_cast<double>(row[k]) * static_cast<double>(other[k]);
      }
      if (j < i) {
        row[j] = static_cast<float>(sum / static_cast<double>(other[j]));
        continue;
      }
      const auto root = static_cast<float>(std::sqrt(sum));
      if (!(sum > 0) || !(root > 0)) return false;
      row[i] = root;
    }
  }
  return true;
}

// The inverse of a lower triangular block, zero above the diagonal.
Block inverse_of(const Block& block) {
  Block inverse(kBlock * kBlock);
  for (size_t j = 0; j < kBlock; ++j) {
    for (size_t i = j; i < kBlock; ++i) {
      double sum = i == j ? 1 : 0;
      for (size_t k = j; k < i; ++k) {
        sum -= static_cast<double>(block[i * kBlock + k]) *
               static_cast<double>(inverse[k * kBlock + j]);
      }
      inverse[i * kBlock + j] =
          static_cast<float>(sum / static_cast<double>(block[i * kBlock + i]));
    }
  }
  return inverse;
}

// A block by columns, times sign: [kBlockTiles][kBlock][16], what products read in sequence.
Block turned_block(const Block& block, float sign) {
  Block turned(kBlock * kBlock);
  for (size_t i = 0; i < kBlock; ++i) {
    for (size_t k = 0; k < kBlock; ++k) {
      turned[(i / kTile * kBlock + k) * kTile + i % kTile] = sign * block[i * kBlock + k];
    }
  }
  return turned;
}

// A square matrix as rows of tiles: tile (i, j) holds what rows 16 i and columns 16 j begin. Its
// size is a multiple of kBlock: the rest is the identity.
class TiledSquare {
 public:
  explicit TiledSquare(size_t n) : n_tiles_((n + kBlock - 1) / kBlock * kBlockTiles) {
    values_.resize(n_tiles_ * n_tiles_ * kTileValues);
  }
  [[nodiscard]] size_t n_tiles() const { return n_tiles_; }
  [[nodiscard]] float* tile(size_t i, size_t j) {
    return values_.data() + (i * n_tiles_ + j) * kTileValues;
  }
  [[nodiscard]] const float* tile(size_t i, size_t j) const {
    return values_.data() + (i * n_tiles_ + j) * kTileValues;
  }
  [[nodiscard]] float& at(size_t i, size_t j) {
    return tile(i / kTile, j / kTile)[i % kTile * kTile + j % kTile];
  }
  [[nodiscard]] float at(size_t i, size_t j) const {
    return tile(i / kTile, j / kTile)[i % kTile * kTile + j % kTile];
  }

  [[nodiscard]] Block block(size_t first_tile) const {
    Block block(kBlock * kBlock);
    for (size_t i = 0; i < kBlock; ++i) {
      for (size_t j = 0; j < kBlock; ++j) {
        block[i * kBlock + j] = at(first_tile * kTile + i, first_tile * kTile + j);
      }
    }
    return block;
  }
  void set_block(size_t first_tile, const Block& block) {
    for (size_t i = 0; i < kBlock; ++i) {
      for (size_t j = 0; j < kBlock; ++j) {
        at(first_tile * kTile + i, first_tile * kTile + j) = block[i * kBlock + j];
      }
    }
  }

 private:
  size_t n_tiles_;
  std::vector<float> values_;
};

// Turns kBlockTiles tiles of a row of tiles, [kBlock][16] each: what a product reads on its left.
void turn_tiles(const float* tiles, size_t n_tiles, float sign, float* turned) {
  for (size_t t = 0; t < n_tiles; ++t) {
    for (size_t i = 0; i < kTile; ++i) {
      for (size_t k = 0; k < kTile; ++k) {
        turned[t * kTileValues + k * kTile + i] = sign * tiles[t * kTileValues + i * kTile + k];
      }
    }
  }
}

// l's lower triangle becomes its Cholesky factor, block by block: what is done is taken from the
// rest. Tiles above the diagonal are left as they are.
bool factor(hosted::ThreadPool* pool, TiledSquare* l) {
  const size_t n = l->n_tiles();
  // Columns of the block, for each row of tiles below it: turned, and turned with another sign.
  std::vector<float> turned(n * kBlock * kTile);
  std::vector<float> negative(n * kBlock * kTile);
  for (size_t first = 0; first < n; first += kBlockTiles) {
    const size_t last = first + kBlockTiles;
    Block diagonal = l->block(first);
    if (!factor_block(&diagonal)) return false;
    l->set_block(first, diagonal);
    // A row below times (L^T)^-1: its products with the inverse's rows.
    const Block turned_inverse = turned_block(inverse_of(diagonal), 1.0f);
    hosted::shared_loop(pool, n - last, [&](size_t task, size_t) {
      const size_t i = last + task;
      float left[kBlock * kTile];
      turn_tiles(l->tile(i, first), kBlockTiles, 1.0f, left);
      for (size_t j = 0; j < kBlockTiles; ++j) {
        float* const tile = l->tile(i, first + j);
        std::fill_n(tile, kTileValues, 0.0f);
        tile_products().floats(left, kTile, kTile, turned_inverse.data() + j * kBlock * kTile,
                               kBlock, tile, kTile);
      }
      turn_tiles(l->tile(i, first), kBlockTiles, 1.0f, turned.data() + i * kBlock * kTile);
      turn_tiles(l->tile(i, first), kBlockTiles, -1.0f, negative.data() + i * kBlock * kTile);
    });
    hosted::shared_loop(pool, n - last, [&](size_t task, size_t) {
      const size_t i = last + task;
      for (size_t j = last; j <= i; ++j) {
        tile_products().floats(negative.data() + i * kBlock * kTile, kTile, kTile,
                               turned.data() + j * kBlock * kTile, kBlock, l->tile(i, j), kTile);
      }
    });
  }
  return true;
}

// x = l^-1 as panels of columns, block of rows by block of rows: x.floats(c)[i * 16 + j] is row i,
// column 16 c + j.
PanelMatrix invert_lower(hosted::ThreadPool* pool, const TiledSquare& l) {
  const size_t n = l.n_tiles();
  PanelMatrix x(n * kTile, n * kTile, PanelFormat::kF32);
  std::vector<float> left(n * kTileValues * kBlockTiles);  // [kBlockTiles][rows before][16]
  for (size_t first = 0; first < n; first += kBlockTiles) {
    const Block inverse = inverse_of(l.block(first));
    const Block negative = turned_block(inverse, -1.0f);
    const size_t n_before = first * kTile;
    for (size_t t = 0; t < kBlockTiles; ++t) {
      turn_tiles(l.tile(first + t, 0), first, 1.0f, left.data() + t * n_before * kTile);
    }
    hosted::shared_loop(pool, first, [&](size_t c, size_t) {
      // Columns are zero above the diagonal.
      const size_t begin = c * kTile;
      float products[kBlock * kTile] = {};
      for (size_t t = 0; t < kBlockTiles; ++t) {
        tile_products().floats(left.data() + (t * n_before + begin) * kTile, kTile, kTile,
                               x.floats(c) + begin * kTile, n_before - begin,
                               products + t * kTileValues, kTile);
      }
      for (size_t t = 0; t < kBlockTiles; ++t) {
        tile_products().floats(negative.data() + t * kBlock * kTile, kTile, kTile, products, kBlock,
                               x.floats(c) + (n_before + t * kTile) * kTile, kTile);
      }
    });
    for (size_t i = 0; i < kBlock; ++i) {
      for (size_t j = 0; j <= i; ++j) {
        x.at(n_before + j, n_before + i) = inverse[i * kBlock + j];
      }
    }
  }
  return x;
}

}  // namespace

bool inverse_factor(hosted::ThreadPool* pool, const std::vector<float>& a, size_t n,
                    PanelMatrix* turned) {
  // With rows and columns in reverse, A = R * R^T with an upper triangular R, whose inverse is U.
  PanelMatrix inverse;
  {
    TiledSquare reversed(n);
    for (size_t i = 0; i < reversed.n_tiles() * kTile; ++i) reversed.at(i, i) = 1;
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j <= i; ++j) reversed.at(i, j) = a[(n - 1 - j) * n + n - 1 - i];
    }
    if (!factor(pool, &reversed)) return false;
    inverse = invert_lower(pool, reversed);
  }
  *turned = PanelMatrix(n, n, PanelFormat::kF32);
  hosted::shared_loop(pool, turned->n_panels(), [&](size_t panel, size_t) {
    for (size_t j = panel * kTile; j < std::min((panel + 1) * kTile, n); ++j) {
      for (size_t i = 0; i <= j; ++i) turned->at(j, i) = inverse.at(n - 1 - j, n - 1 - i);
    }
  });
  return true;
}

}  // namespace cria::converter
