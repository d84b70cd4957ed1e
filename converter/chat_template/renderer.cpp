#include "converter/chat_template/renderer.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "converter/chat_template/line_program.h"
#include "converter/chat_template/named_templates.h"
#include "converter/chat_template/render_script.h"
#include "converter/error.h"

namespace cria::converter {
namespace {

using nlohmann::json;

constexpr const char* kTooMuch = "it takes too much time or memory";

std::string one_line(const std::string& text) {
  constexpr size_t kMost = 200;
  return text.substr(0, std::min(text.find('\n'), kMost));
}

bool is_template_date(const CalendarDate& date) {
  return date.year == kTemplateDate.year && date.month == kTemplateDate.month &&
         date.day == kTemplateDate.day;
}

// The process ------------------------------------------------------------------------------------

// A program: a script, such as those of version managers, would want the environment.
bool is_program(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error) || access(path.c_str(), X_OK) != 0) {
    return false;
  }
  std::ifstream file(path, std::ios::binary);
  std::array<char, 2> sign = {};
  file.read(sign.data(), sign.size());
  return file && sign != std::array<char, 2>{'#', '!'};
}

// Every python3 of PATH, but for folders that depend on the current one.
std::vector<std::string> find_pythons() {
  const char* const variable = std::getenv("PATH");
  std::string folders = variable == nullptr ? "/usr/bin:/bin" : variable;
  std::vector<std::string> found;
  std::set<std::filesystem::path> seen;
  for (size_t begin = 0; begin <= folders.size();) {
    const size_t end = std::min(folders.find(':', begin), folders.size());
    const std::filesystem::path path =
        std::filesystem::path(folders.substr(begin, end - begin)) / "python3";
    begin = end + 1;
    std::error_code error;
    if (!path.is_absolute() || !is_program(path)) continue;
    if (seen.insert(std::filesystem::canonical(path.parent_path(), error)).second) {
      found.push_back(path.string());
    }
  }
  return found;
}

// Ready for a template.
std::unique_ptr<LineProgram> start_jinja(const ChildLimits& limits) {
  constexpr size_t kMostPerCharacter = 12;  // of JSON: two escapes
  constexpr size_t kAround = 1 << 20;       // the answer's other fields
  const AnswerLimits answer = {kClockSeconds * limits.seconds,
                               kMostPerCharacter * limits.result_bytes + kAround};
  const std::vector<std::string> pythons = find_pythons();
  bool has_died = false;
  for (const std::string& python : pythons) {
    // -I: no variables, no current folder, no user's packages; -B: nothing is written.
    auto program = std::make_unique<LineProgram>(
        std::vector<std::string>{
            python, "-I", "-B", "-c", std::string(render_script()), std::to_string(limits.seconds),
            std::to_string(limits.memory_bytes), std::to_string(limits.result_bytes)},
        answer);
    const auto said = program->ask("", 1);
    if (said && json::parse((*said)[0])["jinja2"].is_string()) return program;
    has_died |= !said;
  }
  if (has_died) throw std::runtime_error("Python ends before it has begun");
  throw MissingJinja(pythons.empty() ? "needs Python and Jinja2 to be applied"
                                     : "needs Jinja2 to be applied");
}

// What goes between ------------------------------------------------------------------------------

// JSON on one line: a line's end can only be white space in it.
std::string on_one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  std::replace(text.begin(), text.end(), '\r', ' ');
  return text;
}

std::string request_of(const TemplateInput& input) {
  return on_one_line(R"({"messages":)" + input.messages + R"(,"tools":)" + input.tools +
                     R"(,"variables":)" + input.variables + R"(,"opens_turn":)" +
                     (input.opens_turn ? "true" : "false") + R"(,"date":[)" +
                     std::to_string(input.date.year) + "," + std::to_string(input.date.month) +
                     "," + std::to_string(input.date.day) + "]}") +
         "\n";
}

TemplateInput input_of(const Probe& probe, bool opens_turn, const CalendarDate& date) {
  json messages = json::array();
  for (const ProbeMessage& message : probe) {
    messages.push_back({{"role", kChatRoleNames[static_cast<size_t>(message.role)]},
                        {"content", message.content}});
  }
  json variables = json::object();
  if (!is_template_date(date)) variables["date_string"] = *format_date(kDateStringFormat, date);
  return {messages.dump(), "null", variables.dump(), opens_turn, date};
}

// Only texts and roles; nullopt: there is more.
std::optional<Probe> probe_of(const TemplateInput& input) {
  const json messages = json::parse(input.messages);
  if (!json::parse(input.tools).is_null()) return std::nullopt;
  Probe probe;
  for (const json& message : messages) {
    const auto role = std::find(std::begin(kChatRoleNames), std::end(kChatRoleNames),
                                message.value("role", std::string()));
    const auto content = message.find("content");
    if (role == std::end(kChatRoleNames) || content == message.end() || !content->is_string() ||
        message.size() != 2) {
      return std::nullopt;
    }
    probe.push_back(
        {static_cast<ChatRole>(role - std::begin(kChatRoleNames)), content->get<std::string>()});
  }
  return probe;
}

