// Conversions with --bits: what is chosen, what the report and the file say of it, what is refused.
#include "converter/calibration/mixed_formats.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "converter/convert.h"
#include "converter/report.h"
#include "tests/support/test_configs.h"
#include "tests/unit/converter/converter_fixtures.h"
#include "tests/unit/converter/model_read_back.h"

namespace cria::converter {
namespace {

using format::NumberFormat;
using format::TensorRole;

class ChosenFormatsTest : public ::testing::Test {
 protected:
  ChosenFormatsTest() {
    test::TinyCheckpoint(128, 256, 50).write(folder_ / "model");
    options_.model = folder_ / "model";
    options_.output = folder_ / "m.cria";
    options_.tokenizer = TokenizerChoice::kNone;
    options_.n_threads = 1;
    options_.verbosity = Verbosity::kQuiet;
    options_.bits = 5.5;
  }
  ConversionReport convert() {
    Progress progress(options_.verbosity);
    return converter::convert(options_, &progress);
  }

  test::TempFolder folder_;
  Options options_;
};

// Of the entries of a file, with arithmetic of its own: 16 rows a tile.
double bits_of(const std::vector<format::TensorEntry>& entries) {
  double bits = 0;
  double n_weights = 0;
  for (const format::TensorEntry& entry : entries) {
    if (entry.rows == 1) continue;
    const double padded_rows = (entry.rows + 15) / 16 * 16;
    const auto padded = [&](uint32_t multiple) {
      return static_cast<double>((entry.cols + multiple - 1) / multiple * multiple);
    };
    n_weights += static_cast<double>(entry.rows) * entry.cols;
    if (entry.group_size == 0) {
      bits += padded_rows * (padded(32) * 8 + 32);
    } else if (entry.number_format == static_cast<uint8_t>(NumberFormat::kInt8G32)) {
      bits += padded_rows * padded(32) * 8.5;
    } else {
      bits += padded_rows * padded(entry.group_size) * (4 + 16.0 / entry.group_size);
    }
  }
  return bits / n_weights;
}

TEST_F(ChosenFormatsTest, TheFileKeepsWithinTheBitsAndTheReportIsTrueToIt) {
  for (const double bits : {4.5, 5.5, 7.0, 8.4}) {
    options_.bits = bits;
    const Json report = Json::parse(report_text(convert()));
    const test::ModelReadBack file(options_.output);
    const double reached = report["bits"]["reached"];
    EXPECT_LE(reached, bits);
    EXPECT_GT(reached, bits - 0.7);
    EXPECT_NEAR(bits_of(file.tensors()), reached, 1e-9);
    EXPECT_EQ(report["bits"]["wished"], bits);
    EXPECT_EQ(report["bits"]["source"], "self");
    EXPECT_EQ(report["bits"]["seed"], 1);
    EXPECT_EQ(report["bits"]["divergence_measured_in"], "int4 in groups of 32");
    size_t n = 0;
    for (size_t i = 0; i < report["tensors"].size(); ++i) {
      const Json& tensor = report["tensors"][i];
      const format::TensorEntry& entry = file.tensors()[i];
      EXPECT_EQ(tensor["format"],
                number_format_name(static_cast<NumberFormat>(entry.number_format)));
      EXPECT_EQ(tensor.value("group_size", 0), entry.group_size);
      if (!tensor.contains("divergence")) continue;
      ++n;
      const double measured = tensor["divergence"]["measured"];
      const double expected = tensor["divergence"]["expected"];
      EXPECT_GT(measured, 0) << tensor["name"];
      if (!has_nibbles(static_cast<NumberFormat>(entry.number_format))) {
        EXPECT_LT(expected, 0.05 * measured);
      } else if (entry.group_size == 32) {
        EXPECT_EQ(expected, measured);
      } else {
        EXPECT_GT(expected, 0.8 * measured);
      }
    }
    EXPECT_EQ(n, 9u);
  }
}

TEST_F(ChosenFormatsTest, BytesAreThoseOfAnyNumberOfThreads) {
  (void)convert();
  const std::string first = test::read_file(options_.output);
  options_.n_threads = 3;
  (void)convert();
  EXPECT_TRUE(first == test::read_file(options_.output));
  options_.calibration = {true, std::nullopt, 1024};
  (void)convert();
  const std::string calibrated = test::read_file(options_.output);
  EXPECT_FALSE(first == calibrated);
  options_.n_threads = 1;
  (void)convert();
  EXPECT_TRUE(calibrated == test::read_file(options_.output));
}

TEST_F(ChosenFormatsTest, CalibrationRoundsMatricesOfFourAndEightBits) {
  options_.calibration = {true, std::nullopt, 1024};
  const ConversionReport report = convert();
  size_t n_nibbles = 0;
  size_t n_others = 0;
  for (const EncodedTensor& tensor : report.tensors) {
    const bool is_nibbles = has_nibbles(static_cast<NumberFormat>(tensor.entry.number_format));
    if (!tensor.spec.is_matrix() || tensor.spec.role == TensorRole::kEmbedding) continue;
    EXPECT_TRUE(tensor.rounding.has_value());
    ++(is_nibbles ? n_nibbles : n_others);
  }
  EXPECT_GT(n_nibbles, 0u);
  EXPECT_GT(n_others, 0u);
}

// XNNPACK takes positive scales, and no int8g32.
TEST_F(ChosenFormatsTest, PositiveScalesAreWithoutWhatXnnpackHasNot) {
  options_.scales = ScaleSigns::kPositive;
  options_.bits = 7.5;
  size_t n_int8 = 0;
  for (const EncodedTensor& tensor : convert().tensors) {
    EXPECT_NE(tensor.entry.number_format, static_cast<uint8_t>(NumberFormat::kInt8G32));
    n_int8 += tensor.entry.number_format == static_cast<uint8_t>(NumberFormat::kInt8) ? 1 : 0;
  }
  EXPECT_GT(n_int8, 0u);
}

TEST_F(ChosenFormatsTest, FourBitsMayBeUneven) {
  options_.weights = NumberFormat::kInt4Nl;
  (void)convert();
  std::map<NumberFormat, size_t> n;
  const test::ModelReadBack file(options_.output);
  for (const format::TensorEntry& entry : file.tensors()) {
    ++n[static_cast<NumberFormat>(entry.number_format)];
  }
  EXPECT_GT(n[NumberFormat::kInt4Nl], 0u);
  EXPECT_GT(n[NumberFormat::kInt8] + n[NumberFormat::kInt8G32], 0u);
  EXPECT_EQ(n[NumberFormat::kInt4], 0u);
}

TEST_F(ChosenFormatsTest, ScalesAreSaidToBeSignedWhereSomeAre) {
  const auto is_signed = [this] {
    return has_flag(test::ModelReadBack(options_.output).config(), format::kSignedScales);
  };
  (void)convert();
  EXPECT_TRUE(is_signed());
  options_.scales = ScaleSigns::kPositive;
  (void)convert();
  EXPECT_FALSE(is_signed());
  // All in eight bits.
  options_.scales = ScaleSigns::kBoth;
  const ConversionReport made = convert();
  options_.bits = bits_of_matrices(
      made.config(), std::vector<MatrixFormat>(made.tensors.size(), {NumberFormat::kInt8G32, 32}));
  (void)convert();
  EXPECT_FALSE(is_signed());
}

TEST_F(ChosenFormatsTest, TheTextMayBeGiven) {
  std::string lines;
  for (size_t line = 0; line < 10; ++line) {
    for (size_t i = 0; i < 40; ++i) lines += std::to_string((line * 7 + i * i) % 50) + " ";
    lines += "\n";
  }
  test::write_file(folder_ / "ids.txt", lines);
  options_.calibration = {false, folder_ / "ids.txt", std::nullopt};
  const Json report = Json::parse(report_text(convert()));
  EXPECT_EQ(report["bits"]["source"], "ids.txt");
  EXPECT_EQ(report["bits"]["tokens"], 400);
  EXPECT_FALSE(report["bits"].contains("seed"));
}

TEST_F(ChosenFormatsTest, BitsThatTheModelCannotHaveAreRefusedWithWhatItCan) {
  for (const double bits : {4.0, 15.0}) {
    options_.bits = bits;
    test::expect_refused(ExitCode::kUsage, {"--bits", "4.", " to ", "bits a weight"},
                         [&] { (void)convert(); });
    EXPECT_FALSE(std::filesystem::exists(options_.output));
  }
}

TEST_F(ChosenFormatsTest, ThePlanOfAWishIsAnUpperBound) {
  const std::filesystem::path output = options_.output;
  for (const double bits : {4.8, 6.0, 8.4}) {
    options_.bits = bits;
    options_.output = output;
    const ConversionReport made = convert();
    options_.output.clear();
    const ConversionReport planned = convert();
    EXPECT_GE(planned.plan.total, made.plan.total);
    EXPECT_GE(planned.plan.model.weights, made.plan.model.weights);
    EXPECT_NE(found_text(planned).find("memory to run it, at most"), std::string::npos);
    EXPECT_NE(found_text(planned).find("memory to calibrate it"), std::string::npos);
  }
}

// A tensor whose format is given keeps it, and the others share what it leaves.
TEST(ChosenFormats, WhatIsFixedHasNoChoice) {
  ConfigParts parts = test::small_config(NumberFormat::kInt4, 32);
  parts.model.d_model = 128;
  parts.kinds[0].d_ff = 256;
  const Config config = parts.view();
  MixedRequest request = {5, NumberFormat::kInt4, ScaleSigns::kBoth, QuantMethod::kMse, {}, {}};
  const double least = bits_of_matrices(config, smallest_formats(config, request));
  request.fixed.resize(tensor_count(config));
  for (uint32_t i = 0; i < request.fixed.size(); ++i) {
    if (tensor_spec(config, i, kMixedFormats[0]).role == TensorRole::kDown) {
      request.fixed[i] = {NumberFormat::kF16, 0};
    }
  }
  EXPECT_GT(bits_of_matrices(config, smallest_formats(config, request)), least + 1);
  request.bits = least + 0.5;
  test::expect_refused(ExitCode::kUsage, {"--bits"}, [&] { check_bits(config, request); });
  request.bits = 9;
  check_bits(config, request);
}

TEST_F(ChosenFormatsTest, WhatWeightsOfGivesStays) {
  options_.weights_of[TensorRole::kDown] = {NumberFormat::kF16, 0};
  options_.bits = 8;
  const ConversionReport report = convert();
  EXPECT_LE(report.choice->bits, 8);
  for (size_t i = 0; i < report.tensors.size(); ++i) {
    const format::TensorEntry& entry = report.tensors[i].entry;
    const bool is_given = entry.role == static_cast<uint16_t>(TensorRole::kDown);
    if (!report.tensors[i].spec.is_matrix()) continue;
    EXPECT_EQ(entry.number_format == static_cast<uint8_t>(NumberFormat::kF16), is_given);
    EXPECT_EQ(report.choice->divergences[i].has_value(), !is_given);
  }
}

}  // namespace
}  // namespace cria::converter
