// How far ahead of use x86 kernels ask for weights.
#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/tile16.h"

namespace cria {

// At pages: what a core fetches by itself ends with a page of 4 KB, so the first group of a page
// asks for the first lines of the next page, in the codes and, a second stream, in their scales.
// The core does the rest; asking for more lines is slower. By groups: a group asks for as many
// lines as it has itself, so many bytes on, and for the scales of the group that far on. Which is
// faster depends on the core; docs/performance.md has the figures. At pages is for cores with
// AVX-VNNI, measured on Zen 5. By groups: AVX2's quantized weights near, which was measured on Zen
// 3 before scales were asked for; the rest far, measured on Zen 4 (AVX-512 without AVX-VNNI), where
// it asks for nothing in int8.
inline constexpr size_t kFetchNear = 1280;
inline constexpr size_t kFetchFar = 4096;
inline constexpr size_t kPageBytes = 4096;
inline constexpr size_t kPageLines = 2;
inline constexpr size_t kScalePageLines = 1;

// Asks for the first n_lines lines of the page behind that of p, where p has less than n_bytes
// before it in its own: once a page for what goes through a stream n_bytes at a time.
[[gnu::always_inline]] inline void fetch_next_page(const uint8_t* p, size_t n_bytes,
                                                   size_t n_lines) {
  const auto at = reinterpret_cast<uintptr_t>(p);
  if (at % kPageBytes >= n_bytes) return;
  const auto* next = reinterpret_cast<const uint8_t*>((at & ~(kPageBytes - 1)) + kPageBytes);
  for (size_t i = 0; i < n_lines; ++i) __builtin_prefetch(next + i * kLineBytes);
}

// kFetchNear or kFetchFar in bytes of scales, where each group has its own. Where two or four share
// one, that is twice or four times as far on; not measured otherwise.
[[nodiscard]] constexpr size_t scales_ahead(size_t fetch_ahead, size_t group_bytes,
                                            size_t group_scale_bytes) {
  return fetch_ahead / group_bytes * group_scale_bytes;
}

}  // namespace cria
