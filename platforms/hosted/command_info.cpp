// cria info: what a file holds and the memory a session of it needs.
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "platforms/hosted/commands.h"
#include "platforms/hosted/metadata_text.h"
#include "platforms/hosted/model_session.h"
#include "platforms/hosted/model_text.h"
#include "platforms/hosted/print_format.h"
#include "platforms/hosted/text_stream.h"

namespace cria::hosted {
namespace {

using Json = nlohmann::ordered_json;

constexpr cria_backend kBackends[] = {CRIA_BACKEND_EXACT, CRIA_BACKEND_XNNPACK};

double bits_per_weight(const cria_model_info& info) {
  constexpr double kBitsOfByte = 8.0;
  if (info.n_parameters == 0) return 0.0;
  return kBitsOfByte * static_cast<double>(info.weight_bytes) /
         static_cast<double>(info.n_parameters);
}

// The plan of another backend; none where this build or CPU cannot run the model with it.
std::optional<cria_memory_plan> plan_of(const ModelFile& file, cria_config config,
                                        cria_backend backend) {
  config.backend = backend;
  cria_memory_plan plan = {};
  if (cria_memory_required(&file.info(), &config, &plan) != CRIA_OK) return std::nullopt;
  return plan;
}

Json json_of(const cria_memory_plan& plan) {
  return {{"objects_bytes", plan.objects},
          {"tokenizer_bytes", plan.tokenizer},
          {"weights_bytes", plan.weights},
          {"backend_bytes", plan.backend},
          {"kv_cache_bytes", plan.kv_cache},
          {"history_bytes", plan.history},
          {"logits_bytes", plan.logits},
          {"step_bytes", plan.step},
          {"total_bytes", plan.total},
          {"step_parts",
           {{"loading_bytes", plan.loading},
            {"running_bytes", plan.running},
            {"sampling_bytes", plan.sampling},
            {"encoding_bytes", plan.encoding}}},
          {"in_place_bytes", plan.in_place},
          {"resident_bytes", plan.total + plan.in_place}};
}

Json json_of(const cria_model_info& info) {
  const auto none_or = [](uint32_t value, uint32_t none) {
    return value == none ? Json(nullptr) : Json(value);
  };
  return {{"format_version", info.format_version},
          {"file_bytes", info.file_bytes},
          {"architecture", architecture_name(info.architecture)},
          {"n_parameters", info.n_parameters},
          {"n_layers", info.n_layers},
          {"d_model", info.d_model},
          {"n_heads", info.n_heads},
          {"n_kv_heads", info.n_kv_heads},
          {"head_dim", info.head_dim},
          {"d_ff", info.d_ff},
          {"vocab_size", info.vocab_size},
          {"tied_embedding", info.tied_embedding != 0},
          {"max_context", info.max_context},
          {"planned_context", info.planned_context},
          {"sliding_window", none_or(info.sliding_window, 0)},
          {"bos_token", none_or(info.bos_token, 0xffffffff)},
          {"weight_format", number_format_name(info.weight_format)},
          {"embedding_format", number_format_name(info.embedding_format)},
          {"group_size", none_or(info.group_size, 0)},
          {"weight_bytes", info.weight_bytes},
          {"bits_per_weight", bits_per_weight(info)},
          {"compressed", info.compressed != 0},
          {"tokenizer", info.has_tokenizer != 0},
          {"tokenizer_bytes", info.tokenizer_bytes},
          {"chat_template",
           info.chat_template == 0 ? Json(nullptr) : Json(chat_template_name(info.chat_template))}};
}

void print_json(ModelFile* file, const cria_config& config, const cria_memory_plan& plan,
                TextStream* out) {
  Json json = {{"file", file->path()}, {"model", json_of(file->info())}};
  const uint32_t context = config.context != 0 ? config.context : file->info().planned_context;
  json["config"] = {{"context", context},
                    {"threads", config.n_threads},
                    {"kv", kv_format_name(config.kv_format)},
                    {"backend", backend_name(config.backend)},
                    {"mapped", config.source_is_mapped != 0}};
  json["memory_plan"] = json_of(plan);
  Json plans = Json::object();
  for (const cria_backend backend : kBackends) {
    const std::optional<cria_memory_plan> other = plan_of(*file, config, backend);
    plans[backend_name(backend)] = other ? json_of(*other) : Json(nullptr);
  }
  json["backend_plans"] = plans;
  constexpr int kIndent = 2;
  std::string text = json.dump(kIndent, ' ', false, Json::error_handler_t::replace);
  // Not parsed: a hostile file's metadata could make any parser's tree large.
  const std::string metadata = read_metadata(file->copying_source(), file->info(), file->path());
  text.resize(text.size() - 2);  // the last line end and bracket
  out->put(text + ",\n  \"metadata\": " + (metadata.empty() ? "null" : indented_json(metadata)) +
           "\n}\n");
}

// Label and value of one row; fits 40 columns.
void put_row(TextStream* out, const char* label, const std::string& value) {
  out->put(text_of("%-13s %s\n", label, value.c_str()));
}

void put_bytes(TextStream* out, const char* label, uint64_t n_bytes) {
  out->put(text_of("  %-13s %14s %9s\n", label, grouped_digits(n_bytes).c_str(),
                   text_of("%.1f", static_cast<double>(n_bytes) / 1e6).c_str()));
}

void print_model(const cria_model_info& info, TextStream* out) {
  put_row(out, "file size", grouped_digits(info.file_bytes) + " bytes");
  put_row(out, "architecture",
          text_of("%s, %s parameters", architecture_name(info.architecture),
                  short_count(info.n_parameters).c_str()));
  put_row(out, "layers", text_of("%u x %u, ffn %u", info.n_layers, info.d_model, info.d_ff));
  put_row(out, "heads",
          text_of("%u, %u for KV, of %u", info.n_heads, info.n_kv_heads, info.head_dim));
  put_row(out, "vocabulary",
          text_of("%u tokens%s", info.vocab_size, info.tied_embedding != 0 ? ", tied" : ""));
  std::string weights = number_format_name(info.weight_format);
  if (info.group_size != 0) weights += text_of(" g%u", info.group_size);
  put_row(out, "weights",
          text_of("%s, %.2f bits%s", weights.c_str(), bits_per_weight(info),
                  info.compressed != 0 ? ", zstd" : ""));
  put_row(out, "embedding", number_format_name(info.embedding_format));
  put_row(out, "context", text_of("%u of %u", info.planned_context, info.max_context));
  if (info.sliding_window != 0) put_row(out, "window", text_of("%u", info.sliding_window));
  put_row(out, "tokenizer", info.has_tokenizer != 0 ? "yes" : "none");
  put_row(out, "chat template", chat_template_name(info.chat_template));
}

void print_plan(const char* backend, const cria_memory_plan& plan, TextStream* out) {
  out->put(text_of("  %-13s %14s %9s\n", backend, "bytes", "MB"));
  put_bytes(out, "weights", plan.weights);
  put_bytes(out, "backend", plan.backend);
  put_bytes(out, "KV cache", plan.kv_cache);
  put_bytes(out, "tokenizer", plan.tokenizer);
  put_bytes(out, "logits", plan.logits);
  put_bytes(out, "history", plan.history);
  put_bytes(out, "objects", plan.objects);
  put_bytes(out, "scratch", plan.step);
  put_bytes(out, "total", plan.total);
  put_bytes(out, "file in place", plan.in_place);
}

void print_table(const ModelFile& file, const cria_config& config, TextStream* out) {
  out->put(file.path() + "\n");
  print_model(file.info(), out);
  const uint32_t context = config.context != 0 ? config.context : file.info().planned_context;
  out->put(text_of("\nmemory: %u tokens, KV %s, %u thread%s\n", context,
                   kv_format_name(config.kv_format), config.n_threads,
                   config.n_threads == 1 ? "" : "s"));
  for (const cria_backend backend : kBackends) {
    if (config.backend != CRIA_BACKEND_AUTO && config.backend != backend) continue;
    const std::optional<cria_memory_plan> plan = plan_of(file, config, backend);
    if (plan) print_plan(backend_name(backend), *plan, out);
  }
}

}  // namespace

ExitCode run_command(const InfoOptions& options) {
  ModelFile file(options.common.model_path, options.common.mapping);
  const cria_config config = config_for(options.common, file);
  const cria_memory_plan plan = plan_for(file, config);
  TextStream out(STDOUT_FILENO);
  if (options.json) {
    print_json(&file, config, plan, &out);
  } else {
    print_table(file, config, &out);
  }
  out.flush();
  return ExitCode::kDone;
}

}  // namespace cria::hosted
