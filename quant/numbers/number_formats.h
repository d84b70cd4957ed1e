// The one list of number formats: their sizes, scales and names. Layouts and checks follow from it;
// what computes with a format differs by its kernel, and switches over all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>

#include "quant/format/format.h"

namespace cria {

// What a scale is for. Those of groups come last.
enum class Scales : uint8_t {
  kNone,
  kRow,       // f32, one an output row
  kGroup,     // bf16, one a row and group of inputs
  kGroupF16,  // the same in f16, of either sign
};

// What else is true of a format: bits of NumberFormatInfo::traits.
enum NumberTrait : uint8_t {
  kMayBeSigned = 1,  // scales may be negative where the model's flags say so
  kCalibrated = 2,   // GPTQ rounds to it; --bits mixes it with formats of eight bits
  kTrained = 4,      // weights were trained so: nothing else is rounded to it
  kForXnnpack = 8,   // the XNNPACK backend has products of it
};

struct NumberFormatRow {
  format::NumberFormat number_format;
  uint8_t code_bits;  // an element's
  Scales scales;
  uint8_t input_multiple;  // rows are padded to it; groups to themselves
};

struct NumberFormatInfo {
  NumberFormatRow row;
  uint8_t traits;    // of NumberTrait
  const char* name;  // for people
};

// Without linkage, as what is used by the kernels of one ISA must be (runtime/kernels/overrides.h).
static constexpr NumberFormatInfo kNumberFormatList[] = {
    {{format::NumberFormat::kF32, 32, Scales::kNone, 1}, kForXnnpack, "f32"},
    {{format::NumberFormat::kF16, 16, Scales::kNone, 1}, kForXnnpack, "f16"},
    {{format::NumberFormat::kBf16, 16, Scales::kNone, 1}, kForXnnpack, "bf16"},
    {{format::NumberFormat::kInt8, 8, Scales::kRow, 32}, kForXnnpack, "int8"},
    {{format::NumberFormat::kInt4, 4, Scales::kGroup, 32},
     kMayBeSigned | kCalibrated | kForXnnpack,
     "int4"},
    {{format::NumberFormat::kInt4Nl, 4, Scales::kGroup, 32}, kMayBeSigned | kCalibrated, "int4nl"},
    {{format::NumberFormat::kInt8G32, 8, Scales::kGroup, 32}, 0, "int8g32"},
    {{format::NumberFormat::kBit1, 1, Scales::kGroupF16, 128}, kTrained, "bit1"},
    {{format::NumberFormat::kBit2, 2, Scales::kGroupF16, 64}, kTrained, "bit2"},
};

// The columns of the list, each an array of its own: each kernel has a copy of kNumberFormats, and
// none of the others.
template <typename Value>
struct NumberFormatColumn {
  Value of[std::size(kNumberFormatList)];
};
template <typename Value>
[[nodiscard]] consteval NumberFormatColumn<Value> column_of(Value NumberFormatInfo::*member) {
  NumberFormatColumn<Value> column = {};
  for (size_t i = 0; i < std::size(kNumberFormatList); ++i) {
    column.of[i] = kNumberFormatList[i].*member;
  }
  return column;
}
static constexpr auto kNumberFormats = column_of(&NumberFormatInfo::row);
static constexpr auto kNumberFormatTraits = column_of(&NumberFormatInfo::traits);
static constexpr auto kNumberFormatNames = column_of(&NumberFormatInfo::name);

// What the codes -8..7 of kInt4Nl stand for, fitted as docs/quantization.md says. Rising, and zero
// is code 0.
// None is above 32 in size: eight products with activations fit 16 bits.
static constexpr int8_t kInt4NlValues[] = {-32, -25, -20, -16, -12, -8, -5, -3,
                                           0,   2,   5,   8,   11,  15, 20, 28};
static constexpr int kInt4NlLargest = 32;

[[nodiscard]] consteval bool int4_nl_values_hold() {
  if (std::size(kInt4NlValues) != 16 || kInt4NlValues[8] != 0) return false;
  for (size_t i = 0; i < std::size(kInt4NlValues); ++i) {
    const int8_t value = kInt4NlValues[i];
    if (value > kInt4NlLargest || value < -kInt4NlLargest) return false;
    if (i > 0 && value <= kInt4NlValues[i - 1]) return false;
  }
  return true;
}
static_assert(int4_nl_values_hold());

// A format's value is its place in the table, counted from 1.
[[nodiscard]] consteval bool are_in_order() {
  for (size_t i = 0; i < std::size(kNumberFormatList); ++i) {
    if (static_cast<size_t>(kNumberFormatList[i].row.number_format) != i + 1) return false;
  }
  return true;
}
static_assert(are_in_order());

[[nodiscard]] constexpr bool is_number_format(uint32_t value) {
  return value >= 1 && value <= std::size(kNumberFormatList);
}
[[nodiscard]] static constexpr const NumberFormatRow& row_of(format::NumberFormat f) {
  return kNumberFormats.of[static_cast<size_t>(f) - 1];
}
[[nodiscard]] static constexpr const char* number_format_name(format::NumberFormat f) {
  return kNumberFormatNames.of[static_cast<size_t>(f) - 1];
}
// Whether weights of this format are integers with scales, multiplied by quantized activations.
[[nodiscard]] static constexpr bool is_integer(format::NumberFormat f) {
  return row_of(f).scales != Scales::kNone;
}

// Whether a scale is that of a row and group of inputs.
[[nodiscard]] static constexpr bool has_group_scales(format::NumberFormat f) {
  return row_of(f).scales >= Scales::kGroup;
}

[[nodiscard]] static constexpr bool has_f16_scales(format::NumberFormat f) {
  return row_of(f).scales == Scales::kGroupF16;
}

// Whether codes are nibbles, stored as code + 8.
[[nodiscard]] static constexpr bool has_nibbles(format::NumberFormat f) {
  constexpr uint8_t kNibbleBits = 4;
  return row_of(f).code_bits == kNibbleBits;
}

[[nodiscard]] static constexpr bool has_trait(format::NumberFormat f, NumberTrait trait) {
  return (kNumberFormatTraits.of[static_cast<size_t>(f) - 1] & trait) != 0;
}
[[nodiscard]] static constexpr bool may_be_signed(format::NumberFormat f) {
  return has_trait(f, kMayBeSigned);
}
[[nodiscard]] static constexpr bool is_calibrated(format::NumberFormat f) {
  return has_trait(f, kCalibrated);
}
[[nodiscard]] static constexpr bool is_trained_bits(format::NumberFormat f) {
  return has_trait(f, kTrained);
}
[[nodiscard]] static constexpr bool is_for_xnnpack(format::NumberFormat f) {
  return has_trait(f, kForXnnpack);
}

// A matrix's format.
struct MatrixFormat {
  format::NumberFormat number_format;
  uint16_t group_size;  // inputs that share a scale, 0 where none do
  [[nodiscard]] constexpr bool operator==(const MatrixFormat&) const = default;
};

// The formats that matrices may have, by their places in MatrixCount::format: new ones come
// last.
inline constexpr MatrixFormat kMatrixFormats[] = {
    {format::NumberFormat::kF32, 0},      {format::NumberFormat::kF16, 0},
    {format::NumberFormat::kBf16, 0},     {format::NumberFormat::kInt8, 0},
    {format::NumberFormat::kInt4, 32},    {format::NumberFormat::kInt4, 64},
    {format::NumberFormat::kInt4, 128},   {format::NumberFormat::kInt4Nl, 32},
    {format::NumberFormat::kInt4Nl, 64},  {format::NumberFormat::kInt4Nl, 128},
    {format::NumberFormat::kInt8G32, 32}, {format::NumberFormat::kBit1, 128},
    {format::NumberFormat::kBit2, 64},
};

// A format's place; std::size(kMatrixFormats) for what is none.
[[nodiscard]] constexpr size_t place_of(MatrixFormat f) {
  size_t place = 0;
  while (place < std::size(kMatrixFormats) && !(kMatrixFormats[place] == f)) ++place;
  return place;
}

// A number format with groups of this size, or where it has none such with its smallest.
[[nodiscard]] constexpr MatrixFormat matrix_format(format::NumberFormat f, uint16_t group_size) {
  MatrixFormat found = {f, UINT16_MAX};
  for (const MatrixFormat& row : kMatrixFormats) {
    if (row.number_format != f) continue;
    if (row.group_size == group_size) return row;
    if (row.group_size < found.group_size) found = row;
  }
  return found;
}

// Groups are those of formats with scales a group; every number format is some matrix's. Kernels
// multiply by one scale for each 32 activations, find it by a shift, and have room for
// kLargestGroup.
inline constexpr uint16_t kSmallestGroup = 32;
inline constexpr uint16_t kLargestGroup = 128;
[[nodiscard]] consteval bool matrix_formats_hold() {
  for (const MatrixFormat& f : kMatrixFormats) {
    if (has_group_scales(f.number_format) != (f.group_size != 0)) return false;
    if (f.group_size == 0) continue;
    if (f.group_size < kSmallestGroup || f.group_size > kLargestGroup) return false;
    if ((f.group_size & (f.group_size - 1)) != 0) return false;
  }
  for (const NumberFormatRow& row : kNumberFormats.of) {
    size_t n = 0;
    for (const MatrixFormat& f : kMatrixFormats) n += f.number_format == row.number_format;
    if (n == 0) return false;
  }
  return true;
}
static_assert(matrix_formats_hold());

}  // namespace cria
