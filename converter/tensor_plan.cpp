#include "converter/tensor_plan.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "converter/error.h"
#include "converter/tensor_names.h"
#include "converter/tensor_source.h"

namespace cria::converter {
namespace {

using format::TensorRole;

constexpr size_t kNamedExtras = 3;

[[noreturn]] void refuse(const std::string& line) {
  throw ProgramError(ExitCode::kInvalidInput, line);
}

// Why a tensor is not there, and what to do, as far as the others tell.
std::string reason_of_missing(const Checkpoint& checkpoint, const std::string& name) {
  for (const auto& [other, tensor] : checkpoint.tensors()) {
    if (other.find(".base_layer.") != std::string::npos ||
        other.find(".lora_") != std::string::npos) {
      return ", but " + shown(tensor->name()) +
             ", of an adapter: merge it with peft (merge_and_unload), save that and convert it";
    }
    if (other.ends_with("." + name) || name.ends_with("." + other)) {
      return ", but " + shown(tensor->name()) +
             ": its names are not those of transformers; save it with save_pretrained";
    }
  }
  if (name.ends_with(".bias")) {
    return ", which its config asks for; check that the config is this model's, or save the model "
           "with transformers (save_pretrained)";
  }
  return ": its download is incomplete, or its config is another model's";
}

[[noreturn]] void refuse_missing(const Checkpoint& checkpoint, const TensorSpec& spec,
                                 const std::string& name) {
  const bool output_layer = spec.role == TensorRole::kLmHead;
  refuse(checkpoint.path().string() + ": the checkpoint has no tensor " +
         checkpoint.name_in_files(name) +
         (output_layer
              ? ", and its config (text_config, where it has one) does not set tie_word_embeddings"
              : reason_of_missing(checkpoint, name)));
}

void check_source(const SourceTensor& source, const std::vector<uint64_t>& wanted) {
  const std::string where = source.path().string() + ": tensor " + shown(source.name());
  // First, because the shape of packed weights says nothing to a user.
  if (const std::string problem = source.problem(); !problem.empty()) {
    refuse(where + " " + problem);
  }
  if (source.shape() != wanted) {
    refuse(where + " has shape " + shape_text(source.shape()) + " where the config asks for " +
           shape_text(wanted));
  }
}

// What the shape of a tensor is compared with: files leave out a side of a convolution that is 1.
std::vector<uint64_t> shape_of(const SourceTensor& source, const Recipe& recipe,
                               const std::vector<uint64_t>& wanted) {
  if (recipe.take != Take::kTaps || source.shape().size() != 2) return wanted;
  return {wanted.front(), wanted.back()};
}

// Tables of angles and masks, which older checkpoints store and the config gives anyway.
bool is_buffer(std::string_view name) {
  constexpr std::string_view kLastParts[] = {
      ".inv_freq",    ".cos_cached",   ".sin_cached",  ".cos_cache",     ".sin_cache",
      ".masked_bias", ".position_ids", ".causal_mask", ".attn_rot_embd", ".attn.bias"};
  return name.find(".rotary_emb.") != std::string_view::npos ||
         std::any_of(std::begin(kLastParts), std::end(kLastParts),
                     [name](std::string_view part) { return name.ends_with(part); });
}

bool is_known_extra(const std::string& name) {
  return is_buffer(name) || name == kLmHeadName || name == kEmbeddingName;
}

// Whether what the tensor belongs to is computed: the layers, what is before them and after. Names
// of a GGUF file that no role takes are its own.
bool is_of_model(std::string_view name) {
  constexpr std::string_view kBegins[] = {
      "model.layers.", "model.norm.", "model.embed_", "model.per_layer_", "lm_head.",
      "blk.",          "output.",     "output_norm.", "token_embd",       "position_embd"};
  constexpr std::string_view kOfTowers[] = {"model.embed_vision.", "model.embed_audio."};
  const auto begins = [name](std::string_view begin) { return name.starts_with(begin); };
  return std::any_of(std::begin(kBegins), std::end(kBegins), begins) &&
         std::none_of(std::begin(kOfTowers), std::end(kOfTowers), begins);
}

// The number of a layer's tensor; nothing: it is of none.
std::optional<uint64_t> layer_of(std::string_view name) {
  constexpr std::string_view kLayers = "model.layers.";
  constexpr size_t kDigits = 9;
  if (!name.starts_with(kLayers)) return std::nullopt;
  name.remove_prefix(kLayers.size());
  const std::string digits(name.substr(0, name.find('.')));
  const bool is_number = !digits.empty() && digits.size() <= kDigits &&
                         digits.find_first_not_of("0123456789") == std::string::npos;
  return is_number ? std::optional(std::stoull(digits)) : std::nullopt;
}

// Whether it is what a layer would have of keys and values, had it any of its own: some checkpoints
// hold it for layers that read those of earlier ones.
bool is_of_shared(const Config& config, const StoredForm& form, const std::string& name) {
  constexpr TensorRole kOwn[] = {TensorRole::kK,     TensorRole::kKBias, TensorRole::kV,
                                 TensorRole::kVBias, TensorRole::kKNorm, TensorRole::kVNorm};
  const auto id = static_cast<format::Architecture>(config.model->architecture);
  const TensorNames own = form.names.value_or(architecture_row(id).names);
  const std::optional<uint64_t> layer = layer_of(name);
  if (!layer || *layer >= config.layers.size()) return false;
  if (config.kind_of(static_cast<size_t>(*layer)).shared_with == format::kNoKind) return false;
  const std::optional<NamedRole> role = find_role(kHuggingFaceNames, own, name);
  return role && std::find(std::begin(kOwn), std::end(kOwn), role->role) != std::end(kOwn);
}

// Weights that no role takes would change what their part computes: the config names another
// architecture, or fewer layers. Others, of a second head for example, are warned of.
void judge_extras(const Checkpoint& checkpoint, const Config& config, const StoredForm& form,
                  const std::set<std::string>& used, std::vector<std::string>* warnings) {
  const uint64_t n_layers = config.model->n_layers;
  size_t n_extras = 0;
  std::string names;
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    if (used.contains(name) || is_known_extra(name) || is_zero_bias(*tensor)) continue;
    const std::optional<uint64_t> layer = layer_of(name);
    const bool is_extra =
        (layer && *layer >= n_layers && *layer < n_layers + form.n_extra_layers) ||
        is_of_shared(config, form, name);
    if (!is_extra && is_of_model(name)) {
      refuse(tensor->path().string() + ": tensor " + shown(tensor->name()) +
             " has no place in this architecture with these layers; the config is another model's");
    }
    if (n_extras < kNamedExtras) names += (n_extras == 0 ? "" : ", ") + shown(tensor->name());
    ++n_extras;
  }
  if (n_extras == 0) return;
  warnings->push_back(std::to_string(n_extras) + " tensor(s) of the checkpoint are not used: " +
                      names + (n_extras > kNamedExtras ? ", ..." : ""));
}

}  // namespace

