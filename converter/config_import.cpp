#include "converter/config_import.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "converter/architecture_table.h"
#include "converter/error.h"
#include "converter/json_input.h"
#include "converter/layer_kinds.h"

namespace cria::converter {
namespace {

using format::ModelConfig;

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

void read_shape(const JsonObject& config, const ArchitectureRow& row, ModelConfig* model) {
  model->architecture = static_cast<uint32_t>(row.id);
  model->n_layers = config.required_count("num_hidden_layers");
  model->d_model = config.required_count("hidden_size");
  model->n_heads = config.required_count("num_attention_heads");
  model->d_ff = config.required_count(row.ffn_key);
  model->vocab_size = config.required_count("vocab_size");
  if (model->n_heads == 0) config.refuse("num_attention_heads", "must not be zero");
  // null means one key-value head a head; only silence brings the architecture's default.
  const bool silent = !config.contains("num_key_value_heads") && row.n_kv_heads != 0;
  model->n_kv_heads =
      config.count("num_key_value_heads").value_or(silent ? row.n_kv_heads : model->n_heads);
  const std::optional<uint32_t> head_dim = config.count("head_dim");
  if (!head_dim && row.head_dim == 0 && model->d_model % model->n_heads != 0) {
    config.refuse("hidden_size", "is no multiple of " + config.name_of("num_attention_heads") +
                                     ", and " + config.name_of("head_dim") + " is missing");
  }
  const uint32_t otherwise = row.head_dim != 0 ? row.head_dim : model->d_model / model->n_heads;
  model->head_dim = head_dim.value_or(otherwise);
  model->max_context = config.count("max_position_embeddings").value_or(row.max_context);
  if (model->head_dim < 2 || model->head_dim > format::kMaxHeadDim || model->head_dim % 2 != 0) {
    const std::string range = "must be even and from 2 to " + std::to_string(format::kMaxHeadDim);
    if (head_dim) config.refuse("head_dim", range);
    config.refuse("hidden_size", "over " + config.name_of("num_attention_heads") +
                                     " gives heads of " + std::to_string(model->head_dim) +
                                     " elements, which " + range);
  }
}

void read_numbers(const JsonObject& config, const ArchitectureRow& row, ModelConfig* model) {
  const auto number = [&config](const char* key, double otherwise) {
    return static_cast<float>(config.number(key).value_or(otherwise));
  };
  const bool has = row.has_multipliers;
  model->rms_epsilon = number("rms_norm_eps", row.rms_epsilon);
  model->embedding_multiplier = has ? number("embedding_multiplier", 1) : 1;
  model->residual_multiplier = has ? number("residual_multiplier", 1) : 1;
  model->logits_divisor = has ? number("logits_scaling", 1) : 1;
  model->attention_multiplier =
      has ? number("attention_multiplier", 1)
          : static_cast<float>(1 / std::sqrt(static_cast<double>(model->head_dim)));
}

void read_flags(const JsonObject& config, const ArchitectureRow& row, ModelConfig* model) {
  model->flags = row.flags;
  const auto read = [&](const char* key, uint32_t flags) {
    if (!config.boolean(key).value_or(false)) return;
    // Of these q, k and v have their biases whatever the key says.
    const uint32_t all = row.flags | row.flags_by_keys;
    if ((all & flags) == 0) config.refuse(key, "is not supported for this architecture");
    model->flags |= all & flags;
  };
  read("attention_bias", format::kQkvBias | format::kOutputBias);
  read("mlp_bias", format::kMlpBias);
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

void read_rope(const ConfigFiles& files, const JsonObject& config, const ArchitectureRow& row,
               ImportedConfig* imported) {
  ModelConfig& model = imported->model;
  const uint32_t turned = read_rotary_dim(config, row, model.head_dim);
  const RopeSettings settings = read_rope_settings(config, row, model.max_context, turned);
  imported->rope = compute_rope(settings, turned);
  divide_frequencies(files, &imported->rope);
  for (const std::vector<float>* frequencies :
       {&imported->rope.inverse_frequencies, &imported->rope.long_inverse_frequencies}) {
    const bool are_within = std::all_of(
        frequencies->begin(), frequencies->end(),
        [](float frequency) { return frequency >= 0 && frequency <= format::kMaxRopeFrequency; });
    if (!are_within) {
      config.refuse("rope_theta",
                    "and the scaling of positions give frequencies that are not from 0 to " +
                        std::to_string(static_cast<int>(format::kMaxRopeFrequency)));
    }
  }
  model.rope_factor = imported->rope.attention_factor;
  model.rotary_dim = turned == model.head_dim ? 0 : turned;
  model.original_context = original_context(settings, model.max_context);
  if (model.original_context != 0) model.flags |= format::kLongRope;
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
  imported->model.bos_token = format::kNone;
  for (const JsonObject& source : sources) {
    const std::optional<std::vector<uint32_t>> ends = source.counts("eos_token_id");
    if (!imported->has_end_tokens && ends && !ends->empty()) {
      check_token_ids(source, "eos_token_id", *ends, imported->model.vocab_size);
      set_end_tokens(*ends, source.where() + ": " + source.name_of("eos_token_id"),
                     &imported->model);
      imported->has_end_tokens = true;
    }
    const std::optional<uint32_t> bos = source.count("bos_token_id");
    if (!imported->has_bos && bos) {
      check_token_ids(source, "bos_token_id", {*bos}, imported->model.vocab_size);
      imported->model.bos_token = *bos;
      imported->has_bos = true;
    }
  }
}

}  // namespace

void set_end_tokens(const std::vector<uint32_t>& ids, const std::string& where,
                    ModelConfig* model) {
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

std::string describe_config_field(std::string_view field, const KeyNames& names) {
  struct Rule {
    std::string_view field;
    const char* key;
    uint32_t least;
    uint32_t most;
  };
  constexpr Rule kRules[] = {
      {"n_layers", "num_hidden_layers", 1, format::kMaxLayers},
      {"d_model", "hidden_size", 1, format::kMaxModelWidth},
      {"n_heads", "num_attention_heads", 1, format::kMaxHeads},
      {"vocab_size", "vocab_size", 1, format::kMaxVocab},
      {"max_context", "max_position_embeddings", 1, format::kMaxContext},
      {"sliding_window", "sliding_window", 0, format::kMaxContext},
  };
  const auto name = [&names](const char* key) {
    const auto found = names.find(key);
    return found == names.end() ? std::string(key) : found->second;
  };
  const auto must_be = [](const std::string& key, uint32_t least, uint32_t most) {
    return key + " must be from " + std::to_string(least) + " to " + std::to_string(most);
  };
  for (const Rule& rule : kRules) {
    if (rule.field == field) return must_be(name(rule.key), rule.least, rule.most);
  }
  if (field == "d_ff") {
    const bool is_named = names.contains("intermediate_size");
    return must_be(
        name("intermediate_size") + (is_named ? "" : " or " + name("shared_intermediate_size")), 1,
        format::kMaxFfnWidth);
  }
  if (field == "n_heads * head_dim") {
    return must_be(name("num_attention_heads") + " times the elements of a head", 1,
                   format::kMaxModelWidth);
  }
  if (field == "n_kv_heads") {
    return name("num_key_value_heads") + " must divide " + name("num_attention_heads");
  }
  if (field == "rms_epsilon") return name("rms_norm_eps") + " must be from 0 to below 1";
  if (field == "logits_divisor") return name("logits_scaling") + " must be above zero";
  return name(std::string(field).c_str()) + " is out of the range a model file can hold";
}

ImportedConfig import_config(const ConfigFiles& files) {
  const JsonObject config(*files.config, files.where, files.key_names);
  const ArchitectureRow& row = find_architecture(config);
  refuse_foreign(config, row);

  ImportedConfig imported = {};
  imported.architecture = row.class_name;
  read_shape(config, row, &imported.model);
  read_no_rope(config, row, &imported.model);
  read_window(config, row, &imported.model);
  read_numbers(config, row, &imported.model);
  read_flags(config, row, &imported.model);
  read_tokens(files, config, &imported);
  read_rope(files, config, row, &imported);
  imported.tied_embedding = config.boolean("tie_word_embeddings").value_or(row.is_tied);
  return imported;
}

}  // namespace cria::converter
