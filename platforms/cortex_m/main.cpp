// A conversation over the console of a board without an operating system.
#include <string_view>

#include <cria_chat.h>
#include "platforms/cortex_m/console.h"
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

// The messages of the conversation: as many as a small board has memory for.
constexpr cria_chat_config kChat = {
    .max_messages = 32, .max_text_bytes = 8192, .exact_context = 0, .reserved = {}};
constexpr size_t kMostChatBytes = 24 * 1024;
constexpr size_t kMostQuestionBytes = 512;

cria_chat* make_chat(const cria_instance& cria) {
  alignas(64) static uint8_t memory[kMostChatBytes];
  size_t n_bytes = 0;
  cria_chat* chat = nullptr;
  check(cria_chat_required(cria.session, &kChat, &n_bytes));
  if (n_bytes > sizeof memory) fail("the context is too long for the memory of the conversation");
  check(cria_chat_make(memory, sizeof memory, cria.workspace, cria.session, &kChat, &chat));
  return chat;
}

int print_text(void* /*context*/, uint32_t /*token*/, const char* text, size_t n_bytes) {
  print(std::string_view(text, n_bytes));
  return 0;
}

void answer(const cria_instance& cria, cria_chat* chat, std::string_view question,
            const cria_sampling& sampling) {
  const cria_chat_options options = {.sampling = sampling,
                                     .max_tokens = 0,
                                     .reserved = 0,
                                     .on_text = print_text,
                                     .context = nullptr};
  cria_chat_result result;
  const cria_status status =
      cria_chat_answer(chat, cria.workspace, question.data(), question.size(), &options, &result);
  if (status == CRIA_NOTHING_TO_SAMPLE) print("(no token stands for this)");
  print("\n");
  if (status != CRIA_OK && status != CRIA_NOTHING_TO_SAMPLE) {
    print("(", cria_status_message(status), ")\n");
  }
}

int converse(const cria_instance& cria) {
  static char line[kMostQuestionBytes];
  cria_chat* chat = make_chat(cria);
  cria_sampling sampling = kGreedy;
  for (;;) {
    print("> ");
    std::string_view text;
    if (!read_line(line, &text) || text == "/quit") return 0;
    if (text == "/new") {
      check(cria_chat_begin(chat, nullptr, 0));
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
      answer(cria, chat, text, sampling);
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
