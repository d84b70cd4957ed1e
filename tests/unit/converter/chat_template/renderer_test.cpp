// Chat templates by Jinja2, in a process that can do nothing else.
#include "converter/chat_template/renderer.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/support/folders.h"
#include "tests/support/long_under_asan.h"

namespace cria::converter {
namespace {

using nlohmann::ordered_json;
using Strings = std::set<std::string>;

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// What transformers makes of conversations with tools --------------------------------------------

TokenTexts tokens_of(const ordered_json& row) {
  TokenTexts tokens;
  const auto set = [&tokens](const std::string& name, const ordered_json& text) {
    if (text.is_string()) tokens[name + "_token"] = text;
  };
  set("bos", row["bos"]);
  set("eos", row["eos"]);
  if (row.contains("extra")) {
    for (const auto& [name, text] : row["extra"].items()) set(name, text);
  }
  return tokens;
}

// The JSON between two keys of a line, as it is written: a parser would lose digits of its numbers.
std::string raw_between(const std::string& line, const std::string& key, const std::string& next) {
  const size_t begin = line.find(key) + key.size();
  return line.substr(begin, line.find(next, begin) - begin);
}

// A conversation of the vectors, with the assistant's turn opened and without.
struct Row {
  std::vector<TemplateInput> inputs;
  std::vector<std::optional<std::string>> texts;
  std::string where;
};

Row row_of(const std::string& line, const ordered_json& json) {
  ordered_json variables = json["kwargs"];
  const bool is_continued = variables.erase("continue_final_message") > 0;  // no variable
  TemplateInput input;
  input.tools = raw_between(line, "\"tools\": ", ", \"messages\": ");
  input.messages = raw_between(line, ", \"messages\": ", ", \"kwargs\": ");
  input.variables = variables.dump();
  Row row = {{input, input}, {}, std::string(json["template"]) + ", " + std::string(json["case"])};
  row.inputs[1].opens_turn = false;
  for (const char* key : {"prompt", "text"}) {
    row.texts.push_back(json.contains(key) ? std::optional(json[key]) : std::nullopt);
  }
  // There the reference cuts what this is equal to.
  if (is_continued) {
    row.inputs[0].opens_turn = false;
    row.texts[0] = row.texts[1];
  }
  return row;
}

TEST(ChatTemplateRenderTest, EveryReferenceTemplateGivesTheReferencesTexts) {
  CRIA_SKIP_UNDER_ASAN();
  const auto reference = test::reference_folder();
  if (!reference) GTEST_SKIP() << "no $CRIA_SHARED/reference";
  std::map<std::string, std::vector<Row>> rows;
  std::map<std::string, TokenTexts> tokens;
  std::ifstream file(*reference / "vectors/chat_tools.jsonl");
  for (std::string line; std::getline(file, line);) {
    const ordered_json json = ordered_json::parse(line);
    rows[json["template"]].push_back(row_of(line, json));
    tokens[json["template"]] = tokens_of(json);
  }
  size_t n_compared = 0;
  for (const auto& [name, conversations] : rows) {
    const TemplateRenderer renderer(
        read_file(*reference / "chat_templates_tools" / (name + ".jinja")), tokens[name]);
    std::vector<TemplateInput> inputs;
    for (const Row& row : conversations) {
      inputs.insert(inputs.end(), row.inputs.begin(), row.inputs.end());
    }
    const std::vector<Rendering> renderings = renderer.render(inputs);
    ASSERT_EQ(renderings.size(), inputs.size());
    for (size_t i = 0; i < renderings.size(); ++i) {
      const Row& row = conversations[i / 2];
      EXPECT_EQ(renderings[i].text, row.texts[i % 2]) << row.where << ": " << renderings[i].error;
      EXPECT_EQ(renderings[i].error.empty(), renderings[i].text.has_value()) << row.where;
      ++n_compared;
    }
  }
  EXPECT_EQ(rows.size(), 44U);
  EXPECT_EQ(n_compared, 2U * 1548);
}

// What a template has and gets -------------------------------------------------------------------

const Probe kQuestion = {{ChatRole::kUser, "q"}};

std::string rendered(const std::string& jinja, const Probe& probe = kQuestion) {
  const Rendering rendering = TemplateRenderer(jinja, {{"bos_token", "<s>"}}).render(probe, false);
  return rendering.text.value_or("error: " + rendering.error);
}

TEST(ChatTemplateRenderTest, SettingsAreThoseOfTransformers) {
  EXPECT_EQ(rendered("  {% if true %}\n  x\n  {% endif %}\ny\n"), "  x\ny");
  EXPECT_EQ(rendered("{{ {'b': '<\xC3\xA9>', 'a': none} | tojson }}"),
            "{\"b\": \"<\xC3\xA9>\", \"a\": null}");
  EXPECT_EQ(rendered("{{ [1] | tojson(indent=1) }}{{ '\xC3\xA9' | tojson(ensure_ascii=true) }}"),
            "[\n 1\n]\"\\u00e9\"");
  EXPECT_EQ(rendered("{% for i in [1, 2, 3] %}{% if i == 2 %}{% continue %}{% endif %}{{ i }}"
                     "{% endfor %}"),
            "13");
  EXPECT_EQ(rendered("{% generation %}{{ messages[0].content }}{% endgeneration %}!"), "q!");
  EXPECT_EQ(rendered("{{ raise_exception('no ' + messages[0].role) }}"), "error: no user");
  EXPECT_EQ(rendered("{{ tools is none }}{{ documents is none }}{{ enable_thinking is defined }}"
                     "{{ date_string is defined }}{{ add_generation_prompt }}"),
            "TrueTrueFalseFalseFalse");
  EXPECT_EQ(rendered("{{ strftime_now('%A, %-d %B %Y %H:%M') }}"), "Friday, 26 July 2024 00:00");
  EXPECT_EQ(rendered("{{ '<' | safe + '>' }}"), "<&gt;");
}

TEST(ChatTemplateRenderTest, TokensAreThereByTheirNamesAndOthersAreUndefined) {
  const std::string jinja =
      "{% for name in [bos_token, pad_token, image_token] %}{{ name }}{% endfor %}"
      "{{ 'mask' if mask_token is defined else 'none' }}{{ cls_token is defined }}";
  const TokenTexts tokens = {
      {"bos_token", "<s>"}, {"pad_token", "<pad>"}, {"image_token", "<i>"}, {"cls_token", ""}};
  EXPECT_EQ(TemplateRenderer(jinja, tokens).render(Probe(), false).text, "<s><pad><i>noneFalse");
}

TEST(ChatTemplateRenderTest, VariablesToolsAndDatesArePassed) {
  const TemplateRenderer renderer(
      "{{ tools[0].name }} {{ mode }} {{ messages[0].tool_calls[0].n }} {{ messages[0].content is "
      "none }} {{ add_generation_prompt }} {{ strftime_now('%d.%m.%Y') }}",
      {});
  const TemplateInput input = {
      "[{\"role\":\"assistant\",\n\"content\":null,\"tool_calls\":[{\"n\":12345678901234567890123}"
      "]}]",
      "[{\"name\": \"f\"}]",
      "{\"mode\": \"x\"}",
      true,
      {2031, 1, 2}};
  EXPECT_EQ(renderer.render(input).text, "f x 12345678901234567890123 True True 02.01.2031");
  EXPECT_EQ(renderer.date_formats(), Strings{"%d.%m.%Y"});
}

TEST(ChatTemplateRenderTest, ConstantsAndVariablesAreToldByWhereTheyStand) {
  const TemplateRenderer renderer(
      "outside {% set a = 'x' ~ 'y' %}{{ '<|' + messages[0]['role'] + '|>' }}"
      "{% if 'z' in messages[0].content or messages | length > 3 * 4 or b == '7' %}{{ pad_token }}"
      "{% endif %}{{ strftime_now('%Y') }}{% for i in [5] %}{{ i }}{% endfor %}",
      {{"bos_token", "<s>"}, {"pad_token", "<pad>"}});
  const TemplateSource& source = renderer.source();
  EXPECT_EQ(source.reads, (Strings{"messages", "b", "pad_token"}));
  EXPECT_EQ(source.literals,
            (Strings{"x", "y", "xy", "<|", "|>", "role", "z", "7", "%Y", "<pad>"}));
  EXPECT_EQ(source.tested, (Strings{"x", "y", "xy", "z", "7", "%Y", "<pad>"}));
  EXPECT_EQ(source.numbers, (std::set<size_t>{0, 3, 4, 5, 7, 12}));
}

std::string dependence(const std::string& expression) {
  const TemplateRenderer renderer(
      "{% for m in messages %}{% set said = m.content %}{{ " + expression + " }}{% endfor %}", {});
  const TemplateInput input = {
      R"([{"role": "user", "name": "Bo", "content": "Qz qz", "tool_calls": [{"id": "c1"}]}])",
      R"([{"type": "string"}])"};
  const Rendering rendering = renderer.render(input);
  EXPECT_EQ(rendering.error, "") << expression;
  return rendering.depends;
}

TEST(ChatTemplateRenderTest, WhatIsAskedOfTextsIsTold) {
  for (const char* expression : {"said | lower",
                                 "said.upper()",
                                 "said['title']()",
                                 "(said + 'x') | capitalize",
                                 "said[0]",
                                 "said[:100]",
                                 "said[-2:]",
                                 "said | first",
                                 "said | list",
                                 "said | int",
                                 "said < 'a'",
                                 "'a' >= said",
                                 "said is upper",
                                 "said[0].upper()",
                                 "said[1].kind",
                                 "said.find('a')",
                                 "said.splitlines()",
                                 "said.isdigit()",
                                 "said % ()",
                                 "said | length > 5000",
                                 "said | length | string",
                                 "[said] | map('lower') | list",
                                 "messages | selectattr('content', 'gt', 'a') | list | length",
                                 "said | wordcount"}) {
    EXPECT_NE(dependence(expression), "") << expression;
  }
  for (const char* expression : {"said",
                                 "said.strip() | trim",
                                 "said | length > 0",
                                 "'a' in said",
                                 "said == 'a'",
                                 "said.split('z')[-1]",
                                 "said[1:]",
                                 "said[:-1]",
                                 "said[0].kind",
                                 "said[-1]['kind']",
                                 "(12 | string) | int",
                                 "m.role | upper",
                                 "m.role[0]",
                                 "tools[0].type | upper",
                                 "m.name | length",
                                 "m.tool_calls[0].id[:9]",
                                 "m | tojson",
                                 "messages[0:1] | length",
                                 "m['content']",
                                 "'abc' | title",
                                 "'%s' % said",
                                 "said.replace('a', 'b')",
                                 "[said] | join | string"}) {
    EXPECT_EQ(dependence(expression), "") << expression;
  }
}

// Hostile ----------------------------------------------------------------------------------------

TEST(ChatTemplateRenderTest, TheSandboxHolds) {
  for (const char* jinja :
       {"{{ ''.__class__.__mro__ }}", "{{ messages.__class__ }}",
        "{{ raise_exception.__globals__ }}", "{{ strftime_now.__self__ }}",
        "{{ '%s'.__mod__('x') }}", "{{ messages.append(1) }}", "{{ messages[0].update({}) }}",
        "{{ '{0.__class__}'.format(1) }}", "{{ cycler.__init__.__globals__ }}",
        "{{ ''|attr('__class__') ~ '' }}", "{% include 'x' %}", "{% import 'x' as y %}",
        "{% extends 'x' %}", "{{ self.__init__ }}"}) {
    const std::string text = rendered(jinja);
    EXPECT_TRUE(text.substr(0, 6) == "error:" || text.empty()) << jinja << ": " << text;
  }
}

TEST(ChatTemplateRenderTest, WhatIsTooMuchOfOneRenderingIsItsError) {
  const TemplateRenderer renderer(
      "{% macro deep() %}{{ deep() }}{% endmacro %}{% set m = messages[0].content %}"
      "{% if m == 'deep' %}{{ deep() }}{% elif m == 'range' %}{{ range(10 ** 9) | list }}"
      "{% elif m == 'long' %}{{ m * 10 ** 9 }}{% elif m == 'much' %}{{ m * 10 ** 7 }}"
      "{% elif m == 'half' %}{{ '\\ud800' }}{% elif m == 'codec' %}{{ m.encode('utf_7') }}"
      "{% else %}{{ m }}{% endif %}",
      {});
  for (const char* what : {"deep", "range", "long", "much", "half", "codec"}) {
    const Rendering rendering = renderer.render({{ChatRole::kUser, what}}, false);
    EXPECT_FALSE(rendering.text) << what;
    EXPECT_NE(rendering.error, "") << what;
    EXPECT_EQ(renderer.render(kQuestion, false).text, "q") << "after " << what;
  }
}

TEST(ChatTemplateRenderTest, WhatIsTooMuchForAllEndsInTime) {
  constexpr ChildLimits kLittle = {1, uint64_t{1} << 27, 1 << 16};
  for (const char* jinja :
       {"{% set n = messages | length + 8 %}{{ n ** (n ** (n - 1)) % 10 }}",
        "{% for a in range(60000) %}{% for b in range(60000) %}{% endfor %}{% endfor %}"}) {
    const TemplateRenderer renderer(jinja, {}, kLittle);
    for (int i = 0; i < 2; ++i) {
      EXPECT_THROW(static_cast<void>(renderer.render(kQuestion, false)), std::runtime_error)
          << jinja;
    }
  }
  EXPECT_THROW(TemplateRenderer("{{ 9 ** (9 ** 8) % 10 }}", {}, kLittle), std::runtime_error);
}

// Small boards need much time for all renderings, a rendering without an end gets little of it.
TEST(ChatTemplateRenderTest, OneRenderingHasATenthOfTheTime) {
  constexpr ChildLimits kMuch = {20, uint64_t{1} << 27, 1 << 16};
  const auto seconds = [] {
    rusage usage = {};
    EXPECT_EQ(getrusage(RUSAGE_CHILDREN, &usage), 0);
    return static_cast<double>(usage.ru_utime.tv_sec) +
           1e-6 * static_cast<double>(usage.ru_utime.tv_usec);
  };
  const double before = seconds();
  {
    const TemplateRenderer renderer(
        "{% if messages[0].content == 'q' %}q{% else %}{% for a in range(60000) %}"
        "{% for b in range(60000) %}{% endfor %}{% endfor %}{% endif %}",
        {}, kMuch);
    EXPECT_EQ(renderer.render(kQuestion, false).text, "q");
    EXPECT_THROW(static_cast<void>(renderer.render({{ChatRole::kUser, "x"}}, false)),
                 std::runtime_error);
  }
  EXPECT_LT(seconds() - before, 10);
}

TEST(ChatTemplateRenderTest, WhatIsNoTemplateIsSaidInALine) {
  for (const std::string& jinja :
       {std::string("{% for m in messages %}"), std::string("{{ 'a }}"), std::string("{{ \xFF }}"),
        "{{ " + std::string(100000, '(') + " }}", std::string("{% nothing %}")}) {
    try {
      const TemplateRenderer renderer(jinja, {});
      ADD_FAILURE() << jinja.substr(0, 50);
    } catch (const std::runtime_error& error) {
      const std::string line = error.what();
      EXPECT_FALSE(line.empty() || line.find('\n') != std::string::npos) << line;
    }
  }
}

}  // namespace
}  // namespace cria::converter
