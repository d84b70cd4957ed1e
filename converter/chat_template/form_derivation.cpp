#include "converter/chat_template/form_derivation.h"

#include <algorithm>
#include <initializer_list>
#include <set>
#include <stdexcept>

#include "converter/chat_template/joints.h"
#include "converter/chat_template/marked_samples.h"
#include "converter/chat_template/patterns.h"

namespace cria::converter {
namespace {

using format::bit_of;
using format::ChatString;
using format::ChatUnit;

// Differs from kTemplateDate in every part.
constexpr CalendarDate kOtherDate = {2031, 11, 3};

using Texts = std::initializer_list<std::pair<char, std::string>>;

// Messages of letters of marked_dialogue, with texts of their own.
Dialogue said(Texts texts, bool opens_turn) {
  Dialogue dialogue;
  for (const auto& [letter, text] : texts) {
    const ChatRole role = letter == 'S'   ? ChatRole::kSystem
                          : letter == 'U' ? ChatRole::kUser
                          : letter == 'R' ? ChatRole::kTool
                                          : ChatRole::kAssistant;
    DialogueMessage message = {role, text, {}, {}, {}, {}};
    if (letter == 'c') message.calls = {{"Cq0xz", "{}", "idq00xz1a"}};
    if (letter == 'R') {
      message.name = "Cq0xz";
      message.id = "idq00xz1a";
    }
    dialogue.messages.push_back(std::move(message));
  }
  dialogue.opens_turn = opens_turn;
  return dialogue;
}

class Derivation {
 public:
  Derivation(const TemplateRenderer& renderer, bool with_tools)
      : renderer_(renderer), with_tools_(with_tools) {}

  StoredTemplate run() {
    if (with_tools_) find_patterns(renderer_, &stored_);
    find_system_in_last();
    const std::vector<Sample> samples = render_samples();
    find_rules(samples, &stored_);
    mark_date();
    narrow_wrong_rules(samples, &stored_);
    find_thinking();
    find_ids();
    find_blanks();
    find_words();
    merge_rules(&stored_);
    return std::move(stored_);
  }

 private:
  [[nodiscard]] std::vector<Sample> render_samples() const {
    const bool switches = switches_thinking(renderer_.source().reads);
    std::vector<Dialogue> dialogues = text_samples(switches);
    if (with_tools_) {
      for (Dialogue& dialogue : tool_samples(switches)) {
        dialogues.push_back(std::move(dialogue));
      }
    }
    std::string error;
    auto texts = render_all(renderer_, dialogues, &error);
    std::vector<Sample> samples;
    for (size_t i = 0; i < dialogues.size(); ++i) {
      samples.push_back({std::move(dialogues[i]), std::move(texts[i])});
    }
    const bool has_any = std::any_of(samples.begin(), samples.end(),
                                     [](const Sample& sample) { return sample.text.has_value(); });
    if (!has_any) throw std::runtime_error(error);
    return samples;
  }

  // Whether form and template agree on all: the same text, or the form refuses it.
  [[nodiscard]] bool fits(const std::vector<Dialogue>& dialogues) const {
    const StoredForm form(stored_);
    const auto texts = render_all(renderer_, dialogues);
    for (size_t i = 0; i < dialogues.size(); ++i) {
      const auto text = form.text(dialogues[i]);
      if (text && text != texts[i]) return false;
    }
    return true;
  }
  // Opened and closed.
  [[nodiscard]] bool fits(std::initializer_list<Texts> all) const {
    std::vector<Dialogue> dialogues;
    for (const Texts& texts : all) {
      for (const bool opens_turn : {true, false}) dialogues.push_back(said(texts, opens_turn));
    }
    return fits(dialogues);
  }
  // Where the template writes results and no tools, what has tools is refused and tells nothing.
  [[nodiscard]] std::vector<Dialogue> with_tools(std::vector<Dialogue> dialogues) const {
    if (stored_[ChatString::kTool].empty()) return dialogues;
    for (Dialogue& dialogue : dialogues) dialogue.tools = {marked_tool(0)};
    return dialogues;
  }
  void set(uint32_t flag) { stored_.flags |= flag; }

  void find_system_in_last() {
    const auto text = render_all(renderer_, {marked_dialogue("SUAU")})[0];
    if (!text) return;
    const size_t first = text->find(mark_of('U', 1));
    const size_t system = text->find(mark_of('S', 0));
    if (first < system && system < text->find(mark_of('U', 3))) set(format::kChatSystemInLast);
  }

