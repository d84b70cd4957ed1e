#include "converter/calibration/calibrated_rounding.h"

#include <algorithm>

#include "converter/calibration/held_matrices.h"
#include "converter/calibration/rounded_values.h"
#include "converter/calibration/weight_counts.h"
#include "quant/numbers/quantize.h"

namespace cria::converter {
namespace {

using format::TensorRole;

constexpr size_t kPartRows = CalibratedRounding::kPartRows;
constexpr size_t kHeldOutOneIn = CalibratedRounding::kHeldOutOneIn;
constexpr size_t kTableTokens = 8192;  // enough for the sums of inputs that are d_model wide
// Rows that an expert must have seen; where it has fewer columns, so many.
constexpr size_t kFewestRows = 256;

TokenSequences held_out_last(const TokenSequences& sequences, size_t* n_training) {
  TokenSequences ordered;
  TokenSequences held_out;
  for (size_t i = 0; i < sequences.size(); ++i) {
    const bool is_held_out = i % kHeldOutOneIn == kHeldOutOneIn - 1;
    (is_held_out ? held_out : ordered).push_back(sequences[i]);
  }
  *n_training = token_count(ordered);
  ordered.insert(ordered.end(), held_out.begin(), held_out.end());
  return ordered;
}

// Calls take(a spec of some rows, the first of them).
template <typename Take>
void for_row_parts(const TensorSpec& spec, const Take& take) {
  for (size_t first = 0; first < spec.shape.rows; first += kPartRows) {
    TensorSpec part = spec;
    part.shape.rows = static_cast<uint32_t>(std::min(kPartRows, spec.shape.rows - first));
    take(part, first);
  }
}

// Puts codes of rows where those from row first on belong.
void put(const RoundedRows& part, size_t first, const MatrixShape& shape, RoundedRows* whole) {
  const size_t padded = padded_cols(shape);
  std::copy(part.codes.begin(), part.codes.end(),
            whole->codes.begin() + static_cast<std::ptrdiff_t>(first * padded));
  const size_t groups = shape.group_size == 0 ? 0 : padded / shape.group_size;
  std::copy(part.scales.begin(), part.scales.end(),
            whole->scales.begin() + static_cast<std::ptrdiff_t>(first * groups));
  std::copy(part.row_scales.begin(), part.row_scales.end(),
            whole->row_scales.begin() + static_cast<std::ptrdiff_t>(first));
}

// The codes of shape.rows rows, those from row first on.
RoundedRows part_of(const RoundedRows& whole, size_t first, const MatrixShape& shape) {
  const size_t padded = padded_cols(shape);
  const auto copy = [&](const auto& from, size_t per_row, auto* to) {
    const auto begin = from.begin() + static_cast<std::ptrdiff_t>(first * per_row);
    to->assign(begin, begin + static_cast<std::ptrdiff_t>(shape.rows * per_row));
  };
  RoundedRows part;
  copy(whole.codes, padded, &part.codes);
  copy(whole.scales, shape.group_size == 0 ? 0 : padded / shape.group_size, &part.scales);
  copy(whole.row_scales, whole.row_scales.empty() ? 0 : 1, &part.row_scales);
  return part;
}

// Whether a block adds a matrix's outputs to the residual stream as they are.
bool is_added(TensorRole role, const format::LayerKind& kind) {
  if (role == TensorRole::kO) return !has_flag(kind, format::flag::kMixerOutNorm);
  return role == TensorRole::kDown && !has_flag(kind, format::flag::kFfnOutNorm) &&
         kind.feed_forward == static_cast<uint8_t>(format::FeedForward::kDense);
}

double share_of(double error, double signal) { return signal > 0 ? error / signal : error; }

double sum_of_squares(const std::vector<float>& x) {
  double sum = 0;
  for (const float value : x) sum += static_cast<double>(value) * static_cast<double>(value);
  return sum;
}

double squared_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double d = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    sum += d * d;
  }
  return sum;
}

}  // namespace

