// The one table of the architectures that are read: how each calls its tensors, which keys of its
// config.json mean something and what it takes where they are silent. All of them are one decoder
// to the runtime, told apart by the kinds of their layers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "converter/json_input.h"
#include "quant/format/format.h"

namespace cria::converter {

// Where a layer's matrices are in the checkpoint (converter/tensor_names.cpp).
enum class TensorNames : uint8_t {
  kLlama,
  kPhi3,
  kGraniteHybrid,
  kGraniteHybridApart,  // that, with gates apart from what they gate, and experts
  kGpt2,
  kMixtral,
  kGraniteMoe,
  kQwen2Moe,
  kDeepseek,
  kDeepseekApart,  // that, with what expands keys apart from what expands values
  kNormsBehind,    // norms of what a layer adds, none of what it reads
  kNormsAround,    // both
  kBitNet,
  kLfm2,
  kQwen35,
  kQwen35Moe,       // that, with experts in stacks
  kQwen3Next,       // that, with what the delta rule reads fused by heads
  kQwen3NextApart,  // of those fused only what decays and beta read
  kGemma4,          // kNormsAround, with per-layer embeddings, and experts beside an MLP
};

// Which keys say whether positions attend to a sliding window.
enum class WindowKeys : uint8_t {
  kNone,
  kWindow,      // only sliding_window
  kSwitch,      // use_sliding_window switches it on, from layer max_window_layers on
  kSwitchAll,   // use_sliding_window switches it on
  kSwitchEven,  // use_sliding_window switches it on in even layers below max_window_layers
  kNoRopeOnly,  // use_sliding_window switches it on in the layers without RoPE
  kEven,        // sliding_window, in even layers
  kPeriod,      // sliding_window, in all but each sliding_window_pattern-th layer
};

// Which layers are without RoPE.
enum class NoRopeKeys : uint8_t {
  kNone,
  kLayers,        // no_rope_layers or no_rope_layer_interval
  kPositionType,  // all or none, as position_embedding_type says
  kAll,           // positions are learned
  kFull,          // where some layers have a window, those that have none
};

// How positions turn in layers with a window, where that is another way than in the others.
enum class WindowRope : uint8_t {
  kSame,
  kUnscaled,  // without the scaling of positions
  kOwn,       // rope_local_base_freq
};

// Another name of a key; errors call it by the one that the config has.
struct OtherKey {
  const char* name;
  const char* key;
};

// What layer_types calls a short convolution.
inline constexpr const char* kConvolutionLayer = "conv";

// Of an MLP where every layer has experts.
inline constexpr uint32_t kUnusedWidth = 1;

// Of LayerKind::flags, what a Llama's layers have.
inline constexpr uint32_t kLlamaFlags =
    format::flag::kMixerNorm | format::flag::kFfnNorm | format::flag::kGated;

struct ArchitectureRow {
  const char* class_name;
  const char* model_type;
  format::Architecture id;
  const char* name;      // for people
  const char* examples;  // models that are such, for people
  TensorNames names = TensorNames::kLlama;
  uint32_t flags = kLlamaFlags;  // of all their layers
  uint32_t flags_by_keys = 0;    // that attention_bias and mlp_bias may set
  format::Norm norm = format::Norm::kRms;
  format::Mixer mixer = format::Mixer::kAttention;
  std::span<const OtherKey> other_keys = {};
  // Keys that only some architectures have and this one does.
  std::span<const std::string_view> own_keys = {};
  WindowKeys window = WindowKeys::kNone;
  NoRopeKeys no_rope = NoRopeKeys::kNone;
  WindowRope window_rope = WindowRope::kSame;
  bool has_multipliers = false;        // of embeddings, residuals, attention and logits
  bool has_depth_multipliers = false;  // the same but attention, by scale_depth and its kin
  bool scales_by_width = false;        // embeddings, by the root of hidden_size
  bool has_plain_scores = false;       // they are not divided by the root of the head's width
  bool norms_add_one = false;          // norms multiply by 1 + weight
  bool has_partial_rotary = false;     // partial_rotary_factor below 1
  // The last part of each head's pairs stands still, but in layers with a window.
  bool is_proportional = false;
  bool yarn_means_longrope = false;  // as "su" does: names of old files
  bool must_scale = false;           // it must say how positions are scaled
  bool is_hybrid = false;            // it must say which layers attend and how many experts are
  bool has_pairs = false;            // rows that rotate together are one beside the other
  bool has_convolutions = false;     // layers that are no attention, as layer_types says
  // Layers that are no attention, and what layer_types calls them; empty: there are none.
  format::Mixer other_mixer = format::Mixer::kNothing;
  std::string_view other_layer = {};
  double rotary_part = 1;  // of each head, where partial_rotary_factor does not say
  const char* ffn_key = "intermediate_size";
  const char* activation_key = "hidden_act";
  // Where config.json is silent.
  const char* activation = "silu";
  uint32_t d_ff = 0;  // 0: it must not be
  uint32_t max_context = 2048;
  uint32_t vocab_size = 0;        // 0: it must not be
  uint32_t n_heads = 0;           // 0: it must not be
  uint32_t n_kv_heads = 0;        // 0: as many as heads
  uint32_t head_dim = 0;          // 0: hidden_size / heads
  uint32_t sliding_window = 0;    // 0: none
  uint32_t window_period = 0;     // of WindowKeys::kPeriod
  uint32_t original_context = 0;  // 0: max_context
  double rms_epsilon = 1e-6;
  double rope_theta = 10000;
  double score_cap = 0;   // 0: none
  double logits_cap = 0;  // 0: none
  bool is_tied = false;

  [[nodiscard]] bool has_key(std::string_view key) const {
    return std::find(own_keys.begin(), own_keys.end(), key) != own_keys.end();
  }
};

// The row that architectures and model_type of a config.json name. Throws ProgramError: what is not
// read is refused by its name, with the list of what is.
[[nodiscard]] const ArchitectureRow& find_architecture(const JsonObject& config);

// Whether a class holds one of them as text_config, beside what sees or hears.
[[nodiscard]] bool holds_text_model(std::string_view class_name);

[[nodiscard]] const ArchitectureRow& architecture_row(format::Architecture id);

// "this converter reads Llama, Mistral, ...": how a refusal of another ends.
[[nodiscard]] std::string supported_architectures();

// The table for people, a line each: what --list-architectures prints.
[[nodiscard]] std::string architectures_text();

}  // namespace cria::converter
