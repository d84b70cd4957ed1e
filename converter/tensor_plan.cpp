#include "converter/tensor_plan.h"

#include <algorithm>
#include <set>
#include <utility>

#include "converter/error.h"

namespace cria::converter {
namespace {

using format::TensorRole;

constexpr const char* kEmbeddingName = "model.embed_tokens.weight";
constexpr const char* kLmHeadName = "lm_head.weight";
constexpr size_t kNamedExtras = 3;

struct RoleName {
  TensorRole role;
  const char* name;  // inside the layer, or the whole name
};

constexpr RoleName kLayerNames[] = {
    {TensorRole::kAttentionNorm, "input_layernorm.weight"},
    {TensorRole::kQ, "self_attn.q_proj.weight"},
    {TensorRole::kK, "self_attn.k_proj.weight"},
    {TensorRole::kV, "self_attn.v_proj.weight"},
    {TensorRole::kO, "self_attn.o_proj.weight"},
    {TensorRole::kFfnNorm, "post_attention_layernorm.weight"},
    {TensorRole::kGate, "mlp.gate_proj.weight"},
    {TensorRole::kUp, "mlp.up_proj.weight"},
    {TensorRole::kDown, "mlp.down_proj.weight"},
    {TensorRole::kQBias, "self_attn.q_proj.bias"},
    {TensorRole::kKBias, "self_attn.k_proj.bias"},
    {TensorRole::kVBias, "self_attn.v_proj.bias"},
    {TensorRole::kOBias, "self_attn.o_proj.bias"},
    {TensorRole::kGateBias, "mlp.gate_proj.bias"},
    {TensorRole::kUpBias, "mlp.up_proj.bias"},
    {TensorRole::kDownBias, "mlp.down_proj.bias"},
};

std::string checkpoint_name(const TensorSpec& spec) {
  if (spec.role == TensorRole::kEmbedding) return kEmbeddingName;
  if (spec.role == TensorRole::kLmHead) return kLmHeadName;
  if (spec.role == TensorRole::kFinalNorm) return "model.norm.weight";
  const auto* item = std::find_if(std::begin(kLayerNames), std::end(kLayerNames),
                                  [&](const RoleName& r) { return r.role == spec.role; });
  return "model.layers." + std::to_string(spec.layer) + "." + item->name;
}

[[noreturn]] void refuse(const std::string& line) {
  throw ProgramError(ExitCode::kInvalidInput, line);
}

[[noreturn]] void refuse_missing(const Checkpoint& checkpoint, const TensorSpec& spec,
                                 const std::string& name) {
  const bool output_layer = spec.role == TensorRole::kLmHead;
  refuse(checkpoint.path().string() + ": the checkpoint has no tensor " + name +
         (output_layer ? ", and config.json does not set tie_word_embeddings"
                       : ": it is incomplete, download it again"));
}

void check_source(const TensorSpec& spec, const SourceTensor& source) {
  std::vector<uint64_t> wanted = {spec.shape.cols};
  if (spec.is_matrix) wanted.insert(wanted.begin(), spec.shape.rows);
  const std::string where = source.path().string() + ": tensor " + source.name();
  if (source.shape() != wanted) {
    refuse(where + " has shape " + shape_text(source.shape()) + " where config.json asks for " +
           shape_text(wanted));
  }
  if (const std::string problem = source.problem(); !problem.empty()) {
    refuse(where + " " + problem);
  }
}

// Older checkpoints store the rotary frequencies, which the config gives anyway.
bool is_known_extra(const std::string& name) {
  return name.ends_with("rotary_emb.inv_freq") || name == kLmHeadName || name == kEmbeddingName;
}

void warn_of_extras(const Checkpoint& checkpoint, const std::set<std::string>& used,
                    std::vector<std::string>* warnings) {
  size_t n_extras = 0;
  std::string names;
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    if (used.contains(name) || is_known_extra(name)) continue;
    if (n_extras < kNamedExtras) names += (n_extras == 0 ? "" : ", ") + shown(name);
    ++n_extras;
  }
  if (n_extras == 0) return;
  warnings->push_back(std::to_string(n_extras) + " tensor(s) of the checkpoint are not used: " +
                      names + (n_extras > kNamedExtras ? ", ..." : ""));
}

}  // namespace

bool embedding_is_tied(const Checkpoint& checkpoint, bool config_says_tied,
                       std::vector<std::string>* warnings) {
  if (!config_says_tied) return false;
  const SourceTensor* embedding = checkpoint.find(kEmbeddingName);
  const SourceTensor* lm_head = checkpoint.find(kLmHeadName);
  if (embedding == nullptr || lm_head == nullptr) return true;
  // What cannot be read is refused with its name when it is planned.
  if (!embedding->problem().empty() || !lm_head->problem().empty()) return false;
  if (same_values(*embedding, *lm_head)) return true;
  warnings->push_back(
      "config.json ties the embeddings, but the checkpoint stores two different matrices: both "
      "are kept");
  return false;
}

TensorPlan plan_tensors(const Checkpoint& checkpoint, const format::ModelConfig& model,
                        std::span<const MatrixFormat> formats) {
  TensorPlan plan;
  std::set<std::string> used;
  const bool tied = (model.flags & format::kTiedEmbedding) != 0;
  const uint32_t n_tensors = tensor_count(model);
  for (uint32_t i = 0; i < n_tensors; ++i) {
    const TensorSpec spec = tensor_spec(model, i, formats[i]);
    if (spec.role == TensorRole::kRopeInverseFrequencies) {
      plan.tensors.push_back({spec, nullptr});
      continue;
    }
    const std::string name = checkpoint_name(spec);
    const SourceTensor* source = checkpoint.find(name);
    if (source == nullptr && tied && spec.role == TensorRole::kEmbedding) {
      source = checkpoint.find(kLmHeadName);
    }
    if (source == nullptr) refuse_missing(checkpoint, spec, name);
    check_source(spec, *source);
    used.insert(source->name());
    plan.tensors.push_back({spec, source});
  }
  warn_of_extras(checkpoint, used, &plan.warnings);
  return plan;
}

}  // namespace cria::converter
