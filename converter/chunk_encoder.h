// One chunk of a model file: raw bytes in, stored bytes out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "quant/format/format.h"
#include "quant/model/tensor_check.h"

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
  // chunk that is_stored, or that compression does not make smaller, stays as it is. The result
  // depends on what is given here and to the constructor only.
  void encode(std::span<const uint8_t> raw, PlaneValues values, bool is_stored,
              EncodedChunk* chunk);

 private:
  struct ContextDeleter {
    void operator()(ZSTD_CCtx_s* context) const;
  };
  struct Input {
    std::span<const uint8_t> first;  // in blocks of their own, as the rest is unlike; may be empty
    std::span<const uint8_t> rest;
    bool is_searched;  // for repetitions; else there are only codes of single bytes
  };
  // Makes the chunk one frame, if that takes no more bytes than this.
  void encode_as_frame(const Input& input, format::Compression compression, size_t most_bytes,
                       EncodedChunk* chunk);
  void encode_parts(std::span<const uint8_t> raw, PlaneValues values, size_t n_upper,
                    EncodedChunk* chunk);
  // Makes a frame at this byte of out, which grows where it has to; returns the frame's size.
  size_t compress(const Input& input, std::vector<uint8_t>* out, size_t at);

  std::unique_ptr<ZSTD_CCtx_s, ContextDeleter> context_;  // null: nothing is compressed
  std::vector<uint8_t> upper_;
  std::vector<uint8_t> frame_;
};

// The levels zstd offers here, for checking a command line.
[[nodiscard]] int lowest_level();
[[nodiscard]] int highest_level();

}  // namespace cria::converter
