#include "runtime/loading/chunk_table.h"

#include "quant/format/checksum.h"
#include "quant/model/upper_bits.h"

namespace cria {
namespace {

constexpr uint32_t kEntriesAtOnce = 32;

// Whether a chunk of this compression may take so many bytes in the file.
bool is_possible_size(const ChunkPlace& place, const format::ChunkEntry& e) {
  const auto compression = static_cast<format::Compression>(e.compression);
  if (compression == format::Compression::kStored) return e.stored_bytes == e.raw_bytes;
  if (place.is_stored || e.stored_bytes >= e.raw_bytes ||
      uint64_t{e.stored_bytes} * format::kMaxExpansion < e.raw_bytes) {
    return false;
  }
  const size_t n_upper = upper_bit_bytes(place.values, e.raw_bytes);
  switch (compression) {
    case format::Compression::kStored:
    case format::Compression::kZstd:
      return true;
    case format::Compression::kZstdUpperBits:
      return e.stored_bytes > e.raw_bytes - n_upper;
    case format::Compression::kZstdParts:
      return n_upper != 0;
  }
  return false;
}

// Whether an entry, taken alone, is one that this chunk may have.
bool is_possible(const FileIndex& index, const ChunkPlace& place, const format::ChunkEntry& e) {
  if (e.reserved != 0 || e.raw_bytes != place.raw_bytes || !is_possible_size(place, e)) {
    return false;
  }
  const uint64_t data_end = index.data.offset + index.data.bytes;
  const uint32_t gap = gap_behind(index, place.number, e.stored_bytes);
  return e.offset >= index.data.offset && e.offset <= data_end &&
         e.offset % format::kAlignment == 0 &&
         uint64_t{e.stored_bytes} + gap <= data_end - e.offset;
}

}  // namespace

Status ChunkWalk::enter_tensor(uint32_t tensor) {
  CRIA_TRY(read_listed_tensor(*source_, *index_, tensor, &listed_));
  tensor_ = tensor;
  code_bytes_ = tensor_code_bytes(listed_.spec);
  total_bytes_ = tensor_bytes(listed_.spec);
  pass(0);
  return Status::kOk;
}

void ChunkWalk::pass(uint32_t n_passed) {
  const uint32_t n_of_codes = chunks_of_bytes(code_bytes_);
  number_ = listed_.first_chunk + n_passed;
  offset_ = n_passed < n_of_codes
                ? uint64_t{n_passed} * format::kChunkRawBytes
                : code_bytes_ + uint64_t{n_passed - n_of_codes} * format::kChunkRawBytes;
}

Status ChunkWalk::go_to(uint32_t number) {
  uint32_t tensor = 0;
  CRIA_TRY(find_tensor_of_chunk(*source_, *index_, number, &tensor));
  CRIA_TRY(enter_tensor(tensor));
  const bool is_here = number >= listed_.first_chunk &&
                       number - listed_.first_chunk < tensor_chunk_count(listed_.spec);
  if (!is_here) return Status::kCorrupt;
  pass(number - listed_.first_chunk);
  return Status::kOk;
}

Status ChunkWalk::go_to_plane(uint32_t tensor, const MatrixShape& shape, Plane plane) {
  CRIA_TRY(enter_tensor(tensor));
  if (!(listed_.spec.shape == shape)) return Status::kCorrupt;
  if (plane == Plane::kScales) pass(chunks_of_bytes(code_bytes_));
  return Status::kOk;
}

ChunkPlace ChunkWalk::place() const {
  const Plane plane = offset_ < code_bytes_ ? Plane::kCodes : Plane::kScales;
  const uint64_t left = (plane == Plane::kCodes ? code_bytes_ : total_bytes_) - offset_;
  return {number_,
          tensor_,
          offset_,
          left < format::kChunkRawBytes ? static_cast<uint32_t>(left) : format::kChunkRawBytes,
          plane_values(listed_.spec, plane),
          is_stored(index_->config, listed_.spec)};
}

Status ChunkWalk::advance() {
  const uint32_t next = number_ + 1;
  offset_ += place().raw_bytes;
  if (offset_ != total_bytes_) {
    number_ = next;
    return Status::kOk;
  }
  if (tensor_ + 1 == n_tensors_) {
    return next == index_->n_chunks ? Status::kOk : Status::kCorrupt;
  }
  CRIA_TRY(enter_tensor(tensor_ + 1));
  return number_ == next ? Status::kOk : Status::kCorrupt;
}

Status check_chunk_table(const cria_source& source, const FileIndex& index) {
  ChunkWalk walk(source, index);
  CRIA_TRY(walk.go_to(0));
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
    for (uint32_t i = 0; i < n; ++i) {
      const format::ChunkEntry& e = entries[i];
      holds = holds && e.offset == expected && is_possible(index, walk.place(), e);
      expected = e.offset + e.stored_bytes + gap_behind(index, done + i, e.stored_bytes);
      CRIA_TRY(walk.advance());
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

Status offset_of_chunk(const cria_source& source, const FileIndex& index, uint32_t number,
                       uint64_t* offset) {
  format::ChunkEntry entry;
  CRIA_TRY(read_source(source, index.chunk_table.offset + uint64_t{number} * sizeof entry, &entry,
                       sizeof entry));
  *offset = entry.offset - index.data.offset;
  return entry.offset % format::kAlignment == 0 ? Status::kOk : Status::kCorrupt;
}

uint32_t gap_behind(const FileIndex& index, uint32_t number, uint32_t stored_bytes) {
  if (number + 1 == index.n_chunks) return 0;
  return (format::kAlignment - stored_bytes % format::kAlignment) % format::kAlignment;
}

}  // namespace cria
