#include "converter/tensor_views.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "converter/memory_size.h"

namespace cria::converter {
namespace {

// What all views have of the tensor that they are of, or of the first of several.
class TensorView : public SourceTensor {
 public:
  TensorView(const SourceTensor& whole, std::vector<uint64_t> shape)
      : SourceTensor(whole.name(), std::move(shape)), whole_(whole) {}

  [[nodiscard]] const std::filesystem::path& path() const override { return whole_.path(); }
  [[nodiscard]] std::string type_name() const override { return whole_.type_name(); }
  [[nodiscard]] std::string problem() const override { return whole_.problem(); }

 protected:
  const SourceTensor& whole_;
};

std::vector<uint64_t> with_rows(const SourceTensor& whole, uint64_t n_rows) {
  if (whole.shape().size() < 2) return {n_rows};
  return {n_rows, whole.n_cols()};
}

class PickedRows : public TensorView {
 public:
  PickedRows(const SourceTensor& whole, const RowGroups& groups,
             std::unique_ptr<SourceTensor> owned)
      : TensorView(whole, with_rows(whole, whole.n_rows() / groups.n_stored * groups.n)),
        owned_(std::move(owned)),
        groups_(groups) {}

  void read_rows(uint64_t first, size_t n, std::vector<uint8_t>* scratch,
                 float* values) const override {
    for_runs(first, n, [&](uint64_t stored, size_t at, size_t n_run) {
      whole_.read_rows(stored, n_run, scratch, values + at * n_cols());
    });
  }
  void read_columns(uint64_t first, size_t n, uint64_t first_column, size_t n_columns,
                    std::vector<uint8_t>* scratch, float* values) const override {
    for_runs(first, n, [&](uint64_t stored, size_t at, size_t n_run) {
      whole_.read_columns(stored, n_run, first_column, n_columns, scratch, values + at * n_columns);
    });
  }
  [[nodiscard]] RowOrigin origin(uint64_t row) const override {
    return whole_.origin(stored_row(row));
  }
  [[nodiscard]] std::optional<format::NumberFormat> trained_format() const override {
    return whole_.trained_format();
  }
  [[nodiscard]] uint32_t int4_group() const override { return whole_.int4_group(); }
  void read_int4(uint64_t first, size_t n, std::vector<uint8_t>* scratch, int8_t* codes,
                 float* scales) const override {
    for_runs(first, n, [&](uint64_t stored, size_t at, size_t n_run) {
      whole_.read_int4(stored, n_run, scratch, codes + at * n_cols(),
                       scales + at * (n_cols() / int4_group()));
    });
  }

 private:
  [[nodiscard]] uint64_t stored_row(uint64_t row) const {
    uint64_t in_group = row % groups_.n;
    const uint64_t n_plain = groups_.n - groups_.n_paired;
    if (in_group >= n_plain) {
      const uint64_t half = groups_.n_paired / 2;
      const uint64_t in_pairs = in_group - n_plain;
      in_group = n_plain + in_pairs % half * 2 + in_pairs / half;
    }
    return row / groups_.n * groups_.n_stored + groups_.first + in_group;
  }

  // take(stored, at, n_run) for rows that lie one after the other.
  template <typename Take>
  void for_runs(uint64_t first, size_t n, const Take& take) const {
    for (size_t at = 0; at < n;) {
      const uint64_t stored = stored_row(first + at);
      size_t n_run = 1;
      while (at + n_run < n && stored_row(first + at + n_run) == stored + n_run) ++n_run;
      take(stored, at, n_run);
      at += n_run;
    }
  }

  std::unique_ptr<SourceTensor> owned_;  // whole_, or nullptr
  RowGroups groups_;
};

class TurnedColumns : public TensorView {
 public:
  TurnedColumns(const SourceTensor& whole, uint64_t n_rows, uint64_t first, uint64_t n)
      : TensorView(whole, {whole.n_rows() / n_rows * n, n_rows}), first_(first), n_(n) {}

  // A stored row is read once for so many of these.
  [[nodiscard]] size_t rows_at_once() const override { return kRowsAtOnce; }

