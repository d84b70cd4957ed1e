// Embedding and output layer: one matrix or two, under whichever name the checkpoint stores.
#include <gtest/gtest.h>

#include "converter/convert.h"
#include "tests/unit/converter/converter_fixtures.h"
#include "tests/unit/converter/model_read_back.h"

namespace cria::test {
namespace {

using converter::ConversionReport;
using converter::Options;
using format::TensorRole;

const std::string kEmbedding = "model.embed_tokens.weight";
const std::string kLmHead = "lm_head.weight";

class ConvertTied : public ::testing::Test {
 protected:
  ConvertTied() { checkpoint_.config["tie_word_embeddings"] = "true"; }

  ConversionReport convert() {
    checkpoint_.write(folder_ / "model");
    Options options;
    options.model = folder_ / "model";
    options.output = folder_ / "m.cria";
    options.weights = format::NumberFormat::kF32;
    options.group_size = 0;
    options.tokenizer = converter::TokenizerChoice::kNone;
    options.verbosity = converter::Verbosity::kQuiet;
    converter::Progress progress(options.verbosity);
    return converter::convert(options, &progress);
  }
  // The values of a stored matrix, compared with a tensor of the checkpoint.
  void expect_holds(TensorRole role, const std::string& data) {
    const ModelReadBack file(folder_ / "m.cria");
    const std::vector<float> found = file.matrix(file.tensor(role, format::kNone));
    ASSERT_EQ(found.size() * sizeof(float), data.size());
    EXPECT_EQ(std::memcmp(found.data(), data.data(), data.size()), 0);
  }
  [[nodiscard]] bool is_tied() const {
    return has_flag(ModelReadBack(folder_ / "m.cria").config(), format::kTiedEmbedding);
  }

  TempFolder folder_;
  TinyCheckpoint checkpoint_;
};

TEST_F(ConvertTied, OnlyTheEmbeddingIsStored) {
  const std::string data = checkpoint_.tensor(kEmbedding).data;
  checkpoint_.erase(kLmHead);
  EXPECT_TRUE(convert().warnings.empty());
  EXPECT_TRUE(is_tied());
  expect_holds(TensorRole::kEmbedding, data);
}

TEST_F(ConvertTied, OnlyTheOutputLayerIsStored) {
  const std::string data = checkpoint_.tensor(kLmHead).data;
  checkpoint_.erase(kEmbedding);
  EXPECT_TRUE(convert().warnings.empty());
  EXPECT_TRUE(is_tied());
  expect_holds(TensorRole::kEmbedding, data);
}

TEST_F(ConvertTied, TwoEqualMatricesBecomeOne) {
  checkpoint_.tensor(kLmHead).data = checkpoint_.tensor(kEmbedding).data;
  EXPECT_TRUE(convert().warnings.empty());
  EXPECT_TRUE(is_tied());
}

TEST_F(ConvertTied, TwoDifferentMatricesStayTwoWithAWarning) {
  const ConversionReport report = convert();
  ASSERT_EQ(report.warnings.size(), 1u);
  EXPECT_NE(report.warnings[0].find("two different matrices"), std::string::npos);
  EXPECT_FALSE(is_tied());
  expect_holds(TensorRole::kEmbedding, checkpoint_.tensor(kEmbedding).data);
  expect_holds(TensorRole::kLmHead, checkpoint_.tensor(kLmHead).data);
}

TEST_F(ConvertTied, NeitherMatrixIsAnError) {
  checkpoint_.erase(kEmbedding);
  checkpoint_.erase(kLmHead);
  expect_invalid({kEmbedding}, [&] { (void)convert(); });
}

TEST_F(ConvertTied, AnUntiedModelKeepsBothEvenWhenTheyAreEqual) {
  checkpoint_.config["tie_word_embeddings"] = "false";
  checkpoint_.tensor(kLmHead).data = checkpoint_.tensor(kEmbedding).data;
  (void)convert();
  EXPECT_FALSE(is_tied());
}

TEST_F(ConvertTied, TensorsThatAreNotUsedAreWarnedOfButOldRotaryTablesAreNot) {
  checkpoint_.erase(kLmHead);
  std::mt19937 rng(1);
  checkpoint_.tensors.push_back(
      random_tensor("model.layers.0.self_attn.rotary_emb.inv_freq", {8}, &rng));
  for (const char* buffer : {"rotary_emb.cos_cached", "rotary_emb.sin_cached", "inv_freq",
                             "rotary_emb.original_inv_freq", "masked_bias"}) {
    checkpoint_.tensors.push_back(
        random_tensor(std::string("model.layers.0.self_attn.") + buffer, {8}, &rng));
  }
  EXPECT_TRUE(convert().warnings.empty());
  checkpoint_.tensors.push_back(random_tensor(R"(model.second_head\nline)", {8}, &rng));
  const ConversionReport report = convert();
  ASSERT_EQ(report.warnings.size(), 1u);
  EXPECT_NE(report.warnings[0].find("model.second_head"), std::string::npos);
}

}  // namespace
}  // namespace cria::test
