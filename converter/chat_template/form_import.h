// Turns a chat template into the file section that the runtime applies without a template engine:
// rendered (renderer.h), the stored form found (form_derivation.h) and compared
// (form_proof.h), all in processes with limits, since a template is a program.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "converter/bounded_child.h"
#include "converter/chat_template/form_derivation.h"
#include "quant/text/chat_template_format.h"

namespace cria::converter {

struct ChatTemplateSource {
  std::string jinja;  // of a kind without a name
  TokenTexts tokens;
  uint32_t kind = format::kChatKindOwn;
};

// What import_chat_template stores, found in this process. Throws as derive_template does.
struct FoundForm {
  StoredTemplate stored;
  std::string problem;        // of ImportedChatTemplate
  std::string tools_problem;  // of ImportedChatTemplate
};
[[nodiscard]] FoundForm find_form(const TemplateRenderer& renderer, bool may_have_tools);

struct ImportedChatTemplate {
  std::vector<uint8_t> section = {};  // empty: the form cannot express the template
  std::string problem = {};           // then why, on one line: reads on from "the chat template "
  // Why conversations with tools are refused, as problem; empty: they are not, or the template has
  // no tools.
  std::string tools_problem = {};
  bool has_fixed_date = false;  // it writes a date that cannot be changed at run time
  bool lacks_jinja = false;     // the problem: this machine has nothing that applies templates
};

// Several times the longest known.
inline constexpr size_t kMaxAppliedTemplateBytes = 1 << 16;
// Of this program and of Python, each. The longest known take Python 6 s on a busy server, and
// several times as long on a small board.
inline constexpr ChildLimits kTemplateLimits = {60, uint64_t{1} << 28, 1 << 18};

[[nodiscard]] ImportedChatTemplate import_chat_template(
    const ChatTemplateSource& source, const ChildLimits& limits = kTemplateLimits);

}  // namespace cria::converter
