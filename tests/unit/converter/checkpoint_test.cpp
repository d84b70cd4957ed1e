// Checkpoint folders: one file or shards, and the ways in which a download is incomplete.
#include "converter/hugging_face_folder.h"

#include <gtest/gtest.h>

#include "tests/unit/converter/converter_fixtures.h"

namespace cria::test {
namespace {

using converter::HuggingFaceFolder;

const TestTensor kA = {"a", "F32", {1}, "aaaa"};
const TestTensor kB = {"b", "F32", {1}, "bbbb"};

// weight_map: JSON.
void write_index(const TempFolder& folder, const std::string& weight_map) {
  write_file(folder / "model.safetensors.index.json", R"({"weight_map":)" + weight_map + "}");
}

TEST(Checkpoint, ASingleFileGivesItsTensors) {
  const TempFolder folder;
  write_safetensors(folder / "model.safetensors", {kA, kB});
  HuggingFaceFolder checkpoint(folder.path());
  checkpoint.open_weights();
  EXPECT_EQ(checkpoint.tensors().size(), 2u);
  EXPECT_NE(checkpoint.find("a"), nullptr);
  EXPECT_EQ(checkpoint.find("c"), nullptr);
  EXPECT_EQ(checkpoint.shards().size(), 1u);
}

TEST(Checkpoint, ShardsGiveTheTensorsOfTheirIndex) {
  const TempFolder folder;
  write_safetensors(folder / "1.safetensors", {kA});
  write_safetensors(folder / "2.safetensors", {kB});
  write_index(folder, R"({"a":"1.safetensors","b":"2.safetensors"})");
  HuggingFaceFolder checkpoint(folder.path());
  checkpoint.open_weights();
  ASSERT_NE(checkpoint.find("b"), nullptr);
  std::vector<uint8_t> scratch;
  float value = 0;
  checkpoint.find("b")->read_rows(0, 1, &scratch, &value);
  EXPECT_EQ(scratch, Bytes(4, 'b'));
}

TEST(Checkpoint, TheOutputLayerStandsBesideTheModelWhateverItIsMadeOf) {
  for (const std::string front : {"", "a.", "a.model.", "model.model."}) {
    SCOPED_TRACE(front);
    const std::string beside =
        front.ends_with("model.") ? front.substr(0, front.size() - 6) : front;
    const TempFolder folder;
    write_safetensors(folder / "model.safetensors",
                      {{front + "layers.0.input_layernorm.weight", "F32", {1}, "aaaa"},
                       {front + "norm.weight", "F32", {1}, "bbbb"},
                       {beside + "lm_head.codes", "F32", {1}, "cccc"}});
    HuggingFaceFolder checkpoint(folder.path());
    checkpoint.open_weights();
    EXPECT_NE(checkpoint.find("model.layers.0.input_layernorm.weight"), nullptr);
    EXPECT_NE(checkpoint.find("model.norm.weight"), nullptr);
    EXPECT_NE(checkpoint.find("lm_head.codes"), nullptr);
  }
}

TEST(Checkpoint, AMissingShardIsNamed) {
  const TempFolder folder;
  write_safetensors(folder / "1.safetensors", {kA});
  write_index(folder, R"({"a":"1.safetensors","b":"2.safetensors"})");
  expect_invalid({"2.safetensors", "missing"},
                 [&] { HuggingFaceFolder(folder.path()).open_weights(); });
}

TEST(Checkpoint, ATensorThatOnlyTheIndexKnowsIsNamed) {
  const TempFolder folder;
  write_safetensors(folder / "1.safetensors", {kA});
  write_index(folder, R"({"b":"1.safetensors"})");
  expect_invalid({"1.safetensors", "no tensor b"},
                 [&] { HuggingFaceFolder(folder.path()).open_weights(); });
}

TEST(Checkpoint, ATruncatedShardIsNamed) {
  const TempFolder folder;
  write_safetensors(folder / "1.safetensors", {kA});
  std::filesystem::resize_file(folder / "1.safetensors",
                               std::filesystem::file_size(folder / "1.safetensors") - 1);
  write_index(folder, R"({"a":"1.safetensors"})");
  expect_invalid({"1.safetensors", "truncated"},
                 [&] { HuggingFaceFolder(folder.path()).open_weights(); });
}

TEST(Checkpoint, AnIndexLeadsNowhereElse) {
  const TempFolder folder;
  for (const std::string name : {"../1.safetensors", "/etc/passwd", "..", ""}) {
    write_index(folder, R"({"a":")" + name + "\"}");
    expect_invalid({"plain file name"}, [&] { HuggingFaceFolder(folder.path()).open_weights(); });
  }
  write_index(folder, R"({"a":5})");
  expect_invalid({"plain file name"}, [&] { HuggingFaceFolder(folder.path()).open_weights(); });
  write_index(folder, "5");
  expect_invalid({"weight_map"}, [&] { HuggingFaceFolder(folder.path()).open_weights(); });
}

TEST(Checkpoint, AFolderWithoutWeightsSaysWhatItWants) {
  const TempFolder folder;
  expect_invalid({"model.safetensors"}, [&] { HuggingFaceFolder(folder.path()).open_weights(); });
  write_file(folder / "pytorch_model.bin", "x");
  expect_invalid({"PyTorch", "safetensors"},
                 [&] { HuggingFaceFolder(folder.path()).open_weights(); });
}

}  // namespace
}  // namespace cria::test
