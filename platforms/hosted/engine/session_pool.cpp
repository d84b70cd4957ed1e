#include "platforms/hosted/engine/session_pool.h"

#include <algorithm>
#include <tuple>

namespace cria::hosted {

SessionPool::SessionPool(const std::vector<cria_session*>& sessions) : n_idle_(sessions.size()) {
  for (cria_session* const session : sessions) slots_.push_back({session, true, 0});
  matches_.reserve(slots_.size());
}

std::span<const SessionPool::Match> SessionPool::find_matches(std::span<const uint32_t> prompt,
                                                              std::optional<uint32_t> own) {
  matches_.clear();
  for (uint32_t i = 0; i < slots_.size(); ++i) {
    const cria_session* const session = slots_[i].session;
    const std::span<const uint32_t> held(cria_tokens(session), cria_position(session));
    const auto [in_prompt, in_held] =
        std::mismatch(prompt.begin(), prompt.end(), held.begin(), held.end());
    const auto n_common = static_cast<uint32_t>(in_prompt - prompt.begin());
    // A ring that has gone round, and blocks without a snapshot, have forgotten what the next token
    // goes on from: then another session is of use, or none.
    const auto last = static_cast<uint32_t>(prompt.size() - 1);
    matches_.push_back({i, n_common, static_cast<uint32_t>(held.size()),
                        cria_resume_position(session, std::min(n_common, last))});
  }
  const auto rank = [&](const Match& m) {
    const bool is_own = own ? m.session == *own : slots_[m.session].is_idle;
    return std::tuple(-int64_t{m.n_usable}, !is_own, m.n_held, m.session);
  };
  std::sort(matches_.begin(), matches_.end(),
            [&](const Match& a, const Match& b) { return rank(a) < rank(b); });
  return matches_;
}

uint32_t SessionPool::n_held(std::span<const uint32_t> prompt) {
  return find_matches(prompt, std::nullopt).front().n_usable;
}

uint32_t SessionPool::give(std::span<const uint32_t> prompt) {
  const Match best = find_matches(prompt, std::nullopt).front();
  uint32_t given = best.session;
  if (!slots_[given].is_idle || 2 * uint64_t{best.n_usable} < best.n_held) {
    const auto rank = [](const Slot& slot) { return std::pair(!slot.is_idle, slot.last_used); };
    const auto oldest =
        std::min_element(slots_.begin(), slots_.end(),
                         [&](const Slot& a, const Slot& b) { return rank(a) < rank(b); });
    given = static_cast<uint32_t>(oldest - slots_.begin());
  }
  slots_[given].is_idle = false;
  --n_idle_;
  return given;
}

PromptStart SessionPool::begin(uint32_t session, std::span<const uint32_t> prompt) {
  cria_session* const own = slots_[session].session;
  const std::span<const Match> found = find_matches(prompt, session);
  const Match& best = found.front();
  const Match& nearest =
      *std::max_element(found.begin(), found.end(),
                        [](const Match& a, const Match& b) { return a.n_common < b.n_common; });
  PromptStart start = {best.n_usable,   std::nullopt,   false,
                       nearest.session, nearest.n_held, nearest.n_common};
  if (best.n_usable == 0 || best.session == session) {
    (void)cria_reset(own, best.n_usable);
  } else if (cria_copy_prefix(own, slots_[best.session].session, best.n_usable) == CRIA_OK) {
    start.copied_from = best.session;
  } else {
    (void)cria_reset(own, 0);
    start.n_cached = 0;
  }
  return start;
}

void SessionPool::take_back(uint32_t session) {
  slots_[session].is_idle = true;
  slots_[session].last_used = ++n_uses_;
  ++n_idle_;
}

}  // namespace cria::hosted
