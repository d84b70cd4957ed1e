// A SentencePiece model as merges and tables.
#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string_view>
#include <unordered_map>

#include "converter/error.h"
#include "converter/sentencepiece_model.h"

namespace cria::converter {
namespace {

constexpr uint32_t kBpeModel = 2;

void check_support(const SentencePieceModel& source, const std::string& where) {
  const auto refuse = [&where](const std::string& problem) {
    throw ConvertError(ExitCode::kInvalidInput, where + ": " + problem);
  };
  if (source.model_type != kBpeModel) {
    const char* const names[] = {"unigram", "", "word", "character"};
    const uint32_t type = source.model_type;
    refuse(std::string("a SentencePiece model of type ") +
           (type >= 1 && type <= std::size(names) ? names[type - 1] : "unknown") +
           " is not supported; only BPE is");
  }
  if (source.has_character_map) {
    refuse("SentencePiece normalization '" + source.normalizer_name + "' is not supported");
  }
  if (source.remove_extra_whitespaces) refuse("SentencePiece that removes spaces is not supported");
  if (!source.escape_whitespaces || source.whitespace_as_suffix) {
    refuse("SentencePiece with spaces other than U+2581 before words is not supported");
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
  if (!is_byte) {
    throw ConvertError(ExitCode::kInvalidInput, where + ": byte piece '" + text + "' is no <0xNN>");
  }
  return static_cast<uint8_t>(std::stoi(text.substr(3, 2), nullptr, kHex));
}

void put_piece(const SentencePiece& piece, uint32_t id, const std::string& where,
               TokenizerModel* model) {
  // Before the merges are made, which costs the square of a length.
  if (piece.text.size() > format::kMaxTokenBytes) {
    throw ConvertError(ExitCode::kInvalidInput,
                       where + ": piece " + std::to_string(id) + " is too long");
  }
  switch (piece.type) {
    case PieceType::kNormal:
      model->at(id).text = piece.text;
      model->at(id).is_word = true;
      return;
    case PieceType::kUnknown:
      model->unknown_token = id;
      add_token({id, piece.text, true, false, false, false}, model);
      return;
    case PieceType::kControl:
      add_token({id, piece.text, true, false, false, false}, model);
      return;
    case PieceType::kUserDefined:
      add_token({id, piece.text, false, true, false, false}, model);
      model->at(id).flags |= format::kTokenNormalized;
      return;
    case PieceType::kUnused:
      throw ConvertError(ExitCode::kInvalidInput,
                         where + ": SentencePiece with unused pieces is not supported");
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

// Every way in which two pieces make a third is a merge; its rank is that of the third's score.
void make_merges(const SentencePieceModel& source, TokenizerModel* model) {
  std::unordered_map<std::string_view, uint32_t> ids;
  std::set<float, std::greater<>> scores;
  for (uint32_t id = 0; id < source.pieces.size(); ++id) {
    if (source.pieces[id].type != PieceType::kNormal) continue;
    ids.emplace(source.pieces[id].text, id);
    scores.insert(source.pieces[id].score);
  }
  std::unordered_map<float, uint32_t> ranks;
  for (const float score : scores) ranks.emplace(score, static_cast<uint32_t>(ranks.size()));
  for (uint32_t id = 0; id < source.pieces.size(); ++id) {
    const SentencePiece& piece = source.pieces[id];
    if (piece.type != PieceType::kNormal) continue;
    const std::string_view text = piece.text;
    for (size_t cut = 1; cut < text.size(); ++cut) {
      if (!starts_character(text[cut])) continue;
      const auto left = ids.find(text.substr(0, cut));
      const auto right = ids.find(text.substr(cut));
      if (left == ids.end() || right == ids.end()) continue;
      model->merges.push_back({left->second, right->second, id, ranks.at(piece.score)});
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
  model.kind = format::TokenizerKind::kSentencePieceBpe;
  model.flags = format::kFuseUnknown;
  if (source.byte_fallback) model.flags |= format::kByteFallback;
  if (source.add_dummy_prefix) model.flags |= format::kPrependSpace | format::kStripSpace;
  for (uint32_t id = 0; id < source.pieces.size(); ++id) {
    put_piece(source.pieces[id], id, where, &model);
  }
  make_merges(source, &model);
  model.bos_token = id_or_none(source.bos_id, model);
  model.eos_token = id_or_none(source.eos_id, model);
  model.pre_tokenizer = choose_word_cut(model);
  return model;
}

}  // namespace cria::converter
