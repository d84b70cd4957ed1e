// What the engine does with states of prefixes on the disk: which are kept, and how they come and
// go without anybody's answer waiting for the disk but the one that is to have the state.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <cria.h>
#include "platforms/hosted/engine/side_thread.h"
#include "platforms/hosted/prefixes/prefix_store.h"

namespace cria::hosted {

// For the engine's thread. Nothing of it makes a request fail: what cannot be kept or had is told
// once and done without.
class PrefixCache {
 public:
  // store outlives it. wake is called on another thread when a state has come.
  PrefixCache(PrefixStore* store, size_t step, void (*log)(const std::string& line),
              std::function<void()> wake);
  // A state that is being written has a few seconds more.
  ~PrefixCache();
  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;

  enum class Brought {
    kNothing,  // there is nothing to wait for
    kComing,   // it is on its way; ask again
    kLoaded    // the session holds it
  };
  // Makes a session that was given to a request hold what the disk has of its prompt, where this is
  // enough more than the n_held tokens that it holds.
  Brought bring(uint64_t request, std::span<const uint32_t> prompt, uint32_t n_held,
                cria_session* session);
  // The request wants it no more.
  void forget(uint64_t request);

  // A prompt is about to be read, of which so many tokens come before its first question (0:
  // unknown). Gives how many of its tokens are a prefix to keep; 0: none.
  uint32_t note(std::span<const uint32_t> prompt, uint32_t n_lead);
  // Keeps the first n tokens of a session, unless another state is being written.
  void keep(const cria_session* session, uint32_t n);

 private:
  // A state on its way from the disk.
  struct Fetch {
    uint64_t request;
    std::shared_ptr<const StoredPrefix> prefix;
    double started_seconds;
    std::atomic<bool> is_here = false;
    std::optional<StateBytes> state;  // once it is here; none: it cannot be had
  };
  Brought start(uint64_t request, std::shared_ptr<const StoredPrefix> prefix);
  // Of the one that was started.
  Brought take(std::span<const uint32_t> prompt, cria_session* session);
  bool load(const Fetch& fetch, std::span<const uint32_t> prompt, cria_session* session);
  void write(const StateBytes& state, std::span<const uint32_t> tokens);
  void remember(std::span<const uint32_t> prompt);
  void tell(std::string_view what, std::string_view problem) const;

  PrefixStore* const store_;
  const size_t step_;  // reuse_step
  void (*const log_)(const std::string& line);
  const std::function<void()> wake_;
  std::deque<std::vector<uint32_t>> earlier_;  // prompts
  std::shared_ptr<Fetch> fetch_;
  bool has_told_slow_ = false;
  std::atomic<bool> has_failed_ = false;  // to write, which was told
  std::atomic<double> retry_seconds_ = 0.0;
  std::atomic<double> deadline_seconds_;  // of what is being written
  SideThread reader_;                     // the last, as they use the others
  SideThread writer_;
};

}  // namespace cria::hosted
