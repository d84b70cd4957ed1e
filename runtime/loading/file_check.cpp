#include "runtime/loading/file_check.h"

#include <span>

#include "quant/format/align.h"
#include "quant/format/checksum.h"
#include "quant/format/metadata_check.h"
#include "runtime/loading/chunk_table.h"
#include "runtime/loading/directory.h"

namespace cria {
namespace {

constexpr size_t kBufferBytes = 1024;

Status check_metadata(const cria_source& source, const FileIndex& index) {
  const Section& section = index.metadata;
  Xxh64 hash;
  MetadataCheck check;
  uint8_t buffer[kBufferBytes];
  for (uint64_t done = 0; done < section.bytes;) {
    const uint64_t left = section.bytes - done;
    const size_t n = left < kBufferBytes ? static_cast<size_t>(left) : kBufferBytes;
    CRIA_TRY(read_source(source, section.offset + done, buffer, n));
    hash.update(buffer, n);
    check.add(buffer, n);
    done += n;
  }
  if (hash.digest() != section.checksum) return Status::kCorrupt;
  return check.holds() ? Status::kOk : Status::kInvalidModel;
}

// A section's bytes in copy or, where that is null, as they are mapped; their checksum holds.
Status bring_section(const cria_source& source, const Section& section, uint8_t* copy,
                     std::span<const uint8_t>* bytes) {
  const uint8_t* p = copy;
  const auto n = static_cast<size_t>(section.bytes);
  if (copy != nullptr) {
    CRIA_TRY(read_source(source, section.offset, copy, n));
  } else {
    p = map_source(source, section.offset, section.bytes);
    if (p == nullptr) return Status::kReadFailed;
    if (!is_aligned(p)) return Status::kMisaligned;
  }
  *bytes = {p, n};
  return xxh64(p, n) == section.checksum ? Status::kOk : Status::kCorrupt;
}

}  // namespace

Status check_tables(const cria_source& source, const FileIndex& index, uint64_t* at) {
  *at = index.directory.offset;
  CRIA_TRY(check_directory(source, index));
  *at = index.chunk_table.offset;
  CRIA_TRY(check_chunk_table(source, index));
  if (index.metadata.bytes == 0) return Status::kOk;
  *at = index.metadata.offset;
  return check_metadata(source, index);
}

Status open_text(const cria_source& source, const FileIndex& index, const TextMemory& memory,
                 TextTables* text, uint64_t* at) {
  *text = {};
  std::span<const uint8_t> bytes;
  if (index.tokenizer.bytes != 0) {
    *at = index.tokenizer.offset;
    CRIA_TRY(bring_section(source, index.tokenizer, memory.tokenizer, &bytes));
    CRIA_TRY(tokenizer_open(bytes, index.config.model->vocab_size, &text->tokenizer));
    text->has_tokenizer = true;
  }
  if (index.chat_template.bytes != 0) {
    *at = index.chat_template.offset;
    CRIA_TRY(bring_section(source, index.chat_template, memory.chat_template, &bytes));
    CRIA_TRY(chat_template_open(bytes, &text->chat_template));
    text->has_chat_template = text->has_tokenizer;
  }
  if (!text->has_tokenizer) return Status::kOk;
  return control_tokens_hold(text->tokenizer,
                             text->has_chat_template ? &text->chat_template : nullptr,
                             *index.config.model);
}

}  // namespace cria
