#include "platforms/hosted/engine/prefix_cache.h"

#include <algorithm>
#include <exception>
#include <limits>
#include <new>
#include <utility>

#include "platforms/hosted/base/clock.h"
#include "platforms/hosted/base/print_format.h"

namespace cria::hosted {
namespace {

// To read a token takes some milliseconds, to load its state some microseconds and the disk's time
// for 20 KB (docs/server.md): so many tokens make up for opening a file, and a sixteenth of a state
// for the rest of it.
constexpr size_t kLeastTokens = 64;
constexpr size_t kLeastPart = 16;

constexpr size_t kEarlierPrompts = 16;
// A template may end a question's turn otherwise once it was answered.
constexpr size_t kMostTail = 16;

constexpr double kPauseSeconds = 60.0;      // after a state that could not be written
constexpr double kPatienceSeconds = 5.0;    // for one that is being written at the end
constexpr double kLeastBytesASecond = 1e7;  // of a disk that is waited for
constexpr double kSlackSeconds = 2.0;

size_t n_common(std::span<const uint32_t> a, std::span<const uint32_t> b) {
  return static_cast<size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first -
                             a.begin());
}

// How many tokens of a prompt are worth to be kept for having come in an earlier one.
size_t n_shared(std::span<const uint32_t> prompt, std::span<const uint32_t> earlier,
                size_t n_lead) {
  const size_t n = n_common(prompt, earlier);
  const bool has_lead = n_lead != 0 && n_lead <= n;
  const size_t most_tail = has_lead ? kMostTail : 0;
  // A conversation goes on: its session holds it, and what others share with it is its lead.
  const bool goes_on = prompt.size() > earlier.size() && earlier.size() - n <= most_tail;
  // Questions may begin alike by chance.
  if (has_lead && (goes_on || n - n_lead < kLeastTokens)) return n_lead;
  return goes_on ? 0 : std::min(n, prompt.size() - 1);
}

}  // namespace

PrefixCache::PrefixCache(PrefixStore* store, size_t step, void (*log)(const std::string& line),
                         std::function<void()> wake)
    : store_(store),
      step_(step),
      log_(log),
      wake_(std::move(wake)),
      deadline_seconds_(std::numeric_limits<double>::infinity()) {}

PrefixCache::~PrefixCache() { deadline_seconds_ = monotonic_seconds() + kPatienceSeconds; }

void PrefixCache::tell(std::string_view what, std::string_view problem) const {
  if (log_ == nullptr) return;
  try {
    log_("prefix cache: " + std::string(what) + std::string(problem));
  } catch (...) {  // a line that is not written
  }
}

// From the disk -----------------------------------------------------------------------------------

PrefixCache::Brought PrefixCache::bring(uint64_t request, std::span<const uint32_t> prompt,
                                        uint32_t n_held, cria_session* session) {
  if (fetch_ != nullptr && fetch_->request == request) return take(prompt, session);
  const PrefixStore::Match match = store_->find(prompt);
  if (match.n_usable < n_held + kLeastTokens) return Brought::kNothing;
  const size_t n_gained = match.n_usable - n_held;
  if (n_gained * kLeastPart < match.prefix->tokens.size()) return Brought::kNothing;
  if (fetch_ != nullptr) return Brought::kComing;   // one after the other
  if (reader_.is_busy()) return Brought::kNothing;  // with what nobody waits for any more
  return start(request, match.prefix);
}

PrefixCache::Brought PrefixCache::start(uint64_t request,
                                        std::shared_ptr<const StoredPrefix> prefix) {
  try {
    fetch_ = std::make_shared<Fetch>();
    fetch_->request = request;
    fetch_->prefix = std::move(prefix);
    fetch_->started_seconds = monotonic_seconds();
    reader_.start([this, fetch = fetch_] {
      try {
        fetch->state = store_->read(*fetch->prefix);
      } catch (...) {  // no memory for it
      }
      fetch->is_here = true;
      wake_();
    });
    return Brought::kComing;
  } catch (const std::bad_alloc&) {
    fetch_ = nullptr;
    return Brought::kNothing;
  }
}

