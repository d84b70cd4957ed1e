// Answers in the words of llama.cpp's completions.
#include <algorithm>
#include <span>
#include <string_view>
#include <utility>

#include "platforms/hosted/base/print_format.h"
#include "platforms/hosted/chat/raw_json.h"
#include "platforms/hosted/serve/answer_writer.h"
#include "platforms/hosted/serve/logprobs_json.h"
#include "platforms/hosted/serve/styles/native/native.h"

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
                                      {"tokens_evaluated", order_.prompt_sizes[prompt]}});
    if (has_probabilities()) json.put(kProbabilities, logprobs_of(*text_, piece.tokens));
    return json;
  }

  JsonText end_event(size_t prompt, const Choice& choice) override {
    const std::vector<DrawnToken> none;
    return all_members({order_, prompt, choice, std::string_view(), none, *this});
  }

  void put_first() override {
    if (choices_.size() > 1) put("[");
  }

  void put_choice(size_t i) override {
    const Choice& choice = choices_[i];
    const std::vector<DrawnToken> none;
    const Told told = {order_,
                       i / order_.n_choices,
                       choice,
                       choice.text,
                       order_.returns_tokens ? choice.tokens : none,
                       *this};
    const std::vector<ResponseField>& fields = order_.response_fields;
    const JsonText json = fields.empty() ? all_members(told) : chosen_members(told);
    const bool tells_probabilities =
        has_probabilities() &&
        (fields.empty() || std::any_of(fields.begin(), fields.end(), [](const auto& field) {
           return field.path == kProbabilities;
         }));
    if (!tells_probabilities) return put(json.text());
    put_open(json);
    put(text_of("\"%s\":", kProbabilities));
    put_list(i, List::kRows);
    put("}");
  }

  void put_last() override {
    if (choices_.size() > 1) put("]");
  }

  static constexpr const char* kProbabilities = "completion_probabilities";

  [[nodiscard]] bool has_probabilities() const { return order_.n_top.has_value(); }

  // What an answer's members are made of.
  struct Told {
    const AnswerOrder& order;
    size_t prompt;
    const Choice& choice;
    std::string_view text;
    const std::vector<DrawnToken>& tokens;
    const NativeWriter& writer;
  };
  struct Member {
    const char* name;
    JsonText (*of)(const Told& told);
  };

  static const char* stop_type(AnswerEnd end) {
    if (end == AnswerEnd::kStopString) return "word";
    return end == AnswerEnd::kEndToken || end == AnswerEnd::kDocument ? "eos" : "limit";
  }

  static std::span<const Member> members() {
    static constexpr Member kMembers[] = {
        {"index",
         [](const Told& t) -> JsonText {
           return t.writer.index_of(t.prompt, t.choice.summary.choice);
         }},
        {"content", [](const Told& t) -> JsonText { return t.text; }},
        {"tokens", [](const Told& t) -> JsonText { return ids_of(t.tokens); }},
        {"id_slot", [](const Told& t) -> JsonText { return t.choice.summary.session; }},
        {"stop", [](const Told&) -> JsonText { return true; }},
        {"model", [](const Told& t) -> JsonText { return t.order.model; }},
        {"tokens_predicted", [](const Told& t) -> JsonText { return t.choice.summary.n_drawn; }},
        {"tokens_evaluated", [](const Told& t) -> JsonText { return t.choice.summary.n_prompt; }},
        {"tokens_cached", [](const Told& t) -> JsonText { return t.choice.summary.n_cached; }},
        {"generation_settings", [](const Told& t) -> JsonText { return t.order.settings; }},
        {"prompt", [](const Told& t) -> JsonText { return t.order.prompt_texts[t.prompt]; }},
        {"has_new_line", [](const Told& t) -> JsonText { return t.choice.has_new_line; }},
        {"truncated",
         [](const Told& t) -> JsonText { return t.choice.summary.end == AnswerEnd::kContextFull; }},
        {"stop_type", [](const Told& t) -> JsonText { return stop_type(t.choice.summary.end); }},
        {"stopping_word", [](const Told& t) -> JsonText { return t.choice.summary.stop; }},
        {"timings", [](const Told& t) -> JsonText { return timings_of(t.choice.summary); }}};
    return kMembers;
  }

  static JsonText all_members(const Told& told) {
    JsonText json = JsonText::object();
    for (const Member& member : members()) json.put(member.name, member.of(told));
    return json;
  }

  // Only those that were asked for; no other is made.
  static JsonText chosen_members(const Told& told) {
    JsonText json = JsonText::object();
    for (const ResponseField& field : told.order.response_fields) {
      if (!field.setting.empty()) json.put(field.path, JsonText::of(field.setting));
      const std::string_view path = field.path;
      const std::string_view name = path.substr(0, path.find('/'));
      for (const Member& member : members()) {
        if (name != member.name) continue;
        if (name == path) json.put(path, member.of(told));
        if (name == path || name != "timings") break;
        const JsonText whole = member.of(told);
        const std::string_view part = raw_path(whole.text(), path.substr(name.size() + 1));
        if (!part.empty()) json.put(path, JsonText::of(std::string(part)));
        break;
      }
    }
    return json;
  }
};

}  // namespace

std::unique_ptr<AnswerWriter> make_native_writer(AnswerOrder order, const TextService* text) {
  return std::make_unique<NativeWriter>(std::move(order), text);
}

}  // namespace cria::hosted
