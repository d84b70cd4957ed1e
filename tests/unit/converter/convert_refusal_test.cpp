// Conversions that must not happen: one clear line, the right code, and no file left.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "converter/convert.h"
#include "tests/unit/converter/converter_fixtures.h"

namespace cria::test {
namespace {

using converter::ExitCode;
using converter::Options;
using format::NumberFormat;

class ConvertRefusal : public ::testing::Test {
 protected:
  ConvertRefusal() {
    options_.model = folder_ / "model";
    options_.output = folder_ / "m.cria";
    options_.tokenizer = converter::TokenizerChoice::kNone;
    options_.verbosity = converter::Verbosity::kQuiet;
    options_.n_threads = 2;
  }
  converter::ConversionReport convert() {
    checkpoint_.write(folder_ / "model");
    converter::Progress progress(options_.verbosity);
    return converter::convert(options_, &progress);
  }
  void refuses(ExitCode code, const std::vector<std::string>& parts) {
    expect_refused(code, parts, [&] { (void)convert(); });
    EXPECT_EQ(files_in(folder_.path()), 1u) << "something besides the checkpoint is left";
  }
  // Overwrites one value of an F32 tensor.
  void poke(const std::string& name, size_t index, float value) {
    std::memcpy(checkpoint_.tensor(name).data.data() + index * sizeof(float), &value,
                sizeof(float));
  }
  void set_weights(NumberFormat weights) {
    options_.weights = weights;
    options_.group_size = weights == NumberFormat::kInt4 ? 32 : 0;
  }

  TempFolder folder_;
  TinyCheckpoint checkpoint_;
  Options options_;
};

const std::string kDown = "model.layers.0.mlp.down_proj.weight";

TEST_F(ConvertRefusal, AMissingTensorIsNamed) {
  checkpoint_.erase(kDown);
  refuses(ExitCode::kInvalidInput, {kDown, "no tensor"});
}

TEST_F(ConvertRefusal, AMissingTensorIsExplainedByTheOthers) {
  checkpoint_.tensor(kDown).name = "model.layers.0.mlp.down_proj.base_layer.weight";
  refuses(ExitCode::kInvalidInput, {kDown, "base_layer", "of an adapter", "merge_and_unload"});
  checkpoint_.tensor("model.layers.0.mlp.down_proj.base_layer.weight").name = "other." + kDown;
  refuses(ExitCode::kInvalidInput, {kDown, "other." + kDown, "save_pretrained"});
  checkpoint_.tensor("other." + kDown).name = kDown;
  checkpoint_.config["attention_bias"] = "true";
  refuses(ExitCode::kInvalidInput, {"q_proj.bias", "which its config asks for"});
}

TEST_F(ConvertRefusal, AMissingOutputLayerPointsToTheConfig) {
  checkpoint_.erase("lm_head.weight");
  refuses(ExitCode::kInvalidInput, {"lm_head.weight", "tie_word_embeddings"});
}

TEST_F(ConvertRefusal, AWrongShapeIsShownBesideTheWantedOne) {
  std::swap(checkpoint_.tensor(kDown).shape[0], checkpoint_.tensor(kDown).shape[1]);
  refuses(ExitCode::kInvalidInput, {kDown, "[96, 64]", "[64, 96]", "model.safetensors"});
  checkpoint_.tensor(kDown).shape = {64 * 96};
  refuses(ExitCode::kInvalidInput, {kDown, "[6144]", "[64, 96]"});
}

// Left out they would change what their part computes, or they are a layer that the config lacks.
TEST_F(ConvertRefusal, WeightsThatHaveNoPlaceAreNamed) {
  for (const std::string name :
       {"model.layers.0.self_attn.q_norm.weight", "model.layers.0.self_attn.q_proj.bias",
        "model.layers.9.input_layernorm.weight", "lm_head.bias", "lm_head.weight_scale",
        "model.norm.bias", "model.embed_norm.weight", "model.embed_positions.weight"}) {
    std::mt19937 rng(1);
    checkpoint_.tensors.push_back(random_tensor(name, {8}, &rng));
    refuses(ExitCode::kInvalidInput, {name, "no place", "model.safetensors"});
    checkpoint_.erase(name);
  }
}

TEST_F(ConvertRefusal, ABiasThatAddsNothingHasNoPlaceAndNeedsNone) {
  const std::string name = "model.layers.0.self_attn.q_proj.bias";
  checkpoint_.tensors.push_back({name, "F32", {64}, std::string(256, '\0')});
  EXPECT_TRUE(convert().warnings.empty());
}

TEST_F(ConvertRefusal, WhatIsOfNoPartIsWarnedOf) {
  std::mt19937 rng(1);
  checkpoint_.tensors.push_back(random_tensor("score.weight", {8}, &rng));
  const std::vector<std::string> warnings = convert().warnings;
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("score.weight"), std::string::npos);
}

TEST_F(ConvertRefusal, ATypeThatIsNotReadIsNamed) {
  checkpoint_.tensor(kDown).dtype = "I32";
  refuses(ExitCode::kInvalidInput, {kDown, "I32", "BF16"});
  // Packed weights have a shape of their own, which says less.
  checkpoint_.tensor(kDown).dtype = "U32";
  checkpoint_.tensor(kDown).shape = {64, 96 / 8};
  checkpoint_.tensor(kDown).data.resize(64 * 96 / 8 * sizeof(uint32_t));
  refuses(ExitCode::kInvalidInput, {kDown, "U32", "BF16"});
}

TEST_F(ConvertRefusal, AWeightThatIsNoNumberIsFoundAnywhere) {
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    for (const std::string& name : {kDown, std::string("model.norm.weight")}) {
      for (const NumberFormat weights :
           {NumberFormat::kInt4, NumberFormat::kInt8, NumberFormat::kF16, NumberFormat::kF32}) {
        const std::string before = checkpoint_.tensor(name).data;
        set_weights(weights);
        poke(name, 63, bad);
        refuses(ExitCode::kInvalidInput, {name, "infinite"});
        checkpoint_.tensor(name).data = before;
      }
    }
  }
}

