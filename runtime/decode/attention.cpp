#include "runtime/decode/attention.h"

#include <cstring>
#include <iterator>

#include "quant/align.h"
#include "quant/tile16.h"
#include "runtime/base/features.h"

namespace cria {
namespace {

// A query head of a row.
struct Query {
  size_t place;    // of its head, in q and out
  uint32_t begin;  // it sees positions [begin, end)
  uint32_t end;
  float max;    // largest score so far; set by the first tile
  float total;  // sum of exp(score - max) so far
};
static_assert(sizeof(Query) <= kQueryObjectBytes);

// One thread's part of the attention scratch, laid out as running_layout counts it. A block's
// queries share a KV head of a cache.
struct Block {
  float* scores;    // [queries][kAttentionTile], then probabilities
  float* sums;      // [queries][head_dim] values weighted so far
  int8_t* q_codes;  // [queries][head_dim padded to 32]
  float* q_scales;  // [queries][head_dim / 32, rounded up]
  int32_t* q_sums;  // the same, of the codes
  float* rescale;   // [queries] of what stands in sums
  Query* queries;   // [queries]
};

Block block_scratch(const AttentionTools& tools, size_t task) {
  const size_t head_dim = tools.config.head_dim;
  const size_t n = tools.max_queries;
  const size_t padded = round_up(head_dim, kActivationGroup);
  uint8_t* p = tools.scratch + task * tools.scratch_per_task;
  const auto take = [&p](size_t n_bytes) {
    uint8_t* const place = p;
    p += aligned(n_bytes);
    return place;
  };
  Block b = {};
  b.scores = reinterpret_cast<float*>(take(n * kAttentionTile * sizeof(float)));
  b.sums = reinterpret_cast<float*>(take(n * head_dim * sizeof(float)));
  b.q_codes = reinterpret_cast<int8_t*>(take(n * padded));
  b.q_scales = reinterpret_cast<float*>(take(n * (padded / kActivationGroup) * sizeof(float)));
  b.q_sums = reinterpret_cast<int32_t*>(take(n * (padded / kActivationGroup) * sizeof(int32_t)));
  b.rescale = reinterpret_cast<float*>(take(n * sizeof(float)));
  b.queries = reinterpret_cast<Query*>(take(n * sizeof(Query)));
  return b;
}

// A constant where the build has no f32 cache, so that the kernels for it are dropped.
bool is_f32(const KvCache& kv) { return kHasKvF32 && kv.kv_format == KvFormat::kF32; }

bool has_4_bit_values(const KvCache& kv) { return kv.kv_format == KvFormat::kK8V4; }

size_t larger_of(size_t a, size_t b) { return a > b ? a : b; }
size_t smaller_of(size_t a, size_t b) { return a < b ? a : b; }

// The largest that compares: NaNs count only as the first.
float largest_of(const float* x, size_t n) {
  float largest = x[0];
  size_t i = 1;
  // Four chains of vectors, or one of floats.
  if constexpr (kHasQueryBlocks) {
    using Floats = float __attribute__((vector_size(16)));
    constexpr size_t kFloats = sizeof(Floats) / sizeof(float);
    Floats chains[4];
    constexpr size_t kStep = std::size(chains) * kFloats;
    for (Floats& chain : chains) chain = Floats{largest, largest, largest, largest};
    for (i = 0; i + kStep <= n; i += kStep) {
      for (size_t k = 0; k < std::size(chains); ++k) {
        Floats next;
        std::memcpy(&next, x + i + k * kFloats, sizeof next);
        chains[k] = next > chains[k] ? next : chains[k];
      }
    }
    for (const Floats& chain : chains) chains[0] = chain > chains[0] ? chain : chains[0];
    for (size_t k = 0; k < kFloats; ++k) largest = chains[0][k] > largest ? chains[0][k] : largest;
  }
  for (; i < n; ++i) largest = x[i] > largest ? x[i] : largest;
  return largest;
}

// Positions [first, last).
struct Span {
  size_t first;
  size_t last;
  [[nodiscard]] bool is_empty() const { return first >= last; }
};

// What a query sees of a tile.
Span seen(const Query& query, Span tile) {
  return {larger_of(tile.first, query.begin), smaller_of(tile.last, query.end)};
}

// A tile of a block's KV head.
struct Tile {
  const AttentionTools& tools;
  const KvCache& kv;
  size_t row;  // of position span.first, in rows of the cache
  Span span;   // what any of the queries sees of it

