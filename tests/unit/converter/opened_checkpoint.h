// Checkpoints opened as a conversion does, and the float model's logits, for the converter's tests.
#pragma once

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "converter/calibration/float_model.h"
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
    if (embedding_is_tied(*checkpoint, imported.tied_embedding, &warnings)) {
      imported.config.model.flags |= format::kTiedEmbedding;
    }
    imported.config.model.planned_context = imported.config.model.max_context;
    config = imported.config.view();
    const std::vector<MatrixFormat> formats(tensor_count(config), {format::NumberFormat::kF32, 0});
    imported.config.count_each(formats);
    config = imported.config.view();
    plan = plan_tensors(*checkpoint, config, formats);
  }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;
  std::unique_ptr<Checkpoint> checkpoint;
  ImportedConfig imported;
  Config config;  // of imported
  TensorPlan plan;
};

inline std::vector<float> logits_of(const Opened& opened, const TokenSequences& sequences,
                                    size_t n_threads) {
  const Config& config = opened.config;
  hosted::ThreadPool pool(n_threads, hosted::FewerThreads::kAreTaken);
  const PlannedWeights weights(opened.plan, &pool);
  size_t longest = 0;
  for (const std::vector<uint32_t>& tokens : sequences) longest = std::max(longest, tokens.size());
  const FloatDecoder decoder(config, opened.imported.rope, longest, &pool);
  const FloatModel model(decoder, weights, sequences, &pool);
  Floats x(model.n_rows() * config.model->d_model);
  model.embed(weights.matrix(format::TensorRole::kEmbedding, format::kNone), 0, &x);
  model.run(&x);
  x = model.normalize(x, format::TensorRole::kFinalNorm, format::kNone);
  const bool tied = has_flag(config, format::kTiedEmbedding);
  const PanelMatrix head =
      weights.panels(tied ? format::TensorRole::kEmbedding : format::TensorRole::kLmHead,
                     format::kNone, PanelFormat::kF32);
  std::vector<float> logits(model.n_rows() * config.model->vocab_size);
  multiply(&pool, x.data(), model.n_rows(), head, logits.data());
  for (float& value : logits) value /= config.model->logits_divisor;
  return logits;
}

}  // namespace cria::test
