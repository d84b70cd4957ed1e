// Hostile folders whose weights are quantized already. The input has the parts of folder_input.h:
// config.json, the header of model.safetensors, and the data after it, which zeros follow.
#include <algorithm>
#include <cmath>
#include <string>

#include "converter/hugging_face_folder.h"
#include "tests/fuzz/folder_input.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/reader_trial.h"
#include "tests/fuzz/time_limit.h"

namespace cria::fuzz {
namespace {

constexpr size_t kDataBytes = 4096;

void write_folder(const std::vector<InputPart>& parts) {
  write_bytes(memory_folder() / "config.json", part_named(parts, "config.json"));
  const std::string_view header = part_named(parts, "header");
  std::string bytes;
  for (uint64_t i = 0, n = header.size(); i < sizeof n; ++i) {
    bytes += static_cast<char>(n >> (8 * i));
  }
  bytes += header;
  bytes += part_named(parts, "data");
  bytes.resize(std::max(bytes.size(), sizeof(uint64_t) + header.size() + kDataBytes));
  write_bytes(memory_folder() / "model.safetensors", bytes);
}

bool is_same(float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); }

// A row as values, and as codes with scales.
void read_row(const converter::SourceTensor& tensor, uint64_t row) {
  const size_t n = tensor.n_cols();
  std::vector<uint8_t> scratch;
  std::vector<float> values(n);
  tensor.read_rows(row, 1, &scratch, values.data());
  const uint32_t group = tensor.int4_group();
  if (group == 0) return;
  expect(n % group == 0, "groups of codes divide a row");
  std::vector<int8_t> codes(n);
  std::vector<float> scales(n / group);
  tensor.read_int4(row, 1, &scratch, codes.data(), scales.data());
  for (size_t i = 0; i < n; ++i) {
    expect(codes[i] >= -8 && codes[i] <= 7, "codes have four bits");
    expect(is_same(static_cast<float>(codes[i]) * scales[i / group], values[i]),
           "a weight is its code times its scale");
  }
}

}  // namespace

int fuzz_one(const uint8_t* data, size_t size) {
  write_folder(split_parts({reinterpret_cast<const char*>(data), size}));
  const TimeLimit limit(size);
  refuses_or([] {
    converter::HuggingFaceFolder folder(memory_folder());
    static_cast<void>(folder.read_config());
    folder.open_weights();
    visit_end_rows(folder, read_row);
  });
  return 0;
}

}  // namespace cria::fuzz
