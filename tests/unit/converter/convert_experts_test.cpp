// Experts of a checkpoint become stacks, whose matrices are those of a dense layer; checkpoints
// that lack some or whose shapes differ are refused with one line.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "converter/convert.h"
#include "tests/unit/converter/converter_fixtures.h"
#include "tests/unit/converter/model_read_back.h"

namespace cria::test {
namespace {

using converter::Options;
using format::TensorRole;

constexpr uint64_t kWidth = 64;
constexpr uint64_t kRows = 40;  // of an expert: no multiple of a tile's
constexpr size_t kExperts = 3;
const std::string kLayer = "model.layers.0.";

std::string expert(size_t i, const char* matrix) {
  return kLayer + "block_sparse_moe.experts." + std::to_string(i) + "." + matrix + ".weight";
}

// Bytes of a matrix's codes, whole tiles of 16 rows.
size_t code_bytes(const format::TensorEntry& entry) {
  const MatrixFormat f = {static_cast<format::NumberFormat>(entry.number_format), entry.group_size};
  return code_plane_bytes({entry.rows, entry.cols, f.number_format, f.group_size});
}

class ConvertExperts : public ::testing::Test {
 protected:
  ConvertExperts() : checkpoint_(kWidth, kRows, 50) {
    std::mt19937 rng(4);
    for (const char* name : {"gate_proj", "up_proj", "down_proj"}) {
      checkpoint_.erase(kLayer + "mlp." + name + ".weight");
    }
    checkpoint_.config["architectures"] = R"(["MixtralForCausalLM"])";
    checkpoint_.config["model_type"] = R"("mixtral")";
    checkpoint_.config["num_local_experts"] = std::to_string(kExperts);
    checkpoint_.tensors.push_back(
        random_tensor(kLayer + "block_sparse_moe.gate.weight", {kExperts, kWidth}, &rng));
    for (size_t i = 0; i < kExperts; ++i) {
      for (const char* name : {"w1", "w3"}) {
        checkpoint_.tensors.push_back(random_tensor(expert(i, name), {kRows, kWidth}, &rng));
      }
      checkpoint_.tensors.push_back(random_tensor(expert(i, "w2"), {kWidth, kRows}, &rng));
    }
  }

  // Converts, and gives the raw bytes of a tensor of layer 0.
  ModelReadBack convert(const TinyCheckpoint& checkpoint, const std::string& name) {
    checkpoint.write(folder_ / name);
    Options options;
    options.model = folder_ / name;
    options.output = folder_ / (name + ".cria");
    options.tokenizer = converter::TokenizerChoice::kNone;
    options.verbosity = converter::Verbosity::kQuiet;
    options.weights = weights_;
    options.group_size = matrix_format(weights_, 32).group_size;
    options.n_threads = 2;
    options.compression = compression_;
    converter::Progress progress(options.verbosity);
    EXPECT_TRUE(converter::convert(options, &progress).warnings.empty());
    return ModelReadBack(options.output);
  }
  void refuses(const std::vector<std::string>& parts) {
    expect_invalid(parts, [&] { (void)convert(checkpoint_, "refused"); });
  }

  // A Llama with one expert as its feed-forward.
  TinyCheckpoint dense(size_t i) {
    TinyCheckpoint one(kWidth, kRows, 50);
    const std::pair<const char*, const char*> names[] = {
        {"gate_proj", "w1"}, {"up_proj", "w3"}, {"down_proj", "w2"}};
    for (const auto& [name, stored] : names) {
      one.tensor(kLayer + "mlp." + name + ".weight").data =
          checkpoint_.tensor(expert(i, stored)).data;
    }
    return one;
  }

