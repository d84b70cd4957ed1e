#include "converter/gguf/gguf_config.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>

#include "converter/error.h"
#include "converter/gguf/gguf_gemma4.h"
#include "converter/gguf/gguf_tokenizer.h"

namespace cria::converter {
namespace {

enum class Need { kRequired, kOptional };

// What a value of config.json is called here: the list of what is read, and of how errors name it.
struct NumberKey {
  const char* gguf;  // after "<architecture>."
  const char* config;
  Need need;
};

constexpr NumberKey kCounts[] = {
    {"block_count", "num_hidden_layers", Need::kRequired},
    {"embedding_length", "hidden_size", Need::kRequired},
    {"attention.head_count", "num_attention_heads", Need::kRequired},
    {"context_length", "max_position_embeddings", Need::kRequired},
    {"expert_count", "num_experts", Need::kOptional},
    {"expert_used_count", "num_experts_per_tok", Need::kOptional},
    {"expert_shared_count", "n_shared_experts", Need::kOptional},
    {"expert_group_count", "n_group", Need::kOptional},
    {"expert_group_used_count", "topk_group", Need::kOptional},
    {"leading_dense_block_count", "first_k_dense_replace", Need::kOptional},
};
constexpr NumberKey kFfnWidth = {"feed_forward_length", "intermediate_size", Need::kRequired};
constexpr NumberKey kKeyHeads = {"attention.head_count_kv", "num_key_value_heads", Need::kOptional};
constexpr NumberKey kHeadDim = {"attention.key_length", "head_dim", Need::kOptional};
constexpr NumberKey kQueryRank = {"attention.q_lora_rank", "q_lora_rank", Need::kOptional};
constexpr NumberKey kLatentRank = {"attention.kv_lora_rank", "kv_lora_rank", Need::kRequired};
constexpr NumberKey kExpertWidth = {"expert_feed_forward_length", "moe_intermediate_size",
                                    Need::kOptional};
constexpr NumberKey kSharedWidth = {"expert_shared_feed_forward_length",
                                    "shared_expert_intermediate_size", Need::kOptional};

constexpr NumberKey kRmsEpsilon = {"attention.layer_norm_rms_epsilon", "rms_norm_eps",
                                   Need::kRequired};
constexpr NumberKey kLayerNormEpsilon = {"attention.layer_norm_epsilon", "rms_norm_eps",
                                         Need::kRequired};

constexpr NumberKey kNumbers[] = {
    {"rope.freq_base", "rope_theta", Need::kOptional},
    {"rope.freq_base_swa", "rope_local_base_freq", Need::kOptional},
};

constexpr NumberKey kGraniteNumbers[] = {
    {"embedding_scale", "embedding_multiplier", Need::kOptional},
    {"residual_scale", "residual_multiplier", Need::kOptional},
    {"logit_scale", "logits_scaling", Need::kOptional},
    {"attention.scale", "attention_multiplier", Need::kOptional},
};

constexpr const char* kConfigAttentionFactor = "rope_scaling.attention_factor";
constexpr const char* kAttentionFactor = "rope.scaling.attn_factor";
constexpr const char* kLogMultiplier = "rope.scaling.yarn_log_multiplier";
constexpr double kYarnLogWeight = 0.1;

constexpr NumberKey kYarnNumbers[] = {
    {"rope.scaling.yarn_beta_fast", "rope_scaling.beta_fast", Need::kOptional},
    {"rope.scaling.yarn_beta_slow", "rope_scaling.beta_slow", Need::kOptional},
    {"rope.scaling.yarn_attn_factor", kConfigAttentionFactor, Need::kOptional},
};

// What else has another name, without an architecture before it: tensors, too, that say something.
struct OtherName {
  const char* config;
  std::string_view gguf;
};
constexpr OtherName kOtherNames[] = {
    {"architectures", "general.architecture"},
    {"bos_token_id", "tokenizer.ggml.bos_token_id"},
    {"eos_token_id", "tokenizer.ggml.eos_token_id"},
    {"tie_word_embeddings", kGgufOutput},
    {"rope_scaling.long_factor", kGgufLongFactors},
    {"rope_scaling.short_factor", kGgufShortFactors},
};

// Values that change results in ways that the runtime has no words for.
constexpr const char* kForeign[] = {
    "activation_sparsity_scale", "attention.chunk_size", "attention.max_alibi_bias",
    "attention.output_scale",    "expert_group_scale",   "experts_per_group",
    "interleave_moe_layer_step", "moe_every_n_layers",   "moe_latent_size",
    "nextn_predict_layers",      "swiglu_clamp_exp",     "use_parallel_residual",
};
// That of texts is one position, which is nothing where each of them turns the same.
constexpr const char* kSections = "rope.dimension_sections";

// Sizes of mixers that keep a state, as config.json has them of each.
constexpr NumberKey kSpaceCounts[] = {
    {"ssm.conv_kernel", "mamba_d_conv", Need::kRequired},
    {"ssm.state_size", "mamba_d_state", Need::kRequired},
    {"ssm.group_count", "mamba_n_groups", Need::kRequired},
    {"ssm.time_step_rank", "mamba_n_heads", Need::kRequired},
};
constexpr NumberKey kDeltaCounts[] = {
    {"ssm.conv_kernel", "linear_conv_kernel_dim", Need::kRequired},
    {"ssm.state_size", "linear_key_head_dim", Need::kRequired},
    {"ssm.group_count", "linear_num_key_heads", Need::kRequired},
    {"ssm.time_step_rank", "linear_num_value_heads", Need::kRequired},
    {"full_attention_interval", "full_attention_interval", Need::kOptional},
};
constexpr const char* kInnerSize = "ssm.inner_size";
constexpr const char* kRecurrent = "attention.recurrent_layers";

constexpr const char* kGrowth = "llama_4_scaling_beta";

// The same, but of architectures that have the key of config.json.
struct OwnNumber {
  const char* gguf;
  const char* key;
  const char* config;
};
constexpr OwnNumber kOwnNumbers[] = {
    {"attn_logit_softcapping", "attn_logit_softcapping", "attn_logit_softcapping"},
    {"final_logit_softcapping", "final_logit_softcapping", "final_logit_softcapping"},
    {"attention.temperature_scale", kGrowth, "rope_scaling.llama_4_scaling_beta"},
};
constexpr const char* kQueryScale = "query_pre_attn_scalar";
constexpr const char* kPattern = "attention.sliding_window_pattern";

// The same where attention is not latent.
constexpr const char* kLatentKeys[] = {
    "attention.kv_lora_rank",     "attention.q_lora_rank", "attention.key_length_mla",
    "attention.value_length_mla", kLogMultiplier,
};

constexpr const char* kWindow = "attention.sliding_window";
constexpr const char* kDefaultModelType = "model";

// One conversion of metadata into a config.
class ConfigWriter {
 public:
  ConfigWriter(const GgufArchitecture& architecture, const Json& metadata,
               const GgufTensorFacts& facts, const std::string& where)
      : architecture_(architecture), json_(metadata), metadata_(metadata, where), facts_(facts) {}

