// From an order to its answer: what a client asked for, at the engine and back.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "platforms/hosted/engine/engine.h"
#include "platforms/hosted/serve/answer_writer.h"
#include "platforms/hosted/serve/http_types.h"

namespace cria::hosted {

// What all answers hold that are made and not taken, in bytes. While it is full none are begun, and
// those that hold more than kFewBytes end.
class Backlog {
 public:
  static constexpr size_t kMostBytes = size_t{64} << 20;
  static constexpr size_t kFewBytes = size_t{1} << 20;

  void add(size_t n_bytes) { n_bytes_ += n_bytes; }
  void remove(size_t n_bytes) { n_bytes_ -= n_bytes; }
  [[nodiscard]] bool is_full() const { return n_bytes_ > kMostBytes; }

 private:
  std::atomic<size_t> n_bytes_ = 0;
};

// Of requests that come while it is.
constexpr const char* kCrowded = "too many answers wait to be taken; try again";

// Throws ApiError unless the engine takes so many requests now.
void need_room(Engine* engine, size_t n_requests);

// On the network thread. All of the prompts are taken, or none: then the reply says so. Throws
// std::bad_alloc where there is no memory to begin.
void start_job(Engine* engine, std::unique_ptr<AnswerWriter> writer,
               std::vector<AnswerRequest> prompts, const std::shared_ptr<Exchange>& exchange,
               const std::shared_ptr<Backlog>& backlog, NetworkThread* network);

}  // namespace cria::hosted
