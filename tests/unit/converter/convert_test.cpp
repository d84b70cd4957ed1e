// Whole conversions: what is in the file is what the checkpoint holds, quantized.
#include "converter/convert.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <nlohmann/json.hpp>

#include "converter/checkpoint.h"
#include "converter/float_rows.h"
#include "converter/tensor_plan.h"
#include "quant/model/model_layout.h"
#include "tests/support/folders.h"
#include "tests/support/sampling.h"
#include "tests/unit/converter/converter_fixtures.h"
#include "tests/unit/converter/model_read_back.h"

namespace cria::test {
namespace {

using converter::ConversionReport;
using converter::Json;
using converter::Options;
using converter::PlannedTensor;
using format::Compression;
using format::NumberFormat;

struct Choice {
  const char* name;
  NumberFormat weights;
  uint16_t group_size;
  QuantMethod method;
};

constexpr Choice kChoices[] = {
    {"int4 g32 mse", NumberFormat::kInt4, 32, QuantMethod::kMse},
    {"int4 g64 rtn", NumberFormat::kInt4, 64, QuantMethod::kRtn},
    {"int4 g128 rtn", NumberFormat::kInt4, 128, QuantMethod::kRtn},
    {"int4nl g32 mse", NumberFormat::kInt4Nl, 32, QuantMethod::kMse},
    {"int4nl g64 rtn", NumberFormat::kInt4Nl, 64, QuantMethod::kRtn},
    {"int8 mse", NumberFormat::kInt8, 0, QuantMethod::kMse},
    {"f16", NumberFormat::kF16, 0, QuantMethod::kMse},
    {"bf16", NumberFormat::kBf16, 0, QuantMethod::kMse},
    {"f32", NumberFormat::kF32, 0, QuantMethod::kMse},
    {"int8g32 mse", NumberFormat::kInt8G32, 32, QuantMethod::kMse},
    {"int8g32 rtn", NumberFormat::kInt8G32, 32, QuantMethod::kRtn},
};

Options options_for(const std::filesystem::path& model, const std::filesystem::path& output,
                    const Choice& choice, Compression compression) {
  Options options;
  options.model = model;
  options.output = output;
  options.weights = choice.weights;
  options.group_size = choice.group_size;
  options.method = choice.method;
  options.compression = compression;
  options.tokenizer = converter::TokenizerChoice::kNone;
  options.n_threads = 2;
  options.verbosity = converter::Verbosity::kQuiet;
  return options;
}

ConversionReport run(const Options& options) {
  converter::Progress progress(options.verbosity);
  return converter::convert(options, &progress);
}

std::vector<float> source_values(const converter::SourceTensor& source) {
  std::vector<uint8_t> scratch;
  std::vector<float> values(source.n_rows() * source.n_cols());
  source.read_rows(0, source.n_rows(), &scratch, values.data());
  return values;
}

// What a row becomes by quantizing and dequantizing it.
std::vector<float> rounded_row(const MatrixShape& shape, QuantMethod method, const float* row) {
  std::vector<float> out(row, row + shape.cols);
  std::vector<int8_t> codes(padded_cols(shape));
  switch (shape.number_format) {
    case NumberFormat::kInt4:
    case NumberFormat::kInt4Nl:
    case NumberFormat::kInt8G32: {
      std::vector<uint16_t> scales(codes.size() / shape.group_size);
      const ScaleSigns signs =
          may_be_signed(shape.number_format) ? ScaleSigns::kBoth : ScaleSigns::kPositive;
      quantize_groups(shape, row, 1, method, signs, codes.data(), scales.data());
      for (size_t i = 0; i < out.size(); ++i) {
        out[i] = static_cast<float>(value_of_code(shape.number_format, codes[i])) *
                 bf16_to_f32(scales[i / shape.group_size]);
      }
      break;
    }
    case NumberFormat::kInt8: {
      float scale = 0;
      quantize_row_int8(row, shape.cols, method, codes.size(), codes.data(), &scale);
      for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(codes[i]) * scale;
      break;
    }
    case NumberFormat::kF16:
      for (float& value : out) value = f16_to_f32(f32_to_f16(value));
      break;
    case NumberFormat::kBf16:
      for (float& value : out) value = bf16_to_f32(f32_to_bf16(value));
      break;
    case NumberFormat::kF32:
    case NumberFormat::kBit1:  // nothing is rounded to these
    case NumberFormat::kBit2:
      break;
  }
  return out;
}

size_t expect_tensor(const ModelReadBack& file, const format::TensorEntry& entry,
                     const PlannedTensor& planned, QuantMethod method) {
  const MatrixShape& shape = planned.spec.shape;
  EXPECT_EQ(entry.role, static_cast<uint16_t>(planned.spec.role));
  EXPECT_EQ(entry.layer, planned.spec.layer);
  EXPECT_EQ(entry.rows, shape.rows);
  EXPECT_EQ(entry.cols, shape.cols);
  EXPECT_EQ(entry.number_format, static_cast<uint8_t>(shape.number_format));
  EXPECT_EQ(entry.group_size, shape.group_size);
  EXPECT_EQ(entry.raw_bytes, tensor_bytes(planned.spec));
  if (planned.source == nullptr) return 0;
  const std::vector<float> source = source_values(*planned.source);
  if (!planned.spec.is_matrix()) {
    EXPECT_EQ(file.vector(entry), source);
    return source.size();
  }
  const std::vector<float> found = file.matrix(entry);
  EXPECT_EQ(found.size(), source.size());
  for (size_t row = 0; row < shape.rows; ++row) {
    const size_t at = row * shape.cols;
    const std::vector<float> want = rounded_row(shape, method, source.data() + at);
    const bool same = std::equal(want.begin(), want.end(), found.begin() + static_cast<long>(at));
    EXPECT_TRUE(same) << planned.source->name() << " row " << row;
    if (!same) break;
  }
  return source.size();
}

// Compares every weight of what a conversion wrote; returns how many were compared.
size_t expect_holds_checkpoint(const ModelReadBack& file, const Options& options) {
  const std::unique_ptr<converter::Checkpoint> checkpoint =
      converter::open_checkpoint(options.model);
  checkpoint->open_weights();
  std::vector<MatrixFormat> formats;
  for (const format::TensorEntry& entry : file.tensors()) {
    formats.push_back({static_cast<NumberFormat>(entry.number_format), entry.group_size});
  }
  const converter::TensorPlan plan = converter::plan_tensors(*checkpoint, file.config(), formats);
  size_t n_compared = 0;
  for (size_t i = 0; i < plan.tensors.size(); ++i) {
    n_compared += expect_tensor(file, file.tensors().at(i), plan.tensors[i], options.method);
  }
  return n_compared;
}

size_t expect_faithful(const std::filesystem::path& model, const Choice& choice,
                       Compression compression) {
  const TempFolder folder;
  const Options options = options_for(model, folder / "m.cria", choice, compression);
  const ConversionReport report = run(options);
  EXPECT_EQ(files_in(folder.path()), 1u);
  const ModelReadBack file(folder / "m.cria");
  EXPECT_EQ(check_config(file.config()), nullptr);
  const std::string section = file.section(format::SectionKind::kConfig);
  EXPECT_EQ(std::memcmp(section.data(), report.config_section.bytes, section.size()), 0);
  EXPECT_EQ(file.chunks().size(), chunk_count(file.config()));
  EXPECT_EQ(file.tensors().size(), tensor_count(file.config()));
  EXPECT_EQ(report.file_bytes, std::filesystem::file_size(folder / "m.cria"));
  return expect_holds_checkpoint(file, options);
}

TEST(Convert, EveryFormatHoldsTheQuantizedCheckpoint) {
  const TempFolder folder;
  TinyCheckpoint checkpoint;
  checkpoint.write(folder.path());
  for (const Choice& choice : kChoices) {
    for (const Compression compression : {Compression::kStored, Compression::kZstd}) {
      SCOPED_TRACE(choice.name);
      EXPECT_GT(expect_faithful(folder.path(), choice, compression), 0u);
    }
  }
}

TEST(Convert, EveryReferenceCheckpointConvertsInEveryFormat) {
  const auto reference = reference_folder();
  if (!reference) GTEST_SKIP() << "no $CRIA_SHARED/reference";
  std::vector<std::filesystem::path> models = {*reference / "trained/story-hf"};
  for (const auto& entry : std::filesystem::directory_iterator(*reference / "checkpoints")) {
    models.push_back(entry.path());
  }
  EXPECT_EQ(models.size(), 10u);
  // Of a sample every tenth pair, so a format or two a checkpoint.
  const size_t step = sweep_step() == 1 ? 1 : 10;
  const size_t n_choices = std::size(kChoices);
  size_t converted = 0;
  for (size_t i = 0; i < models.size() * n_choices; i += step, ++converted) {
    const std::filesystem::path& model = models[i / n_choices];
    const Choice& choice = kChoices[i % n_choices];
    SCOPED_TRACE(model.filename().string() + " " + choice.name);
    EXPECT_GT(expect_faithful(model, choice, Compression::kZstd), 10000u);
  }
  std::printf("%zu of %zu pairs of checkpoint and format\n", converted, models.size() * n_choices);
}

class WeightsOf : public ::testing::Test {
 protected:
  Options options_with(const Choice& choice) {
    checkpoint_.write(folder_ / "model");
    return options_for(folder_ / "model", folder_ / "m.cria", choice, Compression::kZstd);
  }
  static MatrixFormat format_of_tensor(const ModelReadBack& file, format::TensorRole role,
                                       uint32_t layer) {
    const format::TensorEntry& entry = file.tensor(role, layer);
    return {static_cast<NumberFormat>(entry.number_format), entry.group_size};
  }

