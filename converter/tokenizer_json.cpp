#include "converter/tokenizer_json.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <utility>

#include "converter/byte_alphabet.h"
#include "converter/error.h"
#include "converter/joined_tokens.h"
#include "converter/json_input.h"
#include "converter/side_files.h"
#include "converter/text_table.h"
#include "converter/tokenizer_json_stages.h"
#include "quant/text/nfc.h"

namespace cria::converter {
namespace {

using format::kNone;
using format::TokenizerKind;

// The tokens of the model's vocabulary as the file spells them; the texts are those of the JSON.
struct Vocabulary {
  TextTable ids;
  std::vector<std::string_view> texts;  // by id; one that begins nowhere: no such token
};

void check_model(const JsonObject& model, const std::string& where) {
  const std::string type = model.text("type").value_or("BPE");
  if (type != "BPE")
    refuse(where, "tokenizer model '" + shown(type) + "' is not supported; only BPE is");
  if (model.number("dropout").value_or(0) != 0) refuse(where, "BPE dropout is not supported");
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!model.text(key).value_or("").empty()) {
      refuse(where, std::string("BPE with ") + key + " is not supported");
    }
  }
}

Vocabulary read_vocabulary(const Json& model, const std::string& where) {
  const auto vocab = model.find("vocab");
  if (vocab == model.end() || !vocab->is_object()) refuse(where, "model has no vocab");
  Vocabulary vocabulary;
  for (const auto& entry : vocab->items()) {
    const Json& id = entry.value();
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= format::kMaxVocab) {
      refuse(where, "the id of token '" + shown(entry.key()) + "' is not a usable number");
    }
    const auto index = id.get<uint32_t>();
    if (index >= vocabulary.texts.size()) vocabulary.texts.resize(size_t{index} + 1);
    std::string_view& text = vocabulary.texts[index];
    if (text.data() != nullptr) {
      refuse(where,
             "tokens '" + shown(text) + "' and '" + shown(entry.key()) + "' have the same id");
    }
    text = entry.key();
    (void)vocabulary.ids.insert(text, index);
  }
  return vocabulary;
}

// The two parts of a merge: "a b" or ["a", "b"].
std::optional<std::pair<std::string_view, std::string_view>> merge_parts(const Json& merge) {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
    return std::pair(std::string_view(merge[0].get_ref<const std::string&>()),
                     std::string_view(merge[1].get_ref<const std::string&>()));
  }
  if (!merge.is_string()) return std::nullopt;
  const std::string_view text = merge.get_ref<const std::string&>();
  const size_t space = text.find(' ');
  if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos) {
    return std::nullopt;
  }
  return std::pair(text.substr(0, space), text.substr(space + 1));
}

void read_merges(const Json& json, const Vocabulary& vocabulary, const std::string& where,
                 TokenizerModel* model) {
  const auto merges = json.find("merges");
  if (merges == json.end() || !merges->is_array()) refuse(where, "model has no merges");
  if (merges->size() > format::kMaxMerges) {
    refuse(where, "it has " + std::to_string(merges->size()) + " merges; at most " +
                      std::to_string(format::kMaxMerges) + " are supported");
  }
  model->merges.reserve(merges->size());
  std::string joined;
  for (const Json& merge : *merges) {
    const auto parts = merge_parts(merge);
    const auto rank = static_cast<uint32_t>(model->merges.size());
    if (!parts) refuse(where, "merge " + std::to_string(rank) + " is not a pair of tokens");
    joined.assign(parts->first).append(parts->second);
    const std::array<std::string_view, 3> texts = {parts->first, parts->second, joined};
    const auto ids = vocabulary.ids.find_each(texts);
    for (size_t i = 0; i < ids.size(); ++i) {
      if (ids[i]) continue;
      refuse(where, "a merge names '" + shown(texts[i]) + "', which is not a token");
    }
    model->merges.push_back({*ids[0], *ids[1], *ids[2], rank});
  }
}

