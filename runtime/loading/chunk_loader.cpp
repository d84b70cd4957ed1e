#include "runtime/loading/chunk_loader.h"

#include <cstring>

#define ZSTD_STATIC_LINKING_ONLY  // for the decompression context in memory of ours
#include <zstd.h>

#include "quant/format/checksum.h"
#include "quant/model/memory_plan.h"
#include "quant/model/upper_bits.h"
#include "runtime/base/features.h"

namespace cria {
namespace {

// Bytes that are summed, and then looked at while the nearest cache holds them; whole values.
constexpr size_t kSliceBytes = 4096;

Status check_gap(const uint8_t* gap, size_t n_bytes) {
  uint8_t any = 0;
  for (size_t i = 0; i < n_bytes; ++i) any = static_cast<uint8_t>(any | gap[i]);
  return any == 0 ? Status::kOk : Status::kCorrupt;
}

// The checksum of a stored chunk, the gap after it, and its values.
Status check_stored(const uint8_t* bytes, const ChunkPlace& place, size_t gap, uint64_t checksum) {
  Xxh64 hash;
  bool holds = true;
  for (size_t done = 0; done < place.raw_bytes; done += kSliceBytes) {
    const size_t left = place.raw_bytes - done;
    const size_t n = left < kSliceBytes ? left : kSliceBytes;
    hash.update(bytes + done, n);
    holds = holds && values_hold(place.values, bytes + done, n);
  }
  if (hash.digest() != checksum) return Status::kCorrupt;
  CRIA_TRY(check_gap(bytes + place.raw_bytes, gap));
  return holds ? Status::kOk : Status::kInvalidModel;
}

// One frame and nothing else, without a dictionary, that says how large it is and needs no window
// beyond a chunk.
bool is_allowed_frame(const uint8_t* stored, size_t stored_bytes, size_t raw_bytes) {
  ZSTD_frameHeader header;
  return ZSTD_getFrameHeader(&header, stored, stored_bytes) == 0 &&
         header.frameType == ZSTD_frame && header.frameContentSize == raw_bytes &&
         header.windowSize <= format::kChunkRawBytes && header.dictID == 0 &&
         ZSTD_findFrameCompressedSize(stored, stored_bytes) == stored_bytes;
}

Status decompress(const uint8_t* stored, size_t stored_bytes, ChunkScratch* scratch,
                  uint8_t* destination, size_t raw_bytes) {
  if (!is_allowed_frame(stored, stored_bytes, raw_bytes)) return Status::kInvalidModel;
  if (scratch->context == nullptr) {
    scratch->context =
        ZSTD_initStaticDCtx(scratch->decompressor, static_cast<size_t>(kDecompressorBytes));
  }
  if (scratch->context == nullptr) return Status::kMemoryTooSmall;
  const size_t n =
      ZSTD_decompressDCtx(scratch->context, destination, raw_bytes, stored, stored_bytes);
  return !ZSTD_isError(n) && n == raw_bytes ? Status::kOk : Status::kInvalidModel;
}

}  // namespace

Status load_chunk(const cria_source& source, const FileIndex& index, const ChunkPlace& place,
                  ChunkScratch* scratch, uint8_t* destination) {
  format::ChunkEntry entry;
  CRIA_TRY(read_chunk_entry(source, index, place, &entry));
  // With its gap: one call to the source instead of two.
  const size_t gap = gap_behind(index, place.number, entry.stored_bytes);
  const size_t n_bytes = entry.stored_bytes;
  if (entry.compression == static_cast<uint32_t>(format::Compression::kStored)) {
    CRIA_TRY(read_source(source, entry.offset, destination, n_bytes + gap));
    return check_stored(destination, place, gap, entry.checksum);
  }
  if (!kHasCompression) return Status::kUnsupported;
  const auto compression = static_cast<format::Compression>(entry.compression);
  const bool has_parts = compression != format::Compression::kZstd;
  const size_t n_upper = has_parts ? upper_bit_bytes(place.values, place.raw_bytes) : 0;
  const size_t n_lower = place.raw_bytes - n_upper;
  const size_t n_plain = compression == format::Compression::kZstdUpperBits ? n_lower : 0;
  // Parts are unpacked to staging. What is read waits in the destination then, plain bytes where
  // their values will be: there is room, as a compressed chunk is smaller than its values.
  uint8_t* const unpacked = has_parts ? scratch->staging : destination;
  const uint8_t* stored = nullptr;
  if (source.read != nullptr) {
    uint8_t* const room = has_parts ? destination : scratch->staging;
    CRIA_TRY(read_source(source, entry.offset, room, n_bytes + gap));
    stored = room;
  } else {
    stored = map_source(source, entry.offset, n_bytes + gap);
    if (stored == nullptr) return Status::kReadFailed;
  }
  if (xxh64(stored, n_bytes) != entry.checksum) return Status::kCorrupt;
  CRIA_TRY(check_gap(stored + n_bytes, gap));
  CRIA_TRY(decompress(stored + n_plain, n_bytes - n_plain, scratch, unpacked,
                      place.raw_bytes - n_plain));
  if (has_parts) {
    const uint8_t* const lower = n_plain != 0 ? stored : unpacked;
    if (lower != destination) std::memcpy(destination, lower, n_lower);
    put_upper_bits(place.values, unpacked + (n_lower - n_plain), place.raw_bytes, destination);
  }
  return values_hold(place.values, destination, place.raw_bytes) ? Status::kOk
                                                                 : Status::kInvalidModel;
}

Status check_chunk_in_place(const cria_source& source, const FileIndex& index,
                            const ChunkPlace& place, const uint8_t* bytes) {
  format::ChunkEntry entry;
  CRIA_TRY(read_chunk_entry(source, index, place, &entry));
  const uint32_t gap = gap_behind(index, place.number, place.raw_bytes);
  return check_stored(bytes, place, gap, entry.checksum);
}

PlaneReader::PlaneReader(const cria_source& source, const FileIndex& index, uint32_t tensor,
                         const MatrixShape& shape, Plane plane, const ChunkScratch& scratch,
                         uint8_t* raw)
    : source_(&source),
      index_(&index),
      tensor_(tensor),
      shape_(shape),
      plane_(plane),
      scratch_(scratch),
      raw_(raw),
      walk_(source, index) {}

Status PlaneReader::read(uint8_t* destination, uint64_t n_bytes) {
  while (n_bytes != 0) {
    if (raw_used_ == raw_bytes_) {
      if (has_begun_ && bytes_left_ == 0) return Status::kInvalidArgument;
      CRIA_TRY(has_begun_ ? walk_.advance() : walk_.go_to_plane(tensor_, shape_, plane_));
      if (!has_begun_) {
        const TensorSpec& spec = walk_.spec();
        bytes_left_ = plane_ == Plane::kCodes ? tensor_code_bytes(spec) : tensor_scale_bytes(spec);
        has_begun_ = true;
      }
      const ChunkPlace place = walk_.place();
      CRIA_TRY(load_chunk(*source_, *index_, place, &scratch_, raw_));
      bytes_left_ -= place.raw_bytes;
      raw_bytes_ = place.raw_bytes;
      raw_used_ = 0;
    }
    const uint32_t ready = raw_bytes_ - raw_used_;
    const size_t n = n_bytes < ready ? static_cast<size_t>(n_bytes) : ready;
    std::memcpy(destination, raw_ + raw_used_, n);
    destination += n;
    raw_used_ += static_cast<uint32_t>(n);
    n_bytes -= n;
  }
  return Status::kOk;
}

}  // namespace cria
