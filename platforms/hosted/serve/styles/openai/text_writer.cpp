// Answers in the words of OpenAI's completions.
#include <utility>

#include "platforms/hosted/base/print_format.h"
#include "platforms/hosted/serve/styles/openai/openai.h"
#include "platforms/hosted/serve/styles/openai/openai_writer.h"

namespace cria::hosted {
namespace {

class TextWriter final : public OpenAiWriter {
 public:
  TextWriter(AnswerOrder order, const TextService* text)
      : OpenAiWriter(std::move(order), text, {"cmpl-", "text_completion", "text_completion"}) {}

 private:
  // logprobs are put after it.
  static JsonText choice_of(size_t index, const JsonText& text, const JsonText& reason) {
    return JsonText::object({{"index", index}, {"text", text}, {"finish_reason", reason}});
  }

  // The prompt, where it is wanted, and what was made.
  [[nodiscard]] JsonText echoed(size_t index, const JsonText& made) const {
    if (order_.prompt_texts.empty()) return made;
    return order_.prompt_texts[index / order_.n_choices].followed_by(made);
  }

  std::string opening(size_t index) override {
    const JsonText nothing = "";
    const JsonText text = echoed(index, nothing);
    if (text.text() == nothing.text()) return {};
    JsonText choice = choice_of(index, text, nullptr);
    choice.put("logprobs", nullptr);
    return event_of(chunk_of(choice));
  }

  JsonText piece_event(size_t prompt, const AnswerPiece& piece, Choice* told) override {
    JsonText choice = choice_of(index_of(prompt, piece.choice), piece.text, nullptr);
    if (order_.n_top) {
      offset_ = told->n_text_bytes;
      choice.put("logprobs", logprobs_object(piece.tokens));
      told->n_text_bytes = offset_;
    } else {
      choice.put("logprobs", nullptr);
    }
    return chunk_of(choice);
  }

  JsonText end_event(size_t prompt, const Choice& choice) override {
    JsonText last =
        choice_of(index_of(prompt, choice.summary.choice), "", finish_reason(choice.summary));
    last.put("logprobs", nullptr);
    JsonText json = chunk_of(last);
    json.put("timings", timings_of(choice.summary));
    return json;
  }

  void put_choice(size_t i) override {
    JsonText choice = choice_of(i, echoed(i, choices_[i].text), finish_reason(choices_[i].summary));
    if (!order_.n_top) {
      choice.put("logprobs", nullptr);
      return put(choice.text());
    }
    put_open(choice);
    char before = '{';
    put("\"logprobs\":");
    for (const ListRow& row : kLists) {
      put(std::exchange(before, ',') + text_of("\"%s\":", row.name));
      put_list(i, row.list);
    }
    put("}}");
  }

  struct ListRow {
    const char* name;
    List list;
  };
  // OpenAI's four lists, and the one that llama.cpp has there.
  static constexpr ListRow kLists[] = {{"content", List::kRows},
                                       {"tokens", List::kTokens},
                                       {"token_logprobs", List::kLogprobs},
                                       {"top_logprobs", List::kTop},
                                       {"text_offset", List::kOffsets}};

  JsonText logprobs_object(const std::vector<DrawnToken>& tokens) {
    JsonText json = JsonText::object();
    for (const ListRow& row : kLists) {
      json.put(row.name, JsonText::array(tokens, [&](const DrawnToken& drawn) {
                 return place_of(row.list, drawn);
               }));
    }
    return json;
  }
};

}  // namespace

std::unique_ptr<AnswerWriter> make_text_writer(AnswerOrder order, const TextService* text) {
  return std::make_unique<TextWriter>(std::move(order), text);
}

}  // namespace cria::hosted
