#include "platforms/hosted/serve/answer_job.h"

#include <cstdint>
#include <deque>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "platforms/hosted/base/clock.h"
#include "platforms/hosted/base/print_format.h"
#include "platforms/hosted/serve/api_error.h"

namespace cria::hosted {
namespace {

ApiError refusal_of(SubmitResult result) {
  if (result == SubmitResult::kShuttingDown) {
    return {ErrorKind::kUnavailable, "the server is stopping"};
  }
  return {ErrorKind::kTooMany, "all sessions are busy and the queue is full; try again"};
}

// What the engine told and nobody has written yet.
struct Told {
  size_t prompt;
  double seconds;
  std::variant<AnswerPiece, AnswerSummary, ReadingProgress> what;
};

class Job final : public Wakeable, public std::enable_shared_from_this<Job> {
 public:
  Job(Engine* engine, std::unique_ptr<AnswerWriter> writer, std::shared_ptr<Exchange> exchange,
      std::shared_ptr<Backlog> backlog, std::unique_ptr<Waker> waker)
      : engine_(engine),
        writer_(std::move(writer)),
        exchange_(std::move(exchange)),
        backlog_(std::move(backlog)),
        waker_(std::move(waker)),
        own_bytes_(writer_->own_bytes()) {
    backlog_->add(own_bytes_);
  }
  ~Job() override { backlog_->remove(own_bytes_ + n_bytes_); }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  void start(std::vector<AnswerRequest> prompts);

  // On the engine's thread, where nothing is written.
  void take(size_t prompt, const ReadingProgress& progress);
  void take(size_t prompt, const AnswerPiece& piece);
  void end(size_t prompt, const AnswerSummary& summary) noexcept;

 private:
  enum class Excess { kNone, kOwn, kOfAll, kMemory };

  void submit(std::vector<AnswerRequest> prompts);
  void wake();
  void refuse(const ApiError& error);
  void end_early(const Failure& failure);

  // On the network thread.
  void on_wake() override;
  void look();
  bool next(std::string* text);
  bool next_told(Told* told);
  bool write(const Told& told, std::string* text);
  void cancel();
  void drop();
  bool fail(const ApiError& error, std::string* text);
  void finish_whole();

  [[nodiscard]] size_t bytes_of(const AnswerPiece& piece) const {
    return writer_->bytes_of(piece) + (writer_->streams() ? sizeof(Told) : 0);
  }

  Engine* engine_;
  std::unique_ptr<AnswerWriter> writer_;
  std::shared_ptr<Exchange> exchange_;  // null: there is nobody to tell any more
  std::shared_ptr<Backlog> backlog_;
  std::unique_ptr<Waker> waker_;
  std::vector<uint64_t> ids_;
  const size_t own_bytes_;  // of the writer, counted in the backlog
  size_t n_open_ = 0;       // choices

  std::mutex mutex_;  // of all that follows
  std::deque<Told> told_;
  size_t n_bytes_ = 0;  // counted in the backlog
  bool is_woken_ = false;
  bool is_over_ = false;           // nothing more is taken,
  int64_t reading_told_ms_ = 0;    // when progress was told last
  Excess excess_ = Excess::kNone;  // perhaps because it would be too much
};

// Of one prompt.
class JobListener final : public AnswerListener {
 public:
  JobListener(std::shared_ptr<Job> job, size_t prompt) : job_(std::move(job)), prompt_(prompt) {}

  void on_reading(const ReadingProgress& progress) override { job_->take(prompt_, progress); }
  void on_piece(const AnswerPiece& piece) override { job_->take(prompt_, piece); }
  void on_end(const AnswerSummary& summary) noexcept override { job_->end(prompt_, summary); }