  ConfigFiles run() {
    refuse_others();
    for (const OtherName& other : kOtherNames) names_[other.config] = other.gguf;
    names_[attention_bias_key()] = facts_.attention_bias;
    names_["mlp_bias"] = facts_.mlp_bias;
    config_ = {{"architectures", {architecture_.row().class_name}},
               {"model_type", architecture_.row().model_type},
               {"tie_word_embeddings", !facts_.has_output},
               {attention_bias_key(), !facts_.attention_bias.empty()},
               {"mlp_bias", !facts_.mlp_bias.empty()},
               {"vocab_size", vocab_size()}};
    for (const NumberKey& count : kCounts) copy_count(count);
    const bool has_layer_norms = architecture_.row().norm == format::Norm::kLayerNorm;
    copy_number(has_layer_norms ? kLayerNormEpsilon : kRmsEpsilon);
    for (const NumberKey& number : kNumbers) copy_number(number);
    for (const NumberKey& number : kGraniteNumbers) {
      if (is_granite()) copy_number(number);
    }
    // Of other architectures it says how they were trained.
    const std::string has_rope = named("position_embedding_type", "rope.scaling.finetuned");
    if (is_granite() && !metadata_.boolean(has_rope).value_or(true)) {
      config_["position_embedding_type"] = "nope";
    }
    add_window();
    add_pattern();
    ConfigFiles files;
    if (architecture_.id == format::Architecture::kGemma4) {
      add_gemma4(metadata_, facts_, &config_, &names_);
    } else {
      if (architecture_.row().d_ff != kUnusedWidth) copy_count(kFfnWidth);
      add_heads();
      add_experts();
      add_rope();
      files.rope_factors = facts_.rope_factors;
    }
    for (const OwnNumber& number : kOwnNumbers) {
      if (has_key(number.key)) copy_number({number.gguf, number.config, Need::kOptional});
    }
    if (has_key(kQueryScale)) add_query_scale();
    add_tokens();
    files.config = std::make_shared<const Json>(std::move(config_));
    files.where = metadata_.where();
    files.key_names = std::move(names_);
    files.form = architecture_.form;
    files.embedding = embedding();
    return files;
  }

