#include "tests/support/test_sessions.h"

#include <algorithm>

namespace cria::test {
namespace {

size_t block_bytes(const cria_memory_plan& plan, size_t n_sessions) {
  return static_cast<size_t>(plan.model.total + n_sessions * plan.session.total +
                             std::max(plan.workspace.total, plan.loading));
}

}  // namespace

TestSessions::TestSessions(const MemorySource& source, const cria_config& config, size_t n_sessions)
    : pool_(config.n_threads, hosted::FewerThreads::kAreRefused),
      config_(complete_config(config, source, &pool_)),
      info_(inspected(source.source())),
      plan_(planned(info_, config_)),
      memory_(block_bytes(plan_, n_sessions)),
      sessions_(n_sessions, nullptr) {
  const size_t n_bytes = block_bytes(plan_, n_sessions);
  auto* at = memory_.place<uint8_t>(n_bytes, Edge::kEnd);
  std::fill_n(at, n_bytes, uint8_t{0xa5});
  uint8_t* const end = at + n_bytes;
  const auto session_bytes = static_cast<size_t>(plan_.session.total);
  uint8_t* const of_sessions = at + plan_.model.total;
  uint8_t* const of_workspace = of_sessions + n_sessions * session_bytes;
  const auto up_to_end = [end](const uint8_t* from) { return static_cast<size_t>(end - from); };
  need(cria_load(at, static_cast<size_t>(plan_.model.total), of_workspace, up_to_end(of_workspace),
                 &source.source(), &config_, &model_));
  at = of_sessions;
  for (cria_session*& session : sessions_) {
    need(cria_start(at, session_bytes, model_, &config_, &session));
    EXPECT_EQ(cria_session_bytes(session), session_bytes);
    at += session_bytes;
  }
  need(cria_make_workspace(of_workspace, up_to_end(of_workspace), model_, &config_, &workspace_));
  EXPECT_EQ(cria_model_bytes(model_), plan_.model.total);
  EXPECT_EQ(cria_workspace_bytes(workspace_), plan_.workspace.total);
}

std::vector<uint8_t> state_of(const cria_session* session) {
  std::vector<uint8_t> state(cria_state_size(session));
  EXPECT_EQ(cria_state_save(session, state.data(), state.size()), CRIA_OK);
  return state;
}

}  // namespace cria::test
