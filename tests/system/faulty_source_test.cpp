// Sources that fail: the n-th read returns an error, comes short, or brings other bytes than it
// should, for every n. Opening and verifying end in a status, whatever was read before.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "platforms/hosted/base/thread_pool.h"
#include "tests/support/model_files.h"
#include "tests/support/model_surgery.h"
#include "tests/support/sampling.h"
#include "tests/support/test_session.h"
#include "tests/support/tiny_checkpoint.h"

#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace cria {
namespace {

using format::ChunkEntry;
using format::Compression;
using format::NumberFormat;
using format::SectionKind;
using test::Bytes;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kIsSanitized = true;
#else
constexpr bool kIsSanitized = false;
#endif

const Bytes& tiny_model(Compression compression) {
  static const auto make = [](Compression c) {
    const auto folder = test::temporary_folder() / "tiny-faulty";
    test::write_tiny_checkpoint(folder);
    return test::convert_folder(folder, {NumberFormat::kInt4, 32, c, true});
  };
  static const Bytes zstd = make(Compression::kZstd);
  static const Bytes stored = make(Compression::kStored);
  return compression == Compression::kZstd ? zstd : stored;
}

// The same file with a chunk table of lies, all checksums mended: what a source may turn into once
// the table was checked.
Bytes with_lying_table(Bytes file) {
  std::mt19937 random(11);
  const uint64_t size = file.size();
  const std::span<uint8_t> table = test::section_bytes(file, SectionKind::kChunkTable);
  for (size_t at = 0; at < table.size(); at += sizeof(ChunkEntry)) {
    ChunkEntry e;
    std::memcpy(&e, table.data() + at, sizeof e);
    switch (random() % 5) {
      case 0:
        e.offset = ~uint64_t{0} - 63;
        break;
      case 1:
        e.offset = size / 64 * 64;
        break;
      case 2:
        e.stored_bytes = 0xffffffff;
        break;
      case 3:
        e.raw_bytes = format::kChunkRawBytes;
        e.stored_bytes = format::kChunkRawBytes;
        break;
      default:
        e.compression ^= 1;
        e.stored_bytes = 1;
        break;
    }
    std::memcpy(table.data() + at, &e, sizeof e);
  }
  test::mend_checksums(file);
  return file;
}

enum class Fault { kFails, kComesShort, kOnes, kZeros, kFlippedBit, kOtherFileFromHereOn };
constexpr Fault kFaults[] = {Fault::kFails, Fault::kComesShort, Fault::kOnes,
                             Fault::kZeros, Fault::kFlippedBit, Fault::kOtherFileFromHereOn};

enum class Path { kRead, kMap };

// Counts the calls of one opening; the one with number fault_at_ (from 0) goes wrong.
class FaultySource {
 public:
  FaultySource(const Bytes& file, Path path)
      : good_(aligned_copy(file)),
        other_(aligned_copy(with_lying_table(file))),
        scratch_(file.size()) {
    source_.context = this;
    source_.size = file.size();
    if (path == Path::kRead) {
      source_.read = [](void* context, uint64_t offset, void* destination, size_t n_bytes) {
        return static_cast<FaultySource*>(context)->read(offset, destination, n_bytes);
      };
    } else {
      source_.map = [](void* context, uint64_t offset, size_t n_bytes) {
        return static_cast<FaultySource*>(context)->map(offset, n_bytes);
      };
    }
  }

  void arm(Fault fault, size_t at) {
    fault_ = fault;
    fault_at_ = at;
    n_calls_ = 0;
  }
  void disarm() { arm(Fault::kFails, ~size_t{0}); }
  [[nodiscard]] size_t n_calls() const { return n_calls_; }
  [[nodiscard]] const cria_source& source() const { return source_; }

 private:
  static std::unique_ptr<test::AlignedMemory> aligned_copy(const Bytes& bytes) {
    auto memory = std::make_unique<test::AlignedMemory>(bytes.size());
    std::memcpy(memory->data(), bytes.data(), bytes.size());
    return memory;
  }
  static uint8_t* bytes(const std::unique_ptr<test::AlignedMemory>& memory) {
    return static_cast<uint8_t*>(memory->data());
  }

