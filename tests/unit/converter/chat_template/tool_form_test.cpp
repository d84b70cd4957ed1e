// Forms of templates with tools: what they keep of templates that write calls and results in ways
// of their own.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "converter/chat_template/form_import.h"
#include "converter/chat_template/marked_samples.h"

namespace cria::converter {
namespace {

const TokenTexts kTokens = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};

// The usual way to write tools.
constexpr const char* kTools =
    "{%- if tools %}<tools>{% for t in tools %}{{ t | tojson }}{{ '\\n' }}{% endfor %}</tools>"
    "{% endif %}";

// A template: tools, what it writes of each message m, and the opened turn.
std::string template_of(const char* tools, const char* message) {
  std::string text;
  for (const char* part : {tools, "{%- for m in messages %}", message,
                           "{%- endfor %}{%- if add_generation_prompt %}[assistant]{% endif %}"}) {
    text.append(part);
  }
  return text;
}

// A template's form, and the template.
struct Stored {
  explicit Stored(const std::string& jinja)
      : renderer(jinja, kTokens), found(find_form(renderer, true)), form(found.stored) {}

  // What the form says; it is checked that the template says the same. Empty: it is refused.
  std::string said(const Dialogue& dialogue) const {
    const auto text = form.text(dialogue);
    if (!text) return "";
    EXPECT_EQ(render_all(renderer, {dialogue})[0], text);
    return *text;
  }
  std::string said(const char* letters) const {
    Dialogue dialogue = marked_dialogue(letters);
    dialogue.tools = {marked_tool(0)};
    return said(dialogue);
  }

