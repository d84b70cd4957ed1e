// How far ahead of use x86 kernels ask for weights.
#pragma once

#include <cstddef>

namespace cria {

// Bytes of codes. By groups: a group asks for as many lines as it has itself, that far on, and for
// the scales of the group that far on: a second stream, which a core's own prefetch follows less
// well. In bursts: once for so many bytes all the lines of as many, and their scales, that far on.
// Which is faster depends on the core, by up to a half either way; docs/performance.md has the
// figures. Bursts are for cores with AVX-VNNI, measured on Zen 5. By groups: AVX2's quantized
// weights near, which was measured on Zen 3 before scales were asked for; the rest far, measured on
// Zen 4 (AVX-512 without AVX-VNNI), where it asks for nothing in int8.
inline constexpr size_t kFetchNear = 1280;
inline constexpr size_t kFetchFar = 4096;
inline constexpr size_t kBurstAhead = 6144;
inline constexpr size_t kAvxVnniBurst = 2048;
inline constexpr size_t kAvx512Burst = 4096;

// The same in bytes of scales, where each group has its own. Where two or four share one, that is
// twice or four times as far on, and bursts ask for each line as often; not measured otherwise.
[[nodiscard]] constexpr size_t scales_ahead(size_t fetch_ahead, size_t group_bytes,
                                            size_t group_scale_bytes) {
  return fetch_ahead / group_bytes * group_scale_bytes;
}

}  // namespace cria
