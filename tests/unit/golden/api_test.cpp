// cria.h as a caller meets it: limits, errors, states.
#include <gtest/gtest.h>

#include <cstring>

#include "tests/support/isa_list.h"
#include "tests/support/model_files.h"
#include "tests/support/test_session.h"
#include "tests/support/tiny_checkpoint.h"

namespace cria {
namespace {

using test::MemorySource;
using test::TestSession;

const MemorySource& tiny_source() {
  static const MemorySource source = [] {
    const auto folder = test::temporary_folder() / "tiny-api";
    test::write_tiny_checkpoint(folder);
    return MemorySource(test::convert_folder(
        folder, {format::NumberFormat::kInt8, 0, format::Compression::kZstd, true}));
  }();
  return source;
}

cria_config exact_config() {
  cria_config config = {};
  config.backend = CRIA_BACKEND_EXACT;
  return config;
}

const uint32_t kPrompt[] = {5, 60, 200, 17, 99};

TEST(Api, ContextThatIsFullIsSaidAndChangesNothing) {
  cria_config config = exact_config();
  config.context = 8;
  TestSession session(tiny_source(), config);
  cria_session* s = session.get();
  ASSERT_EQ(cria_prefill(s, kPrompt, 5), CRIA_OK);
  EXPECT_EQ(cria_prefill(s, kPrompt, 4), CRIA_CONTEXT_FULL);
  EXPECT_EQ(cria_position(s), 5u);
  EXPECT_NE(cria_logits(s), nullptr);
  EXPECT_EQ(cria_prefill(s, kPrompt, 3), CRIA_OK);
  EXPECT_EQ(cria_position(s), 8u);
  EXPECT_EQ(cria_prefill(s, kPrompt, 1), CRIA_CONTEXT_FULL);
}

TEST(Api, TokensOutsideTheVocabularyAreRefused) {
  TestSession session(tiny_source(), exact_config());
  const uint32_t bad[] = {1, session.info().vocab_size};
  EXPECT_EQ(cria_prefill(session.get(), bad, 2), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_prefill(session.get(), bad, 0), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_position(session.get()), 0u);
}

TEST(Api, SamplingNeedsLogits) {
  TestSession session(tiny_source(), exact_config());
  const cria_sampling greedy = {};
  uint32_t token = 0;
  EXPECT_EQ(cria_sample(session.get(), &greedy, &token), CRIA_NOTHING_TO_SAMPLE);
  EXPECT_EQ(cria_logits(session.get()), nullptr);
  ASSERT_EQ(cria_prefill(session.get(), kPrompt, 5), CRIA_OK);
  EXPECT_EQ(cria_sample(session.get(), &greedy, &token), CRIA_OK);
  ASSERT_EQ(cria_reset(session.get(), 2), CRIA_OK);
  EXPECT_EQ(cria_sample(session.get(), &greedy, &token), CRIA_NOTHING_TO_SAMPLE);
}

TEST(Api, ResettingToAPositionKeepsWhatIsBeforeIt) {
  TestSession session(tiny_source(), exact_config());
  const std::vector<float> want = session.all_logits(kPrompt);
  ASSERT_EQ(cria_prefill(session.get(), kPrompt, 5), CRIA_OK);
  ASSERT_EQ(cria_reset(session.get(), 3), CRIA_OK);
  ASSERT_EQ(cria_prefill(session.get(), kPrompt + 3, 2), CRIA_OK);
  const size_t vocab = session.info().vocab_size;
  EXPECT_EQ(std::memcmp(cria_logits(session.get()), &want[4 * vocab], vocab * sizeof(float)), 0);
  EXPECT_EQ(cria_reset(session.get(), 6), CRIA_INVALID_ARGUMENT);
}

std::vector<uint32_t> draw(cria_session* s, int n_tokens) {
  const cria_sampling sampling = {1.0f, 0.95f, 0.0f, 1.1f, 0, 0};
  std::vector<uint32_t> tokens;
  for (int i = 0; i < n_tokens; ++i) {
    uint32_t token = 0;
    EXPECT_EQ(cria_sample(s, &sampling, &token), CRIA_OK);
    EXPECT_EQ(cria_prefill(s, &token, 1), CRIA_OK);
    tokens.push_back(token);
  }
  return tokens;
}

TEST(Api, ASavedConversationGoesOnWithTheSameBitsInAnotherSession) {
  TestSession first(tiny_source(), exact_config());
  cria_seed(first.get(), 77);
  ASSERT_EQ(cria_prefill(first.get(), kPrompt, 5), CRIA_OK);
  static_cast<void>(draw(first.get(), 5));
  std::vector<uint8_t> state(cria_state_size(first.get()));
  EXPECT_EQ(cria_state_save(first.get(), state.data(), state.size() - 1), CRIA_BUFFER_TOO_SMALL);
  ASSERT_EQ(cria_state_save(first.get(), state.data(), state.size()), CRIA_OK);
  const std::vector<uint32_t> want = draw(first.get(), 10);

  cria_config other = exact_config();
  other.context = 32;
  other.n_threads = 2;
  other.prefill_chunk = 3;
  TestSession second(tiny_source(), other);
  ASSERT_EQ(cria_state_load(second.get(), state.data(), state.size()), CRIA_OK);
  EXPECT_EQ(cria_position(second.get()), 10u);
  EXPECT_EQ(draw(second.get(), 10), want);
}

TEST(Api, DamagedAndForeignStatesAreRefused) {
  TestSession session(tiny_source(), exact_config());
  ASSERT_EQ(cria_prefill(session.get(), kPrompt, 5), CRIA_OK);
  std::vector<uint8_t> state(cria_state_size(session.get()));
  ASSERT_EQ(cria_state_save(session.get(), state.data(), state.size()), CRIA_OK);
  size_t refused = 0;
  for (size_t byte = 0; byte < state.size(); byte += byte < 64 ? 1 : 97) {
    // The random state, bytes 24 to 31, may be anything.
    if (byte >= 24 && byte < 32) continue;
    std::vector<uint8_t> damaged = state;
    damaged[byte] ^= 0x41;
    const cria_status status = cria_state_load(session.get(), damaged.data(), damaged.size());
    EXPECT_TRUE(status == CRIA_BAD_STATE || status == CRIA_CONTEXT_FULL) << byte;
    ++refused;
  }
  EXPECT_GT(refused, 60u);
  EXPECT_EQ(cria_state_load(session.get(), state.data(), 10), CRIA_BAD_STATE);
  cria_config f32 = exact_config();
  f32.kv_format = CRIA_KV_F32;
  TestSession other(tiny_source(), f32);
  EXPECT_EQ(cria_state_load(other.get(), state.data(), state.size()), CRIA_BAD_STATE);
}

TEST(Api, ConfigurationsOutOfRangeAreRefused) {
  cria_model_info info = {};
  ASSERT_EQ(cria_inspect(&tiny_source().source(), &info), CRIA_OK);
  const auto required = [&](void (*spoil)(cria_config & c)) {
    cria_config config = exact_config();
    spoil(config);
    cria_memory_plan plan = {};
    return cria_memory_required(&info, &config, &plan);
  };
  EXPECT_EQ(required([](cria_config&) {}), CRIA_OK);
  EXPECT_EQ(required([](cria_config& c) { c.context = 65; }), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(required([](cria_config& c) { c.n_threads = 257; }), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(required([](cria_config& c) { c.prefill_chunk = 4097; }), CRIA_INVALID_ARGUMENT);
  // What a C caller may write into an enum.
  const uint32_t nine = 9;
  cria_config config = exact_config();
  cria_memory_plan plan = {};
  std::memcpy(&config.kv_format, &nine, sizeof nine);
  EXPECT_EQ(cria_memory_required(&info, &config, &plan), CRIA_INVALID_ARGUMENT);
  config = exact_config();
  std::memcpy(&config.backend, &nine, sizeof nine);
  EXPECT_EQ(cria_memory_required(&info, &config, &plan), CRIA_INVALID_ARGUMENT);
}

TEST(Api, AutoIsExactWhereverItHasVectorKernels) {
  for (const test::IsaRow& isa : test::runnable_isas()) {
    cria_config config = {};
    config.isa_mask = isa.mask;
    TestSession session(tiny_source(), config);
#ifdef CRIA_WITH_XNNPACK
    const char* const scalar_backend = "xnnpack";
#else
    const char* const scalar_backend = "exact";
#endif
    const bool is_scalar = std::strcmp(isa.name, "scalar") == 0;
    EXPECT_STREQ(cria_backend_name(session.get()), is_scalar ? scalar_backend : "exact")
        << isa.name;
  }
}

TEST(Api, NullAndMisalignedArgumentsAreRefused) {
  const cria_source& source = tiny_source().source();
  const cria_config config = exact_config();
  cria_session* session = nullptr;
  test::AlignedMemory memory(size_t{1} << 20);
  auto* bytes = static_cast<uint8_t*>(memory.data());
  EXPECT_EQ(cria_open(nullptr, 10, &source, &config, &session), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_open(bytes + 8, memory.size() - 8, &source, &config, &session), CRIA_MISALIGNED);
  EXPECT_EQ(cria_open(bytes, memory.size(), nullptr, &config, &session), CRIA_INVALID_ARGUMENT);
  cria_config mapped = config;
  mapped.source_is_mapped = 1;  // but the source maps nothing
  EXPECT_EQ(cria_open(bytes, memory.size(), &source, &mapped, &session), CRIA_INVALID_ARGUMENT);
}

TEST(Api, TextThatIsTooLongOrHasNoRoomIsSaid) {
  cria_config config = exact_config();
  config.max_text_bytes = 64;
  TestSession session(tiny_source(), config);
  uint32_t tokens[8];
  size_t n = 0;
  EXPECT_EQ(cria_encode(session.get(), "abcdefghij", 10, 0, tokens, 3, &n), CRIA_BUFFER_TOO_SMALL);
  const std::string word(500, 'z');
  std::vector<uint32_t> many(1000);
  EXPECT_EQ(cria_encode(session.get(), word.data(), word.size(), 0, many.data(), many.size(), &n),
            CRIA_TEXT_TOO_LONG);
  EXPECT_EQ(cria_encode(session.get(), "a", 1, 0x80, tokens, 8, &n), CRIA_INVALID_ARGUMENT);
}

TEST(Api, EveryStatusHasAMessage) {
  size_t known = 0;
#define CRIA_CHECK_MESSAGE(cpp_name, c_name, value, text) \
  EXPECT_STREQ(cria_status_message(c_name), text);        \
  ++known;
  CRIA_STATUS_LIST(CRIA_CHECK_MESSAGE)
#undef CRIA_CHECK_MESSAGE
  EXPECT_EQ(known, 19u);
}

}  // namespace
}  // namespace cria
