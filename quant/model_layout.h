// What follows from a ModelConfig: the list of its tensors in file order, their shapes, bytes and
// chunks. Which matrix has which of the formats that the config counts, the directory says;
// whatever else it says follows from here, for writer and reader alike.
//
// Canonical order: that of quant/tensor_roles.h, the layers one behind the other.
#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/format.h"
#include "quant/number_formats.h"
#include "quant/tile16.h"

namespace cria {

// Why a ModelConfig is refused; nullptr when every field is within the format's limits, so that
// all the functions below may be called. The text names the field.
[[nodiscard]] const char* check_config(const format::ModelConfig& config);

// Whether a layer's queries and keys are turned by RoPE.
[[nodiscard]] bool has_rope(const format::ModelConfig& config, size_t layer);

struct TensorSpec {
  format::TensorRole role;
  uint32_t layer;  // format::kNone outside the layers
  bool is_matrix;  // false: an f32 vector, rows == 1, plain order
  MatrixShape shape;
  bool has_signed_scales;  // scales that may be negative
};

[[nodiscard]] bool is_layer_matrix(const TensorSpec& spec);

[[nodiscard]] uint32_t tensor_count(const format::ModelConfig& config);
// The tensor at place index (< tensor_count) of the canonical order, a matrix in this format.
// Vectors are f32.
[[nodiscard]] TensorSpec tensor_spec(const format::ModelConfig& config, uint32_t index,
                                     MatrixFormat matrix_format);

// Bytes of the planes; scales are zero for floats and vectors.
[[nodiscard]] uint64_t tensor_code_bytes(const TensorSpec& spec);
[[nodiscard]] uint64_t tensor_scale_bytes(const TensorSpec& spec);
[[nodiscard]] uint64_t tensor_bytes(const TensorSpec& spec);
// Chunks that the planes are cut into: each plane apart, kChunkRawBytes a piece.
[[nodiscard]] uint32_t tensor_chunk_count(const TensorSpec& spec);
[[nodiscard]] uint32_t chunks_of_bytes(uint64_t plane_bytes);

// What the directory says of a tensor.
[[nodiscard]] format::TensorEntry tensor_entry(const TensorSpec& spec, uint32_t first_chunk);
// Whether an entry may stand at place index: a matrix has one of the formats that the config counts
// for its role, all else is what the config implies; first_chunk is taken as it is. Fills spec.
[[nodiscard]] bool read_entry(const format::ModelConfig& config, uint32_t index,
                              const format::TensorEntry& entry, TensorSpec* spec);
// Adds a tensor to counts as those of ModelConfig::n_matrices.
void count_tensor(const TensorSpec& spec, format::MatrixCounts* counts);

// A role's tensors of one format. The spec's layer says nothing.
struct TensorKind {
  TensorSpec spec;
  uint32_t n;  // at least 1
};
// All kinds of a model, a few for each role: sums over them do not depend on the number of layers.
class TensorKinds {
 public:
  explicit TensorKinds(const format::ModelConfig& config) : config_(&config) {}
  // The next kind; false behind the last.
  [[nodiscard]] bool next(TensorKind* kind);

 private:
  const format::ModelConfig* config_;
  size_t role_ = 0;   // place in kTensorRoles
  size_t place_ = 0;  // in kMatrixFormats
};

// The shape of a role's matrix; where layers differ, of some. A tied kLmHead is the embedding.
[[nodiscard]] MatrixShape role_shape(const format::ModelConfig& config, format::TensorRole role);

[[nodiscard]] uint64_t chunk_count(const format::ModelConfig& config);

// Whether no chunk of the file is compressed: then weights can be used where they are mapped.
[[nodiscard]] inline bool is_stored(const format::ModelConfig& config) {
  return config.compression == static_cast<uint32_t>(format::Compression::kStored);
}

// Which tensors a session keeps in the file's layout.
enum class KeptTensors { kAll, kVectorsAndEmbedding };
[[nodiscard]] bool is_kept(const TensorSpec& spec, KeptTensors kept);
// Bytes of the kept tensors, each rounded up to 64: what they take in memory.
[[nodiscard]] uint64_t kept_tensor_bytes(const format::ModelConfig& config, KeptTensors kept);
[[nodiscard]] inline uint64_t all_tensor_bytes(const format::ModelConfig& config) {
  return kept_tensor_bytes(config, KeptTensors::kAll);
}
// Bytes of the data section when no chunk is compressed: all tensors, each rounded up to 64 but the
// last one. A compressed one is smaller.
[[nodiscard]] uint64_t uncompressed_data_bytes(const format::ModelConfig& config);

// For people: "layers.3.q" or "embedding". Writes at most capacity bytes with the final zero.
void tensor_name(const TensorSpec& spec, char* out, size_t capacity);

}  // namespace cria
