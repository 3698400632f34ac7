#include "rooftile/analysis/time/gemm_tiles.h"

#include <cassert>

namespace rooftile {

void GemmTiles::add(const GemmTile& tile) {
  assert(size_ < kMostGemmTiles);
  std::size_t at = size_++;
  for (; at > 0 && rows[at - 1] < tile.tile.rows; --at) {
    for (Column* column : {&rows, &cols, &cluster_rows}) (*column)[at] = (*column)[at - 1];
  }
  rows[at] = tile.tile.rows;
  cols[at] = tile.tile.cols;
  cluster_rows[at] = tile.cluster_rows;
  for (; at < size_; ++at) {
    per_col[at] = 1 / cols[at];
    per_cluster_row[at] = 1 / cluster_rows[at];
    blocks_per_cluster[at] = cluster_rows[at] / rows[at];
  }
}

GemmTile GemmTiles::tile(std::size_t index) const {
  const auto whole = [&](const Column& column) { return static_cast<int>(column[index]); };
  return {{whole(rows), whole(cols)}, whole(cluster_rows)};
}

}  // namespace rooftile
