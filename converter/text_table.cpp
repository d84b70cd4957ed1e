#include "converter/text_table.h"

#include <algorithm>
#include <cstring>
#include <random>

namespace cria::converter {
namespace {

constexpr uint32_t kNoEntry = 0xffffffff;
constexpr size_t kFirstBuckets = 64;

// Texts are polynomials over the numbers below this prime, and a text's hash is the polynomial's
// value at the key. Two texts of n bytes agree at no more than n keys.
constexpr uint32_t kPrimeBits = 31;
constexpr uint32_t kPrime = (uint32_t{1} << kPrimeBits) - 1;

uint32_t multiply_add(uint32_t a, uint32_t b, uint32_t c) {
  const uint64_t value = uint64_t{a} * b + c;
  const uint64_t folded = (value & kPrime) + (value >> kPrimeBits);
  return static_cast<uint32_t>(folded >= kPrime ? folded - kPrime : folded);
}

uint64_t beginning_of(std::string_view text) {
  uint64_t bytes = 0;
  if (!text.empty()) std::memcpy(&bytes, text.data(), std::min(text.size(), sizeof(bytes)));
  return bytes;
}

// Not zero, so that texts of zeros differ by their lengths.
uint32_t coefficient(char byte) { return uint32_t{static_cast<uint8_t>(byte)} + 1; }

}  // namespace

TextTable::TextTable() : key_(0), buckets_(kFirstBuckets, kNoEntry) {
  constexpr uint32_t kLeastKey = 1 << 9;
  std::random_device random;
  key_ = std::uniform_int_distribution<uint32_t>(kLeastKey, kPrime - 1)(random);
}

uint32_t TextTable::hash_of(std::string_view text) const {
  uint32_t hash = 0;
  for (const char byte : text) hash = multiply_add(hash, key_, coefficient(byte));
  return hash;
}

size_t TextTable::bucket_of(uint32_t hash) const {
  // Spreads the bits, so that the low ones depend on all.
  constexpr uint64_t kOddFactor = 0x9e3779b97f4a7c15;
  constexpr uint32_t kHalf = 32;
  return static_cast<size_t>(hash * kOddFactor >> kHalf) & (buckets_.size() - 1);
}

std::optional<uint32_t> TextTable::find(std::string_view text, uint32_t hash) const {
  const uint64_t beginning = beginning_of(text);
  for (uint32_t i = buckets_[bucket_of(hash)]; i != kNoEntry; i = entries_[i].next) {
    const Entry& entry = entries_[i];
    if (entry.hash != hash || entry.n_bytes != text.size() || entry.beginning != beginning) {
      continue;
    }
    if (text.size() <= sizeof(beginning) ||
        std::memcmp(entry.text, text.data(), text.size()) == 0) {
      return entry.value;
    }
  }
  return std::nullopt;
}

std::optional<uint32_t> TextTable::find(std::string_view text) const {
  return find(text, hash_of(text));
}

bool TextTable::insert(std::string_view text, uint32_t value) {
  const uint32_t hash = hash_of(text);
  if (find(text, hash)) return false;
  if (2 * entries_.size() == buckets_.size()) grow();
  uint32_t& first = buckets_[bucket_of(hash)];
  entries_.push_back(
      {text.data(), beginning_of(text), static_cast<uint32_t>(text.size()), value, hash, first});
  first = static_cast<uint32_t>(entries_.size() - 1);
  return true;
}

void TextTable::grow() {
  buckets_.assign(buckets_.size() * 2, kNoEntry);
  for (uint32_t i = 0; i < entries_.size(); ++i) {
    uint32_t& first = buckets_[bucket_of(entries_[i].hash)];
    entries_[i].next = first;
    first = i;
  }
}

TextTable::Parts::Parts(const TextTable& table, std::string_view text)
    : table_(table), text_(text), hashes_(text.size() + 1, 0), powers_(text.size() + 1, 1) {
  for (size_t i = 0; i < text.size(); ++i) {
    hashes_[i + 1] = multiply_add(hashes_[i], table.key_, coefficient(text[i]));
    powers_[i + 1] = multiply_add(powers_[i], table.key_, 0);
  }
}

std::optional<uint32_t> TextTable::Parts::find(size_t begin, size_t end) const {
  // What stands before the part has been multiplied by the key once a byte of the part.
  const uint32_t before = multiply_add(hashes_[begin], powers_[end - begin], 0);
  const uint32_t hash = multiply_add(1, hashes_[end], kPrime - before);
  return table_.find(text_.substr(begin, end - begin), hash);
}

}  // namespace cria::converter
