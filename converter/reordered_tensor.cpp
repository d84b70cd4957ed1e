#include "converter/reordered_tensor.h"

namespace cria::converter {
namespace {

class PairedRows : public SourceTensor {
 public:
  PairedRows(std::unique_ptr<SourceTensor> stored, uint32_t head_dim)
      : SourceTensor(stored->name(), stored->shape()),
        stored_(std::move(stored)),
        head_dim_(head_dim) {}

  [[nodiscard]] const std::filesystem::path& path() const override { return stored_->path(); }
  [[nodiscard]] std::string type_name() const override { return stored_->type_name(); }
  [[nodiscard]] std::string problem() const override { return stored_->problem(); }
  [[nodiscard]] uint32_t int4_group() const override { return stored_->int4_group(); }

  void read_rows(uint64_t first, size_t n, std::vector<uint8_t>* scratch,
                 float* values) const override {
    const uint64_t cols = n_cols();
    for (size_t i = 0; i < n; ++i) {
      stored_->read_rows(stored_row(first + i), 1, scratch, values + i * cols);
    }
  }

  void read_int4(uint64_t first, size_t n, std::vector<uint8_t>* scratch, int8_t* codes,
                 float* scales) const override {
    const uint64_t cols = n_cols();
    const uint64_t groups = cols / int4_group();
    for (size_t i = 0; i < n; ++i) {
      stored_->read_int4(stored_row(first + i), 1, scratch, codes + i * cols, scales + i * groups);
    }
  }

 private:
  [[nodiscard]] uint64_t stored_row(uint64_t row) const {
    const uint64_t in_head = row % head_dim_;
    const uint64_t half = head_dim_ / 2;
    return row - in_head + in_head % half * 2 + in_head / half;
  }

  std::unique_ptr<SourceTensor> stored_;
  uint32_t head_dim_;
};

}  // namespace

std::unique_ptr<SourceTensor> without_pairs(std::unique_ptr<SourceTensor> tensor,
                                            uint32_t head_dim) {
  return std::make_unique<PairedRows>(std::move(tensor), head_dim);
}

}  // namespace cria::converter
