#include "rooftile/base/python.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <system_error>
#include <thread>

#include "rooftile/base/descriptor.h"
#include "rooftile/base/run_limits.h"
#include "rooftile/base/text.h"

extern char** environ;

namespace rooftile {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPythonVariable = "ROOFTILE_PYTHON";

bool is_program(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored) && ::access(path.c_str(), X_OK) == 0;
}

Result<pid_t> start_program(std::vector<std::string>& words, int output) {
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  if (output >= 0) {
    ::posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  } else {
    ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  }
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  const int failed = ::posix_spawn(&child, words.front().c_str(), &actions, nullptr,
                                   argument_pointers(words).data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return fail(system_message(failed), words.front());
  return child;
}

// The status of a child that ends in time.
std::optional<int> status_within(pid_t child, std::chrono::seconds limit) {
  constexpr std::chrono::milliseconds kPause{5};
  const auto end = std::chrono::steady_clock::now() + limit;
  while (std::chrono::steady_clock::now() < end) {
    int status = 0;
    const pid_t ended = ::waitpid(child, &status, WNOHANG);
    if (ended == child) return status;
    if (ended < 0 && errno != EINTR) return std::nullopt;
    std::this_thread::sleep_for(kPause);
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  return std::nullopt;
}

}  // namespace

fs::path own_program() {
  std::error_code ignored;
  return fs::read_symlink("/proc/self/exe", ignored);
}

std::vector<fs::path> python_candidates() {
  if (const char* named = std::getenv(kPythonVariable); named != nullptr && *named != '\0') {
    return {named};
  }
  std::vector<fs::path> found;
  const fs::path folder = own_program().parent_path();
  for (const char* name : {"python3", "python"}) {
    if (!is_program(folder / name)) continue;
    found.push_back(folder / name);
    break;
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

std::vector<char*> argument_pointers(std::vector<std::string>& words) {
  std::vector<char*> result;
  result.reserve(words.size() + 1);
  for (std::string& word : words) result.push_back(word.data());
  result.push_back(nullptr);
  return result;
}

Result<int> run_program(std::vector<std::string> words, int output, std::chrono::seconds limit) {
  const OtherProcess not_ours;
  const Result<pid_t> child = start_program(words, output);
  if (!child) return tl::unexpected(child.error());
  const std::optional<int> status = status_within(*child, limit);
  if (!status) return fail(fmt::format("did not end in {} s", limit.count()), words.front());
  if (!WIFEXITED(*status)) return fail("was ended by a signal", words.front());
  return WEXITSTATUS(*status);
}

}  // namespace rooftile
