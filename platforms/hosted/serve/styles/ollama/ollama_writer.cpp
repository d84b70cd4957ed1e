// Answers in the words of Ollama.
#include <cmath>
#include <utility>

#include "platforms/hosted/base/clock.h"
#include "platforms/hosted/serve/answer_writer.h"
#include "platforms/hosted/serve/styles/ollama/ollama.h"
#include "platforms/hosted/serve/styles/ollama/rfc3339.h"

namespace cria::hosted {
namespace {

// Puts a text where the endpoint has it.
using PutText = void (*)(const std::string& text, JsonText* json);

void put_message(const std::string& text, JsonText* json) {
  json->put("message", JsonText::object({{"role", "assistant"}, {"content", text}}));
}

void put_response(const std::string& text, JsonText* json) { json->put("response", text); }

JsonText told_now(const std::string& model, const std::string& text, PutText put_text) {
  JsonText json = JsonText::object({{"model", model}, {"created_at", rfc3339(unix_ns())}});
  put_text(text, &json);
  return json;
}

std::string without_text(const std::string& model, const char* done_reason, PutText put_text) {
  JsonText json = told_now(model, {}, put_text);
  json.put("done", true);
  json.put("done_reason", done_reason);
  return json.take();
}

int64_t ns_of(double seconds) {
  constexpr double kNsOfSecond = 1e9;
  return std::llround(seconds * kNsOfSecond);
}

// What is 0 is left out.
void put_counts(const AnswerSummary& s, JsonText* json) {
  const double total_seconds = s.queued_seconds + s.prefill_seconds + s.decode_seconds;
  const struct {
    const char* name;
    int64_t value;
  } rows[] = {{"total_duration", ns_of(total_seconds)},
              {"prompt_eval_count", s.n_prompt},
              {"prompt_eval_duration", ns_of(s.prefill_seconds)},
              {"eval_count", s.n_drawn},
              {"eval_duration", ns_of(s.decode_seconds)}};
  for (const auto& row : rows) {
    if (row.value != 0) json->put(row.name, row.value);
  }
}

// One answer: Ollama's requests have no other.
class OllamaWriter final : public AnswerWriter {
 public:
  OllamaWriter(AnswerOrder order, const TextService* text, PutText put_text)
      : AnswerWriter(std::move(order), text), put_text_(put_text) {}

 private:
  [[nodiscard]] JsonText last(const std::string& text, const AnswerSummary& summary) const {
    JsonText json = told_now(order_.model, text, put_text_);
    json.put("done", true);
    json.put("done_reason", finish_reason(summary));
    put_counts(summary, &json);
    return json;
  }

  JsonText piece_event(size_t, const AnswerPiece& piece, Choice*) override {
    JsonText json = told_now(order_.model, piece.text, put_text_);
    json.put("done", false);
    return json;
  }

  JsonText end_event(size_t, const Choice& choice) override { return last({}, choice.summary); }

  void put_first() override {}
  void put_choice(size_t i) override { put(last(choices_[i].text, choices_[i].summary).text()); }
  void put_last() override {}

  PutText put_text_;
};

}  // namespace

std::unique_ptr<AnswerWriter> make_ollama_chat_writer(AnswerOrder order, const TextService* text) {
  return std::make_unique<OllamaWriter>(std::move(order), text, &put_message);
}

std::unique_ptr<AnswerWriter> make_ollama_generate_writer(AnswerOrder order,
                                                          const TextService* text) {
  return std::make_unique<OllamaWriter>(std::move(order), text, &put_response);
}

std::string ollama_chat_without_text(const std::string& model, const char* done_reason) {
  return without_text(model, done_reason, &put_message);
}

std::string ollama_generate_without_text(const std::string& model, const char* done_reason) {
  return without_text(model, done_reason, &put_response);
}

}  // namespace cria::hosted
