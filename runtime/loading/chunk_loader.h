// Brings chunks from the source into memory: read, check, decompress.
#pragma once

#include <cstdint>

#include "quant/model/memory_plan.h"
#include "runtime/loading/chunk_table.h"

struct ZSTD_DCtx_s;

namespace cria {

// What one thread needs to load compressed chunks; both parts 64-byte aligned.
struct ChunkScratch {
  uint8_t* decompressor;  // kDecompressorBytes (quant/model/memory_plan.h)
  uint8_t* staging;       // kStagingBytes
  // zstd's, in decompressor, from the first compressed chunk on: to make one it asks the CPU what
  // it can do, which takes 10 us a time in a virtual machine.
  ZSTD_DCtx_s* context = nullptr;
};

// That of one task, of memory [n_tasks][kChunkScratchBytes].
[[nodiscard]] inline ChunkScratch chunk_scratch(uint8_t* memory, size_t task) {
  uint8_t* of_task = memory + task * static_cast<size_t>(kChunkScratchBytes);
  return {of_task, of_task + kDecompressorBytes};
}

// Loads a chunk to destination, which has room for raw_bytes rounded up to 64: reads it and checks
// its checksum and the gap after it (kCorrupt), then decompresses it and checks its values
// (kInvalidModel when it is not one zstd frame of raw_bytes, or a value is not allowed). scratch is
// not used by stored chunks.
[[nodiscard]] Status load_chunk(const cria_source& source, const FileIndex& index,
                                const ChunkPlace& place, ChunkScratch* scratch,
                                uint8_t* destination);

// Checks a stored chunk where it is used. bytes is the mapped chunk; the gap after it is mapped
// too.
[[nodiscard]] Status check_chunk_in_place(const cria_source& source, const FileIndex& index,
                                          const ChunkPlace& place, const uint8_t* bytes);

// Reads consecutive ranges of one plane of one tensor, decompressing each chunk once. For backends
// that repack weights.
class PlaneReader {
 public:
  // raw [kChunkRawBytes, or the plane's bytes rounded up to 64 where they are fewer] holds the
  // chunk at hand. tensor has this shape; scales of one that has none may be constructed but not
  // read.
  PlaneReader(const cria_source& source, const FileIndex& index, uint32_t tensor,
              const MatrixShape& shape, Plane plane, const ChunkScratch& scratch, uint8_t* raw);
  // Copies the next n_bytes of the plane to destination.
  [[nodiscard]] Status read(uint8_t* destination, uint64_t n_bytes);

 private:
  const cria_source* source_;
  const FileIndex* index_;
  uint32_t tensor_;
  MatrixShape shape_;
  Plane plane_;
  ChunkScratch scratch_;
  uint8_t* raw_;
  ChunkWalk walk_;
  bool has_begun_ = false;
  uint64_t bytes_left_ = 0;  // of the plane in chunks not read yet
  uint32_t raw_bytes_ = 0;   // of the chunk at hand
  uint32_t raw_used_ = 0;
};

}  // namespace cria
