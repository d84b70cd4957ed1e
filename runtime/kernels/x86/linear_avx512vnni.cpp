// Matrix products for processors with AVX-512 VNNI. Contracts are in runtime/kernels/kernels.h.
//
// A tile's 16 rows are the lanes of one register. Weights go to vpdpbusd as unsigned bytes, code +
// offset; starting each group's sum at -offset * sum(activations) takes the offset out again.
#include "runtime/kernels/x86/kernels_avx512vnni.h"

#if !defined(__AVX512F__) || !defined(__AVX512BW__) || !defined(__AVX512VNNI__)
#error "Build this file with the flags of its ending (cmake/KernelFlags.cmake)."
#endif

#include <immintrin.h>

#include "runtime/kernels/weight_fetch.h"
#include "runtime/kernels/x86/lanes_avx512.h"
#include "runtime/kernels/x86/nl_bytes.h"

namespace cria {
namespace {

constexpr size_t kQuads = kActivationGroup / 4;
constexpr size_t kStepGroups = 8;  // groups that are prepared together
static_assert(kLanes == kTileRows);
constexpr size_t kMaxRows = 6;  // with two tiles, what 32 registers hold
static_assert(kMaxRows == kIntegerRowsOfSingleTiles);

// One call's matrix, activations and output.
struct Product {
  const uint8_t* codes;
  const uint8_t* scales;
  size_t tile_code_bytes;
  size_t tile_scale_bytes;
  size_t n_groups;
  unsigned scale_shift;
  size_t rows;
  const int8_t* x;
  const float* x_scales;
  const int32_t* x_sums;
  size_t n_rows;  // of x
  float* y;
  size_t y_stride;
};

__m512i broadcast4(const int8_t* p) {
  int32_t quad;
  __builtin_memcpy(&quad, p, sizeof quad);
  return _mm512_set1_epi32(quad);
}

// Of a group's activations: they are loaded once, where each four of them would be a load of its
// own.
[[gnu::always_inline]] inline __m512i group_of(const int8_t* p) {
  return _mm512_castsi256_si512(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
[[gnu::always_inline]] inline __m512i quad_of(__m512i group, size_t quad) {
  return _mm512_permutexvar_epi32(_mm512_set1_epi32(static_cast<int>(quad)), group);
}

// The kinds of weights: pair() gives the bytes for inputs 4j.. and 4(j + 4).. of a group, scale()
// what is scales_at() bytes after its tile's first scales. Codes of kGroupsOfBlock groups, each at
// a place, are in one block of kGroupBytes.
struct Int4 {
  static constexpr int32_t kOffset = 8;
  static constexpr size_t kGroupsOfBlock = 1;
  static constexpr size_t kGroupBytes = 256;
  static constexpr size_t kGroupScaleBytes = kTileRows * 2;
  static constexpr size_t kFetchAhead = kFetchFar;  // by group

  static void pair(const uint8_t* group, size_t /*place*/, size_t j, __m512i* first,
                   __m512i* second) {
    const __m512i low_bits = _mm512_set1_epi8(0x0f);
    const __m512i line = _mm512_loadu_si512(group + j * kLineBytes);
    *first = _mm512_and_si512(line, low_bits);
    *second = _mm512_and_si512(_mm512_srli_epi16(line, 4), low_bits);
  }

  static size_t scales_at(size_t group, unsigned shift) {
    return (group >> shift) * kGroupScaleBytes;
  }

  static __m512 scale(const uint8_t* p) {
    const __m256i bf16 = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bf16), 16));
  }
};

struct Int4Nl : Int4 {
  static constexpr int32_t kOffset = kInt4NlLargest;

  static void pair(const uint8_t* group, size_t place, size_t j, __m512i* first, __m512i* second) {
    const __m512i values = _mm512_broadcast_i32x4(nl_bytes());
    Int4::pair(group, place, j, first, second);
    *first = _mm512_shuffle_epi8(values, *first);
    *second = _mm512_shuffle_epi8(values, *second);
  }
};

struct Int8 {
  static constexpr int32_t kOffset = 128;
  static constexpr size_t kGroupsOfBlock = 1;
  static constexpr size_t kGroupBytes = 512;
  static constexpr size_t kGroupScaleBytes = 0;  // one a row

