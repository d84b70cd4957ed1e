#include "converter/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <span>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "converter/architecture_table.h"
#include "converter/chat_template/named_templates.h"
#include "converter/chunk_encoder.h"
#include "converter/error.h"
#include "converter/side_files.h"
#include "converter/version.h"
#include "platforms/hosted/base/cgroup_limits.h"
#include "platforms/hosted/base/option_values.h"
#include "quant/blocks/block_formats.h"
#include "quant/model/model_layout.h"
#include "quant/model/role_names.h"

namespace cria::converter {
namespace {

using format::Compression;
using format::NumberFormat;
using format::TensorRole;
using hosted::add_named;
using hosted::between;
using hosted::Named;

constexpr uint32_t kMaxThreads = 1024;
// What --bits may be at all; a model's matrices say what it can be.
constexpr double kLeastBits = 1;    // trained codes count among them
constexpr double kMostBits = 4096;  // narrow matrices are mostly padding
constexpr const char* kList = "--list-architectures";

constexpr std::array<Named<NumberFormat>, std::size(kNumberFormatList)> weight_names() {
  std::array<Named<NumberFormat>, std::size(kNumberFormatList)> names = {};
  for (size_t i = 0; i < names.size(); ++i) {
    names[i] = {kNumberFormatList[i].name, kNumberFormatList[i].row.number_format};
  }
  return names;
}

constexpr auto kWeights = weight_names();
constexpr Named<uint16_t> kGroups[] = {{"32", 32}, {"64", 64}, {"128", 128}};
// Whether kGroups names the group sizes that formats have, and no others.
consteval bool groups_hold() {
  const auto is_named = [](uint16_t group_size) {
    for (const Named<uint16_t>& group : kGroups) {
      if (group.value == group_size) return true;
    }
    return group_size == 0;
  };
  const auto is_had = [](uint16_t group_size) {
    for (const MatrixFormat& f : kMatrixFormats) {
      if (f.group_size == group_size) return true;
    }
    return false;
  };
  for (const MatrixFormat& f : kMatrixFormats) {
    if (!is_named(f.group_size)) return false;
  }
  for (const Named<uint16_t>& group : kGroups) {
    if (!is_had(group.value)) return false;
  }
  return true;
}
static_assert(groups_hold());
enum class Method : uint8_t { kRtn, kMse, kGptq };
constexpr Named<Method> kMethods[] = {
    {"rtn", Method::kRtn}, {"mse", Method::kMse}, {"gptq", Method::kGptq}};
constexpr Named<ScaleSigns> kScales[] = {{"signed", ScaleSigns::kBoth},
                                         {"positive", ScaleSigns::kPositive}};
constexpr Named<Compression> kCompress[] = {{"zstd", Compression::kZstd},
                                            {"none", Compression::kStored}};

// What --weights-of takes, by the names of their roles.
constexpr TensorRole kMatrices[] = {TensorRole::kEmbedding,
                                    TensorRole::kQ,
                                    TensorRole::kK,
                                    TensorRole::kV,
                                    TensorRole::kO,
                                    TensorRole::kGate,
                                    TensorRole::kUp,
                                    TensorRole::kDown,
                                    TensorRole::kLmHead,
                                    TensorRole::kExpertGate,
                                    TensorRole::kExpertUp,
                                    TensorRole::kExpertDown,
                                    TensorRole::kQDown,
                                    TensorRole::kLatentDown,
                                    TensorRole::kKeyUp,
                                    TensorRole::kValueUp,
                                    TensorRole::kMixerGate,
                                    TensorRole::kPerLayerTable,
                                    TensorRole::kPerLayerProjection,
                                    TensorRole::kPerLayerGate,
                                    TensorRole::kPerLayerOut};
constexpr bool has_matrices_of(std::span<const TensorRow> rows) {
  for (const TensorRow& row : rows) {
    if (row.form != TensorForm::kMatrix) continue;
    bool is_had = false;
    for (const TensorRole role : kMatrices) is_had = is_had || role == row.role;
    if (!is_had) return false;
  }
  return true;
}
constexpr bool has_matrices_of(std::span<const BlockFormat> formats) {
  for (const BlockFormat& format : formats) {
    if (!has_matrices_of(format.rows)) return false;
  }
  return true;
}
static_assert(has_matrices_of(kMixerFormats) && has_matrices_of(kFeedForwardFormats) &&
              has_matrices_of(kRowsBeforeLayers) && has_matrices_of(kRowsBehindLayers) &&
              has_matrices_of(kRowsBehindFeedForward));

// As CLI11 fills them, where an option's own type is another.
struct Raw {
  std::string model;
  std::string output;
  std::vector<std::string> weights_of;
  Method method = Method::kMse;
  std::string calibration;
  std::optional<uint32_t> calibration_tokens;
  double bits = 0;
  uint32_t context = 0;
  std::vector<std::string> adapters;
  std::string tokenizer;
  bool no_tokenizer = false;
  bool plan = false;
  std::string chat_template;
  std::string report;
  uint32_t n_threads = 0;
  bool quiet = false;
  bool lists = false;
};

void define(CLI::App* app, Raw* raw, Options* options) {
  app->set_version_flag("--version", std::string("cria-convert ") + kConverterVersion);
  app->add_flag(kList, raw->lists,
                "print the architectures that are read, with their classes and examples");
  app->add_option("MODEL", raw->model, "Hugging Face folder, .gguf file, or .bin file of llama2.c")
      ->type_name("PATH");
  app->add_option("-o,--output", raw->output, "model file to write")->type_name("FILE");
  app->add_flag("--plan", raw->plan,
                "write nothing: say what was found and the memory it would take; of a folder the "
                "config and the tokenizer are enough");
  add_named(app, "--weights", kWeights, &options->weights,
            "how matrices are stored: int4, int4nl, int8, int8g32, f16, bf16 or f32; bit1 and bit2 "
            "for weights that are exactly so [those as they are, others int4]");
  app->add_option(
         "--weights-of", raw->weights_of,
         "the same for one kind of matrix: embedding, q, k, v, o, gate, up, down, lm_head; of "
         "experts expert_gate, expert_up, expert_down; of latent attention q_down, latent_down, "
         "key_up, value_up; of states and gated attention mixer_gate; of per-layer embeddings "
         "per_layer_table, per_layer_projection, per_layer_gate, per_layer_out; may be repeated")
      ->type_name("MATRIX=NAME")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  add_named(app, "--group-size", kGroups, &options->group_size,
            "weights that share a scale of int4 or int4nl: 32, 64 or 128 [32]");
  add_named(app, "--method", kMethods, &raw->method,
            "integers: mse searches the scales of least error, rtn covers the range; int4: gptq "
            "calibrates, which takes minutes [mse]");
  add_named(
      app, "--scales", kScales, &options->scales,
      "int4's scales: signed, which loses less, or positive, which XNNPACK asks for [signed]");
  app->add_option(
         "--calibration", raw->calibration,
         "calibrate on this file of token ids, a line a sequence; with mse, too [text that "
         "the model writes itself]")
      ->type_name("FILE");
  app->add_option("--calibration-tokens", raw->calibration_tokens,
                  "tokens to calibrate on [32768; 16384 above 500 million weights]")
      ->check(between(kLeastCalibrationTokens, kMostCalibrationTokens))
      ->type_name("N");
  app->add_option("--bits", raw->bits,
                  "bits a weight, at most: int4 in groups of 128, 64 or 32, int8 or int8g32 for "
                  "each matrix, by what the output suffers from it; takes minutes")
      ->check(between(kLeastBits, kMostBits))
      ->type_name("X");
  app->add_option("--context", raw->context,
                  "tokens to plan memory for [the model's maximum, at most 2048]")
      ->check(between(1U, format::kMaxContext))
      ->type_name("N");
  app->add_option("--lora", raw->adapters,
                  "adapter to merge, a folder that peft saved, with a scale [1]; may be repeated")
      ->type_name("DIR[:SCALE]")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app->add_option("--tokenizer", raw->tokenizer,
                  "tokenizer's file of a .bin file [tokenizer.bin beside it]")
      ->type_name("FILE");
  app->add_flag("--no-tokenizer", raw->no_tokenizer,
                "write no tokenizer; then the model takes token ids only");
  app->add_option(
         "--chat-template", raw->chat_template,
         "instead of the checkpoint's: none, a .jinja file, or one of " + named_templates())
      ->type_name("NAME");
  add_named(app, "--compress", kCompress, &options->compression,
            "compression of the file: zstd or none [zstd]");
  app->add_option("--level", options->level,
                  "zstd level [1]; higher ones are slower and hardly smaller")
      ->check(between(lowest_level(), highest_level()))
      ->type_name("N");
  app->add_option("--report", raw->report, "also write the report as JSON to this file")
      ->type_name("FILE");
  app->add_option("--threads", raw->n_threads, "threads to use [all cores]")
      ->check(between(1U, kMaxThreads))
      ->type_name("N");
  app->add_flag("--quiet", raw->quiet, "print warnings and errors only");
}

// Prints by the way of --version.
void list_architectures(const CLI::App& app, const Raw& raw) {
  if (!raw.lists) return;
  for (const CLI::Option* option : app.get_options()) {
    if (option->count() == 0 || option->check_name(kList)) continue;
    throw CLI::ValidationError(kList, "takes no other options: leave out " + option->get_name());
  }
  std::string text = architectures_text();
  text.pop_back();  // CLI11 ends the line
  throw CLI::CallForVersion(text, 0);
}

[[noreturn]] void refuse(const std::string& line) { throw ProgramError(ExitCode::kUsage, line); }

// "int4 and int4nl": the names of the formats that is_one holds for.
template <typename IsOne>
std::string names_of(const IsOne& is_one) {
  std::vector<std::string> names;
  for (const NumberFormatRow& row : kNumberFormats.of) {
    if (is_one(row.number_format)) names.emplace_back(number_format_name(row.number_format));
  }
  std::string text = names.front();
  for (size_t i = 1; i < names.size(); ++i) {
    text += (i + 1 == names.size() ? " and " : ", ") + names[i];
  }
  return text;
}

// The formats that some matrix may get.
std::vector<MatrixFormat> formats_asked(const Options& options) {
  std::vector<MatrixFormat> formats = {matrix_format(options.weights, options.group_size)};
  for (const auto& [role, format] : options.weights_of) formats.push_back(format);
  return formats;
}

// Whether is_one holds for a format that some matrix may get.
template <typename IsOne>
bool requests(const Options& options, const IsOne& is_one) {
  const std::vector<MatrixFormat> formats = formats_asked(options);
  return std::any_of(formats.begin(), formats.end(),
                     [&](const MatrixFormat& f) { return is_one(f.number_format); });
}

void check_group_size(const Options& options) {
  if (!requests(options, has_group_scales)) {
    refuse("--group-size belongs to weights of " + names_of(has_group_scales));
  }
  std::string without;
  for (const MatrixFormat& f : formats_asked(options)) {
    if (f.group_size == options.group_size) return;
    if (f.group_size != 0) without = number_format_name(f.number_format);
  }
  refuse("--group-size " + std::to_string(options.group_size) + ": " + without +
         " has no such groups");
}

void check_calibration(const CLI::App& app, const Raw& raw, const Options& options) {
  const bool has_file = app.count("--calibration") > 0;
  const bool is_gptq = raw.method == Method::kGptq;
  if (has_file && raw.calibration.empty()) refuse("--calibration must not be empty");
  if ((is_gptq || has_file) && !requests(options, is_calibrated)) {
    refuse(std::string(is_gptq ? "--method gptq" : "--calibration") + " belongs to weights of " +
           names_of(is_calibrated) + ": other formats lose too little to be worth it");
  }
  if (has_file && raw.method == Method::kRtn) refuse("--calibration wants --method gptq or mse");
  if (app.count("--calibration-tokens") > 0 && !is_gptq && !has_file) {
    refuse("--calibration-tokens wants --method gptq or --calibration");
  }
}

void check_bits(const CLI::App& app, const Options& options) {
  if (app.count("--bits") == 0) return;
  if (!is_calibrated(options.weights)) {
    refuse("--bits belongs to --weights " + names_of(is_calibrated) +
           ", which it mixes with int8 and int8g32");
  }
  if (app.count("--group-size") > 0) {
    refuse("--bits chooses groups for each matrix: leave out --group-size");
  }
}

// Options that would silently do nothing are mistakes.
void check_combinations(const CLI::App& app, const Raw& raw, const Options& options) {
  if (app.count("--group-size") > 0) check_group_size(options);
  if (app.count("--scales") > 0 && !requests(options, may_be_signed)) {
    refuse("--scales belongs to weights of " + names_of(may_be_signed));
  }
  const auto is_rounded = [](NumberFormat f) { return is_integer(f) && !is_trained_bits(f); };
  if (app.count("--method") > 0 && !requests(options, is_rounded)) {
    refuse("--method belongs to weights of " + names_of(is_rounded));
  }
  check_calibration(app, raw, options);
  check_bits(app, options);
  if (app.count("--chat-template") > 0 && raw.no_tokenizer) {
    refuse("--chat-template and --no-tokenizer contradict each other");
  }
  if (app.count("--level") > 0 && options.compression == Compression::kStored) {
    refuse("--level belongs to --compress zstd");
  }
  if (raw.plan) {
    for (const char* option : {"--output", "--report", "--quiet"}) {
      if (app.count(option) > 0) refuse(std::string("--plan writes nothing: leave out ") + option);
    }
  } else if (app.count("--output") == 0) {
    refuse("-o is required: the model file to write; or --plan, to write none");
  }
  if (app.count("--tokenizer") > 0 && raw.no_tokenizer) {
    refuse("--tokenizer and --no-tokenizer contradict each other");
  }
  if (raw.output == "-" || raw.report == "-") {
    refuse("-o and --report write no standard output; give a file name (./- for one named -)");
  }
}

ChatTemplateChoice chat_template_choice(const std::string& name) {
  if (name == "none") return {};
  if (const auto known = find_named_template(name)) return {*known, ""};
  if (!entry_exists(name)) {
    throw ProgramError(ExitCode::kUsage, "--chat-template " + shown(name) +
                                             " is not a file; give a .jinja file, none, " +
                                             named_templates());
  }
  return {format::kChatKindFile, read_template_file(name)};
}

// What the text of one --weights-of says.
void set_weights_of(const std::string& text, Options* options) {
  const auto refuse_it = [&](const std::string& problem) {
    refuse("--weights-of " + shown(text) + ": " + problem);
  };
  const size_t equals = text.find('=');
  if (equals == std::string::npos) refuse_it("is not MATRIX=NAME");
  const std::string matrix = text.substr(0, equals);
  const std::string name = text.substr(equals + 1);
  std::string names;
  const TensorRole* found = nullptr;
  for (const TensorRole& role : kMatrices) {
    names += std::string(names.empty() ? "" : ", ") + role_name(role);
    if (matrix == role_name(role)) found = &role;
  }
  if (found == nullptr) refuse_it(hosted::value_words(shown(matrix)) + " is not one of: " + names);
  if (options->weights_of.contains(*found)) refuse_it("is given twice");
  for (const NumberFormatRow& row : kNumberFormats.of) {
    if (name != number_format_name(row.number_format)) continue;
    options->weights_of[*found] = matrix_format(row.number_format, options->group_size);
    return;
  }
  refuse_it(hosted::value_words(shown(name)) +
            " is not one of: " + names_of([](NumberFormat) { return true; }));
}

// A folder whose name ends in a colon and a number is given with a scale after it.
LoraRequest lora_request(const std::string& text) {
  const auto refuse_it = [&] {
    refuse("--lora " + shown(text) + " is not a folder; give FOLDER or FOLDER:SCALE");
  };
  if (text.empty()) refuse_it();
  if (entry_exists(text)) return {text, 1.0F};
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) refuse_it();
  float scale = 0.0F;
  const char* const end = text.data() + text.size();
  const auto [read_to, error] = std::from_chars(text.data() + colon + 1, end, scale);
  if (error != std::errc() || read_to != end || !std::isfinite(scale)) refuse_it();
  return {text.substr(0, colon), scale};
}

void finish(const Raw& raw, Options* options) {
  options->model = raw.model;
  options->output = raw.output;
  options->group_size = matrix_format(options->weights, options->group_size).group_size;
  options->method = raw.method == Method::kRtn ? QuantMethod::kRtn : QuantMethod::kMse;
  if (raw.method == Method::kGptq || !raw.calibration.empty()) {
    options->calibration = {raw.method == Method::kGptq, std::nullopt, raw.calibration_tokens};
    if (!raw.calibration.empty()) options->calibration->file = raw.calibration;
  }
  if (raw.bits != 0) options->bits = raw.bits;
  if (raw.context != 0) options->context = raw.context;
  for (const std::string& adapter : raw.adapters) {
    options->adapters.push_back(lora_request(adapter));
  }
  if (!raw.tokenizer.empty()) options->tokenizer_file = raw.tokenizer;
  options->tokenizer = raw.no_tokenizer ? TokenizerChoice::kNone : TokenizerChoice::kRequired;
  if (!raw.chat_template.empty()) options->chat_template = chat_template_choice(raw.chat_template);
  if (!raw.report.empty()) options->report = raw.report;
  const uint32_t quota = hosted::cgroup_limits().processors;
  uint32_t n_cores = std::max(1u, std::thread::hardware_concurrency());
  if (quota != 0) n_cores = std::min(n_cores, quota);
  options->n_threads = raw.n_threads != 0 ? raw.n_threads : n_cores;
  options->verbosity = raw.quiet ? Verbosity::kQuiet : Verbosity::kNormal;
}

}  // namespace

std::optional<Options> parse_options(int argc, const char* const* argv) {
  CLI::App app("Converts a LLaMA checkpoint into one model file for cria.", "cria-convert");
  Raw raw;
  Options options;
  define(&app, &raw, &options);
  try {
    app.parse(argc, argv);
    list_architectures(app, raw);
    hosted::refuse_empty_values(app, {});
    if (app.count("MODEL") == 0) throw CLI::RequiredError("MODEL");
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) {
      app.exit(e);
      return std::nullopt;
    }
    throw ProgramError(ExitCode::kUsage, std::string(e.what()) + "; see cria-convert --help");
  }
  for (const std::string& text : raw.weights_of) set_weights_of(text, &options);
  options.keeps_trained = app.count("--weights") == 0;
  check_combinations(app, raw, options);
  finish(raw, &options);
  return options;
}

}  // namespace cria::converter
