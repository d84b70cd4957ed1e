// What the engine tells, in the words of the API: whole answers, or events.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "platforms/hosted/serve/answer_order.h"
#include "platforms/hosted/serve/json_text.h"

namespace cria::hosted {

// Of one order. prompt is a place among its prompts.
class AnswerWriter {
 public:
  AnswerWriter(AnswerOrder order, const TextService* text);
  virtual ~AnswerWriter() = default;
  AnswerWriter(const AnswerWriter&) = delete;
  AnswerWriter& operator=(const AnswerWriter&) = delete;

  [[nodiscard]] bool streams() const { return order_.streams; }
  [[nodiscard]] WireForm form() const { return order_.form; }
  // What it holds as long as it lives, with what of it is on its way to the client.
  [[nodiscard]] size_t own_bytes() const;
  // What take holds on to of a piece where the answer is told as a whole, and as long as it waits
  // to be told.
  [[nodiscard]] size_t bytes_of(const AnswerPiece& piece) const;
  // What of that a stream keeps of a piece that it has told.
  [[nodiscard]] virtual size_t kept_bytes_of(const AnswerPiece& /*piece*/) const { return 0; }
  // Each gives the events that tell of it; nothing where the answer is told as a whole. seconds is
  // when the piece was made. Pieces of a whole answer may be taken on another thread than its ends.
  std::string take(size_t prompt, const AnswerPiece& piece, double seconds);
  std::string end(size_t prompt, const AnswerSummary& summary);
  // Told while a prompt is read; nothing where a stream has no comments.
  [[nodiscard]] std::string reading(const ReadingProgress& progress) const;
  // When all have ended: the last events.
  std::string last_events() { return closing(); }
  // Or the whole answer: what comes next of it, after text. False: that was the end.
  bool next_of_whole(std::string* text);

  // "12 tokens (8 held), 30 made": for the log.
  [[nodiscard]] std::string counts() const;

 protected:
  struct Call {
    std::string id;
    std::string name;
    std::string arguments;  // a JSON object
    bool is_whole = false;
  };
  // Of a stream text and thinking are told and not kept.
  struct Choice {
    std::string text;
    std::string thinking;
    std::vector<Call> calls;
    std::unique_ptr<CallReader> reader;
    std::vector<DrawnToken> tokens;
    AnswerSummary summary = {};
    bool has_begun = false;
    bool has_new_line = false;
    uint32_t n_told = 0;      // tokens
    size_t n_text_bytes = 0;  // of their texts
    double first_seconds = 0.0;
    double last_seconds = 0.0;
  };

  virtual JsonText piece_event(size_t prompt, const AnswerPiece& piece, Choice* choice) = 0;
  virtual JsonText end_event(size_t prompt, const Choice& choice) = 0;
  // Of a part that is no text, which choice has been told; nothing: it has no event.
  virtual std::optional<JsonText> part_event(size_t /*index*/, const AnswerPart& /*part*/,
                                             const Choice& /*choice*/) {
    return std::nullopt;
  }
  // The whole answer: what comes first, each choice, what comes last. One is made when the one
  // before it is taken, and lists of a choice's tokens are written as they are sent: they may be
  // far longer than what they are made of.
  virtual void put_first() = 0;
  virtual void put_choice(size_t index) = 0;
  virtual void put_last() = 0;
  virtual std::string opening(size_t /*index*/) { return {}; }
  virtual std::string closing() { return {}; }

  // One object of the stream, after what must come before it.
  [[nodiscard]] virtual std::string event_of(const JsonText& json) {
    return framed(order_.form, json.text());
  }
  [[nodiscard]] size_t index_of(size_t prompt, uint32_t choice) const;
  [[nodiscard]] JsonText timings_so_far(size_t prompt, const AnswerPiece& piece,
                                        const Choice& choice) const;

  // Of those. A list has a place for each token of a choice.
  enum class List { kNone, kRows, kTokens, kLogprobs, kTop, kOffsets };
  void put(const std::string& text) { parts_.back().text += text; }
  void put_list(size_t choice, List list);
  // An object that another member can follow.
  void put_open(const JsonText& object);
  static JsonText timings_of(const AnswerSummary& summary);
  static const char* finish_reason(const AnswerSummary& summary);
  // Whether the model stopped after calls.
  static bool ends_with_calls(const Choice& choice);

  // Tokens of all choices.
  struct Sums {
    uint64_t n_prompt;
    uint64_t n_cached;  // of them
    uint64_t n_made;
  };
  [[nodiscard]] Sums sums() const;

  struct Part {
    std::string text;
    size_t choice = 0;  // of the list that follows it
    List list = List::kNone;
  };

  void put_next();
  CallReader& reader_of(Choice* choice);
  static void note_part(const AnswerPart& part, Choice* choice);
  std::string tell_parts(size_t prompt, AnswerPiece piece, const std::vector<AnswerPart>& parts,
                         Choice* choice);
  void take_apart(Choice* choice);
  [[nodiscard]] JsonText place_of(List list, const DrawnToken& drawn);

  AnswerOrder order_;
  const TextService* text_;
  std::vector<Part> parts_;  // of what was put last
  size_t n_put_ = 0;         // of what comes first, the choices, what comes last
  size_t part_ = 0;          // the next to write,
  size_t token_ = 0;         // of its list,
  size_t offset_ = 0;        // at which its text begins
  bool is_begun_ = false;    // the part's text is written
  std::vector<Choice> choices_;
};

}  // namespace cria::hosted
