// How tokens are drawn: what people can set, as options of the command line and inside a chat.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "platforms/hosted/cli/cli_options.h"

namespace cria::hosted {

// Adds the options of --greedy, --temperature and so on; max_tokens_help is what -n means there.
void add_sampling(CLI::App* app, SamplingOptions* options, const std::string& max_tokens_help);

// A line of a setting and its value.
std::string setting_row(const char* name, const std::string& value);
// One for each that changes how tokens are drawn.
std::string settings_text(const SamplingOptions& options);

// Sets one by its name, without dashes; what only random draws look at ends greedy ones. Throws
// ProgramError kUsage with what the command line would say.
void change_setting(const std::string& name, const std::string& value, SamplingOptions* options);

}  // namespace cria::hosted
