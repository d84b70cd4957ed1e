// Hostile chunks: any bytes as a stored or compressed chunk of any size, with a checksum that
// holds, the last one of its file or with another after it.
//
//   raw_bytes u24, access u8 (bit 7: not the last), compression u8, then the stored bytes
#include <algorithm>
#include <cstring>
#include <iterator>
#include <memory>
#include <vector>

#include "quant/format/align.h"
#include "quant/format/checksum.h"
#include "quant/model/memory_plan.h"
#include "quant/model/upper_bits.h"
#include "runtime/loading/chunk_loader.h"
#include "tests/fuzz/byte_feed.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/support/guarded_source.h"

namespace cria::fuzz {

int fuzz_one(const uint8_t* data, size_t size) {
  ByteFeed feed(data, size);
  auto raw_bytes = static_cast<uint32_t>(1 + feed.number(3) % format::kChunkRawBytes);
  constexpr test::Access kAccesses[] = {test::Access::kMap, test::Access::kRead,
                                        test::Access::kBoth};
  const uint8_t how = feed.byte();
  constexpr uint8_t kNotTheLast = 0x80;
  const test::Access access = kAccesses[(how & ~kNotTheLast) % std::size(kAccesses)];
  format::ChunkEntry entry = {};
  const uint8_t kind = feed.byte();
  entry.compression = kind % 4;
  constexpr PlaneValues kValues[] = {PlaneValues::kNibbleCodes, PlaneValues::kInt8Codes,
                                     PlaneValues::kSignedBf16Scales, PlaneValues::kF32};
  const PlaneValues values = kValues[(kind >> 7 & 1) << 1 | (kind >> 6 & 1)];
  // Planes whose upper bits may be apart are whole tiles.
  if (entry.compression >= 2) raw_bytes = (raw_bytes + 31) / 32 * 32;
  const std::span<const uint8_t> stored = feed.rest();
  constexpr size_t kDataOffset = format::kAlignment;
  entry.offset = kDataOffset;
  entry.stored_bytes = static_cast<uint32_t>(stored.size());
  entry.raw_bytes = raw_bytes;
  entry.checksum = xxh64(stored.data(), stored.size());

  // The table, then the data: all that a chunk needs of a file. After one that is not the last
  // there is a gap.
  std::vector<uint8_t> file(kDataOffset);
  std::memcpy(file.data(), &entry, sizeof entry);
  file.insert(file.end(), stored.begin(), stored.end());
  if ((how & kNotTheLast) != 0) file.resize(aligned(file.size()));
  const test::GuardedSource source(file, file.size(), access);
  FileIndex index = {};
  index.chunk_table = {0, sizeof entry, 0};
  index.data = {kDataOffset, file.size() - kDataOffset, 0};
  index.n_chunks = (how & kNotTheLast) != 0 ? 2 : 1;

  test::AlignedMemory scratch(kDecompressorBytes + kStagingBytes);
  auto* const p = static_cast<uint8_t*>(scratch.data());
  const size_t room = aligned(raw_bytes);  // what load_chunk asks for
  const auto raw = std::make_unique<uint8_t[]>(room);
  const ChunkPlace place = {0, 0, 0, raw_bytes, values, false};
  ChunkScratch of_task = {p, p + kDecompressorBytes};
  const Status status = load_chunk(source.source(), index, place, &of_task, raw.get());
  const auto again = std::make_unique<uint8_t[]>(room);
  expect(load_chunk(source.source(), index, place, &of_task, again.get()) == status,
         "what a context has seen does not count");
  if (entry.compression == static_cast<uint32_t>(format::Compression::kStored)) {
    expect(status != Status::kOk || stored.size() == raw_bytes,
           "a stored chunk is taken when its sizes agree only");
    expect(
        status == Status::kOk || stored.size() != raw_bytes || values != PlaneValues::kNibbleCodes,
        "a stored chunk of any values is taken when its sizes agree");
    if (status == Status::kOk) {
      expect(std::equal(stored.begin(), stored.end(), raw.get()), "a stored chunk is itself");
    }
  }
  expect(
      status != Status::kOk || entry.compression < 2 || upper_bits_of(values) != UpperBits::kNone,
      "only values that have upper bits are taken apart");
  expect(status != Status::kOk || values_hold(values, raw.get(), raw_bytes),
         "values of a chunk that is taken hold");
  return 0;
}

}  // namespace cria::fuzz
