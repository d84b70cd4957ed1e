// Models whose layers have different formats: planned exactly, loaded the same from every source,
// and computed as files of one format are.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "quant/model/model_layout.h"
#include "tests/support/matrix_formats.h"
#include "tests/support/model_builder.h"
#include "tests/support/model_surgery.h"
#include "tests/support/test_configs.h"
#include "tests/support/test_session.h"

namespace cria {
namespace {

using format::NumberFormat;
using test::Bytes;

constexpr uint32_t kSeed = 11;
constexpr uint32_t kTokens[] = {1, 7, 30, 2, 49, 11, 12, 13, 3};

// Layers in other formats each, in no order, of those that the backend runs.
std::vector<MatrixFormat> mixed_formats(const Config& config, cria_backend backend) {
  std::vector<MatrixFormat> usable;
  for (const MatrixFormat& format : kMatrixFormats) {
    if (backend == CRIA_BACKEND_EXACT || is_for_xnnpack(format.number_format)) {
      usable.push_back(format);
    }
  }
  std::vector<MatrixFormat> formats;
  for (uint32_t i = 0; i < tensor_count(config); ++i) {
    formats.push_back(usable[(i * i + i / 5) % usable.size()]);
  }
  return formats;
}

struct Flags {
  uint32_t of_model;
  uint32_t of_layers;
};

Bytes mixed_model(const Flags& flags, format::FileCompression compression,
                  cria_backend backend = CRIA_BACKEND_EXACT) {
  ConfigParts c = test::small_config(NumberFormat::kF32, 0);
  c.model.flags = flags.of_model;
  c.kinds[0].flags |= flags.of_layers;
  c.layers.assign(5, 0);
  c.model.compression = static_cast<uint32_t>(compression);
  const std::vector<MatrixFormat> formats = mixed_formats(c.view(), backend);
  test::set_formats(&c, formats);
  return test::build_model(c.view(), formats, kSeed);
}

std::vector<float> logits_of(const Bytes& file, test::Access access, cria_config config) {
  const test::MemorySource source(file, access);
  config.source_is_mapped = access == test::Access::kRead ? 0 : 1;
  // A TestSession checks that each object takes what was planned.
  test::TestSession session(source, config);
  test::need(cria_prefill(session.workspace(), session.session(), kTokens, std::size(kTokens)));
  const float* logits = cria_logits(session.session());
  return {logits, logits + cria_vocab_size(session.model())};
}

class MixedFormats : public testing::TestWithParam<cria_backend> {};

TEST_P(MixedFormats, GiveTheSameBitsHoweverTheyAreLoaded) {
  for (const Flags& flags : {Flags{}, {format::kTiedEmbedding, format::flag::kMixerBias}}) {
    cria_config config = {};
    config.backend = GetParam();
    const Bytes stored = mixed_model(flags, format::FileCompression::kStored, config.backend);
    const std::vector<float> want = logits_of(stored, test::Access::kRead, config);
    for (const float value : want) ASSERT_TRUE(std::isfinite(value));
    const Bytes compressed = mixed_model(flags, format::FileCompression::kAny, config.backend);
    for (const test::Access access :
         {test::Access::kRead, test::Access::kMap, test::Access::kBoth}) {
      for (const Bytes* file : {&stored, &compressed}) {
        for (const uint32_t n_threads : {1u, 2u, 3u}) {
          config.n_threads = n_threads;
          EXPECT_EQ(logits_of(*file, access, config), want) << n_threads << " threads";
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, MixedFormats, testing::ValuesIn(test::built_backends()),
                         test::backend_label);

TEST(MixedFormats, AreSaidToBeMixed) {
  const Bytes file = mixed_model({}, format::FileCompression::kStored);
  const cria_model_info info = test::inspected(test::MemorySource(file).source());
  EXPECT_EQ(info.weight_format, CRIA_MIXED);
  EXPECT_EQ(info.group_size, 0u);
  EXPECT_STREQ(cria_number_format_name(info.weight_format), "mixed");
  // Tensor 1: what mixed_formats gives to place 1.
  EXPECT_EQ(info.embedding_format, CRIA_F16);
  EXPECT_EQ(info.embedding_bytes, 64u * 64 * 2);
}

TEST(MixedFormats, AreListedByMatrixAndFormat) {
  Bytes file = mixed_model({format::kTiedEmbedding, 0}, format::FileCompression::kStored);
  const cria_model_info info = test::inspected(test::MemorySource(file).source());
  using format::TensorRole;
  constexpr std::pair<TensorRole, const char*> kMatrices[] = {{TensorRole::kEmbedding, "embedding"},
                                                              {TensorRole::kQ, "q"},
                                                              {TensorRole::kK, "k"},
                                                              {TensorRole::kV, "v"},
                                                              {TensorRole::kO, "o"},
                                                              {TensorRole::kGate, "gate"},
                                                              {TensorRole::kUp, "up"},
                                                              {TensorRole::kDown, "down"}};
  // What the directory lists.
  std::map<std::pair<uint16_t, size_t>, uint32_t> counts;
  const std::span<const uint8_t> directory =
      test::section_bytes(file, format::SectionKind::kTensorDirectory);
  for (size_t at = 0; at < directory.size(); at += sizeof(format::TensorEntry)) {
    format::TensorEntry e;
    std::memcpy(&e, directory.data() + at, sizeof e);
    const auto number_format = static_cast<NumberFormat>(e.number_format);
    ++counts[{e.role, place_of({number_format, e.group_size})}];
  }
  uint32_t n = 0;
  uint32_t place = 0;
  cria_matrix_kind kind = {};
  for (const auto& [role, name] : kMatrices) {
    for (size_t i = 0; i < std::size(kMatrixFormats); ++i) {
      const uint32_t count = counts[{static_cast<uint16_t>(role), i}];
      if (count == 0) continue;
      ASSERT_EQ(cria_find_matrix_kind(&info, place++, &kind), CRIA_OK);
      EXPECT_STREQ(kind.name, name);
      EXPECT_EQ(kind.number_format, static_cast<int>(kMatrixFormats[i].number_format));
      EXPECT_EQ(kind.group_size, kMatrixFormats[i].group_size);
      EXPECT_EQ(kind.n_matrices, count);
      n += count;
    }
  }
  EXPECT_EQ(n, 1u + 7 * 5);
  EXPECT_EQ(cria_find_matrix_kind(&info, place, &kind), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(kind.name, nullptr);
  EXPECT_EQ(cria_find_matrix_kind(&info, UINT32_MAX, &kind), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_find_matrix_kind(nullptr, 0, &kind), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_find_matrix_kind(&info, 0, nullptr), CRIA_INVALID_ARGUMENT);
  cria_model_info none = {};
  EXPECT_EQ(cria_find_matrix_kind(&none, 0, &kind), CRIA_INVALID_ARGUMENT);
}

// What a directory says is compared with the config's counts, and again where it is used.
TEST(MixedFormats, ADirectoryThatSwapsTwoFormatsIsAnotherModel) {
  Bytes file = mixed_model({}, format::FileCompression::kStored);
  const std::span<uint8_t> directory =
      test::section_bytes(file, format::SectionKind::kTensorDirectory);
  for (size_t at = offsetof(format::TensorEntry, number_format); at < directory.size();
       at += sizeof(format::TensorEntry)) {
    Bytes changed = file;
    uint8_t& number_format =
        test::section_bytes(changed, format::SectionKind::kTensorDirectory)[at];
    number_format = static_cast<uint8_t>(number_format % 5 + 1);
    test::mend_checksums(changed);
    const test::MemorySource source(changed);
    cria_config config = {};
    const cria_model_info info = test::inspected(source.source());
    const cria_memory_plan plan = test::planned(info, config);
    test::AlignedMemory memory(plan.total);
    cria_instance cria = {};
    EXPECT_EQ(cria_open(memory.data(), memory.size(), &source.source(), &config, &cria),
              CRIA_INVALID_MODEL);
  }
}

}  // namespace
}  // namespace cria
