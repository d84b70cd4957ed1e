// A trained model that people have as llama2.c and GGUF files, against what its author's program
// makes of it.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/support/model_files.h"
#include "tests/support/test_session.h"

namespace cria {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t kVocab = 512;
constexpr size_t kPositions = 32;
constexpr uint32_t kGreedySteps = 255;

fs::path stories(const char* name) {
  return *test::reference_folder() / "trained/stories260K" / name;
}

test::Bytes convert_file(const fs::path& path) {
  return test::convert_folder(path,
                              {format::NumberFormat::kF32, 0, format::Compression::kZstd, true});
}

std::vector<uint32_t> greedy_ids() {
  std::ifstream file(stories("greedy_ids.txt"));
  std::vector<uint32_t> ids;
  for (uint32_t id = 0; file >> id;) ids.push_back(id);
  return ids;
}

cria_config exact_config() {
  cria_config config = {};
  config.backend = CRIA_BACKEND_EXACT;
  config.kv_format = CRIA_KV_F32;
  config.context = 512;
  return config;
}

class ImportedFile : public testing::TestWithParam<const char*> {};

TEST_P(ImportedFile, SaysWhatItsAuthorsProgramSays) {
  if (!test::reference_folder()) GTEST_SKIP() << "no shared references";
  const test::MemorySource source(convert_file(stories(GetParam())));
  test::TestSession session(source, exact_config());
  const std::vector<uint32_t> wanted = greedy_ids();
  ASSERT_EQ(wanted.size(), kGreedySteps + 1);
  ASSERT_EQ(cria_prefill(session.workspace(), session.session(), wanted.data(), 1), CRIA_OK);
  const std::vector<uint32_t> tokens = session.greedy(kGreedySteps);
  EXPECT_EQ(tokens, std::vector<uint32_t>(wanted.begin() + 1, wanted.end()));
  std::string text;
  cria_text_state state = {};
  for (size_t i = 0; i < 200; ++i) {
    char piece[64];
    size_t n = 0;
    ASSERT_EQ(cria_decode_token(session.model(), &state, tokens[i], piece, sizeof piece, &n),
              CRIA_OK);
    text.append(piece, n);
  }
  const test::Bytes said = test::read_file(stories("expected_greedy_200.txt"));
  EXPECT_EQ(text, std::string(said.begin(), said.end()));
}

TEST_P(ImportedFile, HasItsAuthorsLogits) {
  if (!test::reference_folder()) GTEST_SKIP() << "no shared references";
  const std::vector<float> wanted = test::read_floats(stories("logits32.f32"));
  ASSERT_EQ(wanted.size(), kPositions * kVocab);
  const test::MemorySource source(convert_file(stories(GetParam())));
  test::TestSession session(source, exact_config());
  const std::vector<uint32_t> ids = greedy_ids();
  for (size_t position = 0; position < kPositions; ++position) {
    ASSERT_EQ(cria_prefill(session.workspace(), session.session(), &ids[position], 1), CRIA_OK);
    const float* logits = cria_logits(session.session());
    for (size_t i = 0; i < kVocab; ++i) {
      const float want = wanted[position * kVocab + i];
      ASSERT_NEAR(logits[i], want, 2e-4f * (1 + std::fabs(want))) << position << " " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Stories260K, ImportedFile,
                         testing::Values("stories260K.bin", "stories260K_v1.bin",
                                         "stories260K.gguf"));

}  // namespace
}  // namespace cria
