// Conversations in any order: what a stored form says of them is what its template says, or they
// are refused. Orderly ones, orderly ones with something changed, and roles by chance.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

#include "converter/chat_template/form_import.h"
#include "tests/support/folders.h"

namespace cria::converter {
namespace {

using format::ChatString;
namespace fs = std::filesystem;

constexpr const char* kTools[] = {
    R"({"type": "function", "function": {"name": "now", "description": "\n Tell the time.\n", "parameters": {"type": "object", "properties": {}}}})",
    R"({"type": "function", "function": {"name": "search", "description": "Look for a \"text\"", "parameters": {"type": "object", "properties": {"query": {"type": "string", "description": "What to look for "}, "limit": {"type": "integer", "minimum": 1, "default": 5}, "kinds": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}}}, "required": ["query"]}}})",
    R"({"type": "function", "function": {"name": "set_light", "description": "Switch a light, it's easy", "parameters": {"type": "object", "properties": {"room": {"type": "string"}, "on": {"type": "boolean"}, "level": {"type": "number"}, "more": {"type": "object", "properties": {"x": {"type": "integer"}}}}, "required": ["room", "on"], "additionalProperties": false}}})",
};
constexpr const char* kNames[] = {"now", "search", "set_light"};
constexpr const char* kArguments[] = {
    "{}", R"({"query": "where is it?", "limit": 3})",
    R"({"room": "kitchen", "on": true, "level": 0.5, "more": {"x": 1}})",
    R"({"query": "a \"b\"\n<c>", "kinds": ["a", "b"], "none": null})"};
constexpr const char* kTexts[] = {"Hi",
                                  "What time is it?",
                                  "Two\nlines",
                                  "a < b & 'c' \"d\"",
                                  "\xC3\xA9t\xC3\xA9",
                                  "{\"a\": 1}",
                                  "[1, 2]",
                                  "42",
                                  "true",
                                  "Say it again, please.",
                                  "# Head\n\n- one\n- two\n",
                                  " spaces ",
                                  "\nnewlines\n\n",
                                  "",
                                  " \n",
                                  "<think>\nI think.\n</think>\n\nSaid.",
                                  "</think>",
                                  "<tool_call>\n{}\n</tool_call>",
                                  "<|im_end|>"};

class RandomDialogues {
 public:
  RandomDialogues(bool switches, std::vector<std::string> literals)
      : switches_(switches), literals_(std::move(literals)) {}

  // kind: 0 orderly, 1 with something changed, 2 by chance.
  Dialogue next(uint32_t kind) {
    Dialogue dialogue;
    n_calls_ = 0;
    if (choose(3) != 0) {
      const uint32_t n = 1 + choose(std::size(kTools));
      for (uint32_t i = 0; i < n; ++i) dialogue.tools.emplace_back(kTools[i]);
    }
    if (switches_) dialogue.thinking = static_cast<ChatThinking>(choose(3));
    dialogue.opens_turn = choose(2) == 0;
    if (kind == 2) {
      const uint32_t n = 1 + choose(6);
      for (uint32_t i = 0; i < n; ++i) add_any(&dialogue.messages);
      return dialogue;
    }
    if (choose(2) == 0) add(ChatRole::kSystem, &dialogue.messages);
    const uint32_t n_turns = 1 + choose(3);
    for (uint32_t i = 0; i < n_turns; ++i) add_turn(i + 1 == n_turns, &dialogue.messages);
    if (kind == 1) {
      for (uint32_t i = 0; i <= choose(2); ++i) disturb(&dialogue.messages);
    }
    return dialogue;
  }

 private:
  using Messages = std::vector<DialogueMessage>;

