// The tokenizer section of a model file: tables the device uses as they lie.
//
// Tokenizer section: TokenizerHeader, then these arrays one after the other, each aligned to 4:
//   uint32_t token_ends[n_tokens]       end of token i's bytes in text; it starts at the end of i-1
//   uint8_t  token_flags[n_tokens]      bits below
//   uint32_t sorted_tokens[n_sorted]    tokens found by their whole text, ascending by their bytes:
//                                       words (kIgnoreMerges), or single characters (SentencePiece)
//   uint32_t merge_ends[n_tokens]       end of the merges whose left part is token i
//   MergeEntry merges[n_merges]         ascending by left, then by right
//   uint32_t byte_tokens[256]           the token of each byte; kNone where there is none
//   uint32_t added_tokens[n_added]      tokens matched in text before anything else; ascending by
//                                       first byte, then longest first, then ascending by bytes
//   uint8_t  text[text_bytes]           the tokens' bytes
//   uint8_t  pre_tokenizer[pre_tokenizer_bytes]  of kStages only
// (quant/text/pre_tokenizer_format.h) The section ends with the last that is there; bytes that
//   alignment leaves are zero.
//
// Byte-level BPE stores raw bytes (the GPT-2 byte alphabet is undone by the converter).
// SentencePiece BPE stores pieces with U+2581 for a space, and byte pieces <0xNN> as one raw byte.
// An id that no token has is an empty text. The result of a merge is the text of its two parts, one
// after the other. Tokens with kTokenSpecial are in no table but added_tokens: no text can become
// one by merges. Every end token of the config is special, and so is every added token that the
// chat template's strings give (quant/text/tokenizer_check.h).
#pragma once

#include <cstdint>

#include "quant/format/format.h"
#include "quant/text/pre_tokenizer_format.h"

namespace cria::format {

inline constexpr uint32_t kMaxMerges = 1 << 23;
inline constexpr uint32_t kMaxTokenTextBytes = 1 << 26;
inline constexpr uint32_t kMaxTokenBytes = 1 << 12;  // of one token
// Sum of the different lengths, in bytes, of the added tokens that start with one byte: each is a
// binary search at every place of a text. The largest known is 1,485 (runs of up to 31 U+2581).
inline constexpr uint32_t kMaxAddedLengths = 1 << 11;

enum class TokenizerKind : uint32_t { kByteLevelBpe = 1, kSentencePieceBpe = 2 };

// How text is cut into words before the merges, which never cross two words.
enum class PreTokenizer : uint32_t {
  kWhole = 0,      // the text is one word
  kStages = 1,     // the tables of quant/text/pre_tokenizer_format.h: byte-level BPE
  kSpaceRuns = 5,  // a word starts at a run of U+2581; this and the next: SentencePiece BPE. Chosen
                   // where no merge crosses such a place, so that it only bounds the workspace
  kMetaspace = 6,  // a word starts at each U+2581
};

// Bits of TokenizerHeader::flags.
inline constexpr uint32_t kAddBos = 1 << 0;          // encoding with special tokens starts with BOS
inline constexpr uint32_t kAddEos = 1 << 1;          // ... ends with EOS
inline constexpr uint32_t kIgnoreMerges = 1 << 2;    // a word that is a token needs no merges
inline constexpr uint32_t kByteFallback = 1 << 3;    // unknown characters become byte tokens
inline constexpr uint32_t kPrependSpace = 1 << 4;    // a U+2581 is put before text, and before text
                                                     // that follows an added token
inline constexpr uint32_t kFuseUnknown = 1 << 5;     // neighbouring unknown characters: one token
inline constexpr uint32_t kStripSpace = 1 << 6;      // decoding drops one leading space
inline constexpr uint32_t kAddPrefixSpace = 1 << 7;  // byte-level: a space before text without one
inline constexpr uint32_t kPrependOnlyFirst = 1 << 8;    // kPrependSpace not after an added token
inline constexpr uint32_t kPrependUnlessSpace = 1 << 9;  // kPrependSpace not before a space
inline constexpr uint32_t kNfc = 1 << 10;  // byte-level: text between added tokens is put into
                                           // Unicode's normalization form C
inline constexpr uint32_t kKnownTokenizerFlags = 0x7ff;

// Bits of token_flags.
inline constexpr uint8_t kTokenSpecial = 1 << 0;     // control token: decodes to nothing by default
inline constexpr uint8_t kTokenByte = 1 << 1;        // one raw byte of a character
inline constexpr uint8_t kTokenAdded = 1 << 2;       // in added_tokens
inline constexpr uint8_t kTokenStripLeft = 1 << 3;   // added token that swallows space before it
inline constexpr uint8_t kTokenStripRight = 1 << 4;  // ... after it
inline constexpr uint8_t kTokenNormalized = 1 << 5;  // added token matched after the others, in
                                                     // text with its prepended U+2581 and its
                                                     // spaces turned into U+2581 (SentencePiece)
inline constexpr uint8_t kTokenAfterSpace = 1 << 6;  // ... only after a U+2581, which it swallows;
                                                     // decoding gives a space for it
inline constexpr uint8_t kKnownTokenFlags = 0x7f;

struct TokenizerHeader {
  uint32_t kind;           // TokenizerKind
  uint32_t pre_tokenizer;  // PreTokenizer
  uint32_t flags;
  uint32_t n_tokens;  // at most the model's vocab_size
  uint32_t n_sorted;
  uint32_t n_merges;
  uint32_t n_added;
  uint32_t text_bytes;
  uint32_t bos_token;      // kNone: none
  uint32_t eos_token;      // for kAddEos; kNone: none
  uint32_t unknown_token;  // kNone: none
  uint32_t longest_token;  // bytes
  uint32_t pre_tokenizer_bytes;
  uint8_t reserved[12];
};
static_assert(sizeof(TokenizerHeader) == 64);

struct MergeEntry {
  uint32_t right;   // token
  uint32_t rank;    // lower ranks merge first
  uint32_t result;  // token
};
static_assert(sizeof(MergeEntry) == 12);

}  // namespace cria::format
