// What tensors are called in files, by their roles, and which of them are stored as one.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "converter/architecture_table.h"
#include "quant/model_layout.h"

namespace cria::converter {

inline constexpr const char* kEmbeddingName = "model.embed_tokens.weight";
inline constexpr const char* kLmHeadName = "lm_head.weight";

// A bias that has no row is called as its matrix, ".bias" in place of ".weight".
struct RoleName {
  TensorNames names;  // kLlama: where an architecture has no name of its own
  format::TensorRole role;
  std::string_view name;  // in a layer, behind its number
};

// The names of one kind of files. Roles with one name are its rows, in the order of the table.
struct RoleNames {
  std::string_view layers;  // what a layer's tensors begin with, before its number
  std::span<const RoleName> rows;
};

// Those of Hugging Face, which all checkpoints' tensors get.
extern const RoleNames kHuggingFaceNames;

// A role where it stands in files.
struct NamedRole {
  format::TensorRole role;
  std::string_view layer;  // its number, as it is written; empty: outside the layers
};
// Nothing: no role is called so.
[[nodiscard]] std::optional<NamedRole> find_role(const RoleNames& names, TensorNames own,
                                                 std::string_view name);
// Empty: these files have no name for it.
[[nodiscard]] std::string role_name_in(const RoleNames& names, TensorNames own,
                                       const NamedRole& role);

// The role that a role's values are added to; itself where it is no bias.
[[nodiscard]] format::TensorRole without_bias(format::TensorRole role);

// name without what wrappers of a module put into it as they save it: those of torch.compile, of
// data parallel training and of its sharded kind.
[[nodiscard]] std::string without_wrappers(std::string name);

// Where a tensor stands: rows [first_row, first_row + its own) of n_rows that the name has. A
// tensor by itself is all of them.
struct TensorPart {
  std::string name;
  uint64_t first_row;
  uint64_t n_rows;
};

// Of a matrix, rows are its output rows; of a vector, its values. Not of kRope, which no checkpoint
// needs to store.
[[nodiscard]] TensorPart checkpoint_part(const Config& config, const TensorSpec& spec);

}  // namespace cria::converter
