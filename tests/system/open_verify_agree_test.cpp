// cria_verify accepts exactly the files that cria_open accepts: compared over files that were
// changed in every section, with all checksums mended and without, mapped and read, by one thread
// and by several.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "platforms/hosted/base/thread_pool.h"
#include "quant/model/model_layout.h"
#include "tests/support/matrix_formats.h"
#include "tests/support/model_builder.h"
#include "tests/support/model_surgery.h"
#include "tests/support/sampling.h"
#include "tests/support/seeds.h"
#include "tests/support/test_configs.h"
#include "tests/support/test_session.h"
#include "tests/support/tiny_checkpoint.h"

namespace cria {
namespace {

using format::Compression;
using format::NumberFormat;
using format::SectionKind;
using test::Access;
using test::Bytes;
using test::MemorySource;

constexpr size_t kMostMemory = size_t{32} << 20;

class Judges {
 public:
  Judges() : memory_(kMostMemory), scratch_(kMostMemory) {}

  // Status of cria_verify; every way to open must agree whether the file is good. A file that asks
  // for another context or memory than there is cannot be compared, and counts as nothing.
  cria_status judge(const Bytes& file, const std::string& what) {
    cria_status verdict = CRIA_OK;
    for (const Access access : {Access::kRead, Access::kMap, Access::kBoth}) {
      const MemorySource source(file, access);
      verdict = cria_verify(&source.source(), scratch_.data(), scratch_.size(), nullptr, nullptr,
                            nullptr);
      for (uint32_t n_threads = 1; n_threads <= 3; ++n_threads) {
        for (const cria_backend backend : test::built_backends()) {
          const cria_status status = open(source, n_threads, backend);
          if (status == CRIA_MEMORY_TOO_SMALL || status == CRIA_UNSUPPORTED) continue;
          EXPECT_EQ(status, verdict)
              << what << ": " << cria_status_message(status) << ", verify says "
              << cria_status_message(verdict) << "; access " << static_cast<int>(access)
              << ", threads " << n_threads << ", backend " << backend;
          ++n_compared_;
        }
      }
    }
    return verdict;
  }
  size_t n_compared() const { return n_compared_; }

 private:
  cria_status open(const MemorySource& source, uint32_t n_threads, cria_backend backend) {
    hosted::ThreadPool& pool = *pools_[n_threads - 1];
    cria_config config = {};
    config.n_threads = n_threads;
    config.context = 1;  // the plan must not depend on planned_context
    config.prefill_chunk = 1;
    config.backend = backend;
    config.source_is_mapped = source.source().map != nullptr ? 1 : 0;
    config.parallel_for = pool.hook();
    config.parallel_context = pool.context();
    cria_instance cria = {};
    return cria_open(memory_.data(), memory_.size(), &source.source(), &config, &cria);
  }