  static void pair(const uint8_t* group, size_t /*place*/, size_t j, __m512i* first,
                   __m512i* second) {
    const __m512i offset = _mm512_set1_epi8(static_cast<char>(0x80));
    *first = _mm512_xor_si512(_mm512_loadu_si512(group + j * kLineBytes), offset);
    *second = _mm512_xor_si512(_mm512_loadu_si512(group + (j + 4) * kLineBytes), offset);
  }

  static size_t scales_at(size_t /*group*/, unsigned /*shift*/) { return 0; }

  static __m512 scale(const uint8_t* p) { return _mm512_loadu_ps(p); }
};

// A scale is for one group of activations.
struct Int8G32 : Int8 {
  static constexpr size_t kGroupScaleBytes = Int4::kGroupScaleBytes;
  // Its own lines, all before the first is used: faster than not asking, or asking further ahead
  // (docs/performance.md, "What made the difference"). Two rows do as one.
  static constexpr size_t kFetchAhead = 0;

  static size_t scales_at(size_t group, unsigned /*shift*/) { return group * kGroupScaleBytes; }

  static __m512 scale(const uint8_t* p) { return Int4::scale(p); }
};

// Of kBits a code. A bit counts twice: its bytes are 0 and 2.
template <unsigned kBits>
struct Bits {
  static constexpr int32_t kOffset = 1;
  static constexpr size_t kGroupsOfBlock = 4 / kBits;
  static constexpr size_t kGroupBytes = 256;  // a block's
  static constexpr size_t kGroupScaleBytes = kTileRows * 2;
  static constexpr size_t kFetchAhead = kFetchFar;
  static constexpr unsigned kTwice = kBits == 1 ? 1 : 0;
  static constexpr unsigned kMask = (1u << kBits) - 1;

  static void pair(const uint8_t* block, size_t place, size_t j, __m512i* first, __m512i* second) {
    const __m512i mask = _mm512_set1_epi8(static_cast<char>(kMask << kTwice));
    const __m512i line = _mm512_loadu_si512(block + j * kLineBytes);
    const auto down = static_cast<int>(2 * kBits * place - kTwice);
    *first = _mm512_and_si512(_mm512_rorv_epi32(line, _mm512_set1_epi32(down)), mask);
    *second = _mm512_and_si512(
        _mm512_rorv_epi32(line, _mm512_set1_epi32(down + static_cast<int>(kBits))), mask);
  }

  static size_t scales_at(size_t group, unsigned /*shift*/) {
    return group / kGroupsOfBlock * kGroupScaleBytes;
  }

  static __m512 scale(const uint8_t* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
};

void store_tile(const Product& p, size_t row, size_t tile, __m512 value) {
  const size_t first = tile * kTileRows;
  _mm512_mask_storeu_ps(p.y + row * p.y_stride + first, lanes_of(p.rows - first), value);
}

// GCC drops a call of a function that does nothing but fetch.
[[gnu::always_inline]] inline void fetch(const uint8_t* p, size_t n_bytes) {
  for (size_t i = 0; i < n_bytes; i += kLineBytes) {
    __builtin_prefetch(p + i);
  }
}

// What is prepared of a row for kStepGroups groups: the sums' starts, which take offset times the
// activations out again, and the scales. It is read one by one, and must not be right after these
// wide stores: such a load waits until they are in the cache.
struct RowStep {
  alignas(64) int32_t starts[kStepGroups];
  float scales[kStepGroups];
};

// For groups [begin, end) of a row.
[[gnu::always_inline]] inline void prepare(const Product& p, size_t row, size_t begin, size_t end,
                                           int32_t offset, RowStep* step) {
  const auto mask = static_cast<__mmask8>((1u << (end - begin)) - 1);
  const size_t at = row * p.n_groups + begin;
  const __m256i sums = _mm256_maskz_loadu_epi32(mask, p.x_sums + at);
  _mm256_store_si256(reinterpret_cast<__m256i*>(step->starts),
                     _mm256_mullo_epi32(sums, _mm256_set1_epi32(-offset)));
  _mm256_store_ps(step->scales, _mm256_maskz_loadu_ps(mask, p.x_scales + at));
}

// Where a block's weights come from: pair() and scale() as those of a kind of weights, for a group
// and one of the block's tiles.
template <class Weights>
struct Packed {
  const uint8_t* codes;
  const uint8_t* scales;
  size_t tile_code_bytes;
  size_t tile_scale_bytes;
  unsigned scale_shift;

