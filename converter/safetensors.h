// Reader of the safetensors format: an 8-byte length, a JSON header that names tensors with their
// number type, shape and place, then the data. Everything in the header is checked when the file is
// opened; afterwards every tensor lies inside the file and has the bytes its shape asks for.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "converter/input_file.h"

namespace cria::converter {

enum class SourceType { kF32, kF16, kBf16 };

[[nodiscard]] constexpr uint64_t bytes_per_value(SourceType type) {
  return type == SourceType::kF32 ? 4 : 2;
}

struct SafetensorsEntry {
  std::string dtype;               // as the file spells it
  std::optional<SourceType> type;  // none: a number type the converter does not read
  std::vector<uint64_t> shape;
  uint64_t offset;  // from the start of the file
  uint64_t bytes;
};

class SafetensorsFile {
 public:
  // Throws ProgramError: kIo, or kInvalidInput for a header that is broken or lies.
  explicit SafetensorsFile(const std::filesystem::path& path);

  [[nodiscard]] const InputFile& file() const { return file_; }
  [[nodiscard]] const std::map<std::string, SafetensorsEntry>& tensors() const { return tensors_; }

 private:
  InputFile file_;
  std::map<std::string, SafetensorsEntry> tensors_;
};

}  // namespace cria::converter
