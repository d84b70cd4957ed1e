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

// As Nemotron Nano v2: what a conversation that ends with calls looks like depends on whether a turn
// is opened behind it, which no place says.
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

}  // namespace
}  // namespace cria::converter
