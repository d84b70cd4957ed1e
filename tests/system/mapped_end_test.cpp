// Weights used in place, with a page after the mapping that nobody may touch: files that end
// sooner than their config says are refused before a byte after them is read, and those that are
// whole run without reading one.
#include <gtest/gtest.h>

#include <cstring>
#include <iterator>
#include <memory>

#include "platforms/hosted/base/thread_pool.h"
#include "quant/model/model_layout.h"
#include "tests/support/guarded_source.h"
#include "tests/support/matrix_formats.h"
#include "tests/support/model_builder.h"
#include "tests/support/model_surgery.h"
#include "tests/support/test_configs.h"
#include "tests/support/test_session.h"

namespace cria {
namespace {

using format::ChunkEntry;
using format::NumberFormat;
using format::SectionKind;

constexpr uint32_t kSeed = 20261122;
constexpr uint32_t kMostThreads = 8;

class MappedEnd : public testing::TestWithParam<cria_backend> {
 protected:
  cria_status open(const cria_source& source, uint32_t n_threads) {
    pool_ = std::make_unique<hosted::ThreadPool>(n_threads, hosted::FewerThreads::kAreRefused);
    cria_config config = {};
    config.n_threads = n_threads;
    config.backend = GetParam();
    config.source_is_mapped = 1;
    config.parallel_for = pool_->hook();
    config.parallel_context = pool_->context();
    cria_model_info info = {};
    cria_memory_plan plan = {};
    cria_status status = cria_inspect(&source, &info);
    if (status != CRIA_OK) return status;
    status = cria_plan(&info, &config, &plan);
    if (status != CRIA_OK) return status;
    memory_ = std::make_unique<test::AlignedMemory>(static_cast<size_t>(plan.total));
    return cria_open(memory_->data(), memory_->size(), &source, &config, &cria_);
  }

  cria_instance cria_ = {};

 private:
  std::unique_ptr<hosted::ThreadPool> pool_;
  std::unique_ptr<test::AlignedMemory> memory_;
};

// Takes n_bytes off the end of the data and moves the last n_moved chunks down by as much, so that
// they follow each other and end where the data does. Every checksum holds.
test::Bytes cut(test::Bytes file, uint64_t n_bytes, size_t n_moved) {
  file.resize(file.size() - n_bytes);
  format::FileHeader header;
  std::memcpy(&header, file.data(), sizeof header);
  header.file_bytes = file.size();
  std::memcpy(file.data(), &header, sizeof header);
  const size_t at = sizeof header + (header.section_count - 1) * sizeof(format::SectionEntry);
  format::SectionEntry data;
  std::memcpy(&data, file.data() + at, sizeof data);
  data.bytes -= n_bytes;
  std::memcpy(file.data() + at, &data, sizeof data);
  const std::span<uint8_t> table = test::section_bytes(file, SectionKind::kChunkTable);
  for (size_t i = table.size() / sizeof(ChunkEntry) - n_moved;
       i < table.size() / sizeof(ChunkEntry); ++i) {
    ChunkEntry entry;
    std::memcpy(&entry, table.data() + i * sizeof entry, sizeof entry);
    entry.offset -= n_bytes;
    std::memcpy(table.data() + i * sizeof entry, &entry, sizeof entry);
  }
  test::mend_checksums(file);
  return file;
}

TEST_P(MappedEnd, AFileThatEndsInsideItsLastMatrixIsRefused) {
  constexpr uint64_t kCutChunks = 8;
  ConfigParts c = test::small_config(NumberFormat::kF32, 0);
  c.model.vocab_size = 20000;
  const test::Bytes whole = test::build_model(c.view(), kSeed);
  const test::GuardedSource source(cut(whole, kCutChunks * format::kChunkRawBytes, kCutChunks + 2));
  for (uint32_t n_threads = 1; n_threads <= kMostThreads; ++n_threads) {
    EXPECT_EQ(open(source.source(), n_threads), CRIA_INVALID_MODEL) << n_threads;
  }
}

TEST_P(MappedEnd, AFileThatEndsInsideItsFinalNormIsRefused) {
  constexpr uint64_t kCutBytes = 2048;
  ConfigParts c = test::small_config(NumberFormat::kInt8, 0);
  c.model.flags = format::kTiedEmbedding;
  c.model.d_model = 1024;
  test::mend_counts(&c);
  const test::GuardedSource source(cut(test::build_model(c.view(), kSeed), kCutBytes, 2));
  for (uint32_t n_threads = 1; n_threads <= kMostThreads; ++n_threads) {
    EXPECT_EQ(open(source.source(), n_threads), CRIA_INVALID_MODEL) << n_threads;
  }
}

TEST_P(MappedEnd, AFileThatEndsBetweenTwoTensorsIsRefused) {
  ConfigParts parts = test::small_config(NumberFormat::kInt4, 32);
  const Config c = parts.view();
  const test::Bytes whole = test::build_model(c, kSeed);
  const std::span<const uint8_t> table =
      test::section_bytes(const_cast<test::Bytes&>(whole), SectionKind::kChunkTable);
  const size_t n_chunks = table.size() / sizeof(ChunkEntry);
  size_t refused = 0;
  for (uint32_t i = 1; i < tensor_count(c); ++i) {
    const uint64_t left = test::offset_of(c, i);
    const uint64_t n_bytes = uncompressed_data_bytes(c) - left;
    for (const size_t n_moved : {size_t{0}, size_t{1}, n_chunks / 2}) {
      const test::GuardedSource source(cut(whole, n_bytes, n_moved));
      for (const uint32_t n_threads : {1u, 2u, 3u}) {
        EXPECT_EQ(open(source.source(), n_threads), CRIA_INVALID_MODEL) << i << ' ' << n_moved;
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 100u);
}

// What the file ends with: lm_head or, tied, the final norm.
TEST_P(MappedEnd, NoByteBehindAWholeFileIsRead) {
  constexpr uint32_t kTokens[] = {1, 2, 3, 49, 7};
  size_t ran = 0;
  size_t n_formats = 0;
  for (const MatrixFormat& f : kMatrixFormats) {
    if (GetParam() == CRIA_BACKEND_XNNPACK && !is_for_xnnpack(f.number_format)) continue;
    ++n_formats;
    for (const uint32_t flags : {0u, format::kTiedEmbedding}) {
      ConfigParts c = test::small_config(f.number_format, f.group_size);
      c.model.flags = flags;
      test::mend_counts(&c);
      c.model.d_model = 80;  // no multiple of a group: padded inputs
      const test::Bytes file = test::build_model(c.view(), kSeed);
      ASSERT_EQ(check_config(c.view()), nullptr);
      const test::GuardedSource source(file);
      for (const uint32_t n_threads : {1u, 2u, 5u}) {
        ASSERT_EQ(open(source.source(), n_threads), CRIA_OK);
        ASSERT_EQ(cria_prefill(cria_.workspace, cria_.session, kTokens, std::size(kTokens)),
                  CRIA_OK);
        ASSERT_EQ(cria_prefill(cria_.workspace, cria_.session, kTokens, 1), CRIA_OK);
        ++ran;
      }
    }
  }
  EXPECT_EQ(ran, n_formats * 2 * 3);
}

INSTANTIATE_TEST_SUITE_P(Backends, MappedEnd, testing::ValuesIn(test::built_backends()),
                         test::backend_label);

}  // namespace
}  // namespace cria
