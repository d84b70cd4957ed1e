#include "converter/gptq/gptq_settings.h"

#include "converter/error.h"

namespace cria::converter {
namespace {

constexpr const char* kAdvice =
    "; convert the original checkpoint, or one quantized by GPTQ to symmetric int4";

constexpr uint32_t kZeroOfFirst = 7;  // format 1 stores one less
constexpr uint32_t kZeroOfSecond = 8;

enum class Method { kGptq, kAutoRound };

Method read_method(const JsonObject& config, QuantizationFile file) {
  if (file == QuantizationFile::kConfig && !config.has("quant_method")) {
    config.refuse("quant_method",
                  std::string("is missing: weights as bitsandbytes, MLX and others pack them are "
                              "not read") +
                      kAdvice);
  }
  const std::string name = config.text("quant_method").value_or("gptq");
  if (name == "gptq") return Method::kGptq;
  if (name == "auto-round" || name == "auto_round" || name == "intel/auto-round") {
    return Method::kAutoRound;
  }
  config.refuse("quant_method", "'" + shown(name) + "' is not supported" + kAdvice);
}

std::optional<uint32_t> read_zero(const JsonObject& config, Method method) {
  if (method == Method::kAutoRound) {
    const std::string packing = config.text("packing_format").value_or("auto_round:auto_gptq");
    if (packing.find("gptq") == std::string::npos && packing != "auto_round") {
      config.refuse("packing_format", "'" + shown(packing) + "' is not supported" + kAdvice);
    }
    const std::string type = config.text("data_type").value_or("int");
    if (type != "int" && type != "int_sym") {
      config.refuse("data_type", "'" + shown(type) + "' is not supported" + kAdvice);
    }
    return std::nullopt;
  }
  if (config.boolean("is_marlin_format").value_or(false)) {
    config.refuse("is_marlin_format", std::string("true is not supported") + kAdvice);
  }
  const char* const key = config.has("checkpoint_format") ? "checkpoint_format" : "format";
  const std::string name = config.text(key).value_or("gptq");
  if (name == "gptq") return kZeroOfFirst;
  if (name == "gptq_v2") return kZeroOfSecond;
  config.refuse(key, "'" + shown(name) + "' is not supported" + kAdvice);
}

}  // namespace

GptqSettings read_gptq_settings(const Json& json, QuantizationFile file, const std::string& where) {
  const JsonObject config(json, where);
  const Method method = read_method(config, file);
  constexpr uint32_t kBits = 4;
  if (const uint32_t bits = config.required_count("bits"); bits != kBits) {
    config.refuse("bits", "is " + std::to_string(bits) + "; only 4 is supported" + kAdvice);
  }
  if (!config.boolean("sym").value_or(true)) {
    config.refuse("sym", std::string("false is not supported") + kAdvice);
  }
  const double group = config.required_number("group_size");
  constexpr uint32_t kGroups[] = {32, 64, 128};
  for (const uint32_t known : kGroups) {
    if (group == known) return {known, read_zero(config, method)};
  }
  config.refuse("group_size", std::string("must be 32, 64 or 128") + kAdvice);
}

}  // namespace cria::converter