  uint32_t choose(size_t n) { return static_cast<uint32_t>(random_() % n); }
  std::string text() {
    if (choose(40) == 0 && !literals_.empty()) return literals_[choose(literals_.size())];
    std::string text = kTexts[choose(choose(3) == 0 ? std::size(kTexts) : 11)];
    // Different ones, since a question that is asked twice is another matter.
    const bool may_split = text.size() > 1 && (text[1] & 0xc0) != 0x80;
    if (may_split && choose(4) != 0) text.insert(1, std::to_string(choose(1000)));
    return text;
  }
  void add(ChatRole role, Messages* messages) {
    messages->push_back({role, text(), {}, {}, {}, {}});
  }
  DialogueMessage calling() {
    DialogueMessage message = {ChatRole::kAssistant, {}, {}, {}, {}, {}};
    if (choose(3) == 0) message.content = text();
    if (choose(3) == 0) message.thinking = text();
    const uint32_t n = choose(3) == 0 ? 2 + choose(2) : 1;
    for (uint32_t i = 0; i < n; ++i) {
      message.calls.push_back({kNames[choose(std::size(kNames))],
                               kArguments[choose(std::size(kArguments))],
                               "call1234" + std::to_string(n_calls_++ % 10)});
    }
    return message;
  }
  void add_turn(bool is_last, Messages* messages) {
    add(ChatRole::kUser, messages);
    const uint32_t n_rounds = choose(3);
    for (uint32_t i = 0; i < n_rounds; ++i) {
      messages->push_back(calling());
      if (is_last && choose(8) == 0) return;
      const std::vector<DialogueCall> calls = messages->back().calls;
      for (const DialogueCall& call : calls) {
        messages->push_back({ChatRole::kTool, text(), {}, {}, call.name, call.id});
      }
    }
    if (is_last && choose(2) == 0) return;
    add(ChatRole::kAssistant, messages);
    if (choose(3) == 0) messages->back().thinking = text();
  }
  void add_any(Messages* messages) {
    switch (choose(6)) {
      case 0:
        return add(ChatRole::kSystem, messages);
      case 1:
        return add(ChatRole::kUser, messages);
      case 2:
        messages->push_back(calling());
        return;
      case 3:
        messages->push_back({ChatRole::kTool,
                             text(),
                             {},
                             {},
                             kNames[choose(std::size(kNames))],
                             "call1234" + std::to_string(choose(3))});
        return;
      default:
        add(ChatRole::kAssistant, messages);
        if (choose(3) == 0) messages->back().thinking = text();
    }
  }
  void disturb(Messages* messages) {
    if (messages->empty()) return add_any(messages);
    const auto at = messages->begin() + static_cast<std::ptrdiff_t>(choose(messages->size()));
    switch (choose(5)) {
      case 0:
        messages->erase(at);
        return;
      case 1:
        messages->insert(at, DialogueMessage(*at));
        return;
      case 2:
        if (at + 1 != messages->end()) std::swap(*at, *(at + 1));
        return;
      case 3:
        at->name.clear();
        return;
      default:
        Messages one;
        add_any(&one);
        messages->insert(at, one[0]);
    }
  }

  const bool switches_;
  const std::vector<std::string> literals_;
  size_t n_calls_ = 0;
  std::mt19937_64 random_{2026};
};

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Roles by letters, as marked_dialogue has them; small: with thinking, or beside calls with text.
std::string shape_of(const Dialogue& dialogue) {
  std::string shape;
  for (const DialogueMessage& m : dialogue.messages) {
    if (!m.thinking.empty()) shape += 'h';
    if (!m.calls.empty()) {
      shape += (m.content.empty() ? "C" : "tC") + std::to_string(m.calls.size());
    } else {
      shape += m.content.empty() ? "suar"[static_cast<size_t>(m.role)]
                                 : "SUAR"[static_cast<size_t>(m.role)];
    }
  }
  shape += dialogue.tools.empty() ? "" : " +" + std::to_string(dialogue.tools.size()) + " tools";
  shape += dialogue.opens_turn ? " opened" : "";
  if (dialogue.thinking != ChatThinking::kAsIs) {
    shape += dialogue.thinking == ChatThinking::kOn ? " on" : " off";
  }
  return shape;
}

struct Score {
  size_t equal[3] = {};    // by kind
  size_t refused[3] = {};  // that the template takes
  size_t wrong[3] = {};
};

