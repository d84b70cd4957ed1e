// Bits and tokens: what the device computes.
#include "platforms/cortex_m/console.h"
#include "quant/checksum.h"
#include "tests/firmware/device_checks.h"

namespace cria::firmware_test {

using cortex_m::fail;
using cortex_m::print;

namespace {

// The pattern of exact_bits_test.
std::span<const uint32_t> pattern_tokens(uint32_t n_tokens, uint32_t vocab_size) {
  static uint32_t tokens[64];
  if (n_tokens > std::size(tokens)) fail("too many tokens");
  for (uint32_t i = 0; i < n_tokens; ++i) tokens[i] = (i * 37 + 11) % vocab_size;
  return {tokens, n_tokens};
}

}  // namespace

void check_bits(const Bench& bench, std::string_view words) {
  cria_config config = {};
  config.kv_format = next_number(&words);
  config.context = next_number(&words);
  const uint32_t n_tokens = next_number(&words);
  const cria_source source = source_of(bench);
  cria_model_info info;
  need(cria_inspect(&source, &info));
  // In place where that is possible: the int8 demo's weights are larger than the arena.
  config.source_is_mapped = info.compressed == 0 ? 1 : 0;
  cria_session* session = open_session(bench, config);
  const std::span<const uint32_t> tokens = pattern_tokens(n_tokens, info.vocab_size);
  auto* logits = reinterpret_cast<float*>(bench.work.data());
  need(cria_prefill_logits(session, tokens.data(), tokens.size(), logits));
  const uint64_t hash = xxh64(logits, size_t{n_tokens} * info.vocab_size * sizeof *logits);
  print("hash ", hash, "\nisa ", std::string_view(cria_isa_name(session)), "\n");
}

void check_greedy(const Bench& bench, std::string_view words) {
  const uint32_t n_tokens = next_number(&words);
  cria_config config = {};
  config.source_is_mapped = 1;
  cria_session* session = open_session(bench, config);
  const cria_sampling greedy = {};
  for (;;) {
    const uint32_t token = next_number(&words);
    need(cria_prefill(session, &token, 1));
    if (words.empty()) break;
  }
  print("ids");
  for (uint32_t i = 0; i < n_tokens; ++i) {
    uint32_t token = 0;
    need(cria_sample(session, &greedy, &token));
    print(" ", token);
    if (i + 1 < n_tokens) need(cria_prefill(session, &token, 1));
  }
  print("\n");
}

void check_prefill(const Bench& bench, std::string_view words) {
  const uint32_t n_tokens = next_number(&words);
  const uint32_t n_times = next_number(&words);
  cria_config config = {};
  config.source_is_mapped = 1;
  config.isa_mask = next_number(&words);
  cria_session* session = open_session(bench, config);
  constexpr uint32_t kVocab = 256;  // any model here has more
  const std::span<const uint32_t> tokens = pattern_tokens(n_tokens, kVocab);
  for (uint32_t i = 0; i < n_times; ++i) {
    need(cria_reset(session, 0));
    need(cria_prefill(session, tokens.data(), tokens.size()));
  }
  print("isa ", std::string_view(cria_isa_name(session)), "\n");
}

void check_refusal(const Bench& bench, std::string_view words) {
  cria_config config = {};
  config.source_is_mapped = 1;
  config.kv_format = next_number(&words);
  cria_sampling sampling = {};
  sampling.temperature = static_cast<float>(next_number(&words));
  const cria_source source = source_of(bench);
  cria_session* session = nullptr;
  cria_status status =
      cria_open(bench.arena.data(), bench.arena.size(), &source, &config, &session);
  if (status == CRIA_OK) {
    uint32_t token = 1;
    need(cria_prefill(session, &token, 1));
    status = cria_sample(session, &sampling, &token);
  }
  print("status ", status, "\n");
}

}  // namespace cria::firmware_test
