#include "rooftile/analysis/time/time_estimate.h"

namespace rooftile {

std::string_view to_string(Bound bound) {
  switch (bound) {
    case Bound::math:
      return "math";
    case Bound::memory:
      return "memory";
    case Bound::latency:
      return "latency";
    case Bound::communication:
      return "communication";
    case Bound::unknown:
      return "unknown";
  }
  return "unknown";
}

TimeEstimate operator+(const TimeEstimate& first, const TimeEstimate& second) {
  TimeEstimate sum = first;
  sum.time += second.time;
  const Seconds modelled =
      first.time.expected / first.learned + second.time.expected / second.learned;
  if (modelled > Seconds()) sum.learned = sum.time.expected / modelled;
  sum.conversions += second.conversions;
  sum.floor += second.floor;
  sum.winograd = first.winograd || second.winograd;
  if (second.time.expected > first.time.expected) {
    sum.bound = second.bound;
    sum.kernels = second.kernels;
  }
  sum.launch += second.launch;
  sum.compute += second.compute;
  sum.memory += second.memory;
  sum.power += second.power;
  const double total = sum.time.expected.value();
  if (total > 0) {
    const double share = first.time.expected.value() / total;
    sum.own_effects = first.own_effects * share + second.own_effects * (1 - share);
    sum.own_effects.expected = 1;
    sum.unshared = first.unshared * share + second.unshared * (1 - share);
  }
  if (!sum.grid) {
    sum.grid = second.grid;
    sum.split_k = second.split_k;
  }
  return sum;
}

TimeEstimate operator*(const TimeEstimate& once, double times) {
  TimeEstimate all = once;
  all.time = once.time * times;
  all.conversions = once.conversions * times;
  all.floor = once.floor * times;
  all.launch = once.launch * times;
  all.compute = once.compute * times;
  all.memory = once.memory * times;
  all.power = once.power * times;
  return all;
}

}  // namespace rooftile