// Returns what is wrong, or "".
std::string compare(const fs::path& path, Score* all) {
  constexpr size_t kDialogues = 150;  // of each kind
  const std::string name = path.stem().string();
  FoundForm found;
  std::vector<Dialogue> dialogues;
  std::vector<std::optional<std::string>> texts;
  double seconds = 0;
  try {
    const TokenTexts tokens = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
    const std::string jinja = read_file(path);
    const auto begin = std::chrono::steady_clock::now();
    found = find_form(TemplateRenderer(jinja, tokens), true);
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (found.problem.empty()) {
      const TemplateRenderer renderer(jinja, tokens);
      const TemplateSource& source = renderer.source();
      RandomDialogues random(switches_thinking(source.reads),
                             {source.literals.begin(), source.literals.end()});
      for (size_t i = 0; i < 3 * kDialogues; ++i) {
        dialogues.push_back(random.next(static_cast<uint32_t>(i % 3)));
      }
      texts = render_all(renderer, dialogues);
    }
  } catch (const std::runtime_error& error) {
    found.problem = error.what();
  }
  if (!found.problem.empty()) {
    std::printf("%s: not stored: %s\n", name.c_str(), found.problem.c_str());
    return "";
  }
  const StoredForm form(found.stored);
  Score score;
  std::string wrong;
  for (size_t i = 0; i < dialogues.size(); ++i) {
    const auto text = form.text(dialogues[i]);
    if (!text) {
      score.refused[i % 3] += texts[i] ? 1 : 0;
    } else if (text == texts[i]) {
      ++score.equal[i % 3];
    } else {
      ++score.wrong[i % 3];
      if (score.wrong[i % 3] > 4) continue;
      wrong += "  " + std::string(disorder_of(dialogues[i]) == 0 ? "in order: " : "") +
               shape_of(dialogues[i]) + (texts[i] ? "" : " (raises)") + ": " +
               shown_dialogue(dialogues[i]) + "\n";
      if (std::getenv("CRIA_SHOW") != nullptr) {
        wrong += "---- form\n" + *text + "\n---- template\n" + texts[i].value_or("") + "\n----\n";
      }
    }
  }
  const bool has_tools = !found.stored[ChatString::kTool].empty();
  std::printf("%s:%s", name.c_str(), has_tools ? " tools" : "");
  for (size_t k = 0; k < 3; ++k) {
    std::printf(", %zu equal %zu refused %zu wrong", score.equal[k], score.refused[k],
                score.wrong[k]);
    all->equal[k] += score.equal[k];
    all->refused[k] += score.refused[k];
    all->wrong[k] += score.wrong[k];
  }
  std::printf(", refuses %x, not blank %x, %.1f s %s\n%s",
              found.stored.flags >> format::kChatRefuses, found.stored.not_blank, seconds,
              found.tools_problem.c_str(), wrong.c_str());
  std::fflush(stdout);
  return wrong;
}

TEST(RandomDialoguesTest, AreSaidAsTheTemplateSaysThemOrRefused) {
  const auto reference = test::reference_folder();
  // Another folder of templates may be named.
  const char* const other = std::getenv("CRIA_CHAT_TEMPLATES");
  if (!reference && other == nullptr) GTEST_SKIP() << "no $CRIA_SHARED/reference";
  std::vector<fs::path> folders;
  if (other != nullptr) {
    folders = {other};
  } else {
    folders = {*reference / "chat_templates_tools", *reference / "chat_templates"};
  }
  std::vector<fs::path> paths;
  for (const fs::path& folder : folders) {
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (entry.path().extension() == ".jinja") paths.push_back(entry.path());
    }
  }
  std::sort(paths.begin(), paths.end());
  ASSERT_FALSE(paths.empty());
  Score all;
  for (const fs::path& path : paths) EXPECT_EQ(compare(path, &all), "") << path;
  for (size_t k = 0; k < 3; ++k) {
    std::printf("kind %zu: %zu equal, %zu refused, %zu wrong\n", k, all.equal[k], all.refused[k],
                all.wrong[k]);
  }
  // A form that refuses all would be right as well.
  EXPECT_GT(all.equal[0], 50 * paths.size());
}

}  // namespace
}  // namespace cria::converter
