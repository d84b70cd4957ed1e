// What follows from a Config: the list of its tensors in file order, their shapes, bytes and
// chunks. Which matrix has which of the formats that the config counts, the directory says;
// whatever else it says follows from here, for writer and reader alike.
//
// Canonical order: that of quant/blocks/block_formats.h, the layers one after the other.
#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/blocks/tensor_row.h"
#include "quant/model/model_config.h"
#include "quant/numbers/number_formats.h"
#include "quant/numbers/tile16.h"

namespace cria {

struct TensorSpec {
  format::TensorRole role;
  TensorForm form;
  uint8_t kind;            // of its layer; format::kNoKind outside the layers
  uint32_t layer;          // format::kNone outside the layers
  uint32_t n_matrices;     // of a stack, each of this shape and beginning at a tile; else 1
  MatrixShape shape;       // of a vector: one row in plain order
  bool has_signed_scales;  // scales that may be negative

  [[nodiscard]] bool is_matrix() const { return form != TensorForm::kVector; }
};

// Goes over a model's tensors in canonical order.
class TensorWalk {
 public:
  explicit TensorWalk(const Config& config) : config_(config) {}
  // The next tensor, a matrix in this format; false after the last.
  [[nodiscard]] bool next(MatrixFormat matrix_format, TensorSpec* spec);
  // Goes on at place index, at most tensor_count.
  void go_to(uint32_t index);

 private:
  Config config_;
  size_t part_ = 0;  // of all layers
  size_t row_ = 0;
};

[[nodiscard]] uint32_t tensor_count(const Config& config);
// The tensor at place index (< tensor_count) of the canonical order, a matrix in this format.
[[nodiscard]] TensorSpec tensor_spec(const Config& config, uint32_t index,
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
// Whether an entry may stand where the walk is: a matrix has one of the formats that the config
// counts for its role and kind, all else is what the config implies; first_chunk is taken as it is.
// Fills spec and goes on.
[[nodiscard]] bool read_entry(const Config& config, TensorWalk* walk,
                              const format::TensorEntry& entry, TensorSpec* spec);
// The place of a matrix among the config's counts; their number for what none counts.
[[nodiscard]] size_t count_of(const Config& config, const TensorSpec& spec);

// Tensors that are alike: of a role, a kind and a format. The spec's layer says nothing.
struct TensorKind {
  TensorSpec spec;
  uint32_t n;  // at least 1
};
// All of a model: sums over them do not depend on the number of layers.
class TensorKinds {
 public:
  explicit TensorKinds(const Config& config);
  // The next; false after the last.
  [[nodiscard]] bool next(TensorKind* kind);

 private:
  Config config_;
  uint32_t n_layers_[format::kMaxKinds] = {};  // of each kind
  size_t part_ = 0;                            // of all kinds
  size_t row_ = 0;
  size_t count_ = 0;  // of a matrix, the count to look at next
};

// The shape of a role's matrix outside the layers. A tied kLmHead is the embedding.
[[nodiscard]] MatrixShape model_matrix(const Config& config, format::TensorRole role);

// An input of so many columns, padded to the largest group: floats or int8 a row of activations may
// take; and the widest of any matrix.
[[nodiscard]] constexpr uint64_t padded_input(uint64_t cols) {
  return (cols + kLargestGroup - 1) / kLargestGroup * kLargestGroup;
}
[[nodiscard]] uint64_t widest_input(const Config& config);

[[nodiscard]] uint64_t chunk_count(const Config& config);

// Roles whose tensors are large and of which a token reads little. A compressed file may keep them
// stored, so that they stay where the file is mapped.
[[nodiscard]] bool stays_in_file(format::TensorRole role);
// Whether no chunk of a tensor is compressed, whatever the file's.
[[nodiscard]] bool is_stored(const Config& config, const TensorSpec& spec);
// Whether no chunk of the file is compressed.
[[nodiscard]] bool is_stored(const Config& config);

// Which tensors a session keeps in the file's layout.
enum class KeptTensors { kAll, kVectorsAndTables };
[[nodiscard]] bool is_kept(const TensorSpec& spec, KeptTensors kept);
// Bytes of tensors, each rounded up to 64: what they take in memory. Those that stay mapped, and
// the others.
struct TensorBytes {
  uint64_t in_memory;
  uint64_t in_place;
};
[[nodiscard]] TensorBytes kept_tensor_bytes(const Config& config, KeptTensors kept, bool mapped);
// Bytes of all tensors, each rounded up to 64.
[[nodiscard]] uint64_t all_tensor_bytes(const Config& config);
// Bytes of the data section when no chunk is compressed: all tensors, each rounded up to 64 but the
// last one. A compressed one is smaller.
[[nodiscard]] uint64_t uncompressed_data_bytes(const Config& config);

// Whether a role's tensor is the bias of the matrix that it follows.
[[nodiscard]] bool is_bias(format::TensorRole role);

}  // namespace cria
