#include "converter/gguf/gguf_gemma4.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "converter/gguf/gguf_names.h"

namespace cria::converter {
namespace {

constexpr const char* kWidths = "gemma4.feed_forward_length";
constexpr const char* kKeyHeads = "gemma4.attention.head_count_kv";
constexpr const char* kPattern = "gemma4.attention.sliding_window_pattern";
constexpr float kStandingFactor = 1e30F;  // of the frequency of a pair that stands still

class Gemma4Writer {
 public:
  Gemma4Writer(const JsonObject& metadata, const GgufTensorFacts& facts, Json* config,
               KeyNames* names)
      : metadata_(metadata),
        facts_(facts),
        config_(*config),
        names_(*names),
        n_layers_(config_["num_hidden_layers"].get<uint32_t>()) {}

  void run() {
    if (!config_.contains("layer_types") || config_["layer_types"].size() != n_layers_) {
      metadata_.refuse(kPattern, "must be true or false for each layer");
    }
    add_heads();
    add_widths();
    add_experts();
    const std::string of_input =
        named("hidden_size_per_layer_input", "gemma4.embedding_length_per_layer_input");
    config_["hidden_size_per_layer_input"] = metadata_.count(of_input).value_or(0);
    config_["vocab_size_per_layer_input"] = config_["vocab_size"];
    add_rope();
  }

 private:
  std::string named(const char* config, const char* name) { return names_[config] = name; }

  // A number for all layers, or one for each.
  [[nodiscard]] std::vector<uint32_t> of_layers(const char* name) const {
    const std::vector<uint32_t> counts = metadata_.counts(name).value_or(std::vector<uint32_t>());
    if (counts.size() == 1) return std::vector<uint32_t>(n_layers_, counts.front());
    if (counts.size() != n_layers_) metadata_.refuse(name, "must be one number for each layer");
    return counts;
  }

  [[nodiscard]] bool slides(size_t layer) const {
    return config_["layer_types"][layer] == "sliding_attention";
  }

  // Of layers with a window, and of others.
  void add_heads() {
    const uint32_t full =
        metadata_.required_count(named("global_head_dim", "gemma4.attention.key_length"));
    const uint32_t sliding =
        metadata_.required_count(named("head_dim", "gemma4.attention.key_length_swa"));
    config_["global_head_dim"] = full;
    config_["head_dim"] = sliding;
    check_implied_count(metadata_, "gemma4.attention.value_length_swa", sliding);
    check_implied_count(metadata_, "gemma4.rope.dimension_count", full);
    check_implied_count(metadata_, "gemma4.rope.dimension_count_swa", sliding);
    const std::vector<uint32_t> counts = of_layers(named("num_key_value_heads", kKeyHeads).c_str());
    (void)named("num_global_key_value_heads", kKeyHeads);
    std::optional<uint32_t> of_sliding;
    std::optional<uint32_t> of_full;
    for (size_t i = 0; i < counts.size(); ++i) {
      std::optional<uint32_t>& of_kind = slides(i) ? of_sliding : of_full;
      if (of_kind.value_or(counts[i]) != counts[i]) refuse_heads();
      of_kind = counts[i];
    }
    config_["num_key_value_heads"] = of_sliding ? *of_sliding : of_full.value_or(0);
    config_["num_global_key_value_heads"] = of_full ? *of_full : of_sliding.value_or(0);
    config_["attention_k_eq_v"] = facts_.values_are_keys;
    if (!facts_.values_are_keys && of_full && of_sliding && of_full != of_sliding) refuse_heads();
  }

  [[noreturn]] void refuse_heads() const {
    metadata_.refuse(kKeyHeads,
                     "must be the same in all layers with a window, and in all others; these may "
                     "differ where values are keys");
  }

