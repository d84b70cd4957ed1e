#include "converter/gptq/gptq_settings.h"

#include "converter/error.h"

namespace cria::converter {
namespace {

constexpr const char* kAdvice =
    "; convert the original checkpoint, or one quantized by GPTQ to symmetric int4";

constexpr uint32_t kZeroOfFirst = 7;  // format 1 stores one less
constexpr uint32_t kZeroOfSecond = 8;

enum class Method { kGptq, kAutoRound };

// quantize_config.json needs no method: only GPTQ has that file.
Method read_method(const JsonObject& config) {
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
    return std::nullopt;
  }
  const std::string name = config.text("checkpoint_format").value_or("gptq");
  if (name == "gptq") return kZeroOfFirst;
  if (name == "gptq_v2") return kZeroOfSecond;
  config.refuse("checkpoint_format", "'" + shown(name) + "' is not supported" + kAdvice);
}

}  // namespace

GptqSettings read_gptq_settings(const Json& json, const std::string& where) {
  const JsonObject config(json, where);
  const Method method = read_method(config);
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