  void read_rows(uint64_t first, size_t n, std::vector<uint8_t>* scratch,
                 float* values) const override {
    const size_t cols = memory_size(n_cols());
    std::vector<float> strip;
    for (size_t at = 0; at < n;) {
      const uint64_t group = (first + at) / n_;
      const uint64_t column = (first + at) % n_;
      const auto n_run = static_cast<size_t>(std::min<uint64_t>(n - at, n_ - column));
      const size_t n_strip = std::max<size_t>(1, kStripValues / n_run);
      for (size_t row = 0; row < cols; row += n_strip) {
        const size_t n_rows = std::min(n_strip, cols - row);
        strip.resize(n_rows * n_run);
        whole_.read_columns(group * cols + row, n_rows, first_ + column, n_run, scratch,
                            strip.data());
        for (size_t r = 0; r < n_rows; ++r) {
          for (size_t c = 0; c < n_run; ++c) {
            values[(at + c) * cols + row + r] = strip[r * n_run + c];
          }
        }
      }
      at += n_run;
    }
  }
  [[nodiscard]] RowOrigin origin(uint64_t row) const override {
    return {whole_.origin(row / n_ * n_cols()).tensor, "column", first_ + row % n_};
  }

 private:
  static constexpr size_t kRowsAtOnce = 128;
  static constexpr size_t kStripValues = 1 << 14;

  uint64_t first_;  // column
  uint64_t n_;      // columns of a group
};

class JoinedTensors : public TensorView {
 public:
  explicit JoinedTensors(std::vector<const SourceTensor*> parts)
      : TensorView(*parts.front(),
                   with_rows(*parts.front(), parts.front()->n_rows() * parts.size())),
        parts_(std::move(parts)) {}

  [[nodiscard]] size_t rows_at_once() const override { return whole_.rows_at_once(); }

  void read_rows(uint64_t first, size_t n, std::vector<uint8_t>* scratch,
                 float* values) const override {
    for_parts(first, n, [&](const SourceTensor& part, uint64_t row, size_t at, size_t n_run) {
      part.read_rows(row, n_run, scratch, values + at * n_cols());
    });
  }
  void read_columns(uint64_t first, size_t n, uint64_t first_column, size_t n_columns,
                    std::vector<uint8_t>* scratch, float* values) const override {
    for_parts(first, n, [&](const SourceTensor& part, uint64_t row, size_t at, size_t n_run) {
      part.read_columns(row, n_run, first_column, n_columns, scratch, values + at * n_columns);
    });
  }
  [[nodiscard]] RowOrigin origin(uint64_t row) const override {
    return parts_[static_cast<size_t>(row / whole_.n_rows())]->origin(row % whole_.n_rows());
  }
  [[nodiscard]] std::optional<format::NumberFormat> trained_format() const override {
    const auto found = whole_.trained_format();
    const bool are_alike = std::all_of(parts_.begin(), parts_.end(), [found](const auto* part) {
      return part->trained_format() == found;
    });
    return are_alike ? found : std::nullopt;
  }
  // Codes of all parts or of none.
  [[nodiscard]] uint32_t int4_group() const override {
    const uint32_t group = whole_.int4_group();
    const bool are_alike = std::all_of(parts_.begin(), parts_.end(), [group](const auto* part) {
      return part->int4_group() == group;
    });
    return are_alike ? group : 0;
  }
  void read_int4(uint64_t first, size_t n, std::vector<uint8_t>* scratch, int8_t* codes,
                 float* scales) const override {
    const uint64_t groups = n_cols() / whole_.int4_group();
    for_parts(first, n, [&](const SourceTensor& part, uint64_t row, size_t at, size_t n_run) {
      part.read_int4(row, n_run, scratch, codes + at * n_cols(), scales + at * groups);
    });
  }

 private:
  template <typename Take>
  void for_parts(uint64_t first, size_t n, const Take& take) const {
    const uint64_t n_rows = whole_.n_rows();
    for (size_t at = 0; at < n;) {
      const uint64_t row = (first + at) % n_rows;
      const auto n_run = static_cast<size_t>(std::min<uint64_t>(n - at, n_rows - row));
      take(*parts_[static_cast<size_t>((first + at) / n_rows)], row, at, n_run);
      at += n_run;
    }
  }

  std::vector<const SourceTensor*> parts_;
};

class ReorderedRows : public TensorView {
 public:
  ReorderedRows(const SourceTensor& whole, std::vector<RowRange> ranges, uint64_t n_rows)
      : TensorView(whole, with_rows(whole, n_rows)), ranges_(std::move(ranges)) {}

