// Embeddings against Hugging Face transformers: a checkpoint as Qwen3-Embedding is published, and
// what transformers computed of it.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/max_or_nan.h"
#include "tests/support/model_files.h"
#include "tests/support/test_session.h"

namespace cria {
namespace {

namespace fs = std::filesystem;

struct Reference {
  std::vector<std::vector<uint32_t>> prompts;
  std::vector<std::vector<float>> embeddings;
};

Reference read_reference(const fs::path& folder) {
  std::ifstream file(folder / "embeddings.json");
  const auto json = nlohmann::json::parse(file);
  EXPECT_EQ(json.at("pooling"), "last");
  EXPECT_EQ(json.at("normalized"), true);
  return {json.at("prompts").get<std::vector<std::vector<uint32_t>>>(),
          json.at("embeddings").get<std::vector<std::vector<float>>>()};
}

void write(const fs::path& path, const nlohmann::json& json) { std::ofstream(path) << json.dump(); }

// The checkpoint beside what sentence-transformers keeps of a model of embeddings.
fs::path with_modules(const fs::path& checkpoint) {
  const fs::path folder = test::temporary_folder() / "with_modules";
  fs::create_directories(folder / "1_Pooling");
  for (const char* name : {"config.json", "model.safetensors"}) {
    fs::copy_file(checkpoint / name, folder / name, fs::copy_options::overwrite_existing);
  }
  auto modules = nlohmann::json::array();
  for (const char* name : {"Transformer", "Pooling", "Normalize"}) {
    const std::string path = std::string(name) == "Pooling" ? "1_Pooling" : "";
    modules.push_back(
        {{"type", std::string("sentence_transformers.models.") + name}, {"path", path}});
  }
  write(folder / "modules.json", modules);
  write(folder / "1_Pooling/config.json",
        {{"word_embedding_dimension", 64}, {"pooling_mode_lasttoken", true}});
  return folder;
}

double cosine(const std::vector<float>& a, const std::vector<float>& b) {
  double product = 0;
  double of_a = 0;
  double of_b = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const auto x = static_cast<double>(a[i]);
    const auto y = static_cast<double>(b[i]);
    product += x * y;
    of_a += x * x;
    of_b += y * y;
  }
  return product / std::sqrt(of_a * of_b);
}

std::vector<float> embedding_of(test::TestSession* s, const std::vector<uint32_t>& tokens) {
  std::vector<float> embedding(cria_d_model(s->model()));
  EXPECT_EQ(
      cria_embed(s->workspace(), s->session(), tokens.data(), tokens.size(), 0, embedding.data()),
      CRIA_OK);
  return embedding;
}

class ReferenceEmbeddings : public testing::TestWithParam<cria_backend> {
 protected:
  // Of a model of embeddings, and of the same model where no file says so.
  void compare(const fs::path& checkpoint, format::NumberFormat weights, cria_kv_format kv,
               double least_cosine, double largest_error) {
    const Reference reference = read_reference(checkpoint);
    ASSERT_EQ(reference.prompts.size(), 5u);
    for (const fs::path& folder : {checkpoint, with_modules(checkpoint)}) {
      const test::MemorySource source(test::convert_folder(folder, {.weights = weights}));
      cria_config config = {};
      config.backend = GetParam();
      config.kv_format = kv;
      config.n_threads = 2;
      test::TestSession session(source, config);
      EXPECT_EQ(session.info().pooling, folder == checkpoint ? 0 : CRIA_POOLING_LAST);
      double least = 1;
      double error = 0;
      for (size_t i = 0; i < reference.prompts.size(); ++i) {
        const std::vector<float> got = embedding_of(&session, reference.prompts[i]);
        const std::vector<float>& want = reference.embeddings[i];
        ASSERT_EQ(got.size(), want.size());
        least = std::fmin(least, cosine(got, want));
        error = test::max_or_nan(error, test::relative_error(got.data(), want.data(), want.size()));
      }
      std::printf("%s: smallest cosine %.6f, largest difference %.2g of the largest value\n",
                  cria_backend_name(session.model()), least, error);
      EXPECT_GE(least, least_cosine);
      EXPECT_LE(error, largest_error);
    }
  }
};

TEST_P(ReferenceEmbeddings, OfF32AreThoseOfTransformers) {
  const auto reference = test::reference_folder();
  if (!reference) GTEST_SKIP() << "no $CRIA_SHARED/reference";
  compare(*reference / "architectures/qwen3", format::NumberFormat::kF32, CRIA_KV_F32, 0.999999,
          1e-5);
}

// So small a model of random weights is turned by rounding: transformers itself, its weights and
// activations rounded to int8 by rows, comes to a smallest cosine of 0.99793.
TEST_P(ReferenceEmbeddings, OfInt8PointWhereThoseOfTransformersDo) {
  const auto reference = test::reference_folder();
  if (!reference) GTEST_SKIP() << "no $CRIA_SHARED/reference";
  compare(*reference / "architectures/qwen3", format::NumberFormat::kInt8, CRIA_KV_INT8, 0.997,
          0.1);
}

INSTANTIATE_TEST_SUITE_P(Backends, ReferenceEmbeddings, testing::ValuesIn(test::built_backends()),
                         test::backend_label);

}  // namespace
}  // namespace cria
