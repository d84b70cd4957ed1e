// The promise of the exact backend: the same logits, to the bit, whatever the threads, the prefill
// chunks, the size of the KV cache, the file's compression and the way the file is read; and
// equal to the hashes in tests/data/golden/logits_hashes.txt, on every target.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>

#include "quant/format/checksum.h"
#include "tests/support/isa_list.h"
#include "tests/support/long_under_asan.h"
#include "tests/support/model_builder.h"
#include "tests/support/model_files.h"
#include "tests/support/near_llama.h"
#include "tests/support/sampling.h"
#include "tests/support/test_session.h"

namespace cria {
namespace {

using format::NumberFormat;
using test::Access;
using test::ConvertRequest;
using test::MemorySource;
using test::TestSession;

struct Variant {
  const char* name;
  NumberFormat weights;
  uint16_t group_size;
  cria_kv_format kv;
  ScaleSigns scales = ScaleSigns::kPositive;
};

constexpr Variant kVariants[] = {
    {"f32-kv32", NumberFormat::kF32, 0, CRIA_KV_F32},
    {"f32", NumberFormat::kF32, 0, CRIA_KV_INT8},
    {"f16", NumberFormat::kF16, 0, CRIA_KV_INT8},
    {"bf16", NumberFormat::kBf16, 0, CRIA_KV_INT8},
    {"int8", NumberFormat::kInt8, 0, CRIA_KV_INT8},
    {"int4g32", NumberFormat::kInt4, 32, CRIA_KV_INT8},
    {"int4g64", NumberFormat::kInt4, 64, CRIA_KV_INT8},
    {"int4g128", NumberFormat::kInt4, 128, CRIA_KV_INT8},
    {"int4g32s", NumberFormat::kInt4, 32, CRIA_KV_INT8, ScaleSigns::kBoth},
    {"int4g128s", NumberFormat::kInt4, 128, CRIA_KV_INT8, ScaleSigns::kBoth},
    {"int4nlg32s", NumberFormat::kInt4Nl, 32, CRIA_KV_INT8, ScaleSigns::kBoth},
    {"int4nlg64", NumberFormat::kInt4Nl, 64, CRIA_KV_INT8},
    {"int8g32", NumberFormat::kInt8G32, 32, CRIA_KV_INT8},
    {"int8-k8v4", NumberFormat::kInt8, 0, CRIA_KV_K8V4},
};

// Nothing is rounded to these, so they have no converted models.
constexpr Variant kTrained[] = {
    {"bit1", NumberFormat::kBit1, 128, CRIA_KV_INT8},
    {"bit2", NumberFormat::kBit2, 64, CRIA_KV_INT8},
};

ConvertRequest request_of(const Variant& variant,
                          format::Compression compression = format::Compression::kZstd) {
  return {variant.weights, variant.group_size, compression, false, variant.scales};
}

constexpr size_t kFirstInteger = 4;
static_assert(kVariants[kFirstInteger].weights == NumberFormat::kInt8);

constexpr uint32_t kContext = 64;

cria_config exact_config(const Variant& variant) {
  cria_config config = {};
  config.backend = CRIA_BACKEND_EXACT;
  config.kv_format = variant.kv;
  config.context = kContext;
  return config;
}

// Tokens of a fixed pattern: any will do.
std::vector<uint32_t> tokens_for(uint32_t vocab_size, size_t n) {
  std::vector<uint32_t> tokens(n);
  for (size_t i = 0; i < n; ++i) tokens[i] = static_cast<uint32_t>((i * 37 + 11) % vocab_size);
  return tokens;
}

std::vector<float> logits_with(const MemorySource& source, const cria_config& config) {
  TestSession session(source, config);
  return session.all_logits(tokens_for(session.info().vocab_size, 48));
}

uint64_t hash_of(const std::vector<float>& logits) {
  return xxh64(logits.data(), logits.size() * sizeof(float));
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && !a.empty() &&
         std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

class ExactBits : public testing::TestWithParam<Variant> {
 protected:
  static test::Bytes model(format::Compression compression) {
    return test::convert_folder(test::golden_folder("odd-sizes"),
                                request_of(GetParam(), compression));
  }
};

TEST_P(ExactBits, DoNotDependOnThreads) {
  const MemorySource source(model(format::Compression::kZstd));
  cria_config config = exact_config(GetParam());
  const std::vector<float> one = logits_with(source, config);
  for (const uint32_t n_threads : {2u, 3u}) {
    config.n_threads = n_threads;
    EXPECT_TRUE(same_bits(logits_with(source, config), one)) << n_threads << " threads";
  }
}

TEST_P(ExactBits, DoNotDependOnPrefillChunks) {
  const MemorySource source(model(format::Compression::kZstd));
  cria_config config = exact_config(GetParam());
  config.prefill_chunk = 64;
  const std::vector<float> whole = logits_with(source, config);
  for (const uint32_t chunk : {1u, 2u, 7u}) {
    config.prefill_chunk = chunk;
    EXPECT_TRUE(same_bits(logits_with(source, config), whole)) << "chunk " << chunk;
  }
}

TEST_P(ExactBits, AreTheSameForPrefillAndDecode) {
  const MemorySource source(model(format::Compression::kZstd));
  const cria_config config = exact_config(GetParam());
  const std::vector<float> prefill = logits_with(source, config);
  TestSession session(source, config);
  const uint32_t vocab_size = session.info().vocab_size;
  std::vector<float> decoded;
  for (const uint32_t token : tokens_for(vocab_size, 48)) {
    ASSERT_EQ(cria_prefill(session.workspace(), session.session(), &token, 1), CRIA_OK);
    const float* logits = cria_logits(session.session());
    decoded.insert(decoded.end(), logits, logits + vocab_size);
  }
  EXPECT_TRUE(same_bits(decoded, prefill));
}

TEST_P(ExactBits, DoNotDependOnTheSizeOfTheKvCache) {
  const MemorySource source(model(format::Compression::kZstd));
  cria_config config = exact_config(GetParam());
  const std::vector<float> small = logits_with(source, config);
  config.context = 256;
  EXPECT_TRUE(same_bits(logits_with(source, config), small));
}

TEST_P(ExactBits, DoNotDependOnCompressionOrTheWayTheFileIsRead) {
  const cria_config config = exact_config(GetParam());
  const test::Bytes stored = model(format::Compression::kStored);
  const test::Bytes compressed = model(format::Compression::kZstd);
  const std::vector<float> want = logits_with(MemorySource(compressed), config);
  for (const Access access : {Access::kRead, Access::kMap, Access::kBoth}) {
    EXPECT_TRUE(same_bits(logits_with(MemorySource(compressed, access), config), want));
    EXPECT_TRUE(same_bits(logits_with(MemorySource(stored, access), config), want));
  }
}

// Lines "name hash". A change of these numbers is a change of the numerics: docs/numerics.md and
// the changelog must say why.
std::map<std::string, uint64_t> golden_hashes() {
  std::ifstream file(test::golden_folder("logits_hashes.txt"));
  std::map<std::string, uint64_t> hashes;
  std::string name, hash;
  while (file >> name >> hash) hashes[name] = std::stoull(hash, nullptr, 16);
  return hashes;
}

void expect_golden(const std::string& name, const std::vector<float>& logits) {
  const auto hashes = golden_hashes();
  const auto found = hashes.find(name);
  std::ostringstream hex;
  hex << std::hex << hash_of(logits);
  ASSERT_NE(found, hashes.end()) << "tests/data/golden/logits_hashes.txt lacks: " << name << " "
                                 << hex.str();
  EXPECT_EQ(hash_of(logits), found->second) << name << " " << hex.str();
}

// Sizes that no vector divides, and attention through a window.
constexpr const char* kGoldenModels[] = {"odd-sizes", "mistral-sliding-window"};

struct GoldenModel {
  std::string name;
  test::Bytes bytes;
};

// Those, and made from a config alone each way in which an architecture is not Llama.
std::vector<GoldenModel> golden_models(const Variant& variant) {
  constexpr uint32_t kSeed = 7;
  const MatrixFormat f = {variant.weights, variant.group_size};
  std::vector<GoldenModel> models;
  if (is_trained_bits(variant.weights)) {
    test::NearLlama near = test::near_llamas(f).front();
    return {{near.name, test::build_model(near.config.view(), kSeed)}};
  }
  for (const char* name : kGoldenModels) {
    models.push_back({name, test::convert_folder(test::golden_folder(name), request_of(variant))});
  }
  for (test::NearLlama& near : test::near_llamas(f)) {
    if (variant.scales == ScaleSigns::kBoth) near.config.model.flags |= format::kSignedScales;
    models.push_back({near.name, test::build_model(near.config.view(), kSeed)});
  }
  return models;
}

constexpr uint32_t kChunks[] = {1, 7, 64};

// The golden hash on every ISA, for these numbers of threads. An emulator takes a sample of the
// choices in which each number and each chunk is met, or both ends of the chunks for one thread.
void expect_golden_models(const Variant& variant, const std::vector<uint32_t>& threads) {
  const size_t n_choices = threads.size() * std::size(kChunks);
  const size_t sample = threads.size() == 1 ? 2 : std::size(kChunks) + 1;
  const size_t step = test::sweep_step() == 1 ? 1 : sample;
  size_t compared = 0;
  size_t possible = 0;
  for (const GoldenModel& model : golden_models(variant)) {
    const MemorySource source(model.bytes);
    cria_config config = exact_config(variant);
    for (const test::IsaRow& isa : test::runnable_isas()) {
      SCOPED_TRACE(isa.name);
      config.isa_mask = isa.mask;
      possible += n_choices;
      for (size_t i = 0; i < n_choices; i += step, ++compared) {
        config.n_threads = threads[i / std::size(kChunks)];
        config.prefill_chunk = kChunks[i % std::size(kChunks)];
        expect_golden(model.name + "/" + variant.name, logits_with(source, config));
      }
    }
  }
  std::printf("%zu of %zu choices\n", compared, possible);
  EXPECT_GT(compared, 0u);
}

TEST_P(ExactBits, HaveTheHashInTheRepositoryOnEveryIsa) { expect_golden_models(GetParam(), {1}); }

TEST_P(ExactBits, HaveTheHashInTheRepositoryOnEveryIsaForAnyThreads) {
  CRIA_SKIP_UNDER_ASAN();
  expect_golden_models(GetParam(), {2, 3, 4});
}

TEST(TrainedBitsHashes, HaveTheHashInTheRepositoryOnEveryIsa) {
  for (const Variant& variant : kTrained) expect_golden_models(variant, {1, 3});
}

std::string variant_label(const testing::TestParamInfo<Variant>& variant) {
  std::string name = variant.param.name;
  std::erase(name, '-');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Formats, ExactBits, testing::ValuesIn(kVariants), variant_label);

class ExactBitsOfTheDemo : public testing::TestWithParam<Variant> {
 protected:
  static void expect_golden_demo(const std::vector<uint32_t>& threads) {
    const MemorySource source(test::convert_folder(test::demo_folder(), request_of(GetParam())));
    cria_config config = exact_config(GetParam());
    size_t compared = 0;
    for (const test::IsaRow& isa : test::runnable_isas()) {
      SCOPED_TRACE(isa.name);
      config.isa_mask = isa.mask;
      for (const uint32_t n_threads : threads) {
        config.n_threads = n_threads;
        config.context = n_threads % 2 == 0 ? 512 : kContext;
        TestSession session(source, config);
        expect_golden(std::string("demo/") + GetParam().name,
                      session.all_logits(tokens_for(session.info().vocab_size, 24)));
        ++compared;
      }
    }
    EXPECT_GT(compared, 0u);
  }
};

TEST_P(ExactBitsOfTheDemo, HaveTheHashInTheRepositoryOnEveryIsa) {
  CRIA_SKIP_UNDER_ASAN();
  expect_golden_demo({1});
}

TEST_P(ExactBitsOfTheDemo, HaveTheHashInTheRepositoryOnEveryIsaForAnyCacheSizeAndThreads) {
  CRIA_SKIP_UNDER_ASAN();
  expect_golden_demo({2, 3, 4});
}

INSTANTIATE_TEST_SUITE_P(IntegerFormats, ExactBitsOfTheDemo,
                         testing::ValuesIn(kVariants + kFirstInteger, std::end(kVariants)),
                         variant_label);

}  // namespace
}  // namespace cria
