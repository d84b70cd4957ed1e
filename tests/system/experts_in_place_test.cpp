// A compressed file with experts or per-layer embeddings, mapped and trusted: opening it reads none
// of them, a token only the experts that it chooses, and one row a layer of the table. So a file
// may be larger than the memory that it runs in.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>

#include "quant/model/model_layout.h"
#include "tests/support/matrix_formats.h"
#include "tests/support/model_builder.h"
#include "tests/support/model_surgery.h"
#include "tests/support/test_configs.h"
#include "tests/support/test_session.h"

namespace cria {
namespace {

constexpr uint32_t kSeed = 20261128;
constexpr uint32_t kExperts = 24;
constexpr uint32_t kChosen = 2;
constexpr uint32_t kLayers = 2;
constexpr uint32_t kStacks = 3;  // of a layer: gate, up, down

ConfigParts experts_config(MatrixFormat weights, format::FileCompression compression) {
  ConfigParts c = test::small_config(weights.number_format, weights.group_size);
  format::LayerKind& kind = c.kinds[0];
  kind.feed_forward = static_cast<uint8_t>(format::FeedForward::kExperts);
  kind.flags |= format::flag::kNormalizedChoice;
  kind.d_ff = 0;
  kind.expert_ff = 512;
  kind.n_experts = kExperts;
  kind.n_chosen = kChosen;
  kind.router_score = static_cast<uint8_t>(format::RouterScore::kSoftmax);
  kind.router_scale = 1;
  c.model.compression = static_cast<uint32_t>(compression);
  test::mend_counts(&c);
  return c;
}

// Whole pages that nobody may touch until somebody does: then they are given back, and counted.
class CountedPages {
 public:
  explicit CountedPages(size_t page) : page_(page) {
    struct sigaction action = {};
    action.sa_sigaction = [](int, siginfo_t* info, void*) { give(info->si_addr); };
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigaction(SIGSEGV, &action, &before_);
    current_ = this;
  }
  ~CountedPages() {
    sigaction(SIGSEGV, &before_, nullptr);
    for (size_t i = 0; i < n_ranges_; ++i) {
      mprotect(ranges_[i].begin, ranges_[i].n_bytes, PROT_READ | PROT_WRITE);
    }
    current_ = nullptr;
  }
  CountedPages(const CountedPages&) = delete;
  CountedPages& operator=(const CountedPages&) = delete;

  void guard(uint8_t* begin, uint64_t n_bytes) {
    const auto address = reinterpret_cast<uintptr_t>(begin);
    const size_t front = (page_ - address % page_) % page_;
    ASSERT_GT(n_bytes, front + page_);
    const size_t n = (n_bytes - front) / page_ * page_;
    ASSERT_LT(n_ranges_, kLayers * kStacks);
    ranges_[n_ranges_++] = {begin + front, n};
    ASSERT_EQ(mprotect(begin + front, n, PROT_NONE), 0);
    n_guarded_ += n / page_;
  }
  [[nodiscard]] size_t n_touched() const { return n_touched_; }
  [[nodiscard]] size_t n_guarded() const { return n_guarded_; }

 private:
  struct Range {
    uint8_t* begin;
    size_t n_bytes;
  };

  static void give(void* address) {
    for (size_t i = 0; i < current_->n_ranges_; ++i) {
      const Range& range = current_->ranges_[i];
      const auto* at = static_cast<const uint8_t*>(address);
      if (at < range.begin || at >= range.begin + range.n_bytes) continue;
      const size_t page = static_cast<size_t>(at - range.begin) / current_->page_;
      mprotect(range.begin + page * current_->page_, current_->page_, PROT_READ | PROT_WRITE);
      ++current_->n_touched_;
      return;
    }
    signal(SIGSEGV, SIG_DFL);
  }