  // The date of the samples in the joints becomes the place of any date, where other dates agree.
  void mark_date() {
    const bool takes_date = renderer_.source().reads.contains("date_string");
    if (!takes_date && renderer_.date_formats().empty()) return;
    const auto other_dates_fit = [&] {
      std::vector<Dialogue> dialogues;
      for (const char* letters : {"U", "SU", "UAU", "SUAUAU"}) {
        dialogues.push_back(marked_dialogue(letters));
        dialogues.back().date = kOtherDate;
      }
      return fits(dialogues);
    };
    if (other_dates_fit()) return;
    stored_.has_fixed_date = true;
    // A template that takes its date from its caller is of the kind of Llama 3.
    const std::set<std::string>& formats = renderer_.date_formats();
    const std::string format = formats.empty() ? kDateStringFormat : *formats.begin();
    const auto date = format_date(format, kTemplateDate);
    // A date that is empty stands everywhere.
    if (formats.size() > 1 || !date || date->empty()) return;
    const StoredTemplate unmarked = stored_;
    for (StoredRule& rule : stored_.rules) {
      const std::string slot = {'\0', format::kChatSlotDate};
      for (size_t at = rule.text.find(*date); at != std::string::npos;
           at = rule.text.find(*date, at)) {
        rule.text.replace(at, date->size(), slot);
      }
    }
    stored_[ChatString::kDate] = *date;
    stored_[ChatString::kDateFormat] = format;
    stored_.has_fixed_date = !other_dates_fit();
    if (stored_.has_fixed_date) stored_ = unmarked;
  }

  // Whether answers lose the thinking in their texts once they are history.
  void find_thinking() {
    const auto all_fit = [&] {
      for (const char* text : {"<think>\nr\n</think>\n\nq", "r</think>q",
                               "<think>a</think>b</think> q\n", "\n<think>\n\n</think>\n\n\nq"}) {
        if (!fits({{{'U', "u"}, {'A', text}, {'U', "v"}},
                   {{'U', "u"}, {'A', text}, {'U', "v"}, {'A', text}, {'U', "w"}},
                   {{'U', "u"}, {'A', text}, {'A', "a"}}})) {
          return false;
        }
        if (!with_tools_) continue;
        Dialogue calls = said({{'U', "u"}, {'c', text}, {'R', "r"}}, true);
        Dialogue later = said({{'U', "u"}, {'c', text}, {'R', "r"}, {'A', "a"}, {'U', "v"}}, true);
        if (!fits(with_tools({calls, later}))) return false;
      }
      return true;
    };
    if (all_fit()) return;
    const uint32_t flags = stored_.flags;
    for (const uint32_t where : {uint32_t{0}, format::kChatTurnKeepsThinking}) {
      for (const uint32_t newlines : {uint32_t{0}, format::kChatDropNewlines}) {
        stored_.flags = flags | format::kChatDropThinking | newlines | where;
        if (all_fit()) return;
      }
    }
    stored_.flags = flags;
  }

  // What ids the template wants, and whether it looks for a question asked twice.
  void find_ids() {
    if (!fits({{{'U', "u"}, {'A', "a"}, {'U', "u"}}})) set(format::kChatNoTwins);
    if (!with_tools_) return;
    const auto with_ids = [&](const std::string& id, const std::string& name, bool has_tools) {
      Dialogue dialogue = said({{'U', "u"}, {'c', ""}, {'R', "r"}}, true);
      dialogue.messages[1].calls[0].id = id;
      dialogue.messages[2].id = id;
      dialogue.messages[2].name = name;
      if (has_tools) dialogue.tools = {marked_tool(0)};
      return dialogue;
    };
    const auto both = [&](const std::string& id, const std::string& name) {
      return fits({with_ids(id, name, false), with_ids(id, name, true)});
    };
    const auto long_ids_fit = [&] {
      return both("call_9aF3kQ0xYz7Lm2", "Cq0xz") && both("a-b_c.d:e, 'f\" <g>", "Cq0xz") &&
             both("idq00xz1a", "Cq0xz") && both("idq00xz1", "Cq0xz");
    };
    if (!both("call_9aF3kQ0xYz7Lm2", "Cq0xz")) {
      stored_.id_characters = 9;
      set(format::kChatLongIds);
      if (!long_ids_fit()) stored_.flags &= ~format::kChatLongIds;
    }
    if (!both("", "Cq0xz") || !both("idq00xz1a", "") || !both("", "")) set(format::kChatNeedsIds);
    find_twins();
  }

