// Requests that wait, are cancelled or meet the engine's end, and what happens to those beside
// them.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <latch>
#include <thread>

#include "tests/support/engine_trial.h"

namespace cria::hosted {
namespace {

using test::asking;
using test::demo_path;
using test::drawn_alone;
using test::EngineTrial;
using test::HeardChoice;
using test::Hearer;
using test::kTokens;
using test::seeded;
using test::told;

// What a test does with each line of the log: on the engine's thread, where a prompt is about to be
// read by the next step.
std::function<void(const std::string&)> each_line;
void take_line(const std::string& line) {
  if (each_line) each_line(line);
}

class EngineQueue : public testing::Test {
 protected:
  ~EngineQueue() override { each_line = nullptr; }
};

AnswerRequest long_one() {
  AnswerRequest request = seeded("Once upon a time", 9);
  request.max_tokens = 200;
  test::forbid_ends(&request);
  return request;
}

bool begins_with(const std::vector<uint32_t>& whole, const std::vector<uint32_t>& part) {
  return part.size() <= whole.size() && std::equal(part.begin(), part.end(), whole.begin());
}

// A request that holds the engine's thread with its first piece.
class Holder {
 public:
  explicit Holder(EngineTrial* trial) : hearer_(std::make_shared<Hearer>(1)) {
    hearer_->each_piece = [this](const AnswerPiece&) {
      if (holds_.exchange(false)) {
        held_.count_down();
        released_.wait();
      }
    };
    uint64_t id = 0;
    EXPECT_EQ(trial->engine().submit(long_one(), hearer_, &id), SubmitResult::kTaken);
    held_.wait();
  }
  void release() { released_.count_down(); }
  [[nodiscard]] HeardChoice answer() { return hearer_->all()[0]; }

 private:
  std::shared_ptr<Hearer> hearer_;
  std::atomic<bool> holds_ = true;
  std::latch held_{1};
  std::latch released_{1};
};

TEST_F(EngineQueue, TakesSoManyAndNoMore) {
  EngineTrial trial(demo_path(), {.options = {.max_waiting = 2}});
  Holder holder(&trial);
  const AnswerRequest request = asking("The", 3);
  const auto first = trial.begin(request);
  const auto second = trial.begin(request);
  const auto third = std::make_shared<Hearer>(1);
  uint64_t id = 0;
  EXPECT_EQ(trial.engine().submit(request, third, &id), SubmitResult::kQueueFull);
  EngineCounts counts = trial.engine().counts();
  EXPECT_EQ(counts.n_requests, 3u);
  EXPECT_EQ(counts.n_refused, 1u);
  EXPECT_EQ(counts.n_waiting, 2u);
  EXPECT_EQ(counts.n_busy, 1u);
  EXPECT_TRUE(trial.engine().sessions().at(0).is_processing);
  holder.release();
  EXPECT_EQ(first->all()[0].tokens.size(), 3u);
  EXPECT_EQ(second->all()[0].tokens.size(), 3u);
  EXPECT_EQ(holder.answer().tokens.size(), 200u);
  EXPECT_EQ(trial.ask(request).tokens.size(), 3u);
  counts = trial.engine().counts();
  EXPECT_EQ(counts.n_waiting + counts.n_busy, 0u);
  EXPECT_EQ(counts.n_drawn_tokens, 200u + 3 * 3);
  EXPECT_FALSE(trial.engine().sessions().at(0).is_processing);
}

TEST_F(EngineQueue, WithoutWaitingStillGivesIdleSessions) {
  EngineTrial trial(demo_path(), {.n_sessions = 2, .options = {.max_waiting = 0}});
  Holder holder(&trial);
  const auto second = trial.begin(asking("The", 3));
  uint64_t id = 0;
  EXPECT_EQ(trial.engine().submit(asking("The", 3), std::make_shared<Hearer>(1), &id),
            SubmitResult::kQueueFull);
  holder.release();
  EXPECT_EQ(second->all()[0].tokens.size(), 3u);
}

TEST_F(EngineQueue, IsFair) {
  std::vector<std::string> lines;
  each_line = [&lines](const std::string& line) { lines.push_back(line); };
  {
    EngineTrial trial(demo_path(), {.options = {.log = &take_line}});
    Holder holder(&trial);
    std::vector<std::shared_ptr<Hearer>> hearers;
    for (int i = 0; i < 8; ++i) hearers.push_back(trial.begin(asking("The", 2)));
    holder.release();
    for (const auto& hearer : hearers) EXPECT_EQ(hearer->all()[0].tokens.size(), 2u);
  }
  ASSERT_EQ(lines.size(), 9u);
  for (size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(lines[i].find("request " + std::to_string(i + 1) + ":"), 0u) << lines[i];
  }
}

// Notes how far its prompt is read, and does something when a step has read of it.
class Reader : public Hearer {
 public:
  explicit Reader(std::function<void()> each_step) : Hearer(1), each_step_(std::move(each_step)) {}
  void on_reading(const ReadingProgress& progress) override {
    n_read_ = progress.n_read;
    each_step_();
  }
  [[nodiscard]] uint32_t n_read() const { return n_read_; }

