#include "converter/model_writer.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "converter/byte_span.h"
#include "converter/error.h"
#include "quant/format/align.h"
#include "quant/format/checksum.h"

namespace cria::converter {
namespace {

using format::ChunkEntry;
using format::FileHeader;
using format::SectionEntry;
using format::SectionKind;

constexpr uint64_t kFlushBytes = 4 << 20;  // that go to the disk together

FileHeader header_for(std::span<const SectionEntry> sections, uint64_t file_bytes) {
  FileHeader header = {};
  std::memcpy(header.magic, format::kMagic, sizeof(header.magic));
  header.version = format::kVersion;
  header.section_count = static_cast<uint32_t>(sections.size());
  header.file_bytes = file_bytes;
  Xxh64 checksum;
  checksum.update(&header, sizeof(header));
  checksum.update(sections.data(), sections.size_bytes());
  header.checksum = checksum.digest();
  return header;
}

}  // namespace

ModelWriter::ModelWriter(const std::string& path, std::span<const SectionSize> sections)
    : path_(path),
      file_(path, hosted::InPlace::kNever),
      data_offset_(0),
      data_end_(0),
      flush_begin_(0) {
  constexpr size_t kSectionsBehind = 2;  // data and metadata
  const size_t n_sections = sections.size() + kSectionsBehind;
  uint64_t end = sizeof(FileHeader) + n_sections * sizeof(SectionEntry);
  for (const SectionSize& section : sections) {
    const uint64_t offset = aligned(end);
    sections_.push_back({static_cast<uint32_t>(section.kind), 0, offset, section.bytes, 0});
    end = offset + section.bytes;
  }
  data_offset_ = aligned(end);
  data_end_ = data_offset_;
  flush_begin_ = data_offset_;
}

SectionEntry* ModelWriter::entry_of(SectionKind kind) {
  const auto found = std::find_if(
      sections_.begin(), sections_.end(),
      [&](const SectionEntry& entry) { return entry.kind == static_cast<uint32_t>(kind); });
  if (found == sections_.end()) throw std::logic_error("section was not announced");
  return &*found;
}

void ModelWriter::write_section(SectionKind kind, std::span<const uint8_t> bytes) {
  SectionEntry* entry = entry_of(kind);
  if (entry->bytes != bytes.size()) throw std::logic_error("section has another size");
  entry->checksum = xxh64(bytes.data(), bytes.size());
  file_.write(entry->offset, bytes);
}

void ModelWriter::append_chunk(const EncodedChunk& chunk) {
  const uint64_t offset = aligned(data_end_);
  chunks_.push_back({offset, static_cast<uint32_t>(chunk.stored.size()), chunk.raw_bytes,
                     static_cast<uint32_t>(chunk.compression), 0, chunk.checksum});
  file_.write(offset, chunk.stored);
  data_end_ = offset + chunk.stored.size();
  if (data_end_ - flush_begin_ < kFlushBytes) return;
  file_.start_flush(flush_begin_, data_end_ - flush_begin_);
  flush_begin_ = data_end_;
}

uint64_t ModelWriter::stored_bytes(uint32_t first, uint32_t n) const {
  uint64_t sum = 0;
  for (uint32_t i = first; i < first + n; ++i) sum += chunks_[i].stored_bytes;
  return sum;
}

void ModelWriter::write_header(uint64_t file_bytes) const {
  const FileHeader header = header_for(sections_, file_bytes);
  file_.write(0, bytes_of(std::span<const FileHeader>(&header, 1)));
  file_.write(sizeof(header), bytes_of(sections_));
}

uint64_t ModelWriter::finish(std::span<const uint8_t> metadata) {
  write_section(SectionKind::kChunkTable, bytes_of(chunks_));
  sections_.push_back(
      {static_cast<uint32_t>(SectionKind::kData), 0, data_offset_, data_end_ - data_offset_, 0});
  const uint64_t metadata_offset = aligned(data_end_);
  sections_.push_back(
      {static_cast<uint32_t>(SectionKind::kMetadata), 0, metadata_offset, metadata.size(), 0});
  write_section(SectionKind::kMetadata, metadata);
  const uint64_t file_bytes = metadata_offset + metadata.size();
  write_header(file_bytes);
  file_.flush(file_bytes);
  return file_bytes;
}

void ModelWriter::refuse_read_back() const {
  throw ProgramError(
      ExitCode::kIo,
      path_ + ": reads back differently from what was written; write to another disk");
}

std::vector<uint8_t> ModelWriter::read_section(SectionKind kind) const {
  std::vector<uint8_t> bytes;
  for (const SectionEntry& entry : sections_) {
    if (entry.kind != static_cast<uint32_t>(kind)) continue;
    bytes.resize(static_cast<size_t>(entry.bytes));
    file_.read(entry.offset, bytes);
    if (xxh64(bytes.data(), bytes.size()) != entry.checksum) refuse_read_back();
  }
  return bytes;
}

WrittenParts ModelWriter::read_back() const {
  const SectionEntry& last = sections_.back();
  const FileHeader wanted = header_for(sections_, last.offset + last.bytes);
  std::vector<uint8_t> front(sizeof(wanted) + sections_.size() * sizeof(SectionEntry));
  file_.read(0, front);
  if (std::memcmp(front.data(), &wanted, sizeof(wanted)) != 0 ||
      std::memcmp(front.data() + sizeof(wanted), sections_.data(), front.size() - sizeof(wanted)) !=
          0) {
    refuse_read_back();
  }
  for (const SectionKind kind :
       {SectionKind::kTensorDirectory, SectionKind::kChunkTable, SectionKind::kMetadata}) {
    static_cast<void>(read_section(kind));
  }
  WrittenParts parts = {};
  parts.config = read_section(SectionKind::kConfig);
  parts.tokenizer = read_section(SectionKind::kTokenizer);
  parts.chat_template = read_section(SectionKind::kChatTemplate);
  return parts;
}

}  // namespace cria::converter
