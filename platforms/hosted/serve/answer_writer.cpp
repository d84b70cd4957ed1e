#include "platforms/hosted/serve/answer_writer.h"

#include <algorithm>
#include <utility>

#include "platforms/hosted/base/print_format.h"
#include "platforms/hosted/serve/logprobs_json.h"
#include "platforms/hosted/serve/random_bits.h"

namespace cria::hosted {
namespace {

constexpr double kMsOfSecond = 1000.0;

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

// Some templates take no other ids.
std::string new_call_id() {
  constexpr std::string_view kDigits = "0123456789abcdefghijklmnopqrstuvwxyz";
  constexpr size_t kCharacters = 9;
  std::string id;
  for (uint64_t bits = random_bits(); id.size() < kCharacters; bits /= kDigits.size()) {
    id += kDigits[static_cast<size_t>(bits % kDigits.size())];
  }
  return id;
}

// Whether what an answer was in when it ended is not told: a stop string may stand inside a call.
bool is_cut(AnswerEnd end) { return end != AnswerEnd::kEndToken && end != AnswerEnd::kDocument; }

bool is_stop(AnswerEnd end) {
  return end == AnswerEnd::kEndToken || end == AnswerEnd::kStopString ||
         end == AnswerEnd::kDocument;
}

}  // namespace

AnswerWriter::AnswerWriter(AnswerOrder order, const TextService* text)
    : order_(std::move(order)), text_(text) {
  choices_.resize(order_.prompt_sizes.size() * order_.n_choices);
}

size_t AnswerWriter::index_of(size_t prompt, uint32_t choice) const {
  return prompt * order_.n_choices + choice;
}

size_t AnswerWriter::own_bytes() const {
  // A stream of a response begins with them twice.
  size_t n_bytes = order_.settings.text().size() * (order_.streams ? 2 : 1);
  if (order_.reading != nullptr) {
    n_bytes +=
        order_.reading->tools.size() + choices_.size() * CallReader::bytes_for(*order_.reading);
  }
  for (const JsonText& text : order_.prompt_texts) n_bytes += text.text().size();
  return 2 * n_bytes + order_.prompt_sizes.size() * order_.embedding.width * sizeof(float);
}

size_t AnswerWriter::bytes_of(const AnswerPiece& piece) const {
  size_t n_bytes = piece.text.size();
  if (order_.streams || order_.tells_tokens()) {
    n_bytes += bytes_of_tokens(piece.tokens.size(), order_.n_top.value_or(0));
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
  if (order_.reading != nullptr) {
    return events + tell_parts(prompt, piece, reader_of(&choice).read(piece.text), &choice);
  }
  JsonText event = piece_event(prompt, piece, &choice);
  if (order_.tells_timings) event.put("timings", timings_so_far(prompt, piece, choice));
  return events + event_of(event);
}

CallReader& AnswerWriter::reader_of(Choice* choice) {
  if (choice->reader == nullptr) choice->reader = std::make_unique<CallReader>(*order_.reading);
  return *choice->reader;
}

// Adds to the calls of a choice what is told of them.
void AnswerWriter::note_part(const AnswerPart& part, Choice* choice) {
  switch (part.kind) {
    case CRIA_CALLS_BEGIN:
      choice->calls.push_back({part.id.empty() ? new_call_id() : part.id, part.text, {}, false});
      break;
    case CRIA_CALLS_ARGUMENTS:
      choice->calls.back().arguments += part.text;
      break;
    case CRIA_CALLS_END:
      choice->calls.back().is_whole = true;
      break;
    default:
      break;
  }
}

// The tokens of a piece go with its first text.
std::string AnswerWriter::tell_parts(size_t prompt, AnswerPiece piece,
                                     const std::vector<AnswerPart>& parts, Choice* choice) {
  std::string events;
  const auto tell = [&](JsonText event) {
    if (order_.tells_timings) event.put("timings", timings_so_far(prompt, piece, *choice));
    events += event_of(event);
  };
  for (const AnswerPart& part : parts) {
    note_part(part, choice);
    if (part.kind == CRIA_CALLS_TEXT) {
      piece.text = part.text;
      tell(piece_event(prompt, piece, choice));
      piece.tokens.clear();
    } else if (auto event = part_event(index_of(prompt, piece.choice), part, *choice)) {
      tell(std::move(*event));
    }
  }
  if (order_.tells_tokens() && !piece.tokens.empty()) {
    piece.text.clear();
    tell(piece_event(prompt, piece, choice));
  }
  return events;
}

// A whole answer's text.
void AnswerWriter::take_apart(Choice* choice) {
  std::vector<AnswerPart> parts = reader_of(choice).read(choice->text);
  std::vector<AnswerPart> rest = choice->reader->finish(is_cut(choice->summary.end));
  parts.insert(parts.end(), std::make_move_iterator(rest.begin()),
               std::make_move_iterator(rest.end()));
  choice->reader = nullptr;
  choice->text.clear();
  for (const AnswerPart& part : parts) {
    note_part(part, choice);
    if (part.kind == CRIA_CALLS_TEXT) choice->text += part.text;
    if (part.kind == CRIA_CALLS_THINKING) choice->thinking += part.text;
  }
}

std::string AnswerWriter::end(size_t prompt, const AnswerSummary& summary) {
  const size_t index = index_of(prompt, summary.choice);
  Choice& choice = choices_[index];
  choice.summary = summary;
  if (!order_.streams) return {};
  std::string events;
  if (!std::exchange(choice.has_begun, true)) events = opening(index);
  if (order_.reading != nullptr) {
    AnswerPiece rest = {};
    rest.choice = summary.choice;
    rest.n_cached = summary.n_cached;
    rest.prefill_seconds = summary.prefill_seconds;
    events += tell_parts(prompt, rest, reader_of(&choice).finish(is_cut(summary.end)), &choice);
    choice.reader = nullptr;
  }
  return events + event_of(end_event(prompt, choice));
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
      return top_of(*text_, drawn);
    case List::kOffsets: {
      const size_t offset = offset_;
      offset_ += text_->token_text(drawn.token).size();
      return offset;
    }
    default:
      return logprobs_of(*text_, drawn);
  }
}

void AnswerWriter::put_next() {
  parts_.assign(1, {});
  part_ = 0;
  const size_t i = n_put_++;
  if (i == 0) return put_first();
  if (i > choices_.size()) return put_last();
  if (i > 1) {
    std::vector<DrawnToken>().swap(choices_[i - 2].tokens);
    put(",");
  }
  if (order_.reading != nullptr) take_apart(&choices_[i - 1]);
  put_choice(i - 1);
  std::string().swap(choices_[i - 1].text);
}

bool AnswerWriter::next_of_whole(std::string* text) {
  if (part_ == parts_.size()) put_next();
  Part& part = parts_[part_];
  // What adds no text and is not the end would be waited for.
  if (!std::exchange(is_begun_, true) && !part.text.empty()) {
    *text += part.text;
    std::string().swap(part.text);
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
  if (++part_ < parts_.size() || n_put_ < choices_.size() + 2) return next_of_whole(text);
  return false;
}

// A prompt is read once, whatever the number of its answers.
AnswerWriter::Sums AnswerWriter::sums() const {
  Sums sums = {};
  for (size_t i = 0; i < choices_.size(); ++i) {
    if (i % order_.n_choices == 0) {
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

JsonText AnswerWriter::timings_of(const AnswerSummary& s) {
  return timings(s.n_cached, s.n_prompt - std::min(s.n_cached, s.n_prompt), s.prefill_seconds,
                 s.n_drawn, s.decode_seconds);
}

JsonText AnswerWriter::timings_so_far(size_t prompt, const AnswerPiece& piece,
                                      const Choice& choice) const {
  const uint32_t n_prompt = order_.prompt_sizes[prompt];
  return timings(piece.n_cached, n_prompt - std::min(piece.n_cached, n_prompt),
                 piece.prefill_seconds, choice.n_told, choice.last_seconds - choice.first_seconds);
}

std::string AnswerWriter::reading(const ReadingProgress& progress) const {
  if (order_.form != WireForm::kEvents) return {};
  return text_of(": reading %u of %u\n\n", progress.n_read, progress.n_prompt);
}

const char* AnswerWriter::finish_reason(const AnswerSummary& summary) {
  return is_stop(summary.end) ? "stop" : "length";
}

bool AnswerWriter::ends_with_calls(const Choice& choice) {
  return is_stop(choice.summary.end) && std::any_of(choice.calls.begin(), choice.calls.end(),
                                                    [](const Call& call) { return call.is_whole; });
}

}  // namespace cria::hosted
