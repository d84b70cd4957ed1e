// A tokenizer as every importer delivers it, and the file section made of it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "quant/text/tokenizer_format.h"

namespace cria::converter {

struct TokenizerMerge {
  uint32_t left;
  uint32_t right;
  uint32_t result;
  uint32_t rank;
};

// One id; an empty text is an id that no token has.
struct TokenizerToken {
  std::string text;      // as quant/text/tokenizer_format.h stores it
  uint8_t flags = 0;     // kToken...
  bool is_word = false;  // belongs in sorted_tokens where the kind of tokenizer asks for it
};

struct TokenizerModel {
  TokenizerModel();

  std::string where = "the tokenizer";  // what it is called in errors: its file's path
  format::TokenizerKind kind = format::TokenizerKind::kByteLevelBpe;
  format::PreTokenizer pre_tokenizer = format::PreTokenizer::kWhole;
  std::vector<uint8_t> pre_tokenizer_tables;  // of kStages (converter/pre_tokenizer_names.h)
  std::string pre_tokenizer_name;             // for people; empty: nothing to say
  uint32_t flags = 0;                         // TokenizerHeader::flags
  std::vector<TokenizerToken> tokens;
  std::vector<TokenizerMerge> merges;
  std::array<uint32_t, 256> byte_tokens;  // all kNone at first
  uint32_t bos_token = format::kNone;
  uint32_t eos_token = format::kNone;
  uint32_t unknown_token = format::kNone;
  std::vector<std::string> warnings;  // of how it was read

  // The token at id, which is made if need be. Throws ProgramError past kMaxVocab.
  TokenizerToken& at(uint32_t id);
  // The added token with this text, or the first token with it; nullopt when there is none. Linear.
  [[nodiscard]] std::optional<uint32_t> find(std::string_view text) const;
};

// An added token as tokenizer.json and tokenizer_config.json describe it.
struct AddedToken {
  uint32_t id = 0;
  std::string text;
  bool special = false;
  bool normalized = false;
  bool strip_left = false;
  bool strip_right = false;
  bool single_word = false;  // which is not supported
};

// Puts an added token into the model. Throws ProgramError when its id belongs to another text, and
// for a token with single_word.
// kTokenNormalized and kTokenAfterSpace are the caller's to set.
void add_token(const AddedToken& added, TokenizerModel* model);

// A word may start at any run of U+2581 if no merge joins such a run to what stands before it:
// chooses kSpaceRuns or kWhole accordingly (SentencePiece BPE).
[[nodiscard]] format::PreTokenizer choose_word_cut(const TokenizerModel& model);

// The bytes of the section. Merges that give or take a special token, and those that are not the
// concatenation of their parts, are left out; of two merges of one pair the later one counts.
// Throws ProgramError when a limit of the format is exceeded, or when a byte of text has only a
// special token, without which it could not be encoded.
[[nodiscard]] std::vector<uint8_t> build_tokenizer_section(const TokenizerModel& model);

}  // namespace cria::converter
