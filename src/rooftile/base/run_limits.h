// How long a run may take and how much memory it may hold: one budget for all stages.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

namespace rooftile {

// Zero: no limit.
struct RunLimits {
  std::chrono::milliseconds time{0};  // by the clock on the wall
  std::size_t memory_bytes = 0;       // resident, of this process
};

// Which share of the limits finding the files of a folder and reading may use. The rest is for
// judging what was read.
inline constexpr double kTimeToFind = 0.35, kTimeToRead = 0.7, kMemoryToRead = 0.75;
// Of scripts: what they mean takes longer, and more memory, than their syntax. Measured on a
// repository of 1.55 million lines: 0.73 of 1.62 GB.
inline constexpr double kTimeToReadScripts = 0.4, kMemoryToReadScripts = 0.4;

// Why reading ends here: "no time left to read (--max-time 10 s)". Empty where it may go on, and
// always where nobody watches. Costs one load, so it may be asked for each record.
std::string_view reading_must_end();
// The same of reading scripts, and of looking for files.
std::string_view scripts_must_end();
std::string_view finding_must_end();

// Watches from a thread of its own while it lives. At its share of a limit reading_must_end()
// answers; at the limit itself `give_up` is called, once, with a sentence on it.
class RunWatch {
 public:
  RunWatch(RunLimits limits, std::function<void(const std::string& why)> give_up);
  ~RunWatch();
  RunWatch(const RunWatch&) = delete;
  RunWatch& operator=(const RunWatch&) = delete;

 private:
  void watch();
  double share_of_time() const;
  double share_of_memory() const;

  RunLimits limits_;
  std::function<void(const std::string&)> give_up_;
  std::string no_time_, no_memory_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::mutex mutex_;
  std::condition_variable ending_;
  bool ended_ = false;
  std::thread thread_;
};

// While one lives nobody gives up: files that are being written are finished first.
class FinishFirst {
 public:
  FinishFirst();
  ~FinishFirst();
  FinishFirst(const FinishFirst&) = delete;
  FinishFirst& operator=(const FinishFirst&) = delete;
};

// While one lives a program runs that has a limit of its own: its time is none of this run's.
class OtherProcess {
 public:
  OtherProcess();
  ~OtherProcess();
  OtherProcess(const OtherProcess&) = delete;
  OtherProcess& operator=(const OtherProcess&) = delete;

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// Of the watch that lives; zeros without one.
RunLimits active_limits();

// Memory that this process holds; 0 where the system does not tell.
std::size_t resident_bytes();

}  // namespace rooftile
