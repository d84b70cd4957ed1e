#include "platforms/hosted/serve/answer_job.h"

#include <cstdint>
#include <string>
#include <utility>

#include "platforms/hosted/serve/api_error.h"

namespace cria::hosted {
namespace {

using Post = std::function<void(std::function<void()>)>;

class Job : public std::enable_shared_from_this<Job> {
 public:
  Job(Engine* engine, std::unique_ptr<AnswerWriter> writer, std::shared_ptr<Exchange> exchange)
      : engine_(engine), writer_(std::move(writer)), exchange_(std::move(exchange)) {}

  void start(std::vector<AnswerRequest> prompts, const Post& post);
  void take(size_t prompt, const AnswerPiece& piece);
  void end(size_t prompt, const AnswerSummary& summary);

 private:
  void cancel();
  void fail(const ApiError& error);
  void finish();

  Engine* engine_;
  std::unique_ptr<AnswerWriter> writer_;
  std::shared_ptr<Exchange> exchange_;  // null: there is nobody to tell any more
  std::vector<uint64_t> ids_;
  size_t n_open_ = 0;  // choices
};

// Of one prompt; on the engine's thread, where nothing is done but passing on.
class JobListener final : public AnswerListener {
 public:
  JobListener(std::shared_ptr<Job> job, size_t prompt, Post post)
      : job_(std::move(job)), prompt_(prompt), post_(std::move(post)) {}

  void on_piece(const AnswerPiece& piece) override {
    post_([job = job_, prompt = prompt_, piece] { job->take(prompt, piece); });
  }
  void on_end(const AnswerSummary& summary) override {
    post_([job = job_, prompt = prompt_, summary] { job->end(prompt, summary); });
  }

 private:
  std::shared_ptr<Job> job_;
  size_t prompt_;
  Post post_;
};

void Job::start(std::vector<AnswerRequest> prompts, const Post& post) {
  exchange_->when_gone([job = shared_from_this()] {
    job->cancel();
    job->exchange_ = nullptr;
  });
  if (exchange_ == nullptr) return;
  for (size_t i = 0; i < prompts.size(); ++i) {
    n_open_ += prompts[i].n_choices;
    uint64_t id = 0;
    const SubmitResult result = engine_->submit(
        std::move(prompts[i]), std::make_shared<JobListener>(shared_from_this(), i, post), &id);
    if (result == SubmitResult::kTaken) {
      ids_.push_back(id);
      continue;
    }
    cancel();
    const std::shared_ptr<Exchange> exchange = std::exchange(exchange_, nullptr);
    const bool is_full = result == SubmitResult::kQueueFull;
    return exchange->reply(ApiError(is_full ? ErrorKind::kTooMany : ErrorKind::kUnavailable,
                                    is_full
                                        ? "all sessions are busy and the queue is full; try again"
                                        : "the server is stopping")
                               .reply());
  }
  if (writer_->streams()) exchange_->begin_events();
}

void Job::take(size_t prompt, const AnswerPiece& piece) {
  if (exchange_ == nullptr) return;
  const std::string events = writer_->take(prompt, piece);
  if (!events.empty()) exchange_->send(events);
}

void Job::end(size_t prompt, const AnswerSummary& summary) {
  if (exchange_ == nullptr) return;
  if (summary.end == AnswerEnd::kFailed && summary.status == CRIA_NOTHING_TO_SAMPLE) {
    return fail(ApiError(ErrorKind::kInvalidRequest,
                         "logit_bias, with the schema if there is one, forbids every token",
                         "logit_bias"));
  }
  if (summary.end == AnswerEnd::kFailed) {
    return fail(ApiError(ErrorKind::kServer,
                         std::string("the model failed: ") + cria_status_message(summary.status)));
  }
  if (summary.end == AnswerEnd::kShutDown) {
    return fail(ApiError(ErrorKind::kUnavailable, "the server is stopping"));
  }
  const std::string events = writer_->end(prompt, summary);
  if (!events.empty()) exchange_->send(events);
  if (exchange_ != nullptr && --n_open_ == 0) finish();
}

void Job::cancel() {
  for (const uint64_t id : ids_) engine_->cancel(id);
}

void Job::fail(const ApiError& error) {
  cancel();
  const std::shared_ptr<Exchange> exchange = std::exchange(exchange_, nullptr);
  if (!writer_->streams()) return exchange->reply(error.reply());
  exchange->send(event_of(error.json()));
  exchange->end_events();
}

void Job::finish() {
  const std::shared_ptr<Exchange> exchange = std::exchange(exchange_, nullptr);
  exchange->note(writer_->counts());
  if (writer_->streams()) {
    exchange->send(writer_->finish());
    return exchange->end_events();
  }
  Reply reply;
  reply.body = writer_->finish();
  exchange->reply(std::move(reply));
}

}  // namespace

void start_job(Engine* engine, std::unique_ptr<AnswerWriter> writer,
               std::vector<AnswerRequest> prompts, const std::shared_ptr<Exchange>& exchange,
               const std::function<void(std::function<void()>)>& post) {
  std::make_shared<Job>(engine, std::move(writer), exchange)->start(std::move(prompts), post);
}

}  // namespace cria::hosted
