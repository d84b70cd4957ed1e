#include "converter/chunk_encoder.h"

#define ZSTD_STATIC_LINKING_ONLY  // for frames of nothing but Huffman codes
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <new>
#include <stdexcept>

#include "quant/checksum.h"
#include "quant/upper_bits.h"

namespace cria::converter {
namespace {

// Levels above only search longer for repetitions, which weights do not have.
constexpr int kHighestLevel = 19;
// The part of a chunk that it has to save to have all its bits in a frame, which then takes three
// times as long to unpack.
constexpr size_t kWorthUnpacking = 12;
constexpr size_t kSampled = 16;  // the part of lower bits that is looked at first

constexpr bool are_codes(PlaneValues values) {
  return values == PlaneValues::kAny || values == PlaneValues::kInt8Codes;
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

ChunkEncoder::ChunkEncoder(format::Compression compression, int level) {
  if (compression == format::Compression::kStored) return;
  context_.reset(ZSTD_createCCtx());
  if (!context_) throw std::bad_alloc();
  check(ZSTD_CCtx_setParameter(context_.get(), ZSTD_c_compressionLevel, level));
}

ChunkEncoder::~ChunkEncoder() = default;
ChunkEncoder::ChunkEncoder(ChunkEncoder&& other) noexcept = default;

size_t ChunkEncoder::compress(std::span<const uint8_t> input, Frame frame,
                              std::vector<uint8_t>* out, size_t at) {
  ZSTD_CCtx_s* const context = context_.get();
  check(ZSTD_CCtx_reset(context, ZSTD_reset_session_only));
  const auto set = [context](ZSTD_cParameter parameter, int value) {
    check(ZSTD_CCtx_setParameter(context, parameter, value));
  };
  // Steps so wide that no repetition is found, and bytes coded all the same; 0 is the level's own.
  set(ZSTD_c_strategy, frame.searches ? 0 : ZSTD_fast);
  set(ZSTD_c_targetLength, frame.searches ? 0 : ZSTD_TARGETLENGTH_MAX);
  set(ZSTD_c_literalCompressionMode, frame.searches ? ZSTD_ps_auto : ZSTD_ps_enable);
  check(ZSTD_CCtx_setPledgedSrcSize(context, input.size()));
  // A block more than the bound expects takes some bytes more.
  constexpr size_t kBlockHeader = 64;
  const size_t bound = at + ZSTD_compressBound(input.size()) + kBlockHeader;
  if (out->size() < bound) out->resize(bound);
  ZSTD_outBuffer output = {out->data() + at, out->size() - at, 0};
  ZSTD_inBuffer in = {input.data(), frame.first_bytes, 0};
  size_t n_left = 0;  // of what is to be written
  if (frame.first_bytes != 0) {
    n_left = ZSTD_compressStream2(context, &output, &in, ZSTD_e_flush);
    check(n_left);
  }
  in.size = input.size();
  n_left += ZSTD_compressStream2(context, &output, &in, ZSTD_e_end);
  check(n_left);
  if (n_left != 0) throw std::logic_error("a frame larger than its bound");
  return output.pos;
}

void ChunkEncoder::encode_as_frame(std::span<const uint8_t> input, size_t first_bytes,
                                   format::Compression compression, size_t most_bytes,
                                   EncodedChunk* chunk) {
  const size_t n = compress(input, {true, first_bytes}, &frame_, 0);
  if (n > most_bytes || n * format::kMaxExpansion < input.size()) return;
  chunk->storage.swap(frame_);
  chunk->compression = compression;
  chunk->stored = {chunk->storage.data(), n};
}

void ChunkEncoder::encode_parts(std::span<const uint8_t> raw, PlaneValues values, size_t n_upper,
                                EncodedChunk* chunk) {
  const size_t n_lower = raw.size() - n_upper;
  parts_.resize(raw.size());
  take_upper_bits(values, raw.data(), raw.size(), parts_.data(), parts_.data() + n_lower);
  const std::span<const uint8_t> parts = parts_;
  // Upper bits of few values repeat by chance: copying repetitions takes longer than reading codes,
  // and bytes for bf16's exponents.
  const size_t n_frame = compress(parts.subspan(n_lower), {false, 0}, &chunk->storage, n_lower);
  if (n_frame < n_upper) {
    std::copy_n(parts_.data(), n_lower, chunk->storage.data());
    chunk->compression = format::Compression::kZstdUpperBits;
    chunk->stored = {chunk->storage.data(), n_lower + n_frame};
  }
  const size_t most_bytes = chunk->stored.size() - raw.size() / kWorthUnpacking;
  if (are_codes(values)) {
    // Where there is padding, or few values, zstd finds more in whole codes.
    if (n_frame < n_upper * 2 / 3) {
      encode_as_frame(raw, 0, format::Compression::kZstd, most_bytes, chunk);
    }
  } else {
    // Lower bits that are not random: weights of a bf16 checkpoint as f16, or mostly zeros.
    const size_t n_sample = n_lower / kSampled;
    if (compress(parts.first(n_sample), {true, 0}, &frame_, 0) < n_sample - n_sample / kSampled) {
      encode_as_frame(parts, n_lower, format::Compression::kZstdParts, most_bytes, chunk);
    }
  }
}

void ChunkEncoder::encode(std::span<const uint8_t> raw, PlaneValues values, EncodedChunk* chunk) {
  chunk->raw_bytes = static_cast<uint32_t>(raw.size());
  chunk->compression = format::Compression::kStored;
  chunk->stored = raw;
  if (context_) {
    const size_t n_upper = upper_bit_bytes(values, raw.size());
    if (n_upper == 0) {
      encode_as_frame(raw, 0, format::Compression::kZstd, raw.size() - 1, chunk);
    } else {
      encode_parts(raw, values, n_upper, chunk);
    }
  }
  chunk->checksum = xxh64(chunk->stored.data(), chunk->stored.size());
}

int lowest_level() { return 1; }
int highest_level() { return kHighestLevel; }

}  // namespace cria::converter
