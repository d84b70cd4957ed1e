// cria run: continues a prompt, streamed.
#include <unistd.h>

#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "platforms/hosted/base/clock.h"
#include "platforms/hosted/base/print_format.h"
#include "platforms/hosted/base/terminal.h"
#include "platforms/hosted/cli/commands.h"
#include "platforms/hosted/cli/generation.h"
#include "platforms/hosted/cli/input_text.h"
#include "platforms/hosted/cli/json_guide.h"
#include "platforms/hosted/cli/prompt_cache.h"
#include "platforms/hosted/cli/reading_progress.h"
#include "platforms/hosted/cli/text_stream.h"
#include "platforms/hosted/cli/token_sinks.h"
#include "platforms/hosted/cli/tool_commands.h"
#include "platforms/hosted/session/interrupt.h"
#include "platforms/hosted/session/model_session.h"
#include "platforms/hosted/session/model_tokens.h"
#include "platforms/hosted/session/resident_memory.h"

namespace cria::hosted {
namespace {

std::string prompt_text(const RunOptions& options) {
  if (!options.prompt) return {};
  if (*options.prompt != "-") return *options.prompt;
  std::string text = read_text_file("-");
  drop_last_newline(&text);
  return text;
}

std::vector<uint32_t> encode_prompt(const ModelSession& model, const RunOptions& options,
                                    const std::string& text) {
  if (!options.prompt) return options.ids;
  model.need_tokenizer();
  uint32_t flags = CRIA_ENCODE_SPECIAL;
  if (options.parse_special) flags |= CRIA_ENCODE_PARSE;
  std::vector<uint32_t> tokens = encode_text(model, text, flags);
  // A prompt that writes its BOS out does not want a second one.
  const uint32_t bos = model.info().bos_token;
  if (tokens.size() > 1 && tokens[0] == bos && tokens[1] == bos) tokens.erase(tokens.begin());
  return tokens;
}

void check_prompt(const ModelSession& model, const std::vector<uint32_t>& tokens) {
  if (tokens.empty()) throw ProgramError(ExitCode::kInvalidInput, "the prompt is empty");
  check_ids(model, tokens);
  const uint32_t context = cria_context(model.session());
  if (tokens.size() <= context) return;
  throw ProgramError(
      ExitCode::kInvalidInput,
      text_of("the prompt has %zu tokens, the context %u; %s", tokens.size(), context,
              tokens.size() <= model.info().max_context
                  ? "raise --context"
                  : "the model takes no more, shorten the prompt"));
}

// Reads what is not in the context yet, which on a terminal is shown when it takes long.
PrefillResult read_prompt(const ModelSession& model, std::span<const uint32_t> tokens) {
  if (tokens.empty()) return {0, 0.0};
  const ReadingProgress progress(model, [&] { return tokens.size(); });
  return prefill(model, tokens);
}

double per_second(double count, double seconds) { return seconds > 0.0 ? count / seconds : 0.0; }

void print_summary(const PrefillResult& prefilled, size_t n_cached, const Generation& made,
                   double started, const RunOptions& options, uint64_t seed) {
  std::string line = text_of("prefill %zu tokens, %.1f tokens/s", prefilled.n_fed,
                             per_second(static_cast<double>(prefilled.n_fed), prefilled.seconds));
  if (n_cached > 0) line += text_of(", %zu from the cache", n_cached);
  if (made.n_tokens > 0) {
    line += text_of("; first token after %.3f s", made.first_seconds - started);
  }
  line += text_of("; decode %u tokens", made.n_tokens);
  if (made.n_tokens > 1) {
    line += text_of(", %.1f tokens/s",
                    per_second(made.n_tokens - 1.0, made.last_seconds - made.first_seconds));
  }
  if (made.stop == Stop::kContextFull) line += "; the context is full";
  if (!options.sampling.greedy) {
    line += text_of("; seed %llu", static_cast<unsigned long long>(seed));
  }
  print_notice(line);
}

}  // namespace

ExitCode run_command(const RunOptions& options) {
  const double started = monotonic_seconds();
  const std::string text = prompt_text(options);
  if (!options.tools.tools.empty()) return answer_with_tools(options, text);
  const bool is_json = options.json || options.json_schema;
  const bool echoes = options.echo && !is_json;
  const std::string schema = options.json_schema ? read_schema(*options.json_schema) : "";
  ModelSession model(options.common, {.max_text_bytes = text.size()});
  const std::vector<uint32_t> tokens = encode_prompt(model, options, text);
  check_prompt(model, tokens);
  std::optional<JsonGuide> guide;
  if (is_json) {
    guide.emplace(model, options.json_schema ? &schema : nullptr,
                  options.json_schema ? schema_name(*options.json_schema) : "--json");
  }
  PromptCache cache(model, options.prompt_cache, Follows::kNothing);
  const size_t n_cached = cache.restore(tokens);
  const uint64_t seed = seed_of(options.sampling);
  cria_seed(model.session(), seed);  // after restore, which brings the random state of a cache
  const GenerationLimits limits = {
      .max_tokens = options.sampling.max_tokens.value_or(std::numeric_limits<uint32_t>::max()),
      .ignore_end = options.ignore_end,
      .guide = guide ? &*guide : nullptr};

  TextStream out(STDOUT_FILENO);
  // The text that follows a BOS alone is a beginning.
  TextSink text_sink(model, &out, text.empty() ? Continues::kNo : Continues::kYes);
  IdSink id_sink(&out);
  TokenSink* sink = &text_sink;
  if (!options.prompt) sink = &id_sink;
  const auto echo = [&] {
    if (echoes && options.prompt) out.put(text);
    if (echoes && !options.prompt) {
      for (const uint32_t token : tokens) id_sink.put(token);
    }
    out.flush();
  };
  // Where a line tells how much is read, the prompt comes after it.
  const bool echoes_later = is_terminal(STDOUT_FILENO) && stderr_has_escapes();
  if (!echoes_later) echo();

  const InterruptGuard guard(SecondInterrupt::kEndsProgram);
  Generation made = {};
  const PrefillResult prefilled = read_prompt(model, std::span(tokens).subspan(n_cached));
  const bool is_read = n_cached + prefilled.n_fed == tokens.size();
  if (echoes_later) echo();
  if (is_read) {
    cache.keep(tokens);
    made = generate(model, sampling_of(options.sampling), limits, sink);
  }
  if (options.prompt) text_sink.finish();
  out.end_line();
  print_summary(prefilled, n_cached, made, started, options, seed);
  if (options.common.verbose) {
    print_notice("peak resident " + grouped_digits(peak_resident_bytes()) + " bytes");
  }
  if (guide && guide->progress() == CRIA_JSON_OPEN) {
    report_cut(model, "JSON document", made.stop);
  }
  const bool stopped_by_user = !is_read || made.stop == Stop::kInterrupted;
  if (stopped_by_user) return ExitCode::kInterrupted;
  const bool is_cut = guide && guide->progress() == CRIA_JSON_OPEN;
  return is_cut ? ExitCode::kIncomplete : ExitCode::kDone;
}

}  // namespace cria::hosted
