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

#include "rooftile/base/atomic_file.h"
#include "rooftile/base/descriptor.h"

namespace rooftile {
namespace {

namespace fs = std::filesystem;

constexpr int kNarrowest = 60, kWidest = 140;  // prose beyond this width is hard to read

Result<void> write_standard_output(const std::string& text) {
  const int code = write_all(STDOUT_FILENO, text);
  if (code != 0 && code != EPIPE) return fail(system_message(code), "standard output");
  return {};
}

// Devices and pipes keep their name: renaming a file over /dev/null would replace it.
Result<void> write_in_place(const std::string& path, const std::string& text) {
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (file.get() < 0) return fail(system_message(errno), path);
  const int code = write_all(file.get(), text);
  if (code != 0 && code != EPIPE) return fail(system_message(code), path);
  return {};
}

mode_t default_permissions() {
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return static_cast<mode_t>(0666 & ~mask);
}

Result<void> write_file(const std::string& path, const std::string& text) {
  struct stat old {};
  const bool exists = ::stat(path.c_str(), &old) == 0;
  if (exists && !S_ISREG(old.st_mode)) return write_in_place(path, text);
  std::error_code ignored;
  const fs::path target = exists ? fs::canonical(path, ignored) : fs::path(path);
  const mode_t permissions = exists ? old.st_mode & 0777U : default_permissions();
  const Result<void> written = write_atomically(target.string(), text, permissions);
  return written ? written : fail(written.error().message, path);
}

bool wants_colour() {
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  return (no_color == nullptr || *no_color == '\0') &&
         (term == nullptr || std::strcmp(term, "dumb") != 0);
}

// Terminals that show OSC 8 hyperlinks name themselves so; others print nothing of them, but some
// print the address.
bool knows_links() {
  constexpr int kFirstVte = 5000;  // 0.50
  for (const char* name : {"WT_SESSION", "KITTY_WINDOW_ID", "KONSOLE_VERSION", "DOMTERM"}) {
    if (std::getenv(name) != nullptr) return true;
  }
  const char* vte = std::getenv("VTE_VERSION");
  if (vte != nullptr && std::atoi(vte) >= kFirstVte) return true;
  const char* program = std::getenv("TERM_PROGRAM");
  if (program == nullptr) return false;
  const std::string_view known = program;
  return known == "iTerm.app" || known == "WezTerm" || known == "vscode" || known == "ghostty";
}

}  // namespace

TextStyle output_style(const std::string& path, const std::string& color) {
  TextStyle style;
  style.colour = color == "always";
  if (!path.empty() || ::isatty(STDOUT_FILENO) == 0) return style;
  style.terminal = true;
  style.colour = style.colour || (color == "auto" && wants_colour());
  style.links = style.colour && knows_links();
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
