#include "quant/format/checksum.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string_view>
#include <vector>

#include "tests/support/seeds.h"

namespace cria {
namespace {

uint64_t hash_of(std::string_view text) { return xxh64(text.data(), text.size()); }

// Values printed by the reference program: printf '%s' TEXT | xxhsum -H1.
TEST(Checksum, EqualsTheReferenceProgramOnKnownTexts) {
  EXPECT_EQ(hash_of(""), 0xef46db3751d8e999u);
  EXPECT_EQ(hash_of("a"), 0xd24ec4f1a98c6e5bu);
  EXPECT_EQ(hash_of("abc"), 0x44bc2cf5ad770999u);
  EXPECT_EQ(hash_of("Nobody inspects the spammish repetition"), 0xfbcea83c8a378bf1u);
}

void hash_in_pieces(uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<uint8_t> bytes(1000);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  const uint64_t whole = xxh64(bytes.data(), bytes.size());
  for (int round = 0; round < 200; ++round) {
    Xxh64 hash;
    for (size_t done = 0; done < bytes.size();) {
      const size_t n = std::min<size_t>(random() % 70, bytes.size() - done);
      hash.update(bytes.data() + done, n);
      done += n;
    }
    ASSERT_EQ(hash.digest(), whole) << "round " << round;
  }
}

TEST(Checksum, DoesNotDependOnHowTheBytesAreCutIntoPieces) {
  test::for_each_seed({1}, hash_in_pieces);
}

TEST(Checksum, ChangesWithEverySingleBit) {
  std::vector<uint8_t> bytes(300, 0x5a);
  const uint64_t before = xxh64(bytes.data(), bytes.size());
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] ^= static_cast<uint8_t>(1u << bit % 8);
    ASSERT_NE(xxh64(bytes.data(), bytes.size()), before) << "bit " << bit;
    bytes[bit / 8] ^= static_cast<uint8_t>(1u << bit % 8);
  }
}

}  // namespace
}  // namespace cria
