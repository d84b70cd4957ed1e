// Reads a model file for the converter's tests with its own arithmetic: offsets, checksums, chunks
// and the layout of weights are worked out here again, not taken from the code under test.
#pragma once

#include <gtest/gtest.h>
#include <zstd.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "quant/checksum.h"
#include "quant/float16.h"
#include "quant/format.h"
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

  [[nodiscard]] const format::ModelConfig& config() const { return config_; }
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

  // Low bytes and then high ones, in turn.
  static std::string bytes_together(const std::string& apart) {
    std::string out;
    for (size_t i = 0; i < apart.size() / 2; ++i) {
      out += apart[i];
      out += apart[apart.size() / 2 + i];
    }
    return out;
  }

  // Codes by their halves, bit fields of this many bits: those of byte i of the first half of the
  // bytes are the lower fields of what is at i, those of the second half the upper ones.
  static std::string codes_together(const std::string& apart, int bits) {
    const size_t half = apart.size() / 2;
    const int part = bits / 2;
    std::string out(apart.size(), '\0');
    for (size_t at = 0; at < apart.size(); ++at) {
      const int lower = static_cast<uint8_t>(apart[at % half]) >> (at < half ? 0 : part);
      const int upper = static_cast<uint8_t>(apart[half + at % half]) >> (at < half ? 0 : part);
      int byte = 0;
      for (int shift = 0; shift < 8; shift += bits) {
        const int fields = (1 << part) - 1;
        const int size_rank = (lower >> shift & fields) | (upper >> shift & fields) << part;
        const int code = size_rank % 2 == 0 ? size_rank / 2 : -(size_rank + 1) / 2;
        byte |= (bits == 4 ? code + 8 : code & 0xff) << shift;
      }
      out[at] = static_cast<char>(byte);
    }
    return out;
  }

  // A chunk that lies at this byte of the tensor's planes.
  static std::string put_together(const format::TensorEntry& t, size_t at,
                                  const std::string& apart) {
    const size_t tiles = (t.rows + 15) / 16;
    switch (static_cast<format::NumberFormat>(t.number_format)) {
      case format::NumberFormat::kInt4:
      case format::NumberFormat::kInt4Nl: {
        const size_t padded = (t.cols + t.group_size - 1) / t.group_size * t.group_size;
        return at < tiles * padded * 8 ? codes_together(apart, 4) : bytes_together(apart);
      }
      case format::NumberFormat::kInt8:
      case format::NumberFormat::kInt8G32:
        return at < tiles * ((t.cols + 31) / 32 * 32) * 16 ? codes_together(apart, 8)
                                                           : bytes_together(apart);
      default:
        return bytes_together(apart);
    }
  }

  // The decompressed planes of a tensor, one behind the other.
  [[nodiscard]] std::string raw(const format::TensorEntry& entry) const {
    std::string out;
    for (uint32_t i = entry.first_chunk; i < entry.first_chunk + entry.n_chunks; ++i) {
      const format::ChunkEntry& chunk = chunks_.at(i);
      const char* stored = file_.data() + chunk.offset;
      if (chunk.compression == static_cast<uint32_t>(format::Compression::kStored)) {
        out.append(stored, chunk.stored_bytes);
        continue;
      }
      std::string piece(chunk.raw_bytes, '\0');
      EXPECT_EQ(ZSTD_decompress(piece.data(), piece.size(), stored, chunk.stored_bytes),
                chunk.raw_bytes);
      EXPECT_EQ(ZSTD_getFrameContentSize(stored, chunk.stored_bytes), chunk.raw_bytes);
      if (chunk.compression == static_cast<uint32_t>(format::Compression::kZstdApart)) {
        piece = put_together(entry, out.size(), piece);
      }
      out += piece;
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
    config_ = load<format::ModelConfig>(section(format::SectionKind::kConfig), 0);
    const std::string directory = section(format::SectionKind::kTensorDirectory);
    for (size_t at = 0; at < directory.size(); at += sizeof(format::TensorEntry)) {
      tensors_.push_back(load<format::TensorEntry>(directory, at));
    }
    const std::string table = section(format::SectionKind::kChunkTable);
    for (size_t at = 0; at < table.size(); at += sizeof(format::ChunkEntry)) {
      chunks_.push_back(load<format::ChunkEntry>(table, at));
    }
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
  format::ModelConfig config_ = {};
  std::vector<format::TensorEntry> tensors_;
  std::vector<format::ChunkEntry> chunks_;
};

}  // namespace cria::test