 private:
  [[nodiscard]] std::string key(const char* name) const {
    return std::string(architecture_.name) + "." + name;
  }
  // Whoever runs such a file gives embeddings the length 1.
  [[nodiscard]] std::optional<EmbeddingModules> embedding() const {
    constexpr format::Pooling kPoolings[] = {format::Pooling::kUnsaid, format::Pooling::kMean,
                                             format::Pooling::kFirst, format::Pooling::kLast};
    const std::string name = key("pooling_type");
    const uint32_t type = metadata_.count(name).value_or(0);
    if (type >= std::size(kPoolings)) {
      metadata_.refuse(name, std::to_string(type) +
                                 " is not supported: 1 (mean), 2 (cls) and 3 (last) are read");
    }
    if (type == 0) return std::nullopt;
    return EmbeddingModules{kPoolings[type], true};
  }
  // The key that gives config's value: from now on errors call that so.
  std::string named(const char* config, const char* name) { return names_[config] = key(name); }
  // Of the biases that this architecture may have.
  [[nodiscard]] const char* attention_bias_key() const {
    return architecture_.id == format::Architecture::kQwen2Moe ? "qkv_bias" : "attention_bias";
  }
  // Of config.json.
  [[nodiscard]] bool has_key(std::string_view config) const {
    return architecture_.row().has_key(config);
  }
  [[nodiscard]] bool is_granite() const { return architecture_.row().has_multipliers; }
  [[nodiscard]] format::Mixer other_mixer() const { return architecture_.row().other_mixer; }
  [[nodiscard]] bool is_latent() const {
    return architecture_.row().mixer == format::Mixer::kLatentAttention;
  }

  void refuse_others() const {
    const std::string type = metadata_.text("general.type").value_or(kDefaultModelType);
    if (type != kDefaultModelType) {
      metadata_.refuse("general.type",
                       "'" + shown(type) + "' is not a whole model; give the whole model");
    }
    for (const char* name : kForeign) {
      if (metadata_.is_on(key(name))) metadata_.refuse(key(name), "is not supported");
    }
    if (other_mixer() != format::Mixer::kDeltaRule && metadata_.is_on(key(kSections))) {
      metadata_.refuse(key(kSections), "is not supported");
    }
    for (const OwnNumber& number : kOwnNumbers) {
      if (!has_key(number.key) && metadata_.is_on(key(number.gguf))) {
        metadata_.refuse(key(number.gguf), "is not supported for this architecture");
      }
    }
    if (!metadata_.boolean(key("attention.causal")).value_or(true)) {
      metadata_.refuse(key("attention.causal"), "is false: it is no model that writes");
    }
    if (!is_latent()) refuse_latent();
    if (!is_granite()) {
      for (const NumberKey& number : kGraniteNumbers) {
        if (metadata_.is_on(key(number.gguf)))
          metadata_.refuse(key(number.gguf), "is not supported");
      }
    }
  }

