// Answers in the words of Ollama.
#include <optional>
#include <string_view>
#include <utility>

#include "platforms/hosted/base/clock.h"
#include "platforms/hosted/serve/answer_writer.h"
#include "platforms/hosted/serve/styles/ollama/ollama.h"
#include "platforms/hosted/serve/styles/ollama/rfc3339.h"

namespace cria::hosted {
namespace {

// What a line or an answer tells.
struct Parts {
  std::string_view text;
  std::string_view thinking = {};
  JsonText calls = nullptr;  // a list
};

// Puts them where the endpoint has them.
using PutParts = void (*)(const Parts& parts, JsonText* json);

void put_others(const Parts& parts, JsonText* json) {
  if (!parts.thinking.empty()) json->put("thinking", parts.thinking);
  if (parts.calls.text() != "null") json->put("tool_calls", parts.calls);
}

void put_message(const Parts& parts, JsonText* json) {
  JsonText message = JsonText::object({{"role", "assistant"}, {"content", parts.text}});
  put_others(parts, &message);
  json->put("message", message);
}

void put_response(const Parts& parts, JsonText* json) {
  json->put("response", parts.text);
  put_others(parts, json);
}

JsonText told_now(const std::string& model, const Parts& parts, PutParts put_parts) {
  JsonText json = JsonText::object({{"model", model}, {"created_at", rfc3339(unix_ns())}});
  put_parts(parts, &json);
  return json;
}

std::string without_text(const std::string& model, const char* done_reason, PutParts put_parts) {
  JsonText json = told_now(model, {}, put_parts);
  json.put("done", true);
  json.put("done_reason", done_reason);
  return json.take();
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
  OllamaWriter(AnswerOrder order, const TextService* text, PutParts put_parts)
      : AnswerWriter(std::move(order), text), put_parts_(put_parts) {}

 private:
  [[nodiscard]] JsonText line(const Parts& parts) const {
    JsonText json = told_now(order_.model, parts, put_parts_);
    json.put("done", false);
    return json;
  }

  [[nodiscard]] JsonText last(const Parts& parts, const AnswerSummary& summary) const {
    JsonText json = told_now(order_.model, parts, put_parts_);
    json.put("done", true);
    json.put("done_reason", finish_reason(summary));
    put_counts(summary, &json);
    return json;
  }

  static void put_call(const Call& call, JsonText* calls) {
    const JsonText function =
        JsonText::object({{"name", call.name}, {"arguments", JsonText::of(call.arguments)}});
    if (calls->text() == "null") *calls = JsonText::array();
    calls->push_back(JsonText::object({{"function", function}}));
  }

  JsonText piece_event(size_t, const AnswerPiece& piece, Choice*) override {
    return line({piece.text});
  }

  // A call is told when it is whole.
  std::optional<JsonText> part_event(size_t, const AnswerPart& part,
                                     const Choice& choice) override {
    if (part.kind == CRIA_CALLS_THINKING) return line({{}, part.text});
    if (part.kind != CRIA_CALLS_END) return std::nullopt;
    Parts parts = {};
    put_call(choice.calls.back(), &parts.calls);
    return line(parts);
  }

  JsonText end_event(size_t, const Choice& choice) override { return last({}, choice.summary); }

  void put_first() override {}
  void put_choice(size_t i) override {
    const Choice& choice = choices_[i];
    Parts parts = {choice.text, choice.thinking};
    for (const Call& call : choice.calls) {
      if (call.is_whole) put_call(call, &parts.calls);
    }
    put(last(parts, choice.summary).text());
  }
  void put_last() override {}

  PutParts put_parts_;
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
