#include "platforms/hosted/cli/prompt_cache.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "platforms/hosted/base/output_file.h"
#include "platforms/hosted/base/program_error.h"
#include "platforms/hosted/base/terminal.h"
#include "platforms/hosted/cli/input_text.h"
#include "platforms/hosted/prefixes/prefix_file.h"

namespace cria::hosted {
namespace {

void warn(const std::string& text) { print_notice("cria: warning: " + text); }

}  // namespace

PromptCache::PromptCache(const ModelSession& model, const std::string& path, Follows follows)
    : model_(model), path_(path), follows_(follows) {
  if (path_ == "-") {
    throw ProgramError(ExitCode::kUsage, "--prompt-cache needs a file name; - is not one");
  }
  if (path_.empty() || ::access(path_.c_str(), F_OK) != 0) return;
  model.check_output(path_);
  const std::string front = read_regular_start(path_, kPrefixHeadBytes, "give another file name");
  if (front.empty()) return;  // made by somebody who wanted the name
  if (!begins_prefix_file(front)) {
    throw ProgramError(ExitCode::kInvalidInput,
                       path_ + ": is not a prompt cache; give another file name");
  }
  const std::optional<PrefixHead> head = read_prefix_head(front);
  if (!head || head->terms != state_terms(model)) {
    warn(path_ +
         ": made with another model file, --kv, backend or version of cria, or damaged; it is "
         "written again");
    return;
  }
  if (head->n_tokens > cria_context(model.session())) {
    warn(path_ + ": holds more tokens than this context; it is written again");
    return;
  }
  try {
    const uint64_t most = head->state_offset() + model.plan().session.total;
    saved_ = read_regular_file(path_, most, "");
    if (saved_.size() == head->file_bytes() && read_prefix_head(saved_) == head) return;
    warn(path_ + ": its length differs from what its header says; it is written again");
  } catch (const ProgramError& error) {
    warn(std::string(error.what()) + "; it is written again");
  }
  saved_.clear();
}

// How many positions may stay so that what is read after them is read as it would be without a
// cache: those that both have, but one token has to be read for its logits.
size_t PromptCache::reusable(std::span<const uint32_t> tokens) const {
  const uint32_t n_held = cria_position(model_.session());
  const uint32_t* const held = cria_tokens(model_.session());
  const size_t most = std::min<size_t>(n_held, tokens.size());
  const size_t n_common =
      static_cast<size_t>(std::mismatch(held, held + most, tokens.begin()).first - held);
  const size_t step = reuse_step(model_);
  if (follows_ == Follows::kMore) return n_common / step * step;
  if (n_common == tokens.size() && n_common == n_held) {
    return cria_logits(model_.session()) != nullptr ? n_common : 0;
  }
  return std::min(n_common, tokens.size() - 1) / step * step;
}

size_t PromptCache::restore(std::span<const uint32_t> tokens) {
  const size_t n = load(tokens);
  if (follows_ == Follows::kMore) expect(tokens);
  return n;
}

void PromptCache::expect(std::span<const uint32_t> tokens) {
  cria_session* const session = model_.session();
  const std::span<const uint32_t> kept = kept_of(tokens);
  const auto n = static_cast<uint32_t>(kept.size());
  if (!is_held(kept) || cria_resume_position(session, n) != n) {
    (void)cria_reset(session, static_cast<uint32_t>(reusable(tokens)));
  }
  // Where layers keep blocks of state, what is read later is kept from there.
  (void)cria_keep_snapshot(session, n);
}

bool PromptCache::is_held(std::span<const uint32_t> tokens) const {
  const std::span held(cria_tokens(model_.session()), cria_position(model_.session()));
  return tokens.size() <= held.size() && std::equal(tokens.begin(), tokens.end(), held.begin());
}

// What is kept of a prompt.
std::span<const uint32_t> PromptCache::kept_of(std::span<const uint32_t> tokens) const {
  if (follows_ == Follows::kNothing) return tokens;
  const size_t step = reuse_step(model_);
  return tokens.first(tokens.size() / step * step);
}

size_t PromptCache::load(std::span<const uint32_t> tokens) {
  if (saved_.empty()) return 0;
  const PrefixHead head = read_prefix_head(saved_).value();
  const std::span file(reinterpret_cast<const uint8_t*>(saved_.data()), saved_.size());
  std::vector<uint32_t> kept(static_cast<size_t>(head.n_tokens));
  std::memcpy(kept.data(), saved_.data() + kPrefixHeadBytes, kept.size() * sizeof(uint32_t));
  const auto state = file.subspan(static_cast<size_t>(head.state_offset()));
  const cria_status status = load_prefix(model_.session(), kept, state);
  std::string().swap(saved_);
  if (status != CRIA_OK) {
    warn(path_ + ": is damaged; it is written again");
    return 0;
  }
  const size_t n_kept = reusable(tokens);
  const bool is_whole =
      follows_ == Follows::kMore ? n_kept == kept.size() : n_kept == tokens.size();
  if (is_whole) {
    in_file_ = std::move(kept);
    return n_kept;
  }
  if (cria_reset(model_.session(), static_cast<uint32_t>(n_kept)) == CRIA_OK) {
    return cria_position(model_.session());  // of blocks of state a snapshot before it
  }
  // A sliding window has gone on: what precedes the place is forgotten.
  model_.check(cria_reset(model_.session(), 0));
  return 0;
}

// A sliding window has gone on, or the snapshot that an answer begins with took the only place.
void PromptCache::tell_forgotten() {
  const uint32_t n_snapshots = model_.config().n_snapshots;
  const bool has_none = n_snapshots == CRIA_NO_SNAPSHOTS;
  if (model_.info().keeps_blocks == 0 || (!has_none && n_snapshots != 1)) return;
  if (std::exchange(has_told_, true)) return;
  warn(path_ + ": not written: with --snapshots " + (has_none ? "0" : "1") +
       " the state after the system text is gone by then; give 2 or more");
}

void PromptCache::keep(std::span<const uint32_t> tokens) {
  cria_session* const session = model_.session();
  tokens = kept_of(tokens);
  const bool is_kept = std::equal(tokens.begin(), tokens.end(), in_file_.begin(), in_file_.end());
  if (!is_there() || tokens.empty() || !is_held(tokens) || is_kept) return;
  try {
    const auto n = static_cast<uint32_t>(tokens.size());
    std::vector<uint8_t> state(cria_state_prefix_size(session, n));
    const cria_status status = cria_state_prefix_save(session, n, state.data(), state.size());
    if (status == CRIA_FORGOTTEN) return tell_forgotten();
    model_.check(status);
    in_file_.assign(tokens.begin(), tokens.end());
    write_prefix_file(path_, state_terms(model_), tokens, state, [] { return true; });
  } catch (const OutputError& error) {
    warn(error.what());
  } catch (const std::bad_alloc&) {
    warn(path_ + ": no memory for it; not written");
  }
}

}  // namespace cria::hosted