  void refuse_latent() const {
    for (const char* name : kLatentKeys) {
      if (std::string_view(name) == kLogMultiplier && has_key(kGrowth)) continue;
      if (metadata_.is_on(key(name))) metadata_.refuse(key(name), "is not supported");
    }
    const auto value_length = metadata_.count(key("attention.value_length"));
    if (value_length && value_length != metadata_.count(key("attention.key_length"))) {
      metadata_.refuse(key("attention.value_length"), "must be attention.key_length");
    }
  }

  [[nodiscard]] uint64_t vocab_size() {
    constexpr const char* kTokens = "tokenizer.ggml.tokens";
    if (const auto count = metadata_.count(named("vocab_size", "vocab_size"))) return *count;
    names_["vocab_size"] = kTokens;
    const auto tokens = json_.find(kTokens);
    if (tokens != json_.end() && tokens->is_array()) return tokens->size();
    names_["vocab_size"] = "rows of " + std::string(kGgufEmbedding);
    return facts_.n_embeddings.value_or(0);
  }

  void copy_count(const NumberKey& count) {
    const std::string name = named(count.config, count.gguf);
    const auto value = count.need == Need::kRequired ? std::optional(metadata_.required_count(name))
                                                     : metadata_.count(name);
    if (value) config_[count.config] = *value;
  }

  void add_heads() {
    if (is_latent()) return add_latent_heads();
    if (architecture_.row().has_convolutions) {
      add_convolutions();
    } else if (other_mixer() == format::Mixer::kStateSpace) {
      add_state_spaces();
    } else {
      copy_count(kKeyHeads);
    }
    if (other_mixer() == format::Mixer::kDeltaRule) add_delta_rule();
    copy_count(kHeadDim);
  }

  // The width of the MLP has been computed.
  void add_convolutions() {
    copy_count({"shortconv.l_cache", "conv_L_cache", Need::kRequired});
    config_["block_auto_adjust_ff_dim"] = false;
    add_layers_without_keys(kConvolutionLayer);
  }

  void add_state_spaces() {
    for (const NumberKey& count : kSpaceCounts) copy_count(count);
    config_["mamba_d_head"] = inner_size_by("mamba_d_head", key("ssm.time_step_rank"));
    config_["mamba_expand"] = inner_size_by("mamba_expand", key("embedding_length"));
    add_layers_without_keys(architecture_.row().other_layer);
    // Without experts it has no other MLP.
    const char* const shared = "expert_shared_feed_forward_length";
    const bool is_said = metadata_.count(key(shared)).value_or(0) != 0;
    copy_count({is_said ? shared : kFfnWidth.gguf, "shared_intermediate_size", Need::kRequired});
    if (!config_.contains("num_experts")) config_["num_experts"] = 0U;
  }

  void add_delta_rule() {
    for (const NumberKey& count : kDeltaCounts) copy_count(count);
    config_["linear_value_head_dim"] =
        inner_size_by("linear_value_head_dim", key("ssm.time_step_rank"));
    // Older files have only the interval.
    if (metadata_.has(key(kRecurrent))) {
      add_layer_types(kRecurrent, architecture_.row().other_layer, "full_attention");
    }
  }

  // What all heads have together, by another count.
  [[nodiscard]] uint32_t inner_size_by(const char* config, const std::string& divisor) {
    const std::string name = named(config, kInnerSize);
    const uint32_t size = metadata_.required_count(name);
    const uint32_t n = metadata_.required_count(divisor);
    if (n == 0 || size % n != 0) metadata_.refuse(name, "must be a multiple of " + divisor);
    return size / n;
  }

