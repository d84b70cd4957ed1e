#include "platforms/hosted/serve/answer_writer.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "platforms/hosted/base/clock.h"
#include "platforms/hosted/base/print_format.h"
#include "platforms/hosted/serve/random_bits.h"

namespace cria::hosted {
namespace {

constexpr double kMsOfSecond = 1000.0;
constexpr float kLeastLogprob = -9999.0f;  // JSON has no infinity

double rate(double count, double seconds) { return seconds > 0.0 ? count / seconds : 0.0; }

double each_ms(double count, double seconds) {
  return count > 0.0 ? kMsOfSecond * seconds / count : 0.0;
}

Json timings(uint32_t n_cached, uint32_t n_read, double read_seconds, uint32_t n_made,
             double made_seconds) {
  return {{"cache_n", n_cached},
          {"prompt_n", n_read},
          {"prompt_ms", kMsOfSecond * read_seconds},
          {"prompt_per_token_ms", each_ms(n_read, read_seconds)},
          {"prompt_per_second", rate(n_read, read_seconds)},
          {"predicted_n", n_made},
          {"predicted_ms", kMsOfSecond * made_seconds},
          {"predicted_per_token_ms", each_ms(n_made, made_seconds)},
          {"predicted_per_second", rate(n_made, made_seconds)}};
}

Json bytes_of(const std::string& text) {
  Json bytes = Json::array();
  for (const char c : text) bytes.push_back(static_cast<unsigned char>(c));
  return bytes;
}

const char* id_prefix(AnswerStyle style) {
  return style == AnswerStyle::kChat ? "chatcmpl-" : "cmpl-";
}

bool is_stop(AnswerEnd end) {
  return end == AnswerEnd::kEndToken || end == AnswerEnd::kStopString ||
         end == AnswerEnd::kDocument;
}

}  // namespace

std::string event_of(const std::string& json) { return "data: " + json + "\n\n"; }
std::string event_of(const Json& json) { return event_of(dump(json)); }

const char* system_fingerprint() {
  static const std::string text = std::string("build-cria-") + cria_version();
  return text.c_str();
}

AnswerWriter::AnswerWriter(AnswerOrder order, const TextService* text)
    : order_(std::move(order)),
      text_(text),
      id_(id_prefix(order_.style) + text_of("%016llx%08x",
                                            static_cast<unsigned long long>(random_bits()),
                                            static_cast<unsigned>(random_bits()))),
      created_(std::chrono::duration_cast<std::chrono::seconds>(
                   std::chrono::system_clock::now().time_since_epoch())
                   .count()),
      begun_seconds_(monotonic_seconds()) {
  choices_.resize(order_.prompts.size() * order_.prompts[0].n_choices);
}

size_t AnswerWriter::index_of(size_t prompt, uint32_t choice) const {
  return prompt * order_.prompts[0].n_choices + choice;
}

std::string AnswerWriter::take(size_t prompt, const AnswerPiece& piece) {
  const size_t index = index_of(prompt, piece.choice);
  Choice& choice = choices_[index];
  if (choice.first_seconds == 0.0) choice.first_seconds = monotonic_seconds();
  choice.n_told += static_cast<uint32_t>(piece.tokens.size());
  choice.has_new_line = choice.has_new_line || piece.text.find('\n') != std::string::npos;
  if (!order_.streams) {
    choice.text += piece.text;
    choice.tokens.insert(choice.tokens.end(), piece.tokens.begin(), piece.tokens.end());
    return {};
  }
  std::string events;
  if (!std::exchange(choice.has_begun, true)) events = opening(index);
  Json event = piece_event(prompt, piece, &choice);
  if (order_.tells_timings) event["timings"] = timings_so_far(choice);
  return events + event_of(event);
}

std::string AnswerWriter::end(size_t prompt, const AnswerSummary& summary) {
  const size_t index = index_of(prompt, summary.choice);
  Choice& choice = choices_[index];
  choice.summary = summary;
  if (!order_.streams) return {};
  std::string events;
  if (!std::exchange(choice.has_begun, true)) events = opening(index);
  return events + event_of(end_event(prompt, choice));
}

std::string AnswerWriter::finish() { return order_.streams ? closing() : dump(whole()); }

std::string AnswerWriter::counts() const {
  uint64_t n_prompt = 0;
  uint64_t n_cached = 0;
  uint64_t n_made = 0;
  for (size_t i = 0; i < choices_.size(); ++i) {
    if (i % order_.prompts[0].n_choices == 0) {
      n_prompt += choices_[i].summary.n_prompt;
      n_cached += choices_[i].summary.n_cached;
    }
    n_made += choices_[i].summary.n_drawn;
  }
  return text_of("%llu tokens (%llu held), %llu made", static_cast<unsigned long long>(n_prompt),
                 static_cast<unsigned long long>(n_cached),
                 static_cast<unsigned long long>(n_made));
}

Json AnswerWriter::head(const char* object) const {
  return {{"id", id_},
          {"object", object},
          {"created", created_},
          {"model", order_.model},
          {"system_fingerprint", system_fingerprint()}};
}

// A prompt is read once, whatever the number of its answers.
Json AnswerWriter::usage() const {
  uint64_t n_prompt = 0;
  uint64_t n_cached = 0;
  uint64_t n_made = 0;
  for (size_t i = 0; i < choices_.size(); ++i) {
    if (i % order_.prompts[0].n_choices == 0) {
      n_prompt += choices_[i].summary.n_prompt;
      n_cached += choices_[i].summary.n_cached;
    }
    n_made += choices_[i].summary.n_drawn;
  }
  return {{"prompt_tokens", n_prompt},
          {"completion_tokens", n_made},
          {"total_tokens", n_prompt + n_made},
          {"prompt_tokens_details", {{"cached_tokens", n_cached}}}};
}

Json AnswerWriter::logprobs_of(const std::vector<DrawnToken>& tokens) const {
  const auto row_of = [this](uint32_t token, float logprob) {
    return Json{{"id", token},
                {"token", text_->token_text(token)},
                {"bytes", bytes_of(text_->token_bytes(token))},
                {"logprob", std::min(std::max(logprob, kLeastLogprob), 0.0f)}};
  };
  Json rows = Json::array();
  for (const DrawnToken& drawn : tokens) {
    Json row = row_of(drawn.token, drawn.logprob);
    row["top_logprobs"] = Json::array();
    for (const TokenLogprob& top : drawn.top) {
      row["top_logprobs"].push_back(row_of(top.token, top.logprob));
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

Json AnswerWriter::timings_of(const AnswerSummary& s) {
  return timings(s.n_cached, s.n_prompt - std::min(s.n_cached, s.n_prompt), s.prefill_seconds,
                 s.n_drawn, s.decode_seconds);
}

Json AnswerWriter::timings_so_far(const Choice& choice) const {
  const auto n_prompt = static_cast<uint32_t>(order_.prompts[0].prompt.size());
  return timings(0, n_prompt, choice.first_seconds - begun_seconds_, choice.n_told,
                 monotonic_seconds() - choice.first_seconds);
}

Json AnswerWriter::all_timings() const { return timings_of(choices_[0].summary); }

const char* AnswerWriter::finish_reason(const AnswerSummary& summary) {
  return is_stop(summary.end) ? "stop" : "length";
}

namespace {

class ChatWriter final : public AnswerWriter {
 public:
  using AnswerWriter::AnswerWriter;

 private:
  Json chunk(size_t index, Json delta, Json reason) const {
    Json json = head("chat.completion.chunk");
    json["choices"] = Json::array(
        {{{"index", index}, {"delta", std::move(delta)}, {"finish_reason", std::move(reason)}}});
    return json;
  }

  std::string opening(size_t index) override {
    return event_of(chunk(index, {{"role", "assistant"}, {"content", nullptr}}, nullptr));
  }

  Json piece_event(size_t prompt, const AnswerPiece& piece, Choice*) override {
    Json json = chunk(index_of(prompt, piece.choice), {{"content", piece.text}}, nullptr);
    if (order_.prompts[0].n_top) {
      json["choices"][0]["logprobs"] = logprobs_object(piece.tokens);
    }
    return json;
  }

  Json end_event(size_t prompt, const Choice& choice) override {
    Json json = chunk(index_of(prompt, choice.summary.choice), Json::object(),
                      finish_reason(choice.summary));
    json["timings"] = timings_of(choice.summary);
    return json;
  }

  std::string closing() override {
    std::string events;
    if (order_.includes_usage) {
      Json json = head("chat.completion.chunk");
      json["choices"] = Json::array();
      json["usage"] = usage();
      json["timings"] = all_timings();
      events = event_of(json);
    }
    return events + event_of(std::string("[DONE]"));
  }

  Json whole() override {
    Json json = head("chat.completion");
    json["choices"] = Json::array();
    for (size_t i = 0; i < choices_.size(); ++i) {
      Json choice = {{"index", i},
                     {"message", {{"role", "assistant"}, {"content", choices_[i].text}}},
                     {"logprobs", nullptr},
                     {"finish_reason", finish_reason(choices_[i].summary)}};
      if (order_.prompts[0].n_top) choice["logprobs"] = logprobs_object(choices_[i].tokens);
      json["choices"].push_back(std::move(choice));
    }
    json["usage"] = usage();
    json["timings"] = all_timings();
    return json;
  }

  // Who asked for no top_logprobs gets none.
  Json logprobs_object(const std::vector<DrawnToken>& tokens) const {
    return {{"content", logprobs_of(tokens)}};
  }
};

class TextWriter final : public AnswerWriter {
 public:
  using AnswerWriter::AnswerWriter;

 private:
  Json choice_of(size_t index, std::string text, Json reason) const {
    return {{"index", index},
            {"text", std::move(text)},
            {"logprobs", nullptr},
            {"finish_reason", std::move(reason)}};
  }

  Json chunk(Json choice) const {
    Json json = head("text_completion");
    json["choices"] = Json::array({std::move(choice)});
    return json;
  }

  std::string echo(size_t index) const {
    const size_t prompt = index / order_.prompts[0].n_choices;
    return order_.prompt_texts.empty() ? std::string() : order_.prompt_texts[prompt];
  }

  std::string opening(size_t index) override {
    const std::string text = echo(index);
    return text.empty() ? text : event_of(chunk(choice_of(index, text, nullptr)));
  }

  Json piece_event(size_t prompt, const AnswerPiece& piece, Choice* told) override {
    Json choice = choice_of(index_of(prompt, piece.choice), piece.text, nullptr);
    if (order_.prompts[0].n_top) {
      choice["logprobs"] = logprobs_object(piece.tokens, told->text.size());
      for (const DrawnToken& drawn : piece.tokens) told->text += text_->token_text(drawn.token);
    }
    return chunk(std::move(choice));
  }

  Json end_event(size_t prompt, const Choice& choice) override {
    Json json = chunk(
        choice_of(index_of(prompt, choice.summary.choice), "", finish_reason(choice.summary)));
    json["timings"] = timings_of(choice.summary);
    return json;
  }

  std::string closing() override {
    std::string events;
    if (order_.includes_usage) {
      Json json = head("text_completion");
      json["choices"] = Json::array();
      json["usage"] = usage();
      json["timings"] = all_timings();
      events = event_of(json);
    }
    return events + event_of(std::string("[DONE]"));
  }

  Json whole() override {
    Json json = head("text_completion");
    json["choices"] = Json::array();
    for (size_t i = 0; i < choices_.size(); ++i) {
      Json choice = choice_of(i, echo(i) + choices_[i].text, finish_reason(choices_[i].summary));
      if (order_.prompts[0].n_top) choice["logprobs"] = logprobs_object(choices_[i].tokens, 0);
      json["choices"].push_back(std::move(choice));
    }
    json["usage"] = usage();
    json["timings"] = all_timings();
    return json;
  }

  // OpenAI's four lists, and the list that llama.cpp has there.
  Json logprobs_object(const std::vector<DrawnToken>& tokens, size_t offset) const {
    Json json = {{"content", logprobs_of(tokens)},
                 {"tokens", Json::array()},
                 {"token_logprobs", Json::array()},
                 {"top_logprobs", Json::array()},
                 {"text_offset", Json::array()}};
    for (const Json& row : json["content"]) {
      Json top = Json::object();
      for (const Json& each : row["top_logprobs"]) {
        top[each["token"].get<std::string>()] = each["logprob"];
      }
      json["tokens"].push_back(row["token"]);
      json["token_logprobs"].push_back(row["logprob"]);
      json["top_logprobs"].push_back(std::move(top));
      json["text_offset"].push_back(offset);
      offset += row["token"].get<std::string>().size();
    }
    return json;
  }
};

class NativeWriter final : public AnswerWriter {
 public:
  using AnswerWriter::AnswerWriter;

 private:
  static Json ids_of(const std::vector<DrawnToken>& tokens) {
    Json ids = Json::array();
    for (const DrawnToken& drawn : tokens) ids.push_back(drawn.token);
    return ids;
  }

  Json piece_event(size_t prompt, const AnswerPiece& piece, Choice* choice) override {
    Json json = {{"index", index_of(prompt, piece.choice)},
                 {"content", piece.text},
                 {"tokens", ids_of(piece.tokens)},
                 {"stop", false},
                 {"tokens_predicted", choice->n_told},
                 {"tokens_evaluated", order_.prompts[prompt].prompt.size()}};
    if (has_probabilities()) json["completion_probabilities"] = logprobs_of(piece.tokens);
    return json;
  }

  Json end_event(size_t prompt, const Choice& choice) override {
    return told(prompt, choice, std::string(), {});
  }

  Json whole() override {
    Json list = Json::array();
    for (size_t i = 0; i < choices_.size(); ++i) {
      list.push_back(told(i / order_.prompts[0].n_choices, choices_[i], choices_[i].text,
                          order_.returns_tokens ? choices_[i].tokens : std::vector<DrawnToken>()));
      if (has_probabilities()) {
        list.back()["completion_probabilities"] = logprobs_of(choices_[i].tokens);
      }
      list.back() = chosen(std::move(list.back()));
    }
    return choices_.size() == 1 ? list[0] : list;
  }

  [[nodiscard]] bool has_probabilities() const { return order_.prompts[0].n_top.has_value(); }

  Json told(size_t prompt, const Choice& choice, std::string text,
            const std::vector<DrawnToken>& tokens) {
    const AnswerSummary& s = choice.summary;
    const char* type = "limit";
    if (s.end == AnswerEnd::kStopString) type = "word";
    if (s.end == AnswerEnd::kEndToken || s.end == AnswerEnd::kDocument) type = "eos";
    return {{"index", index_of(prompt, s.choice)},
            {"content", std::move(text)},
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
            {"timings", timings_of(s)}};
  }

  // Only the members that were asked for; "a/b" is the member b of a.
  Json chosen(Json json) const {
    if (order_.response_fields.empty()) return json;
    Json result = Json::object();
    for (const std::string& path : order_.response_fields) {
      const Json* at = &json;
      for (size_t begin = 0; at != nullptr && begin <= path.size();) {
        const size_t end = std::min(path.find('/', begin), path.size());
        const auto found = at->is_object() ? at->find(path.substr(begin, end - begin)) : at->end();
        at = at->is_object() && found != at->end() ? &*found : nullptr;
        begin = end + 1;
      }
      if (at != nullptr) result[path] = *at;
    }
    return result;
  }
};

}  // namespace

std::unique_ptr<AnswerWriter> make_writer(AnswerOrder order, const TextService* text) {
  switch (order.style) {
    case AnswerStyle::kText:
      return std::make_unique<TextWriter>(std::move(order), text);
    case AnswerStyle::kNative:
      return std::make_unique<NativeWriter>(std::move(order), text);
    default:
      return std::make_unique<ChatWriter>(std::move(order), text);
  }
}

}  // namespace cria::hosted
