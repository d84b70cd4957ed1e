// The search for the scale of a group of weights, for sixteen groups at once: a lane for each, so
// that nothing is summed across and the bits are the same on every machine.
//
// For functions compiled once a level (quant/numbers/multiversion.h): all is inlined into them.
#pragma once

#include <algorithm>
#include <bit>
#include <iterator>
#include <span>

#include "quant/numbers/lanes.h"
#include "quant/numbers/quantize.h"
#include "quant/numbers/tile16.h"

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

// Whether each factor is smaller than the one before it.
constexpr bool shrink(std::span<const float> factors) {
  return std::is_sorted(factors.rbegin(), factors.rend());
}

// codes = round_half_even(weights * inverse), clamped. The magic sum's bits are, as an integer:
// those of floats that are not negative order as the floats do, and those of others are below them.
// Of integers GCC makes one instruction a limit, at every level. What is no number becomes a limit.
CRIA_LANES_INLINE void find_codes(const Lanes& weights, const Lanes& inverse, float low, float high,
                                  Lanes* codes) {
  const LaneInts lows = std::bit_cast<int32_t>(kRoundMagic + low) - LaneInts{};
  const LaneInts highs = std::bit_cast<int32_t>(kRoundMagic + high) - LaneInts{};
  auto bits = (LaneInts)(weights * inverse + kRoundMagic);
  bits = bits < lows ? lows : bits;
  bits = bits > highs ? highs : bits;
  *codes = (Lanes)bits - kRoundMagic;
}

CRIA_LANES_INLINE void find_usable(const Lanes& scale, LaneInts* usable) {
  Lanes size;
  magnitude(scale, &size);
  *usable = size >= kSmallestScale;
}

// 1 / scale, 0 for 0.
CRIA_LANES_INLINE void invert(const Lanes& scale, Lanes* inverse) {
  LaneInts any;
  is_smaller(Lanes{}, scale, &any);
  select(any, 1.0f / scale, Lanes{}, inverse);
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
  static constexpr const auto& kFactors = kInt4Factors;

  static constexpr float middle(size_t i) {
    return 0.5f * static_cast<float>(kInt4NlValues[i - 1] + kInt4NlValues[i]);
  }
  static constexpr int32_t step(size_t i) { return kInt4NlValues[i] - kInt4NlValues[i - 1]; }
  // A mask; -1 where it is so.
  CRIA_LANES_INLINE static void is_above(const Lanes& x, float y, LaneInts* mask) {
    *mask = (LaneInts)(y - x) >> 31;
  }

  CRIA_LANES_INLINE static void nearest(const Lanes& weights, const Lanes& inverse, Lanes* values) {
    const Lanes x = weights * inverse;
    LaneInts sum = kInt4NlValues[0] - LaneInts{};
#pragma GCC unroll 16
    for (size_t i = 1; i < kValues; ++i) {
      LaneInts above;
      is_above(x, middle(i), &above);
      sum += above & step(i);
    }
    *values = __builtin_convertvector(sum, Lanes);
  }
  CRIA_LANES_INLINE static void codes_of(const Lanes& weights, const Lanes& inverse, Lanes* codes) {
    const Lanes x = weights * inverse;
    LaneInts sum = -kNibbleZero - LaneInts{};
#pragma GCC unroll 16
    for (size_t i = 1; i < kValues; ++i) {
      LaneInts above;
      is_above(x, middle(i), &above);
      sum -= above;
    }
    *codes = __builtin_convertvector(sum, Lanes);
  }
};

