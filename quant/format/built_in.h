// What this build knows of model files. Firmware leaves out what its model does not need; a file
// that asks for it is refused as unsupported.
#pragma once

namespace cria {

// Layer norms, plain feed-forwards, activations but silu, caps and the like: what Llama, Qwen, Phi,
// Granite and SmolLM do not use.
inline constexpr bool kHasVariants = CRIA_WITH_VARIANTS == 1;
// Matrices that are stacked: of experts, heads or layers.
inline constexpr bool kHasStacks = CRIA_WITH_EXPERTS == 1 || CRIA_WITH_LATENT == 1 || kHasVariants;
// Blocks of state, which cannot be cut back.
inline constexpr bool kHasBlocks = CRIA_WITH_RECURRENT == 1;
// Why a file is refused, in words.
inline constexpr bool kHasReasons = CRIA_WITH_REASONS == 1;

}  // namespace cria
