#include "converter/architecture_table.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "converter/error.h"

namespace cria::converter {
namespace {

using format::Architecture;

constexpr uint32_t kAttentionBiases = format::flag::kMixerBias | format::flag::kOutputBias;
constexpr uint32_t kAllBiases = kAttentionBiases | format::flag::kFfnBias;

constexpr OtherKey kGpt2Keys[] = {
    {"n_embd", "hidden_size"},         {"n_layer", "num_hidden_layers"},
    {"n_head", "num_attention_heads"}, {"n_positions", "max_position_embeddings"},
    {"n_inner", "intermediate_size"},  {"layer_norm_epsilon", "rms_norm_eps"}};
constexpr OtherKey kExpertsKey[] = {{"num_local_experts", "num_experts"}};
constexpr OtherKey kRoutedKeys[] = {{"n_routed_experts", "num_experts"},
                                    {"num_local_experts", "num_experts"}};

constexpr std::string_view kSmolLm3Keys[] = {"no_rope_layers"};
constexpr std::string_view kHybridKeys[] = {"shared_intermediate_size", "num_experts",
                                            "num_experts_per_tok"};
constexpr std::string_view kGpt2OwnKeys[] = {"scale_attn_weights",
                                             "scale_attn_by_inverse_layer_idx"};
constexpr std::string_view kMixtralKeys[] = {"num_experts", "num_experts_per_tok"};
constexpr std::string_view kOlmoeKeys[] = {"num_experts", "num_experts_per_tok", "clip_qkv"};
constexpr std::string_view kQwen2MoeKeys[] = {"num_experts", "num_experts_per_tok",
                                              "moe_intermediate_size", "mlp_only_layers",
                                              "shared_expert_intermediate_size"};
constexpr std::string_view kQwen35MoeKeys[] = {"num_experts", "num_experts_per_tok",
                                               "moe_intermediate_size",
                                               "shared_expert_intermediate_size"};
constexpr std::string_view kQwen3MoeKeys[] = {"num_experts", "num_experts_per_tok",
                                              "moe_intermediate_size", "mlp_only_layers"};
constexpr std::string_view kDeepseekKeys[] = {
    "num_experts",      "num_experts_per_tok",   "moe_intermediate_size",
    "n_shared_experts", "first_k_dense_replace", "kv_lora_rank",
    "q_lora_rank"};
constexpr std::string_view kMiniCpmKeys[] = {"scale_emb", "scale_depth", "dim_model_base"};
constexpr std::string_view kMinistral3Keys[] = {"llama_4_scaling_beta"};
constexpr std::string_view kPatternKeys[] = {"sliding_window_pattern"};
constexpr std::string_view kGemma2Keys[] = {"sliding_window_pattern", "query_pre_attn_scalar",
                                            "attn_logit_softcapping", "final_logit_softcapping"};
// Its class has attn_logit_softcapping too, and reads it not.
constexpr std::string_view kGemma3Keys[] = {"sliding_window_pattern", "query_pre_attn_scalar",
                                            "final_logit_softcapping"};
constexpr std::string_view kGemma4Keys[] = {"final_logit_softcapping", "num_experts",
                                            "num_experts_per_tok", "moe_intermediate_size",
                                            "use_bidirectional_attention"};
constexpr OtherKey kGemma4ExpertsKey[] = {{"top_k_experts", "num_experts_per_tok"}};
constexpr OtherKey kPatternKey[] = {{"_sliding_window_pattern", "sliding_window_pattern"}};
// The last one is of models with experts.
constexpr OtherKey kLfm2Keys[] = {{"norm_eps", "rms_norm_eps"},
                                  {"theta", "rope_theta"},
                                  {"tie_embedding", "tie_word_embeddings"},
                                  {"num_dense_layers", "first_k_dense_replace"}};
constexpr std::string_view kLfm2MoeOwnKeys[] = {"num_experts", "num_experts_per_tok",
                                                "moe_intermediate_size", "first_k_dense_replace"};

// Norms of what a layer adds in place of those of what it reads, and both.
constexpr uint32_t kNormsBehind =
    format::flag::kMixerOutNorm | format::flag::kFfnOutNorm | format::flag::kGated;
constexpr uint32_t kNormsAround = kLlamaFlags | kNormsBehind;

// Attention with a gate, as Qwen3.5's.
constexpr uint32_t kGatedFlags = kLlamaFlags | format::flag::kHeadNorms | format::flag::kOutputGate;
constexpr ArchitectureRow kArchitectures[] = {
    {.class_name = "LlamaForCausalLM",
     .model_type = "llama",
     .id = Architecture::kLlama,
     .name = "Llama",
     .examples = "Llama 2 and 3, TinyLlama, SmolLM2, Falcon3, Yi, DeepSeek-R1-Distill-Llama",
     .flags_by_keys = kAllBiases},
    {.class_name = "MistralForCausalLM",
     .model_type = "mistral",
     .id = Architecture::kMistral,
     .name = "Mistral",
     .examples = "Mistral 7B, Mistral Nemo, Ministral 8B",
     .window = WindowKeys::kWindow,
     .max_context = 4096 * 32,
     .n_kv_heads = 8,
     .sliding_window = 4096},
    {.class_name = "GraniteForCausalLM",
     .model_type = "granite",
     .id = Architecture::kGranite,
     .name = "Granite",
     .examples = "Granite 3.0 to 3.3, 2B and 8B",
     .flags_by_keys = kAllBiases,
     .no_rope = NoRopeKeys::kPositionType,  // of GGUF files, which call Granite 4 so
     .has_multipliers = true},
    {.class_name = "Qwen2ForCausalLM",
     .model_type = "qwen2",
     .id = Architecture::kQwen2,
     .name = "Qwen2",
     .examples = "Qwen2, Qwen2.5, Qwen2.5-Coder, DeepSeek-R1-Distill-Qwen",
     .flags = kLlamaFlags | format::flag::kMixerBias,
     .window = WindowKeys::kSwitch,
     .max_context = 32768,
     .n_kv_heads = 32,
     .sliding_window = 4096},
    {.class_name = "Qwen3ForCausalLM",
     .model_type = "qwen3",
     .id = Architecture::kQwen3,
     .name = "Qwen3",
     .examples = "Qwen3 0.6B to 32B",
     .flags = kLlamaFlags | format::flag::kHeadNorms,
     .flags_by_keys = kAttentionBiases,
     .window = WindowKeys::kSwitch,
     .max_context = 32768,
     .n_kv_heads = 32,
     .head_dim = 128,
     .sliding_window = 4096},
    {.class_name = "SmolLM3ForCausalLM",
     .model_type = "smollm3",
     .id = Architecture::kSmolLm3,
     .name = "SmolLM3",
     .examples = "SmolLM3 3B",
     .flags_by_keys = kAllBiases,
     .own_keys = kSmolLm3Keys,
     .window = WindowKeys::kNoRopeOnly,
     .no_rope = NoRopeKeys::kLayers,
     .max_context = 32768,
     .n_kv_heads = 4,
     .rope_theta = 2e6,
     .is_tied = true},
    {.class_name = "Phi3ForCausalLM",
     .model_type = "phi3",
     .id = Architecture::kPhi3,
     .name = "Phi-3",
     .examples = "Phi-3 mini and medium, Phi-3.5-mini, Phi-4, Phi-4-mini",
     .names = TensorNames::kPhi3,
     .window = WindowKeys::kWindow,
     .has_partial_rotary = true,
     .yarn_means_longrope = true,
     .max_context = 4096,
     .original_context = 4096,
     .rms_epsilon = 1e-5},
    {.class_name = "GraniteMoeHybridForCausalLM",
     .model_type = "granitemoehybrid",
     .id = Architecture::kGraniteHybrid,
     .name = "Granite 4",
     .examples = "Granite 4.0 micro, 1B and 350M, also -h; tiny-h and small-h",
     .names = TensorNames::kGraniteHybrid,
     .flags_by_keys = kAttentionBiases,
     .other_keys = kExpertsKey,
     .own_keys = kHybridKeys,
     .no_rope = NoRopeKeys::kPositionType,
     .has_multipliers = true,
     .is_hybrid = true,
     .other_mixer = format::Mixer::kStateSpace,
     .other_layer = "mamba",
     .ffn_key = "shared_intermediate_size"},
    {.class_name = "GPT2LMHeadModel",
     .model_type = "gpt2",
     .id = Architecture::kGpt2,
     .name = "GPT-2",
     .examples = "GPT-2 124M to XL, DistilGPT-2",
     .names = TensorNames::kGpt2,
     .flags = format::flag::kMixerNorm | format::flag::kFfnNorm | kAllBiases,
     .norm = format::Norm::kLayerNorm,
     .other_keys = kGpt2Keys,
     .own_keys = kGpt2OwnKeys,
     .no_rope = NoRopeKeys::kAll,
     .activation_key = "activation_function",
     .activation = "gelu_new",
     .max_context = 1024,
     .rms_epsilon = 1e-5,
     .is_tied = true},
    {.class_name = "MixtralForCausalLM",
     .model_type = "mixtral",
     .id = Architecture::kMixtral,
     .name = "Mixtral",
     .examples = "Mixtral 8x7B and 8x22B",
     .names = TensorNames::kMixtral,
     .other_keys = kExpertsKey,
     .own_keys = kMixtralKeys,
     .window = WindowKeys::kWindow,
     .max_context = 4096 * 32,
     .n_kv_heads = 8,
     .rms_epsilon = 1e-5,
     .rope_theta = 1e6},
    {.class_name = "Qwen2MoeForCausalLM",
     .model_type = "qwen2_moe",
     .id = Architecture::kQwen2Moe,
     .name = "Qwen2-MoE",
     .examples = "Qwen1.5-MoE-A2.7B, Qwen2-57B-A14B",
     .names = TensorNames::kQwen2Moe,
     .other_keys = kExpertsKey,
     .own_keys = kQwen2MoeKeys,
     .window = WindowKeys::kSwitchEven,
     .d_ff = 5632,
     .max_context = 32768,
     .n_kv_heads = 16,
     .sliding_window = 4096},
    {.class_name = "Qwen3MoeForCausalLM",
     .model_type = "qwen3_moe",
     .id = Architecture::kQwen3Moe,
     .name = "Qwen3-MoE",
     .examples = "Qwen3-30B-A3B and 235B-A22B, Qwen3-Coder-30B-A3B",
     .flags = kLlamaFlags | format::flag::kHeadNorms,
     .flags_by_keys = kAttentionBiases,
     .other_keys = kExpertsKey,
     .own_keys = kQwen3MoeKeys,
     .window = WindowKeys::kSwitchAll,
     .d_ff = 6144,
     .max_context = 32768,
     .n_kv_heads = 4,
     .sliding_window = 4096},
    {.class_name = "OlmoeForCausalLM",
     .model_type = "olmoe",
     .id = Architecture::kOlmoe,
     .name = "OLMoE",
     .examples = "OLMoE 1B-7B",
     .flags = kLlamaFlags | format::flag::kWholeNorms,
     .flags_by_keys = kAttentionBiases,
     .other_keys = kExpertsKey,
     .own_keys = kOlmoeKeys,
     .max_context = 4096,
     .rms_epsilon = 1e-5},
    {.class_name = "GraniteMoeForCausalLM",
     .model_type = "granitemoe",
     .id = Architecture::kGraniteMoe,
     .name = "Granite-MoE",
     .examples = "Granite 3.0 and 3.1 1B-A400M and 3B-A800M",
     .names = TensorNames::kGraniteMoe,
     .flags_by_keys = kAttentionBiases,
     .other_keys = kExpertsKey,
     .own_keys = kMixtralKeys,
     .no_rope = NoRopeKeys::kPositionType,  // of GGUF files, as Granite's
     .has_multipliers = true},
    {.class_name = "DeepseekV2ForCausalLM",
     .model_type = "deepseek_v2",
     .id = Architecture::kDeepseekV2,
     .name = "DeepSeek-V2",
     .examples = "DeepSeek-V2 and V2.5, V2-Lite, Coder-V2",
     .names = TensorNames::kDeepseek,
     .flags_by_keys = kAttentionBiases,
     .mixer = format::Mixer::kLatentAttention,
     .other_keys = kRoutedKeys,
     .own_keys = kDeepseekKeys,
     .has_pairs = true,
     .d_ff = 11008},
    {.class_name = "DeepseekV3ForCausalLM",
     .model_type = "deepseek_v3",
     .id = Architecture::kDeepseekV3,
     .name = "DeepSeek-V3",
     .examples = "DeepSeek-V3 and R1 in bf16, Moonlight",
     .names = TensorNames::kDeepseek,
     .flags_by_keys = kAttentionBiases,
     .mixer = format::Mixer::kLatentAttention,
     .other_keys = kRoutedKeys,
     .own_keys = kDeepseekKeys,
     .has_pairs = true,
     .d_ff = 18432,
     .max_context = 4096},
    {.class_name = "MiniCPMForCausalLM",
     .model_type = "minicpm",
     .id = Architecture::kMiniCpm,
     .name = "MiniCPM",
     .examples = "MiniCPM 1B and 2B, MiniCPM4 0.5B and 8B",
     .flags_by_keys = kAttentionBiases,
     .own_keys = kMiniCpmKeys,
     .has_depth_multipliers = true,
     .is_tied = true},
    {.class_name = "Ministral3ForCausalLM",
     .model_type = "ministral3",
     .id = Architecture::kMinistral3,
     .name = "Ministral 3",
     .examples = "Ministral 3 3B, 8B and 14B",
     .own_keys = kMinistral3Keys,
     .window = WindowKeys::kWindow,
     .must_scale = true,
     .max_context = 262144,
     .n_kv_heads = 8,
     .head_dim = 128,
     .rms_epsilon = 1e-5,
     .rope_theta = 1e6},
    {.class_name = "Ernie4_5ForCausalLM",
     .model_type = "ernie4_5",
     .id = Architecture::kErnie45,
     .name = "ERNIE 4.5 (dense)",
     .examples = "ERNIE-4.5-0.3B",
     .has_pairs = true,
     .max_context = 131072,
     .n_kv_heads = 2,
     .head_dim = 128,
     .rms_epsilon = 1e-5,
     .rope_theta = 500000,
     .is_tied = true},
    {.class_name = "Exaone4ForCausalLM",
     .model_type = "exaone4",
     .id = Architecture::kExaone4,
     .name = "EXAONE 4",
     .examples = "EXAONE 4.0 1.2B and 32B",
     .names = TensorNames::kNormsBehind,
     .flags = kNormsBehind | format::flag::kHeadNorms,
     .own_keys = kPatternKeys,
     .window = WindowKeys::kPeriod,
     .no_rope = NoRopeKeys::kFull,
     .n_kv_heads = 32,
     .sliding_window = 4096,
     .window_period = 4,
     .rms_epsilon = 1e-5},
    {.class_name = "Olmo2ForCausalLM",
     .model_type = "olmo2",
     .id = Architecture::kOlmo2,
     .name = "OLMo 2",
     .examples = "OLMo 2 1B, 7B, 13B and 32B",
     .names = TensorNames::kNormsBehind,
     .flags = kNormsBehind | format::flag::kWholeNorms,
     .flags_by_keys = kAttentionBiases,
     .rms_epsilon = 1e-5},
    {.class_name = "Olmo3ForCausalLM",
     .model_type = "olmo3",
     .id = Architecture::kOlmo3,
     .name = "OLMo 3",
     .examples = "OLMo 3 7B and 32B",
     .names = TensorNames::kNormsBehind,
     .flags = kNormsBehind | format::flag::kWholeNorms,
     .flags_by_keys = kAttentionBiases,
     .window = WindowKeys::kPeriod,
     .window_rope = WindowRope::kUnscaled,
     .sliding_window = 4096,
     .window_period = 4,
     .rms_epsilon = 1e-5},
    {.class_name = "BitNetForCausalLM",
     .model_type = "bitnet",
     .id = Architecture::kBitNet,
     .name = "BitNet",
     .examples = "BitNet b1.58 2B4T",
     .names = TensorNames::kBitNet,
     .flags = kLlamaFlags | format::flag::kMixerInnerNorm | format::flag::kFfnInnerNorm,
     .flags_by_keys = kAttentionBiases,
     .activation = "relu2",
     .n_kv_heads = 5,
     .rms_epsilon = 1e-5,
     .rope_theta = 500000},
    {.class_name = "Gemma2ForCausalLM",
     .model_type = "gemma2",
     .id = Architecture::kGemma2,
     .name = "Gemma 2",
     .examples = "Gemma 2 2B, 9B and 27B",
     .names = TensorNames::kNormsAround,
     .flags = kNormsAround,
     .flags_by_keys = kAttentionBiases,
     .own_keys = kGemma2Keys,
     .window = WindowKeys::kEven,
     .scales_by_width = true,
     .norms_add_one = true,
     .activation_key = "hidden_activation",
     .activation = "gelu_pytorch_tanh",
     .max_context = 8192,
     .n_kv_heads = 4,
     .head_dim = 256,
     .sliding_window = 4096,
     .score_cap = 50,
     .logits_cap = 30,
     .is_tied = true},
    {.class_name = "Gemma3ForCausalLM",
     .model_type = "gemma3_text",
     .id = Architecture::kGemma3,
     .name = "Gemma 3",
     .examples = "Gemma 3 270M, 1B, 4B, 12B and 27B, FunctionGemma",
     .names = TensorNames::kNormsAround,
     .flags = kNormsAround | format::flag::kHeadNorms,
     .flags_by_keys = kAttentionBiases,
     .other_keys = kPatternKey,
     .own_keys = kGemma3Keys,
     .window = WindowKeys::kPeriod,
     .window_rope = WindowRope::kOwn,
     .scales_by_width = true,
     .norms_add_one = true,
     .activation_key = "hidden_activation",
     .activation = "gelu_pytorch_tanh",
     .max_context = 131072,
     .vocab_size = 262208,
     .n_heads = 8,
     .n_kv_heads = 4,
     .head_dim = 256,
     .sliding_window = 4096,
     .window_period = 6,
     .rope_theta = 1e6,
     .is_tied = true},
    {.class_name = "Lfm2ForCausalLM",
     .model_type = "lfm2",
     .id = Architecture::kLfm2,
     .name = "LFM2",
     .examples = "LFM2 and LFM2.5 350M, 700M, 1.2B and 2.6B",
     .names = TensorNames::kLfm2,
     .flags = kLlamaFlags | format::flag::kHeadNorms,
     .other_keys = std::span(kLfm2Keys).first(std::size(kLfm2Keys) - 1),
     .has_convolutions = true,
     .d_ff = 12288,
     .max_context = 128000,
     .vocab_size = 65536,
     .n_heads = 32,
     .n_kv_heads = 8,
     .rms_epsilon = 1e-5,
     .rope_theta = 1e6,
     .is_tied = true},
    {.class_name = "Lfm2MoeForCausalLM",
     .model_type = "lfm2_moe",
     .id = Architecture::kLfm2Moe,
     .name = "LFM2-MoE",
     .examples = "LFM2 8B-A1B and 24B-A2B",
     .names = TensorNames::kLfm2,
     .flags = kLlamaFlags | format::flag::kHeadNorms,
     .other_keys = kLfm2Keys,
     .own_keys = kLfm2MoeOwnKeys,
     .has_convolutions = true,
     .d_ff = 7168,
     .max_context = 128000,
     .vocab_size = 65536,
     .n_heads = 32,
     .n_kv_heads = 8,
     .rms_epsilon = 1e-5,
     .rope_theta = 1e6,
     .is_tied = true},
    {.class_name = "Qwen3_5ForCausalLM",
     .model_type = "qwen3_5_text",
     .id = Architecture::kQwen35,
     .name = "Qwen3.5",
     .examples = "Qwen3.5 0.8B to 27B",
     .names = TensorNames::kQwen35,
     .flags = kGatedFlags,
     .flags_by_keys = kAttentionBiases,
     .norms_add_one = true,
     .has_partial_rotary = true,
     .other_mixer = format::Mixer::kDeltaRule,
     .other_layer = "linear_attention",
     .rotary_part = 0.25,
     .d_ff = 12288,
     .max_context = 32768,
     .n_kv_heads = 4,
     .head_dim = 256},
    {.class_name = "Qwen3_5MoeForCausalLM",
     .model_type = "qwen3_5_moe_text",
     .id = Architecture::kQwen35Moe,
     .name = "Qwen3.5-MoE",
     .examples = "Qwen3.5 35B-A3B, 122B-A10B and 397B-A17B",
     .names = TensorNames::kQwen35Moe,
     .flags = kGatedFlags,
     .flags_by_keys = kAttentionBiases,
     .other_keys = kExpertsKey,
     .own_keys = kQwen35MoeKeys,
     .norms_add_one = true,
     .has_partial_rotary = true,
     .other_mixer = format::Mixer::kDeltaRule,
     .other_layer = "linear_attention",
     .rotary_part = 0.25,
     .d_ff = kUnusedWidth,
     .max_context = 32768,
     .n_kv_heads = 2,
     .head_dim = 256},
    {.class_name = "Qwen3NextForCausalLM",
     .model_type = "qwen3_next",
     .id = Architecture::kQwen3Next,
     .name = "Qwen3-Next",
     .examples = "Qwen3-Next-80B-A3B, Qwen3-Coder-Next",
     .names = TensorNames::kQwen3Next,
     .flags = kGatedFlags,
     .flags_by_keys = kAttentionBiases,
     .other_keys = kExpertsKey,
     .own_keys = kQwen2MoeKeys,
     .norms_add_one = true,
     .has_partial_rotary = true,
     .other_mixer = format::Mixer::kDeltaRule,
     .other_layer = "linear_attention",
     .rotary_part = 0.25,
     .d_ff = 5632,
     .max_context = 32768,
     .n_kv_heads = 2,
     .head_dim = 256},
    {.class_name = "Gemma4ForCausalLM",
     .model_type = "gemma4_text",
     .id = Architecture::kGemma4,
     .name = "Gemma 4",
     .examples = "Gemma 4 E2B, E4B, 26B-A4B and 31B",
     .names = TensorNames::kGemma4,
     .flags = kNormsAround | format::flag::kHeadNorms | format::flag::kValueNorm |
              format::flag::kLayerScale,
     .flags_by_keys = kAttentionBiases,
     .other_keys = kGemma4ExpertsKey,
     .own_keys = kGemma4Keys,
     .window = WindowKeys::kPeriod,
     .window_rope = WindowRope::kOwn,
     .scales_by_width = true,
     .has_plain_scores = true,
     .is_proportional = true,
     .rotary_part = 0.25,
     .activation_key = "hidden_activation",
     .activation = "gelu_pytorch_tanh",
     .max_context = 131072,
     .vocab_size = 262144,
     .n_heads = 8,
     .n_kv_heads = 4,
     .head_dim = 256,
     .sliding_window = 512,
     .window_period = 6,
     .rope_theta = 1e6,
     .is_tied = true},
};
static_assert(std::size(kArchitectures) == static_cast<size_t>(Architecture::kGemma4));

// What people try and is none of those, by how its class or its model_type begins; the first that
// fits says what it is.
struct RefusedRow {
  std::string_view class_begins;
  std::string_view type_begins;
  const char* what;
};
constexpr const char* kExperts = "a mixture of experts";
constexpr const char* kLatent = "latent attention (MLA) with a mixture of experts";
constexpr const char* kVision = "a model that sees or hears";
constexpr const char* kStateSpace = "layers that are no attention";
constexpr const char* kGemma = "another Gemma than 2, 3 and 4";
constexpr const char* kNorms = "norms in other places or of another kind than Llama's";
constexpr const char* kOld = "another layer than Llama's";
constexpr const char* kEncoder = "an encoder, which writes no text";
constexpr RefusedRow kRefused[] = {
    {"GptOss", "gpt_oss", kExperts},
    {"GraniteMoe", "granitemoe", kExperts},
    {"PhiMoE", "phimoe", kExperts},
    {"Ernie4_5_Moe", "ernie4_5_moe", kExperts},
    {"Glm4Moe", "glm4_moe", kExperts},
    {"Deepseek", "deepseek", kLatent},
    {"Kimi", "kimi", kLatent},
    {"MiniCPM3", "minicpm3", kLatent},
    {"Gemma", "gemma", kGemma},
    {"RecurrentGemma", "recurrent_gemma", kStateSpace},
    {"Lfm2", "lfm2", kVision},
    {"FalconH1", "falcon_h1", kStateSpace},
    {"FalconMamba", "falcon_mamba", kStateSpace},
    {"Mamba", "mamba", kStateSpace},
    {"Jamba", "jamba", kStateSpace},
    {"Bamba", "bamba", kStateSpace},
    {"Zamba", "zamba", kStateSpace},
    {"NemotronH", "nemotron_h", kStateSpace},
    {"Rwkv", "rwkv", kStateSpace},
    {"Olmo", "olmo", kNorms},
    {"StableLm", "stablelm", kNorms},
    {"Cohere", "cohere", kNorms},
    {"Glm", "glm", kNorms},
    {"ChatGLM", "chatglm", kNorms},
    {"Exaone", "exaone", kNorms},
    {"Nemotron", "nemotron", kNorms},
    {"Starcoder2", "starcoder2", kNorms},
    {"GPTNeoX", "gpt_neox", kOld},
    {"GPTNeo", "gpt_neo", kOld},
    {"GPTJ", "gptj", kOld},
    {"GPTBigCode", "gpt_bigcode", kOld},
    {"OPT", "opt", kOld},
    {"Bloom", "bloom", kOld},
    {"Falcon", "falcon", kOld},
    {"MPT", "mpt", kOld},
    {"Phi4Multimodal", "phi4_multimodal", kVision},
    {"Phi4MM", "phi4mm", kVision},
    {"Phi3V", "phi3_v", kVision},
    {"Phi3Small", "phi3small", kOld},
    {"Phi", "phi", kOld},
    {"Qwen2VL", "qwen2_vl", kVision},
    {"Qwen2_5_VL", "qwen2_5_vl", kVision},
    {"Qwen2_5Omni", "qwen2_5_omni", kVision},
    {"Qwen2Audio", "qwen2_audio", kVision},
    {"Qwen3VL", "qwen3_vl", kVision},
    {"Qwen3_5", "qwen3_5", kVision},
    {"Qwen3Omni", "qwen3_omni", kVision},
    {"Llava", "llava", kVision},
    {"Mistral3", "mistral3", kVision},
    {"Pixtral", "pixtral", kVision},
    {"Mllama", "mllama", kVision},
    {"Llama4", "llama4", kVision},
    {"Idefics", "idefics", kVision},
    {"SmolVLM", "smolvlm", kVision},
    {"PaliGemma", "paligemma", kVision},
    {"InternVL", "internvl", kVision},
    {"Bert", "bert", kEncoder},
    {"Roberta", "roberta", kEncoder},
    {"ModernBert", "modernbert", kEncoder},
    {"XLMRoberta", "xlm-roberta", kEncoder},
    {"T5", "t5", kEncoder},
};

const char* what_it_is(std::string_view class_name, std::string_view model_type) {
  for (const RefusedRow& row : kRefused) {
    const bool fits = class_name.empty() ? model_type.starts_with(row.type_begins)
                                         : class_name.starts_with(row.class_begins);
    if (fits) return row.what;
  }
  return nullptr;
}

// Also the class without the output layer, as models of embeddings are saved.
bool is_class(std::string_view name, std::string_view class_name) {
  constexpr std::string_view kWithHead = "ForCausalLM";
  if (name == class_name) return true;
  if (!class_name.ends_with(kWithHead)) return false;
  return name == std::string(class_name.substr(0, class_name.size() - kWithHead.size())) + "Model";
}

}  // namespace

const ArchitectureRow& find_architecture(const JsonObject& config) {
  const std::optional<std::vector<std::string>> classes = config.texts("architectures");
  const std::optional<std::string> model_type = config.text("model_type");
  const std::string class_name = classes && !classes->empty() ? classes->front() : "";
  if (class_name.empty() && !model_type) {
    config.refuse("architectures", "is missing; " + supported_architectures());
  }
  for (const ArchitectureRow& row : kArchitectures) {
    const bool same_class = class_name.empty() || is_class(class_name, row.class_name);
    const bool same_type = !model_type || *model_type == row.model_type;
    if (same_class && same_type) return row;
  }
  const char* what = what_it_is(class_name, model_type.value_or(""));
  const std::string reason = std::string(" is not supported") +
                             (what != nullptr ? std::string(" (") + what + ")" : "") + "; " +
                             supported_architectures();
  if (class_name.empty()) {
    config.refuse("model_type", "'" + shown(*model_type) + "'" + reason);
  }
  config.refuse(
      "architectures",
      shown(class_name) + (model_type ? " (model_type " + shown(*model_type) + ")" : "") + reason);
}

bool holds_text_model(std::string_view class_name) {
  constexpr std::string_view kHolders[] = {
      "Gemma3ForConditionalGeneration", "Gemma4ForConditionalGeneration",
      "Mistral3ForConditionalGeneration", "Qwen3_5ForConditionalGeneration",
      "Qwen3_5MoeForConditionalGeneration"};
  return std::find(std::begin(kHolders), std::end(kHolders), class_name) != std::end(kHolders);
}

const ArchitectureRow& architecture_row(format::Architecture id) {
  return *std::find_if(std::begin(kArchitectures), std::end(kArchitectures),
                       [id](const ArchitectureRow& row) { return row.id == id; });
}

std::string supported_architectures() {
  std::string text;
  for (const ArchitectureRow& row : kArchitectures) {
    if (!text.empty()) text += &row + 1 == std::end(kArchitectures) ? " and " : ", ";
    text += row.name;
  }
  return "this converter reads " + text;
}

std::string architectures_text() {
  size_t name_width = 0;
  size_t class_width = 0;
  for (const ArchitectureRow& row : kArchitectures) {
    name_width = std::max(name_width, std::string_view(row.name).size());
    class_width = std::max(class_width, std::string_view(row.class_name).size());
  }
  const auto padded = [](std::string text, size_t width) {
    text.resize(width + 2, ' ');
    return text;
  };
  std::string text;
  for (const ArchitectureRow& row : kArchitectures) {
    text +=
        padded(row.name, name_width) + padded(row.class_name, class_width) + row.examples + "\n";
  }
  return text;
}

}  // namespace cria::converter
