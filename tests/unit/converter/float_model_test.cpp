// The float model of calibration: its logits against those of transformers, and its text.
#include "converter/calibration/float_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "converter/calibration/divergence.h"
#include "converter/calibration/self_text.h"
#include "tests/support/expected.h"
#include "tests/support/folders.h"
#include "tests/support/max_or_nan.h"
#include "tests/unit/converter/converter_fixtures.h"
#include "tests/unit/converter/opened_checkpoint.h"

namespace cria::converter {
namespace {

using test::logits_of;
using test::Opened;
namespace fs = std::filesystem;

void compare_with_reference(const fs::path& folder) {
  SCOPED_TRACE(folder.string());
  const test::Expected expected = test::read_expected(folder);
  const std::string bytes = test::read_file(folder / "logits.f32");
  const std::vector<float> got = logits_of(Opened(folder), {expected.prompt}, 2);
  ASSERT_EQ(got.size() * sizeof(float), bytes.size());
  double worst = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    float want;
    std::memcpy(&want, bytes.data() + i * sizeof(float), sizeof want);
    const double difference = std::fabs(static_cast<double>(got[i]) - static_cast<double>(want));
    worst = test::max_or_nan(worst, difference / (1 + std::fabs(static_cast<double>(want))));
  }
  std::printf("%s: largest difference %.2g of (1 + |logit|)\n", folder.filename().c_str(), worst);
  EXPECT_LE(worst, expected.tolerance);
}

TEST(FloatModel, LogitsOfTheReferenceCheckpointsAreThoseOfTransformers) {
  const auto reference = test::reference_folder();
  if (!reference) GTEST_SKIP() << "no $CRIA_SHARED/reference";
  for (const char* name : test::kReferenceCheckpoints) {
    compare_with_reference(*reference / "checkpoints" / name);
  }
  for (const char* name : test::kReferenceArchitectures) {
    compare_with_reference(*reference / "architectures" / name);
  }
  compare_with_reference(*reference / "trained/story-hf");
}

TEST(FloatModel, LogitsOfTheCopiesInTheRepositoryAreThoseOfTransformers) {
  for (const char* name : {"odd-sizes", "mistral-sliding-window"}) {
    compare_with_reference(test::golden_folder(name));
  }
}

// Experts that the last token's row goes to, in ascending order, by layers that have any.
std::map<std::string, std::vector<uint32_t>> chosen_by_last(const Opened& opened,
                                                            const std::vector<uint32_t>& tokens) {
  hosted::ThreadPool pool(2, hosted::FewerThreads::kAreTaken);
  const PlannedWeights weights(opened.plan, opened.imported.rope, &pool);
  const FloatModel::Rooms rooms = {1, tokens.size(), tokens.size(), KvFormat::kF32, true};
  FloatModel model(opened.config, weights, rooms, &pool);
  const std::vector<TokenRow> rows = rows_of({tokens});
  const Floats table = weights.matrix(weights.find(format::TensorRole::kEmbedding));
  std::map<std::string, std::vector<uint32_t>> chosen;
  // What the last row alone multiplies by is what it chose.
  for (const std::span<const TokenRow> part :
       {std::span(rows).first(rows.size() - 1), std::span(rows).last(1)}) {
    chosen.clear();
    model.set_rows(part);
    Floats x(part.size() * opened.config.model->d_model);
    model.embed(table, 0, &x);
    Stream stream = model.start(std::move(x));
    for (uint32_t i = 0; i < opened.config.model->n_layers; ++i) {
      HeldMatrices layer(weights, PanelFormat::kF32, &pool);
      layer.read_layer(i);
      const Products products = layer.products();
      const auto watch = [&](std::span<const LinearCall> calls, uint32_t index, const float* in,
                             size_t n) {
        const PlannedTensor& tensor = weights.tensors()[calls.front().tensor->number];
        if (tensor.spec.role == format::TensorRole::kExpertGate) {
          chosen[std::to_string(i)].push_back(index);
        }
        products(calls, index, in, n);
      };
      model.run_layer(i, watch, &stream);
    }
  }
  return chosen;
}

// No choice of theirs is near a tie: the last one wins by 1e-3 or more, see the folders' README.
TEST(FloatModel, ExpertsThatAreChosenAreThoseOfTransformers) {
  const auto reference = test::reference_folder();
  if (!reference) GTEST_SKIP() << "no $CRIA_SHARED/reference";
  size_t n_models = 0;
  for (const char* name : test::kReferenceArchitectures) {
    const fs::path folder = *reference / "architectures" / name;
    SCOPED_TRACE(name);
    const Json expected = Json::parse(test::read_file(folder / "expected.json"));
    const Opened opened(folder);
    const auto has_experts = [](const format::LayerKind& kind) {
      return kind.feed_forward == static_cast<uint8_t>(format::FeedForward::kExperts);
    };
    ASSERT_EQ(expected.contains("experts"),
              std::any_of(opened.config.kinds.begin(), opened.config.kinds.end(), has_experts));
    if (!expected.contains("experts")) continue;
    ++n_models;
    ASSERT_GE(expected.at("router_min_gap"), 1e-3);
    const std::map<std::string, std::vector<uint32_t>> wanted = expected.at("experts");
    EXPECT_FALSE(wanted.empty());
    EXPECT_EQ(chosen_by_last(opened, expected.at("prompt")), wanted);
  }
  EXPECT_GE(n_models, 9u);
}

TEST(FloatModel, ASequencesBitsDependOnNothingBesideIt) {
  test::TempFolder folder;
  test::TinyCheckpoint().write(folder / "model");
  const Opened opened(folder / "model");
  const std::vector<uint32_t> one = {1, 5, 9, 30, 2};
  const std::vector<uint32_t> other = {7, 7, 3};
  const std::vector<float> alone = logits_of(opened, {one}, 1);
  const std::vector<float> both = logits_of(opened, {other, one}, 3);
  const size_t vocab = opened.config.model->vocab_size;
  ASSERT_EQ(both.size(), 8 * vocab);
  EXPECT_TRUE(std::equal(alone.begin(), alone.end(), both.begin() + 3 * vocab));
}

// A layer's own window, and RoPE or none: each layer computes what it does among its like.
TEST(FloatModel, LayersOfSeveralKindsAreComputedByTheirKinds) {
  test::TempFolder folder;
  test::TinyCheckpoint checkpoint;
  for (size_t i = 0, n = checkpoint.tensors.size(); i < n; ++i) {
    test::TestTensor tensor = checkpoint.tensors[i];
    const size_t at = tensor.name.find("layers.0.");
    if (at == std::string::npos) continue;
    tensor.name.replace(at, 9, "layers.1.");
    checkpoint.tensors.push_back(tensor);
  }
  checkpoint.config["architectures"] = R"(["SmolLM3ForCausalLM"])";
  checkpoint.config["model_type"] = R"("smollm3")";
  checkpoint.config["num_hidden_layers"] = "2";
  checkpoint.config["use_sliding_window"] = "true";
  checkpoint.config["sliding_window"] = "3";
  const std::vector<uint32_t> tokens = {1, 5, 9, 30, 2, 41, 17};
  hosted::ThreadPool pool(1, hosted::FewerThreads::kAreTaken);
  // The residual stream after each layer.
  const auto streams = [&](const char* rope, const char* types) {
    checkpoint.config["no_rope_layers"] = rope;
    checkpoint.config["layer_types"] = types;
    checkpoint.write(folder / "model");
    const Opened opened(folder / "model");
    const PlannedWeights weights(opened.plan, opened.imported.rope, &pool);
    FloatModel model(opened.config, weights, {tokens}, &pool);
    return test::behind_layers(opened, weights, &model, &pool);
  };
  constexpr const char* kFull = R"("full_attention")";
  constexpr const char* kSliding = R"("sliding_attention")";
  const auto list = [](const char* a, const char* b) {
    return std::string("[") + a + "," + b + "]";
  };
  const std::string both_full = list(kFull, kFull);
  const std::string both_sliding = list(kSliding, kSliding);
  const std::vector<Floats> plain = streams("[1,1]", both_full.c_str());
  const std::vector<Floats> windows = streams("[1,1]", both_sliding.c_str());
  const std::vector<Floats> without_rope = streams("[0,0]", both_full.c_str());
  EXPECT_NE(plain[0], windows[0]);
  EXPECT_NE(plain[0], without_rope[0]);
  const std::vector<Floats> mixed = streams("[1,0]", list(kSliding, kFull).c_str());
  EXPECT_EQ(mixed[0], windows[0]);
  EXPECT_NE(mixed[1], windows[1]);
  const std::vector<Floats> turned = streams("[0,1]", both_full.c_str());
  EXPECT_EQ(turned[0], without_rope[0]);
  EXPECT_NE(turned[1], without_rope[1]);
  const std::vector<Floats> second = streams("[1,1]", list(kFull, kSliding).c_str());
  EXPECT_EQ(second[0], plain[0]);
  EXPECT_NE(second[1], plain[1]);
}

TEST(FloatModel, FunctionsAreThoseOfTheirNames) {
  std::vector<float> x;
  for (float value = -90; value < 90; value += 0.73f) x.push_back(value);
  std::vector<float> shares = x;
  softmax(shares.data(), shares.size());
  double total = 0;
  for (const float value : x)
    total += std::exp(static_cast<double>(value) - static_cast<double>(x.back()));
  for (size_t i = 0; i < x.size(); ++i) {
    const double want = std::exp(static_cast<double>(x[i]) - static_cast<double>(x.back())) / total;
    // The distance to the largest is rounded to f32 before exp makes it a factor.
    const double distance = static_cast<double>(x.back()) - static_cast<double>(x[i]);
    EXPECT_NEAR(static_cast<double>(shares[i]), want, (1e-6 + distance * 0x1p-24) * want + 1e-36);
  }
  std::vector<float> other = x;
  for (const float size : {1e-4f, 0.05f, 3.0f}) {
    double mean = 0;
    double growth = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      other[i] = x[i] + size * std::sin(static_cast<float>(i * i));
      mean += static_cast<double>(shares[i]) *
              (static_cast<double>(other[i]) - static_cast<double>(x[i]));
    }
    for (size_t i = 0; i < x.size(); ++i) {
      const double change = static_cast<double>(other[i]) - static_cast<double>(x[i]) - mean;
      growth += static_cast<double>(shares[i]) * (std::expm1(change) - change);
    }
    const double want = std::log1p(growth);
    EXPECT_NEAR(divergence(shares.data(), x.data(), other.data(), x.size()), want, 1e-5 * want);
    EXPECT_GT(want, 0);
  }
  EXPECT_EQ(divergence(shares.data(), x.data(), x.data(), x.size()), 0);
}

