#include "converter/tensor_names.h"

#include <algorithm>
#include <stdexcept>

#include "quant/blocks/block_formats.h"
#include "quant/model/role_names.h"

namespace cria::converter {
namespace {

using format::LayerKind;
using format::TensorRole;

// A name of an architecture's own comes before that of Llama, one of some layers before that of
// all.
constexpr RoleName kRows[] = {
    {TensorNames::kPhi3, TensorRole::kQ, "self_attn.qkv_proj.weight"},
    {TensorNames::kPhi3, TensorRole::kK, "self_attn.qkv_proj.weight"},
    {TensorNames::kPhi3, TensorRole::kV, "self_attn.qkv_proj.weight"},
    {TensorNames::kPhi3, TensorRole::kGate, "mlp.gate_up_proj.weight"},
    {TensorNames::kPhi3, TensorRole::kUp, "mlp.gate_up_proj.weight"},

    {TensorNames::kGraniteHybrid, TensorRole::kGate, "shared_mlp.input_linear.weight"},
    {TensorNames::kGraniteHybrid, TensorRole::kUp, "shared_mlp.input_linear.weight"},
    {TensorNames::kGraniteHybrid, TensorRole::kDown, "shared_mlp.output_linear.weight"},

    {TensorNames::kGraniteHybrid, TensorRole::kRouter, "block_sparse_moe.router.layer.weight"},
    {TensorNames::kGraniteHybrid, TensorRole::kExpertGate, "block_sparse_moe.input_linear.weight",
     Take::kSlices},
    {TensorNames::kGraniteHybrid, TensorRole::kExpertUp, "block_sparse_moe.input_linear.weight",
     Take::kSlices},
    {TensorNames::kGraniteHybrid, TensorRole::kExpertDown, "block_sparse_moe.output_linear.weight",
     Take::kSlices},
    {TensorNames::kGraniteHybrid, TensorRole::kMixerGate, "mamba.in_proj.weight"},
    {TensorNames::kGraniteHybrid, TensorRole::kV, "mamba.in_proj.weight", Take::kRows,
     is_state_space},
    {TensorNames::kGraniteHybrid, TensorRole::kK, "mamba.in_proj.weight", Take::kRows,
     is_state_space},
    {TensorNames::kGraniteHybrid, TensorRole::kQ, "mamba.in_proj.weight", Take::kRows,
     is_state_space},
    {TensorNames::kGraniteHybrid, TensorRole::kDecayIn, "mamba.in_proj.weight"},
    {TensorNames::kGraniteHybrid, TensorRole::kConvolution, "mamba.conv1d.weight", Take::kTaps},
    {TensorNames::kGraniteHybrid, TensorRole::kConvolutionBias, "mamba.conv1d.bias"},
    {TensorNames::kGraniteHybrid, TensorRole::kDecay, "mamba.A_log", Take::kDecay},
    {TensorNames::kGraniteHybrid, TensorRole::kDecayBias, "mamba.dt_bias"},
    {TensorNames::kGraniteHybrid, TensorRole::kSkip, "mamba.D"},
    {TensorNames::kGraniteHybrid, TensorRole::kMixerInnerNorm, "mamba.norm.weight"},
    {TensorNames::kGraniteHybrid, TensorRole::kO, "mamba.out_proj.weight", Take::kRows,
     is_state_space},

    {TensorNames::kGraniteHybridApart, TensorRole::kGate, "mlp.gate_proj.weight"},
    {TensorNames::kGraniteHybridApart, TensorRole::kUp, "mlp.up_proj.weight"},
    {TensorNames::kGraniteHybridApart, TensorRole::kDown, "mlp.down_proj.weight"},
    {TensorNames::kGraniteHybridApart, TensorRole::kRouter, "mlp.gate.weight"},
    {TensorNames::kGraniteHybridApart, TensorRole::kExpertGate, "mlp.experts.*.gate_proj.weight"},
    {TensorNames::kGraniteHybridApart, TensorRole::kExpertUp, "mlp.experts.*.up_proj.weight"},
    {TensorNames::kGraniteHybridApart, TensorRole::kExpertDown, "mlp.experts.*.down_proj.weight"},

    {TensorNames::kGpt2, TensorRole::kPositions, "model.embed_positions.weight", Take::kFlat},
    {TensorNames::kGpt2, TensorRole::kMixerNorm, "ln_1.weight", Take::kWithBias},
    {TensorNames::kGpt2, TensorRole::kQ, "attn.c_attn.weight", Take::kColumns},
    {TensorNames::kGpt2, TensorRole::kK, "attn.c_attn.weight", Take::kColumns},
    {TensorNames::kGpt2, TensorRole::kV, "attn.c_attn.weight", Take::kColumns},
    {TensorNames::kGpt2, TensorRole::kO, "attn.c_proj.weight", Take::kColumns},
    {TensorNames::kGpt2, TensorRole::kFfnNorm, "ln_2.weight", Take::kWithBias},
    {TensorNames::kGpt2, TensorRole::kUp, "mlp.c_fc.weight", Take::kColumns},
    {TensorNames::kGpt2, TensorRole::kDown, "mlp.c_proj.weight", Take::kColumns},
    {TensorNames::kGpt2, TensorRole::kFinalNorm, "model.norm.weight", Take::kWithBias},

    {TensorNames::kMixtral, TensorRole::kRouter, "block_sparse_moe.gate.weight"},
    {TensorNames::kMixtral, TensorRole::kExpertGate, "block_sparse_moe.experts.*.w1.weight"},
    {TensorNames::kMixtral, TensorRole::kExpertUp, "block_sparse_moe.experts.*.w3.weight"},
    {TensorNames::kMixtral, TensorRole::kExpertDown, "block_sparse_moe.experts.*.w2.weight"},

    {TensorNames::kGraniteMoe, TensorRole::kRouter, "block_sparse_moe.router.layer.weight"},
    {TensorNames::kGraniteMoe, TensorRole::kExpertGate, "block_sparse_moe.input_linear.weight",
     Take::kSlices},
    {TensorNames::kGraniteMoe, TensorRole::kExpertUp, "block_sparse_moe.input_linear.weight",
     Take::kSlices},
    {TensorNames::kGraniteMoe, TensorRole::kExpertDown, "block_sparse_moe.output_linear.weight",
     Take::kSlices},

    {TensorNames::kQwen2Moe, TensorRole::kSharedGate, "mlp.shared_expert_gate.weight", Take::kFlat},
    {TensorNames::kQwen2Moe, TensorRole::kGate, "mlp.shared_expert.gate_proj.weight", Take::kRows,
     has_experts},
    {TensorNames::kQwen2Moe, TensorRole::kUp, "mlp.shared_expert.up_proj.weight", Take::kRows,
     has_experts},
    {TensorNames::kQwen2Moe, TensorRole::kDown, "mlp.shared_expert.down_proj.weight", Take::kRows,
     has_experts},

    {TensorNames::kDeepseek, TensorRole::kQDown, "self_attn.q_a_proj.weight"},
    {TensorNames::kDeepseek, TensorRole::kQDownNorm, "self_attn.q_a_layernorm.weight"},
    {TensorNames::kDeepseek, TensorRole::kQ, "self_attn.q_b_proj.weight", Take::kRows,
     has_query_rank},
    {TensorNames::kDeepseek, TensorRole::kLatentDown, "self_attn.kv_a_proj_with_mqa.weight"},
    {TensorNames::kDeepseek, TensorRole::kK, "self_attn.kv_a_proj_with_mqa.weight"},
    {TensorNames::kDeepseek, TensorRole::kLatentNorm, "self_attn.kv_a_layernorm.weight"},
    {TensorNames::kDeepseek, TensorRole::kKeyUp, "self_attn.kv_b_proj.weight", Take::kTurnedHeads},
    {TensorNames::kDeepseek, TensorRole::kValueUp, "self_attn.kv_b_proj.weight", Take::kHeads},
    {TensorNames::kDeepseek, TensorRole::kChoiceBias, "mlp.gate.e_score_correction_bias"},
    {TensorNames::kDeepseek, TensorRole::kGate, "mlp.shared_experts.gate_proj.weight", Take::kRows,
     has_experts},
    {TensorNames::kDeepseek, TensorRole::kUp, "mlp.shared_experts.up_proj.weight", Take::kRows,
     has_experts},
    {TensorNames::kDeepseek, TensorRole::kDown, "mlp.shared_experts.down_proj.weight", Take::kRows,
     has_experts},

    {TensorNames::kDeepseekApart, TensorRole::kKeyUp, "self_attn.k_b_proj.weight", Take::kSlices},
    {TensorNames::kDeepseekApart, TensorRole::kValueUp, "self_attn.v_b_proj.weight", Take::kSlices},

    {TensorNames::kNormsBehind, TensorRole::kMixerOutNorm, "post_attention_layernorm.weight"},
    {TensorNames::kNormsBehind, TensorRole::kFfnOutNorm, "post_feedforward_layernorm.weight"},

    {TensorNames::kNormsAround, TensorRole::kMixerOutNorm, "post_attention_layernorm.weight"},
    {TensorNames::kNormsAround, TensorRole::kFfnNorm, "pre_feedforward_layernorm.weight"},
    {TensorNames::kNormsAround, TensorRole::kFfnOutNorm, "post_feedforward_layernorm.weight"},

    {TensorNames::kGemma4, TensorRole::kPerLayerTable, "model.embed_tokens_per_layer.weight",
     Take::kOfLayers},
    {TensorNames::kGemma4, TensorRole::kPerLayerProjection,
     "model.per_layer_model_projection.weight", Take::kHeads},
    {TensorNames::kGemma4, TensorRole::kPerLayerNorm, "model.per_layer_projection_norm.weight"},
    {TensorNames::kGemma4, TensorRole::kPerLayerGate, "per_layer_input_gate.weight"},
    {TensorNames::kGemma4, TensorRole::kPerLayerOut, "per_layer_projection.weight"},
    {TensorNames::kGemma4, TensorRole::kPerLayerOutNorm, "post_per_layer_input_norm.weight"},
    {TensorNames::kGemma4, TensorRole::kLayerScale, "layer_scalar"},
    {TensorNames::kGemma4, TensorRole::kVNorm, "self_attn.v_norm.weight", Take::kOnes},
    {TensorNames::kGemma4, TensorRole::kRouterNorm, "router.scale", Take::kByRoot},
    {TensorNames::kGemma4, TensorRole::kRouter, "router.proj.weight"},
    {TensorNames::kGemma4, TensorRole::kExpertScale, "router.per_expert_scale"},
    {TensorNames::kGemma4, TensorRole::kExpertNorm, "pre_feedforward_layernorm_2.weight"},
    {TensorNames::kGemma4, TensorRole::kExpertGate, "experts.gate_up_proj", Take::kSlices},
    {TensorNames::kGemma4, TensorRole::kExpertUp, "experts.gate_up_proj", Take::kSlices},
    {TensorNames::kGemma4, TensorRole::kExpertDown, "experts.down_proj", Take::kSlices},
    {TensorNames::kGemma4, TensorRole::kExpertOutNorm, "post_feedforward_layernorm_2.weight"},
    {TensorNames::kGemma4, TensorRole::kSharedOutNorm, "post_feedforward_layernorm_1.weight"},

    {TensorNames::kBitNet, TensorRole::kMixerInnerNorm, "self_attn.attn_sub_norm.weight"},
    {TensorNames::kBitNet, TensorRole::kFfnInnerNorm, "mlp.ffn_sub_norm.weight"},

    {TensorNames::kQwen3Next, TensorRole::kQ, "linear_attn.in_proj_qkvz.weight", Take::kOfHeads,
     is_delta_rule},
    {TensorNames::kQwen3Next, TensorRole::kK, "linear_attn.in_proj_qkvz.weight", Take::kOfHeads,
     is_delta_rule},
    {TensorNames::kQwen3Next, TensorRole::kV, "linear_attn.in_proj_qkvz.weight", Take::kOfHeads,
     is_delta_rule},
    {TensorNames::kQwen3Next, TensorRole::kMixerGate, "linear_attn.in_proj_qkvz.weight",
     Take::kOfHeads, is_delta_rule},
    {TensorNames::kQwen3Next, TensorRole::kBetaIn, "linear_attn.in_proj_ba.weight", Take::kOfHeads},
    {TensorNames::kQwen3Next, TensorRole::kDecayIn, "linear_attn.in_proj_ba.weight",
     Take::kOfHeads},

    {TensorNames::kQwen3NextApart, TensorRole::kBetaIn, "linear_attn.in_proj_ba.weight",
     Take::kOfHeads},
    {TensorNames::kQwen3NextApart, TensorRole::kDecayIn, "linear_attn.in_proj_ba.weight",
     Take::kOfHeads},

    {TensorNames::kQwen35Moe, TensorRole::kExpertGate, "mlp.experts.gate_up_proj", Take::kSlices},
    {TensorNames::kQwen35Moe, TensorRole::kExpertUp, "mlp.experts.gate_up_proj", Take::kSlices},
    {TensorNames::kQwen35Moe, TensorRole::kExpertDown, "mlp.experts.down_proj", Take::kSlices},

    {TensorNames::kQwen35, TensorRole::kQ, "linear_attn.in_proj_qkv.weight", Take::kRows,
     is_delta_rule},
    {TensorNames::kQwen35, TensorRole::kK, "linear_attn.in_proj_qkv.weight", Take::kRows,
     is_delta_rule},
    {TensorNames::kQwen35, TensorRole::kV, "linear_attn.in_proj_qkv.weight", Take::kRows,
     is_delta_rule},
    {TensorNames::kQwen35, TensorRole::kMixerGate, "linear_attn.in_proj_z.weight", Take::kRows,
     is_delta_rule},
    {TensorNames::kQwen35, TensorRole::kDecayIn, "linear_attn.in_proj_a.weight"},
    {TensorNames::kQwen35, TensorRole::kBetaIn, "linear_attn.in_proj_b.weight"},
    {TensorNames::kQwen35, TensorRole::kConvolution, "linear_attn.conv1d.weight", Take::kTaps},
    {TensorNames::kQwen35, TensorRole::kDecay, "linear_attn.A_log", Take::kDecay},
    {TensorNames::kQwen35, TensorRole::kDecayBias, "linear_attn.dt_bias"},
    {TensorNames::kQwen35, TensorRole::kMixerInnerNorm, "linear_attn.norm.weight"},
    {TensorNames::kQwen35, TensorRole::kO, "linear_attn.out_proj.weight", Take::kRows,
     is_delta_rule},
    {TensorNames::kQwen35, TensorRole::kQ, "self_attn.q_proj.weight", Take::kOfHeads},
    {TensorNames::kQwen35, TensorRole::kMixerGate, "self_attn.q_proj.weight", Take::kOfHeads},
    {TensorNames::kQwen35, TensorRole::kSharedGate, "mlp.shared_expert_gate.weight", Take::kFlat},
    {TensorNames::kQwen35, TensorRole::kGate, "mlp.shared_expert.gate_proj.weight", Take::kRows,
     has_experts},
    {TensorNames::kQwen35, TensorRole::kUp, "mlp.shared_expert.up_proj.weight", Take::kRows,
     has_experts},
    {TensorNames::kQwen35, TensorRole::kDown, "mlp.shared_expert.down_proj.weight", Take::kRows,
     has_experts},

    {TensorNames::kLfm2, TensorRole::kMixerNorm, "operator_norm.weight"},
    {TensorNames::kLfm2, TensorRole::kK, "conv.in_proj.weight", Take::kRows, is_convolution},
    {TensorNames::kLfm2, TensorRole::kQ, "conv.in_proj.weight", Take::kRows, is_convolution},
    {TensorNames::kLfm2, TensorRole::kV, "conv.in_proj.weight", Take::kRows, is_convolution},
    {TensorNames::kLfm2, TensorRole::kConvolution, "conv.conv.weight", Take::kTaps},
    {TensorNames::kLfm2, TensorRole::kConvolutionBias, "conv.conv.bias"},
    {TensorNames::kLfm2, TensorRole::kO, "conv.out_proj.weight", Take::kRows, is_convolution},
    {TensorNames::kLfm2, TensorRole::kQNorm, "self_attn.q_layernorm.weight"},
    {TensorNames::kLfm2, TensorRole::kKNorm, "self_attn.k_layernorm.weight"},
    {TensorNames::kLfm2, TensorRole::kO, "self_attn.out_proj.weight"},
    {TensorNames::kLfm2, TensorRole::kFfnNorm, "ffn_norm.weight"},
    {TensorNames::kLfm2, TensorRole::kGate, "feed_forward.w1.weight"},
    {TensorNames::kLfm2, TensorRole::kUp, "feed_forward.w3.weight"},
    {TensorNames::kLfm2, TensorRole::kDown, "feed_forward.w2.weight"},
    {TensorNames::kLfm2, TensorRole::kRouter, "feed_forward.gate.weight"},
    {TensorNames::kLfm2, TensorRole::kChoiceBias, "feed_forward.expert_bias"},
    {TensorNames::kLfm2, TensorRole::kExpertGate, "feed_forward.experts.*.w1.weight"},
    {TensorNames::kLfm2, TensorRole::kExpertUp, "feed_forward.experts.*.w3.weight"},
    {TensorNames::kLfm2, TensorRole::kExpertDown, "feed_forward.experts.*.w2.weight"},
    {TensorNames::kLfm2, TensorRole::kFinalNorm, "model.embedding_norm.weight"},

    {TensorNames::kLlama, TensorRole::kEmbedding, kEmbeddingName},
    {TensorNames::kLlama, TensorRole::kMixerNorm, "input_layernorm.weight"},
    {TensorNames::kLlama, TensorRole::kQ, "self_attn.q_proj.weight"},
    {TensorNames::kLlama, TensorRole::kK, "self_attn.k_proj.weight"},
    {TensorNames::kLlama, TensorRole::kV, "self_attn.v_proj.weight"},
    {TensorNames::kLlama, TensorRole::kQNorm, "self_attn.q_norm.weight"},
    {TensorNames::kLlama, TensorRole::kKNorm, "self_attn.k_norm.weight"},
    {TensorNames::kLlama, TensorRole::kO, "self_attn.o_proj.weight"},
    {TensorNames::kLlama, TensorRole::kFfnNorm, "post_attention_layernorm.weight"},
    {TensorNames::kLlama, TensorRole::kGate, "mlp.gate_proj.weight"},
    {TensorNames::kLlama, TensorRole::kUp, "mlp.up_proj.weight"},
    {TensorNames::kLlama, TensorRole::kDown, "mlp.down_proj.weight"},
    {TensorNames::kLlama, TensorRole::kRouter, "mlp.gate.weight"},
    {TensorNames::kLlama, TensorRole::kExpertGate, "mlp.experts.*.gate_proj.weight"},
    {TensorNames::kLlama, TensorRole::kExpertUp, "mlp.experts.*.up_proj.weight"},
    {TensorNames::kLlama, TensorRole::kExpertDown, "mlp.experts.*.down_proj.weight"},
    {TensorNames::kLlama, TensorRole::kFinalNorm, "model.norm.weight"},
    {TensorNames::kLlama, TensorRole::kLmHead, kLmHeadName},
};

constexpr std::string_view kWeight = ".weight";
constexpr std::string_view kBias = ".bias";

// Whose names come before Llama's, after its own.
TensorNames base_of(TensorNames own) {
  switch (own) {
    case TensorNames::kDeepseekApart:
      return TensorNames::kDeepseek;
    case TensorNames::kQwen35Moe:
    case TensorNames::kQwen3Next:
    case TensorNames::kQwen3NextApart:
      return TensorNames::kQwen35;
    case TensorNames::kGraniteHybridApart:
      return TensorNames::kGraniteHybrid;
    case TensorNames::kGemma4:
      return TensorNames::kNormsAround;
    default:
      return own;
  }
}

// The row that names a role, where is_of says that it is of the layer; nullptr: none does, by
// itself.
template <typename IsOf>
const RoleName* find_row(const RoleNames& names, TensorNames own, TensorRole role,
                         const IsOf& is_of) {
  for (const TensorNames these : {own, base_of(own), TensorNames::kLlama}) {
    for (const RoleName& row : names.rows) {
      if (row.names == these && row.role == role && is_of(row)) return &row;
    }
  }
  return nullptr;
}

// That of the rows of the same layers, or of all.
const RoleName* find_row(const RoleNames& names, TensorNames own, const NamedRole& role) {
  const auto same = [&](const RoleName& row) { return row.of == role.of; };
  const auto all = [](const RoleName& row) { return row.of == nullptr; };
  const RoleName* found = find_row(names, own, role.role, same);
  return found != nullptr ? found : find_row(names, own, role.role, all);
}

constexpr auto kNoRole = static_cast<TensorRole>(format::kTensorRoles);

// The role that people call so; kNoRole: none.
TensorRole role_called(std::string_view name) {
  for (size_t i = 0; i < format::kTensorRoles; ++i) {
    if (name == role_name(static_cast<TensorRole>(i))) return static_cast<TensorRole>(i);
  }
  return kNoRole;
}

// Whether a name is a row's, with any number in its place.
bool is_called(std::string_view name, std::string_view row) {
  const size_t at = row.find(kMatrixNumber);
  if (at == std::string_view::npos || name == row) return name == row;
  const std::string_view behind = row.substr(at + 1);
  if (name.size() < row.size() || !name.starts_with(row.substr(0, at)) || !name.ends_with(behind)) {
    return false;
  }
  const std::string_view number = name.substr(at, name.size() - at - behind.size());
  return number.find_first_not_of("0123456789") == std::string_view::npos;
}

// The row of the first role of this name; nullptr: none.
const RoleName* row_named(const RoleNames& names, TensorNames own, std::string_view name) {
  for (const RoleName& row : names.rows) {
    if (is_called(name, row.name) && find_row(names, own, {row.role, "", row.of}) == &row)
      return &row;
  }
  return nullptr;
}

bool is_of_layer(TensorRole role) {
  const auto has = [role](std::span<const TensorRow> rows) {
    return std::any_of(rows.begin(), rows.end(),
                       [role](const auto& row) { return row.role == role; });
  };
  return !has(kRowsBeforeLayers) && !has(kRowsBehindLayers);
}

// What a role takes of a tensor that it shares with others, in layers of a kind.
uint64_t extent_of(const Config& config, const LayerKind& kind, const RoleName& name) {
  for (size_t part = 0; part < kLayerParts; ++part) {
    for (const TensorRow& row : layer_part(kind, part)) {
      if (row.role != name.role || row.n_matrices(*config.model, kind) == 0) continue;
      const bool takes_columns = row.form == TensorForm::kVector || name.take == Take::kTurnedHeads;
      return (takes_columns ? row.cols : row.rows)(*config.model, kind);
    }
  }
  return 0;
}

// The names of all tensors that a pattern names.
std::vector<std::string> names_of(const std::string& pattern, Take take, uint32_t n_matrices) {
  if (take == Take::kOnes) return {};
  if (take == Take::kWithBias) return {pattern, bias_name(pattern)};
  const size_t at = pattern.find(kMatrixNumber);
  if (at == std::string::npos) return {pattern};
  std::vector<std::string> names;
  for (uint32_t i = 0; i < n_matrices; ++i) {
    names.push_back(std::string(pattern).replace(at, 1, std::to_string(i)));
  }
  return names;
}

}  // namespace

const RoleNames kHuggingFaceNames = {"model.layers.", kRows};

bool has_experts(const LayerKind& kind) {
  return kind.feed_forward == static_cast<uint8_t>(format::FeedForward::kExperts);
}

bool has_query_rank(const LayerKind& kind) { return kind.query_rank != 0; }

bool is_delta_rule(const LayerKind& kind) {
  return kind.mixer == static_cast<uint8_t>(format::Mixer::kDeltaRule);
}

bool is_state_space(const LayerKind& kind) {
  return kind.mixer == static_cast<uint8_t>(format::Mixer::kStateSpace);
}

bool is_convolution(const LayerKind& kind) {
  return kind.mixer == static_cast<uint8_t>(format::Mixer::kShortConvolution);
}

std::string bias_name(std::string_view weight) {
  weight.remove_suffix(kWeight.size());
  return std::string(weight).append(kBias);
}

TensorRole without_bias(TensorRole role) {
  std::string_view name = role_name(role);
  if (!name.ends_with(kBias)) return role;
  name.remove_suffix(kBias.size());
  return role_called(name);
}

std::optional<NamedRole> find_role(const RoleNames& names, TensorNames own, std::string_view name) {
  NamedRole found = {};
  if (name.starts_with(names.layers)) {
    name.remove_prefix(names.layers.size());
    found.layer = name.substr(0, name.find('.'));
    name.remove_prefix(found.layer.size());
    if (name.empty() || found.layer.empty()) return std::nullopt;
    name.remove_prefix(1);
  }
  const RoleName* row = row_named(names, own, name);
  found.role = row != nullptr ? row->role : kNoRole;
  if (row == nullptr && name.ends_with(kBias)) {
    name.remove_suffix(kBias.size());
    row = row_named(names, own, std::string(name).append(kWeight));
    if (row != nullptr) found.role = role_called(std::string(role_name(row->role)).append(kBias));
  }
  if (found.role == kNoRole || is_of_layer(found.role) == found.layer.empty()) return std::nullopt;
  found.of = row->of;
  return found;
}

std::string role_name_in(const RoleNames& names, TensorNames own, const NamedRole& role) {
  const RoleName* row = find_row(names, own, role);
  std::string name;
  if (row != nullptr) {
    name = row->name;
  } else {
    row = find_row(names, own, {without_bias(role.role), role.layer, role.of});
    if (row == nullptr || !row->name.ends_with(kWeight)) return "";
    name = bias_name(row->name);
  }
  if (role.layer.empty()) return name;
  return std::string(names.layers).append(role.layer).append(".").append(name);
}

std::string without_wrappers(std::string name) {
  constexpr std::string_view kAnywhere[] = {"_orig_mod.", "_fsdp_wrapped_module.",
                                            "_checkpoint_wrapped_module."};
  constexpr std::string_view kInFront = "module.";
  for (const std::string_view part : kAnywhere) {
    for (size_t at = name.find(part); at != std::string::npos; at = name.find(part, at)) {
      if (at == 0 || name[at - 1] == '.') {
        name.erase(at, part.size());
      } else {
        ++at;
      }
    }
  }
  while (name.starts_with(kInFront)) name.erase(0, kInFront.size());
  return name;
}

Recipe recipe_of(const Config& config, const TensorSpec& spec, const StoredForm& form) {
  const auto id = static_cast<format::Architecture>(config.model->architecture);
  const TensorNames own = form.names.value_or(architecture_row(id).names);
  const bool is_in_layer = spec.layer != format::kNone;
  const LayerKind kind = is_in_layer ? config.kinds[spec.kind] : LayerKind{};
  const auto is_of = [&kind](const RoleName& row) { return row.of == nullptr || row.of(kind); };
  const RoleName* found = find_row(kHuggingFaceNames, own, spec.role, is_of);
  const bool is_named = found != nullptr;
  if (!is_named) found = find_row(kHuggingFaceNames, own, without_bias(spec.role), is_of);
  if (found == nullptr) throw std::logic_error("a role without a name");
  const std::string layer = is_in_layer ? std::to_string(spec.layer) : "";
  const bool is_alike = is_named || found->take == Take::kOfHeads;  // biases lie as their matrices
  Take take = is_alike ? found->take : Take::kRows;
  if (take == Take::kColumns && form.has_rows) take = Take::kRows;
  const std::string name = role_name_in(kHuggingFaceNames, own, {spec.role, layer, found->of});
  Recipe recipe = {names_of(name, take, spec.n_matrices), take, 0, 0};
  if (!is_in_layer) {
    recipe.all = spec.is_matrix() ? spec.shape.rows : spec.shape.cols;
    return recipe;
  }
  for (const RoleName& row : kRows) {
    if (row.names != found->names || row.name != found->name || !is_of(row)) continue;
    if (row.role == found->role) recipe.first = recipe.all;
    recipe.all += extent_of(config, kind, row);
  }
  return recipe;
}

}  // namespace cria::converter
