// Answers in the words of OpenAI's chats.
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

  JsonText end_event(size_t prompt, const Choice& choice) override {
    JsonText json = chunk(index_of(prompt, choice.summary.choice), JsonText::object(),
                          finish_reason(choice.summary));
    json.put("timings", timings_of(choice.summary));
    return json;
  }

  void put_choice(size_t i) override {
    put_open(JsonText::object(
        {{"index", i},
         {"message", JsonText::object({{"role", "assistant"}, {"content", choices_[i].text}})},
         {"finish_reason", finish_reason(choices_[i].summary)}}));
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
