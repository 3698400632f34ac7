// Tile and wave quantization of a matrix product.
#pragma once

#include <cstdint>
#include <span>

#include "rooftile/analysis/gemm_form.h"
#include "rooftile/hardware/device.h"

namespace rooftile {

struct Tile {
  int rows = 0, cols = 0;  // of the output that one thread block computes

  bool operator==(const Tile&) const = default;
};

// Of a FlashAttention-2 kernel, as its name states it: the head size that it was compiled for,
// query rows of a block, keys of a step.
struct AttentionTile {
  int head_dim = 0, rows = 0, keys = 0;

  bool operator==(const AttentionTile&) const = default;
};

// How `tiles` blocks of one tile fill the GPU, one block per SM at a time.
struct TileGrid {
  Tile tile;
  double tiles = 0;            // thread blocks
  double waves = 0;            // rounded up
  double tile_efficiency = 0;  // useful share of the computed elements
  double wave_efficiency = 0;  // busy share of the SMs over all waves
  double last_wave_fill = 0;   // busy share in the last wave

  double efficiency() const { return tile_efficiency * wave_efficiency; }
};

// Sizes >= 1.
TileGrid tile_grid(double m, double n, double batch, Tile tile, int sms);

// Tiles cuBLAS picks from, the most efficient first. Source: NVIDIA Matrix Multiplication
// Background User's Guide, "Tile quantization"; the cuBLASLt enumeration for the small ones.
std::span<const Tile> candidate_tiles();

}  // namespace rooftile
