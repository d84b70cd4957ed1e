#include "tests/support/test_session.h"

#include <cstring>
#include <new>
#include <stdexcept>

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
#ifdef CRIA_WITH_XNNPACK
  return {CRIA_BACKEND_EXACT, CRIA_BACKEND_XNNPACK};
#else
  return {CRIA_BACKEND_EXACT};
#endif
}

std::string backend_label(const testing::TestParamInfo<cria_backend>& backend) {
  return backend.param == CRIA_BACKEND_EXACT ? "exact" : "xnnpack";
}

TestSession::TestSession(const MemorySource& source, const cria_config& config)
    : pool_(config.n_threads) {
  cria_config c = config;
  c.source_is_mapped = source.source().map != nullptr ? 1 : 0;
  c.parallel_for = pool_.hook();
  c.parallel_context = pool_.context();
  EXPECT_EQ(cria_inspect(&source.source(), &info_), CRIA_OK);
  EXPECT_EQ(cria_plan(&info_, &c, &plan_), CRIA_OK);
  memory_ = std::make_unique<AlignedMemory>(static_cast<size_t>(plan_.total));
  const cria_status status =
      cria_open(memory_->data(), static_cast<size_t>(plan_.total), &source.source(), &c, &session_);
  if (status != CRIA_OK) throw std::runtime_error(cria_status_message(status));
  EXPECT_EQ(cria_memory_used(session_), plan_.total);
}

std::vector<float> TestSession::all_logits(std::span<const uint32_t> tokens) {
  std::vector<float> logits(tokens.size() * info_.vocab_size);
  EXPECT_EQ(cria_prefill_logits(session_, tokens.data(), tokens.size(), logits.data()), CRIA_OK);
  return logits;
}

std::vector<uint32_t> TestSession::greedy(size_t n_tokens) {
  std::vector<uint32_t> tokens;
  const cria_sampling sampling = {};
  for (size_t i = 0; i < n_tokens; ++i) {
    uint32_t token = 0;
    EXPECT_EQ(cria_sample(session_, &sampling, &token), CRIA_OK);
    tokens.push_back(token);
    EXPECT_EQ(cria_prefill(session_, &token, 1), CRIA_OK);
  }
  return tokens;
}

}  // namespace cria::test
