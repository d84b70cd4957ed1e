#include "converter/tokenizer_import.h"

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>

#include "converter/broken_rule.h"
#include "converter/byte_span.h"
#include "converter/chat_template/form_import.h"
#include "converter/error.h"
#include "converter/joined_tokens.h"
#include "converter/sentencepiece_model.h"
#include "converter/side_files.h"
#include "converter/text_table.h"
#include "converter/tiktoken_model.h"
#include "converter/tokenizer_config.h"
#include "converter/tokenizer_json.h"
#include "converter/tokenizer_tables.h"
#include "quant/text/template_tokens.h"
#include "quant/text/tokenizer_check.h"

namespace cria::converter {
namespace {

namespace fs = std::filesystem;
using format::kNone;
using format::TokenizerKind;

// Tokens with ids of their own that the files beside it give to pieces under another text.
void rename_pieces(const TokenizerConfig& config, SentencePieceModel* source) {
  TextTable texts;
  const std::vector<SentencePiece> pieces = source->pieces;
  for (uint32_t id = 0; id < pieces.size(); ++id) (void)texts.insert(pieces[id].text, id);
  for (const AddedToken& added : config.listed) {
    if (added.id >= pieces.size() || added.text.empty() || texts.find(added.text)) continue;
    SentencePiece& piece = source->pieces[added.id];
    if (piece.type == PieceType::kByte) continue;
    piece = {added.text, 0, added.special ? PieceType::kControl : PieceType::kUserDefined};
  }
}

// Adds what the files beside a model name; the model's own added tokens keep what it says of them.
void join_to_model(const TokenizerConfig& config, TokenizerModel* model) {
  std::vector<AddedToken> own;
  TextTable vocabulary;
  for (uint32_t id = 0; id < model->tokens.size(); ++id) {
    const TokenizerToken& token = model->tokens[id];
    if ((token.flags & format::kTokenByte) != 0) continue;
    (void)vocabulary.insert(token.text, id);
    if ((token.flags & format::kTokenAdded) == 0) continue;
    AddedToken added;
    added.id = id;
    added.text = token.text;
    added.special = (token.flags & format::kTokenSpecial) != 0;
    own.push_back(std::move(added));
  }
  const BaseVocabulary base = {vocabulary, static_cast<uint32_t>(model->tokens.size())};
  for (const AddedToken& added :
       join_added_tokens(own, true, base, config, model->where, &model->warnings)) {
    add_token(added, model);
  }
}

TokenizerModel read_sentencepiece(std::span<const uint8_t> bytes, const std::string& where,
                                  const TokenizerConfig& config) {
  SentencePieceModel source = parse_sentencepiece_model(bytes, where);
  rename_pieces(config, &source);
  return tokenizer_from_sentencepiece(source, where);
}

// tokenizer.model, which is of SentencePiece or of tiktoken.
TokenizerModel read_tokenizer_model(const fs::path& folder, const TokenizerConfig& config) {
  const std::string path = side_file_path(folder, SideFile::kTokenizerModel).string();
  const std::string text = read_side_file(folder, SideFile::kTokenizerModel);
  const std::span<const uint8_t> bytes = bytes_of(text);
  TokenizerModel model =
      is_tiktoken_file(bytes)
          ? tokenizer_from_llama3_ranks(parse_tiktoken_file(text, path), config.listed, path)
          : read_sentencepiece(bytes, path, config);
  model.where = folder.string();  // added tokens come from other files
  join_to_model(config, &model);
  const auto named = [&](const char* name, uint32_t otherwise) {
    const std::string token = config.text_of(name);
    return token.empty() ? otherwise : model.find(token).value_or(otherwise);
  };
  model.bos_token = named("bos_token", model.bos_token);
  model.eos_token = named("eos_token", model.eos_token);
  if (config.add_bos.value_or(true) && model.bos_token != kNone) model.flags |= format::kAddBos;
  if (config.add_eos.value_or(false) && model.eos_token != kNone) model.flags |= format::kAddEos;
  return model;
}

TokenizerModel read_model(const fs::path& folder, const TokenizerConfig& config) {
  if (has_side_file(folder, SideFile::kTokenizerJson)) {
    return read_tokenizer_json(folder, config);
  }
  if (has_side_file(folder, SideFile::kTokenizerModel)) {
    return read_tokenizer_model(folder, config);
  }
  throw ProgramError(ExitCode::kInvalidInput,
                     folder.string() +
                         ": no tokenizer.json or tokenizer.model; put it there, or convert with "
                         "--no-tokenizer to do without");
}

// Tokens past the model's vocabulary can never be predicted. Checkpoints have been published with
// an added token too many, which is dropped; anything else means that the files do not belong
// together.
void fit_vocabulary(uint32_t vocab_size, const fs::path& folder, TokenizerModel* model,
                    std::vector<std::string>* warnings) {
  if (model->tokens.size() <= vocab_size) return;
  const auto needed = [&](uint32_t id) {
    return (model->flags & (format::kAddBos | format::kAddEos)) != 0 && id != kNone &&
           id >= vocab_size;
  };
  const bool only_added = std::all_of(
      model->tokens.begin() + vocab_size, model->tokens.end(), [](const TokenizerToken& token) {
        return token.text.empty() || (token.flags & format::kTokenAdded) != 0;
      });
  const auto id_fits = [&](uint32_t id) { return id == kNone || id < vocab_size; };
  if (!only_added || needed(model->bos_token) || needed(model->eos_token) ||
      !id_fits(model->unknown_token)) {
    throw ProgramError(ExitCode::kInvalidInput,
                       folder.string() + ": the tokenizer has " +
                           std::to_string(model->tokens.size()) + " tokens, the model " +
                           std::to_string(vocab_size) + "; they do not belong together");
  }
  warnings->push_back("added tokens from id " + std::to_string(vocab_size) +
                      " on are left out: the model's vocabulary ends there");
  model->tokens.resize(vocab_size);
  if (!id_fits(model->bos_token)) model->bos_token = kNone;
  if (!id_fits(model->eos_token)) model->eos_token = kNone;
  std::erase_if(model->merges, [&](const TokenizerMerge& merge) {
    return !id_fits(merge.left) || !id_fits(merge.right) || !id_fits(merge.result);
  });
}

std::string describe(const TokenizerModel& model) {
  const bool is_byte_level = model.kind == TokenizerKind::kByteLevelBpe;
  const std::string cut = model.pre_tokenizer_name.empty() ? "" : ", " + model.pre_tokenizer_name;
  return std::string(is_byte_level ? "byte-level BPE, " : "SentencePiece BPE, ") +
         std::to_string(model.tokens.size()) + " tokens" + cut +
         ((model.flags & format::kNfc) != 0 ? ", NFC" : "");
}

// The id of a token that the config names; kNone when it names none or there is none.
uint32_t find_named(const TokenizerModel& model, const std::string& name) {
  return name.empty() ? kNone : model.find(name).value_or(kNone);
}

std::string text_of(const TokenizerModel& model, uint32_t token) {
  return token == kNone ? std::string() : model.tokens[token].text;
}

constexpr const char* kTemplateAdvice = "--chat-template NAME or FILE.jinja takes another";
// A FILE.jinja would need it too.
constexpr const char* kJinjaAdvice =
    "install the package python3-jinja2 and convert again, or give --chat-template NAME";

// Whether there is a template that the file can store.
bool import_template(const TokenizerConfig& config, const ChatTemplateChoice* request,
                     const TokenizerModel& model, ImportedTokenizer* result) {
  result->chat_name = format::kChatTemplateNames[0];
  ChatTemplateSource source;
  source.kind = request == nullptr ? format::kChatKindOwn : request->kind;
  source.jinja = request == nullptr ? config.chat_template : request->jinja;
  if (request != nullptr && request->kind == 0) return false;
  if (source.jinja.empty() && source.kind < format::kChatKindNamed) {
    if (!config.warnings.empty() || request != nullptr) {
      result->warnings.push_back(
          "the checkpoint has no usable chat template: cria chat will not be available");
    }
    return false;
  }
  source.tokens = config.named;
  const auto add_token_text = [&](const char* name, uint32_t token) {
    if (config.text_of(name).empty() && token != kNone) source.tokens[name] = text_of(model, token);
  };
  add_token_text("bos_token", model.bos_token);
  add_token_text("eos_token", model.eos_token);
  ImportedChatTemplate imported = import_chat_template(source);
  result->chat_jinja = source.jinja;
  if (imported.section.empty()) {
    result->warnings.push_back("the chat template " + imported.problem +
                               ": cria chat will not be available; " +
                               (imported.lacks_jinja ? kJinjaAdvice : kTemplateAdvice));
    return false;
  }
  if (imported.has_fixed_date) {
    result->warnings.push_back(
        "the chat template writes a date in a way that the file cannot keep: it stays that of 26 "
        "July 2024, and --date cannot change it");
  }
  result->chat_name = format::kChatTemplateNames[source.kind];
  result->chat_section = std::move(imported.section);
  result->chat_tools_problem = std::move(imported.tools_problem);
  return true;
}

// Makes a token one that no text of a user becomes.
void make_control(uint32_t token, TokenizerModel* model) {
  if (token < model->tokens.size() && !model->tokens[token].text.empty()) {
    model->tokens[token].flags |= format::kTokenSpecial;
  }
  if (token == model->unknown_token) model->unknown_token = kNone;
}

bool is_byte(const TokenizerModel& model, uint32_t token) {
  const auto& bytes = model.byte_tokens;
  return std::find(bytes.begin(), bytes.end(), token) != bytes.end();
}

// The config's end tokens without those that are a byte of text: its default of 2, left as it was
// beside a tokenizer in which 2 is a letter.
std::vector<uint32_t> usable_ends(std::span<const uint32_t> ends, const TokenizerModel& model,
                                  std::vector<std::string>* warnings) {
  std::vector<uint32_t> usable;
  for (const uint32_t token : ends) {
    if (!is_byte(model, token)) {
      usable.push_back(token);
      continue;
    }
    warnings->push_back("eos_token_id " + std::to_string(token) + " is a single byte of text, '" +
                        shown(model.tokens[token].text) +
                        "', and ends no answer: the tokenizer's own end token does");
  }
  return usable;
}

// A control token is never made of text, so that the byte would be lost.
void check_is_no_byte(const fs::path& folder, const TokenizerModel& model, uint32_t token) {
  if (!is_byte(model, token)) return;
  throw ProgramError(ExitCode::kInvalidInput,
                     folder.string() + ": added token " + std::to_string(token) + " '" +
                         shown(model.tokens[token].text) +
                         "' is a single byte of text and is in the chat template, which would make "
                         "it a control token; remove it from the added tokens");
}

// Text of a user must not become what controls the conversation, whatever the tokenizer's files say
// about a token, and an answer ends where the template ends it.
void protect_template(const fs::path& folder, uint32_t vocab_size, TokenizerModel* model,
                      ImportedTokenizer* result) {
  const std::vector<uint8_t> section = build_tokenizer_section(*model);
  Tokenizer tokenizer = {};
  ChatTemplate chat = {};
  refuse_if(folder, "the tokenizer", check_tokenizer(section, vocab_size, &tokenizer));
  refuse_if(folder, "the chat template", check_chat_template(result->chat_section, &chat));
  visit_template_tokens(tokenizer, chat, [&](uint32_t token) {
    check_is_no_byte(folder, *model, token);
    make_control(token, model);
  });
  const uint32_t end = template_end_token(tokenizer, chat);
  std::vector<uint32_t>& ends = result->end_tokens;
  if (end == kNone) {
    result->warnings.push_back(
        "the chat template ends answers with plain text: they may run on to their maximum length");
  } else if (std::find(ends.begin(), ends.end(), end) == ends.end()) {
    result->warnings.push_back("the chat template ends answers with '" +
                               shown(model->tokens[end].text) +
                               "', which the config does not name: it ends them too");
    ends.push_back(end);
  }
}

}  // namespace

ImportedTokenizer import_tokenizer(const fs::path& folder, uint32_t vocab_size,
                                   std::span<const uint32_t> end_tokens,
                                   const ChatTemplateChoice* chat_choice) {
  const TokenizerConfig config = read_tokenizer_config(folder);
  return import_tokenizer(read_model(folder, config), config, folder, vocab_size, end_tokens,
                          chat_choice);
}

ImportedTokenizer import_tokenizer(TokenizerModel model, const TokenizerConfig& config,
                                   const fs::path& path, uint32_t vocab_size,
                                   std::span<const uint32_t> end_tokens,
                                   const ChatTemplateChoice* chat_choice) {
  ImportedTokenizer result;
  result.warnings = config.warnings;
  result.warnings.insert(result.warnings.end(), model.warnings.begin(), model.warnings.end());
  for (const std::string& line : drop_repeated_added(&model)) result.warnings.push_back(line);
  fit_vocabulary(vocab_size, path, &model, &result.warnings);
  if (model.bos_token == kNone) model.bos_token = find_named(model, config.text_of("bos_token"));
  if (model.eos_token == kNone) model.eos_token = find_named(model, config.text_of("eos_token"));
  for (const uint32_t token : {model.bos_token, model.eos_token}) {
    if (token != kNone && (model.tokens[token].flags & format::kTokenAdded) != 0) {
      model.tokens[token].flags |= format::kTokenSpecial;
    }
  }
  if (model.bos_token != kNone) result.bos_token = model.bos_token;
  result.end_tokens = usable_ends(end_tokens, model, &result.warnings);
  const uint32_t named_end = find_named(model, config.text_of("eos_token"));
  const uint32_t end = named_end != kNone ? named_end : model.eos_token;
  if (result.end_tokens.empty() && end != kNone) result.end_tokens.push_back(end);
  for (const uint32_t token : result.end_tokens) make_control(token, &model);
  if (import_template(config, chat_choice, model, &result)) {
    protect_template(path, vocab_size, &model, &result);
  }
  result.tokenizer_section = build_tokenizer_section(model);
  Tokenizer tokenizer = {};
  refuse_if(path, "the tokenizer",
            check_tokenizer(result.tokenizer_section, vocab_size, &tokenizer));
  result.tokenizer_name = describe(model);
  return result;
}

}  // namespace cria::converter
