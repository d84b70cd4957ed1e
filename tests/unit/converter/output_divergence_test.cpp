// What the output suffers from one matrix, against whole models that have it rounded.
#include "converter/calibration/output_divergence.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>

#include "converter/calibration/calibration_text.h"
#include "converter/calibration/mixed_formats.h"
#include "converter/calibration/rounded_values.h"
#include "quant/numbers/float16.h"
#include "tests/support/folders.h"
#include "tests/support/long_under_asan.h"
#include "tests/support/sampling.h"
#include "tests/unit/converter/converter_fixtures.h"
#include "tests/unit/converter/opened_checkpoint.h"
#include "tests/unit/converter/tiny_gemma4.h"

namespace cria::converter {
namespace {

using format::NumberFormat;
using format::TensorRole;
using test::logits_of;
using test::Opened;
using test::TestTensor;
using test::TinyCheckpoint;

const TokenSequences kText = {{1, 5, 9, 30, 2, 41, 17}, {7, 7, 3}, {1, 22, 13, 8, 40}};

constexpr MatrixFormat kGroups = {NumberFormat::kInt4, 32};
constexpr MatrixFormat kRows = {NumberFormat::kInt8, 0};

// Every matrix of a model, in a format with scales of either sign.
std::vector<TensorSpec> matrices_of(const Opened& opened, MatrixFormat f) {
  std::vector<TensorSpec> matrices;
  for (uint32_t i = 0; i < opened.plan.tensors.size(); ++i) {
    TensorSpec spec = tensor_spec(opened.config, i, f);
    spec.has_signed_scales = may_be_signed(f.number_format);
    if (spec.is_matrix()) matrices.push_back(spec);
  }
  return matrices;
}

struct Measure {
  size_t n_threads = 2;
  size_t stream_bytes = OutputDivergence::kStreamBytes;
};

std::vector<double> measure(const Opened& opened, const TokenSequences& text,
                            const std::vector<TensorSpec>& matrices, const Measure& how = {}) {
  hosted::ThreadPool pool(how.n_threads, hosted::FewerThreads::kAreTaken);
  const PlannedWeights weights(opened.plan, opened.imported.rope, &pool);
  OutputDivergence output(opened.config, weights, text, QuantMethod::kMse, &pool);
  size_t last = 0;
  size_t all = 0;
  std::vector<double> found = output.measure(
      matrices,
      [&](size_t done, size_t of) {
        EXPECT_EQ(done, last + 1);
        last = done;
        all = of;
      },
      how.stream_bytes);
  EXPECT_EQ(last, all);
  return found;
}

// The values of a checkpoint's tensor, rounded as a model file holds them, in rows of cols.
void round_tensor(MatrixFormat f, size_t cols, TestTensor* tensor) {
  const MatrixShape shape = {1, static_cast<uint32_t>(cols), f.number_format, f.group_size};
  for (size_t row = 0; row < tensor->data.size() / (cols * sizeof(float)); ++row) {
    std::vector<float> values(cols);
    char* const bytes = tensor->data.data() + row * cols * sizeof(float);
    std::memcpy(values.data(), bytes, cols * sizeof(float));
    std::vector<int8_t> codes(padded_cols(shape));
    std::vector<uint16_t> scales(f.group_size == 0 ? 0 : codes.size() / f.group_size);
    float row_scale = 0;
    if (f.group_size != 0) {
      quantize_groups(shape, values.data(), 1, QuantMethod::kMse, ScaleSigns::kBoth, codes.data(),
                      scales.data());
    } else {
      quantize_row_int8(values.data(), cols, QuantMethod::kMse, codes.size(), codes.data(),
                        &row_scale);
    }
    for (size_t i = 0; i < cols; ++i) {
      const float scale = f.group_size == 0 ? row_scale : bf16_to_f32(scales[i / f.group_size]);
      values[i] = static_cast<float>(codes[i]) * scale;
    }
    std::memcpy(bytes, values.data(), cols * sizeof(float));
  }
}

// The mean over rows of the sum of p * log(p / q).
double mean_divergence(const std::vector<float>& exact, const std::vector<float>& other,
                       size_t vocab) {
  double sum = 0;
  const size_t n = exact.size() / vocab;
  for (size_t row = 0; row < n; ++row) {
    double exact_sum = 0;
    double other_sum = 0;
    for (size_t i = row * vocab; i < (row + 1) * vocab; ++i) {
      exact_sum += std::exp(static_cast<double>(exact[i]));
      other_sum += std::exp(static_cast<double>(other[i]));
    }
    for (size_t i = row * vocab; i < (row + 1) * vocab; ++i) {
      const double p = std::exp(static_cast<double>(exact[i])) / exact_sum;
      const double q = std::exp(static_cast<double>(other[i])) / other_sum;
      sum += p * std::log(p / q);
    }
  }
  return sum / static_cast<double>(n);
}

// A second layer, so that streams pass through one that is not their own.
void add_layer(TinyCheckpoint* checkpoint) {
  std::mt19937 rng(5);
  std::vector<TestTensor> more;
  for (const TestTensor& tensor : checkpoint->tensors) {
    const std::string first = "model.layers.0.";
    if (!tensor.name.starts_with(first)) continue;
    more.push_back(test::random_tensor("model.layers.1." + tensor.name.substr(first.size()),
                                       tensor.shape, &rng));
  }
  checkpoint->tensors.insert(checkpoint->tensors.end(), more.begin(), more.end());
  checkpoint->config["num_hidden_layers"] = "2";
}

// Weights so large that every matrix matters.
void enlarge(TinyCheckpoint* checkpoint) {
  constexpr float kFactor = 5.0f;
  for (TestTensor& tensor : checkpoint->tensors) {
    for (size_t at = 0; at < tensor.data.size(); at += sizeof(float)) {
      float value;
      std::memcpy(&value, tensor.data.data() + at, sizeof value);
      value *= kFactor;
      std::memcpy(tensor.data.data() + at, &value, sizeof value);
    }
  }
}

// By the names of the checkpoint, in the order of the file.
const std::vector<std::string> kMatrixNames = {"self_attn.q_proj.weight", "self_attn.k_proj.weight",
                                               "self_attn.v_proj.weight", "self_attn.o_proj.weight",
                                               "mlp.gate_proj.weight",    "mlp.up_proj.weight",
                                               "mlp.down_proj.weight"};

std::vector<std::string> names_of(bool is_tied) {
  std::vector<std::string> names = {"model.embed_tokens.weight"};
  for (const char* layer : {"model.layers.0.", "model.layers.1."}) {
    for (const std::string& name : kMatrixNames) names.push_back(layer + name);
  }
  if (!is_tied) names.emplace_back("lm_head.weight");
  return names;
}

// names: of all matrices, in the order of the file; table_cols: columns of a per-layer table.
void compare_with_whole_models(const TinyCheckpoint& checkpoint,
                               const std::vector<std::string>& names, MatrixFormat f,
                               size_t table_cols) {
  test::TempFolder folder;
  checkpoint.write(folder / "exact");
  const Opened exact(folder / "exact");
  const std::vector<double> found = measure(exact, kText, matrices_of(exact, f));
  const std::vector<float> logits = logits_of(exact, kText, 1);
  ASSERT_EQ(found.size(), names.size());
  for (size_t i = 0; i < names.size(); ++i) {
    TinyCheckpoint rounded = checkpoint;
    TestTensor& tensor = rounded.tensor(names[i]);
    const bool is_table = names[i] == test::kPerLayerTable;
    round_tensor(f, is_table ? table_cols : static_cast<size_t>(tensor.shape[1]), &tensor);
    rounded.write(folder / "rounded");
    const double want =
        mean_divergence(logits, logits_of(Opened(folder / "rounded"), kText, 1), 50);
    EXPECT_GT(want, 1e-7) << names[i];
    EXPECT_NEAR(found[i], want, 1e-3 * want + 1e-10) << names[i];
  }
}

void compare_with_whole_models(bool is_tied, MatrixFormat f) {
  TinyCheckpoint checkpoint(96, 100, 50);
  add_layer(&checkpoint);
  enlarge(&checkpoint);
  if (is_tied) {
    checkpoint.config["tie_word_embeddings"] = "true";
    checkpoint.erase("lm_head.weight");
  }
  compare_with_whole_models(checkpoint, names_of(is_tied), f, 0);
}

TEST(OutputDivergence, IsThatOfAWholeModelWithTheMatrixRounded) {
  compare_with_whole_models(false, kGroups);
  compare_with_whole_models(true, kGroups);
  compare_with_whole_models(true, kRows);
}

// Streams read keys and values of their own, and per-layer embeddings of their own tokens.
TEST(OutputDivergence, IsThatOfAWholeModelWithPerLayerEmbeddingsAndSharedKeys) {
  TinyCheckpoint checkpoint = test::tiny_gemma4();
  enlarge(&checkpoint);
  std::vector<std::string> names;
  for (const TestTensor& tensor : checkpoint.tensors) {
    if (tensor.shape.size() == 2) names.push_back(tensor.name);
  }
  EXPECT_EQ(names.size(), 1 + 2 + 2 * 9 + 2 * 7);
  compare_with_whole_models(checkpoint, names, kGroups, test::kPerLayerWidth);
}

TEST(OutputDivergence, BitsDependOnNeitherThreadsNorWhatElseIsMeasured) {
  test::TempFolder folder;
  TinyCheckpoint checkpoint;
  add_layer(&checkpoint);
  checkpoint.write(folder / "model");
  const Opened opened(folder / "model");
  std::vector<TensorSpec> matrices = matrices_of(opened, kGroups);
  const std::vector<double> found = measure(opened, kText, matrices, {1});
  EXPECT_EQ(found, measure(opened, kText, matrices, {3}));
  // Two streams at a time, and one.
  const size_t stream = token_count(kText) * opened.config.model->d_model * sizeof(float);
  EXPECT_EQ(found, measure(opened, kText, matrices, {2, 2 * stream}));
  EXPECT_EQ(found, measure(opened, kText, matrices, {2, 0}));
  const std::vector<TensorSpec> one = {matrices[9]};
  EXPECT_EQ(measure(opened, kText, one), std::vector<double>{found[9]});
}

// Small errors: as the squared error of the weights, so the divergence.
void compare_scaled(const std::filesystem::path& path, const char* name) {
  const Opened opened(path);
  hosted::ThreadPool pool(2, hosted::FewerThreads::kAreTaken);
  const PlannedWeights weights(opened.plan, opened.imported.rope, &pool);
  Progress quiet(Verbosity::kQuiet);
  const TokenSequences text =
      calibration_text(std::nullopt, 1024, opened.config, weights, &pool, &quiet);
  const auto tensor_of = [&](const TensorSpec& spec) -> const PlannedTensor& {
    return *std::find_if(opened.plan.tensors.begin(), opened.plan.tensors.end(),
                         [&](const PlannedTensor& tensor) {
                           return tensor.spec.role == spec.role && tensor.spec.layer == spec.layer;
                         });
  };
  const std::vector<TensorSpec> base = matrices_of(opened, kMeasuredFormat);
  const std::vector<double> measured = measure(opened, text, base);
  for (const MatrixFormat& f : kMixedFormats) {
    const std::vector<TensorSpec> matrices = matrices_of(opened, f);
    const std::vector<double> direct = measure(opened, text, matrices);
    double logs = 0;
    double least = 1e9;
    double most = 0;
    for (size_t i = 0; i < matrices.size(); ++i) {
      const double scaled =
          measured[i] *
          rounding_error(&pool, tensor_of(matrices[i]), matrices[i], QuantMethod::kMse) /
          rounding_error(&pool, tensor_of(base[i]), base[i], QuantMethod::kMse);
      const double ratio = scaled / direct[i];
      least = std::min(least, ratio);
      most = std::max(most, ratio);
      logs += std::log(ratio);
    }
    const double mean = std::exp(logs / static_cast<double>(matrices.size()));
    std::printf("%s, %s g%u: scaled by measured %.3f to %.3f, geometric mean %.3f\n", name,
                number_format_name(f.number_format), unsigned{f.group_size}, least, most, mean);
    EXPECT_GT(least, 0.3);
    EXPECT_LT(most, 3.0);
    EXPECT_NEAR(mean, 1.0, 0.1);
  }
}

// Where long sweeps are cut short, only the smallest of the three models.
TEST(OutputDivergence, OfOtherFormatsFollowsTheErrorOfTheWeights) {
  CRIA_SKIP_UNDER_ASAN();
  const auto reference = test::reference_folder();
  if (reference) compare_scaled(*reference / "trained/stories260K/stories260K.bin", "stories260K");
  if (reference && test::sweep_step() > 1) return;
  compare_scaled(test::demo_folder(), "demo");
  if (!reference) GTEST_SKIP() << "no $CRIA_SHARED/reference";
  compare_scaled(*reference / "trained/story-hf", "story-hf");
}

}  // namespace
}  // namespace cria::converter
