// Scores of blocks of queries over the int8 cache for vectors narrower than AVX-512's, written once
// over a type that each ISA's file brings. The contract is in runtime/kernels/kernels.h.
//
// Keys are transposed once for all queries: each lane is a key. Part is a type of the anonymous
// namespace of that file, as in tile_kernels.h. It has:
//   Ints, Floats             registers of Part::kLanes lanes
//   kSteps                   operands that a group of 32 codes becomes; a product takes one of keys
//                            and one of a query
//   split_keys(rows, steps, stride)  the first 32 codes of kLanes keys, step i at steps[i * stride]
//   kSplitsQueries           whether queries' codes need
//   split_query(codes, steps)   a group's 32 codes; step i is what broadcast(steps, i) gives, else
//                            broadcast(codes, i)
//   start(q_sum), add(sum, keys, query)   the integer dot product of a group
//   zero(), load(p), all(x), to_floats(ints), add(a, b), multiply(a, b), store(p, v)   floats
#pragma once

#include "runtime/kernels/kernels.h"

namespace cria {

template <class Part>
struct ScoreBlocks {
  using Ints = typename Part::Ints;
  using Floats = typename Part::Floats;

  static constexpr size_t kVectors = 4;  // of keys, with two queries what 16 registers hold
  static constexpr size_t kKeys = kVectors * Part::kLanes;
  static constexpr size_t kBlockQueries = 2;
  static constexpr size_t kSplitBytes = 4 * Part::kSteps;  // of a query's group
  static constexpr size_t kMostQueries = 32;               // that are split at once

  // A group of up to kKeys keys and what becomes of the sums. Between two groups they stand where
  // the scores will.
  struct Group {
    Ints keys[Part::kSteps][kVectors];
    float key_scales[kKeys];
    size_t n_keys;
    float multiplier;
    bool is_first;
    bool is_last;

    // Adds the group to the sums of all keys of a query.
    void add(const Ints (&dots)[kVectors], float scale, float* scores) const {
      if (n_keys >= kKeys) return add_to(dots, scale, scores);
      float part[kKeys] = {};
      if (!is_first) __builtin_memcpy(part, scores, n_keys * sizeof(float));
      add_to(dots, scale, part);
      __builtin_memcpy(scores, part, n_keys * sizeof(float));
    }

    [[gnu::always_inline]] void add_to(const Ints (&dots)[kVectors], float scale,
                                       float* scores) const {
#pragma GCC unroll 4
      for (size_t v = 0; v < kVectors; ++v, scores += Part::kLanes) {
        const Floats before = is_first ? Part::zero() : Part::load(scores);
        const Floats dot = Part::multiply(Part::to_floats(dots[v]), Part::all(scale));
        const Floats sum = Part::add(before, dot);
        if (!is_last) {
          Part::store(scores, sum);
          continue;
        }
        const Floats key_scale = Part::load(key_scales + v * Part::kLanes);
        const Floats score = Part::multiply(Part::multiply(sum, key_scale), Part::all(multiplier));
        Part::store(scores, score);
      }
    }
  };

  // The codes of up to kKeys keys; past the last of n it is taken again, past n_codes are zeros.
  using WholeKeys = int8_t[kKeys][kActivationGroup];
  [[gnu::noinline]] static void fill_up(const int8_t* keys, size_t stride, size_t n, size_t n_codes,
                                        WholeKeys& whole) {
    __builtin_memset(whole, 0, sizeof whole);
    for (size_t i = 0; i < kKeys; ++i) {
      __builtin_memcpy(whole[i], keys + (i < n ? i : n - 1) * stride, n_codes);
    }
  }

  // The group of n_codes codes of the first kKeys of n keys; past the last it is taken again.
  static void load_keys(const int8_t* keys, size_t stride, size_t n, size_t n_codes, Group* group) {
    WholeKeys whole;
    if (n_codes < kActivationGroup) {
      fill_up(keys, stride, n, n_codes, whole);
      keys = whole[0];
      stride = kActivationGroup;
      n = kKeys;
    }
    const int8_t* row = keys;
    const int8_t* const last = keys + (n - 1) * stride;
#pragma GCC unroll 4
    for (size_t v = 0; v < kVectors; ++v) {
      const int8_t* rows[Part::kLanes];
#pragma GCC unroll 8
      for (size_t i = 0; i < Part::kLanes; ++i) {
        rows[i] = row;
        row = row < last ? row + stride : last;
      }
      Part::split_keys(rows, &group->keys[0][v], kVectors);
    }
  }

