// On-disk structs of the cria model file, version 3. The prose is docs/model_format.md.
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
inline constexpr uint32_t kVersion = 3;
inline constexpr uint32_t kAlignment = 64;           // of sections, tensors and chunks
inline constexpr uint32_t kChunkRawBytes = 1 << 18;  // most raw bytes a chunk may hold
inline constexpr uint32_t kNone = 0xffffffff;        // "no such token", "no layer"

// Limits checked before any two of these are multiplied. Products of limits fit 64 bits.
inline constexpr uint32_t kMaxSections = 16;
inline constexpr uint32_t kMaxLayers = 1024;
inline constexpr uint32_t kMaxKinds = 16;
inline constexpr uint32_t kMaxModelWidth = 1 << 17;  // d_model, and all heads together
inline constexpr uint32_t kMaxFfnWidth = 1 << 19;
inline constexpr uint32_t kMaxHeads = 1024;
inline constexpr uint32_t kMaxHeadDim = 512;
inline constexpr uint32_t kMaxRank = 1 << 14;
inline constexpr uint32_t kMaxRopeTables = 4;
inline constexpr uint32_t kMinTaps = 2;
inline constexpr uint32_t kMaxTaps = 8;
inline constexpr uint32_t kMaxExperts = 1024;
inline constexpr uint32_t kMaxChosen = 64;
inline constexpr uint32_t kMaxExpertRows = 1 << 24;  // n_experts * expert_ff
inline constexpr uint32_t kMaxPerLayerWidth = 4096;
inline constexpr uint32_t kMaxVectorLength = 1u << 31;  // and rows of a table
inline constexpr uint32_t kMaxVocab = 1 << 21;
inline constexpr uint32_t kMaxContext = 1 << 24;
// Radians a position. Angles stay below 2^27, up to where sines and cosines are exact
// (runtime/base/scalar_math.h).
inline constexpr float kMaxRopeFrequency = 8;
static_assert(kMaxRopeFrequency * kMaxContext == 0x1p27F);
inline constexpr uint32_t kMaxEndTokens = 16;
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
  kConfig = 1,        // ModelScalars and what follows them
  kTokenizer = 2,     // quant/text/tokenizer_format.h; absent when converted with --no-tokenizer
  kChatTemplate = 3,  // quant/text/chat_template_format.h; absent when the model has none we know
  kTensorDirectory = 4,  // TensorEntry[], in the canonical order of quant/model/model_layout.h
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
  kGpt2 = 9,
  kMixtral = 10,
  kQwen2Moe = 11,
  kQwen3Moe = 12,
  kOlmoe = 13,
  kGraniteMoe = 14,
  kDeepseekV2 = 15,
  kDeepseekV3 = 16,
  kMiniCpm = 17,
  kMinistral3 = 18,
  kErnie45 = 19,
  kExaone4 = 20,
  kOlmo2 = 21,
  kOlmo3 = 22,
  kBitNet = 23,
  kGemma2 = 24,
  kGemma3 = 25,
  kLfm2 = 26,
  kLfm2Moe = 27,
  kQwen35 = 28,
  kQwen35Moe = 29,
  kQwen3Next = 30,
  kGemma4 = 31,
};

// How the elements of a tensor are stored. Matrices use layout tile16 (quant/numbers/tile16.h).
enum class NumberFormat : uint8_t {
  kF32 = 1,
  kF16 = 2,
  kBf16 = 3,
  kInt8 = 4,     // symmetric, one f32 scale an output row
  kInt4 = 5,     // one bf16 scale a row and group of inputs
  kInt4Nl = 6,   // the same, of sixteen values that are not evenly spaced
  kInt8G32 = 7,  // kInt8's codes, with kInt4's scales
  kBit1 = 8,     // trained weights of two values, one f16 scale a row and group of inputs
  kBit2 = 9,     // the same of four values
};

// Of a file's chunks.
enum class FileCompression : uint32_t {
  kStored = 0,      // all are
  kAny = 1,         // any may be compressed
  kKeepsLarge = 2,  // those of roles that stay in the file (quant/model/model_layout.h) are stored
};

// Of a chunk.
enum class Compression : uint32_t {
  kStored = 0,
  kZstd = 1,
  // The lower bits of all values, then the upper ones (quant/model/upper_bits.h): these in a frame,
  // or both in one.
  kZstdUpperBits = 2,
  kZstdParts = 3,
};

