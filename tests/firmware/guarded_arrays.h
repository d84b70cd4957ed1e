// Arrays that the core's memory protection unit guards: while guards are up the program reaches its
// code, its variables, its stack and these arrays, and everything else ends it with a processor
// fault. Regions have a grid (protection_unit.h), so an array touches an end of its region: run
// each case with both. What is left of a region at its other end must keep the bytes it was filled
// with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace cria::firmware_test {

enum class Side { kEnd, kBegin };    // of the region that the array touches
enum class Use { kInput, kOutput };  // inputs cannot be written

class GuardedArrays {
 public:
  // Places arrays in memory; fails where the core has no protection unit.
  explicit GuardedArrays(std::span<uint8_t> memory);

  // Forgets all arrays.
  void clear();
  // An array of n_elements, not initialized; empty ones have no byte that can be reached.
  template <class T>
  std::span<T> place(size_t n_elements, Side side, Use use) {
    return {reinterpret_cast<T*>(place_bytes(n_elements * sizeof(T), side, use)), n_elements};
  }
  void raise();
  // Fails where bytes of a region beside its array have changed.
  void lower();

 private:
  struct Region {
    uint8_t* begin;
    uint8_t* end;
    uint8_t* array;
    size_t array_bytes;
    Use use;
  };
  static constexpr size_t kMostRegions = 6;

  uint8_t* place_bytes(size_t n_bytes, Side side, Use use);

  std::span<uint8_t> memory_;
  size_t used_bytes_ = 0;
  Region regions_[kMostRegions] = {};
  size_t n_regions_ = 0;
};

}  // namespace cria::firmware_test
