#include "rooftile/analysis/trace/call_kernels.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string_view>
#include <system_error>
#include <utility>

namespace rooftile {
namespace {

bool has_part(std::string_view name, std::string_view part) {
  return name.find(part) != std::string_view::npos;
}

// The longest kernel of the class that does the work of the operation; the longest of all where
// none is of it.
const KernelUse& main_kernel(const std::vector<KernelUse>& kernels, KernelClass wanted) {
  const auto found = std::ranges::find_if(
      kernels, [&](const KernelUse& use) { return use.facts.kernel_class == wanted; });
  return found == kernels.end() ? kernels.front() : *found;
}

bool any_named(const std::vector<KernelUse>& kernels, std::string_view part) {
  return std::ranges::any_of(kernels,
                             [&](const KernelUse& use) { return has_part(use.name, part); });
}

// cuBLAS multiplies by a few rows or columns without tiles.
bool is_vector_kernel(std::string_view name) {
  constexpr std::array<std::string_view, 5> kNames{"gemv", "gemmSN", "gemmk1", "dot_kernel",
                                                   "reduce_1Block"};
  return std::ranges::any_of(kNames, [&](std::string_view part) { return has_part(name, part); });
}

// Names state the generation or the shape of the instruction, 16 x 8 x 16 and the like.
bool is_built_before_hopper(const KernelUse& kernel) {
  constexpr int kWarpGroups = 90;  // multiply together from Hopper on
  constexpr std::array<std::string_view, 4> kInstructions{"s16816", "s1688", "s161616", "s884"};
  const int built_for = kernel.facts.compute_capability;
  if (built_for > 0) return built_for < kWarpGroups;
  return std::ranges::any_of(kInstructions,
                             [&](std::string_view part) { return has_part(kernel.name, part); });
}

std::string_view product_family(const OpUse& use, const KernelUse& main, const CallKernels& call) {
  constexpr int kFewElements = 2;  // an access: rows start at odd multiples of four bytes
  const int alignment = main.facts.alignment;
  const bool is_unaligned = alignment > 0 && alignment <= kFewElements;
  if (call.loads_elements) return "gemm/element_loads";
  if (call.is_vector_product) return "gemm/vector";
  if (call.math == Dtype::tf32) return is_unaligned ? "gemm/tf32_unaligned" : "gemm/tf32";
  if (call.math == Dtype::fp32) return "gemm/widened";
  if (has_part(main.name, "magma_sgemm")) return "gemm/magma";
  if (use.op->dtypes.input == Dtype::fp32) return "gemm/fp32";
  if (any_named(use.kernels, "splitKreduce")) return "gemm/split";
  if (is_unaligned) return "gemm/unaligned";
  return has_part(main.name, "cutlass") ? "gemm/cutlass" : "gemm/tiled";
}

// Blocks for each tile of the output, by the kernel's grid; none where that does not come out even.
std::optional<int> blocks_for_tile(const OpUse& use, Tile tile, const KernelUse& kernel) {
  const auto* gemm = std::get_if<Gemm>(&use.op->body);
  const auto& [x, y, z] = kernel.launch.grid;
  const double blocks = static_cast<double>(x) * y * z;
  if (gemm == nullptr) return std::nullopt;
  const double tiles = static_cast<double>(gemm->batch) *
                       std::ceil(static_cast<double>(gemm->m) / tile.rows) *
                       std::ceil(static_cast<double>(gemm->n) / tile.cols);
  constexpr int kMost = 256;
  const double split = blocks / tiles;
  if (!(split >= 1 && split <= kMost) || split != std::floor(split)) return std::nullopt;
  return static_cast<int>(split);
}

void read_product(const OpUse& use, CallKernels& call) {
  const KernelUse& main = main_kernel(use.kernels, KernelClass::gemm);
  const KernelFacts& facts = main.facts;
  const Dtype in = use.op->dtypes.input;
  call.is_vector_product = is_vector_kernel(main.name);
  call.loads_elements = has_part(main.name, "gemmSN");
  call.fills_output = std::ranges::any_of(use.kernels, [](const KernelUse& kernel) {
    return is_pointwise(kernel.facts.kernel_class) ||
           kernel.facts.kernel_class == KernelClass::copy;
  });
  call.built_before_hopper = is_built_before_hopper(main);
  call.is_on_cuda_cores = facts.tensor_core == false;
  if (facts.tile_m > 0 && facts.tile_n > 0) {
    // cuBLAS counts rows along the contiguous axis of the output, its columns here.
    const Tile tile{static_cast<int>(facts.tile_n), static_cast<int>(facts.tile_m)};
    const bool is_split = facts.split_k || any_named(use.kernels, "splitK");
    const auto split =
        is_split && call.is_on_cuda_cores ? blocks_for_tile(use, tile, main) : std::optional<int>();
    if (!is_split || split) call.tile = tile;
    call.split_k = split.value_or(1);
  }
  if (in == Dtype::fp32 && facts.tensor_core == true) call.math = Dtype::tf32;
  if (is_16_bit_float(in) && facts.tensor_core == false) call.math = Dtype::fp32;
  call.family = product_family(use, main, call);
}

// "…Flash_fwd_kernel_traits<32, 128, 128, 4, …", "…Flash_bwd_kernel_traits<…": head size, query
// rows, keys, warps.
std::optional<AttentionTile> attention_tile(std::string_view name) {
  constexpr std::string_view kFlash = "Flash_", kTraits = "wd_kernel_traits<";
  constexpr int kLargest = 1024;
  const std::size_t found = name.find(kTraits);
  if (found == std::string_view::npos || !has_part(name.substr(0, found), kFlash)) {
    return std::nullopt;
  }
  name.remove_prefix(found + kTraits.size());
  std::array<int, 3> sizes{};
  for (int& size : sizes) {
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), size);
    if (error != std::errc() || size < 1 || size > kLargest) return std::nullopt;
    name.remove_prefix(static_cast<std::size_t>(end - name.data()));
    name.remove_prefix(std::min(name.find_first_not_of(", "), name.size()));
  }
  return AttentionTile{sizes[0], sizes[1], sizes[2]};
}