// The config section: ModelScalars | LayerKind[n_kinds] | uint8_t layers[n_layers], zeros up to a
// multiple of 8 | MatrixCount[n_counts]. It is at most kMaxConfigBytes, so that any config fits a
// fixed buffer. All sizes of a model follow from it.
inline constexpr uint32_t kMaxConfigBytes = 4096;

// Bits of ModelScalars::flags.
inline constexpr uint32_t kTiedEmbedding = 1 << 0;
// Scales of int4 and int4nl may be negative; only where some matrix has such scales.
inline constexpr uint32_t kSignedScales = 1 << 1;
inline constexpr uint32_t kLearnedPositions = 1 << 2;
inline constexpr uint32_t kUnitEmbeddings = 1 << 3;  // of length 1; only with a pooling
inline constexpr uint32_t kKnownModelFlags = 0xf;

enum class Norm : uint8_t {
  kRms = 1,
  kLayerNorm = 2,  // with biases
};

// How the rows of a text's tokens, after the last norm, become its embedding.
enum class Pooling : uint32_t {
  kUnsaid = 0,  // no model of embeddings
  kLast = 1,
  kMean = 2,
  kFirst = 3,
};

// Rates at which RoPE turns pairs of elements; the rates themselves are the tensor kRope.
struct RopeTable {
  uint32_t n_pairs;
  float factor;  // cosines and sines are multiplied by it (YaRN); else 1
  // A session of more positions than this uses a second set of rates; 0: there is one set.
  uint32_t original_context;
  uint32_t reserved;
};
static_assert(sizeof(RopeTable) == 16);

struct ModelScalars {
  uint32_t architecture;  // Architecture, for people: nothing computes differently by it
  uint32_t flags;
  uint32_t n_layers;
  uint32_t n_kinds;   // of layers
  uint32_t n_counts;  // of matrices
  uint32_t d_model;
  uint32_t vocab_size;
  uint32_t max_context;        // positions the model was trained for
  uint32_t planned_context;    // positions allocated when the caller asks for none
  uint32_t compression;        // FileCompression
  uint32_t final_norm;         // Norm
  float norm_epsilon;          // of the final norm and of per-layer inputs
  float embedding_multiplier;  // embedding rows are multiplied by it
  float residual_multiplier;   // what each block adds to the residual stream is multiplied by it
  float logits_divisor;        // logits are divided by it
  float logits_cap;            // c: then logits are c * tanh(logits / c); 0: none
  uint32_t per_layer_width;    // of the embeddings that each layer has for itself; 0: none
  float per_layer_table_multiplier;
  float per_layer_input_multiplier;
  float per_layer_sum_multiplier;
  uint32_t bos_token;  // kNone: no such token
  uint32_t n_end_tokens;
  uint32_t end_tokens[kMaxEndTokens];  // generation stops at any of them; unused ones are zero
  uint32_t n_rope_tables;
  uint32_t pooling;                       // Pooling
  RopeTable rope_tables[kMaxRopeTables];  // unused ones are zero
  uint8_t reserved[32];
};
static_assert(sizeof(ModelScalars) == 256);
static_assert(offsetof(ModelScalars, norm_epsilon) == 44);
static_assert(offsetof(ModelScalars, end_tokens) == 88);
static_assert(offsetof(ModelScalars, rope_tables) == 160);

// What mixes positions in a layer.
enum class Mixer : uint8_t {
  kNothing = 0,
  kAttention = 1,
  kLatentAttention = 2,
  kShortConvolution = 3,
  kDeltaRule = 4,   // gated
  kStateSpace = 5,  // SSD, of Mamba 2
};
enum class FeedForward : uint8_t {
  kNothing = 0,
  kDense = 1,
  kExperts = 2,
};
enum class Activation : uint8_t {
  kSilu = 1,
  kGelu = 2,  // by tanh
  kReluSquared = 3,
  kClampedSwiglu = 4,
};
inline constexpr size_t kActivations = 4;
enum class RouterScore : uint8_t {
  kSoftmax = 1,
  kSigmoid = 2,
};