TokenSequences self_text(const Opened& opened, const SelfTextRequest& request, size_t n_threads) {
  hosted::ThreadPool pool(n_threads, hosted::FewerThreads::kAreTaken);
  const PlannedWeights weights(opened.plan, opened.imported.rope, &pool);
  return write_self_text(opened.config, weights, request, &pool, [](size_t, size_t) {});
}

TEST(FloatModel, WritesTheSameTextForASeedOnAnyNumberOfThreads) {
  test::TempFolder folder;
  test::TinyCheckpoint checkpoint;
  checkpoint.write(folder / "model");
  const Opened opened(folder / "model");
  const TokenSequences text = self_text(opened, {5, 20, 0.8f, 1}, 1);
  EXPECT_EQ(text, self_text(opened, {5, 20, 0.8f, 1}, 3));
  EXPECT_NE(text, self_text(opened, {5, 20, 0.8f, 2}, 1));
  ASSERT_EQ(text.size(), 5u);
  for (const std::vector<uint32_t>& tokens : text) {
    ASSERT_EQ(tokens.size(), 20u);
    EXPECT_EQ(tokens.front(), 1u);
    for (size_t i = 1; i < tokens.size(); ++i) {
      // A new beginning after an end.
      EXPECT_TRUE(tokens[i - 1] != 2 || tokens[i] == 1);
    }
  }
  EXPECT_NE(text[0], text[1]);
}

