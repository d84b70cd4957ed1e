// Tiled attention with its online softmax against the textbook formula in double precision.
#include "runtime/blocks/attention/attend.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <memory>
#include <span>
#include <vector>

#include "tests/support/isa_list.h"
#include "tests/support/max_or_nan.h"
#include "tests/support/random_values.h"
#include "tests/support/test_configs.h"
#include "tests/support/test_session.h"
#include "tests/support/thread_per_task.h"

namespace cria {
namespace {

struct Setting {
  uint32_t window;
  KvFormat kv_format;
  uint16_t heads_per_kv = 0;  // 0: as the small config has
};

ConfigParts config_of(const Setting& setting) {
  ConfigParts c = test::small_config(format::NumberFormat::kF32, 0);
  format::LayerKind& kind = c.kinds[0];
  kind.window = setting.window;
  if (setting.heads_per_kv != 0) {
    kind.n_query_heads = static_cast<uint16_t>(setting.heads_per_kv * kind.n_key_heads);
  }
  return c;
}

// A session's cache, and nothing else of it. It has n_positions, whatever the window.
class Cache {
 public:
  Cache(const Setting& setting, uint32_t n_positions) {
    ConfigParts c = config_of(setting);
    kv_.n_layers = static_cast<uint32_t>(c.layers.size());
    kv_.n_positions = n_positions;
    kv_.kv_format = setting.kv_format;
    const StateParts parts = attention::state(c.model, c.kinds[0], setting.kv_format);
    kv_.n_heads = parts.n_heads;
    kv_.n_parts = parts.n;
    const size_t n_rows = size_t{kv_.n_layers} * kv_.n_heads * n_positions;
    for (size_t i = 0; i < parts.n; ++i) {
      const StatePart& part = parts.parts[i];
      memory_.push_back(std::make_unique<test::AlignedMemory>(n_rows * part.row_bytes));
      kv_.rows[i] = static_cast<uint8_t*>(memory_[i]->data());
      kv_.row_bytes[i] = part.row_bytes;
      kv_.values[i] = part.values;
    }
    states_.caches = &kv_;
  }
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;
  // A row of a position.
  [[nodiscard]] Row row(uint32_t position) const { return {&states_, position, 0}; }
  // Rows of positions [first, first + n).
  [[nodiscard]] std::vector<Row> rows(uint32_t first, uint32_t n) const {
    std::vector<Row> rows;
    for (uint32_t i = 0; i < n; ++i) rows.push_back(row(first + i));
    return rows;
  }

