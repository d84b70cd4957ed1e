// A model file as a cria_source: mapped read-only where the system can map it, and read by pread,
// so that bytes which are only copied never count as resident memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include <cria.h>
#include "platforms/hosted/session/bus_error.h"

namespace cria::hosted {

enum class Mapping { kWhenPossible, kNever };

// Owns the descriptor and the mapping, and is a GuardedMapping: a file that shrinks ends the
// program with a message. Sources point to this object, which therefore stays put. Reading from
// several threads is allowed.
class MappedFile {
 public:
  // Opens a regular, non-empty file. Throws ProgramError: kInvalidInput when there is no such file
  // or it is something else than a file, kIo when the system refuses to open it. A file that cannot
  // be mapped is not an error.
  MappedFile(const std::string& path, Mapping mapping);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  uint64_t size_bytes() const { return size_bytes_; }
  bool is_mapped() const { return base_ != nullptr; }

  // Source with map (when mapped) and read.
  cria_source source();
  // Source with only read: nothing of the file becomes resident.
  cria_source copying_source();

 private:
  static const void* map(void* context, uint64_t offset, size_t n_bytes);
  static int read(void* context, uint64_t offset, void* destination, size_t n_bytes);

  int descriptor_ = -1;
  uint64_t size_bytes_ = 0;
  const unsigned char* base_ = nullptr;  // null: not mapped
  std::optional<GuardedMapping> guard_;
};

}  // namespace cria::hosted