  Packed(const Product& p, size_t tile)
      : codes(p.codes + tile * p.tile_code_bytes),
        scales(p.scales + tile * p.tile_scale_bytes),
        tile_code_bytes(p.tile_code_bytes),
        tile_scale_bytes(p.tile_scale_bytes),
        scale_shift(p.scale_shift) {}

  void pair(size_t group, size_t t, size_t j, __m512i* first, __m512i* second) const {
    Weights::pair(codes_of(group, t), group % Weights::kGroupsOfBlock, j, first, second);
  }
  [[nodiscard]] const uint8_t* codes_of(size_t group, size_t t) const {
    return codes + t * tile_code_bytes + group / Weights::kGroupsOfBlock * Weights::kGroupBytes;
  }
  [[nodiscard]] const uint8_t* scales_of(size_t group, size_t t) const {
    return scales + t * tile_scale_bytes + Weights::scales_at(group, scale_shift);
  }
  [[nodiscard]] __m512 scale(size_t group, size_t t) const {
    return Weights::scale(scales_of(group, t));
  }
};

// kStepGroups groups of kTiles tiles: codes as vpdpbusd takes them, scales as floats.
template <size_t kTiles>
struct Panel {
  alignas(64) uint8_t codes[kStepGroups][kTiles][kQuads][kLineBytes];
  alignas(64) float scales[kStepGroups][kTiles][kTileRows];
};

template <size_t kTiles>
struct Unpacked {
  const Panel<kTiles>* panel;

  void pair(size_t group, size_t t, size_t j, __m512i* first, __m512i* second) const {
    *first = _mm512_load_si512(panel->codes[group][t][j]);
    *second = _mm512_load_si512(panel->codes[group][t][j + kQuads / 2]);
  }
  [[nodiscard]] __m512 scale(size_t group, size_t t) const {
    return _mm512_load_ps(panel->scales[group][t]);
  }
};

// Weights as they come, which go into a panel too; groups count from begin.
template <class Weights, size_t kTiles>
struct Unpacking {
  Packed<Weights> from;
  size_t begin;
  Panel<kTiles>* panel;

