// The search for the scale of a group of weights, for sixteen groups at once: a lane for each, so
// that nothing is summed across and the bits are the same on every machine.
//
// For functions compiled once a level (quant/multiversion.h): all is inlined into them.
#pragma once

#include <iterator>

#include "quant/lanes.h"
#include "quant/quantize.h"
#include "quant/tile16.h"

namespace cria {

// x + kRoundMagic - kRoundMagic rounds |x| < 2^22 to an integer, half to even, without a library
// call, so that the loops below vectorize.
inline constexpr float kRoundMagic = 0x1.8p23f;

// Fractions of the covering scale that kMse tries: shrinking clips the largest weights for a finer
// grid; the values above one let -8 stand for a large positive neighbour's rounding.
inline constexpr float kInt4Factors[] = {1.06f, 1.03f, 1.0f,  0.97f, 0.94f, 0.91f, 0.88f,
                                         0.85f, 0.82f, 0.79f, 0.76f, 0.72f, 0.68f, 0.64f};

// Those of int8: every one another bf16, but hardly below one, where the largest weight is clipped
// by more steps than a finer grid is worth. Of so many grids one happens to suit the weights.
inline constexpr float kInt8GroupFactors[] = {0.992f, 1.0f,  1.008f, 1.016f, 1.024f,
                                              1.032f, 1.04f, 1.048f, 1.056f, 1.064f,
                                              1.072f, 1.08f, 1.088f, 1.096f};

// codes = round_half_even(weights * inverse), clamped first: the magic sum wants a small number.
CRIA_LANES_INLINE void find_codes(const Lanes& weights, const Lanes& inverse, float low, float high,
                                  Lanes* codes) {
  const Lanes lows = low - Lanes{};
  const Lanes highs = high - Lanes{};
  Lanes x = weights * inverse;
  x = x < lows ? lows : x;
  x = x > highs ? highs : x;
  *codes = (x + kRoundMagic) - kRoundMagic;
}

CRIA_LANES_INLINE void find_usable(const Lanes& scale, LaneInts* usable) {
  Lanes size;
  magnitude(scale, &size);
  *usable = size >= kSmallestScale;
}

// 1 / scale, 0 for 0.
CRIA_LANES_INLINE void invert(const Lanes& scale, Lanes* inverse) {
  *inverse = scale != 0.0f ? 1.0f / scale : Lanes{};
}

// The values that codes stand for, from kLow to kHigh, and the factors that are tried. nearest()
// gives those next to weights * inverse, codes_of() their codes.
template <int kLowest, int kHighest, const auto& kTried>
struct WholeGrid {
  static constexpr float kLow = kLowest;
  static constexpr float kHigh = kHighest;
  static constexpr const auto& kFactors = kTried;
  CRIA_LANES_INLINE static void nearest(const Lanes& weights, const Lanes& inverse, Lanes* values) {
    find_codes(weights, inverse, kLow, kHigh, values);
  }
  CRIA_LANES_INLINE static void codes_of(const Lanes& weights, const Lanes& inverse, Lanes* codes) {
    nearest(weights, inverse, codes);
  }
};
using EvenGrid = WholeGrid<-8, 7, kInt4Factors>;
using Int8Grid = WholeGrid<-127, 127, kInt8GroupFactors>;

// Values that lie midway take the lower one.
struct NlGrid {
  static constexpr size_t kValues = std::size(kInt4NlValues);
  static constexpr float kLow = kInt4NlValues[0];
  static constexpr float kHigh = kInt4NlValues[kValues - 1];
  static constexpr float kLowestCode = -8.0f;
  static constexpr const auto& kFactors = kInt4Factors;

  static constexpr float middle(size_t i) {
    return 0.5f * static_cast<float>(kInt4NlValues[i - 1] + kInt4NlValues[i]);
  }
  static constexpr float step(size_t i) {
    return static_cast<float>(kInt4NlValues[i] - kInt4NlValues[i - 1]);
  }
  CRIA_LANES_INLINE static void nearest(const Lanes& weights, const Lanes& inverse, Lanes* values) {
    const Lanes x = weights * inverse;
    Lanes sum = kLow - Lanes{};
#pragma GCC unroll 16
    for (size_t i = 1; i < kValues; ++i) sum += x > middle(i) ? step(i) - Lanes{} : Lanes{};
    *values = sum;
  }
  CRIA_LANES_INLINE static void codes_of(const Lanes& weights, const Lanes& inverse, Lanes* codes) {
    const Lanes x = weights * inverse;
    Lanes sum = kLowestCode - Lanes{};
#pragma GCC unroll 16
    for (size_t i = 1; i < kValues; ++i) sum += x > middle(i) ? 1.0f - Lanes{} : Lanes{};
    *codes = sum;
  }
};

// What a weight's squared error counts, and whether that counts in a least-squares scale too.
//
// By its size: plain squared error favours the many small weights of a group; this costs a trained
// model less (docs/numerics.md has the perplexities).
struct BySize {
  static constexpr bool kFits = false;
  CRIA_LANES_INLINE void weigh(size_t /*i*/, const Lanes& weights, Lanes* x) const {
    Lanes size;
    magnitude(weights, &size);
    *x *= size;
  }
};
// By a number of its column.
struct ByColumn {
  static constexpr bool kFits = true;
  const float* importance;
  CRIA_LANES_INLINE void weigh(size_t i, const Lanes& /*weights*/, Lanes* x) const {
    *x *= importance[i];
  }
};

template <class Grid, class Weigh>
class GroupSearch {
 public:
  // values  [group_size][kLanes]: a lane's group, zeros for what it lacks; outlives this
  CRIA_LANES_INLINE GroupSearch(const float* values, size_t group_size, const Weigh& weigh)
      : values_(values), group_size_(group_size), weigh_(weigh) {}

