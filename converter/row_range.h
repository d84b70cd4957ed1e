// Rows of a checkpoint's tensor as a tensor of their own: one of several matrices stored as one.
#pragma once

#include "converter/source_tensor.h"

namespace cria::converter {

class RowRange : public SourceTensor {
 public:
  // Rows [first, first + n) of whole, which has them and outlives this.
  RowRange(const SourceTensor& whole, uint64_t first, uint64_t n);

  [[nodiscard]] const std::filesystem::path& path() const override { return whole_.path(); }
  [[nodiscard]] std::string type_name() const override { return whole_.type_name(); }
  [[nodiscard]] std::string problem() const override { return whole_.problem(); }
  void read_rows(uint64_t first, size_t n, std::vector<uint8_t>* scratch,
                 float* values) const override {
    whole_.read_rows(first_ + first, n, scratch, values);
  }
  [[nodiscard]] uint32_t int4_group() const override { return whole_.int4_group(); }
  void read_int4(uint64_t first, size_t n, std::vector<uint8_t>* scratch, int8_t* codes,
                 float* scales) const override {
    whole_.read_int4(first_ + first, n, scratch, codes, scales);
  }

 private:
  const SourceTensor& whole_;
  uint64_t first_;
};

}  // namespace cria::converter
