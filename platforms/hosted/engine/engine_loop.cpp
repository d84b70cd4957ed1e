#include "platforms/hosted/engine/engine_loop.h"

#include <algorithm>
#include <iterator>
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
  const size_t n_prompt = answer.request().wish.prompt.size();
  std::string line = text_of("request %llu: session %u, %zu tokens, %u held",
                             static_cast<unsigned long long>(answer.request().id), answer.session(),
                             n_prompt, start.n_cached);
  if (start.copied_from) line += text_of(" (by session %u)", *start.copied_from);
  if (start.n_common < std::min<size_t>(start.n_held, n_prompt)) {
    line += text_of("; token %u is the first that differs from the %u of session %u",
                    start.n_common, start.n_held, start.nearest);
  }
  return line;
}

}  // namespace

EngineLoop::EngineLoop(const ModelSession& model, const EngineOptions& options, JsonBlocks* blocks,
                       RequestQueue* queue, StatusBoard* board)
    : model_(model),
      options_(options),
      blocks_(blocks),
      queue_(queue),
      board_(board),
      end_tokens_(end_tokens_of(model.model())),
      chunk_(chunk_of(model)),
      pool_(model.sessions()) {
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
  for (const std::shared_ptr<Request>& request : queue_->take_dropped()) {
    end_from(request, 0, unwanted_ending(*request));
  }
  const auto first_later = std::stable_partition(
      later_.begin(), later_.end(),
      [this](const WaitingChoice& waiting) { return !is_unwanted(*waiting.request); });
  const std::vector<WaitingChoice> later(std::make_move_iterator(first_later),
                                         std::make_move_iterator(later_.end()));
  later_.erase(first_later, later_.end());
  for (const WaitingChoice& waiting : later) {
    end_without_session(waiting, unwanted_ending(*waiting.request));
  }
  std::vector<Answer*> unwanted;
  for (const std::unique_ptr<Answer>& answer : answers_) {
    const bool is_in_step =
        std::find(in_step_.begin(), in_step_.end(), answer.get()) != in_step_.end();
    if (!is_in_step && is_unwanted(answer->request())) unwanted.push_back(answer.get());
  }
  for (Answer* const answer : unwanted) finish(answer, unwanted_ending(answer->request()));
}

// Sessions ---------------------------------------------------------------------------------------

cria_status EngineLoop::check(const AnswerRequest& wish) const {
  const uint32_t vocab_size = cria_vocab_size(model_.model());
  const bool is_valid = !wish.prompt.empty() && wish.n_choices <= model_.sessions().size() &&
                        std::all_of(wish.prompt.begin(), wish.prompt.end(),
                                    [vocab_size](uint32_t token) { return token < vocab_size; }) &&
                        std::none_of(wish.stops.begin(), wish.stops.end(),
                                     [](const std::string& stop) { return stop.empty(); });
  if (!is_valid) return CRIA_INVALID_ARGUMENT;
  return wish.prompt.size() < cria_context(model_.session()) ? CRIA_OK : CRIA_CONTEXT_FULL;
}

void EngineLoop::give_sessions() {
  while (pool_.n_idle() > 0) {
    if (!later_.empty()) {
      WaitingChoice waiting = std::move(later_.front());
      later_.pop_front();
      start(std::move(waiting));
      continue;
    }
    std::shared_ptr<Request> request = queue_->take();
    if (request == nullptr) break;
    const cria_status status = check(request->wish);
    if (status == CRIA_OK) {
      start({std::move(request), 0});
    } else {
      end_from(request, 0, {AnswerEnd::kFailed, status});
    }
  }
  tell_idle_sessions();
}

void EngineLoop::start(WaitingChoice waiting) {
  const uint32_t session = pool_.give(waiting.request->wish.prompt);
  board_->note_session(session, waiting.request->id, cria_position(pool_.at(session)), 0);
  const auto& answer = answers_.emplace_back(
      std::make_unique<Answer>(std::move(waiting.request), waiting.choice, model_.model(), session,
                               pool_.at(session), end_tokens_));
  const std::optional<Ending> ending = answer->prepare(blocks_);
  if (ending) finish(answer.get(), *ending);
}

void EngineLoop::tell_idle_sessions() {
  queue_->set_idle(pool_.n_idle() - std::min(pool_.n_idle(), later_.size()));
}

// Steps ------------------------------------------------------------------------------------------

// Clients that come at once begin with the same system prompt: it is read once.
bool EngineLoop::should_wait(const Answer& answer) const {
  const std::vector<uint32_t>& prompt = answer.request().wish.prompt;
  const uint32_t n_held = pool_.n_held(prompt);
  for (const std::unique_ptr<Answer>& older : answers_) {
    if (older.get() == &answer) break;
    if (!older->is_reading()) continue;
    const std::vector<uint32_t>& other = older->request().wish.prompt;
    const auto differs =
        std::mismatch(prompt.begin(), prompt.end() - 1, other.begin(), other.end()).first;
    if (static_cast<size_t>(differs - prompt.begin()) > n_held) return true;
  }
  return false;
}

