// What tensors are called in files, by their roles, and which of them are stored as one.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "converter/architecture_table.h"
#include "quant/model/model_layout.h"

namespace cria::converter {

inline constexpr const char* kEmbeddingName = "model.embed_tokens.weight";
inline constexpr const char* kLmHeadName = "lm_head.weight";

// How a role's tensor is taken from what is called so. What several roles of one name take lies
// side by side there, in the order of the table.
enum class Take : uint8_t {
  kRows,         // rows of a matrix or, where the name has a number, of each of a stack; values
  kColumns,      // of a matrix that lies transposed: [cols][rows]
  kSlices,       // of a stack that is one tensor: [n_matrices][rows][cols]
  kHeads,        // of a stack that is one matrix: [n_matrices * rows][cols]
  kTurnedHeads,  // the same, each matrix transposed
  kWithBias,     // the weights of a norm, then those called as their bias
  kFlat,         // the values of a matrix as wide as the model
  kOfHeads,      // rows of a matrix in which those of each key or query head lie together
  kTaps,         // of a convolution: [channels][1][taps] or [channels][taps], by taps
  kDecay,        // values that -exp is taken of
  kOfLayers,     // of a table, whose row has the rows of all layers side by side
  kOnes,         // nothing: a norm without weights
  kByRoot,       // values over the root of how many they are
};

// A bias that has no row is called as its matrix, ".bias" in place of ".weight", and has its order.
struct RoleName {
  TensorNames names;  // kLlama: where an architecture has no name of its own
  format::TensorRole role;
  std::string_view name;  // in a layer, after its number; '*': the number of a stack's matrix
  Take take = Take::kRows;
  // The layers that it is of; nullptr: all that have no row of their own.
  bool (*of)(const format::LayerKind&) = nullptr;
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
  bool (*of)(const format::LayerKind&) = nullptr;  // of its row
};
// Nothing: no role is called so.
[[nodiscard]] std::optional<NamedRole> find_role(const RoleNames& names, TensorNames own,
                                                 std::string_view name);
// Empty: these files have no name for it.
[[nodiscard]] std::string role_name_in(const RoleNames& names, TensorNames own,
                                       const NamedRole& role);

// In names, for the number of a stack's matrix.
inline constexpr char kMatrixNumber = '*';

// The layers that have experts, those that compress queries, and those of a mixer, for
// RoleName::of.
[[nodiscard]] bool has_experts(const format::LayerKind& kind);
[[nodiscard]] bool has_query_rank(const format::LayerKind& kind);
[[nodiscard]] bool is_delta_rule(const format::LayerKind& kind);
[[nodiscard]] bool is_convolution(const format::LayerKind& kind);
[[nodiscard]] bool is_state_space(const format::LayerKind& kind);

// What the bias of "q.weight" is called: "q.bias".
[[nodiscard]] std::string bias_name(std::string_view weight);

// The role that a role's values are added to; itself where it is no bias.
[[nodiscard]] format::TensorRole without_bias(format::TensorRole role);

// name without what wrappers of a module put into it as they save it: those of torch.compile, of
// data parallel training and of its sharded kind.
[[nodiscard]] std::string without_wrappers(std::string name);

// How a checkpoint's tensors lie, as far as its config and its kind of file say and the table of
// names does not.
struct StoredForm {
  std::optional<TensorNames> names = {};  // that they have; nothing: those of their architecture
  bool has_rows = false;         // matrices lie by rows, also those whose columns are taken
  bool has_pairs = false;        // rows of q and k that rotate together are one beside the other
  bool norms_add_one = false;    // norms lie as what is added to one
  bool has_whole_norms = false;  // they have been added to it, whatever the architecture does
  bool has_decays = false;       // -exp has been taken of decays
  // Value heads of the delta rule lie so that those of a key head are as many apart as it has key
  // heads; else they follow each other.
  bool has_tiled_values = false;
  uint32_t n_extra_layers = 0;  // after the last one, for other tokens than the next: not read
};

// Where a tensor stands: in the order of the file, which is the first's that has several.
struct Recipe {
  std::vector<std::string> names;  // one a matrix of a stack; weights and biases; else one
  Take take;
  uint64_t first;  // of what all roles of the name take, what this one does: rows, or values
  uint64_t all;
};

// Not of kRope, which no checkpoint needs to store.
[[nodiscard]] Recipe recipe_of(const Config& config, const TensorSpec& spec,
                               const StoredForm& form = {});

}  // namespace cria::converter
