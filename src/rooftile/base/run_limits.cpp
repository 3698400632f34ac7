#include "rooftile/base/run_limits.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <charconv>
#include <system_error>
#include <utility>

namespace rooftile {
namespace {

std::atomic<const std::string*> end_of_finding = nullptr, end_of_scripts = nullptr,
                                end_of_reading = nullptr;
std::atomic<int> unfinished = 0, others_running = 0;
std::atomic<std::chrono::steady_clock::duration> time_of_others{};
RunLimits active;  // set while there is one thread

std::string time_text(std::chrono::milliseconds time) {
  return fmt::format("{:g} s", std::chrono::duration<double>(time).count());
}

std::string memory_text(std::size_t bytes) { return fmt::format("{} MiB", bytes >> 20U); }

std::string_view text_at(const std::atomic<const std::string*>& why) {
  const std::string* const text = why.load(std::memory_order_relaxed);
  return text == nullptr ? std::string_view() : std::string_view(*text);
}

}  // namespace

// Neither allocates nor locks: a process may be copied by fork() at any moment.
std::size_t resident_bytes() {
  const int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  std::array<char, 128> text{};
  const ssize_t size = read(file, text.data(), text.size());
  close(file);
  if (size <= 0) return 0;
  const char* const end = text.data() + size;
  std::size_t total = 0, resident = 0;  // in pages
  const auto first = std::from_chars(text.data(), end, total);
  if (first.ec != std::errc() || first.ptr == end) return 0;
  if (std::from_chars(first.ptr + 1, end, resident).ec != std::errc()) return 0;
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

std::string_view reading_must_end() { return text_at(end_of_reading); }
std::string_view scripts_must_end() { return text_at(end_of_scripts); }
std::string_view finding_must_end() { return text_at(end_of_finding); }

RunWatch::RunWatch(RunLimits limits, std::function<void(const std::string&)> give_up)
    : limits_(limits),
      give_up_(std::move(give_up)),
      no_time_(fmt::format("no time left to read (--max-time {})", time_text(limits.time))),
      no_memory_(fmt::format("no memory left to read (--max-memory {})",
                             memory_text(limits.memory_bytes))) {
  active = limits;
  time_of_others.store({});
  if (limits_.time.count() == 0 && limits_.memory_bytes == 0) return;
  try {
    std::atomic<bool> runs = false;
    thread_ = std::thread([this, &runs] {
      runs = true;
      watch();
    });
    // A thread that begins holds locks of the sanitizer, which a copy by fork() would keep for
    // good.
    while (!runs) std::this_thread::yield();
  } catch (const std::system_error&) {
    // No more threads: the limits that count in the input still hold.
  }
}

RunWatch::~RunWatch() {
  {
    const std::scoped_lock lock(mutex_);
    ended_ = true;
  }
  ending_.notify_all();
  if (thread_.joinable()) thread_.join();
  end_of_finding = end_of_scripts = end_of_reading = nullptr;
  active = {};
}

RunLimits active_limits() { return active; }

double RunWatch::share_of_time() const {
  if (limits_.time.count() == 0) return 0;
  const std::chrono::duration<double, std::milli> run =
      std::chrono::steady_clock::now() - start_ - time_of_others.load();
  return run.count() / static_cast<double>(limits_.time.count());
}

double RunWatch::share_of_memory() const {
  if (limits_.memory_bytes == 0) return 0;
  return static_cast<double>(resident_bytes()) / static_cast<double>(limits_.memory_bytes);
}

void RunWatch::watch() {
  constexpr std::chrono::milliseconds kPause{5};
  std::unique_lock lock(mutex_);
  while (!ending_.wait_for(lock, kPause, [this] { return ended_; })) {
    if (others_running > 0) continue;
    const double time = share_of_time(), memory = share_of_memory();
    if (time >= kTimeToFind) end_of_finding = &no_time_;
    if (time >= kTimeToReadScripts) end_of_scripts = &no_time_;
    if (time >= kTimeToRead) end_of_reading = &no_time_;
    if (memory >= kMemoryToReadScripts) end_of_scripts = &no_memory_;
    if (memory >= kMemoryToRead) end_of_finding = end_of_reading = &no_memory_;
    if (unfinished > 0 || (time < 1 && memory < 1)) continue;
    return give_up_(
        time >= 1 ? fmt::format("the time limit of {} was reached; --max-time sets another",
                                time_text(limits_.time))
                  : fmt::format("the memory limit of {} was reached; --max-memory sets another",
                                memory_text(limits_.memory_bytes)));
  }
}

OtherProcess::OtherProcess() { ++others_running; }

OtherProcess::~OtherProcess() {
  auto before = time_of_others.load();
  const auto took = std::chrono::steady_clock::now() - start_;
  while (!time_of_others.compare_exchange_weak(before, before + took)) {
  }
  --others_running;
}

FinishFirst::FinishFirst() { ++unfinished; }
FinishFirst::~FinishFirst() { --unfinished; }

}  // namespace rooftile
