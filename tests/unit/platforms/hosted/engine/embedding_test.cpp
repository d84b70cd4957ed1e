// Embeddings by the engine: those of cria_embed, whatever is beside them and came before them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "platforms/hosted/engine/engine.h"
#include "tests/support/engine_trial.h"
#include "tests/support/matrix_formats.h"
#include "tests/support/model_builder.h"
#include "tests/support/some_tokens.h"
#include "tests/support/test_configs.h"

namespace cria::hosted {
namespace {

using test::EngineTrial;
using test::HeardChoice;

// A model without a tokenizer, 64 wide, of 50 tokens and 128 positions.
const std::string& path_of(uint32_t pooling) {
  static const std::vector<std::string> paths = [] {
    std::vector<std::string> made;
    for (uint32_t each = 0; each <= 3; ++each) {
      ConfigParts c = test::small_config(format::NumberFormat::kF32, 0);
      c.model.pooling = each;
      if (each == 2) c.model.flags |= format::kUnitEmbeddings;
      made.push_back(test::written("pooling" + std::to_string(each) + ".cria",
                                   test::build_model(c.view(), 3)));
    }
    return made;
  }();
  return paths.at(pooling);
}

// Texts of one seed begin alike, whatever their length.
std::vector<uint32_t> text(size_t n, uint32_t seed) { return test::some_tokens(n, 50, seed * 17); }

AnswerRequest request_for(const std::vector<std::vector<uint32_t>>& texts, uint32_t dimensions) {
  AnswerRequest request;
  request.prompt = texts.at(0);
  request.embedding = EmbeddingRequest{{texts.begin() + 1, texts.end()}, dimensions};
  return request;
}

// [texts][dimensions], each by itself in a session of its own.
std::vector<float> alone(uint32_t pooling, const std::vector<std::vector<uint32_t>>& texts,
                         uint32_t dimensions) {
  const ModelSession model(test::options_of(path_of(pooling), {.context = 128}), {});
  std::vector<float> row(cria_d_model(model.model()));
  const size_t width = dimensions != 0 ? dimensions : row.size();
  std::vector<float> rows;
  for (const auto& tokens : texts) {
    EXPECT_EQ(cria_embed(model.workspace(), model.session(), tokens.data(), tokens.size(),
                         dimensions, row.data()),
              CRIA_OK);
    rows.insert(rows.end(), row.begin(), row.begin() + static_cast<ptrdiff_t>(width));
  }
  return rows;
}

const std::vector<std::vector<uint32_t>> kTexts = {text(70, 1), text(1, 2),  text(33, 1),
                                                   text(5, 3),  text(70, 1), text(128, 4)};

TEST(EngineEmbeddings, AreThoseOfEachTextAlone) {
  size_t n_cached = 0;
  for (uint32_t pooling = 0; pooling <= 3; ++pooling) {
    for (const uint32_t dimensions : {0u, 5u}) {
      const std::vector<float> want = alone(pooling, kTexts, dimensions);
      const std::vector<float> other = alone(pooling, {text(90, 1)}, 0);
      for (const uint32_t n_sessions : {1u, 3u}) {
        for (const uint32_t chunk : {1u, 7u, 64u, 128u}) {
          SCOPED_TRACE(testing::Message() << "pooling " << pooling << ", " << n_sessions
                                          << " sessions, chunk " << chunk);
          EngineTrial trial(path_of(pooling),
                            {.n_sessions = n_sessions, .context = 128, .prefill_chunk = chunk});
          AnswerRequest drawing;
          drawing.prompt = text(40, 1);
          drawing.max_tokens = 6;
          const auto drawn = trial.begin(drawing);
          const auto first = trial.begin(request_for(kTexts, dimensions));
          const auto second = trial.begin(request_for({text(90, 1)}, 0));
          const HeardChoice heard = first->all().front();
          ASSERT_EQ(heard.ends.size(), 1u);
          const AnswerSummary& summary = heard.ends[0];
          EXPECT_EQ(summary.end, AnswerEnd::kLimit);
          EXPECT_EQ(summary.n_drawn, 0u);
          EXPECT_EQ(summary.n_prompt, 70u + 1 + 33 + 5 + 70 + 128);
          ASSERT_NE(summary.embeddings, nullptr);
          EXPECT_EQ(*summary.embeddings, want);
          EXPECT_EQ(*second->all().front().ends.at(0).embeddings, other);
          EXPECT_EQ(drawn->all().front().ends.at(0).n_drawn, 6u);
          EXPECT_EQ(drawn->all().front().ends.at(0).embeddings, nullptr);
          n_cached += summary.n_cached;
          // Rows of all tokens are not in what is held of them.
          if (pooling >= 2) {
            EXPECT_EQ(summary.n_cached, 0u);
          }
        }
      }
    }
  }
  EXPECT_GT(n_cached, 100u);
}

TEST(EngineEmbeddings, LeaveSessionsThatAnswerAsBefore) {
  EngineTrial trial(path_of(1), {.n_sessions = 1, .context = 128});
  AnswerRequest drawing;
  drawing.prompt = text(70, 1);
  drawing.max_tokens = 8;
  const std::vector<uint32_t> before = trial.ask(drawing).token_ids();
  ASSERT_FALSE(before.empty());
  (void)trial.ask(request_for({text(70, 1)}, 0));
  EXPECT_EQ(trial.ask(drawing).token_ids(), before);
}

TEST(EngineEmbeddings, ThatBreakARuleFail) {
  EngineTrial trial(path_of(2), {.n_sessions = 2, .context = 128});
  AnswerRequest two = request_for({text(3, 1)}, 0);
  two.n_choices = 2;
  const struct {
    AnswerRequest request;
    cria_status status;
  } wrong[] = {
      {request_for({text(3, 1), {}}, 0), CRIA_INVALID_ARGUMENT},
      {request_for({text(3, 1), {1, 50}}, 0), CRIA_INVALID_ARGUMENT},
      {request_for({text(3, 1)}, 65), CRIA_INVALID_ARGUMENT},
      {request_for({text(129, 1)}, 0), CRIA_CONTEXT_FULL},
      {request_for({text(3, 1), text(129, 1)}, 0), CRIA_CONTEXT_FULL},
      {two, CRIA_INVALID_ARGUMENT},
  };
  for (const auto& row : wrong) {
    for (const HeardChoice& heard : trial.ask_all(row.request)) {
      ASSERT_EQ(heard.ends.size(), 1u);
      EXPECT_EQ(heard.ends[0].end, AnswerEnd::kFailed);
      EXPECT_EQ(heard.ends[0].status, row.status);
      EXPECT_EQ(heard.ends[0].embeddings, nullptr);
    }
  }
}

TEST(EngineEmbeddings, EndWhenTheyAreCancelled) {
  EngineTrial trial(path_of(2), {.n_sessions = 1, .context = 128, .prefill_chunk = 1});
  std::vector<std::vector<uint32_t>> texts(2000, text(128, 1));
  uint64_t id = 0;
  const auto hearer = trial.begin(request_for(texts, 0), &id);
  while (trial.engine().counts().n_steps < 3) {
  }
  trial.engine().cancel(id);
  const HeardChoice heard = hearer->all().front();
  ASSERT_EQ(heard.ends.size(), 1u);
  EXPECT_EQ(heard.ends[0].end, AnswerEnd::kCancelled);
  EXPECT_EQ(heard.ends[0].embeddings, nullptr);
  EXPECT_LT(heard.ends[0].n_prompt, 2000u * 128);
  EXPECT_EQ(*trial.ask(request_for({text(5, 1)}, 0)).ends.at(0).embeddings,
            alone(2, {text(5, 1)}, 0));
}

}  // namespace
}  // namespace cria::hosted
