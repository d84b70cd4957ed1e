// A file that appears whole or not at all.
#pragma once

#include <cstddef>
#include <string>

namespace cria::hosted {

// Writes to "<path>.<process id>.tmp" and renames it to path on commit; without a commit the
// destructor removes it. "-" is standard output, where nothing can be taken back; a device or a
// pipe is written in place. All functions throw ProgramError: kBadInput when path is a folder, kIo
// otherwise.
class AtomicFile {
 public:
  explicit AtomicFile(const std::string& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* data, size_t n_bytes);
  void commit();

 private:
  std::string path_;
  std::string temporary_path_;  // empty: written in place
  int descriptor_ = -1;
};

}  // namespace cria::hosted
