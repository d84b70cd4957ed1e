// A conversation over the console of a board without an operating system.
#include <string_view>

#include <cria.h>
#include "platforms/cortex_m/console.h"
#include "platforms/cortex_m/dialogue.h"
#include "platforms/cortex_m/memory_map.h"
#include "platforms/cortex_m/model_bytes.h"

namespace cria::cortex_m {
namespace {

constexpr char kHelp[] =
    "/new     forget the conversation\n"
    "/greedy  always the likeliest token\n"
    "/sample  draw tokens\n"
    "/seed N  restart the random numbers\n"
    "/memory  what was planned and used\n"
    "/quit    leave\n";

constexpr cria_sampling kGreedy = {};
constexpr cria_sampling kSample = {.biases = nullptr,
                                   .n_biases = 0,
                                   .repeat_penalty = 1,
                                   .frequency_penalty = 0,
                                   .presence_penalty = 0,
                                   .temperature = 0.8f,
                                   .top_k = 0,
                                   .top_p = 0.95f,
                                   .min_p = 0};

void check(cria_status status) {
  if (status != CRIA_OK) fail(cria_status_message(status));
}

cria_instance open_model(const cria_source& source) {
  cria_config config = {};
  config.source_is_mapped = 1;
  cria_model_info info;
  cria_memory_plan plan;
  check(cria_inspect(&source, &info));
  check(cria_plan(&info, &config, &plan));
  print("model: ", source.size, " bytes, arena: ", plan.total, " of ", arena().size(),
        " bytes, in place: ", plan.in_place, " bytes\n");
  cria_instance cria;
  check(cria_open(arena().data(), arena().size(), &source, &config, &cria));
  return cria;
}

void print_memory(const cria_instance& cria) {
  const size_t used = cria_model_bytes(cria.model) + cria_session_bytes(cria.session) +
                      cria_workspace_bytes(cria.workspace);
  print("arena used: ", used, " bytes, stack high water: ", stack_high_water(), " of ",
        stack_bytes(), " bytes, position: ", cria_position(cria.session), " of ",
        cria_context(cria.session), "\n");
}

int converse(const cria_instance& cria) {
  static Dialogue dialogue;
  static char line[Dialogue::kMostQuestionBytes];
  cria_sampling sampling = kGreedy;
  dialogue.start(cria);
  for (;;) {
    print("> ");
    std::string_view text;
    if (!read_line(line, &text) || text == "/quit") return 0;
    if (text == "/new") {
      dialogue.clear();
    } else if (text == "/greedy") {
      sampling = kGreedy;
    } else if (text == "/sample") {
      sampling = kSample;
    } else if (text.starts_with("/seed ")) {
      std::string_view words = text;
      static_cast<void>(take_word(&words));
      cria_seed(cria.session, number_of(words));
    } else if (text == "/memory") {
      print_memory(cria);
    } else if (text.starts_with("/")) {
      print(kHelp);
    } else if (!text.empty()) {
      const cria_status status = dialogue.answer(text, sampling);
      print("\n");
      if (status != CRIA_OK) print("(", cria_status_message(status), ")\n");
    }
  }
}

}  // namespace
}  // namespace cria::cortex_m

int main() {
  using namespace cria::cortex_m;
  const std::span<const uint8_t> bytes = model_bytes();
  const cria_source source = flash_source(&bytes);
  return converse(open_model(source));
}
