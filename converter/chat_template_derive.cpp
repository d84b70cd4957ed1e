#include "converter/chat_template_derive.h"

#include <algorithm>
#include <initializer_list>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include "converter/text_gaps.h"

namespace cria::converter {
namespace {

using format::ChatString;
using format::ChatTrim;
using format::ChatTrimPlace;

// Contents that no template writes or looks for.
constexpr const char* kSystemText = "Sq0xz";
constexpr const char* kLaterSystemText = "Sq1xz";
constexpr const char* kUserText = "Uq0xz";
constexpr const char* kNextUserText = "Uq1xz";
constexpr const char* kAnswer = "Aq0xz";

ProbeMessage system_says(std::string text) { return {ChatRole::kSystem, std::move(text)}; }
ProbeMessage user_says(std::string text) { return {ChatRole::kUser, std::move(text)}; }
ProbeMessage assistant_says(std::string text) { return {ChatRole::kAssistant, std::move(text)}; }

class Derivation {
 public:
  Derivation(const TemplateRenderer& renderer, const std::vector<std::string>& tokens,
             const CalendarDate& date)
      : renderer_(renderer), tokens_(tokens), date_(date) {}

  StoredTemplate run() {
    read_users();
    read_answers();
    read_system();
    split_turns();
    read_later_system();
    find_trims();
    find_thinking();
    find_endings();
    find_blanks();
    find_order();
    find_words();
    return std::move(stored_);
  }

 private:
  [[nodiscard]] std::optional<Gaps> render(const Probe& probe, bool opens_turn,
                                           std::initializer_list<const char*> contents) const {
    const Rendering rendering = renderer_.render(probe, opens_turn, date_);
    return rendering.text ? gaps_of(*rendering.text, contents) : std::nullopt;
  }
  [[nodiscard]] Gaps need(const Probe& probe, bool opens_turn,
                          std::initializer_list<const char*> contents) const {
    const Rendering rendering = renderer_.render(probe, opens_turn, date_);
    if (!rendering.text) throw std::runtime_error(rendering.error);
    if (auto gaps = gaps_of(*rendering.text, contents)) return *gaps;
    throw std::runtime_error("it does not write what is said once and in order");
  }
  [[nodiscard]] bool fits(const Probe& probe, bool opens_turn) const {
    return agrees(stored_, renderer_, probe, opens_turn, date_);
  }
  [[nodiscard]] bool fits(const Probe& probe) const {
    return fits(probe, false) && fits(probe, true);
  }
  void set(uint32_t flag) { stored_.flags |= flag; }
  [[nodiscard]] bool has(uint32_t flag) const { return (stored_.flags & flag) != 0; }

  // The longest beginning, or end, that all have; no token of the tokenizer is cut.
  [[nodiscard]] std::string shared_beginning(const std::vector<std::string>& texts) const;
  [[nodiscard]] std::string shared_end(const std::vector<std::string>& texts) const;
  [[nodiscard]] bool cuts_token(const std::string& text, size_t at) const;

  void read_users();
  void read_answers();
  void read_system();
  void split_turns();
  void split_system();
  void read_later_system();
  void find_trims();
  void find_trim(ChatTrimPlace place, const Probe& probe, bool opens_turn);
  void find_thinking();
  void find_endings();
  void find_blanks();
  void find_order();
  void find_words();

