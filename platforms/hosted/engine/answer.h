// One choice of a request, with the session that it is drawn in.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <cria.h>
#include <cria_json.h>
#include "platforms/hosted/engine/answer_text.h"
#include "platforms/hosted/engine/engine.h"
#include "platforms/hosted/engine/request_queue.h"
#include "platforms/hosted/engine/session_pool.h"
#include "platforms/hosted/engine/text_embedder.h"

namespace cria::hosted {

// Why a choice ends.
struct Ending {
  AnswerEnd end;
  cria_status status = CRIA_OK;
  // Whether the model would have gone on.
  [[nodiscard]] bool is_cut() const {
    return end == AnswerEnd::kLimit || end == AnswerEnd::kContextFull;
  }
  // Whether text that was held back is told.
  [[nodiscard]] bool tells_rest() const {
    return end != AnswerEnd::kCancelled && end != AnswerEnd::kNoMemory;
  }
};

class Answer {
 public:
  // The session was given for it. end_tokens outlive it.
  Answer(std::shared_ptr<Request> request, uint32_t choice, const cria_model* model,
         uint32_t session, cria_session* state, std::span<const uint32_t> end_tokens);
  Answer(const Answer&) = delete;
  Answer& operator=(const Answer&) = delete;

  // Makes ready to draw. Nothing: it is.
  std::optional<Ending> prepare();

  [[nodiscard]] Request& request() const { return *request_; }
  [[nodiscard]] const std::shared_ptr<Request>& shared_request() const { return request_; }
  [[nodiscard]] uint32_t choice() const { return choice_; }
  [[nodiscard]] uint32_t session() const { return session_; }
  [[nodiscard]] uint32_t n_used() const { return cria_position(state_); }
  [[nodiscard]] uint32_t n_drawn() const { return n_drawn_; }

  // For those who ask how far it is.
  [[nodiscard]] SessionStatus status() const;

  // Reading the prompt: it has begun, how many tokens are left, and that some were read.
  [[nodiscard]] bool has_begun() const { return has_begun_; }
  void begin(const PromptStart& start);
  [[nodiscard]] size_t n_unread() const { return request_->asked.prompt.size() - n_read_; }
  [[nodiscard]] bool is_reading() const { return n_unread() != 0; }
  [[nodiscard]] uint32_t n_read() const { return static_cast<uint32_t>(n_read_); }

  // Embeddings are made instead of an answer; of all tokens, so that none may be held already.
  [[nodiscard]] bool embeds() const { return embedder_.has_value(); }
  [[nodiscard]] bool embeds_all() const { return embeds() && embedder_->reads_all(); }
  [[nodiscard]] bool is_at_first_text() const { return n_texts_ == 0; }
  // The prompt is read: its embedding is made. True: there is another text, now the prompt.
  bool next_text();

  // Others can copy so many tokens of the prompt, or so many, once they are read; else all.
  using Snapshots = std::array<uint32_t, 3>;
  void set_snapshots(const Snapshots& n_tokens) { snapshots_ = n_tokens; }
  // Of its first n tokens, those that others can copy then.
  [[nodiscard]] uint32_t n_usable(uint32_t n_tokens) const;

  // So many tokens of the prompt are to be kept on the disk once they are read; 0: none.
  void set_kept(uint32_t n_tokens) { n_kept_ = n_tokens; }
  // Of them, when they are read; once.
  uint32_t take_kept() { return n_kept_ <= n_read_ ? std::exchange(n_kept_, 0) : 0; }

  // What a step is to append: as many tokens of the prompt, or the token that was drawn last with
  // those that are forced after it.
  cria_batch_entry entry(size_t n_prompt_tokens);
  // The step has been done; true: these are the first logits.
  bool note_step(const cria_batch_entry& entry);

  // Draws the next token from the session's logits. Nothing: it is to be appended. wants_stop is
  // asked while a mask is made, which fails with CRIA_CANCELLED then.
  std::optional<Ending> draw(cria_workspace* workspace, cria_json_stop_fn wants_stop,
                             void* context);
  // What can be told so far; false: nothing.
  bool take_piece(AnswerPiece* piece);

  // Ends. take_piece then has what was held back, if that is told. As kNoMemory it allocates
  // nothing, and can be called after any call that threw.
  AnswerSummary finish(Ending ending);

 private:
  std::optional<Ending> take(DrawnToken token);
  cria_status find_forced(cria_workspace* workspace);
  std::optional<Ending> take_forced();
  [[nodiscard]] bool is_end_token(uint32_t token) const;
  [[nodiscard]] bool is_forbidden(uint32_t token, float logit) const;

  std::shared_ptr<Request> request_;
  const uint32_t choice_;
  const cria_model* model_;
  const uint32_t session_;
  cria_session* state_;
  std::span<const uint32_t> end_tokens_;

  cria_sampling sampling_;
  AnswerGuide* const guide_;  // null: any text
  AnswerGuide::State guided_ = {};
  AnswerText text_;

  std::optional<TextEmbedder> embedder_;
  size_t n_texts_ = 0;        // that were embedded,
  size_t n_text_tokens_ = 0;  // and all of their tokens

  double given_seconds_;
  double first_logits_seconds_ = 0.0;  // 0: none yet
  bool has_begun_ = false;
  size_t n_read_ = 0;  // of the prompt, cached tokens among them
  uint32_t n_cached_ = 0;
  uint32_t n_kept_ = 0;
  std::optional<Snapshots> snapshots_;
  uint32_t n_drawn_ = 0;
  uint32_t n_forced_ = 0;
  std::vector<uint32_t> next_;   // the newest tokens, to be appended
  std::deque<uint32_t> forced_;  // and those that follow, whatever the model says
};

}  // namespace cria::hosted
