// A line on the terminal while a large file is read, or many small things are done.
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

namespace rooftile {

// Draws on standard error where that is a terminal, from the second tenth of a second on, and wipes
// itself when it goes.
class ProgressBar {
 public:
  ProgressBar();
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // Bytes read; `total` 0 is unknown.
  void show(std::uint64_t done, std::uint64_t total);
  // "batches 3 of 10".
  void show_items(std::string_view what, std::uint64_t done, std::uint64_t total);

 private:
  using Clock = std::chrono::steady_clock;

  bool is_due();

  Clock::time_point start_ = Clock::now(), next_;
  bool terminal_, drawn_ = false;
};

}  // namespace rooftile
