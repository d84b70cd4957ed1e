#include "converter/chunk_encoder.h"

#include <zstd.h>
#include <zstd_errors.h>

#include <new>
#include <stdexcept>

#include "quant/bytes_apart.h"
#include "quant/checksum.h"

namespace cria::converter {
namespace {

// Levels above only search longer for repetitions, which weights do not have.
constexpr int kHighestLevel = 19;

// The largest size at which a chunk is compressed.
size_t most_bytes(size_t raw_bytes, LeastSaving least) {
  constexpr size_t kPart = 8;
  return raw_bytes - (least == LeastSaving::kEighth ? (raw_bytes + kPart - 1) / kPart : 1);
}

void check(size_t result) {
  if (ZSTD_isError(result) == 0) return;
  if (ZSTD_getErrorCode(result) == ZSTD_error_memory_allocation) throw std::bad_alloc();
  throw std::runtime_error(ZSTD_getErrorName(result));
}

}  // namespace

void ChunkEncoder::ContextDeleter::operator()(ZSTD_CCtx_s* context) const {
  ZSTD_freeCCtx(context);
}

ChunkEncoder::ChunkEncoder(format::Compression compression, int level, LeastSaving least_saving)
    : least_saving_(least_saving) {
  if (compression == format::Compression::kStored) return;
  context_.reset(ZSTD_createCCtx());
  if (!context_) throw std::bad_alloc();
  check(ZSTD_CCtx_setParameter(context_.get(), ZSTD_c_compressionLevel, level));
}

ChunkEncoder::~ChunkEncoder() = default;
ChunkEncoder::ChunkEncoder(ChunkEncoder&& other) noexcept = default;

void ChunkEncoder::encode(std::span<const uint8_t> raw, PlaneValues values, EncodedChunk* chunk) {
  chunk->raw_bytes = static_cast<uint32_t>(raw.size());
  chunk->compression = format::Compression::kStored;
  chunk->stored = raw;
  if (context_) {
    const uint8_t* input = raw.data();
    const bool is_apart = has_two_byte_values(values);
    if (is_apart) {
      apart_.resize(raw.size());
      take_bytes_apart(raw.data(), raw.size(), apart_.data());
      input = apart_.data();
    }
    const size_t bound = ZSTD_compressBound(raw.size());
    if (chunk->storage.size() < bound) chunk->storage.resize(bound);
    const size_t n_bytes = ZSTD_compress2(context_.get(), chunk->storage.data(),
                                          chunk->storage.size(), input, raw.size());
    check(n_bytes);
    if (n_bytes <= most_bytes(raw.size(), least_saving_) &&
        n_bytes * format::kMaxExpansion >= raw.size()) {
      chunk->compression = is_apart ? format::Compression::kZstdApart : format::Compression::kZstd;
      chunk->stored = {chunk->storage.data(), n_bytes};
    }
  }
  chunk->checksum = xxh64(chunk->stored.data(), chunk->stored.size());
}

int lowest_level() { return 1; }
int highest_level() { return kHighestLevel; }

}  // namespace cria::converter
