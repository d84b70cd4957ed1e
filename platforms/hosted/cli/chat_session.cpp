#include "platforms/hosted/cli/chat_session.h"

#include <algorithm>
#include <exception>
#include <functional>
#include <iterator>
#include <vector>

#include "platforms/hosted/base/clock.h"
#include "platforms/hosted/base/output_file.h"
#include "platforms/hosted/base/print_format.h"
#include "platforms/hosted/base/program_error.h"
#include "platforms/hosted/base/progress_line.h"
#include "platforms/hosted/cli/idle_work.h"
#include "platforms/hosted/cli/input_text.h"
#include "platforms/hosted/cli/reading_progress.h"
#include "platforms/hosted/cli/thinking_filter.h"
#include "platforms/hosted/session/interrupt.h"
#include "platforms/hosted/session/model_text.h"
#include "platforms/hosted/session/status_error.h"

namespace cria::hosted {
namespace {

constexpr size_t kTextBytesPerPosition = 8;
constexpr size_t kLeastTextBytes = 4096;

cria_chat_config config_of(bool exact_context) {
  cria_chat_config config = {};
  config.exact_context = exact_context ? 1 : 0;
  return config;
}

size_t required_bytes(const ModelSession& model, bool exact_context) {
  const cria_chat_config config = config_of(exact_context);
  size_t n_bytes = 0;
  model.check(cria_chat_required(model.session(), &config, &n_bytes));
  return n_bytes;
}

// Where the parts of an answer go.
class AnswerText : public ThinkingFilter::Sink {
 public:
  AnswerText(Thinking thinking, TextStream* out) : thinking_(thinking), out_(out) {}

  void put_part(std::string_view text, ThinkingFilter::Part part) override {
    if (part == ThinkingFilter::Part::kThinking && thinking_ == Thinking::kHide) {
      hides_ = true;
      return;
    }
    if (hides_) {  // lines between a thought and its answer
      text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
      if (text.empty()) return;
      hides_ = false;
    }
    note_.clear();
    out_->set_dim(part == ThinkingFilter::Part::kThinking && thinking_ == Thinking::kDim);
    out_->put(text);
    is_empty_ = false;
  }
  void note_token() {
    ++n_tokens_;
    if (hides_) note_.tell(std::to_string(n_tokens_) + " tokens");
  }
  void end() {
    note_.clear();
    out_->set_dim(false);
  }
  bool is_empty() const { return is_empty_; }

 private:
  const Thinking thinking_;
  TextStream* const out_;
  ProgressLine note_{"thinking"};
  bool hides_ = false;  // what was put last, if anything, was not shown
  bool is_empty_ = true;
  uint32_t n_tokens_ = 0;
};

// Stops a step when a key waits, or on Ctrl-C.
class InputWatcher final : public StepWatcher {
 public:
  InputWatcher(const ModelSession& model, int input) : model_(model), input_(input) {
    model_.watch_steps(this);
  }
  ~InputWatcher() override { model_.watch_steps(nullptr); }
  InputWatcher(const InputWatcher&) = delete;
  InputWatcher& operator=(const InputWatcher&) = delete;

  NextStep on_step(uint64_t, uint64_t) override {
    return interrupted() || can_read(input_) ? NextStep::kStop : NextStep::kGoOn;
  }

 private:
  const ModelSession& model_;
  const int input_;
};

// Where an answer goes, and when.
struct Answering {
  TextStream* out;
  ReadingProgress* progress;
  AnswerText* text;
  ThinkingFilter* filter;
  uint32_t think_token;
  uint32_t think_end_token;
  std::function<bool()> opens_thinking;
  double first_seconds = 0.0;
  double last_seconds = 0.0;
  std::exception_ptr failure = nullptr;  // it must not pass through the library

  static int put(void* context, uint32_t token, const char* text, size_t n_bytes) {
    auto* a = static_cast<Answering*>(context);
    try {
      a->take(token, {text, n_bytes});
    } catch (...) {
      a->failure = std::current_exception();
    }
    return a->failure || a->out->closed() ? 1 : 0;
  }

