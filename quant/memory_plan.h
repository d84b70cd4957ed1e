// The memory a session needs, to the byte, from the model's config and the caller's wishes alone.
// Nothing here depends on the size of a pointer, so the converter's figure holds on every target.
//
// The arena has three lifetimes, in this order:
//   model    session objects, tokenizer and template tables, weights, what the backend packs
//   session  KV cache, token history, logits
//   step     shared by loading (decompressors), running (activations), sampling and encoding text:
//            as large as the largest of them
#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/format.h"

namespace cria {

enum class KvFormat : uint32_t { kInt8 = 0, kF32 = 1 };

// Reserved for objects whose real size depends on the target; asserted where they are defined.
inline constexpr uint64_t kSessionObjectBytes = 4096;
inline constexpr uint64_t kLayerObjectBytes = 1024;
inline constexpr uint64_t kDecompressorBytes = 160 * 1024;  // zstd's static context, one a thread
inline constexpr uint64_t kStagingBytes = format::kChunkRawBytes;  // a stored chunk, one a thread
// Positions that attention handles at once; its scratch does not grow with the context.
inline constexpr uint32_t kAttentionTile = 64;
// Bytes a symbol of the text being encoded takes (runtime/text/bpe.h).
inline constexpr uint64_t kEncodeBytesPerSymbol = 28;

struct PlanInput {
  uint32_t context;         // positions, 1..config.max_context
  uint32_t n_threads;       // >= 1
  uint32_t prefill_chunk;   // rows handled at once, >= 1
  uint32_t max_text_bytes;  // longest text encoded in one piece
  KvFormat kv_format;
  bool mapped;               // the source hands out pointers: tables and stored weights in place
  uint64_t tokenizer_bytes;  // size of the section, 0 when absent
  uint64_t chat_template_bytes;
  // What the backend asks for. The exact backend: all zero but keeps_tile16.
  bool backend_keeps_tile16;     // matrices stay as they are; else only the embedding does
  uint64_t backend_model_bytes;  // packed weights and operators
  uint64_t backend_step_bytes;   // while running
  uint64_t backend_load_bytes;   // while loading
};

struct MemoryPlan {
  // In the arena; each rounded up to 64.
  uint64_t objects;
  uint64_t tokenizer;
  uint64_t weights;
  uint64_t backend;
  uint64_t kv_cache;
  uint64_t history;
  uint64_t logits;
  uint64_t step;   // the largest of the four below
  uint64_t total;  // sum of the eight above
  // Shares of step.
  uint64_t loading;  // decompressors and staging
  uint64_t running;  // activations and attention scratch
  uint64_t sampling;
  uint64_t encoding;
  // Outside the arena: parts of the file used in place.
  uint64_t in_place;
};

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
  uint64_t backend;
  uint64_t total;
};
[[nodiscard]] RunningLayout running_layout(const format::ModelConfig& config,
                                           const PlanInput& input);

// Widest input of any matrix, padded to the largest group: floats or int8 a row of activations may
// take.
[[nodiscard]] uint64_t widest_input(const format::ModelConfig& config);

// The KV cache's four parts, each rounded up to 64: codes of keys and values, then their scales
// (zero bytes for f32). codes [n_layers][n_kv_heads][context][head_dim], scales
// [n_layers][n_kv_heads][context].
struct KvLayout {
  uint64_t codes;   // bytes of one of the two
  uint64_t scales;  // bytes of one of the two
  uint64_t total;
};
[[nodiscard]] KvLayout kv_layout(const format::ModelConfig& config, uint32_t context,
                                 KvFormat kv_format);

}  // namespace cria
