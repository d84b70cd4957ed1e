#include "quant/memory_plan.h"

#include <initializer_list>

#include "quant/align.h"
#include "quant/model_layout.h"
#include "quant/value_groups.h"

namespace cria {
namespace {

constexpr uint64_t kSaturated = uint64_t{1} << 63;
constexpr uint64_t kLargestGroup = 128;
constexpr uint64_t kActivationGroup = 32;
constexpr uint64_t kCandidateBytes = 8;  // a token and its logit (runtime/decode/sampler.h)
constexpr uint64_t kEncodeSlackSymbols = 16;

// Sums and products stick at 2^63 instead of wrapping, so one test at the end catches them all.
uint64_t product(uint64_t a, uint64_t b) {
  if (a == 0 || b == 0) return 0;
  return a > kSaturated / b ? kSaturated : a * b;
}

uint64_t sum(uint64_t a, uint64_t b) {
  return a >= kSaturated - (b < kSaturated ? b : kSaturated) ? kSaturated : a + b;
}

uint64_t block(uint64_t bytes) {
  if (bytes >= kSaturated - format::kAlignment) return kSaturated;
  return aligned(bytes);
}

uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

uint64_t loading_bytes(const format::ModelConfig& c, const PlanInput& in) {
  const uint64_t per_thread = is_stored(c) ? 0 : kChunkScratchBytes;
  return sum(product(per_thread, in.n_threads), block(in.backend_load_bytes));
}

}  // namespace

uint64_t widest_input(const format::ModelConfig& c) {
  const uint64_t widest = larger(larger(c.d_model, uint64_t{c.n_heads} * c.head_dim), c.d_ff);
  return (widest + kLargestGroup - 1) / kLargestGroup * kLargestGroup;
}

uint32_t kv_positions(const format::ModelConfig& c, uint32_t context, uint32_t prefill_chunk) {
  if (c.sliding_window == 0) return context;
  const uint64_t needed = uint64_t{c.sliding_window} + prefill_chunk - 1;
  const uint64_t ring = (needed + kAttentionTile - 1) / kAttentionTile * kAttentionTile;
  return ring < context ? static_cast<uint32_t>(ring) : context;
}

uint64_t moving_floats(const format::ModelConfig& c, uint32_t n_threads) {
  return uint64_t{c.head_dim} * (1 + 4 * uint64_t{n_threads});
}

KvRowBytes kv_row_bytes(uint32_t head_dim, KvFormat kv_format) {
  switch (kv_format) {
    case KvFormat::kF32:
      return {head_dim * 4, head_dim * 4, 0, 0};
    case KvFormat::kK8V4:
      return {head_dim, static_cast<uint32_t>(value_bytes(head_dim)), 4,
              static_cast<uint32_t>(value_groups(head_dim)) * 2};
    case KvFormat::kInt8:
      break;
  }
  return {head_dim, head_dim, 4, 4};
}

KvLayout kv_layout(const format::ModelConfig& c, uint32_t n_positions, KvFormat kv_format) {
  const uint64_t rows = product(product(c.n_layers, c.n_kv_heads), n_positions);
  const KvRowBytes row = kv_row_bytes(c.head_dim, kv_format);
  KvLayout layout = {};
  layout.keys = block(product(rows, row.keys));
  layout.values = block(product(rows, row.values));
  layout.key_scales = block(product(rows, row.key_scales));
  layout.value_scales = block(product(rows, row.value_scales));
  for (const uint64_t part : {layout.keys, layout.values, layout.key_scales, layout.value_scales}) {
    layout.total = sum(layout.total, part);
  }
  return layout;
}

RunningLayout running_layout(const format::ModelConfig& c, const PlanInput& in) {
  const uint64_t chunk = in.prefill_chunk;
  const uint64_t q_width = uint64_t{c.n_heads} * c.head_dim;
  const uint64_t kv_width = uint64_t{c.n_kv_heads} * c.head_dim;
  const auto floats = [&](uint64_t per_row) { return block(product(product(chunk, per_row), 4)); };
  RunningLayout r = {};
  r.x = floats(c.d_model);
  r.normed = floats(larger(c.d_model, q_width));
  r.wide = larger(sum(floats(q_width), product(floats(kv_width), 2)), product(floats(c.d_ff), 2));
  r.projected = floats(c.d_model);
  r.quantized = block(product(chunk, widest_input(c)));
  r.quantized_scales = floats(widest_input(c) / kActivationGroup);
  r.quantized_sums = r.quantized_scales;
  r.rope = floats(c.head_dim);
  // Scores and probabilities of a tile, the accumulator, the quantized query with its scales and
  // sums, what the accumulator is rescaled by, and the query's object.
  const uint64_t queries = chunk < kAttentionBlockRows ? 1 : kAttentionQueries;
  const uint64_t padded = round_up(c.head_dim, kActivationGroup);
  r.attention_queries = queries;
  r.attention_per_thread = block(queries * kAttentionTile * 4) + block(queries * c.head_dim * 4) +
                           block(queries * padded) +
                           2 * block(queries * (padded / kActivationGroup) * 4) +
                           block(queries * 4) + block(queries * kQueryObjectBytes);
  r.attention = product(r.attention_per_thread, in.n_threads);
  r.rows = block(product(chunk, kRowObjectBytes));
  r.turn_logits = in.max_turns > 1 ? block(product(product(in.max_turns, c.vocab_size), 4)) : 0;
  r.backend = block(in.backend_step_bytes);
  for (const uint64_t part :
       {r.x, r.normed, r.wide, r.projected, r.quantized, r.quantized_scales, r.quantized_sums,
        r.rope, r.attention, r.rows, r.turn_logits, r.backend}) {
    r.total = sum(r.total, part);
  }
  return r;
}

uint64_t scratch_bytes(const MemoryPlan::Workspace& w) {
  return larger(w.running, larger(w.sampling, w.encoding));
}

bool plan_memory(const format::ModelConfig& c, const PlanInput& in, MemoryPlan* plan) {
  MemoryPlan p = {};
  const bool weights_in_place = in.mapped && is_stored(c) && !in.text_only;
  const uint64_t tables = sum(block(in.tokenizer_bytes), block(in.chat_template_bytes));
  const KeptTensors kept =
      in.backend_keeps_tile16 ? KeptTensors::kAll : KeptTensors::kVectorsAndEmbedding;
  const uint64_t weights = kept_tensor_bytes(c, kept);
  const auto all = [](std::initializer_list<uint64_t> parts) {
    uint64_t total = 0;
    for (const uint64_t part : parts) total = sum(total, part);
    return total;
  };

  p.model.objects = kModelObjectBytes;
  p.model.tokenizer = in.mapped ? 0 : tables;
  p.workspace.objects = kWorkspaceObjectBytes;
  p.workspace.encoding =
      in.tokenizer_bytes == 0
          ? 0
          : block((in.max_text_bytes + kEncodeSlackSymbols) * kEncodeBytesPerSymbol);
  if (!in.text_only) {
    p.model.objects += kLayerObjectBytes * c.n_layers;
    p.model.weights = weights_in_place ? 0 : weights;
    p.model.backend = block(in.backend_model_bytes);
    p.session.objects = kSessionObjectBytes;
    p.session.kv_cache =
        kv_layout(c, kv_positions(c, in.context, in.prefill_chunk), in.kv_format).total;
    p.session.history = block(uint64_t{in.context} * 4);
    p.session.logits = block(uint64_t{c.vocab_size} * 4) + block(uint64_t{c.d_model} * 4);
    p.workspace.backend = block(in.backend_workspace_bytes);
    p.workspace.running =
        larger(running_layout(c, in).total, block(product(moving_floats(c, in.n_threads), 4)));
    p.workspace.sampling = block(c.vocab_size * kCandidateBytes);
    p.loading = loading_bytes(c, in);
  }
  p.model.total = all({p.model.objects, p.model.tokenizer, p.model.weights, p.model.backend});
  p.session.total =
      all({p.session.objects, p.session.kv_cache, p.session.history, p.session.logits});
  p.workspace.total = all({p.workspace.objects, p.workspace.backend, scratch_bytes(p.workspace)});
  p.total = all({p.model.total, p.session.total, larger(p.workspace.total, p.loading)});
  p.in_place = (in.mapped ? tables : 0) + (weights_in_place ? weights : 0);
  *plan = p;
  return p.total < kSaturated;
}

}  // namespace cria
