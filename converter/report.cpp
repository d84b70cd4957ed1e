#include "converter/report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string_view>

#include "converter/version.h"
#include "quant/blocks/block_formats.h"
#include "quant/model/model_layout.h"
#include "quant/model/role_names.h"

namespace cria::converter {
namespace {

using format::NumberFormat;
using format::TensorRole;

constexpr double kBitsPerByte = 8;
constexpr double kMegabyte = 1e6;
constexpr size_t kWorstShown = 5;
constexpr uint32_t kPrefillChunk = 64;
constexpr uint32_t kMinTextBytes = 1024;
constexpr uint32_t kTextBytesPerToken = 4;

const char* number_format_name(uint8_t value) {
  return is_number_format(value) ? cria::number_format_name(static_cast<NumberFormat>(value)) : "?";
}

std::string name_of(const TensorSpec& spec) {
  constexpr size_t kNameBytes = 64;
  std::array<char, kNameBytes> name;
  tensor_name(spec, name.data(), name.size());
  return name.data();
}

// Signal-to-noise ratio in dB; infinite when nothing was lost.
double sqnr(const ErrorSums& sums) {
  constexpr double kDecibel = 10;
  return kDecibel * std::log10(sums.signal / sums.noise);
}

// Matrices of a role: how many have a format, by places in kMatrixFormats.
struct RoleCounts {
  TensorRole role;
  std::array<uint32_t, std::size(kMatrixFormats)> n;
};

// Of the roles that the model has, in the order of the file.
std::vector<RoleCounts> count_roles(const Config& config) {
  std::vector<RoleCounts> all;
  TensorKinds kinds(config);
  for (TensorKind kind = {}; kinds.next(&kind);) {
    if (kind.spec.form != TensorForm::kMatrix) continue;
    auto found = std::find_if(all.begin(), all.end(),
                              [&](const RoleCounts& row) { return row.role == kind.spec.role; });
    if (found == all.end()) found = all.insert(all.end(), {kind.spec.role, {}});
    found->n[place_of(format_of(kind.spec.shape))] += kind.n;
  }
  return all;
}

// The format that most matrices of the model have, for a headline.
MatrixFormat main_format(const Config& config) {
  std::array<uint32_t, std::size(kMatrixFormats)> n = {};
  for (const format::MatrixCount& count : config.counts) n[count.format] += count.count;
  return kMatrixFormats[std::max_element(n.begin(), n.end()) - n.begin()];
}

bool is_quantized(const Config& config) {
  return std::any_of(config.counts.begin(), config.counts.end(), [](const auto& count) {
    return is_integer(kMatrixFormats[count.format].number_format);
  });
}

// "int4 in groups of 32"
std::string format_text(const MatrixFormat& f) {
  std::string text = cria::number_format_name(f.number_format);
  // Where there is but one group, the name says it.
  const auto n_groups =
      std::count_if(std::begin(kMatrixFormats), std::end(kMatrixFormats),
                    [&](const MatrixFormat& m) { return m.number_format == f.number_format; });
  if (n_groups > 1) {
    text += " in groups of " + std::to_string(f.group_size);
  }
  return text;
}

// Matrices of a role that have a format other than the main one.
struct OtherFormat {
  const char* role;
  MatrixFormat format;
  uint32_t n;
  uint32_t n_of_role;
};

std::vector<OtherFormat> other_formats(const Config& config) {
  std::vector<OtherFormat> others;
  for (const RoleCounts& row : count_roles(config)) {
    const uint32_t n_of_role = std::accumulate(row.n.begin(), row.n.end(), 0u);
    for (size_t place = 0; place < row.n.size(); ++place) {
      if (row.n[place] == 0 || kMatrixFormats[place] == main_format(config)) continue;
      others.push_back({role_name(row.role), kMatrixFormats[place], row.n[place], n_of_role});
    }
  }
  return others;
}

// "; embedding: int8g32; 3 of 12 down: int8"
std::string other_formats_text(const Config& config) {
  std::string text;
  for (const OtherFormat& other : other_formats(config)) {
    text += "; ";
    if (other.n != other.n_of_role) {
      text += std::to_string(other.n) + " of " + std::to_string(other.n_of_role) + " ";
    }
    text += std::string(other.role) + ": " + format_text(other.format);
  }
  return text;
}

Json other_formats_json(const Config& config) {
  Json list = Json::array();
  for (const OtherFormat& other : other_formats(config)) {
    Json json = {{"matrix", other.role},
                 {"format", cria::number_format_name(other.format.number_format)},
                 {"count", other.n}};
    if (other.format.group_size != 0) json["group_size"] = other.format.group_size;
    list.push_back(std::move(json));
  }
  return list;
}

// Sums over some of the tensors.
struct Totals {
  uint64_t n_weights = 0;
  uint64_t raw_bytes = 0;
  uint64_t stored_bytes = 0;
  ErrorSums error;
};

// The rope frequencies are computed, not learned.
uint64_t weights_of(const TensorSpec& spec) {
  if (spec.role == TensorRole::kRope) return 0;
  return uint64_t{spec.n_matrices} * spec.shape.rows * spec.shape.cols;
}

void add(const EncodedTensor& tensor, Totals* totals) {
  totals->n_weights += weights_of(tensor.spec);
  totals->raw_bytes += tensor.entry.raw_bytes;
  totals->stored_bytes += tensor.stored_bytes;
  totals->error.signal += tensor.error.signal;
  totals->error.noise += tensor.error.noise;
  totals->error.max_error = std::max(totals->error.max_error, tensor.error.max_error);
}

double bits_per_weight(const Totals& totals) {
  return kBitsPerByte * static_cast<double>(totals.stored_bytes) /
         static_cast<double>(totals.n_weights);
}

Json decibels(const ErrorSums& sums) {
  const double value = sqnr(sums);
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}

const char* method_name(const ConversionReport& report) {
  if (report.is_gptq) return "gptq";
  return report.method == QuantMethod::kMse ? "mse" : "rtn";
}

// Which codes a matrix has, or how many of a stack's, and the error of its outputs with those found
// without calibration and with those it has.
Json rounding_json(const ConversionReport& report, const EncodedTensor& tensor) {
  const char* calibrated = report.is_gptq ? "gptq" : "mse calibrated";
  const RoundingOutcome& outcome = *tensor.rounding;
  Json json = {{"error_before", outcome.plain_error}, {"error", outcome.error}};
  const uint32_t n = tensor.spec.n_matrices;
  if (n == 1) {
    json["kept"] = outcome.n_calibrated == 1 ? calibrated : "mse";
  } else {
    json["kept"] = {{calibrated, outcome.n_calibrated}, {"mse", n - outcome.n_calibrated}};
    json["too_few_rows"] = outcome.n_unseen;
  }
  return json;
}

Json calibration_json(const CalibrationSummary& calibration) {
  Json json = {{"source", calibration.source},
               {"tokens", calibration.n_tokens},
               {"held_out_tokens", calibration.n_held_out}};
  if (calibration.seed) json["seed"] = *calibration.seed;
  return json;
}

Json choice_json(const FormatChoice& choice) {
  Json json = {{"wished", choice.bits_asked},
               {"reached", choice.bits},
               {"source", choice.text},
               {"tokens", choice.n_tokens},
               {"divergence_measured_in", format_text(kMeasuredFormat)}};
  if (choice.seed) json["seed"] = *choice.seed;
  return json;
}

Json tensor_json(const ConversionReport& report, size_t index) {
  const EncodedTensor& tensor = report.tensors[index];
  Json json = {{"name", name_of(tensor.spec)},
               {"format", number_format_name(tensor.entry.number_format)},
               {"rows", tensor.entry.rows},
               {"cols", tensor.entry.cols},
               {"raw_bytes", tensor.entry.raw_bytes},
               {"stored_bytes", tensor.stored_bytes}};
  if (tensor.spec.is_matrix()) {
    if (tensor.entry.n_matrices != 1) json["matrices"] = tensor.entry.n_matrices;
    if (tensor.entry.group_size != 0) json["group_size"] = tensor.entry.group_size;
    json["bits"] = kBitsPerByte * static_cast<double>(tensor.entry.raw_bytes) /
                   static_cast<double>(weights_of(tensor.spec));
    if (report.choice && report.choice->divergences[index]) {
      const MatrixDivergence& divergence = *report.choice->divergences[index];
      json["divergence"] = {{"measured", divergence.measured}, {"expected", divergence.expected}};
    }
    json["sqnr_db"] = decibels(tensor.error);
    json["max_error"] = tensor.error.max_error;
    if (tensor.rounding) json["rounding"] = rounding_json(report, tensor);
  }
  return json;
}

template <typename... Values>
std::string line(const char* pattern, Values... values) {
  constexpr size_t kLineBytes = 256;
  std::array<char, kLineBytes> text;
  std::snprintf(text.data(), text.size(), pattern, values...);
  return text.data();
}

std::string totals_line(const char* name, const Totals& totals) {
  std::string text =
      line("  %-22s %14llu %14llu %8.3f", name, static_cast<unsigned long long>(totals.raw_bytes),
           static_cast<unsigned long long>(totals.stored_bytes), bits_per_weight(totals));
  const double ratio = sqnr(totals.error);
  if (totals.error.signal > 0) {
    text += std::isfinite(ratio) ? line(" %9.2f", ratio) : "     exact";
  }
  return text + "\n";
}

std::string group_of(const TensorSpec& spec) {
  if (!spec.is_matrix()) return "norms, biases, rope";
  if (spec.role == TensorRole::kEmbedding) return "embedding";
  if (spec.role == TensorRole::kLmHead) return "output layer";
  if (std::string_view(role_name(spec.role)).starts_with("per_layer_")) {
    return "per-layer embeddings";
  }
  for (const BlockFormat& block : kFeedForwardFormats) {
    for (const TensorRow& row : block.rows) {
      if (row.role == spec.role) return "feed-forward";
    }
  }
  return "attention";
}

// Weights of all matrices and vectors, without the frequencies that no checkpoint stores.
uint64_t parameter_count(const Config& config) {
  uint64_t n = 0;
  TensorKinds kinds(config);
  for (TensorKind kind = {}; kinds.next(&kind);) n += kind.n * weights_of(kind.spec);
  return n;
}

// "640", "135.2 M", "1.24 G"
std::string short_count(uint64_t n) {
  constexpr double kMillion = 1e6;
  constexpr double kGiga = 1e9;
  const auto value = static_cast<double>(n);
  if (value < kMillion) return std::to_string(n);
  return value < kGiga ? line("%.1f M", value / kMillion) : line("%.2f G", value / kGiga);
}

KeptGroups kept_groups(const ConversionReport& report) {
  KeptGroups all;
  for (const EncodedTensor& tensor : report.tensors) {
    all.exact += tensor.kept.exact;
    all.rounded += tensor.kept.rounded;
    all.requantized += tensor.kept.requantized;
  }
  return all;
}

// What became of int4 that the checkpoint had; empty when it had none of use.
std::string kept_text(const ConversionReport& report) {
  const KeptGroups kept = kept_groups(report);
  const uint64_t n = kept.exact + kept.rounded + kept.requantized;
  if (n == 0) return "";
  const auto number = [](uint64_t value) { return static_cast<unsigned long long>(value); };
  return line(
      "  its int4: of %llu groups %llu are kept, %llu with the scale rounded to bf16, and %llu are "
      "quantized again\n",
      number(n), number(kept.exact), number(kept.rounded), number(kept.requantized));
}

// "  experts: 8 in 24 of the layers, 2 for a token\n"; empty without experts.
std::string experts_text(const Config& config) {
  size_t n_layers = 0;
  uint32_t n_experts = 0;
  uint32_t n_chosen = 0;
  for (const uint8_t kind : config.layers) {
    if (config.kinds[kind].n_experts == 0) continue;
    ++n_layers;
    n_experts = config.kinds[kind].n_experts;
    n_chosen = config.kinds[kind].n_chosen;
  }
  if (n_layers == 0) return "";
  return line("  experts: %u in %zu of the layers, %u for a token\n", n_experts, n_layers,
              n_chosen);
}

std::string embeddings_text(const format::ModelScalars& m) {
  constexpr const char* kNames[] = {"", "last token", "mean", "first token"};
  if (m.pooling == 0) return "";
  const bool is_unit = (m.flags & format::kUnitEmbeddings) != 0;
  return std::string("\n  embeddings: ") + kNames[m.pooling] + (is_unit ? ", of length 1" : "");
}

std::string headline(const ConversionReport& report) {
  const Config config = report.config();
  const format::ModelScalars& m = *config.model;
  std::string text = report.source_name + ": " + report.architecture + ", " +
                     short_count(parameter_count(config)) + " parameters";
  text += line(", %u layers of %u, vocabulary %u\n", m.n_layers, m.d_model, m.vocab_size);
  text += experts_text(config);
  if (!report.weights_text.empty()) text += "  its weights: " + report.weights_text + "\n";
  text += "  to be written: ";
  if (report.bits_asked) {
    text += line("at most %.4g bits a weight, ", *report.bits_asked);
    text += "formats by what the output suffers from each matrix";
  } else {
    text += format_text(main_format(config)) + other_formats_text(config);
  }
  if (has_flag(config, format::kSignedScales)) text += ", scales of either sign";
  if (is_quantized(config)) text += std::string(" (") + method_name(report) + ")";
  for (const format::RopeTable& table : m.rope_tables) {
    if (table.original_context == 0) continue;
    text += line("\n  RoPE: short factors up to %u positions of context, long ones beyond",
                 table.original_context);
  }
  text += embeddings_text(m);
  text += "\n  tokenizer: " + report.tokenizer_name + "; chat template: " + report.chat_name;
  if (!report.chat_tools_problem.empty()) {
    text += ", without tools: it " + report.chat_tools_problem;
  }
  return text + "\n";
}

std::string tensors_text(const ConversionReport& report) {
  std::string text =
      line("  %-22s %14s %14s %8s %9s\n", "tensors", "bytes", "in the file", "bits", "SQNR dB");
  Totals all;
  for (const char* group : {"embedding", "per-layer embeddings", "attention", "feed-forward",
                            "output layer", "norms, biases, rope"}) {
    Totals totals;
    for (const EncodedTensor& tensor : report.tensors) {
      if (group_of(tensor.spec) == group) add(tensor, &totals);
    }
    if (totals.n_weights > 0) text += totals_line(group, totals);
  }
  for (const EncodedTensor& tensor : report.tensors) add(tensor, &all);
  return text + totals_line("all", all);
}

std::string worst_text(const ConversionReport& report) {
  std::vector<size_t> order;
  for (size_t i = 0; i < report.tensors.size(); ++i) {
    if (std::isfinite(sqnr(report.tensors[i].error))) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return sqnr(report.tensors[a].error) < sqnr(report.tensors[b].error);
  });
  std::string text = order.empty() ? "" : "  tensors that lost most:\n";
  for (size_t i = 0; i < std::min(order.size(), kWorstShown); ++i) {
    const EncodedTensor& tensor = report.tensors[order[i]];
    text += line("    %-24s %8.2f dB, largest error %.3g\n", name_of(tensor.spec).c_str(),
                 sqnr(tensor.error), tensor.error.max_error);
  }
  return text;
}

struct PlanRow {
  const char* name;
  const char* key;
  uint64_t bytes;
};

std::vector<PlanRow> plan_rows(const MemoryPlan& plan) {
  std::vector<PlanRow> rows = {
      {"weights", "weights_bytes", plan.model.weights},
      {"backend", "backend_bytes", plan.model.backend + plan.workspace.backend},
      {"KV cache", "kv_cache_bytes", plan.session.kv_cache},
      {"tokenizer", "tokenizer_bytes", plan.model.tokenizer},
      {"logits", "logits_bytes", plan.session.logits},
      {"history", "history_bytes", plan.session.history},
      {"objects", "objects_bytes",
       plan.model.objects + plan.session.objects + plan.workspace.objects}};
  uint64_t scratch = plan.total;
  for (const PlanRow& row : rows) scratch -= row.bytes;
  rows.push_back({"scratch", "step_bytes", scratch});
  rows.push_back({"total", "total_bytes", plan.total});
  return rows;
}

const char* kv_name(const PlanInput& input) {
  return input.kv_format == KvFormat::kF32 ? "f32" : "int8";
}

// Whether it is known what all layers compute with and keep.
bool is_planned(const Config& config) {
  return std::all_of(config.kinds.begin(), config.kinds.end(), [](const format::LayerKind& kind) {
    const BlockFormat& mixer = kMixerFormats[kind.mixer];
    const BlockFormat& feed_forward = kFeedForwardFormats[kind.feed_forward];
    const bool mixes = mixer.scratch != nullptr && mixer.state != nullptr;
    return (kind.mixer == 0 || mixes) &&
           (kind.feed_forward == 0 || feed_forward.scratch != nullptr);
  });
}

// What of a compressed file's weights stays in it where it is mapped; empty: nothing does.
std::string staying_text(const Config& config) {
  if (is_stored(config)) return "";
  const uint64_t bytes = kept_tensor_bytes(config, KeptTensors::kAll, true).in_place;
  if (bytes == 0) return "";
  return line("  of the weights stay in the file, if it is mapped: %.3f MB, %llu bytes\n",
              static_cast<double>(bytes) / kMegabyte, static_cast<unsigned long long>(bytes));
}

// What of the KV cache is for snapshots; empty: layers keep no blocks of state.
std::string snapshots_text(const ConversionReport& report) {
  PlanInput with_more = report.plan_input;
  ++with_more.n_snapshots;
  MemoryPlan plan;
  if (!plan_memory(report.config(), with_more, &plan)) return "";
  const uint64_t bytes = plan.session.kv_cache - report.plan.session.kv_cache;
  if (bytes == 0) return "";
  return line("  each of its %u snapshots takes %.3f MB, %llu bytes\n",
              report.plan_input.n_snapshots, static_cast<double>(bytes) / kMegabyte,
              static_cast<unsigned long long>(bytes));
}

std::string plan_text(const ConversionReport& report) {
  if (!is_planned(report.config())) {
    return "  memory to run it: not known yet for layers of these kinds\n";
  }
  const bool is_bound = report.bits_asked && !report.choice;
  std::string text =
      line("  memory to run it%s (%u tokens, one thread, %s KV cache):\n",
           is_bound ? ", at most" : "", report.plan_input.context, kv_name(report.plan_input));
  for (const PlanRow& row : plan_rows(report.plan)) {
    if (row.bytes == 0) continue;
    text += line("    %-12s %10.3f MB %14llu bytes\n", row.name,
                 static_cast<double>(row.bytes) / kMegabyte,
                 static_cast<unsigned long long>(row.bytes));
  }
  return text + snapshots_text(report) + staying_text(report.config());
}

// How many matrices kept what calibration found; empty without it.
std::string rounding_text(const ConversionReport& report) {
  if (!report.calibration) return "";
  size_t n_kept = 0;
  size_t n_unseen = 0;
  size_t n = 0;
  for (const EncodedTensor& tensor : report.tensors) {
    if (!tensor.rounding) continue;
    n += tensor.spec.n_matrices;
    n_kept += tensor.rounding->n_calibrated;
    n_unseen += tensor.rounding->n_unseen;
  }
  const std::string unseen =
      n_unseen == 0 ? "" : "; to " + std::to_string(n_unseen) + " of experts too few tokens came";
  return line(
      "  calibrated on %zu tokens (%s): better on held-out tokens for %zu of %zu matrices%s\n",
      report.calibration->n_tokens, report.calibration->source.c_str(), n_kept, n, unseen.c_str());
}

}  // namespace

