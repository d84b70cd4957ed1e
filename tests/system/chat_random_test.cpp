// Random conversations, two of each: whatever is refused, stopped, taken back, said differently,
// read ahead, saved and loaded, what follows has the bits of a conversation that never had it.
#include <cria_chat.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "converter/chat_template/named_templates.h"
#include "converter/convert.h"
#include "tests/support/long_under_asan.h"
#include "tests/support/model_files.h"
#include "tests/support/model_surgery.h"
#include "tests/support/sampling_of.h"
#include "tests/support/seeds.h"
#include "tests/support/tiny_checkpoint.h"
#include "tests/system/chat_driver.h"

namespace cria {
namespace {

using test::Bytes;
using test::Chat;

#ifdef CRIA_TEST_HAS_ASAN
constexpr int kConversations = 4;
#else
constexpr int kConversations = 30;
#endif
constexpr int kSteps = 12;

// Models ------------------------------------------------------------------------------------------

Bytes demo(std::string_view chat_template, format::NumberFormat weights) {
  converter::Options options;
  options.model = test::demo_folder();
  options.output = test::temporary_folder() / "random.cria";
  options.weights = weights;
  options.group_size = weights == format::NumberFormat::kInt4 ? 32 : 0;
  options.compression = format::Compression::kStored;
  options.verbosity = converter::Verbosity::kQuiet;
  if (!chat_template.empty()) {
    options.chat_template = {converter::find_named_template(chat_template).value(), ""};
  }
  converter::Progress progress(options.verbosity);
  static_cast<void>(converter::convert(options, &progress));
  return test::read_file(options.output);
}

Bytes with_window(Bytes file, uint32_t window) {
  test::set_sliding_window(file, window);
  return file;
}

struct Model {
  std::string name;
  Bytes file;
  uint32_t window = 0;
};

const std::vector<Model>& models() {
  static const std::vector<Model> all = [] {
    constexpr auto kInt4 = format::NumberFormat::kInt4;
    std::vector<Model> made;
    for (const char* name : {"chatml", "llama2", "zephyr", "alpaca", "qwen3", "mistral"}) {
      made.push_back({name, demo(name, kInt4), 0});
    }
    const Bytes own = demo("", kInt4);
    made.push_back({"own", own, 0});
    made.push_back({"own, int8", demo("", format::NumberFormat::kInt8), 0});
    for (const uint32_t window : {16U, 48U, 128U}) {
      made.push_back({"own, window " + std::to_string(window), with_window(own, window), window});
    }
    const auto folder = test::temporary_folder() / "lfm2";
    test::write_tiny_lfm2(folder, 512);
    for (const char* text : {"", test::kThinkingTemplate}) {
      made.push_back({*text == 0 ? "lfm2" : "lfm2 that drops thinking",
                      test::convert_folder(folder, {.weights = kInt4,
                                                    .group_size = 32,
                                                    .compression = format::Compression::kStored,
                                                    .tokenizer = true,
                                                    .chat_template = text}),
                      0});
    }
    return made;
  }();
  return all;
}

// Conversations -----------------------------------------------------------------------------------

class Random {
 public:
  explicit Random(uint32_t seed) : engine_(seed) {}
  uint32_t operator()() { return static_cast<uint32_t>(engine_()); }