bool is_zero_bias(const SourceTensor& tensor) {
  constexpr uint64_t kMostValues = 1 << 24;
  const uint64_t n = tensor.n_rows();
  if (!tensor.name().ends_with(".bias") || tensor.shape().size() != 1 || n > kMostValues ||
      !tensor.problem().empty()) {
    return false;
  }
  std::vector<uint8_t> scratch;
  std::vector<float> values(static_cast<size_t>(n));
  if (n > 0) tensor.read_rows(0, values.size(), &scratch, values.data());
  return std::all_of(values.begin(), values.end(), [](float value) { return value == 0.0F; });
}

bool embedding_is_tied(const Checkpoint& checkpoint, bool config_says_tied, bool needs_no_head,
                       std::vector<std::string>* warnings) {
  const SourceTensor* embedding = checkpoint.find(kEmbeddingName);
  const SourceTensor* lm_head = checkpoint.find(kLmHeadName);
  if (!config_says_tied) return needs_no_head && embedding != nullptr && lm_head == nullptr;
  if (embedding == nullptr || lm_head == nullptr) {
    if (!checkpoint.unties()) return true;
  } else {
    // What cannot be read is refused with its name when it is planned.
    if (!embedding->problem().empty() || !lm_head->problem().empty()) return false;
    if (same_values(*embedding, *lm_head)) return true;
  }
  warnings->push_back(
      "config.json ties the embeddings, but the checkpoint or its adapters have two different "
      "matrices: both are kept");
  return false;
}

TensorPlan plan_tensors(const Checkpoint& checkpoint, const Config& config,
                        std::span<const MatrixFormat> formats, const StoredForm& form) {
  TensorPlan plan;
  std::set<std::string> used;
  TensorWalk walk(config);
  TensorSpec spec = {};
  for (size_t i = 0; i < formats.size() && walk.next(formats[i], &spec); ++i) {
    if (spec.role == TensorRole::kRope) {
      plan.tensors.push_back({spec, nullptr});
      continue;
    }
    const Recipe recipe = recipe_of(config, spec, form);
    const std::vector<uint64_t> shape = stored_shape(config, spec, recipe);
    const bool may_be_head =
        has_flag(config, format::kTiedEmbedding) && spec.role == TensorRole::kEmbedding;
    std::vector<const SourceTensor*> stored;
    for (const std::string& own : recipe.names) {
      const bool is_head = may_be_head && checkpoint.find(own) == nullptr;
      const std::string name = is_head ? kLmHeadName : own;
      const SourceTensor* tensor = checkpoint.find(name);
      if (tensor == nullptr) refuse_missing(checkpoint, spec, own);
      const bool is_flat = recipe.take == Take::kFlat && tensor->shape().size() == 1;
      check_source(*tensor, is_flat ? std::vector<uint64_t>{spec.shape.cols}
                                    : shape_of(*tensor, recipe, shape));
      used.insert(name);
      stored.push_back(tensor);
    }
    plan.tensors.push_back(
        {spec, make_source(config, spec, recipe, form, std::move(stored), &plan.views)});
  }
  judge_extras(checkpoint, config, form, used, &plan.warnings);
  return plan;
}

std::vector<std::optional<MatrixFormat>> trained_formats(const Checkpoint& checkpoint,
                                                         const Config& config,
                                                         const StoredForm& form) {
  const size_t n_tensors = tensor_count(config);
  std::vector<std::optional<MatrixFormat>> found(n_tensors);
  const bool has_some =
      std::any_of(checkpoint.tensors().begin(), checkpoint.tensors().end(), [](const auto& tensor) {
        return tensor.second->problem().empty() && tensor.second->trained_format();
      });
  if (!has_some) return found;
  const std::vector<MatrixFormat> any(n_tensors, {format::NumberFormat::kF32, 0});
  const TensorPlan plan = plan_tensors(checkpoint, config, any, form);
  for (size_t i = 0; i < n_tensors; ++i) {
    const PlannedTensor& tensor = plan.tensors[i];
    if (tensor.spec.form != TensorForm::kMatrix) continue;
    const auto trained = tensor.source->trained_format();
    if (trained) found[i] = matrix_format(*trained, 0);
  }
  return found;
}

}  // namespace cria::converter
