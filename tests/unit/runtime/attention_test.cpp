// Tiled attention with its online softmax against the textbook formula in double precision.
#include "runtime/decode/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>
#include <vector>

#include "runtime/decode/decoder.h"
#include "tests/support/test_configs.h"

namespace cria {
namespace {

struct Setup {
  uint32_t sliding_window;
  KvFormat kv_format;
};

// A session with nothing but what attention needs.
class AttentionSession {
 public:
  AttentionSession(const Setup& setup, uint32_t n_positions) : memory_(size_t{8} << 20) {
    session_ = {};
    session_.model.config = test::small_config(format::NumberFormat::kF32, 0);
    session_.model.config.sliding_window = setup.sliding_window;
    EXPECT_TRUE(select_kernels(0, &session_.kernel_table));
    session_.kernels = &session_.kernel_table;
    session_.plan_input.context = n_positions;
    session_.plan_input.n_threads = 1;
    session_.plan_input.prefill_chunk = n_positions;
    const format::ModelConfig& c = session_.model.config;
    const KvLayout kv = kv_layout(c, n_positions, setup.kv_format);
    uint8_t* p = memory_.data() + (64 - reinterpret_cast<uintptr_t>(memory_.data()) % 64);
    session_.kv = {setup.kv_format,
                   c.n_kv_heads,
                   n_positions,
                   c.head_dim,
                   p,
                   p + kv.codes,
                   reinterpret_cast<float*>(p + 2 * kv.codes),
                   reinterpret_cast<float*>(p + 2 * kv.codes + kv.scales)};
    session_.step = p + kv.total;
    lay_out_scratch(&session_);
  }
  cria_session& get() { return session_; }

 private:
  std::vector<uint8_t> memory_;
  cria_session session_;
};

std::vector<float> random_floats(size_t n, unsigned seed, float size) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, size);
  std::vector<float> values(n);
  for (float& v : values) v = normal(random);
  return values;
}

// Attention of row i by the formula. q, k, v as the session got them.
std::vector<double> by_formula(const format::ModelConfig& c, size_t i, const std::vector<float>& q,
                               const std::vector<float>& k, const std::vector<float>& v) {
  std::vector<double> out(size_t{c.n_heads} * c.head_dim);
  const size_t begin =
      c.sliding_window != 0 && i + 1 > c.sliding_window ? i + 1 - c.sliding_window : 0;
  for (size_t head = 0; head < c.n_heads; ++head) {
    const size_t kv_head = head / (c.n_heads / c.n_kv_heads);
    const auto kv_at = [&](const std::vector<float>& x, size_t j, size_t d) {
      return static_cast<double>(x[(j * c.n_kv_heads + kv_head) * c.head_dim + d]);
    };
    std::vector<double> scores;
    double largest = -1e300;
    for (size_t j = begin; j <= i; ++j) {
      double score = 0;
      for (size_t d = 0; d < c.head_dim; ++d) {
        score += static_cast<double>(q[(i * c.n_heads + head) * c.head_dim + d]) * kv_at(k, j, d);
      }
      scores.push_back(score * static_cast<double>(c.attention_multiplier));
      largest = std::max(largest, scores.back());
    }
    double total = 0;
    for (double& s : scores) total += s = std::exp(s - largest);
    for (size_t d = 0; d < c.head_dim; ++d) {
      double sum = 0;
      for (size_t j = begin; j <= i; ++j) sum += scores[j - begin] / total * kv_at(v, j, d);
      out[head * c.head_dim + d] = sum;
    }
  }
  return out;
}

double largest_difference(const Setup& setup, uint32_t n_positions, float query_size) {
  AttentionSession session(setup, n_positions);
  const format::ModelConfig& c = session.get().model.config;
  const std::vector<float> q =
      random_floats(size_t{n_positions} * c.n_heads * c.head_dim, 1, query_size);
  const std::vector<float> k =
      random_floats(size_t{n_positions} * c.n_kv_heads * c.head_dim, 2, 1.0f);
  const std::vector<float> v = random_floats(k.size(), 3, 1.0f);
  std::vector<float> out(q.size());
  store_keys_values(session.get(), 1, n_positions, k.data(), v.data());
  attend(session.get(), 1, n_positions, q.data(), out.data());
  double worst = 0;
  for (size_t i = 0; i < n_positions; ++i) {
    const std::vector<double> want = by_formula(c, i, q, k, v);
    for (size_t d = 0; d < want.size(); ++d) {
      worst = std::max(worst, std::fabs(static_cast<double>(out[i * want.size() + d]) - want[d]));
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

}  // namespace
}  // namespace cria
