#include "platforms/hosted/eval/logits_by_token.h"

#include <algorithm>

#include "platforms/hosted/session/arena_memory.h"

namespace cria::hosted {

LogitsByToken::LogitsByToken(const ModelSession& model) : model_(model) {
  constexpr uint32_t kUsualChunk = 64;
  const uint32_t chunk = model.config().prefill_chunk;
  chunk_ = chunk != 0 ? chunk : kUsualChunk;
  check_memory_for(uint64_t{chunk_} * model.info().vocab_size * sizeof(float),
                   "a chunk's logits, which --prefill-chunk makes smaller,");
  logits_.resize(chunk_ * model.info().vocab_size);
}

void LogitsByToken::run(std::span<const uint32_t> tokens, const Use& use) {
  const size_t vocab_size = model_.info().vocab_size;
  for (size_t done = 0; done < tokens.size();) {
    const size_t count = std::min(chunk_, tokens.size() - done);
    const cria_batch_entry entry = {
        model_.session(), tokens.data() + done, count, logits_.data(), {}};
    model_.check(cria_step(model_.workspace(), &entry, 1));
    for (size_t i = 0; i < count; ++i) {
      const auto logits = std::span<const float>(logits_).subspan(i * vocab_size, vocab_size);
      if (!use(done + i, logits)) return;
    }
    done += count;
  }
}

}  // namespace cria::hosted
