// rooftile run: hands a training script to the Python package, which starts it with a recorder.
#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "rooftile/base/descriptor.h"
#include "rooftile/base/text.h"
#include "rooftile/cli/commands.h"

extern char** environ;

namespace rooftile {
namespace {

namespace fs = std::filesystem;

constexpr const char* kHasPackage =
    "import importlib.util, sys; sys.exit(importlib.util.find_spec('rooftile') is None)";
// Tells the package which program is to check what it records.
constexpr const char* kProgramVariable = "ROOFTILE_PROGRAM";

bool is_program(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored) && ::access(path.c_str(), X_OK) == 0;
}

fs::path own_path() {
  std::error_code ignored;
  return fs::read_symlink("/proc/self/exe", ignored);
}

// The environment in whose bin the program lies, then the first of the PATH.
std::vector<fs::path> pythons() {
  std::vector<fs::path> found;
  const fs::path folder = own_path().parent_path();
  for (const char* name : {"python3", "python"}) {
    if (is_program(folder / name)) {
      found.push_back(folder / name);
      break;
    }
  }
  const char* path = std::getenv("PATH");
  for (const std::string_view part : split(path == nullptr ? "" : path, ':')) {
    const fs::path candidate = fs::path(part) / "python3";
    if (part.empty() || !is_program(candidate)) continue;
    found.push_back(candidate);
    break;
  }
  return found;
}

// Arguments as the system takes them; the words must outlive the result.
std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> result;
  for (std::string& word : words) result.push_back(word.data());
  result.push_back(nullptr);
  return result;
}

bool has_package(const fs::path& python) {
  std::vector<std::string> words{python.string(), "-c", kHasPackage};
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  const int failed =
      ::posix_spawn(&child, python.c_str(), &actions, nullptr, pointers(words).data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return false;
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return false;
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

std::optional<fs::path> python_with_package(const std::vector<fs::path>& candidates) {
  for (const fs::path& python : candidates) {
    if (has_package(python)) return python;
  }
  return std::nullopt;
}

}  // namespace

Result<Outcome> run(const RunCommand& command, const TextStyle& /*style*/) {
  const std::vector<fs::path> candidates = pythons();
  if (candidates.empty()) {
    return fail("run needs Python with the package rooftile, and there is no python3 on the PATH");
  }
  const auto python = python_with_package(candidates);
  if (!python) {
    return fail(
        fmt::format("lacks the package rooftile, which runs scripts: {} -m pip install rooftile",
                    shell_word(candidates.back().string())),
        candidates.back().string());
  }
  std::vector<std::string> words{python->string(), "-m", "rooftile", "run"};
  words.insert(words.end(), command.words.begin(), command.words.end());
  ::setenv(kProgramVariable, own_path().c_str(), 0);
  ::execv(python->c_str(), pointers(words).data());
  return fail(system_message(errno), python->string());
}

}  // namespace rooftile
