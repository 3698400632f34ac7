// Random choices of the mutators: the same for the same seed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>

namespace fuzzing {

class Choice {
 public:
  explicit Choice(std::uint32_t seed) : random_(seed) {}

  // 0 where there is nothing to choose from.
  std::size_t below(std::size_t count) { return count == 0 ? 0 : random_() % count; }
  template <class Container>
  auto& of(Container& container) {
    return container[below(std::size(container))];
  }

 private:
  std::mt19937 random_;
};

}  // namespace fuzzing
