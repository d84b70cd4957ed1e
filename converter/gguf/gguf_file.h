// Reader of one GGUF file: a magic number, versions and counts, then named values (the metadata),
// then the tensors' names, shapes, types and places, then their data. Everything is checked when
// the file is opened; afterwards every tensor of a known type lies inside the file, apart from the
// others, and has the bytes its shape asks for.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "converter/gguf/gguf_blocks.h"
#include "converter/input_file.h"
#include "converter/json_input.h"

namespace cria::converter {

struct GgufEntry {
  std::string name;
  std::vector<uint64_t> shape;  // outermost side first: the other way round than the file has it
  uint32_t type_id;
  const GgufType* type;  // nullptr: none that is known; bytes is 0 then
  uint64_t offset;       // from the start of the file
  uint64_t bytes;
};

class GgufFile {
 public:
  // Throws ProgramError: kIo, or kInvalidInput for a file of another kind, a version that is not
  // read, or a header that is broken or lies.
  explicit GgufFile(const std::filesystem::path& path);

  [[nodiscard]] const InputFile& file() const { return file_; }
  [[nodiscard]] uint32_t version() const { return version_; }
  // One object: numbers, truth values, texts (any bytes), and lists of one of them. What the file
  // says of each layer alike (head counts, the feed-forward's length) is said once.
  [[nodiscard]] const Json& metadata() const { return *metadata_; }
  [[nodiscard]] const std::vector<GgufEntry>& tensors() const { return tensors_; }

 private:
  InputFile file_;
  uint32_t version_ = 0;
  std::shared_ptr<const Json> metadata_;
  std::vector<GgufEntry> tensors_;
};

// Whether a file begins as GGUF does, of any version and byte order.
[[nodiscard]] bool is_gguf(const InputFile& file);

}  // namespace cria::converter