 private:
  const std::function<void()> each_step_;
  std::atomic<uint32_t> n_read_ = 0;
};

TEST_F(EngineQueue, AShortPromptDoesNotWaitForAllOfALongOne) {
  for (const uint32_t chunk : {2u, 16u}) {
    SCOPED_TRACE(chunk);
    EngineTrial trial(demo_path(), {.n_sessions = 2, .prefill_chunk = chunk});
    AnswerRequest tale = asking(told(told(told("They saw"))), 4);
    // No beginning is shared, which would be waited for.
    std::swap(tale.prompt.front(), tale.prompt.back());
    ASSERT_GT(tale.prompt.size(), 8 * chunk);
    const AnswerRequest question = asking("The bear", 1);
    uint32_t n_read_at_answer = 0;
    std::shared_ptr<Reader> teller;
    const auto asker = std::make_shared<Hearer>(1);
    asker->each_piece = [&](const AnswerPiece&) { n_read_at_answer = teller->n_read(); };
    uint64_t id = 0;
    uint64_t asked = 0;
    teller = std::make_shared<Reader>([&] {
      if (asked == 0) trial.engine().submit(question, asker, &asked);
    });
    ASSERT_EQ(trial.engine().submit(tale, teller, &id), SubmitResult::kTaken);
    EXPECT_EQ(teller->all()[0].token_ids(), drawn_alone(demo_path(), tale));
    EXPECT_EQ(asker->all()[0].token_ids(), drawn_alone(demo_path(), question));
    EXPECT_GT(n_read_at_answer, 0u);
    EXPECT_LT(n_read_at_answer, (question.prompt.size() + 4) * chunk);
  }
}

TEST_F(EngineQueue, LogsWhereAPromptDiffers) {
  std::vector<std::string> lines;
  each_line = [&lines](const std::string& line) { lines.push_back(line); };
  {
    EngineTrial trial(demo_path(), {.options = {.log = &take_line}});
    AnswerRequest request = asking("Today is Monday.", 1);
    request.prompt = {10, 11, 12, 13, 14, 15};
    trial.ask(request);
    request.prompt = {10, 11, 12, 99, 14, 15, 16};
    trial.ask(request);
  }
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0], "request 1: session 0, 6 tokens, 0 held");
  EXPECT_EQ(lines[1],
            "request 2: session 0, 7 tokens, 3 held; token 3 is the first that differs from the 6 "
            "of session 0");
}

TEST_F(EngineQueue, CancelsWhatWaits) {
  EngineTrial trial(demo_path(), {});
  const auto busy = std::make_shared<Hearer>(1);
  uint64_t waiting_id = 0;
  std::shared_ptr<Hearer> waiting;
  std::atomic<int> n_pieces = 0;
  bool has_ended = false;
  std::latch submitted(1);
  busy->each_piece = [&](const AnswerPiece&) {
    submitted.wait();
    ++n_pieces;
    if (n_pieces == 5) trial.engine().cancel(waiting_id);
    // The next step has layers, and between them it is heard of.
    if (n_pieces == 6) has_ended = waiting->has_ended();
  };
  uint64_t busy_id = 0;
  ASSERT_EQ(trial.engine().submit(long_one(), busy, &busy_id), SubmitResult::kTaken);
  waiting = trial.begin(asking("The", 3), &waiting_id);
  submitted.count_down();
  EXPECT_EQ(waiting->all()[0].ends.at(0).end, AnswerEnd::kCancelled);
  EXPECT_EQ(busy->all()[0].ends.at(0).end, AnswerEnd::kLimit);
  EXPECT_TRUE(has_ended);
  EXPECT_EQ(trial.engine().counts().n_cancelled, 1u);
  trial.engine().cancel(waiting_id);  // which has ended
  trial.engine().cancel(12345);
}

