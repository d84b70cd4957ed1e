#include "platforms/hosted/engine/text_embedder.h"

#include <algorithm>

namespace cria::hosted {
namespace {

constexpr size_t kMostRows = 64;  // that an entry gives

}  // namespace

TextEmbedder::TextEmbedder(const cria_model* model, size_t n_texts, uint32_t dimensions)
    : model_(model),
      pooling_(cria_embedding_pooling(model)),
      dimensions_(dimensions != 0 ? dimensions : cria_d_model(model)),
      rows_((reads_all() ? kMostRows : 1) * cria_d_model(model)),
      text_(cria_d_model(model)),
      made_(std::make_shared<std::vector<float>>(n_texts * dimensions_)) {}

void TextEmbedder::ask(size_t first, size_t n_tokens, cria_batch_entry* entry) {
  entry->hidden.instead_of_logits = 1;
  const bool is_last = first + entry->n_tokens == n_tokens;
  if (pooling_ == CRIA_POOLING_LAST && !is_last) return;
  if (pooling_ == CRIA_POOLING_FIRST && first > 0) return;
  if (reads_all()) entry->n_tokens = std::min(entry->n_tokens, kMostRows);
  entry->hidden.rows = rows_.data();
  entry->hidden.n_rows = reads_all() ? entry->n_tokens : 1;
}

void TextEmbedder::take(size_t first, const cria_batch_entry& entry) {
  if (entry.hidden.rows == nullptr) return;
  (void)cria_embedding_add(model_, entry.hidden.rows, entry.hidden.n_rows,
                           first + entry.n_tokens - entry.hidden.n_rows, text_.data());
}

void TextEmbedder::end_text(size_t n_tokens) {
  (void)cria_embedding_finish(model_, n_tokens, dimensions_, text_.data());
  std::copy(text_.begin(), text_.begin() + dimensions_,
            made_->begin() + static_cast<ptrdiff_t>(n_made_++ * dimensions_));
}

}  // namespace cria::hosted
