#include "runtime/blocks/attention/attend.h"

#include <cstring>
#include <iterator>

#include "runtime/base/features.h"

namespace cria::attention {
namespace {

// A query head of a row.
struct Query {
  uint32_t row;  // of the step
  uint32_t head;
  uint32_t begin;  // it sees positions [begin, end)
  uint32_t end;
  float max;    // largest score so far; set by the first tile
  float total;  // sum of exp(score - max) so far
};
static_assert(sizeof(Query) <= kQueryBytes);

Query* queries_of(const TileScratch& t) { return reinterpret_cast<Query*>(t.queries); }

// A constant where the build has no f32 cache, so that the kernels for it are dropped.
bool is_f32(const KvCache& kv) { return kHasKvF32 && kv.kv_format == KvFormat::kF32; }

bool has_4_bits(const KvCache& kv, const CachedVectors& vectors) {
  return kv.values[vectors.codes] == StateValues::kNibbles;
}

// A constant where the build has keys of one part.
size_t key_parts(const Attending& a) {
  return kMostKeyParts == 1 || a.keys[kMostKeyParts - 1].width == 0 ? 1 : kMostKeyParts;
}

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
  const Kernels& kernels;
  const LayerKind& kind;
  const Attending& of;
  const KvCache& kv;
  size_t row;  // of position span.first, in rows of the cache
  Span span;   // what any of the queries sees of it

  // Scores of all queries at all positions.
  void score(const TileScratch& b, size_t n_queries) const {
    score_part(b, n_queries, 0, b.scores);
    if (key_parts(of) > 1) {
      score_part(b, n_queries, kMostKeyParts - 1, b.of_part);
      for (size_t i = 0; i < n_queries; ++i) {
        kernels.add_scaled(b.scores + i * kTile, b.of_part + i * kTile, 1.0f,
                           span.last - span.first);
      }
    }
    cap_scores(b, n_queries);
  }

  // By one part of the keys.
  void score_part(const TileScratch& b, size_t n_queries, size_t part, float* scores) const {
    const CachedVectors& from = of.keys[part];
    const uint8_t* keys = kv.at(from.codes, row);
    const size_t n = span.last - span.first;
    if (!is_f32(kv)) {
      const QueryCodes& codes = b.codes[part];
      const QuantizedRows queries = {codes.codes, codes.scales, codes.sums, n_queries};
      kernels.scores_q8(queries, from.width, reinterpret_cast<const int8_t*>(keys),
                        reinterpret_cast<const float*>(kv.at(from.scales, row)),
                        kind.score_multiplier, n, scores, kTile);
      return;
    }
    for (size_t i = 0; i < n_queries; ++i) {
      const Query& query = queries_of(b)[i];
      kernels.scores_f32(of.queries[part].at(query.row, query.head), from.width,
                         reinterpret_cast<const float*>(keys), kind.score_multiplier, n,
                         scores + i * kTile);
    }
  }

  void cap_scores(const TileScratch& b, size_t n_queries) const {
    if (!kHasVariants || kind.score_cap == 0) return;
    for (size_t i = 0; i < n_queries; ++i) {
      kernels.variants.cap(b.scores + i * kTile, span.last - span.first, kind.score_cap);
    }
  }

