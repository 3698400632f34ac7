#include "rooftile/tuner/pace_search.h"

#include <cmath>

namespace rooftile {
namespace {

// Factors tried: e^-2 (a seventh) to e^0.4.
constexpr double kSlowest = -2, kFastest = 0.4, kPaceStep = 0.1;
// Standard deviation of a factor's logarithm before any point was seen.
constexpr double kPriorSd = 0.5;
// Half a sum of squares by which factors must explain the points better than none.
constexpr double kExplainsBetter = 8;
constexpr int kPaceRounds = 3;

double with_prior(const CostAt& cost_at, const Paces& paces) {
  double cost = cost_at(paces);
  for (const Pace pace : {Pace::sm_clock, Pace::memory_clock, Pace::power}) {
    const double off = std::log(paces.of(pace)) / kPriorSd;
    cost += off * off / 2;
  }
  return cost;
}

}  // namespace

Paces find_paces(const CostAt& cost_at) {
  Paces best;
  const double at_start = with_prior(cost_at, best);
  double least = at_start;
  for (int round = 0; round < kPaceRounds; ++round) {
    const double before = least;
    for (const Pace pace : {Pace::sm_clock, Pace::power, Pace::memory_clock}) {
      Paces tried = best;
      for (double log = kSlowest; log < kFastest; log += kPaceStep) {
        tried.set(pace, std::exp(log));
        const double cost = with_prior(cost_at, tried);
        if (cost >= least) continue;
        least = cost;
        best = tried;
      }
    }
    if (least >= before) break;
  }
  return at_start - least > kExplainsBetter ? best : Paces();
}

}  // namespace rooftile
