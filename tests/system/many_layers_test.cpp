// Opening takes time in proportion to the tensors: eight times the layers may not cost eight times
// eight.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <ctime>

#include "quant/model_layout.h"
#include "tests/support/matrix_formats.h"
#include "tests/support/model_builder.h"
#include "tests/support/test_configs.h"
#include "tests/support/test_session.h"

namespace cria {
namespace {

using test::Access;

constexpr uint32_t kGrowth = 8;
constexpr double kMostRatio = 3.0 * kGrowth;  // quadratic would be kGrowth * kGrowth
constexpr int kRepetitions = 3;

format::ModelConfig thin_config(uint32_t n_layers) {
  format::ModelConfig c = test::small_config(format::NumberFormat::kF32, 0);
  c.flags = format::kKnownFlags & ~(format::kTiedEmbedding | format::kSignedScales);
  c.original_context = 16;
  c.n_layers = n_layers;
  c.d_model = 1;
  c.n_heads = 1;
  c.n_kv_heads = 1;
  c.head_dim = 2;
  c.d_ff = 1;
  c.vocab_size = 3;
  test::mend_counts(&c);
  return c;
}

// Of the processor: a machine that is busy with other things changes little.
template <typename Run>
double least_seconds(const Run& run) {
  double least = 1e9;
  for (int i = 0; i < kRepetitions; ++i) {
    const std::clock_t start = std::clock();
    run();
    least = std::min(least, double(std::clock() - start) / CLOCKS_PER_SEC);
  }
  return least;
}

double open_seconds(const test::Bytes& file, Access access, cria_backend backend) {
  const test::MemorySource source(file, access);
  cria_config config = {};
  config.backend = backend;
  config.context = 1;
  config.source_is_mapped = access == Access::kMap ? 1 : 0;
  cria_model_info info = {};
  cria_memory_plan plan = {};
  EXPECT_EQ(cria_inspect(&source.source(), &info), CRIA_OK);
  EXPECT_EQ(cria_plan(&info, &config, &plan), CRIA_OK);
  test::AlignedMemory memory(static_cast<size_t>(plan.total));
  return least_seconds([&] {
    cria_instance cria = {};
    EXPECT_EQ(cria_open(memory.data(), memory.size(), &source.source(), &config, &cria), CRIA_OK);
  });
}

double verify_seconds(const test::Bytes& file) {
  const test::MemorySource source(file);
  test::AlignedMemory scratch(CRIA_VERIFY_SCRATCH_BYTES);
  return least_seconds([&] {
    EXPECT_EQ(
        cria_verify(&source.source(), scratch.data(), scratch.size(), nullptr, nullptr, nullptr),
        CRIA_OK);
  });
}

struct Pair {
  explicit Pair(uint32_t n_layers)
      : few_layers(n_layers),
        few(test::build_model(thin_config(n_layers), 1)),
        many(test::build_model(thin_config(n_layers * kGrowth), 1)) {}
  uint32_t few_layers;
  test::Bytes few;
  test::Bytes many;
};

void compare(const char* what, const Pair& pair, double few, double many) {
  std::printf("%s: %u layers %.2f ms, %u layers %.2f ms, ratio %.1f\n", what, pair.few_layers,
              few * 1e3, pair.few_layers * kGrowth, many * 1e3, many / few);
  EXPECT_LT(many, kMostRatio * few) << what;
}

TEST(ManyLayers, CostInProportion) {
  const Pair pair(format::kMaxLayers / kGrowth);
  compare("verify", pair, verify_seconds(pair.few), verify_seconds(pair.many));
  for (const Access access : {Access::kRead, Access::kMap}) {
    compare(access == Access::kRead ? "exact, read" : "exact, mapped", pair,
            open_seconds(pair.few, access, CRIA_BACKEND_EXACT),
            open_seconds(pair.many, access, CRIA_BACKEND_EXACT));
  }
}

#if CRIA_WITH_XNNPACK
// Fewer: making an operator takes longer than all else.
TEST(ManyLayers, CostInProportionToXnnpack) {
  const Pair pair(32);
  compare("xnnpack, mapped", pair, open_seconds(pair.few, Access::kMap, CRIA_BACKEND_XNNPACK),
          open_seconds(pair.many, Access::kMap, CRIA_BACKEND_XNNPACK));
}
#endif

}  // namespace
}  // namespace cria
