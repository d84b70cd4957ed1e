// cria_json.h over vocabularies that are made up: masks, states and refusals.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <utility>

#include <cria_json.h>
#include "runtime/json/automaton.h"
#include "runtime/json/vocabulary.h"
#include "tests/support/json_trial.h"
#include "tests/support/long_under_asan.h"
#include "tests/support/made_vocabulary.h"
#include "tests/support/sampling.h"
#include "tests/support/seeds.h"

namespace cria::json {
namespace {

using format::TokenizerKind;
using test::JsonOfModel;
using test::MadeVocabulary;

constexpr const char* kPieces[] = {"{\"",
                                   "\":",
                                   "\": \"",
                                   "\",",
                                   "\"}",
                                   "},",
                                   "[",
                                   "]}",
                                   "true",
                                   " null",
                                   "name",
                                   "value",
                                   "abc",
                                   "12",
                                   "100",
                                   ", ",
                                   "\\n",
                                   "\\u00",
                                   "\xc3",
                                   "\xc3\xa9",
                                   "\xf0\x9f",
                                   "  ",
                                   "\n",
                                   "a\"",
                                   "ab",
                                   "0.",
                                   ".5",
                                   "-1",
                                   "e5",
                                   "]]]]",
                                   "\"\"",
                                   "\xc3\xaa",
                                   "a\xc3\xa0\xc3\xbf",
                                   "a\xc3\xa0\xc4\x80",
                                   "\xe4\xb8\x80",
                                   "\xe4\xb8\x81",
                                   "x y z"};

void add_pieces(MadeVocabulary* made) {
  for (const char* const piece : kPieces) made->add(piece);
}

std::vector<uint32_t> allowed_of(JsonOfModel* json, const cria_model* model,
                                 const cria_json_state& state) {
  std::vector<float> logits(cria_vocab_size(model), 1.0f);
  EXPECT_EQ(cria_json_mask(json->get(), &state, logits.data(), logits.size()), CRIA_OK);
  std::vector<uint32_t> allowed;
  for (uint32_t i = 0; i < logits.size(); ++i) {
    if (logits[i] == 1.0f) allowed.push_back(i);
  }
  return allowed;
}

std::string text_of_token(const cria_model* model, uint32_t token) {
  char bytes[kMostTokenBytes];
  return {bytes, token_bytes(model->tokenizer, token, bytes)};
}

void compare_masks(uint32_t seed) {
  MadeVocabulary made(TokenizerKind::kByteLevelBpe);
  add_pieces(&made);
  const cria_model* const model = made.model();
  std::mt19937 random(seed);
  size_t n = 0;
  for (size_t i = 0; i < 40; i += test::sweep_step()) {
    const std::string schema = test::random_schema(&random);
    JsonOfModel json(model, schema);
    if (json.status() != CRIA_OK) continue;
    test::JsonTrial trial(schema);
    cria_json_state state;
    ASSERT_EQ(cria_json_begin(json.get(), &state), CRIA_OK);
    std::string text;
    while (text.size() < 200) {
      const std::vector<uint32_t> allowed = allowed_of(&json, model, state);
      ASSERT_FALSE(allowed.empty()) << schema << "\n" << text;
      size_t k = 0;
      for (uint32_t token = 0; token < cria_vocab_size(model); ++token) {
        const std::string bytes = text_of_token(model, token);
        ASSERT_TRUE(trial.takes_beginning(text));
        bool can = token == made.end_token()
                       ? trial.may_end()
                       : !bytes.empty() && trial.takes_beginning(text + bytes);
        const bool is_allowed = k < allowed.size() && allowed[k] == token;
        ASSERT_EQ(is_allowed, can) << schema << "\n" << text << "\n" << bytes;
        k += is_allowed ? 1 : 0;
        ++n;
      }
      const uint32_t token = allowed[static_cast<uint32_t>(random()) % allowed.size()];
      if (token == made.end_token()) break;
      ASSERT_EQ(cria_json_accept(json.get(), &state, token), CRIA_OK);
      text += text_of_token(model, token);
    }
  }
  EXPECT_GT(n, 1000u);
}

TEST(JsonMask, LeavesExactlyTheTokensWhoseBytesCanCome) {
  CRIA_SKIP_UNDER_ASAN();
  test::for_each_seed({5}, compare_masks);
}

std::string patterns_of(size_t n_characters, size_t n) {
  std::string options;
  for (size_t i = 0; i < n; ++i) {
    options += std::string(i > 0 ? "," : "") + R"({"type":"string","pattern":"^.{0,)" +
               std::to_string(n_characters - i) + R"(}$"})";
  }
  return R"({"anyOf":[)" + options + "]}";
}