void read_attention(const OpUse& use, const Attention& attention, CallKernels& call) {
  const KernelUse& main = main_kernel(use.kernels, KernelClass::attention);
  constexpr std::int64_t kFew = 64;  // less than the smallest tile
  call.is_memory_efficient = has_part(main.name, "fmha_cutlass");
  call.is_flash_2 = has_part(main.name, "flash_fwd") || has_part(main.name, "flash_bwd");
  call.attention_tile = attention_tile(main.name);
  call.family = call.is_memory_efficient ? "attention/efficient"
                : call.is_flash_2        ? "attention/flash_2"
                                         : "attention/other";
  const bool few_queries = attention.query_len <= kFew, few_keys = attention.kv_len <= kFew;
  if (few_queries || few_keys) {
    call.family += few_queries && few_keys ? "/few" : few_keys ? "/few_keys" : "/few_queries";
  }
}

// CUTLASS goes through the taps one by one, and in each over the channels in steps of its tile;
// kernels for few channels are named so.
void read_channel_step(const OpUse& use, const KernelUse& main, CallKernels& call) {
  const KernelFacts& facts = main.facts;
  const bool steps = has_part(main.name, "cutlass") && has_part(main.name, "fprop") &&
                     !has_part(main.name, "few_channels") && !has_part(main.name, "fixed_channels");
  if (!steps || facts.tile_m <= 0 || facts.tile_n <= 0 || use.phase != Phase::forward) return;
  call.built_before_hopper = is_built_before_hopper(main);
  call.tile = Tile{static_cast<int>(facts.tile_m), static_cast<int>(facts.tile_n)};
  call.channel_step = static_cast<int>(facts.tile_k);
}

void read_convolution(const OpUse& use, const Convolution& conv, CallKernels& call) {
  const KernelUse& main = main_kernel(use.kernels, KernelClass::convolution);
  read_channel_step(use, main, call);
  constexpr std::int64_t kFewChannels = 4;  // cuDNN's Tensor Core kernels pad them to 8
  const bool is_patch = element_count(conv.kernel) > 1 &&
                        conv.c / std::max<std::int64_t>(conv.groups, 1) <= kFewChannels;
  if (main.facts.tensor_core == false) call.math = Dtype::fp32;
  call.is_winograd = any_named(use.kernels, "inograd");
  call.converts_layouts = std::ranges::any_of(use.kernels, [](const KernelUse& kernel) {
    return kernel.facts.kernel_class == KernelClass::layout_conversion;
  });
  call.family = conv.transposed                   ? "conv/transposed"
                : is_patch                        ? "conv/few_channels"
                : main.facts.tensor_core == true  ? "conv/tensor_cores"
                : main.facts.tensor_core == false ? "conv/cuda_cores"
                                                  : "conv/other";
}

// PyTorch's templates of kernels that go over tensors element by element, and cuDNN's.
std::string_view template_of(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 14> kTemplates{{
      {"multi_tensor_apply", "multi_tensor"},
      {"CatArrayBatchedCopy_vectorized", "vectorized"},
      {"CatArrayBatchedCopy_alignedK", "vectorized"},
      {"CatArrayBatchedCopy", "cat"},
      {"vectorized_elementwise_kernel", "vectorized"},
      {"unrolled_elementwise_kernel", "unrolled"},
      {"elementwise_kernel", "strided"},
      {"reduce_kernel", "reduce"},
      {"softmax_warp", "warp"},
      {"SoftMax", "block"},
      {"vectorized_layer_norm", "vectorized"},
      {"layer_norm", "rowwise"},
      {"RowwiseMoments", "rowwise"},
      {"bn_", "batch"},
  }};
  for (const auto& [part, found] : kTemplates) {
    if (has_part(name, part)) return found;
  }
  return "other";
}

}  // namespace

CallKernels call_kernels(const OpUse& use) {
  CallKernels call;
  const Body& body = use.op->body;
  if (const auto* attention = std::get_if<Attention>(&body)) {
    read_attention(use, *attention, call);
  } else if (const auto* conv = std::get_if<Convolution>(&body)) {
    read_convolution(use, *conv, call);
  } else if (std::holds_alternative<Gemm>(body)) {
    read_product(use, call);
  } else {
    call.family = kind_name(body);
    call.family += '/';
    call.family += template_of(use.kernels.front().name);
    if (const auto* other = std::get_if<Other>(&body); other && !other->fn.empty()) {
      call.family += '/' + other->fn;
    }
  }
  return call;
}

}  // namespace rooftile
