#include "tests/support/model_builder.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "converter/chunk_encoder.h"
#include "quant/format/align.h"
#include "quant/model/model_layout.h"
#include "quant/numbers/float16.h"
#include "tests/support/matrix_formats.h"
#include "tests/support/model_surgery.h"
#include "tests/support/test_configs.h"

namespace cria::test {
namespace {

using format::NumberFormat;
using format::SectionKind;

constexpr int kLevel = 3;

// Appends values of a number format: weights small enough for a deep model's logits to stay finite.
class PlaneWriter {
 public:
  explicit PlaneWriter(uint32_t seed) : random_(seed) {}

  // Codes, or the values of a vector.
  Bytes codes(const TensorSpec& spec) {
    const uint64_t n_bytes = tensor_code_bytes(spec);
    if (spec.role == format::TensorRole::kRope) return of_one_sign(n_bytes, 1);
    if (spec.role == format::TensorRole::kDecay) return of_one_sign(n_bytes, -1);
    return codes_of(spec.shape.number_format, n_bytes);
  }

  Bytes scales(const TensorSpec& spec, uint64_t n_bytes) {
    constexpr float kLargestCode = 128.0f;
    Bytes plane(n_bytes);
    const auto positive = [](float value) {
      return value < 0 ? -value / kLargestCode : value / kLargestCode;
    };
    if (spec.shape.number_format == NumberFormat::kInt8) {
      fill<float>(&plane, positive);
    } else {
      fill<uint16_t>(&plane, [&](float value) {
        if (has_f16_scales(spec.shape.number_format)) return f32_to_f16(value);
        return f32_to_bf16(spec.has_signed_scales ? value / kLargestCode : positive(value));
      });
    }
    return plane;
  }

 private:
  // Values that all have one sign: rates of RoPE are not negative, those of decay not positive.
  Bytes of_one_sign(uint64_t n_bytes, float sign) {
    Bytes plane(n_bytes);
    fill<float>(&plane, [&](float value) { return std::copysign(value, sign); });
    return plane;
  }
  Bytes codes_of(NumberFormat number_format, uint64_t n_bytes) {
    constexpr uint8_t kForbiddenCode = 0x80;
    Bytes plane(n_bytes);
    switch (number_format) {
      case NumberFormat::kInt4:
      case NumberFormat::kInt4Nl:
      case NumberFormat::kBit1:
      case NumberFormat::kBit2:
        for (uint8_t& byte : plane) byte = static_cast<uint8_t>(random_());
        break;
      case NumberFormat::kInt8:
      case NumberFormat::kInt8G32:
        for (uint8_t& byte : plane) {
          byte = static_cast<uint8_t>(random_());
          if (byte == kForbiddenCode) byte = 1;
        }
        break;
      case NumberFormat::kF32:
        fill<float>(&plane, [](float value) { return value; });
        break;
      case NumberFormat::kF16:
        fill<uint16_t>(&plane, f32_to_f16);
        break;
      case NumberFormat::kBf16:
        fill<uint16_t>(&plane, f32_to_bf16);
        break;
    }
    return plane;
  }

  template <typename T, typename Convert>
  void fill(Bytes* plane, const Convert& convert) {
    constexpr float kLeast = 0.001f;
    for (size_t at = 0; at + sizeof(T) <= plane->size(); at += sizeof(T)) {
      const float value = static_cast<float>(static_cast<int32_t>(random_() >> 1)) * 0x1p-35f;
      const T stored = convert((random_() & 1) != 0 ? value + kLeast : -value - kLeast);
      std::memcpy(plane->data() + at, &stored, sizeof stored);
    }
  }

  std::mt19937 random_;
};

template <typename T>
Bytes bytes_of(const std::vector<T>& values) {
  Bytes bytes(values.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// Offsets are those in the data section until it has a place.
void append_plane(const Bytes& plane, PlaneValues values, converter::ChunkEncoder* encoder,
                  Bytes* data, std::vector<format::ChunkEntry>* chunks) {
  for (size_t begin = 0; begin < plane.size(); begin += format::kChunkRawBytes) {
    const size_t n = std::min<size_t>(plane.size() - begin, format::kChunkRawBytes);
    converter::EncodedChunk chunk;
    encoder->encode(std::span<const uint8_t>(plane).subspan(begin, n), values, false, &chunk);
    data->resize(aligned(data->size()));
    chunks->push_back({data->size(), static_cast<uint32_t>(chunk.stored.size()), chunk.raw_bytes,
                       static_cast<uint32_t>(chunk.compression), 0, chunk.checksum});
    data->insert(data->end(), chunk.stored.begin(), chunk.stored.end());
  }
}

struct Part {
  SectionKind kind;
  Bytes bytes;
};

Bytes join(const std::vector<Part>& parts) {
  std::vector<format::SectionEntry> sections;
  Bytes file(sizeof(format::FileHeader) + parts.size() * sizeof(format::SectionEntry));
  for (const Part& part : parts) {
    file.resize(aligned(file.size()));
    sections.push_back({static_cast<uint32_t>(part.kind), 0, file.size(), part.bytes.size(), 0});
    file.insert(file.end(), part.bytes.begin(), part.bytes.end());
  }
  format::FileHeader header = {};
  std::memcpy(header.magic, format::kMagic, sizeof header.magic);
  header.version = format::kVersion;
  header.section_count = static_cast<uint32_t>(sections.size());
  header.file_bytes = file.size();
  std::memcpy(file.data(), &header, sizeof header);
  std::memcpy(file.data() + sizeof header, sections.data(), sections.size() * sizeof sections[0]);
  return file;
}

}  // namespace

Bytes build_model(const Config& config, uint32_t seed) {
  return build_model(config, formats_of(config), seed);
}

Bytes build_model(const Config& config, std::span<const MatrixFormat> formats, uint32_t seed) {
  PlaneWriter writer(seed);
  converter::ChunkEncoder stored(format::Compression::kStored, kLevel);
  converter::ChunkEncoder compressed(format::Compression::kZstd, kLevel);
  std::vector<format::TensorEntry> directory;
  std::vector<format::ChunkEntry> chunks;
  Bytes data;
  TensorWalk walk(config);
  TensorSpec spec = {};
  for (size_t i = 0; i < formats.size() && walk.next(formats[i], &spec); ++i) {
    converter::ChunkEncoder& encoder = is_stored(config, spec) ? stored : compressed;
    directory.push_back(tensor_entry(spec, static_cast<uint32_t>(chunks.size())));
    append_plane(writer.codes(spec), plane_values(spec, Plane::kCodes), &encoder, &data, &chunks);
    append_plane(writer.scales(spec, tensor_scale_bytes(spec)), plane_values(spec, Plane::kScales),
                 &encoder, &data, &chunks);
  }
  std::vector<Part> parts = {{SectionKind::kConfig, section_of(config)},
                             {SectionKind::kTensorDirectory, bytes_of(directory)},
                             {SectionKind::kChunkTable, bytes_of(chunks)},
                             {SectionKind::kData, data}};
  const Bytes draft = join(parts);
  const uint64_t data_offset = draft.size() - data.size();
  for (format::ChunkEntry& chunk : chunks) chunk.offset += data_offset;
  parts[2].bytes = bytes_of(chunks);
  Bytes file = join(parts);
  mend_checksums(file);
  return file;
}

}  // namespace cria::test
