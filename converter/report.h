// What a conversion did, for people and for scripts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "converter/calibration/calibration.h"
#include "converter/calibration/mixed_formats.h"
#include "converter/json_input.h"
#include "converter/options.h"
#include "converter/tensor_encoder.h"
#include "quant/model/memory_plan.h"

namespace cria::converter {

struct ConversionReport {
  std::string source_name;  // the folder's own name: a file does not tell where it was made
  std::string architecture;
  std::string weights_text;    // of the checkpoint's: "GGUF version 3, Q4_0, F32"
  std::string tokenizer_name;  // "none" without one
  std::string chat_name;
  std::string chat_jinja;          // the template itself; empty: none
  std::string chat_tools_problem;  // of ImportedChatTemplate
  ConfigBytes config_section;
  QuantMethod method;
  bool is_gptq;                                   // codes by calibration, where method's are worse
  std::optional<CalibrationSummary> calibration;  // none: without
  uint64_t calibration_bytes;                     // of memory, about; 0 without
  // Of --bits, before formats are chosen: the plan is then that of so many bits, an upper bound.
  std::optional<double> bits_asked;
  std::optional<FormatChoice> choice;
  std::vector<EncodedTensor> tensors;
  std::vector<std::string> warnings;
  uint64_t tokenizer_bytes;
  uint64_t chat_bytes;
  uint64_t file_bytes;
  PlanInput plan_input;
  MemoryPlan plan;

  [[nodiscard]] Config config() const { return view_config(config_section); }
};

// For the metadata section: the same bytes for the same input, so without times and paths.
[[nodiscard]] Json metadata_json(const ConversionReport& report);
// metadata_json as the file holds it, within the format's limit: a model of very many tensors goes
// without the list of them, which report_json still has, and if need be without its template.
[[nodiscard]] std::string metadata_text(const ConversionReport& report);
// For --report: the metadata and what is only known afterwards.
[[nodiscard]] Json report_json(const ConversionReport& report);
// Whether the beginning of a file, kReportBeginningBytes of it or the whole file, is that of a
// report_json which report_text wrote.
[[nodiscard]] bool begins_as_report(std::string_view beginning);
inline constexpr size_t kReportBeginningBytes = 4096;
// report_json as --report has it.
[[nodiscard]] std::string report_text(const ConversionReport& report);
// As text, on one line when indent is negative. A name that is no UTF-8 is mended.
[[nodiscard]] std::string json_text(const Json& json, int indent);
// What was found, what is to be written and what memory it will take, before the work: many lines.
// The report has no tensors yet.
[[nodiscard]] std::string found_text(const ConversionReport& report);
// What was chosen for --bits, and the memory it will take: many lines.
[[nodiscard]] std::string choice_text(const ConversionReport& report);
// The table that ends a conversion: many lines.
[[nodiscard]] std::string summary_text(const ConversionReport& report);

// The plan of the runtime's defaults: exact backend, one thread, int8 KV cache, planned context.
[[nodiscard]] PlanInput default_plan_input(const Config& config, uint64_t tokenizer_bytes,
                                           uint64_t chat_bytes);

}  // namespace cria::converter
