// Several sessions of one model: whatever goes through a step beside it, each gets the bits that it
// gets alone, and takes the memory that was planned for it.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <iterator>
#include <memory>

#include "tests/support/isa_list.h"
#include "tests/support/long_under_asan.h"
#include "tests/support/model_files.h"
#include "tests/support/sampling.h"
#include "tests/support/sampling_of.h"
#include "tests/support/test_sessions.h"

namespace cria {
namespace {

using format::NumberFormat;
using test::Access;
using test::MemorySource;
using test::TestSessions;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kIsSlow = true;
#else
const bool kIsSlow = test::sweep_step() != 1;
#endif

struct Variant {
  const char* name;
  NumberFormat weights;
  uint16_t group_size;
  cria_kv_format kv;
  cria_backend backend;
  bool takes_all = false;  // every choice of the workspace, not a sample
};

constexpr Variant kVariants[] = {
    {"f32kv32", NumberFormat::kF32, 0, CRIA_KV_F32, CRIA_BACKEND_EXACT, true},
    {"f32", NumberFormat::kF32, 0, CRIA_KV_INT8, CRIA_BACKEND_EXACT},
    {"f16", NumberFormat::kF16, 0, CRIA_KV_INT8, CRIA_BACKEND_EXACT},
    {"bf16", NumberFormat::kBf16, 0, CRIA_KV_INT8, CRIA_BACKEND_EXACT},
    {"int8", NumberFormat::kInt8, 0, CRIA_KV_INT8, CRIA_BACKEND_EXACT},
    {"int8k8v4", NumberFormat::kInt8, 0, CRIA_KV_K8V4, CRIA_BACKEND_EXACT, true},
    {"int8kv32", NumberFormat::kInt8, 0, CRIA_KV_F32, CRIA_BACKEND_EXACT},
    {"int4g32", NumberFormat::kInt4, 32, CRIA_KV_INT8, CRIA_BACKEND_EXACT, true},
    {"int4g64", NumberFormat::kInt4, 64, CRIA_KV_INT8, CRIA_BACKEND_EXACT},
    {"int4g128", NumberFormat::kInt4, 128, CRIA_KV_INT8, CRIA_BACKEND_EXACT},
#if CRIA_WITH_XNNPACK
    {"xnnpackF32", NumberFormat::kF32, 0, CRIA_KV_F32, CRIA_BACKEND_XNNPACK},
    {"xnnpackInt8", NumberFormat::kInt8, 0, CRIA_KV_INT8, CRIA_BACKEND_XNNPACK},
    {"xnnpackInt8k8v4", NumberFormat::kInt8, 0, CRIA_KV_K8V4, CRIA_BACKEND_XNNPACK},
    {"xnnpackInt4g32", NumberFormat::kInt4, 32, CRIA_KV_INT8, CRIA_BACKEND_XNNPACK, true},
#endif
};

// Sizes that no vector divides, and attention through a window.
constexpr const char* kModels[] = {"odd-sizes", "mistral-sliding-window"};

// What one session has to do in a step of the script.
struct Part {
  size_t session;
  size_t n_tokens;
  bool wants_all;  // its logits after every token, where some want them
};
constexpr size_t kSessions = 6;

// Prompts that fill a chunk, one row less and one more; prompts beside decoded tokens; the order
// changes, some sessions wait, and one comes later.
const std::vector<std::vector<Part>> kScript = {
    {{0, 1, false}, {1, 5, true}, {2, 64, false}, {3, 65, false}, {4, 130, true}},
    {{4, 1, false}, {2, 1, true}, {0, 130, false}, {3, 1, false}, {1, 1, true}},
    {{1, 65, true}, {0, 1, true}, {5, 5, false}},
    {{5, 1, false}, {4, 1, false}, {3, 1, false}, {2, 1, false}, {1, 1, true}, {0, 1, false}},
    {{2, 1, false}},
    {{3, 64, false}, {5, 64, false}},
};

enum class Wanted { kLast, kSome, kAll };

uint32_t token_at(size_t session, size_t position, uint32_t vocab_size) {
  return static_cast<uint32_t>((position * 37 + session * 101 + 11) % vocab_size);
}

// What a part left behind.
struct Outcome {
  std::vector<uint8_t> state;     // the last logits are in it
  std::vector<float> all_logits;  // empty where they were not wanted
  uint32_t drawn;
};

using Outcomes = std::vector<std::vector<Outcome>>;  // [step][part]

// Goes through the script with a step for all its parts, or one for each.
Outcomes run_script(TestSessions* sessions, bool is_together, Wanted wanted) {
  const uint32_t vocab_size = sessions->info().vocab_size;
  const cria_sampling sampling = test::sampling_of(1.0f, 0.95f, 0.02f, 1.1f, 0);
  Outcomes outcomes;
  for (size_t i = 0; i < kSessions; ++i) cria_seed(sessions->session(i), i);
  for (const std::vector<Part>& parts : kScript) {
    std::vector<Outcome>& step = outcomes.emplace_back(parts.size());
    std::vector<std::vector<uint32_t>> tokens(parts.size());
    std::vector<cria_batch_entry> entries;
    for (size_t i = 0; i < parts.size(); ++i) {
      cria_session* session = sessions->session(parts[i].session);
      const size_t position = cria_position(session);
      for (size_t t = 0; t < parts[i].n_tokens; ++t) {
        tokens[i].push_back(token_at(parts[i].session, position + t, vocab_size));
      }
      const bool wants_all =
          wanted == Wanted::kAll || (wanted == Wanted::kSome && parts[i].wants_all);
      if (wants_all) step[i].all_logits.resize(parts[i].n_tokens * vocab_size);
      entries.push_back({session,
                         tokens[i].data(),
                         tokens[i].size(),
                         wants_all ? step[i].all_logits.data() : nullptr,
                         {}});
    }
    if (is_together) {
      EXPECT_EQ(cria_step(sessions->workspace(), entries.data(), entries.size()), CRIA_OK);
    } else {
      for (const cria_batch_entry& entry : entries) {
        EXPECT_EQ(cria_step(sessions->workspace(), &entry, 1), CRIA_OK);
      }
    }
    for (size_t i = 0; i < parts.size(); ++i) {
      cria_session* session = entries[i].session;
      EXPECT_NE(cria_logits(session), nullptr);
      EXPECT_EQ(cria_sample(sessions->workspace(), session, &sampling, &step[i].drawn), CRIA_OK);
      step[i].state = test::state_of(session);
    }
  }
  return outcomes;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// alone has all logits. Returns how many parts were compared.
size_t compare(const Outcomes& got, const Outcomes& alone) {
  size_t n_compared = 0;
  EXPECT_EQ(got.size(), alone.size());
  for (size_t step = 0; step < alone.size(); ++step) {
    EXPECT_EQ(got[step].size(), alone[step].size());
    for (size_t i = 0; i < alone[step].size(); ++i, ++n_compared) {
      const std::string where =
          "step " + std::to_string(step) + ", session " + std::to_string(kScript[step][i].session);
      EXPECT_TRUE(got[step][i].state == alone[step][i].state) << where;
      EXPECT_EQ(got[step][i].drawn, alone[step][i].drawn) << where;
      if (got[step][i].all_logits.empty()) continue;
      EXPECT_TRUE(same_bits(got[step][i].all_logits, alone[step][i].all_logits)) << where;
    }
  }
  return n_compared;
}

cria_config config_of(const Variant& variant) {
  cria_config config = {};
  config.backend = variant.backend;
  config.kv_format = variant.kv;
  config.isa_mask = test::runnable_isas().back().mask;
  return config;
}

MemorySource model_of(const char* name, const Variant& variant) {
  return MemorySource(
      test::convert_folder(test::golden_folder(name), {variant.weights, variant.group_size}));
}

class Sessions : public testing::TestWithParam<Variant> {};

TEST_P(Sessions, GetTheBitsThatTheyGetAlone) {
  CRIA_SKIP_UNDER_ASAN();
  constexpr uint32_t kEntries[] = {1, 2, 3, 8};
  constexpr uint32_t kChunks[] = {1, 7, 64};
  constexpr uint32_t kThreads[] = {1, 2, 3};
  constexpr Wanted kWanted[] = {Wanted::kSome, Wanted::kLast, Wanted::kAll};
  constexpr size_t kChoices = std::size(kEntries) * std::size(kChunks) * std::size(kThreads);
  const std::vector<test::IsaRow> isas = test::runnable_isas();
  // Of most formats a sample in which each number of each kind is met, and each instruction set.
#if defined(__SANITIZE_THREAD__)
  constexpr size_t kSample = 17;  // each number of threads once; a format takes a minute with 7
#else
  constexpr size_t kSample = 7;
#endif
  const size_t step = GetParam().takes_all && !kIsSlow ? 1 : kSample;
  size_t compared = 0;
  for (const char* name : kModels) {
    const MemorySource source = model_of(name, GetParam());
    TestSessions apart(source, config_of(GetParam()), kSessions);
    const Outcomes alone = run_script(&apart, false, Wanted::kAll);
    for (size_t i = 0; i < kChoices; i += step) {
      cria_config config = config_of(GetParam());
      config.max_entries = kEntries[i % std::size(kEntries)];
      config.prefill_chunk = kChunks[i / std::size(kEntries) % std::size(kChunks)];
      config.n_threads = kThreads[i / std::size(kEntries) / std::size(kChunks)];
      config.isa_mask = isas[i % isas.size()].mask;
      SCOPED_TRACE(std::string(name) + ", entries " + std::to_string(config.max_entries) +
                   ", chunk " + std::to_string(config.prefill_chunk) + ", threads " +
                   std::to_string(config.n_threads) + ", " + isas[i % isas.size()].name);
      TestSessions together(source, config, kSessions);
      const Wanted wanted = kWanted[(i + i / std::size(kEntries)) % std::size(kWanted)];
      compared += compare(run_script(&together, true, wanted), alone);
    }
  }
  std::printf("%zu entries compared\n", compared);
  EXPECT_GT(compared, 2 * kChoices / step * kSessions);
}

// An entry that wants all logits is not different from one that wants the last, but for them.
TEST_P(Sessions, MayWantAllLogitsOrTheLast) {
  const MemorySource source = model_of(kModels[0], GetParam());
  TestSessions first(source, config_of(GetParam()), kSessions);
  const Outcomes all = run_script(&first, false, Wanted::kAll);
  for (const bool is_together : {false, true}) {
    for (const Wanted wanted : {Wanted::kLast, Wanted::kSome, Wanted::kAll}) {
      cria_config config = config_of(GetParam());
      config.max_entries = 3;
      TestSessions sessions(source, config, kSessions);
      EXPECT_GT(compare(run_script(&sessions, is_together, wanted), all), 0u);
    }
  }
}

// The block after the sessions is a page that nobody may touch; a step uses all of each.
TEST_P(Sessions, OfAnyNumberTakeWhatWasPlanned) {
  size_t opened = 0;
  for (const auto compression : {format::Compression::kZstd, format::Compression::kStored}) {
    for (const Access access : {Access::kRead, Access::kMap}) {
      const MemorySource source(
          test::convert_folder(test::golden_folder(kModels[0]),
                               {GetParam().weights, GetParam().group_size, compression, false}),
          access);
      for (const size_t n : {size_t{1}, size_t{2}, size_t{9}}) {
        cria_config config = config_of(GetParam());
        config.context = 19;
        config.prefill_chunk = 5;
        config.n_threads = static_cast<uint32_t>(1 + n % 3);
        config.max_entries = static_cast<uint32_t>(n);
        TestSessions sessions(source, config, n);
        std::vector<uint32_t> tokens(19);
        for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = token_at(n, i, 300);
        std::vector<cria_batch_entry> entries;
        for (size_t i = 0; i < n; ++i) {
          entries.push_back({sessions.session(i), tokens.data(), tokens.size(), nullptr, {}});
        }
        ASSERT_EQ(cria_step(sessions.workspace(), entries.data(), entries.size()), CRIA_OK);
        const size_t logits_bytes = sessions.info().vocab_size * sizeof(float);
        for (size_t i = 0; i < n; ++i) {
          ASSERT_EQ(cria_position(sessions.session(i)), cria_context(sessions.session(i)));
          EXPECT_EQ(std::memcmp(cria_logits(sessions.session(i)), cria_logits(sessions.session(0)),
                                logits_bytes),
                    0);
        }
        ++opened;
      }
    }
  }
  EXPECT_EQ(opened, 12u);
}

// The ring of a sliding-window model is as long as its session's config asks for; a workspace of
// larger chunks takes fewer rows at once.
TEST(SessionsOfAWindow, GetTheSameBitsInRingsOfAnySize) {
  const MemorySource source = model_of("mistral-sliding-window", kVariants[0]);
  constexpr uint32_t kChunks[] = {1, 57, 58, 200};
  std::vector<uint32_t> tokens(230);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = token_at(0, i, 256);
  std::vector<uint8_t> want;
  size_t compared = 0;
  for (const uint32_t chunk : kChunks) {
    cria_config config = config_of(kVariants[0]);
    config.prefill_chunk = chunk;
    config.max_entries = 2;
    TestSessions one(source, config, 1);
    std::vector<std::unique_ptr<test::AlignedMemory>> memory;
    std::vector<cria_batch_entry> entries = {{one.session(0), tokens.data(), 100, nullptr, {}}};
    for (const uint32_t session_chunk : kChunks) {
      cria_config other = config;
      other.prefill_chunk = session_chunk;
      const cria_memory_plan plan = test::planned(one.info(), other);
      memory.push_back(std::make_unique<test::AlignedMemory>(plan.session.total));
      cria_batch_entry& entry =
          entries.emplace_back(cria_batch_entry{nullptr, tokens.data(), 100, nullptr, {}});
      ASSERT_EQ(cria_start(memory.back()->data(), memory.back()->size(), one.model(), &other,
                           &entry.session),
                CRIA_OK);
    }
    ASSERT_EQ(cria_step(one.workspace(), entries.data(), entries.size()), CRIA_OK);
    for (cria_batch_entry& entry : entries)
      entry = {entry.session, tokens.data() + 100, 130, nullptr, {}};
    ASSERT_EQ(cria_step(one.workspace(), entries.data(), entries.size()), CRIA_OK);
    for (const cria_batch_entry& entry : entries) {
      const std::vector<uint8_t> state = test::state_of(entry.session);
      if (want.empty()) want = state;
      EXPECT_TRUE(state == want) << "chunk " << chunk;
      ++compared;
    }
  }
  EXPECT_EQ(compared, std::size(kChunks) * (std::size(kChunks) + 1));
}

INSTANTIATE_TEST_SUITE_P(Formats, Sessions, testing::ValuesIn(kVariants),
                         [](const testing::TestParamInfo<Variant>& variant) {
                           return std::string(variant.param.name);
                         });

}  // namespace
}  // namespace cria