std::optional<uint8_t> byte_piece(const std::string& text) {
  constexpr size_t kPieceBytes = 6;  // <0xNN>
  constexpr int kHex = 16;
  if (text.size() != kPieceBytes || !text.starts_with("<0x") || text[5] != '>') return std::nullopt;
  const std::string digits = text.substr(3, 2);
  if (digits.find_first_not_of("0123456789ABCDEF") != std::string::npos) return std::nullopt;
  return static_cast<uint8_t>(std::stoi(digits, nullptr, kHex));
}

// Gives a token its bytes.
void set_text(const std::string& text, uint32_t id, TokenizerModel* model) {
  TokenizerToken& token = model->at(id);
  std::optional<std::string> bytes;
  if (model->kind == TokenizerKind::kByteLevelBpe) {
    bytes = bytes_of_alphabet(text);
    if (bytes && bytes->size() == 1) model->byte_tokens[static_cast<uint8_t>((*bytes)[0])] = id;
  } else if (const auto byte = byte_piece(text)) {
    model->byte_tokens[*byte] = id;
    token.flags |= format::kTokenByte;
    token.text = std::string(1, static_cast<char>(*byte));
    return;
  } else {
    bytes = text;
  }
  token.text = bytes.value_or(text);
  token.is_word = bytes.has_value();
}

void read_tokens(const Vocabulary& vocabulary, TokenizerModel* model) {
  for (uint32_t id = 0; id < vocabulary.texts.size(); ++id) {
    const std::string_view text = vocabulary.texts[id];
    if (text.data() != nullptr) set_text(std::string(text), id, model);
  }
}

// Whether normalization leaves the text as it is; where the tables are not built in, whether it is
// ASCII, which it always does.
bool is_nfc(const std::string& text) {
  if constexpr (kHasNfc) {
    std::string normalized(text.size() * kMaxNfcGrowth, '\0');
    size_t n_written = 0;
    for (size_t n_read = 0; n_read < text.size();) {
      const NfcSegment segment = normalize_segment(std::span(text).subspan(n_read),
                                                   std::span(normalized).subspan(n_written));
      n_read += segment.n_read;
      n_written += segment.n_written;
    }
    return normalized.compare(0, n_written, text) == 0;
  } else {
    constexpr uint8_t kLastAscii = 0x7f;
    return std::all_of(text.begin(), text.end(),
                       [](char c) { return static_cast<uint8_t>(c) <= kLastAscii; });
  }
}

// The added tokens of the file itself. The model's id counts where both name one.
std::vector<AddedToken> read_added_tokens(const Json& root, const Vocabulary& vocabulary,
                                          const std::string& where) {
  std::vector<AddedToken> tokens;
  const auto list = root.find("added_tokens");
  if (list == root.end() || list->is_null()) return tokens;
  if (!list->is_array()) refuse(where, "added_tokens is not a list");
  const std::string list_name = where + ": added_tokens";
  for (const Json& entry : *list) {
    const JsonObject object(entry, list_name);
    AddedToken added = read_added_token(object);
    added.id = object.required_count("id");
    if (const auto known = vocabulary.ids.find(added.text)) added.id = *known;
    tokens.push_back(std::move(added));
  }
  return tokens;
}

void put_added_token(AddedToken added, const Vocabulary& vocabulary, const TokenizerStages& stages,
                     TokenizerModel* model) {
  const bool is_known = vocabulary.ids.find(added.text).has_value();
  // The model's text of it may be in the byte alphabet.
  if (is_known) {
    TokenizerToken& token = model->at(added.id);
    if ((token.flags & format::kTokenByte) != 0) return;
    token.text = added.text;
  }
  if (added.normalized && (stages.flags & format::kNfc) != 0 && !is_nfc(added.text)) {
    // It is looked for in its normalized form, and decodes to the other.
    refuse(model->where,
           "added token '" + shown(added.text) + "' that is not normalized is not supported");
  }
  const bool in_normalized_text = added.normalized && stages.replaces_in_normalizer;
  if (in_normalized_text) {
    added.text = replace_spaces(added.text);
    if (is_known) model->at(added.id).text = added.text;
  }
  add_token(added, model);
  if (!added.normalized || added.text.empty()) return;
  TokenizerToken& token = model->at(added.id);
  if (in_normalized_text || model->kind == TokenizerKind::kByteLevelBpe) {
    token.flags |= format::kTokenNormalized;
  }
  if (in_normalized_text && stages.prepends_in_normalizer) {
    token.flags |= format::kTokenAfterSpace;
  }
}

}  // namespace

