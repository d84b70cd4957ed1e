#include "quant/value_halves.h"

namespace cria {
namespace {

// A byte of codes of kBits bits, eight of them or twice four. Codes are folded first: 0, -1, 1, -2
// and so on become 0, 1, 2, 3, so that the upper half says how large a code is, and the codes that
// share one are about as likely as each other.
template <unsigned kBits>
struct CodeByte {
  static constexpr uint8_t kOnes = kBits == 4 ? 0x11 : 0x01;  // the lowest bit of each code
  static constexpr uint8_t kTops = kOnes << (kBits - 1);
  // Nibbles are stored as code + 8, bytes in two's complement.
  static constexpr uint8_t kZero = kBits == 4 ? kTops : 0;
  static constexpr unsigned kHalf = kBits / 2;
  static constexpr uint8_t kLower = kOnes * ((1u << kHalf) - 1);

  // All bits of each code whose bit is set in signs.
  static constexpr unsigned all_bits(unsigned signs) { return (signs << kBits) - signs; }

  static constexpr uint8_t fold(uint8_t stored) {
    const unsigned codes = stored ^ kZero;
    const unsigned signs = codes >> (kBits - 1) & kOnes;
    return static_cast<uint8_t>((codes & static_cast<uint8_t>(~kTops)) << 1 ^ all_bits(signs));
  }
  static constexpr uint8_t unfold(uint8_t folded) {
    const unsigned rest = folded >> 1 & static_cast<uint8_t>(~kTops);
    return static_cast<uint8_t>(rest ^ all_bits(folded & kOnes) ^ kZero);
  }
};

// Byte i of either half of apart is made of bytes i and n / 2 + i: halves of the former's codes in
// the lower places of each code, of the latter's in the upper ones.
template <unsigned kBits>
void take_codes_apart(const uint8_t* __restrict raw, size_t n_half, uint8_t* __restrict apart) {
  using Byte = CodeByte<kBits>;
  constexpr uint8_t kUpper = static_cast<uint8_t>(~Byte::kLower);
  for (size_t i = 0; i < n_half; ++i) {
    const unsigned first = Byte::fold(raw[i]);
    const unsigned second = Byte::fold(raw[n_half + i]);
    apart[i] =
        static_cast<uint8_t>((first & Byte::kLower) | (second & Byte::kLower) << Byte::kHalf);
    apart[n_half + i] =
        static_cast<uint8_t>((first >> Byte::kHalf & Byte::kLower) | (second & kUpper));
  }
}

template <unsigned kBits>
void put_codes_together(const uint8_t* __restrict lower, const uint8_t* __restrict upper,
                        size_t n_half, uint8_t* __restrict first, uint8_t* __restrict second) {
  using Byte = CodeByte<kBits>;
  constexpr uint8_t kUpper = static_cast<uint8_t>(~Byte::kLower);
  for (size_t i = 0; i < n_half; ++i) {
    const unsigned low = lower[i];
    const unsigned high = upper[i];
    first[i] = Byte::unfold(
        static_cast<uint8_t>((low & Byte::kLower) | (high & Byte::kLower) << Byte::kHalf));
    second[i] =
        Byte::unfold(static_cast<uint8_t>((low >> Byte::kHalf & Byte::kLower) | (high & kUpper)));
  }
}

void take_bytes_apart(const uint8_t* __restrict raw, size_t n_half, uint8_t* __restrict apart) {
  for (size_t i = 0; i < n_half; ++i) {
    apart[i] = raw[2 * i];
    apart[n_half + i] = raw[2 * i + 1];
  }
}

void put_bytes_together(const uint8_t* __restrict lower, const uint8_t* __restrict upper,
                        size_t n_half, uint8_t* __restrict raw) {
  for (size_t i = 0; i < n_half; ++i) {
    raw[2 * i] = lower[i];
    raw[2 * i + 1] = upper[i];
  }
}

}  // namespace

void take_halves_apart(PlaneValues values, const uint8_t* raw, size_t n_bytes, uint8_t* apart) {
  const size_t n_half = n_bytes / 2;
  if (values == PlaneValues::kAny) {
    take_codes_apart<4>(raw, n_half, apart);
  } else if (values == PlaneValues::kInt8Codes) {
    take_codes_apart<8>(raw, n_half, apart);
  } else {
    take_bytes_apart(raw, n_half, apart);
  }
  if (n_bytes % 2 != 0) apart[n_bytes - 1] = raw[n_bytes - 1];
}

void put_halves_together(PlaneValues values, const uint8_t* apart, size_t n_bytes, uint8_t* raw) {
  const size_t n_half = n_bytes / 2;
  const uint8_t* const upper = apart + n_half;
  if (values == PlaneValues::kAny) {
    put_codes_together<4>(apart, upper, n_half, raw, raw + n_half);
  } else if (values == PlaneValues::kInt8Codes) {
    put_codes_together<8>(apart, upper, n_half, raw, raw + n_half);
  } else {
    put_bytes_together(apart, upper, n_half, raw);
  }
  if (n_bytes % 2 != 0) raw[n_bytes - 1] = apart[n_bytes - 1];
}

}  // namespace cria
