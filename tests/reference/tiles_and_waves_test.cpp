// Tile and wave quantization of published examples.
#include "reference.h"
#include "rooftile/analysis/tiles.h"

namespace rooftile {
namespace {

struct GridCase {
  std::string_view source;
  double m, n;
  Tile tile;
  int sms;
  double tiles, waves, tile_efficiency, wave_efficiency;
};

constexpr std::string_view kMatrixGuide =
    "NVIDIA Matrix Multiplication Background User's Guide, wave quantization";
constexpr std::string_view kShapes = "H. He, What Shapes Do Matrix Multiplications Like?";
constexpr std::string_view kBekman = "S. Bekman, Machine Learning Engineering, accelerators";
constexpr std::string_view kBackground =
    "NVIDIA GPU Performance Background User's Guide, wave quantization";
constexpr std::string_view kLinear =
    "NVIDIA Linear/Fully-Connected Layers User's Guide, tiles by formula";

// Exact by the formulas ceil(m/a)·ceil(n/b) and ceil(tiles/SMs) of the named sources.
constexpr GridCase kCases[] = {
    {kShapes, 1792, 1792, {256, 128}, 108, 98, 1, 1.0, 0.907},
    {kShapes, 1793, 1793, {256, 128}, 108, 120, 2, 0.818, 0.556},
    {kMatrixGuide, 2304, 1536, {256, 128}, 108, 108, 1, 1.0, 1.0},
    {kMatrixGuide, 2304, 1600, {256, 128}, 108, 117, 2, 0.962, 0.542},
    {kMatrixGuide, 256, 256, {128, 128}, 108, 4, 1, 1.0, 0.037},
    {kMatrixGuide, 256, 257, {128, 128}, 108, 6, 1, 0.669, 0.056},
    {kMatrixGuide, 27648, 128, {256, 128}, 108, 108, 1, 1.0, 1.0},
    {kMatrixGuide, 27648, 129, {256, 128}, 108, 216, 2, 0.504, 1.0},
    {kMatrixGuide, 27648, 256, {256, 128}, 108, 216, 2, 1.0, 1.0},
    {kBackground, 12, 1, {1, 1}, 8, 12, 2, 1.0, 0.75},
    {kBekman, 109, 1, {1, 1}, 108, 109, 2, 1.0, 0.505},
    {kLinear, 4096, 5120, {256, 128}, 80, 640, 8, 1.0, 1.0},
    {kLinear, 4096, 4096, {256, 128}, 80, 512, 7, 1.0, 0.914},
    {kLinear, 4096, 5120, {256, 128}, 108, 640, 6, 1.0, 0.988},
    {kLinear, 4096, 4096, {256, 128}, 108, 512, 5, 1.0, 0.948},
    {kLinear, 4096, 2560, {256, 128}, 108, 320, 3, 1.0, 0.988},
    {kLinear, 4096, 2048, {256, 128}, 108, 256, 3, 1.0, 0.790},
    {kBekman, 8192, 14336, {128, 256}, 148, 3584, 25, 1.0, 0.969},
    {kBekman, 8192, 14336, {128, 256}, 152, 3584, 24, 1.0, 0.983},
    {kLinear, 50257, 16384, {256, 128}, 108, 25216, 234, 0.9965, 0.998},
    {kLinear, 50304, 16384, {256, 128}, 108, 25216, 234, 0.9975, 0.998},
};

TEST(TilesAndWaves, PublishedGrids) {
  for (const GridCase& c : kCases) {
    SCOPED_TRACE(testing::Message() << c.source << ": " << c.m << " x " << c.n);
    const TileGrid grid = tile_grid(c.m, c.n, 1, c.tile, c.sms);
    EXPECT_EQ(grid.tiles, c.tiles);
    EXPECT_EQ(grid.waves, c.waves);
    EXPECT_NEAR(grid.tile_efficiency, c.tile_efficiency, 6e-4);
    EXPECT_NEAR(grid.wave_efficiency, c.wave_efficiency, 6e-4);
    EXPECT_NEAR(grid.efficiency(), grid.tile_efficiency * grid.wave_efficiency, 1e-12);
  }
}

// S. Bekman, Machine Learning Engineering, "Do more SMs give more TFLOPS?": 148 and 152 SMs of
// equal speed.
TEST(TilesAndWaves, SpeedupFromMoreSms) {
  struct Case {
    double blocks, waves_148, waves_152, speedup;
  };
  constexpr Case kBlocks[] = {{148, 1, 1, 1.000}, {152, 2, 1, 2.000},    {296, 2, 2, 1.000},
                              {304, 3, 2, 1.500}, {3584, 25, 24, 1.042}, {50000, 338, 329, 1.027}};
  for (const Case& c : kBlocks) {
    const double few = tile_grid(c.blocks, 1, 1, {1, 1}, 148).waves;
    const double many = tile_grid(c.blocks, 1, 1, {1, 1}, 152).waves;
    EXPECT_EQ(few, c.waves_148) << c.blocks;
    EXPECT_EQ(many, c.waves_152) << c.blocks;
    EXPECT_NEAR(few / many, c.speedup, 5e-4) << c.blocks;
  }
}

}  // namespace
}  // namespace rooftile
