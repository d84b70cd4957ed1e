// What goes into the queue comes out as chunks of each plane alone, whatever was gathered with it.
#include "converter/chunk_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "converter/byte_span.h"
#include "tests/unit/converter/converter_fixtures.h"

namespace cria::converter {
namespace {

namespace fs = std::filesystem;
using format::kChunkRawBytes;
using format::SectionKind;

constexpr size_t kBatch = 4 << 20;  // of one worker

struct Written {
  std::string data;
  std::vector<format::ChunkEntry> chunks;
};

// A file of planes with these bytes, each plane in steps as large as the queue has room for, but
// not larger than most.
Written write(const std::vector<std::vector<uint8_t>>& planes, size_t most, size_t n_threads) {
  size_t n_chunks = 0;
  for (const auto& plane : planes) n_chunks += (plane.size() + kChunkRawBytes - 1) / kChunkRawBytes;
  const std::vector<SectionSize> sections = {
      {SectionKind::kChunkTable, n_chunks * sizeof(format::ChunkEntry)}};
  const test::TempFolder folder;
  ModelWriter writer((folder / "m.cria").string(), sections);
  hosted::ThreadPool pool(n_threads, hosted::FewerThreads::kAreRefused);
  ChunkQueue queue(format::Compression::kStored, 3, &pool, &writer);
  for (const auto& plane : planes) {
    queue.start_plane(PlaneValues::kNibbleCodes, false);
    for (size_t begin = 0; begin < plane.size();) {
      const size_t room = queue.make_room(plane.size() - begin);
      EXPECT_GT(room, 0u);
      // More than there is room for is taken, too.
      const size_t n = std::min(plane.size() - begin, std::max(room / 3, most));
      const std::span<uint8_t> added = queue.extend(n);
      EXPECT_EQ(added.size(), n);
      std::copy_n(plane.begin() + static_cast<std::ptrdiff_t>(begin), n, added.begin());
      begin += n;
    }
    queue.end_plane();
  }
  queue.finish();
  static_cast<void>(writer.finish({}));
  writer.commit();
  Written written = {test::read_file(folder / "m.cria"), {}};
  const size_t table =
      64 * ((sizeof(format::FileHeader) + 3 * sizeof(format::SectionEntry) + 63) / 64);
  written.chunks.resize(n_chunks);
  std::memcpy(written.chunks.data(), written.data.data() + table,
              n_chunks * sizeof(format::ChunkEntry));
  uint64_t stored = 0;
  for (const format::ChunkEntry& chunk : written.chunks) stored += chunk.stored_bytes;
  EXPECT_EQ(writer.stored_bytes(0, static_cast<uint32_t>(n_chunks)), stored);
  return written;
}

TEST(ChunkQueue, CutsEveryPlaneByItself) {
  std::vector<std::vector<uint8_t>> planes;
  uint32_t next = 1;
  for (const size_t n :
       std::vector<size_t>{1, 70, kChunkRawBytes, kChunkRawBytes + 1, 5, kBatch - 9, 3,
                           2 * kBatch + 77, kBatch, 40, 2 * kChunkRawBytes}) {
    std::vector<uint8_t> plane(n);
    for (uint8_t& byte : plane)
      byte = static_cast<uint8_t>((next = next * 1664525 + 1013904223) >> 24);
    planes.push_back(plane);
  }
  for (int i = 0; i < 40; ++i) planes.emplace_back(200 + i, static_cast<uint8_t>(i));
  std::string first;
  for (const size_t n_threads : {1u, 3u}) {
    for (const size_t most : {size_t{1000}, kBatch + 500}) {
      const Written written = write(planes, most, n_threads);
      if (first.empty()) first = written.data;
      EXPECT_EQ(written.data, first) << n_threads << ' ' << most;
      size_t chunk = 0;
      for (const auto& plane : planes) {
        for (size_t begin = 0; begin < plane.size(); begin += kChunkRawBytes, ++chunk) {
          const size_t n = std::min<size_t>(kChunkRawBytes, plane.size() - begin);
          const format::ChunkEntry& entry = written.chunks.at(chunk);
          ASSERT_EQ(entry.raw_bytes, n);
          EXPECT_TRUE(
              std::equal(plane.begin() + static_cast<std::ptrdiff_t>(begin),
                         plane.begin() + static_cast<std::ptrdiff_t>(begin + n),
                         reinterpret_cast<const uint8_t*>(written.data.data()) + entry.offset));
        }
      }
    }
  }
}

}  // namespace
}  // namespace cria::converter
