// On-disk structs of the cria model file, version 2. The prose is docs/model_format.md.
//
// All integers are little-endian and unsigned unless named f32. Structs are read by memcpy, so
// the compiler's layout must be the file's: every struct is padded by hand and its size asserted.
// Reserved bytes are written as zero and refused when they are not.
//
//   FileHeader | SectionEntry[section_count] | sections, each aligned to 64 bytes
//
// Sections follow each other in the order of the table; the gaps that the alignment leaves are
// zero, and the last section ends the file.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace cria::format {

static_assert(std::endian::native == std::endian::little,
              "The file is used in place, so a big-endian target needs a byte-swapping reader.");

inline constexpr uint8_t kMagic[8] = {'C', 'R', 'I', 'A', 0x0d, 0x0a, 0x1a, 0x0a};
inline constexpr uint32_t kVersion = 2;
inline constexpr uint32_t kAlignment = 64;           // of sections, tensors and chunks
inline constexpr uint32_t kChunkRawBytes = 1 << 18;  // most raw bytes a chunk may hold
inline constexpr uint32_t kNone = 0xffffffff;        // "no such token", "no layer"

// Limits checked before any two of these are multiplied. Products of limits fit 64 bits.
inline constexpr uint32_t kMaxSections = 16;
inline constexpr uint32_t kMaxLayers = 1024;
inline constexpr uint32_t kMaxModelWidth = 1 << 17;  // d_model, n_heads * head_dim
inline constexpr uint32_t kMaxFfnWidth = 1 << 19;
inline constexpr uint32_t kMaxHeads = 1024;
inline constexpr uint32_t kMaxHeadDim = 512;
inline constexpr uint32_t kMaxVocab = 1 << 21;
inline constexpr uint32_t kMaxContext = 1 << 24;
// Radians a position. Angles stay below 2^27, up to where sines and cosines are exact
// (runtime/base/scalar_math.h).
inline constexpr float kMaxRopeFrequency = 8;
static_assert(kMaxRopeFrequency * kMaxContext == 0x1p27F);
inline constexpr uint32_t kMaxEndTokens = 16;
inline constexpr uint32_t kMaxNoRopePeriod = 64;
inline constexpr uint64_t kMaxFileBytes = uint64_t{1} << 40;
inline constexpr uint32_t kMaxMetadataBytes = 1 << 20;
inline constexpr uint32_t kMaxMetadataNesting = 16;  // objects and arrays inside each other
// Raw bytes a stored byte of a chunk may stand for, so that a short file cannot make anyone reserve
// gigabytes for its weights.
inline constexpr uint32_t kMaxExpansion = 64;

struct FileHeader {
  uint8_t magic[8];
  uint32_t version;
  uint32_t section_count;
  uint64_t file_bytes;
  uint8_t reserved[32];
  uint64_t checksum;  // XXH64 of this header with checksum = 0, followed by the section table
};
static_assert(sizeof(FileHeader) == 64 && offsetof(FileHeader, checksum) == 56);

enum class SectionKind : uint32_t {
  kConfig = 1,           // one ModelConfig
  kTokenizer = 2,        // quant/tokenizer_format.h; absent when converted with --no-tokenizer
  kChatTemplate = 3,     // quant/chat_template_format.h; absent when the model has none we know
  kTensorDirectory = 4,  // TensorEntry[], in the canonical order of quant/model_layout.h
  kChunkTable = 5,       // ChunkEntry[]
  kMetadata = 6,         // JSON for people; no program depends on it
  kData = 7,             // the chunks
};

struct SectionEntry {
  uint32_t kind;  // SectionKind; each kind at most once
  uint32_t reserved;
  uint64_t offset;  // from the start of the file, a multiple of 64
  uint64_t bytes;
  uint64_t checksum;  // XXH64 of the section; zero for kData, whose chunks carry their own
};
static_assert(sizeof(SectionEntry) == 32);

enum class Architecture : uint32_t {
  kLlama = 1,
  kMistral = 2,
  kGranite = 3,
  kQwen2 = 4,
  kQwen3 = 5,
  kSmolLm3 = 6,
  kPhi3 = 7,
  kGraniteHybrid = 8,
};

// How the elements of a tensor are stored. Matrices use layout tile16 (quant/tile16.h).
enum class NumberFormat : uint8_t {
  kF32 = 1,
  kF16 = 2,
  kBf16 = 3,
  kInt8 = 4,     // symmetric, one f32 scale an output row
  kInt4 = 5,     // one bf16 scale a row and group of inputs
  kInt4Nl = 6,   // the same, of sixteen values that are not evenly spaced
  kInt8G32 = 7,  // kInt8's codes, with kInt4's scales
};

// Of a file: kStored or kZstd. Of a chunk: any of these.
enum class Compression : uint32_t {
  kStored = 0,
  kZstd = 1,
  // The lower bits of all values, then the upper ones (quant/upper_bits.h): these in a frame, or
  // both in one.
  kZstdUpperBits = 2,
  kZstdParts = 3,
};

// The nine matrices of a model.
enum class MatrixRole : uint8_t {
  kEmbedding = 0,
  kQ = 1,
  kK = 2,
  kV = 3,
  kO = 4,
  kGate = 5,
  kUp = 6,
  kDown = 7,
  kLmHead = 8,  // not stored when flags has kTiedEmbedding
};
inline constexpr size_t kMatrixRoles = 9;
// Formats that matrices may have, by their places in kMatrixFormats (quant/number_formats.h), and
// places for later ones.
inline constexpr size_t kMatrixFormatPlaces = 16;
using MatrixCounts = uint16_t[kMatrixRoles][kMatrixFormatPlaces];