// Cancelled between the making of a step and its first layer.
TEST_F(EngineQueue, CancelsWhatIsRead) {
  EngineTrial trial(demo_path(), {.n_sessions = 3, .options = {.log = &take_line}});
  each_line = [&](const std::string& line) {
    if (line.find("request 3:") == 0) trial.engine().cancel(3);
  };
  const auto first = trial.begin(long_one());
  first->wait_for_pieces(3);
  const auto second = trial.begin(seeded("The bear", 2));
  second->wait_for_pieces(1);
  const auto cancelled = trial.begin(seeded(told("They saw"), 3));
  const HeardChoice heard = cancelled->all()[0];
  EXPECT_EQ(heard.ends.at(0).end, AnswerEnd::kCancelled);
  EXPECT_TRUE(heard.pieces.empty());
  // The step was stopped: nothing was read.
  EXPECT_EQ(trial.engine().sessions().at(heard.ends.at(0).session).n_used,
            heard.ends.at(0).n_cached);
  const auto next = trial.begin(seeded(told("They saw"), 4));
  const std::vector<uint32_t> tokens = first->all()[0].token_ids();
  EXPECT_EQ(tokens.size(), 200u);
  EXPECT_EQ(tokens, drawn_alone(demo_path(), long_one()));
  EXPECT_EQ(second->all()[0].token_ids(), drawn_alone(demo_path(), seeded("The bear", 2)));
  EXPECT_EQ(next->all()[0].token_ids(), drawn_alone(demo_path(), seeded(told("They saw"), 4)));
  EXPECT_EQ(trial.engine().counts().n_cancelled, 1u);
}

TEST_F(EngineQueue, CancelsWhatIsDrawn) {
  EngineTrial trial(demo_path(),
                    {.n_sessions = 4, .prefill_chunk = 16, .options = {.log = &take_line}});
  each_line = [&](const std::string& line) {
    if (line.find("request 3:") == 0) trial.engine().cancel(2);
  };
  const auto first = trial.begin(long_one());
  first->wait_for_pieces(2);
  AnswerRequest other = long_one();
  other.seed = 10;
  const auto cancelled = std::make_shared<Hearer>(1);
  const auto third = std::make_shared<Hearer>(1);
  uint64_t other_id = 0;
  uint64_t third_id = 0;
  // Asked while the second one draws, however slow this thread is.
  cancelled->each_piece = [&, n = 0](const AnswerPiece&) mutable {
    if (++n != 4) return;
    EXPECT_EQ(trial.engine().submit(seeded(told("They saw"), 3), third, &third_id),
              SubmitResult::kTaken);
  };
  ASSERT_EQ(trial.engine().submit(other, cancelled, &other_id), SubmitResult::kTaken);
  const HeardChoice heard = cancelled->all()[0];
  EXPECT_EQ(heard.ends.at(0).end, AnswerEnd::kCancelled);
  EXPECT_GT(heard.ends.at(0).n_drawn, 3u);
  EXPECT_LT(heard.ends.at(0).n_drawn, 200u);
  const std::vector<uint32_t> alone = EngineTrial(demo_path(), {}).ask(long_one()).token_ids();
  EXPECT_EQ(first->all()[0].token_ids(), alone);
  EXPECT_EQ(third->all()[0].token_ids(), drawn_alone(demo_path(), seeded(told("They saw"), 3)));
  const std::vector<uint32_t> whole = trial.ask(other).token_ids();
  EXPECT_EQ(whole.size(), 200u);
  EXPECT_TRUE(begins_with(whole, heard.token_ids()));
}

TEST_F(EngineQueue, CancelsEveryChoice) {
  for (const uint32_t n_sessions : {3, 4}) {
    EngineTrial trial(demo_path(), {.n_sessions = n_sessions});
    AnswerRequest request = long_one();
    request.n_choices = 3;
    const auto company = trial.begin(long_one());
    company->wait_for_pieces(1);
    const auto hearer = std::make_shared<Hearer>(3);
    // While they draw, however slow this thread is.
    hearer->each_piece = [&, n = 0](const AnswerPiece&) mutable {
      if (++n == 5) trial.engine().cancel(2);
    };
    uint64_t id = 0;
    ASSERT_EQ(trial.engine().submit(request, hearer, &id), SubmitResult::kTaken);
    ASSERT_EQ(id, 2u);
    for (const HeardChoice& heard : hearer->all()) {
      EXPECT_EQ(heard.ends.at(0).end, AnswerEnd::kCancelled);
    }
    EXPECT_EQ(company->all()[0].tokens.size(), 200u);
    EXPECT_EQ(trial.engine().counts().n_cancelled, 1u);
    EXPECT_EQ(trial.engine().counts().n_busy, 0u);
  }
}

// Cancelled before choice 0 has read the prompt: the others never had a place to begin.
TEST_F(EngineQueue, CancelsChoicesThatHaveNotBegun) {
  EngineTrial trial(demo_path(), {.n_sessions = 3, .options = {.log = &take_line}});
  each_line = [&](const std::string&) { trial.engine().cancel(1); };
  AnswerRequest request = long_one();
  request.n_choices = 3;
  for (const HeardChoice& heard : trial.ask_all(request)) {
    EXPECT_EQ(heard.ends.at(0).end, AnswerEnd::kCancelled);
  }
}

