// Answers in the words of OpenAI's chats.
#include <optional>
#include <utility>

#include "platforms/hosted/serve/logprobs_json.h"
#include "platforms/hosted/serve/styles/openai/openai.h"
#include "platforms/hosted/serve/styles/openai/openai_writer.h"

namespace cria::hosted {
namespace {

class ChatWriter final : public OpenAiWriter {
 public:
  ChatWriter(AnswerOrder order, const TextService* text)
      : OpenAiWriter(std::move(order), text,
                     {"chatcmpl-", "chat.completion", "chat.completion.chunk"}) {}

 private:
  // Who asked for no top_logprobs gets none.
  JsonText chunk(size_t index, const JsonText& delta, const JsonText& reason,
                 const std::vector<DrawnToken>* tokens = nullptr) const {
    JsonText choice =
        JsonText::object({{"index", index}, {"delta", delta}, {"finish_reason", reason}});
    if (tokens != nullptr) {
      choice.put("logprobs", JsonText::object({{"content", logprobs_of(*text_, *tokens)}}));
    }
    return chunk_of(choice);
  }

  std::string opening(size_t index) override {
    const JsonText delta = JsonText::object({{"role", "assistant"}, {"content", nullptr}});
    return event_of(chunk(index, delta, nullptr));
  }

  JsonText piece_event(size_t prompt, const AnswerPiece& piece, Choice*) override {
    return chunk(index_of(prompt, piece.choice), JsonText::object({{"content", piece.text}}),
                 nullptr, order_.n_top ? &piece.tokens : nullptr);
  }

  // One call each: some clients read no other. Its arguments follow what names it.
  std::optional<JsonText> part_event(size_t index, const AnswerPart& part,
                                     const Choice& choice) override {
    if (part.kind == CRIA_CALLS_THINKING) {
      return chunk(index, JsonText::object({{"reasoning_content", part.text}}), nullptr);
    }
    const bool begins = part.kind == CRIA_CALLS_BEGIN;
    if (!begins && part.kind != CRIA_CALLS_ARGUMENTS) return std::nullopt;
    const Call& call = choice.calls.back();
    JsonText function = JsonText::object();
    if (begins) function.put("name", call.name);
    function.put("arguments", begins ? std::string() : part.text);
    if (order_.calls_are_functions) {
      return chunk(index, JsonText::object({{"function_call", function}}), nullptr);
    }
    JsonText told = JsonText::object({{"index", choice.calls.size() - 1}});
    if (begins) {
      told.put("id", call.id);
      told.put("type", "function");
    }
    told.put("function", function);
    return chunk(index, JsonText::object({{"tool_calls", JsonText::array_of(told)}}), nullptr);
  }

  [[nodiscard]] const char* reason_of(const Choice& choice) const {
    if (!ends_with_calls(choice)) return finish_reason(choice.summary);
    return order_.calls_are_functions ? "function_call" : "tool_calls";
  }

  JsonText end_event(size_t prompt, const Choice& choice) override {
    JsonText json =
        chunk(index_of(prompt, choice.summary.choice), JsonText::object(), reason_of(choice));
    json.put("timings", timings_of(choice.summary));
    return json;
  }

  [[nodiscard]] JsonText message_of(const Choice& choice) const {
    JsonText calls = JsonText::array();
    JsonText last_function = nullptr;
    for (const Call& call : choice.calls) {
      if (!call.is_whole) continue;
      last_function = JsonText::object({{"name", call.name}, {"arguments", call.arguments}});
      calls.push_back(
          JsonText::object({{"id", call.id}, {"type", "function"}, {"function", last_function}}));
    }
    const bool has_calls = last_function.text() != "null";
    const bool is_silent = choice.text.empty() && has_calls;
    JsonText message =
        JsonText::object({{"role", "assistant"},
                          {"content", is_silent ? JsonText(nullptr) : JsonText(choice.text)}});
    if (!choice.thinking.empty()) message.put("reasoning_content", choice.thinking);
    if (has_calls && order_.calls_are_functions) message.put("function_call", last_function);
    if (has_calls && !order_.calls_are_functions) message.put("tool_calls", calls);
    return message;
  }

  void put_choice(size_t i) override {
    put_open(JsonText::object({{"index", i},
                               {"message", message_of(choices_[i])},
                               {"finish_reason", reason_of(choices_[i])}}));
    put("\"logprobs\":");
    if (!order_.n_top) return put("null}");
    put("{\"content\":");
    put_list(i, List::kRows);
    put("}}");
  }
};

}  // namespace

std::unique_ptr<AnswerWriter> make_chat_writer(AnswerOrder order, const TextService* text) {
  return std::make_unique<ChatWriter>(std::move(order), text);
}

}  // namespace cria::hosted
