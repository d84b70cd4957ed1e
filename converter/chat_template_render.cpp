#include "converter/chat_template_render.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <minja/minja.hpp>
#include <stdexcept>
#include <utility>

#include "converter/jinja_source.h"

namespace cria::converter {
namespace {

using minja::ArgumentsValue;
using minja::Context;
using minja::Value;

// What Python's str.strip takes away, of what probes have at their ends.
constexpr const char* kStripped = " \t\n\r\v\f\x1c\x1d\x1e\x1f";

std::string one_line(const std::string& text) {
  constexpr size_t kMost = 200;
  return text.substr(0, std::min(text.find('\n'), kMost));
}

// minja writes these where Jinja2 fails, or for what Jinja2 would write otherwise.
constexpr std::array<std::string_view, 4> kOddWords = {"None", "True", "False", "null"};

Value callable(std::string name,
               std::function<Value(const std::shared_ptr<Context>&, ArgumentsValue&)> function) {
  return Value::callable([name = std::move(name), function = std::move(function)](
                             const std::shared_ptr<Context>& context, ArgumentsValue& args) {
    if (args.args.empty()) throw std::runtime_error(name + " without a value");
    return function(context, args);
  });
}

std::string text_argument(const ArgumentsValue& args, size_t i) {
  if (i >= args.args.size() || !args.args[i].is_string()) throw std::runtime_error("no text");
  return args.args[i].get<std::string>();
}

void expect_only(const ArgumentsValue& args, size_t n) {
  if (args.args.size() > n || !args.kwargs.empty()) throw std::runtime_error("too many arguments");
}

size_t n_characters(const std::string& text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<uint8_t>(c) & 0xc0) != 0x80; }));
}

Value length_of(const std::shared_ptr<Context>& /*context*/, ArgumentsValue& args) {
  expect_only(args, 1);
  const Value& value = args.args[0];
  const size_t n = value.is_string() ? n_characters(value.get<std::string>()) : value.size();
  return Value(static_cast<int64_t>(n));
}

Value trim(const std::shared_ptr<Context>& /*context*/, ArgumentsValue& args) {
  expect_only(args, 2);
  const std::string text = text_argument(args, 0);
  const std::string stripped = args.args.size() > 1 ? text_argument(args, 1) : kStripped;
  const size_t begin = text.find_first_not_of(stripped);
  if (begin == std::string::npos) return Value(std::string());
  return Value(text.substr(begin, text.find_last_not_of(stripped) - begin + 1));
}

Value first_of(const std::shared_ptr<Context>& /*context*/, ArgumentsValue& args) {
  expect_only(args, 1);
  const Value& items = args.args[0];
  if (!items.is_array()) throw std::runtime_error("first of what is no list");
  return items.size() == 0 ? Value() : items.at(size_t{0});
}

Value replace(const std::shared_ptr<Context>& /*context*/, ArgumentsValue& args) {
  expect_only(args, 3);
  std::string text = text_argument(args, 0);
  const std::string from = text_argument(args, 1);
  const std::string to = text_argument(args, 2);
  if (from.empty()) throw std::runtime_error("replace of nothing");
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return Value(text);
}

Value reversed(const std::shared_ptr<Context>& /*context*/, ArgumentsValue& args) {
  expect_only(args, 1);
  const Value& items = args.args[0];
  if (!items.is_array()) throw std::runtime_error("reverse of what is no list");
  Value result = Value::array();
  for (size_t i = items.size(); i-- > 0;) result.push_back(items.at(i));
  return result;
}

