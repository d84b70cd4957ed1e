// A tensor as a safetensors file has it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "converter/safetensors.h"
#include "converter/source_tensor.h"

namespace cria::converter {

class SafetensorsTensor : public SourceTensor {
 public:
  // file and entry have to outlive it.
  SafetensorsTensor(const std::string& name, const InputFile& file, const SafetensorsEntry& entry)
      : SourceTensor(name, entry.shape), file_(file), entry_(entry) {}

  [[nodiscard]] const std::filesystem::path& path() const override { return file_.path(); }
  [[nodiscard]] std::string type_name() const override { return entry_.dtype; }
  [[nodiscard]] std::string problem() const override;
  void read_rows(uint64_t first, size_t n, std::vector<uint8_t>* scratch,
                 float* values) const override;
  void read_columns(uint64_t first, size_t n, uint64_t first_column, size_t n_columns,
                    std::vector<uint8_t>* scratch, float* values) const override;

 private:
  const InputFile& file_;
  const SafetensorsEntry& entry_;
};

}  // namespace cria::converter
