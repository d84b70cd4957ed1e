// Brings chunks from the source into memory: read, check, decompress.
#pragma once

#include <cstdint>
#include <span>

#include "runtime/file_index.h"

namespace cria {

// What one thread needs to load compressed chunks; both parts 64-byte aligned.
struct ChunkScratch {
  uint8_t* decompressor;  // kDecompressorBytes (quant/memory_plan.h)
  uint8_t* staging;       // kStagingBytes
};

// Loads chunk i to destination [raw_bytes]: reads it, checks its checksum, decompresses it. scratch
// is not used by stored chunks.
[[nodiscard]] Status load_chunk(const cria_source& source, const FileIndex& index, uint32_t i,
                                uint32_t raw_bytes, const ChunkScratch& scratch,
                                uint8_t* destination);

// Checks the checksum of stored chunk i in place. bytes is the mapped chunk.
[[nodiscard]] Status check_stored_chunk(const format::ChunkEntry& entry, const uint8_t* bytes);

// First chunk of a tensor of the canonical order.
[[nodiscard]] uint32_t first_chunk_of(const format::ModelConfig& config, uint32_t tensor);

// Reads consecutive ranges of one plane of one tensor, decompressing each chunk once. For backends
// that repack weights.
class PlaneReader {
 public:
  enum class Plane { kCodes, kScales };
  // raw [kChunkRawBytes] holds the chunk at hand.
  PlaneReader(const cria_source& source, const FileIndex& index, uint32_t tensor, Plane plane,
              const ChunkScratch& scratch, uint8_t* raw);
  // Copies the next n_bytes of the plane to destination.
  [[nodiscard]] Status read(uint8_t* destination, uint64_t n_bytes);

 private:
  const cria_source* source_;
  const FileIndex* index_;
  ChunkScratch scratch_;
  uint8_t* raw_;
  uint64_t plane_bytes_;
  uint32_t next_chunk_;
  uint64_t loaded_ = 0;     // bytes of the plane in chunks read so far
  uint32_t raw_bytes_ = 0;  // of the chunk at hand
  uint32_t raw_used_ = 0;
};

}  // namespace cria
