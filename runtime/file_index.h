// The checked skeleton of a model file: header, section table, config. Everything a file says is
// compared here with what its config implies before anything else uses it.
#pragma once

#include <cstdint>
#include <span>

#include "quant/format.h"
#include "quant/model_layout.h"
#include "runtime/status.h"

namespace cria {

struct Section {
  uint64_t offset;
  uint64_t bytes;
  uint64_t checksum;
};

struct FileIndex {
  format::ModelConfig config;
  Section tokenizer;      // bytes == 0: absent
  Section chat_template;  // bytes == 0: absent
  Section directory;
  Section chunk_table;
  Section metadata;  // bytes == 0: absent
  Section data;
  uint64_t fingerprint;  // the header's checksum: differs for every different file
  uint32_t n_chunks;
};

// Copies bytes [offset, offset + n_bytes) of the source, which must lie inside source.size.
[[nodiscard]] Status read_source(const cria_source& source, uint64_t offset, void* destination,
                                 size_t n_bytes);
// Pointer to mapped bytes, or null when the source maps nothing there.
[[nodiscard]] const uint8_t* map_source(const cria_source& source, uint64_t offset,
                                        uint64_t n_bytes);

// Checks header, section table (order, alignment, sizes, no gaps), config and that the sizes of
// directory and chunk table are those the config implies.
[[nodiscard]] Status open_index(const cria_source& source, FileIndex* index);

// Checksum of one section, through a small buffer.
[[nodiscard]] Status check_section(const cria_source& source, const Section& section);

// Checks the directory against the config, entry by entry, and its checksum.
[[nodiscard]] Status check_directory(const cria_source& source, const FileIndex& index);

// One chunk and where it belongs.
struct ChunkPlace {
  uint32_t tensor;         // place in the canonical order
  uint64_t tensor_offset;  // bytes from the start of the tensor's raw bytes
  uint32_t raw_bytes;
};

// Walks the chunks of the config's tensors in file order.
class ChunkWalk {
 public:
  // Starts at chunk first.
  ChunkWalk(const format::ModelConfig& config, uint32_t first);
  // Place of the current chunk; valid until the last one is passed.
  [[nodiscard]] ChunkPlace place() const;
  void advance();

 private:
  void enter_tensor(uint32_t tensor);

  const format::ModelConfig* config_;
  uint32_t tensor_ = 0;
  uint64_t code_bytes_ = 0;  // of the current tensor
  uint64_t total_bytes_ = 0;
  uint64_t offset_ = 0;
};

// Reads chunk entry i and checks it: place in the file right behind chunk i - 1, sizes, codec.
// raw_bytes is what ChunkWalk says of it.
[[nodiscard]] Status read_chunk_entry(const cria_source& source, const FileIndex& index, uint32_t i,
                                      uint32_t raw_bytes, format::ChunkEntry* entry);

}  // namespace cria
