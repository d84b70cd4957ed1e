#include "tests/support/model_surgery.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "quant/format/checksum.h"

namespace cria::test {
namespace {

// As much of the table as there is and as a reader would take.
std::vector<format::SectionEntry> section_table(std::span<const uint8_t> file) {
  format::FileHeader header;
  if (file.size() < sizeof header) return {};
  std::memcpy(&header, file.data(), sizeof header);
  const size_t room = (file.size() - sizeof header) / sizeof(format::SectionEntry);
  std::vector<format::SectionEntry> entries(
      std::min<size_t>({header.section_count, format::kMaxSections, room}));
  if (entries.empty()) return entries;
  std::memcpy(entries.data(), file.data() + sizeof header, entries.size() * sizeof entries[0]);
  return entries;
}

bool is_inside(std::span<const uint8_t> file, uint64_t offset, uint64_t bytes) {
  return offset <= file.size() && bytes <= file.size() - offset;
}

void mend_chunks(std::span<uint8_t> file, std::span<uint8_t> table) {
  // Entries that share bytes could ask for any amount of work.
  size_t n_left = 4 * file.size();
  for (size_t at = 0; at + sizeof(format::ChunkEntry) <= table.size();
       at += sizeof(format::ChunkEntry)) {
    format::ChunkEntry entry;
    std::memcpy(&entry, table.data() + at, sizeof entry);
    if (!is_inside(file, entry.offset, entry.stored_bytes) || entry.stored_bytes > n_left) continue;
    n_left -= entry.stored_bytes;
    entry.checksum = xxh64(file.data() + entry.offset, entry.stored_bytes);
    std::memcpy(table.data() + at, &entry, sizeof entry);
  }
}

}  // namespace

std::span<uint8_t> section_bytes(std::span<uint8_t> file, format::SectionKind kind) {
  for (const format::SectionEntry& entry : section_table(file)) {
    if (entry.kind == static_cast<uint32_t>(kind) && is_inside(file, entry.offset, entry.bytes)) {
      return file.subspan(entry.offset, entry.bytes);
    }
  }
  return {};
}

void mend_checksums(std::span<uint8_t> file) {
  if (file.size() < sizeof(format::FileHeader)) return;
  mend_chunks(file, section_bytes(file, format::SectionKind::kChunkTable));
  std::vector<format::SectionEntry> entries = section_table(file);
  for (format::SectionEntry& entry : entries) {
    if (entry.kind == static_cast<uint32_t>(format::SectionKind::kData)) continue;
    if (!is_inside(file, entry.offset, entry.bytes)) continue;
    entry.checksum = xxh64(file.data() + entry.offset, entry.bytes);
  }
  format::FileHeader header;
  std::memcpy(&header, file.data(), sizeof header);
  if (!entries.empty()) {
    std::memcpy(file.data() + sizeof header, entries.data(), entries.size() * sizeof entries[0]);
  }
  header.checksum = 0;
  Xxh64 hash;
  hash.update(&header, sizeof header);
  hash.update(entries.data(), entries.size() * sizeof entries[0]);
  header.checksum = hash.digest();
  std::memcpy(file.data(), &header, sizeof header);
}

void set_sliding_window(std::span<uint8_t> file, uint32_t window) {
  const std::span<uint8_t> section = section_bytes(file, format::SectionKind::kConfig);
  format::ModelScalars model;
  std::memcpy(&model, section.data(), sizeof model);
  for (uint32_t i = 0; i < model.n_kinds; ++i) {
    uint8_t* const place = section.data() + sizeof model + i * sizeof(format::LayerKind);
    format::LayerKind kind;
    std::memcpy(&kind, place, sizeof kind);
    const auto mixer = static_cast<format::Mixer>(kind.mixer);
    if (mixer == format::Mixer::kAttention || mixer == format::Mixer::kLatentAttention) {
      kind.window = window;
    }
    std::memcpy(place, &kind, sizeof kind);
  }
  mend_checksums(file);
}

}  // namespace cria::test
