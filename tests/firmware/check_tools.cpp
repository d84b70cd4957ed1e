// A conversation with a tool on the device: a prompt, a call held to the tool, a reader of calls.
#include <algorithm>
#include <cstring>

#include <cria_call_grammar.h>
#include <cria_calls.h>
#include "platforms/cortex_m/console.h"
#include "tests/firmware/device_checks.h"

namespace cria::firmware_test {

using cortex_m::fail;
using cortex_m::print;

namespace {

constexpr size_t kMostTokens = 512;
constexpr size_t kHoldBytes = 4096;

cria_text text_of(std::string_view text) { return {text.data(), text.size()}; }

// Takes 64-byte aligned memory from the front of what is left.
void* take(std::span<uint8_t>* memory, size_t n_bytes) {
  if (n_bytes > memory->size()) fail("no spare memory");
  uint8_t* const taken = memory->data();
  *memory = memory->subspan(std::min(memory->size(), (n_bytes + 63) / 64 * 64));
  return taken;
}

void print_tokens(std::string_view name, std::span<const uint32_t> tokens) {
  print(name);
  for (const uint32_t token : tokens) print(" ", token);
  print("\n");
}

void tell(void* /*context*/, const cria_calls_event* event) {
  const std::string_view text(event->text, event->n_bytes);
  if (event->kind == CRIA_CALLS_BEGIN) print("call ", text, " ");
  if (event->kind == CRIA_CALLS_ARGUMENTS) print(text);
  if (event->kind == CRIA_CALLS_END) print("\n");
}

// One answer: what its calls are held to, and who reads them.
struct Answer {
  cria_instance cria;
  cria_call_grammar* grammar;
  cria_call_state state;
  cria_calls* reader;
  cria_text_state text;
};

void take_token(Answer* answer, uint32_t token) {
  need(cria_call_grammar_accept(answer->grammar, &answer->state, token));
  need(cria_prefill(answer->cria.workspace, answer->cria.session, &token, 1));
  char piece[256];
  size_t n_bytes = 0;
  need(cria_decode_token(answer->cria.model, &answer->text, token, piece, sizeof piece, &n_bytes));
  need(cria_calls_read(answer->reader, piece, n_bytes, tell, nullptr));
}

Answer make_answer(const cria_instance& cria, std::string_view tools, std::string_view opened,
                   std::span<uint8_t> memory) {
  Answer answer = {cria, nullptr, {}, nullptr, {}};
  answer.text.show_special = 1;
  cria_call_order order = {};
  order.format = cria_call_format(cria.model, &order.n_format);
  order.tools = tools.data();
  order.n_tools = tools.size();
  order.choice = CRIA_TOOLS_REQUIRED;
  order.one_call = 1;
  size_t n = 0;
  need(cria_json_vocabulary_required(cria.model, &n));
  cria_json_vocabulary* vocabulary = nullptr;
  need(cria_json_make_vocabulary(take(&memory, n), n, cria.model, &vocabulary));
  need(cria_call_grammar_required(vocabulary, &order, &n, nullptr));
  need(cria_call_grammar_make(take(&memory, n), n, vocabulary, &order, &answer.grammar, nullptr));
  need(cria_call_grammar_begin(answer.grammar, opened.data(), opened.size(), &answer.state));
  need(cria_calls_required(order.format, order.n_format, tools.data(), tools.size(), kHoldBytes,
                           &n));
  need(cria_calls_make(take(&memory, n), n, order.format, order.n_format, tools.data(),
                       tools.size(), kHoldBytes, &answer.reader));
  need(cria_calls_begin(answer.reader, opened.data(), opened.size()));
  return answer;
}

void make_call(Answer* answer) {
  const cria_sampling greedy = {};
  while (cria_call_grammar_progress_of(answer->grammar, &answer->state) != CRIA_CALL_CLOSED) {
    need(cria_call_grammar_mask(answer->grammar, &answer->state,
                                const_cast<float*>(cria_logits(answer->cria.session)),
                                cria_vocab_size(answer->cria.model)));
    uint32_t token = 0;
    need(cria_sample(answer->cria.workspace, answer->cria.session, &greedy, &token));
    if (cria_is_end_token(answer->cria.model, token) != 0) break;
    take_token(answer, token);
  }
  cria_calls_ending ending = CRIA_CALLS_STOPPED;
  need(cria_calls_finish(answer->reader, CRIA_CALLS_STOPPED, tell, nullptr, &ending));
}

}  // namespace

void check_tools(const Bench& bench, std::string_view words) {
  cria_config config = {};
  config.source_is_mapped = 1;
  config.max_text_bytes = 4096;
  const cria_instance cria = open_model(bench, config);
  const std::string_view tool = cortex_m::take_word(&words);
  const std::string_view name = cortex_m::take_word(&words);
  const std::string_view arguments = cortex_m::take_word(&words);
  const std::string_view result = cortex_m::take_word(&words);
  const cria_text tools[] = {text_of(tool)};
  const cria_call call = {text_of(name), text_of(arguments), {}};
  const cria_message messages[] = {{CRIA_USER, words.data(), words.size()},
                                   {CRIA_ASSISTANT, nullptr, 0},
                                   {CRIA_TOOL, result.data(), result.size()}};
  const cria_message_parts parts[] = {
      {}, {{}, &call, 1, {}, {}}, {{}, nullptr, 0, text_of(name), {}}};
  cria_conversation said = {messages, 3, CRIA_TURN_OPENED, CRIA_THINKING_DEFAULT, parts, tools, 1};
  if (const char* const refusal = cria_chat_refusal(cria.workspace, &said)) {
    print("refused ", std::string_view(refusal), "\n");
    return;
  }
  static uint32_t tokens[kMostTokens];
  size_t n_tokens = 0;
  need(cria_encode_chat(cria.workspace, &said, 0, tokens, kMostTokens, &n_tokens));
  print_tokens("prompt", {tokens, n_tokens});

  said.n_messages = 1;
  need(cria_encode_chat(cria.workspace, &said, 0, tokens, kMostTokens, &n_tokens));
  need(cria_prefill(cria.workspace, cria.session, tokens, n_tokens));
  static char text[kMostTokens];
  size_t n_opened = 0;
  need(cria_chat_opening(cria.workspace, &said, text, sizeof text, &n_opened));
  static char list[1024];
  if (tool.size() + 2 > sizeof list) fail("the tool is too long");
  list[0] = '[';
  std::memcpy(list + 1, tool.data(), tool.size());
  list[tool.size() + 1] = ']';
  Answer answer = make_answer(cria, {list, tool.size() + 2}, {text, n_opened}, bench.work);
  make_call(&answer);
}

}  // namespace cria::firmware_test
