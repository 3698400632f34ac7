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

}  // namespace

ProgressBar::ProgressBar() : next_(start_ + kPatience), terminal_(isatty(STDERR_FILENO) == 1) {}

ProgressBar::~ProgressBar() {
  if (drawn_) fmt::print(stderr, "\r\033[K");
}

void ProgressBar::show(std::uint64_t done, std::uint64_t total) {
  const Clock::time_point now = Clock::now();
  if (!terminal_ || now < next_) return;
  next_ = now + kInterval;
  drawn_ = true;
  const double seconds = std::chrono::duration<double>(now - start_).count();
  const Bytes size(static_cast<double>(done));
  std::string line = bytes_text(size);
  if (total > 0) {
    const double share = std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
    const auto full = static_cast<std::size_t>(share * kCells);
    line = fmt::format("[{}{}] {} of {}", std::string(full, '#'), std::string(kCells - full, '.'),
                       line, bytes_text(Bytes(static_cast<double>(total))));
  }
  fmt::print(stderr, "\r\033[Kreading {}, {}", line, rate_text(size / Seconds(seconds)));
  std::fflush(stderr);
}

}  // namespace rooftile
