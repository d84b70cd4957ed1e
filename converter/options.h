// The command line of cria-convert.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "converter/calibration/calibration_request.h"
#include "converter/chunk_encoder.h"
#include "converter/lora/lora_adapter.h"
#include "converter/progress.h"
#include "quant/format/format.h"
#include "quant/numbers/number_formats.h"
#include "quant/numbers/quantize.h"

namespace cria::converter {

enum class TokenizerChoice { kRequired, kNone };

// What --chat-template says.
struct ChatTemplateChoice {
  uint32_t kind = 0;  // of format::kChatTemplateNames; 0: none
  std::string jinja;  // of a file's
};

struct Options {
  std::filesystem::path model;
  std::filesystem::path output;  // empty: nothing is written, only what would be is said
  format::NumberFormat weights = format::NumberFormat::kInt4;
  // Matrices that were trained as bit1 or bit2 get that instead.
  bool keeps_trained = true;
  uint16_t group_size = 32;  // zero unless weights has scales of groups
  std::map<format::TensorRole, MatrixFormat> weights_of;  // of single roles, instead of those two
  QuantMethod method = QuantMethod::kMse;
  ScaleSigns scales = ScaleSigns::kBoth;  // of int4 and int4nl
  std::optional<CalibrationRequest> calibration;
  // A weight, at most: then each matrix has a format of its own
  // (converter/calibration/mixed_formats.h), and weights is that of four bits.
  std::optional<double> bits;
  std::optional<uint32_t> context;
  std::vector<LoraRequest> adapters;
  std::optional<std::filesystem::path> tokenizer_file;
  TokenizerChoice tokenizer = TokenizerChoice::kRequired;
  std::optional<ChatTemplateChoice> chat_template;  // instead of the checkpoint's own
  format::Compression compression = format::Compression::kZstd;
  int level = 1;
  std::optional<std::filesystem::path> report;
  size_t n_threads = 1;
  Verbosity verbosity = Verbosity::kNormal;
};

// Returns nothing when the command line asked for help or the version, which is then on standard
// output. Throws ProgramError (kUsage).
[[nodiscard]] std::optional<Options> parse_options(int argc, const char* const* argv);

}  // namespace cria::converter
