// What GGUF files call architectures and tensors, and what Hugging Face's do.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "converter/architecture_table.h"
#include "converter/json_input.h"
#include "converter/tensor_names.h"

namespace cria::converter {

struct GgufArchitecture {
  const char* name;  // general.architecture, and the beginning of its keys
  format::Architecture id;
  // Whether rows of q and k are stored as pairs that rotate together, one beside the other; else
  // the two are half a head apart, as in Hugging Face files.
  bool pairs_rows;
  // Whether it is that one of those that are called so; nullptr: the last of them.
  bool (*fits)(const JsonObject& metadata) = nullptr;
  StoredForm form = {};

  [[nodiscard]] const ArchitectureRow& row() const { return architecture_row(id); }
  // Whose names its tensors have.
  [[nodiscard]] TensorNames names() const { return form.names.value_or(row().names); }
};

// Of general.architecture. Throws ProgramError that names those that are read.
[[nodiscard]] const GgufArchitecture& find_gguf_architecture(const JsonObject& metadata);

// Tensors that say something of the config, too, by being there.
inline constexpr std::string_view kGgufEmbedding = "token_embd.weight";
inline constexpr std::string_view kGgufOutput = "output.weight";
inline constexpr std::string_view kGgufQueryBias = "blk.0.attn_q.bias";
inline constexpr std::string_view kGgufUpBias = "blk.0.ffn_up.bias";

// Frequency factors, which are no weights: what divides a frequency of the rotary embedding.
inline constexpr std::string_view kGgufRopeFactors = "rope_freqs.weight";
inline constexpr std::string_view kGgufLongFactors = "rope_factors_long.weight";
inline constexpr std::string_view kGgufShortFactors = "rope_factors_short.weight";

// The role of a tensor; nothing: it has none.
[[nodiscard]] std::optional<NamedRole> gguf_role(const GgufArchitecture& architecture,
                                                 std::string_view name);

// What Hugging Face calls a tensor, a stack with '*' for a matrix's number; the file's own name
// where it has no role.
[[nodiscard]] std::string hugging_face_name(const GgufArchitecture& architecture,
                                            std::string_view name);

// The other way: what a file of the architecture calls a tensor; name itself where there is none.
[[nodiscard]] std::string gguf_name(const GgufArchitecture& architecture, std::string_view name);

}  // namespace cria::converter
