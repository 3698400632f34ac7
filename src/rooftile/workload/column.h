// Append-only columns for tables of many million rows.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

namespace rooftile {

// A vector in blocks of 16 Ki values: growing never copies and never holds twice the memory. A
// block of zeros takes none.
template <class T>
class Column {
 public:
  void push_back(T value) {
    if (size_ == blocks_.size() * kBlock) blocks_.emplace_back();
    if (value != T{} || blocks_.back()) block(size_ / kBlock)[size_ % kBlock] = value;
    ++size_;
  }

  // The index must be below size().
  T operator[](std::size_t index) const {
    const auto& values = blocks_[index / kBlock];
    return values ? (*values)[index % kBlock] : T{};
  }
  T& at(std::size_t index) { return block(index / kBlock)[index % kBlock]; }

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

 private:
  static constexpr std::size_t kBlock = std::size_t{1} << 14U;
  using Block = std::array<T, kBlock>;

  Block& block(std::size_t index) {
    if (!blocks_[index]) blocks_[index] = std::make_unique<Block>();
    return *blocks_[index];
  }

  std::vector<std::unique_ptr<Block>> blocks_;
  std::size_t size_ = 0;
};

// 64-bit values in about 4 bytes each, where most lie within 2^31 of the first of their group of
// 64 rows (`grouped`), or of 0. Others cost 16 bytes more and a binary search.
template <bool grouped>
class CompactColumn {
 public:
  void push_back(std::int64_t value) {
    if (grouped && near_.size() % kGroup == 0) bases_.push_back(value);
    const std::uint64_t distance =
        static_cast<std::uint64_t>(value) - static_cast<std::uint64_t>(base(near_.size())) + kHalf;
    if (distance > 0 && distance < 2 * kHalf) {
      near_.push_back(static_cast<std::int32_t>(static_cast<std::int64_t>(distance - kHalf)));
    } else {
      far_.emplace_back(near_.size(), value);
      near_.push_back(kFar);
    }
  }

  // The index must be below size().
  std::int64_t operator[](std::size_t index) const {
    const std::int32_t distance = near_[index];
    if (distance != kFar) {
      // Unsigned, because base and distance may lie at opposite ends.
      return static_cast<std::int64_t>(static_cast<std::uint64_t>(base(index)) +
                                       static_cast<std::uint64_t>(std::int64_t{distance}));
    }
    return std::lower_bound(far_.begin(), far_.end(),
                            std::pair(index, std::numeric_limits<std::int64_t>::min()))
        ->second;
  }

  std::size_t size() const { return near_.size(); }
  bool empty() const { return near_.empty(); }

 private:
  static constexpr std::size_t kGroup = 64;
  static constexpr std::uint64_t kHalf = std::uint64_t{1} << 31U;
  static constexpr std::int32_t kFar = std::numeric_limits<std::int32_t>::min();

  std::int64_t base(std::size_t index) const { return grouped ? bases_[index / kGroup] : 0; }

  Column<std::int64_t> bases_;
  Column<std::int32_t> near_;
  std::vector<std::pair<std::size_t, std::int64_t>> far_;  // row and value, by row
};

}  // namespace rooftile