// Bits of LayerKind::flags.
namespace flag {
// Norms before a block, and of what it adds.
inline constexpr uint32_t kMixerNorm = 1 << 0;
inline constexpr uint32_t kMixerOutNorm = 1 << 1;
inline constexpr uint32_t kFfnNorm = 1 << 2;
inline constexpr uint32_t kFfnOutNorm = 1 << 3;
inline constexpr uint32_t kMixerBias = 1 << 4;        // on the mixer's input matrices
inline constexpr uint32_t kOutputBias = 1 << 5;       // on its output matrix
inline constexpr uint32_t kFfnBias = 1 << 6;          // on gate, up and down, and those of experts
inline constexpr uint32_t kHeadNorms = 1 << 7;        // of each query and key head, before RoPE
inline constexpr uint32_t kWholeNorms = 1 << 8;       // of all heads of a projection together
inline constexpr uint32_t kValueNorm = 1 << 9;        // of each value head
inline constexpr uint32_t kValuesAreKeys = 1 << 10;   // as they come from their matrix
inline constexpr uint32_t kSinks = 1 << 11;           // one more score a head, its share dropped
inline constexpr uint32_t kOutputGate = 1 << 12;      // sigmoid, on attention's output
inline constexpr uint32_t kMixerInnerNorm = 1 << 13;  // of attention's output, before o
inline constexpr uint32_t kFfnInnerNorm = 1 << 14;    // of what is activated, before down
inline constexpr uint32_t kGated = 1 << 15;           // act(gate) * up; else act(up)
inline constexpr uint32_t kRouterBias = 1 << 16;
inline constexpr uint32_t kChoiceBias = 1 << 17;        // by which experts are chosen, not weighted
inline constexpr uint32_t kRouterNorm = 1 << 18;        // the router reads the residual stream
inline constexpr uint32_t kNormalizedChoice = 1 << 19;  // weights are divided by their sum
inline constexpr uint32_t kExpertScale = 1 << 20;       // a factor for each expert
inline constexpr uint32_t kSharedGate = 1 << 21;        // sigmoid, on the MLP beside the experts
inline constexpr uint32_t kBranchNorms = 1 << 22;       // of experts and the MLP beside them
inline constexpr uint32_t kPerLayerInput = 1 << 23;
inline constexpr uint32_t kLayerScale = 1 << 24;  // a factor of the whole layer
inline constexpr uint32_t kConvolutionBias = 1 << 25;
inline constexpr uint32_t kGroupedNorm = 1 << 26;  // a state space's norm by key heads
}  // namespace flag

inline constexpr uint8_t kNoTable = 255;  // of RoPE
inline constexpr uint8_t kNoKind = 255;

// Layers that are alike. A field that neither the mixer nor the feed-forward uses is 0, rope_table
// and shared_with 255.
struct LayerKind {
  uint8_t mixer;         // Mixer
  uint8_t feed_forward;  // FeedForward; one of the two is there
  uint8_t norm;          // Norm of d_model wide norms
  uint8_t activation;    // Activation
  uint32_t flags;
  uint16_t n_query_heads;
  uint16_t n_key_heads;
  uint16_t n_value_heads;
  uint16_t key_dim;  // of a head, as value_dim; even
  uint16_t value_dim;
  uint16_t query_rank;      // latent attention: of a query's compressed row; 0: not compressed
  uint16_t latent_rank;     // latent attention: of the row that stands for keys and values
  uint16_t shared_key_dim;  // latent attention: of the key that all heads share, turned by RoPE
  uint8_t rope_table;       // its number; kNoTable: positions turn nothing
  uint8_t shared_with;      // the kind whose keys and values this one reads; kNoKind: its own
  uint8_t conv_taps;        // of a causal convolution
  uint8_t router_score;     // RouterScore
  uint32_t window;          // a position attends to this many, itself included; 0: to all
  float score_multiplier;   // query-key products are multiplied by it; 1/sqrt(key_dim) in Llama
  float score_cap;          // c: then scores are c * tanh(score / c); 0: none
  float qkv_clip;           // queries, keys and values stay within +-qkv_clip; 0: none
  float query_growth;       // queries * (1 + growth * ln(1 + floor(position / period)))
  uint32_t query_growth_period;
  float norm_epsilon;   // of d_model wide norms
  float inner_epsilon;  // of norms inside blocks
  float unit_epsilon;   // of unit lengths
  uint32_t d_ff;        // experts: width of the MLP beside them, or 0
  uint32_t expert_ff;
  uint16_t n_experts;
  uint16_t n_chosen;         // for a token
  uint16_t n_groups;         // of experts; 0: none
  uint16_t n_groups_chosen;  // experts are chosen from these
  uint8_t group_rank;        // a group counts as its best 1 or the sum of its best 2
  uint8_t reserved[3];
  float router_epsilon;  // added to the sum of kNormalizedChoice
  float router_scale;
  float activation_alpha;  // of kClampedSwiglu
  float activation_limit;
  uint8_t reserved2[28];
};
static_assert(sizeof(LayerKind) == 128);
static_assert(offsetof(LayerKind, n_query_heads) == 8);
static_assert(offsetof(LayerKind, rope_table) == 24);
static_assert(offsetof(LayerKind, window) == 28);
static_assert(offsetof(LayerKind, norm_epsilon) == 52);
static_assert(offsetof(LayerKind, n_experts) == 72);
static_assert(offsetof(LayerKind, router_epsilon) == 84);
static_assert(offsetof(LayerKind, reserved2) == 100);

