// Renders a checkpoint's chat template as transformers' apply_chat_template does: with Jinja2, in a
// process of Python's (converter/chat_template/render_template.py) that has limits and no system
// calls left. The templates that --chat-template knows by name need no Python.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "converter/bounded_child.h"
#include "quant/text/chat_text.h"

namespace cria::converter {

// A message that owns its content.
struct ProbeMessage {
  ChatRole role;
  std::string content;
};
using Probe = std::vector<ProbeMessage>;

struct CalendarDate {
  int year;
  int month;  // 1 to 12
  int day;
};

// The day that templates of Llama 3.2 fall back to: a device may have no clock, and the same text
// gives the same tokens every day.
inline constexpr CalendarDate kTemplateDate = {2024, 7, 26};

// How the templates of Llama 3 want the date_string that they take from their caller.
inline constexpr const char* kDateStringFormat = "%d %b %Y";

// A date as strftime writes it in the C locale, for the conversions of templates; nullopt for a
// format with others.
[[nodiscard]] std::optional<std::string> format_date(const std::string& format,
                                                     const CalendarDate& date);

// The texts of tokens by their names in templates: bos_token, eos_token, pad_token, ... An empty
// one is not there.
using TokenTexts = std::map<std::string, std::string, std::less<>>;

// What a template is given besides the tokens. The JSON keeps the order of its keys and the digits
// of its numbers.
struct TemplateInput {
  std::string messages;          // JSON, a list: role, content, tool_calls, reasoning_content, ...
  std::string tools = "null";    // JSON, a list; null as transformers passes it without tools
  std::string variables = "{}";  // JSON, an object: more of them, such as enable_thinking
  bool opens_turn = true;        // add_generation_prompt
  CalendarDate date = kTemplateDate;  // strftime_now's today, at midnight
};

// What a template made of a conversation.
struct Rendering {
  std::optional<std::string> text;
  std::string error;  // why there is none, on one line: the template's own words, or Python's
  // What of a message's text the template asked for that one conversation says nothing of for
  // others, such as "the case of a text"; empty: nothing.
  std::string depends;
};

// What a template holds, which its conditions may look for.
struct TemplateSource {
  std::string text;                // the template
  std::set<std::string> literals;  // its strings, and those that its constants make
  std::set<std::string> tested;    // of these, what may be looked for in contents
  std::set<size_t> numbers;        // what messages may be counted to
  std::set<std::string> reads;     // variables that it reads and does not set
};

// There is no Jinja2 on this machine; what() reads on from "the chat template ".
class MissingJinja : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Processor time of all renderings together, of which one may take a tenth; memory; and bytes of
// one rendering.
inline constexpr ChildLimits kRenderLimits = {60, uint64_t{1} << 28, size_t{1} << 22};

class TemplateRenderer {
 public:
  // Throws std::runtime_error, one line, for what is no template; MissingJinja; ProgramError (kIo)
  // when no process can be made.
  TemplateRenderer(std::string_view jinja, TokenTexts tokens,
                   const ChildLimits& limits = kRenderLimits);
  // The template of a name (converter/chat_template/named_templates.h). Of messages that are more
  // than role and text it makes nothing.
  TemplateRenderer(uint32_t named_kind, TokenTexts tokens);
  ~TemplateRenderer();
  TemplateRenderer(const TemplateRenderer&) = delete;
  TemplateRenderer& operator=(const TemplateRenderer&) = delete;

  // In the order of inputs. Throws std::runtime_error, one line, when all renderings together took
  // more than the limits; then no other one follows.
  [[nodiscard]] std::vector<Rendering> render(std::span<const TemplateInput> inputs) const;
  [[nodiscard]] Rendering render(const TemplateInput& input) const;
  // Only of texts; date_string is given where the date is not the template's. What depends on more
  // than the conversation is an error here. Throws as the others do.
  [[nodiscard]] Rendering render(const Probe& probe, bool opens_turn,
                                 const CalendarDate& date = kTemplateDate) const;

  [[nodiscard]] const TemplateSource& source() const;
  // The formats in which it asked for the date so far.
  [[nodiscard]] const std::set<std::string>& date_formats() const;
  [[nodiscard]] std::string bos() const;  // the text of bos_token; empty: there is none

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace cria::converter
