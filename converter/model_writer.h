// Writes a model file (quant/format/format.h): sections of known size first, then the chunks as
// they come, then the metadata. Nothing shows under the file's name before commit.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "converter/chunk_encoder.h"
#include "platforms/hosted/base/output_file.h"
#include "quant/format/format.h"

namespace cria::converter {

struct SectionSize {
  format::SectionKind kind;
  uint64_t bytes;
};

// Sections as they stand in a file; empty: there is none.
struct WrittenParts {
  std::vector<uint8_t> config;
  std::vector<uint8_t> tokenizer;
  std::vector<uint8_t> chat_template;
};

class ModelWriter {
 public:
  // sections are those before the data, in file order, the chunk table among them.
  // Throws hosted::OutputError, as all of this class.
  ModelWriter(const std::string& path, std::span<const SectionSize> sections);

  // Fills a section named in the constructor; bytes must have the size given there.
  void write_section(format::SectionKind kind, std::span<const uint8_t> bytes);

  // Adds a chunk after those that are there.
  void append_chunk(const EncodedChunk& chunk);
  // Bytes that chunks take in the file, which are there.
  [[nodiscard]] uint64_t stored_bytes(uint32_t first, uint32_t n) const;

  // Adds the chunk table and the metadata, completes the header, brings everything to the disk.
  // Returns the file's size.
  uint64_t finish(std::span<const uint8_t> metadata);
  // What the finished file's header, config and texts are, each part compared with its checksum and
  // the section table with what was to be written. Also throws ProgramError (kIo): a part is not
  // what was written.
  [[nodiscard]] WrittenParts read_back() const;
  void commit() { file_.commit(); }

 private:
  [[nodiscard]] format::SectionEntry* entry_of(format::SectionKind kind);
  void write_header(uint64_t file_bytes) const;
  [[noreturn]] void refuse_read_back() const;
  [[nodiscard]] std::vector<uint8_t> read_section(format::SectionKind kind) const;

  std::string path_;
  hosted::OutputFile file_;
  std::vector<format::SectionEntry> sections_;
  std::vector<format::ChunkEntry> chunks_;
  uint64_t data_offset_;
  uint64_t data_end_;
  uint64_t flush_begin_;  // of the chunks that the system was not told to bring to the disk
};

}  // namespace cria::converter
