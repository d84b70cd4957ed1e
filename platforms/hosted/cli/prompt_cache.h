// --prompt-cache: the state behind a prompt in a file, so that it is read once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "platforms/hosted/session/model_session.h"

namespace cria::hosted {

// 64 bytes, "criaprm1" and what decides the bits besides the state (kernels and version, zeros
// behind it), then the state of cria_state_save. A cache of something else, or damaged, is told and
// written anew; a file that is none is refused, so that nothing else is written over.
class PromptCache {
 public:
  // An empty path: there is no cache. Throws ProgramError where path names what cannot be one.
  PromptCache(const ModelSession& model, const std::string& path);

  // Makes the empty session begin as tokens do; gives how many of them it then holds, all of them
  // only together with their logits. No other bits than reading them gives.
  size_t restore(std::span<const uint32_t> tokens);
  // Keeps the session, which holds the prompt, unless the file has it already. What fails is told.
  void keep() const;

 private:
  size_t reusable(std::span<const uint32_t> tokens) const;

  const ModelSession& model_;
  std::string path_;
  std::string saved_;  // the state in the file; empty: none that serves
  bool is_current_ = false;
};

}  // namespace cria::hosted
