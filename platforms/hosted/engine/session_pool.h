// Which session a prompt goes to, and what of it a session holds already.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <cria.h>

namespace cria::hosted {

// Where the reading of a prompt begins.
struct PromptStart {
  uint32_t n_cached;                    // tokens of it that need not be read
  std::optional<uint32_t> copied_from;  // the session that held them; none: its own
  bool is_from_disk;                    // a state was loaded into the session for them
  // Of the session that had the most in common with it: the session, its tokens, those in common.
  uint32_t nearest;
  uint32_t n_held;
  uint32_t n_common;
};

// Allocates nothing once it is made. The sessions of a model; those that are given are not given
// again until they come back. What they hold stays, for the prompts that begin alike.
class SessionPool {
 public:
  explicit SessionPool(const std::vector<cria_session*>& sessions);

  [[nodiscard]] size_t n_idle() const { return n_idle_; }
  [[nodiscard]] cria_session* at(size_t session) const { return slots_[session].session; }

  // The idle session to answer a prompt: that which has the most in common with it, unless this
  // would waste more than half of what it holds or it is busy; then the one that was used least
  // recently. At least one must be idle.
  uint32_t give(std::span<const uint32_t> prompt);
  // Tokens at the beginning of a prompt that some session need not read, never its last.
  [[nodiscard]] uint32_t n_held(std::span<const uint32_t> prompt);
  // Makes a session that was given hold what any session has in common with the prompt, but never
  // the last token of it, whose logits are needed.
  PromptStart begin(uint32_t session, std::span<const uint32_t> prompt);
  void take_back(uint32_t session);

 private:
  struct Slot {
    cria_session* session;
    bool is_idle;
    uint64_t last_used;  // 0: never
  };
  // What one session has in common with a prompt.
  struct Match {
    uint32_t session;
    uint32_t n_common;
    uint32_t n_held;
    uint32_t n_usable;  // of those in common, without the prompt's last; reading goes on there
  };
  // The best first, of equals own, then those that waste less.
  std::span<const Match> find_matches(std::span<const uint32_t> prompt,
                                      std::optional<uint32_t> own);

  std::vector<Slot> slots_;
  std::vector<Match> matches_;  // that were found last
  size_t n_idle_;
  uint64_t n_uses_ = 0;
};

}  // namespace cria::hosted
