// Memory and damage: plan, arena, heap, flipped bits.
#include <cstdlib>
#include <cstring>

#include "platforms/cortex_m/console.h"
#include "tests/firmware/device_checks.h"
#include "tests/support/plain_chat.h"
#include "tests/support/sampling_of.h"

namespace cria::firmware_test {

using cortex_m::fail;
using cortex_m::print;

namespace {

cria_memory_plan plan_of(const Bench& bench, const cria_config& config) {
  const cria_source source = source_of(bench);
  cria_model_info info;
  cria_memory_plan plan;
  need(cria_inspect(&source, &info));
  need(cria_plan(&info, &config, &plan));
  return plan;
}

// Whether each object takes what was planned, to the byte.
bool is_as_planned(const cria_instance& cria, const cria_memory_plan& plan) {
  return cria_model_bytes(cria.model) == plan.model.total &&
         cria_session_bytes(cria.session) == plan.session.total &&
         cria_workspace_bytes(cria.workspace) == plan.workspace.total;
}

// Text in, two tokens out, by whatever the model still has.
void use(const cria_instance& cria) {
  uint32_t tokens[48];
  size_t n = 0;
  const cria_message message = {CRIA_USER, "the llama", 9};
  const cria_status status = test::encode_chat(cria.workspace, &message, 1, 0, 1, tokens, 48, &n);
  if (status != CRIA_OK) {
    tokens[0] = 1;
    n = 1;
  }
  if (n == 0 || cria_prefill(cria.workspace, cria.session, tokens, n) != CRIA_OK) return;
  const cria_sampling sampling = test::sampling_of(0.8f, 0.9f, 0.05f, 1.1f, 20);
  cria_text_state state = {};
  static char text[CRIA_TEXT_BYTES];
  for (int i = 0; i < 2; ++i) {
    uint32_t token = 0;
    need(cria_sample(cria.workspace, cria.session, &sampling, &token));
    static_cast<void>(cria_decode_token(cria.model, &state, token, text, sizeof text, &n));
    need(cria_prefill(cria.workspace, cria.session, &token, 1));
  }
}

// Its answer depends on every level, so that no compiler turns it into a loop.
// NOLINTNEXTLINE(misc-no-recursion)
uint32_t deeper(uint32_t level) {
  volatile uint32_t frame[32] = {level};
  return frame[0] == UINT32_MAX ? 0 : deeper(level + 1) + frame[level % 32];
}

}  // namespace

void check_plan(const Bench& bench, std::string_view /*words*/) {
  cria_config config = {};
  config.backend = CRIA_BACKEND_EXACT;
  for (config.source_is_mapped = 0; config.source_is_mapped < 2; ++config.source_is_mapped) {
    const cria_memory_plan plan = plan_of(bench, config);
    if (plan.total > bench.arena.size()) fail("the plan is larger than the arena");
    if (!is_as_planned(open_model(bench, config), plan)) fail("used is not what was planned");
    print(config.source_is_mapped != 0 ? "mapped " : "read ", plan.total, "\n");
  }
}

void check_sweep(const Bench& bench, std::string_view words) {
  const uint32_t step = next_number(&words);
  cria_config config = {};
  config.context = 32;
  config.prefill_chunk = 4;
  const cria_source source = source_of(bench);
  size_t refused = 0;
  for (config.source_is_mapped = 0; config.source_is_mapped < 2; ++config.source_is_mapped) {
    const cria_memory_plan plan = plan_of(bench, config);
    const auto total = static_cast<size_t>(plan.total);
    cria_instance cria = {};
    for (size_t n = 0; n < total; n = n + step < total || n + 1 == total ? n + step : total - 1) {
      const cria_status status = cria_open(bench.arena.data(), n, &source, &config, &cria);
      if (status != CRIA_MEMORY_TOO_SMALL || cria.model != nullptr || cria.session != nullptr ||
          cria.workspace != nullptr) {
        fail("too small was not noticed");
      }
      ++refused;
    }
    need(cria_open(bench.arena.data(), total, &source, &config, &cria));
    if (!is_as_planned(cria, plan)) fail("used is not what was planned");
  }
  print("sizes ", refused, "\n");
}

void check_flips(const Bench& bench, std::string_view words) {
  const uint32_t n_flips = next_number(&words);
  const uint32_t wanted = next_number(&words);
  const size_t n_bytes = wanted != 0 ? wanted : bench.model.size();
  cria_config config = {};
  config.prefill_chunk = 16;
  config.context = 64;
  const cria_source source = source_of(bench);
  size_t opened = 0;
  for (uint32_t i = 0; i < n_flips; ++i) {
    // An odd multiplier spreads the bits over the bytes, each number once.
    const size_t bit = static_cast<size_t>(uint64_t{i} * 2654435761u % (n_bytes * 8));
    const auto mask = static_cast<uint8_t>(1u << bit % 8);
    bench.model[bit / 8] ^= mask;
    const cria_status seen = cria_verify(&source, bench.work.data(), CRIA_VERIFY_SCRATCH_BYTES,
                                         nullptr, nullptr, nullptr);
    if (seen == CRIA_OK) fail("a flipped bit was not noticed");
    config.source_is_mapped = static_cast<uint8_t>(i % 2);
    cria_instance cria = {};
    if (cria_open(bench.arena.data(), bench.arena.size(), &source, &config, &cria) == CRIA_OK) {
      ++opened;
      use(cria);
    }
    bench.model[bit / 8] ^= mask;
  }
  need(cria_verify(&source, bench.work.data(), CRIA_VERIFY_SCRATCH_BYTES, nullptr, nullptr,
                   nullptr));
  print("flips ", n_flips, ", noticed ", n_flips, ", harmless to open ", opened, "\n");
}

void check_generation(const Bench& bench, std::string_view words) {
  const uint32_t n_tokens = next_number(&words);
  cria_config config = {};
  config.prefill_chunk = 16;
  const cria_instance cria = open_model(bench, config);
  const cria_sampling sampling = test::sampling_of(0.8f, 0.95f, 0.05f, 1.1f, 40);
  cria_text_state state = {};
  static char text[CRIA_TEXT_BYTES];
  use(cria);
  for (uint32_t i = 0; i < n_tokens; ++i) {
    uint32_t token = 0;
    size_t n = 0;
    need(cria_sample(cria.workspace, cria.session, &sampling, &token));
    need(cria_decode_token(cria.model, &state, token, text, sizeof text, &n));
    need(cria_prefill(cria.workspace, cria.session, &token, 1));
  }
  const size_t n_bytes = cria_state_size(cria.session);
  if (n_bytes > bench.work.size()) fail("the state is too large");
  need(cria_state_save(cria.session, bench.work.data(), n_bytes));
  need(cria_reset(cria.session, 0));
  need(cria_state_load(cria.session, bench.work.data(), n_bytes));
  print("tokens ", n_tokens, ", state ", n_bytes, " bytes, no heap\n");
}

void check_overflow(const Bench& /*bench*/, std::string_view /*words*/) {
  print("depth ", deeper(0), "\n");
}

void check_heap_trap(const Bench& /*bench*/, std::string_view /*words*/) {
  void* volatile memory = std::malloc(16);
  print(memory != nullptr ? "a heap answered\n" : "a heap refused\n");
}

}  // namespace cria::firmware_test