  // Layers without heads of keys are no attention.
  void add_layers_without_keys(std::string_view other) {
    const std::string name = named("num_key_value_heads", kKeyHeads.gguf);
    (void)named("layer_types", kKeyHeads.gguf);
    const auto heads = json_.find(name);
    if (heads == json_.end() || !heads->is_array()) return copy_count(kKeyHeads);
    const std::vector<uint32_t> counts = *metadata_.counts(name);
    const uint32_t most = counts.empty() ? 0 : *std::max_element(counts.begin(), counts.end());
    Json types = Json::array();
    for (const uint32_t count : counts) {
      if (count != 0 && count != most) metadata_.refuse(name, "must be one number or 0");
      types.push_back(count == 0 ? std::string(other) : "attention");
    }
    config_["num_key_value_heads"] = most;
    config_["layer_types"] = std::move(types);
  }

  // Where expansions are apart, the file describes one head of keys and values with what is
  // absorbed, and has the real ones beside it.
  void add_latent_heads() {
    const bool is_apart = architecture_.names() == TensorNames::kDeepseekApart;
    const std::string key_name =
        named("qk_nope_head_dim", is_apart ? "attention.key_length_mla" : "attention.key_length");
    const std::string turned_name = named("qk_rope_head_dim", "rope.dimension_count");
    const uint32_t key_dim = metadata_.required_count(key_name);
    const uint32_t turned = metadata_.required_count(turned_name);
    if (turned >= key_dim) metadata_.refuse(turned_name, "must be below " + key_name);
    config_["qk_nope_head_dim"] = key_dim - turned;
    config_["qk_rope_head_dim"] = turned;
    copy_count({is_apart ? "attention.value_length_mla" : "attention.value_length", "v_head_dim",
                Need::kRequired});
    copy_count(kLatentRank);
    config_["q_lora_rank"] = nullptr;  // where the file is silent
    copy_count(kQueryRank);
    if (!is_apart) return copy_count(kKeyHeads);
    const uint64_t rank = config_["kv_lora_rank"].get<uint32_t>();
    check_implied_count(metadata_, key("attention.head_count_kv"), 1);
    check_implied_count(metadata_, key("attention.key_length"), rank + turned);
    check_implied_count(metadata_, key("attention.value_length"), rank);
  }

  void copy_number(const NumberKey& number) {
    const std::string name = named(number.config, number.gguf);
    const auto value = number.need == Need::kRequired
                           ? std::optional(metadata_.required_number(name))
                           : metadata_.number(name);
    if (value) set(number.config, *value);
  }

  // Which experts are chosen and what they are multiplied by. Where a file is silent, llama.cpp
  // does what it does for the architecture.
  void add_experts() {
    constexpr const char* kNormalized = "norm_topk_prob";
    constexpr const char* kClip = "clip_qkv";
    const auto clip = metadata_.number(named(kClip, "attention.clamp_kqv"));
    if (clip && *clip != 0) config_[kClip] = *clip;
    const std::string scale_key = named("routed_scaling_factor", "expert_weights_scale");
    const double scale = metadata_.number(scale_key).value_or(0);
    if (scale != 0 || is_latent()) config_["routed_scaling_factor"] = scale == 0 ? 1 : scale;
    add_score();
    const std::string normalized = named(kNormalized, "expert_weights_norm");
    const format::Architecture id = architecture_.id;
    const bool is_open = id == format::Architecture::kQwen2Moe ||
                         id == format::Architecture::kQwen3Moe ||
                         id == format::Architecture::kOlmoe || is_latent();
    const bool is_normalized =
        metadata_.boolean(normalized).value_or(!is_open || id == format::Architecture::kQwen3Moe);
    if (!is_open && !is_normalized) metadata_.refuse(normalized, "false is not supported here");
    config_[kNormalized] = is_normalized;
    copy_count(kExpertWidth);
    if (is_latent()) {
      copy_count(kSharedWidth);
      return add_deepseek_experts();
    }
    if (other_mixer() == format::Mixer::kStateSpace) {
      if (config_["num_experts"] != 0U) (void)metadata_.required_count(key("expert_used_count"));
      return;
    }
    copy_count(kSharedWidth);
    if (!has_key("num_experts")) return;
    const uint32_t n_chosen = metadata_.required_count(key("expert_used_count"));
    const uint32_t width = metadata_.count(key(kFfnWidth.gguf)).value_or(0);
    // Older files give the width of all chosen experts together, and of those beside them.
    if (has_key(kExpertWidth.config) && !config_.contains(kExpertWidth.config) && n_chosen != 0) {
      config_[kExpertWidth.config] = width / n_chosen;
    }
    if (has_key(kSharedWidth.config) && !config_.contains(kSharedWidth.config)) {
      config_[kSharedWidth.config] = width;
    }
  }

