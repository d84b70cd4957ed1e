// A folder with the states of prefixes, bounded in bytes; those that were used least recently go
// first. Several programs may share it, and models: what belongs to another one is not used, but is
// counted and goes like the rest.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "platforms/hosted/prefixes/prefix_file.h"
#include "platforms/hosted/session/model_session.h"

namespace cria::hosted {

// A state on its way from or to the disk. Not zeroed.
struct StateBytes {
  explicit StateBytes(size_t n) : bytes(std::make_unique_for_overwrite<uint8_t[]>(n)), size(n) {}
  [[nodiscard]] std::span<uint8_t> all() const { return {bytes.get(), size}; }

  std::unique_ptr<uint8_t[]> bytes;
  size_t size;
};

struct StoredPrefix {
  std::string name;  // of the file in the folder
  PrefixHead head;
  std::vector<uint32_t> tokens;
};

class PrefixStore {
 public:
  // Makes the folder where it is missing, in one that is there, and reads the heads of its files.
  // tell is told one line about what is not touched. Throws ProgramError where the folder is none,
  // cannot be read or could be written by everybody.
  PrefixStore(const ModelSession& model, std::string folder, uint64_t most_bytes,
              std::function<void(const std::string&)> tell);

  struct Match {
    std::shared_ptr<const StoredPrefix> prefix;  // null: none
    uint32_t n_usable;  // tokens of the prompt that need not be read, never its last
  };
  // The prefix that leaves least of a prompt to be read. Any thread; does not wait for the disk.
  [[nodiscard]] Match find(std::span<const uint32_t> prompt) const;

  // The rest waits for the disk. read and put may be called at the same time.

  // The state, and marks it as used. None: it is gone or was changed. Throws std::bad_alloc.
  std::optional<StateBytes> read(const StoredPrefix& prefix);
  // Keeps a state: makes room for it first. False: it is larger than all may be, or goes_on said
  // so. Throws OutputError and ProgramError.
  bool put(std::span<const uint32_t> tokens, std::span<const uint8_t> state,
           const std::function<bool()>& goes_on);
  // Removes one whose state is not what was saved. Any thread.
  void remove(const StoredPrefix& prefix) noexcept;

  [[nodiscard]] const std::string& folder() const { return folder_; }
  [[nodiscard]] uint64_t most_bytes() const { return most_bytes_; }
  struct Counts {
    size_t n_prefixes;  // of this model
    uint64_t n_bytes;   // of all files
  };
  [[nodiscard]] Counts counts() const;

 private:
  // A file by the name that states have.
  struct File {
    uint64_t inode = 0;
    uint64_t n_bytes = 0;
    int64_t used_ns = 0;                         // when it was written or read last
    bool is_state = false;                       // else it is not touched
    std::shared_ptr<const StoredPrefix> prefix;  // null: none of this model
  };
  void open_folder() const;
  void look_through();
  std::string look_at(const std::string& name, File* file) const;
  void make_room(uint64_t n_bytes);
  [[nodiscard]] std::string path_of(const std::string& name) const { return folder_ + "/" + name; }

  const std::string folder_;
  const uint64_t most_bytes_;
  const std::function<void(const std::string&)> tell_;
  const std::string terms_;
  const size_t step_;
  const bool is_cut_;  // whether a state serves for fewer tokens than it has
  const uint32_t n_context_;
  const uint64_t most_state_bytes_;

  mutable std::mutex mutex_;  // of what follows
  std::map<std::string, File> files_;
  bool has_told_ = false;
};

}  // namespace cria::hosted
