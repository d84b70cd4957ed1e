// The numbers after the codes: every tensor of every format, unpacked as the runtime does, has the
// values whose hashes are in tests/data/golden/tensor_hashes.txt. The second reader, which knows
// the format's page alone, is held to the same file (tests/cli/second_reader_values_test.py).
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "quant/format/checksum.h"
#include "quant/model/model_layout.h"
#include "tests/support/long_under_asan.h"
#include "tests/support/model_files.h"
#include "tests/support/model_surgery.h"

namespace cria {
namespace {

using format::NumberFormat;
using format::SectionKind;
using test::Bytes;

struct Format {
  const char* name;
  NumberFormat number_format;
  uint16_t group_size;
  ScaleSigns scales = ScaleSigns::kPositive;
};

constexpr Format kFormats[] = {
    {"f32", NumberFormat::kF32, 0},
    {"f16", NumberFormat::kF16, 0},
    {"bf16", NumberFormat::kBf16, 0},
    {"int8", NumberFormat::kInt8, 0},
    {"int4g32", NumberFormat::kInt4, 32},
    {"int4g64", NumberFormat::kInt4, 64},
    {"int4g128", NumberFormat::kInt4, 128},
    {"int4g32s", NumberFormat::kInt4, 32, ScaleSigns::kBoth},
    {"int4nlg32s", NumberFormat::kInt4Nl, 32, ScaleSigns::kBoth},
    {"int8g32", NumberFormat::kInt8G32, 32},
};
constexpr const char* kModels[] = {"demo", "odd-sizes", "mistral-sliding-window"};

template <typename T>
T load(std::span<const uint8_t> bytes, size_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof value, sizeof value);
  return value;
}

// Hash of a tensor's values, [rows][cols] f32.
uint64_t values_hash(const TensorSpec& spec, const uint8_t* planes) {
  if (!spec.is_matrix()) return xxh64(planes, static_cast<size_t>(tensor_bytes(spec)));
  std::vector<float> values(size_t{spec.shape.rows} * spec.shape.cols);
  for (size_t row = 0; row < spec.shape.rows; ++row) {
    unpack_row(spec.shape, planes, planes + tensor_code_bytes(spec), row,
               values.data() + row * spec.shape.cols);
  }
  return xxh64(values.data(), values.size() * sizeof(float));
}

// Hash of the hashes of all tensors, in their order.
uint64_t model_hash(Bytes file) {
  Config config;
  EXPECT_EQ(read_config(test::section_bytes(file, SectionKind::kConfig), &config), nullptr);
  const std::span<const uint8_t> table = test::section_bytes(file, SectionKind::kChunkTable);
  const std::span<const uint8_t> directory =
      test::section_bytes(file, SectionKind::kTensorDirectory);
  std::vector<uint64_t> hashes;
  size_t chunk = 0;
  TensorWalk walk(config);
  for (uint32_t i = 0; i < tensor_count(config); ++i) {
    const auto entry = load<format::TensorEntry>(directory, i);
    TensorSpec spec = {};
    EXPECT_TRUE(read_entry(config, &walk, entry, &spec));
    // In a stored file a tensor lies whole where its first chunk lies.
    const auto offset = static_cast<size_t>(load<format::ChunkEntry>(table, chunk).offset);
    hashes.push_back(values_hash(spec, file.data() + offset));
    chunk += tensor_chunk_count(spec);
  }
  EXPECT_EQ(chunk * sizeof(format::ChunkEntry), table.size());
  return xxh64(hashes.data(), hashes.size() * sizeof(uint64_t));
}

TEST(TensorValues, HaveTheHashesInTheRepository) {
  CRIA_SKIP_UNDER_ASAN();
  std::ifstream list(test::golden_folder("tensor_hashes.txt"));
  std::map<std::string, std::string> expected;
  for (std::string name, hash; list >> name >> hash;) expected[name] = hash;
  for (const std::string model : kModels) {
    const auto folder = model == "demo" ? test::demo_folder() : test::golden_folder(model);
    for (const Format& format : kFormats) {
      const std::string name = model + "/" + format.name;
      char found[17];
      std::snprintf(found, sizeof found, "%016llx",
                    static_cast<unsigned long long>(model_hash(test::convert_folder(
                        folder, {format.number_format, format.group_size,
                                 format::Compression::kStored, false, format.scales}))));
      EXPECT_EQ(found, expected[name]) << name;
    }
  }
  EXPECT_EQ(expected.size(), std::size(kModels) * std::size(kFormats));
}

}  // namespace
}  // namespace cria
