#include "tests/fuzz/chat_trial.h"

#include <fcntl.h>
#include <unistd.h>

#include "tests/support/sampling_of.h"

namespace cria::fuzz {
namespace {

constexpr cria_sampling kSampling = test::sampling_of(0.8f, 0.95f, 0.05f, 1.0f, 40);
constexpr uint32_t kAnswerTokens = 8;

}  // namespace

ChatTrial::ChatTrial(const hosted::CommonOptions& options)
    : model_(options, {}),
      engine_(model_, kSampling, kAnswerTokens),
      nowhere_(::open("/dev/null", O_WRONLY | O_CLOEXEC)),
      out_(nowhere_) {}

ChatTrial::~ChatTrial() { ::close(nowhere_); }

void ChatTrial::say(std::string_view message) { static_cast<void>(engine_.answer(message, &out_)); }

std::string ChatTrial::saved() const { return hosted::format_chat_file(engine_.save()); }

hosted::CommonOptions chat_options(const std::string& model_path) {
  hosted::CommonOptions options;
  options.model_path = model_path;
  options.n_threads = 1;
  options.backend = CRIA_BACKEND_EXACT;
  return options;
}

}  // namespace cria::fuzz
