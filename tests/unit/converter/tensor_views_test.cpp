// Views of tensors: each value is where it belongs, however many rows are asked for at once.
#include "converter/tensor_views.h"

#include <gtest/gtest.h>

#include <numeric>

namespace cria::test {
namespace {

using converter::RowOrigin;
using converter::SourceTensor;
using Shape = std::vector<uint64_t>;

// Values 0, 1, 2 ... in the order of the file; counts what is read.
class Counted : public SourceTensor {
 public:
  explicit Counted(const Shape& shape) : SourceTensor("t", shape) {}
  [[nodiscard]] const std::filesystem::path& path() const override { return path_; }
  [[nodiscard]] std::string type_name() const override { return "F32"; }
  [[nodiscard]] std::string problem() const override { return ""; }
  void read_rows(uint64_t first, size_t n, std::vector<uint8_t>* scratch,
                 float* values) const override {
    read_columns(first, n, 0, n_cols(), scratch, values);
  }
  void read_columns(uint64_t first, size_t n, uint64_t first_column, size_t n_columns,
                    std::vector<uint8_t>*, float* values) const override {
    EXPECT_LE(first + n, n_rows());
    EXPECT_LE(first_column + n_columns, n_cols());
    for (size_t i = 0; i < n * n_columns; ++i) {
      const uint64_t row = first + i / n_columns;
      values[i] = static_cast<float>(row * n_cols() + first_column + i % n_columns);
    }
    n_read += n * n_columns;
  }

  mutable size_t n_read = 0;

