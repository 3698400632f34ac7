// Memory of one file's facts: objects that need no destructor, freed together.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <memory_resource>
#include <span>
#include <string_view>
#include <vector>

namespace rooftile::source {

class Arena {
 public:
  template <class T>
  T* make() {
    return std::construct_at(static_cast<T*>(memory_.allocate(sizeof(T), alignof(T))));
  }

  template <class T>
  std::span<const T> copy(std::span<const T> values) {
    if (values.empty()) return {};
    T* place = static_cast<T*>(memory_.allocate(values.size_bytes(), alignof(T)));
    std::uninitialized_copy(values.begin(), values.end(), place);
    return {place, values.size()};
  }

  std::string_view copy(std::string_view text) {
    const std::span<const char> kept = copy(std::span<const char>(text.data(), text.size()));
    return {kept.data(), kept.size()};
  }

 private:
  std::pmr::monotonic_buffer_resource memory_{std::size_t{1} << 14U};
};

}  // namespace rooftile::source