  int read(uint64_t offset, void* destination, size_t n_bytes) {
    const size_t call = n_calls_++;
    auto* out = static_cast<uint8_t*>(destination);
    const bool is_other = fault_ == Fault::kOtherFileFromHereOn && call >= fault_at_;
    if (call == fault_at_ && fault_ == Fault::kFails) return 1;
    if (n_bytes != 0) std::memcpy(out, bytes(is_other ? other_ : good_) + offset, n_bytes);
    if (call != fault_at_) return 0;
    EXPECT_NE(n_bytes, 0u) << "a call for nothing";
    switch (fault_) {
      case Fault::kComesShort:
        std::memset(out + n_bytes / 2, 0xee, n_bytes - n_bytes / 2);
        return -1;
      case Fault::kOnes:
        std::memset(out, 0xff, n_bytes);
        break;
      case Fault::kZeros:
        std::memset(out, 0, n_bytes);
        break;
      case Fault::kFlippedBit:
        out[call * 7919 % n_bytes] ^= static_cast<uint8_t>(1u << call % 8);
        break;
      default:
        break;
    }
    return 0;
  }

  // Changed bytes are at another place: those handed out before stay as they were.
  const void* map(uint64_t offset, size_t n_bytes) {
    const size_t call = n_calls_++;
    if (fault_ == Fault::kOtherFileFromHereOn && call >= fault_at_) return bytes(other_) + offset;
    if (call != fault_at_) return bytes(good_) + offset;
    uint8_t* changed = static_cast<uint8_t*>(scratch_.data()) + offset;
    if (n_bytes != 0) std::memcpy(changed, bytes(good_) + offset, n_bytes);
    switch (fault_) {
      case Fault::kFails:
      case Fault::kComesShort:
        return nullptr;
      case Fault::kOnes:
        std::memset(changed, 0xff, n_bytes);
        break;
      case Fault::kZeros:
        std::memset(changed, 0, n_bytes);
        break;
      default:
        if (n_bytes != 0) changed[call * 7919 % n_bytes] ^= static_cast<uint8_t>(1u << call % 8);
        break;
    }
    return changed;
  }

  std::unique_ptr<test::AlignedMemory> good_;
  std::unique_ptr<test::AlignedMemory> other_;
  test::AlignedMemory scratch_;
  cria_source source_ = {};
  Fault fault_ = Fault::kFails;
  size_t fault_at_ = ~size_t{0};
  std::atomic<size_t> n_calls_ = 0;
};

void use(const cria_instance& cria) {
  constexpr uint32_t kTokens[] = {1, 2, 3};
  ASSERT_EQ(cria_prefill(cria.workspace, cria.session, kTokens, 3), CRIA_OK);
  uint32_t ids[64];
  size_t n = 0;
  static_cast<void>(cria_encode(cria.workspace, "the llama", 9, CRIA_ENCODE_PARSE, ids, 64, &n));
}

class Opening {
 public:
  Opening(const FaultySource& source, uint32_t n_threads, cria_backend backend)
      : source_(source), pool_(n_threads, hosted::FewerThreads::kAreRefused) {
    config_.n_threads = n_threads;
    config_.backend = backend;
    config_.prefill_chunk = 4;
    config_.context = 16;
    config_.source_is_mapped = source.source().map != nullptr ? 1 : 0;
    config_.parallel_for = pool_.hook();
    config_.parallel_context = pool_.context();
    cria_model_info info = {};
    cria_memory_plan plan = {};
    EXPECT_EQ(cria_inspect(&source.source(), &info), CRIA_OK);
    EXPECT_EQ(cria_plan(&info, &config_, &plan), CRIA_OK);
    memory_ = std::make_unique<test::AlignedMemory>(static_cast<size_t>(plan.total));
  }
  cria_status open(cria_instance* cria) {
    return cria_open(memory_->data(), memory_->size(), &source_.source(), &config_, cria);
  }

