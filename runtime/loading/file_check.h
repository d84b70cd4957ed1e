// The parts of a model file that every reader checks before it uses them. cria_open and cria_verify
// both call these, so that they accept the same files.
#pragma once

#include <cstdint>

#include "runtime/loading/file_index.h"
#include "runtime/text/tokenizer.h"

namespace cria {

// Tensor directory, chunk table and metadata: for each its checksum (kCorrupt), then its rules
// (kInvalidModel). at receives the offset of the part being checked.
[[nodiscard]] Status check_tables(const cria_source& source, const FileIndex& index, uint64_t* at);

// Tokenizer and chat template as they will be used.
struct TextTables {
  bool has_tokenizer;
  bool has_chat_template;
  Tokenizer tokenizer;
  ChatTemplate chat_template;
};

// Where the sections' bytes are used: in memory they are copied to, each [section bytes rounded up
// to 64] and 64-byte aligned, or, where that is null, where the source maps them.
struct TextMemory {
  uint8_t* tokenizer;
  uint8_t* chat_template;
};

// Checks both sections, checksum first, and points text into them. kMisaligned where the source
// maps an address that is not 64-byte aligned.
[[nodiscard]] Status open_text(const cria_source& source, const FileIndex& index,
                               const TextMemory& memory, TextTables* text, uint64_t* at);

}  // namespace cria