  // Rescales the sums of n_queries from query on and adds the weighted values of positions.
  void add_values(const TileScratch& b, size_t query, size_t n_queries, Span positions) const {
    if (positions.is_empty()) return;
    const size_t value_dim = of.values.width;
    const size_t skipped = positions.first - span.first;
    const size_t n = positions.last - positions.first;
    const uint8_t* values = kv.at(of.values.codes, row + skipped);
    const uint8_t* scales = kv.at(of.values.scales, row + skipped);
    float* const sums = b.sums + query * value_dim;
    const WeightRows w = {b.scores + query * kTile + skipped, kTile, b.rescale + query, n_queries};
    if (is_f32(kv)) {
      for (size_t i = 0; i < n_queries; ++i) {
        kernels.weighted_sum_f32(w.weights + i * kTile, reinterpret_cast<const float*>(values), n,
                                 value_dim, w.rescale[i], sums + i * value_dim);
      }
    } else if (has_4_bits(kv, of.values)) {
      kernels.weighted_sum_q4(w, values, reinterpret_cast<const uint16_t*>(scales), n, value_dim,
                              sums);
    } else {
      kernels.weighted_sum_q8(w, reinterpret_cast<const int8_t*>(values),
                              reinterpret_cast<const float*>(scales), n, value_dim, sums);
    }
    for (size_t i = 0; i < n_queries; ++i) b.rescale[query + i] = 1.0f;
  }

