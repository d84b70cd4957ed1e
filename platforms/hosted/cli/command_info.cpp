// cria info: what a file holds and the memory a session of it needs.
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "platforms/hosted/base/print_format.h"
#include "platforms/hosted/cli/commands.h"
#include "platforms/hosted/cli/metadata_text.h"
#include "platforms/hosted/cli/text_stream.h"
#include "platforms/hosted/machine/cpu.h"
#include "platforms/hosted/session/model_session.h"
#include "platforms/hosted/session/model_text.h"

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
  if (backend == CRIA_BACKEND_XNNPACK && !knows_processors()) return std::nullopt;
  config.backend = backend;
  cria_memory_plan plan = {};
  if (cria_plan(&file.info(), &config, &plan) != CRIA_OK) return std::nullopt;
  return plan;
}

Json json_of(const cria_memory_plan& plan, uint32_t n_sessions) {
  const uint64_t total = total_bytes(plan, n_sessions);
  return {{"sessions", n_sessions},
          {"weights_bytes", plan.model.weights},
          {"kv_cache_bytes", n_sessions * plan.session.kv_cache},
          {"total_bytes", total},
          {"in_place_bytes", plan.in_place},
          {"resident_bytes", total + plan.in_place},
          {"model",
           {{"total_bytes", plan.model.total},
            {"objects_bytes", plan.model.objects},
            {"tokenizer_bytes", plan.model.tokenizer},
            {"weights_bytes", plan.model.weights},
            {"backend_bytes", plan.model.backend}}},
          {"session",
           {{"total_bytes", plan.session.total},
            {"objects_bytes", plan.session.objects},
            {"kv_cache_bytes", plan.session.kv_cache},
            {"history_bytes", plan.session.history},
            {"logits_bytes", plan.session.logits}}},
          {"workspace",
           {{"total_bytes", plan.workspace.total},
            {"objects_bytes", plan.workspace.objects},
            {"backend_bytes", plan.workspace.backend},
            {"running_bytes", plan.workspace.running},
            {"sampling_bytes", plan.workspace.sampling},
            {"encoding_bytes", plan.workspace.encoding}}},
          {"loading_bytes", plan.loading}};
}

std::vector<cria_matrix_kind> matrix_kinds(const cria_model_info& info) {
  std::vector<cria_matrix_kind> kinds;
  cria_matrix_kind kind = {};
  while (cria_find_matrix_kind(&info, static_cast<uint32_t>(kinds.size()), &kind) == CRIA_OK) {
    kinds.push_back(kind);
  }
  return kinds;
}

Json json_of(const std::vector<cria_matrix_kind>& kinds) {
  Json json = Json::array();
  for (const cria_matrix_kind& kind : kinds) {
    json.push_back({{"matrix", kind.name},
                    {"format", cria_number_format_name(kind.number_format)},
                    {"group_size", kind.group_size != 0 ? Json(kind.group_size) : Json(nullptr)},
                    {"count", kind.n_matrices}});
  }
  return json;
}

const char* name_of(cria_mixer mixer) {
  constexpr const char* kNames[] = {
      "none", "attention", "latent_attention", "short_convolution", "delta_rule", "state_space"};
  return kNames[mixer];
}

const char* name_of(cria_feed_forward feed_forward) {
  constexpr const char* kNames[] = {"none", "dense", "experts"};
  return kNames[feed_forward];
}

Json json_of(const std::vector<cria_layer_kind>& kinds) {
  const auto some_or_null = [](uint32_t value) { return value == 0 ? Json(nullptr) : Json(value); };
  Json json = Json::array();
  for (const cria_layer_kind& kind : kinds) {
    json.push_back({{"n_layers", kind.n_layers},
                    {"mixer", name_of(kind.mixer)},
                    {"feed_forward", name_of(kind.feed_forward)},
                    {"n_heads", some_or_null(kind.n_heads)},
                    {"n_kv_heads", some_or_null(kind.n_kv_heads)},
                    {"n_states", some_or_null(kind.n_states)},
                    {"key_dim", some_or_null(kind.key_dim)},
                    {"value_dim", some_or_null(kind.value_dim)},
                    {"d_ff", some_or_null(kind.d_ff)},
                    {"window", some_or_null(kind.window)},
                    {"rope", kind.has_rope != 0},
                    {"original_context", some_or_null(kind.original_context)},
                    {"n_experts", some_or_null(kind.n_experts)},
                    {"n_chosen", some_or_null(kind.n_chosen)},
                    {"expert_ff", some_or_null(kind.expert_ff)}});
  }
  return json;
}

