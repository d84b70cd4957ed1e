#include "converter/gguf/gguf_names.h"

#include "converter/error.h"

namespace cria::converter {
namespace {

using format::Architecture;
using format::TensorRole;

bool has_experts_of_llama(const JsonObject& metadata) {
  return metadata.count("llama.expert_count").value_or(0) != 0;
}
bool is_v3(const JsonObject& metadata) {
  constexpr uint32_t kSigmoid = 2;
  return metadata.count("deepseek2.expert_gating_func").value_or(0) == kSigmoid;
}
// As files are since 2025-04, with values of a head that has absorbed the expansion.
bool is_apart(const JsonObject& metadata) {
  return metadata.is_on("deepseek2.attention.key_length_mla");
}
bool is_v3_apart(const JsonObject& metadata) { return is_v3(metadata) && is_apart(metadata); }
bool has_windows(const JsonObject& metadata) {
  return metadata.count("olmo2.attention.sliding_window").value_or(0) != 0;
}
constexpr StoredForm kApart = {.names = TensorNames::kDeepseekApart};
constexpr StoredForm kStateSpaces = {.names = TensorNames::kGraniteHybridApart, .has_decays = true};
constexpr StoredForm kQwen3Next = {
    .names = TensorNames::kQwen3NextApart, .has_whole_norms = true, .has_decays = true};
constexpr StoredForm kQwen35 = {.names = TensorNames::kQwen35,
                                .has_whole_norms = true,
                                .has_decays = true,
                                .has_tiled_values = true};

// A Mistral is a "llama" too, and a Mixtral one with experts.
constexpr GgufArchitecture kArchitectures[] = {
    {"llama", Architecture::kMixtral, true, has_experts_of_llama},
    {"llama", Architecture::kLlama, true},
    {"granite", Architecture::kGranite, true},
    {"granitemoe", Architecture::kGraniteMoe, true, nullptr, {.names = TensorNames::kMixtral}},
    {"qwen2", Architecture::kQwen2, false},
    {"qwen2moe", Architecture::kQwen2Moe, false},
    {"qwen3", Architecture::kQwen3, false},
    {"qwen3moe", Architecture::kQwen3Moe, false},
    {"olmoe", Architecture::kOlmoe, false},
    {"smollm3", Architecture::kSmolLm3, true},
    {"phi3", Architecture::kPhi3, false},
    {"deepseek2", Architecture::kDeepseekV3, false, is_v3_apart, kApart},
    {"deepseek2", Architecture::kDeepseekV3, false, is_v3},
    {"deepseek2", Architecture::kDeepseekV2, false, is_apart, kApart},
    {"deepseek2", Architecture::kDeepseekV2, false},
    {"gpt2", Architecture::kGpt2, false, nullptr, {.has_rows = true}},
    {"mistral3", Architecture::kMinistral3, true},
    {"ernie4_5", Architecture::kErnie45, false},
    {"exaone4", Architecture::kExaone4, false},
    {"olmo2", Architecture::kOlmo3, false, has_windows},
    {"olmo2", Architecture::kOlmo2, false},
    {"gemma2", Architecture::kGemma2, false, nullptr, {.has_whole_norms = true}},
    {"gemma3", Architecture::kGemma3, false, nullptr, {.has_whole_norms = true}},
    {"gemma4", Architecture::kGemma4, false},
    {"lfm2", Architecture::kLfm2, false},
    {"lfm2moe", Architecture::kLfm2Moe, false},
    {"granitehybrid", Architecture::kGraniteHybrid, true, nullptr, kStateSpaces},
    {"qwen3next", Architecture::kQwen3Next, false, nullptr, kQwen3Next},
    {"qwen35", Architecture::kQwen35, false, nullptr, kQwen35},
    {"qwen35moe", Architecture::kQwen35Moe, false, nullptr, kQwen35},
};

constexpr RoleName kRows[] = {
    {TensorNames::kPhi3, TensorRole::kQ, "attn_qkv.weight"},
    {TensorNames::kPhi3, TensorRole::kK, "attn_qkv.weight"},
    {TensorNames::kPhi3, TensorRole::kV, "attn_qkv.weight"},
    {TensorNames::kPhi3, TensorRole::kGate, "ffn_up.weight"},
    {TensorNames::kPhi3, TensorRole::kUp, "ffn_up.weight"},

    {TensorNames::kGpt2, TensorRole::kPositions, "position_embd.weight"},
    {TensorNames::kGpt2, TensorRole::kQ, "attn_qkv.weight"},
    {TensorNames::kGpt2, TensorRole::kK, "attn_qkv.weight"},
    {TensorNames::kGpt2, TensorRole::kV, "attn_qkv.weight"},

    {TensorNames::kQwen2Moe, TensorRole::kSharedGate, "ffn_gate_inp_shexp.weight"},
    {TensorNames::kQwen2Moe, TensorRole::kGate, "ffn_gate_shexp.weight", Take::kRows, has_experts},
    {TensorNames::kQwen2Moe, TensorRole::kUp, "ffn_up_shexp.weight", Take::kRows, has_experts},
    {TensorNames::kQwen2Moe, TensorRole::kDown, "ffn_down_shexp.weight", Take::kRows, has_experts},

    {TensorNames::kDeepseek, TensorRole::kQDown, "attn_q_a.weight"},
    {TensorNames::kDeepseek, TensorRole::kQDownNorm, "attn_q_a_norm.weight"},
    {TensorNames::kDeepseek, TensorRole::kQ, "attn_q_b.weight", Take::kRows, has_query_rank},
    {TensorNames::kDeepseek, TensorRole::kLatentDown, "attn_kv_a_mqa.weight"},
    {TensorNames::kDeepseek, TensorRole::kK, "attn_kv_a_mqa.weight"},
    {TensorNames::kDeepseek, TensorRole::kLatentNorm, "attn_kv_a_norm.weight"},
    {TensorNames::kDeepseek, TensorRole::kKeyUp, "attn_kv_b.weight"},
    {TensorNames::kDeepseek, TensorRole::kValueUp, "attn_kv_b.weight"},
    {TensorNames::kDeepseek, TensorRole::kChoiceBias, "exp_probs_b.bias"},
    {TensorNames::kDeepseek, TensorRole::kGate, "ffn_gate_shexp.weight", Take::kRows, has_experts},
    {TensorNames::kDeepseek, TensorRole::kUp, "ffn_up_shexp.weight", Take::kRows, has_experts},
    {TensorNames::kDeepseek, TensorRole::kDown, "ffn_down_shexp.weight", Take::kRows, has_experts},

    {TensorNames::kDeepseekApart, TensorRole::kKeyUp, "attn_k_b.weight"},
    {TensorNames::kDeepseekApart, TensorRole::kValueUp, "attn_v_b.weight"},

    {TensorNames::kNormsBehind, TensorRole::kMixerOutNorm, "post_attention_norm.weight"},
    {TensorNames::kNormsBehind, TensorRole::kFfnOutNorm, "post_ffw_norm.weight"},
    {TensorNames::kNormsAround, TensorRole::kMixerOutNorm, "post_attention_norm.weight"},
    {TensorNames::kNormsAround, TensorRole::kFfnOutNorm, "post_ffw_norm.weight"},

    {TensorNames::kGemma4, TensorRole::kPerLayerTable, "per_layer_token_embd.weight"},
    {TensorNames::kGemma4, TensorRole::kPerLayerProjection, "per_layer_model_proj.weight"},
    {TensorNames::kGemma4, TensorRole::kPerLayerNorm, "per_layer_proj_norm.weight"},
    {TensorNames::kGemma4, TensorRole::kPerLayerGate, "inp_gate.weight"},
    {TensorNames::kGemma4, TensorRole::kPerLayerOut, "proj.weight"},
    {TensorNames::kGemma4, TensorRole::kPerLayerOutNorm, "post_norm.weight"},
    {TensorNames::kGemma4, TensorRole::kLayerScale, "layer_output_scale.weight"},
    {TensorNames::kGemma4, TensorRole::kRouterNorm, "ffn_gate_inp.scale"},
    {TensorNames::kGemma4, TensorRole::kExpertScale, "ffn_down_exps.scale"},
    {TensorNames::kGemma4, TensorRole::kExpertNorm, "pre_ffw_norm_2.weight"},
    {TensorNames::kGemma4, TensorRole::kExpertGate, "ffn_gate_up_exps.weight"},
    {TensorNames::kGemma4, TensorRole::kExpertUp, "ffn_gate_up_exps.weight"},
    {TensorNames::kGemma4, TensorRole::kExpertOutNorm, "post_ffw_norm_2.weight"},
    {TensorNames::kGemma4, TensorRole::kSharedOutNorm, "post_ffw_norm_1.weight"},

    {TensorNames::kLfm2, TensorRole::kK, "shortconv.in_proj.weight", Take::kRows, is_convolution},
    {TensorNames::kLfm2, TensorRole::kQ, "shortconv.in_proj.weight", Take::kRows, is_convolution},
    {TensorNames::kLfm2, TensorRole::kV, "shortconv.in_proj.weight", Take::kRows, is_convolution},
    {TensorNames::kLfm2, TensorRole::kConvolution, "shortconv.conv.weight"},
    {TensorNames::kLfm2, TensorRole::kConvolutionBias, "shortconv.conv.bias"},
    {TensorNames::kLfm2, TensorRole::kO, "shortconv.out_proj.weight", Take::kRows, is_convolution},
    {TensorNames::kLfm2, TensorRole::kChoiceBias, "exp_probs_b.bias"},
    {TensorNames::kLfm2, TensorRole::kFinalNorm, "token_embd_norm.weight"},

    {TensorNames::kGraniteHybrid, TensorRole::kMixerGate, "ssm_in.weight"},
    {TensorNames::kGraniteHybrid, TensorRole::kV, "ssm_in.weight", Take::kRows, is_state_space},
    {TensorNames::kGraniteHybrid, TensorRole::kK, "ssm_in.weight", Take::kRows, is_state_space},
    {TensorNames::kGraniteHybrid, TensorRole::kQ, "ssm_in.weight", Take::kRows, is_state_space},
    {TensorNames::kGraniteHybrid, TensorRole::kDecayIn, "ssm_in.weight"},
    {TensorNames::kGraniteHybrid, TensorRole::kConvolution, "ssm_conv1d.weight"},
    {TensorNames::kGraniteHybrid, TensorRole::kConvolutionBias, "ssm_conv1d.bias"},
    {TensorNames::kGraniteHybrid, TensorRole::kDecay, "ssm_a"},
    {TensorNames::kGraniteHybrid, TensorRole::kDecayBias, "ssm_dt.bias"},
    {TensorNames::kGraniteHybrid, TensorRole::kSkip, "ssm_d"},
    {TensorNames::kGraniteHybrid, TensorRole::kMixerInnerNorm, "ssm_norm.weight"},
    {TensorNames::kGraniteHybrid, TensorRole::kO, "ssm_out.weight", Take::kRows, is_state_space},
    {TensorNames::kGraniteHybrid, TensorRole::kGate, "ffn_gate_shexp.weight", Take::kRows,
     has_experts},
    {TensorNames::kGraniteHybrid, TensorRole::kUp, "ffn_up_shexp.weight", Take::kRows, has_experts},
    {TensorNames::kGraniteHybrid, TensorRole::kDown, "ffn_down_shexp.weight", Take::kRows,
     has_experts},

    {TensorNames::kQwen3NextApart, TensorRole::kBetaIn, "ssm_ba.weight"},
    {TensorNames::kQwen3NextApart, TensorRole::kDecayIn, "ssm_ba.weight"},

    {TensorNames::kQwen35, TensorRole::kQ, "attn_qkv.weight", Take::kRows, is_delta_rule},
    {TensorNames::kQwen35, TensorRole::kK, "attn_qkv.weight", Take::kRows, is_delta_rule},
    {TensorNames::kQwen35, TensorRole::kV, "attn_qkv.weight", Take::kRows, is_delta_rule},
    {TensorNames::kQwen35, TensorRole::kMixerGate, "attn_gate.weight", Take::kRows, is_delta_rule},
    {TensorNames::kQwen35, TensorRole::kDecayIn, "ssm_alpha.weight"},
    {TensorNames::kQwen35, TensorRole::kBetaIn, "ssm_beta.weight"},
    {TensorNames::kQwen35, TensorRole::kConvolution, "ssm_conv1d.weight"},
    {TensorNames::kQwen35, TensorRole::kDecay, "ssm_a"},
    {TensorNames::kQwen35, TensorRole::kDecayBias, "ssm_dt.bias"},
    {TensorNames::kQwen35, TensorRole::kMixerInnerNorm, "ssm_norm.weight"},
    {TensorNames::kQwen35, TensorRole::kO, "ssm_out.weight", Take::kRows, is_delta_rule},
    {TensorNames::kQwen35, TensorRole::kQ, "attn_q.weight"},
    {TensorNames::kQwen35, TensorRole::kMixerGate, "attn_q.weight"},
    {TensorNames::kQwen35, TensorRole::kFfnNorm, "post_attention_norm.weight"},
    {TensorNames::kQwen35, TensorRole::kSharedGate, "ffn_gate_inp_shexp.weight"},
    {TensorNames::kQwen35, TensorRole::kGate, "ffn_gate_shexp.weight", Take::kRows, has_experts},
    {TensorNames::kQwen35, TensorRole::kUp, "ffn_up_shexp.weight", Take::kRows, has_experts},
    {TensorNames::kQwen35, TensorRole::kDown, "ffn_down_shexp.weight", Take::kRows, has_experts},

    {TensorNames::kLlama, TensorRole::kEmbedding, kGgufEmbedding},
    {TensorNames::kLlama, TensorRole::kMixerNorm, "attn_norm.weight"},
    {TensorNames::kLlama, TensorRole::kQ, "attn_q.weight"},
    {TensorNames::kLlama, TensorRole::kK, "attn_k.weight"},
    {TensorNames::kLlama, TensorRole::kV, "attn_v.weight"},
    {TensorNames::kLlama, TensorRole::kQNorm, "attn_q_norm.weight"},
    {TensorNames::kLlama, TensorRole::kKNorm, "attn_k_norm.weight"},
    {TensorNames::kLlama, TensorRole::kO, "attn_output.weight"},
    {TensorNames::kLlama, TensorRole::kFfnNorm, "ffn_norm.weight"},
    {TensorNames::kLlama, TensorRole::kGate, "ffn_gate.weight"},
    {TensorNames::kLlama, TensorRole::kUp, "ffn_up.weight"},
    {TensorNames::kLlama, TensorRole::kDown, "ffn_down.weight"},
    {TensorNames::kLlama, TensorRole::kRouter, "ffn_gate_inp.weight"},
    {TensorNames::kLlama, TensorRole::kExpertGate, "ffn_gate_exps.weight"},
    {TensorNames::kLlama, TensorRole::kExpertUp, "ffn_up_exps.weight"},
    {TensorNames::kLlama, TensorRole::kExpertDown, "ffn_down_exps.weight"},
    {TensorNames::kLlama, TensorRole::kFinalNorm, "output_norm.weight"},
    {TensorNames::kLlama, TensorRole::kLmHead, kGgufOutput},
};
constexpr RoleNames kGgufNames = {"blk.", kRows};

// Empty: there is no role of that name, or the other files have none for it.
std::string renamed(const RoleNames& from, const RoleNames& to, TensorNames own,
                    std::string_view name) {
  const std::optional<NamedRole> role = find_role(from, own, name);
  return role ? role_name_in(to, own, *role) : "";
}

// name itself where it has no other.
std::string renamed_or_same(const RoleNames& from, const RoleNames& to, TensorNames own,
                            std::string_view name) {
  constexpr std::string_view kWeight = ".weight";
  constexpr std::string_view kBias = ".bias";
  const std::string found = renamed(from, to, own, name);
  if (!found.empty() || !name.ends_with(kBias)) return found.empty() ? std::string(name) : found;
  // The bias of a norm has no role of its own.
  const std::string_view stem = name.substr(0, name.size() - kBias.size());
  const std::string weight = renamed(from, to, own, std::string(stem).append(kWeight));
  return weight.ends_with(kWeight) ? bias_name(weight) : std::string(name);
}

// A matrix of a stack that stands alone, as in files of before 2024-04: "blk.0.ffn_gate.3.weight".
struct SingleExpert {
  std::string stack;  // what the stack is called
  std::string number;
};
std::optional<SingleExpert> single_expert(std::string_view name) {
  constexpr std::string_view kWeight = ".weight";
  for (const std::string_view part : {".ffn_gate.", ".ffn_up.", ".ffn_down."}) {
    const size_t at = name.find(part);
    if (at == std::string_view::npos || !name.ends_with(kWeight)) continue;
    const size_t begin = at + part.size();
    if (begin + kWeight.size() >= name.size()) return std::nullopt;  // a dense layer's
    const std::string_view number = name.substr(begin, name.size() - kWeight.size() - begin);
    return SingleExpert{std::string(name.substr(0, begin - 1)).append("_exps").append(kWeight),
                        std::string(number)};
  }
  return std::nullopt;
}

}  // namespace

const GgufArchitecture& find_gguf_architecture(const JsonObject& metadata) {
  constexpr const char* kKey = "general.architecture";
  const std::optional<std::string> name = metadata.text(kKey);
  std::string names;
  std::string_view last;
  for (const GgufArchitecture& known : kArchitectures) {
    const bool is_called = name && known.name == *name;
    if (is_called && (known.fits == nullptr || known.fits(metadata))) return known;
    if (known.name != last) names += (names.empty() ? "" : ", ") + std::string(known.name);
    last = known.name;
  }
  metadata.refuse(kKey, (name ? "'" + shown(*name) + "' is not supported" : "is missing") +
                            "; of GGUF files these are: " + names);
}

std::optional<NamedRole> gguf_role(const GgufArchitecture& architecture, std::string_view name) {
  return find_role(kGgufNames, architecture.names(), name);
}

std::string hugging_face_name(const GgufArchitecture& architecture, std::string_view name) {
  if (const std::optional<SingleExpert> expert = single_expert(name)) {
    std::string own = hugging_face_name(architecture, expert->stack);
    const size_t at = own.find(kMatrixNumber);
    return at == std::string::npos ? std::string(name) : own.replace(at, 1, expert->number);
  }
  return renamed_or_same(kGgufNames, kHuggingFaceNames, architecture.names(), name);
}

std::string gguf_name(const GgufArchitecture& architecture, std::string_view name) {
  return renamed_or_same(kHuggingFaceNames, kGgufNames, architecture.names(), name);
}

}  // namespace cria::converter
