// Unicode's normalization form C (Unicode 15.0), which some tokenizers put text into.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#ifndef CRIA_WITH_NFC
#define CRIA_WITH_NFC 1
#endif

namespace cria {

// Whether the tables are built in; without them nothing below may be called.
inline constexpr bool kHasNfc = CRIA_WITH_NFC != 0;

// The form of a text of n bytes has at most so many times n.
inline constexpr size_t kMaxNfcGrowth = 3;

// Whether the form of UTF-8 text is the text itself; false also where only a closer look could
// tell. Bytes that are no character stand in every form. Cost: linear.
[[nodiscard]] bool is_surely_nfc(std::span<const char> text);

// How much of a text was normalized, and into how many bytes.
struct NfcSegment {
  size_t n_read;
  size_t n_written;
};

// Normalizes the first segment of text: the fewest characters that are followed by one that no
// change reaches across. out has room for kMaxNfcGrowth times the text's bytes, or for what is
// written: n_written is out.size() + 1 when it does not fit. text is not empty.
//
// There is no limit to the marks that may follow a character, and no memory is taken for them: they
// are put in order by reading them once for each combining class among them. Cost: linear, with up
// to 55 readings.
[[nodiscard]] NfcSegment normalize_segment(std::span<const char> text, std::span<char> out);

}  // namespace cria
