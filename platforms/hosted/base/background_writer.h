// Text for a descriptor that somebody may not read: nobody who writes ever waits for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

namespace cria::hosted {

class BackgroundWriter {
 public:
  // Takes its memory, twice most_bytes, and starts its thread. Throws std::system_error.
  BackgroundWriter(int descriptor, size_t most_bytes);
  // Waits for a reader no longer than this.
  ~BackgroundWriter();
  static constexpr int kPatienceMs = 1000;
  BackgroundWriter(const BackgroundWriter&) = delete;
  BackgroundWriter& operator=(const BackgroundWriter&) = delete;

  // From any thread: a whole line, or several. Where most_bytes wait already it is dropped, and
  // what follows says how many were.
  void put(std::string_view lines);
  [[nodiscard]] uint64_t n_dropped() const;  // lines

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;  // with its thread, which may hang in a write
};

}  // namespace cria::hosted
