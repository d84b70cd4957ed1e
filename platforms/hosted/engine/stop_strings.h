// Strings that end a text, found in it as it comes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cria::hosted {

// The stop strings of a request. Never changes once it is made: any number of texts share it.
class StopStrings {
 public:
  explicit StopStrings(std::vector<std::string> stops);  // empty ones are ignored

  [[nodiscard]] size_t size() const { return stops_.size(); }
  [[nodiscard]] const std::string& at(size_t i) const { return stops_[i].text; }
  // How many bytes of stop i end a text that ended with n_matched of them (fewer than all) before
  // the byte came.
  [[nodiscard]] uint32_t after(size_t i, uint32_t n_matched, char byte) const;

 private:
  struct Stop {
    std::string text;
    // [i]: of its first i + 1 bytes, the most that both begin and end them and are not all.
    std::vector<uint32_t> borders;
  };
  std::vector<Stop> stops_;
};

// Looks at one text, each byte once (Knuth, Morris and Pratt): how it is cut into pieces does not
// matter.
class StopFinder {
 public:
  explicit StopFinder(const StopStrings* stops);  // which outlive it; null: none

  // Takes what comes next, up to the byte that completes a stop string.
  void feed(std::string_view text);

  // The stop string that is complete; null: none so far.
  [[nodiscard]] const std::string* found() const { return found_; }
  // Bytes of the text so far that are no part of what was found, and can be of nothing that may
  // still be found.
  [[nodiscard]] size_t n_clear() const { return n_clear_; }

 private:
  const StopStrings* stops_;
  std::vector<uint32_t> n_matched_;  // of each
  size_t n_fed_ = 0;
  size_t n_clear_ = 0;
  const std::string* found_ = nullptr;
};

}  // namespace cria::hosted
