#include "converter/sentencepiece_model.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>

#include "converter/error.h"

namespace cria::converter {
namespace {

// Field numbers of the protocol buffer.
constexpr uint32_t kModelPieces = 1;
constexpr uint32_t kModelTrainer = 2;
constexpr uint32_t kModelNormalizer = 3;
constexpr uint32_t kPieceText = 1;
constexpr uint32_t kPieceScore = 2;
constexpr uint32_t kPieceType = 3;
constexpr uint32_t kTrainerModelType = 3;
constexpr uint32_t kTrainerWhitespaceAsSuffix = 24;
constexpr uint32_t kTrainerByteFallback = 35;
constexpr uint32_t kTrainerBosId = 41;
constexpr uint32_t kTrainerEosId = 42;
constexpr uint32_t kNormalizerName = 1;
constexpr uint32_t kNormalizerCharacterMap = 2;
constexpr uint32_t kNormalizerAddDummyPrefix = 3;
constexpr uint32_t kNormalizerRemoveExtraWhitespaces = 4;
constexpr uint32_t kNormalizerEscapeWhitespaces = 5;

enum class WireType : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

// A field of a message: number is set for varints and fixed ones, bytes for the rest.
struct Field {
  uint32_t id;
  WireType type;
  uint64_t number;
  std::span<const uint8_t> bytes;
};

// Goes through the fields of one message.
class FieldReader {
 public:
  FieldReader(std::span<const uint8_t> bytes, const std::string& where)
      : bytes_(bytes), where_(where) {}

  // The next field; nullopt at the end of the message.
  std::optional<Field> next() {
    constexpr uint32_t kTypeBits = 3;
    constexpr uint64_t kTypeMask = 0x7;
    constexpr uint64_t kMaxFieldId = (uint64_t{1} << 29) - 1;
    if (bytes_.empty()) return std::nullopt;
    const uint64_t key = take_varint();
    Field field = {
        static_cast<uint32_t>(key >> kTypeBits), static_cast<WireType>(key & kTypeMask), 0, {}};
    if (key >> kTypeBits == 0 || key >> kTypeBits > kMaxFieldId) damaged();
    switch (field.type) {
      case WireType::kVarint:
        field.number = take_varint();
        return field;
      case WireType::kFixed64:
        field.number = take_fixed(sizeof(uint64_t));
        return field;
      case WireType::kFixed32:
        field.number = take_fixed(sizeof(uint32_t));
        return field;
      case WireType::kBytes:
        field.bytes = take(take_varint());
        return field;
    }
    damaged();
  }

 private:
  [[noreturn]] void damaged() const {
    throw ProgramError(ExitCode::kInvalidInput,
                       where_ + ": not a SentencePiece model, or a damaged one");
  }
  std::span<const uint8_t> take(uint64_t count) {
    if (count > bytes_.size()) damaged();
    const auto taken = bytes_.first(static_cast<size_t>(count));
    bytes_ = bytes_.subspan(static_cast<size_t>(count));
    return taken;
  }
  uint64_t take_varint() {
    constexpr uint32_t kPayloadBits = 7;
    constexpr uint32_t kMaxShift = 63;
    constexpr uint8_t kPayloadMask = 0x7f;
    constexpr uint8_t kMoreBit = 0x80;
    uint64_t value = 0;
    for (uint32_t shift = 0; shift <= kMaxShift; shift += kPayloadBits) {
      const uint8_t byte = take(1)[0];
      value |= static_cast<uint64_t>(byte & kPayloadMask) << shift;
      if ((byte & kMoreBit) == 0) return value;
    }
    damaged();
  }
  uint64_t take_fixed(size_t n_bytes) {
    uint64_t value = 0;
    const auto taken = take(n_bytes);
    std::memcpy(&value, taken.data(), n_bytes);
    return value;
  }

  std::span<const uint8_t> bytes_;
  const std::string& where_;
};

std::string text_of(const Field& field) { return {field.bytes.begin(), field.bytes.end()}; }

SentencePiece parse_piece(std::span<const uint8_t> bytes, const std::string& where) {
  SentencePiece piece;
  FieldReader reader(bytes, where);
  while (const auto field = reader.next()) {
    if (field->id == kPieceText && field->type == WireType::kBytes) piece.text = text_of(*field);
    if (field->id == kPieceScore && field->type == WireType::kFixed32) {
      piece.score = std::bit_cast<float>(static_cast<uint32_t>(field->number));
    }
    if (field->id == kPieceType && field->type == WireType::kVarint) {
      if (field->number < static_cast<uint64_t>(PieceType::kNormal) ||
          field->number > static_cast<uint64_t>(PieceType::kByte)) {
        throw ProgramError(ExitCode::kInvalidInput,
                           where + ": piece '" + shown(piece.text) + "' has an unknown type");
      }
      piece.type = static_cast<PieceType>(field->number);
    }
  }
  // Scores order the merges; what is no number has no place among them.
  if (std::isnan(piece.score)) {
    throw ProgramError(ExitCode::kInvalidInput,
                       where + ": the score of piece '" + shown(piece.text) + "' is not a number");
  }
  return piece;
}

void parse_trainer(std::span<const uint8_t> bytes, const std::string& where,
                   SentencePieceModel* model) {
  FieldReader reader(bytes, where);
  while (const auto field = reader.next()) {
    if (field->type != WireType::kVarint) continue;
    // Negative numbers fill the 64 bits; the low ones are the number.
    const auto number = static_cast<uint32_t>(field->number);
    if (field->id == kTrainerModelType) model->model_type = number;
    if (field->id == kTrainerWhitespaceAsSuffix) model->whitespace_as_suffix = number != 0;
    if (field->id == kTrainerByteFallback) model->byte_fallback = number != 0;
    if (field->id == kTrainerBosId) model->bos_id = static_cast<int32_t>(number);
    if (field->id == kTrainerEosId) model->eos_id = static_cast<int32_t>(number);
  }
}

void parse_normalizer(std::span<const uint8_t> bytes, const std::string& where,
                      SentencePieceModel* model) {
  FieldReader reader(bytes, where);
  while (const auto field = reader.next()) {
    const bool is_set = field->number != 0;
    if (field->id == kNormalizerName) model->normalizer_name = text_of(*field);
    if (field->id == kNormalizerCharacterMap) model->has_character_map = !field->bytes.empty();
    if (field->id == kNormalizerAddDummyPrefix) model->add_dummy_prefix = is_set;
    if (field->id == kNormalizerRemoveExtraWhitespaces) model->remove_extra_whitespaces = is_set;
    if (field->id == kNormalizerEscapeWhitespaces) model->escape_whitespaces = is_set;
  }
}

}  // namespace

SentencePieceModel parse_sentencepiece_model(std::span<const uint8_t> bytes,
                                             const std::string& where) {
  SentencePieceModel model;
  FieldReader reader(bytes, where);
  while (const auto field = reader.next()) {
    if (field->type != WireType::kBytes) continue;
    if (field->id == kModelPieces) {
      if (model.pieces.size() == format::kMaxVocab) {
        throw ProgramError(ExitCode::kInvalidInput,
                           where + ": more than " + std::to_string(format::kMaxVocab) + " pieces");
      }
      model.pieces.push_back(parse_piece(field->bytes, where));
    }
    if (field->id == kModelTrainer) parse_trainer(field->bytes, where, &model);
    if (field->id == kModelNormalizer) parse_normalizer(field->bytes, where, &model);
  }
  if (model.pieces.empty()) {
    throw ProgramError(ExitCode::kInvalidInput, where + ": not a SentencePiece model: no pieces");
  }
  return model;
}

}  // namespace cria::converter
