// Memory: every size below the plan is refused with a code, the plan itself suffices, and what is
// used equals what was planned.
#include <gtest/gtest.h>

#include <cstdio>

#include "tests/support/model_files.h"
#include "tests/support/test_session.h"

namespace cria {
namespace {

using format::NumberFormat;
using test::Access;
using test::MemorySource;

struct Case {
  NumberFormat weights;
  uint16_t group_size;
  format::Compression compression;
  Access access;
  cria_backend backend;
};

// The arena grows by cache lines.
constexpr size_t kLine = 64;

void sweep(const Case& k) {
  const MemorySource source(test::convert_folder(test::golden_folder("odd-sizes"),
                                                 {k.weights, k.group_size, k.compression, false}),
                            k.access);
  cria_config config = {};
  config.backend = k.backend;
  config.context = 32;
  config.prefill_chunk = 4;
  config.source_is_mapped = k.access == Access::kRead ? 0 : 1;
  cria_model_info info = {};
  ASSERT_EQ(cria_inspect(&source.source(), &info), CRIA_OK);
  cria_memory_plan plan = {};
  ASSERT_EQ(cria_plan(&info, &config, &plan), CRIA_OK);
  ASSERT_EQ(plan.total, plan.objects + plan.tokenizer + plan.weights + plan.backend +
                            plan.kv_cache + plan.history + plan.logits + plan.step);
  test::AlignedMemory memory(plan.total);
  cria_session* session = nullptr;
  const auto n_lines = static_cast<size_t>(plan.total / kLine);
  size_t refused = 0;
  for (size_t n = 0; n < plan.total; n += kLine, ++refused) {
    ASSERT_EQ(cria_open(memory.data(), n, &source.source(), &config, &session),
              CRIA_MEMORY_TOO_SMALL)
        << n << " of " << plan.total;
    ASSERT_EQ(session, nullptr);
  }
  ASSERT_EQ(cria_open(memory.data(), plan.total - 1, &source.source(), &config, &session),
            CRIA_MEMORY_TOO_SMALL);
  std::printf("%zu of %zu smaller arenas refused\n", refused, n_lines);
  EXPECT_EQ(refused, n_lines);
  ASSERT_EQ(cria_open(memory.data(), plan.total, &source.source(), &config, &session), CRIA_OK);
  EXPECT_EQ(cria_memory_used(session), plan.total);
}

class ArenaSweep : public testing::TestWithParam<cria_backend> {};

TEST_P(ArenaSweep, RefusesEverySizeBelowThePlanOfCompressedAndStoredFiles) {
  for (const auto compression : {format::Compression::kZstd, format::Compression::kStored}) {
    for (const Access access : {Access::kRead, Access::kBoth}) {
      sweep({NumberFormat::kInt4, 32, compression, access, GetParam()});
    }
  }
}

TEST_P(ArenaSweep, UsesWhatWasPlannedForEveryFormatChunkAndThreadCount) {
  size_t opened = 0;
  for (const auto& [weights, group] :
       {std::pair{NumberFormat::kF32, 0}, std::pair{NumberFormat::kF16, 0},
        std::pair{NumberFormat::kInt8, 0}, std::pair{NumberFormat::kInt4, 64},
        std::pair{NumberFormat::kInt4, 128}}) {
    const MemorySource source(test::convert_folder(
        test::golden_folder("odd-sizes"),
        {weights, static_cast<uint16_t>(group), format::Compression::kZstd, false}));
    for (const uint32_t n_threads : {1u, 3u}) {
      for (const uint32_t chunk : {1u, 64u}) {
        cria_config config = {};
        config.backend = GetParam();
        config.n_threads = n_threads;
        config.prefill_chunk = chunk;
        const test::TestSession session(source, config);  // compares used with planned
        ++opened;
      }
    }
  }
  EXPECT_EQ(opened, 20u);
}

INSTANTIATE_TEST_SUITE_P(Backends, ArenaSweep, testing::ValuesIn(test::built_backends()),
                         test::backend_label);

}  // namespace
}  // namespace cria
