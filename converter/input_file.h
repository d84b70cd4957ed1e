// A file that is read at given places, without mapping it: pages of the system's cache must not
// count as this program's memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace cria::converter {

class InputFile {
 public:
  // Throws ProgramError: kInvalidInput when there is no such file, it is no regular one (a pipe is
  // not waited for) or a Git LFS pointer; kIo when the system refuses to open it.
  explicit InputFile(const std::filesystem::path& path);
  ~InputFile();
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&&) = delete;
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] uint64_t size_bytes() const { return size_bytes_; }

  // Fills out from offset on. Throws ProgramError (kIo), also when the file ends before. Any number
  // of threads may call it at the same time.
  void read(uint64_t offset, std::span<uint8_t> out) const;
  // Tells the system that these bytes are needed soon.
  void will_read(uint64_t offset, uint64_t n_bytes) const;

 private:
  std::filesystem::path path_;
  int descriptor_;
  uint64_t size_bytes_;
};

// The bytes of a whole file of at most max_bytes; of a larger one nothing is read. Throws
// ProgramError as InputFile does, and kInvalidInput for a larger one.
[[nodiscard]] std::string read_small_file(const std::filesystem::path& path, uint64_t max_bytes);

}  // namespace cria::converter