 private:
  std::mt19937 engine_;
};

template <typename T>
T one_of(Random* random, std::initializer_list<T> values) {
  return *(values.begin() + (*random)() % values.size());
}
bool chance(Random* random, uint32_t percent) { return (*random)() % 100 < percent; }

int looks_left = 0;  // of the hook, until it cancels; 0: it does not
int cancel_at_last_look(void*, uint64_t, uint64_t) {
  return looks_left > 0 && --looks_left == 0 ? 1 : 0;
}

// How a conversation is held.
struct Setting {
  const Model* model;
  cria_chat_config chat;
  cria_config session;
  std::string system;
  uint32_t limit;
  [[nodiscard]] std::unique_ptr<Chat> begin() const {
    auto made = std::make_unique<Chat>(model->file, limit, chat, session);
    made->begin(system);
    return made;
  }
  [[nodiscard]] std::string text() const {
    return model->name + ", context " + std::to_string(session.context) + ", exact " +
           std::to_string(chat.exact_context) + ", messages " + std::to_string(chat.max_messages) +
           ", limit " + std::to_string(limit) + ", threads " + std::to_string(session.n_threads) +
           ", kv " + std::to_string(session.kv_format) + ", system '" + system + "'";
  }
};

Setting random_setting(Random* random) {
  Setting s = {};
  s.model = &models()[(*random)() % models().size()];
  s.chat.exact_context = chance(random, 30) ? 1 : 0;
  s.chat.max_messages = one_of(random, {0U, 0U, 6U, 8U});
  s.session = test::config_with(one_of(random, {64U, 96U, 128U, 200U, 256U}), cancel_at_last_look);
  s.session.n_threads = one_of(random, {1U, 1U, 2U});
  s.session.kv_format = one_of(random, {CRIA_KV_INT8, CRIA_KV_F32, CRIA_KV_K8V4});
  s.session.prefill_chunk = one_of(random, {0U, 8U});
  s.session.n_snapshots = one_of(random, {0U, 1U, 5U, CRIA_NO_SNAPSHOTS});
  s.system = one_of<const char*>(random, {"", "", "You are kind."});
  s.limit = one_of(random, {1U, 8U, 20U, 60U});
  return s;
}

enum class Way { kNew, kAgain, kInstead };
struct Question {
  Way way;
  std::string text;
  uint32_t limit;
  uint32_t most_pieces;  // then it is stopped
};

Question random_question(Random* random, uint32_t limit) {
  std::string text = one_of<const char*>(
      random, {"Hello", "Tell a story.", "What is a token?", "What is 3 + 4?", "", "", ""});
  if (text.empty()) {
    for (uint32_t n = one_of(random, {5U, 20U, 40U}); n > 0; --n) text += "llama ";
  }
  const Way way = chance(random, 70) ? Way::kNew : one_of(random, {Way::kAgain, Way::kInstead});
  const uint32_t most = chance(random, 80) ? UINT32_MAX : (*random)() % 6;
  return {way, std::move(text), limit, most};
}

// What was answered, and the logits after the question.
struct Asked {
  cria_status status = CRIA_OK;
  std::string text;
  std::vector<float> logits;
  uint32_t n_pieces = 0;
  uint32_t most_pieces = 0;
  cria_session* session = nullptr;
  uint32_t vocab_size = 0;
  cria_chat_result result = {};
  bool operator==(const Asked& other) const {
    return status == other.status && text == other.text && logits.size() == other.logits.size() &&
           std::memcmp(logits.data(), other.logits.data(), logits.size() * sizeof(float)) == 0;
  }
};

int take(void* context, uint32_t, const char* piece, size_t n_bytes) {
  auto* const to = static_cast<Asked*>(context);
  const float* const logits = cria_logits(to->session);
  if (to->n_pieces == 0 && logits != nullptr) to->logits.assign(logits, logits + to->vocab_size);
  to->text.append(piece, n_bytes);
  return ++to->n_pieces > to->most_pieces ? 1 : 0;
}

Asked ask(Chat* chat, const Question& question) {
  Asked asked;
  asked.session = chat->session().session();
  asked.vocab_size = cria_vocab_size(chat->session().model());
  asked.most_pieces = question.most_pieces;
  cria_chat_options options = {};
  options.max_tokens = question.limit;
  options.on_text = take;
  options.context = &asked;
  const bool is_new = question.way != Way::kAgain;
  const auto call = question.way == Way::kInstead ? cria_chat_answer_instead : cria_chat_answer;
  asked.status =
      call(chat->get(), chat->session().workspace(), is_new ? question.text.data() : nullptr,
           is_new ? question.text.size() : 0, &options, &asked.result);
  return asked;
}

void keep(Chat* chat, size_t n) { ASSERT_EQ(cria_chat_keep(chat->get(), n), CRIA_OK); }

void reload(Chat* chat) {
  const std::vector<uint8_t> saved = chat->saved();
  ASSERT_EQ(cria_chat_load(chat->get(), saved.data(), saved.size()), CRIA_OK);
  EXPECT_TRUE(chat->saved() == saved);
}

void read_ahead(Chat* chat, uint32_t limit, uint32_t most) {
  uint32_t n_read = 0;
  ASSERT_EQ(cria_chat_read_ahead(chat->get(), chat->session().workspace(), limit, most, &n_read),
            CRIA_OK);
  EXPECT_LE(n_read, most);
}

// As `/save` of a chat does it: whatever has to be read is, what stands after the last answer is
// not.
std::vector<uint8_t> saved_as_it_is(Chat* chat) {
  read_ahead(chat, 20, 1000);
  keep(chat, cria_chat_n_messages(chat->get()));
  return chat->saved();
}

// A question that is taken back while it is read or answered.
void abandon(Chat* chat, const Question& question, uint32_t n_steps) {
  cria_workspace* const w = chat->session().workspace();
  const bool is_new = question.way != Way::kAgain;
  cria_batch_entry entry = {};
  if (cria_chat_ask(chat->get(), w, is_new ? question.text.data() : nullptr,
                    is_new ? question.text.size() : 0, question.limit, &entry) != CRIA_OK) {
    return;
  }
  cria_chat_piece piece = {};
  const cria_sampling greedy = {};
  for (uint32_t i = 0; i < n_steps && piece.is_last == 0; ++i) {
    ASSERT_EQ(cria_step(w, &entry, 1), CRIA_OK);
    if (i + 1 == n_steps) break;
    ASSERT_EQ(cria_chat_next(chat->get(), w, &greedy, &piece, &entry), CRIA_OK);
  }
  if (piece.is_last == 0) cria_chat_abandon(chat->get());
}

// Two of a setting. What they are told both goes through say, which ends where they differ.
class Pair {
 public:
  Pair(const Setting& s, Random* r) : setting(s), one(s.begin()), other(s.begin()), random(r) {}

