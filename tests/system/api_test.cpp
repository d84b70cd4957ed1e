// cria.h as a caller meets it: limits, errors, states.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>

#include "quant/text/call_format.h"
#include "runtime/base/features.h"
#include "tests/support/folders.h"
#include "tests/support/isa_list.h"
#include "tests/support/model_files.h"
#include "tests/support/model_surgery.h"
#include "tests/support/plain_chat.h"
#include "tests/support/sampling_of.h"
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
  cria_session* s = session.session();
  cria_workspace* w = session.workspace();
  ASSERT_EQ(cria_prefill(w, s, kPrompt, 5), CRIA_OK);
  EXPECT_EQ(cria_prefill(w, s, kPrompt, 4), CRIA_CONTEXT_FULL);
  EXPECT_EQ(cria_position(s), 5u);
  EXPECT_NE(cria_logits(s), nullptr);
  EXPECT_EQ(cria_prefill(w, s, kPrompt, 3), CRIA_OK);
  EXPECT_EQ(cria_position(s), 8u);
  EXPECT_EQ(cria_prefill(w, s, kPrompt, 1), CRIA_CONTEXT_FULL);
}

TEST(Api, TokensOutsideTheVocabularyAreRefused) {
  TestSession session(tiny_source(), exact_config());
  const uint32_t bad[] = {1, session.info().vocab_size};
  EXPECT_EQ(cria_prefill(session.workspace(), session.session(), bad, 2), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_prefill(session.workspace(), session.session(), bad, 0), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_position(session.session()), 0u);
}

TEST(Api, SamplingNeedsLogits) {
  TestSession session(tiny_source(), exact_config());
  const cria_sampling greedy = {};
  uint32_t token = 0;
  EXPECT_EQ(cria_sample(session.workspace(), session.session(), &greedy, &token),
            CRIA_NOTHING_TO_SAMPLE);
  EXPECT_EQ(cria_logits(session.session()), nullptr);
  ASSERT_EQ(cria_prefill(session.workspace(), session.session(), kPrompt, 5), CRIA_OK);
  EXPECT_EQ(cria_sample(session.workspace(), session.session(), &greedy, &token), CRIA_OK);
  ASSERT_EQ(cria_reset(session.session(), 2), CRIA_OK);
  EXPECT_EQ(cria_sample(session.workspace(), session.session(), &greedy, &token),
            CRIA_NOTHING_TO_SAMPLE);
}

TEST(Api, ResettingToAPositionKeepsWhatIsBeforeIt) {
  TestSession session(tiny_source(), exact_config());
  const std::vector<float> want = session.all_logits(kPrompt);
  ASSERT_EQ(cria_prefill(session.workspace(), session.session(), kPrompt, 5), CRIA_OK);
  ASSERT_EQ(cria_reset(session.session(), 3), CRIA_OK);
  ASSERT_EQ(cria_prefill(session.workspace(), session.session(), kPrompt + 3, 2), CRIA_OK);
  const size_t vocab = session.info().vocab_size;
  EXPECT_EQ(std::memcmp(cria_logits(session.session()), &want[4 * vocab], vocab * sizeof(float)),
            0);
  EXPECT_EQ(cria_reset(session.session(), 6), CRIA_INVALID_ARGUMENT);
}

std::vector<uint32_t> draw(TestSession* session, int n_tokens) {
  const cria_sampling sampling = test::sampling_of(1.0f, 0.95f, 0.0f, 1.1f, 0);
  std::vector<uint32_t> tokens;
  for (int i = 0; i < n_tokens; ++i) {
    uint32_t token = 0;
    EXPECT_EQ(cria_sample(session->workspace(), session->session(), &sampling, &token), CRIA_OK);
    EXPECT_EQ(cria_prefill(session->workspace(), session->session(), &token, 1), CRIA_OK);
    tokens.push_back(token);
  }
  return tokens;
}

TEST(Api, ASavedConversationGoesOnWithTheSameBitsInAnotherSession) {
  TestSession first(tiny_source(), exact_config());
  cria_seed(first.session(), 77);
  ASSERT_EQ(cria_prefill(first.workspace(), first.session(), kPrompt, 5), CRIA_OK);
  static_cast<void>(draw(&first, 5));
  std::vector<uint8_t> state(cria_state_size(first.session()));
  EXPECT_EQ(cria_state_save(first.session(), state.data(), state.size() - 1),
            CRIA_BUFFER_TOO_SMALL);
  ASSERT_EQ(cria_state_save(first.session(), state.data(), state.size()), CRIA_OK);
  const std::vector<uint32_t> want = draw(&first, 10);

  cria_config other = exact_config();
  other.context = 32;
  other.n_threads = 2;
  other.prefill_chunk = 3;
  TestSession second(tiny_source(), other);
  ASSERT_EQ(cria_state_load(second.session(), state.data(), state.size()), CRIA_OK);
  EXPECT_EQ(cria_position(second.session()), 10u);
  EXPECT_EQ(draw(&second, 10), want);
}

