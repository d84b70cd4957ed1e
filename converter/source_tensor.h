// One tensor of a checkpoint, whatever file and number type it is in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "quant/format/format.h"

namespace cria::converter {

class SourceTensor;

// Where a row of a tensor comes from: for error lines.
struct RowOrigin {
  const SourceTensor* tensor;  // as its file has it
  const char* side;            // "row"
  uint64_t number;
};

class SourceTensor {
 public:
  // name   what its file calls it
  // shape  outermost side first
  SourceTensor(std::string name, std::vector<uint64_t> shape)
      : name_(std::move(name)), shape_(std::move(shape)) {}
  virtual ~SourceTensor() = default;
  SourceTensor(const SourceTensor&) = delete;
  SourceTensor& operator=(const SourceTensor&) = delete;

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const std::vector<uint64_t>& shape() const { return shape_; }
  // Rows that read_rows gives: of a vector, rows of one value; else as long as the innermost side.
  [[nodiscard]] uint64_t n_rows() const;
  [[nodiscard]] uint64_t n_cols() const { return shape_.size() < 2 ? 1 : shape_.back(); }

  // The file that holds it, for error lines.
  [[nodiscard]] virtual const std::filesystem::path& path() const = 0;
  // What the file calls its number type: "BF16".
  [[nodiscard]] virtual std::string type_name() const = 0;
  // Why its values cannot be read: "has dtype I64; ..."; empty: they can.
  [[nodiscard]] virtual std::string problem() const = 0;

  // values [n][n_cols()] = rows from first on, as f32, exactly what the file holds. scratch grows
  // to what the rows take in the file. problem() is empty and the rows are there. Throws
  // ProgramError (kIo). Any number of threads may call it, each with a scratch of its own.
  virtual void read_rows(uint64_t first, size_t n, std::vector<uint8_t>* scratch,
                         float* values) const = 0;

  // values [n][n_columns] = columns from first_column on of rows from first on; else as read_rows.
  // In a time in proportion to the values where the file has them apart, else to the rows.
  virtual void read_columns(uint64_t first, size_t n, uint64_t first_column, size_t n_columns,
                            std::vector<uint8_t>* scratch, float* values) const;
  // Rows that are best read together: a multiple of this.
  [[nodiscard]] virtual size_t rows_at_once() const { return 1; }
  // Where a row of its own comes from.
  [[nodiscard]] virtual RowOrigin origin(uint64_t row) const {
    return {this, shape_.size() < 2 ? "value" : "row", row};
  }

  // The format that holds every row exactly, where the file says that it was trained so: kBit1 or
  // kBit2.
  [[nodiscard]] virtual std::optional<format::NumberFormat> trained_format() const {
    return std::nullopt;
  }

  // Columns that share a scale where the file holds codes of -8..7; 0: it does not.
  [[nodiscard]] virtual uint32_t int4_group() const { return 0; }
  // As read_rows, before codes and scales are multiplied: codes [n][n_cols()], scales
  // [n][n_cols() / int4_group()]. int4_group() is not 0 and divides n_cols().
  virtual void read_int4(uint64_t first, size_t n, std::vector<uint8_t>* scratch, int8_t* codes,
                         float* scales) const;

 private:
  std::string name_;
  std::vector<uint64_t> shape_;
};

// "[128, 64]"
[[nodiscard]] std::string shape_text(const std::vector<uint64_t>& shape);

// Whether two tensors have one shape and the same bits as f32; both can be read.
[[nodiscard]] bool same_values(const SourceTensor& a, const SourceTensor& b);

}  // namespace cria::converter
