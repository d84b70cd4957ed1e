#include "platforms/hosted/chat_engine.h"

#include <algorithm>
#include <iterator>

#include "platforms/hosted/interrupt.h"
#include "platforms/hosted/program_error.h"
#include "platforms/hosted/token_sinks.h"

namespace cria::hosted {
namespace {

constexpr size_t kTextBytesPerPosition = 8;
constexpr size_t kLeastTextBytes = 4096;
constexpr size_t kReservedMessages = 1024;

}  // namespace

uint32_t chat_text_bytes(uint32_t context) {
  return static_cast<uint32_t>(
      std::max<uint64_t>(kTextBytesPerPosition * uint64_t{context}, kLeastTextBytes));
}

// Writes the answer and keeps its tokens and its text, without space in front.
class ChatEngine::AnswerSink : public TokenSink {
 public:
  AnswerSink(ChatEngine* engine, TextStream* out)
      : engine_(engine), out_(out), decoder_(engine->model_, Continues::kNo) {}

  Wish put(uint32_t token) override {
    engine_->answered_.push_back(token);
    return show(decoder_.decode(token));
  }
  void finish() { show(decoder_.finish()); }

 private:
  Wish show(std::string_view text) {
    if (engine_->answer_text_.empty()) {
      text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
    }
    engine_->answer_text_ += text;
    out_->put(text);
    out_->flush();
    return out_->closed() ? Wish::kEnough : Wish::kMore;
  }

