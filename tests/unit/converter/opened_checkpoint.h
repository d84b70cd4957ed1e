// Checkpoints opened as a conversion does, and the float model's logits, for the converter's tests.
#pragma once

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "converter/calibration/held_matrices.h"
#include "converter/checkpoint.h"
#include "converter/config_import.h"

namespace cria::test {

using namespace converter;

// A checkpoint opened as a conversion does.
struct Opened {
  explicit Opened(const std::filesystem::path& folder) : checkpoint(open_checkpoint(folder)) {
    imported = import_config(checkpoint->read_config());
    checkpoint->open_weights();
    std::vector<std::string> warnings;
    if (embedding_is_tied(*checkpoint, imported.tied_embedding, imported.config.model.pooling != 0,
                          &warnings)) {
      imported.config.model.flags |= format::kTiedEmbedding;
    }
    imported.config.model.planned_context = imported.config.model.max_context;
    config = imported.config.view();
    const std::vector<MatrixFormat> formats(tensor_count(config), {format::NumberFormat::kF32, 0});
    imported.config.count_each(formats);
    config = imported.config.view();
    plan = plan_tensors(*checkpoint, config, formats, imported.form);
  }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;
  std::unique_ptr<Checkpoint> checkpoint;
  ImportedConfig imported;
  Config config;  // of imported
  TensorPlan plan;
};

// The residual stream after each layer.
inline std::vector<Floats> behind_layers(const Opened& opened, const PlannedWeights& weights,
                                         FloatModel* model, hosted::ThreadPool* pool) {
  Floats x(model->n_rows() * opened.config.model->d_model);
  model->embed(weights.matrix(weights.find(format::TensorRole::kEmbedding)), 0, &x);
  Stream stream = model->start(std::move(x));
  std::vector<Floats> found;
  for (uint32_t i = 0; i < opened.config.model->n_layers; ++i) {
    HeldMatrices layer(weights, PanelFormat::kF32, pool);
    layer.read_layer(i);
    model->run_layer(i, layer.products(), &stream);
    found.push_back(stream.x);
  }
  return found;
}

inline std::vector<float> logits_of(const Opened& opened, const TokenSequences& sequences,
                                    size_t n_threads) {
  hosted::ThreadPool pool(n_threads, hosted::FewerThreads::kAreTaken);
  const PlannedWeights weights(opened.plan, opened.imported.rope, &pool);
  FloatModel model(opened.config, weights, sequences, &pool);
  Floats x = behind_layers(opened, weights, &model, &pool).back();
  x = model.finish(x);
  const PanelMatrix head = weights.panels(weights.output_layer(), PanelFormat::kF32);
  std::vector<float> logits(model.n_rows() * opened.config.model->vocab_size);
  multiply(&pool, x.data(), model.n_rows(), head, logits.data());
  model.finish_logits(model.n_rows(), logits.data());
  return logits;
}

}  // namespace cria::test
