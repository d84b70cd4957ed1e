#include "converter/gguf/gguf_tokenizer.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "converter/error.h"
#include "converter/gguf/gguf_config.h"
#include "converter/gguf/gguf_pre_tokenizers.h"
#include "converter/sentencepiece_model.h"
#include "converter/side_files.h"
#include "converter/tokenizer_json.h"

namespace cria::converter {
namespace {

constexpr const char* kPrefix = "tokenizer.ggml.";
constexpr size_t kMaxAdded = 1 << 16;  // control and user-defined tokens; a few thousand are usual

// Of the families that are read. A file says little of them: whatever has such a text is a control
// token to llama.cpp and ends answers.
constexpr std::string_view kTurnEnds[] = {
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "</s>",
    "<|eom_id|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<|end_of_text|>",
    "<end_of_utterance>",
    "<eos>",
    "<turn|>",
    "<|tool_response>",
    "<\xEF\xBD\x9C"
    "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>",
    "[e~[",
    // Of code, in files with several: the padding, and what a file or a repository begins with.
    "<|fim_pad|>",
    "<fim-pad>",
    "<fim_pad>",
    "<PAD>",
    "[PAD]",
    "<|fim_repo|>",
    "<|repo_name|>",
    "<fim-repo>",
    "<REPO>",
    "<reponame>",
    "<|file_sep|>",
};

// What templates call the tokens that a file names, but for BOS and EOS, which it may be silent of.
struct NamedToken {
  const char* key;
  const char* name;
};
constexpr NamedToken kNamedTokens[] = {{"unknown_token_id", "unk_token"},
                                       {"seperator_token_id", "sep_token"},
                                       {"padding_token_id", "pad_token"},
                                       {"cls_token_id", "cls_token"},
                                       {"mask_token_id", "mask_token"}};

bool ends_turns(std::string_view text) {
  return std::find(std::begin(kTurnEnds), std::end(kTurnEnds), text) != std::end(kTurnEnds);
}

// Tokens of Phi-3 that keep the white space after them.
constexpr std::string_view kKeepSpace[] = {"<unk>", "<s>", "<|endoftext|>"};

class TokenizerReader {
 public:
  TokenizerReader(const Json& metadata, const std::string& where)
      : json_(metadata), metadata_(metadata, where), where_(where) {}

  TokenizerModel run() {
    const std::optional<std::string> kind = metadata_.text(key("model"));
    if (!kind || *kind == "none" || *kind == "no_vocab") {
      throw ProgramError(
          ExitCode::kInvalidInput,
          where_ + ": it has no tokenizer; convert with --no-tokenizer to do without");
    }
    if (*kind != "llama" && *kind != "gpt2" && *kind != "gemma4") {
      metadata_.refuse(key("model"), "'" + shown(*kind) +
                                         "' is not supported, only llama (SentencePiece BPE), "
                                         "gpt2 (byte-level BPE) and gemma4 (BPE of characters); "
                                         "convert with --no-tokenizer");
    }
    read_tokens();
    TokenizerModel model = *kind == "llama"  ? sentencepiece()
                           : *kind == "gpt2" ? byte_level()
                                             : characters();
    if (strips_space(*kind)) strip_behind_added(&model);
    return model;
  }

 private:
  [[nodiscard]] static std::string key(const char* name) { return std::string(kPrefix) + name; }

  // A list of the metadata; nullptr: it is not there.
  [[nodiscard]] const Json* list(const char* name) const {
    const auto found = json_.find(key(name));
    if (found == json_.end()) return nullptr;
    if (!found->is_array()) metadata_.refuse_type(key(name), "a list", *found);
    return &*found;
  }

  void read_tokens() {
    tokens_ = list("tokens");
    if (tokens_ == nullptr) metadata_.refuse(key("tokens"), "is missing");
    if (tokens_->size() > format::kMaxVocab) {
      metadata_.refuse(key("tokens"), "has more than " + std::to_string(format::kMaxVocab));
    }
    for (const Json& token : *tokens_) {
      if (!token.is_string()) metadata_.refuse(key("tokens"), "has an item that is not a text");
    }
    types_ = list("token_type");
    if (types_ != nullptr && types_->size() != tokens_->size()) {
      metadata_.refuse(key("token_type"), "differs in length from tokens");
    }
  }

  [[nodiscard]] const std::string& text(size_t id) const {
    return (*tokens_)[id].get_ref<const std::string&>();
  }

  [[nodiscard]] PieceType type(size_t id) const {
    if (types_ == nullptr) {
      return ends_turns(text(id)) ? PieceType::kControl : PieceType::kNormal;
    }
    const Json& type = (*types_)[id];
    const bool known = type.is_number_unsigned() &&
                       type.get<uint64_t>() >= static_cast<uint32_t>(PieceType::kNormal) &&
                       type.get<uint64_t>() <= static_cast<uint32_t>(PieceType::kByte);
    if (!known) metadata_.refuse(key("token_type"), "has an unknown type");
    const auto said = static_cast<PieceType>(type.get<uint32_t>());
    const bool is_word = said == PieceType::kNormal || said == PieceType::kUserDefined;
    return is_word && ends_turns(text(id)) ? PieceType::kControl : said;
  }

