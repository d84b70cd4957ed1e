#include "runtime/loading/file_index.h"

#include <cstring>

#include "quant/format/align.h"
#include "quant/format/all_zero.h"
#include "quant/format/checksum.h"
#include "quant/format/reason.h"

namespace cria {
namespace {

using format::SectionKind;

Status refuse(const char* rule, const char** refused) {
  *refused = rule;
  return Status::kInvalidModel;
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

// Header and section table, as read.
struct Front {
  format::FileHeader header;
  format::SectionEntry sections[format::kMaxSections];
};

uint64_t front_bytes(const format::FileHeader& header) {
  return sizeof header + uint64_t{header.section_count} * sizeof(format::SectionEntry);
}

Status read_front(const cria_source& source, Front* front, const char** refused) {
  format::FileHeader& header = front->header;
  if (source.size < sizeof header) return Status::kNotAModel;
  CRIA_TRY(read_source(source, 0, &header, sizeof header));
  if (std::memcmp(header.magic, format::kMagic, sizeof header.magic) != 0) {
    return Status::kNotAModel;
  }
  if (header.version != format::kVersion) return Status::kUnsupportedVersion;
  // Before the checksum: what it covers hangs on this count.
  if (header.section_count == 0 || header.section_count > format::kMaxSections) {
    return refuse("section_count"_reason, refused);
  }
  const auto table_bytes = static_cast<size_t>(front_bytes(header) - sizeof header);
  CRIA_TRY(read_source(source, sizeof header, front->sections, table_bytes));
  format::FileHeader summed = header;
  summed.checksum = 0;
  Xxh64 hash;
  hash.update(&summed, sizeof summed);
  hash.update(front->sections, table_bytes);
  return hash.digest() == header.checksum ? Status::kOk : Status::kCorrupt;
}

Status check_header(const cria_source& source, const format::FileHeader& header,
                    const char** refused) {
  if (!all_zero(header.reserved)) return refuse("reserved bytes of the header"_reason, refused);
  if (header.file_bytes > format::kMaxFileBytes) return refuse("file_bytes"_reason, refused);
  if (source.size < header.file_bytes) return Status::kTruncated;
  return source.size == header.file_bytes ? Status::kOk : refuse("file_bytes"_reason, refused);
}

// Sections must follow each other without a gap but the alignment's, each kind once.
Status take_sections(const Front& front, FileIndex* index, Section* config, const char** refused) {
  const format::FileHeader& header = front.header;
  uint64_t end = front_bytes(header);
  uint32_t seen = 0;
  for (uint32_t i = 0; i < header.section_count; ++i) {
    const format::SectionEntry& e = front.sections[i];
    Section* section = section_of(index, e.kind, config);
    if (section == nullptr || (seen >> e.kind & 1) != 0) {
      return refuse("section kind"_reason, refused);
    }
    if (e.reserved != 0) return refuse("reserved bytes of a section entry"_reason, refused);
    if (e.offset != aligned(end) || e.offset > header.file_bytes) {
      return refuse("section offset"_reason, refused);
    }
    if (e.bytes == 0 || e.bytes > header.file_bytes - e.offset) {
      return refuse("section bytes"_reason, refused);
    }
    seen |= 1u << e.kind;
    *section = {e.offset, e.bytes, e.checksum};
    end = e.offset + e.bytes;
  }
  if (end != header.file_bytes) return refuse("file_bytes"_reason, refused);
  constexpr SectionKind kNeeded[] = {SectionKind::kConfig, SectionKind::kTensorDirectory,
                                     SectionKind::kChunkTable, SectionKind::kData};
  for (const SectionKind kind : kNeeded) {
    if ((seen >> static_cast<uint32_t>(kind) & 1) == 0) {
      return refuse("missing section"_reason, refused);
    }
  }
  return Status::kOk;
}

// The bytes that alignment leaves before each section, by sections that follow each other.
Status check_gaps(const cria_source& source, const Front& front, uint64_t* at) {
  uint64_t end = front_bytes(front.header);
  for (uint32_t i = 0; i < front.header.section_count; ++i) {
    const format::SectionEntry& e = front.sections[i];
    uint8_t gap[format::kAlignment] = {};
    *at = end;
    if (e.offset != end) {
      CRIA_TRY(read_source(source, end, gap, static_cast<size_t>(e.offset - end)));
    }
    if (!all_zero(gap)) return Status::kCorrupt;
    end = e.offset + e.bytes;
  }
  return Status::kOk;
}

Status bring_config(const cria_source& source, const Section& section, ConfigBytes* bytes,
                    Config* config, const char** refused) {
  if (section.bytes > sizeof bytes->bytes) return refuse("size of the config"_reason, refused);
  const auto n_bytes = static_cast<size_t>(section.bytes);
  CRIA_TRY(read_source(source, section.offset, bytes->bytes, n_bytes));
  if (xxh64(bytes->bytes, n_bytes) != section.checksum) return Status::kCorrupt;
  *refused = read_config({bytes->bytes, n_bytes}, config);
  if (*refused == kLeftOut) {
    *refused = nullptr;
    return Status::kUnsupported;
  }
  return *refused == nullptr ? Status::kOk : Status::kInvalidModel;
}

// Sizes that follow from the config, or are limited by it.
Status check_sizes(const FileIndex& index, const char** refused) {
  const Config& c = index.config;
  const uint64_t n_chunks = chunk_count(c);
  if (index.directory.bytes != uint64_t{tensor_count(c)} * sizeof(format::TensorEntry)) {
    return refuse("size of the tensor directory"_reason, refused);
  }
  if (n_chunks > UINT32_MAX || index.chunk_table.bytes != n_chunks * sizeof(format::ChunkEntry)) {
    return refuse("size of the chunk table"_reason, refused);
  }
  if (index.data.checksum != 0) return refuse("checksum of the data section"_reason, refused);
  if (index.metadata.bytes > format::kMaxMetadataBytes) {
    return refuse("size of the metadata"_reason, refused);
  }
  // The weights take no more memory than so many times the file.
  const uint64_t uncompressed = uncompressed_data_bytes(c);
  if (is_stored(c) ? index.data.bytes != uncompressed
                   : index.data.bytes > uncompressed ||
                         index.data.bytes < uncompressed / format::kMaxExpansion) {
    return refuse("size of the data section"_reason, refused);
  }
  return Status::kOk;
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

Status open_sections(const cria_source& source, FileIndex* index, Section* config,
                     const char** refused, uint64_t* at) {
  *index = {};
  *config = {};
  *refused = nullptr;
  *at = 0;
  Front front;
  CRIA_TRY(read_front(source, &front, refused));
  CRIA_TRY(check_header(source, front.header, refused));
  CRIA_TRY(take_sections(front, index, config, refused));
  CRIA_TRY(check_gaps(source, front, at));
  index->fingerprint = front.header.checksum;
  return Status::kOk;
}

Status open_index(const cria_source& source, ConfigBytes* config_bytes, FileIndex* index,
                  const char** refused, uint64_t* at) {
  Section config;
  CRIA_TRY(open_sections(source, index, &config, refused, at));
  *at = config.offset;
  CRIA_TRY(bring_config(source, config, config_bytes, &index->config, refused));
  *at = 0;
  CRIA_TRY(check_sizes(*index, refused));
  index->n_chunks = static_cast<uint32_t>(chunk_count(index->config));
  return Status::kOk;
}

}  // namespace cria
