// The metadata that the converter writes keeps the limits that every reader checks.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "converter/report.h"
#include "quant/format/metadata_check.h"
#include "quant/model/model_layout.h"
#include "tests/support/matrix_formats.h"
#include "tests/support/test_configs.h"

namespace cria::converter {
namespace {

ConversionReport report_of(uint32_t n_layers) {
  ConversionReport report = {};
  ConfigParts config = test::small_config(format::NumberFormat::kInt4, 32);
  config.kinds[0].flags |=
      format::flag::kMixerBias | format::flag::kOutputBias | format::flag::kFfnBias;
  config.layers.assign(n_layers, 0);
  test::mend_counts(&config);
  EXPECT_NE(write_config(config.view(), &report.config_section), 0u);
  report.source_name = "a \xff folder";  // as the file system may name it
  TensorWalk walk(config.view());
  for (EncodedTensor tensor = {}; walk.next({format::NumberFormat::kInt4, 32}, &tensor.spec);) {
    tensor.entry = tensor_entry(tensor.spec, 0);
    tensor.error = {1.0 / 3, 1.0 / 7, 1.0 / 9};
    report.tensors.push_back(tensor);
  }
  return report;
}

bool holds(const std::string& text) {
  MetadataCheck check;
  check.add(reinterpret_cast<const uint8_t*>(text.data()), text.size());
  return text.size() <= format::kMaxMetadataBytes && check.holds();
}

TEST(MetadataText, ListsTheTensorsOfAnyOrdinaryModel) {
  const ConversionReport report = report_of(126);
  const std::string text = metadata_text(report);
  EXPECT_TRUE(holds(text));
  EXPECT_EQ(nlohmann::json::parse(text).at("tensors").size(), report.tensors.size());
}

TEST(MetadataText, LeavesOutTheListWhereItWouldBeTooLong) {
  const ConversionReport report = report_of(format::kMaxLayers);
  ASSERT_GT(json_text(metadata_json(report), -1).size(), format::kMaxMetadataBytes);
  const std::string text = metadata_text(report);
  EXPECT_TRUE(holds(text));
  const nlohmann::json json = nlohmann::json::parse(text);
  EXPECT_FALSE(json.contains("tensors"));
  EXPECT_EQ(json.at("n_tensors"), report.tensors.size());
  EXPECT_EQ(report_json(report).at("tensors").size(), report.tensors.size());
}

TEST(ReportText, IsKnownByItsBeginning) {
  ConversionReport report = report_of(2);
  report.architecture = "LlamaForCausalLM";
  report.tokenizer_name = "SentencePiece BPE, 2097152 tokens";
  report.chat_name = "llama3.2";
  const std::string text = report_text(report);
  ASSERT_GT(text.size(), kReportBeginningBytes);
  EXPECT_TRUE(begins_as_report(text.substr(0, kReportBeginningBytes)));
  EXPECT_TRUE(begins_as_report(text));
}

TEST(ReportText, IsNotTakenForWhatOthersWrite) {
  const std::string text = report_text(report_of(1));
  for (const std::string& other :
       {std::string(), std::string("{}"), text.substr(1), text.substr(0, 100),
        metadata_text(report_of(1)),
        std::string("{\n  \"architecture\": \"LlamaForCausalLM\",\n  \"score\": 1\n}\n")}) {
    EXPECT_FALSE(begins_as_report(other)) << other;
  }
}

}  // namespace
}  // namespace cria::converter