 private:
  std::vector<std::unique_ptr<test::AlignedMemory>> memory_;
  KvCache kv_ = {};
  LayerStates states_ = {};
};

// Layer 1 of a model, and what attention computes with. What is planned of the scratch is its own:
// all but the rows of queries, keys and values, which a test may have more of than a step.
class Bench {
 public:
  // A chunk decides how many queries a block may have.
  explicit Bench(const Setting& setting, uint32_t n_threads = 1, uint32_t chunk = 1,
                 uint32_t isa_mask = 0)
      : parts_(config_of(setting)),
        config_(parts_.view()),
        threads_({n_threads, n_threads > 1 ? test::thread_per_task : nullptr, nullptr}),
        shape_({chunk, n_threads}) {
    EXPECT_TRUE(select_kernels(isa_mask, &kernels_));
    Carver counting;
    tile_bytes_ = attention::lay_out(*config_.model, kind(), shape_, &counting).tile_bytes;
    tiles_ = std::make_unique<test::AlignedMemory>(static_cast<size_t>(tile_bytes_) * n_threads);
    layer_.kind = &kind();
    layer_.state_layer = 1;
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;
  [[nodiscard]] const format::LayerKind& kind() const { return config_.kinds[0]; }
  void store(std::span<const Row> rows, const std::vector<float>& k, const std::vector<float>& v) {
    const attention::Attending a = attending(nullptr, nullptr);
    for (size_t i = 0; i < rows.size() * kind().n_key_heads; ++i) {
      const Row& from = rows[i / kind().n_key_heads];
      const KvCache& kv = *from.states->caches;
      const size_t row = kv.row(layer_.state_layer, i % kind().n_key_heads, from.position);
      attention::store(kernels_, kv, row, a.keys[0], k.data() + i * kind().key_dim);
      attention::store(kernels_, kv, row, a.values, v.data() + i * kind().value_dim);
    }
  }
  void attend(std::span<const Row> rows, const std::vector<float>& q, std::vector<float>* out) {
    attention::attend(step(rows), layer_, attending(q.data(), out->data()));
  }

 private:
  [[nodiscard]] Step step(std::span<const Row> rows) const {
    return {config_, kernels_, threads_, kExactBackend, {},      nullptr, shape_,
            rows,    nullptr,  nullptr,  nullptr,       nullptr, nullptr, nullptr};
  }
  // Queries are not written to.
  [[nodiscard]] attention::Attending attending(const float* q, float* out) const {
    const format::LayerKind& k = kind();
    const size_t n = k.n_query_heads;
    attention::Attending a = {};
    a.keys[0] = {k.key_dim, 0, 2};
    a.values = {k.value_dim, 1, 3};
    a.queries[0] = {const_cast<float*>(q), n * k.key_dim, k.key_dim};
    a.out = {out, n * k.value_dim, k.value_dim};
    a.queries_at_once = attention::queries_at_once(shape_);
    a.tiles = static_cast<uint8_t*>(tiles_->data());
    a.tile_bytes = tile_bytes_;
    return a;
  }

  ConfigParts parts_;
  Config config_;
  Kernels kernels_ = {};
  Threads threads_;
  StepShape shape_;
  uint64_t tile_bytes_ = 0;
  std::unique_ptr<test::AlignedMemory> tiles_;
  Layer layer_ = {};
};

// Attention of row i by the formula. q, k, v as the session got them.
std::vector<double> by_formula(const format::LayerKind& c, size_t i, const std::vector<float>& q,
                               const std::vector<float>& k, const std::vector<float>& v) {
  std::vector<double> out(size_t{c.n_query_heads} * c.key_dim);
  const size_t begin = c.window != 0 && i + 1 > c.window ? i + 1 - c.window : 0;
  for (size_t head = 0; head < c.n_query_heads; ++head) {
    const size_t kv_head = head / (c.n_query_heads / c.n_key_heads);
    const auto kv_at = [&](const std::vector<float>& x, size_t j, size_t d) {
      return static_cast<double>(x[(j * c.n_key_heads + kv_head) * c.key_dim + d]);
    };
    std::vector<double> scores;
    double largest = -1e300;
    for (size_t j = begin; j <= i; ++j) {
      double score = 0;
      for (size_t d = 0; d < c.key_dim; ++d) {
        score +=
            static_cast<double>(q[(i * c.n_query_heads + head) * c.key_dim + d]) * kv_at(k, j, d);
      }
      scores.push_back(score * static_cast<double>(c.score_multiplier));
      largest = std::max(largest, scores.back());
    }
    double total = 0;
    for (double& s : scores) total += s = std::exp(s - largest);
    for (size_t d = 0; d < c.key_dim; ++d) {
      double sum = 0;
      for (size_t j = begin; j <= i; ++j) sum += scores[j - begin] / total * kv_at(v, j, d);
      out[head * c.key_dim + d] = sum;
    }
  }
  return out;
}

// Random queries, keys and values of consecutive positions.
struct Inputs {
  Inputs(const format::LayerKind& c, size_t n_positions, unsigned seed, float query_size)
      : q(test::random_values(n_positions * c.n_query_heads * c.key_dim, seed, query_size)),
        k(test::random_values(n_positions * c.n_key_heads * c.key_dim, seed + 1)),
        v(test::random_values(k.size(), seed + 2)) {}
  std::vector<float> q;
  std::vector<float> k;
  std::vector<float> v;
};

double largest_difference(const Setting& setting, uint32_t n_positions, float query_size) {
  Bench bench(setting);
  const Cache cache(setting, n_positions);
  const std::vector<Row> rows = cache.rows(0, n_positions);
  const Inputs in(bench.kind(), n_positions, 1, query_size);
  std::vector<float> out(in.q.size());
  bench.store(rows, in.k, in.v);
  bench.attend(rows, in.q, &out);
  double worst = 0;
  for (size_t i = 0; i < n_positions; ++i) {
    const std::vector<double> want = by_formula(bench.kind(), i, in.q, in.k, in.v);
    for (size_t d = 0; d < want.size(); ++d) {
      worst = test::max_or_nan(worst,
                               std::fabs(static_cast<double>(out[i * want.size() + d]) - want[d]));
    }
  }
  return worst;
}

TEST(Attention, WithAnF32CacheIsTheSoftmaxFormulaAcrossTiles) {
  // 127 positions: one tile, its end, and a second one. Scores reach +-20, so the running maximum
  // really changes between tiles.
  for (const uint32_t n : {1u, 63u, 64u, 65u, 127u}) {
    const double worst = largest_difference({0, KvFormat::kF32}, n, 5.0f);
    std::printf("%u positions: largest difference %.2g\n", n, worst);
    // Values are averages of numbers below 5; scores of +-40 carry an error of 40 * 20 roundings.
    EXPECT_LT(worst, 5 * 40 * 20 * 0x1p-24);
  }
}

TEST(Attention, SlidingWindowLooksBackExactlySoFar) {
  for (const uint32_t window : {1u, 8u, 64u, 65u}) {
    EXPECT_LT(largest_difference({window, KvFormat::kF32}, 127, 3.0f), 5 * 40 * 20 * 0x1p-24);
  }
}

TEST(Attention, WithAnInt8CacheErrsAsMuchAsItsStepsAllow) {
  const double worst = largest_difference({0, KvFormat::kInt8}, 127, 1.0f);
  // A value's step is its head's largest magnitude / 127: half of about 4 / 127 = 0.016. Scores err
  // by about 0.02, which moves weights by 2 %: 0.06 more on values of size 3.
  std::printf("int8 cache: largest difference %.2g\n", worst);
  EXPECT_LT(worst, 0.08);
  EXPECT_GT(worst, 1e-5);
}

TEST(Attention, WithValuesIn4BitsErrsAsMuchAsTheirStepsAllow) {
  const double worst = largest_difference({0, KvFormat::kK8V4}, 127, 1.0f);
  // A value's step is its group's largest magnitude / 8, so half of about 3 / 8 for the first
  // position, which attends to itself alone: all else is averages.
  std::printf("4-bit values: largest difference %.2g\n", worst);
  EXPECT_LT(worst, 0.5 * 4.5 / 8 + 0.08);
  EXPECT_GT(worst, 0.01);
}

// Appends element i of rows of width floats.
void append_row(const std::vector<float>& from, size_t i, size_t width, std::vector<float>* to) {
  to->insert(to->end(), from.begin() + static_cast<ptrdiff_t>(i * width),
             from.begin() + static_cast<ptrdiff_t>((i + 1) * width));
}

// Rows of three caches in one call, taken in turn, some with a history and some without: each gets
// the bits of a call of its own, whatever the threads.
TEST(Attention, RowsOfOtherCachesChangeNothing) {
  constexpr uint32_t kPositions = 140;
  constexpr uint32_t kFirst[] = {0, 63, 130};  // the first position of each cache's rows
  constexpr size_t kCaches = std::size(kFirst);
  constexpr uint32_t kRows = 7;
  size_t compared = 0;
  for (const Setting& setting :
       {Setting{0, KvFormat::kF32}, Setting{0, KvFormat::kInt8}, Setting{9, KvFormat::kInt8},
        Setting{65, KvFormat::kF32}, Setting{0, KvFormat::kK8V4}, Setting{9, KvFormat::kK8V4}}) {
    Bench alone(setting);
    const format::LayerKind& c = alone.kind();
    const size_t q_width = size_t{c.n_query_heads} * c.key_dim;
    const size_t kv_width = size_t{c.n_key_heads} * c.key_dim;
    std::vector<std::unique_ptr<Cache>> caches;
    std::vector<Inputs> in;
    std::vector<std::vector<float>> want;
    for (size_t i = 0; i < kCaches; ++i) {
      caches.push_back(std::make_unique<Cache>(setting, kPositions));
      in.emplace_back(c, kRows, static_cast<unsigned>(10 * i + 40), 3.0f);
      if (kFirst[i] != 0) {
        const Inputs before(c, kFirst[i], static_cast<unsigned>(10 * i + 100), 3.0f);
        alone.store(caches[i]->rows(0, kFirst[i]), before.k, before.v);
      }
      const std::vector<Row> rows = caches[i]->rows(kFirst[i], kRows);
      want.emplace_back(kRows * q_width);
      alone.store(rows, in[i].k, in[i].v);
      alone.attend(rows, in[i].q, &want[i]);
    }
    std::vector<Row> mixed;
    std::vector<float> q, k, v, expected;
    for (uint32_t row = 0; row < kRows; ++row) {
      for (size_t i = 0; i < kCaches; ++i) {
        mixed.push_back(caches[i]->row(kFirst[i] + row));
        append_row(in[i].q, row, q_width, &q);
        append_row(in[i].k, row, kv_width, &k);
        append_row(in[i].v, row, kv_width, &v);
        append_row(want[i], row, q_width, &expected);
      }
    }
    for (const auto& [n_threads, chunk] : {std::pair{1u, 1u}, {3u, 1u}, {1u, 64u}, {3u, 64u}}) {
      Bench bench(setting, n_threads, chunk);
      std::vector<float> out(q.size());
      bench.store(mixed, k, v);
      bench.attend(mixed, q, &out);
      EXPECT_EQ(std::memcmp(out.data(), expected.data(), out.size() * sizeof(float)), 0)
          << "window " << setting.window << ", " << n_threads << " threads, chunk " << chunk;
      ++compared;
    }
  }
  EXPECT_EQ(compared, 24u);
}

// Rows of a session in one call, in blocks of several sizes and on every ISA, get the bits of
// blocks of one query with the scalar kernels.
// The cache has n_positions, a ring when they are fewer.
void expect_blocks_change_nothing(const Setting& setting, uint32_t first, uint32_t n_rows,
                                  uint32_t n_positions = 320) {
  Bench alone(setting, 1, 1, CRIA_ISA_SCALAR);
  const Cache cache(setting, n_positions);
  const Inputs in(alone.kind(), first + n_rows, first + n_rows, 3.0f);
  const std::vector<Row> all = cache.rows(0, first + n_rows);
  alone.store(all, in.k, in.v);
  const std::vector<Row> rows = cache.rows(first, n_rows);
  std::vector<float> want(n_rows * size_t{alone.kind().n_query_heads} * alone.kind().key_dim);
  alone.attend(rows, in.q, &want);
  for (const test::IsaRow& isa : test::runnable_isas()) {
    for (const auto& [n_threads, chunk] : {std::pair{1u, 64u}, {1u, 31u}, {5u, 64u}}) {
      Bench bench(setting, n_threads, chunk, isa.mask);
      std::vector<float> out(want.size());
      bench.attend(rows, in.q, &out);
      EXPECT_EQ(std::memcmp(out.data(), want.data(), out.size() * sizeof(float)), 0)
          << isa.name << ", window " << setting.window << ", KV format "
          << static_cast<int>(setting.kv_format) << ", " << setting.heads_per_kv
          << " heads a KV head, rows " << first << " + " << n_rows << ", " << n_threads
          << " threads, chunk " << chunk;
    }
  }
}

TEST(Attention, BlocksOfQueriesChangeNothing) {
  for (const KvFormat kv_format : {KvFormat::kInt8, KvFormat::kF32, KvFormat::kK8V4}) {
    for (uint16_t heads_per_kv = 1; heads_per_kv <= 8; ++heads_per_kv) {
      // Decoding, rows across the end of a tile, and a prompt.
      expect_blocks_change_nothing({0, kv_format, heads_per_kv}, 100, 1);
      expect_blocks_change_nothing({0, kv_format, heads_per_kv}, 60, 9);
      expect_blocks_change_nothing({0, kv_format, heads_per_kv}, 0, 70);
    }
    for (const uint32_t window : {1u, 5u, 63u, 64u, 65u, 100u}) {
      expect_blocks_change_nothing({window, kv_format, 3}, 0, 70);
      expect_blocks_change_nothing({window, kv_format, 2}, 120, 24);
      expect_blocks_change_nothing({window, kv_format, 4}, 370, 24, 192);
    }
  }
  expect_blocks_change_nothing({0, KvFormat::kInt8, 20}, 62, 5);
}

}  // namespace
}  // namespace cria