  // Scores of all queries at all positions.
  void score(const float* q, const Block& b, size_t n_queries) const {
    const Kernels& kernels = tools.kernels;
    const format::ModelConfig& c = tools.config;
    const uint8_t* keys = kv.keys + row * kv.row_bytes.keys;
    const size_t n = span.last - span.first;
    if (!is_f32(kv)) {
      const QuantizedRows queries = {b.q_codes, b.q_scales, b.q_sums, n_queries};
      kernels.scores_q8(queries, c.head_dim, reinterpret_cast<const int8_t*>(keys),
                        kv.key_scales + row, c.attention_multiplier, n, b.scores, kAttentionTile);
      return;
    }
    for (size_t i = 0; i < n_queries; ++i) {
      kernels.scores_f32(q + b.queries[i].place, c.head_dim, reinterpret_cast<const float*>(keys),
                         c.attention_multiplier, n, b.scores + i * kAttentionTile);
    }
  }

  // Rescales the sums of n_queries from query on and adds the weighted values of positions.
  void add_values(const Block& b, size_t query, size_t n_queries, Span positions) const {
    if (positions.is_empty()) return;
    const size_t head_dim = tools.config.head_dim;
    const size_t skipped = positions.first - span.first;
    const size_t n = positions.last - positions.first;
    const uint8_t* values = kv.values + (row + skipped) * kv.row_bytes.values;
    const uint8_t* scales = kv.value_scales + (row + skipped) * kv.row_bytes.value_scales;
    float* const sums = b.sums + query * head_dim;
    const WeightRows w = {b.scores + query * kAttentionTile + skipped, kAttentionTile,
                          b.rescale + query, n_queries};
    if (is_f32(kv)) {
      for (size_t i = 0; i < n_queries; ++i) {
        tools.kernels.weighted_sum_f32(w.weights + i * kAttentionTile,
                                       reinterpret_cast<const float*>(values), n, head_dim,
                                       w.rescale[i], sums + i * head_dim);
      }
    } else if (has_4_bit_values(kv)) {
      tools.kernels.weighted_sum_q4(w, values, reinterpret_cast<const uint16_t*>(scales), n,
                                    head_dim, sums);
    } else {
      tools.kernels.weighted_sum_q8(w, reinterpret_cast<const int8_t*>(values),
                                    reinterpret_cast<const float*>(scales), n, head_dim, sums);
    }
    for (size_t i = 0; i < n_queries; ++i) b.rescale[query + i] = 1.0f;
  }

