// Model files for tests: converted on the spot, held in memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "converter/options.h"
#include "tests/support/folders.h"

namespace cria::test {

using Bytes = std::vector<uint8_t>;

// A folder of this process under the system's temporary folder, removed when the process ends.
[[nodiscard]] std::filesystem::path temporary_folder();

[[nodiscard]] Bytes read_file(const std::filesystem::path& path);
// Little-endian f32 values of a whole file.
[[nodiscard]] std::vector<float> read_floats(const std::filesystem::path& path);

struct ConvertRequest {
  format::NumberFormat weights = format::NumberFormat::kF32;
  uint16_t group_size = 0;
  format::Compression compression = format::Compression::kZstd;
  bool tokenizer = false;
  ScaleSigns scales = ScaleSigns::kPositive;
  std::string chat_template = {};  // Jinja; empty: the checkpoint's own
};

// Converts a checkpoint folder and returns the model file's bytes.
[[nodiscard]] Bytes convert_folder(const std::filesystem::path& folder,
                                   const ConvertRequest& request);

}  // namespace cria::test
