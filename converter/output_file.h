// A file that appears whole or not at all: written under a temporary name in the same folder, then
// renamed. The temporary file goes away on every error and on SIGINT, SIGTERM and SIGHUP.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

namespace cria::converter {

class OutputFile {
 public:
  // Throws ConvertError (kIo): path is a folder or device, or its folder cannot be written.
  explicit OutputFile(const std::filesystem::path& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  // Bytes never written read as zero. Any number of threads may write at the same time. Throws
  // ConvertError (kIo), for example when the disk is full.
  void write(uint64_t offset, std::span<const uint8_t> bytes) const;

  // Gives the file this size and brings it to the disk; then the only thing left is commit.
  void flush(uint64_t size_bytes) const;
  // Puts the file in its place, replacing what was there.
  void commit();

 private:
  [[noreturn]] void fail(int error) const;

  std::filesystem::path path_;       // with symbolic links followed
  std::filesystem::path temporary_;  // empty after commit
  int descriptor_;
  size_t interrupt_slot_;
};

// Installs the signal handlers; call once, before threads start.
void remove_temporary_files_on_interrupt();

}  // namespace cria::converter
