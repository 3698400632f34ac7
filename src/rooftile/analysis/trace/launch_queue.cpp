#include "rooftile/analysis/trace/launch_queue.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "rooftile/analysis/trace/seconds.h"

namespace rooftile::trace {
namespace {

constexpr Nanoseconds kShort = 5'000, kBrief = 10'000;

// A call that started work on the GPU, in few bytes: there are as many as kernels.
struct LaunchReturn {
  Nanoseconds at = 0;       // when it returned
  std::uint32_t delay = 0;  // nanoseconds to the start of its first activity; 0 = began before
  std::uint32_t depth = 0;  // activities launched by then that had not begun
};

std::vector<LaunchReturn> launch_returns(const Timeline& timeline, const Links& links,
                                         const GpuTrack& track) {
  std::vector<LaunchReturn> returns;
  std::vector<bool> seen(timeline.calls.time.size());
  for (const std::uint32_t row : track.rows) {
    const std::uint32_t call = links.gpu_call[row];
    if (call == kNone || seen[call]) continue;  // of a graph the first activity counts
    seen[call] = true;
    const Nanoseconds end = timeline.calls.time.end(call);
    const Nanoseconds delay = timeline.gpu.time.start(row) - end;
    constexpr Nanoseconds kMost = 0xffffffff;
    returns.push_back(
        {end, static_cast<std::uint32_t>(std::clamp(delay, Nanoseconds{0}, kMost)), 0});
  }
  std::ranges::stable_sort(returns, {}, &LaunchReturn::at);
  return returns;
}

// The track is in order of starts.
void add_depths(const Timeline& timeline, const Links& links, const GpuTrack& track,
                std::vector<LaunchReturn>& returns) {
  std::vector<Nanoseconds> begun;  // calls, one for each activity
  for (const std::uint32_t row : track.rows) {
    const std::uint32_t call = links.gpu_call[row];
    if (call != kNone) begun.push_back(timeline.calls.time.start(call));
  }
  std::ranges::sort(begun);
  std::size_t launched = 0, started = 0, row = 0;
  for (LaunchReturn& launch : returns) {
    while (launched < begun.size() && begun[launched] <= launch.at) ++launched;
    for (; row < track.rows.size() && timeline.gpu.time.start(track.rows[row]) <= launch.at;
         ++row) {
      if (links.gpu_call[track.rows[row]] != kNone) ++started;
    }
    launch.depth = launched > started ? static_cast<std::uint32_t>(launched - started) : 0;
  }
}

template <class Value>
std::vector<double> values_of(std::span<const LaunchReturn> returns, Value value) {
  std::vector<double> values;
  values.reserve(returns.size());
  for (const LaunchReturn& launch : returns) values.push_back(value(launch));
  return values;
}

double delay_seconds(const LaunchReturn& launch) { return 1e-9 * launch.delay; }

class QueueBins {
 public:
  QueueBins(const Window& whole, std::size_t most) : whole_(whole), bins_(most) {}

  void add_launches(std::span<const LaunchReturn> returns);
  void add_kernel(Nanoseconds start, Nanoseconds duration) {
    LaunchQueue::Bin& bin = bins_[index(start)];
    ++bin.kernels;
    if (duration < kShort) ++bin.below_5us;
    if (duration < kBrief) ++bin.below_10us;
  }
  std::vector<LaunchQueue::Bin> take() { return std::move(bins_); }

 private:
  std::size_t index(Nanoseconds at) const {
    const double part = static_cast<double>(at - whole_.start) /
                        static_cast<double>(std::max<Nanoseconds>(1, whole_.span()));
    const auto last = static_cast<double>(bins_.size() - 1);
    return static_cast<std::size_t>(std::clamp(part * (last + 1), 0.0, last));
  }

