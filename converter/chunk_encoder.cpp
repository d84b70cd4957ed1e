#include "converter/chunk_encoder.h"

#define ZSTD_STATIC_LINKING_ONLY  // for frames of nothing but Huffman codes
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <bit>
#include <new>
#include <stdexcept>

#include "quant/format/checksum.h"
#include "quant/model/upper_bits.h"

namespace cria::converter {
namespace {

// Levels above only search longer for repetitions, which weights do not have.
constexpr int kHighestLevel = 19;
// The part of a chunk that it has to save to have all its bits in a frame, which then takes three
// times as long to unpack.
constexpr size_t kWorthUnpacking = 12;

// n log2(n) in 256ths of a bit, by chords of the logarithm: whole numbers, so that every machine
// comes to the same file.
uint64_t scaled_log(uint64_t n) {
  if (n == 0) return 0;
  const auto whole = static_cast<unsigned>(std::bit_width(n)) - 1;
  return n * ((uint64_t{whole} << 8) + ((n << 8 >> whole) - 256));
}

// About how many bytes these take as codes of single bytes: the entropy of a sample of all of them.
size_t coded_bytes(std::span<const uint8_t> bytes) {
  constexpr size_t kPiece = 64;
  constexpr size_t kStep = 33 * kPiece;  // of no period that a layout has
  uint32_t counts[256] = {};
  uint64_t n = 0;
  for (size_t at = 0; at < bytes.size(); at += kStep) {
    const auto piece = bytes.subspan(at, std::min(kPiece, bytes.size() - at));
    for (const uint8_t byte : piece) ++counts[byte];
    n += piece.size();
  }
  uint64_t bits = scaled_log(n);
  for (const uint32_t count : counts) bits -= scaled_log(count);
  return static_cast<size_t>(bits * bytes.size() / (n << 8) / 8);
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

size_t ChunkEncoder::compress(const Input& input, std::vector<uint8_t>* out, size_t at) {
  ZSTD_CCtx_s* const context = context_.get();
  check(ZSTD_CCtx_reset(context, ZSTD_reset_session_only));
  const auto set = [context](ZSTD_cParameter parameter, int value) {
    check(ZSTD_CCtx_setParameter(context, parameter, value));
  };
  // Steps so wide that no repetition is found, and bytes coded all the same; 0 is the level's own.
  set(ZSTD_c_strategy, input.is_searched ? 0 : ZSTD_fast);
  set(ZSTD_c_targetLength, input.is_searched ? 0 : ZSTD_TARGETLENGTH_MAX);
  set(ZSTD_c_literalCompressionMode, input.is_searched ? ZSTD_ps_auto : ZSTD_ps_enable);
  const size_t n_bytes = input.first.size() + input.rest.size();
  check(ZSTD_CCtx_setPledgedSrcSize(context, n_bytes));
  // A block more than the bound expects takes some bytes more.
  constexpr size_t kBlockHeader = 64;
  const size_t bound = at + ZSTD_compressBound(n_bytes) + kBlockHeader;
  if (out->size() < bound) out->resize(bound);
  ZSTD_outBuffer frame = {out->data() + at, out->size() - at, 0};
  size_t n_left = 0;  // of what is to be written
  const auto append = [&](std::span<const uint8_t> bytes, ZSTD_EndDirective end) {
    ZSTD_inBuffer in = {bytes.data(), bytes.size(), 0};
    const size_t n = ZSTD_compressStream2(context, &frame, &in, end);
    check(n);
    n_left += n;
  };
  if (!input.first.empty()) append(input.first, ZSTD_e_flush);
  append(input.rest, ZSTD_e_end);
  if (n_left != 0) throw std::logic_error("a frame larger than its bound");
  return frame.pos;
}

void ChunkEncoder::encode_as_frame(const Input& input, format::Compression compression,
                                   size_t most_bytes, EncodedChunk* chunk) {
  const size_t n = compress(input, &frame_, 0);
  if (n > most_bytes || n * format::kMaxExpansion < chunk->raw_bytes) return;
  chunk->storage.swap(frame_);
  chunk->compression = compression;
  chunk->stored = {chunk->storage.data(), n};
}

void ChunkEncoder::encode_parts(std::span<const uint8_t> raw, PlaneValues values, size_t n_upper,
                                EncodedChunk* chunk) {
  const size_t n_lower = raw.size() - n_upper;
  upper_.resize(n_upper);
  if (chunk->storage.size() < n_lower) chunk->storage.resize(n_lower);
  take_upper_bits(values, raw.data(), raw.size(), chunk->storage.data(), upper_.data());
  // Upper bits of few values repeat by chance: copying repetitions takes longer than reading codes,
  // and bytes for bf16's exponents.
  const size_t n_frame = compress({{}, upper_, false}, &chunk->storage, n_lower);
  if (n_frame < n_upper) {
    chunk->compression = format::Compression::kZstdUpperBits;
    chunk->stored = {chunk->storage.data(), n_lower + n_frame};
  }
  const size_t most_bytes = chunk->stored.size() - raw.size() / kWorthUnpacking;
  if (upper_bits_of(values) == UpperBits::kOfTwoBytes) {
    // Weights of a bf16 checkpoint as f16, or many zeros.
    const std::span<const uint8_t> lower = {chunk->storage.data(), n_lower};
    if (coded_bytes(lower) + n_frame < most_bytes) {
      encode_as_frame({lower, upper_, true}, format::Compression::kZstdParts, most_bytes, chunk);
    }
  } else if (n_frame < n_upper * 2 / 3 || coded_bytes(raw) < most_bytes) {
    // Repetitions, of padding, show in the upper bits; few values in whole codes.
    encode_as_frame({{}, raw, true}, format::Compression::kZstd, most_bytes, chunk);
  }
}

void ChunkEncoder::encode(std::span<const uint8_t> raw, PlaneValues values, bool is_stored,
                          EncodedChunk* chunk) {
  chunk->raw_bytes = static_cast<uint32_t>(raw.size());
  chunk->compression = format::Compression::kStored;
  chunk->stored = raw;
  if (context_ && !is_stored) {
    const size_t n_upper = upper_bit_bytes(values, raw.size());
    if (n_upper == 0) {
      encode_as_frame({{}, raw, true}, format::Compression::kZstd, raw.size() - 1, chunk);
    } else {
      encode_parts(raw, values, n_upper, chunk);
    }
  }
  chunk->checksum = xxh64(chunk->stored.data(), chunk->stored.size());
}

int lowest_level() { return 1; }
int highest_level() { return kHighestLevel; }

}  // namespace cria::converter