  // Where a question is asked twice, with tools: all of them, or none of them, are the last one.
  // What differs also where every question is another one is no matter of this.
  void find_twins() {
    std::vector<Dialogue> twins;
    for (const bool opens_turn : {true, false}) {
      for (const Texts& texts :
           {Texts{{'U', "u"}, {'A', "a"}, {'U', "u"}},
            Texts{{'S', "s"}, {'U', "u"}, {'A', "a"}, {'U', "v"}, {'A', "a"}, {'U', "u"}},
            Texts{{'U', "u"}, {'c', ""}, {'R', "r"}, {'A', "a"}, {'U', "u"}, {'c', ""}, {'R', "r"}},
            Texts{{'U', "u"}, {'A', "a"}, {'U', "u"}, {'A', "b"}, {'U', "u"}, {'A', "c"}},
            Texts{{'U', "v"}, {'A', "a"}, {'U', "v"}, {'A', "a"}, {'U', "u"}}}) {
        Dialogue twin = said(texts, opens_turn);
        twin.tools = {marked_tool(0)};
        Dialogue others = twin;
        for (size_t i = 0; i < others.messages.size(); ++i) {
          DialogueMessage& message = others.messages[i];
          if (message.role == ChatRole::kUser) message.content += std::to_string(i);
        }
        if (fits(std::vector<Dialogue>{others})) twins.push_back(std::move(twin));
      }
    }
    if (fits(twins)) return;
    set(format::kChatTwinsAreLast);
    if (fits(twins)) return;
    stored_.flags &= ~format::kChatTwinsAreLast;
    set(format::kChatNoTwinsWithTools);
  }

  void find_blanks() {
    const auto forbid = [&](ChatUnit unit) { stored_.not_blank |= bit_of(unit); };
    for (const char* blank : {"", " ", "\n", " \n\t"}) {
      if (!fits({{{'S', blank}, {'U', "u"}},
                 {{'S', blank}, {'U', "u"}, {'A', "a"}, {'U', "v"}},
                 {{'U', "u"}, {'S', blank}, {'U', "v"}},
                 {{'S', blank}}})) {
        forbid(ChatUnit::kSystem);
      }
      if (!fits({{{'U', blank}},
                 {{'U', "u"}, {'A', "a"}, {'U', blank}},
                 {{'S', "s"}, {'U', blank}},
                 {{'U', blank}, {'A', "a"}, {'U', "v"}},
                 {{'S', "s"}, {'U', blank}, {'A', "a"}, {'U', "v"}}})) {
        forbid(ChatUnit::kUser);
      }
      if (!fits({{{'U', "u"}, {'A', blank}, {'U', "v"}}, {{'U', "u"}, {'A', blank}}})) {
        forbid(ChatUnit::kText);
      }
      if (!with_tools_) continue;
      const auto of_texts = [&](Texts texts) { return with_tools({said(texts, true)}); };
      if (!fits(of_texts({{'S', blank}, {'U', "u"}})) ||
          !fits(of_texts({{'S', blank}, {'U', "u"}, {'A', "a"}, {'U', "v"}}))) {
        forbid(ChatUnit::kSystem);
      }
      if (!fits(of_texts({{'U', blank}})) || !fits(of_texts({{'S', "s"}, {'U', blank}})) ||
          !fits(of_texts({{'U', "u"}, {'A', "a"}, {'U', blank}}))) {
        forbid(ChatUnit::kUser);
      }
      Dialogue result = said({{'U', "u"}, {'c', ""}, {'R', blank}}, true);
      Dialogue text = said({{'U', "u"}, {'c', blank}, {'R', "r"}}, true);
      Dialogue thinking = said({{'U', "u"}, {'A', "a"}}, false);
      thinking.messages[1].thinking = blank;
      if (!fits(with_tools({result}))) forbid(ChatUnit::kResult);
      if (!fits(with_tools({text}))) forbid(ChatUnit::kCall);
      if (!fits({thinking})) forbid(ChatUnit::kThinking);
    }
    // Beside thinking an answer's text may be missing.
    if (!with_tools_) return;
    Dialogue silent = said({{'U', "u"}, {'A', ""}}, false);
    silent.messages[1].thinking = "h";
    Dialogue later = said({{'U', "u"}, {'A', ""}, {'U', "v"}}, true);
    later.messages[1].thinking = "h";
    if (!fits({silent, later})) forbid(ChatUnit::kCall);
  }

  // Texts that the template looks for in contents: what it does then the form cannot say.
  void find_words() {
    constexpr size_t kMostWords = 512;
    constexpr size_t kLongest = 1 << 14;  // some have a system text of the family's
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
    for (const std::string& word : find_suspects(words)) forbid_where_it_matters(word);
  }

  // A word alone, at either end and inside.
  [[nodiscard]] static std::vector<std::string> texts_with(const std::string& word) {
    return {word, word + "q", "q" + word, "q " + word + "\nq " + word + " q"};
  }

