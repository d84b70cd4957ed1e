// How --help looks.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace cria::hosted {

// One row an option: its names, a word for its value, its default; within 80 columns.
class HelpFormatter : public CLI::Formatter {
 public:
  HelpFormatter();
  std::string make_option_opts(const CLI::Option* option) const override;
  std::string make_usage(const CLI::App* app, std::string name) const override;
  std::string make_positionals(const CLI::App* app) const override;
  std::string make_footer(const CLI::App* app) const override;
};

}  // namespace cria::hosted
