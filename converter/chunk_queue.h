// Planes on their way into a model file: their bytes are gathered, of small tensors those of many,
// cut into chunks, and encoded and written together, so that all threads have work.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "converter/chunk_encoder.h"
#include "converter/model_writer.h"
#include "platforms/hosted/base/thread_pool.h"

namespace cria::converter {

class ChunkQueue {
 public:
  // pool and writer must outlive the queue.
  ChunkQueue(format::Compression compression, int level, hosted::ThreadPool* pool,
             ModelWriter* writer);

  // All of this class may write what is gathered and throws what ModelWriter does.
  //
  // A plane is started, extended until it is whole, and ended.
  // is_stored: no chunk of it is compressed.
  void start_plane(PlaneValues values, bool is_stored);
  // How many of n_bytes more extend takes at once.
  [[nodiscard]] size_t make_room(uint64_t n_bytes);
  // The plane's next bytes, for the caller to fill before the next call. What is more than
  // make_room said takes more memory.
  [[nodiscard]] std::span<uint8_t> extend(size_t n_bytes);
  void end_plane();
  void add_plane(std::span<const uint8_t> bytes, PlaneValues values, bool is_stored);

  // Writes what is left.
  void finish() { write_pieces(); }

 private:
  // A chunk's bytes in bytes_.
  struct Piece {
    size_t begin;
    size_t n_bytes;
    PlaneValues values;
    bool is_stored;
  };

  void cut(size_t n_bytes);
  void write_pieces();
  void encode_and_write(std::span<const Piece> pieces);

  hosted::ThreadPool* pool_;
  ModelWriter* writer_;
  std::vector<ChunkEncoder> encoders_;  // one a worker
  size_t batch_bytes_;                  // that are gathered
  std::vector<uint8_t> bytes_;          // grows to that; what is gathered, then what is free
  std::vector<Piece> pieces_;
  size_t cut_end_ = 0;   // of the last piece: after it the open plane's bytes that fill none yet
  size_t used_end_ = 0;  // of what is gathered
  PlaneValues values_ = {};
  bool is_stored_ = false;
  std::vector<EncodedChunk> chunks_;
};

}  // namespace cria::converter
