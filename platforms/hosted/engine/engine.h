// Answers for many at once: requests wait in a bounded queue, get one of the sessions of a model
// and go through it together, step by step. Knows nothing of HTTP and JSON documents.
//
// What a request is answered with depends only on the request (exact backend): not on what its
// session held before, nor on who is answered beside it.
#pragma once

#include <cria.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "platforms/hosted/engine/json_schemas.h"
#include "platforms/hosted/engine/stop_strings.h"
#include "platforms/hosted/session/model_session.h"

namespace cria::hosted {

class PrefixStore;

// Texts whose embeddings are wanted instead of an answer: the request's prompt, then the others.
// Each is of at least one token and fits the context.
struct EmbeddingRequest {
  std::vector<std::vector<uint32_t>> others;
  uint32_t dimensions = 0;  // of the model's; 0: all
};

// What may be large is shared: by the prompts of one request, and by their choices.
struct AnswerRequest {
  std::vector<uint32_t> prompt;  // at least one token, fewer than the context has positions
  // Of the prompt, before its first question: what other prompts may begin with too; 0: unknown.
  uint32_t n_lead = 0;
  // Of the prompt, before what opens the answer, which is written otherwise when the conversation
  // goes on; 0: it is not.
  uint32_t n_turn = 0;
  std::optional<uint32_t> max_tokens;  // of each choice; 0: the prompt is read and that is all
  cria_sampling sampling = {};         // its biases are those below
  std::shared_ptr<const std::vector<cria_logit_bias>> biases;  // null: none
  uint64_t seed = 0;                                           // of choice 0; choice i has seed + i
  uint32_t n_choices = 1;                                      // at most the number of sessions
  std::optional<uint32_t> n_top;  // likeliest tokens told with each token; none: no probabilities
  // The text ends before the first that is complete; of those that are complete with the same byte,
  // before the longest. Null: none.
  std::shared_ptr<const StopStrings> stops;
  bool shows_special = false;  // special tokens are part of the text
  // Or these of them, in order: what calls and thinking are marked with. Null: none.
  std::shared_ptr<const std::vector<uint32_t>> markers;
  bool begins_text = false;  // no space stands before the first word, as SentencePiece has it
  // What its text is held to; null: any text. Once it is submitted the engine's thread alone uses
  // it.
  std::shared_ptr<AnswerGuide> guide;
  // Then nothing is drawn, and there is one choice. Once it is submitted the engine's thread alone
  // uses it, and the prompt.
  std::optional<EmbeddingRequest> embedding;
};

struct TokenLogprob {
  uint32_t token;
  float logprob;  // natural, of the model's own distribution: before biases, penalties, temperature
};

// One token that was drawn and that is no end token.
struct DrawnToken {
  uint32_t token;
  float logprob;                  // 0 where the request does not want them
  std::vector<TokenLogprob> top;  // [n_top], the likeliest first
};

// Text that can be shown: whole UTF-8 characters, never the beginning of a stop string. Tokens come
// with the piece in which their text ends; a stop string's own tokens come with the last one.
struct AnswerPiece {
  uint32_t choice;
  uint32_t n_cached;       // of the prompt, as the summary says
  double prefill_seconds;  // as the summary says
  std::string text;
  std::vector<DrawnToken> tokens;
};

enum class AnswerEnd {
  kEndToken,
  kStopString,
  kDocument,  // what the guide holds it to is closed
  kLimit,     // max_tokens; the embeddings are made
  kContextFull,
  kCancelled,
  kShutDown,  // the engine stopped first
  kFailed,    // status says why; CRIA_NOTHING_TO_SAMPLE: biases and schema leave no token; CRIA_OK:
              // something was thrown
  kNoMemory,  // an allocation failed, the listener's among them; nobody else hears of it
};

struct AnswerSummary {
  uint32_t choice;
  AnswerEnd end;
  cria_status status;      // CRIA_OK unless kFailed, and where an exception was why
  std::string stop;        // kStopString: the one that appeared
  bool is_whole_document;  // of a guide: what was written may end
  uint32_t n_prompt;       // tokens, of all texts
  uint32_t n_cached;       // of them, that a session held already
  uint32_t n_drawn;        // tokens made, end tokens among them
  uint32_t n_forced;       // of them, that nothing was drawn for
  double queued_seconds;
  double prefill_seconds;  // from the session's being given to the first logits
  double decode_seconds;
  uint32_t session;
  std::shared_ptr<const std::vector<float>> embeddings;  // [texts][dimensions]; null: none are made
};

struct ReadingProgress {
  uint32_t n_read;  // tokens, cached ones among them
  uint32_t n_prompt;
};

// Is called on the engine's thread and must not block. What it throws ends the choice:
// std::bad_alloc as kNoMemory, anything else as kFailed. on_end throws nothing at all, so what it
// needs is made before the request is submitted. It may call all of Engine but stop. A choice that
// is cancelled, or out of memory, hears of no more text. Nothing follows the last choice's on_end.
class AnswerListener {
 public:
  virtual ~AnswerListener() = default;
  // A part of the prompt was read, and some of it is left. Once for all choices.
  virtual void on_reading(const ReadingProgress& /*progress*/) {}
  virtual void on_piece(const AnswerPiece& piece) = 0;
  virtual void on_end(const AnswerSummary& summary) noexcept = 0;
};

enum class SubmitResult { kTaken, kQueueFull, kShuttingDown };

struct SessionStatus {
  bool is_processing;
  uint32_t n_context;  // positions
  uint32_t n_used;     // of them
  uint64_t request;    // id of the newest request; 0: none so far
  uint32_t n_prompt;   // tokens of its prompt,
  uint32_t n_read;     // of them held already or read
  uint32_t n_drawn;    // tokens of its answer
};

// Counts since the engine was made; times in seconds.
struct EngineCounts {
  uint64_t n_requests, n_refused, n_cancelled, n_failed;
  uint64_t n_prompt_tokens, n_cached_tokens, n_drawn_tokens, n_steps;
  double prefill_seconds, decode_seconds;
  uint32_t n_busy, n_waiting;
};

struct EngineOptions {
  uint32_t max_waiting = 16;           // requests without a session
  size_t max_schema_bytes = 2u << 20;  // memory of a compiled schema
  PrefixStore* prefixes = nullptr;     // on the disk; outlives the engine. Null: none are kept
  // Is told one line for people about what happens to a request; may be called on any thread.
  void (*log)(const std::string& line) = nullptr;
};

class Engine {
 public:
  // The model outlives it; nobody else uses its sessions and its workspace meanwhile.
  Engine(const ModelSession& model, const EngineOptions& options);
  ~Engine();  // as stop()
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Bytes that the engine takes at once besides the model's plan: the vocabulary for JSON.
  [[nodiscard]] uint64_t json_bytes() const;