TEST(Api, DamagedAndForeignStatesAreRefused) {
  TestSession session(tiny_source(), exact_config());
  ASSERT_EQ(cria_prefill(session.workspace(), session.session(), kPrompt, 5), CRIA_OK);
  std::vector<uint8_t> state(cria_state_size(session.session()));
  ASSERT_EQ(cria_state_save(session.session(), state.data(), state.size()), CRIA_OK);
  size_t refused = 0;
  for (size_t byte = 0; byte < state.size(); byte += byte < 64 ? 1 : 97) {
    // The random state, bytes 24 to 31, may be anything.
    if (byte >= 24 && byte < 32) continue;
    std::vector<uint8_t> damaged = state;
    damaged[byte] ^= 0x41;
    const cria_status status = cria_state_load(session.session(), damaged.data(), damaged.size());
    EXPECT_TRUE(status == CRIA_BAD_STATE || status == CRIA_CONTEXT_FULL) << byte;
    ++refused;
  }
  EXPECT_GT(refused, 60u);
  EXPECT_EQ(cria_state_load(session.session(), state.data(), 10), CRIA_BAD_STATE);
  for (const cria_kv_format kv_format : {CRIA_KV_F32, CRIA_KV_K8V4}) {
    cria_config other_kv = exact_config();
    other_kv.kv_format = kv_format;
    TestSession other(tiny_source(), other_kv);
    EXPECT_EQ(cria_state_load(other.session(), state.data(), state.size()), CRIA_BAD_STATE);
  }
}

