// The kernels of a library by their output tiles.
#pragma once

#include <array>
#include <cstddef>

#include "rooftile/analysis/tiles.h"

namespace rooftile {

// A kernel's output tile; `cluster_rows` is what m is rounded up to, the tile's rows unless blocks
// work in pairs.
struct GemmTile {
  Tile tile;
  int cluster_rows = 0;
};
constexpr std::size_t kMostGemmTiles = 32;  // that a library chooses among

// The tiles that a library chooses among, the highest first, as loops over all of them read them.
class GemmTiles {
 public:
  using Column = std::array<double, kMostGemmTiles>;

  Column rows{}, cols{}, cluster_rows{};
  Column per_col{}, per_cluster_row{};  // the inverse of cols and cluster_rows
  Column blocks_per_cluster{};

  void add(const GemmTile& tile);  // to less than kMostGemmTiles
  std::size_t size() const { return size_; }
  GemmTile tile(std::size_t index) const;

 private:
  std::size_t size_ = 0;
};

}  // namespace rooftile
