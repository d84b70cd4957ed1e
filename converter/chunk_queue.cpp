#include "converter/chunk_queue.h"

#include <algorithm>
#include <cstring>

#include "platforms/hosted/base/shared_loop.h"

namespace cria::converter {
namespace {

// More workers want more, to be busy between two batches.
constexpr size_t kBatchBytesPerWorker = 2 << 20;
constexpr size_t kMinBatchBytes = 4 << 20;
constexpr size_t kMaxBatchBytes = 16 << 20;

}  // namespace

ChunkQueue::ChunkQueue(format::Compression compression, int level, LeastSaving least_saving,
                       hosted::ThreadPool* pool, ModelWriter* writer)
    : pool_(pool),
      writer_(writer),
      batch_bytes_(
          std::clamp(pool->n_threads() * kBatchBytesPerWorker, kMinBatchBytes, kMaxBatchBytes)),
      chunks_(batch_bytes_ / format::kChunkRawBytes) {
  for (size_t i = 0; i < pool->n_threads(); ++i) {
    encoders_.emplace_back(compression, level, least_saving);
  }
  bytes_.reserve(batch_bytes_);
}

void ChunkQueue::start_plane(PlaneValues values) { values_ = values; }

size_t ChunkQueue::make_room(uint64_t n_bytes) {
  if (used_end_ + n_bytes > batch_bytes_) {
    while (used_end_ - cut_end_ >= format::kChunkRawBytes) cut(format::kChunkRawBytes);
    write_pieces();
  }
  return static_cast<size_t>(std::min<uint64_t>(n_bytes, batch_bytes_ - used_end_));
}

std::span<uint8_t> ChunkQueue::extend(size_t n_bytes) {
  if (bytes_.size() < used_end_ + n_bytes) bytes_.resize(used_end_ + n_bytes);
  const std::span<uint8_t> added = std::span(bytes_).subspan(used_end_, n_bytes);
  used_end_ += n_bytes;
  return added;
}

void ChunkQueue::end_plane() {
  while (cut_end_ != used_end_) {
    cut(std::min<size_t>(format::kChunkRawBytes, used_end_ - cut_end_));
  }
}

void ChunkQueue::add_plane(std::span<const uint8_t> bytes, PlaneValues values) {
  start_plane(values);
  while (!bytes.empty()) {
    const std::span<uint8_t> added = extend(make_room(bytes.size()));
    std::memcpy(added.data(), bytes.data(), added.size());
    bytes = bytes.subspan(added.size());
  }
  end_plane();
}

void ChunkQueue::cut(size_t n_bytes) {
  pieces_.push_back({cut_end_, n_bytes, values_});
  cut_end_ += n_bytes;
}

// As many at once as have room, encoded, where they are large.
void ChunkQueue::write_pieces() {
  for (size_t first = 0; first < pieces_.size(); first += chunks_.size()) {
    const size_t n = std::min(chunks_.size(), pieces_.size() - first);
    hosted::shared_loop(pool_, n, [&](size_t i, size_t worker) {
      const Piece& piece = pieces_[first + i];
      encoders_[worker].encode(std::span(bytes_).subspan(piece.begin, piece.n_bytes), piece.values,
                               &chunks_[i]);
    });
    writer_->append_chunks(std::span(chunks_).first(n), pool_);
  }
  pieces_.clear();
  used_end_ -= cut_end_;
  std::memmove(bytes_.data(), bytes_.data() + cut_end_, used_end_);
  cut_end_ = 0;
}

}  // namespace cria::converter