  void read_rows(uint64_t first, size_t n, std::vector<uint8_t>* scratch,
                 float* values) const override {
    for_runs(first, n, [&](uint64_t stored, size_t at, size_t n_run) {
      whole_.read_rows(stored, n_run, scratch, values + at * n_cols());
    });
  }
  void read_columns(uint64_t first, size_t n, uint64_t first_column, size_t n_columns,
                    std::vector<uint8_t>* scratch, float* values) const override {
    for_runs(first, n, [&](uint64_t stored, size_t at, size_t n_run) {
      whole_.read_columns(stored, n_run, first_column, n_columns, scratch, values + at * n_columns);
    });
  }
  [[nodiscard]] std::optional<format::NumberFormat> trained_format() const override {
    return whole_.trained_format();
  }
  [[nodiscard]] RowOrigin origin(uint64_t row) const override {
    RowOrigin found;
    for_runs(row, 1, [&](uint64_t stored, size_t, size_t) { found = whole_.origin(stored); });
    return found;
  }

 private:
  // take(stored, at, n_run) for rows [first, first + n) that lie one after the other.
  template <typename Take>
  void for_runs(uint64_t first, size_t n, const Take& take) const {
    uint64_t begin = 0;  // of a range
    for (const RowRange& range : ranges_) {
      const uint64_t from = std::max(first, begin);
      const uint64_t to = std::min(first + n, begin + range.n);
      if (from < to) {
        take(range.first + (from - begin), static_cast<size_t>(from - first),
             static_cast<size_t>(to - from));
      }
      begin += range.n;
    }
  }

  std::vector<RowRange> ranges_;
};

class ReorderedColumns : public TensorView {
 public:
  ReorderedColumns(const SourceTensor& whole, std::vector<RowRange> ranges)
      : TensorView(whole, whole.shape()), ranges_(std::move(ranges)) {}

  void read_rows(uint64_t first, size_t n, std::vector<uint8_t>* scratch,
                 float* values) const override {
    const size_t cols = memory_size(n_cols());
    std::vector<float> row(cols);
    whole_.read_rows(first, n, scratch, values);
    for (size_t i = 0; i < n; ++i, values += cols) {
      std::copy_n(values, cols, row.begin());
      float* to = values;
      for (const RowRange& range : ranges_) {
        to = std::copy_n(row.begin() + static_cast<ptrdiff_t>(range.first), range.n, to);
      }
    }
  }
  [[nodiscard]] RowOrigin origin(uint64_t row) const override { return whole_.origin(row); }

 private:
  std::vector<RowRange> ranges_;
};

// A tensor of which each value becomes change(value).
template <typename Change>
class Changed : public TensorView {
 public:
  Changed(const SourceTensor& whole, const Change& change)
      : TensorView(whole, whole.shape()), change_(change) {}

  void read_rows(uint64_t first, size_t n, std::vector<uint8_t>* scratch,
                 float* values) const override {
    whole_.read_rows(first, n, scratch, values);
    std::transform(values, values + n * memory_size(n_cols()), values, change_);
  }
  [[nodiscard]] RowOrigin origin(uint64_t row) const override { return whole_.origin(row); }

 private:
  Change change_;
};

template <typename Change>
std::unique_ptr<SourceTensor> changed(const SourceTensor& whole, const Change& change) {
  return std::make_unique<Changed<Change>>(whole, change);
}

class Ones : public SourceTensor {
 public:
  explicit Ones(uint64_t n) : SourceTensor("ones", {n}) {}

  [[nodiscard]] const std::filesystem::path& path() const override { return path_; }
  [[nodiscard]] std::string type_name() const override { return "F32"; }
  [[nodiscard]] std::string problem() const override { return ""; }
  void read_rows(uint64_t /*first*/, size_t n, std::vector<uint8_t>* /*scratch*/,
                 float* values) const override {
    std::fill_n(values, n, 1.0F);
  }

 private:
  std::filesystem::path path_;  // of no file
};

class SplitRows : public TensorView {
 public:
  SplitRows(const SourceTensor& whole, uint64_t n)
      : TensorView(whole, {whole.n_rows() * n, whole.n_cols() / n}), n_(n) {}

