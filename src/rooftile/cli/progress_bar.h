// A line on the terminal while a large file is read.
#pragma once

#include <chrono>
#include <cstdint>

namespace rooftile {

// Draws on standard error where that is a terminal, from the second tenth of a second on, and wipes
// itself when it goes.
class ProgressBar {
 public:
  ProgressBar();
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // `total` 0 is unknown.
  void show(std::uint64_t done, std::uint64_t total);

 private:
  using Clock = std::chrono::steady_clock;

  Clock::time_point start_ = Clock::now(), next_;
  bool terminal_, drawn_ = false;
};

}  // namespace rooftile