CalibratedRounding::CalibratedRounding(const Config& config, const PlannedWeights& weights,
                                       const TokenSequences& sequences,
                                       const RoundingSettings& settings, hosted::ThreadPool* pool)
    : weights_(weights),
      settings_(settings),
      pool_(pool),
      sequences_(held_out_last(sequences, &n_training_)),
      model_(config, weights, sequences_, pool),
      config_(config) {}

const RoundedRows* CalibratedRounding::rounded(const TensorSpec& spec) {
  if (!started_) start();
  while (spec.layer != format::kNone && n_layers_done_ <= spec.layer) {
    for (auto& [key, found] : found_) {
      if (key.first != TensorRole::kPerLayerProjection) found.rows = {};
    }
    run_layer(n_layers_done_++);
  }
  auto found = found_.find({spec.role, spec.layer});
  if (found == found_.end() && spec.role == TensorRole::kLmHead && is_rounded(spec)) {
    round_output_layer(weights_.output_layer());
    found = found_.find({spec.role, spec.layer});
  }
  return found == found_.end() ? nullptr : &found->second.rows;
}

std::optional<RoundingOutcome> CalibratedRounding::outcome(const TensorSpec& spec) const {
  const auto found = found_.find({spec.role, spec.layer});
  // A table's targets are its weights.
  if (found == found_.end() || spec.role == TensorRole::kEmbedding) return std::nullopt;
  const Sums& sums = found->second.sums;
  return RoundingOutcome{sums.n_calibrated, sums.n_unseen, share_of(sums.plain, sums.signal),
                         share_of(sums.kept, sums.signal)};
}

// The embedding --------------------------------------------------------------------------------

void CalibratedRounding::start() {
  started_ = true;
  const PlannedTensor& tensor = weights_.find(TensorRole::kEmbedding);
  Floats exact(model_.n_rows() * config_.model->d_model);
  for_row_parts(tensor.spec, [&](const TensorSpec& part, size_t first) {
    model_.embed(weights_.rows(tensor, first, part.shape.rows), first, &exact);
  });
  exact_ = model_.start(std::move(exact));
  rounded_ = exact_;
  // The targets of a table are its weights: in eight bits it is as without calibration.
  if (is_calibrated(tensor.spec.shape.number_format)) round_embedding(tensor);
  if (config_.model->per_layer_width != 0) round_per_layer();
}

void CalibratedRounding::round_embedding(const PlannedTensor& tensor) {
  const bool is_tied = has_flag(config_, format::kTiedEmbedding);
  std::optional<RoundingBasis> basis;
  if (is_tied && settings_.steps.feedback) basis = make_table_basis();
  Rounded& whole = make_rounded(tensor.spec);
  Floats rounded(exact_.x.size());
  for_row_parts(tensor.spec, [&](const TensorSpec& part, size_t first) {
    Floats rows = weights_.rows(tensor, first, part.shape.rows);
    const RoundedRows of_part = round_table(part, rows, basis);
    expand_rows(part.shape, of_part, rows.data());
    model_.embed(rows, first, &rounded);
    put(of_part, first, part.shape, &whole.rows);
  });
  rounded_ = model_.start(std::move(rounded));
}

void CalibratedRounding::round_per_layer() {
  const TensorSpec& table = weights_.find(TensorRole::kPerLayerTable).spec;
  if (is_calibrated(table.shape.number_format)) {
    rounded_.round_table = [this, &table](size_t n, float* rows) {
      round_values(pool_, table, QuantMethod::kMse, n, rows);
    };
  }
  const PlannedTensor& tensor = weights_.find(TensorRole::kPerLayerProjection);
  if (!is_rounded(tensor.spec)) return;
  const Floats& rounded = *rounded_.embedded;
  Inputs inputs = {rounded.data(),         model_.n_rows(),  n_training_,
                   tensor.spec.shape.cols, *exact_.embedded, nullptr};
  subtract_rounded(&inputs);
  const RoundingBasis basis = make_basis_of(inputs);
  const Shift shift = make_shift(inputs, basis);
  for (uint32_t i = 0; i < tensor.spec.n_matrices; ++i) {
    const Floats weights = weights_.matrix(tensor, i);
    (void)keep_better(tensor.spec, i, round_part(tensor.spec, weights, inputs, basis, shift));
  }
}