  TempFolder folder_;
  TinyCheckpoint checkpoint_;
  format::NumberFormat weights_ = format::NumberFormat::kF32;
  format::Compression compression_ = format::Compression::kZstd;
};

TEST_F(ConvertExperts, AStackIsItsMatricesOneBehindTheOther) {
  const std::pair<TensorRole, TensorRole> roles[] = {{TensorRole::kExpertGate, TensorRole::kGate},
                                                     {TensorRole::kExpertUp, TensorRole::kUp},
                                                     {TensorRole::kExpertDown, TensorRole::kDown}};
  for (const NumberFormatRow& row : kNumberFormats.of) {
    if (is_trained_bits(row.number_format)) continue;  // nothing is rounded to these
    SCOPED_TRACE(number_format_name(row.number_format));
    weights_ = row.number_format;
    const ModelReadBack stacked = convert(checkpoint_, "mixtral");
    std::vector<ModelReadBack> apart;
    for (size_t i = 0; i < kExperts; ++i) apart.push_back(convert(dense(i), "llama"));
    for (const auto& [stack, matrix] : roles) {
      const format::TensorEntry& entry = stacked.tensor(stack, 0);
      EXPECT_EQ(entry.n_matrices, kExperts);
      std::string codes;
      std::string scales;
      for (const ModelReadBack& one : apart) {
        const std::string raw = one.raw(one.tensor(matrix, 0));
        const size_t n_codes = code_bytes(one.tensor(matrix, 0));
        codes += raw.substr(0, n_codes);
        scales += raw.substr(n_codes);
      }
      EXPECT_TRUE(stacked.raw(entry) == codes + scales) << static_cast<int>(stack);
    }
    EXPECT_EQ(stacked.tensor(TensorRole::kRouter, 0).number_format,
              static_cast<uint8_t>(format::NumberFormat::kF32));
  }
}

// So that they can be used where the file is mapped; all else is compressed.
TEST_F(ConvertExperts, ExpertsStayStoredInACompressedFile) {
  weights_ = format::NumberFormat::kBf16;
  const ModelReadBack packed = convert(checkpoint_, "mixtral");
  EXPECT_EQ(packed.config().model->compression,
            static_cast<uint32_t>(format::FileCompression::kKeepsLarge));
  for (const format::TensorEntry& entry : packed.tensors()) {
    const auto chunks = std::span(packed.chunks()).subspan(entry.first_chunk, entry.n_chunks);
    const bool is_stored = std::all_of(chunks.begin(), chunks.end(), [](const auto& chunk) {
      return chunk.compression == static_cast<uint32_t>(format::Compression::kStored);
    });
    const bool stays = entry.n_matrices != 1;
    const bool is_small = entry.raw_bytes < 1024;  // vectors may not get smaller
    if (!is_small) {
      EXPECT_EQ(is_stored, stays) << entry.role;
    }
  }
  compression_ = format::Compression::kStored;
  const ModelReadBack stored = convert(checkpoint_, "mixtral");
  EXPECT_EQ(stored.config().model->compression,
            static_cast<uint32_t>(format::FileCompression::kStored));
  for (size_t i = 0; i < stored.tensors().size(); ++i) {
    EXPECT_TRUE(stored.raw(stored.tensors()[i]) == packed.raw(packed.tensors()[i])) << i;
  }
  compression_ = format::Compression::kZstd;
  EXPECT_EQ(convert(dense(0), "llama").config().model->compression,
            static_cast<uint32_t>(format::FileCompression::kAny));
}

TEST_F(ConvertExperts, AMissingExpertIsNamed) {
  checkpoint_.erase(expert(1, "w3"));
  refuses({"no tensor model.layers.0.block_sparse_moe.experts.1.w3.weight", "incomplete"});
}

TEST_F(ConvertExperts, AnExpertTooManyIsNamed) {
  checkpoint_.config["num_local_experts"] = "2";
  checkpoint_.tensor(kLayer + "block_sparse_moe.gate.weight").shape = {2, kWidth};
  checkpoint_.tensor(kLayer + "block_sparse_moe.gate.weight")
      .data.resize(2 * kWidth * sizeof(float));
  refuses({"experts.2.w1.weight has no place"});
}

TEST_F(ConvertExperts, FarMoreExpertsThanThereAreAreRefused) {
  checkpoint_.config["num_local_experts"] = "1024";
  refuses({"block_sparse_moe.gate.weight has shape [3, 64]", "[1024, 64]"});
  checkpoint_.config["num_local_experts"] = "4000000000";
  refuses({"num_local_experts must be from 1 to 1024"});
}

TEST_F(ConvertExperts, ExpertsOfOtherShapesAreNamed) {
  TestTensor& odd = checkpoint_.tensor(expert(2, "w2"));
  odd.shape = {kRows, kWidth};
  refuses({"experts.2.w2.weight has shape [40, 64]", "[64, 40]"});
  odd.shape = {1, kWidth, kRows};
  refuses({"experts.2.w2.weight has shape [1, 64, 40]"});
}

TEST_F(ConvertExperts, AnExpertOfAnotherTypeIsNamed) {
  TestTensor& odd = checkpoint_.tensor(expert(2, "w1"));
  odd.dtype = "I32";
  refuses({"experts.2.w1.weight has dtype I32"});
}

TEST_F(ConvertExperts, ABadValueIsNamedByItsExpert) {
  const float bad = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(checkpoint_.tensor(expert(1, "w1")).data.data() + (17 * kWidth + 3) * sizeof bad,
              &bad, sizeof bad);
  refuses({"experts.1.w1.weight has values", "(row 17)"});
}

}  // namespace
}  // namespace cria::test
