// The demo checkpoint with its tokenizer and chat template, whole.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "converter/convert.h"
#include "quant/text/chat_template_format.h"
#include "quant/text/tokenizer_format.h"
#include "tests/support/folders.h"
#include "tests/unit/converter/converter_fixtures.h"
#include "tests/unit/converter/model_read_back.h"

namespace cria::test {
namespace {

using converter::ConversionReport;
using converter::Json;
using converter::Options;
using format::SectionKind;

class ConvertDemo : public ::testing::Test {
 protected:
  ConvertDemo() { std::filesystem::copy(demo_folder(), folder_ / "model"); }
  ConversionReport convert() {
    Options options;
    options.model = folder_ / "model";
    options.output = folder_ / "m.cria";
    options.n_threads = 2;
    options.verbosity = converter::Verbosity::kQuiet;
    converter::Progress progress(options.verbosity);
    return converter::convert(options, &progress);
  }
  // Takes keys out of one of the checkpoint's JSON files.
  void silence(const std::string& file, const std::vector<std::string>& keys) {
    Json json = Json::parse(read_file(folder_ / "model" / file));
    for (const std::string& key : keys) json.erase(key);
    write_file(folder_ / "model" / file, json.dump());
  }

  TempFolder folder_;
};

TEST_F(ConvertDemo, ItHasTokenizerTemplateAndTokens) {
  const ConversionReport report = convert();
  const ModelReadBack file(folder_ / "m.cria");
  const std::string tokenizer = file.section(SectionKind::kTokenizer);
  ASSERT_GE(tokenizer.size(), sizeof(format::TokenizerHeader));
  EXPECT_EQ(tokenizer.size(), report.tokenizer_bytes);
  EXPECT_GE(file.section(SectionKind::kChatTemplate).size(), sizeof(format::ChatTemplateHeader));
  EXPECT_EQ(file.config().model->bos_token, 2042u);
  ASSERT_EQ(file.config().model->n_end_tokens, 2u);
  EXPECT_EQ(file.config().model->end_tokens[0], 2043u);
  EXPECT_EQ(file.config().model->end_tokens[1], 2046u);
  EXPECT_TRUE(report.warnings.empty());
}

TEST_F(ConvertDemo, ThePlanIsThatOfTheRuntimesDefaults) {
  const ConversionReport report = convert();
  EXPECT_EQ(report.plan_input.context, 512u);
  EXPECT_EQ(report.plan_input.n_threads, 1u);
  EXPECT_EQ(report.plan_input.max_text_bytes, 2048u);
  EXPECT_EQ(report.plan_input.tokenizer_bytes, report.tokenizer_bytes);
  EXPECT_EQ(report.plan_input.max_entries, 1u);
  EXPECT_GT(report.plan.total, report.plan.model.weights);
}

TEST_F(ConvertDemo, WhereTheConfigsAreSilentTheTokenizerNamesTheTokens) {
  silence("config.json", {"bos_token_id", "eos_token_id"});
  silence("generation_config.json", {"bos_token_id", "eos_token_id"});
  (void)convert();
  const ModelReadBack file(folder_ / "m.cria");
  EXPECT_EQ(file.config().model->bos_token, 2042u);
  EXPECT_GE(file.config().model->n_end_tokens, 1u);
}

TEST_F(ConvertDemo, MetadataTellsHowItWasMadeWithoutPathsAndTimes) {
  (void)convert();
  const std::string first = read_file(folder_ / "m.cria");
  const Json metadata =
      Json::parse(ModelReadBack(folder_ / "m.cria").section(SectionKind::kMetadata));
  EXPECT_EQ(metadata["source"], "model");
  EXPECT_EQ(metadata["weights"], "int4");
  EXPECT_EQ(metadata["method"], "mse");
  EXPECT_EQ(metadata["group_size"], 32);
  EXPECT_EQ(metadata["tensors"].size(), 48u);
  EXPECT_EQ(metadata.dump().find(folder_.path().string()), std::string::npos);
  (void)convert();
  EXPECT_TRUE(first == read_file(folder_ / "m.cria")) << "two conversions differ";
}

}  // namespace
}  // namespace cria::test
