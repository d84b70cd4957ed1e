// A model of trained bits from its GGUF file: what it computes differs from the same weights as
// floats by the rounding of activations alone.
#include <gtest/gtest.h>

#include <cstdio>

#include "converter/convert.h"
#include "tests/support/max_or_nan.h"
#include "tests/support/naive_decoder.h"
#include "tests/support/some_tokens.h"
#include "tests/support/test_session.h"
#include "tests/unit/converter/trained_gguf.h"

namespace cria {
namespace {

using format::NumberFormat;
using format::TensorRole;

constexpr uint32_t kContext = 64;
constexpr size_t kTokens = 40;
// Of the largest logit.
constexpr double kFloatTolerance = 2e-5;
// What codes of eight bits leave of activations: 1/254 of a group's largest, in seven products a
// layer. Measured: 0.012.
constexpr double kCodesTolerance = 0.03;

test::Bytes convert_trained(const std::filesystem::path& folder, bool keeps_trained) {
  converter::Options options;
  options.model = folder / "m.gguf";
  options.output = folder / "m.cria";
  options.tokenizer = converter::TokenizerChoice::kNone;
  options.keeps_trained = keeps_trained;
  options.weights = NumberFormat::kF32;
  options.group_size = 0;
  options.compression = format::Compression::kStored;
  converter::Progress progress(converter::Verbosity::kQuiet);
  (void)converter::convert(options, &progress);
  const std::string file = test::read_file(options.output);
  return test::Bytes(file.begin(), file.end());
}

std::vector<float> logits_of(const test::Bytes& file, const std::vector<uint32_t>& tokens,
                             uint32_t prefill_chunk) {
  cria_config config = {};
  config.backend = CRIA_BACKEND_EXACT;
  config.kv_format = CRIA_KV_F32;
  config.context = kContext;
  config.prefill_chunk = prefill_chunk;
  const test::MemorySource source(file);
  test::TestSession session(source, config);
  return session.all_logits(tokens);
}

template <typename A, typename B>
double relative_error(const std::vector<A>& got, const std::vector<B>& want) {
  EXPECT_EQ(got.size(), want.size());
  return test::relative_error(got.data(), want.data(), want.size());
}

TEST(TrainedBitsLogits, AreThoseOfTheSameWeightsAsFloats) {
  const test::TempFolder folder;
  test::write_file(folder / "m.gguf", test::trained_gguf().bytes());
  const test::Bytes kept = convert_trained(folder.path(), true);
  const test::Bytes floats = convert_trained(folder.path(), false);
  EXPECT_LT(kept.size(), floats.size());
  const std::vector<uint32_t> tokens = test::some_tokens(kTokens, 50);
  const std::vector<double> want = test::naive_logits(kept, kContext, tokens);
  EXPECT_EQ(want, test::naive_logits(floats, kContext, tokens));
  EXPECT_LE(relative_error(logits_of(floats, tokens, 7), want), kFloatTolerance);
  const std::vector<float> got = logits_of(kept, tokens, 7);
  const double error = relative_error(got, want);
  std::printf("error %.2g\n", error);
  EXPECT_LE(error, kCodesTolerance);
  EXPECT_EQ(logits_of(kept, tokens, 1), got);
}

}  // namespace
}  // namespace cria