PlanInput default_plan_input(const Config& config, uint64_t tokenizer_bytes, uint64_t chat_bytes) {
  const format::ModelScalars& model = *config.model;
  PlanInput input = {};
  input.context = model.planned_context;
  input.n_threads = 1;
  input.prefill_chunk = std::min(kPrefillChunk, model.planned_context);
  input.max_entries = 1;
  input.n_snapshots = kDefaultSnapshots;
  input.max_text_bytes = std::max(kMinTextBytes, kTextBytesPerToken * model.planned_context);
  // As cria does without --kv.
  const bool keeps_floats = main_format(config).number_format == NumberFormat::kF32;
  input.kv_format = keeps_floats ? KvFormat::kF32 : KvFormat::kInt8;
  input.mapped = false;
  input.tokenizer_bytes = tokenizer_bytes;
  input.chat_template_bytes = chat_bytes;
  input.backend_keeps_tile16 = true;
  return input;
}

Json metadata_json(const ConversionReport& report) {
  Json tensors = Json::array();
  Totals all;
  for (size_t i = 0; i < report.tensors.size(); ++i) {
    tensors.push_back(tensor_json(report, i));
    add(report.tensors[i], &all);
  }
  const Config config = report.config();
  const MatrixFormat f = main_format(config);
  Json json = {{"converter", std::string("cria-convert ") + kConverterVersion},
               {"source", report.source_name},
               {"architecture", report.architecture},
               {"weights", cria::number_format_name(f.number_format)},
               {"tokenizer", report.tokenizer_name},
               {"chat_template", report.chat_name},
               {"n_parameters", all.n_weights},
               {"raw_bytes", all.raw_bytes},
               {"stored_bytes", all.stored_bytes},
               {"sqnr_db", decibels(all.error)},
               {"tensors", std::move(tensors)}};
  if (!report.chat_tools_problem.empty()) {
    json["chat_template_tools_problem"] = report.chat_tools_problem;
  }
  if (!report.chat_jinja.empty()) json["chat_template_jinja"] = report.chat_jinja;
  Json others = other_formats_json(config);
  if (!others.empty()) json["other_formats"] = std::move(others);
  if (f.group_size != 0) {
    json["group_size"] = f.group_size;
    json["signed_scales"] = has_flag(config, format::kSignedScales);
  }
  if (report.choice) json["bits"] = choice_json(*report.choice);
  if (report.calibration) json["calibration"] = calibration_json(*report.calibration);
  if (is_quantized(config)) json["method"] = method_name(report);
  return json;
}

