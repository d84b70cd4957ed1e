// Chat templates by evaluation: what the stored form says of a conversation is what the template
// itself says, or the conversation is refused.
#include "converter/chat_template/form_import.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "converter/chat_template/form_proof.h"
#include "converter/chat_template/named_templates.h"
#include "tests/support/folders.h"
#include "tests/support/long_under_asan.h"
#include "tests/support/sampling.h"

namespace cria::converter {
namespace {

using format::ChatString;
using nlohmann::json;

const TokenTexts kNamed = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

Probe probe_of(const json& messages) {
  Probe probe;
  for (const json& m : messages) {
    const ChatRole role = m["role"] == "system" ? ChatRole::kSystem
                          : m["role"] == "user" ? ChatRole::kUser
                                                : ChatRole::kAssistant;
    probe.push_back({role, m["content"]});
  }
  return probe;
}

// The reference's vectors have the thinking of Qwen 3 switched off.
std::string template_text(const std::filesystem::path& path) {
  const bool is_reference = path.stem() == "qwen3";
  return (is_reference ? "{%- set enable_thinking = false %}" : "") + read_file(path);
}

std::optional<std::string> stored_text(const StoredTemplate& stored, const Probe& probe,
                                       bool opens_turn, const CalendarDate& date = kTemplateDate) {
  return StoredForm(stored).text(dialogue_of(probe, opens_turn, date));
}

struct Score {
  size_t equal = 0;
  size_t refused = 0;  // what the template itself takes
};

// A file of one conversation a line: template, case, bos, eos, messages and what Jinja2 makes of
// them (prompt: with the assistant's turn opened; text: without; null: the template raises). Of the
// templates every step-th is compared.
std::map<std::string, Score> compare(const std::filesystem::path& vectors,
                                     const std::filesystem::path& templates, size_t step = 1) {
  std::set<std::string> names;
  std::map<std::string, Score> scores;
  std::map<std::string, std::optional<StoredTemplate>> forms;
  std::ifstream file(vectors);
  for (std::string line; std::getline(file, line);) {
    const json row = json::parse(line);
    const std::string name = row["template"];
    names.insert(name);
    if (names.size() % step != 0) continue;
    const auto text_of = [&row](const char* key) {
      return row[key].is_string() ? row[key].get<std::string>() : std::string();
    };
    if (forms.find(name) == forms.end()) {
      const TemplateRenderer renderer(
          template_text(templates / (name + ".jinja")),
          {{"bos_token", text_of("bos")}, {"eos_token", text_of("eos")}});
      FoundForm found = find_form(renderer, true);
      forms[name] = found.problem.empty() ? std::optional(std::move(found.stored)) : std::nullopt;
    }
    Score* const score = &scores[name];
    if (!forms[name]) continue;
    for (const char* key : {"prompt", "text"}) {
      const auto stored =
          stored_text(*forms[name], probe_of(row["messages"]), std::string(key) == "prompt");
      const auto at = row.find(key);
      const bool is_there = at != row.end() && at->is_string();
      if (stored) {
        EXPECT_TRUE(is_there && *stored == at->get<std::string>())
            << name << ", " << row["case"] << ", " << key << ": " << *stored;
        ++score->equal;
      } else {
        score->refused += is_there ? 1 : 0;
      }
    }
  }
  return scores;
}

std::filesystem::path own_templates() {
  return test::source_folder() / "tests/data/chat_templates";
}

TEST(ChatTemplateImportTest, FormsOfManyKindsSayWhatTheirTemplatesSay) {
  const size_t step = test::sweep_step() == 1 ? 1 : 4;
  const auto scores = compare(own_templates() / "vectors.jsonl", own_templates(), step);
  // Of 42 renderings each; what is missing the template refuses too.
  const std::map<std::string, Score> expected = {{"counted", {0, 0}},
                                                 {"dated_headers", {42, 0}},
                                                 {"eos_when_closed", {42, 0}},
                                                 {"last_without_end", {38, 4}},
                                                 {"long_date", {42, 0}},
                                                 {"model_turns", {34, 2}},
                                                 {"modes", {34, 8}},
                                                 {"no_system", {16, 0}},
                                                 {"per_role", {42, 0}},
                                                 {"system_in_last", {36, 0}},
                                                 {"system_prompt_tag", {42, 0}},
                                                 {"thinking", {38, 4}},
                                                 {"titled_roles", {42, 0}},
                                                 {"turn_tokens", {36, 0}}};
  ASSERT_EQ(scores.size(), expected.size() / step);
  for (const auto& [name, score] : scores) {
    EXPECT_EQ(score.equal, expected.at(name).equal) << name;
    EXPECT_EQ(score.refused, expected.at(name).refused) << name;
  }
}

TEST(ChatTemplateImportTest, TheReferenceTemplatesAreAllStored) {
  CRIA_SKIP_UNDER_ASAN();
  const auto reference = test::reference_folder();
  if (!reference) GTEST_SKIP() << "no $CRIA_SHARED/reference";
  const auto scores =
      compare(*reference / "vectors/chat_templates.jsonl", *reference / "chat_templates");
  EXPECT_EQ(scores.size(), 11U);
  for (const auto& [name, score] : scores) {
    EXPECT_EQ(score.equal, 24U) << name;
    EXPECT_EQ(score.refused, 0U) << name;
  }
}

// The reference templates have white space between their tags which nobody means.
std::string squeezed(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c != ' ' && c != '\n' && c != '\t') result += c;
  }
  return result;
}