  const TemplateRenderer renderer;
  const FoundForm found;
  const StoredForm form;
};

// As Nemotron Nano v2: what a conversation looks like that ends with calls depends on whether a
// turn is opened after it, which no place says.
TEST(ToolFormTest, ALastMessageThatIsOpenedInTwoWaysCostsNoOther) {
  const Stored stored(template_of(
      kTools,
      "{%- if m.role == 'tool' %}[result]{{ m.content }}"
      "{%- elif m.role == 'assistant' and m.tool_calls %}"
      "{%- if loop.last and add_generation_prompt %}[again]{% endif %}[assistant]"
      "{%- for c in m.tool_calls %}<call>{\"name\": \"{{ c.function.name }}\", \"arguments\": "
      "{{ c.function.arguments | tojson }}}</call>{% endfor %}"
      "{%- else %}[{{ m.role }}]{{ m.content }}{% endif %}{{ '</s>' }}"));
  ASSERT_EQ(stored.found.tools_problem, "");
  for (const char* letters : {"U", "UcR", "UcRA", "UcRcR", "UcRcRA", "UCRRcR", "UcRAUcRcR"}) {
    EXPECT_NE(stored.said(letters), "") << letters;
  }
}

// As Kimi K2.
TEST(ToolFormTest, CallsOfAMessageAreNumbered) {
  const Stored stored(
      template_of(kTools,
                  "{%- if m.role == 'tool' %}[result {{ m.tool_call_id }}]{{ m.content }}"
                  "{%- elif m.role == 'assistant' and m.tool_calls %}[assistant]{{ m.content }}"
                  "{%- for c in m.tool_calls %}<call>{{ c.function.name }}:{{ loop.index0 }}<args>"
                  "{{ c.function.arguments | tojson }}</call>{% endfor %}"
                  "{%- else %}[{{ m.role }}]{{ m.content }}{% endif %}{{ '</s>' }}"));
  ASSERT_EQ(stored.found.tools_problem, "");
  for (const char* letters : {"UcR", "UCRR", "UCRRcRA", "UcRCRRyRRAUCRR"}) {
    EXPECT_NE(stored.said(letters), "") << letters;
  }
  EXPECT_NE(stored.said("UCRR").find(":1<args>"), std::string::npos);
}

TEST(ToolFormTest, ATemplateWhoseToolsAreNotStoredSaysWhy) {
  constexpr const char* kPlain = "[{{ m.role }}]{{ m.content }}";
  constexpr const char* kNames =
      "{% for t in tools or [] %}{{ t.function.name | upper }}{% endfor %}";
  EXPECT_EQ(Stored(template_of(kNames, kPlain)).found.tools_problem,
            "writes tools in a way that the file cannot store");
  EXPECT_EQ(Stored(template_of("", kPlain)).found.tools_problem, "");
  const std::string results = std::string("{%- if m.role == 'tool' %}<result>{% endif %}") + kPlain;
  EXPECT_EQ(Stored(template_of("", results.c_str())).found.tools_problem,
            "has words of tools, but does not read the variable tools");
}

// A message of a template that asks for Mistral's ids: what it checks of one, and what it writes.
std::string with_ids(const char* refuses, const char* writes) {
  const std::string check = std::string("{%- if ") + refuses + " %}{{ raise_exception('id') }}";
  return "{%- set id = m.tool_calls[0].id if m.tool_calls else m.tool_call_id %}"
         "{%- if m.role == 'tool' %}" +
         check + "{% endif %}[result]{{ m.content }} of {{ " + writes + " }}" +
         "{%- elif m.tool_calls %}" + check +
         "{% endif %}[assistant]<call>{\"name\": \"{{ m.tool_calls[0].function.name }}\", "
         "\"arguments\": {{ m.tool_calls[0].function.arguments | tojson }}, \"id\": \"{{ " +
         writes + " }}\"}</call>{%- else %}[{{ m.role }}]{{ m.content }}{% endif %}{{ '</s>' }}";
}

Dialogue call_with_id(const std::string& id) {
  Dialogue dialogue = marked_dialogue("UcR");
  dialogue.tools = {marked_tool(0)};
  dialogue.messages[1].calls[0].id = id;
  dialogue.messages[2].id = id;
  return dialogue;
}

TEST(ToolFormTest, LongIdsAreCutAsTheTemplateCutsThem) {
  const std::string message = with_ids("not id or id|length < 9", "id[-9:]");
  const Stored stored(template_of(kTools, message.c_str()));
  ASSERT_EQ(stored.found.tools_problem, "");
  for (const char* id : {"abcdefghi", "call_0123456789", "fc-1.2:3 #x and more"}) {
    EXPECT_NE(stored.said(call_with_id(id)), "") << id;
  }
  EXPECT_NE(stored.said(call_with_id("call_0123456789")).find("of 123456789"), std::string::npos);
  EXPECT_NE(stored.form.refusal(call_with_id("0123456789 \"x\"")).find("no names and ids"),
            std::string::npos);
  for (const char* id : {"abcdefgh", "caf\xC3\xA9 is long"}) {
    EXPECT_EQ(stored.form.refusal(call_with_id(id)), "needs ids of its kind") << id;
  }
}

TEST(ToolFormTest, IdsOfALengthAreRefusedWhereTheTemplateRefusesThem) {
  const std::string message = with_ids("not id or id|length != 9", "id");
  const Stored stored(template_of(kTools, message.c_str()));
  ASSERT_EQ(stored.found.tools_problem, "");
  EXPECT_NE(stored.said(call_with_id("abcdefghi")), "");
  for (const char* id : {"abcdefgh", "call_0123456789"}) {
    EXPECT_EQ(stored.form.refusal(call_with_id(id)), "needs ids of its kind") << id;
    Dialogue orphan = call_with_id(id);
    orphan.messages.erase(orphan.messages.begin() + 1);
    EXPECT_EQ(stored.form.refusal(orphan), "takes no results without calls") << id;
  }
}

// As Mistral 7B: members of a function in the order in which they come, texts without escapes.
constexpr const char* kMembers =
    "{%- if tools %}<tools>{% for t in tools %}{ {%- for k, v in t.function.items() if k != "
    "'return' %}{% if v is string %}\"{{ k }}\": \"{{ v }}\"{% else %}\"{{ k }}\": {{ v | "
    "tojson }}{% endif %}{% if not loop.last %}{{ ', ' }}{% endif %}{% endfor %}}{{ '\\n' }}{% "
    "endfor %}</tools>{% endif %}";
constexpr const char* kPlainMessages =
    "{%- if m.role == 'tool' %}[result]{{ m.content }}{%- elif m.tool_calls %}[assistant]"
    "{%- for c in m.tool_calls %}<call>{\"name\": \"{{ c.function.name }}\", \"arguments\": "
    "{{ c.function.arguments | tojson }}}</call>{% endfor %}"
    "{%- else %}[{{ m.role }}]{{ m.content }}{% endif %}{{ '</s>' }}";

TEST(ToolFormTest, MembersOfFunctionsMayStandInAnyOrder) {
  const Stored stored(template_of(kMembers, kPlainMessages));
  ASSERT_EQ(stored.found.tools_problem, "");
  for (const char* function :
       {R"({"name": "f", "description": "D \"q\" \n", "parameters": {"type": "object"}})",
        R"({"parameters": {"type": "object", "x": "\"y\""}, "description": "D", "name": "f"})",
        R"({"name": "f", "parameters": {"type": "object", "properties": {}}})",
        R"({"strict": null, "name": "f"})", R"({"description": null, "name": "f"})"}) {
    Dialogue dialogue = marked_dialogue("UcRA");
    dialogue.tools = {R"({"type": "function", "function": )" + std::string(function) + "}",
                      marked_tool(1)};
    EXPECT_NE(stored.said(dialogue), "") << function;
  }
  Dialogue other = marked_dialogue("U");
  other.tools = {R"({"type": "function", "function": {"name": "f", "return": {}}})"};
  EXPECT_EQ(stored.form.refusal(other),
            "needs functions of a name, a description, parameters and strict only");
}