  void note(const std::string& what) { log_ += " " + what + ";"; }
  std::string noted(const Question& question) {
    const char* const ways[] = {"ask", "ask again", "ask instead"};
    std::string text = ways[static_cast<int>(question.way)];
    text += " '" + question.text.substr(0, 12) + "' " + std::to_string(question.limit);
    if (question.most_pieces != UINT32_MAX) text += "/" + std::to_string(question.most_pieces);
    return text;
  }
  // The same question, or taking back, of both.
  void say() {
    if (may_differ()) return;
    if (chance(random, 15)) {
      const size_t n = cria_chat_n_messages(one->get());
      const size_t n_kept = n - std::min<size_t>(n, (*random)() % 6);
      note("keep " + std::to_string(n_kept));
      keep(one.get(), n_kept);
      keep(other.get(), n_kept);
    }
    const Question question = random_question(random, some_limit());
    if (question.way != Way::kInstead && chance(random, 10)) {
      const uint32_t n_steps = (*random)() % 6;
      note(noted(question) + ", taken back after " + std::to_string(n_steps));
      abandon(one.get(), question, n_steps);
      abandon(other.get(), question, n_steps);
      return;
    }
    note(noted(question));
    const Asked first = ask(one.get(), question);
    compare(first, ask(other.get(), question));
  }
  void compare(const Asked& first, const Asked& second) {
    if (may_differ()) return;
    EXPECT_EQ(one->text(), other->text()) << log_;
    EXPECT_TRUE(first == second) << "'" << first.text << "' '" << second.text << "'" << log_;
  }
  void expect_same_file() {
    const size_t n = cria_chat_n_messages(one->get());
    if (may_differ() || (n > 0 && cria_chat_message(one->get(), n - 1).role == CRIA_USER)) return;
    note("save");
    EXPECT_TRUE(saved_as_it_is(one.get()) == saved_as_it_is(other.get())) << log_;
  }
  uint32_t some_limit() { return chance(random, 80) ? setting.limit : one_of(random, {1U, 30U}); }
  // Exchanges left one of them alone, or one by one, or after a reading that was given up.
  bool may_differ() const {
    const uint64_t n = cria_chat_n_dropped(one->get());
    return n != cria_chat_n_dropped(other->get()) || (ends_with_drops && n > 0);
  }

