// Weights that were trained as few bits: they keep their codes where nobody asks for another format.
#include <gtest/gtest.h>

#include <cstring>

#include "converter/convert.h"
#include "quant/float16.h"
#include "tests/unit/converter/gguf_writer.h"
#include "tests/unit/converter/model_read_back.h"

namespace cria::converter {
namespace {

using format::NumberFormat;
using format::TensorRole;
using test::GgufWriter;
using test::ModelReadBack;
using test::TinyCheckpoint;

constexpr uint32_t kQ1_0 = 41;
constexpr uint32_t kQ2_0 = 42;
constexpr uint64_t kWidth = 64;
constexpr uint64_t kFfn = 128;

// Blocks of scales of all sizes and signs, some of them subnormal or zero, and any codes.
std::string random_blocks(uint64_t n_values, uint64_t block_values, std::mt19937* rng) {
  constexpr float kScales[] = {0.03125f, -0.0478515625f, 0x1p-20f, 0.0f, 0.7f};
  std::string data;
  for (uint64_t block = 0; block < n_values / block_values; ++block) {
    data += GgufWriter::bytes_of_number(f32_to_f16(kScales[(*rng)() % std::size(kScales)]));
    for (size_t i = 0; i < 16; ++i) data += static_cast<char>((*rng)());
  }
  return data;
}

// A Llama whose layer's matrices are Q2_0, and down Q1_0.
GgufWriter trained_gguf() {
  GgufWriter writer;
  writer.replace_count("llama.feed_forward_length", kFfn);
  writer.put_tiny_llama();
  writer.put_tensors(TinyCheckpoint(kWidth, kFfn, 50));
  std::mt19937 rng(5);
  for (test::GgufTestTensor& tensor : writer.tensors) {
    if (tensor.name.find("blk.") == std::string::npos || tensor.shape.size() != 2) continue;
    const bool is_down = tensor.name.find("ffn_down") != std::string::npos;
    tensor.type = is_down ? kQ1_0 : kQ2_0;
    tensor.data = random_blocks(tensor.shape[0] * tensor.shape[1], is_down ? 128 : 64, &rng);
  }
  return writer;
}

class TrainedBits : public testing::Test {
 protected:
  TrainedBits() { test::write_file(folder_ / "m.gguf", trained_gguf().bytes()); }

  ConversionReport convert_as(const std::string& name, const Options& wish) {
    Options options = wish;
    options.model = folder_ / "m.gguf";
    if (!name.empty()) options.output = folder_ / name;
    options.tokenizer = TokenizerWish::kNone;
    options.n_threads = 2;
    Progress progress(Verbosity::kQuiet);
    return convert(options, &progress);
  }
  [[nodiscard]] ModelReadBack model(const std::string& name) const {
    return ModelReadBack(folder_ / name);
  }

  static Options of(NumberFormat weights) {
    Options options;
    options.keeps_trained = false;
    options.weights = weights;
    options.group_size = matrix_format(weights, 32).group_size;
    return options;
  }

