#include "quant/model/model_layout.h"

#include <cstring>
#include <iterator>

#include "quant/blocks/block_formats.h"
#include "quant/format/align.h"

namespace cria {
namespace {

using format::LayerKind;
using format::ModelScalars;
using format::NumberFormat;
using format::TensorRole;

constexpr MatrixFormat kVectorFormat = {NumberFormat::kF32, 0};

// Rows before the layers, of the parts of each layer (or of each kind), then of those after.
size_t part_count(size_t n_layers) { return n_layers * kLayerParts + kModelParts; }

// Whose rows a part has: a layer's or kind's number; n_layers outside the layers.
size_t owner_of(size_t part, size_t n_layers) {
  return part == 0 ? n_layers : (part - 1) / kLayerParts;
}

std::span<const TensorRow> part_of_kind(const LayerKind& kind, size_t part) {
  return layer_part(kind, (part - 1) % kLayerParts);
}

TensorSpec spec_of(const ModelScalars& m, const LayerKind& kind, const TensorRow& row,
                   MatrixFormat matrix_format) {
  const MatrixFormat f = row.form == TensorForm::kMatrix ? matrix_format : kVectorFormat;
  TensorSpec spec = {};
  spec.role = row.role;
  spec.form = row.form;
  spec.kind = format::kNoKind;
  spec.layer = format::kNone;
  spec.n_matrices = row.n_matrices(m, kind);
  spec.shape = {row.rows(m, kind), row.cols(m, kind), f.number_format, f.group_size};
  spec.has_signed_scales = may_be_signed(f.number_format) && (m.flags & format::kSignedScales) != 0;
  return spec;
}

uint32_t rows_there(const ModelScalars& m, const LayerKind& kind, std::span<const TensorRow> rows) {
  uint32_t n = 0;
  for (const TensorRow& row : rows) n += row.n_matrices(m, kind) != 0 ? 1 : 0;
  return n;
}

uint32_t layer_tensors(const ModelScalars& m, const LayerKind& kind) {
  uint32_t n = 0;
  for (size_t part = 0; part < kLayerParts; ++part)
    n += rows_there(m, kind, layer_part(kind, part));
  return n;
}

// Sum of value(spec) over all tensors.
template <typename Value>
uint64_t sum_of(const Config& c, const Value& value) {
  uint64_t sum = 0;
  TensorKinds kinds(c);
  for (TensorKind kind = {}; kinds.next(&kind);) sum += kind.n * value(kind.spec);
  return sum;
}

}  // namespace

bool TensorWalk::next(MatrixFormat f, TensorSpec* spec) {
  const size_t n_layers = config_.layers.size();
  for (; part_ < part_count(n_layers); ++part_, row_ = 0) {
    const size_t layer = owner_of(part_, n_layers);
    const bool is_in_layer = layer != n_layers;
    const LayerKind& kind = is_in_layer ? config_.kind_of(layer) : kOutsideLayers;
    const auto rows = is_in_layer ? part_of_kind(kind, part_) : model_part(part_);
    while (row_ < rows.size()) {
      const TensorRow& row = rows[row_++];
      if (row.n_matrices(*config_.model, kind) == 0) continue;
      *spec = spec_of(*config_.model, kind, row, f);
      if (is_in_layer) {
        spec->kind = config_.layers[layer];
        spec->layer = static_cast<uint32_t>(layer);
      }
      return true;
    }
  }
  return false;
}

void TensorWalk::go_to(uint32_t index) {
  const ModelScalars& m = *config_.model;
  part_ = 0;
  row_ = 0;
  const uint32_t before = rows_there(m, kOutsideLayers, kRowsBeforeLayers);
  if (index >= before) {
    index -= before;
    part_ = 1;
    uint32_t n_of_kind[format::kMaxKinds] = {};
    for (size_t i = 0; i < config_.kinds.size(); ++i) {
      n_of_kind[i] = layer_tensors(m, config_.kinds[i]);
    }
    for (const uint8_t kind : config_.layers) {
      if (index < n_of_kind[kind]) break;
      index -= n_of_kind[kind];
      part_ += kLayerParts;
    }
  }
  TensorSpec skipped;
  while (index-- > 0 && next(kVectorFormat, &skipped)) {
  }
}

uint32_t tensor_count(const Config& c) {
  const ModelScalars& m = *c.model;
  uint32_t n = 0;
  for (size_t part = 0; part < kModelParts; ++part) {
    n += rows_there(m, kOutsideLayers, model_part(part));
  }
  uint32_t n_of_kind[format::kMaxKinds] = {};
  for (size_t i = 0; i < c.kinds.size(); ++i) n_of_kind[i] = layer_tensors(m, c.kinds[i]);
  for (const uint8_t kind : c.layers) n += n_of_kind[kind];
  return n;
}

TensorSpec tensor_spec(const Config& c, uint32_t index, MatrixFormat f) {
  TensorWalk walk(c);
  walk.go_to(index);
  TensorSpec spec = {};
  (void)walk.next(f, &spec);
  return spec;
}

uint64_t tensor_code_bytes(const TensorSpec& spec) {
  if (!spec.is_matrix()) return uint64_t{spec.shape.cols} * sizeof(float);
  return spec.n_matrices * code_plane_bytes(spec.shape);
}

uint64_t tensor_scale_bytes(const TensorSpec& spec) {
  return spec.is_matrix() ? spec.n_matrices * scale_plane_bytes(spec.shape) : 0;
}

uint64_t tensor_bytes(const TensorSpec& spec) {
  return tensor_code_bytes(spec) + tensor_scale_bytes(spec);
}

uint32_t chunks_of_bytes(uint64_t plane_bytes) {
  return static_cast<uint32_t>((plane_bytes + format::kChunkRawBytes - 1) / format::kChunkRawBytes);
}

uint32_t tensor_chunk_count(const TensorSpec& spec) {
  return chunks_of_bytes(tensor_code_bytes(spec)) + chunks_of_bytes(tensor_scale_bytes(spec));
}

format::TensorEntry tensor_entry(const TensorSpec& spec, uint32_t first_chunk) {
  format::TensorEntry e = {};
  e.role = static_cast<uint16_t>(spec.role);
  e.group_size = spec.shape.group_size;
  e.layer = spec.layer;
  e.number_format = static_cast<uint8_t>(spec.shape.number_format);
  e.rows = spec.shape.rows;
  e.cols = spec.shape.cols;
  e.first_chunk = first_chunk;
  e.n_chunks = tensor_chunk_count(spec);
  e.n_matrices = spec.n_matrices;
  e.raw_bytes = tensor_bytes(spec);
  return e;
}

size_t count_of(const Config& c, const TensorSpec& spec) {
  const size_t place = place_of(format_of(spec.shape));
  for (size_t i = 0; i < c.counts.size(); ++i) {
    const format::MatrixCount& count = c.counts[i];
    if (count.kind == spec.kind && count.role == static_cast<uint16_t>(spec.role) &&
        count.format == place) {
      return i;
    }
  }
  return c.counts.size();
}

bool read_entry(const Config& c, TensorWalk* walk, const format::TensorEntry& entry,
                TensorSpec* spec) {
  const MatrixFormat f = {static_cast<NumberFormat>(entry.number_format), entry.group_size};
  if (place_of(f) == std::size(kMatrixFormats) || !walk->next(f, spec)) return false;
  if (spec->form == TensorForm::kMatrix && count_of(c, *spec) == c.counts.size()) return false;
  const format::TensorEntry implied = tensor_entry(*spec, entry.first_chunk);
  return std::memcmp(&implied, &entry, sizeof entry) == 0;
}

TensorKinds::TensorKinds(const Config& config) : config_(config) {
  for (const uint8_t kind : config.layers) ++n_layers_[kind];
}

bool TensorKinds::next(TensorKind* kind) {
  const size_t n_kinds = config_.kinds.size();
  for (; part_ < part_count(n_kinds); ++part_, row_ = 0) {
    const size_t number = owner_of(part_, n_kinds);
    const bool is_in_layer = number < n_kinds;
    const LayerKind& k = is_in_layer ? config_.kinds[number] : kOutsideLayers;
    const auto rows = is_in_layer ? part_of_kind(k, part_) : model_part(part_);
    for (; row_ < rows.size(); ++row_, count_ = 0) {
      const TensorRow& row = rows[row_];
      if (row.n_matrices(*config_.model, k) == 0) continue;
      const auto found = static_cast<uint8_t>(is_in_layer ? number : format::kNoKind);
      if (row.form != TensorForm::kMatrix) {
        *kind = {spec_of(*config_.model, k, row, kVectorFormat),
                 is_in_layer ? n_layers_[number] : 1};
        kind->spec.kind = found;
        ++row_;
        return true;
      }
      for (; count_ < config_.counts.size(); ++count_) {
        const format::MatrixCount& count = config_.counts[count_];
        if (count.kind != found || count.role != static_cast<uint16_t>(row.role)) continue;
        *kind = {spec_of(*config_.model, k, row, kMatrixFormats[count.format]), count.count};
        kind->spec.kind = found;
        ++count_;
        return true;
      }
    }
  }
  return false;
}

MatrixShape model_matrix(const Config& c, TensorRole role) {
  const bool is_tied = has_flag(c, format::kTiedEmbedding);
  const TensorRole stored = is_tied && role == TensorRole::kLmHead ? TensorRole::kEmbedding : role;
  TensorKinds kinds(c);
  for (TensorKind kind = {}; kinds.next(&kind);) {
    if (kind.spec.role == stored) return kind.spec.shape;
  }
  return {};
}

uint64_t widest_input(const Config& c) {
  uint64_t widest = 0;
  TensorKinds kinds(c);
  for (TensorKind kind = {}; kinds.next(&kind);) {
    const uint64_t cols = kind.spec.is_matrix() ? kind.spec.shape.cols : 0;
    if (cols > widest) widest = cols;
  }
  return padded_input(widest);
}

uint64_t chunk_count(const Config& c) { return sum_of(c, tensor_chunk_count); }

bool stays_in_file(TensorRole role) {
  return role == TensorRole::kPerLayerTable || role == TensorRole::kExpertGate ||
         role == TensorRole::kExpertUp || role == TensorRole::kExpertDown;
}

bool is_stored(const Config& c) {
  return c.model->compression == static_cast<uint32_t>(format::FileCompression::kStored);
}

bool is_stored(const Config& c, const TensorSpec& spec) {
  const auto compression = static_cast<format::FileCompression>(c.model->compression);
  return is_stored(c) ||
         (compression == format::FileCompression::kKeepsLarge && stays_in_file(spec.role));
}

bool is_kept(const TensorSpec& spec, KeptTensors kept) {
  return kept == KeptTensors::kAll || !spec.is_matrix() || spec.role == TensorRole::kEmbedding ||
         spec.role == TensorRole::kPerLayerTable;
}

TensorBytes kept_tensor_bytes(const Config& c, KeptTensors kept, bool mapped) {
  TensorBytes bytes = {};
  TensorKinds kinds(c);
  for (TensorKind kind = {}; kinds.next(&kind);) {
    if (!is_kept(kind.spec, kept)) continue;
    uint64_t& part = mapped && is_stored(c, kind.spec) ? bytes.in_place : bytes.in_memory;
    part += kind.n * aligned(tensor_bytes(kind.spec));
  }
  return bytes;
}

uint64_t all_tensor_bytes(const Config& c) {
  return kept_tensor_bytes(c, KeptTensors::kAll, false).in_memory;
}

uint64_t uncompressed_data_bytes(const Config& c) {
  // lm_head or, tied, the final norm, which is f32 whatever the format.
  const MatrixShape lm_head = model_matrix(c, TensorRole::kLmHead);
  const TensorSpec last = tensor_spec(c, tensor_count(c) - 1, format_of(lm_head));
  return all_tensor_bytes(c) - aligned(tensor_bytes(last)) + tensor_bytes(last);
}

bool is_bias(TensorRole role) {
  switch (role) {
    case TensorRole::kQBias:
    case TensorRole::kKBias:
    case TensorRole::kVBias:
    case TensorRole::kOBias:
    case TensorRole::kGateBias:
    case TensorRole::kUpBias:
    case TensorRole::kDownBias:
    case TensorRole::kMixerGateBias:
    case TensorRole::kQDownBias:
    case TensorRole::kLatentDownBias:
    case TensorRole::kDecayInBias:
    case TensorRole::kBetaInBias:
    case TensorRole::kRouterBias:
    case TensorRole::kExpertGateBias:
    case TensorRole::kExpertUpBias:
    case TensorRole::kExpertDownBias:
      return true;
    default:
      return false;
  }
}

}  // namespace cria