  void add_deepseek_experts() {
    const uint32_t n_dense = metadata_.count(key("leading_dense_block_count")).value_or(0);
    config_["first_k_dense_replace"] = n_dense;
    if (n_dense >= metadata_.required_count(key("block_count"))) return;
    for (const char* name : {"expert_count", "expert_used_count", "expert_shared_count",
                             "expert_feed_forward_length"}) {
      (void)metadata_.required_count(key(name));
    }
    if (metadata_.count(key("expert_group_count")).value_or(0) <= 1) {
      config_["n_group"] = 1U;
      config_["topk_group"] = 1U;
      return;
    }
    (void)metadata_.required_count(key("expert_group_used_count"));
    if (architecture_.id == format::Architecture::kDeepseekV2) {
      config_["topk_method"] = "group_limited_greedy";
    }
  }

  void add_score() {
    constexpr const char* kScores[] = {nullptr, "softmax", "sigmoid"};
    const std::string score_key = named("scoring_func", "expert_gating_func");
    const uint32_t score = metadata_.count(score_key).value_or(0);
    if (score >= std::size(kScores)) {
      metadata_.refuse(score_key, std::to_string(score) + " is not supported");
    }
    if (score != 0) config_["scoring_func"] = kScores[score];
  }

  // Where the file is silent no layer has one; but a Gemma 2 has its class's, for llama.cpp too.
  void add_window() {
    const std::optional<uint32_t> window = metadata_.count(named("sliding_window", kWindow));
    if (!window && architecture_.id == format::Architecture::kGemma2) return;
    config_["sliding_window"] = window.value_or(0) == 0 ? Json() : Json(*window);
  }

  // Which layers have a window: true or false for each, or each so many layers one without.
  void add_pattern() {
    const std::string name = key(kPattern);
    if (!metadata_.has(name)) return;
    const WindowKeys window = architecture_.row().window;
    if (window != WindowKeys::kPeriod && window != WindowKeys::kEven) {
      metadata_.refuse(name, "is not supported for this architecture");
    }
    if (!json_.find(name)->is_array()) {
      config_["sliding_window_pattern"] =
          metadata_.required_count(named("sliding_window_pattern", kPattern));
      return;
    }
    add_layer_types(kPattern, "sliding_attention", "full_attention");
  }

  // What layers are where a list says true, and the others.
  void add_layer_types(const char* list, std::string_view yes, std::string_view no) {
    const std::string name = named("layer_types", list);
    Json types = Json::array();
    for (const Json& is_so : *json_.find(name)) {
      if (!is_so.is_boolean()) metadata_.refuse(name, "must be true or false for each layer");
      types.push_back(std::string(is_so.get<bool>() ? yes : no));
    }
    config_["layer_types"] = types;
  }

