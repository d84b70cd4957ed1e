#include "runtime/loading/directory.h"

#include "quant/format/checksum.h"

namespace cria {
namespace {

Status read_entry_at(const cria_source& source, const FileIndex& index, uint32_t tensor,
                     format::TensorEntry* entry) {
  return read_source(source, index.directory.offset + uint64_t{tensor} * sizeof *entry, entry,
                     sizeof *entry);
}

}  // namespace

Status check_directory(const cria_source& source, const FileIndex& index) {
  Xxh64 hash;
  bool holds = true;
  uint32_t next_chunk = 0;
  uint16_t counts[format::kMaxCounts] = {};
  static_assert(format::kMaxLayers <= UINT16_MAX);
  TensorWalk walk(index.config);
  const uint32_t n_tensors = tensor_count(index.config);
  for (uint32_t i = 0; i < n_tensors; ++i) {
    format::TensorEntry entry;
    CRIA_TRY(read_entry_at(source, index, i, &entry));
    hash.update(&entry, sizeof entry);
    TensorSpec spec;
    holds =
        holds && entry.first_chunk == next_chunk && read_entry(index.config, &walk, entry, &spec);
    if (!holds) continue;
    if (spec.form == TensorForm::kMatrix) ++counts[count_of(index.config, spec)];
    next_chunk += entry.n_chunks;
  }
  if (hash.digest() != index.directory.checksum) return Status::kCorrupt;
  for (size_t i = 0; i < index.config.counts.size(); ++i) {
    holds = holds && counts[i] == index.config.counts[i].count;
  }
  return holds ? Status::kOk : Status::kInvalidModel;
}

Status read_listed_tensor(const cria_source& source, const FileIndex& index, uint32_t tensor,
                          ListedTensor* listed) {
  format::TensorEntry entry;
  CRIA_TRY(read_entry_at(source, index, tensor, &entry));
  listed->first_chunk = entry.first_chunk;
  TensorWalk walk(index.config);
  walk.go_to(tensor);
  const bool holds = read_entry(index.config, &walk, entry, &listed->spec) &&
                     entry.first_chunk < index.n_chunks &&
                     entry.n_chunks <= index.n_chunks - entry.first_chunk;
  return holds ? Status::kOk : Status::kCorrupt;
}

Status find_tensor_of_chunk(const cria_source& source, const FileIndex& index, uint32_t number,
                            uint32_t* tensor) {
  uint32_t first = 0;
  for (uint32_t n = tensor_count(index.config); n > 1;) {
    const uint32_t half = n / 2;
    format::TensorEntry entry;
    CRIA_TRY(read_entry_at(source, index, first + half, &entry));
    if (entry.first_chunk <= number) {
      first += half;
      n -= half;
    } else {
      n = half;
    }
  }
  *tensor = first;
  return Status::kOk;
}

}  // namespace cria
