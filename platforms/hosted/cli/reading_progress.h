// How much of a long prompt is read, on a terminal.
#pragma once

#include <cstdint>
#include <functional>

#include "platforms/hosted/base/progress_line.h"
#include "platforms/hosted/session/model_session.h"

namespace cria::hosted {

// While an object lives, steps of the model are shown from the second second on:
//   reading  35 %  700 of 2,000 tokens
// stop, and the destructor, wipe the line.
class ReadingProgress : public StepWatcher {
 public:
  // n_tokens tells, once a step is under way, of how many tokens.
  ReadingProgress(const ModelSession& model, std::function<uint64_t()> n_tokens);
  ~ReadingProgress() override { stop(); }
  ReadingProgress(const ReadingProgress&) = delete;
  ReadingProgress& operator=(const ReadingProgress&) = delete;

  void stop();
  // Ctrl-C stops the step.
  NextStep on_step(uint64_t done, uint64_t total) override;

 private:
  void show(uint64_t done, uint64_t total);

  const ModelSession& model_;
  std::function<uint64_t()> n_tokens_;
  ProgressLine line_;
};

}  // namespace cria::hosted