Json json_of(const cria_model_info& info) {
  const auto none_or = [](uint32_t value, uint32_t none) {
    return value == none ? Json(nullptr) : Json(value);
  };
  return {{"format_version", info.format_version},
          {"file_bytes", info.file_bytes},
          {"architecture", cria_architecture_name(info.architecture)},
          {"n_parameters", info.n_parameters},
          {"n_active_parameters", info.n_active_parameters},
          {"n_layers", info.n_layers},
          {"d_model", info.d_model},
          {"layer_kinds", json_of(layer_kinds(info))},
          {"vocab_size", info.vocab_size},
          {"tied_embedding", info.tied_embedding != 0},
          {"pooling", info.pooling != 0 ? Json(pooling_name(info.pooling)) : Json(nullptr)},
          {"unit_embeddings", info.unit_embeddings != 0},
          {"max_context", info.max_context},
          {"planned_context", info.planned_context},
          {"bos_token", none_or(info.bos_token, CRIA_NO_TOKEN)},
          {"weight_format", cria_number_format_name(info.weight_format)},
          {"embedding_format", cria_number_format_name(info.embedding_format)},
          {"group_size", none_or(info.group_size, 0)},
          {"signed_scales", info.signed_scales != 0},
          {"matrices", json_of(matrix_kinds(info))},
          {"weight_bytes", info.weight_bytes},
          {"active_bytes", info.active_bytes},
          {"bits_per_weight", bits_per_weight(info)},
          {"compressed", info.compressed != 0},
          {"tokenizer", info.has_tokenizer != 0},
          {"tokenizer_bytes", info.tokenizer_bytes},
          {"chat_template", info.chat_template == 0
                                ? Json(nullptr)
                                : Json(cria_chat_template_name(info.chat_template))}};
}