  // The file does not say it: that of all Gemmas is as wide as a head, but of the 27B ones.
  void add_query_scale() {
    constexpr uint32_t kLayersOf27B[] = {46, 62};
    const uint32_t n_layers = metadata_.required_count(key("block_count"));
    const uint32_t n_heads = metadata_.required_count(key("attention.head_count"));
    const uint32_t width = metadata_.required_count(key("embedding_length"));
    const bool is_27b = std::find(std::begin(kLayersOf27B), std::end(kLayersOf27B), n_layers) !=
                        std::end(kLayersOf27B);
    if (n_heads == 0) return;  // refused where heads are read
    const uint32_t of_head = metadata_.count(key("attention.key_length")).value_or(width / n_heads);
    config_[kQueryScale] = is_27b ? width / n_heads : of_head;
  }

  // config may be a key of rope_scaling.
  void set(std::string_view config, const Json& value) {
    constexpr std::string_view kInside = "rope_scaling.";
    if (config.starts_with(kInside)) {
      config_["rope_scaling"][std::string(config.substr(kInside.size()))] = value;
    } else {
      config_[std::string(config)] = value;
    }
  }

  void add_rope() {
    const uint32_t rotated = is_latent() ? config_["qk_rope_head_dim"].get<uint32_t>() : add_part();
    for (const auto* factors :
         {&facts_.rope_factors, &facts_.long_factors, &facts_.short_factors}) {
      if (!factors->empty() && factors->size() != rotated / 2) {
        metadata_.refuse(key("rope.dimension_count"), "does not fit the frequency factors");
      }
    }
    add_scaling();
  }

  // Of a head's elements, how many turn.
  [[nodiscard]] uint32_t add_part() {
    const uint32_t n_heads = metadata_.required_count(key("attention.head_count"));
    if (n_heads == 0) metadata_.refuse(key("attention.head_count"), "must not be zero");
    const uint32_t width = metadata_.required_count(key("embedding_length"));
    const uint32_t head_dim =
        metadata_.count(key("attention.key_length")).value_or(width / n_heads);
    const std::string rotated_key = named("partial_rotary_factor", "rope.dimension_count");
    const uint32_t rotated = metadata_.count(rotated_key).value_or(head_dim);
    if (rotated > head_dim) metadata_.refuse(rotated_key, "is above the head's");
    if (rotated != head_dim) {
      config_["partial_rotary_factor"] = static_cast<double>(rotated) / head_dim;
    }
    return rotated;
  }

  void add_scaling() {
    constexpr const char* kOriginal = "original_max_position_embeddings";
    const auto original =
        metadata_.number(named(kOriginal, "rope.scaling.original_context_length"));
    if (original) config_[kOriginal] = *original;
    const std::string type_key = named("rope_scaling.rope_type", "rope.scaling.type");
    if (!facts_.long_factors.empty()) {
      config_["rope_scaling"] = {{"rope_type", "longrope"},
                                 {"long_factor", facts_.long_factors},
                                 {"short_factor", facts_.short_factors}};
      copy_number({kAttentionFactor, kConfigAttentionFactor, Need::kOptional});
      return;
    }
    const std::string factor_key = key("rope.scaling.factor");
    const auto factor = metadata_.number(factor_key);
    const std::string type = metadata_.text(type_key).value_or(factor ? "linear" : "none");
    if (type == "longrope") {
      metadata_.refuse(type_key, "is longrope, but the file has no factors for it");
    }
    if (type != "yarn" || is_latent()) refuse_attention_factor();
    if (type != "yarn" && metadata_.is_on(key(kLogMultiplier))) {
      metadata_.refuse(key(kLogMultiplier), "is not supported without yarn");
    }
    if (type == "none") {
      if (architecture_.row().must_scale) config_["rope_scaling"] = {{"rope_type", "default"}};
      add_old_factor();
      return;
    }
    if (type != "linear" && type != "yarn") {
      metadata_.refuse(type_key, "'" + shown(type) + "' is not supported");
    }
    if (!factor) metadata_.refuse(factor_key, "is missing, which rope.scaling.type needs");
    set_factor(type, factor_key, *factor);
    if (type == "yarn") add_yarn(*factor);
  }

