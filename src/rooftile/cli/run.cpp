// rooftile run: hands a training script to the Python package, which starts it with a recorder.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "rooftile/base/descriptor.h"
#include "rooftile/base/python.h"
#include "rooftile/base/text.h"
#include "rooftile/cli/commands.h"

namespace rooftile {
namespace {

namespace fs = std::filesystem;

constexpr const char* kHasPackage =
    "import importlib.util, sys; sys.exit(importlib.util.find_spec('rooftile') is None)";
// Tells the package which program is to check what it records.
constexpr const char* kProgramVariable = "ROOFTILE_PROGRAM";

bool has_package(const fs::path& python) {
  constexpr std::chrono::seconds kLimit{60};
  const Result<int> code = run_program({python.string(), "-c", kHasPackage}, -1, kLimit);
  return code && *code == 0;
}

std::optional<fs::path> python_with_package(const std::vector<fs::path>& candidates) {
  for (const fs::path& python : candidates) {
    if (has_package(python)) return python;
  }
  return std::nullopt;
}

}  // namespace

Result<Outcome> run(const RunCommand& command, const TextStyle& /*style*/) {
  const std::vector<fs::path> candidates = python_candidates();
  if (candidates.empty()) {
    return fail("run needs Python with the package rooftile, and there is no python3 on the PATH");
  }
  const auto python = python_with_package(candidates);
  if (!python) {
    return fail(
        fmt::format("lacks the package rooftile, which runs scripts; in a checkout of Rooftile: "
                    "{} -m pip install .",
                    shell_word(candidates.back().string())),
        candidates.back().string());
  }
  std::vector<std::string> words{python->string(), "-m", "rooftile", "run"};
  words.insert(words.end(), command.words.begin(), command.words.end());
  ::setenv(kProgramVariable, own_program().c_str(), 0);
  ::execv(python->c_str(), argument_pointers(words).data());
  return fail(system_message(errno), python->string());
}

}  // namespace rooftile
