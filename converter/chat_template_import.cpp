#include "converter/chat_template_import.h"

#include <cstring>
#include <memory>
#include <stdexcept>

#include "converter/bounded_child.h"
#include "converter/chat_template_prove.h"
#include "converter/error.h"
#include "quant/tokenizer_check.h"

namespace cria::converter {
namespace {

using format::ChatTemplateHeader;

// The first byte of what the child says.
constexpr char kSectionFollows = 'S';
constexpr char kFixedDateSectionFollows = 'D';
constexpr char kProblemFollows = 'P';

std::string problem(const std::string& text) { return kProblemFollows + text; }

// Whether an ordinary conversation with the user has a form at all.
bool takes_turns(const StoredTemplate& stored) {
  const ProbeMessage user = {ChatRole::kUser, "a"};
  const ProbeMessage assistant = {ChatRole::kAssistant, "b"};
  return stored_text(stored, {user}, true) && stored_text(stored, {user, assistant, user}, true);
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
    const StoredTemplate stored = derive_template(renderer, source.added_tokens);
    if (!takes_turns(stored)) return problem("takes no turns of user and assistant");
    if (const auto probe = find_difference(stored, renderer)) {
      return problem("does what the file cannot store, with " + shown_probe(*probe));
    }
    const std::vector<uint8_t> section = build_chat_section(stored, source.kind);
    ChatTemplate chat = {};
    if (const char* wrong = check_chat_template(section, &chat)) return problem(wrong);
    const char sign = stored.has_fixed_date ? kFixedDateSectionFollows : kSectionFollows;
    return sign + std::string(section.begin(), section.end());
  } catch (const MissingJinja& error) {
    return problem(error.what());
  } catch (const std::exception& error) {
    return problem("cannot be applied: " + shown(error.what()));
  }
}

}  // namespace

ImportedChatTemplate import_chat_template(const ChatTemplateSource& source,
                                          const ChildLimits& limits) {
  if (source.jinja.size() > kMaxAppliedTemplateBytes) {
    return {{}, "has more than " + std::to_string(kMaxAppliedTemplateBytes) + " bytes"};
  }
  const auto said = run_bounded([&] { return import_here(source, limits); }, limits);
  if (!said || said->empty()) return {{}, "takes too much time or memory to apply"};
  if ((*said)[0] == kProblemFollows) return {{}, said->substr(1)};
  return {std::vector<uint8_t>(said->begin() + 1, said->end()), "",
          (*said)[0] == kFixedDateSectionFollows};
}

std::vector<uint8_t> build_chat_section(const StoredTemplate& stored, uint32_t kind) {
  ChatTemplateHeader header = {};
  header.kind = kind;
  header.flags = stored.flags;
  header.trims = stored.trims;
  std::string text;
  for (size_t i = 0; i < format::kChatStrings; ++i) {
    if (stored.strings[i].size() > format::kMaxChatStringBytes) {
      throw std::runtime_error("its texts are too long; at most " +
                               std::to_string(format::kMaxChatStringBytes) + " bytes each");
    }
    header.string_bytes[i] = static_cast<uint32_t>(stored.strings[i].size());
    text += stored.strings[i];
  }
  std::vector<uint8_t> section(sizeof(header) + text.size());
  std::memcpy(section.data(), &header, sizeof(header));
  if (!text.empty()) std::memcpy(section.data() + sizeof(header), text.data(), text.size());
  return section;
}

}  // namespace cria::converter