std::string metadata_text(const ConversionReport& report) {
  constexpr int kOneLine = -1;
  Json json = metadata_json(report);
  std::string text = json_text(json, kOneLine);
  if (text.size() > format::kMaxMetadataBytes) {
    json.erase("tensors");
    json["n_tensors"] = report.tensors.size();
    text = json_text(json, kOneLine);
  }
  if (text.size() > format::kMaxMetadataBytes) {
    json.erase("chat_template_jinja");
    json["chat_template_left_out"] = true;
    text = json_text(json, kOneLine);
  }
  return text;
}

Json report_json(const ConversionReport& report) {
  Json json = metadata_json(report);
  json["file_bytes"] = report.file_bytes;
  json["tokenizer_bytes"] = report.tokenizer_bytes;
  json["chat_template_bytes"] = report.chat_bytes;
  json["bits_per_weight"] =
      kBitsPerByte * json["stored_bytes"].get<double>() / json["n_parameters"].get<double>();
  json["warnings"] = report.warnings;
  json["source_weights"] = report.weights_text;
  const KeptGroups kept = kept_groups(report);
  json["source_int4_groups"] = {
      {"kept", kept.exact}, {"scale_rounded", kept.rounded}, {"requantized", kept.requantized}};
  json["config"] = {{"context", report.plan_input.context},
                    {"threads", report.plan_input.n_threads},
                    {"prefill_chunk", report.plan_input.prefill_chunk},
                    {"kv", kv_name(report.plan_input)},
                    {"backend", "exact"},
                    {"mapped", report.plan_input.mapped}};
  Json plan;  // null: not known
  if (is_planned(report.config())) {
    for (const PlanRow& row : plan_rows(report.plan)) plan[row.key] = row.bytes;
  }
  json["memory_plan"] = std::move(plan);
  return json;
}

