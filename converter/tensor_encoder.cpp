#include "converter/tensor_encoder.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "converter/error.h"
#include "converter/float_rows.h"
#include "converter/memory_size.h"
#include "platforms/hosted/base/shared_loop.h"
#include "quant/float16.h"

namespace cria::converter {
namespace {

using format::NumberFormat;

constexpr float kLargestF16 = 65504.0f;
// Where rounding to bf16 reaches infinity.
constexpr float kBf16Overflow = 0x1.ffp127f;

[[noreturn]] void refuse(const SourceTensor& source, const std::string& problem) {
  throw ProgramError(ExitCode::kInvalidInput,
                     source.path().string() + ": tensor " + source.name() + " " + problem);
}

// Rows of a matrix, or a vector as rows of one value; place says which they are in an error.
struct Rows {
  std::span<const float> values;  // [n][cols]
  size_t cols;
  size_t first;
  const char* place;
};

// The place of the first row that is_bad(values, cols) holds for.
template <typename IsBad>
std::string place_of(const Rows& rows, const IsBad& is_bad) {
  size_t row = 0;
  while (!is_bad(rows.values.data() + row * rows.cols, rows.cols)) ++row;
  return std::string(" (") + rows.place + " " + std::to_string(rows.first + row) + ")";
}

void check_values(const SourceTensor& source, NumberFormat number_format, const Rows& rows) {
  const std::span<const float> values = rows.values;
  if (!all_finite(values.data(), values.size())) {
    const auto is_bad = [](const float* row, size_t n) { return !all_finite(row, n); };
    refuse(source, "has values that are infinite or no numbers" + place_of(rows, is_bad) +
                       ": the checkpoint is damaged, download it again");
  }
  const bool f16 = number_format == NumberFormat::kF16;
  if (!f16 && number_format != NumberFormat::kBf16) return;
  const auto is_too_large = [f16](const float* row, size_t n) {
    const float largest = largest_magnitude(row, n);
    return f16 ? largest > kLargestF16 : largest >= kBf16Overflow;
  };
  if (is_too_large(values.data(), values.size())) {
    refuse(source, "has values too large for this format" + place_of(rows, is_too_large) +
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

TensorEncoder::TensorEncoder(QuantMethod method, format::Compression compression, int level,
                             hosted::ThreadPool* pool, ModelWriter* writer)
    : method_(method),
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
                   plane_values(spec, Plane::kCodes));
  return start_entry(spec);
}

EncodedTensor TensorEncoder::encode(const PlannedTensor& tensor, const RoundedRows* rounded) {
  rounded_ = rounded;
  if (tensor.spec.is_matrix()) return encode_matrix(tensor);
  const SourceTensor& source = *tensor.source;
  std::vector<uint8_t> bytes;
  std::vector<float> values(tensor.spec.shape.cols);
  source.read_rows(0, values.size(), &bytes, values.data());
  check_values(source, NumberFormat::kF32, {values, 1, 0, "value"});
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

void TensorEncoder::encode_int4(const PlannedTensor& tensor, size_t first, size_t n_rows,
                                Scratch* scratch, uint8_t* out_codes, uint8_t* out_scales,
                                TileSums* sums) const {
  const MatrixShape& shape = tensor.spec.shape;
  const float* values = scratch->values.data();
  const size_t padded = padded_cols(shape);
  const size_t groups = padded / shape.group_size;
  scratch->codes.resize(n_rows * padded);
  scratch->group_scales.resize(n_rows * groups);
  if (rounded_ != nullptr) {
    take_rounded(shape, first, n_rows, scratch);
  } else {
    quantize_rows_int4(shape, values, n_rows, method_, scale_signs(tensor.spec),
                       scratch->codes.data(), scratch->group_scales.data());
    keep_int4(tensor, first, n_rows, scratch, &sums->kept);
  }
  add_errors(shape, n_rows, *scratch, &sums->error);
  pack_int4_tile(shape, scratch->codes.data(), scratch->group_scales.data(), n_rows, out_codes,
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

void TensorEncoder::encode_int8g32(const MatrixShape& shape, size_t first, size_t n_rows,
                                   Scratch* scratch, uint8_t* out_codes, uint8_t* out_scales,
                                   ErrorSums* error) const {
  const size_t padded = padded_cols(shape);
  scratch->codes.resize(n_rows * padded);
  scratch->group_scales.resize(n_rows * padded / shape.group_size);
  if (rounded_ != nullptr) {
    take_rounded(shape, first, n_rows, scratch);
  } else {
    quantize_rows_int8g32(shape, scratch->values.data(), n_rows, method_, scratch->codes.data(),
                          scratch->group_scales.data());
  }
  add_errors(shape, n_rows, *scratch, error);
  pack_int8g32_tile(shape, scratch->codes.data(), scratch->group_scales.data(), n_rows, out_codes,
                    out_scales);
}

void TensorEncoder::encode_tile(const PlannedTensor& tensor, size_t tile, Scratch* scratch,
                                uint8_t* out_codes, uint8_t* out_scales, TileSums* sums) const {
  const MatrixShape& shape = tensor.spec.shape;
  const SourceTensor& source = *tensor.source;
  const size_t cols = shape.cols;
  const size_t n_rows = std::min<size_t>(kTileRows, shape.rows - tile * kTileRows);
  scratch->values.resize(n_rows * cols);
  float* values = scratch->values.data();
  source.read_rows(tile * kTileRows, n_rows, &scratch->source, values);
  check_values(source, shape.number_format, {scratch->values, cols, tile * kTileRows, "row"});

  switch (shape.number_format) {
    case NumberFormat::kInt4:
    case NumberFormat::kInt4Nl:
      return encode_int4(tensor, tile * kTileRows, n_rows, scratch, out_codes, out_scales, sums);
    case NumberFormat::kInt8:
      return encode_int8(shape, tile * kTileRows, n_rows, scratch, out_codes, out_scales,
                         &sums->error);
    case NumberFormat::kInt8G32:
      return encode_int8g32(shape, tile * kTileRows, n_rows, scratch, out_codes, out_scales,
                            &sums->error);
    case NumberFormat::kF32:
    case NumberFormat::kF16:
    case NumberFormat::kBf16:
      pack_float_tile(shape, values, n_rows, out_codes);
      return add_error_float(shape.number_format, scratch->values, &sums->error);
  }
}

EncodedTensor TensorEncoder::encode_matrix(const PlannedTensor& tensor) {
  const MatrixShape& shape = tensor.spec.shape;
  const size_t n_tiles = tile_count(shape.rows);
  const size_t code_bytes = memory_size(tile_code_bytes(shape));
  const size_t scale_bytes = memory_size(tile_scale_bytes(shape));

  EncodedTensor encoded = start_entry(tensor.spec);
  std::vector<uint8_t> scales(memory_size(scale_plane_bytes(shape)));
  std::vector<TileSums> sums(n_tiles);
  queue_.start_plane(plane_values(tensor.spec, Plane::kCodes));
  for (size_t first = 0; first < n_tiles;) {
    const size_t room = queue_.make_room(uint64_t{n_tiles - first} * code_bytes);
    const size_t n_batch = std::max<size_t>(1, room / code_bytes);
    uint8_t* const codes = queue_.extend(n_batch * code_bytes).data();
    hosted::shared_loop(pool_, n_batch, [&](size_t i, size_t worker) {
      const size_t tile = first + i;
      encode_tile(tensor, tile, &scratches_[worker], codes + i * code_bytes,
                  scales.data() + tile * scale_bytes, &sums[tile]);
    });
    first += n_batch;
  }
  queue_.end_plane();
  queue_.add_plane(scales, plane_values(tensor.spec, Plane::kScales));
  for (const TileSums& tile : sums) {
    add(tile.error, &encoded.error);
    add(tile.kept, &encoded.kept);
  }
  return encoded;
}

}  // namespace cria::converter
