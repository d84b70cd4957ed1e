// The checked skeleton of a model file: header, section table, config. Everything a file says is
// compared here with what its config implies before anything else uses it.
#pragma once

#include <cstdint>
#include <span>

#include "quant/model/model_layout.h"
#include "runtime/base/status.h"

namespace cria {

struct Section {
  uint64_t offset;
  uint64_t bytes;
  uint64_t checksum;
};

struct FileIndex {
  Config config;          // a view of the bytes that open_index was given
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

// Checks header and section table, of which index receives the places of all sections but config,
// and its fingerprint.
[[nodiscard]] Status open_sections(const cria_source& source, FileIndex* index, Section* config,
                                   const char** refused, uint64_t* at);

// Checks header, section table (order, alignment, sizes, gaps), config, and that the sizes of
// directory, chunk table and data are those the config allows. Reads less than 6 KB.
//   config   receives the config section, of which the index keeps a view
//   refused  receives the name of the field or rule when the result is kInvalidModel, else null
//   at       receives the offset of the part being checked
[[nodiscard]] Status open_index(const cria_source& source, ConfigBytes* config, FileIndex* index,
                                const char** refused, uint64_t* at);

}  // namespace cria
