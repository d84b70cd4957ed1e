// Measures one session: prefill at several lengths, decode, both after a filled context, loading.
// Used by cria bench.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <cria.h>
#include "platforms/hosted/bench/bench_options.h"

namespace cria::hosted {

struct Spread {
  double median;
  double least;
  double most;
};

// Of a non-empty list; the median of an even number is the mean of the middle two.
Spread spread_of(std::vector<double> values);

struct PrefillSpeed {
  uint32_t n_tokens;
  Spread tokens_per_second;
};

// After so many tokens of context.
struct DepthSpeed {
  uint32_t depth;
  std::vector<PrefillSpeed> prefill;
  Spread decode_tokens_per_second;
  uint64_t decode_bytes_per_token;  // weights and KV cache read, at half of n_decoded
  uint64_t kv_bytes_per_token;      // of them, the KV cache
  double decode_bytes_per_second;   // at the median
};

// Sessions that decode together, a token of each a step.
struct SessionsSpeed {
  uint32_t n_sessions;
  Spread tokens_per_second;  // of all together
};

struct BenchResult {
  std::string backend;
  std::string isa;
  uint32_t n_threads;
  uint32_t context;
  cria_memory_plan plan;
  uint64_t memory_bytes;  // planned, for all sessions
  double open_seconds;
  double first_token_seconds;  // opening, the first prompt, one sample: nothing warmed up
  uint32_t n_decoded;
  std::vector<DepthSpeed> depths;  // as asked for, at least one
  std::vector<SessionsSpeed> sessions;
  // What as many threads read, doing nothing else; nothing where there is no memory to measure it.
  std::optional<double> read_bytes_per_second;
  // From opening to the last token; nothing where more was resident before and the system keeps
  // that as the highest.
  std::optional<uint64_t> peak_resident_bytes;
};

// Opens the model with n_threads and measures; prompts are random tokens of a fixed seed, decoding
// starts after one token, or after what fills the context to a depth, and feeds random tokens, so
// nothing depends on what the model says. Throws ProgramError.
BenchResult run_bench(const BenchOptions& options, const std::vector<uint32_t>& prompts,
                      uint32_t n_threads);

}  // namespace cria::hosted
