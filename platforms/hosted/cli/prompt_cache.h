// --prompt-cache: the state after a prompt in a file, so that it is read once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "platforms/hosted/session/model_session.h"

namespace cria::hosted {

// What is read after the prompt: nothing, so that its logits are needed, or more in any case.
enum class Follows { kNothing, kMore };

// A file of one prefix (platforms/hosted/prefixes/prefix_file.h), the prompt. A cache of something
// else, or damaged, is told and written anew; a file that is none is refused, so that nothing else
// is written over.
class PromptCache {
 public:
  // An empty path: there is no cache. Throws ProgramError where path names what cannot be one.
  PromptCache(const ModelSession& model, const std::string& path, Follows follows);

  [[nodiscard]] bool is_there() const { return !path_.empty(); }
  // Makes the empty session begin as tokens do; gives how many of them it then holds, all of them
  // only together with what follows needs. No other bits than reading them gives.
  size_t restore(std::span<const uint32_t> tokens);
  // The session begins with tokens from now on, and they are to be kept: it holds no more than
  // reading them anew leaves as it is.
  void expect(std::span<const uint32_t> tokens);
  // Keeps the prompt, with which the session begins, unless the file has it already. What fails is
  // told.
  void keep(std::span<const uint32_t> tokens);

 private:
  size_t reusable(std::span<const uint32_t> tokens) const;
  std::span<const uint32_t> kept_of(std::span<const uint32_t> tokens) const;
  bool is_held(std::span<const uint32_t> tokens) const;
  size_t load(std::span<const uint32_t> tokens);
  void tell_forgotten();

  const ModelSession& model_;
  const std::string path_;
  const Follows follows_;
  std::string saved_;              // the file; empty: none that serves
  std::vector<uint32_t> in_file_;  // tokens that need not be kept again
  bool has_told_ = false;          // that they cannot be
};

}  // namespace cria::hosted