  // For each query the part of what it sees that part gives; neighbours with the same part at once.
  template <class Part>
  void add_parts(const Block& b, size_t n_queries, const Part& part) const {
    for (size_t i = 0; i < n_queries;) {
      const Span positions = part(b.queries[i]);
      size_t end = i + 1;
      while (end < n_queries && b.queries[end].begin == b.queries[i].begin &&
             b.queries[end].end == b.queries[i].end) {
        ++end;
      }
      add_values(b, i, end - i, positions);
      i = end;
    }
  }
};

// Turns a query's scores into probabilities less what later tiles know; sets rescale.
void weigh(const Kernels& kernels, float* scores, size_t n, bool is_first, Query* query,
           float* rescale) {
  const float tile_max = largest_of(scores, n);
  const float new_max = is_first || tile_max > query->max ? tile_max : query->max;
  *rescale = is_first ? 0.0f : query->max - new_max;  // becomes exp of it
  if (!is_first) {
    if (*rescale == 0.0f) {
      *rescale = 1.0f;  // as exp has it, and mostly so behind the first tiles
    } else {
      static_cast<void>(kernels.exp_sum(rescale, 1, 0.0f));
    }
  }
  query->total = query->total * *rescale + kernels.exp_sum(scores, n, new_max);
  query->max = new_max;
}

// Attention of a block's queries, which are quantized where the cache is. Each query's sums are
// those of a block of its own: first what it alone sees of a tile's beginning, then what all see,
// in one go, then what it alone sees of the end.
void attend_block(const AttentionTools& tools, size_t layer, size_t kv_head, const KvCache& kv,
                  const float* q, const Block& b, size_t queries) {
  const size_t n_queries = block_rows(queries);
  Span all = {b.queries[0].begin, b.queries[0].end};
  for (size_t i = 1; i < n_queries; ++i) {
    all = {smaller_of(all.first, b.queries[i].begin), larger_of(all.last, b.queries[i].end)};
  }
  std::memset(b.sums, 0, n_queries * tools.config.head_dim * sizeof(float));
  for (size_t begin = all.first / kAttentionTile * kAttentionTile; begin < all.last;
       begin += kAttentionTile) {
    const Span whole = {begin, begin + kAttentionTile};
    const Span span = {larger_of(begin, all.first), smaller_of(whole.last, all.last)};
    const Tile tile = {tools, kv, kv.row(layer, kv_head, span.first), span};
    tile.score(q, b, n_queries);
    Span common = span;
    for (size_t i = 0; i < n_queries; ++i) {
      Query* const query = b.queries + i;
      const Span own = seen(*query, whole);
      common = {larger_of(common.first, own.first), smaller_of(common.last, own.last)};
      if (own.is_empty()) continue;
      weigh(tools.kernels, b.scores + i * kAttentionTile + (own.first - span.first),
            own.last - own.first, own.first == query->begin, query, b.rescale + i);
    }
    if constexpr (!kHasQueryBlocks) {
      tile.add_values(b, 0, 1, span);
      continue;
    }
    if (common.is_empty()) common = {whole.last, whole.last};
    tile.add_parts(b, n_queries, [&](const Query& query) {
      const Span own = seen(query, whole);
      return Span{own.first, smaller_of(own.last, common.first)};
    });
    tile.add_values(b, 0, n_queries, common);
    tile.add_parts(b, n_queries, [&](const Query& query) {
      const Span own = seen(query, whole);
      return Span{larger_of(own.first, common.last), own.last};
    });
  }
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
  const size_t head_dim = c.head_dim;
  const size_t padded = round_up(head_dim, kActivationGroup);
  const size_t n_groups = padded / kActivationGroup;
  const size_t heads_per_kv = c.n_heads / c.n_kv_heads;
  // Queries in the order of KV heads, then rows, then heads: neighbours share keys and values, and
  // a thread keeps to few heads' keys.
  const size_t per_kv_head = rows.size() * heads_per_kv;
  const auto row_of = [&](size_t i) { return i % per_kv_head / heads_per_kv; };
  const auto place_of = [&](size_t i) {
    const size_t head = i / per_kv_head * heads_per_kv + i % heads_per_kv;
    return (row_of(i) * c.n_heads + head) * head_dim;
  };
  parallel_ranges(
      tools.threads, rows.size() * c.n_heads, [&](size_t begin, size_t end, size_t task) {
        const Block b = block_scratch(tools, task);
        for (size_t first = begin; first < end;) {
          const size_t kv_head = first / per_kv_head;
          const KvCache& kv = *rows[row_of(first)].kv;
          const auto take = [&](size_t n) {
            const Row& row = rows[row_of(first + n)];
            const uint32_t last = row.position + 1;
            const uint32_t window = c.sliding_window;
            Query* const query = b.queries + n;
            *query = {place_of(first + n), window != 0 && last > window ? last - window : 0, last,
                      0.0f, 0.0f};
            if (is_f32(kv)) return;
            tools.kernels.quantize_row(q + query->place, head_dim, padded, kActivationGroup,
                                       b.q_codes + n * padded, b.q_scales + n * n_groups,
                                       b.q_sums + n * n_groups);
          };
          size_t n = 1;
          take(0);
          if constexpr (kHasQueryBlocks) {
            size_t most = tools.max_queries;  // cut at rows where it can be
            if (most >= heads_per_kv) {
              most = most / heads_per_kv * heads_per_kv - first % heads_per_kv;
            }
            most = smaller_of(most, smaller_of(end, (kv_head + 1) * per_kv_head) - first);
            while (n < most && rows[row_of(first + n)].kv == &kv) take(n++);
          }
          attend_block(tools, layer, kv_head, kv, q, b, n);
          for (size_t i = 0; i < block_rows(n); ++i) {
            const float inverse = 1.0f / b.queries[i].total;
            float* const result = out + b.queries[i].place;
            for (size_t d = 0; d < head_dim; ++d) result[d] = b.sums[i * head_dim + d] * inverse;
          }
          first += n;
        }
      });
}

}  // namespace cria
