// How far ahead of use x86 kernels ask for weights.
#pragma once

#include <cstddef>

namespace cria {

// Bytes of codes. A group asks for as many lines as it has itself, that far on, and for the scales
// of the group that far on: a second stream, which a core's own prefetch follows less well. AVX-512
// asks for nothing in int8, where the core alone is faster. Bursts of a page are slower;
// docs/performance.md has the figures. AVX2's quantized weights are asked for near, which was
// measured on Zen 3 before scales were asked for; the rest far, measured on Zen 4 (which has no
// AVX-VNNI).
inline constexpr size_t kFetchNear = 1280;
inline constexpr size_t kFetchFar = 4096;

// The same in bytes of scales. Where groups share one they ask for that of a later group.
[[nodiscard]] constexpr size_t scales_ahead(size_t fetch_ahead, size_t group_bytes,
                                            size_t group_scale_bytes) {
  return fetch_ahead / group_bytes * group_scale_bytes;
}

}  // namespace cria
