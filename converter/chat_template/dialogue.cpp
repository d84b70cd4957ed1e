#include "converter/chat_template/dialogue.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "converter/error.h"

namespace cria::converter {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kThinkingSwitches[] = {"enable_thinking", "thinking"};

Json json_of(const DialogueMessage& message) {
  Json json = {{"role", kChatRoleNames[static_cast<size_t>(message.role)]},
               {"content", message.content}};
  if (!message.thinking.empty()) json["reasoning_content"] = message.thinking;
  for (const DialogueCall& call : message.calls) {
    Json one = Json::object();
    if (!call.id.empty()) one["id"] = call.id;
    one["type"] = "function";
    one["function"] = {{"name", call.name}, {"arguments", Json::parse(call.arguments)}};
    json["tool_calls"].push_back(std::move(one));
  }
  if (!message.id.empty()) json["tool_call_id"] = message.id;
  if (!message.name.empty()) json["name"] = message.name;
  return json;
}

}  // namespace

Dialogue dialogue_of(const Probe& probe, bool opens_turn, const CalendarDate& date) {
  Dialogue dialogue;
  for (const ProbeMessage& message : probe) {
    dialogue.messages.push_back({message.role, message.content, {}, {}, {}, {}});
  }
  dialogue.opens_turn = opens_turn;
  dialogue.date = date;
  return dialogue;
}

bool switches_thinking(const std::set<std::string>& reads) {
  return std::any_of(std::begin(kThinkingSwitches), std::end(kThinkingSwitches),
                     [&](const char* name) { return reads.contains(name); });
}

TemplateInput input_of(const Dialogue& dialogue, const std::set<std::string>& reads) {
  TemplateInput input;
  Json messages = Json::array();
  for (const DialogueMessage& message : dialogue.messages) messages.push_back(json_of(message));
  input.messages = messages.dump();
  if (!dialogue.tools.empty()) {
    input.tools = "[";
    for (const std::string& tool : dialogue.tools) {
      if (input.tools.size() > 1) input.tools += ',';
      input.tools += tool;
    }
    input.tools += ']';
  }
  Json variables = Json::object();
  for (const char* name : kThinkingSwitches) {
    if (dialogue.thinking == ChatThinking::kAsIs || !reads.contains(name)) continue;
    variables[name] = dialogue.thinking == ChatThinking::kOn;
  }
  const CalendarDate& date = dialogue.date;
  if (date.year != kTemplateDate.year || date.month != kTemplateDate.month ||
      date.day != kTemplateDate.day) {
    variables["date_string"] = *format_date(kDateStringFormat, date);
  }
  input.variables = variables.dump();
  input.opens_turn = dialogue.opens_turn;
  input.date = date;
  return input;
}

std::vector<std::optional<std::string>> render_all(const TemplateRenderer& renderer,
                                                   const std::vector<Dialogue>& dialogues,
                                                   std::string* error) {
  std::vector<TemplateInput> inputs;
  for (const Dialogue& dialogue : dialogues) {
    inputs.push_back(input_of(dialogue, renderer.source().reads));
  }
  std::vector<std::optional<std::string>> texts;
  for (Rendering& rendering : renderer.render(inputs)) {
    const bool depends = !rendering.depends.empty();
    if (error != nullptr && error->empty()) {
      *error = depends ? "what it writes depends on " + rendering.depends : rendering.error;
    }
    texts.push_back(depends ? std::nullopt : std::move(rendering.text));
  }
  return texts;
}

std::string shown_dialogue(const Dialogue& dialogue) {
  constexpr size_t kMostMessages = 6;
  constexpr size_t kMostBytes = 24;
  std::string text;
  for (size_t i = 0; i < std::min(dialogue.messages.size(), kMostMessages); ++i) {
    const DialogueMessage& message = dialogue.messages[i];
    const bool is_cut = message.content.size() > kMostBytes;
    if (i > 0) text += ", ";
    text += kChatRoleNames[static_cast<size_t>(message.role)];
    if (!message.thinking.empty()) text += " who thought";
    text += " '" + shown(message.content.substr(0, kMostBytes)) + (is_cut ? "...'" : "'");
    if (!message.calls.empty()) text += " and calls";
  }
  if (dialogue.messages.size() > kMostMessages) text += ", ...";
  if (!dialogue.tools.empty()) text += ", with tools";
  return dialogue.messages.empty() ? "no message" : text;
}

}  // namespace cria::converter
