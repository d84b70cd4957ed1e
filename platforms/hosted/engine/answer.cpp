#include "platforms/hosted/engine/answer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "platforms/hosted/base/clock.h"
#include "platforms/hosted/engine/token_logprobs.h"

namespace cria::hosted {
namespace {

std::optional<Ending> failed(cria_status status) { return Ending{AnswerEnd::kFailed, status}; }

}  // namespace

Answer::Answer(std::shared_ptr<Request> request, uint32_t choice, const cria_model* model,
               uint32_t session, cria_session* state, std::span<const uint32_t> end_tokens)
    : request_(std::move(request)),
      choice_(choice),
      model_(model),
      session_(session),
      state_(state),
      end_tokens_(end_tokens),
      sampling_(request_->asked.sampling),
      guide_(request_->asked.guide.get()),
      text_(model, request_->asked),
      given_seconds_(monotonic_seconds()) {
  if (const auto& biases = request_->asked.biases) {
    sampling_.biases = biases->data();
    sampling_.n_biases = biases->size();
  }
}

std::optional<Ending> Answer::prepare() {
  if (const auto& asked = request_->asked.embedding) {
    embedder_.emplace(model_, 1 + asked->others.size(), asked->dimensions);
  }
  if (guide_ == nullptr) return std::nullopt;
  const cria_status status = guide_->begin(&guided_);
  return status == CRIA_OK ? std::nullopt : failed(status);
}

SessionStatus Answer::status() const {
  SessionStatus status = {};
  status.n_used = n_used();
  status.request = request_->id;
  status.n_prompt = static_cast<uint32_t>(request_->asked.prompt.size());
  status.n_read = n_read();
  status.n_drawn = n_drawn_;
  return status;
}

void Answer::begin(const PromptStart& start) {
  // A state of a disk brought the random numbers of the answer that it was kept of.
  cria_seed(state_, request_->asked.seed + choice_);
  has_begun_ = true;
  snapshots_ = std::nullopt;
  n_cached_ += start.n_cached;
  n_read_ = start.n_cached;
}

uint32_t Answer::n_usable(uint32_t n_tokens) const {
  if (!snapshots_) return n_tokens;
  uint32_t most = 0;
  for (const uint32_t n : *snapshots_) {
    if (n <= n_tokens) most = std::max(most, n);
  }
  return most;
}

bool Answer::next_text() {
  std::vector<uint32_t>& prompt = request_->asked.prompt;
  std::vector<std::vector<uint32_t>>& others = request_->asked.embedding->others;
  embedder_->end_text(prompt.size());
  if (n_texts_ == others.size()) return false;
  n_text_tokens_ += prompt.size();
  prompt = std::move(others[n_texts_++]);
  has_begun_ = false;
  n_read_ = 0;
  return true;
}

cria_batch_entry Answer::entry(size_t n_prompt_tokens) {
  cria_batch_entry entry = {};
  entry.session = state_;
  if (!is_reading()) {
    entry.tokens = next_.data();
    entry.n_tokens = next_.size();
    return entry;
  }
  entry.tokens = request_->asked.prompt.data() + n_read_;
  entry.n_tokens = std::min(n_unread(), n_prompt_tokens);
  if (embedder_) embedder_->ask(n_read_, request_->asked.prompt.size(), &entry);
  return entry;
}

bool Answer::note_step(const cria_batch_entry& entry) {
  if (!is_reading()) return false;
  if (embedder_) embedder_->take(n_read_, entry);
  n_read_ += entry.n_tokens;
  if (is_reading()) return false;
  first_logits_seconds_ = monotonic_seconds();
  return true;
}

bool Answer::is_end_token(uint32_t token) const {
  return std::binary_search(end_tokens_.begin(), end_tokens_.end(), token);
}

// Where every token is, the sampler gives one all the same.
bool Answer::is_forbidden(uint32_t token, float logit) const {
  const std::span biases(sampling_.biases, sampling_.n_biases);
  for (const cria_logit_bias& bias : biases) {
    if (bias.token == token) logit += bias.bias;
  }
  return logit == -HUGE_VALF;
}

std::optional<Ending> Answer::draw(cria_workspace* workspace, cria_json_stop_fn wants_stop,
                                   void* context) {
  const AnswerRequest& asked = request_->asked;
  if (asked.max_tokens && n_drawn_ >= *asked.max_tokens) return Ending{AnswerEnd::kLimit};
  const std::span<float> logits(cria_logits(state_), cria_vocab_size(model_));
  DrawnToken drawn = {};
  // Of the model's own distribution: a mask changes it in place, but not for what it leaves.
  std::optional<TokenLogprobs> logprobs;
  if (asked.n_top) {
    logprobs.emplace(logits);
    drawn.top = logprobs->top(*asked.n_top);
  }
  cria_status status = CRIA_OK;
  if (forced_.empty()) {
    if (guide_ != nullptr) status = guide_->mask(guided_, logits, wants_stop, context);
    if (status == CRIA_OK) status = cria_sample(workspace, state_, &sampling_, &drawn.token);
    if (status == CRIA_OK && is_forbidden(drawn.token, logits[drawn.token])) {
      status = CRIA_NOTHING_TO_SAMPLE;
    }
    if (status != CRIA_OK) return failed(status);
  } else {
    drawn.token = forced_.front();
    forced_.pop_front();
    ++n_forced_;
  }
  ++n_drawn_;
  if (is_end_token(drawn.token)) return Ending{AnswerEnd::kEndToken};
  if (logprobs) drawn.logprob = logprobs->of(drawn.token);
  next_.clear();
  const std::optional<Ending> ending = take(std::move(drawn));
  if (ending || guide_ == nullptr) return ending;
  if (forced_.empty()) status = find_forced(workspace);
  if (status != CRIA_OK) return failed(status);
  // Each goes through the model alone where its probability is told, else all together.
  if (asked.n_top || forced_.empty()) return std::nullopt;
  if (std::optional<Ending> early = take_forced()) return early;
  status = find_forced(workspace);
  return status == CRIA_OK ? std::nullopt : failed(status);
}

std::optional<Ending> Answer::take(DrawnToken token) {
  const AnswerRequest& asked = request_->asked;
  next_.push_back(token.token);
  if (guide_ != nullptr) {
    const cria_status status = guide_->accept(&guided_, token.token);
    if (status != CRIA_OK) return failed(status);
  }
  const cria_status status = text_.put(std::move(token));
  if (status != CRIA_OK) return failed(status);
  if (text_.stop() != nullptr) return Ending{AnswerEnd::kStopString};
  if (guide_ != nullptr && guide_->progress(guided_) == AnswerGuide::Progress::kClosed) {
    return Ending{AnswerEnd::kDocument};
  }
  if (asked.max_tokens && n_drawn_ >= *asked.max_tokens) return Ending{AnswerEnd::kLimit};
  if (cria_position(state_) + next_.size() > cria_context(state_)) {
    return Ending{AnswerEnd::kContextFull};
  }
  return std::nullopt;
}

cria_status Answer::find_forced(cria_workspace* workspace) {
  std::array<uint32_t, AnswerGuide::kMostForced> tokens;
  size_t n_tokens = 0;
  const cria_status status = guide_->forced(guided_, workspace, tokens, &n_tokens);
  if (status == CRIA_OK) forced_.assign(tokens.begin(), tokens.begin() + n_tokens);
  return status;
}

std::optional<Ending> Answer::take_forced() {
  while (!forced_.empty()) {
    const uint32_t token = forced_.front();
    forced_.pop_front();
    ++n_drawn_;
    ++n_forced_;
    if (const std::optional<Ending> ending = take({token, 0.0f, {}})) return ending;
  }
  return std::nullopt;
}

bool Answer::take_piece(AnswerPiece* piece) {
  piece->choice = choice_;
  piece->n_cached = n_cached_;
  piece->prefill_seconds = first_logits_seconds_ - given_seconds_;
  return text_.take(piece);
}

AnswerSummary Answer::finish(Ending ending) {
  const double now = monotonic_seconds();
  const bool has_logits = first_logits_seconds_ > 0.0;
  if (ending.tells_rest()) text_.end(ending.is_cut());
  AnswerSummary summary = {};
  summary.choice = choice_;
  summary.end = ending.end;
  summary.status = ending.status;
  if (ending.end == AnswerEnd::kStopString) summary.stop = *text_.stop();
  summary.is_whole_document = guide_ != nullptr && ending.end != AnswerEnd::kStopString &&
                              guide_->progress(guided_) != AnswerGuide::Progress::kOpen;
  summary.n_prompt = static_cast<uint32_t>(n_text_tokens_ + request_->asked.prompt.size());
  summary.n_cached = n_cached_;
  summary.n_drawn = n_drawn_;
  summary.n_forced = n_forced_;
  summary.queued_seconds = given_seconds_ - request_->submitted_seconds;
  summary.prefill_seconds = (has_logits ? first_logits_seconds_ : now) - given_seconds_;
  summary.decode_seconds = has_logits ? now - first_logits_seconds_ : 0.0;
  summary.session = session_;
  if (embedder_ && ending.end == AnswerEnd::kLimit) summary.embeddings = embedder_->embeddings();
  return summary;
}

}  // namespace cria::hosted