  // From any thread. id, which is never 0, is valid for cancel from then on; it is written before
  // the listener is called. A request that breaks a rule above is taken and ends as kFailed. Throws
  // std::bad_alloc where there is no memory for it; then it is not taken.
  SubmitResult submit(AnswerRequest request, std::shared_ptr<AnswerListener> listener,
                      uint64_t* id);
  // Whether so many requests would be taken now; asked before anything is made of them. What is
  // not counts as refused.
  SubmitResult has_room(size_t n_requests);
  // Ends a request, also one that waits: its listener hears kCancelled for the choices that have
  // not ended, within one layer's time. Nothing happens for an id that has ended.
  void cancel(uint64_t id);

  // Whether n_lead of a request is of use, and n_turn.
  [[nodiscard]] bool keeps_prefixes() const;
  [[nodiscard]] bool keeps_snapshots() const;

  // For schemas of requests, on any thread.
  [[nodiscard]] const JsonSchemas& schemas() const;

  [[nodiscard]] std::vector<SessionStatus> sessions() const;
  [[nodiscard]] EngineCounts counts() const;

  // Takes no more requests; those that have a session may go on for so long, then all end as
  // kShutDown. Returns when the engine's thread has ended. Safe to repeat, also while another
  // thread waits in it: the earliest end counts. Not for a listener.
  void stop(double patience_seconds);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cria::hosted