void EngineLoop::begin_reading(Answer* answer) {
  const std::vector<uint32_t>& prompt = answer->request().wish.prompt;
  const PromptStart start = pool_.begin(answer->session(), prompt);
  answer->begin(start);
  board_->note_prompt(static_cast<uint32_t>(prompt.size()), start.n_cached);
  if (options_.log != nullptr) options_.log(line_about(*answer, start));
}

void EngineLoop::add_turn(Answer* answer, size_t n_prompt_tokens) {
  turns_.push_back(answer->turn(n_prompt_tokens));
  in_step_.push_back(answer);
}

// Every answer that has its prompt goes on by one token. Prompts share what is left of a chunk, so
// that the weights are read once for all of the step, the oldest first.
void EngineLoop::take_turns() {
  turns_.clear();
  in_step_.clear();
  for (const std::unique_ptr<Answer>& answer : answers_) {
    if (!answer->is_reading()) add_turn(answer.get(), 0);
  }
  size_t n_left = chunk_ > turns_.size() ? chunk_ - turns_.size() : 1;
  for (const std::unique_ptr<Answer>& answer : answers_) {
    if (!answer->is_reading() || n_left == 0) continue;
    if (!answer->has_begun()) {
      if (should_wait(*answer)) continue;
      begin_reading(answer.get());
    }
    add_turn(answer.get(), n_left);
    n_left -= turns_.back().n_tokens;
  }
}

StepWish EngineLoop::on_step(uint64_t, uint64_t) {
  if (queue_->take_notice()) drop_unwanted();
  const bool is_wanted =
      std::none_of(in_step_.begin(), in_step_.end(),
                   [this](const Answer* answer) { return is_unwanted(answer->request()); });
  return is_wanted ? StepWish::kGoOn : StepWish::kStop;
}

EngineLoop::StepResult EngineLoop::step() {
  take_turns();
  const cria_status status = cria_step(model_.workspace(), turns_.data(), turns_.size());
  const std::vector<Answer*> answers = std::exchange(in_step_, {});
  if (status == CRIA_CANCELLED) return StepResult::kStopped;
  if (status != CRIA_OK) {
    for (Answer* const answer : answers) finish(answer, {AnswerEnd::kFailed, status});
    return StepResult::kDone;
  }
  board_->note_step();
  for (size_t i = 0; i < answers.size(); ++i) {
    Answer* const answer = answers[i];
    if (answer->note_step(turns_[i]) && answer->choice() == 0) {
      for (uint32_t choice = 1; choice < answer->request().wish.n_choices; ++choice) {
        later_.push_back({answer->shared_request(), choice});
      }
    }
    if (answer->is_reading()) {
      board_->note_session(answer->session(), answer->request().id, answer->n_used(), 0);
    } else if (!answer->request().is_cancelled) {
      draw(answer);
    }
  }
  return StepResult::kDone;
}

void EngineLoop::draw(Answer* answer) {
  const uint32_t n_before = answer->n_drawn();
  const std::optional<Ending> ending = answer->draw(model_.workspace());
  board_->note_drawn(answer->n_drawn() - n_before);
  board_->note_session(answer->session(), answer->request().id, answer->n_used(),
                       answer->n_drawn());
  if (ending) {
    finish(answer, *ending);
  } else {
    tell_piece(answer);
  }
}

// Listeners --------------------------------------------------------------------------------------

void EngineLoop::tell_piece(Answer* answer) {
  AnswerPiece piece;
  if (answer->take_piece(&piece)) answer->request().listener->on_piece(piece);
}

void EngineLoop::finish(Answer* answer, Ending ending) {
  const std::shared_ptr<Request> request = answer->shared_request();
  const bool has_read = !answer->is_reading();
  const uint32_t choice = answer->choice();
  const AnswerSummary summary = answer->finish(ending);
  if (ending.end != AnswerEnd::kCancelled) tell_piece(answer);
  board_->note_times(summary.prefill_seconds, summary.decode_seconds);
  board_->note_idle(answer->session(), answer->n_used());
  pool_.take_back(answer->session());
  answers_.erase(std::find_if(answers_.begin(), answers_.end(),
                              [answer](const auto& other) { return other.get() == answer; }));
  tell_idle_sessions();
  tell_end(request.get(), summary);
  // What the others were to copy will not be there.
  if (choice == 0 && !has_read) end_from(request, 1, ending);
}

void EngineLoop::end_without_session(const WaitingChoice& waiting, Ending ending) {
  Request* const request = waiting.request.get();
  AnswerSummary summary = {};
  summary.choice = waiting.choice;
  summary.end = ending.end;
  summary.status = ending.status;
  summary.n_prompt = static_cast<uint32_t>(request->wish.prompt.size());
  summary.queued_seconds = monotonic_seconds() - request->submitted_seconds;
  tell_end(request, summary);
}

void EngineLoop::end_from(const std::shared_ptr<Request>& request, uint32_t first, Ending ending) {
  for (uint32_t choice = first; choice < request->wish.n_choices; ++choice) {
    end_without_session({request, choice}, ending);
  }
}

void EngineLoop::tell_end(Request* request, const AnswerSummary& summary) {
  if (summary.end == AnswerEnd::kFailed) request->has_failed = true;
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
