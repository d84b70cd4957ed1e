#include "converter/tensor_names.h"

#include <string_view>

#include "quant/tensor_roles.h"

namespace cria::converter {
namespace {

using format::TensorRole;

struct RoleName {
  TensorNames names;
  TensorRole role;
  std::string_view name;  // inside the layer
};

// A name of an architecture's own comes before that of Llama. Roles with one name are its rows, in
// the order of this table.
constexpr RoleName kRoleNames[] = {
    {TensorNames::kPhi3, TensorRole::kQ, "self_attn.qkv_proj.weight"},
    {TensorNames::kPhi3, TensorRole::kK, "self_attn.qkv_proj.weight"},
    {TensorNames::kPhi3, TensorRole::kV, "self_attn.qkv_proj.weight"},
    {TensorNames::kPhi3, TensorRole::kGate, "mlp.gate_up_proj.weight"},
    {TensorNames::kPhi3, TensorRole::kUp, "mlp.gate_up_proj.weight"},
    {TensorNames::kGraniteHybrid, TensorRole::kGate, "shared_mlp.input_linear.weight"},
    {TensorNames::kGraniteHybrid, TensorRole::kUp, "shared_mlp.input_linear.weight"},
    {TensorNames::kGraniteHybrid, TensorRole::kDown, "shared_mlp.output_linear.weight"},

    {TensorNames::kLlama, TensorRole::kAttentionNorm, "input_layernorm.weight"},
    {TensorNames::kLlama, TensorRole::kQ, "self_attn.q_proj.weight"},
    {TensorNames::kLlama, TensorRole::kK, "self_attn.k_proj.weight"},
    {TensorNames::kLlama, TensorRole::kV, "self_attn.v_proj.weight"},
    {TensorNames::kLlama, TensorRole::kO, "self_attn.o_proj.weight"},
    {TensorNames::kLlama, TensorRole::kFfnNorm, "post_attention_layernorm.weight"},
    {TensorNames::kLlama, TensorRole::kGate, "mlp.gate_proj.weight"},
    {TensorNames::kLlama, TensorRole::kUp, "mlp.up_proj.weight"},
    {TensorNames::kLlama, TensorRole::kDown, "mlp.down_proj.weight"},
    {TensorNames::kLlama, TensorRole::kQBias, "self_attn.q_proj.bias"},
    {TensorNames::kLlama, TensorRole::kKBias, "self_attn.k_proj.bias"},
    {TensorNames::kLlama, TensorRole::kVBias, "self_attn.v_proj.bias"},
    {TensorNames::kLlama, TensorRole::kOBias, "self_attn.o_proj.bias"},
    {TensorNames::kLlama, TensorRole::kGateBias, "mlp.gate_proj.bias"},
    {TensorNames::kLlama, TensorRole::kUpBias, "mlp.up_proj.bias"},
    {TensorNames::kLlama, TensorRole::kDownBias, "mlp.down_proj.bias"},
    {TensorNames::kLlama, TensorRole::kQNorm, "self_attn.q_norm.weight"},
    {TensorNames::kLlama, TensorRole::kKNorm, "self_attn.k_norm.weight"},
};

const RoleName& find_name(TensorNames names, TensorRole role) {
  const RoleName* found = nullptr;
  for (const RoleName& row : kRoleNames) {
    const bool fits = row.names == names || row.names == TensorNames::kLlama;
    if (fits && row.role == role && found == nullptr) found = &row;
  }
  return *found;
}

// Every tensor of a layer has a name.
consteval bool all_are_named() {
  for (const TensorRoleRow& role : kTensorRoles) {
    size_t n = role.place == TensorPlace::kInLayers ? 0 : 1;
    for (const RoleName& row : kRoleNames) {
      n += row.names == TensorNames::kLlama && row.role == role.role;
    }
    if (n != 1) return false;
  }
  return true;
}
static_assert(all_are_named());

uint64_t rows_of(const format::ModelConfig& model, TensorRole role) {
  const TensorRoleRow& row = role_row(role);
  return extent(row.matrix == kNoMatrix ? row.cols : row.rows, model);
}

}  // namespace

std::string without_wrappers(std::string name) {
  constexpr std::string_view kAnywhere[] = {"_orig_mod.", "_fsdp_wrapped_module.",
                                            "_checkpoint_wrapped_module."};
  constexpr std::string_view kInFront = "module.";
  for (const std::string_view part : kAnywhere) {
    for (size_t at = name.find(part); at != std::string::npos; at = name.find(part, at)) {
      if (at == 0 || name[at - 1] == '.') {
        name.erase(at, part.size());
      } else {
        ++at;
      }
    }
  }
  while (name.starts_with(kInFront)) name.erase(0, kInFront.size());
  return name;
}

TensorPart checkpoint_part(const format::ModelConfig& model, const TensorSpec& spec) {
  const uint64_t own = rows_of(model, spec.role);
  if (spec.role == TensorRole::kEmbedding) return {kEmbeddingName, 0, own};
  if (spec.role == TensorRole::kLmHead) return {kLmHeadName, 0, own};
  if (spec.role == TensorRole::kFinalNorm) return {"model.norm.weight", 0, own};
  const auto id = static_cast<format::Architecture>(model.architecture);
  const RoleName& found = find_name(architecture_row(id).names, spec.role);
  TensorPart part = {"model.layers." + std::to_string(spec.layer) + "." + std::string(found.name),
                     0, 0};
  for (const RoleName& row : kRoleNames) {
    if (row.names != found.names || row.name != found.name) continue;
    if (row.role == spec.role) part.first_row = part.n_rows;
    part.n_rows += rows_of(model, row.role);
  }
  return part;
}

}  // namespace cria::converter
