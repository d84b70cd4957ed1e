#include "platforms/hosted/cli/help_text.h"

namespace cria::hosted {

HelpFormatter::HelpFormatter() {
  constexpr size_t kNameColumns = 26;
  column_width(kNameColumns);
}

std::string HelpFormatter::make_option_opts(const CLI::Option* option) const {
  std::string text;
  if (option->get_items_expected_max() > 0) text += " " + option->get_type_name();
  if (!option->get_default_str().empty()) text += " [" + option->get_default_str() + "]";
  return text;
}

// "Usage: cria run M.cria [options]"
std::string HelpFormatter::make_usage(const CLI::App* app, std::string name) const {
  std::string text = "Usage: " + name;
  if (!app->get_subcommands([](const CLI::App*) { return true; }).empty()) text += " command";
  for (const CLI::Option* option :
       app->get_options([](const CLI::Option* each) { return each->get_positional(); })) {
    const std::string& word = option->get_type_name();
    text += option->get_required() ? " " + word : " [" + word + "]";
  }
  return text + " [options]\n";
}

// They are told by the usage line.
std::string HelpFormatter::make_positionals(const CLI::App*) const { return {}; }

std::string HelpFormatter::make_footer(const CLI::App* app) const {
  return app->get_footer().empty() ? std::string() : "\n" + app->get_footer() + "\n";
}

}  // namespace cria::hosted
