// The form of calls that is found from a chat template reads what the template's model writes.
#include "converter/chat_template/call_form.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/support/call_trial.h"
#include "tests/support/folders.h"
#include "tests/support/long_under_asan.h"

namespace cria::converter {
namespace {

using format::CallKind;
using format::CallString;
using nlohmann::json;
using test::CallTrial;

std::vector<uint8_t> form_of(const std::string& jinja, const TokenTexts& tokens = {}) {
  const std::string form = derive_call_format(TemplateRenderer(jinja, tokens), 0);
  return {form.begin(), form.end()};
}

// Turns whose calls are written as calls says, which may name call.
std::string turns(const std::string& calls) {
  return "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}"
         "{% for t in m.tool_calls or [] %}{% set call = t.function %}" +
         calls + "{% endfor %}<|end|>{% endfor %}" +
         "{% if add_generation_prompt %}<|assistant|>{% endif %}";
}

struct Read {
  CallKind kind;
  std::map<CallString, std::string> strings;  // without blanks around them
};

Read read_form(const std::vector<uint8_t>& stored) {
  CallFormat form = {};
  EXPECT_EQ(check_call_format(stored, &form), nullptr);
  Read read = {form.kind, {}};
  for (size_t i = 0; i < format::kCallStrings; ++i) {
    const auto which = static_cast<CallString>(i);
    std::string text(form.text(which));
    if (i < format::kCallLists && !text.empty()) text.pop_back();
    if (!text.empty()) read.strings[which] = without_blanks(text);
  }
  return read;
}

TEST(CallFormTest, CallsOfEarlierAnswersTellHowTheyAreWritten) {
  struct Case {
    const char* calls;
    CallKind kind;
    std::map<CallString, std::string> strings;
  };
  const std::string usual = std::string("arguments") + '\0' + "parameters";
  const Case cases[] = {
      {"<do>\n{\"fn\": \"{{ call.name }}\", \"args\": {{ call.arguments | tojson }}}\n</do>",
       CallKind::kJson,
       {{CallString::kStart, "<do>"},
        {CallString::kEnd, "</do>"},
        {CallString::kNameKeys, "fn"},
        {CallString::kArgumentsKeys, "args"}}},
      {"[DO] [{\"name\": \"{{ call.name }}\", \"arguments\": {{ call.arguments | string }}}]",
       CallKind::kJson,
       {{CallString::kStart, "[DO]"},
        {CallString::kNameKeys, "name"},
        {CallString::kArgumentsKeys, usual}}},
      {"<do>{{ call.name }}({% for k, v in call.arguments.items() %}{{ k }}={{ v | tojson }}"
       "{{ ', ' if not loop.last }}{% endfor %})</do>",
       CallKind::kPython,
       {{CallString::kStart, "<do>"},
        {CallString::kEnd, "</do>"},
        {CallString::kNameKeys, "name"},
        {CallString::kArgumentsKeys, usual}}},
      {"[DO]{{ call.name }}[ID]{{ t.id }}[ARGS]{{ call.arguments | tojson }}",
       CallKind::kNamed,
       {{CallString::kStart, "[DO]"},
        {CallString::kIdBegin, "[ID]"},
        {CallString::kArgumentsBegin, "[ARGS]"}}},
      {"<do>\n<f={{ call.name }}>\n{% for k, v in call.arguments.items() %}<p={{ k }}>{{ v }}</p>\n"
       "{% endfor %}</f>\n</do>",
       CallKind::kTagged,
       {{CallString::kStart, "<do>"},
        {CallString::kCallBegin, "<f="},
        {CallString::kArgumentsBegin, ">"},
        {CallString::kKeyBegin, "<p="},
        {CallString::kKeyEnd, ">"},
        {CallString::kValueEnd, "</p>"},
        {CallString::kCallEnd, "</f>"},
        {CallString::kEnd, "</do>"}}},
  };
  for (const Case& one : cases) {
    const Read read = read_form(form_of(turns(one.calls)));
    EXPECT_EQ(read.kind, one.kind) << one.calls;
    EXPECT_EQ(read.strings, one.strings) << one.calls;
  }
}

TEST(CallFormTest, EmptyThinkingAndAnEmptyTextAreNoPartOfCalls) {
  const Read read = read_form(
      form_of("{% for m in messages %}<|{{ m.role }}|>"
              "{% if m.tool_calls %}<|START_THINKING|><|END_THINKING|><do>"
              "{% for t in m.tool_calls %}{{ t.function | tojson }}{% endfor %}</do><|end|>"
              "{% if m.content is not none %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endif %}"
              "{% else %}{{ m.content }}<|end|>{% endif %}{% endfor %}"
              "{% if add_generation_prompt %}<|assistant|>{% endif %}"));
  EXPECT_EQ(read.kind, CallKind::kJson);
  EXPECT_EQ(read.strings.at(CallString::kStart), "<do>");
  EXPECT_EQ(read.strings.at(CallString::kEnd), "</do>");
}

TEST(CallFormTest, MarkersOfThinkingAreKnownWithoutCallsToo) {
  EXPECT_TRUE(form_of(turns("")).empty());
  const Read read = read_form(form_of("{# ends with </think> #}" + turns("")));
  EXPECT_EQ(read.kind, CallKind::kNoCalls);
  EXPECT_EQ(read.strings,
            (std::map<CallString, std::string>{{CallString::kThinkingBegin, "<think>"},
                                               {CallString::kThinkingEnd, "</think>"}}));
}

TEST(CallFormTest, AFamilyIsKnownByWhatItsTemplateTellsTheModel) {
  const Read read = read_form(
      form_of(turns("") + "{% if tools %}Write <tool_call>{...}</tool_call>.{% endif %}"));
  EXPECT_EQ(read.kind, CallKind::kJson);
  EXPECT_EQ(read.strings.at(CallString::kStart), "<tool_call>");
  EXPECT_EQ(read.strings.at(CallString::kEnd), "</tool_call>");
}

TEST(CallFormTest, FormsThatAreFoundReadEveryAnswerOfTheReference) {
  CRIA_SKIP_UNDER_ASAN();
  const auto folder = test::reference_folder();
  if (!folder) GTEST_SKIP() << "no $CRIA_SHARED/reference";
  std::ifstream tools_file(*folder / "vectors" / "tool_calls_tools.json");
  const std::string tools = json::parse(tools_file).dump();
  std::ifstream tokens_file(*folder / "chat_templates_tools" / "special_tokens.json");
  const json tokens = json::parse(tokens_file);
  std::ifstream file(*folder / "vectors" / "tool_calls.jsonl");
  std::map<std::string, std::vector<uint8_t>> forms;
  size_t n_read = 0;
  size_t n_policy = 0;
  for (std::string line; std::getline(file, line); ++n_read) {
    const json vector = json::parse(line);
    const std::string name = vector.at("template");
    if (!forms.contains(name)) {
      std::ifstream jinja(*folder / "chat_templates_tools" / (name + ".jinja"));
      forms[name] = form_of({std::istreambuf_iterator<char>(jinja), {}},
                            {{"bos_token", tokens.at(name).at("bos").is_string()
                                               ? tokens.at(name).at("bos").get<std::string>()
                                               : ""},
                             {"eos_token", tokens.at(name).at("eos").is_string()
                                               ? tokens.at(name).at("eos").get<std::string>()
                                               : ""}});
    }
    ASSERT_FALSE(forms[name].empty()) << name;
    CallTrial trial(forms[name], tools, 4096);
    const std::string output = vector.at("output");
    trial.run(vector.at("opened").get<std::string>(), output, output.size() + 1,
              vector.at("complete") ? CRIA_CALLS_STOPPED : CRIA_CALLS_CUT, nullptr);
    const json got = trial.answer();
    if (vector.value("policy", false)) {
      ++n_policy;
      continue;
    }
    EXPECT_TRUE(test::is_same_answer(got, vector)) << name << ": " << vector.at("case") << "\n"
                                                   << output << "\n"
                                                   << got.dump();
  }
  EXPECT_EQ(n_read, 922U);
  EXPECT_LT(n_policy, 150U);
}

}  // namespace
}  // namespace cria::converter
