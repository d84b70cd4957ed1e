#include "runtime/json/number_range.h"

#include <algorithm>
#include <iterator>

#include "runtime/json/text_part.h"

namespace cria::json {
namespace {

using Phase = NumberState::Phase;

constexpr Decimal kZero = {0, 0};
constexpr Decimal kLargest = {kDigitsLimit - 1, kDigitsLimit - 1};
constexpr uint32_t kMostExponentDigits = 2;  // 10^18 * 10^99 is a double

bool is_digit(char c) { return c >= '0' && c <= '9'; }

constexpr uint64_t power_of_ten(uint32_t n) {
  uint64_t power = 1;
  for (; n > 0; --n) power *= 10;
  return power;
}

// How far beyond an exclusive bound a number with a part lies, so that it does so as a double too,
// as most readers have it: two steps of doubles, or the last digit.
Decimal distance_from(Decimal bound, bool fractions) {
  if (!fractions) return {0, 1};
  constexpr uint32_t kStep = 51;  // 2^-51 of a number are one or two steps
  if (bound.whole >> kStep != 0) return {(bound.whole >> kStep) + 1, 0};
  constexpr uint64_t kPartsOfStep = (kDigitsLimit >> kStep) + 1;
  const uint64_t parts = bound.whole * kPartsOfStep + (bound.part >> kStep) + 1;
  return {parts / kDigitsLimit, parts % kDigitsLimit};
}

Decimal next_above(Decimal d, bool fractions) {
  const Decimal more = distance_from(d, fractions);
  const uint64_t part = d.part + more.part;
  return {d.whole + more.whole + part / kDigitsLimit, part % kDigitsLimit};
}

// d is not zero.
Decimal next_below(Decimal d, bool fractions) {
  const Decimal less = distance_from(d, fractions);
  const bool borrows = d.part < less.part;
  return {d.whole - less.whole - (borrows ? 1 : 0),
          d.part - less.part + (borrows ? kDigitsLimit : 0)};
}

// Whether a bound is kept as an exclusive one: where doubles are further apart than integers,
// numbers with a part are rounded beyond it.
bool keeps_off(Decimal bound, bool exclusive, const NumberRange& range) {
  return exclusive || (range.fractions && bound.whole >> 53 != 0);
}

// Takes what is below least out, or what is above most.
void raise_least(Decimal least, bool exclusive, bool minus, NumberRange* range) {
  if (keeps_off(least, exclusive, *range)) least = next_above(least, range->fractions);
  if (is_less(range->least[minus], least)) range->least[minus] = least;
}

void lower_most(Decimal most, bool exclusive, bool minus, NumberRange* range) {
  if (exclusive && !is_less(kZero, most)) {
    range->possible[minus] = false;
    return;
  }
  if (keeps_off(most, exclusive, *range)) most = next_below(most, range->fractions);
  if (is_less(most, range->most[minus])) range->most[minus] = most;
}

// Whether one of the whole numbers that begin with these digits lies in the range.
bool can_complete_whole(const NumberRange& range, const NumberState& s) {
  const Decimal& least = range.least[s.negative];
  const Decimal& most = range.most[s.negative];
  if (s.whole == 0) return least.whole == 0;
  for (uint32_t more = 0; more + s.n_whole <= kMostDigits; ++more) {
    const uint64_t power = power_of_ten(more);
    const uint64_t first = s.whole * power;
    if (first <= most.whole && first + (power - 1) >= least.whole) return true;
  }
  return false;
}

// Whether there is a number that begins so and has any digits after these n_part ones.
bool can_complete_part(const NumberRange& range, const NumberState& s) {
  const uint64_t power = power_of_ten(kMostDigits - s.n_part);
  const Decimal first = {s.whole, s.part * power};
  const Decimal last = {s.whole, s.part * power + (power - 1)};
  return !is_less(range.most[s.negative], first) && !is_less(last, range.least[s.negative]);
}

bool is_within(const NumberRange& range, const NumberState& s) {
  const Decimal d = {s.whole, s.part * power_of_ten(kMostDigits - s.n_part)};
  return !is_less(d, range.least[s.negative]) && !is_less(range.most[s.negative], d);
}

bool add_digit(const NumberRange& range, uint32_t digit, NumberState* s) {
  switch (s->phase) {
    case Phase::kNothing:
    case Phase::kMinus:
    case Phase::kWhole:
      if (s->n_whole == kMostDigits || (s->n_whole == 1 && s->whole == 0)) return false;
      s->phase = Phase::kWhole;
      s->whole = s->whole * 10 + digit;
      ++s->n_whole;
      return range.possible[s->negative] && can_complete_whole(range, *s);
    case Phase::kPoint:
    case Phase::kPart:
      if (s->n_part == kMostDigits) return false;
      s->phase = Phase::kPart;
      s->part = s->part * 10 + digit;
      ++s->n_part;
      return can_complete_part(range, *s);
    default:
      if (s->n_exponent == kMostExponentDigits) return false;
      s->phase = Phase::kExponent;
      ++s->n_exponent;
      return true;
  }
}

}  // namespace

DecimalResult read_decimal(std::string_view number, Decimal* magnitude, bool* negative) {
  *magnitude = kZero;
  *negative = number.starts_with('-');
  if (*negative) number.remove_prefix(1);
  const size_t mark = std::min(number.find_first_of("eE"), number.size());
  int32_t exponent = 0;
  if (mark < number.size()) {
    std::string_view digits = part_of(number, mark + 1);
    const bool is_below = digits.starts_with('-');
    if (!is_digit(digits[0])) digits.remove_prefix(1);
    constexpr int32_t kEnough = 1 << 24;  // more digits than a schema has
    for (const char c : digits) exponent = std::min(exponent * 10 + (c - '0'), kEnough);
    if (is_below) exponent = -exponent;
  }
  const std::string_view mantissa = part_of(number, 0, mark);
  const size_t n_whole = std::min(mantissa.find('.'), mantissa.size());
  // The power of ten that the digit at hand stands for.
  int32_t place = static_cast<int32_t>(n_whole) - 1 + exponent;
  constexpr auto kMost = static_cast<int32_t>(kMostDigits);
  bool is_too_large = false;
  bool is_too_fine = false;
  for (const char c : mantissa) {
    if (c == '.') continue;
    const auto digit = static_cast<uint64_t>(c - '0');
    if (digit != 0) {
      if (place >= kMost) {
        is_too_large = true;
      } else if (place >= 0) {
        magnitude->whole += digit * power_of_ten(static_cast<uint32_t>(place));
      } else if (place >= -kMost) {
        magnitude->part += digit * power_of_ten(static_cast<uint32_t>(place + kMost));
      } else {
        is_too_fine = true;
      }
    }
    --place;
  }
  if (is_too_large) *magnitude = {kDigitsLimit, 0};
  if (!is_less(kZero, *magnitude) && !is_too_fine) *negative = false;
  return is_too_fine && !is_too_large ? DecimalResult::kTooFine : DecimalResult::kExact;
}

NumberRange any_number(bool integer) {
  return {.least = {kZero, {0, 1}},  // no minus before a zero
          .most = {kLargest, kLargest},
          .possible = {true, true},
          .fractions = !integer,
          .exponents = !integer};
}

void apply_minimum(Decimal magnitude, bool negative, bool exclusive, NumberRange* range) {
  range->exponents = false;
  if (negative) {
    lower_most(magnitude, exclusive, true, range);
    return;
  }
  range->possible[1] = false;
  raise_least(magnitude, exclusive, false, range);
}

void apply_maximum(Decimal magnitude, bool negative, bool exclusive, NumberRange* range) {
  range->exponents = false;
  if (!negative) {
    lower_most(magnitude, exclusive, false, range);
    return;
  }
  range->possible[0] = false;
  raise_least(magnitude, exclusive, true, range);
}

bool is_beyond_digits(const NumberRange& range) {
  const Decimal most = range.fractions ? kLargest : Decimal{kDigitsLimit - 1, 0};
  return std::any_of(std::begin(range.least), std::end(range.least),
                     [most](Decimal least) { return is_less(most, least); });
}

bool finish_range(bool integer, NumberRange* range) {
  for (size_t minus = 0; minus < 2; ++minus) {
    if (integer) {
      Decimal& least = range->least[minus];
      if (least.part > 0) least = {least.whole + 1, 0};
      range->most[minus].part = 0;
    }
    if (is_less(range->most[minus], range->least[minus])) range->possible[minus] = false;
  }
  return range->possible[0] || range->possible[1];
}

bool step_number(const NumberRange& range, char byte, NumberState* state) {
  NumberState s = *state;
  const bool has_mantissa = s.phase == Phase::kWhole || s.phase == Phase::kPart;
  bool fits = false;
  if (is_digit(byte)) {
    fits = add_digit(range, static_cast<uint32_t>(byte - '0'), &s);
  } else if (byte == '-' && s.phase == Phase::kNothing) {
    s.negative = 1;
    s.phase = Phase::kMinus;
    fits = range.possible[1];
  } else if (byte == '.' && s.phase == Phase::kWhole && range.fractions) {
    s.phase = Phase::kPoint;
    fits = can_complete_part(range, s);
  } else if ((byte == 'e' || byte == 'E') && has_mantissa && range.exponents) {
    s.phase = Phase::kMark;
    fits = number_may_end(range, *state);
  } else if ((byte == '+' || byte == '-') && s.phase == Phase::kMark) {
    s.phase = Phase::kSign;
    fits = true;
  }
  if (fits) *state = s;
  return fits;
}

bool number_may_end(const NumberRange& range, const NumberState& state) {
  switch (state.phase) {
    case Phase::kWhole:
    case Phase::kPart:
      return is_within(range, state);
    case Phase::kExponent:
      return true;
    default:
      return false;
  }
}

}  // namespace cria::json
