#include "quant/model/upper_bits.h"

#include <cstring>

namespace cria {
namespace {

// Bytes side by side: all steps keep to the bits of their byte, so that any number of them goes at
// once, in a register of whatever size.
using Bytes = size_t;

constexpr Bytes in_each(unsigned byte) { return ~Bytes{0} / 0xff * byte; }

Bytes load(const uint8_t* from) {
  Bytes bytes;
  std::memcpy(&bytes, from, sizeof bytes);
  return bytes;
}

void store(uint8_t* to, Bytes bytes) { std::memcpy(to, &bytes, sizeof bytes); }

// Places in bytes of codes. The upper bits are those below the signs. Each quarter of a chunk but
// the last has places of its own, with which it trades its upper bits: what the last quarter has
// there goes to its upper places, and its upper bits go there.
struct Nibbles {
  static constexpr Bytes kUpper = in_each(0x44);
  // The signs at all upper places.
  static constexpr Bytes signs(Bytes bytes) { return bytes >> 1 & kUpper; }
  static constexpr Bytes to_upper(int quarter, Bytes bytes) {
    if (quarter == 0) return bytes >> 1 & kUpper;
    return (quarter == 1 ? bytes << 1 : bytes << 2) & kUpper;
  }
  static constexpr Bytes from_upper(int quarter, Bytes bytes) {
    if (quarter == 0) return bytes << 1 & in_each(0x88);
    return quarter == 1 ? bytes >> 1 & in_each(0x22) : bytes >> 2 & in_each(0x11);
  }
};

struct Octets {
  static constexpr Bytes kUpper = in_each(0x60);
  static constexpr Bytes signs(Bytes bytes) {
    const Bytes sign = bytes & in_each(0x80);
    return sign >> 1 | sign >> 2;
  }
  static constexpr Bytes to_upper(int quarter, Bytes bytes) {
    if (quarter == 0) return bytes << 2 & kUpper;
    if (quarter == 1) return bytes << 4 & kUpper;
    return (bytes >> 1 & in_each(0x40)) | (bytes << 5 & in_each(0x20));
  }
  static constexpr Bytes from_upper(int quarter, Bytes bytes) {
    if (quarter == 0) return bytes >> 2 & in_each(0x18);
    if (quarter == 1) return bytes >> 4 & in_each(0x06);
    return (bytes << 1 & in_each(0x80)) | (bytes >> 5 & in_each(0x01));
  }
};

// What lies at a place of each of the four quarters.
struct Quarters {
  Bytes first, second, third, last;
};

// Upper bits that differ from their sign become ones, others zeros, and back: those of all small
// codes are the same.
template <class Places>
constexpr Quarters against_signs(const Quarters& q) {
  return {q.first ^ Places::signs(q.first), q.second ^ Places::signs(q.second),
          q.third ^ Places::signs(q.third), q.last ^ Places::signs(q.last)};
}

// Trades the upper bits of three quarters for bits of the last, and back.
template <class Places>
constexpr Quarters traded(const Quarters& q) {
  constexpr Bytes kRest = ~Places::kUpper;
  return {(q.first & kRest) | Places::to_upper(0, q.last),
          (q.second & kRest) | Places::to_upper(1, q.last),
          (q.third & kRest) | Places::to_upper(2, q.last),
          (q.last & Places::kUpper) | Places::from_upper(0, q.first) |
              Places::from_upper(1, q.second) | Places::from_upper(2, q.third)};
}

template <class Places>
void take_from_codes(const uint8_t* __restrict raw, size_t n_quarter, uint8_t* __restrict lower,
                     uint8_t* __restrict upper) {
  for (size_t at = 0; at < n_quarter; at += sizeof(Bytes)) {
    const uint8_t* const from = raw + at;
    const Quarters q = traded<Places>(
        against_signs<Places>({load(from), load(from + n_quarter), load(from + 2 * n_quarter),
                               load(from + 3 * n_quarter)}));
    store(lower + at, q.first);
    store(lower + n_quarter + at, q.second);
    store(lower + 2 * n_quarter + at, q.third);
    store(upper + at, q.last);
  }
}

template <class Places>
void put_into_quarters(const uint8_t* __restrict upper, size_t n_quarter, uint8_t* __restrict first,
                       uint8_t* __restrict second, uint8_t* __restrict third,
                       uint8_t* __restrict last) {
  for (size_t at = 0; at < n_quarter; at += sizeof(Bytes)) {
    const Quarters q = against_signs<Places>(
        traded<Places>({load(first + at), load(second + at), load(third + at), load(upper + at)}));
    store(first + at, q.first);
    store(second + at, q.second);
    store(third + at, q.third);
    store(last + at, q.last);
  }
}

template <class Places>
void put_into_codes(const uint8_t* upper, size_t n_quarter, uint8_t* raw) {
  put_into_quarters<Places>(upper, n_quarter, raw, raw + n_quarter, raw + 2 * n_quarter,
                            raw + 3 * n_quarter);
}

// Of two bytes, turned left by one bit: a bf16's exponent is the upper byte, and the sign, which is
// anything, is with the lower one.
void take_upper_bytes(const uint8_t* __restrict raw, size_t n, uint8_t* __restrict lower,
                      uint8_t* __restrict upper) {
  for (size_t i = 0; i < n; ++i) {
    const unsigned low = raw[2 * i];
    const unsigned high = raw[2 * i + 1];
    lower[i] = static_cast<uint8_t>(low << 1 | high >> 7);
    upper[i] = static_cast<uint8_t>(high << 1 | low >> 7);
  }
}

void put_together(const uint8_t* __restrict lower, const uint8_t* __restrict upper, size_t n,
                  uint8_t* __restrict raw) {
  for (size_t i = 0; i < n; ++i) {
    const unsigned low = lower[i];
    const unsigned high = upper[i];
    raw[2 * i] = static_cast<uint8_t>(low >> 1 | high << 7);
    raw[2 * i + 1] = static_cast<uint8_t>(high >> 1 | low << 7);
  }
}

// From the end on, where what is written covers only lower bytes that are done with.
void put_upper_bytes(const uint8_t* upper, size_t n, uint8_t* raw) {
  constexpr size_t kBlock = 256;
  uint8_t lower[kBlock];
  for (size_t left = n; left != 0;) {
    const size_t n_here = left < kBlock ? left : kBlock;
    left -= n_here;
    std::memcpy(lower, raw + left, n_here);
    put_together(lower, upper + left, n_here, raw + 2 * left);
  }
}

}  // namespace

void take_upper_bits(PlaneValues values, const uint8_t* raw, size_t n_bytes, uint8_t* lower,
                     uint8_t* upper) {
  const size_t n_upper = upper_bit_bytes(values, n_bytes);
  switch (upper_bits_of(values)) {
    case UpperBits::kOfNibbles:
      return take_from_codes<Nibbles>(raw, n_upper, lower, upper);
    case UpperBits::kOfInt8:
      return take_from_codes<Octets>(raw, n_upper, lower, upper);
    case UpperBits::kOfTwoBytes:
      return take_upper_bytes(raw, n_upper, lower, upper);
    case UpperBits::kNone:
      return;
  }
}

void put_upper_bits(PlaneValues values, const uint8_t* upper, size_t n_bytes, uint8_t* raw) {
  const size_t n_upper = upper_bit_bytes(values, n_bytes);
  switch (upper_bits_of(values)) {
    case UpperBits::kOfNibbles:
      return put_into_codes<Nibbles>(upper, n_upper, raw);
    case UpperBits::kOfInt8:
      return put_into_codes<Octets>(upper, n_upper, raw);
    case UpperBits::kOfTwoBytes:
      return put_upper_bytes(upper, n_upper, raw);
    case UpperBits::kNone:
      return;
  }
}

}  // namespace cria
