#include "converter/config_import.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "converter/architecture_table.h"
#include "converter/config_numbers.h"
#include "converter/error.h"
#include "converter/expert_layers.h"
#include "converter/gemma4_layers.h"
#include "converter/json_input.h"
#include "converter/latent_heads.h"
#include "converter/layer_kinds.h"
#include "converter/lfm2_layers.h"
#include "converter/recurrent_layers.h"
#include "converter/rope.h"

namespace cria::converter {
namespace {

using format::LayerKind;
using format::ModelScalars;

constexpr const char* kClip = "clip_qkv";
constexpr const char* kQueryScale = "query_pre_attn_scalar";
constexpr const char* kScoreCap = "attn_logit_softcapping";
constexpr const char* kLogitsCap = "final_logit_softcapping";
constexpr const char* kScaled = "scale_attn_weights";  // where others have it, nobody reads it
constexpr const char* kScaleByLayer = "scale_attn_by_inverse_layer_idx";

// Settings that other architectures bring along; a checkpoint that has one is not what it says.
constexpr const char* kForeignKeys[] = {
    "num_local_experts",
    "num_experts",
    "n_routed_experts",
    "num_experts_per_tok",
    "moe_intermediate_size",
    "kv_lora_rank",
    "q_lora_rank",
    kScoreCap,
    kLogitsCap,
    "use_qk_norm",
    "qk_layernorm",
    kQueryScale,
    "use_bias",
    "no_rope_layers",
    "lm_head_bias",
    "sliding_window_pattern",
    "moe_num_experts",
    "attention_chunk_size",
    "use_bidirectional_attention",
    "add_cross_attention",
    "is_encoder_decoder",
    kClip,
    "alibi",
    "n_shared_experts",
    "shared_expert_intermediate_size",
    "shared_intermediate_size",
    "first_k_dense_replace",
    "mlp_only_layers",
    kScaleByLayer,
};

void refuse_foreign(const JsonObject& config, const ArchitectureRow& row) {
  for (const char* key : kForeignKeys) {
    if (!row.has_key(key) && config.is_on(key)) {
      config.refuse(
          key, "is not supported for " + std::string(row.name) + "; " + supported_architectures());
    }
  }
  if (!config.boolean("is_causal").value_or(true)) {
    config.refuse("is_causal", "is false: tokens that attend to later ones are not supported");
  }
  // Where it is silent, such a model has experts.
  if (row.is_hybrid) (void)config.required_count("num_experts");
  for (const char* key : {"quantization_config", "quantization", "compression_config"}) {
    if (config.is_on(key)) {
      config.refuse(key,
                    "is set: the weights are already quantized, convert the original checkpoint");
    }
  }
}

void read_sizes(const JsonObject& config, const ArchitectureRow& row, ModelScalars* model) {
  constexpr const char* kContext = "max_position_embeddings";
  model->architecture = static_cast<uint32_t>(row.id);
  model->n_layers = required_within(config, "num_hidden_layers", format::kMaxLayers);
  model->d_model = required_within(config, "hidden_size", format::kMaxModelWidth);
  model->vocab_size = count_or(config, "vocab_size", row.vocab_size, format::kMaxVocab);
  model->max_context = count_or(config, kContext, row.max_context, format::kMaxContext);
  model->final_norm = static_cast<uint32_t>(row.norm);
  if (row.no_rope != NoRopeKeys::kAll) return;
  model->flags |= format::kLearnedPositions;
  if (uint64_t{model->max_context} * model->d_model > format::kMaxVectorLength) {
    config.refuse(kContext, "times " + config.name_of("hidden_size") + " must be at most " +
                                std::to_string(format::kMaxVectorLength));
  }
}

uint32_t read_head_dim(const JsonObject& config, const ArchitectureRow& row, uint32_t d_model,
                       uint32_t n_heads) {
  const std::optional<uint32_t> said = config.count("head_dim");
  if (!said && row.head_dim == 0 && d_model % n_heads != 0) {
    config.refuse("hidden_size", "is not a multiple of " + config.name_of("num_attention_heads") +
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
  const uint32_t n_heads = count_or(config, "num_attention_heads", row.n_heads, format::kMaxHeads);
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
}

float inverse_root(uint32_t n, double factor) {
  return static_cast<float>(factor / std::sqrt(static_cast<double>(n)));
}

float read_positive(const JsonObject& config, const char* key, double otherwise) {
  return static_cast<float>(positive(config, key, config.number(key).value_or(otherwise)));
}

// otherwise: where the config is silent. 0: there is no cap, as null says.
float read_cap(const JsonObject& config, const ArchitectureRow& row, const char* key,
               double otherwise) {
  if (!row.has_key(key)) return 0;
  if (!config.contains(key)) return static_cast<float>(otherwise);
  return config.has(key) ? read_positive(config, key, 0) : 0;
}

// Multipliers of the embedding, of what layers add and of logits, as each family says them.
void read_multipliers(const JsonObject& config, const ArchitectureRow& row, ModelScalars* model) {
  model->embedding_multiplier = 1;
  model->residual_multiplier = 1;
  model->logits_divisor = 1;
  if (row.has_multipliers) {
    model->embedding_multiplier = read_multiplier(config, "embedding_multiplier", 1);
    model->residual_multiplier = read_multiplier(config, "residual_multiplier", 1);
    model->logits_divisor = read_positive(config, "logits_scaling", 1);
  }
  if (row.has_depth_multipliers) {
    constexpr uint32_t kUsualBase = 1;
    const auto width = static_cast<float>(model->d_model);
    const float depth = read_multiplier(config, "scale_depth", 1);
    model->embedding_multiplier = read_multiplier(config, "scale_emb", 1);
    model->residual_multiplier = depth * inverse_root(model->n_layers, 1);
    model->logits_divisor =
        width /
        static_cast<float>(count_or(config, "dim_model_base", kUsualBase, format::kMaxModelWidth));
  }
  if (row.scales_by_width)
    model->embedding_multiplier = std::sqrt(static_cast<float>(model->d_model));
}

// What query-key products are multiplied by.
float read_score_multiplier(const JsonObject& config, const ArchitectureRow& row,
                            const LayerKind& kind) {
  if (row.has_multipliers) return read_multiplier(config, "attention_multiplier", 1);
  if (row.has_plain_scores) return 1;
  if (row.has_key(kScaled) && !config.boolean(kScaled).value_or(true)) return 1;
  if (!row.has_key(kQueryScale)) return inverse_root(kind.key_dim, 1);
  constexpr double kUsualScale = 256;
  const auto said = static_cast<double>(read_positive(config, kQueryScale, kUsualScale));
  return static_cast<float>(1 / std::sqrt(said));
}

void read_numbers(const JsonObject& config, const ArchitectureRow& row, ModelScalars* model,
                  LayerKind* kind) {
  model->norm_epsilon = read_number(config, "rms_norm_eps", row.rms_epsilon);
  if (model->norm_epsilon < 0 || model->norm_epsilon >= 1) {
    config.refuse("rms_norm_eps", "must be from 0 to below 1");
  }
  kind->norm_epsilon = model->norm_epsilon;
  if (row.mixer == format::Mixer::kAttention) kind->inner_epsilon = model->norm_epsilon;
  read_multipliers(config, row, model);
  kind->score_multiplier = read_score_multiplier(config, row, *kind);
  kind->qkv_clip = read_cap(config, row, kClip, 0);
  kind->score_cap = read_cap(config, row, kScoreCap, row.score_cap);
  model->logits_cap = read_cap(config, row, kLogitsCap, row.logits_cap);
  const QueryGrowth growth = read_query_growth(config, row, model->max_context);
  kind->query_growth = growth.growth;
  kind->query_growth_period = growth.period;
}

struct ActivationName {
  const char* name;
  format::Activation activation;
};
constexpr ActivationName kActivationNames[] = {{"silu", format::Activation::kSilu},
                                               {"swish", format::Activation::kSilu},
                                               {"gelu_new", format::Activation::kGelu},
                                               {"gelu_fast", format::Activation::kGelu},
                                               {"gelu_pytorch_tanh", format::Activation::kGelu},
                                               {"relu2", format::Activation::kReluSquared}};

format::Activation read_activation(const JsonObject& config, const ArchitectureRow& row,
                                   const char* key) {
  const std::string name = config.text(key).value_or(row.activation);
  std::string names;
  for (const ActivationName& known : kActivationNames) {
    if (known.name == name) return known.activation;
    names += (names.empty() ? "" : ", ") + std::string(known.name);
  }
  config.refuse(key, "'" + shown(name) + "' is not supported, only " + names);
}

void read_feed_forward(const JsonObject& config, const ArchitectureRow& row, uint32_t d_model,
                       LayerKind* kind) {
  constexpr uint32_t kGpt2Factor = 4;
  constexpr const char* kOtherKey = "hidden_activation";  // which some classes prefer
  kind->feed_forward = static_cast<uint8_t>(format::FeedForward::kDense);
  const format::Activation activation = read_activation(config, row, row.activation_key);
  if (config.has(kOtherKey) && read_activation(config, row, kOtherKey) != activation) {
    config.refuse(kOtherKey, "differs from " + std::string(row.activation_key));
  }
  kind->activation = static_cast<uint8_t>(activation);
  if (row.id == format::Architecture::kLfm2) {
    kind->d_ff = read_lfm2_width(config, row);
    return;
  }
  const bool is_gpt2 = row.id == format::Architecture::kGpt2;
  kind->d_ff = count_or(config, row.ffn_key, is_gpt2 ? kGpt2Factor * d_model : row.d_ff,
                        format::kMaxFfnWidth);
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
  const bool is_qwen2_moe = row.id == format::Architecture::kQwen2Moe;
  if (is_qwen2_moe && config.boolean("qkv_bias").value_or(true)) all |= format::flag::kMixerBias;
  return all;
}

// What all layers have in common.
LayerKind read_layer(const JsonObject& config, const ArchitectureRow& row, ModelScalars* model) {
  LayerKind kind = {};
  kind.norm = static_cast<uint8_t>(row.norm);
  kind.shared_with = format::kNoKind;
  if (row.mixer == format::Mixer::kLatentAttention) {
    read_latent_heads(config, &kind);
  } else {
    read_heads(config, row, model->d_model, &kind);
  }
  read_feed_forward(config, row, model->d_model, &kind);
  read_numbers(config, row, model, &kind);
  kind.flags = read_flags(config, row);
  return kind;
}

// The config with the names that most architectures have for keys.
struct ConfigKeys {
  Json values;
  KeyNames names;
};

ConfigKeys rename_keys(const JsonObject& config, const ConfigFiles& files,
                       const ArchitectureRow& row) {
  ConfigKeys keys = {*files.config, files.key_names};
  for (const OtherKey& other : row.other_keys) {
    if (!config.contains(other.name) && !config.contains(other.key)) {
      keys.names.emplace(other.key, other.name);  // of what is missing
      continue;
    }
    if (!config.contains(other.name) || (!config.has(other.name) && config.has(other.key)))
      continue;
    const Json& found = (*files.config)[other.name];
    if (config.has(other.key) && keys.values[other.key] != found) {
      config.refuse(other.name, "differs from " + std::string(other.key));
    }
    keys.values[other.key] = found;
    keys.values.erase(other.name);
    keys.names[other.key] = other.name;
  }
  return keys;
}

// Scores of layer i are divided by i + 1.
void divide_scores(std::vector<LayerKind>* layers) {
  double n = 0;
  for (LayerKind& layer : *layers) {
    layer.score_multiplier = static_cast<float>(static_cast<double>(layer.score_multiplier) / ++n);
  }
}

void set_layers(const JsonObject& config, const std::vector<LayerKind>& layers,
                ConfigParts* parts) {
  parts->set_layers(layers);
  if (parts->kinds.size() <= format::kMaxKinds) return;
  config.refuse("num_hidden_layers", "gives layers of " + std::to_string(parts->kinds.size()) +
                                         " kinds; a model file holds at most " +
                                         std::to_string(format::kMaxKinds));
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

void add_rope_table(const RopeSettings& settings, const Rope& rope, ImportedConfig* imported) {
  ModelScalars& model = imported->config.model;
  const uint32_t original = original_context(settings, model.max_context);
  const auto add = [imported](const std::vector<float>& frequencies) {
    imported->rope.insert(imported->rope.end(), frequencies.begin(), frequencies.end());
  };
  model.rope_tables[model.n_rope_tables++] = {
      static_cast<uint32_t>(rope.inverse_frequencies.size()), rope.attention_factor, original, 0};
  add(rope.inverse_frequencies);
  if (original != 0) add(rope.long_inverse_frequencies);
}

// The table of all layers that have one, and that of windows; none where no layer has one.
void read_rope(const ConfigFiles& files, const JsonObject& config, const ArchitectureRow& row,
               ImportedConfig* imported) {
  if (row.no_rope == NoRopeKeys::kAll) return;
  const ModelScalars& model = imported->config.model;
  std::vector<LayerKind>& kinds = imported->config.kinds;
  const bool is_latent = row.mixer == format::Mixer::kLatentAttention;
  const auto attends = [](const LayerKind& kind) {
    return kind.mixer == static_cast<uint8_t>(format::Mixer::kAttention) ||
           kind.mixer == static_cast<uint8_t>(format::Mixer::kLatentAttention);
  };
  const auto found = std::find_if(kinds.begin(), kinds.end(), attends);
  if (found == kinds.end()) return;
  // Heads of layers with and without a window may differ in width.
  const auto first_with = [&](uint8_t table) {
    const auto has = [&](const LayerKind& kind) {
      return attends(kind) && kind.rope_table == table;
    };
    const auto first = std::find_if(kinds.begin(), kinds.end(), has);
    return first != kinds.end() ? *first : *found;
  };
  const auto has_table = [&kinds](uint8_t table) {
    return std::any_of(kinds.begin(), kinds.end(),
                       [table](const LayerKind& kind) { return kind.rope_table == table; });
  };
  for (const RopeOf of : {RopeOf::kLayers, RopeOf::kWindows}) {
    if (of == RopeOf::kWindows && !has_table(kWindowTable)) continue;
    const LayerKind first = first_with(of == RopeOf::kWindows ? kWindowTable : 0);
    const uint32_t turned =
        read_rotary_dim(config, row, is_latent ? first.shared_key_dim : first.key_dim);
    const RopeSettings settings = read_rope_settings(config, row, of, model.max_context, turned);
    Rope rope = compute_rope(settings, turned);
    if (of == RopeOf::kLayers) divide_frequencies(files, &rope);
    check_frequencies(config, rope.inverse_frequencies);
    check_frequencies(config, rope.long_inverse_frequencies);
    if (!has_table(0) && !has_table(kWindowTable)) return;
    for (LayerKind& kind : kinds) {
      if (is_latent) kind.score_multiplier = inverse_root(kind.key_dim, settings.score_factor);
    }
    add_rope_table(settings, rope, imported);
  }
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
  const JsonObject with_own_keys(*files.config, files.where, files.key_names);
  const ArchitectureRow& row = find_architecture(with_own_keys);
  const ConfigKeys keys = rename_keys(with_own_keys, files, row);
  const JsonObject config(keys.values, files.where, keys.names);
  refuse_foreign(config, row);

  ImportedConfig imported = {};
  imported.form = files.form;
  imported.architecture = row.class_name;
  ModelScalars& model = imported.config.model;
  read_sizes(config, row, &model);
  if (files.embedding) {
    model.pooling = static_cast<uint32_t>(files.embedding->pooling);
    if (files.embedding->is_unit) model.flags |= format::kUnitEmbeddings;
  }
  const LayerKind layer = read_layer(config, row, &model);
  std::vector<LayerKind> layers = read_layers(config, row, layer, model.n_layers);
  read_convolutions(config, row, &layers);
  read_recurrences(config, row, model.d_model, &layers);
  read_experts(config, row, &layers);
  read_gemma4(config, row, &model, &layers);
  if (config.boolean(kScaleByLayer).value_or(false)) divide_scores(&layers);
  set_layers(config, layers, &imported.config);
  read_tokens(files, config, &imported);
  read_rope(files, config, row, &imported);
  // Of DeepSeek-V2 nobody reads the key.
  imported.form.has_pairs = row.has_pairs && (row.id != format::Architecture::kDeepseekV3 ||
                                              config.boolean("rope_interleave").value_or(true));
  imported.form.norms_add_one = row.norms_add_one && !files.form.has_whole_norms;
  imported.form.n_extra_layers = config.count("num_nextn_predict_layers").value_or(0);
  imported.tied_embedding = config.boolean("tie_word_embeddings").value_or(row.is_tied);
  return imported;
}

}  // namespace cria::converter