TEST(ChatTemplateImportTest, NamedTemplatesEqualTheReferencesButForWhiteSpace) {
  const auto reference = test::reference_folder();
  if (!reference) GTEST_SKIP() << "no $CRIA_SHARED/reference";
  const std::map<std::string, std::string> names = {{"llama-2-chat", "llama2"},
                                                    {"llama-3-instruct", "llama3"},
                                                    {"mistral-instruct", "mistral"},
                                                    {"zephyr", "zephyr"},
                                                    {"vicuna", "vicuna"},
                                                    {"alpaca", "alpaca"},
                                                    {"phi-3", "phi3"},
                                                    {"qwen3", "qwen3"},
                                                    {"granite-3.0-instruct", "granite"}};
  std::ifstream file(*reference / "vectors/chat_templates.jsonl");
  size_t compared = 0;
  for (std::string line; std::getline(file, line);) {
    const json row = json::parse(line);
    const auto name = names.find(row["template"]);
    if (name == names.end()) continue;
    const auto found = find_named_template(name->second);
    ASSERT_TRUE(found) << name->second;
    const TemplateRenderer renderer(*found,
                                    {{"bos_token", row["bos"].is_null() ? "" : row["bos"]},
                                     {"eos_token", row["eos"].is_null() ? "" : row["eos"]}});
    for (const char* key : {"prompt", "text"}) {
      const auto made = renderer.render(probe_of(row["messages"]), std::string(key) == "prompt");
      ASSERT_TRUE(made.text) << made.error;
      EXPECT_EQ(squeezed(*made.text), squeezed(row[key])) << name->second << row["case"];
    }
    ++compared;
  }
  EXPECT_EQ(compared, 12 * names.size());
}

TEST(ChatTemplateImportTest, EveryNamedTemplateIsStored) {
  CRIA_SKIP_UNDER_ASAN();
  for (uint32_t kind = format::kChatKindNamed; kind < format::kChatKinds; ++kind) {
    const auto found = find_named_template(format::kChatTemplateNames[kind]);
    ASSERT_TRUE(found);
    EXPECT_EQ(*found, kind);
    const ImportedChatTemplate imported = import_chat_template({"", kNamed, kind});
    EXPECT_FALSE(imported.section.empty())
        << format::kChatTemplateNames[kind] << " " << imported.problem;
  }
  EXPECT_FALSE(find_named_template("own"));
  EXPECT_FALSE(find_named_template("none"));
  EXPECT_FALSE(find_named_template(""));
}

std::string problem_of(const std::string& jinja) {
  return import_chat_template({jinja, kNamed}).problem;
}

TEST(ChatTemplateImportTest, WhatCannotBeStoredSaysWhy) {
  CRIA_SKIP_UNDER_ASAN();
  const std::string turns = "{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}";
  EXPECT_EQ(problem_of(turns), "");
  EXPECT_NE(problem_of("{% for m in messages %}{{ loop.index }}{{ m.content }};{% endfor %}")
                .find("cannot store, with "),
            std::string::npos);
  EXPECT_NE(problem_of("{{ raise_exception('not today') }}").find("not today"), std::string::npos);
  EXPECT_NE(problem_of("{% for m in messages %}").find("Unexpected end of"), std::string::npos);
  EXPECT_NE(problem_of("{{ 'a }}").find("unexpected char"), std::string::npos);
  EXPECT_NE(problem_of("hello").find("cannot store, with "), std::string::npos);
  EXPECT_NE(problem_of("{{ messages[0].content | nothing_known }}"), "");
  EXPECT_NE(problem_of(turns + std::string(70000, 'x')), "");
}

