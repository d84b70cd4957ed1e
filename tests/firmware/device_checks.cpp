// The program that runs on the device: the command line says "model ADDRESS BYTES CHECK ARGUMENTS".
#include "tests/firmware/device_checks.h"

#include "platforms/cortex_m/console.h"
#include "platforms/cortex_m/memory_map.h"
#include "platforms/cortex_m/model_bytes.h"
#include "platforms/cortex_m/semihosting.h"

namespace cria::firmware_test {

using cortex_m::fail;
using cortex_m::print;

namespace {

struct Check {
  std::string_view name;
  void (*run)(const Bench& bench, std::string_view words);
};

constexpr Check kChecks[] = {
    {"bits", check_bits},       {"greedy", check_greedy},     {"plan", check_plan},
    {"sweep", check_sweep},     {"flips", check_flips},       {"generate", check_generation},
    {"heap", check_heap_trap},  {"overflow", check_overflow}, {"refused", check_refusal},
    {"prefill", check_prefill}, {"kernels", check_kernels},   {"guards", check_guards},
    {"files", check_files},     {"states", check_states},     {"sessions", check_sessions},
    {"tools", check_tools},
};

Bench make_bench() {
  const std::span<const uint8_t> model = cortex_m::model_bytes();
  Bench bench = {};
  bench.model = {const_cast<uint8_t*>(model.data()), model.size()};  // loaded into RAM
  bench.arena = cortex_m::arena();
  bench.work = cortex_m::spare_memory();
  return bench;
}

const void* map(void* context, uint64_t offset, size_t /*n_bytes*/) {
  return static_cast<const Bench*>(context)->model.data() + offset;
}

}  // namespace

void need(cria_status status) {
  if (status != CRIA_OK) fail(cria_status_message(status));
}

cria_source source_of(const Bench& bench) {
  return {const_cast<Bench*>(&bench), bench.model.size(), map, nullptr};
}

cria_instance open_model(const Bench& bench, const cria_config& config) {
  const cria_source source = source_of(bench);
  cria_instance cria = {};
  need(cria_open(bench.arena.data(), bench.arena.size(), &source, &config, &cria));
  return cria;
}

uint32_t next_number(std::string_view* words) {
  return static_cast<uint32_t>(cortex_m::number_of(cortex_m::take_word(words)));
}

void run(std::string_view words) {
  const Bench bench = make_bench();
  for (size_t i = 0; i < 3; ++i) static_cast<void>(cortex_m::take_word(&words));  // the model
  const std::string_view name = cortex_m::take_word(&words);
  for (const Check& check : kChecks) {
    if (check.name != name) continue;
    check.run(bench, words);
    print("stack ", cortex_m::stack_high_water(), "\ndone\n");
    return;
  }
  fail("no such check");
}

}  // namespace cria::firmware_test

int main() {
  static char line[1024];
  cria::cortex_m::read_command_line(line, sizeof line);
  std::string_view words = line;
  // qemu puts the image's path in front.
  while (!words.empty() && !words.starts_with("model ")) {
    static_cast<void>(cria::cortex_m::take_word(&words));
  }
  cria::firmware_test::run(words);
  return 0;
}
