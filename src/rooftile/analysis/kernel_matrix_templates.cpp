// Products and convolutions written as C++ templates: cuBLAS's small-matrix kernels, CUTLASS 3
// instances, cuDNN's engines before the generated ones.
#include <initializer_list>

#include "rooftile/analysis/kernel_families.h"

namespace rooftile::kernel_name_detail {
namespace {

using Marks = std::initializer_list<std::string_view>;

KernelFacts matrix(KernelClass task, std::string_view library) {
  return {.kernel_class = task, .library = std::string(library)};
}

std::optional<Dtype> first_type(std::string_view arguments) {
  const auto types = types_in(arguments);
  return types.empty() ? std::nullopt : std::optional(types.front());
}

// gemv2T_kernel_val<int, int, float2, …>, internal::gemvx::kernel<…>, dot products. These multiply
// on the CUDA cores.
std::optional<KernelFacts> parse_gemv(const KernelName& name) {
  static constexpr std::string_view kMarks[] = {
      "gemv2T_kernel", "gemv2N_kernel", "gemvNSP_kernel", "gemvx::kernel", "gemmk1_kernel",
      "gemvx_",        "gemv_kernel",   "ger_kernel",     "sgemv",         "hgemv"};
  for (const std::string_view mark : kMarks) {
    if (!contains(name.function, mark)) continue;
    KernelFacts facts = matrix(KernelClass::gemm, "cublas");
    facts.tensor_core = false;
    facts.dtype = first_type(name.arguments);
    return facts;
  }
  return std::nullopt;
}

// cublasLt::splitKreduce_kernel sums the partial products of a split-K product.
std::optional<KernelFacts> parse_split_k_reduction(const KernelName& name) {
  if (!contains_any(name.function, {"splitKreduce", "splitK_reduce", "split_k_reduce"})) {
    return std::nullopt;
  }
  KernelFacts facts = matrix(KernelClass::gemm, "cublas");
  facts.split_k = true;
  return facts;
}

std::optional<KernelFacts> parse_small_gemm(const KernelName& name) {
  static constexpr std::string_view kFp32[] = {"sgemm_largek",  "gemmSN_",     "sgemm_kernel",
                                               "sgemm32x32x32", "magma_sgemm", "gemm_kernel2x2",
                                               "fermiPlusCgemm"};
  for (const std::string_view mark : kFp32) {
    if (!contains(name.function, mark)) continue;
    KernelFacts facts = matrix(KernelClass::gemm, "cublas");
    facts.tensor_core = false;
    facts.dtype = first_type(name.arguments);
    return facts;
  }
  if (contains_any(name.function, {"cublasLt::epilogue", "epilogue::impl::globalKernel"})) {
    return matrix(KernelClass::gemm, "cublas");
  }
  return std::nullopt;
}

// What stands between the angle brackets that open first in the text.
std::string_view in_brackets(std::string_view text) {
  const std::size_t open = text.find('<');
  if (open == std::string_view::npos) return {};
  int depth = 0;
  for (std::size_t i = open; i < text.size(); ++i) {
    if (text[i] == '<') ++depth;
    if (text[i] == '>' && --depth == 0) return text.substr(open + 1, i - open - 1);
  }
  return text.substr(open + 1);
}

// cute::C<128>, cute::_128, (int)128: the words that are whole numbers.
std::vector<std::int64_t> numbers_in(std::string_view text) {
  std::vector<std::int64_t> numbers;
  for (std::string_view word : words_of(text)) {
    const auto number = take_number(word);
    if (number && word.empty()) numbers.push_back(*number);
  }
  return numbers;
}

// CollectiveMma<MainloopSm90TmaGmma…<stages, cluster, schedule>, tile, type of A, …>: the tile is
// the second tuple.
void read_collective(std::string_view text, KernelFacts& facts) {
  const std::size_t mainloop = text.find("Mainloop");
  if (mainloop == std::string_view::npos) return;
  text = text.substr(mainloop);
  if (const std::size_t sm = text.find("Sm"); sm < 16) {
    std::string_view digits = text.substr(sm + 2);
    facts.compute_capability = static_cast<int>(take_number(digits).value_or(0));
  }
  if (contains(text, "Gmma") || contains(text, "Umma") || contains(text, "UMMA")) {
    facts.tensor_core = true;
  }
  std::size_t tuple = text.find("cute::tuple<");
  if (tuple == std::string_view::npos) return;
  const auto stages = numbers_in(text.substr(0, tuple));
  if (stages.size() == 1) facts.stages = static_cast<int>(stages.front());
  tuple = text.find("cute::tuple<", tuple + 1);
  if (tuple == std::string_view::npos) return;
  const std::string_view rest = text.substr(tuple);
  const auto tile = numbers_in(in_brackets(rest));
  if (tile.size() != 3) return;
  facts.tile_m = tile[0];
  facts.tile_n = tile[1];
  facts.tile_k = tile[2];
  facts.dtype = first_type(rest);
}

// GemmShape<128, 256, 32> of CUTLASS 2 templates, mangled GemmShapeILi128ELi256ELi32E: the first is
// the thread block's.
void read_gemm_shape(std::string_view text, KernelFacts& facts) {
  const std::size_t begin = text.find("GemmShape");
  if (begin == std::string_view::npos) return;
  std::string_view rest = text.substr(begin, 64);
  std::vector<std::int64_t> numbers;
  while (numbers.size() < 3) {
    const std::size_t digit = rest.find_first_of("0123456789");
    if (digit == std::string_view::npos) return;
    rest.remove_prefix(digit);
    const auto number = take_number(rest);
    if (!number) return;
    numbers.push_back(*number);
  }
  facts.tile_m = numbers[0];
  facts.tile_n = numbers[1];
  facts.tile_k = numbers[2];
}

KernelDirection cutlass_direction(std::string_view name) {
  if (contains(name, "Fprop")) return KernelDirection::forward;
  if (contains(name, "Dgrad")) return KernelDirection::dgrad;
  return contains(name, "Wgrad") ? KernelDirection::wgrad : KernelDirection::unknown;
}

// cutlass_cudnn_train::reduction::kernel::ReduceSplitK<…>
std::optional<KernelFacts> parse_cutlass_reduction(const KernelName& name) {
  if (!contains(name.whole, "ReduceSplitK")) return std::nullopt;
  const bool conv = contains(name.function, "cudnn");
  KernelFacts facts =
      matrix(conv ? KernelClass::convolution : KernelClass::gemm, conv ? "cudnn" : "cutlass");
  facts.split_k = true;
  return facts;
}

std::optional<KernelFacts> parse_cutlass_template(const KernelName& name) {
  const bool cutlass = contains(name.function, "cutlass") ||
                       contains(name.arguments, "cutlass::") || contains(name.function, "7cutlass");
  if (!cutlass) return std::nullopt;
  if (auto reduction = parse_cutlass_reduction(name)) return reduction;
  const bool conv = contains_any(name.whole, {"ImplicitGemmConvolution", "::conv::", "4conv"});
  const bool gemm =
      contains_any(name.whole, {"GemmUniversal", "CollectiveMma", "gemm::kernel", "GemmShape",
                                "4gemm", "fpA_intB", "MoeFCGemm", "gemm::threadblock",
                                "GemmGrouped", "grouped_gemm", "::GemmKernel"});
  if (!conv && !gemm) return std::nullopt;
  KernelFacts facts = matrix(conv ? KernelClass::convolution : KernelClass::gemm,
                             contains(name.function, "cudnn") ? "cudnn" : "cutlass");
  if (conv) facts.direction = cutlass_direction(name.whole);
  read_collective(name.arguments, facts);
  if (facts.tile_m == 0) read_gemm_shape(name.arguments, facts);
  if (contains(name.arguments, "OpClassTensorOp")) facts.tensor_core = true;
  if (contains(name.arguments, "OpClassSimt")) facts.tensor_core = false;
  return facts;
}

namespace engines {

struct EngineMark {
  std::string_view text;
  KernelDirection direction;
  std::optional<bool> tensor_core;
};

using enum KernelDirection;

// cuDNN's convolution engines. "sgemm" and the direct ones multiply on the CUDA cores.
constexpr EngineMark kEngines[] = {
    {"implicit_convolve_sgemm", unknown, false},
    {"explicit_convolve_sgemm", unknown, false},
    {"precomputed_convolve_sgemm", unknown, false},
    {"convolve_common_engine", unknown, std::nullopt},
    {"cudnn_convolve", unknown, std::nullopt},
    {"dgrad_engine", dgrad, false},
    {"dgrad2d_alg1_1", dgrad, false},
    {"dgrad_alg1_engine", dgrad, false},
    {"wgrad_alg0_engine", wgrad, false},
    {"wgrad_alg1_engine", wgrad, false},
    {"wgrad_alg1_nd_float_engine", wgrad, false},
    {"wgrad2d_grouped_direct_kernel", wgrad, false},
    {"dgrad2d_grouped_direct_kernel", dgrad, false},
    {"conv2d_grouped_direct_kernel", forward, false},
    {"conv2d_c1_k1_", forward, std::nullopt},
    {"dgrad2d_c1_k1_", dgrad, std::nullopt},
    {"wgrad2d_c1_k1_", wgrad, std::nullopt},
    {"first_layer_fwd", forward, std::nullopt},
    {"first_layer_wgrad", wgrad, std::nullopt},
    {"dgrad_1x1_stride_2x2", dgrad, std::nullopt},
    {"direct_group", unknown, std::nullopt},
    {"winogradForward", forward, std::nullopt},
    {"winogradWgrad", wgrad, std::nullopt},
    {"winograd", unknown, std::nullopt},
    {"Winograd", unknown, std::nullopt},
    {"im2col", unknown, std::nullopt},
    {"col2im", unknown, std::nullopt},
    {"vol2col", unknown, std::nullopt},
    {"col2vol", unknown, std::nullopt},
    {"cask_cudnn::", unknown, std::nullopt},
    {"cask__5x_cudnn::", unknown, std::nullopt},
    {"computeOffsetsKernel", unknown, std::nullopt},
    {"computeWgrad", wgrad, std::nullopt},
    {"kern_precompute_indices", unknown, std::nullopt},
    {"compute_gemm_pointers", unknown, std::nullopt},
    {"flip_filter", unknown, std::nullopt},
    {"pointwise_mult_and_sum_complex", unknown, std::nullopt},
    {"gemm_kernel_nhwc", unknown, std::nullopt},
    {"conv_depthwise2d_forward", forward, false},
    {"conv_depthwise2d_backward", dgrad, false},
    {"conv_depthwise2d_grad_weight", wgrad, false},
    {"conv_depthwise3d_cuda_kernel", forward, false},
    {"conv_depthwise3d_cuda_backward_input", dgrad, false},
    {"conv_depthwise3d_cuda_backward_weight", wgrad, false},
    {"DepthwiseConv2dGPUKernel", forward, false},
    {"DepthwiseConv2dBackpropInput", dgrad, false},
    {"DepthwiseConv2dBackpropFilter", wgrad, false},
    {"deformable_im2col", unknown, std::nullopt},
    {"causal_conv1d_fwd", forward, false},
    {"causal_conv1d_bwd", unknown, false},
    {"causal_conv1d", unknown, false},
    {"reduce_wgrad", wgrad, std::nullopt},
    {"convFwd", forward, std::nullopt},
    {"convDgrad", dgrad, std::nullopt},
    {"convWgrad", wgrad, std::nullopt},
    {"convolve", unknown, std::nullopt},
    {"convolution", unknown, std::nullopt},
};

std::optional<KernelFacts> parse_engine(const KernelName& name) {
  if (starts_with(name.function, "triton_")) return std::nullopt;
  for (const EngineMark& engine : kEngines) {
    if (!contains(name.function, engine.text)) continue;
    const bool pytorch = contains_any(name.function, {"at::native", "depthwise"});
    KernelFacts facts = matrix(KernelClass::convolution, pytorch ? "pytorch" : "cudnn");
    facts.direction = engine.direction;
    facts.tensor_core = engine.tensor_core;
    facts.dtype = first_type(name.arguments);
    if (contains_any(name.function, {"NHWC", "nhwc"})) facts.layout = "nhwc";
    return facts;
  }
  return std::nullopt;
}

}  // namespace engines

// fft2d_r2c_32x32<…>(…, cudnn::reduced_divisor, …): convolution by Fourier transform.
std::optional<KernelFacts> parse_fourier(const KernelName& name) {
  if (!starts_with(name.function, "fft") || !contains(name.whole, "cudnn")) return std::nullopt;
  return matrix(KernelClass::convolution, "cudnn");
}

// Volta_hmma_implicit_gemm_fprop_fp32_nhwc_128x128x64x1_…, and as templates:
// xmma_cudnn::gemm::kernel<xmma_cudnn::implicit_gemm::fprop_indexed::Kernel_traits<…>>.
std::optional<KernelFacts> parse_implicit_gemm(const KernelName& name) {
  const bool in_template =
      contains(name.function, "xmma_") && contains(name.arguments, "implicit_gemm");
  if (!in_template && !contains(name.function, "implicit_gemm")) return std::nullopt;
  KernelFacts facts = matrix(KernelClass::convolution, "cudnn");
  const std::string_view text = name.whole.substr(0, name.whole.find("Gmem_tile"));
  if (contains(text, "fprop")) facts.direction = KernelDirection::forward;
  if (contains(text, "dgrad")) facts.direction = KernelDirection::dgrad;
  if (contains(text, "wgrad")) facts.direction = KernelDirection::wgrad;
  if (contains_any(text, {"hmma", "imma"})) facts.tensor_core = true;
  if (contains(text, "nhwc")) facts.layout = "nhwc";
  return facts;
}

}  // namespace

std::optional<KernelFacts> parse_matrix_template(const KernelName& name) {
  for (const auto& parse :
       {parse_gemv, parse_split_k_reduction, parse_small_gemm, parse_implicit_gemm,
        parse_cutlass_template, parse_fourier, engines::parse_engine}) {
    if (auto facts = parse(name)) return facts;
  }
  return std::nullopt;
}

}  // namespace rooftile::kernel_name_detail
