#include "platforms/hosted/engine/engine_loop.h"

#include <algorithm>
#include <new>
#include <utility>

#include "platforms/hosted/base/clock.h"
#include "platforms/hosted/base/print_format.h"

namespace cria::hosted {
namespace {

constexpr uint32_t kUsualChunk = 64;  // the runtime's default

size_t chunk_of(const ModelSession& model) {
  const uint32_t wanted = model.config().prefill_chunk;
  return std::min(wanted != 0 ? wanted : kUsualChunk, cria_context(model.session()));
}

// Of the exception that is being handled.
Ending ending_at_hand() {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return {AnswerEnd::kNoMemory};
  } catch (...) {
    return {AnswerEnd::kFailed};
  }
}

std::vector<uint32_t> end_tokens_of(const cria_model* model) {
  std::vector<uint32_t> result;
  for (uint32_t token = 0; token < cria_vocab_size(model); ++token) {
    if (cria_is_end_token(model, token) != 0) result.push_back(token);
  }
  return result;
}

// "request 7: session 1, 531 tokens, 96 held (by session 0); token 96 is the first that differs
// from the 640 of session 0": something in a system prompt that changes, like a date, shows here.
std::string line_about(const Answer& answer, const PromptStart& start) {
  const size_t n_prompt = answer.request().asked.prompt.size();
  std::string line = text_of("request %llu: session %u, %zu tokens, %u held",
                             static_cast<unsigned long long>(answer.request().id), answer.session(),
                             n_prompt, start.n_cached);
  if (start.is_from_disk) line += " (by the disk)";
  if (start.copied_from) line += text_of(" (by session %u)", *start.copied_from);
  if (start.n_common < std::min<size_t>(start.n_held, n_prompt)) {
    line += text_of("; token %u is the first that differs from the %u of session %u",
                    start.n_common, start.n_held, start.nearest);
  }
  return line;
}

}  // namespace

EngineLoop::EngineLoop(const ModelSession& model, const EngineOptions& options, RequestQueue* queue,
                       StatusBoard* board)
    : model_(model),
      options_(options),
      queue_(queue),
      board_(board),
      end_tokens_(end_tokens_of(model.model())),
      chunk_(chunk_of(model)),
      step_(reuse_step(model)),
      pool_(model.sessions()) {
  const size_t n_sessions = model.sessions().size();
  answers_.reserve(n_sessions);
  entries_.reserve(n_sessions);
  in_step_.reserve(n_sessions);
  readers_.reserve(n_sessions);
  after_step_.reserve(n_sessions);
  later_.reserve(n_sessions);  // one for each first choice; none gets a session while others wait
  if (options.prefixes != nullptr) {
    prefixes_.emplace(options.prefixes, step_, options.log, [queue] { queue->notify(); });
  }
  model_.watch_steps(this);
}

EngineLoop::~EngineLoop() { model_.watch_steps(nullptr); }

void EngineLoop::run() {
  StepResult last = StepResult::kDone;
  for (;;) {
    // Asked first: what came before it was shut down is dropped below.
    const bool takes_none = queue_->is_shut_down();
    drop_unwanted();
    // A step that was stopped is done for those who are left before anybody joins them: however
    // fast requests come and go, it is stopped once for each session at most.
    if (last == StepResult::kDone) give_sessions();
    if (!answers_.empty()) {
      last = step();
    } else if (last == StepResult::kStopped) {
      last = StepResult::kDone;
    } else if (takes_none) {
      return;
    } else {
      queue_->wait();
    }
  }
}

// Requests that nobody wants answered ------------------------------------------------------------

bool EngineLoop::is_unwanted(const Request& request) const {
  return request.is_cancelled || queue_->is_over();
}

Ending EngineLoop::unwanted_ending(const Request& request) {
  return {request.is_cancelled ? AnswerEnd::kCancelled : AnswerEnd::kShutDown};
}

void EngineLoop::drop_unwanted() {
  while (const std::shared_ptr<Request> request = queue_->take_dropped()) {
    end_without_session(request, 0, unwanted_ending(*request));
  }
  for (size_t i = 0; i < later_.size();) {
    if (!is_unwanted(*later_[i].request)) {
      ++i;
      continue;
    }
    const WaitingChoice waiting = std::move(later_[i]);
    later_.erase(later_.begin() + static_cast<ptrdiff_t>(i));
    end_without_session(waiting.request.get(), waiting.choice, waiting.n_choices,
                        unwanted_ending(*waiting.request));
  }
  for (size_t i = 0; i < answers_.size();) {
    Answer* const answer = answers_[i].get();
    const bool is_in_step = std::find(in_step_.begin(), in_step_.end(), answer) != in_step_.end();
    if (is_in_step || !is_unwanted(answer->request())) {
      ++i;
    } else {
      finish(answer, unwanted_ending(answer->request()));
    }
  }
}

