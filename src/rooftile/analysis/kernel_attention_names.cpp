// Fused attention.
#include "rooftile/analysis/kernel_families.h"

namespace rooftile::kernel_name_detail {
namespace {

KernelFacts attention_kernel(std::string_view library, KernelDirection direction) {
  return {.kernel_class = KernelClass::attention,
          .library = std::string(library),
          .direction = direction};
}

// The whole numbers among the words of template arguments, in order: <128, (int)64, true>.
std::vector<std::int64_t> numbers_in(std::string_view text, std::size_t most) {
  std::vector<std::int64_t> numbers;
  for (std::string_view word : words_of(text)) {
    if (numbers.size() == most) break;
    const auto number = take_number(word);
    if (number && word.empty()) numbers.push_back(*number);
  }
  return numbers;
}

// fmha_cutlassF_bf16_aligned_64x128_rf_sm80: query rows by keys. "notaligned" kernels read single
// elements. Before Volta there were no Tensor Cores; fp32 on sm80 uses them as TF32 or as three
// of them, which the name does not tell.
std::optional<KernelFacts> parse_memory_efficient(const KernelName& name) {
  const std::size_t begin = name.whole.find("fmha_cutlass");
  if (begin == std::string_view::npos) return std::nullopt;
  const std::string_view list = name.whole.substr(begin, name.whole.find('(', begin) - begin);
  const bool backward = starts_with(list, "fmha_cutlassB");
  KernelFacts facts = attention_kernel(
      "memory_efficient_attention", backward ? KernelDirection::dgrad : KernelDirection::forward);
  for (const std::string_view word : words_of(list)) {
    if (const auto dtype = parse_dtype_word(word)) facts.dtype = dtype;
    if (const int capability = parse_architecture(word)) facts.compute_capability = capability;
    if (const auto sizes = parse_sizes(word)) {
      facts.tile_m = (*sizes)[0];
      facts.tile_n = (*sizes)[1];
    }
    if (word == "notaligned") facts.alignment = 1;
  }
  if (facts.dtype && is_16_bit_float(*facts.dtype) && facts.compute_capability >= 70) {
    facts.tensor_core = true;
  }
  return facts;
}

// cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x128_…: f16 stands for
// both 16-bit types.
std::optional<KernelFacts> parse_cudnn_sdpa(const KernelName& name) {
  if (!contains(name.function, "sdpa") || !contains(name.function, "cudnn")) return std::nullopt;
  const bool backward = contains(name.function, "bprop");
  const bool forward = contains(name.function, "fprop");
  KernelFacts facts = attention_kernel("cudnn", backward  ? KernelDirection::dgrad
                                                : forward ? KernelDirection::forward
                                                          : KernelDirection::unknown);
  for (const std::string_view word : words_of(name.function)) {
    if (const int capability = parse_architecture(word)) facts.compute_capability = capability;
    if (word == "wmma" || word == "wgmma" || word == "utcmma") facts.tensor_core = true;
    const auto sizes = parse_sizes(word);
    if (sizes && sizes->size() == 3 && facts.tile_m == 0) {
      facts.tile_m = (*sizes)[0];
      facts.tile_n = (*sizes)[1];
    }
  }
  return facts;
}

// Flash_fwd_kernel_traits<head size, rows, keys, warps, …, type>.
void read_flash_traits(std::string_view arguments, KernelFacts& facts) {
  const std::size_t begin = arguments.find("kernel_traits<");
  if (begin == std::string_view::npos) return;
  const auto numbers = numbers_in(arguments.substr(begin + 13), 3);
  if (numbers.size() < 3) return;
  facts.tile_m = numbers[1];
  facts.tile_n = numbers[2];
}

bool is_flash(const KernelName& name) {
  static constexpr std::string_view kMarks[] = {
      "flash_fwd", "flash_bwd", "FlashAttn", "flash::", "FlashAttention", "fmha::", "fmha_"};
  for (const std::string_view mark : kMarks) {
    if (contains(name.function, mark)) return true;
  }
  const bool generic = contains(name.function, "cutlass::device_kernel") ||
                       contains(name.function, "cutlass") || contains(name.function, "enable_sm");
  return generic && contains_any(name.arguments, {"FlashAttn", "flash::", "fmha", "Fmha"});
}

// flash_fwd_kernel, pytorch_flash::flash_bwd_…, cutlass::device_kernel<flash::…FlashAttnFwdSm90…>.
std::optional<KernelFacts> parse_flash(const KernelName& name) {
  if (!is_flash(name)) return std::nullopt;
  const bool backward = contains_any(name.whole, {"bwd", "Bwd", "Backward", "bprop"});
  const bool forward = contains_any(name.whole, {"fwd", "Fwd", "Forward", "fprop"});
  KernelFacts facts = attention_kernel("flash_attention", backward  ? KernelDirection::dgrad
                                                          : forward ? KernelDirection::forward
                                                                    : KernelDirection::unknown);
  facts.dtype = only_float_type(name.arguments.substr(0, name.arguments.find("::TiledMMA")));
  if (contains_any(name.function, {"flash_fwd", "flash_bwd"})) {
    read_flash_traits(name.arguments, facts);
    const bool helper = contains_any(
        name.function, {"dot_do_o", "convert_dq", "convert_dkv", "combine", "clear_dkvaccum"});
    if (!helper) facts.tensor_core = true;
    facts.compute_capability = helper ? 0 : 80;
  }
  for (const int capability : {90, 100}) {
    const std::string mark = "FwdSm" + std::to_string(capability);
    const std::string mark_backward = "BwdSm" + std::to_string(capability);
    if (!contains_any(name.whole, {mark, mark_backward})) continue;
    facts.compute_capability = capability;
    facts.tensor_core = true;
  }
  return facts;
}

struct AttentionMark {
  std::string_view text, library;
};

// Kernels of inference engines: the function's name tells the task only.
constexpr AttentionMark kAttentionMarks[] = {
    {"fmhaSm", "tensorrt"},
    {"paged_attention", "vllm"},
    {"BatchPrefillWith", "flashinfer"},
    {"BatchDecodeWith", "flashinfer"},
    {"SinglePrefillWith", "flashinfer"},
    {"SingleDecodeWith", "flashinfer"},
    {"masked_multihead_attention", "tensorrt"},
    {"mmha", "tensorrt"},
    {"kernel_unified_attention", "triton"},
    {"unified_attention", "triton"},
    {"qk_int8_sv", "sage_attention"},
    {"attn_fwd", "triton"},
    {"attn_bwd", "triton"},
    {"flex_attention", "triton"},
    {"attention_kernel", ""},
    {"Attention", ""},
    {"attention", ""},
    {"flash_attn", ""},
    {"_fwd_grouped_kernel_stage1", "triton"},
    {"_fwd_kernel_stage2", "triton"},
};

std::optional<KernelFacts> parse_other_attention(const KernelName& name) {
  for (const auto& [text, library] : kAttentionMarks) {
    if (!contains(name.function, text)) continue;
    const bool backward = contains_any(name.function, {"bwd", "backward", "Backward"});
    const bool forward = contains_any(name.function, {"fwd", "forward", "Forward"});
    return attention_kernel(library, backward  ? KernelDirection::dgrad
                                     : forward ? KernelDirection::forward
                                               : KernelDirection::unknown);
  }
  return std::nullopt;
}

}  // namespace

std::optional<KernelFacts> parse_attention_name(const KernelName& name) {
  if (starts_with(name.function, "triton_")) return std::nullopt;
  for (const auto& parse :
       {parse_memory_efficient, parse_cudnn_sdpa, parse_flash, parse_other_attention}) {
    if (auto facts = parse(name)) return facts;
  }
  return std::nullopt;
}

}  // namespace rooftile::kernel_name_detail