  // A group of some queries: query i's codes or steps, sum and scale.
  struct Queries {
    const int8_t* codes;
    size_t code_stride;
    const int32_t* sums;
    const float* scales;
    size_t stride;
  };

  // Queries [i, i + kN) of them.
  template <size_t kN>
  [[gnu::noinline]] static void score_queries(const Group& group, const Queries& q, size_t i,
                                              float* scores, size_t stride) {
    Ints dots[kN][kVectors];
    const int8_t* codes[kN];
#pragma GCC unroll 4
    for (size_t r = 0; r < kN; ++r) {
      codes[r] = q.codes + (i + r) * q.code_stride;
#pragma GCC unroll 4
      for (size_t v = 0; v < kVectors; ++v) dots[r][v] = Part::start(q.sums + (i + r) * q.stride);
    }
#pragma GCC unroll 8
    for (size_t k = 0; k < Part::kSteps; ++k) {
      Ints query[kN];
#pragma GCC unroll 4
      for (size_t r = 0; r < kN; ++r) query[r] = Part::broadcast(codes[r], k);
#pragma GCC unroll 4
      for (size_t v = 0; v < kVectors; ++v) {
        const Ints keys = group.keys[k][v];
#pragma GCC unroll 4
        for (size_t r = 0; r < kN; ++r) dots[r][v] = Part::add(dots[r][v], keys, query[r]);
      }
    }
#pragma GCC unroll 4
    for (size_t r = 0; r < kN; ++r) {
      group.add(dots[r], q.scales[(i + r) * q.stride], scores + (i + r) * stride);
    }
  }

  // Scores of a group of up to kMostQueries queries.
  static void score_group(const QuantizedRows& q, size_t d, size_t head_dim, const int8_t* keys,
                          const float* key_scales, float multiplier, size_t n, float* scores,
                          size_t stride) {
    const size_t n_groups = (head_dim + kActivationGroup - 1) / kActivationGroup;
    const size_t g = d / kActivationGroup;
    Queries queries = {q.codes + d, n_groups * kActivationGroup, q.sums + g, q.scales + g,
                       n_groups};
    alignas(64) int8_t steps[Part::kSplitsQueries ? kMostQueries : 1][kSplitBytes];
    if constexpr (Part::kSplitsQueries) {
      for (size_t i = 0; i < q.n_rows; ++i) {
        Part::split_query(queries.codes + i * queries.code_stride, steps[i]);
      }
      queries.codes = steps[0];
      queries.code_stride = kSplitBytes;
    }
    Group group;
    group.multiplier = multiplier;
    group.is_first = d == 0;
    group.is_last = head_dim - d <= kActivationGroup;
    for (size_t j = 0; j < n; j += kKeys) {
      group.n_keys = n - j < kKeys ? n - j : kKeys;
      load_keys(keys + j * head_dim + d, head_dim, n - j, head_dim - d, &group);
      // Not by a loop: GCC makes a masked load of one, which QEMU 7.2 reads whole.
      __builtin_memset(group.key_scales, 0, sizeof group.key_scales);
      __builtin_memcpy(group.key_scales, key_scales + j, group.n_keys * sizeof(float));
      size_t i = 0;
      for (; i + kBlockQueries <= q.n_rows; i += kBlockQueries) {
        score_queries<kBlockQueries>(group, queries, i, scores + j, stride);
      }
      if (i < q.n_rows) score_queries<1>(group, queries, i, scores + j, stride);
    }
  }

  static void scores_q8(const QuantizedRows& q, size_t head_dim, const int8_t* keys,
                        const float* key_scales, float multiplier, size_t n, float* scores,
                        size_t stride) {
    const size_t n_groups = (head_dim + kActivationGroup - 1) / kActivationGroup;
    for (size_t i = 0; i < q.n_rows; i += kMostQueries) {
      const size_t left = q.n_rows - i;
      const QuantizedRows some = {q.codes + i * n_groups * kActivationGroup,
                                  q.scales + i * n_groups, q.sums + i * n_groups,
                                  left < kMostQueries ? left : kMostQueries};
      for (size_t d = 0; d < head_dim; d += kActivationGroup) {
        score_group(some, d, head_dim, keys, key_scales, multiplier, n, scores + i * stride,
                    stride);
      }
    }
  }
};

}  // namespace cria