  const Setting& setting;
  const std::string& log() const { return log_; }

  std::unique_ptr<Chat> one;
  std::unique_ptr<Chat> other;
  Random* random;
  bool ends_with_drops = false;

 private:
  std::string log_;
};

template <typename Step>
void converse(uint32_t seed, const Step& step) {
  for (int i = 0; i < kConversations; ++i) {
    Random random(seed * 1000 + static_cast<uint32_t>(i));
    const Setting setting = random_setting(&random);
    SCOPED_TRACE("conversation " + std::to_string(i) + ": " + setting.text());
    Pair pair(setting, &random);
    for (int k = 0; k < kSteps && !pair.may_differ(); ++k) {
      step(&pair);
      if (::testing::Test::HasFailure()) return;
    }
  }
}

TEST(ChatRandom, ReadingAheadChangesNoBit) {
  test::for_each_seed({1}, [](uint32_t seed) {
    converse(seed, [](Pair* pair) {
      if (chance(pair->random, 50)) {
        const uint32_t most = one_of(pair->random, {1U, 3U, 7U, 1000U});
        pair->note("ahead " + std::to_string(most));
        read_ahead(pair->one.get(), one_of(pair->random, {1U, 20U, 100U}), most);
      }
      pair->say();
      if (chance(pair->random, 20)) pair->expect_same_file();
    });
  });
}

TEST(ChatRandom, SavingAndLoadingChangesNoBit) {
  test::for_each_seed({2}, [](uint32_t seed) {
    converse(seed, [](Pair* pair) {
      if (chance(pair->random, 35)) {
        pair->note("reload");
        reload(pair->one.get());
      }
      pair->say();
    });
  });
}

// The session holds more than what is saved where messages were taken back.
TEST(ChatRandom, SavingAloneChangesNoBit) {
  test::for_each_seed({9}, [](uint32_t seed) {
    converse(seed, [](Pair* pair) {
      const size_t n = cria_chat_n_messages(pair->one->get());
      if (chance(pair->random, 40)) {
        const size_t n_kept = n - std::min<size_t>(n, 2 * ((*pair->random)() % 4));
        pair->note("keep " + std::to_string(n_kept));
        keep(pair->one.get(), n_kept);
        keep(pair->other.get(), n_kept);
      }
      pair->note("save");
      EXPECT_FALSE(pair->one->saved().empty());
      pair->say();
    });
  });
}

// A chat of the setting that others kept so far.
std::unique_ptr<Chat> with_messages(const Setting& setting, const std::vector<cria_message>& all) {
  std::unique_ptr<Chat> chat = setting.begin();
  chat->begin("");
  for (const cria_message& m : all) {
    EXPECT_EQ(m.role == CRIA_SYSTEM ? cria_chat_begin(chat->get(), m.text, m.n_bytes)
                                    : cria_chat_add(chat->get(), m.role, m.text, m.n_bytes),
              CRIA_OK);
  }
  return chat;
}

TEST(ChatRandom, WhatIsTakenBackWasNeverSaid) {
  int n_left = 0;
  test::for_each_seed({3, 13836}, [&](uint32_t seed) {
    converse(seed, [&](Pair* pair) {
      Chat* const chat = pair->one.get();
      const size_t n_before = cria_chat_n_messages(chat->get());
      const uint64_t n_dropped = cria_chat_n_dropped(chat->get());
      size_t n_added = 0;
      for (uint32_t n_more = (*pair->random)() % 4; n_more > 0; --n_more) {
        Question question = random_question(pair->random, pair->some_limit());
        if (n_added == 0) question.way = Way::kNew;
        pair->note("for nothing " + pair->noted(question));
        const bool is_said = ask(chat, question).status == CRIA_OK;
        if (is_said && question.way == Way::kNew) n_added += 2;
      }
      if (cria_chat_n_dropped(chat->get()) == n_dropped) {
        keep(chat, n_before);
        pair->expect_same_file();
        return pair->say();
      }
      // Nobody else has what is left but who was told it.
      const size_t n_system = chat->messages()[0].role == CRIA_SYSTEM ? 1 : 0;
      const size_t n = cria_chat_n_messages(chat->get());
      keep(chat, std::max(n_system, n - std::min(n, n_added)));
      pair->other = with_messages(pair->setting, chat->messages());
      ++n_left;
      const Question question = {Way::kNew, "Hello", pair->setting.limit, UINT32_MAX};
      const Asked first = ask(chat, question);
      const Asked second = ask(pair->other.get(), question);
      EXPECT_TRUE(first == second)
          << "'" << first.text << "' '" << second.text << "'" << pair->log();
    });
  });
  EXPECT_GT(n_left, kConversations / 10);
}

// As `/reset` and `/system` do it, and whoever keeps no message.
TEST(ChatRandom, BegunAnewNothingWasSaidBefore) {
  test::for_each_seed({4}, [](uint32_t seed) {
    converse(seed, [](Pair* pair) {
      for (int i = 0; i < 4; ++i) {
        const Question question = random_question(pair->random, pair->some_limit());
        pair->note("before " + pair->noted(question));
        static_cast<void>(ask(pair->one.get(), question));
        if (chance(pair->random, 20)) read_ahead(pair->one.get(), 20, 1000);
      }
      pair->other = pair->setting.begin();
      if (chance(pair->random, 50)) {
        pair->one->begin(pair->setting.system);
      } else {
        keep(pair->one.get(), pair->setting.system.empty() ? 0 : 1);
      }
      pair->expect_same_file();
      for (int i = 0; i < 2; ++i) {
        const Question question = random_question(pair->random, pair->some_limit());
        pair->note("after " + pair->noted(question));
        const Asked first = ask(pair->one.get(), question);
        const Asked second = ask(pair->other.get(), question);
        ASSERT_TRUE(first == second) << "'" << first.text << "' '" << second.text << "'";
      }
      pair->expect_same_file();
    });
  });
}

// Another answer, or another question in its place: the first was never there.
TEST(ChatRandom, WhatMakesWayWasNeverSaid) {
  test::for_each_seed({5}, [](uint32_t seed) {
    converse(seed, [](Pair* pair) {
      const Question first = random_question(pair->random, pair->some_limit());
      Question second = random_question(pair->random, pair->some_limit());
      const uint64_t n_dropped = cria_chat_n_dropped(pair->one->get());
      pair->note("for nothing " + pair->noted(first));
      const Asked made_way = ask(pair->one.get(), {Way::kNew, first.text, first.limit, 7});
      // What was dropped for it does not come back.
      if (made_way.status != CRIA_OK || cria_chat_n_dropped(pair->one->get()) != n_dropped) {
        pair->ends_with_drops = true;
        return;
      }
      second.way = one_of(pair->random, {Way::kAgain, Way::kInstead});
      pair->note(pair->noted(second));
      const Asked one = ask(pair->one.get(), second);
      if (second.way == Way::kAgain) second.text = first.text;
      second.way = Way::kNew;
      const Asked other = ask(pair->other.get(), second);
      if (one.status == CRIA_OK) return pair->compare(one, other);
      EXPECT_EQ(one.status, other.status);
      keep(pair->one.get(), cria_chat_n_messages(pair->one->get()) - 2);
      pair->say();
    });
  });
}

// Every call with every way it can fail between answers, but by the hook. Not a byte changes.
void fail(const Setting& setting, Chat* chat) {
  cria_workspace* const w = chat->session().workspace();
  const std::vector<uint8_t> before = chat->saved();
  const uint64_t n_read = cria_chat_n_read(chat->get());
  const auto expect_unchanged = [&](const char* what) {
    EXPECT_TRUE(chat->saved() == before) << what;
    EXPECT_EQ(cria_chat_n_read(chat->get()), n_read) << what;
  };
  const uint32_t context = cria_context(chat->session().session());
  std::string too_many;
  for (uint32_t i = 0; i < context; ++i) too_many += "llama ";
  const std::string too_long(1 << 20, 'x');
  for (const Way way : {Way::kNew, Way::kInstead}) {
    EXPECT_NE(ask(chat, {way, too_many, setting.limit, 9}).status, CRIA_OK);
    expect_unchanged("too many tokens");
    EXPECT_NE(ask(chat, {way, too_long, setting.limit, 9}).status, CRIA_OK);
    expect_unchanged("too long");
  }
  const cria_sampling wrong = test::sampling_of(-1.0f, 1.0f, 0.0f, 1.0f, 0);
  const cria_sampling greedy = {};
  cria_chat_options options = {};
  options.sampling = wrong;
  cria_chat_result result = {};
  EXPECT_EQ(cria_chat_answer(chat->get(), w, "a", 1, &options, &result), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_chat_answer(chat->get(), nullptr, "a", 1, &options, &result),
            CRIA_INVALID_ARGUMENT);
  expect_unchanged("no sampling");
  cria_chat_piece piece = {};
  cria_batch_entry entry = {};
  EXPECT_EQ(cria_chat_next(chat->get(), w, &greedy, &piece, &entry), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_chat_keep(chat->get(), cria_chat_n_messages(chat->get()) + 1),
            CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_chat_begin(chat->get(), too_long.data(), too_long.size()), CRIA_TEXT_TOO_LONG);
  EXPECT_EQ(cria_chat_add(chat->get(), CRIA_USER, too_long.data(), too_long.size()),
            CRIA_TEXT_TOO_LONG);
  EXPECT_EQ(cria_chat_add(chat->get(), CRIA_SYSTEM, "a", 1), CRIA_INVALID_ARGUMENT);
  uint32_t n = 0;
  EXPECT_EQ(cria_chat_read_ahead(chat->get(), w, 0, 0, &n), CRIA_INVALID_ARGUMENT);
  expect_unchanged("other calls");
  std::vector<uint8_t> copy = before;
  EXPECT_EQ(cria_chat_save(chat->get(), copy.data(), copy.size() - 1), CRIA_BUFFER_TOO_SMALL);
  for (const size_t place : {size_t{0}, size_t{20}, copy.size() / 2, copy.size() - 1}) {
    copy[place] ^= 0x40;
    EXPECT_NE(cria_chat_load(chat->get(), copy.data(), copy.size()), CRIA_OK) << place;
    copy[place] ^= 0x40;
  }
  EXPECT_EQ(cria_chat_load(chat->get(), copy.data(), copy.size() - 1), CRIA_BAD_STATE);
  expect_unchanged("files");
}

TEST(ChatRandom, WhatIsRefusedChangesNothing) {
  test::for_each_seed({6}, [](uint32_t seed) {
    converse(seed, [](Pair* pair) {
      if (chance(pair->random, 40)) {
        pair->note("fail");
        fail(pair->setting, pair->one.get());
      }
      pair->say();
    });
  });
}

// Calls that fail while an answer is made, at each of its stages.
TEST(ChatRandom, WhatIsRefusedAmidAnAnswerChangesNothing) {
  test::for_each_seed({7}, [](uint32_t seed) {
    converse(seed, [](Pair* pair) {
      pair->say();
      Chat* const chat = pair->one.get();
      cria_workspace* const w = chat->session().workspace();
      cria_batch_entry entry = {};
      if (cria_chat_ask(chat->get(), w, "Hello", 5, 6, &entry) != CRIA_OK) return;
      std::string text;
      cria_chat_piece piece = {};
      const cria_sampling greedy = {};
      const cria_sampling wrong = test::sampling_of(-1.0f, 1.0f, 0.0f, 1.0f, 0);
      while (piece.is_last == 0) {
        cria_batch_entry ignored = {};
        cria_chat_piece none = {};
        uint32_t n = 0;
        uint8_t byte = 0;
        EXPECT_EQ(cria_chat_next(chat->get(), w, &greedy, &none, &ignored), CRIA_INVALID_ARGUMENT);
        EXPECT_EQ(cria_chat_keep(chat->get(), 0), CRIA_INVALID_ARGUMENT);
        EXPECT_EQ(cria_chat_add(chat->get(), CRIA_USER, "a", 1), CRIA_INVALID_ARGUMENT);
        EXPECT_EQ(cria_chat_read_ahead(chat->get(), w, 0, 9, &n), CRIA_INVALID_ARGUMENT);
        EXPECT_EQ(cria_chat_save(chat->get(), &byte, 1), CRIA_INVALID_ARGUMENT);
        EXPECT_EQ(cria_chat_load(chat->get(), &byte, 1), CRIA_INVALID_ARGUMENT);
        EXPECT_EQ(cria_chat_ask(chat->get(), w, "b", 1, 6, &ignored), CRIA_INVALID_ARGUMENT);
        ASSERT_EQ(cria_step(w, &entry, 1), CRIA_OK);
        EXPECT_EQ(cria_chat_next(chat->get(), w, &wrong, &none, &ignored), CRIA_INVALID_ARGUMENT);
        ASSERT_EQ(cria_chat_next(chat->get(), w, &greedy, &piece, &entry), CRIA_OK);
        text.append(piece.text, piece.n_bytes);
      }
      EXPECT_EQ(ask(pair->other.get(), {Way::kNew, "Hello", 6, UINT32_MAX}).text, text);
    });
  });
}

// What a window has passed cannot be computed again with dropped exchanges in sight.
TEST(ChatRandom, ModelsWithAShortWindowReadAgainUnasked) {
  int n_dropped = 0;
  test::for_each_seed({9}, [&](uint32_t seed) {
    for (const Model& model : models()) {
      if (model.window == 0) continue;
      Random random(seed);
      Setting setting = random_setting(&random);
      setting.model = &model;
      setting.session.context = std::max(96U, model.window);
      setting.chat = {};
      Pair pair(setting, &random);
      setting.chat.exact_context = 1;
      pair.other = setting.begin();
      for (int i = 0; i < kSteps; ++i) pair.say();
      n_dropped += static_cast<int>(cria_chat_n_dropped(pair.one->get()));
    }
  });
  EXPECT_GT(n_dropped, 3);
}

// The hook cancels while a question, or what comes before it, is read. Whatever was to be read
// again for it may have to be read again for the next one, as the same tokens.
TEST(ChatRandom, WhatIsCancelledChangesNothing) {
  int n_cancelled = 0;
  test::for_each_seed({8}, [&](uint32_t seed) {
    converse(seed, [&](Pair* pair) {
      const Setting& setting = pair->setting;
      const uint32_t window = setting.model->window;
      const bool slides = window != 0 && window <= setting.session.context;
      pair->ends_with_drops = setting.chat.exact_context == 0 && !slides;
      Chat* const chat = pair->one.get();
      constexpr uint32_t kLayers = 5;
      looks_left = static_cast<int>(1 + (*pair->random)() % kLayers);
      if (chance(pair->random, 30)) {
        uint32_t n_read = 0;
        pair->note("cancel ahead");
        static_cast<void>(
            cria_chat_read_ahead(chat->get(), chat->session().workspace(), 20, 9, &n_read));
      } else {
        const std::string before = chat->text();
        const Question question = random_question(pair->random, pair->some_limit());
        pair->note("cancel " + pair->noted(question));
        const Asked asked = ask(chat, question);
        EXPECT_NE(asked.status, CRIA_OK);
        n_cancelled += asked.status == CRIA_CANCELLED ? 1 : 0;
        if (cria_chat_n_dropped(chat->get()) == cria_chat_n_dropped(pair->other->get())) {
          EXPECT_EQ(chat->text(), before);
        }
      }
      looks_left = 0;
      pair->say();
    });
  });
  EXPECT_GT(n_cancelled, kConversations);
}

}  // namespace
}  // namespace cria
