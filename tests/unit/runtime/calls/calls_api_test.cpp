// What the functions of cria_calls.h refuse, and the memory that they take.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <cria_calls.h>
#include "tests/support/call_trial.h"
#include "tests/support/test_session.h"

namespace cria::calls {
namespace {

using test::AlignedMemory;

constexpr size_t kHold = CRIA_CALLS_LEAST_HOLD;
const std::string kTools = R"([{"name": "f"}])";

void ignore(void* /*context*/, const cria_calls_event* /*event*/) {}

class CallsApi : public testing::Test {
 protected:
  cria_status required(const std::string& tools, size_t hold_bytes) {
    return cria_calls_required(form_.data(), form_.size(), tools.data(), tools.size(), hold_bytes,
                               &n_bytes_);
  }
  cria_status make(void* memory, size_t n_bytes) {
    return cria_calls_make(memory, n_bytes, form_.data(), form_.size(), kTools.data(),
                           kTools.size(), kHold, &calls_);
  }

  std::vector<uint8_t> form_ = test::call_form_of("qwen3-0.6b");
  size_t n_bytes_ = 0;
  cria_calls* calls_ = nullptr;
};

TEST_F(CallsApi, MemoryIsTheHoldAndAConstant) {
  ASSERT_EQ(required({}, kHold), CRIA_OK);
  const size_t least = n_bytes_;
  EXPECT_LT(least, kHold + 6144);
  ASSERT_EQ(required({}, kHold + 4096), CRIA_OK);
  EXPECT_EQ(n_bytes_, least + 4096);
}

TEST_F(CallsApi, ExactlyTheMemoryThatIsRequiredIsEnough) {
  ASSERT_EQ(required(kTools, kHold), CRIA_OK);
  AlignedMemory memory(n_bytes_);
  EXPECT_EQ(make(memory.data(), n_bytes_ - 1), CRIA_MEMORY_TOO_SMALL);
  EXPECT_EQ(calls_, nullptr);
  EXPECT_EQ(make(static_cast<char*>(memory.data()) + 1, n_bytes_ - 1), CRIA_MISALIGNED);
  EXPECT_EQ(make(memory.data(), n_bytes_), CRIA_OK);
}

TEST_F(CallsApi, BadFormsToolsAndHoldsAreRefused) {
  EXPECT_EQ(required(kTools, kHold - 1), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(required(kTools, SIZE_MAX), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(required("[", kHold), CRIA_UNSUPPORTED);
  EXPECT_EQ(required("[\"" + std::string(size_t{1} << 20, 'x') + "\"]", kHold), CRIA_TEXT_TOO_LONG);
  const std::string object = "{}";
  ASSERT_EQ(required(object, kHold), CRIA_OK);
  AlignedMemory memory(n_bytes_);
  EXPECT_EQ(cria_calls_make(memory.data(), n_bytes_, form_.data(), form_.size(), object.data(),
                            object.size(), kHold, &calls_),
            CRIA_UNSUPPORTED);
  form_.pop_back();
  EXPECT_EQ(required(kTools, kHold), CRIA_CORRUPT);
  EXPECT_EQ(cria_calls_required(nullptr, 0, nullptr, 0, kHold, &n_bytes_), CRIA_INVALID_ARGUMENT);
}

TEST_F(CallsApi, AnAnswerIsReadBetweenItsBeginningAndItsEnd) {
  ASSERT_EQ(required(kTools, kHold), CRIA_OK);
  AlignedMemory memory(n_bytes_);
  ASSERT_EQ(make(memory.data(), n_bytes_), CRIA_OK);
  cria_calls_ending ending = CRIA_CALLS_STOPPED;
  EXPECT_EQ(cria_calls_read(calls_, "a", 1, ignore, nullptr), CRIA_BAD_STATE);
  EXPECT_EQ(cria_calls_begin(calls_, nullptr, 1), CRIA_INVALID_ARGUMENT);
  ASSERT_EQ(cria_calls_begin(calls_, nullptr, 0), CRIA_OK);
  EXPECT_EQ(cria_calls_read(calls_, "a", 1, nullptr, nullptr), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_calls_read(calls_, "a", 1, ignore, nullptr), CRIA_OK);
  EXPECT_EQ(cria_calls_finish(calls_, CRIA_CALLS_STOPPED, ignore, nullptr, nullptr),
            CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_calls_finish(calls_, CRIA_CALLS_STOPPED, ignore, nullptr, &ending), CRIA_OK);
  EXPECT_EQ(cria_calls_finish(calls_, CRIA_CALLS_STOPPED, ignore, nullptr, &ending),
            CRIA_BAD_STATE);
}

}  // namespace
}  // namespace cria::calls
