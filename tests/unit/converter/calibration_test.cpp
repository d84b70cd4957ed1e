// Conversions with calibration: equal bytes, better outputs, what is refused.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "converter/calibration/token_sequences.h"
#include "converter/convert.h"
#include "converter/report.h"
#include "tests/unit/converter/converter_fixtures.h"
#include "tests/unit/converter/model_read_back.h"
#include "tests/unit/converter/tiny_gemma4.h"

namespace cria::converter {
namespace {

using test::expect_invalid;
using test::TinyCheckpoint;
using test::write_file;

class CalibrationTest : public ::testing::Test {
 protected:
  CalibrationTest() {
    TinyCheckpoint checkpoint;
    checkpoint.write(folder_ / "model");
    options_.model = folder_ / "model";
    options_.output = folder_ / "m.cria";
    options_.tokenizer = TokenizerChoice::kNone;
    options_.n_threads = 1;
    options_.verbosity = Verbosity::kQuiet;
    options_.calibration = {true, std::nullopt, 1024};
  }
  ConversionReport convert() {
    Progress progress(options_.verbosity);
    return converter::convert(options_, &progress);
  }

  test::TempFolder folder_;
  Options options_;
};

TEST_F(CalibrationTest, BytesAreThoseOfAnyNumberOfThreads) {
  (void)convert();
  const std::string first = test::read_file(options_.output);
  options_.n_threads = 3;
  (void)convert();
  EXPECT_TRUE(first == test::read_file(options_.output));
  options_.calibration.reset();
  (void)convert();
  EXPECT_FALSE(first == test::read_file(options_.output));
}

TEST_F(CalibrationTest, TheReportSaysWhatBecameOfEachMatrix) {
  const Json report = Json::parse(report_text(convert()));
  EXPECT_EQ(report["method"], "gptq");
  EXPECT_EQ(report["calibration"]["source"], "self");
  EXPECT_EQ(report["calibration"]["tokens"], 1024);
  EXPECT_EQ(report["calibration"]["held_out_tokens"], 128);
  EXPECT_EQ(report["calibration"]["seed"], 1);
  size_t n = 0;
  size_t n_gptq = 0;
  for (const Json& tensor : report["tensors"]) {
    if (!tensor.contains("rounding")) continue;
    const Json& rounding = tensor["rounding"];
    const double before = rounding["error_before"];
    const double error = rounding["error"];
    EXPECT_GT(error, 0) << tensor["name"];
    EXPECT_LE(error, before);
    EXPECT_EQ(rounding["kept"], error < before ? "gptq" : "mse");
    n_gptq += rounding["kept"] == "gptq" ? 1 : 0;
    ++n;
  }
  EXPECT_EQ(n, 8u);  // seven of the layer, and the output layer
  EXPECT_GE(n_gptq, 6u);
}

TEST_F(CalibrationTest, GivenTokensServeAsWell) {
  std::string lines;
  for (size_t line = 0; line < 10; ++line) {
    for (size_t i = 0; i < 40; ++i) lines += std::to_string((line * 7 + i * i) % 50) + " ";
    lines += "\n";
  }
  write_file(folder_ / "ids.txt", lines);
  options_.calibration->file = folder_ / "ids.txt";
  const Json gptq = Json::parse(report_text(convert()));
  EXPECT_EQ(gptq["calibration"]["source"], "ids.txt");
  EXPECT_EQ(gptq["calibration"]["tokens"], 400);
  EXPECT_FALSE(gptq["calibration"].contains("seed"));
  options_.calibration->feedback = false;
  const Json mse = Json::parse(report_text(convert()));
  EXPECT_EQ(mse["method"], "mse");
  EXPECT_EQ(mse["calibration"]["tokens"], 400);
}

TEST_F(CalibrationTest, TiedTablesAndGroupsOf128AreRoundedToo) {
  TinyCheckpoint checkpoint;
  checkpoint.config["tie_word_embeddings"] = "true";
  checkpoint.erase("lm_head.weight");
  checkpoint.write(folder_ / "model");
  options_.group_size = 128;
  const ConversionReport report = convert();
  EXPECT_TRUE(has_flag(report.config(), format::kTiedEmbedding));
  EXPECT_TRUE(report.tensors.at(1).error.noise > 0);
}

// Those of eight bits make up for what was changed before them. Matrices of floats, and an
// embedding of eight bits, are stored as without calibration.
TEST_F(CalibrationTest, MatricesOfIntegersAreRounded) {
  options_.weights_of[format::TensorRole::kEmbedding] = {format::NumberFormat::kInt8G32, 32};
  options_.weights_of[format::TensorRole::kLmHead] = {format::NumberFormat::kInt8G32, 32};
  options_.weights_of[format::TensorRole::kV] = {format::NumberFormat::kInt8G32, 32};
  options_.weights_of[format::TensorRole::kO] = {format::NumberFormat::kInt8, 0};
  options_.weights_of[format::TensorRole::kUp] = {format::NumberFormat::kBf16, 0};
  options_.weights_of[format::TensorRole::kDown] = {format::NumberFormat::kInt4Nl, 64};
  const Json report = Json::parse(report_text(convert()));
  const test::ModelReadBack calibrated(options_.output);
  options_.calibration.reset();
  (void)convert();
  const test::ModelReadBack plain(options_.output);
  size_t n_rounded = 0;
  for (size_t i = 0; i < plain.tensors().size(); ++i) {
    const format::TensorEntry& entry = plain.tensors()[i];
    const auto f = static_cast<format::NumberFormat>(entry.number_format);
    const bool is_rounded =
        is_integer(f) && entry.role != static_cast<uint16_t>(format::TensorRole::kEmbedding);
    EXPECT_EQ(report["tensors"][i].contains("rounding"), is_rounded) << i;
    n_rounded += is_rounded ? 1 : 0;
    if (!is_rounded) {
      EXPECT_EQ(calibrated.raw(calibrated.tensors()[i]), plain.raw(entry)) << i;
    }
  }
  EXPECT_EQ(n_rounded, 7u);  // all but up, and the output layer
}

TEST_F(CalibrationTest, WhatReadsPerLayerEmbeddingsAndSharedKeysIsRounded) {
  test::tiny_gemma4().write(folder_ / "model");
  const Json report = Json::parse(report_text(convert()));
  size_t n_gptq = 0;
  size_t n = 0;
  for (const Json& tensor : report["tensors"]) {
    const std::string name = tensor["name"];
    const bool is_table = name == "embedding" || name == "per_layer_table";
    const bool is_rounded = tensor.contains("rounding");
    EXPECT_EQ(is_rounded, tensor["format"] != "f32" && !is_table) << name;
    if (!is_rounded) continue;
    const Json& rounding = tensor["rounding"];
    EXPECT_GT(rounding["error"], 0) << name;
    EXPECT_LE(rounding["error"], rounding["error_before"]) << name;
    n_gptq += rounding["kept"] == "gptq" ? 1 : 0;
    ++n;
  }
  EXPECT_EQ(n, 1U + 2 * 9 + 2 * 7);
  EXPECT_GE(n_gptq, n * 3 / 4);
  const std::string first = test::read_file(options_.output);
  options_.n_threads = 3;
  (void)convert();
  EXPECT_TRUE(first == test::read_file(options_.output));
}

TEST_F(CalibrationTest, TheOutputMayNotBeWhatIsRead) {
  options_.calibration->file = options_.output;
  write_file(options_.output, "1 2 3\n");
  test::expect_refused(ExitCode::kUsage, {"--calibration"}, [&] { (void)convert(); });
  EXPECT_EQ(test::read_file(options_.output), "1 2 3\n");
}

class TokenFile : public ::testing::Test {
 protected:
  TokenSequences read(const std::string& text, size_t length = 4, size_t n_tokens = 1000) {
    write_file(folder_ / "ids.txt", text);
    return read_token_file(folder_ / "ids.txt", 50, length, n_tokens);
  }
  test::TempFolder folder_;
};

TEST_F(TokenFile, LinesAreSequencesAndLongOnesAreCut) {
  const TokenSequences text = read("1 2 3 4 5 6\n7,8, 9\n\n10\t11\r\n12\n1 2\n1 2\n1 2\n1 2\n49 0");
  const TokenSequences want = {{1, 2, 3, 4}, {5, 6}, {7, 8, 9}, {10, 11}, {1, 2},
                               {1, 2},       {1, 2}, {1, 2},    {49, 0}};
  EXPECT_EQ(text, want);
}

TEST_F(TokenFile, NoMoreTokensAreTakenThanWanted) {
  const TokenSequences text = read("1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20\n", 2, 17);
  EXPECT_EQ(token_count(text), 16u);
}

TEST_F(TokenFile, WhatIsNoIdIsRefusedWithItsLine) {
  const std::string good = "1 2\n1 2\n1 2\n1 2\n1 2\n1 2\n1 2\n";
  expect_invalid({"ids.txt", "line 8", "cria tokenize"}, [&] { (void)read(good + "1 x\n"); });
  expect_invalid({"line 8"}, [&] { (void)read(good + "Once upon a time"); });
  expect_invalid({"line 8"}, [&] { (void)read(good + "-1 2"); });
  expect_invalid({"line 8"}, [&] { (void)read(good + "1.5 2"); });
  expect_invalid({"line 8", "below"}, [&] { (void)read(good + "1 50"); });
  expect_invalid({"line 8", "below"}, [&] { (void)read(good + "1 99999999999999999999"); });
  expect_invalid({"line 8"}, [&] { (void)read(good + std::string("1\0 2", 4)); });
  expect_invalid({"7 of the 8 sequences", "two tokens or more"}, [&] { (void)read(good); });
  expect_invalid({"0 of the 8 sequences"}, [&] { (void)read(""); });
  expect_invalid({"nothing.txt"},
                 [&] { (void)read_token_file(folder_ / "nothing.txt", 50, 4, 100); });
}

}  // namespace
}  // namespace cria::converter
