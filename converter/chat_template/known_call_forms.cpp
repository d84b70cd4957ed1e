#include "converter/chat_template/known_call_forms.h"

#include <algorithm>
#include <initializer_list>
#include <vector>

namespace cria::converter {
namespace {

using format::CallKind;
using format::CallString;
using Texts = std::vector<std::string>;

bool has_all(std::string_view jinja, std::initializer_list<const char*> texts) {
  return std::all_of(texts.begin(), texts.end(), [jinja](const char* text) {
    return jinja.find(text) != std::string_view::npos;
  });
}

struct Markers {
  const char* sign;  // in the template
  Texts thinking_begin;
  Texts thinking_end;
  Texts answer_begin = {};
  Texts answer_end = {};
};

// The first that fits counts. An answer's beginning ends thinking.
const Markers kMarkers[] = {
    {"<|channel|>analysis<|message|>",  // harmony: every part of an answer has a channel
     {"<|channel|>analysis<|message|>"},
     {"<|end|>"},
     {"<|channel|>final<|message|>", "<|channel|>commentary<|message|>"},
     {"<|end|>", "<|return|>", "<|start|>assistant"}},
    {"assistant<|think|>",  // Solar: parts end alike, and a new one begins as a turn does
     {"<|think|>"},
     {"<|end|>"},
     {"<|content|>"},
     {"<|end|>", "<|begin|>assistant"}},
    {"<|START_THINKING|>",
     {"<|START_THINKING|>"},
     {"<|END_THINKING|>"},
     {"<|START_RESPONSE|>"},
     {"<|END_RESPONSE|>"}},
    // Granite tells the model to write both; others name <response> for results.
    {"<response></response>", {"<think>"}, {"</think>"}, {"<response>"}, {"</response>"}},
    {"<|channel>thought", {"<|channel>thought\n"}, {"<channel|>"}},
    {"<seed:think>", {"<seed:think>"}, {"</seed:think>"}},
    {"<|inner_prefix|>", {"<|inner_prefix|>"}, {"<|inner_suffix|>"}},
    {"<|thought_start|>", {"<|thought_start|>\n"}, {"\n<|thought_end|>"}},
    {"[THINK]", {"[THINK]"}, {"[/THINK]"}},
    {"</think>", {"<think>"}, {"</think>"}},
};

struct Known {
  std::initializer_list<const char*> signs;  // in the template, all of them
  bool is_stronger;                          // than what the template shows of earlier calls
  void (*set)(CallForm* form);
};

void set_keys(CallForm* form, const Texts& names, const Texts& arguments) {
  (*form)[CallString::kNameKeys] = call_list(names);
  (*form)[CallString::kArgumentsKeys] = call_list(arguments);
}

void set_json(CallForm* form, const Texts& starts, const char* end) {
  form->kind = CallKind::kJson;
  (*form)[CallString::kStart] = call_list(starts);
  (*form)[CallString::kEnd] = end;
  set_keys(form, {"name"}, {"arguments", "parameters"});
}

void set_python(CallForm* form, const Texts& starts, const char* end) {
  set_json(form, starts, end);
  form->kind = CallKind::kPython;
}

const Known kKnown[] = {
    // Llama 3: the prompt asks for an object and nothing else; a marker that is for code comes too.
    {{"Environment: ipython", "<|python_tag|>", "\"parameters\": "},
     true,
     [](CallForm* form) {
       set_json(form, {"<|python_tag|>"}, "");
       form->flags = format::kCallsBare;
     }},
    // Llama 4's own template: an object, which may have markers around it.
    {{"<|python_start|>", "<|python_end|>", "\"parameters\": "},
     true,
     [](CallForm* form) {
       set_json(form, {"<|python_start|>"}, "<|python_end|>");
       form->flags = format::kCallsBare;
     }},
    // Llama 4: a list of Python's calls, which may have markers that no template names.
    {{"[func_name1(", "<|header_start|>"},
     true,
     [](CallForm* form) {
       set_python(form, {"<|python_start|>"}, "<|python_end|>");
       form->flags = format::kCallsBare;
     }},
    // Templates of Gemma 3 and others that ask for the same list.
    {{"[func_name1("},
     true,
     [](CallForm* form) {
       set_python(form, {}, "");
       form->flags = format::kCallsBare;
     }},
    // FireFunction and templates of vLLM for Phi-4-mini.
    {{"functools["}, true, [](CallForm* form) { set_json(form, {" functools"}, ""); }},
    // Kimi K2: a call's id holds the name.
    {{"<|tool_calls_section_begin|>", "<|tool_call_argument_begin|>"},
     true,
     [](CallForm* form) {
       form->kind = CallKind::kNamed;
       form->flags = format::kCallsIdHoldsName;
       (*form)[CallString::kStart] = call_list({"<|tool_calls_section_begin|>"});
       (*form)[CallString::kCallBegin] = "<|tool_call_begin|>";
       (*form)[CallString::kNameBegin] = "functions.";
       (*form)[CallString::kArgumentsBegin] = "<|tool_call_argument_begin|>";
       (*form)[CallString::kCallEnd] = "<|tool_call_end|>";
       (*form)[CallString::kEnd] = "<|tool_calls_section_end|>";
     }},
    // gpt-oss: a call is a part of the answer with a recipient, in a channel or before it.
    {{"<|channel|>", "to=assistant<|channel|>"},
     true,
     [](CallForm* form) {
       form->kind = CallKind::kNamed;
       (*form)[CallString::kStart] =
           call_list({"<|channel|>commentary to=functions.", "<|channel|>analysis to=functions.",
                      " to=functions."});
       (*form)[CallString::kArgumentsBegin] = "<|message|>";
       (*form)[CallString::kCallEnd] = "<|call|>";
     }},
    // Gemma 4 and FunctionGemma go on with a marker of the result, which is the program's.
    {{"<|tool_call>call:", "<tool_call|>"},
     true,
     [](CallForm* form) {
       form->kind = CallKind::kNamed;
       (*form)[CallString::kStart] = call_list({"<|tool_call>call:"});
       (*form)[CallString::kEnd] = "<tool_call|>";
       (*form)[CallString::kStringMark] = "<|\"|>";
     }},
    {{"<start_function_call>", "<end_function_call>", "<escape>"},
     true,
     [](CallForm* form) {
       form->kind = CallKind::kNamed;
       (*form)[CallString::kStart] = call_list({"<start_function_call>call:"});
       (*form)[CallString::kEnd] = "<end_function_call>";
       (*form)[CallString::kStringMark] = "<escape>";
     }},
    // DeepSeek's distilled models show calls only where an answer's text is null.
    {{"\xEF\xBD\x9Ctool\xE2\x96\x81"
      "calls\xE2\x96\x81"
      "begin\xEF\xBD\x9C",
      "```json"},
     false,
     [](CallForm* form) {
       const std::string bar = "\xEF\xBD\x9C";
       const std::string dash = "\xE2\x96\x81";
       const auto token = [&](const std::string& a, const std::string& b, const std::string& c) {
         return "<" + bar + a + dash + b + (c.empty() ? "" : dash + c) + bar + ">";
       };
       form->kind = CallKind::kNamed;
       (*form)[CallString::kStart] = call_list({token("tool", "calls", "begin")});
       (*form)[CallString::kCallBegin] =
           token("tool", "call", "begin") + "function" + token("tool", "sep", "");
       (*form)[CallString::kArgumentsBegin] = "\n```json\n";
       (*form)[CallString::kCallEnd] = "\n```" + token("tool", "call", "end");
       (*form)[CallString::kEnd] = token("tool", "calls", "end");
     }},
    // Command R+: the prompt asks for a list after a word.
    {{"json-formatted list of actions", "tool_name"},
     false,
     [](CallForm* form) {
       set_json(form, {"Action: ```json\n"}, "\n```");
       set_keys(form, {"tool_name"}, {"parameters"});
     }},
    // Qwen3-Coder's tags, and those of templates that tell only of them.
    {{"<function=", "<parameter=", "<tool_call>"},
     false,
     [](CallForm* form) {
       form->kind = CallKind::kTagged;
       (*form)[CallString::kStart] = call_list({"<tool_call>\n"});
       (*form)[CallString::kCallBegin] = "<function=";
       (*form)[CallString::kArgumentsBegin] = ">\n";
       (*form)[CallString::kKeyBegin] = "<parameter=";
       (*form)[CallString::kKeyEnd] = ">\n";
       (*form)[CallString::kValueEnd] = "\n</parameter>\n";
       (*form)[CallString::kCallEnd] = "</function>\n";
       (*form)[CallString::kEnd] = "</tool_call>";
     }},
    // Hermes' tags: SmolLM3 and many others tell the model of them and show no calls.
    {{"<tool_call>", "</tool_call>"},
     false,
     [](CallForm* form) { set_json(form, {"<tool_call>\n"}, "\n</tool_call>"); }},
    // Nemotron Mini's card has markers that its template does not name; it names those of tools.
    {{"<extra_id_0>", "<tool>"},
     false,
     [](CallForm* form) { set_json(form, {"<toolcall> "}, " </toolcall>"); }},
    // Phi-4-mini: likewise.
    {{"<|tool|>", "<|/tool|>"},
     false,
     [](CallForm* form) { set_json(form, {"<|tool_call|>"}, "<|/tool_call|>"); }},
    // Templates that ask for an object as those of Llama 3 do.
    {{"{\"name\": function name, \"parameters\": dictionary of argument name and its value}"},
     false,
     [](CallForm* form) {
       set_json(form, {}, "");
       form->flags = format::kCallsBare;
     }},
    // Granite 3: a list after a marker.
    {{"<|tool_call|>"}, false, [](CallForm* form) { set_json(form, {"<|tool_call|>"}, ""); }},
    // LFM2: Python's calls between markers that its template does not name; it begins as this.
    {{"List of tools: "},
     false,
     [](CallForm* form) { set_python(form, {"<|tool_call_start|>"}, "<|tool_call_end|>"); }},
};

}  // namespace

void add_known_markers(std::string_view jinja, CallForm* form) {
  for (const Markers& markers : kMarkers) {
    if (jinja.find(markers.sign) == std::string_view::npos) continue;
    (*form)[CallString::kThinkingBegin] = call_list(markers.thinking_begin);
    (*form)[CallString::kThinkingEnd] = call_list(markers.thinking_end);
    (*form)[CallString::kAnswerBegin] = call_list(markers.answer_begin);
    (*form)[CallString::kAnswerEnd] = call_list(markers.answer_end);
    return;
  }
}

bool set_known_calls(std::string_view jinja, KnownForms which, CallForm* form) {
  for (const Known& known : kKnown) {
    if (which == KnownForms::kStronger && !known.is_stronger) continue;
    if (!has_all(jinja, known.signs)) continue;
    known.set(form);
    return true;
  }
  return false;
}

}  // namespace cria::converter
