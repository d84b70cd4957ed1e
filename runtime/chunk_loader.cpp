#include "runtime/chunk_loader.h"

#include <cstring>

#define ZSTD_STATIC_LINKING_ONLY  // for the decompression context in memory of ours
#include <zstd.h>

#include "quant/checksum.h"
#include "quant/memory_plan.h"
#include "runtime/features.h"

namespace cria {
namespace {

Status decompress(const uint8_t* stored, size_t stored_bytes, const ChunkScratch& scratch,
                  uint8_t* destination, size_t raw_bytes) {
  ZSTD_DCtx* context =
      ZSTD_initStaticDCtx(scratch.decompressor, static_cast<size_t>(kDecompressorBytes));
  if (context == nullptr) return Status::kMemoryTooSmall;
  const size_t n = ZSTD_decompressDCtx(context, destination, raw_bytes, stored, stored_bytes);
  return !ZSTD_isError(n) && n == raw_bytes ? Status::kOk : Status::kCorrupt;
}

}  // namespace

Status load_chunk(const cria_source& source, const FileIndex& index, uint32_t i, uint32_t raw_bytes,
                  const ChunkScratch& scratch, uint8_t* destination) {
  format::ChunkEntry entry;
  CRIA_TRY(read_chunk_entry(source, index, i, raw_bytes, &entry));
  if (entry.compression == static_cast<uint32_t>(format::Compression::kStored)) {
    CRIA_TRY(read_source(source, entry.offset, destination, raw_bytes));
    return check_stored_chunk(entry, destination);
  }
  if (!kHasCompression) return Status::kUnsupported;
  const uint8_t* stored = scratch.staging;
  if (source.read != nullptr) {
    CRIA_TRY(read_source(source, entry.offset, scratch.staging, entry.stored_bytes));
  } else {
    stored = map_source(source, entry.offset, entry.stored_bytes);
    if (stored == nullptr) return Status::kReadFailed;
  }
  CRIA_TRY(check_stored_chunk(entry, stored));
  return decompress(stored, entry.stored_bytes, scratch, destination, raw_bytes);
}

Status check_stored_chunk(const format::ChunkEntry& entry, const uint8_t* bytes) {
  return xxh64(bytes, entry.stored_bytes) == entry.checksum ? Status::kOk : Status::kCorrupt;
}

uint32_t first_chunk_of(const format::ModelConfig& config, uint32_t tensor) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < tensor; ++i) n += tensor_chunk_count(tensor_spec(config, i));
  return n;
}

PlaneReader::PlaneReader(const cria_source& source, const FileIndex& index, uint32_t tensor,
                         Plane plane, const ChunkScratch& scratch, uint8_t* raw)
    : source_(&source), index_(&index), scratch_(scratch), raw_(raw) {
  const TensorSpec spec = tensor_spec(index.config, tensor);
  const uint64_t code_bytes = tensor_code_bytes(spec);
  next_chunk_ = first_chunk_of(index.config, tensor);
  plane_bytes_ = code_bytes;
  if (plane == Plane::kScales) {
    next_chunk_ +=
        static_cast<uint32_t>((code_bytes + format::kChunkRawBytes - 1) / format::kChunkRawBytes);
    plane_bytes_ = tensor_scale_bytes(spec);
  }
}

Status PlaneReader::read(uint8_t* destination, uint64_t n_bytes) {
  while (n_bytes != 0) {
    if (raw_used_ == raw_bytes_) {
      const uint64_t left = plane_bytes_ - loaded_;
      if (left == 0) return Status::kInvalidArgument;
      raw_bytes_ =
          left < format::kChunkRawBytes ? static_cast<uint32_t>(left) : format::kChunkRawBytes;
      CRIA_TRY(load_chunk(*source_, *index_, next_chunk_++, raw_bytes_, scratch_, raw_));
      loaded_ += raw_bytes_;
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
