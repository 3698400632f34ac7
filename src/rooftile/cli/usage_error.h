// What to say about a command line that cannot be read.
#pragma once

#include "rooftile/base/result.h"

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace rooftile {

// One line, with the nearest command or flag where a word is unknown.
Error usage_error(CLI::App& app, const CLI::ParseError& error);

}  // namespace rooftile