TEST(ChatTemplateImportTest, ASystemTextOfTheFamilyMayBeLong) {
  CRIA_SKIP_UNDER_ASAN();
  const std::string text = "{%- set usual = '" + std::string(6000, 'x') + "' %}";
  EXPECT_EQ(
      problem_of(text + "{%- if messages[0].role != 'system' %}{{- usual }}{%- endif %}" +
                 "{%- for m in messages %}{{- m.role ~ ':' ~ m.content ~ ';' }}" +
                 "{%- endfor %}{%- if add_generation_prompt %}{{- 'assistant:' }}{%- endif %}"),
      "");
}

TEST(ChatTemplateImportTest, EmptyResultsAreTriedWhereATemplateHasNoTools) {
  CRIA_SKIP_UNDER_ASAN();
  const TemplateRenderer renderer(
      "{%- for m in messages if m.content %}{{- '<' ~ m.role ~ '>' ~ m.content }}{%- endfor %}"
      "{%- if add_generation_prompt %}{{- '<assistant>' }}{%- endif %}",
      {});
  const FoundForm found = find_form(renderer, true);
  ASSERT_EQ(found.problem, "");
  const StoredForm form(found.stored);
  Dialogue dialogue = dialogue_of({{ChatRole::kUser, "u"}}, true);
  dialogue.messages.push_back({ChatRole::kAssistant, "", {}, {{"f", "{}", "a"}}, {}, {}});
  dialogue.messages.push_back({ChatRole::kTool, "", {}, {}, "f", "a"});
  const auto rendered = render_all(renderer, {dialogue});
  EXPECT_TRUE(!form.text(dialogue) || form.text(dialogue) == rendered[0]);
}

// Turns of Llama 3 whose contents are written as expression says, with something before each.
std::string turns_of(const std::string& expression, const std::string& before = "") {
  return "{%- for message in messages %}" + before +
         "{{- '<|start_header_id|>' + message['role'] " + "+ '<|end_header_id|>' + " + expression +
         " + '<|eot_id|>' }}{%- endfor %}" +
         "{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>' }}" +
         "{%- endif %}";
}

TEST(ChatTemplateImportTest, ConditionsThatFewConversationsMeetAreFound) {
  CRIA_SKIP_UNDER_ASAN();
  const std::string content = "message['content']";
  ASSERT_EQ(problem_of(turns_of(content)), "");
  ASSERT_EQ(problem_of(turns_of(content + ".strip()")), "");
  ASSERT_EQ(problem_of(turns_of(content + "|trim")), "");
  for (const char* expression :
       {".replace('\\r\\n', '\\n')", "|replace('\\r', '')", ".strip(' \\t\\n')", ".strip('\\n ')",
        ".split('\\r')[0]", "|lower", ".upper()", "|capitalize", "[:100]", "[0]", "|int|string",
        "|list|join('')", "|length|string"}) {
    EXPECT_NE(problem_of(turns_of(content + expression)), "") << expression;
  }
  for (const char* condition :
       {"'stop' in message['content']|lower",
        "'<a>' in message['content'] and '<b>' in message.content",
        "message['content']|length > 5000", "loop.index > 12", "messages|length > 40",
        "loop.index0 == 200", "loop.index|string == '17'", "message['content'][0] == '/'",
        "message['content']|int > 100",
        "not loop.first and message['content'] == messages[loop.index0 - 1]['content']",
        "message['content'] < '!'", "'!' >= message['content']"}) {
    const std::string before = std::string("{%- if ") + condition + " %}{{- 'X' }}{%- endif %}";
    EXPECT_NE(problem_of(turns_of(content, before)), "") << condition;
  }
}