// What follows a count that no vector has is compared too.
TEST(ToolFormTest, ATemplateThatCountsIsNotStoredWithTools) {
  for (const char* const count :
       {"{%- if tools and tools | length > 3 %}many{% endif %}",
        "{%- if m.tool_calls and m.tool_calls | length > 4 %}many{% endif %}",
        "{%- if m.tool_calls and m.tool_calls[0].function.arguments | length > 5 %}many{% endif "
        "%}"}) {
    const std::string message = count + std::string(kPlainMessages);
    EXPECT_NE(Stored(template_of(kTools, message.c_str())).found.tools_problem, "") << count;
  }
}

// Written as JSON or as they are, names are alike without what JSON escapes.
TEST(ToolFormTest, NamesThatJsonEscapesAreRefused) {
  const Stored stored(template_of(kTools, kPlainMessages));
  ASSERT_EQ(stored.found.tools_problem, "");
  for (const char* const name : {"a\"b", "a\\b", "a\nb", "it's"}) {
    Dialogue dialogue = marked_dialogue("UcR");
    dialogue.messages[1].calls[0].name = name;
    EXPECT_NE(stored.form.refusal(dialogue).find("no names and ids"), std::string::npos) << name;
    dialogue = marked_dialogue("U");
    dialogue.tools = {R"({"type": "function", "function": {"name": "a\"b"}})"};
    EXPECT_NE(stored.form.refusal(dialogue).find("no names and ids"), std::string::npos);
  }
  Dialogue dialogue = marked_dialogue("UcR");
  dialogue.messages[1].calls[0].name = dialogue.messages[2].name = "caf\xC3\xA9.x/y-z:1";
  EXPECT_NE(stored.said(dialogue), "");
}

// As Mistral: tools stand before each question that has the text of the last one.
TEST(ToolFormTest, AQuestionMayBeAskedAgain) {
  const Stored stored(template_of(
      "{%- set questions = messages | selectattr('role', 'equalto', 'user') | list %}",
      "{%- if tools and m == questions[-1] %}<tools>{% for t in tools %}{{ t | tojson }}{{ '\\n' "
      "}}{% endfor %}</tools>{% endif %}"
      "{%- if m.role == 'tool' %}[result]{{ m.content }}{%- elif m.tool_calls %}[assistant]"
      "{%- for c in m.tool_calls %}<call>{\"name\": \"{{ c.function.name }}\", \"arguments\": "
      "{{ c.function.arguments | tojson }}}</call>{% endfor %}"
      "{%- else %}[{{ m.role }}]{{ m.content }}{% endif %}{{ '</s>' }}"));
  ASSERT_EQ(stored.found.tools_problem, "");
  Dialogue dialogue = marked_dialogue("SUAUcRAU");
  dialogue.tools = {marked_tool(0)};
  const std::string once = stored.said(dialogue);
  EXPECT_NE(once, "");
  dialogue.messages[1].content = dialogue.messages[7].content;
  const std::string twice = stored.said(dialogue);
  EXPECT_GT(twice.size(), once.size());
  dialogue.tools.clear();
  EXPECT_NE(stored.said(dialogue), "");
}

// As Solar, which writes the names of all calls that have a result's id.
TEST(ToolFormTest, WhatIdsDoForbidsNoQuestionToBeAskedAgain) {
  const Stored stored(template_of(
      kTools,
      "{%- if m.role == 'tool' %}[result {% for o in messages %}{% for c in o.tool_calls or [] %}"
      "{% if c.id == m.tool_call_id %}{{ c.function.name }}{% endif %}{% endfor %}{% endfor %}]"
      "{{ m.content }}{%- elif m.tool_calls %}[assistant]{% for c in m.tool_calls %}<call>"
      "{\"name\": \"{{ c.function.name }}\", \"arguments\": {{ c.function.arguments | tojson }}, "
      "\"id\": \"{{ c.id }}\"}</call>{% endfor %}{%- else %}[{{ m.role }}]{{ m.content }}"
      "{% endif %}{{ '</s>' }}"));
  EXPECT_EQ(stored.found.problem, "");
  EXPECT_EQ(stored.found.tools_problem,
            "writes calls or their results in a way that the file cannot store");
  Dialogue dialogue = marked_dialogue("UAU");
  dialogue.tools = {marked_tool(0)};
  dialogue.messages[0].content = dialogue.messages[2].content;
  EXPECT_NE(stored.said(dialogue), "");
}

}  // namespace
}  // namespace cria::converter