  static CountedPages* current_;
  size_t page_;
  struct sigaction before_ = {};
  Range ranges_[kLayers * kStacks] = {};
  size_t n_ranges_ = 0;
  size_t n_guarded_ = 0;
  std::atomic<size_t> n_touched_ = 0;  // two threads may touch one at a time: both count
};
CountedPages* CountedPages::current_ = nullptr;

cria_config mapped_config(uint32_t n_threads) {
  cria_config config = {};
  config.backend = CRIA_BACKEND_EXACT;
  config.kv_format = CRIA_KV_F32;
  config.context = 16;
  config.n_threads = n_threads;
  config.source_is_mapped = 1;
  config.skip_checksums = 1;
  return config;
}

cria_config read_config() {
  cria_config config = mapped_config(1);
  config.source_is_mapped = 0;
  config.skip_checksums = 0;
  return config;
}

// Guards what stays in the file where the file has it.
void guard_staying(const Config& config, std::span<uint8_t> file, CountedPages* pages) {
  const auto directory = test::section_bytes(file, format::SectionKind::kTensorDirectory);
  const auto chunks = test::section_bytes(file, format::SectionKind::kChunkTable);
  for (uint32_t i = 0; i < tensor_count(config); ++i) {
    format::TensorEntry entry;
    std::memcpy(&entry, directory.data() + i * sizeof entry, sizeof entry);
    if (!stays_in_file(static_cast<format::TensorRole>(entry.role))) continue;
    format::ChunkEntry chunk;
    std::memcpy(&chunk, chunks.data() + entry.first_chunk * sizeof chunk, sizeof chunk);
    pages->guard(file.data() + chunk.offset, entry.raw_bytes);
  }
}

TEST(ExpertsInPlace, ATokenReadsTheChosenOnesAlone) {
  ConfigParts parts =
      experts_config({format::NumberFormat::kF32, 0}, format::FileCompression::kKeepsLarge);
  const test::Bytes file = test::build_model(parts.view(), kSeed);
  const uint32_t token[] = {7};
  const test::MemorySource read(file);
  test::TestSession plain(read, read_config());
  const std::vector<float> wanted = plain.all_logits(token);
  for (const uint32_t n_threads : {1U, 2U}) {
    test::MemorySource source(file, test::Access::kMap);
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    CountedPages pages(page);
    guard_staying(parts.view(), source.bytes(), &pages);
    test::TestSession session(source, mapped_config(n_threads));
    EXPECT_EQ(pages.n_touched(), 0u);
    EXPECT_EQ(session.all_logits(token), wanted);
    // Of a matrix all pages, and one that it begins in.
    const uint64_t matrix_bytes = uint64_t{512} * 64 * sizeof(float);
    const uint64_t of_chosen = kLayers * kStacks * kChosen * (matrix_bytes / page + 1) * n_threads;
    EXPECT_LE(pages.n_touched(), of_chosen);
    EXPECT_GE(pages.n_touched(), kLayers * kStacks * (matrix_bytes / page - 1));
    EXPECT_LT(of_chosen, pages.n_guarded() / 2);
  }
}

TEST(PerLayerTableInPlace, ATokenReadsARowForEachLayer) {
  ConfigParts parts = test::small_config(format::NumberFormat::kF32, 0);
  parts.model.vocab_size = 2000;
  parts.model.per_layer_width = 64;
  parts.model.per_layer_table_multiplier = 1;
  parts.kinds[0].flags |= format::flag::kPerLayerInput;
  parts.model.compression = static_cast<uint32_t>(format::FileCompression::kKeepsLarge);
  test::mend_counts(&parts);
  const test::Bytes file = test::build_model(parts.view(), kSeed);
  const uint32_t token[] = {1007};
  const test::MemorySource read(file);
  test::TestSession plain(read, read_config());
  const std::vector<float> wanted = plain.all_logits(token);

  test::MemorySource source(file, test::Access::kMap);
  CountedPages pages(static_cast<size_t>(sysconf(_SC_PAGESIZE)));
  guard_staying(parts.view(), source.bytes(), &pages);
  test::TestSession session(source, mapped_config(1));
  EXPECT_EQ(pages.n_touched(), 0u);
  EXPECT_EQ(session.all_logits(token), wanted);
  // The rows of both layers are of one tile, a page long.
  EXPECT_GE(pages.n_touched(), 1u);
  EXPECT_LE(pages.n_touched(), 2u);
  EXPECT_GT(pages.n_guarded(), 200u);
  constexpr uint64_t kTableBytes = uint64_t{2000} * kLayers * 64 * sizeof(float);
  EXPECT_EQ(session.plan().in_place, kTableBytes);
  EXPECT_EQ(plain.plan().model.weights, session.plan().model.weights + kTableBytes);
}

// Stretches of a stored file that a token reads from end to end.
size_t stretches_of(const Config& config) {
  size_t n = 0;
  for (uint32_t i = 0; i < tensor_count(config); ++i) {
    const TensorSpec spec = test::spec_at(config, i);
    const size_t n_planes = tensor_scale_bytes(spec) != 0 ? 2 : 1;
    n += n_planes * (spec.n_matrices > 1 ? kChosen : 1);
  }
  return n;
}

// active_bytes is true: of a whole file in place a token reads so much, and no more than the pages
// that its stretches begin and end in.
TEST(ExpertsInPlace, ATokenReadsAsManyBytesAsTheModelSays) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  for (const MatrixFormat weights : {MatrixFormat{format::NumberFormat::kF32, 0},
                                     {format::NumberFormat::kInt8, 0},
                                     {format::NumberFormat::kInt4, 32}}) {
    SCOPED_TRACE(int(weights.number_format));
    ConfigParts parts = experts_config(weights, format::FileCompression::kStored);
    test::MemorySource source(test::build_model(parts.view(), kSeed), test::Access::kMap);
    test::TestSession session(source, mapped_config(1));
    EXPECT_GE(session.plan().in_place, session.info().weight_bytes);
    CountedPages pages(page);
    pages.guard(source.bytes().data(), source.bytes().size());
    const uint32_t token[] = {7};
    (void)session.all_logits(token);
    const size_t of_bytes = session.info().active_bytes / page;
    const size_t n_stretches = stretches_of(parts.view());
    EXPECT_LE(pages.n_touched(), of_bytes + 2 * n_stretches);
    EXPECT_GE(pages.n_touched() + 2, of_bytes);  // at its ends the file shares pages with others
    EXPECT_LT(of_bytes + 2 * n_stretches, pages.n_guarded() / 2);
    std::printf("%zu pages of %zu, %zu by active_bytes\n", pages.n_touched(), pages.n_guarded(),
                of_bytes);
  }
}

}  // namespace
}  // namespace cria
