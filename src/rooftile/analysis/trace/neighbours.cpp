#include "rooftile/analysis/trace/neighbours.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace rooftile {
namespace {

// Leaving repositories out, the errors are least around these, and 90 % lie inside.
// tools/fit_profiles does the same.
constexpr double kReach = 0.5;     // in log: the nearer in time, the more another says
constexpr double kSameKernel = 3;  // times as much as another of the family
constexpr double kModel = 1;       // what the prediction itself counts as
constexpr double kNarrower = 0.2;  // in log, where the others say all
constexpr double kMostOff = 0.69;  // twice or half as long: further off is another fault
// Looked at on each side, in the order of times.
constexpr std::size_t kMost = 64;

struct Sum {
  double off = 0, weight = 0;
};

// Measured over predicted time, in log.
double off_by(const TimedOp& op) {
  return std::clamp(std::log(op.measured / op.predicted.expected), -kMostOff, kMostOff);
}

void add(const TimedOp& one, const TimedOp& other, Sum& sum) {
  if (other.measured <= Seconds() || other.predicted.expected <= Seconds()) return;
  const double apart = std::abs(std::log(one.modelled / other.modelled));
  const double weight = std::exp(-apart / kReach) * (one.kernel == other.kernel ? kSameKernel : 1);
  sum.off += weight * off_by(other);
  sum.weight += weight;
}

Range<Seconds> corrected(const Range<Seconds>& time, const Sum& sum) {
  if (time.expected <= Seconds()) return time;
  const double all = sum.weight + kModel;
  const double width = 1 - kNarrower * sum.weight / all;
  const Seconds expected = time.expected * std::exp(sum.off / all);
  return {expected * std::pow(time.low / time.expected, width), expected,
          expected * std::pow(time.high / time.expected, width)};
}

// Of recordings in whole microseconds, medians that lie between two of them included; 0 of others.
Seconds rounding(std::span<const TimedOp> ops) {
  constexpr double kSteps = 2e6;  // of a second
  constexpr double kExact = 1e-3;
  constexpr std::ptrdiff_t kFewestOps = 8, kMostOthers = 50;  // one in fifty, of merged calls
  const auto is_whole = [](const TimedOp& op) {
    const double steps = op.measured.value() * kSteps;
    return std::abs(steps - std::round(steps)) < kExact;
  };
  const std::ptrdiff_t others = std::ssize(ops) - std::ranges::count_if(ops, is_whole);
  const bool are_whole = std::ssize(ops) >= kFewestOps && others * kMostOthers <= std::ssize(ops);
  return Seconds(are_whole ? 1 / kSteps : 0);
}

}  // namespace

std::vector<Range<Seconds>> learn_from_neighbours(std::span<const TimedOp> ops) {
  std::vector<Range<Seconds>> times;
  std::map<std::string_view, std::vector<std::size_t>> families;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    times.push_back(ops[i].predicted);
    if (ops[i].modelled > Seconds()) families[ops[i].family].push_back(i);
  }
  for (auto& [name, family] : families) {
    std::ranges::stable_sort(family, {}, [&](std::size_t i) { return ops[i].modelled; });
    for (std::size_t place = 0; place < family.size(); ++place) {
      Sum sum;
      const std::size_t end = std::min(family.size(), place + kMost + 1);
      for (std::size_t i = place - std::min(place, kMost); i < end; ++i) {
        if (i != place) add(ops[family[place]], ops[family[i]], sum);
      }
      times[family[place]] = corrected(ops[family[place]].predicted, sum);
    }
  }
  const Seconds rounded = rounding(ops);
  for (Range<Seconds>& time : times) {
    time.low = std::max(Seconds(), time.low - rounded);
    time.high = time.high + rounded;
  }
  return times;
}

}  // namespace rooftile