  const test::TempFolder folder_;
};

constexpr TensorRole kLayerMatrices[] = {TensorRole::kQ,   TensorRole::kK,    TensorRole::kV,
                                         TensorRole::kO,   TensorRole::kGate, TensorRole::kUp,
                                         TensorRole::kDown};

NumberFormat format_of(const ModelReadBack& model, TensorRole role, uint32_t layer) {
  return static_cast<NumberFormat>(model.tensor(role, layer).number_format);
}

TEST_F(TrainedBits, KeepEveryWeightWhereNoFormatIsAskedFor) {
  convert_as("f32.cria", of(NumberFormat::kF32));
  const ConversionReport report = convert_as("m.cria", Options());
  const ModelReadBack want = model("f32.cria");
  const ModelReadBack got = model("m.cria");
  for (const TensorRole role : kLayerMatrices) {
    const bool is_down = role == TensorRole::kDown;
    EXPECT_EQ(format_of(got, role, 0), is_down ? NumberFormat::kBit1 : NumberFormat::kBit2);
    EXPECT_EQ(got.tensor(role, 0).group_size, is_down ? 128 : 64);
    EXPECT_EQ(got.matrix(got.tensor(role, 0)), want.matrix(want.tensor(role, 0)));
  }
  EXPECT_EQ(format_of(got, TensorRole::kEmbedding, format::kNone), NumberFormat::kInt4);
  for (const EncodedTensor& tensor : report.tensors) {
    if (tensor.entry.layer != 0 || !tensor.spec.is_matrix()) continue;
    EXPECT_GT(tensor.error.signal, 0);
    EXPECT_EQ(tensor.error.noise, 0);
    EXPECT_EQ(tensor.error.max_error, 0);
  }
  EXPECT_NE(report.weights_text.find("Q2_0"), std::string::npos);
}

TEST_F(TrainedBits, AreRoundedWhereAFormatIsAskedFor) {
  convert_as("m.cria", of(NumberFormat::kInt4));
  for (const TensorRole role : kLayerMatrices) {
    EXPECT_EQ(format_of(model("m.cria"), role, 0), NumberFormat::kInt4);
  }
}

TEST_F(TrainedBits, OfOneKindOfMatrixMayBeRounded) {
  Options options;
  options.weights_of[TensorRole::kGate] = {NumberFormat::kInt8, 0};
  convert_as("m.cria", options);
  EXPECT_EQ(format_of(model("m.cria"), TensorRole::kGate, 0), NumberFormat::kInt8);
  EXPECT_EQ(format_of(model("m.cria"), TensorRole::kUp, 0), NumberFormat::kBit2);
}

TEST_F(TrainedBits, ArePlannedAsTheyAreWritten) {
  const ConversionReport planned = convert_as("", Options());
  const ConversionReport written = convert_as("m.cria", Options());
  EXPECT_EQ(planned.plan.model.weights, written.plan.model.weights);
  const ConversionReport rounded = convert_as("", of(NumberFormat::kInt4));
  EXPECT_LT(planned.plan.model.weights, rounded.plan.model.weights);
}

// Weights as floats that a format has, and others.
TEST_F(TrainedBits, OfFloatsAreFoundWhereTheyAreAskedFor) {
  convert_as("kept.cria", Options());
  Options options = of(NumberFormat::kF32);
  for (const TensorRole role : kLayerMatrices) {
    options.weights_of[role] = {NumberFormat::kBit2, 64};
  }
  options.weights_of.erase(TensorRole::kDown);
  convert_as("m.cria", options);
  const ModelReadBack want = model("kept.cria");
  const ModelReadBack got = model("m.cria");
  for (const TensorRole role : kLayerMatrices) {
    if (role == TensorRole::kDown) continue;
    EXPECT_EQ(got.raw(got.tensor(role, 0)), want.raw(want.tensor(role, 0)));
  }
}

TEST_F(TrainedBits, AreNeverMadeOfOtherWeights) {
  test::expect_invalid({"m.gguf", "token_embd.weight", "bit2 does not hold exactly", "(row 0)",
                        "--weights int4", "--weights-of"},
                       [&] { convert_as("m.cria", of(NumberFormat::kBit2)); });
}

TEST_F(TrainedBits, CountAmongTheBitsOfAMixAndKeepTheirFormat) {
  Options options;
  options.bits = 3;
  options.scales = ScaleSigns::kPositive;
  const ConversionReport report = convert_as("m.cria", options);
  ASSERT_TRUE(report.choice);
  EXPECT_LE(report.choice->bits, 3);
  for (const TensorRole role : kLayerMatrices) {
    EXPECT_LE(static_cast<int>(NumberFormat::kBit1),
              static_cast<int>(format_of(model("m.cria"), role, 0)));
  }
}

}  // namespace
}  // namespace cria::converter
