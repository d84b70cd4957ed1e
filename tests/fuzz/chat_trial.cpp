#include "tests/fuzz/chat_trial.h"

#include <algorithm>

#include "tests/fuzz/fuzz_target.h"
#include "tests/support/sampling_of.h"

namespace cria::fuzz {
namespace {

constexpr cria_sampling kSampling = test::sampling_of(0.8f, 0.95f, 0.05f, 1.0f, 40);
constexpr uint32_t kAnswerTokens = 8;

}  // namespace

cria_chat_config ChatTrial::config_of(bool exact_context) {
  cria_chat_config config = {};
  config.exact_context = exact_context ? 1 : 0;
  config.max_messages = 8;  // so that conversations come to it
  return config;
}

size_t ChatTrial::required_bytes(const hosted::ModelSession& model, bool exact_context) {
  const cria_chat_config config = config_of(exact_context);
  size_t n_bytes = 0;
  model.check(cria_chat_required(model.session(), &config, &n_bytes));
  return n_bytes;
}

ChatTrial::ChatTrial(const hosted::CommonOptions& options, bool exact_context)
    : model_(options, {}), memory_(required_bytes(model_, exact_context)) {
  const cria_chat_config config = config_of(exact_context);
  model_.check(cria_chat_make(memory_.data(), memory_.size(), model_.workspace(), model_.session(),
                              &config, &chat_));
}

cria_status ChatTrial::answer(const char* text, size_t n_bytes) {
  cria_chat_options options = {};
  options.sampling = kSampling;
  options.max_tokens = kAnswerTokens;
  cria_chat_result result = {};
  const cria_status status =
      cria_chat_answer(chat_, model_.workspace(), text, n_bytes, &options, &result);
  expect(status != CRIA_OK || result.n_answered <= kAnswerTokens, "an answer has its limit");
  return status;
}

cria_status ChatTrial::say(std::string_view message) {
  const cria_status status = answer(message.data(), message.size());
  expect(status != CRIA_INVALID_ARGUMENT, "a chat asks for nothing that cannot be");
  return status;
}

void ChatTrial::answer_again() {
  const size_t n_before = cria_chat_n_messages(chat_);
  const cria_status status = answer(nullptr, 0);
  const size_t n = cria_chat_n_messages(chat_);
  expect(status == CRIA_OK || n <= n_before, "what fails adds no message");
  expect(status != CRIA_OK || cria_chat_message(chat_, n - 1).role == CRIA_ASSISTANT,
         "an answer is the newest message");
}

void ChatTrial::take_back(size_t n) {
  const size_t n_messages = cria_chat_n_messages(chat_);
  const size_t n_kept = n_messages - std::min(n, n_messages);
  expect(cria_chat_keep(chat_, n_kept) == CRIA_OK, "messages can be forgotten");
  expect(cria_chat_n_messages(chat_) == n_kept, "as many as were to stay do");
}

std::vector<uint8_t> ChatTrial::saved() const {
  std::vector<uint8_t> bytes(cria_chat_save_size(chat_));
  expect(cria_chat_save(chat_, bytes.data(), bytes.size()) == CRIA_OK, "a chat can be saved");
  return bytes;
}

hosted::CommonOptions chat_options(const std::string& model_path) {
  hosted::CommonOptions options;
  options.model_path = model_path;
  options.n_threads = 1;
  options.backend = CRIA_BACKEND_EXACT;
  return options;
}

}  // namespace cria::fuzz
