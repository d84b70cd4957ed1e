#include "converter/chat_template/form_import.h"

#include <algorithm>
#include <memory>
#include <stdexcept>

#include "converter/bounded_child.h"
#include "converter/chat_template/call_form.h"
#include "converter/chat_template/form_proof.h"
#include "converter/chat_template/marked_samples.h"
#include "converter/error.h"

namespace cria::converter {
namespace {

using format::ChatTemplateHeader;

// The first byte of what the child says. Before a section stands why it has no tools, in a line.
constexpr char kSectionFollows = 'S';
constexpr char kFixedDateSectionFollows = 'D';
constexpr char kProblemFollows = 'P';
constexpr char kJinjaIsMissing = 'J';  // as a problem

constexpr const char* kPlainTool =
    R"({"type": "function", "function": {"name": "f", "description": "d", )"
    R"("parameters": {"type": "object", "properties": {}}}})";
constexpr const char* kCannotStoreTools = "writes tools in a way that the file cannot store";
constexpr const char* kCannotStoreCalls =
    "writes calls or their results in a way that the file cannot store";

std::string problem(const std::string& text) { return kProblemFollows + text; }

std::string not_stored(const Dialogue& dialogue) {
  return "does what the file cannot store, with " + shown_dialogue(dialogue);
}

// Why a form is not the template's, as ImportedChatTemplate::problem; empty: it is, and refuses
// what it cannot say.
std::string problem_of(const TemplateRenderer& renderer, bool with_tools, StoredTemplate* stored) {
  const ProbeMessage question = {ChatRole::kUser, "a"};
  const ProbeMessage answer = {ChatRole::kAssistant, "b"};
  const StoredForm form(*stored);
  for (const Probe& probe : {Probe{question}, Probe{question, answer, {ChatRole::kUser, "c"}}}) {
    if (form.text(dialogue_of(probe, true))) continue;
    if (!renderer.render(probe, true).text) return "takes no turns of user and assistant";
    return not_stored(dialogue_of(probe, true));
  }
  const auto difference = prove_form(renderer, with_tools, stored);
  return difference ? not_stored(*difference) : "";
}

// Why a form that is the template's takes no tools; empty: it does, or the template has none. What
// is asked is what programs ask of a file, platforms/hosted/session/tool_rounds.cpp.
std::string lack_of_tools(const TemplateRenderer& renderer, const StoredTemplate& stored) {
  using format::ChatString;
  if (!stored[ChatString::kTool].empty()) {
    const StoredForm form(stored);
    for (const std::string_view letters : {"U", "UcR", "UcRcR"}) {
      Dialogue dialogue = marked_dialogue(letters);
      dialogue.tools = {kPlainTool};
      if (form.refusal(dialogue).empty()) continue;
      return letters == "U" ? kCannotStoreTools : kCannotStoreCalls;
    }
    return has_calls(stored[ChatString::kCallFormat]) ? "" : "shows no known form of calls";
  }
  if (renderer.source().reads.contains("tools")) {
    return kCannotStoreTools;
  }
  const bool has_words = renderer.source().text.find("tool") != std::string::npos;
  return has_words ? "has words of tools, but does not read the variable tools" : "";
}

std::unique_ptr<TemplateRenderer> renderer_of(const ChatTemplateSource& source,
                                              const ChildLimits& limits) {
  const bool has_name = source.kind >= format::kChatKindNamed;
  if (has_name) return std::make_unique<TemplateRenderer>(source.kind, source.tokens);
  const ChildLimits of_python = {limits.seconds, limits.memory_bytes, kRenderLimits.result_bytes};
  return std::make_unique<TemplateRenderer>(source.jinja, source.tokens, of_python);
}

std::string import_here(const ChatTemplateSource& source, const ChildLimits& limits) {
  try {
    const auto owned = renderer_of(source, limits);
    const TemplateRenderer& renderer = *owned;
    const FoundForm found = find_form(renderer, source.kind < format::kChatKindNamed);
    if (!found.problem.empty()) return problem(found.problem);
    const std::vector<uint8_t> section = build_chat_section(found.stored, source.kind);
    const char sign = found.stored.has_fixed_date ? kFixedDateSectionFollows : kSectionFollows;
    return sign + found.tools_problem + '\n' + std::string(section.begin(), section.end());
  } catch (const MissingJinja& error) {
    return kJinjaIsMissing + std::string(error.what());
  } catch (const std::exception& error) {
    return problem("cannot be applied: " + shown(error.what()));
  }
}

}  // namespace

FoundForm find_form(const TemplateRenderer& renderer, bool may_have_tools) {
  FoundForm found;
  const auto find = [&](bool with_tools) {
    found.stored = derive_template(renderer, with_tools);
    return problem_of(renderer, with_tools, &found.stored);
  };
  if (may_have_tools) found.tools_problem = find(true);
  const bool has_all = may_have_tools && found.tools_problem.empty();
  if (!has_all) found.problem = find(false);
  if (may_have_tools) {
    found.stored[format::ChatString::kCallFormat] =
        derive_call_format(renderer, found.stored.id_characters);
  }
  if (has_all) found.tools_problem = lack_of_tools(renderer, found.stored);
  return found;
}

ImportedChatTemplate import_chat_template(const ChatTemplateSource& source,
                                          const ChildLimits& limits) {
  if (source.jinja.size() > kMaxAppliedTemplateBytes) {
    return {{}, "has more than " + std::to_string(kMaxAppliedTemplateBytes) + " bytes"};
  }
  const auto said = run_bounded([&] { return import_here(source, limits); }, limits);
  if (!said || said->empty()) return {{}, "takes too much time or memory to apply"};
  if ((*said)[0] == kProblemFollows) return {{}, said->substr(1)};
  if ((*said)[0] == kJinjaIsMissing) return {.problem = said->substr(1), .lacks_jinja = true};
  const size_t line_end = std::min(said->find('\n'), said->size() - 1);
  const auto section = said->begin() + static_cast<std::ptrdiff_t>(line_end) + 1;
  return {std::vector<uint8_t>(section, said->end()), "", said->substr(1, line_end - 1),
          (*said)[0] == kFixedDateSectionFollows};
}

}  // namespace cria::converter
