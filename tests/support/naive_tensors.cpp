#include "tests/support/naive_tensors.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "quant/model/model_layout.h"
#include "quant/numbers/tile16.h"
#include "tests/support/model_surgery.h"
#include "tests/support/test_configs.h"

namespace cria::test {
namespace {

using Bytes = std::vector<uint8_t>;

template <typename Value>
std::vector<Value> values_of(std::span<const uint8_t> bytes) {
  std::vector<Value> values(bytes.size() / sizeof(Value));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(Value));
  return values;
}

ConfigParts config_of(std::span<const uint8_t> section) {
  ConfigBytes bytes = {};
  std::copy(section.begin(), section.end(), bytes.bytes);
  Config config;
  if (read_config({bytes.bytes, section.size()}, &config) != nullptr) {
    throw std::invalid_argument("the model's config is not valid");
  }
  return parts_of(config);
}

NaiveTensor unpacked(const TensorSpec& spec, const Bytes& planes) {
  NaiveTensor t = {spec.n_matrices, spec.shape.rows, spec.shape.cols, {}};
  if (!spec.is_matrix()) {
    t.values = values_of<float>(planes);
    return t;
  }
  t.values.resize(size_t{t.n_matrices} * t.rows * t.cols);
  const uint8_t* const scales = planes.data() + tensor_code_bytes(spec);
  float* out = t.values.data();
  for (size_t matrix = 0; matrix < t.n_matrices; ++matrix) {
    for (size_t row = 0; row < t.rows; ++row, out += t.cols) {
      unpack_row(spec.shape, planes.data() + matrix * code_plane_bytes(spec.shape),
                 scales + matrix * scale_plane_bytes(spec.shape), row, out);
    }
  }
  return t;
}

}  // namespace

NaiveTensors::NaiveTensors(std::span<const uint8_t> file) {
  Bytes bytes(file.begin(), file.end());
  const auto section = [&](format::SectionKind kind) { return section_bytes(bytes, kind); };
  config_ = config_of(section(format::SectionKind::kConfig));
  const auto chunks = values_of<format::ChunkEntry>(section(format::SectionKind::kChunkTable));
  TensorWalk walk(config_.view());
  TensorSpec spec = {};
  for (const auto& entry :
       values_of<format::TensorEntry>(section(format::SectionKind::kTensorDirectory))) {
    if (!read_entry(config_.view(), &walk, entry, &spec)) {
      throw std::invalid_argument("the model's directory is not its config's");
    }
    Bytes planes;
    for (uint32_t i = 0; i < entry.n_chunks; ++i) {
      const format::ChunkEntry& chunk = chunks.at(entry.first_chunk + i);
      if (chunk.compression != static_cast<uint32_t>(format::Compression::kStored)) {
        throw std::invalid_argument("the model is compressed");
      }
      const auto stored = file.subspan(chunk.offset, chunk.stored_bytes);
      planes.insert(planes.end(), stored.begin(), stored.end());
    }
    tensors_[{spec.layer, spec.role}] = unpacked(spec, planes);
  }
}

const NaiveTensor* NaiveTensors::find(uint32_t layer, format::TensorRole role) const {
  const auto found = tensors_.find({layer, role});
  return found == tensors_.end() ? nullptr : &found->second;
}

}  // namespace cria::test