// How many matrices of a role and kind have a format; which of them, the directory says. Ascending
// by (kind, role, format).
struct MatrixCount {
  uint16_t role;   // TensorRole of a matrix
  uint8_t kind;    // kNoKind outside the layers
  uint8_t format;  // place in kMatrixFormats (quant/numbers/number_formats.h)
  uint32_t count;  // at least 1; a stack is one
};
static_assert(sizeof(MatrixCount) == 8);

inline constexpr uint32_t kMaxCounts =
    (kMaxConfigBytes - sizeof(ModelScalars) - sizeof(LayerKind) - 8) / sizeof(MatrixCount);
static_assert(kMaxCounts == 463);

// Roles of stored tensors. Values are part of the format; shapes are in quant/blocks.
enum class TensorRole : uint16_t {
  kRope = 0,
  kEmbedding = 1,
  kMixerNorm = 2,
  kQ = 3,  // rows of q and k are in rotate-half order
  kK = 4,
  kV = 5,
  kO = 6,
  kFfnNorm = 7,
  kGate = 8,
  kUp = 9,
  kDown = 10,
  kFinalNorm = 11,
  kLmHead = 12,
  kQBias = 13,
  kKBias = 14,
  kVBias = 15,
  kOBias = 16,
  kGateBias = 17,
  kUpBias = 18,
  kDownBias = 19,
  kQNorm = 20,
  kKNorm = 21,
  kPositions = 23,
  kPerLayerTable = 24,
  kPerLayerProjection = 25,
  kPerLayerNorm = 26,
  kMixerOutNorm = 27,
  kFfnOutNorm = 28,
  kVNorm = 29,
  kMixerGate = 30,
  kMixerGateBias = 31,
  kSinks = 32,
  kMixerInnerNorm = 33,
  kQDown = 34,
  kQDownBias = 35,
  kQDownNorm = 36,
  kLatentDown = 37,
  kLatentDownBias = 38,
  kLatentNorm = 39,
  kKeyUp = 40,
  kValueUp = 41,
  kConvolution = 42,
  kConvolutionBias = 43,
  kDecayIn = 44,
  kDecayInBias = 45,
  kBetaIn = 46,
  kBetaInBias = 47,
  kDecay = 48,
  kDecayBias = 49,
  kSkip = 50,
  kFfnInnerNorm = 51,
  kRouter = 52,
  kRouterBias = 53,
  kChoiceBias = 54,
  kRouterNorm = 55,
  kExpertScale = 56,
  kExpertNorm = 57,
  kExpertGate = 58,
  kExpertGateBias = 59,
  kExpertUp = 60,
  kExpertUpBias = 61,
  kExpertDown = 62,
  kExpertDownBias = 63,
  kExpertOutNorm = 64,
  kSharedGate = 65,
  kSharedOutNorm = 66,
  kPerLayerGate = 67,
  kPerLayerOut = 68,
  kPerLayerOutNorm = 69,
  kLayerScale = 70,
};
inline constexpr size_t kTensorRoles = 71;

// A tensor's raw bytes are one or two planes (quant/numbers/tile16.h): codes, then scales. Each
// plane is cut apart into chunks of kChunkRawBytes, the last one shorter; the chunks of a tensor
// are consecutive in the chunk table, and those of all tensors together are the whole table.
struct TensorEntry {
  uint16_t role;          // TensorRole
  uint16_t group_size;    // those that number_formats.h has for the format, else zero
  uint32_t layer;         // kNone outside the layers
  uint8_t number_format;  // NumberFormat; kF32 for vectors
  uint8_t reserved[3];
  uint32_t rows;  // 1 for vectors
  uint32_t cols;
  uint32_t first_chunk;
  uint32_t n_chunks;
  uint32_t n_matrices;  // 1, or of a stack: matrices of rows * cols, each beginning at a tile
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