// A vocabulary of words, and how often a mask over it asks whether it is wanted.
class WatchedMask : public testing::Test {
 protected:
  WatchedMask() {
    std::mt19937 random(1);
    for (int i = 0; i < 3000; ++i) {
      std::string word;
      for (size_t n = 2 + random() % 8; n > 0; --n) word += static_cast<char>('a' + random() % 26);
      made_.add(word);
      n_bytes_ += word.size();
    }
  }
  // Of the first mask after a text of single bytes.
  cria_status mask(const std::string& schema, std::string_view text) {
    json_.emplace(made_.model(), schema);
    EXPECT_EQ(json_->status(), CRIA_OK) << json_->problem().reason;
    if (json_->status() != CRIA_OK) return json_->status();
    EXPECT_EQ(cria_json_begin(json_->get(), &state_), CRIA_OK);
    for (const char c : text) {
      const auto token = static_cast<uint32_t>(static_cast<uint8_t>(c));
      EXPECT_EQ(cria_json_accept(json_->get(), &state_, token), CRIA_OK);
    }
    return mask();
  }
  cria_status mask() {
    const auto ask = [](void* asked) {
      auto* const self = static_cast<WatchedMask*>(asked);
      return ++self->n_asked_ == self->stop_at_ ? 1 : 0;
    };
    cria_json_watch(json_->get(), ask, this);
    n_asked_ = 0;
    logits_.assign(cria_vocab_size(made_.model()), 1.0f);
    return cria_json_mask(json_->get(), &state_, logits_.data(), logits_.size());
  }

  MadeVocabulary made_{TokenizerKind::kByteLevelBpe};
  std::optional<JsonOfModel> json_;
  cria_json_state state_ = {};
  std::vector<float> logits_;
  size_t n_bytes_ = 0;  // of the words
  size_t n_asked_ = 0;
  size_t stop_at_ = 0;
};

// Whatever a schema is made of, a byte of the vocabulary costs what two of the longest patterns do.
TEST_F(WatchedMask, WorstSchemaTakesFewSteps) {
  std::string objects;
  for (int i = 0; i < 16; ++i) {
    objects += std::string(i > 0 ? "," : "") +
               R"({"type":"object","properties":{"a":{"type":"string","pattern":"^.{0,)" +
               std::to_string(254 - i) + R"(}$"}},"required":["a"]})";
  }
  constexpr size_t kStepsPerLook = 65536;
  for (const auto& [schema, text] : {std::pair(patterns_of(254, 2), "\"-"),
                                     std::pair(R"({"anyOf":[)" + objects + "]}", "{\"a\":\"-"),
                                     std::pair(R"({"anyOf":[)" + objects + "]}", "{\"a\":\"\\")}) {
    ASSERT_EQ(mask(schema, text), CRIA_OK);
    EXPECT_GT(n_asked_, 5u);
    EXPECT_LE(n_asked_ * kStepsPerLook, (n_bytes_ + 1000) * (kMostPositionsAtOnce + kMostReadings));
  }
  ASSERT_EQ(mask(patterns_of(20, 16), "\"-"), CRIA_OK);
  for (const size_t n : {3, 16}) {
    const JsonOfModel refused(made_.model(), patterns_of(254, n));
    EXPECT_EQ(refused.status(), CRIA_TEXT_TOO_LONG);
    EXPECT_STREQ(refused.problem().keyword, "anyOf");
  }
}

