// Reads the tokenizer and chat template of a checkpoint folder and builds the two file sections of
// quant/text/tokenizer_format.h and quant/text/chat_template_format.h.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "converter/options.h"
#include "converter/tokenizer_config.h"
#include "converter/tokenizer_tables.h"

namespace cria::converter {

struct ImportedTokenizer {
  std::vector<uint8_t> tokenizer_section;
  std::vector<uint8_t> chat_section;  // empty: no template, or one that it cannot express
  std::optional<uint32_t> bos_token;
  std::vector<uint32_t> end_tokens;   // the config's, else the tokenizer's own (eos_token), and
                                      // the chat template's
  std::string tokenizer_name;         // for the report: "byte-level BPE, 128256 tokens, llama3"
  std::string chat_name;              // of format::kChatTemplateNames
  std::string chat_jinja;             // the template itself, also one that could not be stored
  std::string chat_tools_problem;     // of ImportedChatTemplate
  std::vector<std::string> warnings;  // one line each, for stderr
};

// Takes tokenizer.json when the folder has one, else tokenizer.model (SentencePiece, or Llama 3's
// of tiktoken); the chat template from tokenizer_config.json, chat_template.jinja or
// chat_template.json. End tokens and the template's tokens become special, whatever the tokenizer's
// files say.
//   vocab_size  the model's
//   end_tokens  of the checkpoint's config; empty: it names none
//   chat_choice   the template to take instead of the checkpoint's; null: its own
// Throws ProgramError: no tokenizer (the line names --no-tokenizer), an unsupported kind, a broken
// file, more tokens than the model has, tables that the runtime would refuse.
[[nodiscard]] ImportedTokenizer import_tokenizer(const std::filesystem::path& folder,
                                                 uint32_t vocab_size,
                                                 std::span<const uint32_t> end_tokens = {},
                                                 const ChatTemplateChoice* chat_choice = nullptr);
// The same of a tokenizer that has been read. path is of the file or folder, for error lines.
[[nodiscard]] ImportedTokenizer import_tokenizer(TokenizerModel model,
                                                 const TokenizerConfig& config,
                                                 const std::filesystem::path& path,
                                                 uint32_t vocab_size,
                                                 std::span<const uint32_t> end_tokens,
                                                 const ChatTemplateChoice* chat_choice);

}  // namespace cria::converter
