#include "tests/fuzz/chat_trial.h"

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

cria_status ChatTrial::say(std::string_view message) {
  cria_chat_options options = {};
  options.sampling = kSampling;
  options.max_tokens = kAnswerTokens;
  cria_chat_result result = {};
  const cria_status status = cria_chat_answer(chat_, model_.workspace(), message.data(),
                                              message.size(), &options, &result);
  expect(status != CRIA_INVALID_ARGUMENT, "a chat asks for nothing that cannot be");
  expect(status != CRIA_OK || result.n_answered <= kAnswerTokens, "an answer has its limit");
  return status;
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
