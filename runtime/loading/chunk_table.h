// The chunk table: where each chunk belongs follows from the config, where it lies in the file is
// checked here.
#pragma once

#include <cstdint>

#include "quant/tensor_check.h"
#include "runtime/loading/file_index.h"

namespace cria {

// One chunk and where it belongs.
struct ChunkPlace {
  uint32_t number;         // place in the chunk table
  uint32_t tensor;         // place in the canonical order
  uint64_t tensor_offset;  // bytes from the start of the tensor's raw bytes
  uint32_t raw_bytes;
  PlaneValues values;  // what its bytes may hold
};

// Walks the chunks of the config's tensors in file order.
class ChunkWalk {
 public:
  // Starts at chunk first < FileIndex::n_chunks. config outlives the walk.
  ChunkWalk(const format::ModelConfig& config, uint32_t first);
  // The current chunk; valid until the last one is passed.
  [[nodiscard]] ChunkPlace place() const;
  void advance();

 private:
  void enter_tensor(uint32_t tensor);

  const format::ModelConfig* config_;
  uint32_t n_tensors_;
  uint32_t number_;
  uint32_t tensor_ = 0;
  TensorSpec spec_ = {};
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

// Bytes from a chunk's end to the next chunk, 0..63; none behind the last.
[[nodiscard]] uint32_t gap_behind(const FileIndex& index, uint32_t number, uint32_t stored_bytes);

}  // namespace cria
