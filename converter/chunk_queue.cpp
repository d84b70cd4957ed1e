#include "converter/chunk_queue.h"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "platforms/hosted/base/shared_loop.h"

namespace cria::converter {
namespace {

// More workers want more, to be busy between two batches.
constexpr size_t kBatchBytesPerWorker = 2 << 20;
constexpr size_t kMinBatchBytes = 4 << 20;
constexpr size_t kMaxBatchBytes = 16 << 20;

}  // namespace

ChunkQueue::ChunkQueue(format::Compression compression, int level, hosted::ThreadPool* pool,
                       ModelWriter* writer)
    : pool_(pool),
      writer_(writer),
      batch_bytes_(
          std::clamp(pool->n_threads() * kBatchBytesPerWorker, kMinBatchBytes, kMaxBatchBytes)),
      chunks_(batch_bytes_ / format::kChunkRawBytes) {
  for (size_t i = 0; i < pool->n_threads(); ++i) {
    encoders_.emplace_back(compression, level);
  }
  bytes_.reserve(batch_bytes_);
}

void ChunkQueue::start_plane(PlaneValues values, bool is_stored) {
  values_ = values;
  is_stored_ = is_stored;
}

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

void ChunkQueue::add_plane(std::span<const uint8_t> bytes, PlaneValues values, bool is_stored) {
  start_plane(values, is_stored);
  while (!bytes.empty()) {
    const std::span<uint8_t> added = extend(make_room(bytes.size()));
    std::memcpy(added.data(), bytes.data(), added.size());
    bytes = bytes.subspan(added.size());
  }
  end_plane();
}

void ChunkQueue::cut(size_t n_bytes) {
  pieces_.push_back({cut_end_, n_bytes, values_, is_stored_});
  cut_end_ += n_bytes;
}

// As many at once as chunks_ has room for, however small: any of them may grow to a large one.
void ChunkQueue::write_pieces() {
  for (size_t first = 0; first < pieces_.size(); first += chunks_.size()) {
    encode_and_write(std::span(pieces_).subspan(first));
  }
  pieces_.clear();
  used_end_ -= cut_end_;
  std::memmove(bytes_.data(), bytes_.data() + cut_end_, used_end_);
  cut_end_ = 0;
}

// The first chunks_.size() pieces. Chunks are written in order, and one after the other, as a file
// takes one writer at a time: by a worker that has encoded the next one, while others go on.
void ChunkQueue::encode_and_write(std::span<const Piece> pieces) {
  const size_t n = std::min(chunks_.size(), pieces.size());
  std::mutex mutex;  // guards what follows
  std::vector<bool> is_encoded(n);
  size_t n_written = 0;
  bool is_writing = false;
  hosted::shared_loop(pool_, n, [&](size_t i, size_t worker) {
    encoders_[worker].encode(std::span(bytes_).subspan(pieces[i].begin, pieces[i].n_bytes),
                             pieces[i].values, pieces[i].is_stored, &chunks_[i]);
    std::unique_lock lock(mutex);
    is_encoded[i] = true;
    if (is_writing) return;
    is_writing = true;
    for (; n_written < n && is_encoded[n_written]; ++n_written) {
      lock.unlock();
      writer_->append_chunk(chunks_[n_written]);
      lock.lock();
    }
    is_writing = false;
  });
}

}  // namespace cria::converter
