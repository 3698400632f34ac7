// Where the text goes: the terminal, a pipe or a file.
#pragma once

#include <string>

#include "rooftile/base/result.h"
#include "rooftile/rooftile.h"

namespace rooftile {

// Colour and width of standard output: colour "auto" means on a terminal and without NO_COLOR; a
// pipe gets 100 columns, a file too.
TextStyle output_style(const std::string& path, const std::string& color = "auto");

// All of the text or nothing: a new file appears under its name when it is complete. An empty path
// is standard output, where a reader that went away is no error.
Result<void> write_output(const std::string& path, const std::string& text);

}  // namespace rooftile
