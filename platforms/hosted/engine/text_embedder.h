// The embeddings of texts that go through a session one after the other, in steps with others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <cria.h>

namespace cria::hosted {

class TextEmbedder {
 public:
  // dimensions of each; 0: all of the model's.
  TextEmbedder(const cria_model* model, size_t n_texts, uint32_t dimensions);

  // Whether the hidden rows of all tokens are read, so that none may be held already.
  [[nodiscard]] bool reads_all() const { return pooling_ != CRIA_POOLING_LAST; }
  // Cuts the entry of a text of n_tokens, `first` of which are read, and asks it for hidden rows.
  void ask(size_t first, size_t n_tokens, cria_batch_entry* entry);
  // The entry has been done.
  void take(size_t first, const cria_batch_entry& entry);
  // The text at hand has been read.
  void end_text(size_t n_tokens);

  // Of the texts that have ended, those of others zero: [n_texts][dimensions].
  [[nodiscard]] std::shared_ptr<const std::vector<float>> embeddings() const { return made_; }

 private:
  const cria_model* model_;
  const cria_pooling pooling_;
  const uint32_t dimensions_;
  std::vector<float> rows_;  // hidden ones of an entry
  std::vector<float> text_;  // the embedding of the text at hand
  std::shared_ptr<std::vector<float>> made_;
  size_t n_made_ = 0;
};

}  // namespace cria::hosted
