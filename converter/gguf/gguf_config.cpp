#include "converter/gguf/gguf_config.h"

#include <cmath>

#include "converter/error.h"

namespace cria::converter {
namespace {

enum class Need { kRequired, kOptional };

struct NumberKey {
  const char* gguf;  // behind "<architecture>."
  const char* config;
  Need need;
};

constexpr NumberKey kCounts[] = {
    {"block_count", "num_hidden_layers", Need::kRequired},
    {"embedding_length", "hidden_size", Need::kRequired},
    {"feed_forward_length", "intermediate_size", Need::kRequired},
    {"attention.head_count", "num_attention_heads", Need::kRequired},
    {"attention.head_count_kv", "num_key_value_heads", Need::kOptional},
    {"attention.key_length", "head_dim", Need::kOptional},
    {"context_length", "max_position_embeddings", Need::kRequired},
    {"expert_count", "num_local_experts", Need::kOptional},
};

constexpr NumberKey kNumbers[] = {
    {"attention.layer_norm_rms_epsilon", "rms_norm_eps", Need::kRequired},
    {"rope.freq_base", "rope_theta", Need::kOptional},
};

constexpr NumberKey kGraniteNumbers[] = {
    {"embedding_scale", "embedding_multiplier", Need::kOptional},
    {"residual_scale", "residual_multiplier", Need::kOptional},
    {"logit_scale", "logits_scaling", Need::kOptional},
    {"attention.scale", "attention_multiplier", Need::kOptional},
};

// Of rope.scaling.
constexpr NumberKey kYarnNumbers[] = {
    {"rope.scaling.yarn_beta_fast", "beta_fast", Need::kOptional},
    {"rope.scaling.yarn_beta_slow", "beta_slow", Need::kOptional},
    {"rope.scaling.yarn_attn_factor", "attention_factor", Need::kOptional},
};

// Values that change results in ways that the runtime has no words for.
constexpr const char* kForeign[] = {
    "attention.clamp_kqv",
    "attention.max_alibi_bias",
    "attention.temperature_scale",
    "attn_logit_softcapping",
    "final_logit_softcapping",
    "rope.dimension_sections",
    "rope.scaling.yarn_log_multiplier",
    "use_parallel_residual",
};

constexpr const char* kDefaultModelType = "model";

// One conversion of metadata into a config.
class ConfigWriter {
 public:
  ConfigWriter(const GgufArchitecture& architecture, const Json& metadata,
               const GgufTensorFacts& facts, const std::string& where)
      : architecture_(architecture), json_(metadata), metadata_(metadata, where), facts_(facts) {}

  Json run() {
    refuse_others();
    config_ = {{"architectures", {architecture_.class_name}},
               {"model_type", architecture_.model_type},
               {"tie_word_embeddings", !facts_.has_output},
               {"attention_bias", facts_.has_attention_bias},
               {"mlp_bias", facts_.has_mlp_bias},
               {"vocab_size", vocab_size()}};
    copy_counts();
    copy_numbers(kNumbers, &config_);
    if (is_granite()) copy_numbers(kGraniteNumbers, &config_);
    const uint32_t window = metadata_.count(key("attention.sliding_window")).value_or(0);
    config_["sliding_window"] = window == 0 ? Json() : Json(window);
    add_rope();
    add_tokens();
    return std::move(config_);
  }

 private:
  [[nodiscard]] std::string key(const char* name) const {
    return std::string(architecture_.name) + "." + name;
  }
  [[nodiscard]] bool is_granite() const {
    return std::string_view(architecture_.name) == "granite";
  }

  [[nodiscard]] bool is_on(const std::string& name) const {
    const auto found = json_.find(name);
    if (found == json_.end()) return false;
    if (found->is_boolean()) return found->get<bool>();
    return !found->is_number() || found->get<double>() != 0;
  }

  void refuse_others() const {
    const std::string type = metadata_.text("general.type").value_or(kDefaultModelType);
    if (type != kDefaultModelType) {
      metadata_.refuse("general.type", "'" + shown(type) + "' is no whole model; give the model");
    }
    for (const char* name : kForeign) {
      if (is_on(key(name))) metadata_.refuse(key(name), "is not supported");
    }
    if (!metadata_.boolean(key("attention.causal")).value_or(true)) {
      metadata_.refuse(key("attention.causal"), "is false: it is no model that writes");
    }
    const auto value_length = metadata_.count(key("attention.value_length"));
    if (value_length && value_length != metadata_.count(key("attention.key_length"))) {
      metadata_.refuse(key("attention.value_length"), "must be attention.key_length");
    }
    if (!is_granite()) {
      for (const NumberKey& number : kGraniteNumbers) {
        if (is_on(key(number.gguf))) metadata_.refuse(key(number.gguf), "is not supported");
      }
    }
  }

