#include "quant/format/checksum.h"

#include <bit>
#include <cstring>

namespace cria {
namespace {

constexpr uint64_t kPrime1 = 0x9e3779b185ebca87;
constexpr uint64_t kPrime2 = 0xc2b2ae3d27d4eb4f;
constexpr uint64_t kPrime3 = 0x165667b19e3779f9;
constexpr uint64_t kPrime4 = 0x85ebca77c2b2ae63;
constexpr uint64_t kPrime5 = 0x27d4eb2f165667c5;
constexpr size_t kStripeBytes = 32;

uint64_t load64(const uint8_t* p) {
  uint64_t value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

uint32_t load32(const uint8_t* p) {
  uint32_t value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

uint64_t round_lane(uint64_t lane, uint64_t input) {
  return std::rotl(lane + input * kPrime2, 31) * kPrime1;
}

// Once a digest for each lane and each word that is left: small where it is not fast.
[[gnu::noinline]] uint64_t merge(uint64_t hash, uint64_t word, int turn) {
  return std::rotl(hash ^ round_lane(0, word), turn) * kPrime1 + kPrime4;
}

}  // namespace

Xxh64::Xxh64()
    : lanes_{kPrime1 + kPrime2, kPrime2, 0, 0 - kPrime1},
      total_bytes_(0),
      pending_{},
      n_pending_(0) {}

void Xxh64::update(const void* data, size_t n_bytes) {
  const auto* p = static_cast<const uint8_t*>(data);
  total_bytes_ += n_bytes;
  if (n_pending_ != 0 || n_bytes < kStripeBytes) {
    const size_t room = kStripeBytes - n_pending_;
    const size_t taken = n_bytes < room ? n_bytes : room;
    if (taken != 0) std::memcpy(pending_ + n_pending_, p, taken);
    n_pending_ += taken;
    p += taken;
    n_bytes -= taken;
    if (n_pending_ < kStripeBytes) return;
    take_stripes(pending_, kStripeBytes);
  }
  const size_t n_left = n_bytes % kStripeBytes;
  take_stripes(p, n_bytes - n_left);
  if (n_left != 0) std::memcpy(pending_, p + (n_bytes - n_left), n_left);
  n_pending_ = n_left;
}

void Xxh64::take_stripes(const uint8_t* p, size_t n_bytes) {
  // The lanes live in registers: through this they could alias the bytes.
  uint64_t a = lanes_[0], b = lanes_[1], c = lanes_[2], d = lanes_[3];
  for (; n_bytes != 0; n_bytes -= kStripeBytes, p += kStripeBytes) {
    a = round_lane(a, load64(p));
    b = round_lane(b, load64(p + 8));
    c = round_lane(c, load64(p + 16));
    d = round_lane(d, load64(p + 24));
  }
  lanes_[0] = a;
  lanes_[1] = b;
  lanes_[2] = c;
  lanes_[3] = d;
}

uint64_t Xxh64::digest() const {
  uint64_t hash = kPrime5;
  if (total_bytes_ >= kStripeBytes) {
    hash = std::rotl(lanes_[0], 1) + std::rotl(lanes_[1], 7) + std::rotl(lanes_[2], 12) +
           std::rotl(lanes_[3], 18);
    for (const uint64_t lane : lanes_) hash = merge(hash, lane, 0);
  }
  hash += total_bytes_;
  const uint8_t* p = pending_;
  size_t left = n_pending_;
  for (; left >= 8; left -= 8, p += 8) {
    hash = merge(hash, load64(p), 27);
  }
  if (left >= 4) {
    hash = std::rotl(hash ^ (load32(p) * kPrime1), 23) * kPrime2 + kPrime3;
    p += 4;
    left -= 4;
  }
  for (; left > 0; --left, ++p) hash = std::rotl(hash ^ (*p * kPrime5), 11) * kPrime1;
  hash = (hash ^ (hash >> 33)) * kPrime2;
  hash = (hash ^ (hash >> 29)) * kPrime3;
  return hash ^ (hash >> 32);
}

uint64_t xxh64(const void* data, size_t n_bytes) {
  Xxh64 hash;
  hash.update(data, n_bytes);
  return hash.digest();
}

}  // namespace cria
