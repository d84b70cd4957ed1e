// Memory: every size below the plan is refused with a code, the plan itself suffices, and what is
// used equals what was planned.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <iterator>

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
  cria_kv_format kv = CRIA_KV_INT8;
};

// The arena grows by cache lines.
constexpr size_t kLine = 64;

// What cria.h says of a plan's figures.
void expect_sums(const cria_memory_plan& plan) {
  const auto& [model_total, model_objects, tokenizer, weights, packed] = plan.model;
  ASSERT_EQ(model_total, model_objects + tokenizer + weights + packed);
  const auto& [session_total, session_objects, kv_cache, history, logits] = plan.session;
  ASSERT_EQ(session_total, session_objects + kv_cache + history + logits);
  const auto& [workspace_total, workspace_objects, operators, running, sampling, encoding] =
      plan.workspace;
  ASSERT_EQ(workspace_total,
            workspace_objects + operators + std::max({running, sampling, encoding}));
  ASSERT_EQ(plan.total, model_total + session_total + std::max(workspace_total, plan.loading));
}

// Every size below what an object takes is refused, for status = make(size); so is none at all.
template <typename Make>
size_t sweep_object(uint64_t n_bytes, const Make& make) {
  size_t refused = 0;
  for (size_t n = 0; n < n_bytes; n += kLine) refused += make(n) == CRIA_MEMORY_TOO_SMALL ? 1 : 0;
  EXPECT_EQ(refused, n_bytes / kLine);
  EXPECT_EQ(make(n_bytes - 1), CRIA_MEMORY_TOO_SMALL);
  EXPECT_EQ(make(n_bytes), CRIA_OK);
  return refused;
}

void sweep(const Case& k) {
  const MemorySource source(test::convert_folder(test::golden_folder("odd-sizes"),
                                                 {k.weights, k.group_size, k.compression, false}),
                            k.access);
  cria_config config = {};
  config.backend = k.backend;
  config.kv_format = k.kv;
  config.context = 32;
  config.prefill_chunk = 4;
  config.source_is_mapped = k.access == Access::kRead ? 0 : 1;
  cria_model_info info = {};
  ASSERT_EQ(cria_inspect(&source.source(), &info), CRIA_OK);
  cria_memory_plan plan = {};
  ASSERT_EQ(cria_plan(&info, &config, &plan), CRIA_OK);
  ASSERT_NO_FATAL_FAILURE(expect_sums(plan));
  test::AlignedMemory memory(plan.total);
  cria_instance cria = {};
  const auto n_lines = static_cast<size_t>(plan.total / kLine);
  size_t refused = 0;
  for (size_t n = 0; n < plan.total; n += kLine, ++refused) {
    ASSERT_EQ(cria_open(memory.data(), n, &source.source(), &config, &cria), CRIA_MEMORY_TOO_SMALL)
        << n << " of " << plan.total;
    ASSERT_EQ(cria.model, nullptr);
    ASSERT_EQ(cria.session, nullptr);
    ASSERT_EQ(cria.workspace, nullptr);
  }
  ASSERT_EQ(cria_open(memory.data(), plan.total - 1, &source.source(), &config, &cria),
            CRIA_MEMORY_TOO_SMALL);
  std::printf("%zu of %zu smaller arenas refused\n", refused, n_lines);
  EXPECT_EQ(refused, n_lines);
  ASSERT_EQ(cria_open(memory.data(), plan.total, &source.source(), &config, &cria), CRIA_OK);
  EXPECT_EQ(cria_model_bytes(cria.model), plan.model.total);
  EXPECT_EQ(cria_session_bytes(cria.session), plan.session.total);
  EXPECT_EQ(cria_workspace_bytes(cria.workspace), plan.workspace.total);
}

// The same of each object in memory of its own, and of the scratch a model is loaded with.
void sweep_each(const Case& k) {
  const MemorySource source(test::convert_folder(test::golden_folder("odd-sizes"),
                                                 {k.weights, k.group_size, k.compression, false}),
                            k.access);
  cria_config config = {};
  config.backend = k.backend;
  config.kv_format = k.kv;
  config.context = 32;
  config.prefill_chunk = 4;
  config.max_entries = 2;
  test::TestSession session(source, config);
  const cria_memory_plan& plan = session.plan();
  test::AlignedMemory memory(plan.model.total);
  test::AlignedMemory scratch(plan.loading);
  cria_model* model = nullptr;
  cria_session* started = nullptr;
  cria_workspace* workspace = nullptr;
  size_t refused = sweep_object(plan.model.total, [&](size_t n) {
    return cria_load(memory.data(), n, scratch.data(), scratch.size(), &source.source(),
                     &session.config(), &model);
  });
  if (plan.loading != 0) {
    refused += sweep_object(plan.loading, [&](size_t n) {
      return cria_load(memory.data(), memory.size(), scratch.data(), n, &source.source(),
                       &session.config(), &model);
    });
  }
  test::AlignedMemory of_session(plan.session.total);
  refused += sweep_object(plan.session.total, [&](size_t n) {
    return cria_start(of_session.data(), n, model, &session.config(), &started);
  });
  test::AlignedMemory of_workspace(plan.workspace.total);
  refused += sweep_object(plan.workspace.total, [&](size_t n) {
    return cria_make_workspace(of_workspace.data(), n, model, &session.config(), &workspace);
  });
  std::printf("%zu smaller blocks refused\n", refused);
  const uint32_t tokens[] = {1, 2, 3};
  EXPECT_EQ(cria_prefill(workspace, started, tokens, std::size(tokens)), CRIA_OK);
}

class ArenaSweep : public testing::TestWithParam<cria_backend> {};

TEST_P(ArenaSweep, RefusesEverySizeBelowThePlanOfCompressedAndStoredFiles) {
  for (const auto compression : {format::Compression::kZstd, format::Compression::kStored}) {
    for (const Access access : {Access::kRead, Access::kBoth}) {
      sweep({NumberFormat::kInt4, 32, compression, access, GetParam()});
    }
  }
}

TEST_P(ArenaSweep, RefusesEverySizeBelowThePlanOfEachObject) {
  for (const auto compression : {format::Compression::kZstd, format::Compression::kStored}) {
    for (const Access access : {Access::kRead, Access::kBoth}) {
      sweep_each({NumberFormat::kInt4, 32, compression, access, GetParam()});
    }
  }
}

TEST_P(ArenaSweep, RefusesEverySizeBelowThePlanOfEachKvFormat) {
  for (const cria_kv_format kv : {CRIA_KV_F32, CRIA_KV_K8V4}) {
    const Case k = {NumberFormat::kInt8, 0,          format::Compression::kStored,
                    Access::kBoth,       GetParam(), kv};
    sweep(k);
    sweep_each(k);
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
        for (const uint32_t max_entries : {1u, 3u}) {
          cria_config config = {};
          config.backend = GetParam();
          config.n_threads = n_threads;
          config.prefill_chunk = chunk;
          config.max_entries = max_entries;
          config.kv_format = static_cast<cria_kv_format>(opened % 3);
          const test::TestSession session(source, config);  // compares used with planned
          ASSERT_NO_FATAL_FAILURE(expect_sums(session.plan()));
          ++opened;
        }
      }
    }
  }
  EXPECT_EQ(opened, 40u);
}

INSTANTIATE_TEST_SUITE_P(Backends, ArenaSweep, testing::ValuesIn(test::built_backends()),
                         test::backend_label);

}  // namespace
}  // namespace cria