void print_json(ModelFile* file, const cria_config& config, const cria_memory_plan& plan,
                uint32_t n_sessions, TextStream* out) {
  Json json = {{"file", file->path()}, {"model", json_of(file->info())}};
  const uint32_t context = config.context != 0 ? config.context : file->info().planned_context;
  json["config"] = {{"context", context},
                    {"threads", config.n_threads},
                    {"kv", kv_format_name(config.kv_format)},
                    {"backend", backend_name(config.backend)},
                    {"mapped", config.source_is_mapped != 0}};
  json["memory_plan"] = json_of(plan, n_sessions);
  Json plans = Json::object();
  for (const cria_backend backend : kBackends) {
    const std::optional<cria_memory_plan> other = plan_of(*file, config, backend);
    plans[backend_name(backend)] = other ? json_of(*other, n_sessions) : Json(nullptr);
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

std::string format_text(cria_number_format number_format, uint32_t group_size) {
  std::string text = cria_number_format_name(number_format);
  // Where there is but one group, the name says it.
  const bool has_choice = number_format == CRIA_INT4 || number_format == CRIA_INT4NL;
  if (group_size != 0 && has_choice) text += text_of(" g%u", group_size);
  return text;
}

// The embedding's format; those of all others too, where not all are alike.
void put_formats(const cria_model_info& info, TextStream* out) {
  const std::vector<cria_matrix_kind> kinds = matrix_kinds(info);
  const bool are_alike = std::all_of(kinds.begin(), kinds.end(), [&](const cria_matrix_kind& k) {
    return k.number_format == kinds.front().number_format &&
           k.group_size == kinds.front().group_size;
  });
  if (are_alike) return put_row(out, "embedding", cria_number_format_name(info.embedding_format));
  for (const cria_matrix_kind& kind : kinds) {
    const auto n_formats =
        std::count_if(kinds.begin(), kinds.end(),
                      [&](const cria_matrix_kind& other) { return other.name == kind.name; });
    const std::string n = n_formats > 1 ? text_of(" (%u)", kind.n_matrices) : "";
    put_row(out, kind.name, format_text(kind.number_format, kind.group_size) + n);
  }
}

void put_kind(const cria_layer_kind& kind, uint32_t d_model, TextStream* out) {
  const std::string ffn = kind.d_ff != 0 ? text_of(", ffn %u", kind.d_ff) : "";
  put_row(out, "layers", text_of("%u x %u", kind.n_layers, d_model) + ffn);
  if (kind.mixer != CRIA_ATTENTION) put_row(out, "mixer", name_of(kind.mixer));
  if (kind.n_states != 0) {
    put_row(out, "states", text_of("%u of %u x %u", kind.n_states, kind.key_dim, kind.value_dim));
  } else if (kind.n_heads != 0) {
    put_row(out, "heads",
            text_of("%u, %u for KV, of %u", kind.n_heads, kind.n_kv_heads, kind.key_dim));
  }
  if (kind.n_experts != 0) {
    put_row(out, "experts",
            text_of("%u, %u chosen, of %u", kind.n_experts, kind.n_chosen, kind.expert_ff));
  }
  if (kind.window != 0) put_row(out, "window", text_of("%u", kind.window));
  // Sessions of more positions than this use the other set of RoPE's frequencies.
  if (kind.original_context != 0) {
    put_row(out, "long RoPE", text_of("above %u", kind.original_context));
  }
}

void print_model(const cria_model_info& info, TextStream* out) {
  put_row(out, "file size", grouped_digits(info.file_bytes) + " bytes");
  put_row(out, "architecture",
          text_of("%s, %s parameters", cria_architecture_name(info.architecture),
                  short_count(info.n_parameters).c_str()));
  const std::vector<cria_layer_kind> kinds = layer_kinds(info);
  for (const cria_layer_kind& kind : kinds) put_kind(kind, info.d_model, out);
  if (std::any_of(kinds.begin(), kinds.end(),
                  [](const auto& kind) { return kind.n_experts != 0; })) {
    put_row(out, "active", short_count(info.n_active_parameters) + " parameters");
    put_row(out, "read a token", grouped_digits(info.active_bytes) + " bytes");
  }
  put_row(out, "vocabulary",
          text_of("%u tokens%s", info.vocab_size, info.tied_embedding != 0 ? ", tied" : ""));
  const std::string weights = format_text(info.weight_format, info.group_size);
  put_row(out, "weights",
          text_of("%s, %.2f bits%s", weights.c_str(), bits_per_weight(info),
                  info.compressed != 0 ? ", zstd" : ""));
  if (info.signed_scales != 0) put_row(out, "scales", "signed");
  put_formats(info, out);
  put_row(out, "context", text_of("%u of %u", info.planned_context, info.max_context));
  put_row(out, "tokenizer", info.has_tokenizer != 0 ? "yes" : "none");
  put_row(out, "chat template", cria_chat_template_name(info.chat_template));
  if (info.pooling != 0) {
    put_row(out, "embeddings",
            std::string(pooling_name(info.pooling)) +
                (info.unit_embeddings != 0 ? ", of length 1" : ""));
  }
}

void print_plan(const char* backend, const cria_memory_plan& plan, uint32_t n_sessions,
                TextStream* out) {
  const uint64_t total = total_bytes(plan, n_sessions);
  const uint64_t kv_cache = n_sessions * plan.session.kv_cache;
  const uint64_t logits = n_sessions * plan.session.logits;
  const uint64_t history = n_sessions * plan.session.history;
  const uint64_t objects =
      plan.model.objects + n_sessions * plan.session.objects + plan.workspace.objects;
  const uint64_t packed = plan.model.backend + plan.workspace.backend;
  const uint64_t tokenizer = plan.model.tokenizer;
  const uint64_t kept = plan.model.weights + packed + kv_cache + tokenizer + logits + history;
  out->put(text_of("  %-13s %14s %9s\n", backend, "bytes", "MB"));
  put_bytes(out, "weights", plan.model.weights);
  put_bytes(out, "backend", packed);
  put_bytes(out, "KV cache", kv_cache);
  put_bytes(out, "tokenizer", tokenizer);
  put_bytes(out, "logits", logits);
  put_bytes(out, "history", history);
  put_bytes(out, "objects", objects);
  put_bytes(out, "scratch", total - kept - objects);
  put_bytes(out, "total", total);
  put_bytes(out, "file in place", plan.in_place);
}

void print_table(const ModelFile& file, const cria_config& config, uint32_t n_sessions,
                 TextStream* out) {
  out->put(file.path() + "\n");
  print_model(file.info(), out);
  const uint32_t context = config.context != 0 ? config.context : file.info().planned_context;
  const std::string sessions = n_sessions == 1 ? "" : text_of("%u sessions of ", n_sessions);
  out->put(text_of("\nmemory: %s%u tokens, KV %s, %u thread%s\n", sessions.c_str(), context,
                   kv_format_name(config.kv_format), config.n_threads,
                   config.n_threads == 1 ? "" : "s"));
  for (const cria_backend backend : kBackends) {
    if (config.backend != CRIA_BACKEND_AUTO && config.backend != backend) continue;
    const std::optional<cria_memory_plan> plan = plan_of(file, config, backend);
    if (plan) print_plan(backend_name(backend), *plan, n_sessions, out);
  }
}

}  // namespace

ExitCode run_command(const InfoOptions& options) {
  ModelFile file(options.common.model_path, options.common.mapping);
  cria_config config = config_for(options.common, file);
  config.max_entries = options.n_sessions;
  const cria_memory_plan plan = plan_for(file, config);
  TextStream out(STDOUT_FILENO);
  if (options.json) {
    print_json(&file, config, plan, options.n_sessions, &out);
  } else {
    print_table(file, config, options.n_sessions, &out);
  }
  out.flush();
  return ExitCode::kDone;
}

}  // namespace cria::hosted