  test::AlignedMemory memory_;
  test::AlignedMemory scratch_;
  std::unique_ptr<hosted::ThreadPool> pools_[3] = {
      std::make_unique<hosted::ThreadPool>(1, hosted::FewerThreads::kAreRefused),
      std::make_unique<hosted::ThreadPool>(2, hosted::FewerThreads::kAreRefused),
      std::make_unique<hosted::ThreadPool>(3, hosted::FewerThreads::kAreRefused)};
  size_t n_compared_ = 0;
};

// A model with every section.
const Bytes& whole_model(NumberFormat weights, Compression compression) {
  static const auto make = [](NumberFormat w, Compression c) {
    const auto folder = test::temporary_folder() / "tiny-agree";
    test::write_tiny_checkpoint(folder);
    const uint16_t group_size = w == NumberFormat::kInt4 ? 32 : 0;
    return test::convert_folder(folder, {w, group_size, c, true});
  };
  static const Bytes int4_zstd = make(NumberFormat::kInt4, Compression::kZstd);
  static const Bytes int4_stored = make(NumberFormat::kInt4, Compression::kStored);
  static const Bytes int8_zstd = make(NumberFormat::kInt8, Compression::kZstd);
  static const Bytes int8_stored = make(NumberFormat::kInt8, Compression::kStored);
  if (weights == NumberFormat::kInt4) {
    return compression == Compression::kZstd ? int4_zstd : int4_stored;
  }
  return compression == Compression::kZstd ? int8_zstd : int8_stored;
}

constexpr SectionKind kKinds[] = {SectionKind::kConfig,       SectionKind::kTokenizer,
                                  SectionKind::kChatTemplate, SectionKind::kTensorDirectory,
                                  SectionKind::kChunkTable,   SectionKind::kMetadata,
                                  SectionKind::kData};

void judge_changed_sections(uint32_t seed) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr size_t kRounds = 600;
#else
  constexpr size_t kRounds = 3000;
#endif
  const size_t rounds = test::sweep_step() == 1 ? kRounds : 60;
  std::mt19937 random(seed);
  Judges judges;
  size_t good = 0;
  size_t by_status[32] = {};
  for (size_t round = 0; round < rounds; ++round) {
    Bytes file = whole_model(round % 2 == 0 ? NumberFormat::kInt4 : NumberFormat::kInt8,
                             round / 2 % 2 == 0 ? Compression::kZstd : Compression::kStored);
    const SectionKind kind = kKinds[random() % std::size(kKinds)];
    const std::span<uint8_t> section = test::section_bytes(file, kind);
    ASSERT_FALSE(section.empty());
    const size_t n_changes = 1 + random() % 3;
    for (size_t i = 0; i < n_changes; ++i) {
      uint8_t& byte = section[random() % section.size()];
      byte = random() % 2 == 0 ? static_cast<uint8_t>(random())
                               : static_cast<uint8_t>(byte ^ 1u << random() % 8);
    }
    // One in four with checksums that do not hold.
    if (random() % 4 != 0) test::mend_checksums(file);
    const cria_status status = judges.judge(file, "round " + std::to_string(round) + ", section " +
                                                      std::to_string(static_cast<uint32_t>(kind)));
    ++by_status[status];
    good += status == CRIA_OK ? 1 : 0;
  }
  std::printf("%zu files: %zu good, %zu damaged, %zu break a rule; %zu openings compared\n", rounds,
              good, by_status[CRIA_CORRUPT], by_status[CRIA_INVALID_MODEL], judges.n_compared());
  EXPECT_GT(good, 0u);
  EXPECT_GT(by_status[CRIA_CORRUPT], 0u);
  EXPECT_GT(by_status[CRIA_INVALID_MODEL], rounds / 4);
  EXPECT_GT(judges.n_compared(), rounds * 5);
}

TEST(OpenVerifyAgree, OnChangesOfEverySection) {
  test::for_each_seed({20261122}, judge_changed_sections);
}

TEST(OpenVerifyAgree, OnEveryFieldOfHeaderAndSectionTable) {
  Judges judges;
  const Bytes& whole = whole_model(NumberFormat::kInt4, Compression::kZstd);
  format::FileHeader header;
  std::memcpy(&header, whole.data(), sizeof header);
  const size_t n_bytes = sizeof header + header.section_count * sizeof(format::SectionEntry);
  size_t refused = 0;
  for (size_t at = 0; at < n_bytes; at += test::sweep_step()) {
    for (const uint8_t change : {uint8_t{0x01}, uint8_t{0x80}}) {
      for (const bool mended : {true, false}) {
        Bytes file = whole;
        file[at] ^= change;
        // With another count the checksum covers what was not there.
        if (mended && std::memcmp(file.data() + 12, whole.data() + 12, 4) == 0) {
          test::mend_checksums(file);
        }
        if (judges.judge(file, "byte " + std::to_string(at)) != CRIA_OK) ++refused;
      }
    }
  }
  // The checksum fields of sections and header are what mending puts right.
  EXPECT_GT(refused, 0u);
  EXPECT_GT(judges.n_compared(), 0u);
}

TEST(OpenVerifyAgree, OnTruncatedFiles) {
  Judges judges;
  for (const Compression compression : {Compression::kZstd, Compression::kStored}) {
    const Bytes& whole = whole_model(NumberFormat::kInt8, compression);
    for (size_t n = 0; n < whole.size(); n += 97 * test::sweep_step()) {
      const Bytes file(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(n));
      ASSERT_NE(judges.judge(file, std::to_string(n)), CRIA_OK);
    }
  }
  EXPECT_GT(judges.n_compared(), 0u);
}

TEST(OpenVerifyAgree, OnBytesBetweenTwoParts) {
  Judges judges;
  size_t n_gaps = 0;
  for (const Compression compression : {Compression::kZstd, Compression::kStored}) {
    const Bytes& whole = whole_model(NumberFormat::kInt4, compression);
    std::vector<bool> used(whole.size(), false);
    const auto use = [&](uint64_t offset, uint64_t n) {
      for (uint64_t i = 0; i < n; ++i) used[offset + i] = true;
    };
    format::FileHeader header;
    std::memcpy(&header, whole.data(), sizeof header);
    use(0, sizeof header + header.section_count * sizeof(format::SectionEntry));
    for (uint32_t i = 0; i < header.section_count; ++i) {
      format::SectionEntry e;
      std::memcpy(&e, whole.data() + sizeof header + i * sizeof e, sizeof e);
      if (e.kind != static_cast<uint32_t>(SectionKind::kData)) use(e.offset, e.bytes);
    }
    Bytes copy = whole;
    const std::span<uint8_t> table = test::section_bytes(copy, SectionKind::kChunkTable);
    for (size_t at = 0; at < table.size(); at += sizeof(format::ChunkEntry)) {
      format::ChunkEntry e;
      std::memcpy(&e, table.data() + at, sizeof e);
      use(e.offset, e.stored_bytes);
    }
    for (size_t at = 0; at < whole.size(); ++at) {
      if (used[at] || (at % 7 != 0 && !used[at - 1])) continue;  // first bytes, and some others
      Bytes file = whole;
      file[at] = 1;
      ASSERT_EQ(judges.judge(file, "byte " + std::to_string(at)), CRIA_CORRUPT);
      ++n_gaps;
    }
  }
  EXPECT_GT(n_gaps, 20u);
}

// Writes one value at each of several places of a plane, or of a vector.
struct Value {
  const char* what;
  NumberFormat weights;
  bool is_matrix;
  bool is_scale;
  uint32_t bits;
  size_t n_bytes;
  cria_status expected;
  bool has_signed_scales = false;
};

TEST(OpenVerifyAgree, OnValues) {
  constexpr auto kBad = CRIA_INVALID_MODEL;
  const Value values[] = {
      {"int8 -128", NumberFormat::kInt8, true, false, 0x80, 1, kBad},
      {"int8 -127", NumberFormat::kInt8, true, false, 0x81, 1, CRIA_OK},
      {"int8 scale NaN", NumberFormat::kInt8, true, true, 0x7fc00000, 4, kBad},
      {"int8 scale infinite", NumberFormat::kInt8, true, true, 0x7f800000, 4, kBad},
      {"int8 scale negative", NumberFormat::kInt8, true, true, 0xbf800000, 4, kBad},
      {"int8 scale minus zero", NumberFormat::kInt8, true, true, 0x80000000, 4, kBad},
      {"int8 scale subnormal", NumberFormat::kInt8, true, true, 0x007fffff, 4, kBad},
      {"int8 scale least", NumberFormat::kInt8, true, true, 0x00800000, 4, CRIA_OK},
      {"int8 scale zero", NumberFormat::kInt8, true, true, 0, 4, CRIA_OK},
      {"int4 scale NaN", NumberFormat::kInt4, true, true, 0x7fc0, 2, kBad},
      {"int4 scale infinite", NumberFormat::kInt4, true, true, 0x7f80, 2, kBad},
      {"int4 scale negative", NumberFormat::kInt4, true, true, 0xbf80, 2, kBad},
      {"int4 scale subnormal", NumberFormat::kInt4, true, true, 0x0001, 2, kBad},
      {"int4 scale zero", NumberFormat::kInt4, true, true, 0, 2, CRIA_OK},
      {"signed int4 scale NaN", NumberFormat::kInt4, true, true, 0xffc0, 2, kBad, true},
      {"signed int4 scale infinite", NumberFormat::kInt4, true, true, 0xff80, 2, kBad, true},
      {"signed int4 scale negative", NumberFormat::kInt4, true, true, 0xbf80, 2, CRIA_OK, true},
      {"signed int4 scale minus zero", NumberFormat::kInt4, true, true, 0x8000, 2, kBad, true},
      {"signed int4 scale subnormal", NumberFormat::kInt4, true, true, 0x8001, 2, kBad, true},
      {"int4 code -8", NumberFormat::kInt4, true, false, 0x00, 1, CRIA_OK},
      {"int8g32 -128", NumberFormat::kInt8G32, true, false, 0x80, 1, kBad},
      {"int8g32 -127", NumberFormat::kInt8G32, true, false, 0x81, 1, CRIA_OK},
      {"int8g32 scale NaN", NumberFormat::kInt8G32, true, true, 0x7fc0, 2, kBad},
      {"int8g32 scale infinite", NumberFormat::kInt8G32, true, true, 0x7f80, 2, kBad},
      {"int8g32 scale negative", NumberFormat::kInt8G32, true, true, 0xbf80, 2, kBad},
      {"int8g32 scale minus zero", NumberFormat::kInt8G32, true, true, 0x8000, 2, kBad},
      {"int8g32 scale subnormal", NumberFormat::kInt8G32, true, true, 0x0001, 2, kBad},
      {"int8g32 scale least", NumberFormat::kInt8G32, true, true, 0x0080, 2, CRIA_OK},
      {"int8g32 scale zero", NumberFormat::kInt8G32, true, true, 0, 2, CRIA_OK},
      {"bit1 code", NumberFormat::kBit1, true, false, 0xff, 1, CRIA_OK},
      {"bit1 scale NaN", NumberFormat::kBit1, true, true, 0x7e00, 2, kBad},
      {"bit1 scale infinite", NumberFormat::kBit1, true, true, 0x7c00, 2, kBad},
      {"bit1 scale negative", NumberFormat::kBit1, true, true, 0xbc00, 2, CRIA_OK},
      {"bit2 code", NumberFormat::kBit2, true, false, 0xff, 1, CRIA_OK},
      {"bit2 scale NaN", NumberFormat::kBit2, true, true, 0xfc01, 2, kBad},
      {"bit2 scale infinite", NumberFormat::kBit2, true, true, 0xfc00, 2, kBad},
      {"bit2 scale subnormal", NumberFormat::kBit2, true, true, 0x0001, 2, CRIA_OK},
      {"bit2 scale minus zero", NumberFormat::kBit2, true, true, 0x8000, 2, CRIA_OK},
      {"f32 NaN", NumberFormat::kF32, true, false, 0xffc00000, 4, kBad},
      {"f32 infinite", NumberFormat::kF32, true, false, 0xff800000, 4, kBad},
      {"f32 subnormal", NumberFormat::kF32, true, false, 0x80000001, 4, CRIA_OK},
      {"f16 NaN", NumberFormat::kF16, true, false, 0x7e00, 2, kBad},
      {"f16 infinite", NumberFormat::kF16, true, false, 0xfc00, 2, kBad},
      {"bf16 NaN", NumberFormat::kBf16, true, false, 0xffc0, 2, kBad},
      {"bf16 infinite", NumberFormat::kBf16, true, false, 0x7f80, 2, kBad},
      {"vector NaN", NumberFormat::kInt4, false, false, 0x7fc00000, 4, kBad},
      {"vector infinite", NumberFormat::kInt4, false, false, 0xff800000, 4, kBad},
      {"vector subnormal", NumberFormat::kInt4, false, false, 1, 4, CRIA_OK},
  };
  Judges judges;
  size_t tried = 0;
  for (const Value& value : values) {
    const MatrixFormat f = matrix_format(value.weights, 64);
    ConfigParts parts = test::small_config(f.number_format, f.group_size);
    parts.layers = {0};
    parts.kinds[0].flags |= format::flag::kMixerBias | format::flag::kOutputBias |
                            format::flag::kFfnBias | format::flag::kHeadNorms;
    if (value.has_signed_scales) parts.model.flags |= format::kSignedScales;
    parts.model.rope_tables[0].original_context = 16;
    test::mend_counts(&parts);
    const Config c = parts.view();
    ASSERT_EQ(check_config(c), nullptr);
    const Bytes whole = test::build_model(c, 7);
    for (uint32_t tensor = 0; tensor < tensor_count(c); ++tensor) {
      const TensorSpec spec = test::spec_at(c, tensor);
      if (spec.is_matrix() != value.is_matrix) continue;
      const uint64_t begin = value.is_scale ? tensor_code_bytes(spec) : 0;
      const uint64_t end = value.is_scale ? tensor_bytes(spec) : tensor_code_bytes(spec);
      const uint64_t middle = (begin + end) / 2 / value.n_bytes * value.n_bytes;
      for (const uint64_t at : {begin, middle, end - value.n_bytes}) {
        Bytes file = whole;
        const std::span<uint8_t> data = test::section_bytes(file, SectionKind::kData);
        std::memcpy(data.data() + test::offset_of(c, tensor) + at, &value.bits, value.n_bytes);
        test::mend_checksums(file);
        ASSERT_EQ(judges.judge(file, value.what), value.expected) << value.what << ' ' << tensor;
        ++tried;
      }
    }
  }
  EXPECT_GT(tried, 300u);
}

TEST(OpenVerifyAgree, OnFilesWithoutText) {
  Judges judges;
  for (const uint32_t compression : {0u, 1u}) {
    for (const NumberFormat weights :
         {NumberFormat::kF32, NumberFormat::kF16, NumberFormat::kBf16, NumberFormat::kInt8}) {
      ConfigParts c = test::small_config(weights, 0);
      c.model.compression = compression;
      EXPECT_EQ(judges.judge(test::build_model(c.view(), 3), "whole"), CRIA_OK);
    }
  }
  EXPECT_GT(judges.n_compared(), 0u);
}

}  // namespace
}  // namespace cria
