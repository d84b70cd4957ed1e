// Changes a request's body by its JSON, or by its text, which alone can hold what a parser's
// objects cannot: a member twice, members and elements by the thousand, brackets as deep as the
// limits.
#include <cstring>
#include <string>

#include "tests/fuzz/json_mutation.h"
#include "tests/fuzz/mutator.h"

namespace cria::fuzz {
namespace {

constexpr const char* kWords[] = {"a",
                                  "b",
                                  "messages",
                                  "role",
                                  "user",
                                  "assistant",
                                  "content",
                                  "prompt",
                                  "tokens",
                                  "max_tokens",
                                  "n",
                                  "seed",
                                  "stop",
                                  "stream",
                                  "logit_bias",
                                  "logprobs",
                                  "top_logprobs",
                                  "response_format",
                                  "json_schema",
                                  "schema",
                                  "type",
                                  "text",
                                  "pattern",
                                  "^(()a{0}|b{256})*$",
                                  "temperature",
                                  "top_k",
                                  "ignore_eos",
                                  "n_probs",
                                  "model",
                                  "options",
                                  "num_predict",
                                  "format",
                                  "think",
                                  "keep_alive",
                                  "0s",
                                  "system",
                                  "raw",
                                  "images",
                                  "response_fields",
                                  "tools",
                                  "functions",
                                  "function",
                                  "name",
                                  "add",
                                  "description",
                                  " d\n",
                                  "parameters",
                                  "strict",
                                  "object",
                                  "integer",
                                  "properties",
                                  "required",
                                  "patternProperties",
                                  "tool_choice",
                                  "function_call",
                                  "auto",
                                  "none",
                                  "parallel_tool_calls",
                                  "tool_calls",
                                  "arguments",
                                  "{\"a\":1e999}",
                                  "{\"a\":\"\\ud800\"}",
                                  "id",
                                  "call_1",
                                  "tool",
                                  "tool_call_id",
                                  "tool_name",
                                  "reasoning_content",
                                  "input",
                                  "instructions",
                                  "call_id",
                                  "output",
                                  "function_call_output",
                                  "reasoning",
                                  "summary"};

// How often: mostly a few times, at times more than the limits of values and depth allow.
uint32_t some_times(RandomChoice* random) {
  constexpr uint32_t kTimes[] = {1, 2, 3, 10, 64, 127, 128, 129, 1000, 8000, 65536, 65537};
  return random->of(kTimes);
}

std::string nested(RandomChoice* random) {
  const uint32_t depth = some_times(random) % 1000;
  std::string text;
  std::string ends;
  const bool has_names = random->one_in(2);
  for (uint32_t i = 0; i < depth; ++i) {
    text += has_names ? "{\"a\":" : "[";
    ends += has_names ? '}' : ']';
  }
  return text + "0" + ends;
}

std::string some_value(RandomChoice* random) {
  constexpr const char* kValues[] = {"0",
                                     "-1",
                                     "1.5",
                                     "null",
                                     "true",
                                     "\"\"",
                                     "\"a\"",
                                     "[]",
                                     "{}",
                                     "[1,20]",
                                     "[[],[[]]]",
                                     "{\"a\":{}}",
                                     "\"\\u0000\"",
                                     "\"\\ud83e\\udd99\"",
                                     "{\"type\":\"text\",\"text\":\"a\"}",
                                     "{\"role\":\"user\",\"content\":\"a\"}"};
  return random->one_in(5) ? nested(random) : random->of(kValues);
}

std::string some_name(RandomChoice* random, uint32_t i, bool is_always_the_same) {
  if (is_always_the_same) return {};
  return random->one_in(64) ? "\\u0061" + std::to_string(i) : std::to_string(i);
}

// Members or elements, as many as there is room for, in an object or list of the text.
void repeat_in_place(RandomChoice* random, size_t room, std::string* text) {
  const size_t begin = text->find_first_of("{[", random->below(text->size() + 1));
  if (begin == std::string::npos) return;
  const bool has_names = (*text)[begin] == '{';
  const bool is_same_name = random->one_in(2);
  const std::string name = random->of(kWords);
  const std::string value = some_value(random);
  std::string added;
  for (uint32_t n = some_times(random), i = 0; i < n; ++i) {
    std::string one;
    if (has_names) one = '"' + name + some_name(random, i, is_same_name) + "\":";
    one += value;
    one += ',';
    if (added.size() + one.size() > room) break;
    added += one;
  }
  const size_t next = text->find_first_not_of(" \n\r\t", begin + 1);
  const bool is_last = next == std::string::npos || (*text)[next] == '}' || (*text)[next] == ']';
  if (is_last && !added.empty()) added.pop_back();
  text->insert(begin + 1, added);
}

}  // namespace
}  // namespace cria::fuzz

size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  using namespace cria::fuzz;
  RandomChoice random(seed);
  const uint32_t choice = random.below(6);
  std::string text(reinterpret_cast<const char*>(data), size);
  if (choice < 3) {
    text = changed_json(text, kWords, &random);
  } else if (choice < 5 && size < max_size) {
    repeat_in_place(&random, max_size - size, &text);
  }
  if (text.size() > max_size || text == std::string_view(reinterpret_cast<char*>(data), size)) {
    return LLVMFuzzerMutate(data, size, max_size);
  }
  std::memcpy(data, text.data(), text.size());
  return text.size();
}
