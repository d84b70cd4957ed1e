#include "converter/chat_template_render.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <minja/minja.hpp>
#include <stdexcept>
#include <utility>

#include "converter/jinja_functions.h"
#include "converter/jinja_operators.h"

namespace cria::converter {
namespace {

using minja::ArgumentsValue;
using minja::Context;
using minja::Value;

std::string one_line(const std::string& text) {
  constexpr size_t kMost = 200;
  std::string line = text.substr(0, std::min(text.find('\n'), kMost));
  while (!line.empty() && line.back() == ':') line.pop_back();  // what followed is not said
  return line;
}

minja::Options minja_options() {
  // rewrite_jinja has settled all white space.
  minja::Options options = {};
  options.trim_blocks = false;
  options.lstrip_blocks = false;
  options.keep_trailing_newline = true;
  return options;
}

}  // namespace

std::optional<std::string> format_date(const std::string& format, const CalendarDate& date) {
  constexpr std::string_view kConversions = "dejmbBhyYaAuwU%FDHIMSp";
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%') continue;
    ++i;
    if (i < format.size() && format[i] == '-') ++i;
    if (i >= format.size() || kConversions.find(format[i]) == std::string_view::npos) {
      return std::nullopt;
    }
  }
  constexpr int kFirstYear = 1900;
  std::tm time = {};
  time.tm_year = date.year - kFirstYear;
  time.tm_mon = date.month - 1;
  time.tm_mday = date.day;
  time.tm_isdst = -1;
  if (timegm(&time) == -1) return std::nullopt;
  std::array<char, 256> text = {};
  const size_t n = std::strftime(text.data(), text.size(), format.c_str(), &time);
  if (n == 0 && !format.empty()) return std::nullopt;
  return std::string(text.data(), n);
}

struct TemplateRenderer::Implementation {
  TokenTexts tokens;
  JinjaSource source;
  std::shared_ptr<minja::TemplateNode> root;
  std::shared_ptr<Context> functions;  // minja's, and ours over them
  std::set<std::string> date_formats;
  bool has_raised = false;
  std::string raised;
  TextLengths lengths;
  JinjaBudget budget;

  Rendering render(const Probe& probe, bool opens_turn, const CalendarDate& date);
  Value variables(const Probe& probe, bool opens_turn, const CalendarDate& date);
};

Value TemplateRenderer::Implementation::variables(const Probe& probe, bool opens_turn,
                                                  const CalendarDate& date) {
  Value messages = Value::array();
  for (const ProbeMessage& message : probe) {
    Value entry = Value::object();
    entry.set(Value("role"), Value(kChatRoleNames[static_cast<size_t>(message.role)]));
    entry.set(Value("content"), Value(message.content));
    messages.push_back(entry);
  }
  Value all = Value::object();
  const auto set = [&all](const char* name, const Value& value) { all.set(Value(name), value); };
  for (const auto& [name, text] : tokens) {
    if (!text.empty()) set(name.c_str(), Value(text));
  }
  set("messages", messages);
  set("add_generation_prompt", Value(opens_turn));
  set("enable_thinking", Value(false));
  set("tools", none_value());
  set("documents", none_value());
  const bool is_template_date = date.year == kTemplateDate.year &&
                                date.month == kTemplateDate.month && date.day == kTemplateDate.day;
  if (!is_template_date) set("date_string", Value(*format_date(kDateStringFormat, date)));
  set("raise_exception",
      Value::callable([this](const std::shared_ptr<Context>&, ArgumentsValue& args) -> Value {
        has_raised = true;
        raised = args.args.empty() ? "" : args.args[0].to_str();
        throw std::runtime_error(raised);
      }));
  set("strftime_now",
      Value::callable([this, date](const std::shared_ptr<Context>&, ArgumentsValue& args) {
        if (args.args.size() != 1 || !args.args[0].is_string()) {
          throw std::runtime_error("a date without its format");
        }
        const std::string format = args.args[0].get<std::string>();
        const auto text = format_date(format, date);
        if (!text) throw std::runtime_error("unknown format of a date");
        date_formats.insert(format);
        return Value(*text);
      }));
  return all;
}

TemplateRenderer::TemplateRenderer(std::string_view jinja, TokenTexts tokens)
    : implementation_(std::make_unique<Implementation>()) {
  Implementation& self = *implementation_;
  self.tokens = std::move(tokens);
  self.source = rewrite_jinja(jinja);
  // What it may look for in contents by their names.
  for (const auto& [name, text] : self.tokens) {
    if (text.empty() || self.source.text.find(name) == std::string::npos) continue;
    self.source.literals.insert(text);
    self.source.tested.insert(text);
  }
  try {
    self.root = minja::Parser::parse(self.source.text, minja_options());
  } catch (const std::exception& error) {
    throw std::runtime_error(one_line(error.what()));
  }
  Value functions = Value::object();
  set_jinja_functions(self.source.literals, &self.lengths, &functions);
  set_jinja_operators(&self.budget, &functions);
  self.functions = Context::make(std::move(functions), Context::builtins());
}

TemplateRenderer::~TemplateRenderer() = default;

Rendering TemplateRenderer::Implementation::render(const Probe& probe, bool opens_turn,
                                                   const CalendarDate& date) {
  has_raised = false;
  try {
    const std::string text =
        root->render(Context::make(variables(probe, opens_turn, date), functions));
    budget.spend(1 + text.size() / JinjaBudget::kBytesInAStep);
    return {text, ""};
  } catch (const std::exception& error) {
    budget.check();
    return {std::nullopt, one_line(has_raised ? raised : error.what())};
  }
}

Rendering TemplateRenderer::render(const Probe& probe, bool opens_turn,
                                   const CalendarDate& date) const {
  // More than any number that templates compare lengths with, which have at most six digits.
  constexpr size_t kAddedLength = 10'000'000;
  Implementation& self = *implementation_;
  self.lengths = {};
  Rendering rendering = self.render(probe, opens_turn, date);
  if (!self.lengths.are_asked) return rendering;
  self.lengths.added = kAddedLength;
  if (self.render(probe, opens_turn, date).text == rendering.text) return rendering;
  return {std::nullopt, "what it writes depends on the length of a text"};
}

const JinjaSource& TemplateRenderer::source() const { return implementation_->source; }
const std::set<std::string>& TemplateRenderer::date_formats() const {
  return implementation_->date_formats;
}
std::string TemplateRenderer::bos() const {
  const auto found = implementation_->tokens.find("bos_token");
  return found == implementation_->tokens.end() ? std::string() : found->second;
}

}  // namespace cria::converter
