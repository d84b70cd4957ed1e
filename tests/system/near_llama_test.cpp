// What makes an architecture another than Llama: logits against a naive decoder in double, on every
// backend, and what a session of a longer context than the original does.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "tests/support/max_or_nan.h"
#include "tests/support/model_builder.h"
#include "tests/support/naive_decoder.h"
#include "tests/support/near_llama.h"
#include "tests/support/some_tokens.h"
#include "tests/support/test_session.h"
#include "tests/support/test_sessions.h"

namespace cria {
namespace {

using format::NumberFormat;
using test::MemorySource;
using test::NearLlama;
using test::TestSession;
using test::TestSessions;

constexpr uint32_t kSeed = 11;
constexpr size_t kTokens = 40;
constexpr MatrixFormat kF32 = {NumberFormat::kF32, 0};
// Of the largest logit. Measured: below 6e-6.
constexpr double kTolerance = 2e-5;
// What must come of leaving out what the model is named for.
constexpr double kLeastEffect = 1e-2;

std::vector<uint32_t> some_tokens(uint32_t vocab_size) {
  return test::some_tokens(kTokens, vocab_size);
}

template <typename A, typename B>
double relative_error(const std::vector<A>& got, const std::vector<B>& want) {
  return test::relative_error(got.data(), want.data(), want.size());
}

cria_config config_of(cria_backend backend, cria_kv_format kv_format, uint32_t context) {
  cria_config config = {};
  config.backend = backend;
  config.kv_format = kv_format;
  config.context = context;
  config.prefill_chunk = 7;
  return config;
}

class NearLlamaModels : public testing::TestWithParam<cria_backend> {};

TEST_P(NearLlamaModels, LogitsAreThoseOfANaiveDecoder) {
  size_t compared = 0;
  for (NearLlama& model : test::near_llamas(kF32)) {
    const test::Bytes file = test::build_model(model.config.view(), kSeed);
    const MemorySource source(file);
    const std::vector<uint32_t> tokens = some_tokens(model.config.model.vocab_size);
    for (const uint32_t context : {96u, 97u}) {
      SCOPED_TRACE(model.name + " " + std::to_string(context));
      const auto want = test::naive_logits(file, context, tokens);
      const auto without = test::naive_logits(file, model.without.view(), context, tokens);
      TestSession session(source, config_of(GetParam(), CRIA_KV_F32, context));
      const std::vector<float> got = session.all_logits(tokens);
      ASSERT_EQ(got.size(), want.size());
      const double error = relative_error(got, want);
      const double effect = relative_error(without, want);
      std::printf("%s, %u positions: error %.2g, effect %.2g\n", model.name.c_str(), context, error,
                  effect);
      EXPECT_LE(error, kTolerance);
      EXPECT_GE(effect, kLeastEffect);
      ++compared;
    }
  }
  EXPECT_EQ(compared, 28u);
}

INSTANTIATE_TEST_SUITE_P(Backends, NearLlamaModels, testing::ValuesIn(test::built_backends()),
                         test::backend_label);

NearLlama named(const std::string& name) {
  const std::vector<NearLlama> all = test::near_llamas(kF32);
  return *std::find_if(all.begin(), all.end(), [&](const NearLlama& m) { return m.name == name; });
}

// Sessions of one model, each with the frequencies of its own context, in one step.
TEST(LongRope, EachSessionHasTheFrequenciesOfItsContext) {
  NearLlama model = named("longrope");
  const MemorySource source(test::build_model(model.config.view(), kSeed));
  const std::vector<uint32_t> tokens = some_tokens(model.config.model.vocab_size);
  const cria_config short_config = config_of(CRIA_BACKEND_EXACT, CRIA_KV_F32, 96);
  const cria_config long_config = config_of(CRIA_BACKEND_EXACT, CRIA_KV_F32, 97);
  TestSession short_session(source, short_config);
  TestSession long_session(source, long_config);
  const std::vector<float> want_short = short_session.all_logits(tokens);
  const std::vector<float> want_long = long_session.all_logits(tokens);
  EXPECT_GE(relative_error(want_short, want_long), kLeastEffect);

  TestSession both(source, short_config);
  const cria_memory_plan plan = test::planned(both.info(), long_config);
  test::AlignedMemory memory(plan.session.total);
  cria_session* other = nullptr;
  ASSERT_EQ(cria_start(memory.data(), memory.size(), both.model(), &long_config, &other), CRIA_OK);
  std::vector<float> got_short(want_short.size());
  std::vector<float> got_long(want_long.size());
  const cria_batch_entry entries[] = {
      {both.session(), tokens.data(), tokens.size(), got_short.data(), {}},
      {other, tokens.data(), tokens.size(), got_long.data(), {}}};
  ASSERT_EQ(cria_step(both.workspace(), entries, 2), CRIA_OK);
  EXPECT_EQ(got_short, want_short);
  EXPECT_EQ(got_long, want_long);
}

TEST(LongRope, SessionsOfTheTwoKindsShareNoKeys) {
  NearLlama model = named("longrope");
  const MemorySource source(test::build_model(model.config.view(), kSeed));
  const std::vector<uint32_t> tokens = some_tokens(model.config.model.vocab_size);
  const cria_config long_config = config_of(CRIA_BACKEND_EXACT, CRIA_KV_F32, 97);
  TestSession a(source, config_of(CRIA_BACKEND_EXACT, CRIA_KV_F32, 96));
  const cria_memory_plan plan = test::planned(a.info(), long_config);
  test::AlignedMemory memory(plan.session.total);
  cria_session* b = nullptr;
  ASSERT_EQ(cria_start(memory.data(), memory.size(), a.model(), &long_config, &b), CRIA_OK);
  ASSERT_EQ(cria_prefill(a.workspace(), a.session(), tokens.data(), tokens.size()), CRIA_OK);
  EXPECT_EQ(cria_copy_prefix(b, a.session(), 5), CRIA_INVALID_ARGUMENT);
  const std::vector<uint8_t> of_a = test::state_of(a.session());
  EXPECT_EQ(cria_state_load(b, of_a.data(), of_a.size()), CRIA_BAD_STATE);
  EXPECT_EQ(cria_position(b), 0u);
  ASSERT_EQ(cria_prefill(a.workspace(), b, tokens.data(), tokens.size()), CRIA_OK);
  const std::vector<uint8_t> of_b = test::state_of(b);
  EXPECT_EQ(cria_state_load(a.session(), of_b.data(), of_b.size()), CRIA_BAD_STATE);
  EXPECT_EQ(cria_state_load(b, of_b.data(), of_b.size()), CRIA_OK);
}

TEST(LongRope, TheModelsInfoSaysWhereItBegins) {
  const auto original_context_of = [](const char* name) {
    const MemorySource source(test::build_model(named(name).config.view(), kSeed));
    const cria_model_info info = test::inspected(source.source());
    cria_layer_kind kind = {};
    EXPECT_EQ(cria_find_layer_kind(&info, 0, &kind), CRIA_OK);
    return kind.original_context;
  };
  EXPECT_EQ(original_context_of("longrope"), 96u);
  EXPECT_EQ(original_context_of("qwen3"), 0u);
}

}  // namespace
}  // namespace cria
