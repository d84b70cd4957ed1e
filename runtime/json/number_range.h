// Numbers between bounds, exactly: decimals of up to 18 digits before the point and after it, and
// the automaton that writes one digit after the other where a number within the bounds can follow.
#pragma once

#include <cstdint>
#include <string_view>

namespace cria::json {

inline constexpr uint32_t kMostDigits = 18;                          // on each side of the point
inline constexpr uint64_t kDigitsLimit = 1'000'000'000'000'000'000;  // 10^18

// whole + part * 10^-18
struct Decimal {
  uint64_t whole;
  uint64_t part;
};

[[nodiscard]] constexpr bool is_less(Decimal a, Decimal b) {
  return a.whole < b.whole || (a.whole == b.whole && a.part < b.part);
}

enum class DecimalResult { kExact, kTooFine };

// The magnitude of a number of JSON; kDigitsLimit for all that are larger than can be written.
// kTooFine: digits further after the point than the eighteenth.
[[nodiscard]] DecimalResult read_decimal(std::string_view number, Decimal* magnitude,
                                         bool* negative);

// Magnitudes that may be written without and with a minus sign.
struct NumberRange {
  Decimal least[2];
  Decimal most[2];
  bool possible[2];
  bool fractions;
  bool exponents;  // only where there is no bound
};

[[nodiscard]] NumberRange any_number(bool integer);
void apply_minimum(Decimal magnitude, bool negative, bool exclusive, NumberRange* range);
void apply_maximum(Decimal magnitude, bool negative, bool exclusive, NumberRange* range);
// Whether a bound leaves no sign but numbers that have too many digits to be written.
[[nodiscard]] bool is_beyond_digits(const NumberRange& range);
// Once all bounds are there; false when no number is left.
[[nodiscard]] bool finish_range(bool integer, NumberRange* range);

// A number that is being written; zero-initialise. What there is of it can always be completed.
struct NumberState {
  enum class Phase : uint8_t { kNothing, kMinus, kWhole, kPoint, kPart, kMark, kSign, kExponent };

  uint64_t whole;
  uint64_t part;  // of n_part digits
  Phase phase;
  uint8_t n_whole;
  uint8_t n_part;
  uint8_t n_exponent;
  uint8_t negative;  // 0 or 1
  uint8_t reserved[3];
};

// Whether the byte can come next, and then the state after it.
[[nodiscard]] bool step_number(const NumberRange& range, char byte, NumberState* state);
[[nodiscard]] bool number_may_end(const NumberRange& range, const NumberState& state);

}  // namespace cria::json