  Window whole_;
  std::vector<LaunchQueue::Bin> bins_;
};

// Launches come by time, so those of a bin follow one another.
void QueueBins::add_launches(std::span<const LaunchReturn> returns) {
  while (!returns.empty()) {
    const std::size_t bin = index(returns.front().at);
    const auto end = std::ranges::find_if(
        returns, [&](const LaunchReturn& launch) { return index(launch.at) != bin; });
    const auto count = static_cast<std::size_t>(end - returns.begin());
    const std::span<const LaunchReturn> own = returns.first(count);
    double sum = 0;
    for (const LaunchReturn& launch : own) sum += launch.depth;
    bins_[bin].launches = std::ssize(own);
    std::vector<double> delays = values_of(own, delay_seconds);
    bins_[bin].delay = Seconds(take_quantile(delays, 0.5));
    bins_[bin].depth = sum / static_cast<double>(count);
    returns = returns.subspan(count);
  }
}

void count_kernels(const Timeline& timeline, const GpuTrack& track, QueueBins& bins,
                   LaunchQueue& queue) {
  for (const std::uint32_t row : track.rows) {
    if (timeline.gpu.kind[row] != GpuKind::kernel) continue;
    const Nanoseconds duration = timeline.gpu.time.duration(row);
    bins.add_kernel(timeline.gpu.time.start(row), duration);
    ++queue.kernels;
    if (duration >= kBrief) continue;
    ++queue.below_10us;
    queue.time_below_10us += to_seconds(duration);
    if (duration >= kShort) continue;
    ++queue.below_5us;
    queue.time_below_5us += to_seconds(duration);
  }
}

}  // namespace

std::optional<LaunchQueue> launch_queue(const Timeline& timeline, const Links& links,
                                        const GpuTrack& track, const Window& whole) {
  std::vector<LaunchReturn> returns = launch_returns(timeline, links, track);
  if (returns.empty()) return std::nullopt;
  add_depths(timeline, links, track, returns);
  LaunchQueue queue;
  queue.launches = std::ssize(returns);
  QueueBins bins(whole, std::min(LaunchQueue::kMostBins, returns.size()));
  bins.add_launches(returns);
  count_kernels(timeline, track, bins, queue);
  queue.bins = bins.take();
  std::vector<double> values = values_of(returns, delay_seconds);
  queue.delay = {Seconds(take_quantile(values, 0.1)), Seconds(take_quantile(values, 0.5)),
                 Seconds(take_quantile(values, 0.9))};
  values = values_of(returns,
                     [](const LaunchReturn& launch) { return static_cast<double>(launch.depth); });
  queue.depth_p10 = take_quantile(values, 0.1);
  queue.depth_median = take_quantile(values, 0.5);
  queue.depth_p90 = take_quantile(values, 0.9);
  return queue;
}

bool launches_block(const Timeline& timeline, const Links& links, const GpuTrack& track) {
  constexpr std::size_t kFewest = 20, kFewestLong = 3;
  constexpr Nanoseconds kLong = 100'000;  // longer than a launch call takes by itself
  constexpr double kNearlyAll = 0.95;
  std::size_t launches = 0, blocked = 0, long_ones = 0, long_blocked = 0;
  for (const std::uint32_t row : track.rows) {
    const std::uint32_t call = links.gpu_call[row];
    if (timeline.gpu.kind[row] != GpuKind::kernel || call == kNone) continue;
    if (links.kind_of_call(timeline, call) != CallKind::launch) continue;
    const bool blocks = timeline.calls.time.end(call) >= timeline.gpu.time.end(row);
    const bool is_long = timeline.gpu.time.duration(row) >= kLong;
    ++launches;
    blocked += blocks ? 1 : 0;
    long_ones += is_long ? 1 : 0;
    long_blocked += is_long && blocks ? 1 : 0;
  }
  return launches >= kFewest && long_ones >= kFewestLong && long_blocked == long_ones &&
         static_cast<double>(blocked) >= kNearlyAll * static_cast<double>(launches);
}

Seconds lightest_operator(const Timeline& timeline) {
  constexpr std::size_t kFewest = 20;
  std::array<std::vector<double>, 2> times;
  const HostOps& ops = timeline.ops;
  const auto kinds = kinds_of<int>(timeline.strings, ops.name, [](std::string_view name) {
    return name == "aten::view" ? 0 : name == "aten::as_strided" ? 1 : -1;
  });
  for (std::uint32_t op = 0; op < ops.time.size(); ++op) {
    const int kind = ops.kind[op] == HostKind::op ? kinds[ops.name[op]] : -1;
    if (kind < 0) continue;
    times[static_cast<std::size_t>(kind)].push_back(to_seconds(ops.time.duration(op)).value());
  }
  if (times[0].size() < kFewest || times[1].size() < kFewest) return {};
  return Seconds(std::min(take_quantile(times[0], 0.5), take_quantile(times[1], 0.5)));
}

}  // namespace rooftile::trace
