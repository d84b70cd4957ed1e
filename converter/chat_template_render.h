// Renders a checkpoint's Jinja template as transformers' apply_chat_template does, with minja.
//
// Hostile text can make minja compute or recurse without end: only a child of run_bounded
// (converter/bounded_child.h) calls this.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "converter/jinja_source.h"
#include "quant/chat_text.h"

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

// The texts of tokens by their names in templates: bos_token, eos_token, pad_token, ...
using TokenTexts = std::map<std::string, std::string, std::less<>>;

// What a template made of a conversation.
struct Rendering {
  std::optional<std::string> text;
  std::string error;  // why there is none: the template's own words, or what minja said; one line
};

class TemplateRenderer {
 public:
  // Throws std::runtime_error, one line, for what is no template or is not understood.
  TemplateRenderer(std::string_view jinja, TokenTexts tokens);
  ~TemplateRenderer();
  TemplateRenderer(const TemplateRenderer&) = delete;
  TemplateRenderer& operator=(const TemplateRenderer&) = delete;

  [[nodiscard]] Rendering render(const Probe& probe, bool opens_turn,
                                 const CalendarDate& date = kTemplateDate) const;

  // The template's constants, which its conditions may look for.
  [[nodiscard]] const JinjaSource& source() const;
  // The formats in which it asked for the date so far.
  [[nodiscard]] const std::set<std::string>& date_formats() const;
  [[nodiscard]] std::string bos() const;  // the text of bos_token; empty: there is none

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace cria::converter
