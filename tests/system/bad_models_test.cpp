// Files that break one rule of docs/model_format.md each (golden/bad, made by the build), and valid
// ones (tests/data/golden/v3): the status of each is in its folder's index.
// tests/tools/make_bad_models.py makes them.
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "platforms/hosted/base/thread_pool.h"
#include "tests/support/guarded.h"
#include "tests/support/model_files.h"
#include "tests/support/test_session.h"

namespace cria {
namespace {

using test::Access;
using test::Bytes;

constexpr size_t kArenaBytes = size_t{16} << 20;
constexpr size_t kMostFileBytes = size_t{1} << 20;
constexpr size_t kAlignment = 64;
constexpr uint32_t kMostThreads = 3;
constexpr size_t kLeastBadFiles = 150;
constexpr size_t kLeastValidFiles = 10;

struct ListedFile {
  std::string name;
  std::string status;  // as in cria.h, without CRIA_
  std::string rule;
  Bytes bytes;
};

std::vector<ListedFile> listed_files(const std::filesystem::path& folder) {
  std::ifstream index(folder / "index.txt");
  std::vector<ListedFile> files;
  for (std::string line; std::getline(index, line);) {
    ListedFile file;
    std::istringstream words(line);
    words >> file.name >> file.status >> std::ws;
    std::getline(words, file.rule);
    file.bytes = test::read_file(folder / file.name);
    files.push_back(file);
  }
  return files;
}

std::string name_of(cria_status status) {
  switch (status) {
#define CRIA_STATUS_NAME(name, value, text) \
  case name:                                \
    return std::string(#name).substr(sizeof("CRIA_") - 1);
    CRIA_STATUS_LIST(CRIA_STATUS_NAME)
#undef CRIA_STATUS_NAME
  }
  return "unknown";
}

struct Source {
  const uint8_t* bytes;
  size_t size;
};

const void* map_bytes(void* context, uint64_t offset, size_t n_bytes) {
  const auto* source = static_cast<const Source*>(context);
  EXPECT_LE(offset, source->size);
  EXPECT_LE(n_bytes, source->size - offset);
  return source->bytes + offset;
}

int read_bytes(void* context, uint64_t offset, void* destination, size_t n_bytes) {
  const auto* source = static_cast<const Source*>(context);
  EXPECT_LE(offset, source->size);
  EXPECT_LE(n_bytes, source->size - offset);
  std::memcpy(destination, source->bytes + offset, n_bytes);
  return 0;
}

// Reads each file in every way. The page after a file is a fault to touch.
class Judge {
 public:
  Judge() : guarded_(kMostFileBytes), arena_(kArenaBytes), scratch_(CRIA_VERIFY_SCRATCH_BYTES) {}

  void hold(const ListedFile& file) {
    const size_t whole = (file.bytes.size() + kAlignment - 1) / kAlignment * kAlignment;
    auto* bytes = guarded_.place<uint8_t>(whole, test::Edge::kEnd);
    std::memset(bytes, 0xa5, whole);
    if (!file.bytes.empty()) std::memcpy(bytes, file.bytes.data(), file.bytes.size());
    bytes_ = {bytes, file.bytes.size()};
  }

  std::string verify(Access access) {
    const cria_source source = source_of(access);
    return name_of(
        cria_verify(&source, scratch_.data(), scratch_.size(), nullptr, nullptr, nullptr));
  }

  // A session that opens also computes.
  std::string open(Access access, cria_backend backend, hosted::ThreadPool& pool,
                   uint32_t n_threads) {
    const cria_source source = source_of(access);
    cria_config config = {};
    config.backend = backend;
    config.n_threads = n_threads;
    config.prefill_chunk = 4;
    config.source_is_mapped = access == Access::kMap ? 1 : 0;
    config.parallel_for = pool.hook();
    config.parallel_context = pool.context();
    cria_instance cria = {};
    const cria_status status = cria_open(arena_.data(), arena_.size(), &source, &config, &cria);
    EXPECT_EQ(test::bytes_of(cria) != 0, status == CRIA_OK);
    if (status != CRIA_OK) return name_of(status);
    const uint32_t tokens[] = {0, 5, 1};
    return name_of(cria_prefill(cria.workspace, cria.session, tokens, std::size(tokens)));
  }

 private:
  cria_source source_of(Access access) {
    return {&bytes_, bytes_.size, access == Access::kMap ? map_bytes : nullptr,
            access == Access::kMap ? nullptr : read_bytes};
  }

  test::Guarded guarded_;
  test::AlignedMemory arena_;
  test::AlignedMemory scratch_;
  Source bytes_ = {};
};

// XNNPACK refuses scales of either sign, int4nl, int8g32, bit1 and bit2 by the config, before
// anything else is read.
std::string status_with(const ListedFile& file, cria_backend backend) {
  const bool is_for_exact = file.name.find("signed") != std::string::npos ||
                            file.name.find("int4nl") != std::string::npos ||
                            file.name.find("int8g32") != std::string::npos ||
                            file.name.find("bit1") != std::string::npos ||
                            file.name.find("bit2") != std::string::npos;
  return backend == CRIA_BACKEND_XNNPACK && is_for_exact ? "UNSUPPORTED" : file.status;
}

void expect_listed_statuses(const std::vector<ListedFile>& files) {
  Judge judge;
  size_t n_judged = 0;
  for (uint32_t n_threads = 1; n_threads <= kMostThreads; ++n_threads) {
    hosted::ThreadPool pool(n_threads, hosted::FewerThreads::kAreRefused);
    for (const ListedFile& file : files) {
      judge.hold(file);
      for (const Access access : {Access::kRead, Access::kMap}) {
        SCOPED_TRACE(file.name + (access == Access::kMap ? ", mapped: " : ", read: ") + file.rule);
        EXPECT_EQ(judge.verify(access), file.status);
        for (const cria_backend backend : test::built_backends()) {
          EXPECT_EQ(judge.open(access, backend, pool, n_threads), status_with(file, backend))
              << n_threads << " threads, backend " << backend;
          ++n_judged;
        }
      }
    }
  }
  EXPECT_EQ(n_judged, files.size() * kMostThreads * 2 * test::built_backends().size());
  std::printf("%zu files, opened %zu times\n", files.size(), n_judged);
}

TEST(BadModels, EachIsRefusedWithItsStatus) {
  const std::vector<ListedFile> files = listed_files(test::made_golden_folder("bad"));
  EXPECT_GE(files.size(), kLeastBadFiles);
  for (const ListedFile& file : files) EXPECT_NE(file.status, "OK") << file.name;
  expect_listed_statuses(files);
}

TEST(ValidModels, EachLoads) {
  const std::vector<ListedFile> files = listed_files(test::golden_folder("v3"));
  EXPECT_GE(files.size(), kLeastValidFiles);
  for (const ListedFile& file : files) EXPECT_EQ(file.status, "OK") << file.name;
  expect_listed_statuses(files);
}

}  // namespace
}  // namespace cria
