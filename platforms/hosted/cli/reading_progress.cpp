#include "platforms/hosted/cli/reading_progress.h"

#include <string>
#include <utility>

#include "platforms/hosted/base/print_format.h"
#include "platforms/hosted/session/interrupt.h"

namespace cria::hosted {

ReadingProgress::ReadingProgress(const ModelSession& model, std::function<uint64_t()> n_tokens)
    : model_(model), n_tokens_(std::move(n_tokens)), line_("reading") {
  constexpr int64_t kWaitMs = 1000;
  line_.hold(kWaitMs);
  model_.watch_steps(this);
}

void ReadingProgress::stop() {
  model_.watch_steps(nullptr);
  line_.clear();
}

NextStep ReadingProgress::on_step(uint64_t done, uint64_t total) {
  show(done, total);
  return interrupted() ? NextStep::kStop : NextStep::kGoOn;
}

void ReadingProgress::show(uint64_t done, uint64_t total) {
  if (!line_.is_due() || total == 0) return;
  const uint64_t n_tokens = n_tokens_();
  if (n_tokens <= 1) return;
  const auto n_done = static_cast<uint64_t>(
      static_cast<double>(n_tokens) * (static_cast<double>(done) / static_cast<double>(total)));
  line_.update(done, total, grouped_digits(n_done) + " of " + grouped_digits(n_tokens) + " tokens");
}

}  // namespace cria::hosted
