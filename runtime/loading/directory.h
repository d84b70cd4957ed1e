// The tensor directory: which matrix has which of the formats that the config counts.
#pragma once

#include <cstdint>

#include "quant/model/model_layout.h"
#include "runtime/loading/file_index.h"

namespace cria {

// Checks the whole directory: its checksum (kCorrupt), then that it lists the config's tensors in
// their order, with as many matrices of each format as the config counts, and that their chunks
// follow each other (kInvalidModel).
[[nodiscard]] Status check_directory(const cria_source& source, const FileIndex& index);

// A tensor as the directory has it.
struct ListedTensor {
  TensorSpec spec;
  uint32_t first_chunk;
};

// Reads the entry of a tensor that is about to be used. The source may have changed since the
// directory was checked: that the entry is possible, taken alone, is checked again (kCorrupt).
[[nodiscard]] Status read_listed_tensor(const cria_source& source, const FileIndex& index,
                                        uint32_t tensor, ListedTensor* listed);

// The tensor that chunk number belongs to; of a directory that has changed, any.
[[nodiscard]] Status find_tensor_of_chunk(const cria_source& source, const FileIndex& index,
                                          uint32_t number, uint32_t* tensor);

}  // namespace cria
