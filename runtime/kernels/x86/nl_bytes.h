// The values of int4nl for the byte shuffles of x86, as unsigned bytes: kInt4NlLargest is added to
// each. Static, as what files of several ISAs include must be (runtime/kernels/overrides.h).
#pragma once

#if defined(__SSE2__)

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <iterator>

#include "quant/numbers/number_formats.h"

namespace cria {

struct NlBytes {
  uint8_t bytes[std::size(kInt4NlValues)];
};

[[nodiscard]] consteval NlBytes make_nl_bytes() {
  NlBytes table = {};
  for (size_t i = 0; i < std::size(kInt4NlValues); ++i) {
    table.bytes[i] = static_cast<uint8_t>(kInt4NlValues[i] + kInt4NlLargest);
  }
  return table;
}

alignas(16) static constexpr NlBytes kNlBytes = make_nl_bytes();

[[gnu::always_inline]] static inline __m128i nl_bytes() {
  return _mm_load_si128(reinterpret_cast<const __m128i*>(kNlBytes.bytes));
}

}  // namespace cria

#endif  // __SSE2__