  TempFolder folder_;
  TinyCheckpoint checkpoint_;
};

TEST_F(WeightsOf, OneMatrixHasItsOwnFormatAndTheOthersTheUsual) {
  Options options = options_with(kChoices[0]);
  constexpr MatrixFormat kEmbedding = {NumberFormat::kInt8G32, 32};
  constexpr MatrixFormat kDown = {NumberFormat::kInt4Nl, 64};
  constexpr MatrixFormat kLmHead = {NumberFormat::kF16, 0};
  options.weights_of[format::TensorRole::kEmbedding] = kEmbedding;
  options.weights_of[format::TensorRole::kDown] = kDown;
  options.weights_of[format::TensorRole::kLmHead] = kLmHead;
  const ConversionReport report = run(options);
  const ModelReadBack file(folder_ / "m.cria");
  using format::TensorRole;
  EXPECT_EQ(format_of_tensor(file, TensorRole::kEmbedding, format::kNone), kEmbedding);
  EXPECT_EQ(format_of_tensor(file, TensorRole::kLmHead, format::kNone), kLmHead);
  EXPECT_EQ(format_of_tensor(file, TensorRole::kDown, 0), kDown);
  for (const TensorRole role : {TensorRole::kQ, TensorRole::kK, TensorRole::kV, TensorRole::kO,
                                TensorRole::kGate, TensorRole::kUp}) {
    EXPECT_EQ(format_of_tensor(file, role, 0), (MatrixFormat{NumberFormat::kInt4, 32}));
  }
  EXPECT_GT(expect_holds_checkpoint(file, options), 1000u);
  const std::string found = converter::found_text(report);
  EXPECT_NE(found.find("to be written: int4 in groups of 32; embedding: int8g32; "
                       "down: int4nl in groups of 64; lm_head: f16, scales of either sign (mse)"),
            std::string::npos)
      << found;
  const Json json = converter::metadata_json(report);
  EXPECT_EQ(json["weights"], "int4");
  const Json want = {
      {{"matrix", "embedding"}, {"format", "int8g32"}, {"group_size", 32}, {"count", 1}},
      {{"matrix", "down"}, {"format", "int4nl"}, {"group_size", 64}, {"count", 1}},
      {{"matrix", "lm_head"}, {"format", "f16"}, {"count", 1}}};
  EXPECT_EQ(json["other_formats"], want);
}

TEST_F(WeightsOf, SignsAreThereWhereSomeMatrixHasThem) {
  const auto is_signed = [&](const Options& options) {
    (void)run(options);
    return has_flag(ModelReadBack(folder_ / "m.cria").config(), format::kSignedScales);
  };
  Options options = options_with({"", NumberFormat::kInt8G32, 32, QuantMethod::kMse});
  EXPECT_FALSE(is_signed(options));
  auto& of_up = options.weights_of[format::TensorRole::kUp];
  of_up = {NumberFormat::kInt4, 64};
  EXPECT_TRUE(is_signed(options));
  options.scales = ScaleSigns::kPositive;
  EXPECT_FALSE(is_signed(options));
  of_up = {NumberFormat::kInt8, 0};
  options.scales = ScaleSigns::kBoth;
  EXPECT_FALSE(is_signed(options));
}

// One matrix serves as both: the embedding's format is the output layer's.
TEST_F(WeightsOf, TheOutputLayerOfATiedModelIsTheEmbedding) {
  checkpoint_.config["tie_word_embeddings"] = "true";
  checkpoint_.erase("lm_head.weight");
  Options options = options_with(kChoices[0]);
  options.weights_of = {{format::TensorRole::kLmHead, {NumberFormat::kInt8G32, 32}}};
  expect_refused(converter::ExitCode::kUsage, {"--weights-of lm_head", "--weights-of embedding"},
                 [&] { (void)run(options); });
  EXPECT_FALSE(std::filesystem::exists(folder_ / "m.cria"));
  options.weights_of = {{format::TensorRole::kEmbedding, {NumberFormat::kInt8G32, 32}}};
  (void)run(options);
  const ModelReadBack file(folder_ / "m.cria");
  EXPECT_EQ(model_matrix(file.config(), format::TensorRole::kLmHead).number_format,
            NumberFormat::kInt8G32);
  EXPECT_GT(expect_holds_checkpoint(file, options), 1000u);
}

// Tiles of 4352 bytes, so that chunks end inside tiles, and a matrix of several batches.
TEST(Convert, ChunksThatCutTilesApartComeTogetherAgain) {
  const TempFolder folder;
  TinyCheckpoint(68, 36, 33001).write(folder.path());
  EXPECT_GT(expect_faithful(folder.path(), kChoices[6], Compression::kZstd), 4000000u);
  EXPECT_GT(expect_faithful(folder.path(), kChoices[0], Compression::kZstd), 4000000u);
}

TEST(Convert, TheSameBytesForAnyNumberOfThreads) {
  const TempFolder folder;
  TinyCheckpoint(68, 36, 9001).write(folder / "model");
  for (const Choice& choice : kChoices) {
    SCOPED_TRACE(choice.name);
    std::string first;
    for (const size_t n_threads : {1u, 4u, 7u}) {
      Options options =
          options_for(folder / "model", folder / "m.cria", choice, Compression::kZstd);
      options.n_threads = n_threads;
      (void)run(options);
      const std::string bytes = read_file(folder / "m.cria");
      if (first.empty()) first = bytes;
      EXPECT_EQ(first == bytes, true) << n_threads << " threads";
    }
  }
}

enum class Held { kFloats, kTwoBytes, kCodes };

// What chunk number `chunk` of a tensor holds.
Held held(const format::TensorEntry& tensor, uint32_t chunk) {
  const bool is_last = chunk == tensor.first_chunk + tensor.n_chunks - 1;
  switch (static_cast<NumberFormat>(tensor.number_format)) {
    case NumberFormat::kF32:
      return Held::kFloats;
    case NumberFormat::kF16:
    case NumberFormat::kBf16:
      return Held::kTwoBytes;
    case NumberFormat::kInt8:
      return is_last ? Held::kFloats : Held::kCodes;  // tiny: one chunk of scales
    default:
      return is_last ? Held::kTwoBytes : Held::kCodes;
  }
}

// Only codes may be either: tiny matrices are mostly padding.
TEST(Convert, ValuesThatHaveUpperBitsAreCompressedApart) {
  const TempFolder folder;
  TinyCheckpoint().write(folder / "model");
  size_t n_codes_apart = 0;
  for (const Choice& choice : kChoices) {
    SCOPED_TRACE(choice.name);
    (void)run(options_for(folder / "model", folder / "m.cria", choice, Compression::kZstd));
    const ModelReadBack file(folder / "m.cria");
    for (const format::TensorEntry& tensor : file.tensors()) {
      for (uint32_t i = tensor.first_chunk; i < tensor.first_chunk + tensor.n_chunks; ++i) {
        const uint32_t compression = file.chunks().at(i).compression;
        if (compression == static_cast<uint32_t>(Compression::kStored)) continue;
        const bool is_apart = compression != static_cast<uint32_t>(Compression::kZstd);
        const Held what = held(tensor, i);
        if (what == Held::kCodes) {
          n_codes_apart += is_apart ? 1 : 0;
        } else {
          EXPECT_EQ(is_apart, what == Held::kTwoBytes);
        }
      }
    }
  }
  EXPECT_GT(n_codes_apart, 20u);
}

TEST(Convert, NothingIsCompressedWithoutCompression) {
  const TempFolder folder;
  TinyCheckpoint().write(folder / "model");
  (void)run(options_for(folder / "model", folder / "m.cria", kChoices[0], Compression::kStored));
  const ModelReadBack file(folder / "m.cria");
  EXPECT_EQ(file.config().model->compression,
            static_cast<uint32_t>(format::FileCompression::kStored));
  for (const format::ChunkEntry& chunk : file.chunks()) EXPECT_EQ(chunk.compression, 0u);
  // In place, the scales of a matrix must lie right after its codes.
  for (const format::TensorEntry& tensor : file.tensors()) {
    const format::ChunkEntry& first = file.chunks().at(tensor.first_chunk);
    const format::ChunkEntry& last = file.chunks().at(tensor.first_chunk + tensor.n_chunks - 1);
    EXPECT_EQ(last.offset + last.stored_bytes - first.offset, tensor.raw_bytes);
  }
}

TEST(Convert, SourcesOfSixteenBitsAreRead) {
  for (const std::string dtype : {"F16", "BF16"}) {
    const TempFolder folder;
    TinyCheckpoint checkpoint;
    for (TestTensor& tensor : checkpoint.tensors) {
      std::string data;
      for (size_t at = 0; at < tensor.data.size(); at += sizeof(float)) {
        float value = 0;
        std::memcpy(&value, tensor.data.data() + at, sizeof(value));
        const uint16_t bits = dtype == "F16" ? f32_to_f16(value) : f32_to_bf16(value);
        data.append(reinterpret_cast<const char*>(&bits), sizeof(bits));
      }
      tensor.dtype = dtype;
      tensor.data = data;
    }
    checkpoint.write(folder.path());
    EXPECT_GT(expect_faithful(folder.path(), kChoices[0], Compression::kZstd), 0u);
    EXPECT_GT(expect_faithful(folder.path(), kChoices[6], Compression::kZstd), 0u);
  }
}

std::string renamed(const std::string& name, const std::string& kind) {
  const bool is_head = name == "lm_head.weight";
  const std::string in_model = is_head ? name : name.substr(std::string("model.").size());
  if (kind == "bare") return in_model;
  if (kind == "layers") {
    const size_t at = name.find("self_attn.");
    return at == std::string::npos ? name : name.substr(0, at) + "_orig_mod." + name.substr(at);
  }
  return kind + name;
}

TEST(Convert, NamesOfWrappedModelsAreThoseOfTheModel) {
  const TempFolder folder;
  TinyCheckpoint plain;
  plain.write(folder / "plain");
  Options options;
  options.tokenizer = converter::TokenizerChoice::kNone;
  const auto converted = [&](const std::string& name) {
    options.model = folder / name;
    options.output = folder / (name + ".cria");
    converter::Progress progress(converter::Verbosity::kQuiet);
    EXPECT_TRUE(converter::convert(options, &progress).warnings.empty());
    return ModelReadBack(options.output);
  };
  const ModelReadBack wanted = converted("plain");
  const char* const kinds[] = {
      "_orig_mod.", "module.", "module._orig_mod.", "model.",
      "bare",       "layers",  "base_model.model.", "_fsdp_wrapped_module."};
  int n = 0;
  for (const std::string kind : kinds) {
    SCOPED_TRACE(kind);
    TinyCheckpoint wrapped;
    for (TestTensor& tensor : wrapped.tensors) tensor.name = renamed(tensor.name, kind);
    const std::string name = "wrapped" + std::to_string(n++);
    wrapped.write(folder / name);
    const ModelReadBack got = converted(name);
    ASSERT_EQ(got.tensors().size(), wanted.tensors().size());
    for (size_t i = 0; i < got.tensors().size(); ++i) {
      EXPECT_EQ(got.raw(got.tensors()[i]), wanted.raw(wanted.tensors()[i])) << i;
    }
  }
}

TEST(Convert, BiasesFollowTheirMatrices) {
  const TempFolder folder;
  TinyCheckpoint checkpoint;
  checkpoint.config["attention_bias"] = "true";
  checkpoint.config["mlp_bias"] = "true";
  std::mt19937 rng(7);
  for (const auto& [name, n] : std::map<std::string, uint64_t>{{"self_attn.q_proj", 64},
                                                               {"self_attn.k_proj", 32},
                                                               {"self_attn.v_proj", 32},
                                                               {"self_attn.o_proj", 64},
                                                               {"mlp.gate_proj", 96},
                                                               {"mlp.up_proj", 96},
                                                               {"mlp.down_proj", 64}}) {
    checkpoint.tensors.push_back(random_tensor("model.layers.0." + name + ".bias", {n}, &rng));
  }
  checkpoint.write(folder.path());
  EXPECT_GT(expect_faithful(folder.path(), kChoices[0], Compression::kZstd), 0u);
}

TEST(Convert, TheRopeFrequenciesAreTheFirstTensor) {
  const TempFolder folder;
  TinyCheckpoint().write(folder / "model");
  (void)run(options_for(folder / "model", folder / "m.cria", kChoices[0], Compression::kZstd));
  const ModelReadBack file(folder / "m.cria");
  const std::vector<float> found = file.vector(file.tensors().at(0));
  ASSERT_EQ(found.size(), 8u);
  EXPECT_EQ(found[0], 1.0f);
  EXPECT_NEAR(found[4], 0.01f, 1e-9f);
}

}  // namespace
}  // namespace cria::test
