#include "tests/support/engine_trial.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "platforms/hosted/session/model_tokens.h"
#include "tests/support/patience.h"
#include "tests/support/tiny_checkpoint.h"

namespace cria::test {
namespace {

hosted::EngineOptions with_prefixes(hosted::EngineOptions options, hosted::PrefixStore* prefixes) {
  options.prefixes = prefixes;
  return options;
}

}  // namespace

hosted::CommonOptions options_of(const std::string& path, const EngineWish& wish) {
  hosted::CommonOptions options;
  options.model_path = path;
  options.n_threads = 2;
  options.context = wish.context;
  options.prefill_chunk = wish.prefill_chunk;
  options.backend = CRIA_BACKEND_EXACT;
  options.kv_format = wish.kv_format;
  return options;
}

std::string written(const std::string& name, const Bytes& bytes) {
  const std::filesystem::path path = temporary_folder() / name;
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  return path.string();
}

const std::string& demo_path() {
  static const std::string path =
      written("demo.cria", convert_folder(demo_folder(), {format::NumberFormat::kInt4, 32,
                                                          format::Compression::kStored, true}));
  return path;
}

const std::string& lfm2_path() {
  static const std::string path = [] {
    const std::filesystem::path folder = temporary_folder() / "lfm2_of_engines";
    write_tiny_lfm2(folder, 512);
    return written("lfm2.cria", convert_folder(folder, {format::NumberFormat::kInt4, 32,
                                                        format::Compression::kStored, true}));
  }();
  return path;
}

std::vector<uint32_t> demo_tokens(const std::string& text) {
  static const hosted::ModelSession model(options_of(demo_path(), {}), {.text_only = true});
  return hosted::encode_text(model, text, 0);
}

hosted::AnswerRequest asking(const std::string& text, uint32_t max_tokens) {
  hosted::AnswerRequest request;
  request.prompt = demo_tokens(text);
  request.max_tokens = max_tokens;
  return request;
}

SharedBiases shared_biases(std::vector<cria_logit_bias> biases) {
  return std::make_shared<const std::vector<cria_logit_bias>>(std::move(biases));
}

std::shared_ptr<const hosted::StopStrings> shared_stops(std::vector<std::string> stops) {
  return std::make_shared<hosted::StopStrings>(std::move(stops));
}

void forbid_ends(hosted::AnswerRequest* request) {
  static const hosted::ModelSession model(options_of(demo_path(), {}), {.text_only = true});
  std::vector<cria_logit_bias> biases;
  if (request->biases != nullptr) biases = *request->biases;
  for (uint32_t token = 0; token < cria_vocab_size(model.model()); ++token) {
    if (cria_is_end_token(model.model(), token) != 0) biases.push_back({token, -HUGE_VALF});
  }
  request->biases = shared_biases(std::move(biases));
}

hosted::AnswerRequest seeded(const std::string& text, uint64_t seed) {
  hosted::AnswerRequest request = asking(text, kTokens);
  request.sampling.temperature = 0.9f;
  request.sampling.top_p = 0.95f;
  request.seed = seed;
  return request;
}

std::string told(const std::string& question) {
  std::string text = "The story is about a fox and a bear. ";
  for (int i = 0; i < 4; ++i) text += "They live in a small village near the river. ";
  return text + question;
}

std::vector<uint32_t> drawn_alone(const std::string& path, uint32_t context,
                                  const hosted::AnswerRequest& request,
                                  std::vector<float>* logits) {
  const hosted::ModelSession model(options_of(path, {.context = context}), {});
  cria_session* const session = model.session();
  cria_seed(session, request.seed);
  cria_sampling sampling = request.sampling;
  if (request.biases != nullptr) {
    sampling.biases = request.biases->data();
    sampling.n_biases = request.biases->size();
  }
  std::vector<uint32_t> tokens;
  model.check(
      cria_prefill(model.workspace(), session, request.prompt.data(), request.prompt.size()));
  while (tokens.size() < request.max_tokens) {
    const size_t vocab_size = cria_vocab_size(model.model());
    logits->insert(logits->end(), cria_logits(session), cria_logits(session) + vocab_size);
    uint32_t token = 0;
    model.check(cria_sample(model.workspace(), session, &sampling, &token));
    if (cria_is_end_token(model.model(), token) != 0) break;
    tokens.push_back(token);
    if (cria_position(session) == cria_context(session)) break;
    model.check(cria_prefill(model.workspace(), session, &token, 1));
  }
  return tokens;
}

std::vector<uint32_t> drawn_alone(const std::string& path, const hosted::AnswerRequest& request) {
  std::vector<float> logits;
  return drawn_alone(path, 0, request, &logits);
}

std::vector<uint32_t> HeardChoice::token_ids() const {
  std::vector<uint32_t> ids;
  for (const hosted::DrawnToken& token : tokens) ids.push_back(token.token);
  return ids;
}

void Hearer::on_piece(const hosted::AnswerPiece& piece) {
  if (each_piece) each_piece(piece);
  const std::lock_guard lock(mutex_);
  HeardChoice& choice = choices_.at(piece.choice);
  EXPECT_TRUE(choice.ends.empty()) << "a piece behind the end";
  EXPECT_TRUE(!piece.text.empty() || !piece.tokens.empty());
  choice.text += piece.text;
  choice.pieces.push_back(piece.text);
  choice.tokens.insert(choice.tokens.end(), piece.tokens.begin(), piece.tokens.end());
  ++n_pieces_;
  changed_.notify_all();
}

void Hearer::on_end(const hosted::AnswerSummary& summary) noexcept {
  const std::lock_guard lock(mutex_);
  HeardChoice& choice = choices_.at(summary.choice);
  choice.ends.push_back(summary);
  EXPECT_EQ(choice.ends.size(), 1u);
  ++n_ended_;
  changed_.notify_all();
}

std::vector<HeardChoice> Hearer::all() {
  std::unique_lock lock(mutex_);
  EXPECT_TRUE(changed_.wait_for(lock, kPatience, [this] { return n_ended_ == choices_.size(); }))
      << "no end in sight";
  return choices_;
}

void Hearer::wait_for_pieces(size_t n) {
  std::unique_lock lock(mutex_);
  EXPECT_TRUE(changed_.wait_for(
      lock, kPatience, [this, n] { return n_pieces_ >= n || n_ended_ == choices_.size(); }));
}

bool Hearer::has_ended() {
  const std::lock_guard lock(mutex_);
  return n_ended_ == choices_.size();
}

EngineTrial::EngineTrial(const std::string& path, const EngineWish& wish)
    : model_(options_of(path, wish), {.n_sessions = wish.n_sessions}),
      prefixes_(wish.prefix_folder.empty() ? nullptr
                                           : std::make_unique<hosted::PrefixStore>(
                                                 model_, wish.prefix_folder, wish.prefix_bytes,
                                                 [log = wish.options.log](const std::string& line) {
                                                   if (log != nullptr) log(line);
                                                 })),
      engine_(model_, with_prefixes(wish.options, prefixes_.get())) {}

std::shared_ptr<Hearer> EngineTrial::begin(const hosted::AnswerRequest& request, uint64_t* id) {
  auto hearer = std::make_shared<Hearer>(request.n_choices);
  EXPECT_EQ(engine_.submit(request, hearer, id), hosted::SubmitResult::kTaken);
  return hearer;
}

std::shared_ptr<Hearer> EngineTrial::begin(const hosted::AnswerRequest& request) {
  uint64_t id = 0;
  return begin(request, &id);
}

std::vector<HeardChoice> EngineTrial::ask_all(const hosted::AnswerRequest& request) {
  return begin(request)->all();
}

HeardChoice EngineTrial::ask(const hosted::AnswerRequest& request) {
  return ask_all(request).front();
}

}  // namespace cria::test
