// How far ahead of use x86 kernels ask for weights.
#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/numbers/tile16.h"

namespace cria {

// At pages: what a core fetches by itself ends with a page of 4 KB, so the first group of a page
// asks for the first lines of the next page, in the codes and, a second stream, in their scales.
// The core does the rest; asking for more lines is slower. By groups: a group asks for as many
// lines as it has itself, so many bytes on, and for the scales of the group that far on. Which is
// faster depends on the core: docs/performance.md, "How weights are asked for", says on which it
// was measured. At pages is for cores with AVX-VNNI. By groups: AVX2's quantized weights near, the
// rest far; AVX-512 without AVX-VNNI asks for nothing in int8.
inline constexpr size_t kFetchNear = 1280;
inline constexpr size_t kFetchFar = 4096;
inline constexpr size_t kPageBytes = 4096;
inline constexpr size_t kPageLines = 2;
inline constexpr size_t kScalePageLines = 1;

// Whether `at` has less than n_bytes before it in its page: true of one place in each page for what
// goes through a stream n_bytes at a time, where the stream begins a page or goes on from the last.
[[nodiscard]] constexpr bool begins_page(uintptr_t at, size_t n_bytes) {
  return at % kPageBytes < n_bytes;
}

// The page after that of `at`. Spelled with a mask: as a distance that is added to a pointer, GCC
// 12 makes slower loops of int8 of it (docs/performance.md, "How weights are asked for").
[[nodiscard]] constexpr uintptr_t next_page(uintptr_t at) {
  return (at & ~uintptr_t{kPageBytes - 1}) + kPageBytes;
}

// Asks for the first n_lines lines of the page after that of p where p begins its own. Groups that
// share a scale ask for the scales' next page once each.
[[gnu::always_inline]] inline void fetch_next_page(const uint8_t* p, size_t n_bytes,
                                                   size_t n_lines) {
  static_assert(kLineBytes == 64, "a line of tile16 is also one of the cache");
  const auto at = reinterpret_cast<uintptr_t>(p);
  if (!begins_page(at, n_bytes)) return;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): see next_page
  const auto* next = reinterpret_cast<const uint8_t*>(next_page(at));
  for (size_t i = 0; i < n_lines; ++i) __builtin_prefetch(next + i * kLineBytes);
}

// kFetchNear or kFetchFar in bytes of scales, where each group has its own. Where two or four share
// one, that is twice or four times as far on.
[[nodiscard]] constexpr size_t scales_ahead(size_t fetch_ahead, size_t group_bytes,
                                            size_t group_scale_bytes) {
  return fetch_ahead / group_bytes * group_scale_bytes;
}

}  // namespace cria
