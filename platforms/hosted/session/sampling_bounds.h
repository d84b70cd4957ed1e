// What can be asked for of how tokens are drawn: alike on the command line, in chats, from the
// server and in Python, whose own table (python/cria/_requests.py) a test compares with this one.
#pragma once

#include <cstdint>
#include <limits>

namespace cria::hosted {

template <typename Number>
struct Bounds {
  Number low;
  Number high;
};

inline constexpr Bounds<float> kTemperatureBounds = {0.0f, 100.0f};
inline constexpr Bounds<float> kShareBounds = {0.0f, 1.0f};  // top_p, min_p
// Below 1 it strengthens what it weakens above, as llama.cpp has it; 0 is "off", as 1.
inline constexpr Bounds<float> kRepeatPenaltyBounds = {0.0f, 10.0f};
inline constexpr Bounds<float> kPenaltyBounds = {-10.0f, 10.0f};  // frequency, presence
// Of top_k and of tokens to draw: what other programs' numbers can hold.
inline constexpr Bounds<uint32_t> kCountBounds = {0, std::numeric_limits<int32_t>::max()};

}  // namespace cria::hosted
