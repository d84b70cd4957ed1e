// Models of random kinds of layers: logits against a naive decoder in double, on every backend, and
// the same bits whatever the chunks, threads and company.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "tests/support/matrix_formats.h"
#include "tests/support/max_or_nan.h"
#include "tests/support/model_builder.h"
#include "tests/support/naive_decoder.h"
#include "tests/support/random_kinds.h"
#include "tests/support/seeds.h"
#include "tests/support/some_tokens.h"
#include "tests/support/test_configs.h"
#include "tests/support/test_session.h"
#include "tests/support/test_sessions.h"

namespace cria {
namespace {

using format::Mixer;
using test::MemorySource;
using test::TestSession;

constexpr size_t kModels = 40;
constexpr size_t kModelsOfAllFormats = 12;
constexpr size_t kMostTokens = 24;
constexpr MatrixFormat kF32 = {format::NumberFormat::kF32, 0};
// Of the largest logit. Measured: 3.4e-5, where scores of thousands decide; with blocks 8.5e-5,
// where what a convolution adds is brought to length 1.
constexpr double kTolerance = 1e-4;

// What keeps rows of positions, or blocks beside them.
enum class Keeping { kRows, kBlocks };

// All that a build computes. Where sums are rounded otherwise on each CPU, experts may be chosen
// otherwise too.
test::RandomKinds computed_kinds(cria_backend backend, Keeping keeping) {
  test::RandomKinds request = test::all_kinds();
  request.mixers = {Mixer::kNothing, Mixer::kAttention, Mixer::kLatentAttention,
                    Mixer::kLatentAttention};
  if (keeping == Keeping::kBlocks) {
    request.mixers = {Mixer::kNothing, Mixer::kAttention, Mixer::kShortConvolution,
                      Mixer::kDeltaRule, Mixer::kStateSpace};
  }
  request.feed_forwards = {format::FeedForward::kNothing, format::FeedForward::kDense};
  if (backend == CRIA_BACKEND_EXACT) request.feed_forwards.push_back(format::FeedForward::kExperts);
  return request;
}

// A model whose scores differ between positions.
ConfigParts made(uint32_t seed, cria_backend backend, Keeping keeping) {
  ConfigParts c = test::random_kinds(seed, computed_kinds(backend, keeping));
  c.model.compression = 0;
  c.model.logits_divisor = 0.01f;
  for (format::LayerKind& k : c.kinds) k.score_multiplier *= 1e4f;
  for (format::LayerKind& k : c.kinds) {
    if (k.conv_taps != 0) test::bring_out(&k);
  }
  return c;
}

std::vector<uint32_t> some_tokens(const ConfigParts& c) {
  return test::some_tokens(std::min<size_t>(kMostTokens, c.model.max_context), c.model.vocab_size);
}

cria_config config_of(const ConfigParts& c, cria_backend backend, cria_kv_format kv_format) {
  cria_config config = {};
  config.backend = backend;
  config.kv_format = kv_format;
  config.context = c.model.max_context;
  config.prefill_chunk = 7;
  return config;
}

// Of the largest logit. A cap is exact to what it caps to, not to what is next to nothing.
double error_of(const std::vector<float>& got, const std::vector<double>& want) {
  constexpr double kLeast = 1e-2;
  double largest = 0;
  for (const double logit : want) largest = test::max_or_nan(largest, std::fabs(logit));
  const double relative = test::relative_error(got.data(), want.data(), want.size());
  return relative * std::min(1.0, largest / kLeast);
}

class RandomModels : public testing::TestWithParam<cria_backend> {};

void compare_with_naive_decoder(cria_backend backend, Keeping keeping) {
  double worst = 0;
  for (uint32_t seed = 0; seed < kModels; ++seed) {
    SCOPED_TRACE(seed);
    ConfigParts c = made(seed, backend, keeping);
    c.model.flags &= ~format::kSignedScales;
    test::set_all_formats(&c, kF32);
    const test::Bytes file = test::build_model(c.view(), seed);
    const std::vector<uint32_t> tokens = some_tokens(c);
    const auto want = test::naive_logits(file, c.model.max_context, tokens);
    const MemorySource source(file);
    TestSession session(source, config_of(c, backend, CRIA_KV_F32));
    const std::vector<float> got = session.all_logits(tokens);
    ASSERT_EQ(got.size(), want.size());
    const double error = error_of(got, want);
    EXPECT_LE(error, kTolerance);
    worst = std::max(worst, error);
  }
  std::printf("largest error %.2g\n", worst);
}

TEST_P(RandomModels, LogitsAreThoseOfANaiveDecoder) {
  compare_with_naive_decoder(GetParam(), Keeping::kRows);
}

TEST_P(RandomModels, WithBlocksLogitsAreThoseOfANaiveDecoder) {
  compare_with_naive_decoder(GetParam(), Keeping::kBlocks);
}

INSTANTIATE_TEST_SUITE_P(Backends, RandomModels, testing::ValuesIn(test::built_backends()),
                         test::backend_label);

// With matrices of any formats.
void compare_bits(Keeping keeping) {
  for (uint32_t seed = 0; seed < kModelsOfAllFormats; ++seed) {
    ConfigParts c = made(seed, CRIA_BACKEND_EXACT, keeping);
    const test::Bytes file = test::build_model(c.view(), seed);
    const MemorySource source(file);
    const std::vector<uint32_t> tokens = some_tokens(c);
    for (const cria_kv_format kv_format : {CRIA_KV_INT8, CRIA_KV_K8V4, CRIA_KV_F32}) {
      cria_config config = config_of(c, CRIA_BACKEND_EXACT, kv_format);
      TestSession first(source, config);
      const std::vector<float> want = first.all_logits(tokens);
      for (const uint32_t n_threads : {1u, 2u, 3u}) {
        for (const uint32_t chunk : {1u, 64u}) {
          SCOPED_TRACE(testing::Message() << seed << " KV " << kv_format << ", " << n_threads
                                          << " threads, chunk " << chunk);
          config.n_threads = n_threads;
          config.prefill_chunk = chunk;
          TestSession session(source, config);
          EXPECT_EQ(session.all_logits(tokens), want);
        }
      }
      config.prefill_chunk = 64;
      config.max_entries = 2;
      test::TestSessions sessions(source, config, 2);
      std::vector<float> got(want.size());
      const size_t half = tokens.size() / 2;
      const cria_batch_entry entries[] = {
          {sessions.session(1), tokens.data() + half, tokens.size() - half, nullptr, {}},
          {sessions.session(0), tokens.data(), tokens.size(), got.data(), {}}};
      ASSERT_EQ(cria_step(sessions.workspace(), entries, 2), CRIA_OK);
      EXPECT_EQ(got, want) << seed;
    }
  }
}

TEST(RandomKinds, HaveTheSameBitsForAllChunksThreadsAndCompany) { compare_bits(Keeping::kRows); }

TEST(RandomKinds, WithBlocksHaveTheSameBitsForAllChunksThreadsAndCompany) {
  compare_bits(Keeping::kBlocks);
}

}  // namespace
}  // namespace cria
