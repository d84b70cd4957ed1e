// Conversations with all that templates know: what a template is asked about, and its stored form.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "converter/chat_template/renderer.h"
#include "quant/text/chat_text.h"

namespace cria::converter {

struct DialogueCall {
  std::string name;
  std::string arguments;  // JSON, an object
  std::string id;
};

// A message that owns its texts.
struct DialogueMessage {
  ChatRole role;
  std::string content;
  std::string thinking;             // of an answer
  std::vector<DialogueCall> calls;  // of an answer
  std::string name;                 // of a result
  std::string id;                   // of a result
};

struct Dialogue {
  std::vector<DialogueMessage> messages = {};
  std::vector<std::string> tools = {};  // JSON, an object each
  ChatThinking thinking = ChatThinking::kAsIs;
  bool opens_turn = true;
  CalendarDate date = kTemplateDate;
};

[[nodiscard]] Dialogue dialogue_of(const Probe& probe, bool opens_turn,
                                   const CalendarDate& date = kTemplateDate);

// As the template is given it. Thinking is switched by those of the variables it reads that
// templates have for it.
[[nodiscard]] TemplateInput input_of(const Dialogue& dialogue, const std::set<std::string>& reads);

// Whether the template reads a variable that switches thinking.
[[nodiscard]] bool switches_thinking(const std::set<std::string>& reads);

// Their texts, in order; where the template refuses one or makes it depend on more than the
// conversation, nullopt, and error holds the first reason. Throws as TemplateRenderer::render does.
[[nodiscard]] std::vector<std::optional<std::string>> render_all(
    const TemplateRenderer& renderer, const std::vector<Dialogue>& dialogues,
    std::string* error = nullptr);

// A dialogue, for people: short, on one line, no control characters.
[[nodiscard]] std::string shown_dialogue(const Dialogue& dialogue);

}  // namespace cria::converter