PrefixCache::Brought PrefixCache::take(std::span<const uint32_t> prompt, cria_session* session) {
  if (fetch_->is_here) {
    const std::shared_ptr<Fetch> fetch = std::move(fetch_);
    return load(*fetch, prompt, session) ? Brought::kLoaded : Brought::kNothing;
  }
  const auto n_bytes = static_cast<double>(fetch_->prefix->head.n_state_bytes);
  const double most_seconds = kSlackSeconds + n_bytes / kLeastBytesASecond;
  if (monotonic_seconds() - fetch_->started_seconds < most_seconds) return Brought::kComing;
  fetch_ = nullptr;
  if (!std::exchange(has_told_slow_, true)) {
    tell(store_->folder(), " is slower than 10 MB/s; prompts are read without it then");
  }
  return Brought::kNothing;
}

// Whether the session was changed.
bool PrefixCache::load(const Fetch& fetch, std::span<const uint32_t> prompt,
                       cria_session* session) {
  if (!fetch.state) return false;
  const StoredPrefix& prefix = *fetch.prefix;
  if (load_prefix(session, prefix.tokens, fetch.state->all()) != CRIA_OK) {
    store_->remove(prefix);
    tell(prefix.name, " is damaged; removed");
    return true;
  }
  // Of what is used in part no more than other chunks would have made.
  const size_t n = n_common(prompt, prefix.tokens) / step_ * step_;
  if (n < prefix.tokens.size()) cria_reset(session, static_cast<uint32_t>(n));
  return true;
}

void PrefixCache::forget(uint64_t request) {
  if (fetch_ != nullptr && fetch_->request == request) fetch_ = nullptr;
}

// To the disk -------------------------------------------------------------------------------------

uint32_t PrefixCache::note(std::span<const uint32_t> prompt, uint32_t n_lead) {
  size_t n = 0;
  for (const std::vector<uint32_t>& earlier : earlier_) {
    n = std::max(n, n_shared(prompt, earlier, n_lead));
  }
  remember(prompt);
  n = n / step_ * step_;
  if (n < kLeastTokens || store_->find(prompt).n_usable + kLeastTokens > n) return 0;
  return static_cast<uint32_t>(n);
}

// What begins another one is kept with it.
void PrefixCache::remember(std::span<const uint32_t> prompt) {
  std::erase_if(earlier_, [&](const std::vector<uint32_t>& earlier) {
    return n_common(prompt, earlier) == earlier.size();
  });
  for (const std::vector<uint32_t>& earlier : earlier_) {
    if (n_common(prompt, earlier) == prompt.size()) return;
  }
  try {
    earlier_.emplace_back(prompt.begin(), prompt.end());
    if (earlier_.size() > kEarlierPrompts) earlier_.pop_front();
  } catch (const std::bad_alloc&) {  // one that was not seen
  }
}

void PrefixCache::keep(const cria_session* session, uint32_t n) {
  if (writer_.is_busy() || monotonic_seconds() < retry_seconds_) return;
  const size_t n_bytes = cria_state_prefix_size(session, n);
  if (n_bytes > store_->most_bytes()) return;
  try {
    auto state = std::make_shared<StateBytes>(n_bytes);
    if (cria_state_prefix_save(session, n, state->bytes.get(), state->size) != CRIA_OK) return;
    writer_.start([this, state,
                   tokens = std::vector<uint32_t>(cria_tokens(session), cria_tokens(session) + n)] {
      write(*state, tokens);
    });
  } catch (const std::bad_alloc&) {  // another time
  }
}

void PrefixCache::write(const StateBytes& state, std::span<const uint32_t> tokens) {
  std::string problem;
  try {
    store_->put(tokens, state.all(), [this] { return monotonic_seconds() < deadline_seconds_; });
    has_failed_ = false;
    return;
  } catch (const std::bad_alloc&) {
    return;
  } catch (const std::exception& error) {
    if (!has_failed_.exchange(true)) tell(error.what(), "; states are not kept");
    retry_seconds_ = monotonic_seconds() + kPauseSeconds;
  }
}

}  // namespace cria::hosted