// Keys are sorted: these two come before anything whose length the checkpoint decides.
bool begins_as_report(std::string_view beginning) {
  return beginning.starts_with("{\n  \"architecture\": \"") &&
         beginning.find("\n  \"converter\": \"cria-convert ") != std::string_view::npos;
}

std::string report_text(const ConversionReport& report) {
  constexpr int kIndent = 2;
  return json_text(report_json(report), kIndent) + "\n";
}

std::string json_text(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

std::string found_text(const ConversionReport& report) {
  std::string text = headline(report) + plan_text(report);
  if (report.calibration_bytes != 0) {
    text += line("  memory to calibrate it, about: %.0f MB\n",
                 static_cast<double>(report.calibration_bytes) / kMegabyte);
  }
  return text;
}

// A line for each role of matrices: "q  3 x int4 in groups of 64, 2 x int8".
std::string choice_text(const ConversionReport& report) {
  std::string text = line("  formats, %.3f bits a weight (KL divergence measured on %zu tokens):\n",
                          report.choice->bits, report.choice->n_tokens);
  for (const RoleCounts& row : count_roles(report.config())) {
    std::string formats;
    for (size_t place = 0; place < row.n.size(); ++place) {
      if (row.n[place] == 0) continue;
      formats += (formats.empty() ? "" : ", ") + std::to_string(row.n[place]) + " x " +
                 format_text(kMatrixFormats[place]);
    }
    text += line("    %-12s ", role_name(row.role)) + formats + "\n";
  }
  return text + plan_text(report);
}

std::string summary_text(const ConversionReport& report) {
  return tensors_text(report) + worst_text(report) + kept_text(report) + rounding_text(report) +
         line("  file: %llu bytes\n", static_cast<unsigned long long>(report.file_bytes));
}

}  // namespace cria::converter
