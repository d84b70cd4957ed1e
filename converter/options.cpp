#include "converter/options.h"

#include <CLI/CLI.hpp>
#include <map>
#include <string>
#include <thread>

#include "converter/chunk_encoder.h"
#include "converter/error.h"
#include "converter/version.h"

namespace cria::converter {
namespace {

using format::Compression;
using format::NumberFormat;

constexpr uint32_t kMaxThreads = 1024;

std::map<std::string, NumberFormat> weight_names() {
  std::map<std::string, NumberFormat> names;
  for (const NumberFormatRow& row : kNumberFormats) names[row.name] = row.number_format;
  return names;
}

const std::map<std::string, NumberFormat> kWeights = weight_names();

// As CLI11 fills them; the values are checked texts and numbers.
struct Raw {
  std::string model;
  std::string output;
  std::string weights = "int4";
  std::string group_size = "32";
  std::string method = "mse";
  uint32_t context = 0;
  bool no_tokenizer = false;
  std::string compress = "zstd";
  int level = 3;
  std::string report;
  uint32_t n_threads = 0;
  bool quiet = false;
};

void define(CLI::App* app, Raw* raw) {
  app->set_version_flag("--version", std::string("cria-convert ") + kConverterVersion);
  app->add_option("MODEL", raw->model, "Hugging Face folder of a Llama, Mistral or Granite")
      ->required();
  app->add_option("-o,--output", raw->output, "model file to write")->required();
  app->add_option("--weights", raw->weights, "how matrices are stored [int4]")
      ->check(CLI::IsMember({"int4", "int8", "f16", "bf16", "f32"}));
  app->add_option("--group-size", raw->group_size, "weights that share an int4 scale [32]")
      ->check(CLI::IsMember({"32", "64", "128"}));
  app->add_option("--method", raw->method,
                  "int4 and int8 scales: mse searches the least error, rtn covers the range [mse]")
      ->check(CLI::IsMember({"rtn", "mse"}));
  app->add_option("--context", raw->context,
                  "tokens to plan memory for [the model's maximum, at most 2048]")
      ->check(CLI::Range(1u, format::kMaxContext));
  app->add_flag("--no-tokenizer", raw->no_tokenizer,
                "write no tokenizer; then the model takes token ids only");
  app->add_option("--compress", raw->compress, "compression of the file [zstd]")
      ->check(CLI::IsMember({"zstd", "none"}));
  app->add_option("--level", raw->level, "zstd level [3]; others change little")
      ->check(CLI::Range(lowest_level(), highest_level()));
  app->add_option("--report", raw->report, "also write the report as JSON to this file");
  app->add_option("--threads", raw->n_threads, "threads to use [all cores]")
      ->check(CLI::Range(1u, kMaxThreads));
  app->add_flag("--quiet", raw->quiet, "print warnings and errors only");
}

// Options that would silently do nothing are mistakes.
void check_combinations(const CLI::App& app, const Raw& raw) {
  const auto refuse = [](const std::string& line) { throw ConvertError(ExitCode::kUsage, line); };
  const bool integers = raw.weights == "int4" || raw.weights == "int8";
  if (app.count("--group-size") > 0 && raw.weights != "int4") {
    refuse("--group-size belongs to --weights int4");
  }
  if (app.count("--method") > 0 && !integers) {
    refuse("--method belongs to --weights int4 and int8");
  }
  if (app.count("--level") > 0 && raw.compress != "zstd") {
    refuse("--level belongs to --compress zstd");
  }
  if (raw.model.empty() || raw.output.empty()) refuse("MODEL and -o must not be empty");
  if (app.count("--report") > 0 && raw.report.empty()) {
    refuse("--report must not be empty; give a file name or leave it out");
  }
  if (raw.output == "-" || raw.report == "-") {
    refuse("-o and --report write no standard output; give a file name (./- for one named -)");
  }
}

Options options_from(const Raw& raw) {
  Options options;
  options.model = raw.model;
  options.output = raw.output;
  options.weights = kWeights.at(raw.weights);
  options.group_size = row_of(options.weights).scales == Scales::kGroup
                           ? static_cast<uint16_t>(std::stoul(raw.group_size))
                           : uint16_t{0};
  options.method = raw.method == "rtn" ? QuantMethod::kRtn : QuantMethod::kMse;
  if (raw.context != 0) options.context = raw.context;
  options.tokenizer = raw.no_tokenizer ? TokenizerWish::kNone : TokenizerWish::kRequired;
  options.compression = raw.compress == "zstd" ? Compression::kZstd : Compression::kStored;
  options.level = raw.level;
  if (!raw.report.empty()) options.report = raw.report;
  const uint32_t n_cores = std::max(1u, std::thread::hardware_concurrency());
  options.n_threads = raw.n_threads != 0 ? raw.n_threads : n_cores;
  options.verbosity = raw.quiet ? Verbosity::kQuiet : Verbosity::kNormal;
  return options;
}

}  // namespace

std::optional<Options> parse_options(int argc, const char* const* argv) {
  CLI::App app("Converts a LLaMA checkpoint into one model file for cria.", "cria-convert");
  Raw raw;
  define(&app, &raw);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) {
      app.exit(e);
      return std::nullopt;
    }
    throw ConvertError(ExitCode::kUsage, std::string(e.what()) + "; see cria-convert --help");
  }
  check_combinations(app, raw);
  return options_from(raw);
}

}  // namespace cria::converter