 private:
  std::filesystem::path path_ = "folder/file";
};

std::vector<float> rows(const SourceTensor& tensor, uint64_t first, size_t n) {
  std::vector<uint8_t> scratch;
  std::vector<float> values(n * tensor.n_cols());
  tensor.read_rows(first, n, &scratch, values.data());
  return values;
}

// The values of all rows; also expects the same of every part of the rows, and of every column.
std::vector<float> all_of(const SourceTensor& tensor) {
  const size_t n_rows = tensor.n_rows();
  const size_t n_cols = tensor.n_cols();
  const std::vector<float> all = rows(tensor, 0, n_rows);
  for (size_t first = 0; first < n_rows; ++first) {
    for (size_t n = 1; first + n <= n_rows; ++n) {
      const auto begin = all.begin() + static_cast<ptrdiff_t>(first * n_cols);
      EXPECT_EQ(rows(tensor, first, n),
                std::vector<float>(begin, begin + static_cast<ptrdiff_t>(n * n_cols)));
    }
  }
  std::vector<uint8_t> scratch;
  std::vector<float> column(n_rows);
  for (size_t c = 0; c < n_cols; ++c) {
    tensor.read_columns(0, n_rows, c, 1, &scratch, column.data());
    for (size_t r = 0; r < n_rows; ++r) EXPECT_EQ(column[r], all[r * n_cols + c]);
  }
  return all;
}

void expect_origin(const SourceTensor& view, uint64_t row, const SourceTensor& tensor,
                   const std::string& side, uint64_t number) {
  const RowOrigin origin = view.origin(row);
  EXPECT_EQ(origin.tensor, &tensor);
  EXPECT_EQ(origin.side, side);
  EXPECT_EQ(origin.number, number);
}

TEST(TensorViews, RowsOfATensorWithThreeSidesAreAllButTheLast) {
  const Counted tensor({2, 3, 4});
  EXPECT_EQ(tensor.n_rows(), 6u);
  EXPECT_EQ(tensor.n_cols(), 4u);
}

TEST(TensorViews, ARangeOfRows) {
  const Counted whole({5, 2});
  const auto view = converter::pick_rows(whole, {5, 1, 3, 0});
  EXPECT_EQ(view->shape(), (Shape{3, 2}));
  EXPECT_EQ(all_of(*view), (std::vector<float>{2, 3, 4, 5, 6, 7}));
  expect_origin(*view, 2, whole, "row", 3);
  EXPECT_EQ(view->path(), "folder/file");
}

TEST(TensorViews, RowsOfEachGroup) {
  const Counted whole({2, 3, 1});  // as a stack that is one tensor
  const auto view = converter::pick_rows(whole, {3, 1, 2, 0});
  EXPECT_EQ(view->shape(), (Shape{4, 1}));
  EXPECT_EQ(all_of(*view), (std::vector<float>{1, 2, 4, 5}));
  expect_origin(*view, 2, whole, "row", 4);
}

TEST(TensorViews, PairsBecomeHalvesBehindRowsThatDoNotRotate) {
  const Counted whole({12});
  const auto view = converter::pick_rows(whole, {6, 0, 6, 4});
  EXPECT_EQ(all_of(*view), (std::vector<float>{0, 1, 2, 4, 3, 5, 6, 7, 8, 10, 9, 11}));
  expect_origin(*view, 3, whole, "value", 4);
  const auto all = converter::without_pairs(std::make_unique<Counted>(Shape{4}), 4);
  EXPECT_EQ(all_of(*all), (std::vector<float>{0, 2, 1, 3}));
}

TEST(TensorViews, ColumnsAsRows) {
  const Counted whole({2, 5});
  const auto view = converter::turn_columns(whole, 2, 1, 3);
  EXPECT_EQ(view->shape(), (Shape{3, 2}));
  EXPECT_EQ(all_of(*view), (std::vector<float>{1, 6, 2, 7, 3, 8}));
  expect_origin(*view, 1, whole, "column", 2);
}

TEST(TensorViews, ColumnsOfEachGroupAsRows) {
  const Counted whole({4, 2});
  const auto view = converter::turn_columns(whole, 2, 0, 2);
  EXPECT_EQ(view->shape(), (Shape{4, 2}));
  EXPECT_EQ(all_of(*view), (std::vector<float>{0, 2, 1, 3, 4, 6, 5, 7}));
  expect_origin(*view, 3, whole, "column", 1);
}

// Of the columns asked for and no others.
TEST(TensorViews, ColumnsAreReadOnce) {
  const Counted whole({300, 700});
  const auto view = converter::turn_columns(whole, 300, 100, 500);
  const size_t at_once = view->rows_at_once();
  EXPECT_GE(at_once, 16u);
  for (size_t first = 0; first < 500; first += at_once) {
    (void)rows(*view, first, std::min<size_t>(at_once, 500 - first));
  }
  EXPECT_EQ(whole.n_read, 300u * 500u);
}

TEST(TensorViews, SeveralTensorsAsOne) {
  const Counted a({2, 2});
  const Counted b({2, 2});
  const auto view = converter::join_rows({&a, &b});
  EXPECT_EQ(view->shape(), (Shape{4, 2}));
  EXPECT_EQ(all_of(*view), (std::vector<float>{0, 1, 2, 3, 0, 1, 2, 3}));
  expect_origin(*view, 3, b, "row", 1);
  const Counted vector({3});
  const auto vectors = converter::join_rows({&vector, &vector});
  EXPECT_EQ(vectors->shape(), (Shape{6}));
  EXPECT_EQ(all_of(*vectors), (std::vector<float>{0, 1, 2, 0, 1, 2}));
}

TEST(TensorViews, AMatrixAsAVector) {
  const Counted whole({3, 4});
  const auto view = converter::flatten(whole);
  EXPECT_EQ(view->shape(), (Shape{12}));
  std::vector<float> wanted(12);
  std::iota(wanted.begin(), wanted.end(), 0.0F);
  EXPECT_EQ(all_of(*view), wanted);
  expect_origin(*view, 9, whole, "row", 2);
}

TEST(TensorViews, RowsInAnotherOrder) {
  const Counted whole({6, 2});
  const auto view = converter::reorder_rows(whole, {{4, 2}, {3, 1}, {0, 3}});
  EXPECT_EQ(view->shape(), (Shape{6, 2}));
  EXPECT_EQ(all_of(*view), (std::vector<float>{8, 9, 10, 11, 6, 7, 0, 1, 2, 3, 4, 5}));
  expect_origin(*view, 2, whole, "row", 3);
  const Counted vector({3});
  const auto values = converter::reorder_rows(vector, {{2, 1}, {0, 2}});
  EXPECT_EQ(values->shape(), (Shape{3}));
  EXPECT_EQ(all_of(*values), (std::vector<float>{2, 0, 1}));
}

TEST(TensorViews, NegativePowersOfE) {
  const Counted whole({3});
  const std::vector<float> values = all_of(*converter::negative_exp(whole));
  EXPECT_EQ(values, (std::vector<float>{-1.0F, -2.7182817F, -7.389056F}));
}

TEST(TensorViews, ViewsOfViews) {
  const Counted a({6, 2});
  const Counted b({6, 2});
  const auto joined = converter::join_rows({&a, &b});
  const auto picked = converter::pick_rows(*joined, {3, 0, 2, 0});
  const auto turned = converter::turn_columns(*picked, 2, 1, 1);
  EXPECT_EQ(all_of(*turned), (std::vector<float>{1, 3, 7, 9, 1, 3, 7, 9}));
}

TEST(TensorViews, ARowOfATableHasThoseOfAllLayersSideBySide) {
  const Counted tensor({4, 6});
  const auto view = converter::split_rows(tensor, 3);
  EXPECT_EQ(view->shape(), (Shape{12, 2}));
  std::vector<float> want(24);
  std::iota(want.begin(), want.end(), 0.0F);
  EXPECT_EQ(all_of(*view), want);
  expect_origin(*view, 7, tensor, "row", 2);
  tensor.n_read = 0;
  (void)rows(*view, 4, 1);
  EXPECT_EQ(tensor.n_read, 2u);
}

TEST(TensorViews, ValuesOverTheRootOfTheirNumberAndOnes) {
  const Counted tensor({4});
  EXPECT_EQ(all_of(*converter::over_root(tensor)), (std::vector<float>{0, 0.5F, 1, 1.5F}));
  EXPECT_EQ(all_of(*converter::ones(3)), (std::vector<float>{1, 1, 1}));
}

}  // namespace
}  // namespace cria::test
