#include "tests/support/test_session.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <stdexcept>

#include "runtime/base/features.h"

namespace cria::test {
namespace {

constexpr size_t kAlignment = 64;

const void* map_bytes(void* context, uint64_t offset, size_t /*n_bytes*/) {
  return static_cast<const uint8_t*>(context) + offset;
}

int read_bytes(void* context, uint64_t offset, void* destination, size_t n_bytes) {
  std::memcpy(destination, static_cast<const uint8_t*>(context) + offset, n_bytes);
  return 0;
}

}  // namespace

MemorySource::MemorySource(std::span<const uint8_t> bytes, Access access)
    : memory_(new uint8_t[bytes.size() + kAlignment]), size_(bytes.size()) {
  const auto address = reinterpret_cast<uintptr_t>(memory_.get());
  base_ = memory_.get() + (kAlignment - address % kAlignment) % kAlignment;
  if (!bytes.empty()) std::memcpy(base_, bytes.data(), bytes.size());
  source_ = {base_, bytes.size(), access != Access::kRead ? map_bytes : nullptr,
             access != Access::kMap ? read_bytes : nullptr};
}

AlignedMemory::AlignedMemory(size_t n_bytes)
    : data_(::operator new (n_bytes, std::align_val_t{kAlignment})), size_(n_bytes) {
  // What is not initialized by the session must not matter.
  std::memset(data_, 0xa5, n_bytes);
}

AlignedMemory::~AlignedMemory() { ::operator delete (data_, std::align_val_t{kAlignment}); }

std::vector<cria_backend> built_backends() {
  if (!kHasXnnpack) return {CRIA_BACKEND_EXACT};
  return {CRIA_BACKEND_EXACT, CRIA_BACKEND_XNNPACK};
}

std::string backend_label(const testing::TestParamInfo<cria_backend>& backend) {
  return backend.param == CRIA_BACKEND_EXACT ? "exact" : "xnnpack";
}

cria_model_info inspected(const cria_source& source) {
  cria_model_info info = {};
  EXPECT_EQ(cria_inspect(&source, &info), CRIA_OK);
  return info;
}

cria_memory_plan planned(const cria_model_info& info, const cria_config& config) {
  cria_memory_plan plan = {};
  EXPECT_EQ(cria_plan(&info, &config, &plan), CRIA_OK);
  return plan;
}

cria_config complete_config(const cria_config& given, const MemorySource& source,
                            hosted::ThreadPool* pool) {
  cria_config config = given;
  config.source_is_mapped = source.source().map != nullptr ? 1 : 0;
  config.parallel_for = pool->hook();
  config.parallel_context = pool->context();
  return config;
}

void need(cria_status status) {
  if (status != CRIA_OK) throw std::runtime_error(cria_status_message(status));
}

size_t bytes_of(const cria_instance& instance) {
  return cria_model_bytes(instance.model) + cria_session_bytes(instance.session) +
         cria_workspace_bytes(instance.workspace);
}

TestSession::TestSession(const MemorySource& source, const cria_config& config)
    : pool_(config.n_threads, hosted::FewerThreads::kAreRefused),
      config_(complete_config(config, source, &pool_)),
      info_(inspected(source.source())),
      plan_(planned(info_, config_)),
      model_memory_(static_cast<size_t>(plan_.model.total)),
      session_memory_(static_cast<size_t>(plan_.session.total)),
      workspace_memory_(static_cast<size_t>(plan_.workspace.total)) {
  {
    AlignedMemory scratch(static_cast<size_t>(plan_.loading));
    need(cria_load(model_memory_.data(), model_memory_.size(), scratch.data(), scratch.size(),
                   &source.source(), &config_, &model_));
  }
  if (config_.text_only == 0) {
    need(cria_start(session_memory_.data(), session_memory_.size(), model_, &config_, &session_));
  }
  need(cria_make_workspace(workspace_memory_.data(), workspace_memory_.size(), model_, &config_,
                           &workspace_));
  EXPECT_EQ(cria_model_bytes(model_), plan_.model.total);
  EXPECT_EQ(cria_session_bytes(session_), plan_.session.total);
  EXPECT_EQ(cria_workspace_bytes(workspace_), plan_.workspace.total);
  EXPECT_EQ(plan_.total, plan_.model.total + plan_.session.total +
                             std::max(plan_.workspace.total, plan_.loading));
}

std::vector<float> TestSession::all_logits(std::span<const uint32_t> tokens) {
  std::vector<float> logits(tokens.size() * info_.vocab_size);
  const cria_batch_entry entry = {session_, tokens.data(), tokens.size(), logits.data(), {}};
  EXPECT_EQ(cria_step(workspace_, &entry, 1), CRIA_OK);
  // The session keeps the last ones, as after a prefill.
  const float* last = cria_logits(session_);
  EXPECT_NE(last, nullptr);
  if (last != nullptr) {
    EXPECT_EQ(std::memcmp(last, &logits[(tokens.size() - 1) * info_.vocab_size],
                          info_.vocab_size * sizeof(float)),
              0);
  }
  return logits;
}

std::vector<uint32_t> TestSession::greedy(size_t n_tokens) {
  std::vector<uint32_t> tokens;
  const cria_sampling sampling = {};
  for (size_t i = 0; i < n_tokens; ++i) {
    uint32_t token = 0;
    EXPECT_EQ(cria_sample(workspace_, session_, &sampling, &token), CRIA_OK);
    tokens.push_back(token);
    EXPECT_EQ(cria_prefill(workspace_, session_, &token, 1), CRIA_OK);
  }
  return tokens;
}

}  // namespace cria::test