RoundingBasis CalibratedRounding::make_table_basis() const {
  // What goes into the output layer is what the float model puts out.
  TokenSequences sequences;
  for (size_t i = 0, n = 0; i < sequences_.size() && n < kTableTokens; ++i) {
    sequences.push_back(sequences_[i]);
    n += sequences.back().size();
  }
  const size_t n = std::min(token_count(sequences), n_training_);
  const size_t cols = config_.model->d_model;
  FloatModel part(config_, weights_, sequences, pool_);
  HeldMatrices matrices(weights_, PanelFormat::kF32, pool_);
  const auto begin = exact_.x.begin();
  const auto n_values = static_cast<std::ptrdiff_t>(part.n_rows() * cols);
  Stream stream = part.start(Floats(begin, begin + n_values));
  for (uint32_t i = 0; i < config_.model->n_layers; ++i) {
    matrices.clear();
    matrices.read_layer(i);
    part.run_layer(i, matrices.products(), &stream);
  }
  const Floats outputs = part.finish(stream.x);
  Floats sums(cols * cols);
  add_products(pool_, outputs.data(), cols, outputs.data(), cols, n, sums.data());
  return make_basis(pool_, sums, cols, settings_.table_damping);
}

RoundedRows CalibratedRounding::round_table(const TensorSpec& part, const Floats& weights,
                                            const std::optional<RoundingBasis>& basis) const {
  if (!basis) return round_plainly(pool_, part, QuantMethod::kMse, weights.data());
  return round_rows(pool_, *basis, part.shape, scale_signs(part), weights.data(), settings_.steps);
}

// Layers ---------------------------------------------------------------------------------------

void CalibratedRounding::run_layer(uint32_t layer) {
  run_block(layer, &FloatModel::mix);
  run_block(layer, &FloatModel::feed_forward);
  for (const PlannedTensor& tensor : weights_.tensors()) {
    if (tensor.spec.layer == layer && is_rounded(tensor.spec)) fill_up(tensor);
  }
}

void CalibratedRounding::run_block(uint32_t layer,
                                   void (FloatModel::*run)(uint32_t, const Products&, Stream*)) {
  missing_ = missing_residual();
  const Products keeping = [this, layer](std::span<const LinearCall> calls, uint32_t index,
                                         const float* x, size_t n) {
    const Tensor& first = *calls.front().tensor;
    const TensorSpec& spec = spec_of(first);
    if (is_any_rounded(calls) && !is_of_experts(spec.role) && spec.layer == layer) {
      recorded_[{first.number, index}] = Floats(x, x + n * first.shape.cols);
    }
    multiply_exactly(calls, index, x, n);
  };
  (model_.*run)(layer, keeping, &exact_);
  const Products rounding = [this](std::span<const LinearCall> calls, uint32_t index,
                                   const float* x, size_t n) { round_group(calls, index, x, n); };
  (model_.*run)(layer, rounding, &rounded_);
  recorded_.clear();
}

// Matrices -------------------------------------------------------------------------------------

void CalibratedRounding::multiply_exactly(std::span<const LinearCall> calls, uint32_t index,
                                          const float* x, size_t n) const {
  for (const LinearCall& call : calls) {
    const PlannedTensor& tensor = weights_.tensors()[call.tensor->number];
    multiply(pool_, x, n, weights_.panels(tensor, PanelFormat::kF32, index), call.y);
  }
}

