#include "runtime/loading/chunk_table.h"

#include "quant/checksum.h"

namespace cria {
namespace {

constexpr uint32_t kEntriesAtOnce = 32;

// The tensor that chunk number belongs to: the last one whose first chunk is not behind it.
uint32_t tensor_of(const format::ModelConfig& config, uint32_t n_tensors, uint32_t number) {
  uint32_t first = 0;
  for (uint32_t n = n_tensors; n > 1;) {
    const uint32_t half = n / 2;
    if (first_chunk_of(config, first + half) <= number) {
      first += half;
      n -= half;
    } else {
      n = half;
    }
  }
  return first;
}

// Whether an entry, taken alone, is one that this chunk may have.
bool is_possible(const FileIndex& index, const ChunkPlace& place, const format::ChunkEntry& e) {
  const bool is_stored = e.compression == static_cast<uint32_t>(format::Compression::kStored);
  if ((!is_stored && e.compression != index.config.compression) || e.reserved != 0 ||
      e.raw_bytes != place.raw_bytes) {
    return false;
  }
  if (is_stored ? e.stored_bytes != e.raw_bytes
                : e.stored_bytes >= e.raw_bytes ||
                      uint64_t{e.stored_bytes} * format::kMaxExpansion < e.raw_bytes) {
    return false;
  }
  const uint64_t data_end = index.data.offset + index.data.bytes;
  const uint32_t gap = gap_behind(index, place.number, e.stored_bytes);
  return e.offset >= index.data.offset && e.offset <= data_end &&
         e.offset % format::kAlignment == 0 &&
         uint64_t{e.stored_bytes} + gap <= data_end - e.offset;
}

}  // namespace

ChunkWalk::ChunkWalk(const format::ModelConfig& config, uint32_t first)
    : config_(&config), n_tensors_(tensor_count(config)), number_(first) {
  const uint32_t tensor = tensor_of(config, n_tensors_, first);
  number_ = static_cast<uint32_t>(first_chunk_of(config, tensor));
  enter_tensor(tensor);
  while (number_ != first) advance();
}

void ChunkWalk::enter_tensor(uint32_t tensor) {
  tensor_ = tensor;
  offset_ = 0;
  if (tensor >= n_tensors_) return;
  spec_ = tensor_spec(*config_, tensor);
  code_bytes_ = tensor_code_bytes(spec_);
  total_bytes_ = tensor_bytes(spec_);
}

ChunkPlace ChunkWalk::place() const {
  const Plane plane = offset_ < code_bytes_ ? Plane::kCodes : Plane::kScales;
  const uint64_t left = (plane == Plane::kCodes ? code_bytes_ : total_bytes_) - offset_;
  return {number_, tensor_, offset_,
          left < format::kChunkRawBytes ? static_cast<uint32_t>(left) : format::kChunkRawBytes,
          plane_values(spec_, plane)};
}

void ChunkWalk::advance() {
  ++number_;
  offset_ += place().raw_bytes;
  if (offset_ == total_bytes_) enter_tensor(tensor_ + 1);
}

Status check_chunk_table(const cria_source& source, const FileIndex& index) {
  ChunkWalk walk(index.config, 0);
  Xxh64 hash;
  bool holds = true;
  uint64_t expected = index.data.offset;
  for (uint32_t done = 0; done < index.n_chunks;) {
    format::ChunkEntry entries[kEntriesAtOnce];
    const uint32_t left = index.n_chunks - done;
    const uint32_t n = left < kEntriesAtOnce ? left : kEntriesAtOnce;
    CRIA_TRY(read_source(source, index.chunk_table.offset + uint64_t{done} * sizeof entries[0],
                         entries, n * sizeof entries[0]));
    hash.update(entries, n * sizeof entries[0]);
    for (uint32_t i = 0; i < n; ++i, walk.advance()) {
      const format::ChunkEntry& e = entries[i];
      holds = holds && e.offset == expected && is_possible(index, walk.place(), e);
      expected = e.offset + e.stored_bytes + gap_behind(index, done + i, e.stored_bytes);
    }
    done += n;
  }
  if (hash.digest() != index.chunk_table.checksum) return Status::kCorrupt;
  return holds && expected == index.data.offset + index.data.bytes ? Status::kOk
                                                                   : Status::kInvalidModel;
}

Status read_chunk_entry(const cria_source& source, const FileIndex& index, const ChunkPlace& place,
                        format::ChunkEntry* entry) {
  CRIA_TRY(read_source(source, index.chunk_table.offset + uint64_t{place.number} * sizeof *entry,
                       entry, sizeof *entry));
  return is_possible(index, place, *entry) ? Status::kOk : Status::kCorrupt;
}

uint32_t gap_behind(const FileIndex& index, uint32_t number, uint32_t stored_bytes) {
  if (number + 1 == index.n_chunks) return 0;
  return (format::kAlignment - stored_bytes % format::kAlignment) % format::kAlignment;
}

}  // namespace cria