  void pair(size_t group, size_t t, size_t j, __m512i* first, __m512i* second) const {
    from.pair(begin + group, t, j, first, second);
    _mm512_store_si512(panel->codes[group][t][j], *first);
    _mm512_store_si512(panel->codes[group][t][j + kQuads / 2], *second);
  }
  [[nodiscard]] __m512 scale(size_t group, size_t t) const {
    const __m512 value = from.scale(begin + group, t);
    _mm512_store_ps(panel->scales[group][t], value);
    return value;
  }
};

// Adds groups [begin, begin + n_groups) to acc: acc += float(dot product) * (weight scale *
// activation scale). Before each calls fetch_for(group). x[r] and steps[r] are for the first of
// them. kLoadsGroups: activations come from a register a group, not four by four.
template <bool kLoadsGroups = false, size_t kTiles, size_t kRows, class Weights, class Fetch>
[[gnu::always_inline]] inline void add_groups(const Weights& weights, size_t begin, size_t n_groups,
                                              const int8_t* const (&x)[kRows], const RowStep* steps,
                                              const Fetch& fetch_for,
                                              __m512 (&acc)[kRows][kTiles]) {
  for (size_t g = 0; g < n_groups; ++g) {
    fetch_for(begin + g);
    __m512i sums[kRows][kTiles];
    __m512i x_groups[kRows];
#pragma GCC unroll 6
    for (size_t r = 0; r < kRows; ++r) {
      if constexpr (kLoadsGroups) x_groups[r] = group_of(x[r] + g * kActivationGroup);
#pragma GCC unroll 2
      for (size_t t = 0; t < kTiles; ++t) sums[r][t] = _mm512_set1_epi32(steps[r].starts[g]);
    }
#pragma GCC unroll 4
    for (size_t j = 0; j < kQuads / 2; ++j) {
      __m512i first[kTiles];
      __m512i second[kTiles];
#pragma GCC unroll 2
      for (size_t t = 0; t < kTiles; ++t) weights.pair(begin + g, t, j, &first[t], &second[t]);
#pragma GCC unroll 6
      for (size_t r = 0; r < kRows; ++r) {
        const int8_t* quads = x[r] + g * kActivationGroup + j * 4;
        const __m512i x_first = kLoadsGroups ? quad_of(x_groups[r], j) : broadcast4(quads);
        const __m512i x_second = kLoadsGroups ? quad_of(x_groups[r], j + kQuads / 2)
                                              : broadcast4(quads + kActivationGroup / 2);
#pragma GCC unroll 2
        for (size_t t = 0; t < kTiles; ++t) {
          sums[r][t] = _mm512_dpbusd_epi32(sums[r][t], first[t], x_first);
        }
#pragma GCC unroll 2
        for (size_t t = 0; t < kTiles; ++t) {
          sums[r][t] = _mm512_dpbusd_epi32(sums[r][t], second[t], x_second);
        }
      }
    }
#pragma GCC unroll 2
    for (size_t t = 0; t < kTiles; ++t) {
      const __m512 scale = weights.scale(begin + g, t);
#pragma GCC unroll 6
      for (size_t r = 0; r < kRows; ++r) {
        const __m512 both = _mm512_mul_ps(scale, _mm512_set1_ps(steps[r].scales[g]));
        acc[r][t] = _mm512_add_ps(acc[r][t], _mm512_mul_ps(_mm512_cvtepi32_ps(sums[r][t]), both));
      }
    }
  }
}

// The same for one row and one tile of trained bits. All groups of a block follow each other: its
// lines are loaded once, and codes stay where they are in their bytes.
template <unsigned kBits, class Fetch>
[[gnu::always_inline]] inline void add_blocks(const Packed<Bits<kBits>>& weights, size_t begin,
                                              size_t n_groups, const int8_t* x, const RowStep& step,
                                              const Fetch& fetch_for, __m512& acc) {
  using Weights = Bits<kBits>;
  static_assert(kStepGroups % Weights::kGroupsOfBlock == 0);
  for (size_t g = 0; g < n_groups; g += Weights::kGroupsOfBlock) {
    fetch_for(begin + g);
    __m512i lines[kQuads / 2];
#pragma GCC unroll 4
    for (size_t j = 0; j < kQuads / 2; ++j) {
      lines[j] = _mm512_loadu_si512(weights.codes_of(begin + g, 0) + j * kLineBytes);
    }
    const __m512 scale = weights.scale(begin + g, 0);
#pragma GCC unroll 4
    for (size_t place = 0; place < Weights::kGroupsOfBlock; ++place) {
      const auto shift = static_cast<unsigned>(2 * kBits * place);
      const __m512i even_mask = _mm512_set1_epi8(static_cast<char>(Weights::kMask << shift));
      const __m512i odd_mask =
          _mm512_set1_epi8(static_cast<char>(Weights::kMask << (shift + kBits)));
      const int8_t* const quads = x + (g + place) * kActivationGroup;
      __m512i even = _mm512_setzero_si512();
      __m512i odd = _mm512_setzero_si512();
#pragma GCC unroll 4
      for (size_t j = 0; j < kQuads / 2; ++j) {
        even = _mm512_dpbusd_epi32(even, _mm512_and_si512(lines[j], even_mask),
                                   broadcast4(quads + j * 4));
        odd = _mm512_dpbusd_epi32(odd, _mm512_and_si512(lines[j], odd_mask),
                                  broadcast4(quads + kActivationGroup / 2 + j * 4));
      }
      const __m512i sum = _mm512_add_epi32(even, _mm512_srai_epi32(odd, kBits));
      // A bit counts twice.
      const __m512i codes = shift >= Weights::kTwice
                                ? _mm512_srai_epi32(sum, shift - Weights::kTwice)
                                : _mm512_slli_epi32(sum, Weights::kTwice);
      const __m512i dot = _mm512_add_epi32(codes, _mm512_set1_epi32(step.starts[g + place]));
      const __m512 both = _mm512_mul_ps(scale, _mm512_set1_ps(step.scales[g + place]));
      acc = _mm512_add_ps(acc, _mm512_mul_ps(_mm512_cvtepi32_ps(dot), both));
    }
  }
}

// How a block asks for weights. One or two rows wait for memory so much that they ask ahead, as
// runtime/kernels/weight_fetch.h says; more ask for the next tile.
enum class Asking { kNothing, kByGroup, kAtPages, kNextTile };

// A tile times all the rows, of which there are kRows.
template <class Weights, Asking kAsking, size_t kRows>
[[gnu::noinline]] void multiply_block(const Product& p, size_t tile) {
  const Packed<Weights> weights(p, tile);
  const auto fetch_for = [&weights](size_t g) __attribute__((always_inline)) {
    if (g % Weights::kGroupsOfBlock != 0) return;  // its block was asked for
    const uint8_t* group = weights.codes_of(g, 0);
    if constexpr (kAsking == Asking::kAtPages) {
      fetch_next_page(group, Weights::kGroupBytes, kPageLines);
      fetch_next_page(weights.scales_of(g, 0), Weights::kGroupScaleBytes, kScalePageLines);
    } else if constexpr (kAsking == Asking::kByGroup) {
      fetch(group + Weights::kFetchAhead, Weights::kGroupBytes);
      constexpr size_t kScalesAhead =
          scales_ahead(Weights::kFetchAhead, Weights::kGroupBytes, Weights::kGroupScaleBytes);
      if constexpr (kScalesAhead > 0) fetch(weights.scales_of(g, 0) + kScalesAhead, 1);
    } else if constexpr (kAsking == Asking::kNextTile) {
      fetch(group + weights.tile_code_bytes, Weights::kGroupBytes);
    }
  };
  __m512 acc[kRows][1];
#pragma GCC unroll 6
  for (size_t r = 0; r < kRows; ++r) acc[r][0] = _mm512_setzero_ps();
  // Two, so that one is prepared while the other is read.
  RowStep steps[2][kRows];
  const auto prepare_rows = [&](size_t begin, RowStep * to) __attribute__((always_inline)) {
    const size_t end = begin + kStepGroups < p.n_groups ? begin + kStepGroups : p.n_groups;
    for (size_t r = 0; r < kRows; ++r) prepare(p, r, begin, end, Weights::kOffset, &to[r]);
    return end;
  };
  size_t end = p.n_groups > 0 ? prepare_rows(0, steps[0]) : 0;
  for (size_t begin = 0, i = 0; begin < p.n_groups; i ^= 1) {
    const size_t next = end;
    if (next < p.n_groups) end = prepare_rows(next, steps[i ^ 1]);
    const int8_t* x[kRows];
#pragma GCC unroll 6
    for (size_t r = 0; r < kRows; ++r) x[r] = p.x + (r * p.n_groups + begin) * kActivationGroup;
    if constexpr (Weights::kGroupsOfBlock > 1 && kRows == 1) {
      add_blocks(weights, begin, next - begin, x[0], steps[i][0], fetch_for, acc[0][0]);
      begin = next;
      continue;
    }
    add_groups<kAsking == Asking::kAtPages && kRows == 1>(weights, begin, next - begin, x, steps[i],
                                                          fetch_for, acc);
    begin = next;
  }
#pragma GCC unroll 6
  for (size_t r = 0; r < kRows; ++r) store_tile(p, r, tile, acc[r][0]);
}

template <class Weights, Asking kAsking>
void multiply_few_rows(const Product& p, size_t tile) {
  switch (p.n_rows) {
    case 1:
      return multiply_block<Weights, kAsking, 1>(p, tile);
    case 2:
      return multiply_block<Weights, kAsking, 2>(p, tile);
    case 3:
      return multiply_block<Weights, Asking::kNextTile, 3>(p, tile);
    case 4:
      return multiply_block<Weights, Asking::kNextTile, 4>(p, tile);
    case 5:
      return multiply_block<Weights, Asking::kNextTile, 5>(p, tile);
    default:
      return multiply_block<Weights, Asking::kNextTile, kMaxRows>(p, tile);
  }
}

// More rows than one block has go through a few groups of weights at a time: the first block
// unpacks them, the others find them unpacked in the first cache.
constexpr size_t kPanelBlocks = 5;  // a panel and what is kept of its rows: 15 KB of stack
constexpr size_t kPanelRows = kPanelBlocks * kMaxRows;

// What stays of a row from one panel to the next.
template <size_t kTiles>
struct alignas(64) RowSums {
  float acc[kTiles][kTileRows];
};

// What a block fetches of later weights with each of its groups.
struct Later {
  const uint8_t* codes;
  size_t group_bytes;
};

// n_groups groups of weights times kRows rows; x is where the first of them has the first group.
template <size_t kTiles, size_t kRows, class Weights>
[[gnu::noinline]] void multiply_panel(Weights weights, size_t n_groups, const int8_t* x,
                                      size_t x_stride, const RowStep* steps, Later later,
                                      RowSums<kTiles>* sums) {
  const int8_t* rows[kRows];
  __m512 acc[kRows][kTiles];
#pragma GCC unroll 6
  for (size_t r = 0; r < kRows; ++r) {
    rows[r] = x + r * x_stride;
    // While GCC knows the stride it finds each row again from it in every group.
    asm("" : "+r"(rows[r]));
#pragma GCC unroll 2
    for (size_t t = 0; t < kTiles; ++t) acc[r][t] = _mm512_load_ps(sums[r].acc[t]);
  }
  const auto fetch_for = [later](size_t g) __attribute__((always_inline)) {
    fetch(later.codes + g * later.group_bytes, later.group_bytes);
  };
  add_groups(weights, 0, n_groups, rows, steps, fetch_for, acc);
#pragma GCC unroll 6
  for (size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (size_t t = 0; t < kTiles; ++t) _mm512_store_ps(sums[r].acc[t], acc[r][t]);
  }
}

template <size_t kTiles>
void multiply_panel_rows(Unpacked<kTiles> panel, size_t n_groups, const int8_t* x, size_t x_stride,
                         const RowStep* steps, Later later, RowSums<kTiles>* sums, size_t n_rows) {
  switch (n_rows) {
    case 1:
      return multiply_panel<kTiles, 1>(panel, n_groups, x, x_stride, steps, later, sums);
    case 2:
      return multiply_panel<kTiles, 2>(panel, n_groups, x, x_stride, steps, later, sums);
    case 3:
      return multiply_panel<kTiles, 3>(panel, n_groups, x, x_stride, steps, later, sums);
    case 4:
      return multiply_panel<kTiles, 4>(panel, n_groups, x, x_stride, steps, later, sums);
    case 5:
      return multiply_panel<kTiles, 5>(panel, n_groups, x, x_stride, steps, later, sums);
    default:
      return multiply_panel<kTiles, kMaxRows>(panel, n_groups, x, x_stride, steps, later, sums);
  }
}

// Tiles [tile, tile + kTiles) times rows [first_row, first_row + n_rows), kMaxRows to kPanelRows of
// them; first_row % kMaxRows == 0.
template <class Weights, size_t kTiles>
void multiply_many_rows(const Product& p, size_t tile, size_t first_row, size_t n_rows) {
  const size_t all_blocks = (p.n_rows + kMaxRows - 1) / kMaxRows;
  constexpr size_t kBytes = kTiles * Weights::kGroupBytes / Weights::kGroupsOfBlock;  // of a group
  const size_t share = round_up(kBytes / all_blocks, kLineBytes);
  Panel<kTiles> panel;
  RowStep steps[kPanelRows];
  RowSums<kTiles> sums[kPanelRows];
  for (size_t r = 0; r < n_rows; ++r) {
    for (size_t t = 0; t < kTiles; ++t) _mm512_store_ps(sums[r].acc[t], _mm512_setzero_ps());
  }
  const size_t x_stride = p.n_groups * kActivationGroup;
  const size_t n_steps = (p.n_groups + kStepGroups - 1) / kStepGroups;
  for (size_t i = 0, begin = 0; i < n_steps; ++i) {
    const size_t end = (i + 1) * p.n_groups / n_steps;
    for (size_t r = 0; r < n_rows; ++r) {
      prepare(p, first_row + r, begin, end, Weights::kOffset, &steps[r]);
    }
    const int8_t* x = p.x + first_row * x_stride + begin * kActivationGroup;
    for (size_t row = 0; row < n_rows; row += kMaxRows) {
      // The blocks together fetch the next tiles.
      const size_t block = (first_row + row) / kMaxRows;
      const Later later = {
          .codes =
              p.codes + (tile + kTiles) * p.tile_code_bytes + (block * p.n_groups + begin) * share,
          .group_bytes = block * share < kBytes ? share : 0,
      };
      if (row == 0) {
        const Unpacking<Weights, kTiles> weights = {Packed<Weights>(p, tile), begin, &panel};
        multiply_panel<kTiles, kMaxRows>(weights, end - begin, x, x_stride, steps, later, sums);
      } else {
        multiply_panel_rows(Unpacked<kTiles>{&panel}, end - begin, x + row * x_stride, x_stride,
                            steps + row, later, sums + row, n_rows - row);
      }
    }
    begin = end;
  }
  for (size_t r = 0; r < n_rows; ++r) {
    for (size_t t = 0; t < kTiles; ++t) {
      store_tile(p, first_row + r, tile + t, _mm512_load_ps(sums[r].acc[t]));
    }
  }
}

// All the rows, of which there are more than kMaxRows.
template <class Weights, size_t kTiles>
void multiply_tiles(const Product& p, size_t tile) {
  // Blocks spread over as few panels as can be, so that each has two or more: the first one is
  // whole.
  const size_t n_blocks = (p.n_rows + kMaxRows - 1) / kMaxRows;
  const size_t n_panels = (n_blocks + kPanelBlocks - 1) / kPanelBlocks;
  for (size_t i = 0, row = 0; i < n_panels; ++i) {
    const size_t end = (i + 1) * n_blocks / n_panels * kMaxRows;
    const size_t n_rows = (end < p.n_rows ? end : p.n_rows) - row;
    multiply_many_rows<Weights, kTiles>(p, tile, row, n_rows);
    row += n_rows;
  }
}

template <class Weights, Asking kAsking>
void multiply(const MatrixShape& shape, const uint8_t* codes, const uint8_t* scales,
              size_t first_tile, size_t last_tile, const QuantizedRows& x, float* y,
              size_t y_stride) {
  const Product p = {
      .codes = codes,
      .scales = scales,
      .tile_code_bytes = tile_code_bytes(shape),
      .tile_scale_bytes = tile_scale_bytes(shape),
      .n_groups = padded_cols(shape) / kActivationGroup,
      .scale_shift = shape.group_size / 64u,  // of 32, 64 or 128
      .rows = shape.rows,
      .x = x.codes,
      .x_scales = x.scales,
      .x_sums = x.sums,
      .n_rows = x.n_rows,
      .y = y,
      .y_stride = y_stride,
  };
  if (x.n_rows == 0) return;
  if (x.n_rows <= kMaxRows) {
    // One stream: two tiles at once were slower.
    for (size_t t = first_tile; t < last_tile; ++t) multiply_few_rows<Weights, kAsking>(p, t);
    return;
  }
  size_t tile = first_tile;
  for (; tile + kMostTilesTogether <= last_tile; tile += kMostTilesTogether) {
    multiply_tiles<Weights, kMostTilesTogether>(p, tile);
  }
  if (tile < last_tile) multiply_tiles<Weights, 1>(p, tile);
}

// How kinds whose groups have scales ask, and how int8 does, which is one stream.
template <Asking kWithScales, Asking kOneStream>
void fill(Kernels* table) {
  table->products.of[place_of(format::NumberFormat::kInt4)].codes = multiply<Int4, kWithScales>;
  table->products.of[place_of(format::NumberFormat::kInt4Nl)].codes = multiply<Int4Nl, kWithScales>;
  table->products.of[place_of(format::NumberFormat::kInt8)].codes = multiply<Int8, kOneStream>;
  table->products.of[place_of(format::NumberFormat::kInt8G32)].codes =
      multiply<Int8G32, kWithScales>;
  table->products.of[place_of(format::NumberFormat::kBit1)].codes = multiply<Bits<1>, kWithScales>;
  table->products.of[place_of(format::NumberFormat::kBit2)].codes = multiply<Bits<2>, kWithScales>;
}

}  // namespace

void fill_linear_avx512vnni(Kernels* table, uint32_t isa_mask) {
  if ((isa_mask & CRIA_ISA_AVX_VNNI) != 0) {  // which tells Zen 5 from Zen 4
    return fill<Asking::kAtPages, Asking::kAtPages>(table);
  }
  fill<Asking::kByGroup, Asking::kNothing>(table);
}

}  // namespace cria
