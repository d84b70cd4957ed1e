// What this build of the library can do. Firmware leaves out what its model does not need; what was
// left out answers CRIA_UNSUPPORTED, and the linker drops its code. Hosts build everything.
//
// The numbers come from the options CRIA_WITH_* of CMake, always as 0 or 1. Code asks for these
// constants; what cannot even be named without a feature is after #if CRIA_WITH_*.
#pragma once

#include "quant/format/built_in.h"

namespace cria {

inline constexpr bool kHasCompression = CRIA_WITH_COMPRESSION == 1;  // zstd chunks
inline constexpr bool kHasKvF32 = CRIA_WITH_KV_F32 == 1;             // CRIA_KV_F32
inline constexpr bool kHasSampling = CRIA_WITH_SAMPLING == 1;        // more than greedy
// Microcontrollers have vocabularies of thousands, threads alike if any, and little room for code.
#if defined(__ARM_ARCH_PROFILE) && __ARM_ARCH_PROFILE == 'M'
inline constexpr bool kIsMicrocontroller = true;
#else
inline constexpr bool kIsMicrocontroller = false;
#endif
inline constexpr bool kHasLargeVocabularies = !kIsMicrocontroller;
inline constexpr bool kSharesAsItGoes = !kIsMicrocontroller;  // InParts, InStretches: parallel.h
inline constexpr bool kHasXnnpack = CRIA_WITH_XNNPACK == 1;   // CRIA_BACKEND_XNNPACK

}  // namespace cria
