// The command line and the project's settings put together: flags win.
#pragma once

#include <vector>

#include "rooftile/cli/command_line.h"
#include "rooftile/rooftile.h"

namespace rooftile {

struct Project {
  toml_file::Settings settings;
  std::vector<const Rule*> rules;  // those to run
};

// Finds the settings for the first input and completes the input options from them: the default
// GPU, and what is left out of folders. Errors name the line of the settings.
Result<Project> open_project(const RuleChoice& choice, InputOptions& input);

}  // namespace rooftile
