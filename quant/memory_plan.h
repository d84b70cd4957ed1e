// The memory that a model, a session and a workspace need, each to the byte, from the model's
// config and the caller's wishes alone. Nothing here depends on the size of a pointer, so the
// converter's figure holds on every target.
//
//   model      records, tables of tokenizer and template, weights, what the backend packs; shared
//   session    KV cache, token history, logits: one conversation
//   workspace  activations, attention, sampling and encoding, one call at a time; and, before there
//              is anything to run, loading
#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/format.h"

namespace cria {

enum class KvFormat : uint32_t { kInt8 = 0, kF32 = 1, kK8V4 = 2 };

// Reserved for records whose real size depends on the target; asserted where they are defined.
inline constexpr uint64_t kModelObjectBytes = 2240;
inline constexpr uint64_t kLayerObjectBytes = 1024;
inline constexpr uint64_t kSessionObjectBytes = 256;
inline constexpr uint64_t kWorkspaceObjectBytes = 512;
inline constexpr uint64_t kRowObjectBytes = 16;             // a row of a step
inline constexpr uint64_t kQueryObjectBytes = 24;           // a query of attention
inline constexpr uint64_t kDecompressorBytes = 160 * 1024;  // zstd's static context, one a thread
inline constexpr uint64_t kStagingBytes = format::kChunkRawBytes;  // one a thread: a frame, or
                                                                   // upper bits out of one
inline constexpr uint64_t kChunkScratchBytes = kDecompressorBytes + kStagingBytes;
static_assert(kDecompressorBytes % format::kAlignment == 0);
static_assert(kStagingBytes % format::kAlignment == 0);
// Positions that attention handles at once; its scratch does not grow with the context.
inline constexpr uint32_t kAttentionTile = 64;
// Queries, heads of rows, that may go through a tile together; one in chunks of fewer rows than
// that, whose memory is to be small.
inline constexpr uint32_t kAttentionQueries = 32;
inline constexpr uint32_t kAttentionBlockRows = 32;
// Bytes a symbol of the text being encoded takes (runtime/text/bpe.h).
inline constexpr uint64_t kEncodeBytesPerSymbol = 28;

struct PlanInput {
  // Of the model.
  bool mapped;               // the source hands out pointers: tables and stored weights in place
  bool text_only;            // tokenizer and template, no weights
  uint64_t tokenizer_bytes;  // size of the section, 0 when absent
  uint64_t chat_template_bytes;
  // Of a session.
  uint32_t context;  // positions, 1..config.max_context
  KvFormat kv_format;
  // Of a workspace.
  uint32_t n_threads;       // >= 1, while loading too
  uint32_t prefill_chunk;   // rows handled at once, >= 1
  uint32_t max_turns;       // sessions whose logits a step computes together, 1..prefill_chunk
  uint32_t max_text_bytes;  // longest text encoded in one piece
  // What the backend asks for. The exact backend: all zero but keeps_tile16.
  bool backend_keeps_tile16;         // matrices stay as they are; else only the embedding does
  uint64_t backend_model_bytes;      // packed weights
  uint64_t backend_workspace_bytes;  // kept by a workspace
  uint64_t backend_step_bytes;       // while running
  uint64_t backend_load_bytes;       // while loading
};

// Bytes, each rounded up to 64.
struct MemoryPlan {
  struct Model {
    uint64_t objects;
    uint64_t tokenizer;
    uint64_t weights;
    uint64_t backend;
    uint64_t total;  // sum of the four
  } model;
  struct Session {
    uint64_t objects;
    uint64_t kv_cache;
    uint64_t history;
    uint64_t logits;
    uint64_t total;  // sum of the four
  } session;
  struct Workspace {
    uint64_t objects;
    uint64_t backend;
    uint64_t running;  // activations and attention scratch
    uint64_t sampling;
    uint64_t encoding;
    uint64_t total;  // objects, backend and the largest of the other three, which share memory
  } workspace;
  uint64_t loading;   // decompressors and staging, in memory that is free before and after
  uint64_t total;     // one of each in one block; loading is done where the workspace will be
  uint64_t in_place;  // parts of the file used where the source has them
};

// Bytes that running, sampling and encoding share.
[[nodiscard]] uint64_t scratch_bytes(const MemoryPlan::Workspace& workspace);

// Returns false when a size does not fit 63 bits. config must have passed check_config.
[[nodiscard]] bool plan_memory(const format::ModelConfig& config, const PlanInput& input,
                               MemoryPlan* plan);

// Sub-blocks of the running part, each rounded up to 64, in elements' bytes; the decoder lays them
// out in this order.
struct RunningLayout {
  uint64_t x;                 // [chunk][d_model] f32, the residual stream
  uint64_t normed;            // [chunk][max(d_model, n_heads * head_dim)] f32
  uint64_t wide;              // the larger of qkv and gate_up, which share it
  uint64_t projected;         // [chunk][d_model] f32, what a block adds
  uint64_t quantized;         // [chunk][widest padded input] int8
  uint64_t quantized_scales;  // [chunk][widest padded input / 32] f32
  uint64_t quantized_sums;    // [chunk][widest padded input / 32] int32
  uint64_t rope;              // [chunk][head_dim] f32: cosines, then sines
  uint64_t attention;         // one slice a thread
  uint64_t attention_per_thread;
  uint64_t attention_queries;  // of a slice
  uint64_t rows;               // [chunk] records of 16 bytes
  uint64_t turn_logits;        // [max_turns][vocab_size] f32; none for one turn
  uint64_t backend;
  uint64_t total;
};
[[nodiscard]] RunningLayout running_layout(const format::ModelConfig& config,
                                           const PlanInput& input);

// Scratch of moving keys and values, in floats: an angle's cosines and sines, then a key and a
// value of each task, twice. Fits into what running takes, which is as large if need be.
[[nodiscard]] uint64_t moving_floats(const format::ModelConfig& config, uint32_t n_threads);

// Widest input of any matrix, padded to the largest group: floats or int8 a row of activations may
// take.
[[nodiscard]] uint64_t widest_input(const format::ModelConfig& config);

// Positions that a KV cache holds: those of the context or, of a sliding-window model, a ring of
// the window and the rows that are written before they are read. A ring is whole tiles of
// attention, so that none lies across its end.
[[nodiscard]] uint32_t kv_positions(const format::ModelConfig& config, uint32_t context,
                                    uint32_t prefill_chunk);

// Bytes of one position of one KV head in each of the KV cache's four parts: codes are int8 with
// one f32 scale, or f32 without, or in 4 bits as quant/value_groups.h says.
struct KvRowBytes {
  uint32_t keys;
  uint32_t values;
  uint32_t key_scales;
  uint32_t value_scales;
};
[[nodiscard]] KvRowBytes kv_row_bytes(uint32_t head_dim, KvFormat kv_format);

// The KV cache's four parts, each [n_layers][n_kv_heads][n_positions] rows and rounded up to 64:
// codes of keys and values, then their scales.
struct KvLayout {
  uint64_t keys;
  uint64_t values;
  uint64_t key_scales;
  uint64_t value_scales;
  uint64_t total;
};
[[nodiscard]] KvLayout kv_layout(const format::ModelConfig& config, uint32_t n_positions,
                                 KvFormat kv_format);

}  // namespace cria
