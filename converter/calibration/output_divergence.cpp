#include "converter/calibration/output_divergence.h"

#include <algorithm>
#include <utility>

#include "converter/calibration/rounded_values.h"
#include "platforms/hosted/base/shared_loop.h"

namespace cria::converter {
namespace {

using format::TensorRole;

constexpr size_t kLeastRows = 16;  // of logits

FloatLinear FloatLayer::*linear_of(TensorRole role) {
  switch (role) {
    case TensorRole::kQ:
      return &FloatLayer::q;
    case TensorRole::kK:
      return &FloatLayer::k;
    case TensorRole::kV:
      return &FloatLayer::v;
    case TensorRole::kO:
      return &FloatLayer::o;
    case TensorRole::kGate:
      return &FloatLayer::gate;
    case TensorRole::kUp:
      return &FloatLayer::up;
    default:
      return &FloatLayer::down;
  }
}

}  // namespace

OutputDivergence::OutputDivergence(const FloatDecoder& decoder, const PlannedWeights& weights,
                                   TokenSequences sequences, QuantMethod method,
                                   hosted::ThreadPool* pool)
    : weights_(weights),
      method_(method),
      pool_(pool),
      model_(decoder, weights, std::move(sequences), pool),
      config_(decoder.config()) {}

std::vector<double> OutputDivergence::measure(std::span<const TensorSpec> matrices,
                                              const std::function<void(size_t, size_t)>& progress,
                                              size_t stream_bytes) {
  const size_t n_at_once = std::max<size_t>(
      1, stream_bytes / (model_.n_rows() * config_.model->d_model * sizeof(float)));
  // The float model's layers are steps as well, and every output layer is one.
  const size_t n_batches = (matrices.size() + n_at_once - 1) / n_at_once;
  size_t n_steps = n_batches * config_.model->n_layers + matrices.size();
  for (const TensorSpec& spec : matrices) {
    if (spec.role == TensorRole::kLmHead) continue;
    n_steps += config_.model->n_layers - (spec.layer == format::kNone ? 0 : spec.layer);
  }
  size_t n_done = 0;
  const auto step = [&] { progress(++n_done, n_steps); };
  std::vector<double> found(matrices.size());
  for (size_t first = 0; first < matrices.size(); first += n_at_once) {
    const size_t n = std::min(n_at_once, matrices.size() - first);
    run_batch(matrices.subspan(first, n), step, found.data() + first);
  }
  return found;
}

bool OutputDivergence::is_output_layer(const TensorSpec& spec) const {
  const bool is_tied = has_flag(config_, format::kTiedEmbedding);
  return spec.role == (is_tied ? TensorRole::kEmbedding : TensorRole::kLmHead);
}

Floats OutputDivergence::embed(const TensorSpec* rounded) const {
  const PlannedTensor& tensor = *weights_.find(TensorRole::kEmbedding, format::kNone);
  const size_t n_rows = tensor.spec.shape.rows;
  Floats x(model_.n_rows() * config_.model->d_model);
  for (size_t first = 0; first < n_rows; first += kPartRows) {
    const size_t n = std::min(kPartRows, n_rows - first);
    Floats rows = weights_.rows(tensor, first, n);
    if (rounded != nullptr) round_values(pool_, *rounded, method_, n, rows.data());
    model_.embed(rows, first, &x);
  }
  return x;
}

PanelMatrix OutputDivergence::panels(TensorRole role, uint32_t layer,
                                     const TensorSpec* rounded) const {
  if (rounded == nullptr) return weights_.panels(role, layer, PanelFormat::kF32);
  const PlannedTensor& tensor = *weights_.find(role, layer);
  const size_t n_rows = tensor.spec.shape.rows;
  const size_t cols = tensor.spec.shape.cols;
  PanelMatrix panels(n_rows, cols, PanelFormat::kF32);
  for (size_t first = 0; first < n_rows; first += kPartRows) {
    const size_t n = std::min(kPartRows, n_rows - first);
    Floats rows = weights_.rows(tensor, first, n);
    round_values(pool_, *rounded, method_, n, rows.data());
    for (size_t i = 0; i < n; ++i) panels.set_row(first + i, rows.data() + i * cols);
  }
  return panels;
}

PanelMatrix OutputDivergence::output_layer(const TensorSpec* rounded) const {
  const bool is_tied = has_flag(config_, format::kTiedEmbedding);
  return panels(is_tied ? TensorRole::kEmbedding : TensorRole::kLmHead, format::kNone, rounded);
}

void OutputDivergence::find_logits(const Floats& x, const PanelMatrix& head, size_t first, size_t n,
                                   float* logits) const {
  multiply(pool_, x.data() + first * config_.model->d_model, n, head, logits);
  if (config_.model->logits_divisor == 1.0f) return;
  for (size_t i = 0; i < n * config_.model->vocab_size; ++i)
    logits[i] /= config_.model->logits_divisor;
}

void OutputDivergence::run_batch(std::span<const TensorSpec> matrices,
                                 const std::function<void()>& step, double* found) {
  std::vector<Variant> variants(matrices.size());
  for (size_t i = 0; i < variants.size(); ++i) variants[i].spec = &matrices[i];
  run_layers(&variants, step);
  {
    std::vector<Variant*> others;
    for (Variant& variant : variants) {
      if (!is_output_layer(*variant.spec)) others.push_back(&variant);
    }
    compare(output_layer(nullptr), others);
  }
  for (Variant& variant : variants) {
    step();
    if (!is_output_layer(*variant.spec)) continue;
    Variant* const one[] = {&variant};
    compare(output_layer(variant.spec), one);
  }
  for (size_t i = 0; i < variants.size(); ++i) {
    found[i] = variants[i].sum / static_cast<double>(model_.n_rows());
  }
}

void OutputDivergence::run_layers(std::vector<Variant>* variants,
                                  const std::function<void()>& step) {
  Floats exact = embed(nullptr);
  for (Variant& variant : *variants) {
    if (variant.spec->role == TensorRole::kEmbedding) variant.x = embed(variant.spec);
  }
  for (uint32_t i = 0; i < config_.model->n_layers; ++i) {
    FloatLayer layer = read_layer(weights_, i, PanelFormat::kF32);
    for (Variant& variant : *variants) {
      const bool begins = variant.spec->layer == i;
      if (!begins && variant.x.empty()) continue;
      if (begins) {
        FloatLinear& linear = layer.*linear_of(variant.spec->role);
        PanelMatrix matrix = panels(variant.spec->role, i, variant.spec);
        std::swap(linear.matrix, matrix);
        variant.x = exact;
        model_.run_layer(i, layer, &variant.x);
        std::swap(linear.matrix, matrix);
      } else {
        model_.run_layer(i, layer, &variant.x);
      }
      step();
    }
    model_.run_layer(i, layer, &exact);
    step();
  }
  const auto finish = [&](Floats* x) {
    *x = model_.normalize(*x, TensorRole::kFinalNorm, format::kNone);
  };
  finish(&exact);
  for (Variant& variant : *variants) {
    if (variant.spec->role == TensorRole::kLmHead) {
      variant.x = exact;
    } else {
      finish(&variant.x);
    }
  }
  if (!logits_.empty()) return;
  logits_.resize(model_.n_rows() * config_.model->vocab_size);
  find_logits(exact, output_layer(nullptr), 0, model_.n_rows(), logits_.data());
}

void OutputDivergence::compare(const PanelMatrix& head, std::span<Variant* const> variants) const {
  const size_t n_rows = model_.n_rows();
  const size_t vocab = config_.model->vocab_size;
  const size_t n_at_once =
      std::min(n_rows, std::max(kLeastRows, kLogitBytes / (vocab * sizeof(float))));
  Floats shares(n_at_once * vocab);
  Floats logits(n_at_once * vocab);
  std::vector<double> of_rows(n_at_once);
  for (size_t first = 0; first < n_rows; first += n_at_once) {
    const size_t n = std::min(n_at_once, n_rows - first);
    const float* const exact = logits_.data() + first * vocab;
    std::copy_n(exact, n * vocab, shares.data());
    hosted::shared_loop(pool_, n,
                        [&](size_t i, size_t) { softmax(shares.data() + i * vocab, vocab); });
    for (Variant* variant : variants) {
      find_logits(variant->x, head, first, n, logits.data());
      hosted::shared_loop(pool_, n, [&](size_t i, size_t) {
        of_rows[i] = divergence(shares.data() + i * vocab, exact + i * vocab,
                                logits.data() + i * vocab, vocab);
      });
      for (size_t i = 0; i < n; ++i) variant->sum += of_rows[i];
    }
  }
}

}  // namespace cria::converter
