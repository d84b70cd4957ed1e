// One chunk of a model file: raw bytes in, stored bytes out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "quant/format.h"
#include "quant/tensor_check.h"

struct ZSTD_CCtx_s;

namespace cria::converter {

struct EncodedChunk {
  std::vector<uint8_t> storage;     // compressed bytes; may be larger than needed
  std::span<const uint8_t> stored;  // what the file holds: a part of storage, or the raw bytes
  uint32_t raw_bytes;
  format::Compression compression;
  uint64_t checksum;  // of stored
};

// Encodes chunks one after the other; threads use one each.
class ChunkEncoder {
 public:
  ChunkEncoder(format::Compression compression, int level);
  ~ChunkEncoder();
  ChunkEncoder(ChunkEncoder&& other) noexcept;
  ChunkEncoder& operator=(ChunkEncoder&&) = delete;
  ChunkEncoder(const ChunkEncoder&) = delete;
  ChunkEncoder& operator=(const ChunkEncoder&) = delete;

  // raw has 1..kChunkRawBytes bytes of a plane of such values and must outlive chunk->stored. A
  // chunk that compression does not make smaller, or makes smaller than the format allows, is
  // stored as it is. The result depends on raw, values and what the constructor was given only.
  void encode(std::span<const uint8_t> raw, PlaneValues values, EncodedChunk* chunk);

 private:
  struct ContextDeleter {
    void operator()(ZSTD_CCtx_s* context) const;
  };
  // Makes a frame, in which a block ends behind the first bytes; returns its size.
  size_t compress(std::span<const uint8_t> input, size_t first_bytes, std::vector<uint8_t>* frame);

  std::unique_ptr<ZSTD_CCtx_s, ContextDeleter> context_;  // null: nothing is compressed
  std::vector<uint8_t> apart_;
};

// The levels zstd offers here, for checking a command line.
[[nodiscard]] int lowest_level();
[[nodiscard]] int highest_level();

}  // namespace cria::converter