  // For each query the part of what it sees that part gives; neighbours with the same part at once.
  template <class Part>
  void add_parts(const TileScratch& b, size_t n_queries, const Part& part) const {
    for (size_t i = 0; i < n_queries;) {
      const Span positions = part(queries_of(b)[i]);
      size_t end = i + 1;
      while (end < n_queries && queries_of(b)[end].begin == queries_of(b)[i].begin &&
             queries_of(b)[end].end == queries_of(b)[i].end) {
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
      *rescale = 1.0f;  // as exp has it, and mostly so after the first tiles
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
void attend_block(const Step& s, const Layer& layer, const Attending& a, size_t kv_head,
                  const KvCache& kv, const TileScratch& b, size_t queries) {
  const size_t n_queries = block_rows(queries);
  Span all = {queries_of(b)[0].begin, queries_of(b)[0].end};
  for (size_t i = 1; i < n_queries; ++i) {
    all = {smaller_of(all.first, queries_of(b)[i].begin),
           larger_of(all.last, queries_of(b)[i].end)};
  }
  std::memset(b.sums, 0, n_queries * a.values.width * sizeof(float));
  for (size_t begin = all.first / kTile * kTile; begin < all.last; begin += kTile) {
    const Span whole = {begin, begin + kTile};
    const Span span = {larger_of(begin, all.first), smaller_of(whole.last, all.last)};
    const size_t row = kv.row(layer.state_layer, kv_head, span.first);
    const Tile tile = {s.kernels, *layer.kind, a, kv, row, span};
    tile.score(b, n_queries);
    Span common = span;
    for (size_t i = 0; i < n_queries; ++i) {
      Query* const query = queries_of(b) + i;
      const Span own = seen(*query, whole);
      common = {larger_of(common.first, own.first), smaller_of(common.last, own.last)};
      if (own.is_empty()) continue;
      weigh(s.kernels, b.scores + i * kTile + (own.first - span.first), own.last - own.first,
            own.first == query->begin, query, b.rescale + i);
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

// What a query's sums are multiplied by. A sink is one more score, whose share is dropped.
float share_of_sums(const Kernels& kernels, const Query& query, const float* sink) {
  if (!kHasVariants || sink == nullptr) return 1.0f / query.total;
  const bool is_largest = *sink > query.max;
  float other = is_largest ? query.max - *sink : *sink - query.max;
  static_cast<void>(kernels.exp_sum(&other, 1, 0.0f));
  return is_largest ? other / (query.total * other + 1.0f) : 1.0f / (query.total + other);
}

// Quantizes the parts of a block's query.
void quantize_query(const Kernels& kernels, const Attending& a, const TileScratch& b, size_t i) {
  const Query& query = queries_of(b)[i];
  for (size_t part = 0; part < key_parts(a); ++part) {
    const size_t width = a.keys[part].width;
    const size_t padded = round_up(width, kActivationGroup);
    const size_t n_groups = padded / kActivationGroup;
    const QueryCodes& to = b.codes[part];
    kernels.quantize_row(a.queries[part].at(query.row, query.head), width, padded, kActivationGroup,
                         to.codes + i * padded, to.scales + i * n_groups, to.sums + i * n_groups);
  }
}

TileWidths widths_of(const Attending& a) {
  TileWidths widths = {};
  for (size_t i = 0; i < kMostKeyParts; ++i) widths.keys[i] = a.keys[i].width;
  widths.values = a.values.width;
  return widths;
}

}  // namespace

void store(const Kernels& kernels, const KvCache& kv, size_t row, const CachedVectors& to,
           const float* x) {
  uint8_t* const codes = kv.at(to.codes, row);
  uint8_t* const scales = kv.at(to.scales, row);
  if (is_f32(kv)) {
    std::memcpy(codes, x, kv.row_bytes[to.codes]);
  } else if (has_4_bits(kv, to)) {
    kernels.quantize_values(x, to.width, codes, reinterpret_cast<uint16_t*>(scales));
  } else {
    kernels.quantize_row(x, to.width, to.width, to.width, reinterpret_cast<int8_t*>(codes),
                         reinterpret_cast<float*>(scales), nullptr);
  }
}

void attend(const Step& s, const Layer& layer, const Attending& a) {
  const LayerKind& k = *layer.kind;
  const Tensor* const sinks = kHasVariants && layer.has(format::flag::kSinks)
                                  ? layer.find(format::TensorRole::kSinks)
                                  : nullptr;
  const size_t heads_per_kv = k.n_query_heads / k.n_key_heads;
  const auto cache_of = [&](const Row& row) -> const KvCache& {
    return row.states->caches[layer.state_kind];
  };
  // Queries in the order of KV heads, then rows, then heads: neighbours share keys and values, and
  // a thread keeps to few heads' keys.
  const size_t per_kv_head = s.n() * heads_per_kv;
  const auto row_of = [&](size_t i) { return i % per_kv_head / heads_per_kv; };
  parallel_for(
      s.threads, Even{s.n() * k.n_query_heads}, [&](size_t begin, size_t end, size_t task) {
        Carver carver(a.tiles + task * a.tile_bytes);
        const TileScratch b = lay_out_tile(widths_of(a), a.queries_at_once, &carver);
        for (size_t first = begin; first < end;) {
          const size_t kv_head = first / per_kv_head;
          const KvCache& kv = cache_of(s.rows[row_of(first)]);
          const auto take = [&](size_t n) {
            const size_t row = row_of(first + n);
            const size_t head = kv_head * heads_per_kv + (first + n) % heads_per_kv;
            const uint32_t last = s.rows[row].position + 1;
            queries_of(b)[n] = {static_cast<uint32_t>(row),
                                static_cast<uint32_t>(head),
                                k.window != 0 && last > k.window ? last - k.window : 0,
                                last,
                                0.0f,
                                0.0f};
            if (!is_f32(kv)) quantize_query(s.kernels, a, b, n);
          };
          size_t n = 1;
          take(0);
          if constexpr (kHasQueryBlocks) {
            size_t most = a.queries_at_once;  // cut at rows where it can be
            if (most >= heads_per_kv) {
              most = most / heads_per_kv * heads_per_kv - first % heads_per_kv;
            }
            most = smaller_of(most, smaller_of(end, (kv_head + 1) * per_kv_head) - first);
            while (n < most && &cache_of(s.rows[row_of(first + n)]) == &kv) take(n++);
          }
          attend_block(s, layer, a, kv_head, kv, b, n);
          const size_t width = a.values.width;
          for (size_t i = 0; i < block_rows(n); ++i) {
            const Query& query = queries_of(b)[i];
            const float* const sink = sinks != nullptr ? sinks->values() + query.head : nullptr;
            const float inverse = share_of_sums(s.kernels, query, sink);
            float* const result = a.out.at(query.row, query.head);
            for (size_t d = 0; d < width; ++d) result[d] = b.sums[i * width + d] * inverse;
          }
          first += n;
        }
      });
}

}  // namespace cria::attention
