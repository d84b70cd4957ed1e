// cria_embed and its parts: from hidden rows to a text's embedding.
#include <algorithm>
#include <cmath>

#include "runtime/decode/session.h"
#include "runtime/decode/step.h"
#include "runtime/decode/workspace.h"

namespace cria {
namespace {

using format::Pooling;

// A causal model's last token has seen all others.
Pooling pooling_of(const cria_model& model) {
  const auto said = static_cast<Pooling>(model.scalars().pooling);
  return said == Pooling::kUnsaid ? Pooling::kLast : said;
}

bool has_unit_length(const cria_model& model) {
  return static_cast<Pooling>(model.scalars().pooling) == Pooling::kUnsaid ||
         has_flag(model.config, format::kUnitEmbeddings);
}

// Sums go by tokens, one after the other: no bit depends on how they were put together in steps.
void add_rows(const cria_model& model, const float* rows, size_t n_rows, size_t first,
              float* embedding) {
  const size_t width = model.scalars().d_model;
  for (size_t i = 0; i < n_rows; ++i, rows += width) {
    switch (pooling_of(model)) {
      case Pooling::kMean:
        if (first + i != 0) {
          for (size_t d = 0; d < width; ++d) embedding[d] += rows[d];
          break;
        }
        [[fallthrough]];
      case Pooling::kFirst:
        if (first + i == 0) std::copy(rows, rows + width, embedding);
        break;
      default:
        std::copy(rows, rows + width, embedding);
    }
  }
}

// What has no direction keeps its zeros.
void make_unit(float* x, size_t n) {
  double squares = 0.0;
  for (size_t d = 0; d < n; ++d) squares += static_cast<double>(x[d]) * static_cast<double>(x[d]);
  if (squares == 0.0) return;
  const double length = std::sqrt(squares);
  for (size_t d = 0; d < n; ++d) x[d] = static_cast<float>(static_cast<double>(x[d]) / length);
}

void finish(const cria_model& model, size_t n_tokens, size_t n, float* embedding) {
  if (pooling_of(model) == Pooling::kMean) {
    for (size_t d = 0; d < n; ++d) embedding[d] /= static_cast<float>(n_tokens);
  }
  if (has_unit_length(model)) make_unit(embedding, n);
}

bool is_dimensions(const cria_model& model, uint32_t dimensions) {
  return dimensions <= model.scalars().d_model;
}

size_t width_of(const cria_model& model, uint32_t dimensions) {
  return dimensions != 0 ? dimensions : model.scalars().d_model;
}

// Hidden rows of a step's tokens wait where the last norm writes them anyway, so that a step is one
// chunk of rows.
Status read_rows(cria_workspace* w, cria_session* s, std::span<const uint32_t> tokens,
                 float* embedding) {
  const Pooling pooling = pooling_of(*w->model);
  const size_t most = std::min(w->n_rows, most_rows(*s));
  for (size_t first = 0; first < tokens.size();) {
    cria_batch_entry entry = {};
    entry.session = s;
    entry.tokens = tokens.data() + first;
    entry.n_tokens = std::min(most, tokens.size() - first);
    entry.hidden.instead_of_logits = 1;
    const size_t end = first + entry.n_tokens;
    const bool is_wanted = pooling == Pooling::kMean ||
                           (pooling == Pooling::kFirst && first == 0) ||
                           (pooling == Pooling::kLast && end == tokens.size());
    if (is_wanted) {
      entry.hidden.rows = w->step.normed;
      entry.hidden.n_rows = pooling == Pooling::kLast ? 1 : entry.n_tokens;
    }
    CRIA_TRY(step(w, {&entry, 1}));
    if (is_wanted)
      add_rows(*w->model, entry.hidden.rows, entry.hidden.n_rows, end - entry.hidden.n_rows,
               embedding);
    first = end;
  }
  return Status::kOk;
}

Status embed(cria_workspace* w, cria_session* s, std::span<const uint32_t> tokens,
             uint32_t dimensions, float* embedding) {
  if (!w->can_run) return Status::kNoWeights;
  cut(s, 0);
  if (tokens.size() > s->context) return Status::kContextFull;
  const Status status = read_rows(w, s, tokens, embedding);
  if (status == Status::kOk) {
    finish(*w->model, tokens.size(), width_of(*w->model, dimensions), embedding);
  } else {
    cut(s, 0);
  }
  return status;
}

}  // namespace
}  // namespace cria

extern "C" {

cria_pooling cria_embedding_pooling(const cria_model* model) {
  return static_cast<cria_pooling>(model != nullptr ? cria::pooling_of(*model)
                                                    : cria::format::Pooling::kUnsaid);
}

cria_status cria_embedding_add(const cria_model* model, const float* hidden, size_t n_rows,
                               size_t first, float* embedding) {
  if (model == nullptr || hidden == nullptr || embedding == nullptr) return CRIA_INVALID_ARGUMENT;
  cria::add_rows(*model, hidden, n_rows, first, embedding);
  return CRIA_OK;
}

cria_status cria_embedding_finish(const cria_model* model, size_t n_tokens, uint32_t dimensions,
                                  float* embedding) {
  if (model == nullptr || n_tokens == 0 || embedding == nullptr ||
      !cria::is_dimensions(*model, dimensions)) {
    return CRIA_INVALID_ARGUMENT;
  }
  cria::finish(*model, n_tokens, cria::width_of(*model, dimensions), embedding);
  return CRIA_OK;
}

cria_status cria_embed(cria_workspace* workspace, cria_session* session, const uint32_t* tokens,
                       size_t n_tokens, uint32_t dimensions, float* embedding) {
  if (workspace == nullptr || session == nullptr || session->model != workspace->model ||
      tokens == nullptr || n_tokens == 0 || embedding == nullptr ||
      !cria::is_dimensions(*workspace->model, dimensions)) {
    return CRIA_INVALID_ARGUMENT;
  }
  return cria::to_public(
      cria::embed(workspace, session, {tokens, n_tokens}, dimensions, embedding));
}

}  // extern "C"
