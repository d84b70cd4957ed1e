// The tokenizer files of a hostile checkpoint (tests/fuzz/folder_input.h), imported as cria-convert
// does. What is not refused must be what the runtime takes, and safe.
//
// Parts beside the files: vocab (the model's vocabulary size) and text (what is encoded).
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <string>

#include "converter/tokenizer_import.h"
#include "tests/fuzz/folder_input.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/noted_models.h"
#include "tests/fuzz/reader_trial.h"
#include "tests/fuzz/time_limit.h"
#include "tests/fuzz/tokenizer_promises.h"

namespace cria::fuzz {
namespace {

constexpr const char* kFiles[] = {
    "tokenizer.json",     "tokenizer_config.json", "added_tokens.json", "special_tokens_map.json",
    "chat_template.json", "chat_template.jinja",   "tokenizer.model"};

void try_import(const converter::ImportedTokenizer& imported, uint32_t vocab_size,
                std::string_view text) {
  Tokenizer tokenizer = {};
  expect(tokenizer_open(imported.tokenizer_section, vocab_size, &tokenizer) == Status::kOk,
         "the runtime takes every tokenizer that the converter makes");
  ChatTemplate chat = {};
  expect(imported.chat_section.empty() ||
             chat_template_open(imported.chat_section, &chat) == Status::kOk,
         "the runtime takes every chat template that the converter makes");
  expect(imported.bos_token.value_or(0) < vocab_size, "BOS is of the vocabulary");
  for (const uint32_t token : imported.end_tokens) {
    expect(token < vocab_size, "end tokens are of the vocabulary");
  }
  note_sections(imported.tokenizer_section, imported.chat_section);
  expect_safe_text(tokenizer, imported.end_tokens, text);
  expect_safe_token_texts(tokenizer, imported.end_tokens, text);
}

}  // namespace

int fuzz_one(const uint8_t* data, size_t size) {
  const std::vector<InputPart> parts = split_parts({reinterpret_cast<const char*>(data), size});
  for (const char* name : kFiles) {
    std::error_code ignored;
    std::filesystem::remove(memory_folder() / name, ignored);
    for (const InputPart& part : parts) {
      if (part.name == name) write_bytes(memory_folder() / name, part.bytes);
    }
  }
  const std::string vocab(part_named(parts, "vocab"));
  const auto vocab_size = static_cast<uint32_t>(std::strtoul(vocab.c_str(), nullptr, 10));
  const uint32_t most = vocab_size == 0 || vocab_size > format::kMaxVocab ? 4096 : vocab_size;
  refuses_or([&] {
    // The limit is the import's: what the promises encode afterwards may search long tokens at each
    // of their bytes.
    const auto imported = [&] {
      const TimeLimit limit(size);
      return converter::import_tokenizer(memory_folder(), most);
    }();
    try_import(imported, most, part_named(parts, "text"));
  });
  return 0;
}

}  // namespace cria::fuzz
