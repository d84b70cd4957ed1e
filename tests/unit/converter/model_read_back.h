// Reads a model file for the converter's tests with its own arithmetic: offsets, checksums, chunks
// and the layout of weights are worked out here again, not taken from the code under test.
#pragma once

#include <gtest/gtest.h>
#include <zstd.h>

#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "quant/format/checksum.h"
#include "quant/format/format.h"
#include "quant/model/model_config.h"
#include "quant/numbers/float16.h"
#include "tests/unit/converter/converter_fixtures.h"

namespace cria::test {

class ModelReadBack {
 public:
  // Every rule of the format that a writer can break is an expectation here.
  explicit ModelReadBack(const std::filesystem::path& path) : file_(read_file(path)) {
    read_header();
    read_sections();
    read_tables();
    check_chunks();
  }

  [[nodiscard]] Config config() const { return {&model_, kinds_, layers_, counts_}; }
  // The only kind of a model whose layers are alike.
  [[nodiscard]] const format::LayerKind& kind() const {
    EXPECT_EQ(kinds_.size(), 1u);
    return kinds_.at(0);
  }
  [[nodiscard]] const std::vector<format::TensorEntry>& tensors() const { return tensors_; }
  [[nodiscard]] const std::vector<format::ChunkEntry>& chunks() const { return chunks_; }
  [[nodiscard]] bool has(format::SectionKind kind) const { return find(kind) != nullptr; }
  [[nodiscard]] std::string section(format::SectionKind kind) const {
    const format::SectionEntry* entry = find(kind);
    return entry == nullptr ? "" : file_.substr(entry->offset, entry->bytes);
  }

  [[nodiscard]] const format::TensorEntry& tensor(format::TensorRole role, uint32_t layer) const {
    for (const format::TensorEntry& entry : tensors_) {
      if (entry.role == static_cast<uint16_t>(role) && entry.layer == layer) return entry;
    }
    throw std::out_of_range("no such tensor");
  }

  // Values of two bytes that were turned left by one bit.
  static std::string bytes_of(const std::string& lower, const std::string& upper) {
    std::string out;
    for (size_t i = 0; i < upper.size(); ++i) {
      const int turned = static_cast<uint8_t>(upper[i]) << 8 | static_cast<uint8_t>(lower.at(i));
      out += static_cast<char>(turned >> 1);
      out += static_cast<char>(turned >> 9 | (turned & 1) << 7);
    }
    return out;
  }

  // Codes of this many bits, bit by bit. What a quarter has at a place of its upper bits is the
  // last quarter's bit of the other place; its own is there in the upper bits.
  static std::string codes_of(const std::string& lower, const std::string& upper, int bits) {
    struct Trade {
      size_t quarter;
      int upper;
      int other;
    };
    static constexpr Trade kOf4[] = {{0, 2, 3}, {1, 2, 1}, {2, 2, 0}};
    static constexpr Trade kOf8[] = {{0, 6, 4}, {0, 5, 3}, {1, 6, 2},
                                     {1, 5, 1}, {2, 6, 7}, {2, 5, 0}};
    const std::span<const Trade> trades =
        bits == 4 ? std::span<const Trade>(kOf4) : std::span<const Trade>(kOf8);
    const size_t quarter = upper.size();
    std::string out = lower + upper;
    const auto bit = [](const std::string& bytes, size_t at, int place) {
      return static_cast<uint8_t>(bytes.at(at)) >> place & 1;
    };
    const auto set = [&out](size_t at, int place, int value) {
      out.at(at) = static_cast<char>((out[at] & ~(1 << place)) | value << place);
    };
    for (size_t at = 0; at < quarter; ++at) {
      for (int code = 0; code < 8; code += bits) {
        for (const Trade& t : trades) {
          const size_t there = t.quarter * quarter + at;
          set(there, code + t.upper, bit(upper, at, code + t.other));
          set(3 * quarter + at, code + t.other, bit(lower, there, code + t.upper));
        }
      }
    }
    for (size_t at = 0; at < out.size(); ++at) {
      for (int code = 0; code < 8; code += bits) {
        if (bit(out, at, code + bits - 1) == 0) continue;
        set(at, code + bits - 2, 1 - bit(out, at, code + bits - 2));
        if (bits == 8) set(at, 5, 1 - bit(out, at, 5));
      }
    }
    return out;
  }

