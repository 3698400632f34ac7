#include "rooftile/analysis/time/gemm_tiles.h"

#include <gtest/gtest.h>

namespace rooftile {
namespace {

TEST(GemmTiles, KeepsTheHighestFirst) {
  GemmTiles tiles;
  tiles.add({{64, 256}, 64});
  tiles.add({{128, 256}, 256});
  tiles.add({{16, 64}, 16});
  tiles.add({{128, 64}, 128});
  ASSERT_EQ(tiles.size(), 4);
  EXPECT_EQ(tiles.tile(0).tile, (Tile{128, 256}));
  EXPECT_EQ(tiles.tile(0).cluster_rows, 256);
  EXPECT_EQ(tiles.tile(1).tile, (Tile{128, 64}));  // of one height: in the order given
  EXPECT_EQ(tiles.tile(2).tile, (Tile{64, 256}));
  EXPECT_EQ(tiles.tile(3).tile, (Tile{16, 64}));
}

TEST(GemmTiles, ColumnsBelongTogether) {
  GemmTiles tiles;
  for (const int rows : {32, 256, 64, 128}) tiles.add({{rows, 2 * rows}, 2 * rows});
  for (std::size_t i = 0; i < tiles.size(); ++i) {
    EXPECT_EQ(tiles.cols[i], 2 * tiles.rows[i]);
    EXPECT_EQ(tiles.per_col[i], 1 / tiles.cols[i]);
    EXPECT_EQ(tiles.per_cluster_row[i], 1 / tiles.cluster_rows[i]);
    EXPECT_EQ(tiles.blocks_per_cluster[i], 2);
  }
}

}  // namespace
}  // namespace rooftile
