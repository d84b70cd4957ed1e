// A model, several sessions of it and one workspace in one block of memory of exactly the planned
// size, laid out as cria.h says that they fit, before a page that nobody may touch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <cria.h>
#include "platforms/hosted/base/thread_pool.h"
#include "tests/support/guarded.h"
#include "tests/support/test_session.h"

namespace cria::test {

class TestSessions {
 public:
  // As TestSession.
  TestSessions(const MemorySource& source, const cria_config& config, size_t n_sessions);
  [[nodiscard]] const cria_model* model() const { return model_; }
  [[nodiscard]] cria_session* session(size_t i) { return sessions_.at(i); }
  [[nodiscard]] size_t size() const { return sessions_.size(); }
  [[nodiscard]] cria_workspace* workspace() { return workspace_; }
  [[nodiscard]] const cria_config& config() const { return config_; }
  [[nodiscard]] const cria_memory_plan& plan() const { return plan_; }
  [[nodiscard]] const cria_model_info& info() const { return info_; }

 private:
  hosted::ThreadPool pool_;
  cria_config config_;
  cria_model_info info_;
  cria_memory_plan plan_;
  Guarded memory_;
  cria_model* model_ = nullptr;
  std::vector<cria_session*> sessions_;
  cria_workspace* workspace_ = nullptr;
};

// A session as bytes: its tokens, keys and values, logits and random state.
[[nodiscard]] std::vector<uint8_t> state_of(const cria_session* session);

}  // namespace cria::test
