// Generated tables of Unicode's normalization form C (nfc_tables.cpp); quant/text/nfc.h uses them.
#pragma once

#include <cstdint>
#include <span>

namespace cria {

// A character and the one or two that it is made of; second is 0 where there is one.
struct CanonicalParts {
  uint32_t code;
  uint32_t first;
  uint32_t second;
};

// With its ends.
struct CodeRange {
  uint32_t first;
  uint32_t last;
};

struct NfcTables {
  // first code << 8 | combining class, of each run of characters with one class; ascending from
  // U+0000.
  std::span<const uint32_t> class_runs;
  std::span<const CanonicalParts> parts;  // ascending; without the syllables of Hangul
  // Those of parts that two characters are put together to; ascending by first, then second.
  std::span<const uint16_t> pairs;
  // Characters that may not stand in the form, or may change where they stand.
  std::span<const CodeRange> changing;
};
extern const NfcTables kNfcTables;

}  // namespace cria
