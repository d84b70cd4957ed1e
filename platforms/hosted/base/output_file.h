// A file that appears whole or not at all: written under a random name in the folder of its target,
// brought to the disk, then renamed. The temporary file goes away on every error and, once
// remove_temporary_files_on_signals was called, on every signal sent to end the program but
// SIGKILL.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <string_view>

namespace cria::hosted {

// Why an output cannot be written. what() is "<path>: <why>; <what to do>", one line if path is.
class OutputError : public std::exception {
 public:
  enum class Kind {
    kPath,  // path names a folder or, where that is not allowed, a device: another has to be given
    kIo,    // the system refused: no such folder, no permission, no space, ...
  };
  OutputError(Kind kind, std::string path, const std::string& message);

  Kind kind() const { return kind_; }
  const std::string& path() const { return path_; }
  const char* what() const noexcept override { return line_.c_str(); }

 private:
  Kind kind_;
  std::string path_;
  std::string line_;
};

// Whether an output may be something that cannot be replaced: "-" (standard output), a pipe or a
// device, which are then written in place and cannot be taken back.
enum class InPlace { kNever, kWhereNeeded };

// Who may read a new file: whom the umask lets, or its owner alone, for what people typed.
enum class Readers { kOfUmask, kOwner };

// A symbolic link is followed, also to a file that is not there yet: its target is replaced, not
// the link. A file that was there gives its permission bits to the new one (other hard links keep
// the old file, and access control lists are not copied).
class OutputFile {
 public:
  // Creates the temporary file, or opens what is written in place. Throws OutputError, as all of
  // this class.
  OutputFile(const std::string& path, InPlace in_place, Readers readers = Readers::kOfUmask);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  // Writes bytes at offset; bytes never written read as zero. Any number of threads may write at
  // the same time. Not for what is written in place.
  void write(uint64_t offset, std::span<const uint8_t> bytes) const;
  // Reads back bytes that were written at offset.
  void read(uint64_t offset, std::span<uint8_t> bytes) const;
  // Writes after what was appended so far. One thread. In place, text for a reader that went away
  // is dropped without an error.
  void append(const void* data, size_t n_bytes);

  // Whether a reader of what is written in place went away, so that nothing more needs writing.
  bool reader_left() const { return reader_left_; }

  // Lets the system begin to bring bytes to the disk that were written, so that flush has less to
  // wait for. Only a hint.
  void start_flush(uint64_t offset, uint64_t n_bytes) const;
  // Gives a file that is not written in place this size and brings it to the disk; then the only
  // thing left is commit.
  void flush(uint64_t size_bytes) const;
  // Brings the file to the disk and puts it in its place.
  void commit();

 private:
  void open(InPlace in_place, Readers readers);
  void open_in_place(int descriptor);
  void find_target();
  void create_temporary(Readers readers);
  void release();
  [[noreturn]] void fail(int error_number, const char* advice = "") const;
  [[noreturn]] void refuse(const std::string& why) const;

  std::string path_;       // as given, for messages
  std::string name_;       // of the target in folder_, links followed
  std::string temporary_;  // its name in folder_; empty: nothing to remove
  int folder_ = -1;        // -1: written in place
  int descriptor_ = -1;    // what is written to
  size_t slot_;            // what a signal's handler looks at
  uint64_t appended_ = 0;  // bytes
  bool reader_left_ = false;
};

// Removes the temporary files of up to four OutputFiles, which are of no use afterwards. For the
// handlers of signals that end the program.
void remove_temporary_files() noexcept;

// Installs handlers of SIGINT, SIGTERM, SIGHUP, SIGQUIT and the signals of timers, limits and users
// (unless ignored by the parent) which remove temporary files and end the program by that signal.
// Ignores SIGXFSZ and SIGPIPE: a limit or a closed pipe is an error of write. Call once, before
// threads start.
void remove_temporary_files_on_signals();

}  // namespace cria::hosted
