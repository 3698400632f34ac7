// How much slower than a data sheet says a GPU runs, as a whole.
#pragma once

#include <array>
#include <cstddef>
#include <functional>

namespace rooftile {

// What makes several constants of a GPU slower at once: lower clocks than those of the data sheet,
// a lower power limit, a share of the GPU.
enum class Pace { none, sm_clock, memory_clock, power };

// Factors on a donor's clocks and power; Pace::none is 1.
class Paces {
 public:
  double of(Pace pace) const { return factors_[static_cast<std::size_t>(pace)]; }
  void set(Pace pace, double factor) { factors_[static_cast<std::size_t>(pace)] = factor; }

 private:
  std::array<double, 4> factors_{1, 1, 1, 1};
};

// Half the sum of squared errors of a model's points, each over its noise, at such factors.
using CostAt = std::function<double(const Paces&)>;

// The factors that explain the points best; all 1 where that explains them about as well: points
// far off by one factor would otherwise move whatever constant their prior leaves most room.
Paces find_paces(const CostAt& cost_at);

}  // namespace rooftile