template <typename T>
std::set<T> set_of(const json& list) {
  return list.get<std::set<T>>();
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
  TemplateSource source;
  std::set<std::string> date_formats;
  uint32_t named_kind = 0;
  std::unique_ptr<LineProgram> jinja;  // null: the template has a name

  std::vector<std::string> ask(const std::string& lines, size_t n_answers);
  void open(std::string_view text);
  Rendering rendering_of(const std::string& line);
  Rendering render_named(const Probe& probe, bool opens_turn, const CalendarDate& date);
};

std::vector<std::string> TemplateRenderer::Implementation::ask(const std::string& lines,
                                                               size_t n_answers) {
  auto answers = jinja->ask(lines, n_answers);
  if (!answers) throw std::runtime_error(kTooMuch);
  return std::move(*answers);
}

void TemplateRenderer::Implementation::open(std::string_view text) {
  const json answer =
      json::parse(ask(json{{"template", text}, {"tokens", tokens}}.dump() + "\n", 1)[0]);
  if (answer.contains("error")) throw std::runtime_error(one_line(answer["error"]));
  source = {std::string(text), set_of<std::string>(answer["literals"]),
            set_of<std::string>(answer["tested"]), set_of<size_t>(answer["numbers"]),
            set_of<std::string>(answer["reads"])};
  // What it may look for in contents by their names.
  for (const auto& [name, token] : tokens) {
    if (!source.reads.contains(name)) continue;
    source.literals.insert(token);
    source.tested.insert(token);
  }
}

Rendering TemplateRenderer::Implementation::rendering_of(const std::string& line) {
  const json answer = json::parse(line);
  date_formats.merge(set_of<std::string>(answer["dates"]));
  if (answer.contains("error")) return {std::nullopt, one_line(answer["error"]), ""};
  return {answer["text"].get<std::string>(), "", answer["depends"].get<std::string>()};
}

Rendering TemplateRenderer::Implementation::render_named(const Probe& probe, bool opens_turn,
                                                         const CalendarDate& date) {
  if (named_template_has_date(named_kind)) date_formats.insert(kDateStringFormat);
  return render_named_template(named_kind, tokens, probe, opens_turn,
                               *format_date(kDateStringFormat, date));
}

TemplateRenderer::TemplateRenderer(std::string_view jinja, TokenTexts tokens,
                                   const ChildLimits& limits)
    : implementation_(std::make_unique<Implementation>()) {
  std::erase_if(tokens, [](const auto& token) { return token.second.empty(); });
  implementation_->tokens = std::move(tokens);
  implementation_->jinja = start_jinja(limits);
  try {
    implementation_->open(jinja);
  } catch (const json::exception&) {
    throw std::runtime_error("it is not UTF-8");
  }
}

TemplateRenderer::TemplateRenderer(uint32_t named_kind, TokenTexts tokens)
    : implementation_(std::make_unique<Implementation>()) {
  std::erase_if(tokens, [](const auto& token) { return token.second.empty(); });
  implementation_->tokens = std::move(tokens);
  implementation_->named_kind = named_kind;
}

TemplateRenderer::~TemplateRenderer() = default;

std::vector<Rendering> TemplateRenderer::render(std::span<const TemplateInput> inputs) const {
  Implementation& self = *implementation_;
  std::vector<Rendering> renderings;
  if (self.jinja == nullptr) {
    for (const TemplateInput& input : inputs) {
      const auto probe = probe_of(input);
      renderings.push_back(probe ? self.render_named(*probe, input.opens_turn, input.date)
                                 : Rendering{std::nullopt, "it knows texts of three roles", ""});
    }
    return renderings;
  }
  std::string lines;
  for (const TemplateInput& input : inputs) lines += request_of(input);
  for (const std::string& line : self.ask(lines, inputs.size())) {
    renderings.push_back(self.rendering_of(line));
  }
  return renderings;
}

Rendering TemplateRenderer::render(const TemplateInput& input) const {
  return std::move(render(std::span(&input, 1))[0]);
}

Rendering TemplateRenderer::render(const Probe& probe, bool opens_turn,
                                   const CalendarDate& date) const {
  Implementation& self = *implementation_;
  if (self.jinja == nullptr) return self.render_named(probe, opens_turn, date);
  Rendering rendering = render(input_of(probe, opens_turn, date));
  if (rendering.depends.empty()) return rendering;
  return {std::nullopt, "what it writes depends on " + rendering.depends, ""};
}

const TemplateSource& TemplateRenderer::source() const { return implementation_->source; }
const std::set<std::string>& TemplateRenderer::date_formats() const {
  return implementation_->date_formats;
}
std::string TemplateRenderer::bos() const {
  const auto found = implementation_->tokens.find("bos_token");
  return found == implementation_->tokens.end() ? std::string() : found->second;
}

}  // namespace cria::converter
