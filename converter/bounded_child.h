// Work on hostile input that could recurse, compute or allocate without end: it is done in a child
// process with limits, whose death is an answer like any other.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace cria::converter {

// By the clock for each second of processor time. What uses its processor time ends by itself, how
// busy the machine may be; the clock is for what waits.
inline constexpr unsigned kClockSeconds = 30;

struct ChildLimits {
  unsigned seconds;       // of processor time; kClockSeconds times as many by the clock
  uint64_t memory_bytes;  // on top of what this process has
  size_t result_bytes;
};

// What work returns; nullopt when it kept no limit or died. work runs in a copy of this process: it
// changes nothing here, and prints nothing. Throws ProgramError (kIo) when no process can be made.
[[nodiscard]] std::optional<std::string> run_bounded(const std::function<std::string()>& work,
                                                     const ChildLimits& limits);

}  // namespace cria::converter
