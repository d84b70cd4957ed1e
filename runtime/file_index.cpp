#include "runtime/file_index.h"

#include <cstring>

#include "quant/checksum.h"

namespace cria {
namespace {

using format::SectionKind;

constexpr size_t kBufferBytes = 1024;

uint64_t align_up(uint64_t offset) {
  return (offset + format::kAlignment - 1) / format::kAlignment * format::kAlignment;
}

template <size_t N>
bool all_zero(const uint8_t (&bytes)[N]) {
  uint8_t any = 0;
  for (const uint8_t byte : bytes) any = static_cast<uint8_t>(any | byte);
  return any == 0;
}

Section* section_of(FileIndex* index, uint32_t kind, Section* config) {
  switch (static_cast<SectionKind>(kind)) {
    case SectionKind::kConfig:
      return config;
    case SectionKind::kTokenizer:
      return &index->tokenizer;
    case SectionKind::kChatTemplate:
      return &index->chat_template;
    case SectionKind::kTensorDirectory:
      return &index->directory;
    case SectionKind::kChunkTable:
      return &index->chunk_table;
    case SectionKind::kMetadata:
      return &index->metadata;
    case SectionKind::kData:
      return &index->data;
  }
  return nullptr;
}

Status read_header(const cria_source& source, format::FileHeader* header) {
  if (source.size < sizeof *header) return Status::kNotAModel;
  CRIA_TRY(read_source(source, 0, header, sizeof *header));
  if (std::memcmp(header->magic, format::kMagic, sizeof header->magic) != 0) {
    return Status::kNotAModel;
  }
  if (header->version != format::kVersion) return Status::kUnsupportedVersion;
  if (header->section_count == 0 || header->section_count > format::kMaxSections ||
      header->file_bytes > format::kMaxFileBytes || !all_zero(header->reserved)) {
    return Status::kCorrupt;
  }
  if (source.size < header->file_bytes) return Status::kTruncated;
  return source.size == header->file_bytes ? Status::kOk : Status::kCorrupt;
}

// Sections must follow each other without a gap but the alignment's, each kind once.
Status take_sections(const format::SectionEntry* entries, const format::FileHeader& header,
                     FileIndex* index, Section* config) {
  uint64_t end = sizeof header + header.section_count * sizeof *entries;
  uint32_t seen = 0;
  for (uint32_t i = 0; i < header.section_count; ++i) {
    const format::SectionEntry& e = entries[i];
    Section* section = section_of(index, e.kind, config);
    if (section == nullptr || (seen >> e.kind & 1) != 0 || e.reserved != 0 || e.bytes == 0 ||
        e.offset != align_up(end) || e.offset > header.file_bytes ||
        e.bytes > header.file_bytes - e.offset) {
      return Status::kCorrupt;
    }
    seen |= 1u << e.kind;
    *section = {e.offset, e.bytes, e.checksum};
    end = e.offset + e.bytes;
  }
  return end == header.file_bytes ? Status::kOk : Status::kCorrupt;
}

Status read_config(const cria_source& source, const Section& section, FileIndex* index) {
  if (section.bytes != sizeof index->config) return Status::kCorrupt;
  CRIA_TRY(read_source(source, section.offset, &index->config, sizeof index->config));
  if (xxh64(&index->config, sizeof index->config) != section.checksum) return Status::kCorrupt;
  return check_config(index->config) == nullptr ? Status::kOk : Status::kCorrupt;
}

}  // namespace

Status read_source(const cria_source& source, uint64_t offset, void* destination, size_t n_bytes) {
  if (offset > source.size || n_bytes > source.size - offset) return Status::kTruncated;
  if (source.read != nullptr) {
    return source.read(source.context, offset, destination, n_bytes) == 0 ? Status::kOk
                                                                          : Status::kReadFailed;
  }
  const uint8_t* bytes = map_source(source, offset, n_bytes);
  if (bytes == nullptr) return Status::kReadFailed;
  if (n_bytes != 0) std::memcpy(destination, bytes, n_bytes);
  return Status::kOk;
}

const uint8_t* map_source(const cria_source& source, uint64_t offset, uint64_t n_bytes) {
  if (source.map == nullptr || offset > source.size || n_bytes > source.size - offset ||
      n_bytes > SIZE_MAX) {
    return nullptr;
  }
  return static_cast<const uint8_t*>(
      source.map(source.context, offset, static_cast<size_t>(n_bytes)));
}

Status open_index(const cria_source& source, FileIndex* index) {
  *index = {};
  format::FileHeader header;
  CRIA_TRY(read_header(source, &header));
  format::SectionEntry entries[format::kMaxSections];
  const size_t table_bytes = header.section_count * sizeof *entries;
  CRIA_TRY(read_source(source, sizeof header, entries, table_bytes));
  index->fingerprint = header.checksum;
  header.checksum = 0;
  Xxh64 hash;
  hash.update(&header, sizeof header);
  hash.update(entries, table_bytes);
  if (hash.digest() != index->fingerprint) return Status::kCorrupt;

  Section config = {};
  CRIA_TRY(take_sections(entries, header, index, &config));
  CRIA_TRY(read_config(source, config, index));
  const uint64_t n_chunks = chunk_count(index->config);
  if (n_chunks > UINT32_MAX || index->chunk_table.bytes != n_chunks * sizeof(format::ChunkEntry) ||
      index->directory.bytes != tensor_count(index->config) * sizeof(format::TensorEntry) ||
      index->data.bytes == 0 || index->data.checksum != 0) {
    return Status::kCorrupt;
  }
  // No chunk is larger in the file than in memory, so neither may the data be smaller than nothing
  // nor larger than the weights: a short file cannot make anyone reserve gigabytes.
  if (index->data.bytes > all_tensor_bytes(index->config) + n_chunks * format::kAlignment) {
    return Status::kCorrupt;
  }
  index->n_chunks = static_cast<uint32_t>(n_chunks);
  return Status::kOk;
}

Status check_section(const cria_source& source, const Section& section) {
  Xxh64 hash;
  if (source.read == nullptr) {
    const uint8_t* bytes = map_source(source, section.offset, section.bytes);
    if (bytes == nullptr) return Status::kReadFailed;
    hash.update(bytes, static_cast<size_t>(section.bytes));
  } else {
    uint8_t buffer[kBufferBytes];
    for (uint64_t done = 0; done < section.bytes;) {
      const uint64_t left = section.bytes - done;
      const size_t n = left < kBufferBytes ? static_cast<size_t>(left) : kBufferBytes;
      CRIA_TRY(read_source(source, section.offset + done, buffer, n));
      hash.update(buffer, n);
      done += n;
    }
  }
  return hash.digest() == section.checksum ? Status::kOk : Status::kCorrupt;
}

Status check_directory(const cria_source& source, const FileIndex& index) {
  Xxh64 hash;
  uint32_t first_chunk = 0;
  for (uint32_t i = 0; i < tensor_count(index.config); ++i) {
    format::TensorEntry e;
    CRIA_TRY(read_source(source, index.directory.offset + i * sizeof e, &e, sizeof e));
    hash.update(&e, sizeof e);
    const TensorSpec spec = tensor_spec(index.config, i);
    const uint32_t n_chunks = tensor_chunk_count(spec);
    if (e.role != static_cast<uint16_t>(spec.role) || e.group_size != spec.shape.group_size ||
        e.layer != spec.layer ||
        e.number_format != static_cast<uint8_t>(spec.shape.number_format) ||
        !all_zero(e.reserved) || e.rows != spec.shape.rows || e.cols != spec.shape.cols ||
        e.first_chunk != first_chunk || e.n_chunks != n_chunks || e.reserved2 != 0 ||
        e.raw_bytes != tensor_bytes(spec)) {
      return Status::kCorrupt;
    }
    first_chunk += n_chunks;
  }
  return hash.digest() == index.directory.checksum ? Status::kOk : Status::kCorrupt;
}

ChunkWalk::ChunkWalk(const format::ModelConfig& config, uint32_t first) : config_(&config) {
  uint32_t tensor = 0;
  uint32_t skipped = first;
  for (;; ++tensor) {
    const uint32_t n = tensor_chunk_count(tensor_spec(config, tensor));
    if (skipped < n) break;
    skipped -= n;
  }
  enter_tensor(tensor);
  for (; skipped != 0; --skipped) advance();
}

void ChunkWalk::enter_tensor(uint32_t tensor) {
  tensor_ = tensor;
  offset_ = 0;
  if (tensor >= tensor_count(*config_)) return;
  const TensorSpec spec = tensor_spec(*config_, tensor);
  code_bytes_ = tensor_code_bytes(spec);
  total_bytes_ = tensor_bytes(spec);
}

ChunkPlace ChunkWalk::place() const {
  const uint64_t plane_end = offset_ < code_bytes_ ? code_bytes_ : total_bytes_;
  const uint64_t left = plane_end - offset_;
  return {tensor_, offset_,
          left < format::kChunkRawBytes ? static_cast<uint32_t>(left) : format::kChunkRawBytes};
}

void ChunkWalk::advance() {
  offset_ += place().raw_bytes;
  if (offset_ == total_bytes_) enter_tensor(tensor_ + 1);
}

Status read_chunk_entry(const cria_source& source, const FileIndex& index, uint32_t i,
                        uint32_t raw_bytes, format::ChunkEntry* entry) {
  const uint64_t table = index.chunk_table.offset;
  uint64_t expected = index.data.offset;
  if (i != 0) {
    format::ChunkEntry before;
    CRIA_TRY(
        read_source(source, table + (uint64_t{i} - 1) * sizeof before, &before, sizeof before));
    if (before.offset > source.size) return Status::kCorrupt;
    expected = align_up(before.offset + before.stored_bytes);
  }
  CRIA_TRY(read_source(source, table + uint64_t{i} * sizeof *entry, entry, sizeof *entry));
  const format::ChunkEntry& e = *entry;
  const uint64_t data_end = index.data.offset + index.data.bytes;
  const bool is_stored = e.compression == static_cast<uint32_t>(format::Compression::kStored);
  const bool is_allowed = is_stored || (e.compression == index.config.compression);
  if (!is_allowed || e.reserved != 0 || e.raw_bytes != raw_bytes || e.offset != expected ||
      e.offset > data_end || e.stored_bytes > data_end - e.offset || e.stored_bytes == 0 ||
      (is_stored ? e.stored_bytes != raw_bytes : e.stored_bytes >= raw_bytes)) {
    return Status::kCorrupt;
  }
  if (i + 1 == index.n_chunks && e.offset + e.stored_bytes != data_end) return Status::kCorrupt;
  return Status::kOk;
}

}  // namespace cria
