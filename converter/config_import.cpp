#include "converter/config_import.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "converter/architecture_table.h"
#include "converter/error.h"
#include "converter/json_input.h"
#include "converter/layer_kinds.h"
#include "converter/rope.h"

namespace cria::converter {
namespace {

using format::LayerKind;
using format::ModelScalars;

// Settings that other architectures bring along; a checkpoint that has one is not what it says.
constexpr const char* kForeignKeys[] = {
    "num_local_experts",
    "num_experts",
    "n_routed_experts",
    "num_experts_per_tok",
    "moe_intermediate_size",
    "kv_lora_rank",
    "q_lora_rank",
    "attn_logit_softcapping",
    "final_logit_softcapping",
    "use_qk_norm",
    "qk_layernorm",
    "query_pre_attn_scalar",
    kNoRopeLayers,
    "lm_head_bias",
    "sliding_window_pattern",
    "moe_num_experts",
    "attention_chunk_size",
    "use_bidirectional_attention",
    "add_cross_attention",
    "is_encoder_decoder",
    "clip_qkv",
    "alibi",
};

void refuse_foreign(const JsonObject& config, const ArchitectureRow& row) {
  for (const char* key : kForeignKeys) {
    const bool is_own =
        row.no_rope == NoRopeKeys::kLayers && key == std::string_view(kNoRopeLayers);
    if (!is_own && config.is_on(key)) {
      config.refuse(key, std::string("belongs to an architecture that is not supported") +
                             (row.is_hybrid ? ", only the dense models of this one are" : "") +
                             "; " + supported_architectures());
    }
  }
  // Where it is silent, such a model has experts.
  if (row.is_hybrid) (void)config.required_count("num_local_experts");
  for (const char* key : {"quantization_config", "quantization", "compression_config"}) {
    if (config.is_on(key)) {
      config.refuse(key,
                    "is set: the weights are already quantized, convert the original checkpoint");
    }
  }
  for (const char* key : {"hidden_act", "hidden_activation"}) {
    const std::string activation = config.text(key).value_or("silu");
    if (activation == "silu" || activation == "swish") continue;
    config.refuse(key, "'" + shown(activation) + "' is not supported, only silu");
  }
}

// A count within these limits.
uint32_t count_within(const JsonObject& config, const char* key, uint32_t value, uint32_t most) {
  if (value >= 1 && value <= most) return value;
  config.refuse(key, "must be from 1 to " + std::to_string(most));
}

uint32_t required_within(const JsonObject& config, const char* key, uint32_t most) {
  return count_within(config, key, config.required_count(key), most);
}

void read_sizes(const JsonObject& config, const ArchitectureRow& row, ModelScalars* model) {
  constexpr const char* kContext = "max_position_embeddings";
  model->architecture = static_cast<uint32_t>(row.id);
  model->n_layers = required_within(config, "num_hidden_layers", format::kMaxLayers);
  model->d_model = required_within(config, "hidden_size", format::kMaxModelWidth);
  model->vocab_size = required_within(config, "vocab_size", format::kMaxVocab);
  model->max_context = count_within(
      config, kContext, config.count(kContext).value_or(row.max_context), format::kMaxContext);
  model->final_norm = static_cast<uint32_t>(format::Norm::kRms);
}

uint32_t read_head_dim(const JsonObject& config, const ArchitectureRow& row, uint32_t d_model,
                       uint32_t n_heads) {
  const std::optional<uint32_t> said = config.count("head_dim");
  if (!said && row.head_dim == 0 && d_model % n_heads != 0) {
    config.refuse("hidden_size", "is no multiple of " + config.name_of("num_attention_heads") +
                                     ", and " + config.name_of("head_dim") + " is missing");
  }
  const uint32_t head_dim = said.value_or(row.head_dim != 0 ? row.head_dim : d_model / n_heads);
  if (head_dim >= 2 && head_dim <= format::kMaxHeadDim && head_dim % 2 == 0) return head_dim;
  const std::string range = "must be even and from 2 to " + std::to_string(format::kMaxHeadDim);
  if (said) config.refuse("head_dim", range);
  config.refuse("hidden_size", "over " + config.name_of("num_attention_heads") +
                                   " gives heads of " + std::to_string(head_dim) +
                                   " elements, which " + range);
}

void read_heads(const JsonObject& config, const ArchitectureRow& row, uint32_t d_model,
                LayerKind* kind) {
  const uint32_t n_heads = required_within(config, "num_attention_heads", format::kMaxHeads);
  // null means one key-value head a head; only silence brings the architecture's default.
  const bool silent = !config.contains("num_key_value_heads") && row.n_kv_heads != 0;
  const uint32_t n_kv_heads =
      config.count("num_key_value_heads").value_or(silent ? row.n_kv_heads : n_heads);
  if (n_kv_heads == 0 || n_heads % n_kv_heads != 0) {
    config.refuse("num_key_value_heads", "must divide " + config.name_of("num_attention_heads"));
  }
  const uint32_t head_dim = read_head_dim(config, row, d_model, n_heads);
  if (n_heads * head_dim > format::kMaxModelWidth) {
    config.refuse("num_attention_heads", "times the elements of a head must be from 1 to " +
                                             std::to_string(format::kMaxModelWidth));
  }
  kind->mixer = static_cast<uint8_t>(format::Mixer::kAttention);
  kind->n_query_heads = static_cast<uint16_t>(n_heads);
  kind->n_key_heads = static_cast<uint16_t>(n_kv_heads);
  kind->n_value_heads = kind->n_key_heads;
  kind->key_dim = static_cast<uint16_t>(head_dim);
  kind->value_dim = kind->key_dim;
  kind->shared_with = format::kNoKind;
}

float read_number(const JsonObject& config, const char* key, double otherwise) {
  const auto value = static_cast<float>(config.number(key).value_or(otherwise));
  if (!std::isfinite(value)) config.refuse(key, "is out of the range a model file can hold");
  return value;
}

void read_numbers(const JsonObject& config, const ArchitectureRow& row, ModelScalars* model,
                  LayerKind* kind) {
  const bool has = row.has_multipliers;
  model->norm_epsilon = read_number(config, "rms_norm_eps", row.rms_epsilon);
  if (model->norm_epsilon < 0 || model->norm_epsilon >= 1) {
    config.refuse("rms_norm_eps", "must be from 0 to below 1");
  }
  kind->norm_epsilon = model->norm_epsilon;
  kind->inner_epsilon = model->norm_epsilon;
  model->embedding_multiplier = has ? read_number(config, "embedding_multiplier", 1) : 1;
  model->residual_multiplier = has ? read_number(config, "residual_multiplier", 1) : 1;
  model->logits_divisor = has ? read_number(config, "logits_scaling", 1) : 1;
  if (model->logits_divisor <= 0) config.refuse("logits_scaling", "must be above zero");
  kind->score_multiplier =
      has ? read_number(config, "attention_multiplier", 1)
          : static_cast<float>(1 / std::sqrt(static_cast<double>(kind->key_dim)));
}

void read_feed_forward(const JsonObject& config, const ArchitectureRow& row, LayerKind* kind) {
  kind->feed_forward = static_cast<uint8_t>(format::FeedForward::kDense);
  kind->activation = static_cast<uint8_t>(format::Activation::kSilu);
  kind->d_ff = required_within(config, row.ffn_key, format::kMaxFfnWidth);
}

uint32_t read_flags(const JsonObject& config, const ArchitectureRow& row) {
  uint32_t all = row.flags;
  const auto read = [&](const char* key, uint32_t flags) {
    if (!config.boolean(key).value_or(false)) return;
    // Of these q, k and v have their biases whatever the key says.
    const uint32_t had = (row.flags | row.flags_by_keys) & flags;
    if (had == 0) config.refuse(key, "is not supported for this architecture");
    all |= had;
  };
  read("attention_bias", format::flag::kMixerBias | format::flag::kOutputBias);
  read("mlp_bias", format::flag::kFfnBias);
  return all;
}

// What all layers have in common.
LayerKind read_layer(const JsonObject& config, const ArchitectureRow& row, ModelScalars* model) {
  LayerKind kind = {};
  kind.norm = static_cast<uint8_t>(format::Norm::kRms);
  read_heads(config, row, model->d_model, &kind);
  read_feed_forward(config, row, &kind);
  read_numbers(config, row, model, &kind);
  kind.flags = read_flags(config, row);
  return kind;
}

void divide_frequencies(const ConfigFiles& files, Rope* rope) {
  if (files.rope_factors.empty()) return;
  std::vector<float>& frequencies = rope->inverse_frequencies;
  const bool fit = files.rope_factors.size() == frequencies.size() &&
                   std::all_of(files.rope_factors.begin(), files.rope_factors.end(),
                               [](float factor) { return std::isfinite(factor) && factor > 0; });
  if (!fit) {
    throw ProgramError(ExitCode::kInvalidInput,
                       files.where + ": its frequency factors must be one above zero for each of " +
                           std::to_string(frequencies.size()) + " frequencies");
  }
  for (size_t i = 0; i < frequencies.size(); ++i) frequencies[i] /= files.rope_factors[i];
}

void check_frequencies(const JsonObject& config, const std::vector<float>& frequencies) {
  const bool are_within = std::all_of(frequencies.begin(), frequencies.end(), [](float frequency) {
    return frequency >= 0 && frequency <= format::kMaxRopeFrequency;
  });
  if (are_within) return;
  config.refuse("rope_theta",
                "and the scaling of positions give frequencies that are not from 0 to " +
                    std::to_string(static_cast<int>(format::kMaxRopeFrequency)));
}

// The table of all layers that have one; none where they have not.
void read_rope(const ConfigFiles& files, const JsonObject& config, const ArchitectureRow& row,
               ImportedConfig* imported) {
  ModelScalars& model = imported->config.model;
  const std::vector<LayerKind>& kinds = imported->config.kinds;
  const uint32_t turned = read_rotary_dim(config, row, kinds.front().key_dim);
  const RopeSettings settings = read_rope_settings(config, row, model.max_context, turned);
  Rope rope = compute_rope(settings, turned);
  divide_frequencies(files, &rope);
  check_frequencies(config, rope.inverse_frequencies);
  check_frequencies(config, rope.long_inverse_frequencies);
  if (std::all_of(kinds.begin(), kinds.end(),
                  [](const LayerKind& kind) { return kind.rope_table == format::kNoTable; })) {
    return;
  }
  model.n_rope_tables = 1;
  model.rope_tables[0] = {turned / 2, rope.attention_factor,
                          original_context(settings, model.max_context), 0};
  imported->rope = std::move(rope.inverse_frequencies);
  if (model.rope_tables[0].original_context == 0) return;
  imported->rope.insert(imported->rope.end(), rope.long_inverse_frequencies.begin(),
                        rope.long_inverse_frequencies.end());
}

// A token that cannot be would end nothing, silently.
void check_token_ids(const JsonObject& source, const char* key, const std::vector<uint32_t>& ids,
                     uint32_t vocab_size) {
  for (const uint32_t id : ids) {
    if (id < vocab_size) continue;
    source.refuse(key,
                  std::to_string(id) + " is not below vocab_size " + std::to_string(vocab_size));
  }
}

// generation_config.json knows more end tokens than config.json; either may be silent.
void read_tokens(const ConfigFiles& files, const JsonObject& config, ImportedConfig* imported) {
  std::vector<JsonObject> sources;
  if (files.generation) sources.emplace_back(*files.generation, files.generation_where);
  sources.push_back(config);
  ModelScalars& model = imported->config.model;
  model.bos_token = format::kNone;
  for (const JsonObject& source : sources) {
    const std::optional<std::vector<uint32_t>> ends = source.counts("eos_token_id");
    if (!imported->has_end_tokens && ends && !ends->empty()) {
      check_token_ids(source, "eos_token_id", *ends, model.vocab_size);
      set_end_tokens(*ends, source.where() + ": " + source.name_of("eos_token_id"), &model);
      imported->has_end_tokens = true;
    }
    const std::optional<uint32_t> bos = source.count("bos_token_id");
    if (!imported->has_bos && bos) {
      check_token_ids(source, "bos_token_id", {*bos}, model.vocab_size);
      model.bos_token = *bos;
      imported->has_bos = true;
    }
  }
}

}  // namespace

void set_end_tokens(const std::vector<uint32_t>& ids, const std::string& where,
                    ModelScalars* model) {
  std::vector<uint32_t> unique;
  for (const uint32_t id : ids) {
    if (std::find(unique.begin(), unique.end(), id) != unique.end()) continue;
    if (unique.size() == format::kMaxEndTokens) {
      const std::set<uint32_t> all(ids.begin(), ids.end());
      throw ProgramError(ExitCode::kInvalidInput, where + " has " + std::to_string(all.size()) +
                                                      " ids; a model file holds at most " +
                                                      std::to_string(format::kMaxEndTokens));
    }
    unique.push_back(id);
  }
  model->n_end_tokens = static_cast<uint32_t>(unique.size());
  std::fill(std::begin(model->end_tokens), std::end(model->end_tokens), 0);
  std::copy(unique.begin(), unique.end(), model->end_tokens);
}

ImportedConfig import_config(const ConfigFiles& files) {
  const JsonObject config(*files.config, files.where, files.key_names);
  const ArchitectureRow& row = find_architecture(config);
  refuse_foreign(config, row);

  ImportedConfig imported = {};
  imported.architecture = row.class_name;
  ModelScalars& model = imported.config.model;
  read_sizes(config, row, &model);
  const LayerKind layer = read_layer(config, row, &model);
  imported.config.set_layers(read_layers(config, row, layer, model.n_layers));
  read_tokens(files, config, &imported);
  read_rope(files, config, row, &imported);
  imported.tied_embedding = config.boolean("tie_word_embeddings").value_or(row.is_tied);
  return imported;
}

}  // namespace cria::converter