  // The scale of each group, bf16 values; zero when the group is, or nearly.
  CRIA_LANES_INLINE void find_scales(QuantMethod method, ScaleSigns signs, Lanes* scales) const {
    Lanes covering, opposite;
    find_covering(&covering, &opposite);
    if (signs == ScaleSigns::kBoth) {
      // The direction in which the grid reaches the largest weight with -8, so with less scale.
      Lanes size;
      magnitude(opposite, &size);
      const LaneInts turn = size < covering;
      const Lanes first = turn ? opposite : covering;
      opposite = turn ? covering : opposite;
      covering = first;
    }
    *scales = covering;
    round_to_bf16(scales);
    LaneInts usable;
    find_usable(*scales, &usable);
    if (method == QuantMethod::kMse) {
      Lanes best_error;
      find_error(*scales, &best_error);
      for (const float factor : Grid::kFactors) {
        try_scale(covering * factor, scales, &best_error);
        if (signs == ScaleSigns::kBoth) try_scale(opposite * factor, scales, &best_error);
      }
      Lanes fitted;
      fit_scale(*scales, &fitted);
      try_scale(fitted, scales, &best_error);
    }
    *scales = usable ? *scales : Lanes{};
  }

 private:
  // The positive scale at which the grid just reaches the largest weight, and the negative one.
  CRIA_LANES_INLINE void find_covering(Lanes* scale, Lanes* opposite) const {
    Lanes low = {};
    Lanes high = {};
    for (size_t i = 0; i < group_size_; ++i) {
      Lanes weights;
      load(values_ + i * kLanes, &weights);
      low = weights < low ? weights : low;
      high = weights > high ? weights : high;
    }
    const Lanes for_high = high / Grid::kHigh;
    const Lanes for_low = low / Grid::kLow;
    *scale = for_high > for_low ? for_high : for_low;
    const Lanes turned_high = high / Grid::kLow;
    const Lanes turned_low = low / Grid::kHigh;
    *opposite = turned_high < turned_low ? turned_high : turned_low;
  }

  CRIA_LANES_INLINE void find_error(const Lanes& scale, Lanes* error) const {
    const Lanes inverse = 1.0f / scale;
    Lanes sum = {};
    for (size_t i = 0; i < group_size_; ++i) {
      Lanes weights;
      load(values_ + i * kLanes, &weights);
      Lanes values;
      Grid::nearest(weights, inverse, &values);
      const Lanes d = weights - values * scale;
      Lanes squared = d * d;
      weigh_.weigh(i, weights, &squared);
      sum += squared;
    }
    *error = sum;
  }

  CRIA_LANES_INLINE void try_scale(const Lanes& candidate, Lanes* best, Lanes* best_error) const {
    Lanes scale = candidate;
    round_to_bf16(&scale);
    Lanes error;
    find_error(scale, &error);
    LaneInts usable;
    find_usable(scale, &usable);
    const LaneInts better = (error < *best_error) & usable;
    *best = better ? scale : *best;
    *best_error = better ? error : *best_error;
  }

  // The scale that fits best to the codes another scale gives: sum(w * q) / sum(q * q).
  CRIA_LANES_INLINE void fit_scale(const Lanes& scale, Lanes* fitted) const {
    const Lanes inverse = 1.0f / scale;
    Lanes wq = {};
    Lanes qq = {};
    for (size_t i = 0; i < group_size_; ++i) {
      Lanes weights, codes;
      load(values_ + i * kLanes, &weights);
      Grid::nearest(weights, inverse, &codes);
      Lanes with_weights = weights * codes;
      Lanes with_codes = codes * codes;
      if constexpr (Weigh::kFits) {
        weigh_.weigh(i, weights, &with_weights);
        weigh_.weigh(i, weights, &with_codes);
      }
      wq += with_weights;
      qq += with_codes;
    }
    *fitted = qq > 0.0f ? wq / qq : scale;
  }

  const float* values_;
  size_t group_size_;
  Weigh weigh_;
};

}  // namespace cria
