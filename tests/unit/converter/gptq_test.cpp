// Folders whose matrices are int4 already, as GPTQ and AutoRound write them.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "converter/convert.h"
#include "converter/gptq/gptq_settings.h"
#include "quant/numbers/float16.h"
#include "quant/numbers/tile16.h"
#include "tests/unit/converter/converter_fixtures.h"
#include "tests/unit/converter/model_read_back.h"

namespace cria::converter {
namespace {

using test::TestTensor;
using test::TinyCheckpoint;

constexpr uint32_t kGroup = 32;
constexpr size_t kInputs = 64;
constexpr size_t kOutputs = 64;
const std::string kName = "model.layers.0.self_attn.q_proj";

int code_of(size_t output, size_t input) {
  return static_cast<int>((output * 5 + input * 3) % 16) - 8;
}

// A scale for each group and output: some that bf16 has, some that it has not, some below zero.
float scale_of(size_t group, size_t output) {
  if (output == 0) return 0.25f;
  if (output == 1) return -0.25f;
  return 0.125f + static_cast<float>(group + output) / 2048;
}

template <typename T>
std::string bytes_of_values(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

std::vector<TestTensor> gptq_parts(uint32_t stored_zero) {
  std::vector<uint32_t> words(kInputs / 8 * kOutputs);
  for (size_t input = 0; input < kInputs; ++input) {
    for (size_t output = 0; output < kOutputs; ++output) {
      const auto nibble = static_cast<uint32_t>(code_of(output, input) + 8);
      words[input / 8 * kOutputs + output] |= nibble << (input % 8 * 4);
    }
  }
  std::vector<uint16_t> scales;
  for (size_t group = 0; group < kInputs / kGroup; ++group) {
    for (size_t output = 0; output < kOutputs; ++output) {
      scales.push_back(f32_to_f16(scale_of(group, output)));
    }
  }
  const std::vector<uint32_t> zeros(kInputs / kGroup * kOutputs / 8, stored_zero * 0x11111111);
  std::vector<uint32_t> groups(kInputs);
  for (size_t i = 0; i < kInputs; ++i) groups[i] = static_cast<uint32_t>(i / kGroup);
  return {{kName + ".qweight", "I32", {kInputs / 8, kOutputs}, bytes_of_values(words)},
          {kName + ".scales", "F16", {kInputs / kGroup, kOutputs}, bytes_of_values(scales)},
          {kName + ".qzeros", "I32", {kInputs / kGroup, kOutputs / 8}, bytes_of_values(zeros)},
          {kName + ".g_idx", "I32", {kInputs}, bytes_of_values(groups)}};
}

// Each value as JSON.
using Settings = std::map<std::string, std::string>;

Settings gptq_settings() {
  return {{"quant_method", R"("gptq")"},
          {"bits", "4"},
          {"group_size", std::to_string(kGroup)},
          {"sym", "true"}};
}

void set_settings(const Settings& settings, TinyCheckpoint* checkpoint) {
  checkpoint->config["quantization_config"] = test::json_object(settings);
}

TinyCheckpoint gptq_checkpoint() {
  TinyCheckpoint checkpoint;
  checkpoint.erase(kName + ".weight");
  for (TestTensor& part : gptq_parts(7)) checkpoint.tensors.push_back(part);
  set_settings(gptq_settings(), &checkpoint);
  return checkpoint;
}

ConversionReport run(const TinyCheckpoint& checkpoint, const test::TempFolder& folder,
                     format::NumberFormat weights, ScaleSigns scales = ScaleSigns::kPositive) {
  checkpoint.write(folder / "hf");
  Options options;
  options.model = folder / "hf";
  options.output = folder / "m.cria";
  options.weights = weights;
  options.group_size = weights == format::NumberFormat::kInt4 ? kGroup : 0;
  options.scales = scales;
  options.tokenizer = TokenizerChoice::kNone;
  Progress progress(Verbosity::kQuiet);
  return convert(options, &progress);
}

void expect_refused(const TinyCheckpoint& checkpoint, const std::vector<std::string>& parts) {
  const test::TempFolder folder;
  test::expect_invalid(parts, [&] { run(checkpoint, folder, format::NumberFormat::kInt4); });
}

// The planes of the quantized matrix in a model file, read with tile16's own arithmetic.
struct Planes {
  MatrixShape shape;
  std::string bytes;
  [[nodiscard]] const uint8_t* codes() const {
    return reinterpret_cast<const uint8_t*>(bytes.data());
  }
  [[nodiscard]] const uint8_t* scales() const { return codes() + code_plane_bytes(shape); }
};

Planes planes_of(const std::filesystem::path& path, format::NumberFormat weights) {
  const test::ModelReadBack model(path);
  const format::TensorEntry& entry = model.tensor(format::TensorRole::kQ, 0);
  return {{entry.rows, entry.cols, weights, entry.group_size}, model.raw(entry)};
}

// An output's codes and scales are the checkpoint's.
void expect_kept(const Planes& planes, size_t output) {
  std::vector<float> row(kInputs);
  unpack_row(planes.shape, planes.codes(), planes.scales(), output, row.data());
  for (size_t input = 0; input < kInputs; ++input) {
    EXPECT_EQ(unpack_code(planes.shape, planes.codes(), output, input), code_of(output, input));
    const float scale =
        bf16_to_f32(f32_to_bf16(f16_to_f32(f32_to_f16(scale_of(input / kGroup, output)))));
    EXPECT_EQ(row[input], static_cast<float>(code_of(output, input)) * scale);
  }
}

TEST(Gptq, CodesAreKeptOneByOne) {
  const test::TempFolder folder;
  const ConversionReport report = run(gptq_checkpoint(), folder, format::NumberFormat::kInt4);
  const Planes planes = planes_of(folder / "m.cria", format::NumberFormat::kInt4);
  for (size_t output = 0; output < kOutputs; ++output) {
    if (output == 1) continue;
    expect_kept(planes, output);
  }
  KeptGroups kept;
  for (const EncodedTensor& tensor : report.tensors) {
    kept.exact += tensor.kept.exact;
    kept.rounded += tensor.kept.rounded;
    kept.requantized += tensor.kept.requantized;
  }
  // Code -8 is in every group, so that the scales below zero do not fit.
  EXPECT_EQ(kept.requantized, kInputs / kGroup);
  EXPECT_GE(kept.exact, kInputs / kGroup);
  EXPECT_GT(kept.rounded, 0u);
  EXPECT_EQ(kept.exact + kept.rounded + kept.requantized, kOutputs * kInputs / kGroup);
  EXPECT_NE(summary_text(report).find("its int4: of 128 groups"), std::string::npos);
  EXPECT_NE(report.weights_text.find("int4 in groups of 32"), std::string::npos);
}

TEST(Gptq, SignedScalesKeepThoseBelowZeroToo) {
  const test::TempFolder folder;
  const ConversionReport report =
      run(gptq_checkpoint(), folder, format::NumberFormat::kInt4, ScaleSigns::kBoth);
  const Planes planes = planes_of(folder / "m.cria", format::NumberFormat::kInt4);
  for (size_t output = 0; output < kOutputs; ++output) {
    expect_kept(planes, output);
  }
  for (const EncodedTensor& tensor : report.tensors) EXPECT_EQ(tensor.kept.requantized, 0u);
}

TEST(Gptq, ValuesAreExactAsF32) {
  const test::TempFolder folder;
  run(gptq_checkpoint(), folder, format::NumberFormat::kF32);
  const Planes planes = planes_of(folder / "m.cria", format::NumberFormat::kF32);
  for (size_t output = 0; output < kOutputs; ++output) {
    std::vector<float> row(kInputs);
    unpack_row(planes.shape, planes.codes(), planes.scales(), output, row.data());
    for (size_t input = 0; input < kInputs; ++input) {
      const float scale = f16_to_f32(f32_to_f16(scale_of(input / kGroup, output)));
      EXPECT_EQ(row[input], static_cast<float>(code_of(output, input)) * scale);
    }
  }
}

TEST(Gptq, IsReadInBothFormatsAndOfAutoRound) {
  const test::TempFolder folder;
  TinyCheckpoint second = gptq_checkpoint();
  for (TestTensor& part : gptq_parts(8)) second.tensor(part.name).data = part.data;
  expect_refused(second, {kName, "is not symmetric"});
  Settings settings = gptq_settings();
  settings["checkpoint_format"] = R"("gptq_v2")";
  set_settings(settings, &second);
  EXPECT_NO_THROW(run(second, folder, format::NumberFormat::kInt4));
  settings = gptq_settings();
  settings["quant_method"] = R"("auto-round")";
  settings["packing_format"] = R"("auto_round:auto_gptq")";
  set_settings(settings, &second);
  second.erase(kName + ".g_idx");
  EXPECT_NO_THROW(run(second, folder, format::NumberFormat::kInt4));
}

TEST(Gptq, IsReadWithSettingsInAFileOfTheirOwn) {
  const test::TempFolder folder;
  TinyCheckpoint checkpoint = gptq_checkpoint();
  std::filesystem::create_directories(folder / "hf");
  test::write_file(folder / "hf/quantize_config.json",
                   R"({"bits": 4, "group_size": 32, "sym": true, "desc_act": false})");
  checkpoint.config.erase("quantization_config");
  EXPECT_NO_THROW(run(checkpoint, folder, format::NumberFormat::kInt4));
}

TEST(Gptq, OfAnotherKindIsRefusedWithWhatToDo) {
  struct Case {
    const char* key;
    const char* value;  // JSON
    const char* part;
  };
  const Case cases[] = {
      {"quant_method", R"("awq")", "quant_method 'awq' is not supported; convert the original"},
      {"quant_method", R"("bitsandbytes")", "'bitsandbytes'"},
      {"quant_method", R"("fp8")", "'fp8'"},
      {"quant_method", R"("compressed-tensors")", "'compressed-tensors'"},
      {"bits", "8", "bits is 8; only 4 is supported"},
      {"sym", "false", "sym false is not supported"},
      {"group_size", "-1", "group_size must be 32, 64 or 128"},
      {"checkpoint_format", R"("marlin")", "checkpoint_format 'marlin'"},
      {"format", R"("marlin")", "format 'marlin'"},
      {"is_marlin_format", "true", "is_marlin_format true is not supported"},
      {"quant_method", "null", "quant_method is missing: weights as bitsandbytes, MLX"},
  };
  for (const Case& c : cases) {
    TinyCheckpoint checkpoint = gptq_checkpoint();
    Settings settings = gptq_settings();
    settings[c.key] = c.value;
    set_settings(settings, &checkpoint);
    expect_refused(checkpoint, {"config.json", c.part});
  }
}

TEST(Gptq, OfAutoRoundOnlyIntegersAreRead) {
  TinyCheckpoint checkpoint = gptq_checkpoint();
  Settings settings = gptq_settings();
  settings["quant_method"] = R"("auto-round")";
  settings["data_type"] = R"("mx_fp")";
  set_settings(settings, &checkpoint);
  expect_refused(checkpoint, {"data_type 'mx_fp' is not supported"});
}

TEST(Gptq, WithoutSettingsOrWithItsPlainMatrixIsRefused) {
  TinyCheckpoint checkpoint = gptq_checkpoint();
  checkpoint.config.erase("quantization_config");
  expect_refused(checkpoint, {"packed weights", "quantize_config.json"});
  checkpoint = gptq_checkpoint();
  std::mt19937 rng(1);
  checkpoint.tensors.push_back(test::random_tensor(kName + ".weight", {kOutputs, kInputs}, &rng));
  expect_refused(checkpoint, {kName, "plain and packed"});
}

TEST(Gptq, WithPartsThatDoNotFitIsRefused) {
  TinyCheckpoint checkpoint = gptq_checkpoint();
  const uint32_t other = 1;
  std::memcpy(checkpoint.tensor(kName + ".g_idx").data.data(), &other, sizeof other);
  expect_refused(checkpoint, {kName, "desc_act"});
  checkpoint = gptq_checkpoint();
  checkpoint.tensor(kName + ".qzeros").data[0] = 0x67;
  expect_refused(checkpoint, {kName, "is not symmetric"});
  for (const char* part : {".scales", ".qzeros"}) {
    checkpoint = gptq_checkpoint();
    checkpoint.erase(kName + part);
    expect_refused(checkpoint, {kName, "without scales or qzeros"});
    checkpoint = gptq_checkpoint();
    checkpoint.tensor(kName + part).shape = {1, checkpoint.tensor(kName + part).shape[1] * 2};
    const bool is_scales = std::string(part) == ".scales";
    expect_refused(checkpoint,
                   {kName, is_scales ? "1 groups for its 64 inputs" : "qzeros of shape"});
  }
}

TEST(Gptq, ScalesOfOtherNumberTypesAreRead) {
  const test::TempFolder folder;
  for (const std::string type : {"BF16", "F32", "F64"}) {
    TinyCheckpoint checkpoint = gptq_checkpoint();
    TestTensor& scales = checkpoint.tensor(kName + ".scales");
    std::string data;
    for (size_t group = 0; group < kInputs / kGroup; ++group) {
      for (size_t output = 0; output < kOutputs; ++output) {
        const float scale = scale_of(group, output);
        data += type == "BF16"  ? bytes_of_values(std::vector<uint16_t>{f32_to_bf16(scale)})
                : type == "F32" ? bytes_of_values(std::vector<float>{scale})
                                : bytes_of_values(std::vector<double>{scale});
      }
    }
    scales.dtype = type;
    scales.data = data;
    if (type == "F64") {
      expect_refused(checkpoint, {kName, "scales of dtype F64", "convert the original"});
      continue;
    }
    run(checkpoint, folder, format::NumberFormat::kInt4);
    const Planes planes = planes_of(folder / "m.cria", format::NumberFormat::kInt4);
    std::vector<float> row(kInputs);
    unpack_row(planes.shape, planes.codes(), planes.scales(), 5, row.data());
    const float scale = bf16_to_f32(f32_to_bf16(scale_of(0, 5)));
    EXPECT_EQ(row[0], static_cast<float>(code_of(5, 0)) * scale) << type;
  }
}

// Quantizers let single layers have bits and groups of their own.
TEST(Gptq, ALayerOfAnotherKindSaysSo) {
  const auto refused = [](uint64_t inputs, uint64_t word_rows, uint64_t groups, bool has_order,
                          const std::string& part) {
    TinyCheckpoint checkpoint = gptq_checkpoint();
    const auto set = [&](const char* end, std::vector<uint64_t> shape, size_t bytes) {
      TestTensor& tensor = checkpoint.tensor(kName + end);
      size_t n = bytes;
      for (const uint64_t side : shape) n *= side;
      tensor.shape = std::move(shape);
      tensor.data = std::string(n, '\0');
    };
    set(".qweight", {word_rows, kOutputs}, sizeof(uint32_t));
    set(".scales", {groups, kOutputs}, sizeof(uint16_t));
    set(".qzeros", {groups, kOutputs / 8}, sizeof(uint32_t));
    set(".g_idx", {inputs}, sizeof(uint32_t));
    if (!has_order) checkpoint.erase(kName + ".g_idx");
    SCOPED_TRACE(part);
    expect_refused(checkpoint, {kName, part, "convert the original"});
  };
  for (const bool has_order : {true, false}) {
    refused(64, 16, 2, has_order, "codes of 8 bits");
    refused(128, 8, 4, has_order, "codes of 2 bits");
    refused(256, 24, 8, has_order, "codes of 3 bits");
    refused(48, 6, 2, has_order, "48 inputs, which are not a multiple of group_size 32");
  }
  refused(64, 8, 1, true, "1 groups for its 64 inputs");
}

}  // namespace
}  // namespace cria::converter