 private:
  const FaultySource& source_;
  hosted::ThreadPool pool_;
  cria_config config_ = {};
  std::unique_ptr<test::AlignedMemory> memory_;
};

// Every fault at every call. run gives a status and, when it opened something, uses it.
template <typename Run>
size_t sweep(FaultySource* source, const Run& run) {
  source->arm(Fault::kFails, ~size_t{0});
  EXPECT_EQ(run(), CRIA_OK);
  const size_t n_calls = source->n_calls();
  EXPECT_GT(n_calls, 20u);
  size_t n_runs = 0;
  for (const Fault fault : kFaults) {
    for (size_t at = 0; at < n_calls; at += test::sweep_step()) {
      source->arm(fault, at);
      const cria_status status = run();
      const bool must_fail = fault == Fault::kFails || fault == Fault::kComesShort;
      EXPECT_TRUE(!must_fail || status == CRIA_READ_FAILED)
          << "fault " << static_cast<int>(fault) << " at " << at << ": "
          << cria_status_message(status);
      EXPECT_TRUE(fault != Fault::kFlippedBit || status != CRIA_READ_FAILED) << at;
      ++n_runs;
    }
  }
  source->disarm();
  EXPECT_EQ(run(), CRIA_OK);
  return n_runs;
}

class FaultySourceTest : public testing::TestWithParam<cria_backend> {};

TEST_P(FaultySourceTest, OpeningEndsInAStatus) {
  size_t n_runs = 0;
  for (const Compression compression : {Compression::kZstd, Compression::kStored}) {
    for (const Path path : {Path::kRead, Path::kMap}) {
      FaultySource source(tiny_model(compression), path);
      for (const uint32_t n_threads : {1u, 2u, 3u}) {
        Opening opening(source, n_threads, GetParam());
        n_runs += sweep(&source, [&] {
          cria_instance cria = {};
          const cria_status status = opening.open(&cria);
          EXPECT_EQ(cria.model != nullptr, status == CRIA_OK);
          EXPECT_EQ(cria.session != nullptr, status == CRIA_OK);
          EXPECT_EQ(cria.workspace != nullptr, status == CRIA_OK);
          if (status == CRIA_OK) use(cria);
          return status;
        });
      }
    }
  }
  std::printf("%zu openings\n", n_runs);
  EXPECT_GT(n_runs, 100u);
}

INSTANTIATE_TEST_SUITE_P(Backends, FaultySourceTest, testing::ValuesIn(test::built_backends()),
                         test::backend_label);

TEST(FaultySource, VerifyingAndInspectingEndInAStatus) {
  size_t n_runs = 0;
  test::AlignedMemory scratch(CRIA_VERIFY_SCRATCH_BYTES);
  for (const Compression compression : {Compression::kZstd, Compression::kStored}) {
    for (const Path path : {Path::kRead, Path::kMap}) {
      FaultySource source(tiny_model(compression), path);
      n_runs += sweep(&source, [&] {
        return cria_verify(&source.source(), scratch.data(), scratch.size(), nullptr, nullptr,
                           nullptr);
      });
      cria_model_info info = {};
      ASSERT_EQ(cria_inspect(&source.source(), &info), CRIA_OK);
      std::string text(info.metadata_bytes, '\0');
      for (const Fault fault : kFaults) {
        for (size_t at = 0; at < 20; ++at) {
          cria_model_info seen = {};
          source.arm(fault, at);
          static_cast<void>(cria_inspect(&source.source(), &seen));
          source.arm(fault, at);
          static_cast<void>(cria_read_metadata(&source.source(), &info, text.data(), text.size()));
          ++n_runs;
        }
      }
    }
  }
  std::printf("%zu verifications and inspections\n", n_runs);
  EXPECT_GT(n_runs, 100u);
}

// Bytes that the C library's heap has handed out; 0 where it cannot be asked.
size_t heap_bytes() {
#if defined(__GLIBC__) && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 33)
  return kIsSanitized ? 0 : mallinfo2().uordblks;
#else
  return 0;
#endif
}

TEST_P(FaultySourceTest, TenThousandOpeningsInOneArenaLeaveNothingBehind) {
  const size_t n_openings = kIsSanitized ? 300 : 10000 / test::sweep_step() + 1;
  FaultySource source(tiny_model(Compression::kZstd), Path::kRead);
  Opening opening(source, 2, GetParam());
  constexpr uint32_t kTokens[] = {5, 60, 200, 17};
  std::vector<float> first;
  size_t heap = 0;
  constexpr size_t kWarm = 50;
  for (size_t i = 0; i < n_openings; ++i) {
    cria_instance cria = {};
    if (i % 3 == 2) {  // a failure in between, at another place each time
      source.arm(Fault::kFails, i % 60);
      ASSERT_EQ(opening.open(&cria), CRIA_READ_FAILED) << i;
      ASSERT_EQ(test::bytes_of(cria), 0u);
    }
    source.disarm();
    ASSERT_EQ(opening.open(&cria), CRIA_OK) << i;
    if (i == kWarm) heap = heap_bytes();
    if (i != 0 && i + 1 != n_openings) continue;
    ASSERT_EQ(cria_prefill(cria.workspace, cria.session, kTokens, std::size(kTokens)), CRIA_OK);
    const float* logits = cria_logits(cria.session);
    if (first.empty()) first.assign(logits, logits + 300);
    ASSERT_EQ(std::memcmp(first.data(), logits, first.size() * sizeof(float)), 0);
  }
  EXPECT_EQ(first.size(), 300u);
  if (n_openings > kWarm) {
    EXPECT_EQ(heap_bytes(), heap);
  }
}

}  // namespace
}  // namespace cria