  // llama.cpp multiplies by it whatever the type is; a config has it only of some types.
  void refuse_attention_factor() const {
    const std::string name = key(kAttentionFactor);
    if (metadata_.number(name).value_or(1) != 1) {
      metadata_.refuse(name, is_latent()
                                 ? "other than 1 is not supported for this architecture"
                                 : "other than 1 is not supported without yarn or longrope");
    }
  }

  // Older files name a linear factor without a type.
  void add_old_factor() {
    const std::string factor_key = key("rope.scale_linear");
    const auto factor = metadata_.number(factor_key);
    if (factor && *factor != 1) set_factor("linear", factor_key, *factor);
  }

  void set_factor(const std::string& type, const std::string& factor_key, double factor) {
    names_["rope_scaling.factor"] = factor_key;
    config_["rope_scaling"] = {{"rope_type", type}, {"factor", factor}};
  }

  void add_yarn(double factor) {
    if (metadata_.number(key("rope.scaling.yarn_ext_factor")).value_or(1) != 1) {
      metadata_.refuse(key("rope.scaling.yarn_ext_factor"), "other than 1 is not supported");
    }
    for (const NumberKey& number : kYarnNumbers) copy_number(number);
    if (is_latent()) return add_log_multiplier();
    // Whatever it is, queries and keys keep their length.
    if (has_key(kGrowth) && metadata_.is_on(key(kLogMultiplier))) {
      set("rope_scaling.mscale", 1);
      set("rope_scaling.mscale_all_dim", 1);
    }
    // Here it multiplies what follows from the factor; there it stands for it.
    if (const auto attention = metadata_.number(key(kAttentionFactor))) {
      (void)named(kConfigAttentionFactor, kAttentionFactor);
      set(kConfigAttentionFactor, *attention * (kYarnLogWeight * std::log(factor) + 1));
    }
  }

  // One number for both, as llama.cpp takes it: the table of angles is then not scaled.
  void add_log_multiplier() {
    const double value =
        metadata_.number(named("rope_scaling.mscale_all_dim", kLogMultiplier)).value_or(0);
    if (value == 0) return;
    set("rope_scaling.mscale", value / kYarnLogWeight);
    set("rope_scaling.mscale_all_dim", value / kYarnLogWeight);
  }

  // A file that has no such token names one past the vocabulary. otherwise: of a SentencePiece
  // vocabulary whose file is silent.
  [[nodiscard]] std::optional<uint32_t> token(const char* name,
                                              std::optional<uint32_t> otherwise = {}) const {
    auto id = metadata_.count(std::string("tokenizer.ggml.") + name + "_token_id");
    if (!id && metadata_.text("tokenizer.ggml.model").value_or("") == "llama") id = otherwise;
    return id && *id < config_["vocab_size"].get<uint64_t>() ? id : std::nullopt;
  }

  void add_tokens() {
    if (const auto bos = token("bos", kSentencePieceBos)) config_["bos_token_id"] = *bos;
    Json ends = Json::array();
    if (const auto end = token("eos", kSentencePieceEos)) ends.push_back(*end);
    for (const char* name : {"eot", "eom"}) {
      if (const auto end = token(name)) ends.push_back(*end);
    }
    for (const uint32_t end : gguf_turn_ends(json_)) {
      if (end < config_["vocab_size"].get<uint64_t>()) ends.push_back(end);
    }
    if (!ends.empty()) config_["eos_token_id"] = ends;
  }

  const GgufArchitecture& architecture_;
  const Json& json_;
  JsonObject metadata_;
  const GgufTensorFacts& facts_;
  Json config_;
  KeyNames names_;
};

}  // namespace

void check_implied_count(const JsonObject& metadata, const std::string& name, uint64_t value) {
  if (metadata.count(name).value_or(value) == value) return;
  metadata.refuse(name, "must be " + std::to_string(value) + ", as the other keys say");
}

ConfigFiles gguf_config(const GgufArchitecture& architecture, const Json& metadata,
                        const GgufTensorFacts& facts, const std::string& where) {
  return ConfigWriter(architecture, metadata, facts, where).run();
}

}  // namespace cria::converter
