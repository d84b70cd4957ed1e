#include "platforms/hosted/cli/generation.h"

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>

#include "platforms/hosted/base/clock.h"
#include "platforms/hosted/base/print_format.h"
#include "platforms/hosted/base/terminal.h"
#include "platforms/hosted/session/interrupt.h"

namespace cria::hosted {
PrefillResult prefill(const ModelSession& model, std::span<const uint32_t> tokens) {
  const double started = monotonic_seconds();
  const cria_status status =
      cria_prefill(model.workspace(), model.session(), tokens.data(), tokens.size());
  if (status != CRIA_CANCELLED) model.check(status);
  return {status == CRIA_OK ? tokens.size() : 0, monotonic_seconds() - started};
}

void report_cut(const ModelSession& model, const char* what, Stop stop) {
  const char* why = "Ctrl-C";
  if (stop == Stop::kLimit) why = "--max-tokens ended it; give a larger -n";
  if (stop == Stop::kContextFull) {
    why = model.can_have_more_context() ? "the context is full; raise --context"
                                        : "the context is full; the model takes no more";
  }
  if (stop == Stop::kOutputClosed) why = "nobody reads it";
  print_notice(text_of("cria: warning: the %s is not finished: %s", what, why));
}

Generation generate(const ModelSession& model, const cria_sampling& sampling,
                    const GenerationLimits& limits, TokenSink* sink) {
  cria_session* const session = model.session();
  Generation result = {.stop = Stop::kLimit,
                       .n_tokens = 0,
                       .last_token_is_fed = true,
                       .first_seconds = 0.0,
                       .last_seconds = 0.0};
  const auto stopped = [&result](Stop why) {
    result.stop = why;
    return result;
  };
  // Hands a token out; whether that ends the answer.
  const auto take = [&](uint32_t token) -> std::optional<Stop> {
    if (limits.guide != nullptr) limits.guide->accept(token);
    const TokenSink::Demand demand = sink->put(token);
    ++result.n_tokens;
    result.last_seconds = monotonic_seconds();
    if (result.n_tokens == 1) result.first_seconds = result.last_seconds;
    result.last_token_is_fed = false;
    if (demand == TokenSink::Demand::kEnough) return Stop::kOutputClosed;
    if (limits.guide != nullptr && limits.guide->is_closed()) return Stop::kDocument;
    if (result.n_tokens == limits.max_tokens) return Stop::kLimit;
    return std::nullopt;
  };
  std::array<uint32_t, AnswerGuide::kMostForced + 1> tokens;  // of a step
  size_t n = 0;  // that are known before anything is drawn
  while (result.n_tokens < limits.max_tokens) {
    if (interrupted()) return stopped(Stop::kInterrupted);
    const bool draws = n == 0;
    if (draws) {
      if (limits.guide != nullptr) limits.guide->mask();
      model.check(cria_sample(model.workspace(), session, &sampling, tokens.data()));
      if (!limits.ignore_end && cria_is_end_token(model.model(), tokens[0]) != 0) {
        return stopped(Stop::kEndToken);
      }
      n = 1;
    }
    const size_t n_room = cria_context(session) - cria_position(session);
    for (size_t i = 0; i < n; ++i) {
      if (const std::optional<Stop> stop = take(tokens[i])) return stopped(*stop);
      if (i == n_room) return stopped(Stop::kContextFull);
      if (draws && i == 0 && limits.guide != nullptr) {
        n += limits.guide->forced(std::span(tokens).subspan(1));
      }
    }
    const cria_status status = cria_prefill(model.workspace(), session, tokens.data(), n);
    if (status == CRIA_CANCELLED) return stopped(Stop::kInterrupted);
    model.check(status);
    result.last_token_is_fed = true;
    // Nothing is forced after a token that was drawn and stands alone.
    const bool may_go_on = limits.guide != nullptr && (!draws || n > 1);
    n = may_go_on ? limits.guide->forced(std::span(tokens).subspan(1)) : 0;
    std::copy(tokens.begin() + 1, tokens.begin() + 1 + static_cast<ptrdiff_t>(n), tokens.begin());
  }
  return result;
}

cria_sampling sampling_of(const SamplingOptions& options) {
  cria_sampling sampling = {};
  sampling.repeat_penalty = options.repeat_penalty;
  sampling.frequency_penalty = options.frequency_penalty;
  sampling.presence_penalty = options.presence_penalty;
  if (options.greedy) return sampling;
  sampling.temperature = options.temperature;
  sampling.top_p = options.top_p;
  sampling.min_p = options.min_p;
  // The API's zero is "off", so that a zero-initialised struct is harmless; here it is a sum that
  // the likeliest token alone reaches.
  sampling.top_k = options.top_p == 0.0f ? 1 : options.top_k;
  return sampling;
}

uint64_t seed_of(const SamplingOptions& options) {
  if (options.seed) return *options.seed;
  uint64_t seed = 0;
  if (::getrandom(&seed, sizeof(seed), 0) != static_cast<ssize_t>(sizeof(seed))) {
    seed = static_cast<uint64_t>(std::chrono::system_clock::now().time_since_epoch().count());
  }
  return seed;
}

}  // namespace cria::hosted