TEST_F(WatchedMask, EndsWhenNobodyWantsIt) {
  stop_at_ = 3;
  const std::string schema = patterns_of(254, 2);
  EXPECT_EQ(mask(schema, "\"-"), CRIA_CANCELLED);
  EXPECT_EQ(n_asked_, 3u);
  EXPECT_EQ(logits_, std::vector<float>(logits_.size(), 1.0f));
  stop_at_ = 0;
  EXPECT_EQ(mask(), CRIA_OK);
  const std::vector<float> again = logits_;
  EXPECT_EQ(mask(schema, "\"-"), CRIA_OK);
  EXPECT_EQ(logits_, again);
}

void write_random_documents(uint32_t seed) {
  std::mt19937 random(seed);
  for (const TokenizerKind kind :
       {TokenizerKind::kByteLevelBpe, TokenizerKind::kSentencePieceBpe}) {
    MadeVocabulary made(kind);
    add_pieces(&made);
    made.add("\xe2\x96\x81");
    made.add("\xe2\x96\x81name");
    made.add("\"\xe2\x96\x81");
    const cria_model* const model = made.model();
    size_t n_documents = 0;
    for (size_t i = 0; i < 400; i += test::sweep_step()) {
      const std::string schema = test::random_schema(&random);
      JsonOfModel json(model, schema);
      if (json.status() != CRIA_OK) continue;
      const nlohmann::json parsed = nlohmann::json::parse(schema);
      cria_json_state state;
      ASSERT_EQ(cria_json_begin(json.get(), &state), CRIA_OK);
      std::string text;
      while (cria_json_progress_of(json.get(), &state) != CRIA_JSON_CLOSED) {
        const std::vector<uint32_t> allowed = allowed_of(&json, model, state);
        uint32_t token = allowed[static_cast<uint32_t>(random()) % allowed.size()];
        // Quotes before brackets, and what patterns of these schemas wait for.
        const std::string_view wanted = random() % 2 == 0 ? "\"xa]}" : "\"ax]}";
        if (text.size() > 300 || random() % 4 == 0) {
          for (size_t k = wanted.size(); k-- > 0;) {
            const auto byte = static_cast<uint32_t>(wanted[k]);
            if (std::binary_search(allowed.begin(), allowed.end(), byte)) token = byte;
          }
          if (std::binary_search(allowed.begin(), allowed.end(), made.end_token())) {
            token = made.end_token();
          }
        }
        const bool is_end = token == made.end_token();
        ASSERT_EQ(is_end && cria_json_progress_of(json.get(), &state) == CRIA_JSON_OPEN, false);
        ASSERT_EQ(cria_json_accept(json.get(), &state, token), CRIA_OK);
        if (is_end) break;
        text += text_of_token(model, token);
        if (text.size() > 4000) break;  // chance seldom ends what waits for one character
      }
      if (text.size() > 4000) continue;
      const nlohmann::json value = test::parse_strictly(text);
      ASSERT_FALSE(value.is_discarded()) << schema << "\n" << text;
      ASSERT_TRUE(test::satisfies(parsed, parsed, value)) << schema << "\n" << text;
      ++n_documents;
    }
    EXPECT_GT(n_documents * test::sweep_step(), 200u);
  }
}

TEST(JsonMask, RandomTokensAlwaysBecomeAValidDocument) {
  test::for_each_seed({9}, write_random_documents);
}

TEST(JsonMask, KeepsLogitsAndRaisesWhatIsNoNumber) {
  MadeVocabulary made(TokenizerKind::kByteLevelBpe);
  const cria_model* const model = made.model();
  JsonOfModel json(model, R"({"enum":[true,false]})");
  cria_json_state state;
  ASSERT_EQ(cria_json_begin(json.get(), &state), CRIA_OK);
  std::vector<float> logits(cria_vocab_size(model), NAN);
  logits['f'] = -3.5f;
  ASSERT_EQ(cria_json_mask(json.get(), &state, logits.data(), logits.size()), CRIA_OK);
  EXPECT_EQ(logits['f'], -3.5f);
  EXPECT_EQ(logits['t'], -1e30f);
  EXPECT_EQ(logits['n'], -HUGE_VALF);
  EXPECT_EQ(cria_json_mask(json.get(), &state, logits.data(), logits.size() - 1),
            CRIA_INVALID_ARGUMENT);
}

