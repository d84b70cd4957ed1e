#include "converter/tensor_names.h"

#include <stdexcept>

#include "quant/blocks/block_formats.h"
#include "quant/role_names.h"

namespace cria::converter {
namespace {

using format::TensorRole;

// A name of an architecture's own comes before that of Llama.
constexpr RoleName kRows[] = {
    {TensorNames::kPhi3, TensorRole::kQ, "self_attn.qkv_proj.weight"},
    {TensorNames::kPhi3, TensorRole::kK, "self_attn.qkv_proj.weight"},
    {TensorNames::kPhi3, TensorRole::kV, "self_attn.qkv_proj.weight"},
    {TensorNames::kPhi3, TensorRole::kGate, "mlp.gate_up_proj.weight"},
    {TensorNames::kPhi3, TensorRole::kUp, "mlp.gate_up_proj.weight"},
    {TensorNames::kGraniteHybrid, TensorRole::kGate, "shared_mlp.input_linear.weight"},
    {TensorNames::kGraniteHybrid, TensorRole::kUp, "shared_mlp.input_linear.weight"},
    {TensorNames::kGraniteHybrid, TensorRole::kDown, "shared_mlp.output_linear.weight"},

    {TensorNames::kLlama, TensorRole::kEmbedding, kEmbeddingName},
    {TensorNames::kLlama, TensorRole::kMixerNorm, "input_layernorm.weight"},
    {TensorNames::kLlama, TensorRole::kQ, "self_attn.q_proj.weight"},
    {TensorNames::kLlama, TensorRole::kK, "self_attn.k_proj.weight"},
    {TensorNames::kLlama, TensorRole::kV, "self_attn.v_proj.weight"},
    {TensorNames::kLlama, TensorRole::kQNorm, "self_attn.q_norm.weight"},
    {TensorNames::kLlama, TensorRole::kKNorm, "self_attn.k_norm.weight"},
    {TensorNames::kLlama, TensorRole::kO, "self_attn.o_proj.weight"},
    {TensorNames::kLlama, TensorRole::kFfnNorm, "post_attention_layernorm.weight"},
    {TensorNames::kLlama, TensorRole::kGate, "mlp.gate_proj.weight"},
    {TensorNames::kLlama, TensorRole::kUp, "mlp.up_proj.weight"},
    {TensorNames::kLlama, TensorRole::kDown, "mlp.down_proj.weight"},
    {TensorNames::kLlama, TensorRole::kFinalNorm, "model.norm.weight"},
    {TensorNames::kLlama, TensorRole::kLmHead, kLmHeadName},
};

constexpr std::string_view kWeight = ".weight";
constexpr std::string_view kBias = ".bias";

// The row that names a role or, where a bias has none, its matrix; nullptr: none does.
const RoleName* find_row(const RoleNames& names, TensorNames own, TensorRole role) {
  const RoleName* found = nullptr;
  for (const RoleName& row : names.rows) {
    if (row.role != role) continue;
    if (row.names == own) return &row;
    if (row.names == TensorNames::kLlama) found = &row;
  }
  const TensorRole matrix = without_bias(role);
  return found != nullptr || matrix == role ? found : find_row(names, own, matrix);
}

constexpr auto kNoRole = static_cast<TensorRole>(format::kTensorRoles);

// The role that people call so; kNoRole: none.
TensorRole role_called(std::string_view name) {
  for (size_t i = 0; i < format::kTensorRoles; ++i) {
    if (name == role_name(static_cast<TensorRole>(i))) return static_cast<TensorRole>(i);
  }
  return kNoRole;
}

// The first role of this name; kNoRole: none.
TensorRole role_named(const RoleNames& names, TensorNames own, std::string_view name) {
  for (const RoleName& row : names.rows) {
    if (row.name == name && find_row(names, own, row.role) == &row) return row.role;
  }
  return kNoRole;
}

// Rows of a role's tensor in layers of a kind.
uint64_t rows_of(const Config& config, uint8_t kind, TensorRole role) {
  const format::LayerKind& k = config.kinds[kind];
  for (size_t part = 0; part < kLayerParts; ++part) {
    for (const TensorRow& row : layer_part(k, part)) {
      if (row.role != role || row.n_matrices(*config.model, k) == 0) continue;
      return (row.form == TensorForm::kVector ? row.cols : row.rows)(*config.model, k);
    }
  }
  return 0;
}

}  // namespace

const RoleNames kHuggingFaceNames = {"model.layers.", kRows};

TensorRole without_bias(TensorRole role) {
  std::string_view name = role_name(role);
  if (!name.ends_with(kBias)) return role;
  name.remove_suffix(kBias.size());
  return role_called(name);
}

std::optional<NamedRole> find_role(const RoleNames& names, TensorNames own, std::string_view name) {
  NamedRole found = {};
  if (name.starts_with(names.layers)) {
    name.remove_prefix(names.layers.size());
    found.layer = name.substr(0, name.find('.'));
    name.remove_prefix(found.layer.size());
    if (name.empty() || found.layer.empty()) return std::nullopt;
    name.remove_prefix(1);
  }
  found.role = role_named(names, own, name);
  if (found.role == kNoRole && name.ends_with(kBias)) {
    name.remove_suffix(kBias.size());
    const TensorRole matrix = role_named(names, own, std::string(name).append(kWeight));
    if (matrix != kNoRole) found.role = role_called(std::string(role_name(matrix)).append(kBias));
  }
  return found.role == kNoRole ? std::nullopt : std::optional(found);
}

std::string role_name_in(const RoleNames& names, TensorNames own, const NamedRole& role) {
  const RoleName* const row = find_row(names, own, role.role);
  if (row == nullptr) return "";
  std::string name(row->name);
  if (row->role != role.role) name.replace(name.rfind(kWeight), kWeight.size(), kBias);
  if (role.layer.empty()) return name;
  return std::string(names.layers).append(role.layer).append(".").append(name);
}

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

TensorPart checkpoint_part(const Config& config, const TensorSpec& spec) {
  const auto id = static_cast<format::Architecture>(config.model->architecture);
  const TensorNames own = architecture_row(id).names;
  const bool is_in_layer = spec.layer != format::kNone;
  const std::string layer = is_in_layer ? std::to_string(spec.layer) : "";
  TensorPart part = {role_name_in(kHuggingFaceNames, own, {spec.role, layer}), 0, 0};
  const RoleName* const found = find_row(kHuggingFaceNames, own, spec.role);
  if (found == nullptr) throw std::logic_error("a role without a name");
  for (const RoleName& row : kRows) {
    if (row.names != found->names || row.name != found->name) continue;
    if (row.role == found->role) part.first_row = part.n_rows;
    part.n_rows += is_in_layer        ? rows_of(config, spec.kind, row.role)
                   : spec.is_matrix() ? spec.shape.rows
                                      : spec.shape.cols;
  }
  return part;
}

}  // namespace cria::converter
