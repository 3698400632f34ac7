// Python interpreters, started as processes of their own.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "rooftile/base/result.h"

namespace rooftile {

// The file of this process.
std::filesystem::path own_program();

// Where the package may be installed: the interpreter that $ROOFTILE_PYTHON names, else the one
// beside this program, then the first python3 of the PATH.
std::vector<std::filesystem::path> python_candidates();

// Arguments as the system takes them; `words` must outlive the result.
std::vector<char*> argument_pointers(std::vector<std::string>& words);

// The exit code of a program that reads nothing, and writes its output to `output` (-1: nowhere).
// Its errors are not shown. It is ended after the limit, and by a signal is an error too.
Result<int> run_program(std::vector<std::string> words, int output, std::chrono::seconds limit);

}  // namespace rooftile