  // Layers that share keys and values may have an MLP of twice the width.
  void add_widths() {
    const std::string name = named("num_kv_shared_layers", "gemma4.attention.shared_kv_layers");
    const uint32_t n_shared = metadata_.count(name).value_or(0);
    config_["num_kv_shared_layers"] = n_shared;
    const std::vector<uint32_t> widths = of_layers(named("intermediate_size", kWidths).c_str());
    const uint64_t width = widths.empty() ? 0 : widths.front();
    config_["intermediate_size"] = width;
    config_["use_double_wide_mlp"] = false;
    if (n_shared >= n_layers_) return;  // refused where layers are read
    const bool is_double = n_shared != 0 && widths.back() == 2 * width;
    for (size_t i = 0; i < widths.size(); ++i) {
      const bool is_wide = is_double && i >= n_layers_ - n_shared;
      if (widths[i] == (is_wide ? 2 * width : width)) continue;
      metadata_.refuse(kWidths,
                       "must be one number, but for the layers that share keys and values, which "
                       "may all have twice it");
    }
    config_["use_double_wide_mlp"] = is_double;
  }

  void add_experts() {
    constexpr const char* kScore = "gemma4.expert_gating_func";
    constexpr const char* kNormalized = "gemma4.expert_weights_norm";
    constexpr uint32_t kSoftmax = 1;
    const bool has_experts = config_.contains("num_experts") && config_["num_experts"] != 0;
    config_["enable_moe_block"] = has_experts;
    if (!has_experts) return;
    (void)metadata_.required_count("gemma4.expert_used_count");
    config_["moe_intermediate_size"] = metadata_.required_count(
        named("moe_intermediate_size", "gemma4.expert_feed_forward_length"));
    check_implied_count(metadata_, kScore, kSoftmax);
    if (!metadata_.boolean(kNormalized).value_or(true)) {
      metadata_.refuse(kNormalized, "false is not supported here");
    }
    for (const char* name : {"gemma4.expert_weights_scale", "gemma4.expert_shared_count"}) {
      if (metadata_.is_on(name)) metadata_.refuse(name, "is not supported for this architecture");
    }
  }

  // In layers without a window the last pairs of each head stand still: their factors say so.
  void add_rope() {
    for (const char* name : {"gemma4.rope.scaling.factor", "gemma4.rope.scale_linear"}) {
      if (metadata_.number(name).value_or(1) != 1) {
        metadata_.refuse(name, "other than 1 is not supported for this architecture");
      }
    }
    const std::vector<float>& factors = facts_.rope_factors;
    const size_t n = config_["global_head_dim"].get<uint32_t>() / 2;
    const auto standing =
        std::find_if(factors.begin(), factors.end(), [](float factor) { return factor != 1; });
    const bool fit =
        n != 0 && factors.size() == n &&
        std::all_of(standing, factors.end(), [](float f) { return f >= kStandingFactor; });
    if (!fit) {
      metadata_.refuse("gemma4.attention.key_length",
                       "wants half as many frequency factors in the tensor " +
                           std::string(kGgufRopeFactors) + ": ones, and then " +
                           "those of pairs that stand still, 1e30");
    }
    // A part whose pairs are counted without the last one, whatever is lost by rounding.
    constexpr double kHalf = 0.5;
    const auto n_turned = static_cast<double>(standing - factors.begin());
    const double part = standing == factors.end() ? 1 : (n_turned + kHalf) / static_cast<double>(n);
    const double theta = metadata_.required_number("gemma4.rope.freq_base");
    const double of_windows = metadata_.required_number("gemma4.rope.freq_base_swa");
    config_.erase("rope_theta");
    config_.erase("rope_local_base_freq");
    config_["rope_parameters"] = {
        {"full_attention",
         {{"rope_type", "proportional"}, {"rope_theta", theta}, {"partial_rotary_factor", part}}},
        {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", of_windows}}}};
  }

  const JsonObject& metadata_;
  const GgufTensorFacts& facts_;
  Json& config_;
  KeyNames& names_;
  uint32_t n_layers_;
};

}  // namespace

void add_gemma4(const JsonObject& metadata, const GgufTensorFacts& facts, Json* config,
                KeyNames* names) {
  Gemma4Writer(metadata, facts, config, names).run();
}

}  // namespace cria::converter
