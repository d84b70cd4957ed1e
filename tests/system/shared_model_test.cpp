// One model, used by several threads at once and without its weights.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <iterator>
#include <memory>
#include <thread>

#include "tests/support/model_files.h"
#include "tests/support/model_surgery.h"
#include "tests/support/plain_chat.h"
#include "tests/support/sampling_of.h"
#include "tests/support/test_sessions.h"
#include "tests/system/tiny_chat_model.h"

namespace cria {
namespace {

using test::Access;
using test::Bytes;
using test::MemorySource;

class SharedModel : public testing::TestWithParam<cria_backend> {};

// A session and a workspace of a model, with threads of their own.
class Worker {
 public:
  Worker(const cria_model* model, const cria_model_info& info, cria_config config)
      : pool_(config.n_threads, hosted::FewerThreads::kAreRefused), model_(model) {
    config.parallel_for = pool_.hook();
    config.parallel_context = pool_.context();
    const cria_memory_plan plan = test::planned(info, config);
    of_session_ = std::make_unique<test::AlignedMemory>(plan.session.total);
    of_workspace_ = std::make_unique<test::AlignedMemory>(plan.workspace.total);
    test::need(cria_start(of_session_->data(), of_session_->size(), model, &config, &session_));
    test::need(cria_make_workspace(of_workspace_->data(), of_workspace_->size(), model, &config,
                                   &workspace_));
  }

  // Text in, tokens and text out. Statuses are counted, as threads are not GoogleTest's.
  std::vector<uint8_t> converse(const char* text, uint64_t seed) {
    uint32_t tokens[64];
    size_t n = 0;
    const cria_message message = {CRIA_USER, text, std::strlen(text)};
    cria_seed(session_, seed);
    expect(test::encode_chat(workspace_, &message, 1, 0, 1, tokens, std::size(tokens), &n));
    expect(cria_prefill(workspace_, session_, tokens, n));
    const cria_sampling sampling = test::sampling_of(1.0f, 0.95f, 0.02f, 1.1f, 0);
    cria_text_state stream = {};
    std::string said;
    for (int i = 0; i < 10; ++i) {
      uint32_t token = 0;
      char out[CRIA_TEXT_BYTES];
      expect(cria_sample(workspace_, session_, &sampling, &token));
      expect(cria_decode_token(model_, &stream, token, out, sizeof out, &n));
      said.append(out, n);
      expect(cria_prefill(workspace_, session_, &token, 1));
    }
    std::vector<uint8_t> left(cria_state_size(session_));
    expect(cria_state_save(session_, left.data(), left.size()));
    left.insert(left.end(), said.begin(), said.end());
    expect(cria_reset(session_, 0));
    return left;
  }
  [[nodiscard]] size_t n_failed() const { return n_failed_; }

 private:
  void expect(cria_status status) { n_failed_ += status == CRIA_OK ? 0 : 1; }