TEST(JsonMask, EndTokensComeWhenTheDocumentIsWhole) {
  MadeVocabulary made(TokenizerKind::kByteLevelBpe);
  const uint32_t special = made.add("1", format::kTokenSpecial);
  const cria_model* const model = made.model();
  JsonOfModel json(model, R"({"type":"integer","minimum":0,"maximum":15})");
  cria_json_state state;
  ASSERT_EQ(cria_json_begin(json.get(), &state), CRIA_OK);
  EXPECT_EQ(cria_json_progress_of(json.get(), &state), CRIA_JSON_OPEN);
  EXPECT_EQ(cria_json_accept(json.get(), &state, made.end_token()), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_json_accept(json.get(), &state, special), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_json_accept(json.get(), &state, 'x'), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_json_accept(json.get(), &state, '1'), CRIA_OK);
  EXPECT_EQ(cria_json_progress_of(json.get(), &state), CRIA_JSON_WHOLE);
  EXPECT_EQ(allowed_of(&json, model, state),
            (std::vector<uint32_t>{'0', '1', '2', '3', '4', '5', made.end_token()}));
  EXPECT_EQ(cria_json_accept(json.get(), &state, '5'), CRIA_OK);
  EXPECT_EQ(cria_json_progress_of(json.get(), &state), CRIA_JSON_CLOSED);
  EXPECT_EQ(allowed_of(&json, model, state), (std::vector<uint32_t>{made.end_token()}));
  EXPECT_EQ(cria_json_accept(json.get(), &state, made.end_token()), CRIA_OK);
}

TEST(JsonMask, SpacesOfSentencePieceAreSpaces) {
  MadeVocabulary made(TokenizerKind::kSentencePieceBpe);
  const uint32_t one = made.add(
      "\xe2\x96\x81"
      "1");
  const uint32_t two = made.add("\xe2\x96\x81\xe2\x96\x81");
  const uint32_t broken = made.add("a\xc3");
  const uint32_t after_space = made.add("2", format::kTokenAfterSpace);
  const cria_model* const model = made.model();
  JsonOfModel json(model, nullptr, 0);
  cria_json_state state;
  ASSERT_EQ(cria_json_begin(json.get(), &state), CRIA_OK);
  for (const char c : std::string("{\"a\":")) {
    ASSERT_EQ(cria_json_accept(json.get(), &state, static_cast<uint8_t>(c)), CRIA_OK);
  }
  const std::vector<uint32_t> allowed = allowed_of(&json, model, state);
  const auto has = [&](uint32_t t) {
    return std::find(allowed.begin(), allowed.end(), t) != allowed.end();
  };
  EXPECT_TRUE(has(one));
  EXPECT_TRUE(has(after_space));
  EXPECT_FALSE(has(two));
  EXPECT_FALSE(has(broken));
}

TEST(JsonVocabulary, NeedsATokenForEachByteOfJson) {
  size_t n_bytes = 0;
  for (const char* const missing : {"{", "\xa9", "z"}) {
    MadeVocabulary made(TokenizerKind::kByteLevelBpe, missing);
    EXPECT_EQ(cria_json_vocabulary_required(made.model(), &n_bytes), CRIA_UNSUPPORTED);
  }
  MadeVocabulary enough(TokenizerKind::kByteLevelBpe, "\x01\x7f\xc0\xff");
  EXPECT_EQ(cria_json_vocabulary_required(enough.model(), &n_bytes), CRIA_OK);
}

TEST(JsonState, IsCopiedAndGoesOnAsItWas) {
  MadeVocabulary made(TokenizerKind::kByteLevelBpe);
  const cria_model* const model = made.model();
  JsonOfModel json(model, nullptr, 0);
  cria_json_state state;
  ASSERT_EQ(cria_json_begin(json.get(), &state), CRIA_OK);
  for (const char c : std::string("{\"a\":[1, {\"b\":\"x")) {
    ASSERT_EQ(cria_json_accept(json.get(), &state, static_cast<uint8_t>(c)), CRIA_OK);
  }
  const cria_json_state copy = state;
  const std::vector<uint32_t> allowed = allowed_of(&json, model, state);
  ASSERT_EQ(cria_json_accept(json.get(), &state, '"'), CRIA_OK);
  EXPECT_NE(allowed_of(&json, model, state), allowed);
  EXPECT_EQ(allowed_of(&json, model, copy), allowed);
}