void CalibratedRounding::round_group(std::span<const LinearCall> calls, uint32_t index,
                                     const float* x, size_t n) {
  if (!is_any_rounded(calls)) return multiply_exactly(calls, index, x, n);
  if (spec_of(*calls.front().tensor).layer == format::kNone) {
    return multiply_projection(calls.front(), index, x, n);
  }
  const Inputs inputs = inputs_of(*calls.front().tensor, index, x, n);
  const bool is_unseen = is_of_experts(spec_of(*calls.front().tensor).role) &&
                         inputs.n_training < std::min(inputs.cols, kFewestRows);
  std::optional<RoundingBasis> basis;
  if (!is_unseen) basis = make_basis_of(inputs);
  const Shift shift = basis ? make_shift(inputs, *basis) : Shift{};
  for (const LinearCall& call : calls) {
    const PlannedTensor& tensor = weights_.tensors()[call.tensor->number];
    const TensorSpec& spec = tensor.spec;
    if (!is_rounded(spec)) {
      multiply_exactly({&call, 1}, index, x, n);
      continue;
    }
    const Floats weights = weights_.matrix(tensor, index);
    if (!basis) {
      multiply(pool_, x, n, panels_of(keep_plain(spec, index, weights), spec.shape), call.y);
      continue;
    }
    const RoundedPart part = round_part(spec, weights, inputs, *basis, shift);
    const bool is_calibrated = keep_better(spec, index, part);
    multiply(pool_, x, n, is_calibrated ? part.of_calibrated : part.of_plain, call.y);
  }
}

void CalibratedRounding::multiply_projection(const LinearCall& call, uint32_t index, const float* x,
                                             size_t n) {
  const TensorSpec& spec = spec_of(*call.tensor);
  const RoundedRows rows =
      part_of(make_rounded(spec).rows, size_t{index} * spec.shape.rows, spec.shape);
  multiply(pool_, x, n, panels_of(rows, spec.shape), call.y);
}

const TensorSpec& CalibratedRounding::spec_of(const Tensor& matrix) const {
  return weights_.tensors()[matrix.number].spec;
}

bool CalibratedRounding::is_any_rounded(std::span<const LinearCall> calls) const {
  return std::any_of(calls.begin(), calls.end(),
                     [&](const LinearCall& call) { return is_rounded(spec_of(*call.tensor)); });
}

CalibratedRounding::Inputs CalibratedRounding::inputs_of(const Tensor& matrix, uint32_t index,
                                                         const float* x, size_t n) {
  const TensorSpec& spec = spec_of(matrix);
  Inputs inputs = {x, n, n_training_, matrix.shape.cols, {}, nullptr};
  const auto recorded = recorded_.find({matrix.number, index});
  if (recorded == recorded_.end()) {
    // An expert's rows stand in order, too.
    inputs.n_training = n - n / kHeldOutOneIn;
    return inputs;
  }
  inputs.exact = std::move(recorded->second);
  recorded_.erase(recorded);
  if (settings_.shifts_targets && is_added(spec.role, config_.kind_of(spec.layer))) {
    inputs.missing = &missing_;
  }
  subtract_rounded(&inputs);
  return inputs;
}

void CalibratedRounding::subtract_rounded(Inputs* inputs) const {
  if (!settings_.shifts_targets) return;
  for (size_t i = 0; i < inputs->n_training * inputs->cols; ++i) {
    inputs->exact[i] -= inputs->rounded[i];
  }
}

RoundingBasis CalibratedRounding::make_basis_of(const Inputs& inputs) const {
  const size_t cols = inputs.cols;
  Floats sums(cols * cols);
  add_products(pool_, inputs.rounded, cols, inputs.rounded, cols, inputs.n_training, sums.data());
  return make_basis(pool_, sums, cols, settings_.damping,
                    settings_.steps.feedback || settings_.shifts_targets);
}

// Sums of products of the inputs' differences with the rounded ones, turned: a matrix's products
// with it are those of the outputs' differences.
PanelMatrix CalibratedRounding::cross_products(const Inputs& inputs) const {
  const size_t cols = inputs.cols;
  Floats sums(cols * cols);
  add_products(pool_, inputs.exact.data(), cols, inputs.rounded, cols, inputs.n_training,
               sums.data());
  PanelMatrix cross(cols, cols, PanelFormat::kF32);
  for (size_t i = 0; i < cols; ++i) cross.set_col(i, sums.data() + i * cols);
  return cross;
}