  void take(uint32_t token, std::string_view piece) {
    const bool is_first = last_seconds == 0.0;
    if (is_first) progress->stop();
    if (is_first && opens_thinking()) filter->open();
    if (token != CRIA_NO_TOKEN) {
      last_seconds = monotonic_seconds();
      if (is_first) first_seconds = last_seconds;
      text->note_token();
    }
    if (piece.empty() && token != CRIA_NO_TOKEN && token == think_token) filter->open();
    if (piece.empty() && token != CRIA_NO_TOKEN && token == think_end_token) filter->close();
    filter->feed(piece);
    if (token == CRIA_NO_TOKEN) filter->finish();
    out->flush();
  }
};

}  // namespace

uint32_t chat_text_bytes(uint32_t context) {
  return static_cast<uint32_t>(
      std::max<uint64_t>(kTextBytesPerPosition * uint64_t{context}, kLeastTextBytes));
}

ChatSession::ChatSession(const ModelSession& model, bool exact_context)
    : model_(model), memory_(required_bytes(model, exact_context)) {
  const cria_chat_config config = config_of(exact_context);
  model.check(cria_chat_make(memory_.data(), memory_.size_bytes(), model.workspace(),
                             model.session(), &config, &chat_));
  const auto special = [&](std::string_view text) {
    return cria_find_special(model.model(), text.data(), text.size());
  };
  think_token_ = special("<think>");
  think_end_token_ = special("</think>");
}

void ChatSession::set_thinking(cria_thinking thinking) {
  model_.check(cria_chat_set_thinking(chat_, model_.workspace(), thinking));
  thinking_ = thinking;
}

void ChatSession::begin(const std::string& system) {
  const std::vector<cria_message> messages = {{CRIA_SYSTEM, system.data(), system.size()},
                                              {CRIA_USER, "a", 1}};
  const cria_conversation conversation = conversation_of(messages, CRIA_TURN_OPENED);
  const char* const refusal =
      system.empty() ? nullptr : cria_chat_refusal(model_.workspace(), &conversation);
  if (refusal != nullptr) {
    throw ProgramError(ExitCode::kInvalidInput,
                       model_.path() + ": the chat template " + refusal + "; leave it out");
  }
  const cria_status status = cria_chat_begin(chat_, system.data(), system.size());
  if (status == CRIA_TEXT_TOO_LONG) {
    throw ProgramError(ExitCode::kInvalidInput,
                       text_of("the system text does not fit the context of %u tokens; %s",
                               cria_context(model_.session()), model_.advice_on_length()));
  }
  model_.check(status);
}

std::vector<uint32_t> ChatSession::lead() const {
  const std::string text = system();
  const std::vector<cria_message> messages = {{CRIA_SYSTEM, text.data(), text.size()}};
  cria_conversation conversation = conversation_of(messages, CRIA_TURN_LATER);
  conversation.thinking = thinking_;
  std::vector<uint32_t> tokens(cria_context(model_.session()));
  size_t n_tokens = 0;
  const cria_status status = text.empty()
                                 ? CRIA_OK
                                 : cria_encode_chat(model_.workspace(), &conversation, 0,
                                                    tokens.data(), tokens.size(), &n_tokens);
  tokens.resize(status == CRIA_OK ? n_tokens : 0);
  return tokens;
}

std::string ChatSession::system() const {
  const cria_message first = cria_chat_message(chat_, 0);
  return first.role == CRIA_SYSTEM && first.text != nullptr ? std::string(first.text, first.n_bytes)
                                                            : std::string();
}

// Whether the template begins the answer as a thought: the tag is the last of the context but for
// space.
bool ChatSession::opens_thinking() const {
  constexpr std::string_view kOpen = "<think>";
  constexpr uint32_t kMostTokens = 16;
  const uint32_t position = cria_position(model_.session());
  const uint32_t* const tokens = cria_tokens(model_.session());
  std::string tail;
  for (uint32_t i = position - std::min(position, kMostTokens); i < position; ++i) {
    size_t n_bytes = 0;
    const char* const text = cria_token_text(model_.model(), tokens[i], &n_bytes);
    if (text != nullptr) tail.append(text, n_bytes);
  }
  tail.resize(tail.find_last_not_of(" \t\r\n") + 1);
  return tail.ends_with(kOpen);
}

ChatAnswer ChatSession::run(Asking ask, const char* text, size_t n_bytes,
                            const ChatRequest& request, TextStream* out) {
  const uint64_t n_read = cria_chat_n_read(chat_);
  ReadingProgress progress(model_, [&] { return cria_chat_n_read(chat_) - n_read; });
  AnswerText shown(request.thinking, out);
  ThinkingFilter filter(&shown);
  Answering answering = {.out = out,
                         .progress = &progress,
                         .text = &shown,
                         .filter = &filter,
                         .think_token = think_token_,
                         .think_end_token = think_end_token_,
                         .opens_thinking = [this] { return opens_thinking(); }};
  const cria_chat_options options = {.sampling = request.sampling,
                                     .max_tokens = request.max_tokens,
                                     .reserved = 0,
                                     .on_text = Answering::put,
                                     .context = &answering};
  ChatAnswer answer;
  const double started = monotonic_seconds();
  const cria_status status =
      ask(chat_, model_.workspace(), text, n_bytes, &options, &answer.result);
  progress.stop();
  if (answering.failure) std::rethrow_exception(answering.failure);
  filter.finish();
  shown.end();
  switch (status) {
    case CRIA_NOTHING_TO_SAMPLE:
      throw ProgramError(ExitCode::kInvalidInput,
                         "the message gives the model no token to read; write something else");
    case CRIA_TEXT_TOO_LONG:
    case CRIA_CONTEXT_FULL:
      throw ProgramError(ExitCode::kInvalidInput,
                         text_of("the message does not fit the context of %u tokens; %s",
                                 cria_context(model_.session()), model_.advice_on_length()));
    case CRIA_CANCELLED:
      answer.result.end = CRIA_CHAT_STOPPED;
      return answer;
    default:
      model_.check(status);
  }
  answer.is_empty = shown.is_empty();
  if (answer.result.n_answered > 0) {
    answer.read_seconds = answering.first_seconds - started;
    answer.answer_seconds = answering.last_seconds - answering.first_seconds;
  }
  return answer;
}

bool ChatSession::read_ahead(const ChatRequest& request, int input) {
  // What is lost when a key comes amid a part.
  constexpr uint32_t kTokensOfPart = 32;
  const InputWatcher watcher(model_, input);
  uint32_t n_read = 0;
  const cria_status status =
      cria_chat_read_ahead(chat_, model_.workspace(), request.max_tokens, kTokensOfPart, &n_read);
  // Errors are those of the next message.
  return status == CRIA_CANCELLED || (status == CRIA_OK && n_read > 0);
}

ChatAnswer ChatSession::answer(std::string_view message, const ChatRequest& request,
                               TextStream* out) {
  return run(cria_chat_answer, message.data(), message.size(), request, out);
}

ChatAnswer ChatSession::answer_again(const ChatRequest& request, TextStream* out) {
  static_cast<void>(question_index());
  return run(cria_chat_answer, nullptr, 0, request, out);
}

size_t ChatSession::question_index() const {
  for (size_t i = n_messages(); i > 0; --i) {
    if (cria_chat_message(chat_, i - 1).role == CRIA_USER) return i - 1;
  }
  throw ProgramError(ExitCode::kUsage, "there is no message yet; write one first");
}

std::string ChatSession::question() const {
  const cria_message message = cria_chat_message(chat_, question_index());
  return {message.text, message.n_bytes};
}

void ChatSession::take_back() { model_.check(cria_chat_keep(chat_, question_index())); }

ChatAnswer ChatSession::answer_instead(std::string_view message, const ChatRequest& request,
                                       TextStream* out) {
  static_cast<void>(question_index());
  return run(cria_chat_answer_instead, message.data(), message.size(), request, out);
}

void ChatSession::read_all_ahead(const ChatRequest& request) {
  const uint64_t n_before = cria_chat_n_read(chat_);
  const ReadingProgress progress(model_, [&] { return cria_chat_n_read(chat_) - n_before; });
  cria_status status = CRIA_OK;
  for (uint32_t n_read = 1; status == CRIA_OK && n_read > 0;) {
    status = cria_chat_read_ahead(chat_, model_.workspace(), request.max_tokens,
                                  cria_context(model_.session()), &n_read);
  }
  if (status != CRIA_CANCELLED) return;  // other errors are those of the next message
  throw ProgramError(ExitCode::kInterrupted, "stopped; nothing was saved");
}

void ChatSession::save(const std::string& path, const ChatRequest& request) {
  model_.check_output(path);
  read_all_ahead(request);
  take_ahead_back();
  std::vector<uint8_t> bytes(cria_chat_save_size(chat_));
  model_.check(cria_chat_save(chat_, bytes.data(), bytes.size()));
  try {
    OutputFile file(path, InPlace::kNever, Readers::kOwner);
    file.append(bytes.data(), bytes.size());
    file.commit();
  } catch (const OutputError& error) {
    throw program_error_of(error);
  }
}

void ChatSession::load(const std::string& path) {
  // More than what any chat of this model and context writes: its memory and its session.
  const uint64_t most_bytes = memory_.size_bytes() + model_.plan().session.total;
  const std::string bytes = read_regular_file(path, most_bytes, "give a file that /save wrote");
  const cria_status status = cria_chat_load(chat_, bytes.data(), bytes.size());
  if (status == CRIA_BAD_STATE) {
    throw ProgramError(ExitCode::kInvalidInput,
                       path + ": not a conversation that /save wrote with this model and --kv");
  }
  if (status == CRIA_CONTEXT_FULL || status == CRIA_TEXT_TOO_LONG) {
    throw ProgramError(
        ExitCode::kInvalidInput,
        path +
            text_of(": does not fit the context of %u tokens; %s", cria_context(model_.session()),
                    model_.can_have_more_context() ? "raise --context"
                                                   : "the model takes no more, begin a new one"));
  }
  check_status(status, path);
}

}  // namespace cria::hosted
