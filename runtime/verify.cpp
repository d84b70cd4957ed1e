// cria_verify: every byte of a model file is either under a checksum that holds or checked to be
// zero, and every table means something.
#include "quant/memory_plan.h"
#include "runtime/chunk_loader.h"
#include "runtime/file_index.h"
#include "runtime/tokenizer.h"

namespace cria {
namespace {

struct Verification {
  const cria_source* source;
  FileIndex index;
  ChunkScratch scratch;
  uint8_t* raw;  // [kChunkRawBytes]
  void (*progress)(void* context, uint64_t done, uint64_t total);
  void* progress_context;
  uint64_t bad_offset;
};

// Bytes [begin, end) of the file must be zero: at most an alignment's gap.
Status check_gap(Verification* v, uint64_t begin, uint64_t end) {
  uint8_t gap[format::kAlignment];
  if (end <= begin) return Status::kOk;
  v->bad_offset = begin;
  if (end - begin > sizeof gap) return Status::kCorrupt;
  const auto n = static_cast<size_t>(end - begin);
  CRIA_TRY(read_source(*v->source, begin, gap, n));
  for (size_t i = 0; i < n; ++i) {
    if (gap[i] != 0) return Status::kCorrupt;
  }
  return Status::kOk;
}

// The gap before every section: from the end of the one that ends last before it.
Status check_section_gaps(Verification* v) {
  format::FileHeader header;
  CRIA_TRY(read_source(*v->source, 0, &header, sizeof header));
  uint64_t end = sizeof header + header.section_count * sizeof(format::SectionEntry);
  for (uint32_t i = 0; i < header.section_count; ++i) {
    format::SectionEntry e;
    CRIA_TRY(read_source(*v->source, sizeof header + i * sizeof e, &e, sizeof e));
    CRIA_TRY(check_gap(v, end, e.offset));
    end = e.offset + e.bytes;
  }
  return Status::kOk;
}

// Opens a section's tables where they can be had in one piece: mapped, or small enough for raw.
template <typename Open>
Status check_tables(Verification* v, const Section& section, const Open& open) {
  if (section.bytes == 0) return Status::kOk;
  v->bad_offset = section.offset;
  CRIA_TRY(check_section(*v->source, section));
  const uint8_t* bytes = map_source(*v->source, section.offset, section.bytes);
  if (bytes == nullptr && section.bytes <= format::kChunkRawBytes) {
    CRIA_TRY(read_source(*v->source, section.offset, v->raw, static_cast<size_t>(section.bytes)));
    bytes = v->raw;
  }
  // Larger tables of a source that maps nothing are checked when a session copies them.
  if (bytes == nullptr) return Status::kOk;
  return open(std::span<const uint8_t>(bytes, static_cast<size_t>(section.bytes)));
}

Status check_chunks(Verification* v) {
  const FileIndex& index = v->index;
  ChunkWalk walk(index.config, 0);
  uint64_t end = index.data.offset;
  for (uint32_t i = 0; i < index.n_chunks; ++i, walk.advance()) {
    const uint32_t raw_bytes = walk.place().raw_bytes;
    format::ChunkEntry entry;
    v->bad_offset = index.chunk_table.offset + uint64_t{i} * sizeof entry;
    CRIA_TRY(read_chunk_entry(*v->source, index, i, raw_bytes, &entry));
    CRIA_TRY(check_gap(v, end, entry.offset));
    v->bad_offset = entry.offset;
    CRIA_TRY(load_chunk(*v->source, index, i, raw_bytes, v->scratch, v->raw));
    end = entry.offset + entry.stored_bytes;
    if (v->progress != nullptr) {
      v->progress(v->progress_context, end - index.data.offset, index.data.bytes);
    }
  }
  return Status::kOk;
}

Status verify(Verification* v) {
  const cria_source& source = *v->source;
  CRIA_TRY(open_index(source, &v->index));
  const FileIndex& index = v->index;
  CRIA_TRY(check_section_gaps(v));
  v->bad_offset = index.directory.offset;
  CRIA_TRY(check_directory(source, index));
  v->bad_offset = index.chunk_table.offset;
  CRIA_TRY(check_section(source, index.chunk_table));
  if (index.metadata.bytes != 0) {
    v->bad_offset = index.metadata.offset;
    CRIA_TRY(check_section(source, index.metadata));
  }
  CRIA_TRY(check_tables(v, index.tokenizer, [&](std::span<const uint8_t> bytes) {
    Tokenizer tokenizer;
    return tokenizer_open(bytes, index.config.vocab_size, &tokenizer);
  }));
  CRIA_TRY(check_tables(v, index.chat_template, [&](std::span<const uint8_t> bytes) {
    ChatTemplate chat;
    return chat_template_open(bytes, &chat);
  }));
  return check_chunks(v);
}

}  // namespace
}  // namespace cria

extern "C" cria_status cria_verify(const cria_source* source, void* scratch, size_t scratch_bytes,
                                   void (*progress)(void* context, uint64_t done, uint64_t total),
                                   void* progress_context, uint64_t* bad_offset) {
  constexpr uint64_t kNeeded =
      cria::kDecompressorBytes + cria::kStagingBytes + cria::format::kChunkRawBytes;
  static_assert(kNeeded <= CRIA_VERIFY_SCRATCH_BYTES);
  if (source == nullptr || scratch == nullptr ||
      (source->map == nullptr && source->read == nullptr)) {
    return CRIA_INVALID_ARGUMENT;
  }
  if (reinterpret_cast<uintptr_t>(scratch) % cria::format::kAlignment != 0) return CRIA_MISALIGNED;
  if (scratch_bytes < kNeeded) return CRIA_MEMORY_TOO_SMALL;
  auto* p = static_cast<uint8_t*>(scratch);
  cria::Verification v = {};
  v.source = source;
  v.scratch = {p, p + cria::kDecompressorBytes};
  v.raw = p + cria::kDecompressorBytes + cria::kStagingBytes;
  v.progress = progress;
  v.progress_context = progress_context;
  const auto status = static_cast<cria_status>(cria::verify(&v));
  if (bad_offset != nullptr) *bad_offset = status == CRIA_OK ? 0 : v.bad_offset;
  return status;
}
