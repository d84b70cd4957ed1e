// What quant makes of config sections, for a test that knows it from elsewhere
// (tests/cli/config_agreement_test.py).
//
//   config_probe   reads lines of a section in hexadecimal, and writes for each either
//                    refused FIELD
//                  or
//                    taken N_TENSORS
//                  and a line of each tensor, in the file's order:
//                    ROLE LAYER KIND N_MATRICES ROWS COLS BYTES...
//                  layer and kind as the file has them outside the layers; bytes of codes and of
//                  scales, as 12+3, in each format that the config counts for the matrix.
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <string>

#include "quant/model/model_layout.h"

namespace {

using namespace cria;

size_t read_hex(const std::string& line, ConfigBytes* section) {
  constexpr int kHexadecimal = 16;
  const size_t n = std::min(line.size() / 2, sizeof section->bytes);
  for (size_t i = 0; i < n; ++i) {
    section->bytes[i] =
        static_cast<uint8_t>(std::stoi(line.substr(2 * i, 2), nullptr, kHexadecimal));
  }
  return n;
}

void print_bytes(const TensorSpec& spec) {
  std::printf(" %llu+%llu", static_cast<unsigned long long>(tensor_code_bytes(spec)),
              static_cast<unsigned long long>(tensor_scale_bytes(spec)));
}

void print_tensors(const Config& config) {
  std::printf("taken %u\n", tensor_count(config));
  TensorWalk walk(config);
  for (TensorSpec spec = {}; walk.next(kMatrixFormats[0], &spec);) {
    std::printf("%u %u %u %u %u %u", static_cast<unsigned>(spec.role), spec.layer, spec.kind,
                spec.n_matrices, spec.shape.rows, spec.shape.cols);
    for (const MatrixFormat f : kMatrixFormats) {
      if (spec.form != TensorForm::kMatrix) break;
      spec.shape.number_format = f.number_format;
      spec.shape.group_size = f.group_size;
      if (count_of(config, spec) < config.counts.size()) print_bytes(spec);
    }
    if (spec.form != TensorForm::kMatrix) print_bytes(spec);
    std::printf("\n");
  }
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    ConfigBytes section = {};
    Config config;
    const size_t n = read_hex(line, &section);
    const char* const field = read_config({section.bytes, n}, &config);
    if (field != nullptr) {
      std::printf("refused %s\n", field);
    } else {
      print_tensors(config);
    }
  }
  return 0;
}
