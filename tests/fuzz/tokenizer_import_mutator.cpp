// Changes the files of tokenizer_import_fuzz: JSON by its structure, the rest by bytes.
#include <cstring>
#include <iterator>

#include "tests/fuzz/folder_input.h"
#include "tests/fuzz/json_mutation.h"
#include "tests/fuzz/mutator.h"

namespace cria::fuzz {
namespace {

constexpr const char* kWords[] = {"type",
                                  "BPE",
                                  "ByteLevel",
                                  "Metaspace",
                                  "Sequence",
                                  "Split",
                                  "Digits",
                                  "Prepend",
                                  "Replace",
                                  "NFC",
                                  "TemplateProcessing",
                                  "ByteFallback",
                                  "Fuse",
                                  "Strip",
                                  "pattern",
                                  "Regex",
                                  "String",
                                  "content",
                                  "id",
                                  "special",
                                  "normalized",
                                  "lstrip",
                                  "rstrip",
                                  "single_word",
                                  "vocab",
                                  "merges",
                                  "added_tokens",
                                  "unk_token",
                                  "byte_fallback",
                                  "fuse_unk",
                                  "ignore_merges",
                                  "add_prefix_space",
                                  "prepend_scheme",
                                  "first",
                                  "always",
                                  "never",
                                  "bos_token",
                                  "eos_token",
                                  "chat_template",
                                  "add_bos_token",
                                  "add_eos_token",
                                  "added_tokens_decoder",
                                  "<|im_start|>",
                                  "<|im_end|>",
                                  "<|start_header_id|>",
                                  "<|end_header_id|>",
                                  "[INST]",
                                  "[/INST]",
                                  "()",
                                  "(?:)*",
                                  "a{0}",
                                  "(a{256}){256}"};
constexpr const char* kNames[] = {"tokenizer.json",
                                  "tokenizer_config.json",
                                  "added_tokens.json",
                                  "special_tokens_map.json",
                                  "chat_template.json",
                                  "chat_template.jinja",
                                  "tokenizer.model",
                                  "vocab",
                                  "text"};

void change_bytes(std::string* bytes) {
  constexpr size_t kMoreBytes = 64;
  const size_t n = bytes->size();
  bytes->resize(n + kMoreBytes);
  bytes->resize(LLVMFuzzerMutate(reinterpret_cast<uint8_t*>(bytes->data()), n, bytes->size()));
}

void change(RandomChoice* random, std::vector<InputPart>* parts) {
  if (parts->empty() || random->one_in(20)) {
    parts->push_back({random->of(kNames), random->one_in(2) ? "{}" : ""});
    return;
  }
  const size_t which = random->below(parts->size());
  InputPart* const part = &(*parts)[which];
  if (random->one_in(30)) {
    parts->erase(parts->begin() + static_cast<std::ptrdiff_t>(which));
  } else if (random->one_in(40)) {
    part->name = random->of(kNames);
  } else if (part->bytes.starts_with('{') && !random->one_in(6)) {
    part->bytes = changed_json(part->bytes, kWords, random);
  } else {
    change_bytes(&part->bytes);
  }
}

}  // namespace
}  // namespace cria::fuzz

size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  using namespace cria::fuzz;
  RandomChoice random(seed);
  std::vector<InputPart> parts = split_parts({reinterpret_cast<const char*>(data), size});
  for (uint32_t n = 1 + random.below(2); n > 0; --n) change(&random, &parts);
  const std::string input = join_parts(parts);
  if (input.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::memcpy(data, input.data(), input.size());
  return input.size();
}