  // A chunk that lies at this byte of the tensor's planes: the bits of its codes, or 16.
  static int value_bits(const format::TensorEntry& t, size_t at) {
    const size_t tiles = (t.rows + 15) / 16;
    switch (static_cast<format::NumberFormat>(t.number_format)) {
      case format::NumberFormat::kInt4:
      case format::NumberFormat::kInt4Nl: {
        const size_t padded = (t.cols + t.group_size - 1) / t.group_size * t.group_size;
        return at < tiles * padded * 8 ? 4 : 16;
      }
      case format::NumberFormat::kInt8:
      case format::NumberFormat::kInt8G32:
        return at < tiles * ((t.cols + 31) / 32 * 32) * 16 ? 8 : 16;
      default:
        return 16;
    }
  }

  static std::string unpacked(const char* frame, size_t n_bytes, size_t n_raw) {
    std::string raw(n_raw, '\0');
    EXPECT_EQ(ZSTD_decompress(raw.data(), raw.size(), frame, n_bytes), n_raw);
    EXPECT_EQ(ZSTD_getFrameContentSize(frame, n_bytes), n_raw);
    return raw;
  }

  // The decompressed planes of a tensor, one after the other.
  [[nodiscard]] std::string raw(const format::TensorEntry& entry) const {
    std::string out;
    for (uint32_t i = entry.first_chunk; i < entry.first_chunk + entry.n_chunks; ++i) {
      const format::ChunkEntry& chunk = chunks_.at(i);
      const char* stored = file_.data() + chunk.offset;
      if (chunk.compression == static_cast<uint32_t>(format::Compression::kStored)) {
        out.append(stored, chunk.stored_bytes);
        continue;
      }
      if (chunk.compression == static_cast<uint32_t>(format::Compression::kZstd)) {
        out += unpacked(stored, chunk.stored_bytes, chunk.raw_bytes);
        continue;
      }
      const int bits = value_bits(entry, out.size());
      const size_t n_upper = chunk.raw_bytes / (bits == 16 ? 2 : 4);
      const size_t n_lower = chunk.raw_bytes - n_upper;
      std::string lower;
      std::string upper;
      if (chunk.compression == static_cast<uint32_t>(format::Compression::kZstdUpperBits)) {
        lower.assign(stored, n_lower);
        upper = unpacked(stored + n_lower, chunk.stored_bytes - n_lower, n_upper);
      } else {
        lower = unpacked(stored, chunk.stored_bytes, chunk.raw_bytes);
        upper = lower.substr(n_lower);
        lower.resize(n_lower);
      }
      out += bits == 16 ? bytes_of(lower, upper) : codes_of(lower, upper, bits);
    }
    EXPECT_EQ(out.size(), entry.raw_bytes);
    return out;
  }

  // The values of a matrix, [rows][cols].
  [[nodiscard]] std::vector<float> matrix(const format::TensorEntry& entry) const {
    const std::string bytes = raw(entry);
    std::vector<float> values;
    for (size_t row = 0; row < entry.rows; ++row) {
      for (size_t col = 0; col < entry.cols; ++col) {
        values.push_back(value(entry, bytes, row, col));
      }
    }
    return values;
  }

