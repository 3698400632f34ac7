#include "rooftile/cli/output.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace rooftile {
namespace {

namespace fs = std::filesystem;

constexpr int kNarrowest = 60, kWidest = 140;  // prose beyond this width is hard to read

std::string system_message(int code) { return std::generic_category().message(code); }

// 0, or the errno of the write that failed.
int write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

Result<void> write_standard_output(const std::string& text) {
  const int code = write_all(STDOUT_FILENO, text);
  if (code != 0 && code != EPIPE) return fail(system_message(code), "standard output");
  return {};
}

// Devices and pipes keep their name: renaming a file over /dev/null would replace it.
Result<void> write_in_place(const std::string& path, const std::string& text) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return fail(system_message(errno), path);
  const int code = write_all(fd, text);
  ::close(fd);
  if (code != 0 && code != EPIPE) return fail(system_message(code), path);
  return {};
}

mode_t default_permissions() {
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return static_cast<mode_t>(0666 & ~mask);
}

// 0, or the errno of the step that failed.
int fill(int fd, const std::string& text, mode_t permissions) {
  int code = write_all(fd, text);
  if (code == 0 && ::fchmod(fd, permissions) != 0) code = errno;
  if (::close(fd) != 0 && code == 0) code = errno;
  return code;
}

Result<void> write_file(const std::string& path, const std::string& text) {
  struct stat old {};
  const bool exists = ::stat(path.c_str(), &old) == 0;
  if (exists && !S_ISREG(old.st_mode)) return write_in_place(path, text);
  std::error_code ignored;
  const fs::path target = exists ? fs::canonical(path, ignored) : fs::path(path);
  std::string temporary = target.string() + ".XXXXXX";
  const int fd = ::mkstemp(temporary.data());
  if (fd < 0) return fail(system_message(errno), path);
  int code = fill(fd, text, exists ? old.st_mode & 0777 : default_permissions());
  if (code == 0 && std::rename(temporary.c_str(), target.c_str()) != 0) code = errno;
  if (code == 0) return {};
  ::unlink(temporary.c_str());
  return fail(system_message(code), path);
}

bool wants_colour() {
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  return (no_color == nullptr || *no_color == '\0') &&
         (term == nullptr || std::strcmp(term, "dumb") != 0);
}

}  // namespace

TextStyle output_style(const std::string& path) {
  TextStyle style;
  if (!path.empty() || ::isatty(STDOUT_FILENO) == 0) return style;
  style.terminal = true;
  style.colour = wants_colour();
  winsize window{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 0) {
    style.width = std::clamp(static_cast<int>(window.ws_col), kNarrowest, kWidest);
  }
  return style;
}

Result<void> write_output(const std::string& path, const std::string& text) {
  return path.empty() ? write_standard_output(text) : write_file(path, text);
}

}  // namespace rooftile
