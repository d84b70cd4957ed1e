// What the engine answers: the same for a request whatever is beside it and came before it.
#include "platforms/hosted/engine/engine.h"

#include <gtest/gtest.h>

#include <cmath>
#include <new>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "tests/support/engine_trial.h"
#include "tests/support/json_trial.h"

namespace cria::hosted {
namespace {

using test::asking;
using test::demo_path;
using test::demo_tokens;
using test::drawn_alone;
using test::EngineTrial;
using test::HeardChoice;
using test::kTokens;
using test::seeded;
using test::told;

std::shared_ptr<JsonSchema> compiled(EngineTrial* trial, const std::string& schema) {
  std::string problem;
  std::shared_ptr<JsonSchema> made = trial->engine().schemas().compile(schema, &problem);
  EXPECT_EQ(problem, "");
  return made;
}

TEST(Engine, AnswersAsTheApiDoes) {
  EngineTrial trial(demo_path(), {});
  AnswerRequest request = seeded("Once upon a time there was", 7);
  request.sampling.repeat_penalty = 1.3f;
  request.sampling.presence_penalty = 0.2f;
  request.biases = test::shared_biases({{demo_tokens(" robot").front(), -HUGE_VALF}});
  const HeardChoice heard = trial.ask(request);
  EXPECT_EQ(heard.token_ids(), drawn_alone(demo_path(), request));
  ASSERT_EQ(heard.ends.size(), 1u);
  EXPECT_EQ(heard.ends[0].n_prompt, request.prompt.size());
  EXPECT_EQ(heard.ends[0].n_cached, 0u);
}

TEST(Engine, WhateverAListenerThrowsEndsItsChoiceAlone) {
  EngineTrial trial(demo_path(), {.n_sessions = 2});
  for (int kind = 0; kind < 3; ++kind) {
    const auto other = trial.begin(seeded("Once upon a time", 1));
    const auto thrower = std::make_shared<test::Hearer>(1);
    thrower->each_piece = [kind](const AnswerPiece&) {
      if (kind == 0) throw std::bad_alloc();
      if (kind == 1) throw std::runtime_error("no such thing");
      throw 1;
    };
    uint64_t id = 0;
    ASSERT_EQ(trial.engine().submit(seeded("The", 2), thrower, &id), SubmitResult::kTaken);
    const HeardChoice ended = thrower->all().front();
    ASSERT_EQ(ended.ends.size(), 1u);
    EXPECT_EQ(ended.ends[0].end, kind == 0 ? AnswerEnd::kNoMemory : AnswerEnd::kFailed);
    EXPECT_EQ(ended.ends[0].status, CRIA_OK);
    EXPECT_EQ(other->all().front().token_ids(),
              drawn_alone(demo_path(), seeded("Once upon a time", 1)));
  }
}

// Alone, in company, warm, with copied prefixes; sessions and chunks of every kind.
TEST(Engine, AnswersDependOnTheRequestAlone) {
  std::vector<AnswerRequest> requests = {
      asking("Once upon a time there was", kTokens), seeded("Once upon a time there was", 1),
      seeded("Once upon a time there were two", 2),  seeded(told("One day the fox"), 3),
      asking(told("One day the bear"), kTokens),     seeded("The", 4),
  };
  requests[3].sampling.repeat_penalty = 1.2f;
  requests.push_back(asking(told("One day the bear and the fox went to"), 1));
  std::vector<std::vector<uint32_t>> expected;
  for (const AnswerRequest& request : requests) {
    expected.push_back(drawn_alone(demo_path(), request));
  }
  size_t n_cached = 0;
  for (const uint32_t n_sessions : {1, 2, 4}) {
    for (const uint32_t chunk : {1, 5, 64}) {
      EngineTrial trial(demo_path(), {.n_sessions = n_sessions, .prefill_chunk = chunk});
      for (int round = 0; round < 3; ++round) {
        SCOPED_TRACE(testing::Message()
                     << n_sessions << " sessions, chunk " << chunk << ", round " << round);
        std::vector<std::shared_ptr<test::Hearer>> hearers;
        for (const AnswerRequest& request : requests) hearers.push_back(trial.begin(request));
        for (size_t i = 0; i < requests.size(); ++i) {
          const HeardChoice heard = hearers[i]->all().front();
          EXPECT_EQ(heard.token_ids(), expected[i]) << "request " << i;
          n_cached += heard.ends.at(0).n_cached;
        }
      }
    }
  }
  EXPECT_GT(n_cached, 1000u);
}

TEST(Engine, TakesAPrefixFromASessionThatIsAnswering) {
  EngineTrial trial(demo_path(), {.n_sessions = 2});
  const AnswerRequest first = asking(told("One day the fox"), kTokens);
  const AnswerRequest second = asking(told("One day the bear"), kTokens);
  const auto hearer = std::make_shared<test::Hearer>(1);
  const auto other = std::make_shared<test::Hearer>(1);
  uint64_t id = 0;
  uint64_t other_id = 0;
  // Asked while the first one draws, however slow this machine is.
  hearer->each_piece = [&](const AnswerPiece&) {
    if (other_id == 0) trial.engine().submit(second, other, &other_id);
  };
  ASSERT_EQ(trial.engine().submit(first, hearer, &id), SubmitResult::kTaken);
  EXPECT_EQ(hearer->all()[0].token_ids(), drawn_alone(demo_path(), first));
  const HeardChoice heard = other->all()[0];
  EXPECT_EQ(heard.token_ids(), drawn_alone(demo_path(), second));
  EXPECT_GT(heard.ends[0].n_cached, 20u);
  EXPECT_NE(heard.ends[0].session, hearer->all()[0].ends[0].session);
}

// Rings that have gone round, which hold less than what their sessions were told.
TEST(Engine, AnswersWithASlidingWindow) {
  const std::string path = test::written(
      "sliding.cria", test::convert_folder(test::golden_folder("mistral-sliding-window"),
                                           {format::NumberFormat::kInt8}));
  std::vector<AnswerRequest> requests;
  for (uint32_t i = 0; i < 12; ++i) {
    AnswerRequest request;
    const uint32_t n_prompt = 2 + i * 5;
    for (uint32_t j = 0; j < n_prompt; ++j) request.prompt.push_back((i < 6 ? 3 : 5) + j * 7 % 250);
    request.max_tokens = 20;
    request.sampling.temperature = 1.0f;
    request.seed = i;
    requests.push_back(request);
  }
  for (const uint32_t n_sessions : {1, 3}) {
    EngineTrial trial(path, {.n_sessions = n_sessions, .context = 96, .prefill_chunk = 4});
    for (int round = 0; round < 2; ++round) {
      std::vector<std::shared_ptr<test::Hearer>> hearers;
      for (const AnswerRequest& request : requests) hearers.push_back(trial.begin(request));
      for (size_t i = 0; i < requests.size(); ++i) {
        EXPECT_EQ(hearers[i]->all()[0].token_ids(), drawn_alone(path, requests[i]))
            << "request " << i << ", round " << round << ", sessions " << n_sessions;
      }
    }
  }
}

TEST(Engine, FillsAContextToTheLastPosition) {
  for (const uint32_t context : {2, 3, 17}) {
    EngineTrial trial(demo_path(), {.context = context});
    AnswerRequest request;
    request.prompt = {5};
    test::forbid_ends(&request);
    const HeardChoice heard = trial.ask(request);
    EXPECT_EQ(heard.ends.at(0).end, AnswerEnd::kContextFull);
    EXPECT_EQ(heard.ends.at(0).n_drawn, context);
    EXPECT_EQ(heard.tokens.size(), context);
    request.prompt.assign(context - 1, 5);
    EXPECT_EQ(trial.ask(request).ends.at(0).n_drawn, 2u);
    request.prompt.assign(context, 5);
    EXPECT_EQ(trial.ask(request).ends.at(0).status, CRIA_CONTEXT_FULL);
  }
}

TEST(Engine, ReadsThePromptAloneWhereNoTokenIsWanted) {
  EngineTrial trial(demo_path(), {});
  const HeardChoice heard = trial.ask(asking("Once upon a time", 0));
  EXPECT_EQ(heard.ends.at(0).end, AnswerEnd::kLimit);
  EXPECT_EQ(heard.ends.at(0).n_drawn, 0u);
  EXPECT_TRUE(heard.pieces.empty());
  EXPECT_GT(trial.ask(asking("Once upon a time there", 4)).ends.at(0).n_cached, 2u);
}

TEST(Engine, EndsAtAnEndToken) {
  EngineTrial trial(demo_path(), {});
  AnswerRequest request = asking("Once upon a time", 10);
  uint32_t end_token = 0;
  while (cria_is_end_token(trial.model().model(), end_token) == 0) ++end_token;
  request.biases = test::shared_biases({{end_token, 1e9f}});
  HeardChoice heard = trial.ask(request);
  EXPECT_EQ(heard.ends.at(0).end, AnswerEnd::kEndToken);
  EXPECT_EQ(heard.ends.at(0).n_drawn, 1u);
  EXPECT_TRUE(heard.tokens.empty());
  EXPECT_EQ(heard.text, "");
  test::forbid_ends(&request);
  heard = trial.ask(request);
  EXPECT_EQ(heard.ends.at(0).end, AnswerEnd::kLimit);
  EXPECT_EQ(heard.tokens.size(), 10u);
}

// Every part of the answer as a stop string: over borders of tokens, and among others.
TEST(Engine, EndsBeforeAStopString) {
  EngineTrial trial(demo_path(), {});
  AnswerRequest request = asking("Once upon a time there was", 30);
  const HeardChoice whole = trial.ask(request);
  ASSERT_GT(whole.text.size(), 60u);
  for (size_t begin = 0; begin < 40; begin += 3) {
    for (const size_t n : {1, 4, 11}) {
      const std::string stop = whole.text.substr(begin, n);
      request.stops = test::shared_stops({stop, "never in it", stop + "?"});
      const HeardChoice heard = trial.ask(request);
      EXPECT_EQ(heard.text, whole.text.substr(0, whole.text.find(stop))) << stop;
      EXPECT_EQ(heard.ends.at(0).end, AnswerEnd::kStopString);
      EXPECT_EQ(heard.ends.at(0).stop, stop);
      EXPECT_EQ(heard.tokens.size(), heard.ends.at(0).n_drawn);
    }
  }
}

// Text held back for a stop string that never comes is told at the end.
TEST(Engine, TellsWhatItHeldBack) {
  EngineTrial trial(demo_path(), {});
  AnswerRequest request = asking("Once upon a time there was", 30);
  const HeardChoice whole = trial.ask(request);
  for (size_t begin = 0; begin < whole.text.size(); begin += 7) {
    request.stops = test::shared_stops({whole.text.substr(begin) + "#"});
    const HeardChoice heard = trial.ask(request);
    EXPECT_EQ(heard.text, whole.text);
    EXPECT_EQ(heard.token_ids(), whole.token_ids());
    EXPECT_EQ(heard.ends.at(0).end, whole.ends.at(0).end);
    const size_t held = whole.text.size() - begin;
    EXPECT_GE(heard.pieces.back().size(),
              whole.text.find(whole.text.substr(begin)) == begin ? held : 1);
  }
}

TEST(Engine, TellsCharactersWhole) {
  EngineTrial trial(demo_path(), {});
  AnswerRequest request = asking("Once upon a time", 100);
  // So that the answer is written with tokens of single bytes.
  request.guide = compiled(&trial, "{\"const\":\"\xe2\x82\xac\xf0\x9f\x98\x80\"}");
  const HeardChoice heard = trial.ask(request);
  EXPECT_EQ(heard.text, "\"\xe2\x82\xac\xf0\x9f\x98\x80\"");
  EXPECT_GT(heard.tokens.size(), 4u);
  for (const std::string& piece : heard.pieces) {
    EXPECT_NE(static_cast<uint8_t>(piece[0]) & 0xc0, 0x80) << "a piece begins within a character";
  }
  // Half a character, at the end: three bytes that say so.
  request.max_tokens = 2;
  EXPECT_EQ(trial.ask(request).text, "\"\xef\xbf\xbd");
  EXPECT_EQ(trial.ask(request).tokens.size(), 2u);
}

TEST(Engine, TellsProbabilitiesOfTheModelsOwnDistribution) {
  EngineTrial trial(demo_path(), {});
  AnswerRequest request = seeded("Once upon a time there was", 5);
  request.sampling.repeat_penalty = 1.5f;
  request.biases = test::shared_biases({{demo_tokens(" a").front(), -5.0f}});
  request.n_top = 3;
  std::vector<float> logits;
  const std::vector<uint32_t> tokens = drawn_alone(demo_path(), 0, request, &logits);
  const HeardChoice heard = trial.ask(request);
  ASSERT_EQ(heard.token_ids(), tokens);
  const size_t vocab_size = cria_vocab_size(trial.model().model());
  for (size_t i = 0; i < tokens.size(); ++i) {
    const std::vector<float> row(logits.begin() + static_cast<ptrdiff_t>(i * vocab_size),
                                 logits.begin() + static_cast<ptrdiff_t>((i + 1) * vocab_size));
    double sum = 0.0;
    for (const float logit : row) sum += std::exp(static_cast<double>(logit));
    const auto expected = [&](uint32_t token) {
      return static_cast<double>(row[token]) - std::log(sum);
    };
    EXPECT_NEAR(static_cast<double>(heard.tokens[i].logprob), expected(tokens[i]), 1e-5);
    ASSERT_EQ(heard.tokens[i].top.size(), 3u);
    const auto best = std::max_element(row.begin(), row.end()) - row.begin();
    EXPECT_EQ(heard.tokens[i].top[0].token, static_cast<uint32_t>(best));
    for (const TokenLogprob& top : heard.tokens[i].top) {
      EXPECT_NEAR(static_cast<double>(top.logprob), expected(top.token), 1e-5);
    }
  }
  request.n_top = 0;
  EXPECT_EQ(trial.ask(request).tokens.at(0).logprob, heard.tokens[0].logprob);
  request.n_top.reset();
  EXPECT_EQ(trial.ask(request).tokens.at(0).logprob, 0.0f);
}

TEST(Engine, ChoicesAreTheAnswersOfTheirSeeds) {
  const AnswerRequest one = seeded(told("One day"), 40);
  std::vector<std::vector<uint32_t>> expected;
  for (uint64_t i = 0; i < 4; ++i) {
    expected.push_back(drawn_alone(demo_path(), seeded(told("One day"), 40 + i)));
  }
  EngineTrial trial(demo_path(), {.n_sessions = 4, .prefill_chunk = 16});
  AnswerRequest many = one;
  many.n_choices = 4;
  // With company, so that sessions are short: choices wait.
  const auto company = trial.begin(seeded("The bear", 1));
  const auto hearer = trial.begin(many);
  const auto more = trial.begin(many);
  for (const auto& heard : {hearer->all(), more->all()}) {
    for (size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(heard[i].token_ids(), expected[i]) << "choice " << i;
      EXPECT_GE(heard[i].ends.at(0).n_cached, i > 0 ? one.prompt.size() - 1 : 0);
    }
  }
  EXPECT_EQ(company->all()[0].token_ids(), drawn_alone(demo_path(), seeded("The bear", 1)));
}

TEST(Engine, ChoicesOfOneRequestWaitForEachOther) {
  EngineTrial trial(demo_path(), {.n_sessions = 2});
  AnswerRequest two = seeded("Once upon a time", 3);
  two.n_choices = 2;
  std::vector<std::shared_ptr<test::Hearer>> hearers;
  for (int i = 0; i < 8; ++i) hearers.push_back(trial.begin(two));
  const std::vector<uint32_t> expected = drawn_alone(demo_path(), seeded("Once upon a time", 4));
  for (const auto& hearer : hearers) EXPECT_EQ(hearer->all()[1].token_ids(), expected);
}

constexpr const char* kSchema =
    R"({"type":"object","properties":{"name":{"type":"string","maxLength":12},)"
    R"("age":{"type":"integer","minimum":0,"maximum":99},"kind":{"enum":["fox","bear"]}},)"
    R"("required":["name","age","kind"],"additionalProperties":false})";

TEST(Engine, AnswersDocumentsOfASchema) {
  EngineTrial trial(demo_path(), {.n_sessions = 3});
  const auto schema = nlohmann::json::parse(kSchema);
  std::vector<std::shared_ptr<test::Hearer>> hearers;
  for (uint64_t seed = 0; seed < 12; ++seed) {
    AnswerRequest request = seeded("Once upon a time", seed);
    request.sampling.temperature = 1.5f;
    request.sampling.top_p = 0.0f;
    request.max_tokens = 200;
    request.guide = compiled(&trial, kSchema);
    request.n_top = 1;
    hearers.push_back(trial.begin(request));
  }
  for (const auto& hearer : hearers) {
    const HeardChoice heard = hearer->all()[0];
    EXPECT_EQ(heard.ends.at(0).end, AnswerEnd::kDocument);
    EXPECT_TRUE(heard.ends.at(0).is_whole_document);
    const nlohmann::json value = test::parse_strictly(heard.text);
    ASSERT_FALSE(value.is_discarded()) << heard.text;
    EXPECT_TRUE(test::satisfies(schema, schema, value)) << heard.text;
    // The mask forbids, which the probabilities do not know: none is that of a forbidden token.
    for (const DrawnToken& token : heard.tokens) {
      EXPECT_TRUE(std::isfinite(token.logprob));
      EXPECT_GE(token.top.at(0).logprob, token.logprob);
    }
  }
}

TEST(Engine, SaysThatADocumentWasCut) {
  EngineTrial trial(demo_path(), {});
  AnswerRequest request = seeded("Once upon a time", 1);
  request.guide = compiled(&trial, kSchema);
  request.max_tokens = 3;
  const HeardChoice heard = trial.ask(request);
  EXPECT_EQ(heard.ends.at(0).end, AnswerEnd::kLimit);
  EXPECT_FALSE(heard.ends.at(0).is_whole_document);
  request.guide = compiled(&trial, "");  // any value: digits that go on are a document already
  request.biases = test::shared_biases({{demo_tokens("7").front(), 1e9f}});
  const HeardChoice digits = trial.ask(request);
  EXPECT_TRUE(digits.ends.at(0).is_whole_document) << digits.text;
}

TEST(Engine, SaysWhatASchemaCannotHave) {
  constexpr size_t kBlock = 65536;
  EngineTrial trial(demo_path(), {.options = {.max_schema_bytes = kBlock}});
  const auto problem_with = [&](const std::string& schema) {
    std::string problem;
    const auto made = trial.engine().schemas().compile(schema, &problem);
    EXPECT_EQ(made == nullptr, !problem.empty());
    return problem;
  };
  EXPECT_EQ(problem_with(""), "");
  EXPECT_EQ(problem_with(R"({"type":"boolean"})"), "");
  EXPECT_EQ(problem_with(R"({"type":"string","format":"uri"})"),
            "byte 17: \"format\" has a value that is not supported");
  EXPECT_NE(problem_with("{"), "");
  EXPECT_NE(problem_with(R"({"type":"string","maxLength":100,"enum":[")" +
                         std::string(kBlock, 'x') + "\"]}"),
            "");
}

// However many answer it, a schema is compiled once, and takes memory once.
TEST(Engine, ManyAnswersShareASchema) {
  EngineTrial trial(demo_path(), {.n_sessions = 2});
  AnswerRequest request = seeded("Once upon a time", 1);
  request.n_choices = 2;
  request.max_tokens = 200;
  request.guide = compiled(&trial, kSchema);
  std::vector<std::shared_ptr<test::Hearer>> hearers;
  for (request.seed = 1; request.seed < 10; request.seed += 2) {
    hearers.push_back(trial.begin(request));
  }
  for (uint64_t seed = 1; seed < 10; seed += 2) {
    const std::vector<HeardChoice> both = hearers[seed / 2]->all();
    for (uint64_t choice = 0; choice < 2; ++choice) {
      AnswerRequest alone = request;
      alone.n_choices = 1;
      alone.seed = seed + choice;
      alone.guide = compiled(&trial, kSchema);
      EXPECT_EQ(both[choice].text, trial.ask(alone).text);
    }
  }
}

TEST(Engine, FailsWhatBreaksItsRules) {
  EngineTrial trial(demo_path(), {.n_sessions = 2});
  const AnswerRequest good = asking("Once", 4);
  const auto status_of = [&](const AnswerRequest& request) {
    const AnswerSummary end = trial.ask(request).ends.at(0);
    EXPECT_EQ(end.end, AnswerEnd::kFailed);
    return end.status;
  };
  AnswerRequest bad = good;
  bad.prompt.clear();
  EXPECT_EQ(status_of(bad), CRIA_INVALID_ARGUMENT);
  bad.prompt = {1u << 30};
  EXPECT_EQ(status_of(bad), CRIA_INVALID_ARGUMENT);
  bad = good;
  bad.n_choices = 3;
  EXPECT_EQ(trial.ask_all(bad)[2].ends.at(0).status, CRIA_INVALID_ARGUMENT);
  bad = good;
  bad.biases = test::shared_biases({{1u << 30, 1.0f}});
  EXPECT_EQ(status_of(bad), CRIA_INVALID_ARGUMENT);
  bad = good;
  bad.sampling.temperature = -1.0f;
  EXPECT_EQ(status_of(bad), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(trial.ask(good).tokens.size(), 4u);
  EXPECT_EQ(trial.engine().counts().n_failed, 5u);
}

TEST(Engine, AForbiddenTokenIsNeverDrawn) {
  EngineTrial trial(demo_path(), {});
  const uint32_t vocab_size = cria_vocab_size(trial.model().model());
  for (const float bias : {-HUGE_VALF, -3e38f}) {
    for (const char* schema : {"", R"({"type":"integer"})"}) {
      AnswerRequest request = seeded("The", 1);
      std::vector<cria_logit_bias> biases;
      for (uint32_t token = 0; token < vocab_size; ++token) {
        biases.insert(biases.end(), 2, {token, bias});
      }
      request.biases = test::shared_biases(biases);
      if (*schema != '\0') request.guide = compiled(&trial, schema);
      const HeardChoice heard = trial.ask(request);
      EXPECT_EQ(heard.ends.at(0).end, AnswerEnd::kFailed);
      EXPECT_EQ(heard.ends.at(0).status, CRIA_NOTHING_TO_SAMPLE);
      EXPECT_TRUE(heard.tokens.empty());
    }
  }
}

}  // namespace
}  // namespace cria::hosted
