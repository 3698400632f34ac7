#include "gpu/statistics.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <vector>

namespace rooftile::gpu {
namespace {

double quantile(const std::vector<double>& sorted, double share) {
  const double at = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

// For normal errors the median of n values has a standard error of 1.2533 sigma / sqrt(n), and
// sigma is 1.4826 median absolute deviations; 1.645 standard errors hold 90 %.
double relative_uncertainty(double median, double mad, std::size_t count) {
  if (count < 2 || median <= 0) return std::numeric_limits<double>::infinity();
  return 1.645 * 1.2533 * 1.4826 * mad / std::sqrt(static_cast<double>(count)) / median;
}

}  // namespace

Summary summarize(std::span<const Seconds> times) {
  std::vector<double> sorted, deviations;
  for (const Seconds time : times) sorted.push_back(time.value());
  std::sort(sorted.begin(), sorted.end());
  const double median = quantile(sorted, 0.5);
  for (const double time : sorted) deviations.push_back(std::abs(time - median));
  std::sort(deviations.begin(), deviations.end());
  const double mad = quantile(deviations, 0.5);
  return {Seconds(median),
          Seconds(mad),
          Seconds(quantile(sorted, 0.1)),
          Seconds(quantile(sorted, 0.9)),
          sorted.size(),
          relative_uncertainty(median, mad, sorted.size())};
}

Clock steady_clock() {
  const auto start = std::chrono::steady_clock::now();
  return [start] {
    return Seconds(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  };
}

Result<Summary> repeat(const std::function<Result<Seconds>()>& run, const StopRule& rule,
                       const Clock& clock) {
  const Seconds start = clock();
  std::vector<Seconds> times;
  while (true) {
    const Result<Seconds> time = run();
    if (!time) return tl::unexpected(time.error());
    times.push_back(*time);
    const Summary summary = summarize(times);
    const bool tight = times.size() >= rule.least && summary.uncertainty <= rule.uncertainty;
    if (tight || times.size() >= rule.most || clock() - start >= rule.limit) return summary;
  }
}

}  // namespace rooftile::gpu
