// Finds, for every tensor of a model file, where its values come from in a checkpoint.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "converter/checkpoint.h"
#include "converter/tensor_names.h"
#include "quant/model/model_layout.h"
#include "quant/numbers/quantize.h"

namespace cria::converter {

struct PlannedTensor {
  TensorSpec spec;
  const SourceTensor* source;  // nullptr: of kRope, which is computed
};

[[nodiscard]] inline ScaleSigns scale_signs(const TensorSpec& spec) {
  return spec.has_signed_scales ? ScaleSigns::kBoth : ScaleSigns::kPositive;
}

struct TensorPlan {
  std::vector<PlannedTensor> tensors;  // in the canonical order of quant/model/model_layout.h
  std::vector<std::unique_ptr<SourceTensor>> views;  // where tensors are made of the checkpoint's
  std::vector<std::string> warnings;
};

// Whether it is a bias that adds nothing, as some quantizers write for every matrix.
[[nodiscard]] bool is_zero_bias(const SourceTensor& tensor);

// Whether one matrix serves as embedding and as output layer. config_says_tied is config.json's
// word; a checkpoint that stores two different matrices overrules it, with a warning. One without
// an output layer that needs none, as a model of embeddings, has the embedding there.
[[nodiscard]] bool embedding_is_tied(const Checkpoint& checkpoint, bool config_says_tied,
                                     bool needs_no_head, std::vector<std::string>* warnings);

// Of each tensor, in the canonical order: the format that it was trained in, where its source says
// so. config has passed check_config. Throws ProgramError as plan_tensors.
[[nodiscard]] std::vector<std::optional<MatrixFormat>> trained_formats(const Checkpoint& checkpoint,
                                                                       const Config& config,
                                                                       const StoredForm& form);

// config has passed check_config; formats are those of its tensors, in the canonical order. Throws
// ProgramError for a tensor that is missing, has another shape than the config says, or a number
// type that is not read.
[[nodiscard]] TensorPlan plan_tensors(const Checkpoint& checkpoint, const Config& config,
                                      std::span<const MatrixFormat> formats,
                                      const StoredForm& form = {});

}  // namespace cria::converter
