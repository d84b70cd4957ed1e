// What quantization costs: perplexity on held-out text, and questions the demo model answers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "runtime/base/features.h"
#include "tests/support/isa_list.h"
#include "tests/support/model_files.h"
#include "tests/support/plain_chat.h"
#include "tests/support/test_session.h"

namespace cria {
namespace {

namespace fs = std::filesystem;
using format::NumberFormat;

constexpr uint32_t kThreads = 2;

struct Format {
  const char* name;
  NumberFormat weights;
  uint16_t group_size;
};
constexpr Format kF32 = {"f32", NumberFormat::kF32, 0};
constexpr Format kInt8 = {"int8", NumberFormat::kInt8, 0};
constexpr Format kInt4 = {"int4 g32", NumberFormat::kInt4, 32};

// A model and a session on it.
class Loaded {
 public:
  Loaded(const fs::path& folder, const Format& f, cria_backend backend, uint32_t max_text_bytes)
      : source_(test::convert_folder(folder,
                                     {f.weights, f.group_size, format::Compression::kZstd, true})) {
    cria_config config = {};
    config.backend = backend;
    config.n_threads = kThreads;
    config.isa_mask =
        test::runnable_isas().back().mask;  // every ISA gives the scalar kernels' bits
    config.max_text_bytes = max_text_bytes;
    session_ = std::make_unique<test::TestSession>(source_, config);
  }
  [[nodiscard]] const cria_model* model() const { return session_->model(); }
  cria_session* session() { return session_->session(); }
  cria_workspace* workspace() { return session_->workspace(); }
  [[nodiscard]] uint32_t vocab_size() const { return session_->info().vocab_size; }

  std::vector<uint32_t> encode(const std::string& text, uint32_t flags) {
    std::vector<uint32_t> tokens(text.size() + 16);
    size_t n = 0;
    EXPECT_EQ(
        cria_encode(workspace(), text.data(), text.size(), flags, tokens.data(), tokens.size(), &n),
        CRIA_OK);
    tokens.resize(n);
    return tokens;
  }

