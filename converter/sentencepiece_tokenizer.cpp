// A SentencePiece model as merges and tables.
#include <algorithm>
#include <cmath>
#include <string_view>

#include "converter/error.h"
#include "converter/sentencepiece_model.h"
#include "converter/text_table.h"
#include "quant/text/utf8.h"

namespace cria::converter {
namespace {

constexpr uint32_t kBpeModel = 2;
// A piece of n bytes can be made in n - 1 ways, each of which is compared with it; the library
// itself makes none of more than 16 characters unless it is told to.
constexpr size_t kMaxMergedBytes = 512;

void check_support(const SentencePieceModel& source, const std::string& where) {
  if (source.model_type != kBpeModel) {
    const char* const names[] = {"unigram", "", "word", "character"};
    const uint32_t type = source.model_type;
    refuse(where, std::string("a SentencePiece model of type ") +
                      (type >= 1 && type <= std::size(names) ? names[type - 1] : "unknown") +
                      " is not supported; only BPE is");
  }
  if (source.has_character_map) {
    refuse(where,
           "SentencePiece normalization '" + shown(source.normalizer_name) + "' is not supported");
  }
  if (source.remove_extra_whitespaces) {
    refuse(where, "SentencePiece that removes spaces is not supported");
  }
  if (!source.escape_whitespaces || source.whitespace_as_suffix) {
    refuse(where, "SentencePiece with spaces other than U+2581 before words is not supported");
  }
}

uint8_t byte_of_piece(const SentencePiece& piece, const std::string& where) {
  constexpr int kHex = 16;
  constexpr std::string_view kHexDigits = "0123456789ABCDEFabcdef";
  constexpr size_t kPieceBytes = 6;  // <0xNN>
  const std::string& text = piece.text;
  const bool is_byte = text.size() == kPieceBytes && text.starts_with("<0x") && text[5] == '>' &&
                       kHexDigits.find(text[3]) != std::string_view::npos &&
                       kHexDigits.find(text[4]) != std::string_view::npos;
  if (!is_byte) refuse(where, "byte piece '" + shown(text) + "' is not of the form <0xNN>");
  return static_cast<uint8_t>(std::stoi(text.substr(3, 2), nullptr, kHex));
}

void put_piece(const SentencePiece& piece, uint32_t id, const std::string& where,
               TokenizerModel* model) {
  const bool is_merged = piece.type == PieceType::kNormal;
  if (piece.text.size() > (is_merged ? kMaxMergedBytes : size_t{format::kMaxTokenBytes})) {
    refuse(where, "piece " + std::to_string(id) + " is too long (" +
                      std::to_string(piece.text.size()) + " bytes)");
  }
  switch (piece.type) {
    case PieceType::kNormal:
      model->at(id).text = piece.text;
      model->at(id).is_word = true;
      return;
    case PieceType::kUnknown:
      model->unknown_token = id;
      static_cast<void>(model->at(id));  // a token also where it has no text
      add_token({id, piece.text, true, false, false, false}, model);
      return;
    case PieceType::kControl:
      add_token({id, piece.text, true, false, false, false}, model);
      return;
    case PieceType::kUserDefined: {
      // Looked for in the text as it is, as llama.cpp and transformers do it, unless it has what
      // spaces become.
      const bool has_spaces = piece.text.find(kSpaceMarkText) != std::string::npos;
      add_token({id, piece.text, false, has_spaces, false, false}, model);
      if (has_spaces) model->at(id).flags |= format::kTokenNormalized;
      return;
    }
    case PieceType::kUnused:
      refuse(where, "SentencePiece with unused pieces is not supported");
    case PieceType::kByte: {
      const uint8_t byte = byte_of_piece(piece, where);
      model->byte_tokens[byte] = id;
      model->at(id).text = std::string(1, static_cast<char>(byte));
      model->at(id).flags |= format::kTokenByte;
      return;
    }
  }
}

bool starts_character(char byte) {
  constexpr uint8_t kContinuationMask = 0xc0;
  constexpr uint8_t kContinuation = 0x80;
  return (static_cast<uint8_t>(byte) & kContinuationMask) != kContinuation;
}

// The rank of each piece that is merged: how many different scores are above its own. What is no
// number stands in no order, of which sorting would not come to an end.
std::vector<uint32_t> ranks_of(const SentencePieceModel& source, const std::string& where) {
  struct Scored {
    float score;
    uint32_t id;
  };
  std::vector<Scored> scored;
  for (uint32_t id = 0; id < source.pieces.size(); ++id) {
    const SentencePiece& piece = source.pieces[id];
    if (piece.type != PieceType::kNormal) continue;
    if (std::isnan(piece.score)) {
      refuse(where, "piece " + std::to_string(id) + " has a score that is not a number");
    }
    scored.push_back({piece.score, id});
  }
  std::sort(scored.begin(), scored.end(),
            [](const Scored& a, const Scored& b) { return a.score > b.score; });
  std::vector<uint32_t> ranks(source.pieces.size(), 0);
  uint32_t rank = 0;
  for (size_t i = 0; i < scored.size(); ++i) {
    if (i > 0 && scored[i].score != scored[i - 1].score) ++rank;
    ranks[scored[i].id] = rank;
  }
  return ranks;
}

// Every way in which two pieces make a third is a merge; its rank is that of the third's score.
void make_merges(const SentencePieceModel& source, const std::string& where,
                 TokenizerModel* model) {
  TextTable ids;
  for (uint32_t id = 0; id < source.pieces.size(); ++id) {
    const SentencePiece& piece = source.pieces[id];
    if (piece.type == PieceType::kNormal) (void)ids.insert(piece.text, id);
  }
  const std::vector<uint32_t> ranks = ranks_of(source, where);
  for (uint32_t id = 0; id < source.pieces.size(); ++id) {
    const SentencePiece& piece = source.pieces[id];
    if (piece.type != PieceType::kNormal) continue;
    const std::string_view text = piece.text;
    const TextTable::Parts parts(ids, text);
    for (size_t cut = 1; cut < text.size(); ++cut) {
      if (!starts_character(text[cut])) continue;
      const auto left = parts.find(0, cut);
      const auto right = left ? parts.find(cut, text.size()) : std::nullopt;
      if (!right) continue;
      if (model->merges.size() == format::kMaxMerges) {
        refuse(where,
               "its pieces make more than " + std::to_string(format::kMaxMerges) + " merges");
      }
      model->merges.push_back({*left, *right, id, ranks[id]});
    }
  }
}

uint32_t id_or_none(int32_t id, const TokenizerModel& model) {
  return id >= 0 && static_cast<size_t>(id) < model.tokens.size() ? static_cast<uint32_t>(id)
                                                                  : format::kNone;
}

}  // namespace

TokenizerModel tokenizer_from_sentencepiece(const SentencePieceModel& source,
                                            const std::string& where) {
  check_support(source, where);
  TokenizerModel model;
  model.where = where;
  model.kind = format::TokenizerKind::kSentencePieceBpe;
  model.flags = format::kFuseUnknown;
  if (source.byte_fallback) model.flags |= format::kByteFallback;
  if (source.add_dummy_prefix) model.flags |= format::kPrependSpace | format::kStripSpace;
  for (uint32_t id = 0; id < source.pieces.size(); ++id) {
    put_piece(source.pieces[id], id, where, &model);
  }
  make_merges(source, where, &model);
  model.bos_token = id_or_none(source.bos_id, model);
  model.eos_token = id_or_none(source.eos_id, model);
  model.pre_tokenizer = choose_word_cut(model);
  return model;
}

}  // namespace cria::converter