  [[nodiscard]] uint64_t vocab_size() const {
    if (const auto count = metadata_.count(key("vocab_size"))) return *count;
    const auto tokens = json_.find("tokenizer.ggml.tokens");
    if (tokens != json_.end() && tokens->is_array()) return tokens->size();
    return facts_.n_embeddings.value_or(0);
  }

  void copy_counts() {
    for (const NumberKey& count : kCounts) {
      const auto value = count.need == Need::kRequired
                             ? std::optional(metadata_.required_count(key(count.gguf)))
                             : metadata_.count(key(count.gguf));
      if (value) config_[count.config] = *value;
    }
  }

  template <size_t n>
  void copy_numbers(const NumberKey (&numbers)[n], Json* to) const {
    for (const NumberKey& number : numbers) {
      const auto value = number.need == Need::kRequired
                             ? std::optional(metadata_.required_number(key(number.gguf)))
                             : metadata_.number(key(number.gguf));
      if (value) (*to)[number.config] = *value;
    }
  }

  void add_rope() {
    const uint32_t n_heads = metadata_.required_count(key("attention.head_count"));
    if (n_heads == 0) metadata_.refuse(key("attention.head_count"), "must not be zero");
    const uint32_t width = metadata_.required_count(key("embedding_length"));
    const uint32_t head_dim =
        metadata_.count(key("attention.key_length")).value_or(width / n_heads);
    const uint32_t rotated = metadata_.count(key("rope.dimension_count")).value_or(head_dim);
    if (rotated > head_dim) metadata_.refuse(key("rope.dimension_count"), "is above the head's");
    if (rotated != head_dim) {
      config_["partial_rotary_factor"] = static_cast<double>(rotated) / head_dim;
    }
    for (const auto* factors :
         {&facts_.rope_factors, &facts_.long_factors, &facts_.short_factors}) {
      if (!factors->empty() && factors->size() != rotated / 2) {
        metadata_.refuse(key("rope.dimension_count"), "does not fit the frequency factors");
      }
    }
    add_scaling();
  }

  void add_scaling() {
    const auto original = metadata_.number(key("rope.scaling.original_context_length"));
    if (original) config_["original_max_position_embeddings"] = *original;
    if (!facts_.long_factors.empty()) {
      Json scaling = {{"rope_type", "longrope"},
                      {"long_factor", facts_.long_factors},
                      {"short_factor", facts_.short_factors}};
      if (const auto factor = metadata_.number(key("rope.scaling.attn_factor"))) {
        scaling["attention_factor"] = *factor;
      }
      config_["rope_scaling"] = scaling;
      return;
    }
    // Older files name a linear factor without a type.
    const auto old_factor = metadata_.number(key("rope.scale_linear"));
    const auto factor = metadata_.number(key("rope.scaling.factor"));
    const std::string type =
        metadata_.text(key("rope.scaling.type")).value_or(factor ? "linear" : "none");
    if (type == "longrope") {
      metadata_.refuse(key("rope.scaling.type"), "is longrope and the file has no factors for it");
    }
    if (type == "none") {
      if (old_factor && *old_factor != 1) {
        config_["rope_scaling"] = {{"rope_type", "linear"}, {"factor", *old_factor}};
      }
      return;
    }
    if (type != "linear" && type != "yarn") {
      metadata_.refuse(key("rope.scaling.type"), "'" + shown(type) + "' is not supported");
    }
    if (!factor) {
      metadata_.refuse(key("rope.scaling.factor"), "is missing, which rope.scaling.type needs");
    }
    Json scaling = {{"rope_type", type}, {"factor", *factor}};
    if (type == "yarn") add_yarn(*factor, &scaling);
    config_["rope_scaling"] = scaling;
  }

  void add_yarn(double factor, Json* scaling) const {
    if (metadata_.number(key("rope.scaling.yarn_ext_factor")).value_or(1) != 1) {
      metadata_.refuse(key("rope.scaling.yarn_ext_factor"), "other than 1 is not supported");
    }
    copy_numbers(kYarnNumbers, scaling);
    // Here it multiplies what follows from the factor; there it stands for it.
    constexpr double kLogWeight = 0.1;
    if (const auto attention = metadata_.number(key("rope.scaling.attn_factor"))) {
      (*scaling)["attention_factor"] = *attention * (kLogWeight * std::log(factor) + 1);
    }
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
    if (!ends.empty()) config_["eos_token_id"] = ends;
  }

  const GgufArchitecture& architecture_;
  const Json& json_;
  JsonObject metadata_;
  const GgufTensorFacts& facts_;
  Json config_;
};

}  // namespace

ConfigFiles gguf_config(const GgufArchitecture& architecture, const Json& metadata,
                        const GgufTensorFacts& facts, const std::string& where) {
  ConfigFiles files;
  files.config = ConfigWriter(architecture, metadata, facts, where).run();
  files.where = where;
  files.rope_factors = facts.rope_factors;
  return files;
}

}  // namespace cria::converter
