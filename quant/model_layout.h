// What follows from a ModelConfig: the list of its tensors in file order, their shapes, bytes and
// chunks. Writer and reader both walk this list, so a file whose directory says anything else is
// refused.
//
// Canonical order: that of quant/tensor_roles.h, the layers one behind the other.
#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/format.h"
#include "quant/tile16.h"

namespace cria {

// Why a ModelConfig is refused; nullptr when every field is within the format's limits, so that
// all the functions below may be called. The text names the field.
[[nodiscard]] const char* check_config(const format::ModelConfig& config);

struct TensorSpec {
  format::TensorRole role;
  uint32_t layer;  // format::kNone outside the layers
  bool is_matrix;  // false: an f32 vector, rows == 1, plain order
  MatrixShape shape;
};

[[nodiscard]] uint32_t tensor_count(const format::ModelConfig& config);
// The tensor at place index (< tensor_count) of the canonical order.
[[nodiscard]] TensorSpec tensor_spec(const format::ModelConfig& config, uint32_t index);

// Bytes of the planes; scales are zero for floats and vectors.
[[nodiscard]] uint64_t tensor_code_bytes(const TensorSpec& spec);
[[nodiscard]] uint64_t tensor_scale_bytes(const TensorSpec& spec);
[[nodiscard]] uint64_t tensor_bytes(const TensorSpec& spec);
// Chunks that the planes are cut into: each plane apart, kChunkRawBytes a piece.
[[nodiscard]] uint32_t tensor_chunk_count(const TensorSpec& spec);
[[nodiscard]] uint64_t chunk_count(const format::ModelConfig& config);
// Number of the first chunk of the tensor at place index: the chunks of the tensors before it.
[[nodiscard]] uint64_t first_chunk_of(const format::ModelConfig& config, uint32_t index);

// Which tensors a session keeps in the file's layout.
enum class KeptTensors { kAll, kVectorsAndEmbedding };
[[nodiscard]] bool is_kept(const TensorSpec& spec, KeptTensors kept);
// Bytes of the kept tensors before place index (<= tensor_count), each rounded up to 64: where that
// tensor lies behind them in memory, or, all kept and nothing compressed, in the data section. The
// cost does not depend on the number of layers, because all layers are alike.
[[nodiscard]] uint64_t tensor_offset(const format::ModelConfig& config, uint32_t index,
                                     KeptTensors kept);

// Bytes of all tensors, each rounded up to 64: what the weights take in memory.
[[nodiscard]] uint64_t all_tensor_bytes(const format::ModelConfig& config);
// Bytes of the data section when no chunk is compressed: all tensors, the last one not rounded up.
// A compressed one is smaller.
[[nodiscard]] uint64_t uncompressed_data_bytes(const format::ModelConfig& config);

// The shape of a role's tensors.
[[nodiscard]] MatrixShape role_shape(const format::ModelConfig& config, format::TensorRole role);
// For people: "layers.3.q" or "embedding". Writes at most capacity bytes with the final zero.
void tensor_name(const TensorSpec& spec, char* out, size_t capacity);

}  // namespace cria
