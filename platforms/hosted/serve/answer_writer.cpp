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

JsonText timings(uint32_t n_cached, uint32_t n_read, double read_seconds, uint32_t n_made,
                 double made_seconds) {
  return JsonText::object({{"cache_n", n_cached},
                           {"prompt_n", n_read},
                           {"prompt_ms", kMsOfSecond * read_seconds},
                           {"prompt_per_token_ms", each_ms(n_read, read_seconds)},
                           {"prompt_per_second", rate(n_read, read_seconds)},
                           {"predicted_n", n_made},
                           {"predicted_ms", kMsOfSecond * made_seconds},
                           {"predicted_per_token_ms", each_ms(n_made, made_seconds)},
                           {"predicted_per_second", rate(n_made, made_seconds)}});
}

float told_logprob(float logprob) { return std::min(std::max(logprob, kLeastLogprob), 0.0f); }

JsonText list_of_bytes(const std::string& text) {
  return JsonText::array(text, [](char c) { return static_cast<unsigned char>(c); });
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
                   .count()) {
  choices_.resize(order_.prompts.size() * order_.prompts[0].n_choices);
}

size_t AnswerWriter::index_of(size_t prompt, uint32_t choice) const {
  return prompt * order_.prompts[0].n_choices + choice;
}

size_t AnswerWriter::bytes_of(const AnswerPiece& piece) const {
  size_t n_bytes = piece.text.size();
  if (order_.streams || order_.tells_tokens()) {
    n_bytes += bytes_of_tokens(piece.tokens.size(), order_.prompts[0].n_top.value_or(0));
  }
  return n_bytes;
}

std::string AnswerWriter::take(size_t prompt, const AnswerPiece& piece, double seconds) {
  const size_t index = index_of(prompt, piece.choice);
  Choice& choice = choices_[index];
  if (choice.first_seconds == 0.0) choice.first_seconds = seconds;
  choice.last_seconds = seconds;
  choice.n_told += static_cast<uint32_t>(piece.tokens.size());
  choice.has_new_line = choice.has_new_line || piece.text.find('\n') != std::string::npos;
  if (!order_.streams) {
    choice.text += piece.text;
    if (order_.tells_tokens()) {
      choice.tokens.insert(choice.tokens.end(), piece.tokens.begin(), piece.tokens.end());
    }
    return {};
  }
  std::string events;
  if (!std::exchange(choice.has_begun, true)) events = opening(index);
  JsonText event = piece_event(prompt, piece, &choice);
  if (order_.tells_timings) event.put("timings", timings_so_far(prompt, piece, choice));
  return events + event_of(event.text());
}

std::string AnswerWriter::end(size_t prompt, const AnswerSummary& summary) {
  const size_t index = index_of(prompt, summary.choice);
  Choice& choice = choices_[index];
  choice.summary = summary;
  if (!order_.streams) return {};
  std::string events;
  if (!std::exchange(choice.has_begun, true)) events = opening(index);
  return events + event_of(end_event(prompt, choice).text());
}

void AnswerWriter::put_list(size_t choice, List list) {
  put("[");
  parts_.back().choice = choice;
  parts_.back().list = list;
  parts_.push_back({.text = "]"});
}

void AnswerWriter::put_open(const JsonText& object) {
  const bool is_empty = object.text().size() == 2;
  put(object.text().substr(0, object.text().size() - 1));
  if (!is_empty) put(",");
}

JsonText AnswerWriter::place_of(List list, const DrawnToken& drawn) {
  switch (list) {
    case List::kTokens:
      return text_->token_text(drawn.token);
    case List::kLogprobs:
      return told_logprob(drawn.logprob);
    case List::kTop:
      return top_of(drawn);
    case List::kOffsets: {
      const size_t offset = offset_;
      offset_ += text_->token_text(drawn.token).size();
      return offset;
    }
    default:
      return logprobs_of(drawn);
  }
}

bool AnswerWriter::next_of_whole(std::string* text) {
  if (parts_.empty()) {
    parts_.emplace_back();
    put_whole();
  }
  Part& part = parts_[part_];
  if (!std::exchange(is_begun_, true)) {
    *text += part.text;
    part.text = {};
    return true;
  }
  const std::vector<DrawnToken>& tokens = choices_[part.choice].tokens;
  if (part.list != List::kNone && token_ < tokens.size()) {
    if (token_ > 0) *text += ',';
    *text += place_of(part.list, tokens[token_++]).text();
    return true;
  }
  is_begun_ = false;
  token_ = 0;
  offset_ = 0;
  if (++part_ == parts_.size()) return false;
  return next_of_whole(text);
}

