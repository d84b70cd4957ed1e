// Opening takes time in proportion to the tensors: eight times the layers may not cost eight times
// eight.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "quant/model/model_layout.h"
#include "tests/support/cpu_time.h"
#include "tests/support/matrix_formats.h"
#include "tests/support/model_builder.h"
#include "tests/support/test_configs.h"
#include "tests/support/test_session.h"

namespace cria {
namespace {

using test::Access;

constexpr uint32_t kGrowth = 8;
constexpr double kMostRatio = 3.0 * kGrowth;  // quadratic would be kGrowth * kGrowth
constexpr int kTries = 3;
constexpr int kMostTries = 60;

ConfigParts thin_config(uint32_t n_layers) {
  ConfigParts c = test::small_config(format::NumberFormat::kF32, 0);
  format::LayerKind& kind = c.kinds[0];
  kind.flags |= format::flag::kMixerBias | format::flag::kOutputBias | format::flag::kFfnBias |
                format::flag::kHeadNorms;
  kind.n_query_heads = kind.n_key_heads = kind.n_value_heads = 1;
  kind.d_ff = 1;
  test::set_head_dim(&c, 2);
  c.layers.assign(n_layers, 0);
  c.model.rope_tables[0].original_context = 16;
  c.model.d_model = 1;
  c.model.vocab_size = 3;
  test::mend_counts(&c);
  return c;
}

// Opens one model as often as it is told.
class Opening {
 public:
  Opening(const test::Bytes& file, Access access, cria_backend backend) : source_(file, access) {
    config_.backend = backend;
    config_.context = 1;
    config_.source_is_mapped = access == Access::kMap ? 1 : 0;
    cria_model_info info = {};
    cria_memory_plan plan = {};
    EXPECT_EQ(cria_inspect(&source_.source(), &info), CRIA_OK);
    EXPECT_EQ(cria_plan(&info, &config_, &plan), CRIA_OK);
    memory_ = std::make_unique<test::AlignedMemory>(static_cast<size_t>(plan.total));
  }
  void operator()() const {
    cria_instance cria = {};
    EXPECT_EQ(cria_open(memory_->data(), memory_->size(), &source_.source(), &config_, &cria),
              CRIA_OK);
  }

 private:
  test::MemorySource source_;
  cria_config config_ = {};
  std::unique_ptr<test::AlignedMemory> memory_;
};

class Verification {
 public:
  explicit Verification(const test::Bytes& file) : source_(file) {}
  void operator()() const {
    EXPECT_EQ(
        cria_verify(&source_.source(), scratch_.data(), scratch_.size(), nullptr, nullptr, nullptr),
        CRIA_OK);
  }

 private:
  test::MemorySource source_;
  mutable test::AlignedMemory scratch_{CRIA_VERIFY_SCRATCH_BYTES};
};

struct Pair {
  explicit Pair(uint32_t n_layers)
      : few_layers(n_layers),
        few(test::build_model(thin_config(n_layers).view(), 1)),
        many(test::build_model(thin_config(n_layers * kGrowth).view(), 1)) {}
  uint32_t few_layers;
  test::Bytes few;
  test::Bytes many;
};

// The least of many times: neighbours on the machine make some of them longer, never shorter. Where
// the cost grows with the square none of them comes below the limit.
template <typename Run>
void compare(const char* what, const Pair& pair, const Run& run_few, const Run& run_many) {
  double few = test::thread_seconds_of(run_few);
  double many = test::thread_seconds_of(run_many);
  for (int i = 1; i < kMostTries && (i < kTries || many >= kMostRatio * few); ++i) {
    few = std::min(few, test::thread_seconds_of(run_few));
    many = std::min(many, test::thread_seconds_of(run_many));
  }
  std::printf("%s: %u layers %.2f ms, %u layers %.2f ms, ratio %.1f\n", what, pair.few_layers,
              few * 1e3, pair.few_layers * kGrowth, many * 1e3, many / few);
  EXPECT_LT(many, kMostRatio * few) << what;
}

void compare_openings(const char* what, const Pair& pair, Access access, cria_backend backend) {
  compare(what, pair, Opening(pair.few, access, backend), Opening(pair.many, access, backend));
}

TEST(ManyLayers, CostInProportion) {
  const Pair pair(format::kMaxLayers / kGrowth);
  compare("verify", pair, Verification(pair.few), Verification(pair.many));
  compare_openings("exact, read", pair, Access::kRead, CRIA_BACKEND_EXACT);
  compare_openings("exact, mapped", pair, Access::kMap, CRIA_BACKEND_EXACT);
}

#if CRIA_WITH_XNNPACK
// Fewer: making an operator takes longer than all else.
TEST(ManyLayers, CostInProportionToXnnpack) {
  const Pair pair(32);
  compare_openings("xnnpack, mapped", pair, Access::kMap, CRIA_BACKEND_XNNPACK);
}
#endif

}  // namespace
}  // namespace cria