  [[nodiscard]] std::vector<float> vector(const format::TensorEntry& entry) const {
    const std::string bytes = raw(entry);
    std::vector<float> values(entry.cols);
    EXPECT_EQ(bytes.size(), values.size() * sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }

 private:
  static uint64_t aligned(uint64_t offset) { return (offset + 63) / 64 * 64; }

  static int value_of_code(const format::TensorEntry& t, int code) {
    constexpr int kValues[] = {-32, -25, -20, -16, -12, -8, -5, -3, 0, 2, 5, 8, 11, 15, 20, 28};
    const bool is_nl = t.number_format == static_cast<uint8_t>(format::NumberFormat::kInt4Nl);
    return is_nl ? kValues[code + 8] : code;
  }

  template <typename T>
  static T load(const std::string& bytes, size_t at) {
    T value;
    std::memcpy(&value, &bytes.at(at + sizeof(T) - 1) - (sizeof(T) - 1), sizeof(T));
    return value;
  }

  static float value(const format::TensorEntry& t, const std::string& bytes, size_t row,
                     size_t col) {
    const size_t tile = row / 16;
    const size_t r = row % 16;
    const size_t tiles = (t.rows + 15) / 16;
    switch (static_cast<format::NumberFormat>(t.number_format)) {
      case format::NumberFormat::kInt4:
      case format::NumberFormat::kInt4Nl: {
        const size_t groups = (t.cols + t.group_size - 1) / t.group_size;
        const size_t tile_bytes = groups * t.group_size * 8;
        const size_t in_block = col % 32;
        const auto byte = static_cast<uint8_t>(bytes.at(
            tile * tile_bytes + col / 32 * 256 + in_block % 16 / 4 * 64 + r * 4 + in_block % 4));
        const int code = (in_block < 16 ? byte & 15 : byte >> 4) - 8;
        const size_t scale = ((tile * groups + col / t.group_size) * 16 + r) * 2;
        return static_cast<float>(value_of_code(t, code)) *
               bf16_to_f32(load<uint16_t>(bytes, tiles * tile_bytes + scale));
      }
      case format::NumberFormat::kInt8: {
        const size_t tile_bytes = (t.cols + 31) / 32 * 32 * 16;
        const auto code =
            static_cast<int8_t>(bytes.at(tile * tile_bytes + col / 4 * 64 + r * 4 + col % 4));
        return static_cast<float>(code) * load<float>(bytes, tiles * tile_bytes + row * 4);
      }
      case format::NumberFormat::kInt8G32: {
        const size_t groups = (t.cols + 31) / 32;
        const size_t tile_bytes = groups * 32 * 16;
        const auto code =
            static_cast<int8_t>(bytes.at(tile * tile_bytes + col / 4 * 64 + r * 4 + col % 4));
        const size_t scale = ((tile * groups + col / 32) * 16 + r) * 2;
        return static_cast<float>(code) *
               bf16_to_f32(load<uint16_t>(bytes, tiles * tile_bytes + scale));
      }
      case format::NumberFormat::kBit1:
      case format::NumberFormat::kBit2: {
        const size_t bits =
            t.number_format == static_cast<uint8_t>(format::NumberFormat::kBit1) ? 1 : 2;
        const size_t groups = (t.cols + t.group_size - 1) / t.group_size;
        const size_t tile_bytes = groups * 256;
        const size_t in_block = col % t.group_size;
        const auto byte =
            static_cast<uint8_t>(bytes.at(tile * tile_bytes + col / t.group_size * 256 +
                                          in_block / 4 % 4 * 64 + r * 4 + col % 4));
        const int code = byte >> (in_block / 16 * bits) & (bits == 1 ? 1 : 3);
        const size_t scale = ((tile * groups + col / t.group_size) * 16 + r) * 2;
        return static_cast<float>(bits == 1 ? 2 * code - 1 : code - 1) *
               f16_to_f32(load<uint16_t>(bytes, tiles * tile_bytes + scale));
      }
      case format::NumberFormat::kF32:
        return load<float>(bytes, ((tile * t.cols + col) * 16 + r) * 4);
      case format::NumberFormat::kF16:
        return f16_to_f32(load<uint16_t>(bytes, ((tile * t.cols + col) * 16 + r) * 2));
      case format::NumberFormat::kBf16:
        return bf16_to_f32(load<uint16_t>(bytes, ((tile * t.cols + col) * 16 + r) * 2));
    }
    throw std::out_of_range("unknown number format");
  }

  void read_header() {
    auto header = load<format::FileHeader>(file_, 0);
    EXPECT_EQ(std::memcmp(header.magic, "CRIA\r\n\x1a\n", 8), 0);
    EXPECT_EQ(header.version, format::kVersion);
    EXPECT_EQ(header.file_bytes, file_.size());
    EXPECT_EQ(std::string(reinterpret_cast<char*>(header.reserved), 32), std::string(32, '\0'));
    std::string checked = file_.substr(0, 64 + 32 * header.section_count);
    std::memset(checked.data() + 56, 0, 8);
    EXPECT_EQ(xxh64(checked.data(), checked.size()), header.checksum);
    for (uint32_t i = 0; i < header.section_count; ++i) {
      sections_.push_back(load<format::SectionEntry>(file_, 64 + 32 * i));
    }
  }

  void expect_zeros(uint64_t begin, uint64_t end) const {
    EXPECT_EQ(file_.substr(begin, end - begin), std::string(end - begin, '\0'));
  }

  void read_sections() {
    uint64_t end = 64 + 32 * sections_.size();
    for (const format::SectionEntry& section : sections_) {
      EXPECT_EQ(section.reserved, 0u);
      ASSERT_EQ(section.offset, aligned(end));
      expect_zeros(end, section.offset);
      end = section.offset + section.bytes;
      ASSERT_LE(end, file_.size());
      const bool data = section.kind == static_cast<uint32_t>(format::SectionKind::kData);
      EXPECT_EQ(section.checksum, data ? 0 : xxh64(file_.data() + section.offset, section.bytes));
    }
    EXPECT_EQ(end, file_.size());
  }

  [[nodiscard]] const format::SectionEntry* find(format::SectionKind kind) const {
    for (const format::SectionEntry& section : sections_) {
      if (section.kind == static_cast<uint32_t>(kind)) return &section;
    }
    return nullptr;
  }

  void read_tables() {
    read_config();
    const std::string directory = section(format::SectionKind::kTensorDirectory);
    for (size_t at = 0; at < directory.size(); at += sizeof(format::TensorEntry)) {
      tensors_.push_back(load<format::TensorEntry>(directory, at));
    }
    const std::string table = section(format::SectionKind::kChunkTable);
    for (size_t at = 0; at < table.size(); at += sizeof(format::ChunkEntry)) {
      chunks_.push_back(load<format::ChunkEntry>(table, at));
    }
  }

  void read_config() {
    const std::string config = section(format::SectionKind::kConfig);
    model_ = load<format::ModelScalars>(config, 0);
    size_t at = 256;
    for (uint32_t i = 0; i < model_.n_kinds; ++i, at += 128) {
      kinds_.push_back(load<format::LayerKind>(config, at));
    }
    for (uint32_t i = 0; i < model_.n_layers; ++i) layers_.push_back(load<uint8_t>(config, at++));
    for (; at % 8 != 0; ++at) EXPECT_EQ(config.at(at), 0);
    for (uint32_t i = 0; i < model_.n_counts; ++i, at += 8) {
      counts_.push_back(load<format::MatrixCount>(config, at));
    }
    EXPECT_EQ(at, config.size());
  }

  void check_chunks() const {
    const format::SectionEntry* data = find(format::SectionKind::kData);
    ASSERT_NE(data, nullptr);
    uint64_t end = data->offset;
    for (const format::ChunkEntry& chunk : chunks_) {
      ASSERT_EQ(chunk.offset, aligned(end));
      expect_zeros(end, chunk.offset);
      end = chunk.offset + chunk.stored_bytes;
      ASSERT_LE(end, file_.size());
      EXPECT_EQ(chunk.reserved, 0u);
      EXPECT_GT(chunk.raw_bytes, 0u);
      EXPECT_LE(chunk.raw_bytes, 262144u);
      const bool stored = chunk.compression == static_cast<uint32_t>(format::Compression::kStored);
      EXPECT_TRUE(stored ? chunk.stored_bytes == chunk.raw_bytes
                         : chunk.stored_bytes < chunk.raw_bytes);
      EXPECT_EQ(xxh64(file_.data() + chunk.offset, chunk.stored_bytes), chunk.checksum);
    }
    EXPECT_EQ(end, data->offset + data->bytes);
    uint32_t next = 0;
    for (const format::TensorEntry& tensor : tensors_) {
      EXPECT_EQ(tensor.first_chunk, next);
      next += tensor.n_chunks;
    }
    EXPECT_EQ(next, chunks_.size());
  }

  std::string file_;
  std::vector<format::SectionEntry> sections_;
  format::ModelScalars model_ = {};
  std::vector<format::LayerKind> kinds_;
  std::vector<uint8_t> layers_;
  std::vector<format::MatrixCount> counts_;
  std::vector<format::TensorEntry> tensors_;
  std::vector<format::ChunkEntry> chunks_;
};

}  // namespace cria::test