  // Words that change a conversation in which every message has them. Few renderings: most words
  // change nothing.
  [[nodiscard]] std::vector<std::string> find_suspects(const std::set<std::string>& words) const {
    std::vector<Dialogue> dialogues;
    std::vector<const std::string*> of;
    for (const std::string& word : words) {
      const std::vector<std::string> texts = texts_with(word);
      const auto add = [&](Dialogue dialogue) {
        dialogues.push_back(std::move(dialogue));
        of.push_back(&word);
      };
      for (size_t i = 0; i < texts.size(); ++i) {
        const auto text = [&](size_t k) { return texts[(i + k) % texts.size()]; };
        add(said({{'S', text(0)}, {'U', text(1)}, {'A', text(2)}, {'U', text(3)}}, true));
        add(said({{'U', text(0)}, {'A', text(1)}}, false));
        add(said({{'U', "u"}, {'A', text(0)}, {'U', "v"}, {'A', "a"}, {'U', "w"}}, true));
        if (!with_tools_) continue;
        Dialogue result =
            said({{'U', "u"}, {'c', text(2)}, {'R', text(3)}, {'A', text(0)}, {'U', "u"}}, true);
        for (Dialogue& each : with_tools({result})) add(std::move(each));
        result = said({{'U', "v"}, {'c', ""}, {'R', text(1)}}, true);
        for (Dialogue& each : with_tools({result})) add(std::move(each));
        Dialogue thought = said({{'U', "u"}, {'A', "a"}}, false);
        thought.messages[1].thinking = text(0);
        add(thought);
      }
    }
    const StoredForm form(stored_);
    const auto texts = render_all(renderer_, dialogues);
    std::vector<std::string> suspects;
    for (size_t i = 0; i < dialogues.size(); ++i) {
      const auto text = form.text(dialogues[i]);
      const bool agrees = !text || text == texts[i];
      // What is refused for another reason tells nothing.
      if (agrees && text) continue;
      if (suspects.empty() || suspects.back() != *of[i]) suspects.push_back(*of[i]);
    }
    return suspects;
  }

  void forbid_where_it_matters(const std::string& word) {
    const auto matters = [&](const auto& of_text) {
      std::vector<Dialogue> dialogues;
      for (const std::string& text : texts_with(word)) {
        for (Dialogue& dialogue : of_text(text)) dialogues.push_back(std::move(dialogue));
      }
      return !fits(dialogues);
    };
    const auto forbid = [&](ChatString list) { stored_[list] += word + '\0'; };
    using Dialogues = std::vector<Dialogue>;
    if (matters([](const std::string& text) {
          return Dialogues{said({{'S', text}, {'U', "u"}}, true),
                           said({{'S', text}, {'U', "u"}, {'A', "a"}, {'U', "v"}}, true),
                           said({{'U', "u"}, {'S', text}, {'U', "v"}}, true)};
        })) {
      forbid(ChatString::kNotInSystem);
    }
    if (matters([](const std::string& text) {
          return Dialogues{said({{'U', text}}, true),
                           said({{'U', text}, {'A', "a"}, {'U', "v"}}, true),
                           said({{'U', "u"}, {'A', "a"}, {'U', text}}, true),
                           said({{'U', "u"}, {'A', "a"}, {'U', text}, {'A', "b"}}, false)};
        })) {
      forbid(ChatString::kNotInUser);
    }
    if (matters([&](const std::string& text) {
          Dialogues dialogues = {
              said({{'U', "u"}, {'A', text}, {'U', "v"}}, true),
              said({{'U', "u"}, {'A', text}}, false), said({{'U', "u"}, {'A', text}}, true),
              said({{'U', "u"}, {'A', text}, {'U', "v"}, {'A', "a"}, {'U', "w"}}, true),
              said({{'U', "u"}, {'A', "a"}, {'U', "v"}, {'A', text}, {'U', "w"}}, true)};
          if (with_tools_) {
            for (Dialogue& each : with_tools({said({{'U', "u"}, {'c', text}, {'R', "r"}}, true)})) {
              dialogues.push_back(std::move(each));
            }
          }
          return dialogues;
        })) {
      forbid(ChatString::kNotInText);
    }
    if (!with_tools_) return;
    if (matters([&](const std::string& text) {
          return with_tools(
              {said({{'U', "u"}, {'c', ""}, {'R', text}}, true),
               said({{'U', "u"}, {'c', ""}, {'R', text}, {'A', "a"}, {'U', "v"}}, true)});
        })) {
      forbid(ChatString::kNotInResult);
    }
    if (matters([](const std::string& text) {
          Dialogues dialogues = {said({{'U', "u"}, {'A', "a"}}, false),
                                 said({{'U', "u"}, {'A', "a"}, {'U', "v"}}, true)};
          for (Dialogue& dialogue : dialogues) dialogue.messages[1].thinking = text;
          return dialogues;
        })) {
      forbid(ChatString::kNotInThinking);
    }
  }

  const TemplateRenderer& renderer_;
  const bool with_tools_;
  StoredTemplate stored_;
};

}  // namespace

StoredTemplate derive_template(const TemplateRenderer& renderer, bool with_tools) {
  return Derivation(renderer, with_tools).run();
}

}  // namespace cria::converter
