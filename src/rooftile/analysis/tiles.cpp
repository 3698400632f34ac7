#include "rooftile/analysis/tiles.h"

#include <array>
#include <cmath>

namespace rooftile {

TileGrid tile_grid(double m, double n, double batch, Tile tile, int sms) {
  TileGrid grid;
  grid.tile = tile;
  grid.tiles = batch * std::ceil(m / tile.rows) * std::ceil(n / tile.cols);
  grid.waves = std::ceil(grid.tiles / sms);
  grid.tile_efficiency =
      batch * m * n /
      (grid.tiles * static_cast<double>(tile.rows) * static_cast<double>(tile.cols));
  grid.wave_efficiency = grid.tiles / (grid.waves * sms);
  grid.last_wave_fill = grid.tiles / sms - (grid.waves - 1);
  return grid;
}

std::span<const Tile> candidate_tiles() {
  static constexpr std::array<Tile, 14> kTiles{{{256, 128},
                                                {128, 256},
                                                {128, 128},
                                                {256, 64},
                                                {64, 256},
                                                {128, 64},
                                                {64, 128},
                                                {64, 64},
                                                {32, 128},
                                                {16, 128},
                                                {32, 64},
                                                {16, 64},
                                                {16, 32},
                                                {32, 32}}};
  return kTiles;
}

}  // namespace rooftile