// A state that somebody made up is refused or leads somewhere, but never out of the tables.
void use_hostile_states(uint32_t seed) {
  MadeVocabulary made(TokenizerKind::kByteLevelBpe);
  add_pieces(&made);
  const cria_model* const model = made.model();
  const std::string schema =
      R"({"type":"object","properties":{"a":{"enum":["x","xy"]},"b":{"type":"string","pattern":"^a+b$"},"c":{"type":"number","minimum":0}},"additionalProperties":true})";
  JsonOfModel json(model, schema);
  JsonOfModel other(model, nullptr, 0);
  cria_json_state state;
  ASSERT_EQ(cria_json_begin(json.get(), &state), CRIA_OK);
  std::vector<float> logits(cria_vocab_size(model), 0.0f);
  EXPECT_EQ(cria_json_mask(other.get(), &state, logits.data(), logits.size()), CRIA_BAD_STATE);
  EXPECT_EQ(logits[0], 0.0f);
  std::mt19937 random(seed);
  size_t n_refused = 0;
  size_t n_taken = 0;
  for (const char c : std::string("{\"a\":\"x\",\"b\":\"ab\",\"c\":1.5,\"d\":{\"e\":[")) {
    ASSERT_EQ(cria_json_accept(json.get(), &state, static_cast<uint8_t>(c)), CRIA_OK);
    for (size_t i = 0; i < 300; i += test::sweep_step()) {
      cria_json_state changed = state;
      auto* const bytes = reinterpret_cast<uint8_t*>(&changed);
      for (size_t k = 1 + random() % 3; k > 0; --k) {
        const size_t at = random() % 2 == 0 ? 4 + random() % 80 : 904 + random() % 80;
        bytes[at] = static_cast<uint8_t>(random() % 3 == 0 ? random() % 4 : random() >> 8);
      }
      const cria_status status = cria_json_mask(json.get(), &changed, logits.data(), logits.size());
      ++(status == CRIA_OK ? n_taken : n_refused);
      ASSERT_TRUE(status == CRIA_OK || status == CRIA_BAD_STATE);
      static_cast<void>(cria_json_progress_of(json.get(), &changed));
      static_cast<void>(
          cria_json_accept(json.get(), &changed, static_cast<uint8_t>(random() % 256)));
    }
  }
  EXPECT_GT(n_refused, 0u);
  EXPECT_GT(n_taken, 0u);
}

TEST(JsonState, HostileBytesAreHarmless) { test::for_each_seed({7}, use_hostile_states); }

struct Refused {
  const char* schema;
  const char* keyword;
  const char* reason;  // a part of it
  size_t offset;
  cria_status status = CRIA_UNSUPPORTED;
};

