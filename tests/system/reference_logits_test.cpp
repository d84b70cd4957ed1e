// The decoder against Hugging Face transformers: logits of every position and the greedy
// continuation, f32 weights and f32 KV cache, on every backend.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "tests/support/expected.h"
#include "tests/support/max_or_nan.h"
#include "tests/support/model_files.h"
#include "tests/support/test_session.h"

namespace cria {
namespace {

namespace fs = std::filesystem;

cria_config f32_config(cria_backend backend, const cria_model_info& info) {
  cria_config config = {};
  config.backend = backend;
  config.kv_format = CRIA_KV_F32;
  config.context = info.max_context < 256 ? info.max_context : 256;
  config.n_threads = 2;
  return config;
}

void compare_with_reference(const fs::path& folder, cria_backend backend) {
  const test::Expected expected = test::read_expected(folder);
  const std::vector<float> want = test::read_floats(folder / "logits.f32");
  const test::MemorySource source(test::convert_folder(folder, {}));
  cria_model_info info = {};
  ASSERT_EQ(cria_inspect(&source.source(), &info), CRIA_OK);
  test::TestSession session(source, f32_config(backend, info));
  const std::vector<float> got = session.all_logits(expected.prompt);
  ASSERT_EQ(got.size(), want.size());
  ASSERT_GT(got.size(), 0u);
  double worst = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double w = static_cast<double>(want[i]);
    worst =
        test::max_or_nan(worst, std::fabs(static_cast<double>(got[i]) - w) / (1 + std::fabs(w)));
  }
  std::printf("%s, %s: largest difference %.2g of (1 + |logit|)\n", folder.filename().c_str(),
              cria_backend_name(session.model()), worst);
  EXPECT_LE(worst, expected.tolerance);
  // transformers goes on where the positions that it was made for are over.
  const size_t room = info.max_context - expected.prompt.size();
  std::vector<uint32_t> greedy = expected.greedy;
  greedy.resize(std::min(greedy.size(), room));
  ASSERT_GT(greedy.size(), 0u);
  EXPECT_EQ(session.greedy(greedy.size()), greedy);
}

class ReferenceLogits : public testing::TestWithParam<cria_backend> {};

TEST_P(ReferenceLogits, OfAllNineCheckpointsAreThoseOfTransformers) {
  const auto reference = test::reference_folder();
  if (!reference) GTEST_SKIP() << "no $CRIA_SHARED/reference";
  for (const char* name : test::kReferenceCheckpoints) {
    SCOPED_TRACE(name);
    compare_with_reference(*reference / "checkpoints" / name, GetParam());
  }
}

TEST_P(ReferenceLogits, OfTheArchitecturesAreThoseOfTransformers) {
  const auto reference = test::reference_folder();
  if (!reference) GTEST_SKIP() << "no $CRIA_SHARED/reference";
  for (const char* name : test::kReferenceArchitectures) {
    SCOPED_TRACE(name);
    compare_with_reference(*reference / "architectures" / name, GetParam());
  }
}

TEST_P(ReferenceLogits, OfTheTrainedStoryModelAreThoseOfTransformers) {
  const auto reference = test::reference_folder();
  if (!reference) GTEST_SKIP() << "no $CRIA_SHARED/reference";
  compare_with_reference(*reference / "trained/story-hf", GetParam());
}

TEST_P(ReferenceLogits, OfTheCopiesInTheRepositoryAreThoseOfTransformers) {
  for (const char* name : {"odd-sizes", "mistral-sliding-window"}) {
    SCOPED_TRACE(name);
    compare_with_reference(test::golden_folder(name), GetParam());
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, ReferenceLogits, testing::ValuesIn(test::built_backends()),
                         test::backend_label);

}  // namespace
}  // namespace cria