// Bits of ModelConfig::flags.
inline constexpr uint32_t kTiedEmbedding = 1 << 0;
inline constexpr uint32_t kQkvBias = 1 << 1;
inline constexpr uint32_t kOutputBias = 1 << 2;  // on the attention's output projection
inline constexpr uint32_t kMlpBias = 1 << 3;     // on gate, up and down
inline constexpr uint32_t kQkNorm = 1 << 4;      // an RMSNorm of every query and key, before RoPE
inline constexpr uint32_t kLongRope = 1 << 5;    // two sets of RoPE frequencies: original_context
// Scales of int4 and int4nl may be negative; only where some matrix has such scales.
inline constexpr uint32_t kSignedScales = 1 << 6;
inline constexpr uint32_t kKnownFlags = 0x7f;

struct ModelConfig {
  uint32_t architecture;  // Architecture, for people: nothing computes differently by it
  uint32_t flags;
  uint32_t n_layers;
  uint32_t d_model;
  uint32_t n_heads;
  uint32_t n_kv_heads;  // divides n_heads
  uint32_t head_dim;    // even
  uint32_t d_ff;
  uint32_t vocab_size;
  uint32_t max_context;      // positions the model was trained for
  uint32_t planned_context;  // positions allocated when the caller asks for none
  uint32_t sliding_window;   // a position attends to this many, itself included; 0: to all
  float rms_epsilon;
  float embedding_multiplier;  // embedding rows are multiplied by it
  float residual_multiplier;   // what each block adds to the residual stream is multiplied by it
  float attention_multiplier;  // query-key products are multiplied by it; 1/sqrt(head_dim) in Llama
  float logits_divisor;        // logits are divided by it
  float rope_factor;           // cosines and sines are multiplied by it (YaRN); else 1
  uint32_t compression;        // Compression; with kStored every chunk is stored
  uint32_t bos_token;          // kNone: no such token
  uint32_t n_end_tokens;
  uint32_t end_tokens[kMaxEndTokens];  // generation stops at any of them; unused ones are zero
  // How many matrices of a role have a format; which of them, the directory says. All sizes follow
  // from these counts, so that memory is planned from the config alone.
  MatrixCounts n_matrices;
  uint32_t rotary_dim;  // RoPE turns so many elements of each head, the first; even; 0: all
  // A session of more positions than this uses the second set of frequencies; 0 but with kLongRope.
  uint32_t original_context;
  // Layer l is without RoPE when bit l % no_rope_period of no_rope_layers is set; 0: no layer is.
  uint32_t no_rope_period;     // up to kMaxNoRopePeriod
  uint32_t no_rope_layers[2];  // bits 0 to 31, then 32 to 63
  uint8_t reserved[56];
};
static_assert(sizeof(ModelConfig) == 512);
static_assert(offsetof(ModelConfig, end_tokens) == 84);
static_assert(offsetof(ModelConfig, n_matrices) == 148);
static_assert(offsetof(ModelConfig, rotary_dim) == 436);
static_assert(kMaxLayers <= UINT16_MAX);

// Roles of stored tensors. Values are part of the format.
enum class TensorRole : uint16_t {
  kRopeInverseFrequencies = 0,  // f32 [half of the elements of a head that RoPE turns]
  kEmbedding = 1,               // [vocab_size][d_model]
  kAttentionNorm = 2,           // f32 [d_model]
  kQ = 3,                       // [n_heads * head_dim][d_model], rotate-half order
  kK = 4,                       // [n_kv_heads * head_dim][d_model], rotate-half order
  kV = 5,                       // [n_kv_heads * head_dim][d_model]
  kO = 6,                       // [d_model][n_heads * head_dim]
  kFfnNorm = 7,                 // f32 [d_model]
  kGate = 8,                    // [d_ff][d_model]
  kUp = 9,                      // [d_ff][d_model]
  kDown = 10,                   // [d_model][d_ff]
  kFinalNorm = 11,              // f32 [d_model]
  kLmHead = 12,                 // [vocab_size][d_model]
  kQBias = 13,                  // f32, one value an output row, like those below
  kKBias = 14,
  kVBias = 15,
  kOBias = 16,
  kGateBias = 17,
  kUpBias = 18,
  kDownBias = 19,
  kQNorm = 20,  // f32 [head_dim], like the next
  kKNorm = 21,
  kRopeLongInverseFrequencies = 22,  // as kRopeInverseFrequencies, of long contexts
};

// A tensor's raw bytes are one or two planes (quant/tile16.h): codes, then scales. Each plane is
// cut apart into chunks of kChunkRawBytes, the last one shorter; the chunks of a tensor are
// consecutive in the chunk table, and those of all tensors together are the whole table.
struct TensorEntry {
  uint16_t role;          // TensorRole
  uint16_t group_size;    // 32, 64 or 128 for kInt4 and kInt4Nl, 32 for kInt8G32, else zero
  uint32_t layer;         // kNone outside the layers
  uint8_t number_format;  // NumberFormat; kF32 for vectors
  uint8_t reserved[3];
  uint32_t rows;  // 1 for vectors
  uint32_t cols;
  uint32_t first_chunk;
  uint32_t n_chunks;
  uint32_t reserved2;
  uint64_t raw_bytes;
};
static_assert(sizeof(TensorEntry) == 40);

struct ChunkEntry {
  uint64_t offset;  // from the start of the file; the first multiple of 64 past the chunk before
  uint32_t stored_bytes;
  uint32_t raw_bytes;
  uint32_t compression;  // Compression; kStored: stored_bytes == raw_bytes; else fewer, but at
                         // least raw_bytes / kMaxExpansion
  uint32_t reserved;
  uint64_t checksum;  // XXH64 of the stored bytes
};
static_assert(sizeof(ChunkEntry) == 32);

}  // namespace cria::format