  ChatEngine* engine_;
  TextStream* out_;
  TokenDecoder decoder_;
};

ChatEngine::ChatEngine(const ModelSession& model, const cria_sampling& sampling,
                       uint32_t max_tokens)
    : model_(model),
      sampling_(sampling),
      max_tokens_(max_tokens),
      conversation_(chat_text_bytes(cria_context(model.session())) * 2, kReservedMessages) {
  model.need_tokenizer();
  if (model.info().chat_template == 0) throw_status(CRIA_NO_CHAT_TEMPLATE, model.path());
  const size_t context = cria_context(model.session());
  fed_.reserve(context);
  next_.reserve(context);
  answered_.reserve(context);
  answer_text_.reserve(chat_text_bytes(cria_context(model.session())));
  find_closing();
}

// The template's tokens behind an answer start with the end token that the model says, or would
// have said: it is left out when an answer is stopped, and what follows it always is.
void ChatEngine::find_closing() {
  // Two strings of the template, each byte at most three tokens (of U+FFFD).
  constexpr size_t kMost = 1 << 15;
  const cria_message messages[] = {{CRIA_USER, "x", 1}, {CRIA_ASSISTANT, "", 0}};
  closing_.resize(kMost);
  size_t n_tokens = 0;
  model_.check(cria_encode_chat(model_.workspace(), messages, std::size(messages), 1, 0,
                                closing_.data(), closing_.size(), &n_tokens));
  closing_.resize(n_tokens);
  const auto is_end = [this](uint32_t token) {
    return cria_is_end_token(model_.model(), token) != 0;
  };
  closing_.erase(closing_.begin(), std::find_if(closing_.begin(), closing_.end(), is_end));
}

void ChatEngine::reset(const std::string& system) {
  system_ = system;
  conversation_.clear();
  if (!system.empty()) conversation_.add(CRIA_SYSTEM, system);
  pending_.clear();
  context_is_stale_ = true;
}

// Appends the tokens of the conversation from message first on, its oldest exchanges left out.
// False when a message is longer than the session encodes, or all of them than the context.
bool ChatEngine::encode(size_t n_left_out, size_t first, std::vector<uint32_t>* tokens) {
  const std::vector<cria_message>& messages = conversation_.view(n_left_out);
  const size_t before = tokens->size();
  tokens->resize(before + cria_context(model_.session()));
  size_t n_tokens = 0;
  const cria_status status =
      cria_encode_chat(model_.workspace(), messages.data(), messages.size(), first, 1,
                       tokens->data() + before, tokens->size() - before, &n_tokens);
  tokens->resize(before + (status == CRIA_OK ? n_tokens : 0));
  if (status == CRIA_TEXT_TOO_LONG || status == CRIA_BUFFER_TOO_SMALL) return false;
  model_.check(status);
  return true;
}

size_t ChatEngine::room_for_answer() const {
  constexpr size_t kUsual = 256;
  const size_t context = cria_context(model_.session());
  return std::min<size_t>(max_tokens_, std::max(context / 8, std::min(context / 4, kUsual)));
}

// Fills next_ with what has to be fed for the newest message.
ChatEngine::Room ChatEngine::plan_turn(ChatAnswer* answer) {
  next_.clear();
  const bool is_short = encode(0, conversation_.n_messages() - 1, &next_);
  if (is_short && next_.empty()) return Room::kNotNeeded;
  if (is_short && !context_is_stale_ && !fed_.empty()) {
    next_.insert(next_.begin(), pending_.begin(), pending_.end());
    const size_t needed = fed_.size() + next_.size() + room_for_answer();
    if (needed <= cria_context(model_.session())) return Room::kMade;
  }
  return make_room(room_for_answer(), answer);
}

// Fills next_ with the conversation and the answer so far. Whether they leave this much room.
bool ChatEngine::fits(size_t n_left_out, size_t room) {
  next_.clear();
  if (!encode(n_left_out, 0, &next_)) return false;
  next_.insert(next_.end(), answered_.begin(), answered_.end());
  return next_.size() + room <= cria_context(model_.session());
}

// Leaves out as few of the oldest exchanges as give the wanted room, the newest never. Once some
// have to go, a quarter of the context more goes with them, so that this happens rarely.
ChatEngine::Room ChatEngine::make_room(size_t wanted, ChatAnswer* answer) {
  size_t n_left_out = 0;
  if (!fits(0, wanted)) {
    const size_t more = wanted + cria_context(model_.session()) / 4;
    size_t end = conversation_.n_exchanges() - 1;
    // Every exchange has tokens, so the more are left out, the better the others fit.
    for (size_t begin = 1; begin < end;) {
      const size_t middle = begin + (end - begin) / 2;
      if (fits(middle, more)) {
        end = middle;
      } else {
        begin = middle + 1;
      }
    }
    n_left_out = end;
    if (!fits(end, more) && !fits(end, 1)) return Room::kNone;
  }
  if (next_.empty()) return Room::kNotNeeded;
  replace_context(n_left_out, answer);
  return Room::kMade;
}

// Keeps of the context what next_ starts with, and of next_ what is missing. The newest logits
// belong to the last token, so that next_, which is not empty, never becomes empty.
void ChatEngine::replace_context(size_t n_left_out, ChatAnswer* answer) {
  const size_t most = std::min(fed_.size() + 1, next_.size()) - 1;
  const auto same =
      std::mismatch(next_.begin(), next_.begin() + static_cast<std::ptrdiff_t>(most), fed_.begin());
  const auto n_kept = static_cast<size_t>(same.first - next_.begin());
  model_.check(cria_reset(model_.session(), static_cast<uint32_t>(n_kept)));
  fed_.resize(n_kept);
  next_.erase(next_.begin(), same.first);
  conversation_.drop_oldest(n_left_out);
  answer->n_dropped += n_left_out;
  context_is_stale_ = false;
}

// Feeds next_; false when interrupted, which leaves a part of it in the context.
bool ChatEngine::feed(ChatAnswer* answer) {
  pending_.clear();
  context_is_stale_ = true;  // also when this throws
  const PrefillResult result = prefill(model_, next_);
  fed_.insert(fed_.end(), next_.begin(), next_.begin() + static_cast<std::ptrdiff_t>(result.n_fed));
  answer->n_prefilled += result.n_fed;
  answer->prefill_seconds += result.seconds;
  context_is_stale_ = result.n_fed < next_.size();
  return !context_is_stale_;
}

ChatAnswer::Result ChatEngine::speak(AnswerSink* sink, ChatAnswer* answer) {
  using Result = ChatAnswer::Result;
  for (;;) {
    const size_t n_before = answered_.size();
    const GenerationLimits limits = {.max_tokens = static_cast<uint32_t>(max_tokens_ - n_before),
                                     .ignore_end = false};
    const Generation made = generate(model_, sampling_, limits, sink);
    const size_t n_fed = answered_.size() - (made.last_token_is_fed ? 0 : 1);
    fed_.insert(fed_.end(), answered_.begin() + static_cast<std::ptrdiff_t>(n_before),
                answered_.begin() + static_cast<std::ptrdiff_t>(n_fed));
    pending_.assign(answered_.begin() + static_cast<std::ptrdiff_t>(n_fed), answered_.end());
    answer->decode_seconds += made.last_seconds - made.first_seconds;
    if (made.stop == Stop::kInterrupted) return Result::kInterrupted;
    if (made.stop == Stop::kOutputClosed) return Result::kOutputClosed;
    if (made.stop != Stop::kContextFull) return Result::kAnswered;
    if (make_room(cria_context(model_.session()) / 8, answer) == Room::kNone) return Result::kCut;
    if (!feed(answer)) return Result::kInterrupted;
  }
}

ChatAnswer ChatEngine::answer(std::string_view message, TextStream* out) {
  ChatAnswer answer;
  answered_.clear();
  answer_text_.clear();
  conversation_.add(CRIA_USER, message);
  const Room room = plan_turn(&answer);
  if (room != Room::kMade || !feed(&answer)) {
    answer.result = room == Room::kNone        ? ChatAnswer::Result::kTooLong
                    : room == Room::kNotNeeded ? ChatAnswer::Result::kNoTokens
                                               : ChatAnswer::Result::kInterrupted;
    answer.is_empty = true;
    conversation_.drop_last();
    return answer;
  }
  AnswerSink sink(this, out);
  answer.result = speak(&sink, &answer);
  sink.finish();
  answer.n_tokens = answered_.size();
  answer.is_empty = answer_text_.empty();
  conversation_.add(CRIA_ASSISTANT, answer_text_);
  if (!context_is_stale_) pending_.insert(pending_.end(), closing_.begin(), closing_.end());
  return answer;
}

ChatRecord ChatEngine::save() const {
  ChatRecord record;
  record.context_is_stale = context_is_stale_;
  record.messages = conversation_.messages();
  record.text = conversation_.text();
  record.fed = fed_;
  record.pending = pending_;
  record.state.resize(cria_state_size(model_.session()));
  model_.check(cria_state_save(model_.session(), record.state.data(), record.state.size()));
  return record;
}

void ChatEngine::load(const ChatRecord& record) {
  const cria_status status =
      cria_state_load(model_.session(), record.state.data(), record.state.size());
  check_status(status, "the saved conversation");
  reset("");
  fed_.clear();
  // The state has the tokens too; which ones the messages go on from must not be in doubt.
  if (cria_position(model_.session()) != record.fed.size() ||
      !std::equal(record.fed.begin(), record.fed.end(), cria_tokens(model_.session()))) {
    model_.check(cria_reset(model_.session(), 0));
    throw_status(CRIA_BAD_STATE, "the saved conversation");
  }
  size_t offset = 0;
  for (const Conversation::Message& message : record.messages) {
    conversation_.add(message.role, std::string_view(record.text).substr(offset, message.n_bytes));
    if (message.role == CRIA_SYSTEM) system_ = record.text.substr(offset, message.n_bytes);
    offset += message.n_bytes;
  }
  fed_ = record.fed;
  fed_.reserve(cria_context(model_.session()));
  pending_ = record.pending;
  context_is_stale_ = record.context_is_stale;
}

}  // namespace cria::hosted