  // The id of a token that the file names among its tokens, or otherwise.
  [[nodiscard]] uint32_t named(const char* name, uint32_t otherwise) const {
    const uint32_t id = metadata_.count(key(name)).value_or(otherwise);
    if (id < tokens_->size()) return id;
    return otherwise < tokens_->size() ? otherwise : format::kNone;
  }

  // A file does not say which tokens take the white space after them. llama.cpp knows Phi-3 by its
  // name, but not those that were tuned and named anew.
  [[nodiscard]] bool strips_space(std::string_view kind) const {
    std::string name = metadata_.text("general.name").value_or("");
    for (char& c : name) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    const bool is_phi3 = metadata_.text("general.architecture").value_or("") == "phi3";
    return name.find("phi-3") != std::string::npos || name.find("phi3") != std::string::npos ||
           (is_phi3 && kind == "llama");
  }

  static void strip_behind_added(TokenizerModel* model) {
    for (TokenizerToken& token : model->tokens) {
      const bool keeps = std::find(std::begin(kKeepSpace), std::end(kKeepSpace), token.text) !=
                         std::end(kKeepSpace);
      if ((token.flags & format::kTokenAdded) != 0 && !keeps) {
        token.flags |= format::kTokenStripRight;
      }
    }
  }

  void set_ends(bool adds_bos, TokenizerModel* model) const {
    const bool is_byte_level = model->kind == format::TokenizerKind::kByteLevelBpe;
    model->bos_token = named("bos_token_id", is_byte_level ? format::kNone : kSentencePieceBos);
    model->eos_token = named("eos_token_id", is_byte_level ? format::kNone : kSentencePieceEos);
    const auto has_text = [model](uint32_t id) {
      return id < model->tokens.size() && !model->tokens[id].text.empty();
    };
    if (!has_text(model->bos_token)) model->bos_token = format::kNone;
    if (!has_text(model->eos_token)) model->eos_token = format::kNone;
    if (metadata_.boolean(key("add_bos_token")).value_or(adds_bos)) {
      // llama.cpp would put token 11 there, which is Falcon's.
      if (model->bos_token == format::kNone) {
        metadata_.refuse(key("bos_token_id"),
                         "is missing, which text is to begin with; take a newer file, or the "
                         "Hugging Face folder");
      }
      model->flags |= format::kAddBos;
    }
    if (metadata_.boolean(key("add_eos_token")).value_or(false) &&
        model->eos_token != format::kNone) {
      model->flags |= format::kAddEos;
    }
  }

  TokenizerModel sentencepiece() const {
    constexpr uint32_t kBpe = 2;
    const Json* scores = list("scores");
    if (scores == nullptr || scores->size() != tokens_->size()) {
      metadata_.refuse(key("scores"), "must have as many items as tokens");
    }
    SentencePieceModel source;
    source.model_type = kBpe;
    source.add_dummy_prefix = metadata_.boolean(key("add_space_prefix")).value_or(true);
    source.remove_extra_whitespaces =
        metadata_.boolean(key("remove_extra_whitespaces")).value_or(false);
    source.pieces.reserve(tokens_->size());
    for (size_t id = 0; id < tokens_->size(); ++id) {
      const Json& score = (*scores)[id];
      if (!score.is_number()) metadata_.refuse(key("scores"), "has an item that is not a number");
      SentencePiece piece = {text(id), score.get<float>(), type(id)};
      // An id that no token has: what fills a vocabulary up.
      if (piece.type == PieceType::kUnused) piece = {"", 0, PieceType::kControl};
      source.byte_fallback = source.byte_fallback || piece.type == PieceType::kByte;
      source.pieces.push_back(std::move(piece));
    }
    TokenizerModel model = tokenizer_from_sentencepiece(source, where_);
    set_ends(true, &model);
    return model;
  }