  void read_rows(uint64_t first, size_t n, std::vector<uint8_t>* scratch,
                 float* values) const override {
    for (size_t at = 0; at < n;) {
      const uint64_t row = (first + at) / n_;
      const uint64_t in_row = (first + at) % n_;
      const uint64_t n_whole = in_row == 0 ? (n - at) / n_ : 0;
      uint64_t n_run = n_whole * n_;
      if (n_whole != 0) {
        whole_.read_rows(row, static_cast<size_t>(n_whole), scratch, values + at * n_cols());
      } else {
        n_run = std::min<uint64_t>(n - at, n_ - in_row);
        whole_.read_columns(row, 1, in_row * n_cols(), static_cast<size_t>(n_run * n_cols()),
                            scratch, values + at * n_cols());
      }
      at += static_cast<size_t>(n_run);
    }
  }
  void read_columns(uint64_t first, size_t n, uint64_t first_column, size_t n_columns,
                    std::vector<uint8_t>* scratch, float* values) const override {
    for (size_t i = 0; i < n; ++i) {
      const uint64_t row = first + i;
      whole_.read_columns(row / n_, 1, row % n_ * n_cols() + first_column, n_columns, scratch,
                          values + i * n_columns);
    }
  }
  [[nodiscard]] RowOrigin origin(uint64_t row) const override { return whole_.origin(row / n_); }

 private:
  uint64_t n_;  // of each row
};

class FlatTensor : public TensorView {
 public:
  explicit FlatTensor(const SourceTensor& whole)
      : TensorView(whole, {whole.n_rows() * whole.n_cols()}) {}

  void read_rows(uint64_t first, size_t n, std::vector<uint8_t>* scratch,
                 float* values) const override {
    const uint64_t cols = whole_.n_cols();
    for (size_t at = 0; at < n;) {
      const uint64_t column = (first + at) % cols;
      const bool is_whole = column == 0 && n - at >= cols;
      const uint64_t n_run =
          is_whole ? (n - at) / cols * cols : std::min<uint64_t>(n - at, cols - column);
      const uint64_t row = (first + at) / cols;
      if (is_whole) {
        whole_.read_rows(row, static_cast<size_t>(n_run / cols), scratch, values + at);
      } else {
        whole_.read_columns(row, 1, column, static_cast<size_t>(n_run), scratch, values + at);
      }
      at += static_cast<size_t>(n_run);
    }
  }
  [[nodiscard]] RowOrigin origin(uint64_t row) const override {
    return whole_.origin(row / whole_.n_cols());
  }
};

}  // namespace

std::unique_ptr<SourceTensor> pick_rows(const SourceTensor& whole, const RowGroups& groups) {
  return std::make_unique<PickedRows>(whole, groups, nullptr);
}

std::unique_ptr<SourceTensor> pick_rows(std::unique_ptr<SourceTensor> whole,
                                        const RowGroups& groups) {
  const SourceTensor& tensor = *whole;
  return std::make_unique<PickedRows>(tensor, groups, std::move(whole));
}

std::unique_ptr<SourceTensor> turn_columns(const SourceTensor& whole, uint64_t n_rows,
                                           uint64_t first, uint64_t n) {
  return std::make_unique<TurnedColumns>(whole, n_rows, first, n);
}

std::unique_ptr<SourceTensor> join_rows(std::vector<const SourceTensor*> parts) {
  return std::make_unique<JoinedTensors>(std::move(parts));
}

std::unique_ptr<SourceTensor> reorder_rows(const SourceTensor& whole,
                                           std::vector<RowRange> ranges) {
  uint64_t n_rows = 0;
  for (const RowRange& range : ranges) n_rows += range.n;
  return std::make_unique<ReorderedRows>(whole, std::move(ranges), n_rows);
}

std::unique_ptr<SourceTensor> reorder_columns(const SourceTensor& whole,
                                              std::vector<RowRange> ranges) {
  return std::make_unique<ReorderedColumns>(whole, std::move(ranges));
}

std::unique_ptr<SourceTensor> negative_exp(const SourceTensor& whole) {
  return changed(
      whole, [](float value) { return -static_cast<float>(std::exp(static_cast<double>(value))); });
}

std::unique_ptr<SourceTensor> add_one(const SourceTensor& whole) {
  return changed(whole, [](float value) { return value + 1.0F; });
}

std::unique_ptr<SourceTensor> over_root(const SourceTensor& whole) {
  const auto factor = static_cast<float>(1 / std::sqrt(static_cast<double>(whole.n_rows())));
  return changed(whole, [factor](float value) { return value * factor; });
}

std::unique_ptr<SourceTensor> ones(uint64_t n) { return std::make_unique<Ones>(n); }

std::unique_ptr<SourceTensor> split_rows(const SourceTensor& whole, uint64_t n) {
  return std::make_unique<SplitRows>(whole, n);
}

std::unique_ptr<SourceTensor> flatten(const SourceTensor& whole) {
  return std::make_unique<FlatTensor>(whole);
}

}  // namespace cria::converter
