// Answers in the words of llama.cpp's completions.
#include <algorithm>
#include <string_view>
#include <utility>

#include "platforms/hosted/base/print_format.h"
#include "platforms/hosted/serve/answer_writer.h"
#include "platforms/hosted/serve/logprobs_json.h"

namespace cria::hosted {
namespace {

class NativeWriter final : public AnswerWriter {
 public:
  using AnswerWriter::AnswerWriter;

 private:
  static JsonText ids_of(const std::vector<DrawnToken>& tokens) {
    return JsonText::array(tokens, [](const DrawnToken& drawn) { return drawn.token; });
  }

  JsonText piece_event(size_t prompt, const AnswerPiece& piece, Choice* choice) override {
    JsonText json = JsonText::object({{"index", index_of(prompt, piece.choice)},
                                      {"content", piece.text},
                                      {"tokens", ids_of(piece.tokens)},
                                      {"stop", false},
                                      {"tokens_predicted", choice->n_told},
                                      {"tokens_evaluated", order_.prompts[prompt].prompt.size()}});
    if (has_probabilities()) json.put(kProbabilities, logprobs_of(*text_, piece.tokens));
    return json;
  }

  JsonText end_event(size_t prompt, const Choice& choice) override {
    return told(prompt, choice, std::string(), {});
  }

  void put_whole() override {
    const std::vector<std::string>& fields = order_.response_fields;
    const bool tells_probabilities =
        has_probabilities() &&
        (fields.empty() || std::find(fields.begin(), fields.end(), kProbabilities) != fields.end());
    if (choices_.size() > 1) put("[");
    for (size_t i = 0; i < choices_.size(); ++i) {
      if (i > 0) put(",");
      const JsonText json =
          chosen(told(i / order_.prompts[0].n_choices, choices_[i], choices_[i].text,
                      order_.returns_tokens ? choices_[i].tokens : std::vector<DrawnToken>()));
      if (!tells_probabilities) {
        put(json.text());
        continue;
      }
      put_open(json);
      put(text_of("\"%s\":", kProbabilities));
      put_list(i, List::kRows);
      put("}");
    }
    if (choices_.size() > 1) put("]");
  }

  static constexpr const char* kProbabilities = "completion_probabilities";

  [[nodiscard]] bool has_probabilities() const { return order_.prompts[0].n_top.has_value(); }

  JsonText told(size_t prompt, const Choice& choice, const std::string& text,
                const std::vector<DrawnToken>& tokens) {
    const AnswerSummary& s = choice.summary;
    const char* type = "limit";
    if (s.end == AnswerEnd::kStopString) type = "word";
    if (s.end == AnswerEnd::kEndToken || s.end == AnswerEnd::kDocument) type = "eos";
    return JsonText::object({{"index", index_of(prompt, s.choice)},
                             {"content", text},
                             {"tokens", ids_of(tokens)},
                             {"id_slot", s.session},
                             {"stop", true},
                             {"model", order_.model},
                             {"tokens_predicted", s.n_drawn},
                             {"tokens_evaluated", s.n_prompt},
                             {"tokens_cached", s.n_cached},
                             {"generation_settings", order_.settings},
                             {"prompt", order_.prompt_texts[prompt]},
                             {"has_new_line", choice.has_new_line},
                             {"truncated", s.end == AnswerEnd::kContextFull},
                             {"stop_type", type},
                             {"stopping_word", s.stop},
                             {"timings", timings_of(s)}});
  }

  // Only the members that were asked for; "a/b" is the member b of a.
  JsonText chosen(JsonText json) const {
    const std::vector<std::string>& paths = order_.response_fields;
    if (paths.empty()) return json;
    JsonText result = JsonText::object();
    for (size_t i = 0; i < paths.size(); ++i) {
      const auto here = paths.begin() + static_cast<ptrdiff_t>(i);
      if (std::find(paths.begin(), here, paths[i]) != here) continue;
      std::optional<std::string_view> value = json.text();
      for (size_t begin = 0; value && begin <= paths[i].size();) {
        const size_t end = std::min(paths[i].find('/', begin), paths[i].size());
        value = raw_member(*value, {std::string_view(paths[i]).substr(begin, end - begin)});
        begin = end + 1;
      }
      if (value) result.put(paths[i], JsonText::of(std::string(*value)));
    }
    return result;
  }
};

}  // namespace

std::unique_ptr<AnswerWriter> make_native_writer(AnswerOrder order, const TextService* text) {
  return std::make_unique<NativeWriter>(std::move(order), text);
}

}  // namespace cria::hosted
