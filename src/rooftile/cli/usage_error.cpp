#include "rooftile/cli/usage_error.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "rooftile/base/text.h"
#include "rooftile/rooftile.h"

namespace rooftile {
namespace {

std::vector<std::string> command_names(CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  return names;
}

// "; did you mean --batch?", or nothing.
std::string suggestion(std::string_view found, const std::vector<std::string>& candidates) {
  const std::vector<std::string> close = nearest(found, candidates);
  return close.empty() ? "" : fmt::format("; did you mean {}?", join(close, ", "));
}

std::vector<std::string> flag_names(CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

Error unknown_word(CLI::App& app, const std::string& word) {
  const auto commands = app.get_subcommands();
  if (!commands.empty()) {
    const std::string flag = word.substr(0, word.find('='));
    return {
        fmt::format("{} is not an option of {}{}", rooftile::quoted(word),
                    commands.front()->get_name(), suggestion(flag, flag_names(*commands.front()))),
        ""};
  }
  if (word.starts_with("-")) {
    return {fmt::format("{} is not an option{}", rooftile::quoted(word),
                        suggestion(word, flag_names(app))),
            ""};
  }
  const std::vector<std::string> names = command_names(app);
  const std::string close = suggestion(word, names);
  return {fmt::format("{} is not a command ({}){}", rooftile::quoted(word), join(names, ", "),
                      close.empty() && word.find('.') != std::string::npos
                          ? "; did you mean `rooftile check " + printable(word) + "`?"
                          : close),
          ""};
}

}  // namespace

Error usage_error(CLI::App& app, const CLI::ParseError& error) {
  const std::vector<std::string> unknown = app.remaining(true);
  if (!unknown.empty()) return unknown_word(app, unknown.front());
  if (app.get_subcommands().empty()) {
    return {"no command: try `rooftile check FILE --gpu h100` or `rooftile --help`", ""};
  }
  std::string message = error.what();
  std::replace(message.begin(), message.end(), '\n', ' ');
  return {message, ""};
}

}  // namespace rooftile