// A prompt is read once, whatever the number of its answers.
AnswerWriter::Sums AnswerWriter::sums() const {
  Sums sums = {};
  for (size_t i = 0; i < choices_.size(); ++i) {
    if (i % order_.prompts[0].n_choices == 0) {
      sums.n_prompt += choices_[i].summary.n_prompt;
      sums.n_cached += choices_[i].summary.n_cached;
    }
    sums.n_made += choices_[i].summary.n_drawn;
  }
  return sums;
}

std::string AnswerWriter::counts() const {
  const Sums all = sums();
  return text_of(
      "%llu tokens (%llu held), %llu made", static_cast<unsigned long long>(all.n_prompt),
      static_cast<unsigned long long>(all.n_cached), static_cast<unsigned long long>(all.n_made));
}

JsonText AnswerWriter::head(const char* object) const {
  return JsonText::object({{"id", id_},
                           {"object", object},
                           {"created", created_},
                           {"model", order_.model},
                           {"system_fingerprint", system_fingerprint()}});
}

JsonText AnswerWriter::counted_head(const char* object) const {
  const Sums all = sums();
  JsonText json = head(object);
  json.put("usage", JsonText::object({{"prompt_tokens", all.n_prompt},
                                      {"completion_tokens", all.n_made},
                                      {"total_tokens", all.n_prompt + all.n_made},
                                      {"prompt_tokens_details",
                                       JsonText::object({{"cached_tokens", all.n_cached}})}}));
  json.put("timings", timings_of(choices_[0].summary));
  return json;
}

std::string AnswerWriter::closing_of(const char* object) const {
  std::string events;
  if (order_.includes_usage) {
    JsonText json = counted_head(object);
    json.put("choices", JsonText::array());
    events = event_of(json.text());
  }
  return events + event_of("[DONE]");
}

JsonText AnswerWriter::logprobs_of(const DrawnToken& drawn) const {
  const auto row_of = [this](uint32_t token, float logprob) {
    return JsonText::object({{"id", token},
                             {"token", text_->token_text(token)},
                             {"bytes", list_of_bytes(text_->token_bytes(token))},
                             {"logprob", told_logprob(logprob)}});
  };
  JsonText row = row_of(drawn.token, drawn.logprob);
  row.put("top_logprobs", JsonText::array(drawn.top, [&](const TokenLogprob& top) {
            return row_of(top.token, top.logprob);
          }));
  return row;
}

JsonText AnswerWriter::logprobs_of(const std::vector<DrawnToken>& tokens) const {
  return JsonText::array(tokens, [this](const DrawnToken& drawn) { return logprobs_of(drawn); });
}

// Of tokens with the same text the first counts, which is the likeliest.
JsonText AnswerWriter::top_of(const DrawnToken& drawn) const {
  JsonText top = JsonText::object();
  std::vector<std::string> names;
  for (const TokenLogprob& each : drawn.top) {
    std::string name = text_->token_text(each.token);
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    top.put(name, told_logprob(each.logprob));
    names.push_back(std::move(name));
  }
  return top;
}

JsonText AnswerWriter::timings_of(const AnswerSummary& s) {
  return timings(s.n_cached, s.n_prompt - std::min(s.n_cached, s.n_prompt), s.prefill_seconds,
                 s.n_drawn, s.decode_seconds);
}

JsonText AnswerWriter::timings_so_far(size_t prompt, const AnswerPiece& piece,
                                      const Choice& choice) const {
  const auto n_prompt = static_cast<uint32_t>(order_.prompts[prompt].prompt.size());
  return timings(piece.n_cached, n_prompt - std::min(piece.n_cached, n_prompt),
                 piece.prefill_seconds, choice.n_told, choice.last_seconds - choice.first_seconds);
}

const char* AnswerWriter::finish_reason(const AnswerSummary& summary) {
  return is_stop(summary.end) ? "stop" : "length";
}

namespace {

class ChatWriter final : public AnswerWriter {
 public:
  using AnswerWriter::AnswerWriter;

 private:
  // Who asked for no top_logprobs gets none.
  JsonText chunk(size_t index, const JsonText& delta, const JsonText& reason,
                 const std::vector<DrawnToken>* tokens = nullptr) const {
    JsonText choice =
        JsonText::object({{"index", index}, {"delta", delta}, {"finish_reason", reason}});
    if (tokens != nullptr) {
      choice.put("logprobs", JsonText::object({{"content", logprobs_of(*tokens)}}));
    }
    JsonText choices = JsonText::array();
    choices.push_back(choice);
    JsonText json = head("chat.completion.chunk");
    json.put("choices", choices);
    return json;
  }

