#include "converter/tensor_encoder.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "converter/error.h"
#include "converter/float_rows.h"
#include "converter/memory_size.h"
#include "platforms/hosted/base/shared_loop.h"
#include "quant/numbers/float16.h"
#include "quant/numbers/trained_codes.h"

namespace cria::converter {
namespace {

using format::NumberFormat;

constexpr float kLargestF16 = 65504.0f;
// Where rounding to bf16 reaches infinity.
constexpr float kBf16Overflow = 0x1.ffp127f;

// Rows of a matrix, or a vector as rows of one value.
struct Rows {
  std::span<const float> values;  // [n][cols]
  size_t cols;
  uint64_t first;  // of the source's
};

// Refuses the first row that is_bad(values, cols) holds for.
template <typename IsBad>
[[noreturn]] void refuse(const SourceTensor& source, const Rows& rows, const IsBad& is_bad,
                         const std::string& problem, const std::string& advice) {
  size_t row = 0;
  while (!is_bad(rows.values.data() + row * rows.cols, rows.cols)) ++row;
  const RowOrigin origin = source.origin(rows.first + row);
  throw ProgramError(ExitCode::kInvalidInput, origin.tensor->path().string() + ": tensor " +
                                                  origin.tensor->name() + " " + problem + " (" +
                                                  origin.side + " " +
                                                  std::to_string(origin.number) + ")" + advice);
}

void check_values(const SourceTensor& source, NumberFormat number_format, const Rows& rows) {
  const std::span<const float> values = rows.values;
  if (!all_finite(values.data(), values.size())) {
    const auto is_bad = [](const float* row, size_t n) { return !all_finite(row, n); };
    refuse(source, rows, is_bad, "has values that are infinite or not numbers",
           ": the checkpoint is damaged, download it again");
  }
  const bool f16 = number_format == NumberFormat::kF16;
  if (!f16 && number_format != NumberFormat::kBf16) return;
  const auto is_too_large = [f16](const float* row, size_t n) {
    const float largest = largest_magnitude(row, n);
    return f16 ? largest > kLargestF16 : largest >= kBf16Overflow;
  };
  if (is_too_large(values.data(), values.size())) {
    refuse(source, rows, is_too_large, "has values too large for this format",
           "; choose --weights f32");
  }
}

void add_error_float(NumberFormat number_format, std::span<const float> values, ErrorSums* sums) {
  for (const float value : values) {
    float stored = value;
    if (number_format == NumberFormat::kF16) stored = f16_to_f32(f32_to_f16(value));
    if (number_format == NumberFormat::kBf16) stored = bf16_to_f32(f32_to_bf16(value));
    const double error = std::fabs(static_cast<double>(value) - static_cast<double>(stored));
    sums->signal += static_cast<double>(value) * static_cast<double>(value);
    sums->noise += error * error;
    sums->max_error = std::max(sums->max_error, error);
  }
}

void add(const ErrorSums& from, ErrorSums* to) {
  to->signal += from.signal;
  to->noise += from.noise;
  to->max_error = std::max(to->max_error, from.max_error);
}

void add(const KeptGroups& from, KeptGroups* to) {
  to->exact += from.exact;
  to->rounded += from.rounded;
  to->requantized += from.requantized;
}

struct KeptScale {
  bool fits;
  uint16_t bits;  // bf16
};

// A scale of a checkpoint as cria has scales. Where they may not be below zero its sign goes to the
// codes.
KeptScale fit_scale(ScaleSigns signs, float scale, std::span<int8_t> codes) {
  constexpr int8_t kLowest = -8;
  const float magnitude = std::fabs(scale);
  if (magnitude == 0) {
    std::fill(codes.begin(), codes.end(), int8_t{0});
    return {true, 0};
  }
  if (magnitude < kSmallestScale) return {false, 0};
  if (signs == ScaleSigns::kBoth) return {true, f32_to_bf16(scale)};
  if (scale < 0) {
    if (std::find(codes.begin(), codes.end(), kLowest) != codes.end()) return {false, 0};
    for (int8_t& code : codes) code = static_cast<int8_t>(-code);
  }
  return {true, f32_to_bf16(magnitude)};
}

}  // namespace

TensorEncoder::TensorEncoder(const Config& config, QuantMethod method,
                             format::Compression compression, int level, hosted::ThreadPool* pool,
                             ModelWriter* writer)
    : config_(config),
      method_(method),
      pool_(pool),
      writer_(writer),
      queue_(compression, level, pool, writer),
      scratches_(pool->n_threads()) {}

EncodedTensor TensorEncoder::start_entry(const TensorSpec& spec) {
  EncodedTensor encoded = {};
  encoded.spec = spec;
  encoded.entry = tensor_entry(spec, n_chunks_);
  n_chunks_ += encoded.entry.n_chunks;
  return encoded;
}

void TensorEncoder::finish(std::span<EncodedTensor> tensors) {
  queue_.finish();
  for (EncodedTensor& tensor : tensors) {
    tensor.stored_bytes = writer_->stored_bytes(tensor.entry.first_chunk, tensor.entry.n_chunks);
  }
}

EncodedTensor TensorEncoder::encode_values(const TensorSpec& spec, std::span<const float> values) {
  queue_.add_plane({reinterpret_cast<const uint8_t*>(values.data()), values.size_bytes()},
                   plane_values(spec, Plane::kCodes), is_stored(config_, spec));
  return start_entry(spec);
}

EncodedTensor TensorEncoder::encode(const PlannedTensor& tensor, const RoundedRows* rounded) {
  rounded_ = rounded;
  if (tensor.spec.is_matrix()) return encode_matrix(tensor);
  const SourceTensor& source = *tensor.source;
  std::vector<uint8_t> bytes;
  std::vector<float> values(tensor.spec.shape.cols);
  source.read_rows(0, values.size(), &bytes, values.data());
  check_values(source, NumberFormat::kF32, {values, 1, 0});
  return encode_values(tensor.spec, values);
}

void TensorEncoder::keep_int4(const PlannedTensor& tensor, size_t first, size_t n_rows,
                              Scratch* scratch, KeptGroups* kept) const {
  const SourceTensor& source = *tensor.source;
  const MatrixShape& shape = tensor.spec.shape;
  const uint32_t source_group = source.int4_group();
  if (shape.number_format != NumberFormat::kInt4 || source_group == 0 ||
      source_group % shape.group_size != 0 || shape.cols % source_group != 0) {
    return;
  }
  scratch->source_codes.resize(n_rows * shape.cols);
  scratch->source_scales.resize(n_rows * shape.cols / source_group);
  source.read_int4(first, n_rows, &scratch->source, scratch->source_codes.data(),
                   scratch->source_scales.data());
  for (size_t group = 0; group < scratch->group_scales.size(); ++group) {
    const size_t begin = group * shape.group_size;
    const std::span<int8_t> codes(scratch->source_codes.data() + begin, shape.group_size);
    const float scale = scratch->source_scales[begin / source_group];
    const KeptScale fit = fit_scale(scale_signs(tensor.spec), scale, codes);
    if (!fit.fits) {
      ++kept->requantized;
      continue;
    }
    const bool is_exact = std::fabs(bf16_to_f32(fit.bits)) == std::fabs(scale);
    ++(is_exact ? kept->exact : kept->rounded);
    scratch->group_scales[group] = fit.bits;
    std::copy(codes.begin(), codes.end(), scratch->codes.data() + begin);
  }
}

void TensorEncoder::take_rounded(const MatrixShape& shape, size_t first, size_t n_rows,
                                 Scratch* scratch) const {
  const size_t padded = padded_cols(shape);
  std::copy_n(rounded_->codes.data() + first * padded, n_rows * padded, scratch->codes.data());
  if (shape.group_size == 0) {
    std::copy_n(rounded_->row_scales.data() + first, n_rows, scratch->int8_scales.data());
    return;
  }
  const size_t groups = padded / shape.group_size;
  std::copy_n(rounded_->scales.data() + first * groups, n_rows * groups,
              scratch->group_scales.data());
}

void TensorEncoder::add_errors(const MatrixShape& shape, size_t n_rows, const Scratch& scratch,
                               ErrorSums* error) {
  const size_t padded = padded_cols(shape);
  const size_t groups = padded / shape.group_size;
  for (size_t row = 0; row < n_rows; ++row) {
    add_error_groups(shape, scratch.values.data() + row * shape.cols,
                     scratch.codes.data() + row * padded,
                     scratch.group_scales.data() + row * groups, error);
  }
}

void TensorEncoder::encode_groups(const PlannedTensor& tensor, size_t first, size_t n_rows,
                                  Scratch* scratch, uint8_t* out_codes, uint8_t* out_scales,
                                  TileSums* sums) const {
  const MatrixShape& shape = tensor.spec.shape;
  const size_t padded = padded_cols(shape);
  scratch->codes.resize(n_rows * padded);
  scratch->group_scales.resize(n_rows * padded / shape.group_size);
  if (rounded_ != nullptr) {
    take_rounded(shape, first, n_rows, scratch);
  } else {
    quantize_groups(shape, scratch->values.data(), n_rows, method_, scale_signs(tensor.spec),
                    scratch->codes.data(), scratch->group_scales.data());
    keep_int4(tensor, first, n_rows, scratch, &sums->kept);
  }
  add_errors(shape, n_rows, *scratch, &sums->error);
  pack_group_tile(shape, scratch->codes.data(), scratch->group_scales.data(), n_rows, out_codes,
                  out_scales);
}

void TensorEncoder::encode_int8(const MatrixShape& shape, size_t first, size_t n_rows,
                                Scratch* scratch, uint8_t* out_codes, uint8_t* out_scales,
                                ErrorSums* error) const {
  const float* values = scratch->values.data();
  const size_t padded = padded_cols(shape);
  scratch->codes.resize(n_rows * padded);
  scratch->int8_scales.resize(n_rows);
  if (rounded_ != nullptr) take_rounded(shape, first, n_rows, scratch);
  for (size_t row = 0; row < n_rows; ++row) {
    int8_t* codes = scratch->codes.data() + row * padded;
    float* scale = scratch->int8_scales.data() + row;
    if (rounded_ == nullptr) {
      quantize_row_int8(values + row * shape.cols, shape.cols, method_, padded, codes, scale);
    }
    add_error_int8(values + row * shape.cols, shape.cols, codes, *scale, error);
  }
  pack_int8_tile(shape, scratch->codes.data(), scratch->int8_scales.data(), n_rows, out_codes,
                 out_scales);
}

void TensorEncoder::encode_bits(const PlannedTensor& tensor, size_t first, size_t n_rows,
                                Scratch* scratch, uint8_t* out_codes, uint8_t* out_scales,
                                ErrorSums* error) const {
  const MatrixShape& shape = tensor.spec.shape;
  const size_t padded = padded_cols(shape);
  scratch->codes.resize(n_rows * padded);
  scratch->group_scales.resize(n_rows * padded / shape.group_size);
  const auto find = [&](const float* rows, size_t n) {
    return find_exact_bits(shape, rows, n, scratch->codes.data(), scratch->group_scales.data());
  };
  if (!find(scratch->values.data(), n_rows)) {
    const auto is_bad = [&](const float* row, size_t) { return !find(row, 1); };
    const std::string name = number_format_name(shape.number_format);
    refuse(*tensor.source, {scratch->values, shape.cols, first}, is_bad,
           "has weights that " + name + " does not hold exactly",
           ": " + name +
               " is for weights that were trained so; choose --weights int4, or another "
               "format for this matrix with --weights-of");
  }
  add_errors(shape, n_rows, *scratch, error);
  pack_group_tile(shape, scratch->codes.data(), scratch->group_scales.data(), n_rows, out_codes,
                  out_scales);
}

void TensorEncoder::encode_tiles(const PlannedTensor& tensor, size_t first, size_t last,
                                 Scratch* scratch, uint8_t* out_codes, uint8_t* out_scales,
                                 TileSums* sums) const {
  const MatrixShape& shape = tensor.spec.shape;
  const SourceTensor& source = *tensor.source;
  const size_t tiles_of_matrix = tile_count(shape.rows);
  const auto row_of = [&](size_t tile) {
    return tile / tiles_of_matrix * shape.rows + tile % tiles_of_matrix * kTileRows;
  };
  const auto n_rows_of = [&](size_t tile) {
    return std::min<size_t>(kTileRows, shape.rows - tile % tiles_of_matrix * kTileRows);
  };
  const size_t begin = row_of(first);
  const size_t end = row_of(last - 1) + n_rows_of(last - 1);
  const bool is_strip = last - first > 1;
  if (is_strip) {
    scratch->strip.resize((end - begin) * shape.cols);
    source.read_rows(begin, end - begin, &scratch->source, scratch->strip.data());
  }
  for (size_t tile = first; tile < last; ++tile) {
    const size_t row = row_of(tile);
    const size_t n_rows = n_rows_of(tile);
    scratch->values.resize(n_rows * shape.cols);
    if (is_strip) {
      std::copy_n(scratch->strip.data() + (row - begin) * shape.cols, scratch->values.size(),
                  scratch->values.data());
    } else {
      source.read_rows(row, n_rows, &scratch->source, scratch->values.data());
    }
    check_values(source, shape.number_format, {scratch->values, shape.cols, row});
    encode_tile(tensor, row, n_rows, scratch, out_codes + (tile - first) * tile_code_bytes(shape),
                out_scales + (tile - first) * tile_scale_bytes(shape), sums + (tile - first));
  }
}

void TensorEncoder::encode_tile(const PlannedTensor& tensor, size_t first, size_t n_rows,
                                Scratch* scratch, uint8_t* out_codes, uint8_t* out_scales,
                                TileSums* sums) const {
  const MatrixShape& shape = tensor.spec.shape;
  switch (shape.number_format) {
    case NumberFormat::kInt4:
    case NumberFormat::kInt4Nl:
    case NumberFormat::kInt8G32:
      return encode_groups(tensor, first, n_rows, scratch, out_codes, out_scales, sums);
    case NumberFormat::kInt8:
      return encode_int8(shape, first, n_rows, scratch, out_codes, out_scales, &sums->error);
    case NumberFormat::kBit1:
    case NumberFormat::kBit2:
      return encode_bits(tensor, first, n_rows, scratch, out_codes, out_scales, &sums->error);
    case NumberFormat::kF32:
    case NumberFormat::kF16:
    case NumberFormat::kBf16:
      pack_float_tile(shape, scratch->values.data(), n_rows, out_codes);
      return add_error_float(shape.number_format, scratch->values, &sums->error);
  }
}

EncodedTensor TensorEncoder::encode_matrix(const PlannedTensor& tensor) {
  const MatrixShape& shape = tensor.spec.shape;
  const size_t n_tiles = memory_size(uint64_t{tensor.spec.n_matrices} * tile_count(shape.rows));
  const size_t code_bytes = memory_size(tile_code_bytes(shape));
  const size_t scale_bytes = memory_size(tile_scale_bytes(shape));
  const size_t at_once = std::max<size_t>(1, tensor.source->rows_at_once() / kTileRows);

  EncodedTensor encoded = start_entry(tensor.spec);
  std::vector<uint8_t> scales(memory_size(tensor_scale_bytes(tensor.spec)));
  std::vector<TileSums> sums(n_tiles);
  queue_.start_plane(plane_values(tensor.spec, Plane::kCodes), is_stored(config_, tensor.spec));
  for (size_t first = 0; first < n_tiles;) {
    const size_t room = queue_.make_room(uint64_t{n_tiles - first} * code_bytes);
    const size_t n_batch = std::max<size_t>(1, room / code_bytes);
    uint8_t* const codes = queue_.extend(n_batch * code_bytes).data();
    hosted::shared_loop(pool_, (n_batch + at_once - 1) / at_once, [&](size_t i, size_t worker) {
      const size_t tile = first + i * at_once;
      encode_tiles(tensor, tile, std::min(tile + at_once, first + n_batch), &scratches_[worker],
                   codes + (tile - first) * code_bytes, scales.data() + tile * scale_bytes,
                   &sums[tile]);
    });
    first += n_batch;
  }
  queue_.end_plane();
  queue_.add_plane(scales, plane_values(tensor.spec, Plane::kScales),
                   is_stored(config_, tensor.spec));
  for (const TileSums& tile : sums) {
    add(tile.error, &encoded.error);
    add(tile.kept, &encoded.kept);
  }
  return encoded;
}

}  // namespace cria::converter