// minja gives the attributes themselves where there is no test.
Value select_attribute(const std::shared_ptr<Context>& context, ArgumentsValue& args,
                       bool selects) {
  if (args.args.size() < 2 || !args.kwargs.empty()) throw std::runtime_error("no attribute");
  const Value& items = args.args[0];
  if (!items.is_array()) throw std::runtime_error("selectattr of what is no list");
  const std::string name = text_argument(args, 1);
  if (name.find('.') != std::string::npos) throw std::runtime_error("an attribute with a dot");
  Value result = Value::array();
  for (size_t i = 0; i < items.size(); ++i) {
    Value item = items.at(i);
    Value attribute = item.get(Value(name));
    bool holds = attribute.to_bool();
    if (args.args.size() > 2) {
      const std::string test = text_argument(args, 2);
      if (test == "defined") {
        holds = !attribute.is_null();
      } else if (test == "equalto" || test == "==" || test == "eq" || test == "ne" ||
                 test == "!=") {
        if (args.args.size() != 4) throw std::runtime_error("a test without a value");
        holds = (attribute == args.args[3]) != (test == "ne" || test == "!=");
      } else if (test == "in") {
        ArgumentsValue values = {{attribute, args.args.at(3)}, {}};
        holds = context->get(Value("in")).call(context, values).to_bool();
      } else {
        throw std::runtime_error("unknown test " + test);
      }
    }
    if (holds == selects) result.push_back(item);
  }
  return result;
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
  std::string bos;
  std::string eos;
  JinjaSource source;
  std::shared_ptr<minja::TemplateNode> root;
  std::shared_ptr<Context> builtins = Context::builtins();
  std::vector<std::string_view> odd_words;  // that the template does not write itself
  std::set<std::string> date_formats;
  bool has_raised = false;
  std::string raised;

  Value variables(const Probe& probe, bool opens_turn, const CalendarDate& date);
};

Value TemplateRenderer::Implementation::variables(const Probe& probe, bool opens_turn,
                                                  const CalendarDate& date) {
  Value messages = Value::array();
  for (const ProbeMessage& message : probe) {
    constexpr std::array<const char*, 3> kNames = {"system", "user", "assistant"};
    Value entry = Value::object();
    entry.set(Value("role"), Value(kNames[static_cast<size_t>(message.role)]));
    entry.set(Value("content"), Value(message.content));
    messages.push_back(entry);
  }
  Value all = Value::object();
  const auto set = [&all](const char* name, const Value& value) { all.set(Value(name), value); };
  set("messages", messages);
  set("add_generation_prompt", Value(opens_turn));
  set("enable_thinking", Value(false));
  set("tools", Value());
  set("documents", Value());
  if (!bos.empty()) set("bos_token", Value(bos));
  if (!eos.empty()) set("eos_token", Value(eos));
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
        expect_only(args, 1);
        const std::string format = text_argument(args, 0);
        const auto text = format_date(format, date);
        if (!text) throw std::runtime_error("unknown format of a date");
        date_formats.insert(format);
        return Value(*text);
      }));
  set("trim", callable("trim", trim));
  set("length", callable("length", length_of));
  set("count", callable("count", length_of));
  set("first", callable("first", first_of));
  set("replace", callable("replace", replace));
  set("reverse", callable("reverse", reversed));
  set("selectattr",
      callable("selectattr", [](const std::shared_ptr<Context>& context, ArgumentsValue& args) {
        return select_attribute(context, args, true);
      }));
  set("rejectattr",
      callable("rejectattr", [](const std::shared_ptr<Context>& context, ArgumentsValue& args) {
        return select_attribute(context, args, false);
      }));
  return all;
}

TemplateRenderer::TemplateRenderer(std::string_view jinja, std::string bos, std::string eos)
    : implementation_(std::make_unique<Implementation>()) {
  Implementation& self = *implementation_;
  self.bos = std::move(bos);
  self.eos = std::move(eos);
  self.source = rewrite_jinja(jinja);
  try {
    self.root = minja::Parser::parse(self.source.text, minja_options());
  } catch (const std::exception& error) {
    throw std::runtime_error(one_line(error.what()));
  }
  for (const std::string_view word : kOddWords) {
    if (self.source.plain.find(word) == std::string::npos) self.odd_words.push_back(word);
  }
}

TemplateRenderer::~TemplateRenderer() = default;

Rendering TemplateRenderer::render(const Probe& probe, bool opens_turn,
                                   const CalendarDate& date) const {
  Implementation& self = *implementation_;
  self.has_raised = false;
  try {
    const std::string text =
        self.root->render(Context::make(self.variables(probe, opens_turn, date), self.builtins));
    for (const std::string_view word : self.odd_words) {
      if (text.find(word) != std::string::npos) {
        return {std::nullopt, "writes a value that is no text"};
      }
    }
    return {text, ""};
  } catch (const std::exception& error) {
    return {std::nullopt, one_line(self.has_raised ? self.raised : error.what())};
  }
}

const std::set<std::string>& TemplateRenderer::literals() const {
  return implementation_->source.literals;
}
const std::set<std::string>& TemplateRenderer::date_formats() const {
  return implementation_->date_formats;
}
const std::string& TemplateRenderer::bos() const { return implementation_->bos; }

}  // namespace cria::converter
