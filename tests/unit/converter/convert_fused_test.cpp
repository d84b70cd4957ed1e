// Matrices that a checkpoint stores as one come out as from a checkpoint that stores them apart.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "converter/convert.h"
#include "tests/unit/converter/converter_fixtures.h"
#include "tests/unit/converter/model_read_back.h"

namespace cria::test {
namespace {

using converter::Options;

const std::string kLayer = "model.layers.0.";

class ConvertFused : public ::testing::Test {
 protected:
  void convert(const TinyCheckpoint& checkpoint, const std::string& name) {
    checkpoint.write(folder_ / name);
    Options options;
    options.model = folder_ / name;
    options.output = folder_ / (name + ".cria");
    options.tokenizer = converter::TokenizerChoice::kNone;
    options.verbosity = converter::Verbosity::kQuiet;
    converter::Progress progress(options.verbosity);
    EXPECT_TRUE(converter::convert(options, &progress).warnings.empty());
  }
  void expect_same_tensors(const std::string& a, const std::string& b) {
    const ModelReadBack file_a(folder_ / (a + ".cria"));
    const ModelReadBack file_b(folder_ / (b + ".cria"));
    ASSERT_EQ(file_a.tensors().size(), file_b.tensors().size());
    for (size_t i = 0; i < file_a.tensors().size(); ++i) {
      EXPECT_EQ(file_a.raw(file_a.tensors()[i]), file_b.raw(file_b.tensors()[i])) << i;
    }
  }

  TempFolder folder_;
  TinyCheckpoint checkpoint_;
};

// The tensors named, one after the other, become one.
void fuse(TinyCheckpoint* checkpoint, const std::vector<std::string>& parts,
          const std::string& name) {
  TestTensor fused = {kLayer + name, "F32", {0, 64}, ""};
  for (const std::string& part : parts) {
    const TestTensor& tensor = checkpoint->tensor(kLayer + part);
    fused.shape[0] += tensor.shape[0];
    fused.data += tensor.data;
    checkpoint->erase(kLayer + part);
  }
  checkpoint->tensors.push_back(std::move(fused));
}

void become(TinyCheckpoint* checkpoint, const std::string& class_name,
            const std::string& model_type) {
  checkpoint->config["architectures"] = "[\"" + class_name + "\"]";
  checkpoint->config["model_type"] = "\"" + model_type + "\"";
  checkpoint->config["rms_norm_eps"] = "1e-6";
}

void make_phi3(TinyCheckpoint* checkpoint) {
  become(checkpoint, "Phi3ForCausalLM", "phi3");
  fuse(checkpoint,
       {"self_attn.q_proj.weight", "self_attn.k_proj.weight", "self_attn.v_proj.weight"},
       "self_attn.qkv_proj.weight");
  fuse(checkpoint, {"mlp.gate_proj.weight", "mlp.up_proj.weight"}, "mlp.gate_up_proj.weight");
}

TEST_F(ConvertFused, APhi3sAreTakenApart) {
  convert(checkpoint_, "llama");
  make_phi3(&checkpoint_);
  convert(checkpoint_, "phi3");
  expect_same_tensors("llama", "phi3");
}

TEST_F(ConvertFused, AGraniteHybridsAreTakenApart) {
  convert(checkpoint_, "llama");
  become(&checkpoint_, "GraniteMoeHybridForCausalLM", "granitemoehybrid");
  checkpoint_.config["shared_intermediate_size"] = checkpoint_.config["intermediate_size"];
  checkpoint_.config["num_local_experts"] = "0";
  checkpoint_.config["layer_types"] = R"(["attention"])";
  checkpoint_.config["position_embedding_type"] = R"("rope")";
  fuse(&checkpoint_, {"mlp.gate_proj.weight", "mlp.up_proj.weight"},
       "shared_mlp.input_linear.weight");
  checkpoint_.tensor(kLayer + "mlp.down_proj.weight").name =
      kLayer + "shared_mlp.output_linear.weight";
  convert(checkpoint_, "granite4");
  expect_same_tensors("llama", "granite4");
}

TEST_F(ConvertFused, AnotherShapeIsRefusedByTheStoredName) {
  make_phi3(&checkpoint_);
  checkpoint_.config["num_key_value_heads"] = "1";
  expect_invalid({"self_attn.qkv_proj.weight", "[128, 64]", "[96, 64]"},
                 [&] { convert(checkpoint_, "phi3"); });
  checkpoint_.config["num_key_value_heads"] = "2";
  checkpoint_.erase(kLayer + "mlp.gate_up_proj.weight");
  expect_invalid({"no tensor", "mlp.gate_up_proj.weight"}, [&] { convert(checkpoint_, "phi3"); });
}

// Of k, by the row that the checkpoint has.
TEST_F(ConvertFused, ABadValueIsNamedByItsRow) {
  make_phi3(&checkpoint_);
  const float infinity = std::numeric_limits<float>::infinity();
  std::memcpy(checkpoint_.tensor(kLayer + "self_attn.qkv_proj.weight").data.data() +
                  (70 * 64 + 3) * sizeof(float),
              &infinity, sizeof infinity);
  expect_invalid({"self_attn.qkv_proj.weight", "row 70"}, [&] { convert(checkpoint_, "phi3"); });
}

}  // namespace
}  // namespace cria::test