  const TemplateRenderer& renderer_;
  const std::vector<std::string>& tokens_;
  const CalendarDate date_;
  StoredTemplate stored_;
  // What stands between the contents of two messages.
  std::string start_to_user_;
  std::string user_to_open_;
  std::string user_to_closed_;
  std::string user_to_answer_;
  std::string answer_to_user_;
  std::string user_to_last_answer_;
  std::string answer_to_open_;
  std::string answer_to_closed_;
  bool has_last_answer_ = false;
  bool has_system_ = false;
  std::string start_to_system_;
  std::string system_to_user_;
};

bool Derivation::cuts_token(const std::string& text, size_t at) const {
  return std::any_of(tokens_.begin(), tokens_.end(), [&](const std::string& token) {
    if (token.size() < 2) return false;
    const size_t first = at > token.size() - 1 ? at - (token.size() - 1) : 0;
    const size_t found = text.find(token, first);
    return found != std::string::npos && found < at && found + token.size() > at;
  });
}

std::string Derivation::shared_beginning(const std::vector<std::string>& texts) const {
  std::string shared = texts[0];
  for (const std::string& text : texts) shared = common_prefix(shared, text);
  const auto is_cut = [&](const std::string& text) { return cuts_token(text, shared.size()); };
  while (!shared.empty() && std::any_of(texts.begin(), texts.end(), is_cut)) shared.pop_back();
  return shared;
}

std::string Derivation::shared_end(const std::vector<std::string>& texts) const {
  std::string shared = texts[0];
  for (const std::string& text : texts) shared = common_suffix(shared, text);
  const auto is_cut = [&](const std::string& text) {
    return cuts_token(text, text.size() - shared.size());
  };
  while (!shared.empty() && std::any_of(texts.begin(), texts.end(), is_cut)) shared.erase(0, 1);
  return shared;
}

void Derivation::read_users() {
  const Gaps open = need({user_says(kUserText)}, true, {kUserText});
  const Gaps closed = need({user_says(kUserText)}, false, {kUserText});
  start_to_user_ = open[0];
  user_to_open_ = open[1];
  user_to_closed_ = closed[1];
}

void Derivation::read_answers() {
  const Probe turns = {user_says(kUserText), assistant_says(kAnswer), user_says(kNextUserText)};
  const Gaps gaps = need(turns, true, {kUserText, kAnswer, kNextUserText});
  user_to_answer_ = gaps[1];
  answer_to_user_ = gaps[2];
  const Probe ends = {turns[0], turns[1]};
  const auto closed = render(ends, false, {kUserText, kAnswer});
  const auto open = render(ends, true, {kUserText, kAnswer});
  if (!closed) return;
  has_last_answer_ = true;
  user_to_last_answer_ = (*closed)[1];
  answer_to_closed_ = (*closed)[2];
  if (open) answer_to_open_ = (*open)[2];
  if (!open) set(format::kChatNoTurnAfterAssistant);
}

// Where the system text stands, if there is a place for it.
void Derivation::read_system() {
  const ProbeMessage system = system_says(kSystemText);
  const auto gaps = render({system, user_says(kUserText)}, true, {kSystemText, kUserText});
  if (!gaps) {
    set(format::kChatNoSystem);
    return;
  }
  has_system_ = true;
  start_to_system_ = (*gaps)[0];
  system_to_user_ = (*gaps)[1];
  const auto later =
      render({system, user_says(kUserText), assistant_says(kAnswer), user_says(kNextUserText)},
             true, {kUserText, kAnswer, kSystemText, kNextUserText});
  const std::string user_prefix = common_suffix(start_to_user_, answer_to_user_);
  if (later) {
    set(format::kChatSystemInLast);
  } else if (!user_prefix.empty() && begins_with(start_to_system_, start_to_user_) &&
             !ends_with(system_to_user_, user_prefix)) {
    set(format::kChatSystemInUser);
  }
}

// What each message begins and ends with, from what stands between two of them.
void Derivation::split_turns() {
  const bool is_inside = has(format::kChatSystemInUser | format::kChatSystemInLast);
  std::vector<std::string> to_user = {start_to_user_, answer_to_user_};
  if (has_system_ && !is_inside) to_user.push_back(system_to_user_);
  std::string user_prefix = shared_end(to_user);
  // What also ends an answer behind which nothing comes belongs to the answer.
  const std::string ends_answer = shared_beginning({answer_to_user_, answer_to_closed_});
  const size_t most = answer_to_user_.size() - ends_answer.size();
  if (user_prefix.size() > most) {
    user_prefix = shared_end({user_prefix, answer_to_user_.substr(ends_answer.size())});
  }
  stored_[ChatString::kUserPrefix] = user_prefix;
  const std::string user_suffix =
      shared_beginning({user_to_answer_, user_to_open_, user_to_closed_});
  stored_[ChatString::kUserSuffix] = user_suffix;
  stored_[ChatString::kTurn] = without_begin(user_to_open_, user_suffix);
  stored_[ChatString::kEnd] = without_begin(user_to_closed_, user_suffix);
  stored_[ChatString::kAssistantPrefix] = without_begin(user_to_answer_, user_suffix);
  const std::string answer_suffix = without_end(answer_to_user_, user_prefix);
  stored_[ChatString::kAssistantSuffix] = answer_suffix;
  const std::string& end = stored_[ChatString::kEnd];
  if (has_last_answer_ && begins_with(user_to_last_answer_, user_suffix) &&
      ends_with(answer_to_closed_, end)) {
    const std::string last_suffix = without_end(answer_to_closed_, end);
    stored_[ChatString::kLastAssistantPrefix] = without_begin(user_to_last_answer_, user_suffix);
    stored_[ChatString::kLastAssistantSuffix] = last_suffix;
    if (begins_with(answer_to_open_, last_suffix)) {
      stored_[ChatString::kTurnAfterAssistant] = without_begin(answer_to_open_, last_suffix);
    } else {
      set(format::kChatNoTurnAfterAssistant);
    }
  } else {
    set(format::kChatNotLastAssistant);
  }
  split_system();
}

// Parts what stands before the first message into what always does and what stands there with or
// without a system text. They are parted behind BOS, else at the beginning.
void Derivation::split_system() {
  const std::string before_user = without_end(start_to_user_, stored_[ChatString::kUserPrefix]);
  if (!has_system_) {
    stored_[ChatString::kBegin] = before_user;
    return;
  }
  if (has(format::kChatSystemInUser | format::kChatSystemInLast)) {
    stored_[ChatString::kBegin] = before_user;
    if (has(format::kChatSystemInLast) && !begins_with(start_to_system_, start_to_user_)) {
      throw std::runtime_error("the system text changes what stands before it");
    }
    stored_[ChatString::kSystemPrefix] = without_begin(start_to_system_, start_to_user_);
    stored_[ChatString::kSystemSuffix] = system_to_user_;
    return;
  }
  const std::string common = common_prefix(before_user, start_to_system_);
  const std::string bos = renderer_.bos();
  const size_t at = bos.empty() ? std::string::npos : common.find(bos);
  const std::string begin = at == std::string::npos ? "" : common.substr(0, at + bos.size());
  stored_[ChatString::kBegin] = begin;
  stored_[ChatString::kNoSystem] = without_begin(before_user, begin);
  stored_[ChatString::kSystemPrefix] = without_begin(start_to_system_, begin);
  stored_[ChatString::kSystemSuffix] =
      without_end(system_to_user_, stored_[ChatString::kUserPrefix]);
}

void Derivation::read_later_system() {
  if (!has_system_) return;
  const std::string& answer_suffix = stored_[ChatString::kAssistantSuffix];
  const std::string& user_prefix = stored_[ChatString::kUserPrefix];
  const ProbeMessage later = system_says(kLaterSystemText);
  const auto gaps =
      render({user_says(kUserText), assistant_says(kAnswer), later, user_says(kNextUserText)}, true,
             {kUserText, kAnswer, kLaterSystemText, kNextUserText});
  if (gaps && begins_with((*gaps)[2], answer_suffix) && ends_with((*gaps)[3], user_prefix)) {
    stored_[ChatString::kLaterSystemPrefix] = without_begin((*gaps)[2], answer_suffix);
    stored_[ChatString::kLaterSystemSuffix] = without_end((*gaps)[3], user_prefix);
  } else {
    set(format::kChatOnlyFirstSystem);
  }
}

// Tries what a content may lose at one end.
void Derivation::find_trim(ChatTrimPlace place, const Probe& probe, bool opens_turn) {
  const uint32_t trims = stored_.trims;
  for (const ChatTrim trim : {ChatTrim::kNothing, ChatTrim::kSpace, ChatTrim::kNewlines}) {
    stored_.trims = trims | static_cast<uint32_t>(trim) << static_cast<uint32_t>(place);
    if (renderer_.render(probe, opens_turn, date_).text == stored_text(stored_, probe, opens_turn))
      return;
  }
  stored_.trims = trims;
}

void Derivation::find_trims() {
  const std::string left = "\n \n";
  const std::string right = "\n \n";
  const ProbeMessage user = user_says(kUserText);
  const ProbeMessage next = user_says(kNextUserText);
  const auto find = [&](ChatTrimPlace place, const Probe& probe) {
    find_trim(place, probe, false);
  };
  find(ChatTrimPlace::kUserLeft, {user_says(left + kUserText)});
  find(ChatTrimPlace::kUserRight, {user_says(kUserText + right)});
  find(ChatTrimPlace::kAssistantLeft, {user, assistant_says(left + kAnswer), next});
  find(ChatTrimPlace::kAssistantRight, {user, assistant_says(kAnswer + right), next});
  if (!has(format::kChatNotLastAssistant)) {
    find(ChatTrimPlace::kLastAssistantLeft, {user, assistant_says(left + kAnswer)});
    find(ChatTrimPlace::kLastAssistantRight, {user, assistant_says(kAnswer + right)});
  }
  if (!has_system_) return;
  find(ChatTrimPlace::kSystemLeft, {system_says(left + kSystemText), user});
  find(ChatTrimPlace::kSystemRight, {system_says(kSystemText + right), user});
  const Probe together = {system_says(kSystemText), user_says(left + kUserText + right)};
  const bool is_inside = has(format::kChatSystemInUser | format::kChatSystemInLast);
  if (is_inside && !fits(together, false)) set(format::kChatTrimTogether);
}

// Whether answers lose their thinking once they are history.
void Derivation::find_thinking() {
  const ProbeMessage user = user_says(kUserText);
  const ProbeMessage next = user_says(kNextUserText);
  const auto thought = [&](const std::string& text) {
    return fits({user, assistant_says(text), next});
  };
  const auto all_fit = [&] {
    return thought("<think>\nr\n</think>\n\nq") && thought("r</think>q") &&
           thought("<think>a</think>b</think> q\n") && thought("\n<think>\n\n</think>\n\n\nq");
  };
  if (all_fit()) return;
  const uint32_t flags = stored_.flags;
  for (const uint32_t more :
       {format::kChatDropThinking, format::kChatDropThinking | format::kChatDropNewlines}) {
    stored_.flags = flags | more;
    if (all_fit()) return;
  }
  stored_.flags = flags;
}

// Which messages a conversation may end with, and whether it may be without a question.
void Derivation::find_endings() {
  const ProbeMessage user = user_says(kUserText);
  const ProbeMessage system = system_says(kSystemText);
  const ProbeMessage later = system_says(kLaterSystemText);
  const ProbeMessage answer = assistant_says(kAnswer);
  if (!fits({user, answer}, false) || !fits({user, answer, user, answer}, false)) {
    set(format::kChatNotLastAssistant);
  }
  if (!fits({user, answer}, true) || !fits({user, answer, user, answer}, true)) {
    set(format::kChatNoTurnAfterAssistant);
  }
  if (!fits({user, later}) || !fits({user, answer, later})) set(format::kChatNotLastSystem);
  if (!fits({system, user, later}) || !fits({system, user, answer, later})) {
    set(format::kChatNotLastSystem);
  }
  if (!fits({system}) || !fits({answer}) || !fits({system, answer})) {
    set(format::kChatNeedsUser);
  }
}

void Derivation::find_blanks() {
  const ProbeMessage user = user_says(kUserText);
  const ProbeMessage next = user_says(kNextUserText);
  const ProbeMessage answer = assistant_says(kAnswer);
  for (const char* blank : {"", " ", "\n", " \n\t"}) {
    if (!fits({system_says(blank), user}) || !fits({system_says(blank), user, answer, next})) {
      set(format::kChatNoBlankSystem);
    }
    if (!fits({user_says(blank)}) || !fits({user, answer, user_says(blank)}) ||
        !fits({system_says(kSystemText), user_says(blank)}) ||
        !fits({user_says(blank), answer, next})) {
      set(format::kChatNoBlankUser);
    }
    if (!fits({user, assistant_says(blank), next}) || !fits({user, assistant_says(blank)})) {
      set(format::kChatNoBlankAssistant);
    }
  }
}

// Whether messages may come in any order.
void Derivation::find_order() {
  const ProbeMessage user = user_says(kUserText);
  const ProbeMessage next = user_says(kNextUserText);
  const ProbeMessage system = system_says(kSystemText);
  const ProbeMessage later = system_says(kLaterSystemText);
  const ProbeMessage answer = assistant_says(kAnswer);
  const ProbeMessage thought = assistant_says("<think>\nr\n</think>\n\nq");
  for (const Probe& probe : std::initializer_list<Probe>{{user, next},
                                                         {user, thought, answer},
                                                         {user, thought, answer, next, answer},
                                                         {answer, thought, user},
                                                         {answer, user},
                                                         {user, answer, answer, next},
                                                         {system, user, next},
                                                         {system, answer, user},
                                                         {user, next, answer, user},
                                                         {system, user, answer, answer, next, next},
                                                         {answer, answer, user, answer}}) {
    if (!fits(probe)) set(format::kChatAlternates);
  }
  for (const Probe& probe :
       std::initializer_list<Probe>{{user, later, next},
                                    {system, later, user},
                                    {system, user, later, answer, next},
                                    {system, user, later, next},
                                    {user, answer, later, next, answer, later, user},
                                    {system, user, answer, later, next}}) {
    if (!fits(probe)) set(format::kChatOnlyFirstSystem);
  }
}

// Texts that the template looks for in contents: what it does then the form cannot say.
void Derivation::find_words() {
  constexpr size_t kMostWords = 256;
  constexpr size_t kLongest = 4096;
  const ProbeMessage user = user_says(kUserText);
  const ProbeMessage next = user_says(kNextUserText);
  const ProbeMessage answer = assistant_says(kAnswer);
  std::set<std::string> words = {"<think>", "</think>"};
  for (const std::string& word : renderer_.source().literals) {
    const bool is_blank = word.find_first_not_of(" \t\r\n") == std::string::npos;
    if (word.size() > kLongest) throw std::runtime_error("it has a string that is too long");
    if (word.find('\0') != std::string::npos) {
      throw std::runtime_error("it has a string with a zero byte");
    }
    if (!is_blank) words.insert(word);
  }
  if (words.size() > kMostWords) throw std::runtime_error("it has too many strings");
  for (const std::string& word : words) {
    const auto differs = [&](const auto& probe_of) {
      for (const std::string& text :
           {word, word + "q", "q" + word, "q " + word + "\nq " + word + " q"}) {
        if (!probe_of(text)) return true;
      }
      return false;
    };
    const auto forbid = [&](ChatString list) { stored_[list] += word + '\0'; };
    if (has_system_ && differs([&](const std::string& text) {
          return fits({system_says(text), user}) && fits({system_says(text), user, answer, next});
        })) {
      forbid(ChatString::kNotInSystem);
    }
    if (differs([&](const std::string& text) {
          return fits({user_says(text)}) && fits({user_says(text), answer, next}) &&
                 fits({user, answer, user_says(text)}) &&
                 fits({user, answer, user_says(text), answer});
        })) {
      forbid(ChatString::kNotInUser);
    }
    if (differs([&](const std::string& text) {
          return fits({user, assistant_says(text), next}) && fits({user, assistant_says(text)}) &&
                 fits({user, answer, next, assistant_says(text), user});
        })) {
      forbid(ChatString::kNotInAssistant);
    }
  }
}

// The date --------------------------------------------------------------------------------------

// Marks where a date stands in the strings; false when they do not differ by it alone.
bool mark_date(const StoredTemplate& other, const std::string& date, const std::string& other_date,
               StoredTemplate* stored) {
  for (size_t i = 0; i < format::kChatTexts; ++i) {
    std::string marked = stored->strings[i];
    std::string other_marked = other.strings[i];
    const auto mark = [](const std::string& what, std::string* text) {
      for (size_t at = text->find(what); at != std::string::npos; at = text->find(what, at + 1)) {
        text->replace(at, what.size(), 1, '\0');
      }
    };
    mark(date, &marked);
    mark(other_date, &other_marked);
    if (marked != other_marked) return false;
    stored->strings[i] = marked;
  }
  return true;
}

}  // namespace

StoredTemplate derive_template(const TemplateRenderer& renderer,
                               const std::vector<std::string>& tokens) {
  // Differs from kTemplateDate in every part.
  constexpr CalendarDate kOtherDate = {2031, 11, 3};
  StoredTemplate stored = Derivation(renderer, tokens, kTemplateDate).run();
  // Another date would change nothing: there is no other way to one.
  const bool takes_date = renderer.source().text.find("date_string") != std::string::npos;
  if (!takes_date && renderer.date_formats().empty()) return stored;
  const StoredTemplate other = Derivation(renderer, tokens, kOtherDate).run();
  if (stored.strings == other.strings) return stored;
  // A template that takes its date from its caller is of the kind of Llama 3.
  const std::set<std::string>& formats = renderer.date_formats();
  const std::string format = formats.empty() ? kDateStringFormat : *formats.begin();
  const auto date = format_date(format, kTemplateDate);
  const auto other_date = format_date(format, kOtherDate);
  StoredTemplate marked = stored;
  if (formats.size() > 1 || !date || !other_date ||
      !mark_date(other, *date, *other_date, &marked)) {
    stored.has_fixed_date = true;
    return stored;
  }
  marked[ChatString::kDate] = *date;
  marked[ChatString::kDateFormat] = format;
  return marked;
}

}  // namespace cria::converter
