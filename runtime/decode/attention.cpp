#include "runtime/decode/attention.h"

#include <cstring>

#include "quant/align.h"
#include "quant/tile16.h"
#include "runtime/base/features.h"

namespace cria {
namespace {

// One thread's part of the attention scratch, laid out as running_layout counts it.
struct HeadScratch {
  float* scores;    // [kAttentionTile], then probabilities
  float* sum;       // [head_dim] values weighted so far
  int8_t* q_codes;  // [head_dim padded to 32]
  float* q_scales;  // [head_dim / 32, rounded up]
};

HeadScratch head_scratch(const AttentionTools& tools, size_t task) {
  const size_t head_dim = tools.config.head_dim;
  uint8_t* p = tools.scratch + task * tools.scratch_per_task;
  HeadScratch h = {};
  h.scores = reinterpret_cast<float*>(p);
  p += aligned(kAttentionTile * sizeof(float));
  h.sum = reinterpret_cast<float*>(p);
  p += aligned(head_dim * sizeof(float));
  h.q_codes = reinterpret_cast<int8_t*>(p);
  p += aligned(round_up(head_dim, kActivationGroup));
  h.q_scales = reinterpret_cast<float*>(p);
  return h;
}

// A constant where the build has no f32 cache, so that the kernels for it are dropped.
bool is_f32(const KvCache& kv) { return kHasKvF32 && kv.kv_format == KvFormat::kF32; }

bool has_4_bit_values(const KvCache& kv) { return kv.kv_format == KvFormat::kK8V4; }

float largest_of(const float* x, size_t n) {
  float largest = x[0];
  for (size_t i = 1; i < n; ++i) largest = x[i] > largest ? x[i] : largest;
  return largest;
}

// Rescales sum and adds the weighted values of n rows.
void add_values(const AttentionTools& tools, const KvCache& kv, size_t row, size_t n,
                const float* weights, float rescale, float* sum) {
  const size_t head_dim = tools.config.head_dim;
  const uint8_t* values = kv.values + row * kv.row_bytes.values;
  const uint8_t* scales = kv.value_scales + row * kv.row_bytes.value_scales;
  if (is_f32(kv)) {
    tools.kernels.weighted_sum_f32(weights, reinterpret_cast<const float*>(values), n, head_dim,
                                   rescale, sum);
  } else if (has_4_bit_values(kv)) {
    tools.kernels.weighted_sum_q4(weights, values, reinterpret_cast<const uint16_t*>(scales), n,
                                  head_dim, rescale, sum);
  } else {
    tools.kernels.weighted_sum_q8(weights, reinterpret_cast<const int8_t*>(values),
                                  reinterpret_cast<const float*>(scales), n, head_dim, rescale,
                                  sum);
  }
}

// Attention of one query head of one row.
void attend_head(const AttentionTools& tools, size_t layer, size_t kv_head, const Row& from,
                 const float* q, const HeadScratch& h, float* out) {
  const format::ModelConfig& c = tools.config;
  const Kernels& kernels = tools.kernels;
  const KvCache& kv = *from.kv;
  const size_t head_dim = c.head_dim;
  const bool has_int8_keys = !is_f32(kv);
  const size_t end = size_t{from.position} + 1;
  const size_t begin = c.sliding_window != 0 && end > c.sliding_window ? end - c.sliding_window : 0;

  if (has_int8_keys) {
    kernels.quantize_row(q, head_dim, round_up(head_dim, kActivationGroup), kActivationGroup,
                         h.q_codes, h.q_scales, nullptr);
  }
  std::memset(h.sum, 0, head_dim * sizeof(float));
  float max = 0.0f;    // largest score so far; set by the first tile
  float total = 0.0f;  // sum of exp(score - max) so far
  for (size_t tile = begin / kAttentionTile * kAttentionTile; tile < end; tile += kAttentionTile) {
    const size_t first = tile > begin ? tile : begin;
    const size_t n = (tile + kAttentionTile < end ? tile + kAttentionTile : end) - first;
    const size_t row = kv.row(layer, kv_head, first);
    const uint8_t* keys = kv.keys + row * kv.row_bytes.keys;
    if (has_int8_keys) {
      kernels.scores_q8(h.q_codes, h.q_scales, head_dim, reinterpret_cast<const int8_t*>(keys),
                        kv.key_scales + row, c.attention_multiplier, n, h.scores);
    } else {
      kernels.scores_f32(q, head_dim, reinterpret_cast<const float*>(keys), c.attention_multiplier,
                         n, h.scores);
    }
    const float tile_max = largest_of(h.scores, n);
    const bool is_first = first == begin;
    const float new_max = is_first || tile_max > max ? tile_max : max;
    float rescale = is_first ? 0.0f : max - new_max;  // becomes exp of it
    if (!is_first) static_cast<void>(kernels.exp_sum(&rescale, 1, 0.0f));
    total = total * rescale + kernels.exp_sum(h.scores, n, new_max);
    max = new_max;
    add_values(tools, kv, row, n, h.scores, rescale, h.sum);
  }
  const float inverse = 1.0f / total;
  for (size_t d = 0; d < head_dim; ++d) out[d] = h.sum[d] * inverse;
}

void store_int8(const Kernels& kernels, const float* x, size_t head_dim, uint8_t* codes,
                float* scale) {
  kernels.quantize_row(x, head_dim, head_dim, head_dim, reinterpret_cast<int8_t*>(codes), scale,
                       nullptr);
}

void store_row(const Kernels& kernels, const KvCache& kv, size_t row, const float* k,
               const float* v) {
  uint8_t* keys = kv.keys + row * kv.row_bytes.keys;
  uint8_t* values = kv.values + row * kv.row_bytes.values;
  uint8_t* value_scales = kv.value_scales + row * kv.row_bytes.value_scales;
  if (is_f32(kv)) {
    std::memcpy(keys, k, kv.row_bytes.keys);
    std::memcpy(values, v, kv.row_bytes.values);
    return;
  }
  store_int8(kernels, k, kv.head_dim, keys, kv.key_scales + row);
  if (has_4_bit_values(kv)) {
    kernels.quantize_values(v, kv.head_dim, values, reinterpret_cast<uint16_t*>(value_scales));
  } else {
    store_int8(kernels, v, kv.head_dim, values, reinterpret_cast<float*>(value_scales));
  }
}

}  // namespace

void store_keys_values(const AttentionTools& tools, size_t layer, std::span<const Row> rows,
                       const float* k, const float* v) {
  const size_t head_dim = tools.config.head_dim;
  const size_t n_kv_heads = tools.config.n_kv_heads;
  for (size_t i = 0; i < rows.size() * n_kv_heads; ++i) {
    const Row& from = rows[i / n_kv_heads];
    const KvCache& kv = *from.kv;
    const size_t row = kv.row(layer, i % n_kv_heads, from.position);
    store_row(tools.kernels, kv, row, k + i * head_dim, v + i * head_dim);
  }
}

void attend(const AttentionTools& tools, size_t layer, std::span<const Row> rows, const float* q,
            float* out) {
  const format::ModelConfig& c = tools.config;
  const size_t heads_per_kv = c.n_heads / c.n_kv_heads;
  const size_t n_rows = rows.size();
  // Item i: head i / n_rows of row i % n_rows, so that a thread keeps to few heads' keys.
  parallel_ranges(tools.threads, n_rows * c.n_heads, [&](size_t begin, size_t end, size_t task) {
    const HeadScratch h = head_scratch(tools, task);
    for (size_t i = begin; i < end; ++i) {
      const size_t head = i / n_rows;
      const size_t row = i % n_rows;
      const size_t place = (row * c.n_heads + head) * c.head_dim;
      attend_head(tools, layer, head / heads_per_kv, rows[row], q + place, h, out + place);
    }
  });
}

}  // namespace cria
