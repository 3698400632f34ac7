// The constants of the time model, one set per GPU generation, from data/calibration/*.json.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "rooftile/analysis/tiles.h"
#include "rooftile/analysis/time/gemm_tiles.h"
#include "rooftile/base/result.h"
#include "rooftile/base/units.h"
#include "rooftile/hardware/device.h"

namespace rooftile {

// 5 % and 95 % quantiles of measured over predicted time.
struct Interval {
  double low = 1.0, high = 1.0;
};

// One interval per regime of a kernel.
struct Intervals {
  Interval latency, memory, math;
};

// The tile of a library that chooses it by the shape alone.
struct TileRule {
  double min_m = 0, max_m = 0, max_n = 0, min_k = 0;
  GemmTiles tile;         // one
  double efficiency = 1;  // of this kernel inside an SM, against the others
};

// Scaling the rows of an activation to fp8, each by its own largest element.
struct QuantizeConstants {
  Seconds launch;
  Seconds row, element;  // of a block that reads its row twice
  double dram_efficiency = 1;
};

// docs/time_model.md explains each in its formula.
struct GemmConstants {
  Seconds launch, latency_per_k, prologue, epilogue;
  double in_core_efficiency = 1, tile_edge_elements = 0;
  BytesPerSecond operand_port;  // into one SM
  double sustained_efficiency = 1;
  double sustained_decline = 0;  // exponent of the duration by which that rate falls
  double dram_efficiency = 1;
  Seconds dram_latency;
  double wave_sharpness = 1;
  Seconds split_launch;
  double l2_speedup = 1, l2_share = 1, operand_sets = 1;
  // Of the GPU they were fitted on; other GPUs scale by them.
  Hertz reference_clock;
  double reference_watts_per_flop_rate = 1;  // power limit over peak rate
  double reference_flop_per_clock = 0;       // dense fp16 of one SM
  bool reference_inline_ecc = false;
  GemmTiles tiles;                   // the library chooses among them, or
  std::vector<TileRule> tile_rules;  // takes that of the first rule that holds
  QuantizeConstants quantize;        // of the left operand, for fp8
  Intervals intervals;
};

// An SGEMM kernel of cuBLAS. `slices` groups of threads work on parts of k and add up at the end.
struct CudaCoreTile {
  Tile tile;
  int slices = 1;
  double efficiency = 1;  // of the peak of SMs that are full
  double reluctance = 0;  // how much faster it must be than others to be chosen
};

// Products on CUDA cores; docs/time_model.md explains each in its formula.
struct CudaCoreConstants {
  Seconds launch, prologue, epilogue;
  double math_efficiency = 1;      // of the peak that a tile of efficiency 1 reaches
  double exposed_latency = 0;      // share of a block that the blocks beside it do not hide
  double elements_to_fill_sm = 0;  // outputs, times slices, in flight that feed all pipes
  double blocks_side_by_side = 1;  // of tiles too small for that, which take as long as one
  BytesPerSecond operand_port;     // into one SM
  double dram_efficiency = 1, l2_share = 1;
  double overlap_exponent = 3;
  Seconds split_launch;
  double energy_per_flop = 0;  // J; the power limit over it is the rate that can be sustained
  Seconds power_response;      // until the clock has come down to that
  double long_row_slowdown = 0, long_row_elements = 1;
  double slab_efficiency = 1;   // of DRAM, reading operands that are stored along k
  Hertz reference_clock;        // of the GPU they were fitted on
  double flop_per_clock = 128;  // dense fp32 of one SM
  std::vector<CudaCoreTile> tiles, batched_tiles;
  Intervals intervals, batched_intervals;
};

// Throughput left when operands meet at least these alignments; the first row that holds counts.
struct AlignmentRow {
  double operand_bytes = 0, out_bytes = 0;
  Range<double> factor{1, 1, 1};
};

struct AlignmentConstants {
  std::vector<AlignmentRow> sixteen_bit, tf32, eight_bit;
};

// Kernels that work row by row, a block for each: normalisation, softmax.
struct RowConstants {
  double efficiency = 1;  // of the DRAM bandwidth
  Seconds row;            // fixed time of one row on one SM: reductions, synchronisation
  Seconds latency;        // of the first row beyond that: it has no others to overlap with
  double reread = 0;      // of the traffic again where the rows in flight do not fit L2
};

// What a way to walk through tensors costs beside the traffic: instructions for addresses, types
// and indices.
struct WalkConstants {
  double elements_per_clock = 0;  // that one SM finishes at most
  Seconds latency;                // beyond the launch
  Interval interval;              // of all that is walked so
};

// Kernels that wait for memory.
struct StreamConstants {
  Seconds launch;
  double dram_efficiency = 1;       // elementwise, reductions, copies, casts
  double gather_efficiency = 1;     // embeddings, pooling
  double transpose_efficiency = 1;  // layout conversions
  double l2_speedup = 1, l2_share = 1;
  double l2_sharpness = 6;  // how suddenly L2 stops to help as the data grow
  RowConstants norm, softmax;
  double short_softmax_efficiency = 1;  // rows that one warp keeps in registers
  double rows_in_flight = 1;            // on the whole GPU
  Seconds cast_row;                     // fixed time of a row that is cast on its own, on one SM
  double sm_bytes_per_clock = 16;       // that one SM can draw and store
  Intervals intervals, norm_intervals, softmax_intervals;
  Intervals assumed_intervals;  // gather, transpose: never measured
  WalkConstants converting, strided, transposed, reordered, gathered, concatenated, scanned, sorted;
  // Reductions along rows, over outer axes, of a few elements each; of all to one value.
  WalkConstants row_sums, column_sums, short_sums, whole_sums;
  // Rows of softmax that are not aligned to 16 bytes; those that one warp keeps.
  WalkConstants unaligned_softmax, short_softmax;
};

// A kernel of convolutions: output tiles in waves, the steps along k of each one after the other.
struct ConvolutionKernelConstants {
  Seconds launch;
  Seconds latency_per_k;  // shortest step along k
  Seconds overhead;       // prologue and epilogue of a 128x128 tile
  double in_core_efficiency = 1, tile_edge_elements = 0;
  double wave_sharpness = 1, dram_efficiency = 1;
  Seconds split_launch;           // adds the parts of a split sum
  double workspace_share = 0;     // of the parts' traffic that reaches DRAM
  double strided_efficiency = 1;  // of the math rate, where a stride skips pixels
  Hertz reference_clock;          // of the GPU it was fitted on; latencies scale with it
  std::vector<Tile> tiles;
};

// Tensor Core kernels where convolutions themselves were measured.
struct TensorConvolutionConstants {
  ConvolutionKernelConstants kernel;
  Seconds dgrad_launch;  // rearranges the weights
};

// Winograd's algorithm on CUDA cores, 3x3 kernels of stride 1.
struct WinogradConstants {
  double fused_efficiency = 1;          // of the peak, counting the multiplications that are left
  Seconds fused_overhead;               // of a block
  double efficiency = 1;                // the same as separate products, transforms aside
  double transform_traffic = 1;         // of the tensors' transforms that reaches DRAM
  double filter_transform_traffic = 1;  // above 1: its kernel does not reach the bandwidth
};

struct ConvolutionConstants {
  double math_efficiency = 1;  // against a plain product, where convolutions were not measured
  TensorConvolutionConstants tensor;
  ConvolutionKernelConstants cuda;
  WinogradConstants winograd;
  double depthwise_efficiency = 1;       // of the DRAM bandwidth
  double depthwise_math_efficiency = 1;  // of the CUDA core peak
  Intervals intervals;                   // on Tensor Cores
  Intervals fp32_intervals;              // on CUDA cores, 3x3 kernels of stride 1, forward
  Intervals fp32_other_intervals;        // on CUDA cores, the rest
  Interval depthwise_interval;
};

// One compiled attention kernel: for head sizes up to this one. `few_*`: the tile where all query
// rows that share a key head fit it; 0 rows = no such kernel.
struct AttentionKernel {
  int head_dim = 0;
  int rows = 0, keys = 0, local_keys = 0;  // tile; keys with a window
  int few_rows = 0, few_keys = 0;
  double block_cost = 1;  // of a block of keys, against the formula
  // Fixed cost of a tile; where a window hides keys; of the small tile for one query a sequence;
  // for several.
  Seconds tile_fixed, local_tile_fixed, few_tile_fixed, few_prefill_fixed;
  // Finding the work of batches of single queries: per sequence and per pair of sequences where the
  // batch is scheduled ahead; per sequence of batches too large for that.
  Seconds sequence, sequence_pair, late_sequence;
};

// How tiles are scheduled.
enum class AttentionStyle { flash_2, flash_3 };

struct AttentionConstants {
  AttentionStyle style = AttentionStyle::flash_2;
  std::vector<AttentionKernel> kernels, narrow_kernels;  // of 16-bit keys and values, of 8-bit ones
  Seconds launch, narrow_launch;      // all kernels of a call; what 8-bit keys and values add
  Seconds start;                      // of the first tile
  Seconds cache_write;                // one block of the kernel that stores new keys and values
  double narrow_cache_write = 1;      // that block where it converts to 8 bits
  Seconds narrow_element;             // of a thread, to convert one element
  double cache_write_efficiency = 1;  // of DRAM bandwidth
  double query_load_gain = 1;         // of the fixed cost, where copy engines load 4, 8 or 16 heads
  double math_efficiency = 1, narrow_math_efficiency = 1;  // of the Tensor Core peak in a block
  double exponentials_per_clock = 16;                      // per SM
  double port_bytes_per_clock = 64;                        // keys and values into one SM
  double port_against_dram = 1;  // that of all SMs against the bandwidth, on the GPU of the fit
  double alone = 1;              // slowdown of a tile that has its SM to itself
  double wave_sharpness = 1;
  double query_bandwidth = 1;  // queries and outputs, as a share of DRAM bandwidth
  double dram_efficiency = 1;  // keys and values, cache writes
  double l2_speedup = 1, l2_share = 1, decode_l2_speedup = 1, decode_l2_share = 1;
  Seconds dram_latency;  // of a cache that is not in L2
  double overlap_exponent = 3;
  Seconds combine, combine_per_split;
  Seconds combine_block;         // of a block of the combining kernel that finds nothing to combine
  Seconds copy, strided_copies;  // of the output; of queries and output, where heads are rows
  double copy_efficiency = 1;    // of DRAM bandwidth
  Hertz reference_clock;         // of the GPU they were fitted on; latencies scale with it
  double backward_flop = 2.5;    // against forward; Dao, FlashAttention-2
  double backward_efficiency = 1;
  Intervals prefill_intervals, decode_intervals;
};

struct RecurrentConstants {
  Seconds step;             // pointwise work and launch of one step, standard algorithm
  Seconds persistent_step;  // grid-wide barrier of one step
  Seconds small_step;       // of one step within a block, beside its math
  double persistent_math_efficiency = 1;
  Interval step_interval;  // of `step`
  Interval interval;
};

struct LinkConstants {
  Seconds latency;           // of one hop
  double efficiency = 1;     // of the link's bandwidth
  BytesPerSecond bandwidth;  // where the device file has none; one direction
};

struct CollectiveConstants {
  LinkConstants nvlink, pcie, network;
  Interval interval;
};

// Another fit to the same measurements, from other start values; `weight` beside 1 of the first.
template <class Constants>
struct Alternative {
  double weight = 0;
  Constants constants;
};

// What a part of the model was fitted on, and how far the GPU at hand is from it.
template <class Constants>
struct Section {
  Constants constants;
  std::vector<Alternative<Constants>> alternatives;  // of products on Tensor Cores alone
  std::string origin;                                // where the numbers come from
  double widening = 1.0;  // of the intervals, in log; above 1 where another GPU donated
  bool own = true;        // fitted on this generation
  bool this_gpu = false;  // fitted on this very GPU: its device file brings the section
  // Of such a section: the device id whose learned corrections it was fitted with, how much wider
  // than theirs the intervals are (0: they have none here), and the constants it replaces.
  std::string residual_of;
  double residual_widening = 0;
  std::optional<Constants> replaced;
  std::vector<std::string> fitted_on;  // device ids; none where the numbers are not measured
};

struct Calibration {
  std::string name;      // file name without ".json": sm80
  bool residual = true;  // learned corrections count, where there are any
  // Against the device's numbers, where measurements found the GPU slower than those say.
  double sm_clock = 1, memory_clock = 1;
  Section<GemmConstants> tensor_gemm, fp8_gemm;
  Section<CudaCoreConstants> cuda_gemm;
  Section<AlignmentConstants> alignment;
  Section<StreamConstants> stream;
  Section<ConvolutionConstants> convolution;
  Section<AttentionConstants> attention;
  Section<RecurrentConstants> recurrent;
  Section<CollectiveConstants> collective;
};

// Names of all calibrations that come with the library.
std::vector<std::string> calibration_names();

// Parses one of them with all it borrows from others; an error names file and key.
Result<Calibration> read_calibration(std::string_view name);

// The calibration of a GPU's compute capability, or of the nearest older one, parsed once; with the
// sections that the device file itself brings in place of those. An error names the section and
// the key.
Result<std::shared_ptr<const Calibration>> calibration_for(const Device& device);

}  // namespace rooftile
