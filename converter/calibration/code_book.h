// The values that a format's codes stand for, as rounding with feedback asks for them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace cria::converter {

// Sixteen levels in ascending order, codes from -8 on; weight = level * scale.
struct CodeBook {
  static constexpr size_t kLevels = 16;
  static constexpr int kLowestCode = -8;
  std::array<float, kLevels> levels;
  bool evenly;  // levels are the codes themselves

  [[nodiscard]] float level(int code) const {
    return levels[static_cast<size_t>(code - kLowestCode)];
  }
  // The code whose level is nearest to x; between two, evenly: to the even code, else the lower.
  [[nodiscard]] int nearest(float x) const {
    if (evenly) {
      constexpr float kRoundMagic = 0x1.8p23f;
      const float raised = x < levels.front() ? levels.front() : x;
      const float clamped = raised > levels.back() ? levels.back() : raised;
      return static_cast<int>((clamped + kRoundMagic) - kRoundMagic);
    }
    int code = kLowestCode;
    for (size_t i = 1; i < kLevels; ++i) {
      code += x > (levels[i - 1] + levels[i]) * 0.5f ? 1 : 0;
    }
    return code;
  }
};

inline constexpr CodeBook kInt4Book = {{-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7},
                                       true};

}  // namespace cria::converter
