// Weights that were trained as few bits: they keep their codes where nobody asks for
// another format.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "converter/convert.h"
#include "tests/unit/converter/model_read_back.h"
#include "tests/unit/converter/trained_gguf.h"

namespace cria::converter {
namespace {

using format::NumberFormat;
using format::TensorRole;
using test::ModelReadBack;
using test::TinyCheckpoint;

class TrainedBits : public testing::Test {
 protected:
  TrainedBits() { test::write_file(folder_ / "m.gguf", test::trained_gguf().bytes()); }

  ConversionReport convert_as(const std::string& name, const Options& request) {
    Options options = request;
    options.model = folder_ / "m.gguf";
    if (!name.empty()) options.output = folder_ / name;
    options.tokenizer = TokenizerChoice::kNone;
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

// As in Bonsai's files, whose embedding is trained so too.
TEST_F(TrainedBits, OfEveryMatrixLeaveNothingToChoose) {
  test::GgufWriter writer = test::trained_gguf();
  std::mt19937 rng(8);
  for (test::GgufTestTensor& tensor : writer.tensors) {
    if (tensor.shape.size() != 2 || tensor.type != test::kF32) continue;
    tensor.type = test::kQ2_0;
    tensor.data = test::random_blocks(tensor.shape[0] * tensor.shape[1], 64, &rng);
  }
  test::write_file(folder_ / "m.gguf", writer.bytes());
  convert_as("f32.cria", of(NumberFormat::kF32));
  convert_as("m.cria", Options());
  const ModelReadBack want = model("f32.cria");
  const ModelReadBack got = model("m.cria");
  for (const TensorRole role : {TensorRole::kEmbedding, TensorRole::kLmHead}) {
    EXPECT_EQ(format_of(got, role, format::kNone), NumberFormat::kBit2);
    EXPECT_EQ(got.matrix(got.tensor(role, format::kNone)),
              want.matrix(want.tensor(role, format::kNone)));
  }
  Options options;
  options.calibration = {true, std::nullopt, kLeastCalibrationTokens};
  test::expect_refused(ExitCode::kUsage, {"--method gptq", "trained codes leave no matrix of int4"},
                       [&] { convert_as("m.cria", options); });
  options.calibration.reset();
  options.bits = 4;
  test::expect_refused(ExitCode::kUsage, {"--bits has nothing to choose", "trained codes"},
                       [&] { convert_as("m.cria", options); });
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

void put_down_last(test::GgufWriter* writer) {
  const auto is_down = [](const test::GgufTestTensor& tensor) {
    return tensor.name == "blk.0.ffn_down.weight";
  };
  std::iter_swap(std::find_if(writer->tensors.begin(), writer->tensors.end(), is_down),
                 writer->tensors.end() - 1);
}

// Forks of llama.cpp wrote blocks of 128 values under the same number; their sizes tell.
TEST_F(TrainedBits, OfAForkAreReadByTheirBlocks) {
  test::GgufWriter narrow = test::trained_gguf();
  test::GgufWriter wide = narrow;
  for (size_t i = 0; i < wide.tensors.size(); ++i) {
    test::GgufTestTensor& tensor = wide.tensors[i];
    if (tensor.name.find("ffn_down") == std::string::npos) {
      if (tensor.type == test::kQ2_0)
        tensor.type = test::kF32, tensor.data.assign(tensor.shape[0] * 64 * 4, '\0');
      narrow.tensors[i] = tensor;
      continue;
    }
    // One block of 128 is two of 64 with one scale.
    tensor.type = narrow.tensors[i].type = test::kQ2_0;
    tensor.data.clear();
    narrow.tensors[i].data.clear();
    for (int row = 0; row < 64; ++row) {
      const std::string scale = test::GgufWriter::bytes_of_number(f32_to_f16(0.01f));
      const std::string codes(32, static_cast<char>(17 * row));
      tensor.data += scale + codes;
      narrow.tensors[i].data += scale + codes.substr(16) + scale + codes.substr(16);
    }
  }
  test::write_file(folder_ / "m.gguf", narrow.bytes());
  convert_as("narrow.cria", Options());
  test::write_file(folder_ / "m.gguf", wide.bytes());
  const ConversionReport report = convert_as("wide.cria", Options());
  EXPECT_NE(report.weights_text.find("Q2_0 in groups of 128"), std::string::npos);
  const ModelReadBack want = model("narrow.cria");
  const ModelReadBack got = model("wide.cria");
  EXPECT_EQ(got.raw(got.tensor(TensorRole::kDown, 0)), want.raw(want.tensor(TensorRole::kDown, 0)));
  EXPECT_EQ(format_of(got, TensorRole::kDown, 0), NumberFormat::kBit2);
  put_down_last(&wide);
  const std::string whole = wide.bytes();
  test::write_file(folder_ / "m.gguf", whole.substr(0, whole.size() - 100));
  test::expect_invalid({"m.gguf", "ffn_down", "truncated"},
                       [&] { convert_as("m.cria", Options()); });
}

// What is missing at the end is no sign of such blocks, however little it is.
TEST_F(TrainedBits, OfACutFileAreNotReadAsAForks) {
  test::GgufWriter writer = test::trained_gguf();
  std::mt19937 rng(9);
  for (test::GgufTestTensor& tensor : writer.tensors) {
    if (tensor.type != test::kQ1_0) continue;
    tensor.type = test::kQ2_0;
    tensor.data = test::random_blocks(tensor.shape[0] * tensor.shape[1], 64, &rng);
  }
  put_down_last(&writer);
  const std::string whole = writer.bytes();
  const size_t n_bytes = writer.tensors.back().data.size();
  ASSERT_EQ(n_bytes % writer.alignment, 0u);  // else the first bytes that are cut are padding
  for (const size_t n_missing : {size_t{1}, n_bytes / 100, n_bytes / 19, n_bytes / 2}) {
    SCOPED_TRACE(n_missing);
    test::write_file(folder_ / "m.gguf", whole.substr(0, whole.size() - n_missing));
    test::expect_invalid({"m.gguf", "ffn_down", "truncated"},
                         [&] { convert_as("m.cria", Options()); });
  }
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

TEST_F(TrainedBits, AreNotCalibrated) {
  convert_as("kept.cria", Options());
  for (const bool feedback : {false, true}) {
    Options options;
    options.calibration = {feedback, std::nullopt, kLeastCalibrationTokens};
    const ConversionReport report = convert_as("m.cria", options);
    const ModelReadBack want = model("kept.cria");
    const ModelReadBack got = model("m.cria");
    for (const TensorRole role : kLayerMatrices) {
      EXPECT_EQ(got.raw(got.tensor(role, 0)), want.raw(want.tensor(role, 0)));
    }
    for (const EncodedTensor& tensor : report.tensors) {
      EXPECT_FALSE(tensor.rounding && is_trained_bits(tensor.spec.shape.number_format));
    }
  }
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

// BitNet's folders -------------------------------------------------------------------------------

constexpr const char* kGate = "model.layers.0.mlp.gate_proj.weight";
constexpr const char* kOffline =
    R"({"quant_method":"bitnet","linear_class":"autobitlinear","quantization_mode":"offline"})";
constexpr float kScale = 1.21875f;  // a bf16

// A folder whose gate is packed, and the same as floats.
class BitnetFolder : public testing::Test {
 protected:
  BitnetFolder() {
    constexpr uint64_t kRows = 96;
    constexpr uint64_t kStored = kRows / 4;
    std::mt19937 rng(6);
    std::string packed(kStored * test::kTrainedWidth, '\0');
    std::string floats(kRows * test::kTrainedWidth * sizeof(float), '\0');
    for (uint64_t i = 0; i < kRows * test::kTrainedWidth; ++i) {
      const auto code = static_cast<int>(rng() % 3);
      const uint64_t at =
          i / test::kTrainedWidth % kStored * test::kTrainedWidth + i % test::kTrainedWidth;
      const auto shift = i / test::kTrainedWidth / kStored * 2;
      packed[at] = static_cast<char>(packed[at] | code << shift);
      const float value = static_cast<float>(code - 1) * kScale;
      std::memcpy(&floats[i * sizeof value], &value, sizeof value);
    }
    plain_.tensor(kGate).data = floats;
    packed_.tensor(kGate) = {kGate, "U8", {kStored, test::kTrainedWidth}, packed};
    packed_.tensors.push_back({std::string(kGate) + "_scale", "BF16", {1}, "\x9c\x3f"});
    packed_.config["quantization_config"] = kOffline;
  }

  void convert_both(const Options& options) {
    plain_.write(folder_ / "plain");
    packed_.write(folder_ / "packed");
    convert_one("plain", options);
    convert_one("packed", options);
  }
  void convert_one(const std::string& name, Options options) {
    options.model = folder_ / name;
    options.output = folder_ / (name + ".cria");
    options.tokenizer = TokenizerChoice::kNone;
    Progress progress(Verbosity::kQuiet);
    (void)convert(options, &progress);
  }
  void expect_refused(const std::vector<std::string>& parts) {
    packed_.write(folder_ / "packed");
    test::expect_invalid(parts, [&] { convert_one("packed", Options()); });
  }
  [[nodiscard]] std::vector<float> gate(const std::string& name) const {
    const ModelReadBack model(folder_ / name);
    return model.matrix(model.tensor(TensorRole::kGate, 0));
  }

  const test::TempFolder folder_;
  TinyCheckpoint plain_;
  TinyCheckpoint packed_;
};

TEST_F(BitnetFolder, HasItsTernaryWeightsExactly) {
  Options floats;
  floats.keeps_trained = false;
  floats.weights = NumberFormat::kF32;
  floats.group_size = 0;
  convert_both(floats);
  EXPECT_EQ(gate("packed.cria"), gate("plain.cria"));
  const std::vector<float> want = gate("plain.cria");
  convert_one("packed", Options());
  const ModelReadBack model(folder_ / "packed.cria");
  EXPECT_EQ(format_of(model, TensorRole::kGate, 0), NumberFormat::kBit2);
  EXPECT_EQ(format_of(model, TensorRole::kUp, 0), NumberFormat::kInt4);
  EXPECT_EQ(gate("packed.cria"), want);
}

TEST_F(BitnetFolder, WhoseScaleIsNoF16IsRounded) {
  packed_.tensors.back().data = "\x9c\x30";  // about 2^-30
  packed_.write(folder_ / "packed");
  convert_one("packed", Options());
  EXPECT_EQ(format_of(ModelReadBack(folder_ / "packed.cria"), TensorRole::kGate, 0),
            NumberFormat::kInt4);
}

TEST_F(BitnetFolder, OfAnotherKindIsRefusedByName) {
  packed_.config["quantization_config"] = R"({"quant_method":"bitnet"})";
  expect_refused({"quantization_config", "linear_class", "'bitlinear'", "autobitlinear"});
  packed_.config["quantization_config"] =
      R"({"quant_method":"bitnet","linear_class":"autobitlinear","quantization_mode":"online"})";
  expect_refused({"quantization_mode", "'online'"});
}

TEST_F(BitnetFolder, WithPartsThatDoNotFitIsRefused) {
  packed_.tensors.back().data = std::string("\x80\x7f", 2);  // infinite
  expect_refused({kGate, "weight_scale", "not a number"});
  packed_.tensors.back() = {std::string(kGate) + "_scale", "BF16", {2}, std::string(4, '?')};
  expect_refused({kGate, "weight_scale", "[2]"});
  packed_.tensors.pop_back();
  expect_refused({kGate, "has dtype U8"});
}

}  // namespace
}  // namespace cria::converter