  // The model and added tokens of the tokenizer.json that it was made of.
  [[nodiscard]] Json merged_by_rank() const {
    Json vocabulary = Json::object();
    Json added = Json::array();
    for (size_t id = 0; id < tokens_->size(); ++id) {
      const PieceType kind = type(id);
      if (kind == PieceType::kUnused || text(id).empty()) continue;
      const bool is_control = kind == PieceType::kControl || kind == PieceType::kUnknown;
      if (is_control || kind == PieceType::kUserDefined) {
        added.push_back(
            {{"id", id}, {"content", text(id)}, {"special", is_control}, {"normalized", false}});
        if (added.size() > kMaxAdded) {
          metadata_.refuse(key("token_type"), "has more than " + std::to_string(kMaxAdded) +
                                                  " control and user-defined tokens");
        }
      }
      if (!is_control && !vocabulary.emplace(text(id), id).second) {
        metadata_.refuse(key("tokens"), "has '" + shown(text(id)) + "' twice");
      }
    }
    const Json* merges = list("merges");
    if (merges == nullptr) metadata_.refuse(key("merges"), "is missing");
    return {{"added_tokens", std::move(added)},
            {"model", {{"type", "BPE"}, {"vocab", std::move(vocabulary)}, {"merges", *merges}}}};
  }

  // Of Gemma 4: spaces are marked, and what is no token is written as bytes.
  TokenizerModel characters() const {
    Json root = merged_by_rank();
    check_lines(root["model"]["merges"]);
    root["normalizer"] = {
        {"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "\xE2\x96\x81"}};
    root["model"]["byte_fallback"] = true;
    root["model"]["fuse_unk"] = true;
    TokenizerModel model = tokenizer_from_json(root, where_);
    set_ends(true, &model);
    return model;
  }

  // llama.cpp cuts text before and after newlines, the tokenizer.json does not: that is the same
  // where no merge crosses the cuts.
  void check_lines(const Json& merges) const {
    for (const Json& merge : merges) {
      const std::string text = merge.is_string() ? merge.get<std::string>() : std::string();
      const bool has_newline = text.find('\n') != std::string::npos;
      if (!has_newline || text.find_first_not_of("\n ") == std::string::npos) continue;
      metadata_.refuse(key("merges"),
                       "joins a newline with other text, which is not supported; "
                       "take the Hugging Face folder");
    }
  }

  TokenizerModel byte_level() const {
    const std::optional<std::string> said = metadata_.text(key("pre"));
    const std::string name = said && !said->empty() ? *said : kDefaultPreTokenizer;
    const GgufPreTokenizer pre = gguf_pre_tokenizer(name, where_);
    Json root = merged_by_rank();
    root["normalizer"] = pre.normalizer;
    root["pre_tokenizer"] = pre.pre_tokenizer;
    root["model"]["ignore_merges"] = pre.ignore_merges;
    TokenizerModel model = tokenizer_from_json(root, where_);
    set_ends(pre.adds_bos, &model);
    if (name != said) {
      model.warnings.push_back(
          key("pre") +
          " is missing: text is cut into words by llama.cpp's default, which is of no published "
          "model, so that answers may be worse; take a newer file, or the Hugging Face folder");
    }
    return model;
  }

  const Json& json_;
  JsonObject metadata_;
  const std::string& where_;
  const Json* tokens_ = nullptr;
  const Json* types_ = nullptr;
};

}  // namespace

TokenizerModel read_gguf_tokenizer(const Json& metadata, const std::string& where) {
  return TokenizerReader(metadata, where).run();
}

TokenizerConfig gguf_tokenizer_config(const Json& metadata, const std::string& where) {
  constexpr const char* kKey = "tokenizer.chat_template";
  const JsonObject object(metadata, where);
  TokenizerConfig config;
  config.chat_template = object.text(kKey).value_or("");
  if (config.chat_template.size() > kMaxTemplateBytes) {
    object.refuse(kKey, "has " + std::to_string(config.chat_template.size()) + " bytes; at most " +
                            std::to_string(kMaxTemplateBytes) + " are read");
  }
  config.chat_template_path = where;
  const auto tokens = metadata.find(std::string(kPrefix) + "tokens");
  if (tokens == metadata.end() || !tokens->is_array()) return config;
  for (const NamedToken& named : kNamedTokens) {
    const auto id = object.count(std::string(kPrefix) + named.key);
    if (!id || *id >= tokens->size() || !(*tokens)[*id].is_string()) continue;
    config.named[named.name] = (*tokens)[*id].get<std::string>();
  }
  return config;
}

std::vector<uint32_t> gguf_turn_ends(const Json& metadata) {
  constexpr uint64_t kUnused = static_cast<uint64_t>(PieceType::kUnused);
  std::vector<uint32_t> ends;
  const auto tokens = metadata.find(std::string(kPrefix) + "tokens");
  const auto types = metadata.find(std::string(kPrefix) + "token_type");
  if (tokens == metadata.end() || !tokens->is_array()) return ends;
  for (size_t id = 0; id < tokens->size() && id < format::kMaxVocab; ++id) {
    const Json& token = (*tokens)[id];
    const bool has_type = types != metadata.end() && types->is_array() && id < types->size();
    if (!token.is_string() || (has_type && (*types)[id] == kUnused)) continue;
    if (ends_turns(token.get_ref<const std::string&>())) ends.push_back(static_cast<uint32_t>(id));
  }
  return ends;
}

}  // namespace cria::converter
