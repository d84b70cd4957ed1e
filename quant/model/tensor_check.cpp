#include "quant/model/tensor_check.h"

#include <bit>
#include <cstring>

#include "quant/model/model_layout.h"

namespace cria {
namespace {

// A rule looks at words of one or more values: its violation() sets a bit of kBits where one of
// them is not allowed. Words are collected in lanes, without a branch, so that the loop becomes
// vectors.

struct Int8Code {
  using Word = uint8_t;
  static constexpr Word kBits = 0xff;
  static constexpr Word kForbidden = 0x80;
  static Word violation(Word code) { return code == kForbidden ? kBits : 0; }
};

// A float whose exponent bits are all set is infinite or no number: one more carries into the top
// bit.
template <uint32_t kExponents, uint32_t kLowestBits, uint32_t kTopBits>
struct Finite {
  using Word = uint32_t;
  static constexpr Word kBits = kTopBits;
  static Word violation(Word values) { return (values & kExponents) + kLowestBits; }
};
using FiniteF32 = Finite<0x7f800000, 0x00800000, 0x80000000>;
using FiniteF16Pairs = Finite<0x7c007c00, 0x04000400, 0x80008000>;
using FiniteBf16Pairs = Finite<0x7f807f80, 0x00800080, 0x80008000>;

// Negative; infinite or no number, as above; below the least normal number and not zero.
template <typename Bits, Bits kLeastNormal, Bits kTopBit>
struct Scale {
  using Word = Bits;
  static constexpr Word kBits = kTopBit;
  static Word violation(Word value) {
    const auto subnormal_or_zero = static_cast<Word>(value - kLeastNormal);
    const auto not_zero = static_cast<Word>(~(value - 1));
    return static_cast<Word>(value | (value + kLeastNormal) | (subnormal_or_zero & not_zero));
  }
};
using F32Scale = Scale<uint32_t, 0x00800000, 0x80000000>;
using Bf16Scale = Scale<uint16_t, 0x0080, 0x8000>;

// As above, of either sign: the exponent's rules are for the magnitude.
struct SignedBf16Scale {
  using Word = uint16_t;
  static constexpr Word kBits = 0x8000;
  static constexpr Word kLeastNormal = 0x0080;
  static Word violation(Word value) {
    const auto magnitude = static_cast<Word>(value & ~kBits);
    const auto subnormal_or_zero = static_cast<Word>(magnitude - kLeastNormal);
    const auto not_zero = static_cast<Word>(value | (0 - value));
    return static_cast<Word>((magnitude + kLeastNormal) | (subnormal_or_zero & not_zero));
  }
};

// The bits of floats that are not negative are in their order, and those of all others above.
struct RopeFrequency {
  using Word = uint32_t;
  static constexpr Word kBits = 0xffffffff;
  static constexpr Word kLargest = std::bit_cast<Word>(format::kMaxRopeFrequency);
  static Word violation(Word value) { return value > kLargest ? kBits : 0; }
};

// Zero bytes, which every rule allows, fill up the last word.
template <typename Rule>
typename Rule::Word violations_of(const uint8_t* bytes, size_t n_bytes) {
  typename Rule::Word word = 0;
  std::memcpy(&word, bytes, n_bytes);
  return Rule::violation(word);
}

template <typename Rule>
bool all_hold(const uint8_t* bytes, size_t n_bytes) {
  using Word = typename Rule::Word;
  constexpr size_t kLanes = 64 / sizeof(Word);
  constexpr size_t kStep = kLanes * sizeof(Word);
  Word lanes[kLanes] = {};
  size_t at = 0;
  for (; n_bytes - at >= kStep; at += kStep) {
    for (size_t i = 0; i < kLanes; ++i) {
      Word word;
      std::memcpy(&word, bytes + at + i * sizeof word, sizeof word);
      lanes[i] = static_cast<Word>(lanes[i] | Rule::violation(word));
    }
  }
  Word all = 0;
  for (const Word lane : lanes) all = static_cast<Word>(all | lane);
  for (; at < n_bytes; at += sizeof(Word)) {
    const size_t left = n_bytes - at < sizeof(Word) ? n_bytes - at : sizeof(Word);
    all = static_cast<Word>(all | violations_of<Rule>(bytes + at, left));
  }
  return (all & Rule::kBits) == 0;
}

}  // namespace

PlaneValues plane_values(const TensorSpec& spec, Plane plane) {
  if (spec.role == format::TensorRole::kRope) return PlaneValues::kRopeFrequencies;
  const bool is_scales = plane == Plane::kScales;
  switch (spec.shape.number_format) {
    case format::NumberFormat::kInt4:
    case format::NumberFormat::kInt4Nl:
      if (!is_scales) return PlaneValues::kNibbleCodes;
      return spec.has_signed_scales ? PlaneValues::kSignedBf16Scales : PlaneValues::kBf16Scales;
    case format::NumberFormat::kInt8:
      return is_scales ? PlaneValues::kF32Scales : PlaneValues::kInt8Codes;
    case format::NumberFormat::kInt8G32:
      return is_scales ? PlaneValues::kBf16Scales : PlaneValues::kInt8Codes;
    case format::NumberFormat::kBit1:
    case format::NumberFormat::kBit2:
      return is_scales ? PlaneValues::kF16Scales : PlaneValues::kTrainedBits;
    case format::NumberFormat::kF16:
      return PlaneValues::kF16;
    case format::NumberFormat::kBf16:
      return PlaneValues::kBf16;
    case format::NumberFormat::kF32:
      break;
  }
  return PlaneValues::kF32;
}

bool values_hold(PlaneValues values, const uint8_t* bytes, size_t n_bytes) {
  switch (values) {
    case PlaneValues::kNibbleCodes:
    case PlaneValues::kTrainedBits:
      break;
    case PlaneValues::kInt8Codes:
      return all_hold<Int8Code>(bytes, n_bytes);
    case PlaneValues::kF32:
      return all_hold<FiniteF32>(bytes, n_bytes);
    case PlaneValues::kF16:
    case PlaneValues::kF16Scales:
      return all_hold<FiniteF16Pairs>(bytes, n_bytes);
    case PlaneValues::kBf16:
      return all_hold<FiniteBf16Pairs>(bytes, n_bytes);
    case PlaneValues::kF32Scales:
      return all_hold<F32Scale>(bytes, n_bytes);
    case PlaneValues::kBf16Scales:
      return all_hold<Bf16Scale>(bytes, n_bytes);
    case PlaneValues::kSignedBf16Scales:
      return all_hold<SignedBf16Scale>(bytes, n_bytes);
    case PlaneValues::kRopeFrequencies:
      return all_hold<RopeFrequency>(bytes, n_bytes);
  }
  return true;
}

}  // namespace cria
