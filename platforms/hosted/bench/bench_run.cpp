#include "platforms/hosted/bench/bench_run.h"

#include <algorithm>
#include <random>
#include <span>

#include "platforms/hosted/base/clock.h"
#include "platforms/hosted/base/program_error.h"
#include "platforms/hosted/bench/read_bandwidth.h"
#include "platforms/hosted/session/model_session.h"
#include "platforms/hosted/session/model_text.h"
#include "platforms/hosted/session/resident_memory.h"

namespace cria::hosted {
namespace {

constexpr uint32_t kTokenSeed = 1;

std::vector<uint32_t> random_tokens(size_t count, uint32_t vocab_size) {
  std::mt19937 random(kTokenSeed);
  std::vector<uint32_t> tokens(count);
  for (uint32_t& token : tokens) token = static_cast<uint32_t>(random() % vocab_size);
  return tokens;
}

// Leaves the session with the first depth tokens; what it has of them is not read again.
void stand_behind(const ModelSession& model, std::span<const uint32_t> tokens, uint32_t depth) {
  if (cria_position(model.session()) < depth || cria_reset(model.session(), depth) != CRIA_OK) {
    model.check(cria_reset(model.session(), 0));
  }
  const uint32_t n_held = cria_position(model.session());
  if (n_held == depth) return;
  model.check(
      cria_prefill(model.workspace(), model.session(), tokens.data() + n_held, depth - n_held));
  // Sessions planned without snapshots read it again.
  (void)cria_keep_snapshot(model.session(), cria_position(model.session()));
}

// Seconds of one prefill of tokens after those that the session holds.
double time_prefill(const ModelSession& model, std::span<const uint32_t> tokens) {
  const double started = monotonic_seconds();
  model.check(cria_prefill(model.workspace(), model.session(), tokens.data(), tokens.size()));
  return monotonic_seconds() - started;
}

// Seconds of feeding tokens one by one.
double time_decode(const ModelSession& model, std::span<const uint32_t> tokens) {
  const double started = monotonic_seconds();
  for (const uint32_t& token : tokens) {
    model.check(cria_prefill(model.workspace(), model.session(), &token, 1));
  }
  return monotonic_seconds() - started;
}

// Seconds of feeding a token to each of the first n_sessions, so many times, after a first one.
double time_decode_together(const ModelSession& model, size_t n_sessions,
                            std::span<const uint32_t> tokens) {
  std::vector<cria_batch_entry> entries;
  for (cria_session* session : std::span(model.sessions()).first(n_sessions)) {
    model.check(cria_reset(session, 0));
    entries.push_back({session, tokens.data(), 1, nullptr, {}});
  }
  model.check(cria_step(model.workspace(), entries.data(), entries.size()));
  const double started = monotonic_seconds();
  for (const uint32_t& token : tokens.subspan(1)) {
    for (cria_batch_entry& entry : entries) entry.tokens = &token;
    model.check(cria_step(model.workspace(), entries.data(), entries.size()));
  }
  return monotonic_seconds() - started;
}

// In turns, so that what the machine does meanwhile meets every count alike.
std::vector<SessionsSpeed> measure_sessions(const BenchOptions& options, const ModelSession& model,
                                            std::span<const uint32_t> tokens) {
  std::vector<std::vector<double>> speeds(options.sessions.size());
  for (uint32_t round = 0; round <= options.repetitions; ++round) {
    for (size_t i = 0; i < options.sessions.size(); ++i) {
      const auto n_tokens = static_cast<double>(uint64_t{options.n_decode} * options.sessions[i]);
      const double seconds = time_decode_together(model, options.sessions[i], tokens);
      if (round > 0) speeds[i].push_back(n_tokens / std::max(seconds, 1e-9));  // 0: warming up
    }
  }
  std::vector<SessionsSpeed> result;
  for (size_t i = 0; i < speeds.size(); ++i) {
    result.push_back({options.sessions[i], spread_of(speeds[i])});
  }
  return result;
}

// Runs time(count) repetitions times, after a run that warms up, of as many tokens as that takes;
// gives count per second.
template <typename Time>
Spread measure(uint32_t repetitions, uint32_t count, const Time& time) {
  constexpr uint32_t kWarmUpTokens = 512;
  time(std::min(count, kWarmUpTokens));
  std::vector<double> speeds;
  for (uint32_t i = 0; i < repetitions; ++i) {
    speeds.push_back(static_cast<double>(count) / std::max(time(count), 1e-9));
  }
  return spread_of(speeds);
}

DepthSpeed measure_behind(const BenchOptions& options, const ModelSession& model,
                          const std::vector<uint32_t>& prompts, uint32_t depth,
                          std::span<const uint32_t> tokens) {
  DepthSpeed result = {};
  result.depth = depth;
  for (const uint32_t length : prompts) {
    result.prefill.push_back({length, measure(options.repetitions, length, [&](uint32_t n) {
                                stand_behind(model, tokens, depth);
                                return time_prefill(model, tokens.subspan(depth, n));
                              })});
  }
  const uint32_t n_before = std::max(depth, 1U);  // a first token comes from somewhere
  result.decode_tokens_per_second = measure(options.repetitions, options.n_decode, [&](uint32_t n) {
    stand_behind(model, tokens, n_before);
    return time_decode(model, tokens.subspan(n_before, n));
  });
  const uint32_t kv_format = model.config().kv_format;
  result.decode_bytes_per_token =
      decode_bytes_per_token(model.info(), kv_format, depth + options.n_decode / 2);
  result.kv_bytes_per_token =
      result.decode_bytes_per_token - decode_bytes_per_token(model.info(), kv_format, 0);
  result.decode_bytes_per_second =
      static_cast<double>(result.decode_bytes_per_token) * result.decode_tokens_per_second.median;
  return result;
}

BenchResult measure_session(const BenchOptions& options, const std::vector<uint32_t>& prompts,
                            uint32_t n_threads) {
  const double started = monotonic_seconds();
  CommonOptions common = options.common;
  common.n_threads = n_threads;
  const std::vector<uint32_t> depths = options.depths.empty() ? std::vector{0U} : options.depths;
  uint32_t longest = options.n_decode + 1;  // without a depth, and by sessions together
  for (const uint32_t depth : depths) {
    longest = std::max(longest, std::max(depth, 1U) + options.n_decode);
    for (const uint32_t length : prompts) longest = std::max(longest, depth + length);
  }
  const uint32_t n_sessions = options.sessions.empty() ? 1
                                                       : *std::max_element(options.sessions.begin(),
                                                                           options.sessions.end());
  const ModelSession model(
      common, {.min_context = longest, .n_sessions = n_sessions, .waits_for_large_pages = true});
  if (longest > cria_context(model.session())) {
    throw ProgramError(
        ExitCode::kUsage,
        model.path() + ": -p and -n, after --depth, do not fit the context of " +
            std::to_string(cria_context(model.session())) +
            (longest <= model.info().max_context ? "; give fewer tokens or a larger --context"
                                                 : "; give fewer tokens, the model takes no more"));
  }
  const std::vector<uint32_t> tokens = random_tokens(longest, model.info().vocab_size);
  const std::span<const uint32_t> all(tokens);

  BenchResult result = {};
  result.open_seconds = model.open_seconds();
  time_prefill(model, all.first(prompts.empty() ? 1 : prompts[0]));
  const cria_sampling greedy = {};
  uint32_t token = 0;
  model.check(cria_sample(model.workspace(), model.session(), &greedy, &token));
  result.first_token_seconds = monotonic_seconds() - started;

  for (const uint32_t depth : depths) {
    result.depths.push_back(measure_behind(options, model, prompts, depth, all));
  }
  result.sessions = measure_sessions(options, model, all.first(options.n_decode + 1));

  result.backend = cria_backend_name(model.model());
  result.isa = cria_isa_name(model.model());
  result.n_threads = n_threads;
  result.context = cria_context(model.session());
  result.plan = model.plan();
  result.memory_bytes = total_bytes(model.plan(), n_sessions);
  result.n_decoded = options.n_decode;
  result.peak_resident_bytes = peak_resident_bytes();
  return result;
}

}  // namespace

Spread spread_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  const double median =
      values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2.0;
  return {median, values.front(), values.back()};
}

BenchResult run_bench(const BenchOptions& options, const std::vector<uint32_t>& prompts,
                      uint32_t n_threads) {
  const uint64_t highest_before = reset_peak_resident() ? 0 : peak_resident_bytes();
  BenchResult result = measure_session(options, prompts, n_threads);
  if (result.peak_resident_bytes <= highest_before) result.peak_resident_bytes.reset();
  // The session's memory is free again, so the buffer is not on top of it.
  try {
    result.read_bytes_per_second = measure_read_bandwidth(n_threads);
  } catch (const ProgramError& error) {
    if (error.code() != ExitCode::kMemory) throw;  // what was measured is not lost for this figure
  }
  return result;
}

}  // namespace cria::hosted
