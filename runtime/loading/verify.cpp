// cria_verify: all that cria_open checks, by the same functions, for a file that nobody runs.
#include "quant/format/align.h"
#include "quant/format/all_zero.h"
#include "quant/model/memory_plan.h"
#include "runtime/loading/chunk_loader.h"
#include "runtime/loading/file_check.h"

namespace cria {
namespace {

// The scratch memory holds the config, then the tables of text, later what chunks are loaded with.
constexpr uint64_t kChunkBytes =
    sizeof(ConfigBytes) + kDecompressorBytes + kStagingBytes + format::kChunkRawBytes;
static_assert(kChunkBytes <= CRIA_VERIFY_SCRATCH_BYTES);

uint64_t scratch_needed(uint64_t tokenizer_bytes, uint64_t chat_template_bytes) {
  const uint64_t n_bytes =
      sizeof(ConfigBytes) + aligned(tokenizer_bytes) + aligned(chat_template_bytes);
  return n_bytes > CRIA_VERIFY_SCRATCH_BYTES ? n_bytes : CRIA_VERIFY_SCRATCH_BYTES;
}

struct Verification {
  const cria_source* source;
  ConfigBytes* config;
  FileIndex index;
  uint8_t* scratch;      // after the config
  size_t scratch_bytes;  // the config included
  cria_progress progress;
  void* progress_context;
  uint64_t bad_offset;
};

Status check_text(Verification* v) {
  const FileIndex& index = v->index;
  const TextMemory memory = {v->scratch, v->scratch + aligned(index.tokenizer.bytes)};
  TextTables text;
  return open_text(*v->source, index, memory, &text, &v->bad_offset);
}

Status check_chunks(Verification* v) {
  const FileIndex& index = v->index;
  ChunkScratch scratch = chunk_scratch(v->scratch, 0);
  uint8_t* raw = scratch.staging + kStagingBytes;
  ChunkWalk walk(*v->source, index);
  v->bad_offset = index.directory.offset;
  CRIA_TRY(walk.go_to(0));
  for (uint32_t i = 0; i < index.n_chunks; ++i) {
    format::ChunkEntry entry;
    v->bad_offset = index.chunk_table.offset + uint64_t{i} * sizeof entry;
    CRIA_TRY(read_chunk_entry(*v->source, index, walk.place(), &entry));
    v->bad_offset = entry.offset;
    CRIA_TRY(load_chunk(*v->source, index, walk.place(), &scratch, raw));
    const uint64_t done = entry.offset + entry.stored_bytes - index.data.offset;
    if (v->progress != nullptr && v->progress(v->progress_context, done, index.data.bytes) != 0) {
      return Status::kCancelled;
    }
    v->bad_offset = index.directory.offset;
    CRIA_TRY(walk.advance());
  }
  return Status::kOk;
}

Status verify(Verification* v) {
  if (v->scratch_bytes < sizeof(ConfigBytes)) return Status::kMemoryTooSmall;
  const char* refused = nullptr;
  CRIA_TRY(open_index(*v->source, v->config, &v->index, &refused, &v->bad_offset));
  if (v->scratch_bytes < scratch_needed(v->index.tokenizer.bytes, v->index.chat_template.bytes)) {
    return Status::kMemoryTooSmall;
  }
  CRIA_TRY(check_tables(*v->source, v->index, &v->bad_offset));
  CRIA_TRY(check_text(v));
  return check_chunks(v);
}

}  // namespace
}  // namespace cria

extern "C" cria_status cria_verify_required(const cria_model_info* info, size_t* n_bytes) {
  if (info == nullptr || n_bytes == nullptr || !cria::all_zero(info->reserved)) {
    return CRIA_INVALID_ARGUMENT;
  }
  const uint64_t file_bytes = info->file_bytes;
  if (info->tokenizer_bytes > file_bytes || info->chat_template_bytes > file_bytes ||
      file_bytes > cria::format::kMaxFileBytes) {
    return CRIA_INVALID_ARGUMENT;
  }
  const uint64_t needed = cria::scratch_needed(info->tokenizer_bytes, info->chat_template_bytes);
  if (needed > SIZE_MAX) return CRIA_UNSUPPORTED;
  *n_bytes = static_cast<size_t>(needed);
  return CRIA_OK;
}

extern "C" cria_status cria_verify(const cria_source* source, void* scratch, size_t scratch_bytes,
                                   cria_progress progress, void* progress_context,
                                   uint64_t* bad_offset) {
  if (source == nullptr || scratch == nullptr ||
      (source->map == nullptr && source->read == nullptr)) {
    return CRIA_INVALID_ARGUMENT;
  }
  if (!cria::is_aligned(scratch)) return CRIA_MISALIGNED;
  cria::Verification v = {};
  v.source = source;
  v.config = static_cast<cria::ConfigBytes*>(scratch);
  v.scratch = static_cast<uint8_t*>(scratch) + sizeof(cria::ConfigBytes);
  v.scratch_bytes = scratch_bytes;
  v.progress = progress;
  v.progress_context = progress_context;
  const auto status = static_cast<cria_status>(cria::verify(&v));
  if (bad_offset != nullptr) *bad_offset = status == CRIA_OK ? 0 : v.bad_offset;
  return status;
}
