// What the engine tells, in the words of the API: whole answers, or events.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "platforms/hosted/serve/answer_order.h"

namespace cria::hosted {

// Of one order. prompt is a place in order.prompts.
class AnswerWriter {
 public:
  AnswerWriter(AnswerOrder order, const TextService* text);
  virtual ~AnswerWriter() = default;
  AnswerWriter(const AnswerWriter&) = delete;
  AnswerWriter& operator=(const AnswerWriter&) = delete;

  [[nodiscard]] bool streams() const { return order_.streams; }
  // Each gives the events that tell of it; nothing where the answer is told as a whole.
  std::string take(size_t prompt, const AnswerPiece& piece);
  std::string end(size_t prompt, const AnswerSummary& summary);
  // When all have ended: the last events, or the whole answer.
  std::string finish();

  // "12 tokens (8 held), 30 made": for the log.
  [[nodiscard]] std::string counts() const;

 protected:
  struct Choice {
    std::string text;
    std::vector<DrawnToken> tokens;
    AnswerSummary summary = {};
    bool has_begun = false;
    bool has_new_line = false;
    uint32_t n_told = 0;  // tokens
    double first_seconds = 0.0;
  };

  virtual Json piece_event(size_t prompt, const AnswerPiece& piece, Choice* choice) = 0;
  virtual Json end_event(size_t prompt, const Choice& choice) = 0;
  virtual Json whole() = 0;
  virtual std::string opening(size_t /*index*/) { return {}; }
  virtual std::string closing() { return {}; }

  [[nodiscard]] size_t index_of(size_t prompt, uint32_t choice) const;
  [[nodiscard]] Json head(const char* object) const;  // id, created, ...
  [[nodiscard]] Json usage() const;
  [[nodiscard]] Json logprobs_of(const std::vector<DrawnToken>& tokens) const;
  [[nodiscard]] Json timings_so_far(const Choice& choice) const;
  static Json timings_of(const AnswerSummary& summary);
  static const char* finish_reason(const AnswerSummary& summary);
  [[nodiscard]] Json all_timings() const;

  AnswerOrder order_;
  const TextService* text_;
  std::vector<Choice> choices_;
  std::string id_;
  int64_t created_;
  double begun_seconds_;
};

std::unique_ptr<AnswerWriter> make_writer(AnswerOrder order, const TextService* text);

// "data: {...}\n\n"
std::string event_of(const Json& json);
std::string event_of(const std::string& json);

// What answers say computed them.
const char* system_fingerprint();

}  // namespace cria::hosted
