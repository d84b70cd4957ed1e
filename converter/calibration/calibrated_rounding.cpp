#include "converter/calibration/calibrated_rounding.h"

#include <algorithm>

#include "converter/calibration/rounded_values.h"
#include "quant/quantize.h"

namespace cria::converter {
namespace {

using format::TensorRole;

constexpr size_t kHeldOutOneIn = 8;
constexpr size_t kPartRows = 4096;     // of a table, in memory at once
constexpr size_t kTableTokens = 8192;  // enough for the sums of inputs that are d_model wide

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

void append(const RoundedRows& part, RoundedRows* whole) {
  whole->codes.insert(whole->codes.end(), part.codes.begin(), part.codes.end());
  whole->scales.insert(whole->scales.end(), part.scales.begin(), part.scales.end());
  whole->row_scales.insert(whole->row_scales.end(), part.row_scales.begin(), part.row_scales.end());
}

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

CalibratedRounding::CalibratedRounding(const FloatDecoder& decoder, const PlannedWeights& weights,
                                       const TokenSequences& sequences,
                                       const RoundingSettings& settings, hosted::ThreadPool* pool)
    : weights_(weights),
      settings_(settings),
      pool_(pool),
      model_(decoder, weights, held_out_last(sequences, &n_training_), pool),
      config_(decoder.config()) {}

const RoundedRows* CalibratedRounding::rounded(const TensorSpec& spec) {
  if (!started_) start();
  while (spec.layer != format::kNone && n_layers_done_ <= spec.layer) {
    rounded_.clear();
    run_layer(n_layers_done_++);
  }
  if (spec.role == TensorRole::kLmHead && !rounded_.contains({spec.role, spec.layer})) {
    round_output_layer(*weights_.find(spec.role, spec.layer));
  }
  const auto found = rounded_.find({spec.role, spec.layer});
  return found == rounded_.end() ? nullptr : &found->second;
}

const RoundingOutcome* CalibratedRounding::outcome(const TensorSpec& spec) const {
  const auto found = outcomes_.find({spec.role, spec.layer});
  return found == outcomes_.end() ? nullptr : &found->second;
}

// The embedding --------------------------------------------------------------------------------

void CalibratedRounding::start() {
  started_ = true;
  const PlannedTensor& tensor = *weights_.find(TensorRole::kEmbedding, format::kNone);
  const bool is_tied = has_flag(config_, format::kTiedEmbedding);
  x_.exact.resize(model_.n_rows() * config_.model->d_model);
  for_row_parts(tensor.spec, [&](const TensorSpec& part, size_t first) {
    model_.embed(weights_.rows(tensor, first, part.shape.rows), first, &x_.exact);
  });
  x_.rounded = x_.exact;
  // The targets of a table are its weights: in eight bits it is as without calibration.
  if (!has_nibbles(tensor.spec.shape.number_format)) return;
  std::optional<RoundingBasis> basis;
  if (is_tied && settings_.steps.feedback) basis = make_table_basis();
  RoundedRows& codes = rounded_[{TensorRole::kEmbedding, format::kNone}];
  for_row_parts(tensor.spec, [&](const TensorSpec& part, size_t first) {
    Floats rows = weights_.rows(tensor, first, part.shape.rows);
    const RoundedRows rounded = round_table(part, rows, basis);
    expand_rows(part.shape, rounded, rows.data());
    model_.embed(rows, first, &x_.rounded);
    append(rounded, &codes);
  });
}

RoundingBasis CalibratedRounding::make_table_basis() const {
  // What goes into the output layer is what the float model puts out.
  TokenSequences sequences;
  for (size_t i = 0, n = 0; i < model_.sequences().size() && n < kTableTokens; ++i) {
    sequences.push_back(model_.sequences()[i]);
    n += sequences.back().size();
  }
  const size_t n = std::min(token_count(sequences), n_training_);
  const size_t cols = config_.model->d_model;
  const FloatModel part(model_.decoder(), weights_, std::move(sequences), pool_);
  Floats outputs(x_.exact.begin(),
                 x_.exact.begin() + static_cast<std::ptrdiff_t>(part.n_rows() * cols));
  part.run(&outputs);
  outputs = part.normalize(outputs, TensorRole::kFinalNorm, format::kNone);
  Floats sums(cols * cols);
  add_products(pool_, outputs.data(), cols, outputs.data(), cols, n, sums.data());
  return make_basis(pool_, sums, cols, settings_.table_damping);
}

RoundedRows CalibratedRounding::round_table(const TensorSpec& part, const Floats& weights,
                                            const std::optional<RoundingBasis>& basis) const {
  if (!basis) return round_plainly(pool_, part, QuantMethod::kMse, weights.data());
  return round_rows(pool_, *basis, part.shape, scale_signs(part), weights.data(), settings_.steps);
}

// A layer --------------------------------------------------------------------------------------

void CalibratedRounding::run_layer(uint32_t layer) {
  Both inputs = normalize(TensorRole::kMixerNorm, layer);
  {
    const std::vector<BothLinear> qkv =
        round_group({TensorRole::kQ, TensorRole::kK, TensorRole::kV}, layer, inputs);
    inputs.exact = model_.attend(layer, qkv[0].exact, qkv[1].exact, qkv[2].exact, inputs.exact);
    inputs.rounded =
        model_.attend(layer, qkv[0].rounded, qkv[1].rounded, qkv[2].rounded, inputs.rounded);
    inputs.missing = missing_residual();
  }
  {
    const BothLinear o = std::move(round_group({TensorRole::kO}, layer, inputs).front());
    model_.add_block(o.exact, inputs.exact, &x_.exact);
    model_.add_block(o.rounded, inputs.rounded, &x_.rounded);
  }
  inputs = normalize(TensorRole::kFfnNorm, layer);
  {
    const std::vector<BothLinear> gate_up =
        round_group({TensorRole::kGate, TensorRole::kUp}, layer, inputs);
    inputs.exact = model_.activate(gate_up[0].exact, gate_up[1].exact, inputs.exact);
    inputs.rounded = model_.activate(gate_up[0].rounded, gate_up[1].rounded, inputs.rounded);
    inputs.missing = missing_residual();
  }
  const BothLinear down = std::move(round_group({TensorRole::kDown}, layer, inputs).front());
  model_.add_block(down.exact, inputs.exact, &x_.exact);
  model_.add_block(down.rounded, inputs.rounded, &x_.rounded);
}

CalibratedRounding::Both CalibratedRounding::normalize(TensorRole norm, uint32_t layer) const {
  return {model_.normalize(x_.exact, norm, layer), model_.normalize(x_.rounded, norm, layer), {}};
}

// Matrices -------------------------------------------------------------------------------------

RoundingBasis CalibratedRounding::make_basis_of(const Both& inputs, size_t cols) const {
  Floats sums(cols * cols);
  const float* x = inputs.rounded.data();
  add_products(pool_, x, cols, x, cols, n_training_, sums.data());
  return make_basis(pool_, sums, cols, settings_.damping,
                    settings_.steps.feedback || settings_.shifts_targets);
}

Floats CalibratedRounding::training_difference(const Both& inputs, size_t cols) const {
  Floats difference(n_training_ * cols);
  for (size_t i = 0; i < difference.size(); ++i) {
    difference[i] = inputs.exact[i] - inputs.rounded[i];
  }
  return difference;
}

// Sums of products of the inputs' differences with the rounded ones, turned: a matrix's products
// with it are those of the outputs' differences.
PanelMatrix CalibratedRounding::cross_products(const Both& inputs, size_t cols) const {
  Floats sums(cols * cols);
  add_products(pool_, training_difference(inputs, cols).data(), cols, inputs.rounded.data(), cols,
               n_training_, sums.data());
  PanelMatrix cross(cols, cols, PanelFormat::kF32);
  for (size_t i = 0; i < cols; ++i) cross.set_col(i, sums.data() + i * cols);
  return cross;
}

// What outputs lack, by way of the outputs themselves.
Floats CalibratedRounding::missing_products(const Both& inputs, const PanelMatrix& weights) const {
  const size_t rows = weights.rows();
  const size_t cols = weights.cols();
  Floats outputs(n_training_ * rows);
  multiply(pool_, training_difference(inputs, cols).data(), n_training_, weights, outputs.data());
  for (size_t i = 0; i < outputs.size(); ++i) outputs[i] += inputs.missing[i];
  Floats sums(rows * cols);
  add_products(pool_, outputs.data(), rows, inputs.rounded.data(), cols, n_training_, sums.data());
  return sums;
}

Floats CalibratedRounding::missing_residual() const {
  if (!settings_.shifts_targets) return {};
  Floats missing(x_.exact.size());
  for (size_t i = 0; i < missing.size(); ++i) {
    missing[i] = (x_.exact[i] - x_.rounded[i]) / config_.model->residual_multiplier;
  }
  return missing;
}

std::vector<CalibratedRounding::BothLinear> CalibratedRounding::round_group(
    const std::vector<TensorRole>& roles, uint32_t layer, const Both& inputs) {
  const size_t cols = weights_.find(roles.front(), layer)->spec.shape.cols;
  const RoundingBasis basis = make_basis_of(inputs, cols);
  const Shift shift = make_shift(inputs, basis);
  std::vector<BothLinear> linears;
  for (const TensorRole role : roles) {
    linears.push_back(round_matrix(*weights_.find(role, layer), inputs, basis, shift));
  }
  return linears;
}

Floats CalibratedRounding::targets_of(const Floats& weights, const PanelMatrix& panels,
                                      const Both& inputs, const Shift& shift) const {
  if (!shift.solve) return weights;
  if (!inputs.missing.empty()) {
    return shift.solve->targets(weights, missing_products(inputs, panels));
  }
  Floats sums(weights.size());
  multiply(pool_, weights.data(), panels.rows(), shift.cross, sums.data());
  return shift.solve->targets(weights, sums);
}

CalibratedRounding::Shift CalibratedRounding::make_shift(const Both& inputs,
                                                         const RoundingBasis& basis) const {
  Shift shift;
  if (!settings_.shifts_targets) return shift;
  shift.solve.emplace(pool_, basis);
  // Matrices that write to the residual stream have few rows: their outputs are the cheaper way.
  if (inputs.missing.empty()) shift.cross = cross_products(inputs, basis.hessian.rows());
  return shift;
}

bool CalibratedRounding::is_rounded(const MatrixShape& shape) const {
  return has_nibbles(shape.number_format) ||
         (is_integer(shape.number_format) && settings_.shifts_targets);
}

CalibratedRounding::BothLinear CalibratedRounding::round_matrix(const PlannedTensor& tensor,
                                                                const Both& inputs,
                                                                const RoundingBasis& basis,
                                                                const Shift& shift) {
  const TensorRole role = tensor.spec.role;
  const uint32_t layer = tensor.spec.layer;
  BothLinear linear;
  linear.exact.bias = weights_.bias(role, layer);
  linear.rounded.bias = linear.exact.bias;
  if (!is_rounded(tensor.spec.shape)) {
    linear.exact.matrix = weights_.panels(role, layer, PanelFormat::kF32);
    linear.rounded.matrix = linear.exact.matrix;
    return linear;
  }
  RoundedPart part = round_part(tensor.spec, weights_.matrix(role, layer), inputs, basis, shift);
  keep_better(tensor.spec, &part);
  linear.exact.matrix = std::move(part.exact);
  linear.rounded.matrix =
      std::move(outcomes_[{role, layer}].kept_calibrated ? part.of_calibrated : part.of_plain);
  return linear;
}

void CalibratedRounding::round_output_layer(const PlannedTensor& tensor) {
  if (!is_rounded(tensor.spec.shape)) return;
  const Both inputs = normalize(TensorRole::kFinalNorm, format::kNone);
  const RoundingBasis basis = make_basis_of(inputs, tensor.spec.shape.cols);
  const Shift shift = make_shift(inputs, basis);
  RoundedPart whole;
  for_row_parts(tensor.spec, [&](const TensorSpec& spec, size_t first) {
    const RoundedPart part =
        round_part(spec, weights_.rows(tensor, first, spec.shape.rows), inputs, basis, shift);
    append(part.plain, &whole.plain);
    append(part.calibrated, &whole.calibrated);
    whole.signal += part.signal;
    whole.plain_error += part.plain_error;
    whole.calibrated_error += part.calibrated_error;
  });
  keep_better(tensor.spec, &whole);
}

CalibratedRounding::RoundedPart CalibratedRounding::round_part(const TensorSpec& spec,
                                                               const Floats& weights,
                                                               const Both& inputs,
                                                               const RoundingBasis& basis,
                                                               const Shift& shift) const {
  const MatrixShape& shape = spec.shape;
  RoundedPart part;
  part.exact = to_panels(pool_, weights.data(), shape.rows, shape.cols, PanelFormat::kF32);
  part.plain = round_plainly(pool_, spec, QuantMethod::kMse, weights.data());
  const Floats targets = targets_of(weights, part.exact, inputs, shift);
  part.calibrated =
      has_nibbles(shape.number_format)
          ? round_rows(pool_, basis, shape, scale_signs(spec), targets.data(), settings_.steps)
          : round_plainly(pool_, spec, QuantMethod::kMse, targets.data());
  Floats wanted = held_out_outputs(inputs.exact, part.exact);
  part.signal = sum_of_squares(wanted);
  if (!inputs.missing.empty()) {
    const float* missing = inputs.missing.data() + n_training_ * shape.rows;
    for (size_t i = 0; i < wanted.size(); ++i) wanted[i] += missing[i];
  }
  part.of_plain = panels_of(part.plain, shape);
  part.of_calibrated = panels_of(part.calibrated, shape);
  part.plain_error = squared_difference(wanted, held_out_outputs(inputs.rounded, part.of_plain));
  part.calibrated_error =
      squared_difference(wanted, held_out_outputs(inputs.rounded, part.of_calibrated));
  return part;
}

void CalibratedRounding::keep_better(const TensorSpec& spec, RoundedPart* part) {
  RoundingOutcome& outcome = outcomes_[{spec.role, spec.layer}];
  const double divisor = part->signal > 0 ? part->signal : 1;
  outcome.plain_error = part->plain_error / divisor;
  outcome.calibrated_error = part->calibrated_error / divisor;
  outcome.kept_calibrated = outcome.calibrated_error < outcome.plain_error;
  rounded_[{spec.role, spec.layer}] =
      std::move(outcome.kept_calibrated ? part->calibrated : part->plain);
}

Floats CalibratedRounding::held_out_outputs(const Floats& inputs, const PanelMatrix& matrix) const {
  Floats out(n_held_out() * matrix.rows());
  multiply(pool_, inputs.data() + n_training_ * matrix.cols(), n_held_out(), matrix, out.data());
  return out;
}

PanelMatrix CalibratedRounding::panels_of(const RoundedRows& rounded,
                                          const MatrixShape& shape) const {
  Floats values(size_t{shape.rows} * shape.cols);
  expand_rows(shape, rounded, values.data());
  return to_panels(pool_, values.data(), shape.rows, shape.cols, PanelFormat::kF32);
}

}  // namespace cria::converter
