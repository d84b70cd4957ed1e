#include "platforms/hosted/serve/metrics.h"

#include "platforms/hosted/base/print_format.h"

namespace cria::hosted {

std::string metrics_text(const EngineCounts& counts, size_t n_sessions, uint64_t memory_bytes,
                         uint64_t n_dropped_lines) {
  struct Row {
    const char* name;
    const char* kind;
    const char* help;
    double value;
  };
  const auto number = [](auto value) { return static_cast<double>(value); };
  const Row rows[] = {
      {"requests_total", "counter", "Prompts taken", number(counts.n_requests)},
      {"refused_total", "counter", "Prompts refused as the queue was full",
       number(counts.n_refused)},
      {"cancelled_total", "counter", "Prompts whose client left", number(counts.n_cancelled)},
      {"failed_total", "counter", "Prompts that failed", number(counts.n_failed)},
      {"prompt_tokens_total", "counter", "Tokens of prompts", number(counts.n_prompt_tokens)},
      {"cached_tokens_total", "counter", "Tokens of prompts that a session held already",
       number(counts.n_cached_tokens)},
      {"generated_tokens_total", "counter", "Tokens drawn", number(counts.n_drawn_tokens)},
      {"steps_total", "counter", "Steps of the model", number(counts.n_steps)},
      {"prompt_seconds_total", "counter", "Time of reading prompts", counts.prefill_seconds},
      {"generation_seconds_total", "counter", "Time of making tokens", counts.decode_seconds},
      {"sessions", "gauge", "Sessions there are", number(n_sessions)},
      {"sessions_busy", "gauge", "Sessions at work", number(counts.n_busy)},
      {"requests_waiting", "gauge", "Prompts without a session", number(counts.n_waiting)},
      {"log_lines_dropped_total", "counter", "Lines of the log that nobody read",
       number(n_dropped_lines)},
      {"memory_bytes", "gauge", "Memory planned at the start", number(memory_bytes)},
  };
  std::string text;
  for (const Row& row : rows) {
    text += text_of("# HELP cria_%s %s\n# TYPE cria_%s %s\ncria_%s %.17g\n", row.name, row.help,
                    row.name, row.kind, row.name, row.value);
  }
  return text;
}

}  // namespace cria::hosted
