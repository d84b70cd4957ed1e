#include "converter/calibration/output_divergence.h"

#include <algorithm>
#include <utility>

#include "converter/calibration/divergence.h"
#include "converter/calibration/rounded_values.h"
#include "platforms/hosted/base/shared_loop.h"

namespace cria::converter {
namespace {

using format::TensorRole;

constexpr size_t kLeastRows = 16;  // of logits

}  // namespace

OutputDivergence::OutputDivergence(const Config& config, const PlannedWeights& weights,
                                   const TokenSequences& sequences, QuantMethod method,
                                   hosted::ThreadPool* pool)
    : weights_(weights),
      method_(method),
      pool_(pool),
      model_(config, weights, sequences, pool),
      config_(config) {}

std::vector<double> OutputDivergence::measure(std::span<const TensorSpec> matrices,
                                              const std::function<void(size_t, size_t)>& progress,
                                              size_t stream_bytes) {
  const auto n_at_once =
      static_cast<size_t>(std::max<uint64_t>(1, stream_bytes / model_.stream_bytes()));
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
  const PlannedTensor& tensor = weights_.find(TensorRole::kEmbedding);
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

PanelMatrix OutputDivergence::panels(const PlannedTensor& tensor, uint32_t index,
                                     const TensorSpec* rounded) const {
  if (rounded == nullptr) return weights_.panels(tensor, PanelFormat::kF32, index);
  const size_t n_rows = tensor.spec.shape.rows;
  const size_t cols = tensor.spec.shape.cols;
  PanelMatrix panels(n_rows, cols, PanelFormat::kF32);
  for (size_t first = 0; first < n_rows; first += kPartRows) {
    const size_t n = std::min(kPartRows, n_rows - first);
    Floats rows = weights_.rows(tensor, index * n_rows + first, n);
    round_values(pool_, *rounded, method_, n, rows.data());
    for (size_t i = 0; i < n; ++i) panels.set_row(first + i, rows.data() + i * cols);
  }
  return panels;
}

PanelMatrix OutputDivergence::output_layer(const TensorSpec* rounded) const {
  return panels(weights_.output_layer(), 0, rounded);
}

void OutputDivergence::find_logits(const Floats& x, const PanelMatrix& head, size_t first, size_t n,
                                   float* logits) const {
  multiply(pool_, x.data() + first * config_.model->d_model, n, head, logits);
  model_.finish_logits(n, logits);
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
  Stream exact = model_.start(embed(nullptr));
  for (Variant& variant : *variants) {
    const TensorSpec& spec = *variant.spec;
    if (spec.role == TensorRole::kEmbedding) variant.stream = model_.start(embed(&spec));
    if (spec.role == TensorRole::kPerLayerProjection) variant.stream = exact;
    if (spec.role != TensorRole::kPerLayerTable) continue;
    variant.stream = exact;
    variant.stream.round_table = [this, &spec](size_t n, float* rows) {
      round_values(pool_, spec, method_, n, rows);
    };
  }
  HeldMatrices layer(weights_, PanelFormat::kF32, pool_);
  for (uint32_t i = 0; i < config_.model->n_layers; ++i) {
    layer.clear();
    layer.read_layer(i);
    for (Variant& variant : *variants) {
      if (variant.spec->layer == i) variant.stream = exact;
      if (variant.stream.x.empty()) continue;
      run_layer(i, &layer, &variant);
      step();
    }
    model_.run_layer(i, layer.products(), &exact);
    step();
  }
  const auto finish = [&](Stream* stream) {
    Stream finished;
    finished.x = model_.finish(stream->x);
    *stream = std::move(finished);
  };
  finish(&exact);
  for (Variant& variant : *variants) {
    if (variant.spec->role == TensorRole::kLmHead) {
      variant.stream = exact;
    } else {
      finish(&variant.stream);
    }
  }
  if (!logits_.empty()) return;
  logits_.resize(model_.n_rows() * config_.model->vocab_size);
  find_logits(exact.x, output_layer(nullptr), 0, model_.n_rows(), logits_.data());
}

void OutputDivergence::run_layer(uint32_t number, HeldMatrices* held, Variant* variant) {
  const TensorSpec& spec = *variant->spec;
  std::vector<uint32_t> indices;
  if (spec.role == TensorRole::kPerLayerProjection) indices.push_back(number);
  for (uint32_t i = 0; spec.layer == number && i < spec.n_matrices; ++i) indices.push_back(i);
  const auto tensors = weights_.tensors();
  const auto found = std::find_if(tensors.begin(), tensors.end(), [&](const PlannedTensor& t) {
    return t.spec.role == spec.role && t.spec.layer == spec.layer;
  });
  std::vector<PanelMatrix> matrices;
  for (const uint32_t index : indices) matrices.push_back(panels(*found, index, &spec));
  const auto swap = [&] {
    for (size_t i = 0; i < indices.size(); ++i) {
      std::swap(held->of(static_cast<uint32_t>(found - tensors.begin()), indices[i]), matrices[i]);
    }
  };
  swap();
  model_.run_layer(number, held->products(), &variant->stream);
  swap();
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
      find_logits(variant->stream.x, head, first, n, logits.data());
      hosted::shared_loop(pool_, n, [&](size_t i, size_t) {
        of_rows[i] = divergence(shares.data() + i * vocab, exact + i * vocab,
                                logits.data() + i * vocab, vocab);
      });
      for (size_t i = 0; i < n; ++i) variant->sum += of_rows[i];
    }
  }
}

}  // namespace cria::converter
