// Bits and tokens: what the device computes.
#include <algorithm>
#include <cstring>

#include "platforms/cortex_m/console.h"
#include "quant/format/checksum.h"
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
  config.kv_format = static_cast<cria_kv_format>(next_number(&words));
  config.context = next_number(&words);
  const uint32_t n_tokens = next_number(&words);
  const cria_source source = source_of(bench);
  cria_model_info info;
  need(cria_inspect(&source, &info));
  // In place where that is possible: the int8 demo's weights are larger than the arena.
  config.source_is_mapped = info.compressed == 0 ? 1 : 0;
  const cria_instance cria = open_model(bench, config);
  const std::span<const uint32_t> tokens = pattern_tokens(n_tokens, info.vocab_size);
  auto* logits = reinterpret_cast<float*>(bench.work.data());
  const cria_batch_entry entry = {cria.session, tokens.data(), tokens.size(), logits, {}};
  need(cria_step(cria.workspace, &entry, 1));
  const uint64_t hash = xxh64(logits, size_t{n_tokens} * info.vocab_size * sizeof *logits);
  print("hash ", hash, "\nisa ", std::string_view(cria_isa_name(cria.model)), "\n");
}

void check_sessions(const Bench& bench, std::string_view words) {
  const uint32_t n_tokens = next_number(&words);
  cria_config config = {};
  config.source_is_mapped = 1;
  config.context = 64;
  config.prefill_chunk = 5;
  config.max_entries = 2;
  const cria_source source = source_of(bench);
  cria_model_info info;
  cria_memory_plan plan;
  need(cria_inspect(&source, &info));
  need(cria_plan(&info, &config, &plan));
  const cria_instance cria = open_model(bench, config);
  const auto session_bytes = static_cast<size_t>(plan.session.total);
  cria_session* other = nullptr;
  need(cria_start(bench.work.data(), session_bytes, cria.model, &config, &other));
  if (cria_session_bytes(other) != session_bytes) fail("used is not what was planned");
  // What each says alone, to its own prompt, and to a token after it.
  cria_session* const sessions[] = {cria.session, other};
  const uint32_t vocab_size = cria_vocab_size(cria.model);
  const std::span<const uint32_t> tokens = pattern_tokens(n_tokens, vocab_size);
  const std::span<const uint32_t> prompts[] = {tokens, tokens.last(n_tokens / 2)};
  auto* alone = reinterpret_cast<float*>(bench.work.data() + session_bytes);
  for (size_t i = 0; i < 2; ++i, alone += vocab_size) {
    need(cria_prefill(cria.workspace, sessions[i], prompts[i].data(), prompts[i].size()));
    need(cria_prefill(cria.workspace, sessions[i], tokens.data(), 1));
    const float* logits = cria_logits(sessions[i]);
    std::copy(logits, logits + vocab_size, alone);
    need(cria_reset(sessions[i], 0));
  }
  cria_batch_entry entries[2] = {};
  for (size_t i = 0; i < 2; ++i) {
    entries[i] = {sessions[i], prompts[i].data(), prompts[i].size(), nullptr, {}};
  }
  need(cria_step(cria.workspace, entries, 2));
  for (cria_batch_entry& entry : entries) entry = {entry.session, tokens.data(), 1, nullptr, {}};
  need(cria_step(cria.workspace, entries, 2));
  for (size_t i = 2; i > 0; --i) {
    alone -= vocab_size;
    if (std::memcmp(cria_logits(sessions[i - 1]), alone, vocab_size * sizeof *alone) != 0) {
      fail("a session together has other logits than alone");
    }
  }
  print("sessions 2, tokens ", n_tokens, "\n");
}

void check_greedy(const Bench& bench, std::string_view words) {
  const uint32_t n_tokens = next_number(&words);
  cria_config config = {};
  config.source_is_mapped = 1;
  const cria_instance cria = open_model(bench, config);
  const cria_sampling greedy = {};
  for (;;) {
    const uint32_t token = next_number(&words);
    need(cria_prefill(cria.workspace, cria.session, &token, 1));
    if (words.empty()) break;
  }
  print("ids");
  for (uint32_t i = 0; i < n_tokens; ++i) {
    uint32_t token = 0;
    need(cria_sample(cria.workspace, cria.session, &greedy, &token));
    print(" ", token);
    if (i + 1 < n_tokens) need(cria_prefill(cria.workspace, cria.session, &token, 1));
  }
  print("\n");
}

void check_prefill(const Bench& bench, std::string_view words) {
  const uint32_t n_tokens = next_number(&words);
  const uint32_t n_times = next_number(&words);
  cria_config config = {};
  config.source_is_mapped = 1;
  config.isa_mask = next_number(&words);
  const cria_instance cria = open_model(bench, config);
  constexpr uint32_t kVocab = 256;  // any model here has more
  const std::span<const uint32_t> tokens = pattern_tokens(n_tokens, kVocab);
  for (uint32_t i = 0; i < n_times; ++i) {
    need(cria_reset(cria.session, 0));
    need(cria_prefill(cria.workspace, cria.session, tokens.data(), tokens.size()));
  }
  print("isa ", std::string_view(cria_isa_name(cria.model)), "\n");
}

void check_refusal(const Bench& bench, std::string_view words) {
  cria_config config = {};
  config.source_is_mapped = 1;
  config.kv_format = static_cast<cria_kv_format>(next_number(&words));
  cria_sampling sampling = {};
  sampling.temperature = static_cast<float>(next_number(&words));
  const cria_source source = source_of(bench);
  cria_instance cria = {};
  cria_status status = cria_open(bench.arena.data(), bench.arena.size(), &source, &config, &cria);
  if (status == CRIA_OK) {
    uint32_t token = 1;
    need(cria_prefill(cria.workspace, cria.session, &token, 1));
    status = cria_sample(cria.workspace, cria.session, &sampling, &token);
  }
  print("status ", status, "\n");
}

}  // namespace cria::firmware_test
