// Numbers between bounds, held against decimals as texts: all that can be written of a few bytes.
#include "runtime/json/number_range.h"
#include "tests/support/long_under_asan.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

namespace cria::json {
namespace {

constexpr char kBytes[] = "-.0123456789";

struct Bounds {
  const char* minimum;  // null: none
  const char* maximum;
  bool exclusive_minimum;
  bool exclusive_maximum;
};

bool make_range(const Bounds& b, bool integer, NumberRange* range) {
  *range = any_number(integer);
  Decimal d = {};
  bool negative = false;
  if (b.minimum != nullptr) {
    EXPECT_EQ(read_decimal(b.minimum, &d, &negative), DecimalResult::kExact);
    apply_minimum(d, negative, b.exclusive_minimum, range);
  }
  if (b.maximum != nullptr) {
    EXPECT_EQ(read_decimal(b.maximum, &d, &negative), DecimalResult::kExact);
    apply_maximum(d, negative, b.exclusive_maximum, range);
  }
  return finish_range(integer, range);
}

// Hundredths, exactly: what is tried has at most two digits after the point.
int64_t hundredths(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  const size_t point = std::min(text.find('.'), text.size());
  std::string digits(text.substr(0, point));
  std::string part(point < text.size() ? text.substr(point + 1) : "");
  part.resize(2, '0');
  const int64_t value = std::strtoll((digits + part).c_str(), nullptr, 10);
  return negative ? -value : value;
}

bool is_number(std::string_view text, bool integer) {
  if (text.starts_with('-')) text.remove_prefix(1);
  const size_t point = std::min(text.find('.'), text.size());
  const std::string_view whole = text.substr(0, point);
  const bool has_part = point < text.size();
  if (whole.empty() || (whole.size() > 1 && whole[0] == '0')) return false;
  return !has_part || (!integer && point + 1 < text.size() &&
                       text.substr(point + 1).find_first_of(".-") == std::string_view::npos);
}

// Whether text can become a number within bounds is decided by what all longer texts are: the
// automaton must not die where one is left, nor go on where none is.
struct Tried {
  size_t n_numbers = 0;
  size_t n_left = 0;
};

void try_all(const Bounds& b, bool integer, const NumberRange& range, const NumberState& state,
             const std::string& text, Tried* tried) {
  constexpr size_t kMostBytes = 5;
  const size_t point = text.find('.');
  const bool in_hundredths = point == std::string::npos || text.size() - point <= 3;
  if (!in_hundredths) return;
  if (is_number(text, integer)) {
    const int64_t value = hundredths(text);
    bool within = !(value == 0 && text[0] == '-');
    if (b.minimum != nullptr) {
      const int64_t least = hundredths(b.minimum);
      within = within && (b.exclusive_minimum ? value > least : value >= least);
    }
    if (b.maximum != nullptr) {
      const int64_t most = hundredths(b.maximum);
      within = within && (b.exclusive_maximum ? value < most : value <= most);
    }
    ASSERT_EQ(number_may_end(range, state), within) << text;
    ++tried->n_numbers;
  } else {
    ASSERT_FALSE(number_may_end(range, state)) << text;
  }
  if (text.size() == kMostBytes) return;
  size_t n_next = 0;
  for (const char* c = kBytes; *c != 0; ++c) {
    NumberState next = state;
    if (!step_number(range, *c, &next)) continue;
    ++n_next;
    try_all(b, integer, range, next, text + *c, tried);
  }
  ASSERT_TRUE(n_next > 0 || number_may_end(range, state)) << text;
  ++tried->n_left;
}

// Every number of up to four bytes within the bounds is reached.
size_t count_within(const Bounds& b, bool integer, const NumberRange& range) {
  size_t n = 0;
  std::vector<std::string> texts = {""};
  for (size_t i = 0; i < texts.size(); ++i) {
    for (const char* c = kBytes; *c != 0 && texts[i].size() < 4; ++c)
      texts.push_back(texts[i] + *c);
    const std::string& text = texts[i];
    const bool well_formed = !text.empty() && text.find('-', 1) == std::string::npos &&
                             std::count(text.begin(), text.end(), '.') <= 1 &&
                             is_number(text, integer);
    if (!well_formed || (hundredths(text) == 0 && text[0] == '-')) continue;
    const int64_t value = hundredths(text);
    const bool above = b.minimum == nullptr || value > hundredths(b.minimum) ||
                       (value == hundredths(b.minimum) && !b.exclusive_minimum);
    const bool below = b.maximum == nullptr || value < hundredths(b.maximum) ||
                       (value == hundredths(b.maximum) && !b.exclusive_maximum);
    NumberState state = {};
    bool reached = true;
    for (const char c : text) reached = reached && step_number(range, c, &state);
    EXPECT_EQ(reached && number_may_end(range, state), above && below) << text;
    n += above && below ? 1 : 0;
  }
  return n;
}

TEST(NumberRange, WritesExactlyTheNumbersWithinIt) {
  CRIA_SKIP_UNDER_ASAN();
  const char* const values[] = {nullptr, "-120.5", "-7",    "-0.05", "0",   "0.3",
                                "1",     "9",      "10.25", "99",    "1001"};
  size_t n_ranges = 0;
  size_t n_numbers = 0;
  for (const char* minimum : values) {
    for (const char* maximum : values) {
      for (uint32_t k = 0; k < 8; ++k) {
        const Bounds b = {minimum, maximum, (k & 1) != 0, (k & 2) != 0};
        const bool integer = (k & 4) != 0;
        NumberRange range = {};
        const bool possible = make_range(b, integer, &range);
        // The longer walk on some, all numbers of four bytes on few: they take long.
        if (possible && k % 4 == 0) {
          Tried tried;
          try_all(b, integer, range, {}, "", &tried);
          n_numbers += tried.n_numbers;
        }
        const size_t n = possible ? count_within(b, integer, range) : 0;
        if (!possible && minimum != nullptr && maximum != nullptr) {
          EXPECT_GE(hundredths(minimum) + 100, hundredths(maximum));
        }
        n_numbers += n;
        ++n_ranges;
      }
    }
  }
  EXPECT_EQ(n_ranges, 11u * 11u * 8u);
  EXPECT_GT(n_numbers, 10000u);
}

// Numbers as near to a bound as can be written are on its right side as doubles too, as most
// readers have them.
TEST(NumberRange, KeepsItsBoundsForReadersOfDoubles) {
  const char* const values[] = {"1",
                                "-1",
                                "0.1",
                                "-0.1",
                                "0.3",
                                "99.99",
                                "1000",
                                "-123456.75",
                                "2251799813685248",
                                "9007199254740993",
                                "-9007199254740993",
                                "12345678901234567.5",
                                "0.000000000000000003",
                                "0.123456789012345678"};
  for (const char* const value : values) {
    for (const bool is_minimum : {false, true}) {
      for (const bool exclusive : {false, true}) {
        NumberRange range = {};
        const Bounds bounds = {is_minimum ? value : nullptr, is_minimum ? nullptr : value,
                               exclusive, exclusive};
        ASSERT_TRUE(make_range(bounds, false, &range));
        const double bound = std::strtod(value, nullptr);
        const bool negative = value[0] == '-';
        NumberState state = {};
        std::string text;
        if (negative) {
          ASSERT_TRUE(step_number(range, '-', &state));
          text += '-';
        }
        const char* const order = is_minimum == negative ? "9876543210." : "0123456789.";
        for (size_t n_tried = 0; n_tried < 40; ++n_tried) {
          // As many digits before the point as the bound has.
          const bool at_point = text.size() == std::string_view(value).find_first_of('.') ||
                                text.size() == std::string_view(value).size();
          NumberState next = state;
          char chosen = 0;
          if (at_point && step_number(range, '.', &next)) chosen = '.';
          for (const char* c = order; *c != 0 && chosen == 0; ++c) {
            next = state;
            if (step_number(range, *c, &next)) chosen = *c;
          }
          if (chosen == 0) break;
          state = next;
          text += chosen;
          if (!number_may_end(range, state)) continue;
          const double read = std::strtod(text.c_str(), nullptr);
          EXPECT_TRUE(is_minimum ? read >= bound : read <= bound) << text << " of " << value;
          EXPECT_TRUE(!exclusive || read != bound) << text << " of " << value;
        }
        EXPECT_GT(text.size(), 15U) << text << " of " << value;
      }
    }
  }
  // Integers are read exactly.
  NumberRange range = {};
  ASSERT_TRUE(make_range({"9007199254740992", "9007199254740994", true, true}, true, &range));
  NumberState state = {};
  for (const char c : std::string_view("9007199254740993")) {
    ASSERT_TRUE(step_number(range, c, &state));
  }
  EXPECT_TRUE(number_may_end(range, state));
}

TEST(NumberRange, ReadsDecimalsWithExponents) {
  const struct {
    const char* text;
    Decimal magnitude;
    bool negative;
  } cases[] = {{"0", {0, 0}, false},
               {"-0.0", {0, 0}, false},
               {"12e2", {1200, 0}, false},
               {"-1.5", {1, 500'000'000'000'000'000}, true},
               {"125E-2", {1, 250'000'000'000'000'000}, false},
               {"0.000000000000000001", {0, 1}, false},
               {"1e18", {kDigitsLimit, 0}, false},
               {"999999999999999999", {kDigitsLimit - 1, 0}, false},
               {"1e999999999", {kDigitsLimit, 0}, false},
               {"0e-999999999", {0, 0}, false}};
  for (const auto& c : cases) {
    Decimal d = {};
    bool negative = false;
    EXPECT_EQ(read_decimal(c.text, &d, &negative), DecimalResult::kExact) << c.text;
    EXPECT_EQ(d.whole, c.magnitude.whole) << c.text;
    EXPECT_EQ(d.part, c.magnitude.part) << c.text;
    EXPECT_EQ(negative, c.negative) << c.text;
  }
  Decimal d = {};
  bool negative = false;
  EXPECT_EQ(read_decimal("1e-19", &d, &negative), DecimalResult::kTooFine);
}

}  // namespace
}  // namespace cria::json
