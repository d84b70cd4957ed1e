// The chunk table: where each chunk belongs follows from the directory, where it lies in the file
// is checked here.
#pragma once

#include <cstdint>

#include "quant/model/tensor_check.h"
#include "runtime/loading/directory.h"
#include "runtime/loading/file_index.h"

namespace cria {

// One chunk and where it belongs.
struct ChunkPlace {
  uint32_t number;         // place in the chunk table
  uint32_t tensor;         // place in the canonical order
  uint64_t tensor_offset;  // bytes from the start of the tensor's raw bytes
  uint32_t raw_bytes;
  PlaneValues values;  // what its bytes may hold
  bool is_stored;      // it may not be compressed
};

// Walks chunks in file order, reading the directory as it goes: nothing is kept of it but the
// current tensor's entry, so that a walk needs no memory whatever the model. Source and index
// outlive the walk.
class ChunkWalk {
 public:
  ChunkWalk(const cria_source& source, const FileIndex& index)
      : source_(&source), index_(&index), n_tensors_(tensor_count(index.config)) {}
  // Goes to chunk number < FileIndex::n_chunks.
  [[nodiscard]] Status go_to(uint32_t number);
  // Goes to the first chunk of a plane of a tensor; kCorrupt where the directory does not say that
  // it has this shape.
  [[nodiscard]] Status go_to_plane(uint32_t tensor, const MatrixShape& shape, Plane plane);
  // To the next chunk; past the last one there is nothing to call but this class's go_to.
  [[nodiscard]] Status advance();
  // The current chunk, and the tensor that it is of.
  [[nodiscard]] ChunkPlace place() const;
  [[nodiscard]] const TensorSpec& spec() const { return listed_.spec; }

 private:
  [[nodiscard]] Status enter_tensor(uint32_t tensor);
  // Goes to chunk n_passed of the current tensor.
  void pass(uint32_t n_passed);

  const cria_source* source_;
  const FileIndex* index_;
  uint32_t n_tensors_;
  uint32_t number_ = 0;
  uint32_t tensor_ = 0;
  ListedTensor listed_ = {};
  uint64_t code_bytes_ = 0;  // of the current tensor
  uint64_t total_bytes_ = 0;
  uint64_t offset_ = 0;
};

// Checks the whole table in order, before any chunk is used: its checksum (kCorrupt), then that the
// chunks follow each other through the data section to its end, each with the sizes and codec that
// the config allows (kInvalidModel).
[[nodiscard]] Status check_chunk_table(const cria_source& source, const FileIndex& index);

// Reads the entry of a chunk that is about to be used. The source may have changed since the table
// was checked: that chunk and gap lie in the data section and fit their buffers is checked again
// (kCorrupt), whatever other entries say.
[[nodiscard]] Status read_chunk_entry(const cria_source& source, const FileIndex& index,
                                      const ChunkPlace& place, format::ChunkEntry* entry);

// Where a chunk lies, in bytes from the start of the data section; not checked.
[[nodiscard]] Status offset_of_chunk(const cria_source& source, const FileIndex& index,
                                     uint32_t number, uint64_t* offset);

// Bytes from a chunk's end to the next chunk, 0..63; none after the last.
[[nodiscard]] uint32_t gap_behind(const FileIndex& index, uint32_t number, uint32_t stored_bytes);

}  // namespace cria