TEST_F(ConvertRefusal, AWeightTooLargeForTheFormatIsRefused) {
  poke(kDown, 5, -70000.0f);
  set_weights(NumberFormat::kF16);
  refuses(ExitCode::kInvalidInput, {kDown, "too large", "f32"});
  set_weights(NumberFormat::kBf16);
  EXPECT_NO_THROW((void)convert());
  std::filesystem::remove(options_.output);
  poke(kDown, 5, std::numeric_limits<float>::max());
  refuses(ExitCode::kInvalidInput, {kDown, "too large"});
}

TEST_F(ConvertRefusal, AContextBeyondTheModelIsRefused) {
  options_.context = 129;
  refuses(ExitCode::kUsage, {"--context 129", "128"});
}

TEST_F(ConvertRefusal, ATokenOutsideTheVocabularyIsRefused) {
  checkpoint_.config["eos_token_id"] = "[2,50]";
  refuses(ExitCode::kInvalidInput, {"eos_token_id 50", "vocab_size 50"});
}

TEST_F(ConvertRefusal, SizesBeyondTheFormatAreRefusedByName) {
  checkpoint_.config["num_key_value_heads"] = "3";
  refuses(ExitCode::kInvalidInput, {"config.json", "num_key_value_heads must divide"});
  checkpoint_.config["num_key_value_heads"] = "2";
  checkpoint_.config["num_hidden_layers"] = "4000000000";
  refuses(ExitCode::kInvalidInput, {"config.json", "num_hidden_layers must be from 1 to 1024"});
}

TEST_F(ConvertRefusal, ATokenizerIsRequiredUnlessDeclined) {
  options_.tokenizer = converter::TokenizerChoice::kRequired;
  refuses(ExitCode::kInvalidInput, {"--no-tokenizer"});
}

TEST_F(ConvertRefusal, ModelsThatAreNoFoldersAreRefused) {
  options_.model = folder_ / "none";
  refuses(ExitCode::kInvalidInput, {"none", "no such folder"});
  options_.model = folder_ / "model/model.safetensors";
  refuses(ExitCode::kInvalidInput, {"model.safetensors", "folder"});
}

TEST_F(ConvertRefusal, AnOutputThatIsAFolderIsRefused) {
  options_.output = folder_ / "model";
  refuses(ExitCode::kIo, {"model", "folder"});
}

TEST_F(ConvertRefusal, AnOutputInNoFolderIsRefused) {
  options_.output = folder_ / "none/m.cria";
  refuses(ExitCode::kIo, {"none/m.cria", "No such file"});
}

TEST_F(ConvertRefusal, TheCheckpointIsNotOverwritten) {
  options_.output = folder_ / "model/model.safetensors";
  refuses(ExitCode::kUsage, {"model.safetensors", "part of the checkpoint"});
}

TEST_F(ConvertRefusal, TheReportOverwritesNeitherCheckpointNorModel) {
  options_.report = folder_ / "model/config.json";
  refuses(ExitCode::kUsage, {"config.json", "part of the checkpoint"});
  options_.report = folder_ / "model/../m.cria";
  refuses(ExitCode::kUsage, {"m.cria", "both"});
}

TEST_F(ConvertRefusal, AReportThatCannotBeWrittenLeavesNoModel) {
  options_.report = folder_ / "none/r.json";
  refuses(ExitCode::kIo, {"none/r.json"});
}

TEST_F(ConvertRefusal, AFailureLeavesTheModelThatWasThere) {
  write_file(options_.output, "precious");
  poke(kDown, 6000, std::nanf(""));
  expect_refused(ExitCode::kInvalidInput, {kDown}, [&] { (void)convert(); });
  EXPECT_EQ(read_file(options_.output), "precious");
  EXPECT_EQ(files_in(folder_.path()), 2u);
}

}  // namespace
}  // namespace cria::test
