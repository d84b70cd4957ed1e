// cria bench: speed and memory of a model on this machine.
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "platforms/hosted/base/print_format.h"
#include "platforms/hosted/bench/bench_run.h"
#include "platforms/hosted/cli/commands.h"
#include "platforms/hosted/cli/text_stream.h"
#include "platforms/hosted/machine/cpu.h"
#include "platforms/hosted/session/model_session.h"
#include "platforms/hosted/session/model_text.h"

namespace cria::hosted {
namespace {

using Json = nlohmann::ordered_json;

// The lengths asked for; else the usual ones, as far as they fit.
std::vector<uint32_t> prompt_lengths(const BenchOptions& options, const ModelFile& file) {
  if (!options.prompts.empty()) return options.prompts;
  constexpr uint32_t kUsual[] = {128, 512};
  uint32_t most = options.common.context != 0 ? options.common.context : file.info().max_context;
  if (!options.depths.empty()) {
    most -= std::min(most - 1, *std::max_element(options.depths.begin(), options.depths.end()));
  }
  std::vector<uint32_t> lengths;
  for (const uint32_t length : kUsual) {
    if (length <= most) lengths.push_back(length);
  }
  if (lengths.empty()) lengths.push_back(most);
  return lengths;
}

Json json_of(const Spread& spread) {
  return {{"median", spread.median}, {"min", spread.least}, {"max", spread.most}};
}

Json prefill_json(const DepthSpeed& depth) {
  Json json = Json::array();
  for (const PrefillSpeed& speed : depth.prefill) {
    json.push_back(
        {{"tokens", speed.n_tokens}, {"tokens_per_second", json_of(speed.tokens_per_second)}});
  }
  return json;
}

Json decode_json(const DepthSpeed& depth, uint32_t n_decoded) {
  return {{"tokens", n_decoded},
          {"tokens_per_second", json_of(depth.decode_tokens_per_second)},
          {"bytes_per_token", depth.decode_bytes_per_token},
          {"kv_bytes_per_token", depth.kv_bytes_per_token},
          {"bytes_per_second", depth.decode_bytes_per_second}};
}

template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

// What is measured after the first depth stands at the top too, where it is without --depth.
Json json_of(const BenchResult& result) {
  Json json = {{"backend", result.backend},
               {"isa", result.isa},
               {"threads", result.n_threads},
               {"context", result.context},
               {"memory_plan_bytes", result.memory_bytes},
               {"kv_cache_bytes", result.plan.session.kv_cache},
               {"in_place_bytes", result.plan.in_place},
               {"open_seconds", result.open_seconds},
               {"first_token_seconds", result.first_token_seconds}};
  json["prefill"] = prefill_json(result.depths[0]);
  json["decode"] = decode_json(result.depths[0], result.n_decoded);
  json["depths"] = Json::array();
  for (const DepthSpeed& depth : result.depths) {
    json["depths"].push_back({{"depth", depth.depth},
                              {"prefill", prefill_json(depth)},
                              {"decode", decode_json(depth, result.n_decoded)}});
  }
  if (!result.sessions.empty()) json["sessions"] = Json::array();
  for (const SessionsSpeed& speed : result.sessions) {
    json["sessions"].push_back({{"sessions", speed.n_sessions},
                                {"decode_tokens_per_s", speed.tokens_per_second.median},
                                {"tokens_per_second", json_of(speed.tokens_per_second)}});
  }
  json["read_bytes_per_second"] = or_null(result.read_bytes_per_second);
  json["peak_resident_bytes"] = or_null(result.peak_resident_bytes);
  return json;
}

void put_heading(TextStream* out, const ModelFile& file) {
  out->put(text_of("cria %s on %s\n%s\n", cria_version(), machine_description().c_str(),
                   file.path().c_str()));
}

void put_speed(TextStream* out, const std::string& label, const Spread& speed) {
  out->put(text_of("  %-12s %10.1f %10.1f\n", label.c_str(), speed.median, speed.least));
}

void put_depth(TextStream* out, const DepthSpeed& depth, const BenchResult& result) {
  constexpr double kGiga = 1e9;
  if (depth.depth != 0) out->put(text_of("  after %u tokens\n", depth.depth));
  for (const PrefillSpeed& speed : depth.prefill) {
    put_speed(out, text_of("prefill %u", speed.n_tokens), speed.tokens_per_second);
  }
  put_speed(out, text_of("decode %u", result.n_decoded), depth.decode_tokens_per_second);
  const std::string plain =
      result.read_bytes_per_second
          ? text_of("plain reads reach %.1f", *result.read_bytes_per_second / kGiga)
          : "no memory to measure plain reads";
  out->put(text_of("  decode reads %s a token,\n    %s of them KV cache,\n    %.1f GB/s; %s\n",
                   megabytes(depth.decode_bytes_per_token).c_str(),
                   megabytes(depth.kv_bytes_per_token).c_str(),
                   depth.decode_bytes_per_second / kGiga, plain.c_str()));
}

void put_result(TextStream* out, const BenchResult& result) {
  out->put(text_of("\n%u thread%s, %s\n", result.n_threads, result.n_threads == 1 ? "" : "s",
                   kernels_text(result.backend, result.isa).c_str()));
  out->put(text_of("  %-12s %10s %10s\n", "tokens/s", "median", "min"));
  for (const DepthSpeed& depth : result.depths) put_depth(out, depth, result);
  for (const SessionsSpeed& speed : result.sessions) {
    put_speed(out, text_of("%u sessions", speed.n_sessions), speed.tokens_per_second);
  }
  out->put(text_of("  open %.3f s, first token %.3f s\n", result.open_seconds,
                   result.first_token_seconds));
  out->put(text_of("  plan %s + file %s\n  KV cache of a session %s\n",
                   megabytes(result.memory_bytes).c_str(), megabytes(result.plan.in_place).c_str(),
                   megabytes(result.plan.session.kv_cache).c_str()));
  const std::string peak = result.peak_resident_bytes ? megabytes(*result.peak_resident_bytes)
                                                      : "unknown: this system does not tell";
  out->put(text_of("  peak resident %s\n", peak.c_str()));
  out->flush();
}

Json json_of(const BenchOptions& options, const ModelFile& file) {
  return {{"version", cria_version()},
          {"machine", machine_description()},
          {"model", options.common.model_path},
          {"n_parameters", file.info().n_parameters},
          {"weight_format", cria_number_format_name(file.info().weight_format)},
          {"weight_bytes", file.info().weight_bytes},
          {"kv", kv_format_name(config_for(options.common, file).kv_format)},
          {"repetitions", options.repetitions}};
}

}  // namespace

ExitCode run_command(const BenchOptions& options) {
  const ModelFile file(options.common.model_path, options.common.mapping);
  const std::vector<uint32_t> prompts = prompt_lengths(options, file);
  std::vector<uint32_t> threads = options.threads;
  if (threads.empty()) threads.push_back(default_threads());

  TextStream out(STDOUT_FILENO);
  Json json = json_of(options, file);
  json["results"] = Json::array();
  for (const uint32_t n_threads : threads) {
    const BenchResult result = run_bench(options, prompts, n_threads);
    if (!options.json) {
      // Not before it is known that nothing is refused.
      if (json["results"].empty()) put_heading(&out, file);
      put_result(&out, result);
    }
    json["results"].push_back(json_of(result));
  }
  constexpr int kIndent = 2;
  if (options.json) {
    out.put(json.dump(kIndent, ' ', false, Json::error_handler_t::replace) + "\n");
  }
  out.flush();
  return ExitCode::kDone;
}

}  // namespace cria::hosted