TEST(Api, ConfigurationsOutOfRangeAreRefused) {
  cria_model_info info = {};
  ASSERT_EQ(cria_inspect(&tiny_source().source(), &info), CRIA_OK);
  const auto required = [&](void (*spoil)(cria_config & c)) {
    cria_config config = exact_config();
    spoil(config);
    cria_memory_plan plan = {};
    return cria_plan(&info, &config, &plan);
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
  EXPECT_EQ(cria_plan(&info, &config, &plan), CRIA_INVALID_ARGUMENT);
  config = exact_config();
  std::memcpy(&config.backend, &nine, sizeof nine);
  EXPECT_EQ(cria_plan(&info, &config, &plan), CRIA_INVALID_ARGUMENT);
}

TEST(Api, AutoIsExactWhereverItHasVectorKernels) {
  for (const test::IsaRow& isa : test::runnable_isas()) {
    cria_config config = {};
    config.isa_mask = isa.mask;
    TestSession session(tiny_source(), config);
    const char* const scalar_backend = kHasXnnpack ? "xnnpack" : "exact";
    const bool is_scalar = std::strcmp(isa.name, "scalar") == 0;
    EXPECT_STREQ(cria_backend_name(session.model()), is_scalar ? scalar_backend : "exact")
        << isa.name;
  }
}

TEST(Api, SignedScalesAreForExactAlone) {
  const test::MemorySource source(test::convert_folder(
      test::golden_folder("odd-sizes"),
      {format::NumberFormat::kInt4, 32, format::Compression::kZstd, false, ScaleSigns::kBoth}));
  for (const test::IsaRow& isa : test::runnable_isas()) {
    cria_config config = {};
    config.isa_mask = isa.mask;
    TestSession session(source, config);
    EXPECT_NE(session.info().signed_scales, 0);
    EXPECT_STREQ(cria_backend_name(session.model()), "exact") << isa.name;
    config.backend = CRIA_BACKEND_XNNPACK;
    cria_memory_plan plan = {};
    EXPECT_EQ(cria_plan(&session.info(), &config, &plan), CRIA_UNSUPPORTED);
  }
}

TEST(Api, NullAndMisalignedArgumentsAreRefused) {
  const cria_source& source = tiny_source().source();
  const cria_config config = exact_config();
  cria_instance cria = {};
  test::AlignedMemory memory(size_t{1} << 20);
  auto* bytes = static_cast<uint8_t*>(memory.data());
  EXPECT_EQ(cria_open(nullptr, 10, &source, &config, &cria), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_open(bytes + 8, memory.size() - 8, &source, &config, &cria), CRIA_MISALIGNED);
  EXPECT_EQ(cria_open(bytes, memory.size(), nullptr, &config, &cria), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_open(bytes, memory.size(), &source, nullptr, &cria), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_open(bytes, memory.size(), &source, &config, nullptr), CRIA_INVALID_ARGUMENT);
  cria_config mapped = config;
  mapped.source_is_mapped = 1;  // but the source maps nothing
  EXPECT_EQ(cria_open(bytes, memory.size(), &source, &mapped, &cria), CRIA_INVALID_ARGUMENT);
}

// A model's, a session's or a workspace's memory.
struct Block {
  void* data;
  size_t n_bytes;
};

// What making an object says to memory that will not do, for make(block, where it is put).
template <typename Object, typename Make>
void expect_memory_is_judged(size_t n_bytes, const Make& make) {
  ASSERT_GT(n_bytes, 0u);
  test::AlignedMemory memory(n_bytes + 64);
  auto* bytes = static_cast<uint8_t*>(memory.data());
  // Whatever the caller had there before is gone when nothing was made.
  auto* const old = reinterpret_cast<Object*>(bytes);
  Object* made = old;
  EXPECT_EQ(make(Block{bytes + 8, n_bytes}, &made), CRIA_MISALIGNED);
  EXPECT_EQ(made, nullptr);
  made = old;
  EXPECT_EQ(make(Block{bytes, n_bytes - 1}, &made), CRIA_MEMORY_TOO_SMALL);
  EXPECT_EQ(made, nullptr);
  made = old;
  EXPECT_EQ(make(Block{bytes, n_bytes - 64}, &made), CRIA_MEMORY_TOO_SMALL);
  EXPECT_EQ(made, nullptr);
  EXPECT_EQ(make(Block{nullptr, n_bytes}, &made), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(make(Block{bytes, n_bytes}, nullptr), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(make(Block{bytes, n_bytes}, &made), CRIA_OK);
  EXPECT_NE(made, nullptr);
  // More is not taken.
  made = nullptr;
  EXPECT_EQ(make(Block{bytes, n_bytes + 64}, &made), CRIA_OK);
  EXPECT_NE(made, nullptr);
}

TEST(Api, EachObjectTakesThePlannedMemoryAndNoLess) {
  TestSession session(tiny_source(), exact_config());
  const cria_source& source = tiny_source().source();
  const cria_config& config = session.config();
  const cria_memory_plan& plan = session.plan();
  const auto loading = static_cast<size_t>(plan.loading);
  ASSERT_GT(loading, 0u);
  test::AlignedMemory scratch(loading + 64);
  expect_memory_is_judged<cria_model>(plan.model.total, [&](Block block, cria_model** made) {
    return cria_load(block.data, block.n_bytes, scratch.data(), loading, &source, &config, made);
  });
  test::AlignedMemory memory(plan.model.total);
  expect_memory_is_judged<cria_model>(loading, [&](Block block, cria_model** made) {
    return cria_load(memory.data(), memory.size(), block.data, block.n_bytes, &source, &config,
                     made);
  });
  expect_memory_is_judged<cria_session>(plan.session.total, [&](Block block, cria_session** made) {
    return cria_start(block.data, block.n_bytes, session.model(), &config, made);
  });
  expect_memory_is_judged<cria_workspace>(
      plan.workspace.total, [&](Block block, cria_workspace** made) {
        return cria_make_workspace(block.data, block.n_bytes, session.model(), &config, made);
      });
  expect_memory_is_judged<cria_model>(plan.total, [&](Block block, cria_model** made) {
    cria_instance cria = {};
    const cria_status status =
        cria_open(block.data, block.n_bytes, &source, &config, made != nullptr ? &cria : nullptr);
    EXPECT_EQ(test::bytes_of(cria),
              status == CRIA_OK ? plan.model.total + plan.session.total + plan.workspace.total : 0);
    if (made != nullptr) *made = cria.model;
    return status;
  });
}

TEST(Api, NullArgumentsOfEachObjectAreRefused) {
  TestSession session(tiny_source(), exact_config());
  const cria_source& source = tiny_source().source();
  const cria_config& config = session.config();
  test::AlignedMemory memory(size_t{1} << 20);
  test::AlignedMemory scratch(static_cast<size_t>(session.plan().loading));
  cria_model* model = nullptr;
  cria_session* made = nullptr;
  cria_workspace* workspace = nullptr;
  const auto load = [&](const cria_source* from, const cria_config* with, void* loading) {
    return cria_load(memory.data(), memory.size(), loading, scratch.size(), from, with, &model);
  };
  EXPECT_EQ(load(&source, &config, scratch.data()), CRIA_OK);
  EXPECT_EQ(load(nullptr, &config, scratch.data()), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(load(&source, nullptr, scratch.data()), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(load(&source, &config, nullptr), CRIA_INVALID_ARGUMENT);
  const cria_source without_functions = {nullptr, source.size, nullptr, nullptr};
  EXPECT_EQ(load(&without_functions, &config, scratch.data()), CRIA_INVALID_ARGUMENT);
  void* const at = memory.data();
  const size_t n = memory.size();
  EXPECT_EQ(cria_start(at, n, nullptr, &config, &made), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_start(at, n, session.model(), nullptr, &made), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_make_workspace(at, n, nullptr, &config, &workspace), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_make_workspace(at, n, session.model(), nullptr, &workspace),
            CRIA_INVALID_ARGUMENT);
}

// A session may have another context, a workspace other threads and chunks than the model was
// loaded with: each takes what the plan of its own config says.
TEST(Api, AModelServesSessionsAndWorkspacesOfOtherConfigs) {
  TestSession session(tiny_source(), exact_config());
  const std::vector<float> want = session.all_logits(kPrompt);
  size_t tried = 0;
  for (const uint32_t context : {5u, 6u, 64u}) {
    for (const uint32_t chunk : {1u, 2u, 4096u}) {
      for (const uint32_t max_entries : {0u, 1u, 3u, 4096u}) {
        cria_config config = exact_config();
        config.context = context;
        config.prefill_chunk = chunk;
        config.max_entries = max_entries;
        config.max_text_bytes = 1;
        const cria_memory_plan plan = test::planned(session.info(), config);
        test::AlignedMemory of_session(plan.session.total);
        test::AlignedMemory of_workspace(plan.workspace.total);
        cria_session* s = nullptr;
        cria_workspace* w = nullptr;
        ASSERT_EQ(cria_start(of_session.data(), of_session.size(), session.model(), &config, &s),
                  CRIA_OK);
        ASSERT_EQ(cria_make_workspace(of_workspace.data(), of_workspace.size(), session.model(),
                                      &config, &w),
                  CRIA_OK);
        EXPECT_EQ(cria_session_bytes(s), plan.session.total);
        EXPECT_EQ(cria_workspace_bytes(w), plan.workspace.total);
        EXPECT_EQ(cria_context(s), context);
        ASSERT_EQ(cria_prefill(w, s, kPrompt, 5), CRIA_OK);
        const size_t vocab = session.info().vocab_size;
        EXPECT_EQ(std::memcmp(cria_logits(s), &want[4 * vocab], vocab * sizeof(float)), 0);
        ++tried;
      }
    }
  }
  EXPECT_EQ(tried, 36u);
}

TEST(Api, TextThatIsTooLongOrHasNoRoomIsSaid) {
  cria_config config = exact_config();
  config.max_text_bytes = 64;
  TestSession session(tiny_source(), config);
  uint32_t tokens[8];
  size_t n = 0;
  EXPECT_EQ(cria_encode(session.workspace(), "abcdefghij", 10, 0, tokens, 3, &n),
            CRIA_BUFFER_TOO_SMALL);
  const std::string word(500, 'z');
  std::vector<uint32_t> many(1000);
  EXPECT_EQ(
      cria_encode(session.workspace(), word.data(), word.size(), 0, many.data(), many.size(), &n),
      CRIA_TEXT_TOO_LONG);
  EXPECT_EQ(cria_encode(session.workspace(), "a", 1, 0x80, tokens, 8, &n), CRIA_INVALID_ARGUMENT);
}

TEST(Api, ANullObjectIsAnsweredByEveryFunction) {
  TestSession session(tiny_source(), exact_config());
  cria_session* const s = session.session();
  cria_workspace* const w = session.workspace();
  uint32_t token = 0;
  size_t n = 0;
  char text[16];
  float logits[1];
  cria_text_state state = {};
  const cria_sampling sampling = {};
  const cria_message message = {CRIA_USER, "a", 1};
  const cria_batch_entry entry = {s, &token, 1, nullptr, {}};
  const cria_batch_entry entry_of_null = {nullptr, &token, 1, logits, {}};
  EXPECT_EQ(cria_model_bytes(nullptr), 0u);
  EXPECT_EQ(cria_session_bytes(nullptr), 0u);
  EXPECT_EQ(cria_workspace_bytes(nullptr), 0u);
  EXPECT_STREQ(cria_backend_name(nullptr), "");
  EXPECT_STREQ(cria_isa_name(nullptr), "");
  EXPECT_EQ(cria_fingerprint(nullptr), 0u);
  EXPECT_EQ(cria_vocab_size(nullptr), 0u);
  EXPECT_EQ(cria_encode(nullptr, "a", 1, 0, &token, 1, &n), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_decode_token(nullptr, &state, 1, text, sizeof text, &n), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(test::encode_chat(nullptr, &message, 1, 0, 1, &token, 1, &n), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(test::chat_text(nullptr, &message, 1, 1, text, sizeof text, &n), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_prefill(nullptr, s, &token, 1), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_prefill(w, nullptr, &token, 1), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_prefill(w, s, nullptr, 1), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_step(nullptr, &entry, 1), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_step(w, nullptr, 1), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_step(w, &entry_of_null, 1), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_logits(nullptr), nullptr);
  EXPECT_EQ(cria_sample(nullptr, s, &sampling, &token), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_sample(w, nullptr, &sampling, &token), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_sample(w, s, nullptr, &token), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_sample(w, s, &sampling, nullptr), CRIA_INVALID_ARGUMENT);
  cria_seed(nullptr, 1);
  EXPECT_EQ(cria_is_end_token(nullptr, 0), 0);
  EXPECT_EQ(cria_position(nullptr), 0u);
  EXPECT_EQ(cria_context(nullptr), 0u);
  EXPECT_EQ(cria_tokens(nullptr), nullptr);
  EXPECT_EQ(cria_reset(nullptr, 0), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_state_size(nullptr), 0u);
  EXPECT_EQ(cria_state_prefix_size(nullptr, 0), 0u);
  EXPECT_EQ(cria_state_save(nullptr, text, sizeof text), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_state_load(nullptr, text, sizeof text), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_inspect(nullptr, nullptr), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_plan(nullptr, nullptr, nullptr), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_verify_required(nullptr, &n), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_read_metadata(nullptr, nullptr, text, sizeof text), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_position(s), 0u);
}

// What can be got from a workspace of another model would be read with the wrong sizes.
TEST(Api, AChatsTextHasItsLengthAndItsTokens) {
  cria_config config = exact_config();
  config.max_text_bytes = 256;
  TestSession session(tiny_source(), config);
  cria_workspace* const w = session.workspace();
  const cria_message messages[] = {{CRIA_USER, "hello", 5}, {CRIA_ASSISTANT, "a", 1}};
  for (const int ending : {CRIA_TURN_CLOSED, CRIA_TURN_OPENED}) {
    size_t n = 0;
    ASSERT_EQ(test::chat_text(w, messages, 2, ending, nullptr, 0, &n), CRIA_BUFFER_TOO_SMALL);
    std::string text(n, '\0');
    EXPECT_EQ(test::chat_text(w, messages, 2, ending, text.data(), n - 1, &n),
              CRIA_BUFFER_TOO_SMALL);
    ASSERT_EQ(n, text.size());
    ASSERT_EQ(test::chat_text(w, messages, 2, ending, text.data(), n, &n), CRIA_OK);
    EXPECT_LT(text.find("hello"), text.size());
    uint32_t tokens[256];
    uint32_t expected[256];
    size_t n_tokens = 0;
    ASSERT_EQ(cria_encode(w, text.data(), text.size(), CRIA_ENCODE_PARSE, tokens, 256, &n_tokens),
              CRIA_OK);
    ASSERT_EQ(test::encode_chat(w, messages, 2, 0, ending, expected, 256, &n), CRIA_OK);
    EXPECT_TRUE(std::equal(tokens, tokens + n_tokens, expected, expected + n));
  }
  size_t n = 0;
  EXPECT_EQ(test::chat_text(w, messages, 2, 3, nullptr, 0, &n), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(test::chat_text(w, messages, 2, 1, nullptr, 1, &n), CRIA_INVALID_ARGUMENT);
}

TEST(Api, AModelSaysHowItWritesCalls) {
  const MemorySource stored(
      test::read_file(test::source_folder() / "tests" / "data" / "golden" / "v3" / "calls.cria"));
  const TestSession session(stored, exact_config());
  size_t n = 0;
  const void* const bytes = cria_call_format(session.model(), &n);
  ASSERT_NE(bytes, nullptr);
  CallFormat form = {};
  ASSERT_EQ(check_call_format({static_cast<const uint8_t*>(bytes), n}, &form), nullptr);
  EXPECT_EQ(form.kind, format::CallKind::kJson);
  EXPECT_EQ(form.text(format::CallString::kEnd), "</tool_call>");
  EXPECT_EQ(cria_call_format(session.model(), nullptr), nullptr);
  const MemorySource without(test::read_file(test::source_folder() / "tests" / "data" / "golden" /
                                             "v3" / "byte_level.cria"));
  const TestSession other(without, exact_config());
  EXPECT_EQ(cria_call_format(other.model(), &n), nullptr);
  EXPECT_EQ(n, 0U);
}

TEST(Api, AWorkspaceServesItsOwnModelAlone) {
  TestSession one(tiny_source(), exact_config());
  TestSession other(tiny_source(), exact_config());
  EXPECT_EQ(cria_prefill(other.workspace(), one.session(), kPrompt, 5), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_position(one.session()), 0u);
  ASSERT_EQ(cria_prefill(one.workspace(), one.session(), kPrompt, 5), CRIA_OK);
  const cria_sampling greedy = {};
  uint32_t token = 0;
  EXPECT_EQ(cria_sample(other.workspace(), one.session(), &greedy, &token), CRIA_INVALID_ARGUMENT);
}

// One that was made for text has no room for anything else.
TEST(Api, AWorkspaceForTextAloneDoesNotRun) {
  TestSession session(tiny_source(), exact_config());
  ASSERT_EQ(cria_prefill(session.workspace(), session.session(), kPrompt, 5), CRIA_OK);
  cria_config config = exact_config();
  config.text_only = 1;
  config.max_text_bytes = 16;
  const cria_memory_plan plan = test::planned(session.info(), config);
  test::AlignedMemory memory(plan.workspace.total);
  cria_workspace* workspace = nullptr;
  ASSERT_EQ(cria_make_workspace(memory.data(), memory.size(), session.model(), &config, &workspace),
            CRIA_OK);
  EXPECT_EQ(cria_workspace_bytes(workspace), plan.workspace.total);
  uint32_t tokens[32];
  size_t n = 0;
  EXPECT_EQ(cria_encode(workspace, "llama", 5, 0, tokens, std::size(tokens), &n), CRIA_OK);
  EXPECT_GT(n, 0u);
  EXPECT_EQ(cria_prefill(workspace, session.session(), kPrompt, 1), CRIA_NO_WEIGHTS);
  const cria_sampling greedy = {};
  EXPECT_EQ(cria_sample(workspace, session.session(), &greedy, tokens), CRIA_NO_WEIGHTS);
  EXPECT_EQ(cria_position(session.session()), 5u);
  // A session needs weights, of the model and of its config.
  test::AlignedMemory of_session(session.plan().session.total);
  cria_session* started = nullptr;
  EXPECT_EQ(cria_start(of_session.data(), of_session.size(), session.model(), &config, &started),
            CRIA_NO_WEIGHTS);
  EXPECT_EQ(started, nullptr);
}

TEST(Api, ReservedBytesMustBeZero) {
  TestSession session(tiny_source(), exact_config());
  cria_memory_plan plan = {};
  test::AlignedMemory memory(size_t{8} << 20);
  test::AlignedMemory scratch(size_t{1} << 20);
  for (size_t i = 0; i < sizeof cria_config::reserved; ++i) {
    cria_config config = exact_config();
    config.reserved[i] = 1;
    cria_instance opened = {};
    cria_model* model = nullptr;
    cria_session* started = nullptr;
    cria_workspace* workspace = nullptr;
    EXPECT_EQ(cria_plan(&session.info(), &config, &plan), CRIA_INVALID_ARGUMENT) << i;
    EXPECT_EQ(cria_open(memory.data(), memory.size(), &tiny_source().source(), &config, &opened),
              CRIA_INVALID_ARGUMENT)
        << i;
    EXPECT_EQ(cria_load(memory.data(), memory.size(), scratch.data(), scratch.size(),
                        &tiny_source().source(), &config, &model),
              CRIA_INVALID_ARGUMENT)
        << i;
    EXPECT_EQ(cria_start(memory.data(), memory.size(), session.model(), &config, &started),
              CRIA_INVALID_ARGUMENT)
        << i;
    EXPECT_EQ(
        cria_make_workspace(memory.data(), memory.size(), session.model(), &config, &workspace),
        CRIA_INVALID_ARGUMENT)
        << i;
  }
  cria_text_state state = {};
  state.reserved = 1;
  char text[CRIA_TEXT_BYTES];
  size_t n = 0;
  EXPECT_EQ(cria_decode_token(session.model(), &state, 1, text, sizeof text, &n),
            CRIA_INVALID_ARGUMENT);
}

TEST(Api, SamplingOutOfRangeIsRefusedAndDrawsNothing) {
  TestSession session(tiny_source(), exact_config());
  ASSERT_EQ(cria_prefill(session.workspace(), session.session(), kPrompt, 2), CRIA_OK);
  const uint32_t vocab = session.info().vocab_size;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const cria_logit_bias past_the_end = {vocab, 0.0f};
  const cria_logit_bias no_number = {0, nan};
  const cria_logit_bias good = {vocab - 1, -std::numeric_limits<float>::infinity()};
  const struct {
    const char* what;
    void (*spoil)(cria_sampling* s, const cria_logit_bias* bias);
    const cria_logit_bias* bias;
  } wrong[] = {
      {"temperature", [](cria_sampling* s, const cria_logit_bias*) { s->temperature = -1; }, {}},
      {"top_p", [](cria_sampling* s, const cria_logit_bias*) { s->top_p = 1.5f; }, {}},
      {"min_p", [](cria_sampling* s, const cria_logit_bias*) { s->min_p = -0.1f; }, {}},
      {"repeat", [](cria_sampling* s, const cria_logit_bias*) { s->repeat_penalty = -1; }, {}},
      {"frequency",
       [](cria_sampling* s, const cria_logit_bias*) {
         s->frequency_penalty = std::numeric_limits<float>::infinity();
       },
       {}},
      {"presence",
       [](cria_sampling* s, const cria_logit_bias* b) { s->presence_penalty = b->bias; },
       &no_number},
      {"null biases", [](cria_sampling* s, const cria_logit_bias*) { s->n_biases = 1; }, {}},
      {"a token past the vocabulary",
       [](cria_sampling* s, const cria_logit_bias* b) { s->biases = b, s->n_biases = 1; },
       &past_the_end},
      {"a bias that is no number",
       [](cria_sampling* s, const cria_logit_bias* b) { s->biases = b, s->n_biases = 1; },
       &no_number},
  };
  std::vector<uint8_t> before(cria_state_size(session.session()));
  ASSERT_EQ(cria_state_save(session.session(), before.data(), before.size()), CRIA_OK);
  for (const auto& w : wrong) {
    cria_sampling sampling = test::sampling_of(1.0f, 0.9f, 0.05f, 1.1f, 20);
    w.spoil(&sampling, w.bias);
    uint32_t token = 77;
    EXPECT_EQ(cria_sample(session.workspace(), session.session(), &sampling, &token),
              CRIA_INVALID_ARGUMENT)
        << w.what;
    EXPECT_EQ(token, 77u) << w.what;
  }
  std::vector<uint8_t> after(cria_state_size(session.session()));
  ASSERT_EQ(cria_state_save(session.session(), after.data(), after.size()), CRIA_OK);
  EXPECT_EQ(after, before);  // the random state is in it
  cria_sampling sampling = test::sampling_of(1.0f, 0.9f, 0.05f, 1.1f, 20);
  sampling.biases = &good;
  sampling.n_biases = 1;
  uint32_t token = vocab;
  EXPECT_EQ(cria_sample(session.workspace(), session.session(), &sampling, &token), CRIA_OK);
  EXPECT_LT(token, vocab - 1);
}

// A lie in the config section of a model of one kind.
struct ConfigLie {
  size_t offset;
  size_t n_bytes;
  uint32_t value;
  const char* field;
};

// A file with the lie, checksums mended.
test::Bytes with_lie(const ConfigLie& lie) {
  const std::span<uint8_t> bytes = const_cast<MemorySource&>(tiny_source()).bytes();
  test::Bytes file(bytes.begin(), bytes.end());
  const std::span<uint8_t> config = test::section_bytes(file, format::SectionKind::kConfig);
  std::memcpy(config.data() + lie.offset, &lie.value, lie.n_bytes);
  test::mend_checksums(file);
  return file;
}

TEST(Api, ARefusedConfigNamesItsField) {
  using format::LayerKind;
  using format::ModelScalars;
  constexpr size_t kKind = sizeof(ModelScalars);
  constexpr size_t kLayers = kKind + sizeof(LayerKind);
  constexpr size_t kTable = offsetof(ModelScalars, rope_tables);
  constexpr uint32_t kNan = 0x7fc00000;
  const ConfigLie lies[] = {
      {offsetof(ModelScalars, architecture), 4, 0, "architecture"},
      {offsetof(ModelScalars, flags), 4, 0x100, "flags"},
      {offsetof(ModelScalars, n_layers), 4, 0, "n_layers"},
      {offsetof(ModelScalars, n_kinds), 4, 17, "n_kinds"},
      {offsetof(ModelScalars, n_counts), 4, 464, "n_counts"},
      {offsetof(ModelScalars, d_model), 4, 1 << 18, "d_model"},
      {offsetof(ModelScalars, vocab_size), 4, 0, "vocab_size"},
      {offsetof(ModelScalars, max_context), 4, 0, "max_context"},
      {offsetof(ModelScalars, planned_context), 4, 0, "planned_context"},
      {offsetof(ModelScalars, norm_epsilon), 4, kNan, "norm_epsilon"},
      {offsetof(ModelScalars, logits_divisor), 4, 0, "logits_divisor"},
      {offsetof(ModelScalars, compression), 4, 2, "compression"},
      {offsetof(ModelScalars, compression), 4, 3, "compression"},
      {offsetof(ModelScalars, bos_token), 4, 1 << 20, "bos_token"},
      {offsetof(ModelScalars, n_end_tokens), 4, 17, "n_end_tokens"},
      {kTable + offsetof(format::RopeTable, n_pairs), 4, 0, "rope_tables"},
      {kTable + offsetof(format::RopeTable, original_context), 4, 1 << 24, "rope_tables"},
      {offsetof(ModelScalars, reserved), 4, 1, "reserved"},
      {kKind + offsetof(LayerKind, mixer), 1, 6, "mixer"},
      {kKind + offsetof(LayerKind, feed_forward), 1, 3, "feed_forward"},
      {kKind + offsetof(LayerKind, flags), 4, 1u << 31, "flags"},
      {kKind + offsetof(LayerKind, n_query_heads), 2, 0, "n_query_heads"},
      {kKind + offsetof(LayerKind, n_key_heads), 2, 3, "n_key_heads"},
      {kKind + offsetof(LayerKind, key_dim), 2, 7, "key_dim"},
      {kKind + offsetof(LayerKind, rope_table), 1, 1, "rope_table"},
      {kKind + offsetof(LayerKind, norm_epsilon), 4, kNan, "norm_epsilon"},
      {kKind + offsetof(LayerKind, d_ff), 4, 0, "d_ff"},
      {kKind + offsetof(LayerKind, reserved2), 4, 1, "reserved"},
      {kLayers, 1, 1, "layers"},
      {kLayers + 8, 4, 9, "matrix counts"},
  };
  for (const auto& lie : lies) {
    const MemorySource source(with_lie(lie));
    cria_model_info info;
    std::memset(&info, 0xee, sizeof info);
    EXPECT_EQ(cria_inspect(&source.source(), &info), CRIA_INVALID_MODEL) << lie.field;
    EXPECT_STREQ(info.refused, lie.field);
    EXPECT_EQ(info.n_layers, 0u);
  }
  cria_model_info info;
  ASSERT_EQ(cria_inspect(&tiny_source().source(), &info), CRIA_OK);
  EXPECT_EQ(info.refused, nullptr);
}

TEST(Api, MetadataIsReadAndChecked) {
  const cria_source& source = tiny_source().source();
  cria_model_info info;
  ASSERT_EQ(cria_inspect(&source, &info), CRIA_OK);
  ASSERT_GT(info.metadata_bytes, 10u);
  std::string text(info.metadata_bytes, '\0');
  EXPECT_EQ(cria_read_metadata(&source, &info, text.data(), text.size() - 1),
            CRIA_BUFFER_TOO_SMALL);
  ASSERT_EQ(cria_read_metadata(&source, &info, text.data(), text.size()), CRIA_OK);
  EXPECT_EQ(text.front(), '{');
  EXPECT_EQ(text.back(), '}');
  cria_model_info other = info;
  other.metadata_bytes -= 1;
  EXPECT_EQ(cria_read_metadata(&source, &other, text.data(), text.size()), CRIA_INVALID_ARGUMENT);

  MemorySource changed(const_cast<MemorySource&>(tiny_source()).bytes());
  const std::span<uint8_t> metadata =
      test::section_bytes(changed.bytes(), format::SectionKind::kMetadata);
  metadata.front() = '[';
  EXPECT_EQ(cria_read_metadata(&changed.source(), &info, text.data(), text.size()), CRIA_CORRUPT);
  test::mend_checksums(changed.bytes());
  EXPECT_EQ(cria_read_metadata(&changed.source(), &info, text.data(), text.size()),
            CRIA_INVALID_MODEL);
}

TEST(Api, VerifyTellsTheScratchItNeeds) {
  cria_model_info info;
  ASSERT_EQ(cria_inspect(&tiny_source().source(), &info), CRIA_OK);
  size_t n = 0;
  ASSERT_EQ(cria_verify_required(&info, &n), CRIA_OK);
  EXPECT_EQ(n, CRIA_VERIFY_SCRATCH_BYTES);
  test::AlignedMemory scratch(n);
  const cria_source& source = tiny_source().source();
  EXPECT_EQ(cria_verify(&source, scratch.data(), n, nullptr, nullptr, nullptr), CRIA_OK);
  EXPECT_EQ(cria_verify(&source, scratch.data(), n - 1, nullptr, nullptr, nullptr),
            CRIA_MEMORY_TOO_SMALL);
  info.file_bytes = uint64_t{1} << 30;
  info.tokenizer_bytes = 1000001;
  info.chat_template_bytes = 65;
  ASSERT_EQ(cria_verify_required(&info, &n), CRIA_OK);
  EXPECT_EQ(n, 4096u + 1000064u + 128u);
  info.tokenizer_bytes = info.file_bytes + 1;
  EXPECT_EQ(cria_verify_required(&info, &n), CRIA_INVALID_ARGUMENT);
}

TEST(Api, EveryStatusHasAMessage) {
  size_t known = 0;
#define CRIA_CHECK_MESSAGE(name, value, text)    \
  EXPECT_EQ(static_cast<size_t>(value), known);  \
  EXPECT_EQ(static_cast<int>(name), value);      \
  EXPECT_STREQ(cria_status_message(name), text); \
  ++known;
  CRIA_STATUS_LIST(CRIA_CHECK_MESSAGE)
#undef CRIA_CHECK_MESSAGE
  EXPECT_EQ(known, 23u);
}

}  // namespace
}  // namespace cria
