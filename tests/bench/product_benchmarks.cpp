#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "runtime/kernels/kernels.h"
#include "tests/bench/kernel_benchmarks.h"
#include "tests/support/isa_list.h"

namespace cria::bench {
namespace {

using format::NumberFormat;

constexpr size_t kPrefillRows = 64;

// A kernel and the format of its weights.
struct Product {
  const char* name;
  NumberFormat number_format;
  uint16_t group_size;
};

constexpr Product kProducts[] = {
    {"matmul_q4_q8_g32", NumberFormat::kInt4, 32},
    {"matmul_q4_q8_g64", NumberFormat::kInt4, 64},
    {"matmul_q4_q8_g128", NumberFormat::kInt4, 128},
    {"matmul_q4nl_q8_g32", NumberFormat::kInt4Nl, 32},
    {"matmul_q8_q8", NumberFormat::kInt8, 0},
    {"matmul_q8g_q8", NumberFormat::kInt8G32, 32},
    {"matmul_q1_q8", NumberFormat::kBit1, 128},
    {"matmul_q2_q8", NumberFormat::kBit2, 64},
    {"matmul_f32_f32", NumberFormat::kF32, 0},
    {"matmul_f16_f32", NumberFormat::kF16, 0},
    {"matmul_bf16_f32", NumberFormat::kBf16, 0},
};

struct Size {
  uint32_t rows;
  uint32_t cols;
};

constexpr Size kSizes[] = {
    {2048, 2048},    // Llama 3.2 1B: Q, output
    {512, 2048},     // K, V
    {8192, 2048},    // gate, up
    {2048, 8192},    // down
    {128256, 2048},  // logits
    {5632, 2048},    // TinyLlama 1.1B: gate, up
    {576, 576},      // SmolLM 135M: Q, output
    {1536, 576},     // gate, up
    {576, 1536},     // down
    {49152, 576},    // logits
};
constexpr uint32_t kSmallestVocabulary = 32000;

// Weights of one size and format, and activations for n_rows rows.
struct Case {
  Product product;
  Kernels kernels;
  MatrixShape shape;
  size_t n_rows;
};

// Activations of any values: the time does not depend on them.
struct Inputs {
  explicit Inputs(const Case& c)
      : codes(c.n_rows * padded_cols(c.shape), 3),
        scales(codes.size() / kActivationGroup, 0.5f),
        sums(scales.size(), 3 * static_cast<int32_t>(kActivationGroup)),
        floats(c.n_rows * c.shape.cols, 0.5f),
        y(c.n_rows * c.shape.rows) {}

  std::vector<int8_t> codes;
  std::vector<float> scales;
  std::vector<int32_t> sums;
  std::vector<float> floats;
  std::vector<float> y;
};

void multiply(const Case& c, const uint8_t* weights, Inputs* in) {
  const size_t n_tiles = tile_count(c.shape.rows);
  const size_t place = place_of(c.shape.number_format);
  if (is_integer(c.shape.number_format)) {
    const QuantizedRows x = {in->codes.data(), in->scales.data(), in->sums.data(), c.n_rows};
    c.kernels.products.of[place].codes(c.shape, weights, weights + code_plane_bytes(c.shape), 0,
                                       n_tiles, x, in->y.data(), c.shape.rows);
  } else {
    c.kernels.products.of[place].floats(c.shape, weights, 0, n_tiles, in->floats.data(), c.n_rows,
                                        in->y.data(), c.shape.rows);
  }
}

void count(benchmark::State& state, const Case& c, const Limits& limits, double seconds) {
  using benchmark::Counter;
  const auto runs = static_cast<double>(state.iterations());
  const double bytes = runs * static_cast<double>(matrix_bytes(c.shape));
  const double multiply_adds =
      runs * static_cast<double>(c.shape.rows) * c.shape.cols * static_cast<double>(c.n_rows);
  state.SetBytesProcessed(static_cast<int64_t>(bytes));
  state.counters["multiply_adds"] = Counter(multiply_adds, Counter::kIsRate);
  if (limits.bytes_per_second > 0) {
    state.counters["of_bandwidth"] = bytes / seconds / limits.bytes_per_second;
  }
  const auto peak = limits.multiply_adds_per_second.find(c.kernels.isa);
  if (is_integer(c.shape.number_format) && peak != limits.multiply_adds_per_second.end()) {
    state.counters["of_peak"] = multiply_adds / seconds / peak->second;
  }
}

void run(benchmark::State& state, const Case& c, const ColdMemory& memory, const Limits& limits) {
  Inputs inputs(c);
  ColdWalk weights(memory, matrix_bytes(c.shape));
  const double begin = cpu_seconds();
  for (auto _ : state) {
    multiply(c, weights.next(), &inputs);
    benchmark::ClobberMemory();
  }
  count(state, c, limits, cpu_seconds() - begin);
}

bool is_used(const Product& product, const Size& size, size_t n_rows) {
  const bool is_vocabulary = size.rows >= kSmallestVocabulary;
  // Only the last row of a prompt meets the output matrix.
  if (is_vocabulary && n_rows > 1) return false;
  // The largest models are not kept as floats.
  return !is_vocabulary || is_integer(product.number_format);
}

}  // namespace

void register_products(const ColdMemory& memory, const Limits* limits) {
  for (const Product& product : kProducts) {
    for (const test::IsaRow& isa : test::runnable_isas()) {
      Kernels kernels;
      if (!select_kernels(isa.mask, &kernels)) continue;
      for (const Size& size : kSizes) {
        for (const size_t n_rows : {size_t{1}, kPrefillRows}) {
          if (!is_used(product, size, n_rows)) continue;
          const Case c = {product,
                          kernels,
                          {size.rows, size.cols, product.number_format, product.group_size},
                          n_rows};
          const std::string name = std::string(product.name) + "/" + isa.name + "/" +
                                   std::to_string(size.rows) + "x" + std::to_string(size.cols) +
                                   "/rows:" + std::to_string(n_rows);
          benchmark::RegisterBenchmark(name.c_str(), [c, &memory, limits](benchmark::State& state) {
            run(state, c, memory, *limits);
          });
        }
      }
    }
  }
}

}  // namespace cria::bench
