#include "converter/row_range.h"

namespace cria::converter {
namespace {

std::vector<uint64_t> shape_of(const SourceTensor& whole, uint64_t n) {
  std::vector<uint64_t> shape = whole.shape();
  shape.front() = n;
  return shape;
}

}  // namespace

RowRange::RowRange(const SourceTensor& whole, uint64_t first, uint64_t n)
    : SourceTensor(
          whole.name() + "[" + std::to_string(first) + ":" + std::to_string(first + n) + "]",
          shape_of(whole, n)),
      whole_(whole),
      first_(first) {}

}  // namespace cria::converter