// What outputs lack, by way of the outputs themselves.
Floats CalibratedRounding::missing_products(const Inputs& inputs,
                                            const PanelMatrix& weights) const {
  const size_t rows = weights.rows();
  Floats outputs(inputs.n_training * rows);
  multiply(pool_, inputs.exact.data(), inputs.n_training, weights, outputs.data());
  for (size_t i = 0; i < outputs.size(); ++i) outputs[i] += (*inputs.missing)[i];
  Floats sums(rows * inputs.cols);
  add_products(pool_, outputs.data(), rows, inputs.rounded, inputs.cols, inputs.n_training,
               sums.data());
  return sums;
}

Floats CalibratedRounding::missing_residual() const {
  if (!settings_.shifts_targets) return {};
  Floats missing(exact_.x.size());
  for (size_t i = 0; i < missing.size(); ++i) {
    missing[i] = (exact_.x[i] - rounded_.x[i]) / config_.model->residual_multiplier;
  }
  return missing;
}

Floats CalibratedRounding::targets_of(const Floats& weights, const PanelMatrix& panels,
                                      const Inputs& inputs, const Shift& shift) const {
  if (!shift.solve) return weights;
  if (inputs.missing != nullptr) {
    return shift.solve->targets(weights, missing_products(inputs, panels));
  }
  Floats sums(weights.size());
  multiply(pool_, weights.data(), panels.rows(), shift.cross, sums.data());
  return shift.solve->targets(weights, sums);
}

CalibratedRounding::Shift CalibratedRounding::make_shift(const Inputs& inputs,
                                                         const RoundingBasis& basis) const {
  Shift shift;
  if (!settings_.shifts_targets || inputs.exact.empty()) return shift;
  shift.solve.emplace(pool_, basis);
  // Matrices that write to the residual stream have few rows: their outputs are the cheaper way.
  if (inputs.missing == nullptr) shift.cross = cross_products(inputs);
  return shift;
}

bool CalibratedRounding::is_rounded(const TensorSpec& spec) const {
  if (spec.form != TensorForm::kMatrix) return false;
  const format::NumberFormat f = spec.shape.number_format;
  if (is_trained_bits(f)) return false;  // there is nothing to choose
  return is_calibrated(f) ||
         (is_integer(f) && settings_.shifts_targets && !is_of_experts(spec.role));
}

CalibratedRounding::Rounded& CalibratedRounding::make_rounded(const TensorSpec& spec) {
  Rounded& rounded = found_[{spec.role, spec.layer}];
  if (!rounded.is_there.empty()) return rounded;
  rounded.is_there.resize(spec.n_matrices);
  rounded.rows = places_for(spec.shape, size_t{spec.n_matrices} * spec.shape.rows);
  return rounded;
}

void CalibratedRounding::fill_up(const PlannedTensor& tensor) {
  const Rounded& rounded = make_rounded(tensor.spec);
  for (uint32_t i = 0; i < tensor.spec.n_matrices; ++i) {
    if (!rounded.is_there[i]) (void)keep_plain(tensor.spec, i, weights_.matrix(tensor, i));
  }
}

void CalibratedRounding::round_output_layer(const PlannedTensor& tensor) {
  const Floats rounded = model_.finish(rounded_.x);
  Inputs inputs = {rounded.data(),         model_.n_rows(),         n_training_,
                   config_.model->d_model, model_.finish(exact_.x), nullptr};
  subtract_rounded(&inputs);
  const RoundingBasis basis = make_basis_of(inputs);
  const Shift shift = make_shift(inputs, basis);
  RoundedPart whole;
  whole.plain = places_for(tensor.spec.shape, tensor.spec.shape.rows);
  whole.calibrated = whole.plain;
  for_row_parts(tensor.spec, [&](const TensorSpec& spec, size_t first) {
    const RoundedPart part =
        round_part(spec, weights_.rows(tensor, first, spec.shape.rows), inputs, basis, shift);
    put(part.plain, first, spec.shape, &whole.plain);
    put(part.calibrated, first, spec.shape, &whole.calibrated);
    whole.signal += part.signal;
    whole.plain_error += part.plain_error;
    whole.calibrated_error += part.calibrated_error;
  });
  (void)keep_better(tensor.spec, 0, whole);
}

