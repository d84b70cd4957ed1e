#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "runtime/kernels/kernels.h"
#include "tests/bench/kernel_benchmarks.h"
#include "tests/support/isa_list.h"

namespace cria::bench {
namespace {

// What a vector kernel works on. Kernels that write in place leave these values, or values near
// them, so that no run meets subnormal numbers.
struct Vectors {
  explicit Vectors(size_t n)
      : x(n, 1.0f), y(n, 1.0f), gate(n, 100.0f), codes(n), scales(n), sums(n) {}

  std::vector<float> x;
  std::vector<float> y;
  std::vector<float> gate;  // silu(100) * 1 is 100
  std::vector<int8_t> codes;
  std::vector<float> scales;
  std::vector<int32_t> sums;
};

struct VectorKernel {
  const char* name;
  size_t bytes;  // read and written for each element
  void (*run)(const Kernels& k, Vectors* v);
};

constexpr size_t kHeadDim = 64;

constexpr VectorKernel kVectorKernels[] = {
    {"quantize_row", sizeof(float) + 1,
     [](const Kernels& k, Vectors* v) {
       const size_t padded = round_up(v->x.size(), kActivationGroup);
       k.quantize_row(v->x.data(), v->x.size(), padded, kActivationGroup, v->codes.data(),
                      v->scales.data(), v->sums.data());
     }},
    {"rms_norm", 3 * sizeof(float),
     [](const Kernels& k, Vectors* v) {
       k.rms_norm(v->x.data(), v->gate.data(), v->x.size(), 1e-5f, v->y.data());
     }},
    {"rope", 2 * sizeof(float),
     [](const Kernels& k, Vectors* v) {
       // The angle 0 for every head: values stay.
       static constexpr float kZeros[kHeadDim / 2] = {};
       static const std::vector<float> kOnes(kHeadDim / 2, 1.0f);
       k.rope(v->x.data(), v->x.size() / kHeadDim, kHeadDim, kOnes.data(), kZeros);
     }},
    {"silu_mul", 3 * sizeof(float),
     [](const Kernels& k, Vectors* v) { k.silu_mul(v->gate.data(), v->x.data(), v->gate.size()); }},
    {"add_scaled", 3 * sizeof(float),
     [](const Kernels& k, Vectors* v) {
       k.add_scaled(v->y.data(), v->x.data(), 1.0f, v->y.size());
     }},
    {"exp_sum", 2 * sizeof(float),
     [](const Kernels& k, Vectors* v) {
       // exp(1 - 1) is 1.
       benchmark::DoNotOptimize(k.exp_sum(v->x.data(), v->x.size(), 1.0f));
     }},
};

// Widths of Llama 3.2 1B and its FFN, of SmolLM 135M.
constexpr size_t kWidths[] = {2048, 8192, 576};

void run_vector(benchmark::State& state, const VectorKernel& kernel, const Kernels& kernels,
                size_t n) {
  Vectors vectors(n);
  for (auto _ : state) {
    kernel.run(kernels, &vectors);
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(n));
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(n * kernel.bytes));
}

// The queries of a KV head, scores and output. Weights of 0 keep the output; they take the same
// time.
struct Head {
  Head(size_t context, size_t queries)
      : n_queries(queries),
        q_codes(n_queries * kHeadDim, 3),
        q_scales(n_queries * kHeadDim / kActivationGroup, 0.5f),
        q_sums(q_scales.size(), 3 * static_cast<int32_t>(kActivationGroup)),
        q(kHeadDim, 0.5f),
        scales(context, 0.5f),
        value_scales(context * value_groups(kHeadDim), 0x3f00),
        scores(n_queries * context),
        weights(n_queries * context, 0.0f),
        rescale(n_queries, 1.0f),
        out(n_queries * kHeadDim, 1.0f) {}

  [[nodiscard]] QuantizedRows queries() const {
    return {q_codes.data(), q_scales.data(), q_sums.data(), n_queries};
  }
  [[nodiscard]] WeightRows weight_rows(size_t stride) const {
    return {weights.data(), stride, rescale.data(), n_queries};
  }