TEST(FloatModel, TheLikeliestTextIsThatOfTheLogits) {
  test::TempFolder folder;
  test::TinyCheckpoint().write(folder / "model");
  const Opened opened(folder / "model");
  // So cold that only the likeliest token is drawn.
  const TokenSequences text = self_text(opened, {1, 12, 1e-4f, 1}, 1);
  const size_t vocab = opened.config.model->vocab_size;
  const std::vector<float> logits = logits_of(opened, text, 1);
  for (size_t i = 0; i + 1 < text[0].size() && text[0][i] != 2; ++i) {
    const float* row = logits.data() + i * vocab;
    const float most = *std::max_element(row, row + vocab);
    // Weights of the text are bf16's.
    EXPECT_GE(row[text[0][i + 1]], most - 0.05f * (1 + std::fabs(most)));
  }
}

TEST(FloatModel, WithoutABeginningTokenTextsBeginAtRandom) {
  test::TempFolder folder;
  test::TinyCheckpoint checkpoint;
  checkpoint.config.erase("bos_token_id");
  checkpoint.write(folder / "model");
  const TokenSequences text = self_text(Opened(folder / "model"), {8, 4, 0.8f, 1}, 1);
  bool differ = false;
  for (const std::vector<uint32_t>& tokens : text) differ |= tokens.front() != text[0].front();
  EXPECT_TRUE(differ);
}

}  // namespace
}  // namespace cria::converter
