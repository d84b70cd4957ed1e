// Reserved bytes of the structs that a caller gives: each must be zero, so that a later version may
// give it a meaning. Those of cria_config and cria_text_state are in api_test.cpp.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>

#include <cria_chat.h>
#include "tests/support/guarded.h"
#include "tests/support/test_session.h"
#include "tests/system/tiny_chat_model.h"

namespace cria {
namespace {

using test::exact_config;
using test::MemorySource;
using test::TestSession;
using test::tiny_source;

TEST(ReservedBytes, OfWhatInspectFilledMustBeZero) {
  cria_model_info good = {};
  ASSERT_EQ(cria_inspect(&tiny_source().source(), &good), CRIA_OK);
  const cria_config config = exact_config();
  for (size_t i = 0; i <= sizeof good.reserved; ++i) {
    cria_model_info info = good;
    const bool is_good = i == sizeof good.reserved;
    if (!is_good) info.reserved[i] = 0x80;
    const cria_status wanted = is_good ? CRIA_OK : CRIA_INVALID_ARGUMENT;
    cria_memory_plan plan = {};
    size_t n_bytes = 0;
    std::string metadata(good.metadata_bytes, '\0');
    EXPECT_EQ(cria_plan(&info, &config, &plan), wanted) << i;
    EXPECT_EQ(cria_verify_required(&info, &n_bytes), wanted) << i;
    EXPECT_EQ(cria_read_metadata(&tiny_source().source(), &info, metadata.data(), metadata.size()),
              wanted)
        << i;
  }
}

TEST(ReservedBytes, OfAChatsConfigMustBeZero) {
  TestSession session(tiny_source(), exact_config());
  const cria_chat_config good = {};
  size_t n_bytes = 0;
  ASSERT_EQ(cria_chat_required(session.session(), &good, &n_bytes), CRIA_OK);
  test::AlignedMemory memory(n_bytes);
  for (size_t i = 0; i <= sizeof good.reserved; ++i) {
    cria_chat_config config = good;
    const bool is_good = i == sizeof good.reserved;
    if (!is_good) config.reserved[i] = 1;
    const cria_status wanted = is_good ? CRIA_OK : CRIA_INVALID_ARGUMENT;
    cria_chat* chat = nullptr;
    EXPECT_EQ(cria_chat_required(session.session(), &config, &n_bytes), wanted) << i;
    EXPECT_EQ(cria_chat_make(memory.data(), memory.size(), session.workspace(), session.session(),
                             &config, &chat),
              wanted)
        << i;
  }
}

TEST(ReservedBytes, OfAChatsOptionsMustBeZero) {
  TestSession session(tiny_source(), exact_config());
  const cria_chat_config config = {};
  size_t n_bytes = 0;
  ASSERT_EQ(cria_chat_required(session.session(), &config, &n_bytes), CRIA_OK);
  test::AlignedMemory memory(n_bytes);
  cria_chat* chat = nullptr;
  ASSERT_EQ(cria_chat_make(memory.data(), memory.size(), session.workspace(), session.session(),
                           &config, &chat),
            CRIA_OK);
  for (size_t i = 0; i <= sizeof cria_chat_options::reserved; ++i) {
    cria_chat_options options = {};
    options.max_tokens = 1;
    const bool is_good = i == sizeof options.reserved;
    const uint8_t one = is_good ? 0 : 1;
    const size_t byte = is_good ? 0 : i;
    std::memcpy(reinterpret_cast<uint8_t*>(&options.reserved) + byte, &one, 1);
    cria_chat_result result = {};
    EXPECT_EQ(cria_chat_answer(chat, session.workspace(), "a", 1, &options, &result),
              is_good ? CRIA_OK : CRIA_INVALID_ARGUMENT)
        << i;
  }
}

}  // namespace
}  // namespace cria
