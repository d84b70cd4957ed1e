#include "converter/chunk_encoder.h"

#include <zstd.h>
#include <zstd_errors.h>

#include <new>
#include <stdexcept>

#include "quant/checksum.h"
#include "quant/value_halves.h"

namespace cria::converter {
namespace {

// Levels above only search longer for repetitions, which weights do not have.
constexpr int kHighestLevel = 19;

void check(size_t result) {
  if (ZSTD_isError(result) == 0) return;
  if (ZSTD_getErrorCode(result) == ZSTD_error_memory_allocation) throw std::bad_alloc();
  throw std::runtime_error(ZSTD_getErrorName(result));
}

}  // namespace

void ChunkEncoder::ContextDeleter::operator()(ZSTD_CCtx_s* context) const {
  ZSTD_freeCCtx(context);
}

ChunkEncoder::ChunkEncoder(format::Compression compression, int level) {
  if (compression == format::Compression::kStored) return;
  context_.reset(ZSTD_createCCtx());
  if (!context_) throw std::bad_alloc();
  check(ZSTD_CCtx_setParameter(context_.get(), ZSTD_c_compressionLevel, level));
}

ChunkEncoder::~ChunkEncoder() = default;
ChunkEncoder::ChunkEncoder(ChunkEncoder&& other) noexcept = default;

size_t ChunkEncoder::compress(std::span<const uint8_t> input, size_t first_bytes,
                              std::vector<uint8_t>* frame) {
  ZSTD_CCtx_s* const context = context_.get();
  check(ZSTD_CCtx_reset(context, ZSTD_reset_session_only));
  check(ZSTD_CCtx_setPledgedSrcSize(context, input.size()));
  // A block more than the bound expects takes some bytes more.
  constexpr size_t kBlockHeader = 64;
  const size_t bound = ZSTD_compressBound(input.size()) + kBlockHeader;
  if (frame->size() < bound) frame->resize(bound);
  ZSTD_outBuffer out = {frame->data(), frame->size(), 0};
  ZSTD_inBuffer in = {input.data(), first_bytes, 0};
  size_t n_left = 0;  // of what is to be written
  if (first_bytes != 0) {
    n_left = ZSTD_compressStream2(context, &out, &in, ZSTD_e_flush);
    check(n_left);
  }
  in.size = input.size();
  n_left += ZSTD_compressStream2(context, &out, &in, ZSTD_e_end);
  check(n_left);
  if (n_left != 0) throw std::logic_error("a frame larger than its bound");
  return out.pos;
}

void ChunkEncoder::encode(std::span<const uint8_t> raw, PlaneValues values, EncodedChunk* chunk) {
  chunk->raw_bytes = static_cast<uint32_t>(raw.size());
  chunk->compression = format::Compression::kStored;
  chunk->stored = raw;
  if (context_) {
    const bool is_apart = has_halves(values);
    std::span<const uint8_t> input = raw;
    if (is_apart) {
      apart_.resize(raw.size());
      take_halves_apart(values, raw.data(), raw.size(), apart_.data());
      input = apart_;
    }
    // The halves, whose bytes are unlike, have blocks of their own.
    const size_t n_bytes = compress(input, is_apart ? raw.size() / 2 : 0, &chunk->storage);
    if (n_bytes < raw.size() && n_bytes * format::kMaxExpansion >= raw.size()) {
      chunk->compression = is_apart ? format::Compression::kZstdApart : format::Compression::kZstd;
      chunk->stored = {chunk->storage.data(), n_bytes};
    }
  }
  chunk->checksum = xxh64(chunk->stored.data(), chunk->stored.size());
}

int lowest_level() { return 1; }
int highest_level() { return kHighestLevel; }

}  // namespace cria::converter