  hosted::ThreadPool pool_;
  const cria_model* model_;
  std::unique_ptr<test::AlignedMemory> of_session_;
  std::unique_ptr<test::AlignedMemory> of_workspace_;
  cria_session* session_ = nullptr;
  cria_workspace* workspace_ = nullptr;
  size_t n_failed_ = 0;
};

TEST_P(SharedModel, IsUsedByThreadsAtTheSameTime) {
  constexpr const char* kTexts[] = {"the llama", "a cria eats hay and grass", "why?"};
  constexpr size_t kWorkers = std::size(kTexts);
  constexpr int kRounds = 3;
  for (const Access access : {Access::kRead, Access::kMap}) {
    const MemorySource source(test::tiny_model(), access);
    cria_config config = {};
    config.backend = GetParam();
    config.prefill_chunk = 5;
    test::TestSession opened(source, config);
    const auto config_of = [&](size_t i) {
      cria_config c = opened.config();
      c.n_threads = static_cast<uint32_t>(1 + i % 2);
      return c;
    };
    std::vector<std::vector<uint8_t>> alone;
    for (size_t i = 0; i < kWorkers; ++i) {
      Worker worker(opened.model(), opened.info(), config_of(i));
      alone.push_back(worker.converse(kTexts[i], i));
      EXPECT_EQ(worker.n_failed(), 0u);
    }
    std::vector<std::unique_ptr<Worker>> workers;
    for (size_t i = 0; i < kWorkers; ++i) {
      workers.push_back(std::make_unique<Worker>(opened.model(), opened.info(), config_of(i)));
    }
    std::atomic<size_t> n_ready = 0;
    std::atomic<size_t> n_same = 0;
    std::vector<std::thread> threads;
    for (size_t i = 0; i < kWorkers; ++i) {
      threads.emplace_back([&, i] {
        ++n_ready;
        while (n_ready < kWorkers) std::this_thread::yield();
        for (int round = 0; round < kRounds; ++round) {
          n_same += workers[i]->converse(kTexts[i], i) == alone[i] ? 1 : 0;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(n_same, kWorkers * kRounds);
    for (const auto& worker : workers) EXPECT_EQ(worker->n_failed(), 0u);
  }
}

// Sessions and workspaces begin and go while others compute.
TEST_P(SharedModel, GetsSessionsWhileOthersCompute) {
  const MemorySource source(test::tiny_model());
  cria_config config = {};
  config.backend = GetParam();
  config.context = 60;
  test::TestSession opened(source, config);
  Worker worker(opened.model(), opened.info(), opened.config());
  const std::vector<uint8_t> alone = worker.converse("hay", 1);
  ASSERT_EQ(worker.n_failed(), 0u);
  std::atomic<size_t> n_wrong = 0;
  std::vector<std::thread> threads;
  for (size_t i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 3; ++round) {
        Worker fresh(opened.model(), opened.info(), opened.config());
        n_wrong += fresh.converse("hay", 1) == alone ? 0 : 1;
        n_wrong += fresh.n_failed();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(n_wrong, 0u);
}

INSTANTIATE_TEST_SUITE_P(Backends, SharedModel, testing::ValuesIn(test::built_backends()),
                         test::backend_label);

// Counts what is asked of the data section, where nobody may look.
class WatchedSource {
 public:
  WatchedSource(const Bytes& file, Access access) : memory_(file) {
    const std::span<const uint8_t> data =
        test::section_bytes(memory_.bytes(), format::SectionKind::kData);
    begin_ = static_cast<uint64_t>(data.data() - memory_.bytes().data());
    end_ = begin_ + data.size();
    source_ = {this, file.size(), nullptr, nullptr};
    if (access != Access::kRead) {
      source_.map = [](void* context, uint64_t offset, size_t n_bytes) -> const void* {
        return static_cast<WatchedSource*>(context)->at(offset, n_bytes);
      };
    }
    if (access != Access::kMap) {
      source_.read = [](void* context, uint64_t offset, void* destination, size_t n_bytes) {
        const uint8_t* from = static_cast<WatchedSource*>(context)->at(offset, n_bytes);
        if (n_bytes != 0) std::memcpy(destination, from, n_bytes);
        return 0;
      };
    }
    // Nothing could be made of what is there either.
    std::fill_n(memory_.bytes().begin() + static_cast<ptrdiff_t>(begin_), data.size(),
                uint8_t{0xff});
  }
  [[nodiscard]] const cria_source& source() const { return source_; }
  [[nodiscard]] size_t n_of_data() const { return n_of_data_; }
  [[nodiscard]] size_t n_calls() const { return n_calls_; }

 private:
  const uint8_t* at(uint64_t offset, size_t n_bytes) {
    ++n_calls_;
    if (offset < end_ && offset + n_bytes > begin_) ++n_of_data_;
    return memory_.bytes().data() + offset;
  }

  MemorySource memory_;
  uint64_t begin_;
  uint64_t end_;
  cria_source source_;
  size_t n_calls_ = 0;
  size_t n_of_data_ = 0;
};

// Everything that a model without weights can do.
struct Texts {
  std::vector<uint32_t> tokens;
  std::vector<uint32_t> chat;
  std::string decoded;
  bool operator==(const Texts&) const = default;
};

Texts texts_of(const cria_model* model, cria_workspace* workspace) {
  const char* text = "the llama \xf0\x9f\xa6\x99 eats <|eot_id|>";
  const cria_message messages[] = {{CRIA_SYSTEM, "be brief", 8},
                                   {CRIA_USER, text, std::strlen(text)}};
  Texts texts;
  size_t n = 0;
  texts.tokens.resize(200);
  EXPECT_EQ(cria_encode(workspace, text, std::strlen(text), CRIA_ENCODE_SPECIAL,
                        texts.tokens.data(), texts.tokens.size(), &n),
            CRIA_OK);
  texts.tokens.resize(n);
  texts.chat.resize(200);
  EXPECT_EQ(test::encode_chat(workspace, messages, std::size(messages), 0, 1, texts.chat.data(),
                              texts.chat.size(), &n),
            CRIA_OK);
  texts.chat.resize(n);
  cria_text_state state = {};
  state.show_special = 1;
  for (const uint32_t token : texts.chat) {
    char out[CRIA_TEXT_BYTES];
    EXPECT_EQ(cria_decode_token(model, &state, token, out, sizeof out, &n), CRIA_OK);
    texts.decoded.append(out, n);
  }
  EXPECT_GT(texts.tokens.size(), 10u);
  EXPECT_NE(texts.decoded.find("llama"), std::string::npos);
  return texts;
}

TEST(TextAlone, IsHadWithoutAByteOfTheData) {
  const Bytes files[] = {
      test::tiny_model(),
      test::convert_folder(test::temporary_folder() / "tiny",
                           {format::NumberFormat::kF32, 0, format::Compression::kZstd, true})};
  size_t opened = 0;
  for (const Bytes& file : files) {
    const MemorySource whole_source(file);
    test::TestSession whole(whole_source, {});
    const Texts want = texts_of(whole.model(), whole.workspace());
    for (const Access access : {Access::kRead, Access::kMap, Access::kBoth}) {
      for (const cria_backend backend : test::built_backends()) {
        const WatchedSource watched(file, access);
        cria_config config = {};
        config.backend = backend;
        config.text_only = 1;
        config.source_is_mapped = access != Access::kRead ? 1 : 0;
        const cria_memory_plan plan = test::planned(test::inspected(watched.source()), config);
        EXPECT_EQ(plan.session.total, 0u);
        EXPECT_EQ(plan.model.weights + plan.model.backend + plan.loading, 0u);
        EXPECT_LT(plan.total, whole.plan().total);
        test::AlignedMemory memory(plan.total);
        cria_instance cria = {};
        EXPECT_EQ(cria_open(memory.data(), memory.size() - 64, &watched.source(), &config, &cria),
                  CRIA_MEMORY_TOO_SMALL);
        ASSERT_EQ(cria_open(memory.data(), memory.size(), &watched.source(), &config, &cria),
                  CRIA_OK);
        EXPECT_EQ(test::bytes_of(cria), plan.total);
        EXPECT_EQ(cria.session, nullptr);
        EXPECT_TRUE(texts_of(cria.model, cria.workspace) == want);
        EXPECT_EQ(cria_vocab_size(cria.model), cria_vocab_size(whole.model()));
        for (uint32_t token = 0; token < cria_vocab_size(cria.model); ++token) {
          ASSERT_EQ(cria_is_end_token(cria.model, token), cria_is_end_token(whole.model(), token));
        }
        EXPECT_STREQ(cria_backend_name(cria.model),
                     backend == CRIA_BACKEND_EXACT ? "exact" : "xnnpack");
        EXPECT_GT(watched.n_calls(), 5u);
        EXPECT_EQ(watched.n_of_data(), 0u);
        ++opened;
      }
    }
  }
  EXPECT_EQ(opened, 6 * test::built_backends().size());
}

TEST(TextAlone, HasNoSession) {
  const MemorySource source(test::tiny_model());
  cria_config config = {};
  config.text_only = 1;
  test::TestSession text(source, config);
  test::TestSession whole(source, {});
  EXPECT_EQ(text.session(), nullptr);
  config.text_only = 0;
  const cria_memory_plan& plan = whole.plan();
  test::AlignedMemory of_session(plan.session.total);
  test::AlignedMemory of_workspace(plan.workspace.total);
  // Neither with the config of the model nor with that of one that has weights.
  for (const uint8_t text_only : {uint8_t{0}, uint8_t{1}}) {
    config.text_only = text_only;
    cria_session* session = whole.session();
    EXPECT_EQ(cria_start(of_session.data(), of_session.size(), text.model(), &config, &session),
              CRIA_NO_WEIGHTS);
    EXPECT_EQ(session, nullptr);
  }
  config.text_only = 0;
  cria_workspace* workspace = whole.workspace();
  EXPECT_EQ(cria_make_workspace(of_workspace.data(), of_workspace.size(), text.model(), &config,
                                &workspace),
            CRIA_NO_WEIGHTS);
  EXPECT_EQ(workspace, nullptr);
  // Nor does its workspace run the sessions of another model.
  const uint32_t token = 1;
  const cria_batch_entry entry = {whole.session(), &token, 1, nullptr, {}};
  EXPECT_EQ(cria_step(text.workspace(), &entry, 1), CRIA_NO_WEIGHTS);
  EXPECT_EQ(cria_prefill(text.workspace(), nullptr, &token, 1), CRIA_NO_WEIGHTS);
  EXPECT_EQ(cria_position(whole.session()), 0u);
}

}  // namespace
}  // namespace cria