// Sessions ---------------------------------------------------------------------------------------

cria_status EngineLoop::check(const AnswerRequest& asked) const {
  const uint32_t vocab_size = cria_vocab_size(model_.model());
  const auto is_text = [vocab_size](const std::vector<uint32_t>& tokens) {
    return !tokens.empty() &&
           std::all_of(tokens.begin(), tokens.end(),
                       [vocab_size](uint32_t token) { return token < vocab_size; });
  };
  if (!is_text(asked.prompt) || asked.n_choices > model_.sessions().size()) {
    return CRIA_INVALID_ARGUMENT;
  }
  const uint32_t context = cria_context(model_.session());
  if (!asked.embedding) return asked.prompt.size() < context ? CRIA_OK : CRIA_CONTEXT_FULL;
  const std::vector<std::vector<uint32_t>>& others = asked.embedding->others;
  if (asked.n_choices != 1 || asked.embedding->dimensions > cria_d_model(model_.model()) ||
      !std::all_of(others.begin(), others.end(), is_text)) {
    return CRIA_INVALID_ARGUMENT;
  }
  const auto fits = [context](const auto& tokens) { return tokens.size() <= context; };
  return fits(asked.prompt) && std::all_of(others.begin(), others.end(), fits) ? CRIA_OK
                                                                               : CRIA_CONTEXT_FULL;
}

void EngineLoop::give_sessions() {
  while (pool_.n_idle() > 0) {
    if (!later_.empty()) {
      WaitingChoice& first = later_.front();
      const std::shared_ptr<Request> request = first.request;
      const uint32_t choice = first.choice++;
      if (--first.n_choices == 0) later_.erase(later_.begin());
      start(request, choice);
      continue;
    }
    const std::shared_ptr<Request> request = queue_->take();
    if (request == nullptr) break;
    const cria_status status = check(request->asked);
    if (status == CRIA_OK) {
      start(request, 0);
    } else {
      end_without_session(request, 0, {AnswerEnd::kFailed, status});
    }
  }
  tell_idle_sessions();
}

void EngineLoop::start(const std::shared_ptr<Request>& request, uint32_t choice) {
  const uint32_t session = pool_.give(request->asked.prompt);
  cria_session* const state = pool_.at(session);
  std::unique_ptr<Answer> made;
  std::optional<Ending> ending;
  try {
    made = std::make_unique<Answer>(request, choice, model_.model(), session, state, end_tokens_);
    ending = made->prepare();
  } catch (...) {
    ending = ending_at_hand();
  }
  if (made == nullptr) {
    pool_.take_back(session);
    return end_without_session(request.get(), choice, choice == 0 ? request->asked.n_choices : 1,
                               *ending);
  }
  Answer* const answer = answers_.emplace_back(std::move(made)).get();
  note_status(*answer);
  if (ending) finish(answer, *ending);
}

void EngineLoop::tell_idle_sessions() {
  size_t n_later = 0;
  for (const WaitingChoice& waiting : later_) n_later += waiting.n_choices;
  queue_->set_idle(pool_.n_idle() - std::min(pool_.n_idle(), n_later));
}

// Steps ------------------------------------------------------------------------------------------

// Clients that come at once begin with the same system prompt: it is read once.
bool EngineLoop::should_wait(const Answer& answer, uint32_t n_held) const {
  const std::vector<uint32_t>& prompt = answer.request().asked.prompt;
  for (const std::unique_ptr<Answer>& older : answers_) {
    if (older.get() == &answer) break;
    if (!older->is_reading()) continue;
    const std::vector<uint32_t>& other = older->request().asked.prompt;
    const auto differs =
        std::mismatch(prompt.begin(), prompt.end() - 1, other.begin(), other.end()).first;
    const auto n_common = static_cast<uint32_t>(differs - prompt.begin());
    if (older->n_usable(n_common) > n_held) return true;
  }
  return false;
}

bool EngineLoop::begin_reading(Answer* answer) {
  const AnswerRequest& asked = answer->request().asked;
  const std::vector<uint32_t>& prompt = asked.prompt;
  PromptStart start = {};
  if (answer->embeds_all()) {
    (void)cria_reset(pool_.at(answer->session()), 0);
  } else {
    start = pool_.begin(answer->session(), prompt);
  }
  if (prefixes_ && !answer->embeds()) {
    const PrefixCache::Brought brought =
        prefixes_->bring(answer->request().id, prompt, start.n_cached, pool_.at(answer->session()));
    if (brought == PrefixCache::Brought::kComing) return false;
    if (brought == PrefixCache::Brought::kLoaded) {
      start = pool_.begin(answer->session(), prompt);
      start.is_from_disk = start.n_cached > 0 && !start.copied_from;
    }
  }
  answer->begin(start);
  board_->note_prompt(static_cast<uint32_t>(prompt.size()), start.n_cached);
  if (answer->is_at_first_text()) tell_log(*answer, start);
  uint32_t n_kept = 0;
  if (prefixes_ && answer->choice() == 0 && !answer->embeds()) {
    n_kept = prefixes_->note(prompt, asked.n_lead);
  }
  keep_snapshots(answer, start, n_kept);
  answer->set_kept(n_kept);
  keep_prefix(answer);
  return true;
}