  std::string opening(size_t index) override {
    const JsonText delta = JsonText::object({{"role", "assistant"}, {"content", nullptr}});
    return event_of(chunk(index, delta, nullptr).text());
  }

  JsonText piece_event(size_t prompt, const AnswerPiece& piece, Choice*) override {
    return chunk(index_of(prompt, piece.choice), JsonText::object({{"content", piece.text}}),
                 nullptr, order_.prompts[0].n_top ? &piece.tokens : nullptr);
  }

  JsonText end_event(size_t prompt, const Choice& choice) override {
    JsonText json = chunk(index_of(prompt, choice.summary.choice), JsonText::object(),
                          finish_reason(choice.summary));
    json.put("timings", timings_of(choice.summary));
    return json;
  }

  std::string closing() override { return closing_of("chat.completion.chunk"); }

  void put_whole() override {
    put_open(counted_head("chat.completion"));
    put("\"choices\":[");
    for (size_t i = 0; i < choices_.size(); ++i) {
      if (i > 0) put(",");
      put_open(JsonText::object(
          {{"index", i},
           {"message", JsonText::object({{"role", "assistant"}, {"content", choices_[i].text}})},
           {"finish_reason", finish_reason(choices_[i].summary)}}));
      put("\"logprobs\":");
      if (order_.prompts[0].n_top) {
        put("{\"content\":");
        put_list(i, List::kRows);
        put("}}");
      } else {
        put("null}");
      }
    }
    put("]}");
  }
};

class TextWriter final : public AnswerWriter {
 public:
  using AnswerWriter::AnswerWriter;

 private:
  // logprobs are put behind it.
  JsonText choice_of(size_t index, const std::string& text, const JsonText& reason) const {
    return JsonText::object({{"index", index}, {"text", text}, {"finish_reason", reason}});
  }

  JsonText chunk(const JsonText& choice) const {
    JsonText choices = JsonText::array();
    choices.push_back(choice);
    JsonText json = head("text_completion");
    json.put("choices", choices);
    return json;
  }

  std::string echo(size_t index) const {
    const size_t prompt = index / order_.prompts[0].n_choices;
    return order_.prompt_texts.empty() ? std::string() : order_.prompt_texts[prompt];
  }

  std::string opening(size_t index) override {
    const std::string text = echo(index);
    if (text.empty()) return {};
    JsonText choice = choice_of(index, text, nullptr);
    choice.put("logprobs", nullptr);
    return event_of(chunk(choice).text());
  }

  JsonText piece_event(size_t prompt, const AnswerPiece& piece, Choice* told) override {
    JsonText choice = choice_of(index_of(prompt, piece.choice), piece.text, nullptr);
    if (order_.prompts[0].n_top) {
      offset_ = told->n_text_bytes;
      choice.put("logprobs", logprobs_object(piece.tokens));
      told->n_text_bytes = offset_;
    } else {
      choice.put("logprobs", nullptr);
    }
    return chunk(choice);
  }

  JsonText end_event(size_t prompt, const Choice& choice) override {
    JsonText last =
        choice_of(index_of(prompt, choice.summary.choice), "", finish_reason(choice.summary));
    last.put("logprobs", nullptr);
    JsonText json = chunk(last);
    json.put("timings", timings_of(choice.summary));
    return json;
  }

  std::string closing() override { return closing_of("text_completion"); }

  void put_whole() override {
    put_open(counted_head("text_completion"));
    put("\"choices\":[");
    for (size_t i = 0; i < choices_.size(); ++i) {
      if (i > 0) put(",");
      JsonText choice =
          choice_of(i, echo(i) + choices_[i].text, finish_reason(choices_[i].summary));
      if (!order_.prompts[0].n_top) {
        choice.put("logprobs", nullptr);
        put(choice.text());
        continue;
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
    put("]}");
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
    if (has_probabilities()) json.put(kProbabilities, logprobs_of(piece.tokens));
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
      std::string_view value = json.text();
      for (size_t begin = 0; !value.empty() && begin <= paths[i].size();) {
        const size_t end = std::min(paths[i].find('/', begin), paths[i].size());
        value = raw_member(value, {std::string_view(paths[i]).substr(begin, end - begin)});
        begin = end + 1;
      }
      if (!value.empty()) result.put(paths[i], JsonText::of(std::string(value)));
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