 private:
  std::shared_ptr<Job> job_;
  size_t prompt_;
};

void Job::start(std::vector<AnswerRequest> prompts) {
  try {
    submit(std::move(prompts));
  } catch (...) {
    end_early(Failure::at_hand());
  }
}

void Job::submit(std::vector<AnswerRequest> prompts) {
  exchange_->when_gone([job = shared_from_this()] {
    job->cancel();
    job->drop();
    job->exchange_ = nullptr;
  });
  if (exchange_ == nullptr) return;
  try {
    need_room(engine_, prompts.size());
  } catch (const ApiError& error) {
    return refuse(error);
  }
  for (const AnswerRequest& prompt : prompts) n_open_ += prompt.n_choices;
  ids_.reserve(prompts.size());
  for (size_t i = 0; i < prompts.size(); ++i) {
    uint64_t id = 0;
    const SubmitResult result = engine_->submit(
        std::move(prompts[i]), std::make_shared<JobListener>(shared_from_this(), i), &id);
    if (result == SubmitResult::kTaken) {
      ids_.push_back(id);
      continue;
    }
    return refuse(refusal_of(result));
  }
  if (!writer_->streams()) return;
  exchange_->begin_stream(
      [job = shared_from_this()](std::string* text) { return job->next(text); });
}

void Job::refuse(const ApiError& error) {
  Reply refusal = error.reply(writer_->form());
  cancel();
  drop();
  const std::shared_ptr<Exchange> exchange = std::exchange(exchange_, nullptr);
  exchange->reply(std::move(refusal));
}

void Job::end_early(const Failure& failure) {
  cancel();
  drop();
  const std::shared_ptr<Exchange> exchange = std::exchange(exchange_, nullptr);
  if (exchange != nullptr) exchange->end_early(failure);
}

// At most one that waits a second.
void Job::take(size_t prompt, const ReadingProgress& progress) {
  constexpr int64_t kMsBetween = 1000;
  if (!writer_->streams()) return;
  const std::lock_guard lock(mutex_);
  const int64_t now_ms = monotonic_ms();
  if (is_over_ || now_ms < reading_told_ms_ + kMsBetween || !told_.empty()) return;
  reading_told_ms_ = now_ms;
  told_.push_back({prompt, monotonic_seconds(), progress});
  wake();
}

void Job::take(size_t prompt, const AnswerPiece& piece) {
  const size_t n_bytes = bytes_of(piece);
  const std::lock_guard lock(mutex_);
  if (is_over_) return;
  n_bytes_ += n_bytes;
  backlog_->add(n_bytes);
  if (n_bytes_ > kMostAnswerBytes) {
    excess_ = Excess::kOwn;
  } else if (n_bytes_ > Backlog::kFewBytes && backlog_->is_full()) {
    excess_ = Excess::kOfAll;
  }
  if (excess_ != Excess::kNone) {
    is_over_ = true;
    if (writer_->streams()) {
      told_.clear();
      backlog_->remove(std::exchange(n_bytes_, 0));
    }
    return wake();
  }
  if (!writer_->streams()) {
    writer_->take(prompt, piece, monotonic_seconds());
    return;
  }
  told_.push_back({prompt, monotonic_seconds(), piece});
  wake();
}

// A request whose end cannot be kept ends as one that there is no memory for.
void Job::end(size_t prompt, const AnswerSummary& summary) noexcept {
  const std::lock_guard lock(mutex_);
  if (is_over_) return;
  bool is_kept = summary.end != AnswerEnd::kNoMemory;
  try {
    if (is_kept) told_.push_back({prompt, monotonic_seconds(), summary});
  } catch (const std::bad_alloc&) {
    is_kept = false;
  }
  if (!is_kept) {
    excess_ = Excess::kMemory;
    is_over_ = true;
  }
  wake();
}

// Under the mutex.
void Job::wake() {
  if (std::exchange(is_woken_, true)) return;
  waker_->wake(shared_from_this());
}

void Job::on_wake() {
  try {
    look();
  } catch (...) {
    end_early(Failure::at_hand());
  }
}

void Job::look() {
  bool is_too_much = false;
  {
    const std::lock_guard lock(mutex_);
    is_woken_ = false;
    is_too_much = excess_ != Excess::kNone;
  }
  if (exchange_ == nullptr) return;
  if (is_too_much) cancel();  // a slow client must not keep a session for it
  if (writer_->streams()) {
    // By itself it may be the last to hold the other.
    const std::shared_ptr<Exchange> exchange = exchange_;
    return exchange->wake();
  }
  std::string nothing;
  while (exchange_ != nullptr) {
    const size_t n_open = n_open_;
    if (!next(&nothing) || n_open_ == n_open) return;
  }
}

bool Job::next_told(Told* told) {
  const std::lock_guard lock(mutex_);
  if (told_.empty()) return false;
  *told = std::move(told_.front());
  told_.pop_front();
  if (const auto* const piece = std::get_if<AnswerPiece>(&told->what)) {
    const size_t n_bytes = bytes_of(*piece) - writer_->kept_bytes_of(*piece);
    n_bytes_ -= n_bytes;
    backlog_->remove(n_bytes);
  }
  return true;
}

// As NextText; of a whole answer only ends come here.
bool Job::next(std::string* text) {
  Excess excess = Excess::kNone;
  {
    const std::lock_guard lock(mutex_);
    excess = excess_;
  }
  // What failed on the engine's thread ends the answer as what fails on this one.
  if (excess == Excess::kMemory) throw std::bad_alloc();
  if (excess == Excess::kOfAll) {
    return fail(ApiError(ErrorKind::kUnavailable, kCrowded), text);
  }
  if (excess == Excess::kOwn) {
    return fail(ApiError(ErrorKind::kInvalidRequest,
                         text_of("the answer is larger than %zu bytes, the most that is held; ask "
                                 "for fewer tokens, or stream it and read faster",
                                 kMostAnswerBytes),
                         "max_tokens"),
                text);
  }
  // A piece may tell nothing yet, and whoever gets no text waits until there is news.
  const size_t n_before = text->size();
  Told told = {};
  while (text->size() == n_before && next_told(&told)) {
    if (!write(told, text)) return false;
  }
  return true;
}

// False: it is over.
bool Job::write(const Told& told, std::string* text) {
  if (const auto* const piece = std::get_if<AnswerPiece>(&told.what)) {
    *text += writer_->take(told.prompt, *piece, told.seconds);
    return true;
  }
  if (const auto* const progress = std::get_if<ReadingProgress>(&told.what)) {
    *text += writer_->reading(*progress);
    return true;
  }
  const AnswerSummary& summary = std::get<AnswerSummary>(told.what);
  if (summary.end == AnswerEnd::kFailed && summary.status == CRIA_NOTHING_TO_SAMPLE) {
    return fail(ApiError(ErrorKind::kInvalidRequest,
                         "logit_bias, with a schema or tools if there are any, forbids every token",
                         "logit_bias"),
                text);
  }
  if (summary.end == AnswerEnd::kFailed && summary.status == CRIA_OK) {
    return fail(ApiError(ErrorKind::kServer, kServerFailed), text);
  }
  if (summary.end == AnswerEnd::kFailed) {
    const char* const why = cria_status_message(summary.status);
    return fail(ApiError(ErrorKind::kServer, std::string("the model failed: ") + why), text);
  }
  if (summary.end == AnswerEnd::kShutDown) {
    return fail(ApiError(ErrorKind::kUnavailable, "the server is stopping"), text);
  }
  *text += writer_->end(told.prompt, summary);
  if (--n_open_ > 0) return true;
  exchange_->note(writer_->counts());
  if (!writer_->streams()) {
    finish_whole();
    return false;
  }
  exchange_ = nullptr;
  *text += writer_->last_events();
  return false;
}

void Job::cancel() {
  for (const uint64_t id : ids_) engine_->cancel(id);
}

// What is not told yet never will be.
void Job::drop() {
  const std::lock_guard lock(mutex_);
  is_over_ = true;
  told_.clear();
  backlog_->remove(std::exchange(n_bytes_, 0));
}

bool Job::fail(const ApiError& error, std::string* text) {
  Reply reply = error.reply(writer_->form());
  if (writer_->streams()) *text += framed(writer_->form(), reply.body);
  cancel();
  drop();
  const std::shared_ptr<Exchange> exchange = std::exchange(exchange_, nullptr);
  if (!writer_->streams()) exchange->reply(std::move(reply));
  return false;
}

void Job::finish_whole() {
  Reply head;
  NextText next = [job = shared_from_this()](std::string* text) {
    return job->writer_->next_of_whole(text);
  };
  // From here on the exchange says what there is no memory for.
  const std::shared_ptr<Exchange> exchange = std::exchange(exchange_, nullptr);
  exchange->reply(std::move(head), std::move(next));
}

}  // namespace

void need_room(Engine* engine, size_t n_requests) {
  const SubmitResult result = engine->has_room(n_requests);
  if (result != SubmitResult::kTaken) throw refusal_of(result);
}

void start_job(Engine* engine, std::unique_ptr<AnswerWriter> writer,
               std::vector<AnswerRequest> prompts, const std::shared_ptr<Exchange>& exchange,
               const std::shared_ptr<Backlog>& backlog, NetworkThread* network) {
  std::make_shared<Job>(engine, std::move(writer), exchange, backlog, network->make_waker())
      ->start(std::move(prompts));
}

}  // namespace cria::hosted