// Later prompts may go on from there. Sessions planned without snapshots read again.
void EngineLoop::keep_snapshots(Answer* answer, const PromptStart& start, uint32_t n_kept) {
  if (model_.info().keeps_blocks == 0) return;
  const AnswerRequest& asked = answer->request().asked;
  const auto last = static_cast<uint32_t>(asked.prompt.size() - 1);
  const auto n_lead = static_cast<uint32_t>(asked.n_lead / step_ * step_);
  // What another prompt began with too.
  const uint32_t n_common = std::min(start.n_common, last);
  const uint32_t n_shared = n_common < start.n_cached + chunk_ ? 0 : n_common;
  const uint32_t n_turn = asked.n_turn != 0 ? std::min(asked.n_turn, last) : last;
  // What goes to the disk comes last, so that none of the others takes its place.
  Answer::Snapshots snapshots = {n_lead, n_shared, n_turn};
  if (n_kept != 0) snapshots = {n_lead, n_turn, n_kept};
  for (uint32_t& n : snapshots) {
    if (cria_keep_snapshot(pool_.at(answer->session()), n) != CRIA_OK) n = 0;
  }
  answer->set_snapshots(snapshots);
}

// Between steps: nobody waits for more than a copy in memory.
void EngineLoop::keep_prefix(Answer* answer) {
  if (const uint32_t n = answer->take_kept(); n != 0)
    prefixes_->keep(pool_.at(answer->session()), n);
}

void EngineLoop::tell_log(const Answer& answer, const PromptStart& start) {
  if (options_.log == nullptr) return;
  try {
    options_.log(line_about(answer, start));
  } catch (...) {  // a line that is not written
  }
}

void EngineLoop::add_entry(Answer* answer, size_t n_prompt_tokens) {
  entries_.push_back(answer->entry(n_prompt_tokens));
  in_step_.push_back(answer);
}

std::optional<size_t> EngineLoop::n_to_read(const Answer& answer) {
  // Texts of one request for embeddings seldom begin alike.
  if (answer.has_begun() || answer.embeds()) return answer.n_unread();
  const uint32_t n_held = pool_.n_held(answer.request().asked.prompt);
  if (should_wait(answer, n_held)) return std::nullopt;
  return answer.n_unread() - n_held;
}

// Every answer that has its prompt goes on by one token. Prompts share what is left of a chunk, so
// that the weights are read once for all of the step. A short prompt does not wait for all of a
// long one: half is for the shortest, what it leaves for the others, the oldest first.
void EngineLoop::fill_batch() {
  entries_.clear();
  in_step_.clear();
  readers_.clear();
  for (const std::unique_ptr<Answer>& answer : answers_) {
    if (!answer->is_reading()) {
      add_entry(answer.get(), 0);
    } else if (const std::optional<size_t> n = n_to_read(*answer)) {
      readers_.push_back({answer.get(), *n});
    }
  }
  size_t n_left = chunk_ > entries_.size() ? chunk_ - entries_.size() : 1;
  size_t n_most = n_left;
  const auto shortest =
      std::min_element(readers_.begin(), readers_.end(),
                       [](const Reader& a, const Reader& b) { return a.n_unread < b.n_unread; });
  if (shortest != readers_.begin() && n_left > 1) {
    std::rotate(readers_.begin(), shortest, shortest + 1);
    n_most = n_left / 2;
  }
  for (const Reader& reader : readers_) {
    if (n_left == 0) break;
    if (reader.answer->has_begun() || begin_reading(reader.answer)) {
      add_entry(reader.answer, n_most);
      n_left -= entries_.back().n_tokens;
    }
    n_most = n_left;
  }
}

NextStep EngineLoop::on_step(uint64_t, uint64_t) {
  if (queue_->take_notice()) drop_unwanted();
  const bool is_wanted =
      std::none_of(in_step_.begin(), in_step_.end(),
                   [this](const Answer* answer) { return is_unwanted(answer->request()); });
  return is_wanted ? NextStep::kGoOn : NextStep::kStop;
}

