// Append-only columns for tables of many million rows.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

namespace rooftile {

// A vector in blocks of 64 Ki values: growing never copies and never holds twice the memory.
template <class T>
class Column {
 public:
  void push_back(T value) {
    if (size_ == blocks_.size() * kBlock) blocks_.push_back(std::make_unique<Block>());
    (*blocks_[size_ / kBlock])[size_ % kBlock] = value;
    ++size_;
  }

  // The index must be below size().
  T operator[](std::size_t index) const { return (*blocks_[index / kBlock])[index % kBlock]; }
  T& at(std::size_t index) { return (*blocks_[index / kBlock])[index % kBlock]; }

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

 private:
  static constexpr std::size_t kBlock = std::size_t{1} << 16U;
  using Block = std::array<T, kBlock>;

  std::vector<std::unique_ptr<Block>> blocks_;
  std::size_t size_ = 0;
};

}  // namespace rooftile
