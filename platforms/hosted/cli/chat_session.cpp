#include "platforms/hosted/cli/chat_session.h"

#include <algorithm>
#include <exception>
#include <vector>

#include "platforms/hosted/base/clock.h"
#include "platforms/hosted/base/output_file.h"
#include "platforms/hosted/base/print_format.h"
#include "platforms/hosted/base/program_error.h"
#include "platforms/hosted/cli/input_text.h"
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

// Where an answer goes, and when.
struct Answering {
  TextStream* out;
  bool is_empty = true;
  double first_seconds = 0.0;
  double last_seconds = 0.0;
  std::exception_ptr failure = nullptr;  // it must not pass through the library

  static int put(void* context, uint32_t token, const char* text, size_t n_bytes) {
    auto* a = static_cast<Answering*>(context);
    if (token != CRIA_NO_TOKEN) {
      a->last_seconds = monotonic_seconds();
      if (a->first_seconds == 0.0) a->first_seconds = a->last_seconds;
    }
    if (n_bytes == 0) return 0;
    a->is_empty = false;
    try {
      a->out->put({text, n_bytes});
      a->out->flush();
    } catch (...) {
      a->failure = std::current_exception();
    }
    return a->failure || a->out->closed() ? 1 : 0;
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
}

void ChatSession::begin(const std::string& system) {
  const cria_status status = cria_chat_begin(chat_, system.data(), system.size());
  if (status == CRIA_TEXT_TOO_LONG) {
    throw ProgramError(ExitCode::kInvalidInput,
                       text_of("the system text does not fit the context of %u tokens; shorten it "
                               "or raise --context",
                               cria_context(model_.session())));
  }
  model_.check(status);
}

std::string ChatSession::system() const {
  const cria_message first = cria_chat_message(chat_, 0);
  return first.role == CRIA_SYSTEM && first.text != nullptr ? std::string(first.text, first.n_bytes)
                                                            : std::string();
}

ChatAnswer ChatSession::answer(std::string_view message, const cria_sampling& sampling,
                               uint32_t max_tokens, TextStream* out) {
  Answering answering = {.out = out};
  const cria_chat_options options = {.sampling = sampling,
                                     .max_tokens = max_tokens,
                                     .reserved = 0,
                                     .on_text = Answering::put,
                                     .context = &answering};
  ChatAnswer answer;
  const double started = monotonic_seconds();
  const cria_status status = cria_chat_answer(chat_, model_.workspace(), message.data(),
                                              message.size(), &options, &answer.result);
  if (answering.failure) std::rethrow_exception(answering.failure);
  switch (status) {
    case CRIA_NOTHING_TO_SAMPLE:
      throw ProgramError(ExitCode::kInvalidInput,
                         "the message gives the model no token to read; write something else");
    case CRIA_TEXT_TOO_LONG:
    case CRIA_CONTEXT_FULL:
      throw ProgramError(ExitCode::kInvalidInput,
                         text_of("the message does not fit the context of %u tokens; shorten it "
                                 "or raise --context",
                                 cria_context(model_.session())));
    case CRIA_CANCELLED:
      answer.result.end = CRIA_CHAT_STOPPED;
      return answer;
    default:
      model_.check(status);
  }
  answer.is_empty = answering.is_empty;
  if (answer.result.n_answered > 0) {
    answer.read_seconds = answering.first_seconds - started;
    answer.answer_seconds = answering.last_seconds - answering.first_seconds;
  }
  return answer;
}

void ChatSession::save(const std::string& path) const {
  model_.check_output(path);
  std::vector<uint8_t> bytes(cria_chat_save_size(chat_));
  model_.check(cria_chat_save(chat_, bytes.data(), bytes.size()));
  try {
    OutputFile file(path, InPlace::kNever);
    file.append(bytes.data(), bytes.size());
    file.commit();
  } catch (const OutputError& error) {
    throw program_error_of(error);
  }
}

void ChatSession::load(const std::string& path) {
  // More than what any chat of this model and context writes: its memory and its session.
  const uint64_t most_bytes = memory_.size_bytes() + model_.plan().session.total;
  const std::string bytes = read_regular_file(path, most_bytes);
  const cria_status status = cria_chat_load(chat_, bytes.data(), bytes.size());
  if (status == CRIA_BAD_STATE) {
    throw ProgramError(ExitCode::kInvalidInput,
                       path + ": not a conversation that /save wrote with this model and --kv");
  }
  if (status == CRIA_CONTEXT_FULL || status == CRIA_TEXT_TOO_LONG) {
    throw ProgramError(ExitCode::kInvalidInput,
                       path + text_of(": does not fit the context of %u tokens; raise --context",
                                      cria_context(model_.session())));
  }
  check_status(status, path);
}

}  // namespace cria::hosted