EngineLoop::StepResult EngineLoop::step() {
  fill_batch();
  if (entries_.empty()) {  // all there are wait for the disk
    queue_->wait_for_news();
    return StepResult::kDone;
  }
  const cria_status status = cria_step(model_.workspace(), entries_.data(), entries_.size());
  after_step_.swap(in_step_);
  in_step_.clear();
  if (status == CRIA_CANCELLED) return StepResult::kStopped;
  if (status != CRIA_OK) {
    for (Answer* const answer : after_step_) finish(answer, {AnswerEnd::kFailed, status});
    return StepResult::kDone;
  }
  board_->note_step();
  for (size_t i = 0; i < after_step_.size(); ++i) go_on(after_step_[i], entries_[i]);
  return StepResult::kDone;
}

void EngineLoop::go_on(Answer* answer, const cria_batch_entry& entry) {
  const uint32_t n_choices = answer->request().asked.n_choices;
  const bool has_read = answer->note_step(entry);
  if (has_read && answer->choice() == 0 && n_choices > 1) {
    later_.push_back({answer->shared_request(), 1, n_choices - 1});
  }
  keep_prefix(answer);
  if (answer->is_reading()) {
    note_status(*answer);
  } else if (answer->request().is_cancelled) {
    return;
  }
  try {
    if (answer->is_reading()) {
      tell_reading(*answer);
    } else if (answer->embeds()) {
      go_on_embedding(answer);
    } else {
      draw(answer);
    }
  } catch (...) {
    finish(answer, ending_at_hand());
  }
}

void EngineLoop::go_on_embedding(Answer* answer) {
  const bool has_next = answer->next_text();
  note_status(*answer);
  if (!has_next) finish(answer, {AnswerEnd::kLimit});
}

void EngineLoop::draw(Answer* answer) {
  const uint32_t n_before = answer->n_drawn();
  auto is_over = [this, answer] { return is_unwanted(answer->request()); };
  using IsOver = decltype(is_over);
  std::optional<Ending> ending = answer->draw(
      model_.workspace(), [](void* asked) { return (*static_cast<IsOver*>(asked))() ? 1 : 0; },
      &is_over);
  if (ending && ending->status == CRIA_CANCELLED) ending = unwanted_ending(answer->request());
  board_->note_drawn(answer->n_drawn() - n_before);
  note_status(*answer);
  if (ending) {
    finish(answer, *ending);
  } else {
    tell_piece(answer);
  }
}

// Listeners --------------------------------------------------------------------------------------

void EngineLoop::note_status(const Answer& answer) {
  board_->note_session(answer.session(), answer.status());
}

void EngineLoop::tell_reading(const Answer& answer) {
  if (answer.choice() != 0) return;
  answer.request().listener->on_reading(
      {answer.n_read(), static_cast<uint32_t>(answer.request().asked.prompt.size())});
}

void EngineLoop::tell_piece(Answer* answer) {
  AnswerPiece piece;
  if (answer->take_piece(&piece)) answer->request().listener->on_piece(piece);
}

void EngineLoop::finish(Answer* answer, Ending ending) {
  const std::shared_ptr<Request> request = answer->shared_request();
  const bool has_read = !answer->is_reading();
  const uint32_t choice = answer->choice();
  AnswerSummary summary = {};
  try {
    summary = answer->finish(ending);
    if (ending.tells_rest()) tell_piece(answer);
  } catch (...) {
    ending = ending_at_hand();
    summary = answer->finish(ending);
  }
  board_->note_times(summary.prefill_seconds, summary.decode_seconds);
  board_->note_idle(answer->session(), answer->n_used());
  if (prefixes_) prefixes_->forget(request->id);
  pool_.take_back(answer->session());
  answers_.erase(std::find_if(answers_.begin(), answers_.end(),
                              [answer](const auto& other) { return other.get() == answer; }));
  tell_idle_sessions();
  tell_end(request.get(), summary);
  // What the others were to copy will not be there.
  if (choice == 0 && !has_read) end_without_session(request, 1, ending);
}

void EngineLoop::end_without_session(Request* request, uint32_t first, uint32_t n_choices,
                                     Ending ending) {
  for (uint32_t choice = first; choice < first + n_choices; ++choice) {
    AnswerSummary summary = {};
    summary.choice = choice;
    summary.end = ending.end;
    summary.status = ending.status;
    summary.n_prompt = static_cast<uint32_t>(request->asked.prompt.size());
    summary.queued_seconds = monotonic_seconds() - request->submitted_seconds;
    tell_end(request, summary);
  }
}

void EngineLoop::tell_end(Request* request, const AnswerSummary& summary) {
  if (summary.end == AnswerEnd::kFailed || summary.end == AnswerEnd::kNoMemory) {
    request->has_failed = true;
  }
  if (summary.end == AnswerEnd::kCancelled) request->was_cut = true;
  if (--request->n_left == 0) {
    queue_->forget(request->id);
    if (request->has_failed) {
      board_->note_failed();
    } else if (request->was_cut) {
      board_->note_cancelled();
    }
  }
  request->listener->on_end(summary);
}

}  // namespace cria::hosted
