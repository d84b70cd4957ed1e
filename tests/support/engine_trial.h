// An engine over a model on disk, and a listener that waits for the whole of an answer.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "platforms/hosted/engine/engine.h"
#include "platforms/hosted/prefixes/prefix_store.h"
#include "tests/support/model_files.h"

namespace cria::test {

// The path of a file with these bytes, under the temporary folder.
[[nodiscard]] std::string written(const std::string& name, const Bytes& bytes);
// The demo model, with its tokenizer.
[[nodiscard]] const std::string& demo_path();
// A tiny model whose layers keep blocks of state, of 300 tokens.
inline constexpr uint32_t kTokensOfLfm2 = 300;
[[nodiscard]] const std::string& lfm2_path();
// The demo's tokens of a text, without BOS.
[[nodiscard]] std::vector<uint32_t> demo_tokens(const std::string& text);

// A greedy request to the demo model.
[[nodiscard]] hosted::AnswerRequest asking(const std::string& text, uint32_t max_tokens);
// What requests share.
using SharedBiases = std::shared_ptr<const std::vector<cria_logit_bias>>;
[[nodiscard]] SharedBiases shared_biases(std::vector<cria_logit_bias> biases);
[[nodiscard]] std::shared_ptr<const hosted::StopStrings> shared_stops(
    std::vector<std::string> stops);
// A request of the demo model that no end token ends, whatever biases it had.
void forbid_ends(hosted::AnswerRequest* request);

// One with a temperature.
inline constexpr uint32_t kTokens = 24;
[[nodiscard]] hosted::AnswerRequest seeded(const std::string& text, uint64_t seed);
// A question after a text of some sixty tokens.
[[nodiscard]] std::string told(const std::string& question);

// The tokens of choice 0 by the calls that cria.h shows, and the logits before each.
[[nodiscard]] std::vector<uint32_t> drawn_alone(const std::string& path, uint32_t context,
                                                const hosted::AnswerRequest& request,
                                                std::vector<float>* logits);
[[nodiscard]] std::vector<uint32_t> drawn_alone(const std::string& path,
                                                const hosted::AnswerRequest& request);

// One choice as it was heard.
struct HeardChoice {
  std::string text;
  std::vector<std::string> pieces;
  std::vector<hosted::DrawnToken> tokens;
  std::vector<hosted::AnswerSummary> ends;  // one, unless something is wrong
  [[nodiscard]] std::vector<uint32_t> token_ids() const;
};

// Keeps what it hears; a test may have something happen with each piece.
class Hearer : public hosted::AnswerListener {
 public:
  explicit Hearer(size_t n_choices) : choices_(n_choices) {}
  std::function<void(const hosted::AnswerPiece&)> each_piece;  // on the engine's thread

  void on_piece(const hosted::AnswerPiece& piece) override;
  void on_end(const hosted::AnswerSummary& summary) noexcept override;
  // Waits for the end of all choices, or gives up after kPatience.
  [[nodiscard]] std::vector<HeardChoice> all();
  // Waits for so many pieces, or for the end.
  void wait_for_pieces(size_t n);
  [[nodiscard]] bool has_ended();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<HeardChoice> choices_;
  size_t n_pieces_ = 0;
  size_t n_ended_ = 0;
};

struct EngineWish {
  uint32_t n_sessions = 1;
  uint32_t context = 0;
  uint32_t prefill_chunk = 0;
  hosted::EngineOptions options = {};
  cria_kv_format kv_format = CRIA_KV_INT8;
  std::string prefix_folder = {};  // empty: none are kept
  uint64_t prefix_bytes = 1000000000;
};

// Its options for a model.
[[nodiscard]] hosted::CommonOptions options_of(const std::string& path, const EngineWish& wish);

class EngineTrial {
 public:
  EngineTrial(const std::string& path, const EngineWish& wish);

  [[nodiscard]] const hosted::ModelSession& model() const { return model_; }
  [[nodiscard]] hosted::Engine& engine() { return engine_; }
  [[nodiscard]] const hosted::PrefixStore& prefixes() const { return *prefixes_; }

  // Submits, which must be taken.
  std::shared_ptr<Hearer> begin(const hosted::AnswerRequest& request, uint64_t* id);
  std::shared_ptr<Hearer> begin(const hosted::AnswerRequest& request);
  // Waits for the answer.
  std::vector<HeardChoice> ask_all(const hosted::AnswerRequest& request);
  HeardChoice ask(const hosted::AnswerRequest& request);

 private:
  hosted::ModelSession model_;
  std::unique_ptr<hosted::PrefixStore> prefixes_;
  hosted::Engine engine_;
};

}  // namespace cria::test