// What a weight's squared error counts, whether that counts in a least-squares scale too, and
// whether only the weight says it, wherever in its group it is.
//
// By its size: plain squared error favours the many small weights of a group; this costs a trained
// model less (docs/numerics.md has the perplexities).
struct BySize {
  static constexpr bool kFits = false;
  static constexpr bool kAnywhere = true;
  CRIA_LANES_INLINE void weigh(size_t /*i*/, const Lanes& weights, Lanes* x) const {
    Lanes size;
    magnitude(weights, &size);
    *x *= size;
  }
};
// By a number of its column.
struct ByColumn {
  static constexpr bool kFits = true;
  static constexpr bool kAnywhere = false;
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
    Reach reach, opposite;
    find_reaches(&reach, &opposite);
    if (signs == ScaleSigns::kBoth) {
      // The direction in which the grid reaches the largest weight with -8, so with less scale.
      prefer_less_scale(&reach, &opposite);
    }
    *scales = reach.scale;
    round_to_bf16(scales);
    LaneInts unusable;
    is_smaller(*scales, kSmallestScale - Lanes{}, &unusable);
    if (method == QuantMethod::kMse) {
      Lanes best_error;
      find_error(*scales, 1.0f / *scales, &best_error);
      for (const float factor : Grid::kFactors) {
        // Of one it is the scale that is there.
        if (factor != 1.0f) try_fraction(factor, &reach, scales, &best_error);
        if (signs == ScaleSigns::kBoth) try_fraction(factor, &opposite, scales, &best_error);
      }
      Lanes fitted;
      fit_scale(*scales, &fitted);
      round_to_bf16(&fitted);
      try_scale(fitted, 1.0f / fitted, scales, &best_error);
    }
    select(unusable, Lanes{}, *scales, scales);
  }

 private:
  // Weights at once: what is carried from one step to the next is in memory where registers are
  // narrower. Divides every group's size.
  static constexpr size_t kStep = 8;

  // A scale at which the grid just reaches the group's weights, and the weight at the grid's end.
  struct Reach {
    Lanes scale;
    Lanes weight;
    bool is_lost = false;  // whether smaller scales are worse than the best
  };

  // Swaps them where the second has less.
  CRIA_LANES_INLINE static void prefer_less_scale(Reach* first, Reach* second) {
    const Reach from = *first;
    LaneInts is_less;
    is_smaller(second->scale, first->scale, &is_less);
    select(is_less, second->scale, from.scale, &first->scale);
    select(is_less, second->weight, from.weight, &first->weight);
    select(is_less, from.scale, second->scale, &second->scale);
    select(is_less, from.weight, second->weight, &second->weight);
  }

  // The further of two reaches.
  CRIA_LANES_INLINE static void take_further(const Reach& a, const Reach& b, Reach* further) {
    LaneInts is_nearer;
    is_smaller(a.scale, b.scale, &is_nearer);
    select(is_nearer, b.scale, a.scale, &further->scale);
    select(is_nearer, b.weight, a.weight, &further->weight);
  }

  // With a positive scale, and with a negative one.
  CRIA_LANES_INLINE void find_reaches(Reach* reach, Reach* opposite) const {
    // The largest positive float has the largest bits as integers with a sign, the largest negative
    // one as those without.
    LaneInts most = {};
    LaneWords least = (LaneWords)(-0.0f - Lanes{});
    for (size_t begin = 0; begin < group_size_; begin += kStep) {
#pragma GCC unroll 8
      for (size_t i = begin; i < begin + kStep; ++i) {
        Lanes weights;
        load(values_ + i * kLanes, &weights);
        most = (LaneInts)weights > most ? (LaneInts)weights : most;
        least = (LaneWords)weights > least ? (LaneWords)weights : least;
      }
    }
    const auto high = (Lanes)most;
    const auto low = (Lanes)least;
    take_further({low / Grid::kLow, low}, {high / Grid::kHigh, high}, reach);
    take_further({low / Grid::kHigh, low}, {high / Grid::kLow, high}, opposite);
  }

  // What the error of weights i of the groups counts.
  CRIA_LANES_INLINE void weighted_error(size_t i, const Lanes& weights, const Lanes& scale,
                                        const Lanes& inverse, Lanes* error) const {
    Lanes values;
    Grid::nearest(weights, inverse, &values);
    const Lanes d = weights - values * scale;
    *error = d * d;
    weigh_.weigh(i, weights, error);
  }

  CRIA_LANES_INLINE void find_error(const Lanes& scale, const Lanes& inverse, Lanes* error) const {
    Lanes sum = {};
    for (size_t begin = 0; begin < group_size_; begin += kStep) {
#pragma GCC unroll 8
      for (size_t i = begin; i < begin + kStep; ++i) {
        Lanes weights, part;
        load(values_ + i * kLanes, &weights);
        weighted_error(i, weights, scale, inverse, &part);
        sum += part;
      }
    }
    *error = sum;
  }

  // Tries a fraction of a reach's scale, unless the error at the reach's weight alone is no less
  // than the best sum: no sum of what is not negative is less than a part of it, rounded as it is,
  // nor is it a number when a part is none. Below one, by more than bf16 rounds, that weight is
  // beyond the grid's end, so that its error grows with each smaller fraction.
  CRIA_LANES_INLINE void try_fraction(float factor, Reach* reach, Lanes* best,
                                      Lanes* best_error) const {
    if (reach->is_lost) return;
    Lanes scale = reach->scale * factor;
    round_to_bf16(&scale);
    const Lanes inverse = 1.0f / scale;
    if constexpr (Weigh::kAnywhere && shrink(Grid::kFactors)) {
      if (factor < 1.0f) {
        Lanes least;
        weighted_error(0, reach->weight, scale, inverse, &least);
        LaneInts may_be_better;
        is_smaller(least, *best_error, &may_be_better);
        reach->is_lost = !any(may_be_better);
        if (reach->is_lost) return;
      }
    }
    try_scale(scale, inverse, best, best_error);
  }

  // Takes a scale where it is better.
  CRIA_LANES_INLINE void try_scale(const Lanes& scale, const Lanes& inverse, Lanes* best,
                                   Lanes* best_error) const {
    Lanes error;
    find_error(scale, inverse, &error);
    LaneInts unusable, better;
    is_smaller(scale, kSmallestScale - Lanes{}, &unusable);
    select(unusable, *best_error, error, &error);
    is_smaller(error, *best_error, &better);
    select(better, scale, *best, best);
    select(better, error, *best_error, best_error);
  }

  // The scale that fits best to the codes another scale gives: sum(w * q) / sum(q * q).
  CRIA_LANES_INLINE void fit_scale(const Lanes& scale, Lanes* fitted) const {
    const Lanes inverse = 1.0f / scale;
    Lanes wq = {};
    Lanes qq = {};
    for (size_t begin = 0; begin < group_size_; begin += kStep) {
#pragma GCC unroll 8
      for (size_t i = begin; i < begin + kStep; ++i) {
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
    }
    LaneInts any;
    is_smaller(Lanes{}, qq, &any);
    select(any, wq / qq, scale, fitted);
  }

  const float* values_;
  size_t group_size_;
  Weigh weigh_;
};

}  // namespace cria
