// Memory of source facts: objects that need no destructor, freed together.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace rooftile::source {

// What is made in one after the other lies side by side.
class Arena {
 public:
  template <class T>
  T* make() {
    return std::construct_at(static_cast<T*>(allocate(sizeof(T), alignof(T))));
  }

  template <class T>
  std::span<const T> copy(std::span<const T> values) {
    if (values.empty()) return {};
    T* place = static_cast<T*>(allocate(values.size_bytes(), alignof(T)));
    std::uninitialized_copy(values.begin(), values.end(), place);
    return {place, values.size()};
  }

  std::string_view copy(std::string_view text) {
    const std::span<const char> kept = copy(std::span<const char>(text.data(), text.size()));
    return {kept.data(), kept.size()};
  }

  std::size_t bytes() const { return bytes_; }  // taken from the system

 private:
  // Blocks double up to the largest, so that the facts of one small script take few pages.
  static constexpr std::size_t kFirstBlockBytes = std::size_t{1} << 14U;
  static constexpr std::size_t kMostBlockBytes = std::size_t{1} << 18U;

  void* allocate(std::size_t bytes, std::size_t alignment) {
    void* place = next_;
    if (std::align(alignment, bytes, place, left_) == nullptr) {
      left_ = std::max(bytes + alignment, std::clamp(bytes_, kFirstBlockBytes, kMostBlockBytes));
      place = blocks_.emplace_back(new std::byte[left_]).get();
      bytes_ += left_;
      std::align(alignment, bytes, place, left_);
    }
    next_ = static_cast<std::byte*>(place) + bytes;
    left_ -= bytes;
    return place;
  }

  std::vector<std::unique_ptr<std::byte[]>> blocks_;
  std::byte* next_ = nullptr;
  std::size_t left_ = 0;  // bytes from `next_` on
  std::size_t bytes_ = 0;
};

}  // namespace rooftile::source