 private:
  test::MemorySource source_;
  std::unique_ptr<test::TestSession> session_;
};

// Sum over tokens 1.. of -log p(token | those before it), and their number.
struct Nll {
  double sum = 0;
  size_t n_tokens = 0;
  [[nodiscard]] double perplexity() const { return std::exp(sum / static_cast<double>(n_tokens)); }
};

void add_nll(Loaded* model, const std::vector<uint32_t>& tokens, Nll* nll) {
  const size_t vocab = model->vocab_size();
  std::vector<float> logits(tokens.size() * vocab);
  ASSERT_EQ(cria_reset(model->session(), 0), CRIA_OK);
  const cria_batch_entry entry = {
      model->session(), tokens.data(), tokens.size(), logits.data(), {}};
  ASSERT_EQ(cria_step(model->workspace(), &entry, 1), CRIA_OK);
  for (size_t i = 0; i + 1 < tokens.size(); ++i, ++nll->n_tokens) {
    const float* row = &logits[i * vocab];
    const double largest = static_cast<double>(*std::max_element(row, row + vocab));
    double total = 0;
    for (size_t v = 0; v < vocab; ++v) total += std::exp(static_cast<double>(row[v]) - largest);
    nll->sum += std::log(total) + largest - static_cast<double>(row[tokens[i + 1]]);
  }
}

std::string text_of(const fs::path& path, size_t n_bytes) {
  const test::Bytes bytes = test::read_file(path);
  return {bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(std::min(n_bytes, bytes.size()))};
}

// Documents of the demo's held-out text, split at their first token.
Nll demo_nll(const Format& f, cria_backend backend, size_t n_documents) {
  const std::string begin = "<|begin_of_text|>";
  const std::string text = text_of(test::demo_folder() / "heldout.txt", SIZE_MAX);
  Loaded model(test::demo_folder(), f, backend, 8192);
  Nll nll;
  size_t documents = 0;
  for (size_t at = 0; at < text.size() && documents < n_documents; ++documents) {
    const size_t end = std::min(text.find(begin, at + 1), text.size());
    add_nll(&model, model.encode(text.substr(at, end - at), CRIA_ENCODE_PARSE), &nll);
    at = end;
  }
  EXPECT_EQ(documents, n_documents);
  return nll;
}

// The text in windows of the context, each starting with the model's first token.
Nll story_nll(const fs::path& reference, const Format& f, cria_backend backend, size_t n_bytes) {
  constexpr size_t kWindow = 512;
  const std::string text = text_of(reference / "corpus/tinystories_train_head_197KB.txt", n_bytes);
  Loaded model(reference / "trained/story-hf", f, backend, static_cast<uint32_t>(text.size()));
  const std::vector<uint32_t> tokens = model.encode(text, 0);
  Nll nll;
  for (size_t at = 0; at < tokens.size(); at += kWindow - 1) {
    std::vector<uint32_t> window = {1};
    window.insert(
        window.end(), tokens.begin() + static_cast<ptrdiff_t>(at),
        tokens.begin() + static_cast<ptrdiff_t>(std::min(at + kWindow - 1, tokens.size())));
    add_nll(&model, window, &nll);
  }
  return nll;
}

// The most that perplexity may rise above that of f32, as a share of it.
struct Allowed {
  double int8;
  double int4;
};

template <typename Measure>
void expect_cost(const char* what, const Allowed& allowed, const Measure& measure) {
  const Nll f32 = measure(kF32);
  const Nll int8 = measure(kInt8);
  const Nll int4 = measure(kInt4);
  ASSERT_GT(f32.n_tokens, 1000u);
  ASSERT_EQ(f32.n_tokens, int4.n_tokens);
  const double int8_cost = int8.perplexity() / f32.perplexity() - 1;
  const double int4_cost = int4.perplexity() / f32.perplexity() - 1;
  std::printf(
      "%s, %zu tokens: perplexity f32 %.4f, int8 %.4f (%+.2f %%), int4 g32 %.4f (%+.2f %%)\n", what,
      f32.n_tokens, f32.perplexity(), int8.perplexity(), 100 * int8_cost, int4.perplexity(),
      100 * int4_cost);
  EXPECT_LE(int8_cost, allowed.int8);
  EXPECT_LE(int4_cost, allowed.int4);
}

class Quality : public testing::TestWithParam<cria_backend> {};

TEST_P(Quality, PerplexityOfTheDemoStaysNearF32) {
  // Twice what is measured for int4 (docs/numerics.md); int8 measures below f32.
  expect_cost("demo", {.int8 = 0.001, .int4 = 0.007},
              [](const Format& f) { return demo_nll(f, GetParam(), 146); });
}

TEST_P(Quality, PerplexityOfTheStoryModelStaysNearF32) {
  const auto reference = test::reference_folder();
  if (!reference) GTEST_SKIP() << "no $CRIA_SHARED/reference";
  // Twice what is measured for int8, half a point above it for int4.
  expect_cost("story-hf", {.int8 = 0.003, .int4 = 0.071},
              [&](const Format& f) { return story_nll(*reference, f, GetParam(), SIZE_MAX); });
}

std::string stripped(const std::string& text) {
  const char* space = " \n\t";
  const size_t begin = text.find_first_not_of(space);
  return begin == std::string::npos ? ""
                                    : text.substr(begin, text.find_last_not_of(space) - begin + 1);
}

struct Answer {
  std::string text;
  bool ended = false;
};

Answer answer_to(Loaded* model, const nlohmann::json& messages, size_t max_tokens) {
  std::vector<std::string> texts;
  for (const auto& m : messages) texts.push_back(m.at("content"));
  std::vector<cria_message> chat;
  for (size_t i = 0; i < texts.size(); ++i) {
    const std::string role = messages[i].at("role");
    chat.push_back({role == "system" ? CRIA_SYSTEM
                    : role == "user" ? CRIA_USER
                                     : CRIA_ASSISTANT,
                    texts[i].data(), texts[i].size()});
  }
  uint32_t tokens[512];
  size_t n = 0;
  EXPECT_EQ(test::encode_chat(model->workspace(), chat.data(), chat.size(), 0, 1, tokens, 512, &n),
            CRIA_OK);
  EXPECT_EQ(cria_reset(model->session(), 0), CRIA_OK);
  EXPECT_EQ(cria_prefill(model->workspace(), model->session(), tokens, n), CRIA_OK);
  Answer answer;
  cria_text_state state = {};
  const cria_sampling greedy = {};
  for (size_t i = 0; i < max_tokens; ++i) {
    uint32_t token = 0;
    EXPECT_EQ(cria_sample(model->workspace(), model->session(), &greedy, &token), CRIA_OK);
    if (cria_is_end_token(model->model(), token) != 0) {
      answer.ended = true;
      break;
    }
    char text[CRIA_TEXT_BYTES];
    EXPECT_EQ(cria_decode_token(model->model(), &state, token, text, sizeof text, &n), CRIA_OK);
    answer.text.append(text, n);
    if (cria_prefill(model->workspace(), model->session(), &token, 1) != CRIA_OK) break;
  }
  answer.text = stripped(answer.text);
  return answer;
}

std::string lower(std::string text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return text;
}

// The same rule as models/demo/recipe/evaluate.py.
bool is_right(const nlohmann::json& question, const Answer& answer) {
  if (question.contains("answers")) {
    const auto& answers = question["answers"];
    return std::find(answers.begin(), answers.end(), answer.text) != answers.end();
  }
  for (const auto& word : question.at("must_mention")) {
    if (lower(answer.text).find(lower(word)) == std::string::npos) return false;
  }
  return answer.ended && std::count(answer.text.begin(), answer.text.end(), '.') >= 4;
}

double share_of_questions_answered(const Format& f) {
  Loaded model(test::demo_folder(), f, test::built_backends().back(), 0);
  std::ifstream file(test::demo_folder() / "questions.jsonl");
  size_t asked = 0, right = 0;
  for (std::string line; std::getline(file, line);) {
    const auto question = nlohmann::json::parse(line);
    if (question.at("kind") == "free") continue;
    const size_t max_tokens = question.contains("answers") ? 80 : 200;
    right += is_right(question, answer_to(&model, question.at("messages"), max_tokens)) ? 1 : 0;
    ++asked;
  }
  EXPECT_EQ(asked, 712u);
  return static_cast<double>(right) / static_cast<double>(asked);
}

TEST(QualityOfTheDemo, QuestionsAreAnsweredAsWellAsByF32) {
  if (!kHasXnnpack) GTEST_SKIP() << "774 questions take the scalar kernels too long";
  const double f32 = share_of_questions_answered(kF32);
  const double int8 = share_of_questions_answered(kInt8);
  const double int4 = share_of_questions_answered(kInt4);
  std::printf("questions answered: f32 %.1f %%, int8 %.1f %%, int4 g32 %.1f %%\n", 100 * f32,
              100 * int8, 100 * int4);
  // 95.4 % with transformers (models/demo/eval.json). Half a point below what is measured.
  EXPECT_GE(f32, 0.95);
  EXPECT_GE(int8, f32 - 0.009);
  EXPECT_GE(int4, f32 - 0.011);
}

INSTANTIATE_TEST_SUITE_P(Backends, Quality, testing::ValuesIn(test::built_backends()),
                         test::backend_label);

}  // namespace
}  // namespace cria
