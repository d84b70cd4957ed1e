// Tensors that are parts of a checkpoint's, or several of them, or these in another order. Each
// reads on demand what it is asked for; what it is made of and does not own has to outlive it.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "converter/source_tensor.h"

namespace cria::converter {

// Which rows a tensor of equal groups of rows gives, and in which order.
struct RowGroups {
  uint64_t n_stored;  // rows of a group in the tensor; divides its rows
  uint64_t first;     // of each group, rows [first, first + n)
  uint64_t n;
  // So many last ones of the n stand there as pairs that rotate together, one beside the other: in
  // the order of the file the two are half of them apart. Even.
  uint64_t n_paired;
};

// Rows of a matrix, or values of a vector, after each other: {all, first, n, 0} is a range.
[[nodiscard]] std::unique_ptr<SourceTensor> pick_rows(const SourceTensor& whole,
                                                      const RowGroups& groups);
[[nodiscard]] std::unique_ptr<SourceTensor> pick_rows(std::unique_ptr<SourceTensor> whole,
                                                      const RowGroups& groups);

// All rows of heads that stand as pairs, or the values of their bias, in halves. head_dim divides
// the rows.
[[nodiscard]] inline std::unique_ptr<SourceTensor> without_pairs(
    std::unique_ptr<SourceTensor> tensor, uint32_t head_dim) {
  return pick_rows(std::move(tensor), {head_dim, 0, head_dim, head_dim});
}

// Columns [first, first + n) of each group of rows as rows, one group after the other.
//   n_rows  of a group; divides those of whole
[[nodiscard]] std::unique_ptr<SourceTensor> turn_columns(const SourceTensor& whole, uint64_t n_rows,
                                                         uint64_t first, uint64_t n);

// The rows of all parts, which have one shape and can be read: of vectors their values.
[[nodiscard]] std::unique_ptr<SourceTensor> join_rows(std::vector<const SourceTensor*> parts);

// Rows of a matrix, or values of a vector, range by range.
struct RowRange {
  uint64_t first;
  uint64_t n;
};
[[nodiscard]] std::unique_ptr<SourceTensor> reorder_rows(const SourceTensor& whole,
                                                         std::vector<RowRange> ranges);

// The same of columns; together they are all of them, each once.
[[nodiscard]] std::unique_ptr<SourceTensor> reorder_columns(const SourceTensor& whole,
                                                            std::vector<RowRange> ranges);

// -exp of the values of a vector.
[[nodiscard]] std::unique_ptr<SourceTensor> negative_exp(const SourceTensor& whole);

// The values of a vector, each with one added.
[[nodiscard]] std::unique_ptr<SourceTensor> add_one(const SourceTensor& whole);

// The values of a vector, each over the root of how many there are.
[[nodiscard]] std::unique_ptr<SourceTensor> over_root(const SourceTensor& whole);

// A vector of ones.
[[nodiscard]] std::unique_ptr<SourceTensor> ones(uint64_t n);

// Each row of a matrix as so many. n divides its columns.
[[nodiscard]] std::unique_ptr<SourceTensor> split_rows(const SourceTensor& whole, uint64_t n);

// All values of a matrix as one vector.
[[nodiscard]] std::unique_ptr<SourceTensor> flatten(const SourceTensor& whole);

}  // namespace cria::converter
