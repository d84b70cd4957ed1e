// Matrices of one layer or of several, as panels.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "converter/calibration/float_model.h"

namespace cria::converter {

class HeldMatrices {
 public:
  // What is passed outlives this.
  HeldMatrices(const PlannedWeights& weights, PanelFormat format, hosted::ThreadPool* pool)
      : weights_(weights), format_(format), pool_(pool) {}

  // Reads those of a layer, besides what is held; of the per-layer projections that of the layer.
  // Throws ProgramError.
  void read_layer(uint32_t layer);
  void clear() { held_.clear(); }

  // A tensor's, by its place; of a stack that at index.
  [[nodiscard]] PanelMatrix& of(uint32_t number, uint32_t index) {
    return held_.at({number, index});
  }
  // Multiplies by what is held.
  [[nodiscard]] Products products();

 private:
  const PlannedWeights& weights_;
  PanelFormat format_;
  hosted::ThreadPool* pool_;
  std::map<std::pair<uint32_t, uint32_t>, PanelMatrix> held_;
};

}  // namespace cria::converter
