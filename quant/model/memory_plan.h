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

#include "quant/blocks/state_part.h"
#include "quant/model/model_config.h"

namespace cria {

// Reserved for records whose real size depends on the target; asserted where they are defined.
inline constexpr uint64_t kModelObjectBytes = 2240;
inline constexpr uint64_t kKindObjectBytes = 128;
inline constexpr uint64_t kLayerObjectBytes = 64;
inline constexpr uint64_t kTensorObjectBytes = 64;
inline constexpr uint64_t kSessionObjectBytes = 256;
inline constexpr uint64_t kCacheObjectBytes = 96;  // of a session, for each kind of layers
inline constexpr uint64_t kWorkspaceObjectBytes = 512;
inline constexpr uint64_t kRowObjectBytes = 16;             // a row of a step
inline constexpr uint64_t kDecompressorBytes = 160 * 1024;  // zstd's static context, one a thread
inline constexpr uint64_t kStagingBytes = format::kChunkRawBytes;  // one a thread: a frame, or
                                                                   // upper bits out of one
inline constexpr uint64_t kChunkScratchBytes = kDecompressorBytes + kStagingBytes;
static_assert(kDecompressorBytes % format::kAlignment == 0);
static_assert(kStagingBytes % format::kAlignment == 0);
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
  uint32_t n_snapshots;  // where layers keep blocks
  // Of a workspace.
  uint32_t n_threads;       // >= 1, while loading too
  uint32_t prefill_chunk;   // rows handled at once, >= 1
  uint32_t max_entries;     // sessions whose logits a step computes together, 1..prefill_chunk
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
    uint64_t kv_cache;  // all state of layers, snapshots included
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
[[nodiscard]] bool plan_memory(const Config& config, const PlanInput& input, MemoryPlan* plan);

// What a step computes with: the running part of a workspace.
struct StepMemory {
  float* x;             // [rows][d_model], the residual stream
  float* normed;        // [rows][max(d_model, what mixers bring back)]
  float* block;         // [rows][d_model], what a block adds
  float* embedded;      // [rows][d_model], x before the layers, with per-layer embeddings
  int8_t* codes;        // quantized inputs of matrices, [ProductInputs::values]
  float* scales;        // [values / 32]
  int32_t* sums;        // [values / 32]
  float* cosines;       // [rows] of each RoPE table's pairs, then sines
  uint8_t* scratch;     // of the block at hand
  uint8_t* rows;        // [rows] records of kRowObjectBytes
  float* entry_logits;  // [max_entries][vocab_size]; none for one entry
  uint8_t* backend;
};
// The most that a product of a step takes: of a stack, rows for each matrix.
struct ProductInputs {
  uint64_t rows;
  uint64_t segments;
  uint64_t values;  // of all rows, padded
};
[[nodiscard]] ProductInputs most_inputs(const Config& config, uint32_t n_rows);

// Of a model's records.
[[nodiscard]] uint64_t object_bytes(const Config& config);
// The widest row that a mixer brings back to its output matrix, or d_model.
[[nodiscard]] uint32_t widest_attended(const Config& config);
// Scratch of the block that needs most: one runs at a time.
[[nodiscard]] uint64_t block_scratch(const Config& config, const StepShape& shape);

StepMemory lay_out_step(const Config& config, const PlanInput& input, Carver* carver);

// Pairs of all RoPE tables together.
[[nodiscard]] uint32_t rope_pairs(const format::ModelScalars& model);

// Values of a position and head that a mixer of rows keeps.
[[nodiscard]] uint32_t kept_values(const format::LayerKind& kind);

// Scratch of moving rows, in floats: an angle's cosines and sines, then what a position keeps of
// each task, twice. Fits into what running takes, which is as large if need be.
[[nodiscard]] uint64_t moving_floats(const Config& config, uint32_t n_threads);

// Positions that layers of a kind keep: those of the context or, with a window, a ring of the
// window and the rows that are written before they are read. A ring is whole tiles of attention, so
// that none lies across its end.
[[nodiscard]] uint32_t kept_positions(const format::LayerKind& kind, uint32_t context,
                                      uint32_t prefill_chunk);

// Places where a session's blocks of state may stand, each with those of all layers: one that is
// current, one that a step writes, and those of snapshots. 0: no layers keep blocks.
[[nodiscard]] uint32_t state_slots(const Config& config, uint32_t n_snapshots);
inline constexpr uint32_t kMoreSlots = 2;         // than snapshots
inline constexpr uint64_t kSlotObjectBytes = 8;   // of a session, a slot's record
inline constexpr uint32_t kDefaultSnapshots = 2;  // after a system's text and the last question

// The state of a kind's layers: its parts, each [layers of the kind][n_heads][n_positions] rows.
struct StateLayout {
  StateParts parts;
  uint32_t n_positions;  // of blocks slots
  std::array<uint8_t*, kMaxStateParts> memory;
};
StateLayout lay_out_state(const Config& config, size_t kind, const PlanInput& input,
                          Carver* carver);

// Layers of a kind.
[[nodiscard]] uint32_t layers_of(const Config& config, size_t kind);

}  // namespace cria