CalibratedRounding::RoundedPart CalibratedRounding::round_part(const TensorSpec& spec,
                                                               const Floats& weights,
                                                               const Inputs& inputs,
                                                               const RoundingBasis& basis,
                                                               const Shift& shift) const {
  const MatrixShape& shape = spec.shape;
  const PanelMatrix exact =
      to_panels(pool_, weights.data(), shape.rows, shape.cols, PanelFormat::kF32);
  RoundedPart part;
  part.plain = round_plainly(pool_, spec, QuantMethod::kMse, weights.data());
  const Floats targets = targets_of(weights, exact, inputs, shift);
  part.calibrated =
      is_calibrated(shape.number_format)
          ? round_rows(pool_, basis, shape, scale_signs(spec), targets.data(), settings_.steps)
          : round_plainly(pool_, spec, QuantMethod::kMse, targets.data());
  const float* const wanted_of = inputs.exact.empty() ? inputs.rounded : inputs.exact.data();
  Floats wanted = held_out_outputs(inputs, wanted_of, exact);
  part.signal = sum_of_squares(wanted);
  if (inputs.missing != nullptr) {
    const float* missing = inputs.missing->data() + inputs.n_training * shape.rows;
    for (size_t i = 0; i < wanted.size(); ++i) wanted[i] += missing[i];
  }
  part.of_plain = panels_of(part.plain, shape);
  part.of_calibrated = panels_of(part.calibrated, shape);
  const auto error_of = [&](const PanelMatrix& matrix) {
    return squared_difference(wanted, held_out_outputs(inputs, inputs.rounded, matrix));
  };
  part.plain_error = error_of(part.of_plain);
  part.calibrated_error = error_of(part.of_calibrated);
  return part;
}

bool CalibratedRounding::keep_better(const TensorSpec& spec, uint32_t index,
                                     const RoundedPart& part) {
  const bool is_calibrated = part.calibrated_error < part.plain_error;
  Sums& sums = keep(spec, index, is_calibrated ? part.calibrated : part.plain).sums;
  sums.signal += part.signal;
  sums.plain += part.plain_error;
  sums.kept += std::min(part.plain_error, part.calibrated_error);
  sums.n_calibrated += is_calibrated ? 1 : 0;
  return is_calibrated;
}

RoundedRows CalibratedRounding::keep_plain(const TensorSpec& spec, uint32_t index,
                                           const Floats& weights) {
  RoundedRows plain = round_plainly(pool_, spec, QuantMethod::kMse, weights.data());
  ++keep(spec, index, plain).sums.n_unseen;
  return plain;
}

CalibratedRounding::Rounded& CalibratedRounding::keep(const TensorSpec& spec, uint32_t index,
                                                      const RoundedRows& rows) {
  Rounded& rounded = make_rounded(spec);
  put(rows, size_t{index} * spec.shape.rows, spec.shape, &rounded.rows);
  rounded.is_there[index] = true;
  return rounded;
}

Floats CalibratedRounding::held_out_outputs(const Inputs& inputs, const float* x,
                                            const PanelMatrix& matrix) const {
  const size_t n = inputs.n - inputs.n_training;
  Floats out(n * matrix.rows());
  multiply(pool_, x + inputs.n_training * inputs.cols, n, matrix, out.data());
  return out;
}

PanelMatrix CalibratedRounding::panels_of(const RoundedRows& rounded,
                                          const MatrixShape& shape) const {
  Floats values(size_t{shape.rows} * shape.cols);
  expand_rows(shape, rounded, values.data());
  return to_panels(pool_, values.data(), shape.rows, shape.cols, PanelFormat::kF32);
}

}  // namespace cria::converter
