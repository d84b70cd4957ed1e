// Changes the parts of chat_template_fuzz by words of Jinja and of the templates that are known.
#include <cstring>
#include <iterator>

#include "tests/fuzz/folder_input.h"
#include "tests/fuzz/mutator.h"
#include "tests/fuzz/random_choice.h"

namespace cria::fuzz {
namespace {

constexpr const char* kWords[] = {"{{",
                                  "}}",
                                  "{%",
                                  "%}",
                                  "{#",
                                  "#}",
                                  "{{-",
                                  "-%}",
                                  "'",
                                  "\"",
                                  "\\",
                                  "\\n",
                                  "bos_token",
                                  "eos_token",
                                  "message['content']",
                                  "message['role']",
                                  "content",
                                  " + ",
                                  "+",
                                  "| trim",
                                  "| tojson",
                                  "message.tool_calls",
                                  "message.reasoning_content",
                                  "tool_call.function.arguments",
                                  "tools",
                                  "{\"name\": \"f\", \"x\": [1, null]}",
                                  "{\"type\":\"function\",\"function\":{\"name\":\"f\"}}",
                                  ".strip()",
                                  "add_generation_prompt",
                                  "<|start_header_id|>",
                                  "<|end_header_id|>",
                                  "<|eot_id|>",
                                  "<|begin_of_text|>",
                                  "Cutting Knowledge Date: December 2023",
                                  "<|im_start|>",
                                  "<|im_start|>system\\n",
                                  "<|im_start|>system\n",
                                  "<|im_end|>",
                                  "<|im_sep|>",
                                  "<|start_of_role|>",
                                  "<|end_of_role|>",
                                  "<|end_of_text|>",
                                  "Knowledge Cutoff Date: April 2024",
                                  "Today's Date",
                                  "<|user|>\\n'+message['content']+eos_token",
                                  "<|assistant|>",
                                  "[INST]",
                                  "[/INST]",
                                  "'[INST] '",
                                  "' [/INST]'",
                                  "<<SYS>>",
                                  "[SYSTEM_PROMPT]",
                                  "bos_token+'[INST]",
                                  "+' '+eos_token",
                                  "eos_token+' '",
                                  "' '+message['content']",
                                  "content.strip()+' [/INST]'",
                                  " ",
                                  "\n",
                                  "\xC2\xA0",
                                  "\xF0\x9F\xA6\x99",
                                  "\xFF"};
constexpr const char* kNames[] = {"template",  "bos",  "eos",      "system", "user",
                                  "assistant", "tool", "thinking", "call",   "function"};

void change_bytes(std::string* bytes) {
  constexpr size_t kMoreBytes = 64;
  const size_t n = bytes->size();
  bytes->resize(n + kMoreBytes);
  bytes->resize(LLVMFuzzerMutate(reinterpret_cast<uint8_t*>(bytes->data()), n, bytes->size()));
}

void change(RandomChoice* random, std::vector<InputPart>* parts) {
  constexpr size_t kMostGrowth = 2000;
  if (parts->empty() || random->one_in(16)) {
    parts->push_back({random->of(kNames), random->of(kWords)});
    return;
  }
  const size_t which = random->below(parts->size());
  std::string* const bytes = &(*parts)[which].bytes;
  const size_t place = random->below(bytes->size() + 1);
  switch (random->below(8)) {
    case 0:
      parts->erase(parts->begin() + static_cast<std::ptrdiff_t>(which));
      return;
    case 1:
      bytes->erase(place, random->below(32));
      return;
    case 2: {
      const std::string piece = bytes->substr(place, 1 + random->below(40));
      for (uint32_t n = random->below(40); n > 0 && piece.size() * n < kMostGrowth; --n) {
        bytes->insert(place, piece);
      }
      return;
    }
    case 3:
      return change_bytes(bytes);
    default:
      bytes->insert(place, random->of(kWords));
  }
}

}  // namespace
}  // namespace cria::fuzz

size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  using namespace cria::fuzz;
  RandomChoice random(seed);
  std::vector<InputPart> parts = split_parts({reinterpret_cast<const char*>(data), size});
  for (uint32_t n = 1 + random.below(4); n > 0; --n) change(&random, &parts);
  const std::string input = join_parts(parts);
  if (input.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::memcpy(data, input.data(), input.size());
  return input.size();
}
