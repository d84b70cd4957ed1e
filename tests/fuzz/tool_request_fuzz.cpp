// The body of a request with tools, by anybody, in the words of each style: read, or refused with
// an error of the API. Models are tiny, and their templates print tools in every way that a file
// can say: which one a body is for hangs on its size.
#include <array>
#include <memory>
#include <string>

#include "platforms/hosted/serve/styles/ollama/ollama.h"
#include "platforms/hosted/serve/styles/openai/openai.h"
#include "tests/fuzz/model_draft.h"
#include "tests/fuzz/request_trial.h"
#include "tests/support/call_trial.h"
#include "tests/support/chat_sections.h"
#include "tests/support/model_surgery.h"
#include "tests/support/test_configs.h"

namespace cria::fuzz {
namespace {

using format::bit_of;
using format::ChatString;
using format::ChatStyle;
using format::ChatUnit;
using format::ChatValueForm;

constexpr std::initializer_list<int> kStatuses = {400, 404, 413};
constexpr uint32_t kContext = 2048;

std::string slot(char letter) { return {'\0', letter}; }

// How a template prints a tool, and its model calls.
struct Family {
  std::string tool;
  ChatValueForm form;
  uint8_t flags;
  const char* call_form;  // of tests/data/call_forms.json
  uint32_t refuses;       // flags of the template
  uint8_t id_characters;
};

std::array<Family, 5> families() {
  const std::string whole = slot(format::kChatSlotWhole);
  const std::string function = slot(format::kChatSlotFunction);
  const std::string members = slot(format::kChatSlotName) + ":" +
                              slot(format::kChatSlotDescription) + "(" +
                              slot(format::kChatSlotParameters) + ")";
  constexpr uint32_t kOrder = format::kChatOpenCalls | format::kChatResultsWithoutCalls |
                              format::kChatOtherResults | format::kChatNeedsIds;
  return {{{whole, ChatValueForm::kJson, 0, "qwen3-0.6b", 0, 0},
           {function, ChatValueForm::kTags, 0, "qwen3-coder-30b", 0, 0},
           {function, ChatValueForm::kTags, format::kChatOwnLists, "nemotron-3-nano", kOrder, 0},
           {function, ChatValueForm::kMembers, 0, "mistral-small-3.2", kOrder, 9},
           {members, ChatValueForm::kPython, 0, "llama-3.1-8b-instruct", 0, 0}}};
}

Bytes section_of(const Family& family) {
  test::ChatSection section;
  const uint32_t results = bit_of(ChatUnit::kCall) | bit_of(ChatUnit::kResult);
  const uint32_t said = bit_of(ChatUnit::kSystem) | bit_of(ChatUnit::kLater) |
                        bit_of(ChatUnit::kUser) | bit_of(ChatUnit::kText) | results;
  section.rules = {{bit_of(ChatUnit::kStart), said, "[" + slot(format::kChatSlotTools) + "]",
                    format::kChatHasTools},
                   {bit_of(ChatUnit::kStart), said | bit_of(ChatUnit::kThinking), "|"},
                   {said, bit_of(ChatUnit::kThinking), "<think>"},
                   {bit_of(ChatUnit::kThinking), said, "</think>"},
                   {said, said | bit_of(ChatUnit::kOpen) | bit_of(ChatUnit::kEnd), "|"}};
  section.header.flags = family.refuses;
  section.header.id_characters = family.id_characters;
  const auto style = [&](ChatStyle which) -> format::ChatValueStyle& {
    return section.header.styles[static_cast<size_t>(which)];
  };
  style(ChatStyle::kTool) = {family.form, 0, 0, family.flags};
  style(ChatStyle::kResult).form = ChatValueForm::kBare;
  section[ChatString::kCall] = slot(format::kChatSlotName) + slot(format::kChatSlotId) + "(" +
                               slot(format::kChatSlotArguments) + ")";
  section[ChatString::kResult] = slot(format::kChatSlotText) + slot(format::kChatSlotId);
  section[ChatString::kTool] = family.tool;
  section[ChatString::kToolBetween] = ";";
  const std::vector<uint8_t> form = test::call_form_of(family.call_form);
  section[ChatString::kCallFormat].assign(form.begin(), form.end());
  return section.bytes();
}

Bytes model_of(const Family& family) {
  ModelDraft draft(base_models()[0]);
  Bytes file = base_models()[0];
  ConfigBytes bytes = {};
  const std::span<uint8_t> old = test::section_bytes(file, format::SectionKind::kConfig);
  std::copy(old.begin(), old.end(), bytes.bytes);
  ConfigParts config = test::parts_of(view_config(bytes));
  config.model.max_context = config.model.planned_context = kContext;
  draft.replace(format::SectionKind::kConfig, test::section_of(config.view()));
  draft.replace(format::SectionKind::kChatTemplate, section_of(family));
  return draft.assemble();
}

// Each with an engine, whose threads wait.
const std::vector<std::unique_ptr<Served>>& served() {
  static const std::vector<std::unique_ptr<Served>> all = [] {
    std::vector<std::unique_ptr<Served>> made;
    for (const Family& family : families()) {
      const std::string name = "tools" + std::to_string(made.size()) + ".cria";
      made.push_back(std::make_unique<Served>(model_of(family), name));
      expect(made.back()->text.calls_tools(), "the model calls tools");
    }
    return made;
  }();
  return all;
}

void check_tools(const hosted::OrderContext& context, const hosted::AnswerOrder& order) {
  if (order.prompts.empty()) return;  // Ollama's without messages
  check_order(context, order);
  if (order.reading == nullptr) return;
  const Json tools = Json::parse(order.reading->tools.empty() ? "[]" : order.reading->tools);
  for (const Json& tool : tools) {
    expect(!tool["function"]["name"].get<std::string>().empty(), "a tool has a name");
  }
  for (const hosted::AnswerRequest& request : order.prompts) {
    hosted::AnswerGuide::State state = {};
    expect(request.guide == nullptr || request.guide->begin(&state) == CRIA_OK,
           "an answer can begin");
  }
}

}  // namespace

int fuzz_one(const uint8_t* data, size_t size) {
  const hosted::OrderContext& context = served()[size % served().size()]->context;
  const std::string body(reinterpret_cast<const char*>(data), size);
  std::vector<uint32_t> prompts[2];
  constexpr hosted::ReadOrder kOfMessages[] = {&hosted::chat_order, &hosted::ollama_chat_order};
  for (size_t i = 0; i < 2; ++i) {
    read_order(context, kOfMessages[i], body, kStatuses, [&](const hosted::AnswerOrder& read) {
      check_tools(context, read);
      if (!read.prompts.empty()) prompts[i] = read.prompts[0].prompt;
    });
  }
  expect(prompts[0].empty() || prompts[1].empty() || prompts[0] == prompts[1],
         "styles read one conversation alike");
  read_order(context, &hosted::response_order, body, kStatuses,
             [&](const hosted::AnswerOrder& read) { check_tools(context, read); });
  return 0;
}

}  // namespace cria::fuzz
