#include "rooftile/base/contained.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <exception>
#include <new>

#include "rooftile/base/descriptor.h"
#include "rooftile/base/run_limits.h"
#include "rooftile/base/sanitized.h"

namespace rooftile {
namespace {

// The sanitizer reserves terabytes of address space for its shadow.
constexpr bool kLimitsAddressSpace = !kSanitized;

// First byte of the child's answer.
constexpr char kValue = 'v';
constexpr char kError = 'e';  // message, a zero byte, place

constexpr int kOutOfMemory = 86;  // exit codes no sanitizer or shell uses
constexpr int kException = 87;

void set_limit(int resource, rlim_t value) {
  const rlimit limit{value, value};
  (void)setrlimit(static_cast<__rlimit_resource_t>(resource), &limit);
}

// The run's own limits, where they are lower. A process has about twice the address space of the
// memory that it holds.
ContainedLimits within_run(ContainedLimits limits) {
  const RunLimits run = active_limits();
  if (run.time.count() > 0) {
    const auto seconds = std::chrono::ceil<std::chrono::seconds>(run.time).count();
    limits.cpu_seconds = static_cast<unsigned>(std::min<std::int64_t>(limits.cpu_seconds, seconds));
  }
  if (run.memory_bytes > 0) {
    limits.memory_bytes = std::min(limits.memory_bytes, 2 * run.memory_bytes);
  }
  return limits;
}

void enter_child(const ContainedLimits& limits) {
  (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
  set_limit(RLIMIT_CORE, 0);
  set_limit(RLIMIT_CPU, limits.cpu_seconds);
  if (!kLimitsAddressSpace) return;
  set_limit(RLIMIT_AS, limits.memory_bytes);
  // Libraries print their assertions; the parent's error says enough.
  const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (null >= 0) (void)dup2(null, STDERR_FILENO);
}

[[noreturn]] void run_child(const std::function<Result<std::string>()>& work, int descriptor,
                            const ContainedLimits& limits) {
  enter_child(limits);
  try {
    const Result<std::string> result = work();
    const char kind = result ? kValue : kError;
    write_all(descriptor, std::string_view(&kind, 1));
    write_all(descriptor, result ? *result : result.error().message);
    if (!result) write_all(descriptor, std::string(1, '\0') + result.error().where);
  } catch (const std::bad_alloc&) {
    _exit(kOutOfMemory);
  } catch (...) {
    _exit(kException);
  }
  _exit(0);
}

// Everything until the child closes its end, or more than the limit.
std::string read_all(int descriptor, std::size_t limit) {
  std::string answer;
  std::array<char, 65536> buffer{};
  while (answer.size() <= limit) {
    const ssize_t count = ::read(descriptor, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    answer.append(buffer.data(), static_cast<std::size_t>(count));
  }
  return answer;
}

std::string describe_end(int status, const ContainedLimits& limits) {
  if (WIFSIGNALED(status)) {
    const int number = WTERMSIG(status);
    if (number == SIGXCPU || number == SIGKILL) {
      return fmt::format("needed more than {} s of computation", limits.cpu_seconds);
    }
    return "crashed on this file";
  }
  if (WEXITSTATUS(status) == kOutOfMemory) {
    return fmt::format("needed more than {} MiB of memory for this file",
                       limits.memory_bytes >> 20U);
  }
  return "failed on this file";
}

Result<std::string> decode(std::string answer) {
  const char kind = answer[0];
  answer.erase(0, 1);
  if (kind == kValue) return answer;
  const std::size_t zero = answer.find('\0');
  if (zero == std::string::npos) return fail(std::move(answer));
  return fail(answer.substr(0, zero), answer.substr(zero + 1));
}

}  // namespace

Result<std::string> run_contained(const std::function<Result<std::string>()>& work,
                                  std::string_view subject, const ContainedLimits& own_limits,
                                  const std::function<void()>& meanwhile) {
  const ContainedLimits limits = within_run(own_limits);
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return fail(std::strerror(errno), "pipe");
  const pid_t child = fork();
  if (child < 0) {
    close(ends[0]);
    close(ends[1]);
    return fail(std::strerror(errno), "fork");
  }
  if (child == 0) {
    close(ends[0]);
    run_child(work, ends[1], limits);
  }
  close(ends[1]);
  if (meanwhile) meanwhile();
  std::string answer = read_all(ends[0], limits.answer_bytes);
  close(ends[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  const bool finished = WIFEXITED(status) && WEXITSTATUS(status) == 0 && !answer.empty();
  if (!finished) return fail(fmt::format("{} {}", subject, describe_end(status, limits)));
  return decode(std::move(answer));
}

}  // namespace rooftile
