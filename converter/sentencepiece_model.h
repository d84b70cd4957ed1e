// Reads tokenizer.model, the file of the SentencePiece library: a protocol buffer, of which this
// knows the fields that decide how text is encoded.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "converter/tokenizer_tables.h"

namespace cria::converter {

enum class PieceType : uint32_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

struct SentencePiece {
  std::string text;
  float score = 0;
  PieceType type = PieceType::kNormal;
};

// The defaults are those of the format.
struct SentencePieceModel {
  std::vector<SentencePiece> pieces;
  uint32_t model_type = 1;  // 1 unigram, 2 BPE, 3 word, 4 character
  bool whitespace_as_suffix = false;
  bool byte_fallback = false;
  int32_t bos_id = 1;  // -1: none
  int32_t eos_id = 2;
  std::string normalizer_name;
  bool has_character_map = false;
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;
};

// where names the file in errors. Throws ProgramError for bytes that are no such model.
[[nodiscard]] SentencePieceModel parse_sentencepiece_model(std::span<const uint8_t> bytes,
                                                           const std::string& where);

// Merges in the order of the pieces' scores give what the library gives: highest score first, the
// leftmost of equal ones. BOS and EOS are set; kAddBos and kAddEos are the caller's. Throws
// ProgramError that names what is not supported.
[[nodiscard]] TokenizerModel tokenizer_from_sentencepiece(const SentencePieceModel& source,
                                                          const std::string& where);

}  // namespace cria::converter