  size_t n_queries;
  std::vector<int8_t> q_codes;
  std::vector<float> q_scales;
  std::vector<int32_t> q_sums;
  std::vector<float> q;
  std::vector<float> scales;
  std::vector<uint16_t> value_scales;
  std::vector<float> scores;
  std::vector<float> weights;
  std::vector<float> rescale;
  std::vector<float> out;
};

struct AttentionKernel {
  const char* name;
  size_t bits;  // of one element of the cache
  bool takes_blocks;
  void (*run)(const Kernels& k, const uint8_t* cache, size_t n, Head* h);
};

const int8_t* as_codes(const uint8_t* cache) { return reinterpret_cast<const int8_t*>(cache); }
const float* as_floats(const uint8_t* cache) { return reinterpret_cast<const float*>(cache); }

constexpr AttentionKernel kAttentionKernels[] = {
    {"scores_q8", 8, true,
     [](const Kernels& k, const uint8_t* cache, size_t n, Head* h) {
       k.scores_q8(h->queries(), kHeadDim, as_codes(cache), h->scales.data(), 0.125f, n,
                   h->scores.data(), n);
     }},
    {"scores_f32", 32, false,
     [](const Kernels& k, const uint8_t* cache, size_t n, Head* h) {
       k.scores_f32(h->q.data(), kHeadDim, as_floats(cache), 0.125f, n, h->scores.data());
     }},
    {"weighted_sum_q8", 8, true,
     [](const Kernels& k, const uint8_t* cache, size_t n, Head* h) {
       k.weighted_sum_q8(h->weight_rows(n), as_codes(cache), h->scales.data(), n, kHeadDim,
                         h->out.data());
     }},
    {"weighted_sum_q4", 4, true,
     [](const Kernels& k, const uint8_t* cache, size_t n, Head* h) {
       k.weighted_sum_q4(h->weight_rows(n), cache, h->value_scales.data(), n, kHeadDim,
                         h->out.data());
     }},
    {"weighted_sum_f32", 32, false,
     [](const Kernels& k, const uint8_t* cache, size_t n, Head* h) {
       k.weighted_sum_f32(h->weights.data(), as_floats(cache), n, kHeadDim, 1.0f, h->out.data());
     }},
};

constexpr size_t kContexts[] = {128, 512, 2048};
constexpr size_t kBlocks[] = {1, 4, 32};

// Items are elements of the cache that a query met.
void run_attention(benchmark::State& state, const AttentionKernel& kernel, const Kernels& kernels,
                   size_t context, size_t n_queries, const ColdMemory& memory) {
  Head head(context, n_queries);
  const size_t n = context * kHeadDim;
  ColdWalk cache(memory, n * kernel.bits / 8);
  for (auto _ : state) {
    kernel.run(kernels, cache.next(), context, &head);
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(n * n_queries));
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(n * kernel.bits / 8));
}

}  // namespace

void register_vectors(const ColdMemory& memory) {
  for (const test::IsaRow& isa : test::runnable_isas()) {
    Kernels kernels;
    if (!select_kernels(isa.mask, &kernels)) continue;
    for (const VectorKernel& kernel : kVectorKernels) {
      for (const size_t n : kWidths) {
        const std::string name =
            std::string(kernel.name) + "/" + isa.name + "/" + std::to_string(n);
        benchmark::RegisterBenchmark(
            name.c_str(), [=](benchmark::State& state) { run_vector(state, kernel, kernels, n); });
      }
    }
    for (const AttentionKernel& kernel : kAttentionKernels) {
      for (const size_t context : kContexts) {
        for (const size_t n_queries : kBlocks) {
          if (n_queries > 1 && !kernel.takes_blocks) continue;
          std::string name =
              std::string(kernel.name) + "/" + isa.name + "/context:" + std::to_string(context);
          if (n_queries > 1) name += "/queries:" + std::to_string(n_queries);
          benchmark::RegisterBenchmark(name.c_str(), [=, &memory](benchmark::State& state) {
            run_attention(state, kernel, kernels, context, n_queries, memory);
          });
        }
      }
    }
  }
}

}  // namespace cria::bench
