#include "rooftile/cli/progress_bar.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "rooftile/rooftile.h"

namespace rooftile {
namespace {

constexpr std::chrono::milliseconds kPatience{200}, kInterval{100};
constexpr int kCells = 30;

std::string bar_text(std::uint64_t done, std::uint64_t total) {
  const double share = std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
  const auto full = static_cast<std::size_t>(share * kCells);
  return fmt::format("[{}{}]", std::string(full, '#'), std::string(kCells - full, '.'));
}

}  // namespace

ProgressBar::ProgressBar() : next_(start_ + kPatience), terminal_(isatty(STDERR_FILENO) == 1) {}

ProgressBar::~ProgressBar() {
  if (drawn_) fmt::print(stderr, "\r\033[K");
}

bool ProgressBar::is_due() {
  const Clock::time_point now = Clock::now();
  if (!terminal_ || now < next_) return false;
  next_ = now + kInterval;
  drawn_ = true;
  return true;
}

void ProgressBar::show_items(std::string_view what, std::uint64_t done, std::uint64_t total) {
  if (!is_due()) return;
  fmt::print(stderr, "\r\033[K{} {} {} of {}", bar_text(done, total), what, done, total);
  std::fflush(stderr);
}

void ProgressBar::show(std::uint64_t done, std::uint64_t total) {
  if (!is_due()) return;
  const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  const Bytes size(static_cast<double>(done));
  std::string line = bytes_text(size);
  if (total > 0) {
    line = fmt::format("{} {} of {}", bar_text(done, total), line,
                       bytes_text(Bytes(static_cast<double>(total))));
  }
  fmt::print(stderr, "\r\033[Kreading {}, {}", line, rate_text(size / Seconds(seconds)));
  std::fflush(stderr);
}

}  // namespace rooftile
