#include "converter/gguf/gguf_tokenizer.h"

#include <nlohmann/json.hpp>
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
    if (*kind != "llama" && *kind != "gpt2") {
      metadata_.refuse(key("model"), "'" + shown(*kind) +
                                         "' is not supported, only llama (SentencePiece BPE) and "
                                         "gpt2 (byte-level BPE); convert with --no-tokenizer");
    }
    read_tokens();
    return *kind == "llama" ? sentencepiece() : byte_level();
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
      if (!token.is_string()) metadata_.refuse(key("tokens"), "has an item that is no text");
    }
    types_ = list("token_type");
    if (types_ != nullptr && types_->size() != tokens_->size()) {
      metadata_.refuse(key("token_type"), "has another length than tokens");
    }
  }

  [[nodiscard]] const std::string& text(size_t id) const {
    return (*tokens_)[id].get_ref<const std::string&>();
  }

  [[nodiscard]] PieceType type(size_t id) const {
    if (types_ == nullptr) return PieceType::kNormal;
    const Json& type = (*types_)[id];
    const bool known = type.is_number_unsigned() &&
                       type.get<uint64_t>() >= static_cast<uint32_t>(PieceType::kNormal) &&
                       type.get<uint64_t>() <= static_cast<uint32_t>(PieceType::kByte);
    if (!known) metadata_.refuse(key("token_type"), "has an unknown type");
    return static_cast<PieceType>(type.get<uint32_t>());
  }

  // The id of a token that the file names, or otherwise; kNone: it names one past the tokens.
  [[nodiscard]] uint32_t named(const char* name, uint32_t otherwise) const {
    const uint32_t id = metadata_.count(key(name)).value_or(otherwise);
    return id < tokens_->size() ? id : format::kNone;
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
    if (metadata_.boolean(key("add_bos_token")).value_or(adds_bos) &&
        model->bos_token != format::kNone) {
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
      if (!score.is_number()) metadata_.refuse(key("scores"), "has an item that is no number");
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

  // As the tokenizer.json that it was made of.
  TokenizerModel byte_level() const {
    const std::string name = metadata_.text(key("pre")).value_or("gpt-2");
    const GgufPreTokenizer pre = gguf_pre_tokenizer(name, where_);
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
    const Json root = {{"normalizer", pre.normalizer},
                       {"pre_tokenizer", pre.pre_tokenizer},
                       {"added_tokens", std::move(added)},
                       {"model",
                        {{"type", "BPE"},
                         {"ignore_merges", pre.ignore_merges},
                         {"vocab", std::move(vocabulary)},
                         {"merges", *merges}}}};
    TokenizerModel model = tokenizer_from_json(root, where_);
    set_ends(pre.adds_bos, &model);
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
  return config;
}

}  // namespace cria::converter
