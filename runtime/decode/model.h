// The object behind cria_model: what is fixed once it is loaded.
#pragma once

#include "runtime/backends/backend.h"
#include "runtime/kernels/kernels.h"
#include "runtime/loading/file_index.h"
#include "runtime/text/tokenizer.h"
#include "runtime/weights/weights.h"

struct cria_model {
  cria::FileIndex index;
  cria::Config config;    // in the model's own memory
  cria::Weights weights;  // not of a model without them
  const cria::Backend* backend;
  cria::Kernels kernels;
  bool has_weights;
  bool has_tokenizer;
  bool has_chat_template;
  cria::Tokenizer tokenizer;
  cria::ChatTemplate chat_template;
  size_t n_bytes;  // of memory, this object included

  [[nodiscard]] const cria::format::ModelScalars& scalars() const { return *config.model; }
};
static_assert(sizeof(cria_model) <= cria::kModelObjectBytes);
