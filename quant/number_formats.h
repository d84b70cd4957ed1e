// The one list of number formats: their names, sizes and scales. Layouts and checks follow from it;
// what computes with a format differs by its kernel, and switches over all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>

#include "quant/format.h"

namespace cria {

// What a scale is for.
enum class Scales : uint8_t {
  kNone,
  kRow,    // f32, one an output row
  kGroup,  // bf16, one a row and group of inputs
};

struct NumberFormatRow {
  format::NumberFormat number_format;
  const char* name;
  uint8_t code_bits;  // an element's
  Scales scales;
  uint8_t input_multiple;  // rows are padded to it; groups to themselves
};

inline constexpr NumberFormatRow kNumberFormats[] = {
    {format::NumberFormat::kF32, "f32", 32, Scales::kNone, 1},
    {format::NumberFormat::kF16, "f16", 16, Scales::kNone, 1},
    {format::NumberFormat::kBf16, "bf16", 16, Scales::kNone, 1},
    {format::NumberFormat::kInt8, "int8", 8, Scales::kRow, 32},
    {format::NumberFormat::kInt4, "int4", 4, Scales::kGroup, 32},
};

// A format's value is its place in the table, counted from 1.
[[nodiscard]] consteval bool are_in_order() {
  for (size_t i = 0; i < std::size(kNumberFormats); ++i) {
    if (static_cast<size_t>(kNumberFormats[i].number_format) != i + 1) return false;
  }
  return true;
}
static_assert(are_in_order());

[[nodiscard]] constexpr bool is_number_format(uint32_t value) {
  return value >= 1 && value <= std::size(kNumberFormats);
}
[[nodiscard]] constexpr const NumberFormatRow& row_of(format::NumberFormat f) {
  return kNumberFormats[static_cast<size_t>(f) - 1];
}
// Whether weights of this format are integers with scales, multiplied by quantized activations.
[[nodiscard]] constexpr bool is_integer(format::NumberFormat f) {
  return row_of(f).scales != Scales::kNone;
}

inline constexpr uint16_t kGroupSizes[] = {32, 64, 128};

[[nodiscard]] constexpr bool is_group_size(format::NumberFormat f, uint16_t size) {
  if (row_of(f).scales != Scales::kGroup) return size == 0;
  bool found = false;
  for (const uint16_t allowed : kGroupSizes) found = found || size == allowed;
  return found;
}

}  // namespace cria
