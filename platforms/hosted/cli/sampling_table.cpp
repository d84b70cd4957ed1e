#include "platforms/hosted/cli/sampling_table.h"

#include <limits>
#include <optional>
#include <sstream>
#include <type_traits>
#include <variant>

#include "platforms/hosted/base/option_values.h"
#include "platforms/hosted/base/print_format.h"
#include "platforms/hosted/base/program_error.h"
#include "platforms/hosted/session/sampling_bounds.h"

namespace cria::hosted {
namespace {

template <typename Value, typename Number>
struct Range {
  Value SamplingOptions::*member;
  Bounds<Number> bounds;
};

using Reals = Range<float, float>;
using Counts = Range<uint32_t, uint32_t>;
using Limits = Range<std::optional<uint32_t>, uint32_t>;
using Seeds = Range<std::optional<uint64_t>, uint64_t>;

struct Setting {
  const char* name;
  const char* type_name;
  const char* help;
  const char* none;  // the word for no value; null: there always is one
  bool is_random;    // greedy draws do not look at it
  std::variant<Reals, Counts, Limits, Seeds> range;
};

constexpr uint64_t kMaxSeed = std::numeric_limits<uint64_t>::max();

constexpr Setting kSettings[] = {
    {"temperature", "X", "Randomness; 0: greedy", nullptr, true,
     Reals{&SamplingOptions::temperature, kTemperatureBounds}},
    {"top-p", "X", "Keep the likeliest up to this sum; 0: one, 1: off", nullptr, true,
     Reals{&SamplingOptions::top_p, kShareBounds}},
    {"top-k", "X", "Keep this many tokens; 0: off", nullptr, true,
     Counts{&SamplingOptions::top_k, kCountBounds}},
    {"min-p", "X", "Drop those below this share of the best; 0: off", nullptr, true,
     Reals{&SamplingOptions::min_p, kShareBounds}},
    {"repeat-penalty", "X", "Weaken tokens of the last 64; 1: off", nullptr, false,
     Reals{&SamplingOptions::repeat_penalty, kRepeatPenaltyBounds}},
    {"frequency-penalty", "X", "The same, for each time one is there; 0: off", nullptr, false,
     Reals{&SamplingOptions::frequency_penalty, kPenaltyBounds}},
    {"presence-penalty", "X", "The same, once; 0: off", nullptr, false,
     Reals{&SamplingOptions::presence_penalty, kPenaltyBounds}},
    {"seed", "N", "Of the random numbers; default: a random one", "random", false,
     Seeds{&SamplingOptions::seed, {0, kMaxSeed}}},
    {"max-tokens", "N", "", "none", false, Limits{&SamplingOptions::max_tokens, kCountBounds}},
};
constexpr const char* kGreedy = "greedy";
constexpr const char* kMaxTokensName = "max-tokens";

template <typename Number>
std::string shown_value(const std::optional<Number>& value, const Setting& setting) {
  return value ? std::to_string(*value) : setting.none;
}
std::string shown_value(uint32_t value, const Setting&) { return std::to_string(value); }
std::string shown_value(float value, const Setting&) {
  return text_of("%g", static_cast<double>(value));
}

[[noreturn]] void refuse_no_value(const std::string& name, const std::string& values) {
  throw ProgramError(ExitCode::kUsage, name + " needs a value: /set " + name + " " + values);
}

void change_greedy(const std::string& value, SamplingOptions* options) {
  if (value.empty()) refuse_no_value(kGreedy, "on, or off");
  if (value != "on" && value != "off") {
    throw ProgramError(ExitCode::kUsage, std::string(kGreedy) + ": " + value + " is not on or off");
  }
  options->greedy = value == "on";
}

void change(const Setting& setting, const std::string& value, SamplingOptions* options) {
  std::visit(
      [&](const auto& range) {
        if (value.empty()) {
          std::ostringstream values;
          values << setting.type_name << ", from " << range.bounds.low << " to "
                 << range.bounds.high;
          if (setting.none != nullptr) values << ", or " << setting.none;
          refuse_no_value(setting.name, values.str());
        }
        auto& member = options->*(range.member);
        if (setting.none != nullptr && value == setting.none) {
          member = {};
          return;
        }
        const std::string problem =
            between(range.bounds.low, range.bounds.high)(const_cast<std::string&>(value));
        if (!problem.empty()) {
          throw ProgramError(ExitCode::kUsage, std::string(setting.name) + ": " + problem);
        }
        std::remove_const_t<decltype(range.bounds.low)> number = {};
        parse_number(value, &number);
        member = number;
      },
      setting.range);
  if (setting.is_random) options->greedy = false;
}

}  // namespace

std::string setting_row(const char* name, const std::string& value) {
  constexpr int kNameColumns = 18;
  return text_of("%-*s %s\n", kNameColumns, name, value.c_str());
}

void add_sampling(CLI::App* app, SamplingOptions* options, const std::string& max_tokens_help) {
  CLI::Option* const greedy =
      app->add_flag("--greedy", options->greedy, "Always the likeliest token")->group("Sampling");
  for (const Setting& setting : kSettings) {
    const bool is_limit = std::string(setting.name) == kMaxTokensName;
    const std::string name = std::string(is_limit ? "-n," : "") + "--" + setting.name;
    const std::string help = is_limit ? max_tokens_help : setting.help;
    CLI::Option* const option = std::visit(
        [&](const auto& range) {
          return app->add_option(name, options->*(range.member), help)
              ->check(between(range.bounds.low, range.bounds.high));
        },
        setting.range);
    option->type_name(setting.type_name);
    if (!is_limit) option->group("Sampling");
    if (setting.none == nullptr) option->capture_default_str();
    if (setting.is_random) option->excludes(greedy);
  }
}

std::string settings_text(const SamplingOptions& options) {
  std::string text = setting_row(kGreedy, options.greedy ? "on" : "off");
  for (const Setting& setting : kSettings) {
    text += std::visit(
        [&](const auto& range) {
          return setting_row(setting.name, shown_value(options.*(range.member), setting));
        },
        setting.range);
  }
  return text;
}

void change_setting(const std::string& name, const std::string& value, SamplingOptions* options) {
  if (name == kGreedy) return change_greedy(value, options);
  for (const Setting& setting : kSettings) {
    if (name == setting.name) return change(setting, value, options);
  }
  throw ProgramError(ExitCode::kUsage, name + " is not a setting; /set lists them");
}

}  // namespace cria::hosted