TEST(JsonSchema, IsRefusedWithPlaceAndKeyword) {
  const Refused list[] = {
      {"", "", "is empty", 0},
      {"  ", "", "is empty", 2},
      {"{", "", "ends too early", 1},
      {"{\"a\"}", "", "colon", 4},
      {"[1", "", "ends too early", 2},
      {"{} x", "", "something follows", 3},
      {"{\"a\":01}", "", "number", 7},
      {"{\"a\":\"\xff\"}", "", "UTF-8", 6},
      {"{\"a\":\"\\ud800\"}", "", "half a character", 12},
      {"{\"a\":tru}", "", "not JSON", 5},
      {"3", "", "not a schema", 0},
      {"{\"format\":\"uri\"}", "format", "not supported", 1},
      {"{\"patternProperties\":{\"a\":1}}", "patternProperties", "not supported", 1},
      {"{\"type\":\"object\",\"properties\":{\"a\":{\"uniqueItems\":true}}}", "uniqueItems",
       "not supported", 36},
      {"{\"type\":\"float\"}", "type", "not a type", 8},
      {"{\"type\":[]}", "type", "empty list", 8},
      {"{\"type\":\"null\",\"type\":\"null\"}", "type", "twice", 15},
      {"{\"enum\":3}", "enum", "not a list", 8},
      {"{\"enum\":[1],\"minimum\":0}", "minimum", "beside enum", 22},
      {"{\"const\":{\"a\":1,\"\\u0061\":2}}", "\\u0061", "twice", 16},
      {"{\"anyOf\":[]}", "anyOf", "not a list", 9},
      {"{\"anyOf\":[true],\"type\":\"null\"}", "type", "beside anyOf", 23},
      {"{\"allOf\":[true,true]}", "allOf", "more than one", 9},
      {"{\"oneOf\":[{\"type\":\"integer\"},{\"type\":\"number\"}]}", "oneOf", "be true together",
       0},
      {"{\"$ref\":\"#/a\"}", "$ref", "nothing", 8},
      {"{\"$ref\":\"http://x\"}", "$ref", "out of the schema", 8},
      {"{\"$ref\":\"#\"}", "$ref", "for ever", 0},
      {R"({"$ref":"#/$defs/a","$defs":{"a":true,"a":{"type":"null"}}})", "$ref", "twice", 8},
      {R"({"$ref":"#/$defs/a","$defs":{"\u0061":true,"a":{"type":"null"}}})", "$ref", "twice", 8},
      {R"({"$id":"http://a/","items":{"$id":"http://b/","items":{"$ref":"#"}}})", "$id",
       "at the top", 28},
      {"{\"$ref\":\"#/$defs/a\",\"minimum\":1,\"$defs\":{\"a\":true}}", "minimum", "beside $ref",
       30},
      {"{\"type\":\"string\",\"pattern\":\"a\",\"maxLength\":1025}", "maxLength", "beside pattern",
       43, CRIA_TEXT_TOO_LONG},
      {"{\"pattern\":\"a\",\"minLength\":1025}", "minLength", "beside pattern", 27,
       CRIA_TEXT_TOO_LONG},
      {"{\"$ref\":\"#/~2\"}", "$ref", "escape", 8},
      {"{\"$ref\":\"#/%C3\"}", "$ref", "escape", 8},
      {"{\"$ref\":\"#a\"}", "$ref", "path", 8},
      {"{\"type\":\"string\",\"pattern\":\"a(?=b)\"}", "pattern", "group", 31},
      {"{\"type\":\"string\",\"pattern\":\"a\\\\1\"}", "pattern", "escape", 31},
      {"{\"type\":\"string\",\"pattern\":\"(a\"}", "pattern", "does not end", 30},
      {"{\"type\":\"string\",\"pattern\":\"[b-a]\"}", "pattern", "range", 32},
      {"{\"type\":\"string\",\"pattern\":\"a{300}\"}", "pattern", "255", 34, CRIA_TEXT_TOO_LONG},
      {"{\"minLength\":-1}", "minLength", "whole number", 13},
      {"{\"maxItems\":1.5}", "maxItems", "whole number", 12},
      {"{\"maxItems\":9999999999}", "maxItems", "2147483647", 12, CRIA_TEXT_TOO_LONG},
      {"{\"minimum\":1e-30}", "minimum", "18 digits", 11},
      {"{\"minimum\":true}", "minimum", "not a number", 11},
      {"{\"minimum\":1e300}", "minimum", "more than 18 digits", 11},
      {"{\"minimum\":1e18}", "minimum", "more than 18 digits", 11},
      {"{\"type\":\"integer\",\"exclusiveMinimum\":999999999999999999}", "exclusiveMinimum",
       "more than 18 digits", 37},
      {"{\"maximum\":-1e400}", "maximum", "more than 18 digits", 11},
      {"{\"type\":[\"string\",\"number\"],\"exclusiveMaximum\":-1E+18}", "exclusiveMaximum",
       "more than 18 digits", 47},
      {"{\"maxLength\":1e300}", "maxLength", "2147483647", 13, CRIA_TEXT_TOO_LONG},
      {"{\"items\":[true]}", "items", "prefixItems", 9},
      {"{\"type\":\"object\",\"properties\":[]}", "properties", "not an object", 30},
      {"{\"properties\":{\"a\":1}}", "", "not a schema", 19},
      {"{\"properties\":{\"a\":{},\"\\u0061\":{}}}", "properties", "twice", 14},
      {"{\"required\":[1]}", "required", "not a string", 13},
      {"false", "", "no document", 0},
      {"{\"type\":\"integer\",\"minimum\":2,\"maximum\":1}", "", "no document", 0},
      {"{\"type\":\"string\",\"pattern\":\"^[^\\\\s\\\\S]$\"}", "", "no document", 0},
      {"{\"type\":\"object\",\"properties\":{\"a\":{\"$ref\":\"#\"}},\"required\":[\"a\"]}", "",
       "no document", 0},
      {"{\"type\":\"array\",\"items\":{\"$ref\":\"#\"},\"minItems\":1}", "", "no document", 0},
      {"{\"anyOf\":[{\"anyOf\":[{\"$ref\":\"#\"}]}]}", "", "no document", 0},
  };
  MadeVocabulary made(TokenizerKind::kByteLevelBpe);
  const cria_model* const model = made.model();
  for (const Refused& r : list) {
    JsonOfModel json(model, std::string(r.schema));
    EXPECT_EQ(json.status(), r.status) << r.schema;
    EXPECT_STREQ(json.problem().keyword, r.keyword) << r.schema;
    ASSERT_NE(json.problem().reason, nullptr) << r.schema;
    EXPECT_NE(std::string(json.problem().reason).find(r.reason), std::string::npos)
        << r.schema << ": " << json.problem().reason;
    EXPECT_EQ(json.problem().offset, r.offset) << r.schema << ": " << json.problem().reason;
  }
}

std::string repeated(std::string_view text, size_t n) {
  std::string out;
  for (size_t i = 0; i < n; ++i) out += text;
  return out;
}

TEST(JsonSchema, HostileOnesEndSoonWithAStatus) {
  const std::string schemas[] = {
      repeated("[", 100000),
      repeated("{\"items\":", 60) + "{}" + repeated("}", 60),
      "{\"enum\":[" + repeated("\"abcdefgh\",", 80000) + "1]}",
      "{\"anyOf\":[" + repeated("{\"type\":\"null\"},", 60000) + "true]}",
      "{\"anyOf\":[" + repeated("{\"anyOf\":[false]},", 50000) + "true]}",
      "{\"type\":\"string\",\"maxLength\":2147483647,\"minLength\":2147483647}",
      "{\"type\":\"array\",\"minItems\":2147483647}",
      "{\"type\":\"object\",\"required\":[" + repeated("\"a\",", 200000) + "\"b\"]}",
      "{\"pattern\":\"" + repeated("(a|", 15) + repeated(")", 15) + "\"}",
      "{\"pattern\":\"^(((a{0,9}){0,5}){0,5})$\"}",
      "{\"pattern\":\"" + repeated("a*", 120) + "\"}",
      std::string("{\"a\0\":1}", 8),
      std::string(1 << 20, ' ') + "{}",
      repeated("{\"a\":", 70) + "1" + repeated("}", 70),
  };
  MadeVocabulary made(TokenizerKind::kByteLevelBpe);
  const cria_model* const model = made.model();
  for (const std::string& schema : schemas) {
    JsonOfModel json(model, schema);
    if (json.status() != CRIA_OK) {
      EXPECT_NE(json.problem().reason, nullptr) << schema.substr(0, 60);
      continue;
    }
    cria_json_state state;
    ASSERT_EQ(cria_json_begin(json.get(), &state), CRIA_OK);
    EXPECT_FALSE(allowed_of(&json, model, state).empty());
  }
}

// Alternatives of oneOf that take long to hold against each other: many, or with many names and
// constants that nearly all are shared.
TEST(JsonSchema, WhatOneOfComparesIsBounded) {
  const auto list_of = [](size_t n, const auto& of) {
    std::string out;
    for (size_t i = 0; i < n; ++i) out += (i > 0 ? "," : "") + of(i);
    return out;
  };
  const auto tagged = [&](size_t n_options, size_t n_names, size_t n_constants) {
    const auto constants = [&](size_t parity) {
      return "{\"enum\":[" +
             list_of(n_constants,
                     [&](size_t i) { return "\"" + std::to_string(2 * i + parity) + "\""; }) +
             ",\"~\"]}";
    };
    const auto option = [&](size_t o) {
      const auto name = [&](size_t i) { return "\"p" + std::to_string(i) + "\""; };
      return R"({"type":"object","properties":{)" +
             list_of(n_names,
                     [&](size_t i) {
                       return name(i) + R"(:{"$ref":"#/$defs/)" + (o % 2 == 0 ? "a" : "b") + "\"}";
                     }) +
             R"(,"q":{"const":")" + std::to_string(o) + R"("}},"required":["q",)" +
             list_of(n_names, name) + "]}";
    };
    return R"({"$defs":{"a":)" + constants(0) + R"(,"b":)" + constants(1) + R"(},"oneOf":[)" +
           list_of(n_options, option) + "]}";
  };
  const auto of_nothing = [&](size_t n) {
    return "{\"oneOf\":[" + list_of(n, [](size_t) { return std::string("false"); }) + ",true]}";
  };
  MadeVocabulary made(TokenizerKind::kByteLevelBpe);
  for (const std::string& schema : {tagged(16, 10, 100), of_nothing(2000)}) {
    JsonOfModel json(made.model(), schema);
    EXPECT_EQ(json.status(), CRIA_OK) << json.problem().reason;
  }
  for (const std::string& schema : {tagged(64, 30, 2000), of_nothing(12000)}) {
    JsonOfModel json(made.model(), schema);
    EXPECT_EQ(json.status(), CRIA_TEXT_TOO_LONG);
    EXPECT_STREQ(json.problem().keyword, "oneOf");
    EXPECT_NE(std::string(json.problem().reason).find("too long"), std::string::npos);
  }
}

// Else the references of so many would be more than are looked up.
TEST(JsonSchema, AReferenceIsReadOnceHoweverManyLeadToIt) {
  std::string schema = R"({"type":"object","properties":{)";
  for (int i = 0; i < 1000; ++i) {
    schema += "\"p" + std::to_string(i) + R"(":{"$ref":"#/$defs/r0"},)";
  }
  schema += R"("p":true},"$defs":{)";
  for (int i = 0; i < 50; ++i) {
    const std::string next = std::to_string(i + 1);
    schema += "\"r" + std::to_string(i) + R"(":{"$ref":"#/$defs/r)" + next + "\"},";
  }
  schema += R"("r50":{"type":"null"}}})";
  MadeVocabulary made(TokenizerKind::kByteLevelBpe);
  JsonOfModel json(made.model(), schema);
  ASSERT_EQ(json.status(), CRIA_OK) << json.problem().reason;
  cria_json_state state;
  ASSERT_EQ(cria_json_begin(json.get(), &state), CRIA_OK);
  for (const char c : std::string_view(R"({"p0":null,"p999":)")) {
    ASSERT_EQ(cria_json_accept(json.get(), &state, static_cast<uint8_t>(c)), CRIA_OK);
  }
  EXPECT_EQ(cria_json_accept(json.get(), &state, '1'), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_json_accept(json.get(), &state, 'n'), CRIA_OK);
}

TEST(JsonSchema, TakesItsMemoryToTheByte) {
  MadeVocabulary made(TokenizerKind::kByteLevelBpe);
  const cria_model* const model = made.model();
  JsonOfModel json(model, R"({"type":"array"})");
  test::AlignedMemory less(json.json_bytes());
  cria_json* made_json = nullptr;
  const std::string schema = R"({"type":"array"})";
  EXPECT_EQ(cria_json_make(less.data(), less.size() - 1, json.vocabulary(), schema.data(),
                           schema.size(), &made_json, nullptr),
            CRIA_MEMORY_TOO_SMALL);
  EXPECT_EQ(made_json, nullptr);
  EXPECT_EQ(cria_json_make(static_cast<char*>(less.data()) + 8, less.size() - 8, json.vocabulary(),
                           schema.data(), schema.size(), &made_json, nullptr),
            CRIA_MISALIGNED);
}

}  // namespace
}  // namespace cria::json
