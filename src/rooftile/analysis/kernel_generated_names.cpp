// xmma and nvjet: the generators behind cuBLAS, cuDNN and TensorRT.
#include "rooftile/analysis/kernel_families.h"
#include "rooftile/analysis/kernel_matrix_words.h"
#include "rooftile/base/text.h"

namespace rooftile::kernel_name_detail {
namespace {

// tf32f32, bf16bf16, f16f32: the types before and after the boundary.
std::optional<std::pair<Dtype, Dtype>> parse_type_pair(std::string_view word) {
  for (std::size_t split = 2; split < word.size(); ++split) {
    const auto first = parse_dtype_word(word.substr(0, split));
    const auto second = parse_dtype_word(word.substr(split));
    if (first && second) return std::pair(*first, *second);
    if (first && word.substr(split) == "i32") return std::pair(*first, Dtype::int32);
  }
  return std::nullopt;
}

std::string_view xmma_library(std::string_view name) {
  if (contains(name, "cublas")) return "cublas";
  if (contains(name, "cudnn")) return "cudnn";
  if (contains(name, "cusparse")) return "cusparse";
  if (contains_any(name, {"_trt", "tensorrt"})) return "tensorrt";
  return contains(name, "implicit_gemm") ? "cudnn" : "cublas";
}

// sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nchw_tilesize128x128x16_stage4_…:
// operand types, types of the result and of the accumulation, epilogue type.
void read_xmma_types(const std::vector<std::pair<Dtype, Dtype>>& pairs, KernelFacts& facts) {
  if (pairs.empty()) return;
  facts.dtype = pairs[0].first;
  if (pairs.size() < 2) return;
  facts.accumulator = pairs[1].second;
  if (pairs[1].first == Dtype::tf32) facts.dtype = Dtype::tf32;
}

void read_xmma_word(std::string_view word, KernelFacts& facts) {
  for (const std::string_view prefix : {"tilesize", "stage", "warpgroupsize"}) {
    if (!starts_with(word, prefix)) continue;
    std::string_view rest = word.substr(prefix.size());
    if (prefix == "warpgroupsize") facts.tensor_core = true;
    if (prefix == "stage") facts.stages = static_cast<int>(take_number(rest).value_or(0));
    const auto sizes = parse_sizes(rest);
    if (prefix == "tilesize" && sizes) set_tile(*sizes, facts);
  }
  if (starts_with(word, "tensor") || starts_with(word, "sptensor")) facts.tensor_core = true;
  if (starts_with(word, "ffma")) facts.tensor_core = false;
  if (const int capability = parse_architecture(word)) facts.compute_capability = capability;
  for (const TaskWord& task : kTaskWords) {
    if (word != task.text) continue;
    if (facts.kernel_class != KernelClass::convolution) facts.kernel_class = task.task;
    if (task.direction != KernelDirection::unknown) facts.direction = task.direction;
  }
  if (is_split_k_word(word)) facts.split_k = true;
  read_alignment(word, facts);
  read_layout(word, facts);
}

std::optional<Dtype> nvjet_type(char letter) {
  switch (letter) {
    case 'h':
      return Dtype::fp16;
    case 't':
      return Dtype::bf16;
    case 's':
      return Dtype::fp32;
    case 'd':
      return Dtype::fp64;
    case 'q':  // e4m3
    case 'r':  // e5m2
      return Dtype::fp8;
    default:
      return std::nullopt;
  }
}

// hsh, tst, qqtst: types of A (and B), the accumulator (before the last for three letters) and
// the result. qqtst repeats: A, B, C, accumulator, D.
void read_nvjet_types(std::string_view word, KernelFacts& facts) {
  if (word.size() != 3 && word.size() != 5) return;
  facts.dtype = nvjet_type(word.front());
  facts.accumulator = nvjet_type(word[word.size() - 2]);
  if (word.size() == 3 && facts.dtype == Dtype::fp32) facts.dtype.reset();  // fp32 or tf32
}

bool is_upper_layout(std::string_view word) {
  return word.size() >= 3 && word.size() <= 4 &&
         word.find_first_not_of("NT") == std::string_view::npos;
}

// nvjet_tst_128x256_64x4_1x2_h_bz_coopA_NNT: tile, depth by stages, cluster. With mma_, tile of
// three, stages, tile of a warp.
struct NvjetParser {
  void read(std::string_view word) {
    if (is_split_k_word(word)) facts.split_k = true;
    if (const int capability = parse_architecture(word)) {
      facts.compute_capability = capability;
    } else if (const auto sizes = parse_sizes(word)) {
      read_sizes(*sizes);
    } else if (is_upper_layout(word)) {
      facts.layout = lower(word.substr(0, 2));
    } else if (const auto dtype = parse_dtype_word(word)) {
      facts.dtype = dtype;  // nvjet_sss_tf32_…
    } else if (sizes_seen == 0) {
      if (!facts.accumulator) read_nvjet_types(word, facts);
    } else if (sizes_seen == 1 && facts.tile_k > 0 && facts.stages == 0) {
      facts.stages = static_cast<int>(take_number(word).value_or(0));
    }
  }

  void read_sizes(const std::vector<std::int64_t>& sizes) {
    if (++sizes_seen == 1) set_tile(sizes, facts);
    if (sizes_seen != 2 || facts.tile_k > 0 || sizes.size() != 2) return;
    facts.tile_k = sizes[0];
    facts.stages = static_cast<int>(sizes[1]);
  }

  KernelFacts facts{.kernel_class = KernelClass::gemm, .library = "cublas", .tensor_core = true};
  int sizes_seen = 0;
};

}  // namespace

std::optional<KernelFacts> parse_xmma_name(const KernelName& name) {
  if (!contains(name.function, "_xmma_")) return std::nullopt;
  KernelFacts facts{.library = std::string(xmma_library(name.function))};
  std::vector<std::pair<Dtype, Dtype>> pairs;
  for (const std::string_view word : words_of(name.function)) {
    if (const auto pair = parse_type_pair(word)) {
      pairs.push_back(*pair);
    } else {
      read_xmma_word(word, facts);
    }
  }
  read_xmma_types(pairs, facts);
  if (contains(name.function, "split_k_kernel")) facts.split_k = true;
  if (contains(name.function, "xmma_pooling")) facts.kernel_class = KernelClass::pooling;
  if (contains(name.function, "sparse_gemm")) facts.kernel_class = KernelClass::sparse;
  if (facts.kernel_class == KernelClass::unknown) facts.kernel_class = KernelClass::gemm;
  if (!facts.tensor_core && facts.dtype == Dtype::fp32) facts.tensor_core = false;
  if (!facts.tensor_core && facts.dtype == Dtype::tf32) facts.tensor_core = true;
  return facts;
}

std::optional<KernelFacts> parse_nvjet_name(const KernelName& name) {
  const auto words = words_of(name.function);
  if (words.empty() || words[0] != "nvjet") return std::nullopt;
  NvjetParser parser;
  for (std::size_t i = 1; i < words.size(); ++i) parser.read(words[i]);
  return parser.facts;
}

}  // namespace rooftile::kernel_name_detail