TEST(ChatTemplateImportTest, WhatConditionsLookForIsRefusedInContents) {
  for (const std::string& text :
       {std::string("'/no' ~ '_think'"), "'" + std::string(200, 'z') + "'"}) {
    const std::string before =
        "{%- if (" + text + ") in message['content'] %}{{- 'X' }}{%- endif %}";
    const TemplateRenderer renderer(turns_of("message['content']", before), {});
    StoredTemplate stored = derive_template(renderer, false);
    ASSERT_FALSE(prove_form(renderer, false, &stored)) << text;
    const std::string sought = text[1] == 'z' ? std::string(200, 'z') : "/no_think";
    EXPECT_FALSE(stored_text(stored, {{ChatRole::kUser, "say " + sought}}, true)) << text;
    EXPECT_TRUE(stored_text(stored, {{ChatRole::kUser, "say /no"}}, true)) << text;
  }
}

TEST(ChatTemplateImportTest, DatesThatCannotBeChangedAreSaid) {
  CRIA_SKIP_UNDER_ASAN();
  const auto fixed = [](const std::string& date) {
    const std::string turns = turns_of("message['content']");
    const ImportedChatTemplate imported = import_chat_template({date + turns, kNamed});
    EXPECT_EQ(imported.problem, "");
    return imported.has_fixed_date;
  };
  EXPECT_TRUE(fixed("{{- strftime_now('%Y') ~ '-' ~ strftime_now('%m') }}"));
  EXPECT_TRUE(
      fixed("{%- if date_string is not defined %}{%- set date_string = '01 Jan 2025' %}"
            "{%- endif %}{{- date_string }}"));
  EXPECT_FALSE(fixed("{{- strftime_now('%Y-%m') }}"));
  EXPECT_FALSE(fixed("no date"));
}

TEST(ChatTemplateImportTest, AnEmptyDateIsNoneThatCouldBeFound) {
  const std::string turns = turns_of("message['content']");
  const ImportedChatTemplate imported =
      import_chat_template({"{{- strftime_now('') }}{{- date_string or 'x' }}" + turns, kNamed});
  EXPECT_EQ(imported.problem, "");
  EXPECT_TRUE(imported.has_fixed_date);
}

TEST(ChatTemplateImportTest, HostileTemplatesEnd) {
  const std::string deep(100000, '(');
  const std::string templates[] = {
      "{{ " + deep + " }}",
      "{% for a in range(1000000000) %}x{% endfor %}",
      "{% for a in range(60000) %}{% for b in range(60000) %}x{% endfor %}{% endfor %}",
      "{% set ns = namespace(x=[1]) %}{% for a in range(60) %}{% set ns.x = ns.x + ns.x %}"
      "{% endfor %}",
      "{{ 10 ** (10 ** 10) }}",
      "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
      "{{ 'x' * 1000000000000 }}",
      "{# " + deep + " #}" + deep,
      "{{ 'a' }}" + std::string(200000, ' ') + "{{- 'b' }}",
  };
  for (const std::string& jinja : templates) {
    const ImportedChatTemplate imported =
        import_chat_template({jinja, kNamed}, {2, uint64_t{1} << 27, 1 << 18});
    EXPECT_TRUE(imported.section.empty()) << jinja.substr(0, 50);
    EXPECT_NE(imported.problem, "") << jinja.substr(0, 50);
  }
}

TEST(ChatTemplateImportTest, ANamedTokenThatIsLookedForIsRefusedInContents) {
  const std::string jinja =
      "{% for m in messages %}<{{ m.role }}>{{ m.content | replace(pad_token, '') }}{% endfor %}";
  const ImportedChatTemplate imported = import_chat_template({jinja, {{"pad_token", "[fill]"}}});
  ASSERT_EQ(imported.problem, "");
  const std::string section(imported.section.begin(), imported.section.end());
  EXPECT_NE(section.find("[fill]"), std::string::npos);
}

TEST(ChatTemplateImportTest, DatesAreMarkedWithTheirFormat) {
  const TemplateRenderer renderer(
      "{% for m in messages %}{{ m.role }} on {{ strftime_now('%-d. %B %Y') }}: {{ m.content }}"
      "{% endfor %}",
      {});
  StoredTemplate stored = derive_template(renderer, false);
  EXPECT_EQ(stored[ChatString::kDate], "26. July 2024");
  EXPECT_EQ(stored[ChatString::kDateFormat], "%-d. %B %Y");
  EXPECT_EQ(stored_text(stored, {{ChatRole::kUser, "a"}}, false, {2025, 3, 1}),
            "user on 1. March 2025: a");
  EXPECT_FALSE(prove_form(renderer, false, &stored));
}

}  // namespace
}  // namespace cria::converter
