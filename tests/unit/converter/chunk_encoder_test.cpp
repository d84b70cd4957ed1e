// How a chunk is compressed follows from what is in it.
#include "converter/chunk_encoder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "quant/format/checksum.h"
#include "quant/numbers/float16.h"

namespace cria::converter {
namespace {

using format::Compression;
using Bytes = std::vector<uint8_t>;

constexpr size_t kBytes = size_t{64} << 10;

// Near a normal distribution, the same everywhere.
class Weights {
 public:
  double next() {
    double sum = -6.0;
    for (int i = 0; i < 12; ++i) sum += static_cast<double>(random_()) / std::minstd_rand::max();
    return sum;
  }

 private:
  std::minstd_rand random_{7};
};

uint8_t nibble(double code) {
  return static_cast<uint8_t>(std::clamp(std::lround(code), -8L, 7L) + 8);
}

Bytes nibbles(double deviation) {
  Weights weights;
  Bytes bytes(kBytes);
  for (uint8_t& byte : bytes) {
    byte = static_cast<uint8_t>(nibble(deviation * weights.next()) |
                                nibble(deviation * weights.next()) << 4);
  }
  return bytes;
}

Bytes two_bytes(uint16_t (*rounded)(float)) {
  Weights weights;
  Bytes bytes(kBytes);
  for (size_t i = 0; i < kBytes; i += 2) {
    const uint16_t value = rounded(static_cast<float>(0.02 * weights.next()));
    bytes[i] = static_cast<uint8_t>(value);
    bytes[i + 1] = static_cast<uint8_t>(value >> 8);
  }
  return bytes;
}

struct Encoded {
  Compression compression;
  double share;  // stored of raw bytes
};

Encoded encoded(const Bytes& raw, PlaneValues values, int level = 1) {
  ChunkEncoder encoder(Compression::kZstd, level);
  EncodedChunk chunk;
  // What the encoder had before does not count.
  encoder.encode(two_bytes(f32_to_f16), PlaneValues::kF16, false, &chunk);
  encoder.encode(raw, values, false, &chunk);
  EXPECT_EQ(chunk.raw_bytes, raw.size());
  EXPECT_EQ(chunk.checksum, xxh64(chunk.stored.data(), chunk.stored.size()));
  EncodedChunk alone;
  ChunkEncoder(Compression::kZstd, level).encode(raw, values, false, &alone);
  EXPECT_TRUE(std::ranges::equal(chunk.stored, alone.stored));
  return {chunk.compression,
          static_cast<double>(chunk.stored.size()) / static_cast<double>(raw.size())};
}

TEST(ChunkEncoder, WeightsHaveTheirUpperBitsCompressed) {
  for (const int level : {1, 3, 19}) {
    SCOPED_TRACE(level);
    const Encoded codes = encoded(nibbles(2.9), PlaneValues::kNibbleCodes, level);
    EXPECT_EQ(codes.compression, Compression::kZstdUpperBits);
    EXPECT_LT(codes.share, 0.945);
    Weights weights;
    Bytes bytes(kBytes);
    for (uint8_t& byte : bytes) {
      byte = static_cast<uint8_t>(std::clamp(std::lround(28.0 * weights.next()), -127L, 127L));
    }
    const Encoded int8 = encoded(bytes, PlaneValues::kInt8Codes, level);
    EXPECT_EQ(int8.compression, Compression::kZstdUpperBits);
    EXPECT_LT(int8.share, 0.92);
    const Encoded bf16 = encoded(two_bytes(f32_to_bf16), PlaneValues::kBf16, level);
    EXPECT_EQ(bf16.compression, Compression::kZstdUpperBits);
    EXPECT_LT(bf16.share, 0.68);
  }
}

TEST(ChunkEncoder, PaddingIsWorthAFrameOfItsOwn) {
  Bytes raw = nibbles(2.9);
  std::fill(raw.begin() + kBytes / 4, raw.end(), uint8_t{0x88});
  const Encoded padded = encoded(raw, PlaneValues::kNibbleCodes);
  EXPECT_EQ(padded.compression, Compression::kZstd);
  EXPECT_LT(padded.share, 0.3);
}

// Whose upper bits are as good as random.
TEST(ChunkEncoder, FewValuesAreWorthAFrameOfTheirOwn) {
  std::minstd_rand random(5);
  Bytes raw(kBytes);
  constexpr uint8_t kThree[] = {1, 8, 15};
  for (uint8_t& byte : raw) {
    const uint8_t low = kThree[random() / 7 % 3];
    byte = static_cast<uint8_t>(low | kThree[random() / 7 % 3] << 4);
  }
  const Encoded nibbles = encoded(raw, PlaneValues::kNibbleCodes);
  EXPECT_EQ(nibbles.compression, Compression::kZstd);
  EXPECT_LT(nibbles.share, 0.45);
  constexpr uint8_t kFour[] = {0x81, 0xc0, 0x40, 0x7f};
  for (uint8_t& byte : raw) byte = kFour[random() / 7 % 4];
  const Encoded bytes = encoded(raw, PlaneValues::kInt8Codes);
  EXPECT_EQ(bytes.compression, Compression::kZstd);
  EXPECT_LT(bytes.share, 0.32);
}

TEST(ChunkEncoder, ZerosAreFoundWhereverTheyAre) {
  for (const bool are_first : {false, true}) {
    Bytes raw = two_bytes(f32_to_bf16);
    const auto half = raw.begin() + kBytes / 2;
    std::fill(are_first ? raw.begin() : half, are_first ? half : raw.end(), uint8_t{0});
    const Encoded parts = encoded(raw, PlaneValues::kBf16);
    EXPECT_EQ(parts.compression, Compression::kZstdParts);
    EXPECT_LT(parts.share, 0.45);
  }
}

TEST(ChunkEncoder, TheLevelIsThatOfWholeFrames) {
  Bytes raw(kBytes);
  for (size_t i = 0; i < kBytes; ++i) raw[i] = static_cast<uint8_t>(i * i / 96);
  EXPECT_LT(encoded(raw, PlaneValues::kF32, 19).share, encoded(raw, PlaneValues::kF32, 1).share);
}

TEST(ChunkEncoder, F16OfABf16CheckpointIsOneFrameOfBothParts) {
  const auto of_bf16 = [](float value) { return f32_to_f16(bf16_to_f32(f32_to_bf16(value))); };
  const Encoded parts = encoded(two_bytes(of_bf16), PlaneValues::kF16);
  EXPECT_EQ(parts.compression, Compression::kZstdParts);
  EXPECT_LT(parts.share, 0.72);
  EXPECT_EQ(encoded(two_bytes(f32_to_f16), PlaneValues::kF16).compression,
            Compression::kZstdUpperBits);
}

// Of which a frame would be smaller than the format allows.
TEST(ChunkEncoder, ZerosKeepTheirLowerBits) {
  const Encoded zeros = encoded(Bytes(kBytes, 0x88), PlaneValues::kNibbleCodes);
  EXPECT_EQ(zeros.compression, Compression::kZstdUpperBits);
  EXPECT_EQ(encoded(Bytes(kBytes, 0), PlaneValues::kF32).compression, Compression::kStored);
}

TEST(ChunkEncoder, WhatDoesNotShrinkIsStored) {
  std::minstd_rand random(3);
  Bytes raw(kBytes);
  for (uint8_t& byte : raw) byte = static_cast<uint8_t>(random() >> 8);
  for (const PlaneValues values : {PlaneValues::kNibbleCodes, PlaneValues::kInt8Codes,
                                   PlaneValues::kBf16, PlaneValues::kF32}) {
    const Encoded stored = encoded(raw, values);
    EXPECT_EQ(stored.compression, Compression::kStored);
    EXPECT_EQ(stored.share, 1.0);
  }
  Bytes few(raw.begin(), raw.begin() + 32);
  EXPECT_EQ(encoded(few, PlaneValues::kNibbleCodes).compression, Compression::kStored);
}

}  // namespace
}  // namespace cria::converter
