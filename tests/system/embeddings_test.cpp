// Hidden rows and the embeddings that they become: against a naive decoder in double, on every
// backend, and the same bits whatever the chunks, threads, company and calls.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "tests/support/matrix_formats.h"
#include "tests/support/max_or_nan.h"
#include "tests/support/model_builder.h"
#include "tests/support/naive_decoder.h"
#include "tests/support/some_tokens.h"
#include "tests/support/test_configs.h"
#include "tests/support/test_session.h"
#include "tests/support/test_sessions.h"

namespace cria {
namespace {

using format::Pooling;
using test::MemorySource;
using test::TestSession;
using test::TestSessions;

constexpr Pooling kPoolings[] = {Pooling::kUnsaid, Pooling::kLast, Pooling::kMean, Pooling::kFirst};
constexpr size_t kTokens = 41;
constexpr double kTolerance = 1e-5;  // of the largest value; measured: 4e-7

// Two layers, one with a window that is shorter than the tokens.
ConfigParts config_of(Pooling pooling, bool is_unit) {
  ConfigParts c = test::small_config(format::NumberFormat::kF32, 0);
  format::LayerKind windowed = c.kinds.at(0);
  windowed.window = 9;
  const format::LayerKind layers[] = {c.kinds.at(0), windowed};
  c.set_layers(layers);
  c.model.pooling = static_cast<uint32_t>(pooling);
  if (is_unit) c.model.flags |= format::kUnitEmbeddings;
  test::set_all_formats(&c, {format::NumberFormat::kF32, 0});
  return c;
}

test::Bytes file_of(Pooling pooling, bool is_unit) {
  ConfigParts c = config_of(pooling, is_unit);
  return test::build_model(c.view(), 7);
}

std::vector<uint32_t> some_tokens(size_t n = kTokens) { return test::some_tokens(n, 50); }

cria_config request(cria_backend backend, uint32_t chunk, uint32_t n_threads) {
  cria_config config = {};
  config.backend = backend;
  config.kv_format = CRIA_KV_F32;
  config.context = 64;
  config.prefill_chunk = chunk;
  config.n_threads = n_threads;
  config.max_entries = chunk;
  return config;
}

cria_batch_entry entry_of(cria_session* session, const std::vector<uint32_t>& tokens,
                          std::vector<float>* rows, size_t n_rows) {
  cria_batch_entry entry = {};
  entry.session = session;
  entry.tokens = tokens.data();
  entry.n_tokens = tokens.size();
  entry.hidden.rows = rows->data();
  entry.hidden.n_rows = n_rows;
  return entry;
}

std::vector<float> embedding_of(TestSession* s, const std::vector<uint32_t>& tokens,
                                uint32_t dimensions = 0) {
  std::vector<float> embedding(cria_d_model(s->model()));
  EXPECT_EQ(cria_embed(s->workspace(), s->session(), tokens.data(), tokens.size(), dimensions,
                       embedding.data()),
            CRIA_OK);
  return embedding;
}

double length_of(const std::vector<float>& x) {
  return std::sqrt(std::inner_product(x.begin(), x.end(), x.begin(), 0.0));
}

// What a text's embedding should be, by its hidden rows [n][width].
std::vector<double> naive_embedding(const std::vector<double>& rows, size_t width, Pooling pooling,
                                    bool is_unit) {
  const size_t n = rows.size() / width;
  std::vector<double> embedding(width);
  for (size_t d = 0; d < width; ++d) {
    if (pooling == Pooling::kMean) {
      for (size_t i = 0; i < n; ++i) embedding[d] += rows[i * width + d] / static_cast<double>(n);
    } else {
      embedding[d] = rows[(pooling == Pooling::kFirst ? 0 : n - 1) * width + d];
    }
  }
  const double length =
      std::sqrt(std::inner_product(embedding.begin(), embedding.end(), embedding.begin(), 0.0));
  for (double& value : embedding) value /= is_unit ? length : 1.0;
  return embedding;
}

class Embeddings : public testing::TestWithParam<cria_backend> {};

TEST_P(Embeddings, AreWhatTheFileSaysOfTheRowsOfANaiveDecoder) {
  const std::vector<uint32_t> tokens = some_tokens();
  for (const Pooling pooling : kPoolings) {
    for (const bool is_unit : {false, true}) {
      if (pooling == Pooling::kUnsaid && is_unit) continue;
      SCOPED_TRACE(testing::Message() << static_cast<int>(pooling) << is_unit);
      const test::Bytes file = file_of(pooling, is_unit);
      const MemorySource source(file);
      TestSession session(source, request(GetParam(), 7, 1));
      EXPECT_EQ(session.info().pooling, static_cast<uint8_t>(pooling));
      EXPECT_EQ(session.info().unit_embeddings, is_unit ? 1 : 0);
      const uint32_t width = cria_d_model(session.model());
      ASSERT_EQ(width, session.info().d_model);
      const std::vector<double> rows = test::naive_hidden(file, 64, tokens);
      ASSERT_EQ(rows.size(), tokens.size() * width);
      const std::vector<double> want =
          naive_embedding(rows, width, pooling, is_unit || pooling == Pooling::kUnsaid);
      const std::vector<float> got = embedding_of(&session, tokens);
      EXPECT_LE(test::relative_error(got.data(), want.data(), width), kTolerance);
    }
  }
}

TEST_P(Embeddings, HiddenRowsAreThoseOfANaiveDecoder) {
  const test::Bytes file = file_of(Pooling::kUnsaid, false);
  const MemorySource source(file);
  const std::vector<uint32_t> tokens = some_tokens();
  const std::vector<double> want = test::naive_hidden(file, 64, tokens);
  TestSession session(source, request(GetParam(), 7, 1));
  const size_t width = cria_d_model(session.model());
  // As many of the last as are asked for, with or without logits, and not a float more.
  for (const size_t n_rows : {size_t{1}, size_t{2}, size_t{7}, size_t{8}, kTokens}) {
    for (const uint8_t instead : {uint8_t{0}, uint8_t{1}}) {
      SCOPED_TRACE(testing::Message() << n_rows << " rows, " << int{instead});
      constexpr float kUntouched = 12345.0f;
      std::vector<float> rows(n_rows * width + 1, kUntouched);
      ASSERT_EQ(cria_reset(session.session(), 0), CRIA_OK);
      cria_batch_entry entry = entry_of(session.session(), tokens, &rows, n_rows);
      entry.hidden.instead_of_logits = instead;
      ASSERT_EQ(cria_step(session.workspace(), &entry, 1), CRIA_OK);
      EXPECT_LE(test::relative_error(rows.data(), want.data() + (kTokens - n_rows) * width,
                                     n_rows * width),
                kTolerance);
      EXPECT_EQ(rows.back(), kUntouched);
      EXPECT_EQ(cria_logits(session.session()) == nullptr, instead != 0);
      EXPECT_EQ(cria_position(session.session()), kTokens);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, Embeddings, testing::ValuesIn(test::built_backends()),
                         test::backend_label);

TEST(HiddenRows, LeaveLogitsAndSessionsAsTheyAre) {
  const MemorySource source(file_of(Pooling::kUnsaid, false));
  const std::vector<uint32_t> tokens = some_tokens();
  TestSession plain(source, request(CRIA_BACKEND_EXACT, 7, 1));
  ASSERT_EQ(cria_prefill(plain.workspace(), plain.session(), tokens.data(), tokens.size()),
            CRIA_OK);
  const std::vector<uint8_t> want = test::state_of(plain.session());
  TestSession asked(source, request(CRIA_BACKEND_EXACT, 7, 1));
  std::vector<float> rows(tokens.size() * cria_d_model(asked.model()));
  const cria_batch_entry entry = entry_of(asked.session(), tokens, &rows, tokens.size());
  ASSERT_EQ(cria_step(asked.workspace(), &entry, 1), CRIA_OK);
  EXPECT_TRUE(test::state_of(asked.session()) == want);
  // Without logits it goes on all the same: the next token's are those of a session with them.
  TestSession without(source, request(CRIA_BACKEND_EXACT, 7, 1));
  cria_batch_entry first = entry_of(without.session(), tokens, &rows, 1);
  first.n_tokens = tokens.size() - 1;
  first.hidden.instead_of_logits = 1;
  ASSERT_EQ(cria_step(without.workspace(), &first, 1), CRIA_OK);
  cria_sampling sampling = {};
  uint32_t token = 0;
  EXPECT_EQ(cria_sample(without.workspace(), without.session(), &sampling, &token),
            CRIA_NOTHING_TO_SAMPLE);
  ASSERT_EQ(cria_prefill(without.workspace(), without.session(), &tokens.back(), 1), CRIA_OK);
  EXPECT_TRUE(test::state_of(without.session()) == want);
}

TEST(HiddenRows, ThatCannotBeAreRefusedAndChangeNothing) {
  const MemorySource source(file_of(Pooling::kUnsaid, false));
  TestSession s(source, request(CRIA_BACKEND_EXACT, 7, 1));
  const std::vector<uint32_t> tokens = some_tokens(3);
  std::vector<float> rows(4 * cria_d_model(s.model()));
  std::vector<float> logits(3 * cria_vocab_size(s.model()));
  const cria_batch_entry good = entry_of(s.session(), tokens, &rows, 3);
  cria_batch_entry no_rows = good;
  no_rows.hidden.n_rows = 0;
  cria_batch_entry too_many = good;
  too_many.hidden.n_rows = 4;
  cria_batch_entry no_place = good;
  no_place.hidden.rows = nullptr;
  cria_batch_entry both = good;
  both.all_logits = logits.data();
  both.hidden.instead_of_logits = 1;
  cria_batch_entry reserved = good;
  reserved.hidden.reserved[6] = 1;
  for (const cria_batch_entry& wrong : {no_rows, too_many, no_place, both, reserved}) {
    EXPECT_EQ(cria_step(s.workspace(), &wrong, 1), CRIA_INVALID_ARGUMENT);
    EXPECT_EQ(cria_position(s.session()), 0u);
  }
  EXPECT_EQ(cria_step(s.workspace(), &good, 1), CRIA_OK);
}

TEST(EmbeddingBits, AreTheSameForAllChunksAndThreads) {
  for (const Pooling pooling : kPoolings) {
    const MemorySource source(file_of(pooling, pooling != Pooling::kUnsaid));
    const std::vector<uint32_t> tokens = some_tokens();
    TestSession first(source, request(CRIA_BACKEND_EXACT, 64, 1));
    const std::vector<float> want = embedding_of(&first, tokens);
    for (const uint32_t chunk : {1u, 7u, 40u, 41u}) {
      for (const uint32_t n_threads : {1u, 2u, 3u}) {
        TestSession session(source, request(CRIA_BACKEND_EXACT, chunk, n_threads));
        EXPECT_EQ(embedding_of(&session, tokens), want) << chunk << ' ' << n_threads;
        // A session that was used begins anew.
        EXPECT_EQ(embedding_of(&session, tokens), want) << chunk << ' ' << n_threads;
      }
    }
  }
}

// A ring that was made for fewer rows at once splits a workspace's chunks.
TEST(EmbeddingBits, AreTheSameInARingForFewerRows) {
  constexpr size_t kLong = 120;
  const MemorySource source(file_of(Pooling::kMean, true));
  cria_config config = request(CRIA_BACKEND_EXACT, 120, 1);
  config.context = 128;
  TestSession s(source, config);
  const std::vector<uint32_t> tokens = some_tokens(kLong);
  const std::vector<float> want = embedding_of(&s, tokens);
  cria_config narrow = s.config();
  narrow.prefill_chunk = 1;
  const cria_memory_plan plan = test::planned(s.info(), narrow);
  ASSERT_LT(plan.session.kv_cache, s.plan().session.kv_cache);
  test::AlignedMemory memory(static_cast<size_t>(plan.session.total));
  cria_session* session = nullptr;
  ASSERT_EQ(cria_start(memory.data(), memory.size(), s.model(), &narrow, &session), CRIA_OK);
  std::vector<float> got(want.size());
  ASSERT_EQ(cria_embed(s.workspace(), session, tokens.data(), kLong, 0, got.data()), CRIA_OK);
  EXPECT_EQ(got, want);
}

// Several texts in a step, in parts that end within each other's chunks, beside a session that
// wants logits.
TEST(EmbeddingBits, AreTheSameInCompany) {
  for (const Pooling pooling : kPoolings) {
    SCOPED_TRACE(static_cast<int>(pooling));
    const MemorySource source(file_of(pooling, pooling != Pooling::kUnsaid));
    TestSessions sessions(source, request(CRIA_BACKEND_EXACT, 16, 2), 4);
    const size_t width = cria_d_model(sessions.model());
    const size_t lengths[] = {kTokens, 5, 23};
    constexpr size_t kPart = 9;
    std::vector<std::vector<float>> got(3, std::vector<float>(width));
    const std::vector<uint32_t> chat = some_tokens();
    for (size_t first = 0; first < kTokens; first += kPart) {
      std::vector<std::vector<uint32_t>> parts(3);
      std::vector<std::vector<float>> rows(3);
      std::vector<cria_batch_entry> entries;
      for (size_t i = 0; i < 3; ++i) {
        const std::vector<uint32_t> all = some_tokens(lengths[i]);
        if (first >= all.size()) continue;
        const size_t end = std::min(first + kPart, all.size());
        parts[i].assign(all.begin() + static_cast<ptrdiff_t>(first),
                        all.begin() + static_cast<ptrdiff_t>(end));
        rows[i].resize(parts[i].size() * width);
        cria_batch_entry& entry = entries.emplace_back(
            entry_of(sessions.session(i), parts[i], &rows[i], parts[i].size()));
        entry.hidden.instead_of_logits = 1;
      }
      cria_batch_entry& other = entries.emplace_back();
      other.session = sessions.session(3);
      other.tokens = chat.data() + first;
      other.n_tokens = std::min(kPart, kTokens - first);
      ASSERT_EQ(cria_step(sessions.workspace(), entries.data(), entries.size()), CRIA_OK);
      for (size_t i = 0; i < 3; ++i) {
        if (rows[i].empty()) continue;
        ASSERT_EQ(cria_embedding_add(sessions.model(), rows[i].data(), parts[i].size(), first,
                                     got[i].data()),
                  CRIA_OK);
      }
    }
    for (size_t i = 0; i < 3; ++i) {
      ASSERT_EQ(cria_embedding_finish(sessions.model(), lengths[i], 0, got[i].data()), CRIA_OK);
      TestSession alone(source, request(CRIA_BACKEND_EXACT, 64, 1));
      EXPECT_EQ(got[i], embedding_of(&alone, some_tokens(lengths[i]))) << i;
    }
    TestSession alone(source, request(CRIA_BACKEND_EXACT, 64, 1));
    ASSERT_EQ(cria_prefill(alone.workspace(), alone.session(), chat.data(), chat.size()), CRIA_OK);
    EXPECT_TRUE(test::state_of(sessions.session(3)) == test::state_of(alone.session()));
  }
}

TEST(EmbeddingLengths, AreOneUnlessTheFileSaysOtherwise) {
  for (const Pooling pooling : kPoolings) {
    for (const bool is_unit : {false, true}) {
      if (pooling == Pooling::kUnsaid && is_unit) continue;
      const MemorySource source(file_of(pooling, is_unit));
      TestSession s(source, request(CRIA_BACKEND_EXACT, 64, 1));
      const std::vector<float> whole = embedding_of(&s, some_tokens());
      std::vector<float> cut = embedding_of(&s, some_tokens(), 5);
      cut.resize(5);
      const bool has_length_1 = is_unit || pooling == Pooling::kUnsaid;
      EXPECT_EQ(std::fabs(length_of(whole) - 1) < 1e-6, has_length_1);
      EXPECT_EQ(std::fabs(length_of(cut) - 1) < 1e-6, has_length_1);
      // The same direction.
      for (size_t d = 0; d < cut.size(); ++d) {
        const float want = whole[d] / whole[0];
        EXPECT_NEAR(cut[d] / cut[0], want, 1e-4f * std::fabs(want));
      }
    }
  }
}

TEST(EmbeddingLengths, OfZerosStayZero) {
  const MemorySource source(file_of(Pooling::kMean, true));
  TestSession s(source, request(CRIA_BACKEND_EXACT, 64, 1));
  std::vector<float> zeros(cria_d_model(s.model()), 0.0f);
  ASSERT_EQ(cria_embedding_finish(s.model(), 3, 0, zeros.data()), CRIA_OK);
  EXPECT_EQ(zeros, std::vector<float>(zeros.size(), 0.0f));
}

TEST(EmbeddingErrors, LeaveAnEmptySession) {
  const MemorySource source(file_of(Pooling::kMean, true));
  cria_config config = request(CRIA_BACKEND_EXACT, 7, 1);
  int n_left = 5;  // layers, until it is stopped
  config.step_progress = [](void* context, uint64_t, uint64_t) {
    return --*static_cast<int*>(context) < 0 ? 1 : 0;
  };
  config.progress_context = &n_left;
  TestSession s(source, config);
  std::vector<float> embedding(cria_d_model(s.model()));
  const std::vector<uint32_t> tokens = some_tokens(65);
  const auto embed = [&](size_t n, uint32_t dimensions) {
    return cria_embed(s.workspace(), s.session(), tokens.data(), n, dimensions, embedding.data());
  };
  EXPECT_EQ(embed(kTokens, 0), CRIA_CANCELLED);
  EXPECT_EQ(cria_position(s.session()), 0u);
  n_left = 1000;
  EXPECT_EQ(embed(64, 0), CRIA_OK);
  EXPECT_EQ(cria_position(s.session()), 64u);
  EXPECT_EQ(cria_logits(s.session()), nullptr);
  EXPECT_EQ(embed(65, 0), CRIA_CONTEXT_FULL);
  EXPECT_EQ(cria_position(s.session()), 0u);
  EXPECT_EQ(embed(0, 0), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(embed(5, cria_d_model(s.model()) + 1), CRIA_INVALID_ARGUMENT);
  const uint32_t past[] = {1, 50};
  EXPECT_EQ(cria_embed(s.workspace(), s.session(), past, 2, 0, embedding.data()),
            CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_embed(nullptr, s.session(), past, 1, 0, embedding.data()), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_embed(s.workspace(), nullptr, past, 1, 0, embedding.data()),
            CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_embed(s.workspace(), s.session(), nullptr, 1, 0, embedding.data()),
            CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_embed(s.workspace(), s.session(), past, 1, 0, nullptr), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_embedding_add(nullptr, embedding.data(), 1, 0, embedding.data()),
            CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_embedding_add(s.model(), nullptr, 1, 0, embedding.data()), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_embedding_add(s.model(), embedding.data(), 1, 0, nullptr), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_embedding_finish(nullptr, 1, 0, embedding.data()), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_embedding_finish(s.model(), 0, 0, embedding.data()), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_embedding_finish(s.model(), 1, 0, nullptr), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_d_model(nullptr), 0u);
  EXPECT_EQ(static_cast<int>(cria_embedding_pooling(nullptr)), 0);
}

}  // namespace
}  // namespace cria