TokenizerModel read_tokenizer_json(const std::filesystem::path& folder,
                                   const TokenizerConfig& config) {
  const Json root = read_side_json(folder, SideFile::kTokenizerJson);
  return tokenizer_from_json(root, side_file_path(folder, SideFile::kTokenizerJson).string(),
                             &config);
}

TokenizerModel tokenizer_from_json(const Json& root, const std::string& where,
                                   const TokenizerConfig* beside) {
  const JsonObject root_object(root, where);
  const auto json = root.find("model");
  if (json == root.end() || !json->is_object()) refuse(where, "it has no tokenizer model");
  const JsonObject model_object(*json, where + ": model");
  check_model(model_object, where);

  TokenizerModel model;
  model.where = where;
  const TokenizerStages stages = read_stages(root, where);
  model.kind = stages.kind;
  model.pre_tokenizer = stages.pre_tokenizer;
  if (model.kind == TokenizerKind::kByteLevelBpe) {
    std::vector<SplitRule> rules;
    for (const OwnedRule& rule : stages.rules) rules.push_back(rule.view());
    set_pre_tokenizer(rules, where, &model);
  }
  model.flags = stages.flags;
  if (model_object.boolean("ignore_merges").value_or(false)) model.flags |= format::kIgnoreMerges;
  if (model_object.boolean("byte_fallback").value_or(false)) model.flags |= format::kByteFallback;
  if (model_object.boolean("fuse_unk").value_or(false)) model.flags |= format::kFuseUnknown;
  const uint32_t prefixed_words = format::kIgnoreMerges | format::kAddPrefixSpace;
  if ((model.flags & prefixed_words) == prefixed_words) {
    refuse(where, "ignore_merges together with add_prefix_space is not supported");
  }

  const Vocabulary vocabulary = read_vocabulary(*json, where);
  read_tokens(vocabulary, &model);
  read_merges(*json, vocabulary, where, &model);
  const BaseVocabulary base = {vocabulary.ids, static_cast<uint32_t>(vocabulary.texts.size())};
  // A vocabulary with gaps has added tokens in them.
  const bool keeps_ids = beside == nullptr || vocabulary.ids.size() != base.end;
  const TokenizerConfig none;
  for (AddedToken& added :
       join_added_tokens(read_added_tokens(root, vocabulary, where), keeps_ids, base,
                         beside == nullptr ? none : *beside, where, &model.warnings)) {
    put_added_token(std::move(added), vocabulary, stages, &model);
  }
  if (const auto unknown = model_object.text("unk_token")) {
    const auto found = vocabulary.ids.find(*unknown);
    if (!found) refuse(where, "unk_token '" + shown(*unknown) + "' is not a token");
    model.unknown_token = *found;
  }
  if (stages.begin_token) model.bos_token = *stages.begin_token;
  if (stages.end_token) model.eos_token = *stages.end_token;
  for (const uint32_t token : {model.bos_token, model.eos_token}) {
    if (token != kNone && token >= model.tokens.size()) {
      refuse(where, "post_processor adds token " + std::to_string(token) + ", which is not there");
    }
  }
  if (model.kind == TokenizerKind::kSentencePieceBpe &&
      model.pre_tokenizer == format::PreTokenizer::kWhole) {
    model.pre_tokenizer = choose_word_cut(model);
  }
  return model;
}

}  // namespace cria::converter