// A session that is full without the engine's knowledge stands for a step that fails.
TEST_F(EngineQueue, AFailedStepEndsThoseInItAlone) {
  EngineTrial trial(demo_path(), {.n_sessions = 2, .context = 64, .options = {.log = &take_line}});
  const std::vector<uint32_t> filling(63, 7);
  each_line = [&](const std::string& line) {
    if (line.find("request 2:") != 0) return;
    cria_session* const session = trial.model().sessions().at(1);
    ASSERT_EQ(cria_prefill(trial.model().workspace(), session, filling.data(), filling.size()),
              CRIA_OK);
  };
  Holder holder(&trial);
  const auto second = trial.begin(asking("The bear and the fox", 3));
  const auto third = trial.begin(asking("The bear and the fox", 3));
  holder.release();
  for (const HeardChoice& heard : {holder.answer(), second->all()[0]}) {
    EXPECT_EQ(heard.ends.at(0).end, AnswerEnd::kFailed);
    EXPECT_EQ(heard.ends.at(0).status, CRIA_CONTEXT_FULL);
  }
  EXPECT_EQ(third->all()[0].token_ids(),
            drawn_alone(demo_path(), asking("The bear and the fox", 3)));
  EXPECT_EQ(trial.engine().counts().n_failed, 2u);
}

TEST_F(EngineQueue, AListenerMayCallTheEngine) {
  EngineTrial trial(demo_path(), {.n_sessions = 2});
  const auto hearer = std::make_shared<Hearer>(1);
  const auto next = std::make_shared<Hearer>(1);
  uint64_t id = 0;
  uint64_t next_id = 0;
  hearer->each_piece = [&](const AnswerPiece&) {
    if (next_id == 0) {
      EXPECT_EQ(trial.engine().submit(asking("The", 3), next, &next_id), SubmitResult::kTaken);
    }
    EXPECT_GT(trial.engine().counts().n_busy, 0u);
    EXPECT_TRUE(trial.engine().sessions().at(0).is_processing);
    trial.engine().cancel(id);
  };
  ASSERT_EQ(trial.engine().submit(long_one(), hearer, &id), SubmitResult::kTaken);
  EXPECT_EQ(hearer->all()[0].ends.at(0).end, AnswerEnd::kCancelled);
  EXPECT_EQ(next->all()[0].tokens.size(), 3u);
}

TEST_F(EngineQueue, FinishesWhatRunsBeforeItStops) {
  EngineTrial trial(demo_path(), {});
  Holder holder(&trial);
  const auto waiting = trial.begin(asking("The", 3));
  std::thread stopper([&] { trial.engine().stop(600.0); });
  uint64_t id = 0;
  // Once it is shut down nothing is taken; until then the queue may be.
  SubmitResult result = SubmitResult::kTaken;
  std::vector<std::shared_ptr<Hearer>> more;
  while (result != SubmitResult::kShuttingDown) {
    more.push_back(std::make_shared<Hearer>(1));
    result = trial.engine().submit(asking("The", 3), more.back(), &id);
    if (result != SubmitResult::kTaken) more.pop_back();
    std::this_thread::yield();
  }
  holder.release();
  stopper.join();
  EXPECT_EQ(holder.answer().ends.at(0).end, AnswerEnd::kLimit);
  EXPECT_EQ(holder.answer().tokens.size(), 200u);
  EXPECT_EQ(waiting->all()[0].ends.at(0).end, AnswerEnd::kShutDown);
  for (const auto& hearer : more) EXPECT_EQ(hearer->all()[0].ends.at(0).end, AnswerEnd::kShutDown);
  trial.engine().stop(1.0);
}

TEST_F(EngineQueue, StopsAtOnceWhenToldAgain) {
  EngineTrial trial(demo_path(), {.n_sessions = 2});
  AnswerRequest request = long_one();
  request.n_choices = 2;
  Holder holder(&trial);
  const auto other = trial.begin(request);
  std::thread patient([&] { trial.engine().stop(600.0); });
  uint64_t id = 0;
  while (trial.engine().submit(request, std::make_shared<Hearer>(2), &id) !=
         SubmitResult::kShuttingDown) {
    std::this_thread::yield();
  }
  std::thread impatient([&] { trial.engine().stop(0.0); });
  holder.release();
  impatient.join();
  patient.join();
  for (const HeardChoice& heard : other->all()) {
    EXPECT_EQ(heard.ends.at(0).end, AnswerEnd::kShutDown);
  }
  (void)holder.answer();
}

}  // namespace
}  // namespace cria::hosted
