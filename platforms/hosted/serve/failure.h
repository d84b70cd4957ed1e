// What was thrown while a request was read or answered.
#pragma once

#include <array>

namespace cria::hosted {

class Failure {
 public:
  // Of the exception that is being handled. Takes no memory.
  static Failure at_hand() noexcept;

  [[nodiscard]] bool is_want_of_memory() const { return is_want_of_memory_; }
  // What it said of itself, cut; for the log.
  [[nodiscard]] const char* what() const { return what_.data(); }

 private:
  bool is_want_of_memory_ = false;
  std::array<char, 120> what_ = {};
};

}  // namespace cria::hosted
