#include "rooftile/analysis/kernel_name.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <random>
#include <utility>

#include "rooftile/base/text.h"

namespace rooftile {
namespace {

constexpr std::array<std::string_view, 24> kClassNames{
    "unknown", "gemm",          "convolution", "attention",         "recurrent",    "normalization",
    "softmax", "elementwise",   "reduction",   "layout_conversion", "cast",         "copy",
    "fill",    "embedding",     "pooling",     "optimizer",         "loss_scaling", "sort",
    "random",  "communication", "sparse",      "indexing",          "quantize",     "other"};
constexpr std::array<std::string_view, 4> kDirectionNames{"", "forward", "dgrad", "wgrad"};

std::string tile_text(const KernelFacts& facts) {
  std::string text = fmt::format(" tile={}x{}", facts.tile_m, facts.tile_n);
  return facts.tile_k > 0 ? text + fmt::format("x{}", facts.tile_k) : text;
}

// The facts in the notation of tests/inputs/kernel_names.tsv.
std::string facts_text(const KernelFacts& facts) {
  std::string text = fmt::format("{} {}", kClassNames[static_cast<std::size_t>(facts.kernel_class)],
                                 facts.library.empty() ? "-" : facts.library);
  if (facts.compute_capability > 0) text += fmt::format(" cc={}", facts.compute_capability);
  if (facts.dtype) text += fmt::format(" dtype={}", to_string(*facts.dtype));
  if (facts.accumulator) text += fmt::format(" acc={}", to_string(*facts.accumulator));
  if (facts.tensor_core) text += *facts.tensor_core ? " tc=1" : " tc=0";
  if (facts.tile_m > 0) text += tile_text(facts);
  if (facts.stages > 0) text += fmt::format(" stages={}", facts.stages);
  if (facts.split_k) text += " splitk";
  if (facts.alignment > 0) text += fmt::format(" align={}", facts.alignment);
  if (!facts.layout.empty()) text += fmt::format(" layout={}", facts.layout);
  if (facts.direction != KernelDirection::unknown) {
    text += fmt::format(" dir={}", kDirectionNames[static_cast<std::size_t>(facts.direction)]);
  }
  return text;
}

std::vector<std::array<std::string, 2>> known_names() {
  std::ifstream file(std::string(ROOFTILE_ROOT) + "/tests/inputs/kernel_names.tsv");
  std::vector<std::array<std::string, 2>> names;
  for (std::string line; std::getline(file, line);) {
    const auto columns = split(line, '\t');
    if (columns.size() != 3) continue;
    names.push_back({std::string(columns[0]), std::string(columns[1])});
  }
  return names;
}

TEST(KernelName, RealNamesAsReadByHand) {
  const auto names = known_names();
  EXPECT_GE(names.size(), 150U);
  for (const auto& [facts, name] : names) {
    EXPECT_EQ(facts_text(parse_kernel_name(name)), facts) << name;
  }
}

// By the iterator over the tiles of the operands: whole names take a thousand characters and more.
TEST(KernelName, CutlassTemplatesOfConvolutionsSayTheirDirection) {
  constexpr std::array<std::pair<std::string_view, KernelDirection>, 3> kIterators{{
      {"Conv2dFpropActivationTileAccessIteratorOptimized", KernelDirection::forward},
      {"Conv2dDgradOutputGradientTileAccessIteratorOptimized", KernelDirection::dgrad},
      {"Conv2dWgradOutputGradientTileAccessIteratorOptimized", KernelDirection::wgrad},
  }};
  for (const auto& [iterator, direction] : kIterators) {
    const KernelFacts facts = parse_kernel_name(fmt::format(
        "void cutlass::Kernel<cutlass::conv::kernel::ImplicitGemmConvolution<"
        "cutlass::conv::threadblock::ImplicitGemmMultistage<cutlass::gemm::GemmShape<128, 64, 32>, "
        "cutlass::conv::threadblock::{}<cutlass::MatrixShape<128, 32>, cutlass::half_t> > > >"
        "(Params)",
        iterator));
    EXPECT_EQ(facts.kernel_class, KernelClass::convolution) << iterator;
    EXPECT_EQ(facts.direction, direction) << iterator;
    EXPECT_EQ(facts.tile_m, 128) << iterator;
    EXPECT_EQ(facts.tile_n, 64) << iterator;
  }
}

// Numbers of an architecture, also with the letters of its variants.
TEST(KernelName, ArchitecturesInWords) {
  const auto capability = [](std::string_view word) {
    const std::string rest = "simt_sgemm_f32_f32_f32_f32_f32_64x32x16_1x1x1_3_tnn_align1";
    return parse_kernel_name(fmt::format("cutlass3x_{}_{}", word, rest)).compute_capability;
  };
  for (const auto& [word, expected] : {std::pair{"sm29", 0},
                                       {"sm30", 30},
                                       {"sm90", 90},
                                       {"Sm90", 90},
                                       {"sm90a", 90},
                                       {"sm100f", 100},
                                       {"sm90b", 0},
                                       {"sm199", 199},
                                       {"sm200", 0},
                                       {"sm", 0},
                                       {"volta", 70},
                                       {"maxwell", 50},
                                       {"pascal", 60},
                                       {"turing", 75},
                                       {"ampere", 80},
                                       {"hopper", 90},
                                       {"blackwell", 100}}) {
    EXPECT_EQ(capability(word), expected) << word;
  }
  const auto number = [](std::string_view word) {
    return parse_kernel_name(fmt::format("cutlass_{}_simt_sgemm_64x64_8x5_tn_align1", word))
        .compute_capability;
  };
  for (const auto& [word, expected] : {std::pair{"5", 0},
                                       {"50", 50},
                                       {"70", 70},
                                       {"90", 90},
                                       {"100", 100},
                                       {"120", 120},
                                       {"199", 199},
                                       {"1000", 0}}) {
    EXPECT_EQ(number(word), expected) << word;
  }
}

// Two or three sizes of up to a million are a tile.
TEST(KernelName, SizesOfTiles) {
  const auto tile = [](std::string_view word) {
    const KernelFacts facts = parse_kernel_name(fmt::format("ampere_sgemm_{}_nn", word));
    EXPECT_EQ(facts.kernel_class, KernelClass::gemm) << word;
    return tile_text(facts);
  };
  for (const auto& [word, expected] : {std::pair{"64x32", " tile=64x32"},
                                       {"64x32x16", " tile=64x32x16"},
                                       {"1x1", " tile=1x1"},
                                       {"1000000x64", " tile=1000000x64"},
                                       {"1000001x64", " tile=0x0"},
                                       {"0x64", " tile=0x0"},
                                       {"64x0", " tile=0x0"},
                                       {"64", " tile=0x0"},
                                       {"64x", " tile=0x0"},
                                       {"64y32", " tile=0x0"},
                                       {"8x8x8x8", " tile=0x0"}}) {
    EXPECT_EQ(tile(word), expected) << word;
  }
}

// What words of libraries mean, in names that the table of real ones does not have.
TEST(KernelName, WordsOfLibraries) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 27> kNames{{
      {"turing_i8816gemm_128x128_ldg16_nn",
       "gemm cublas cc=75 dtype=int8 acc=int32 tc=1 tile=128x128 align=16 layout=nn"},
      {"volta_igemm_128x32_nn", "gemm cublas cc=70 acc=int32 tc=0 tile=128x32 layout=nn"},
      {"volta_dgemm_128x64_nn", "gemm cublas cc=70 dtype=fp64 acc=fp64 tc=0 tile=128x64 layout=nn"},
      {"ampere_d884gemm_64x64_nn",
       "gemm cublas cc=80 dtype=fp64 acc=fp64 tc=1 tile=64x64 layout=nn"},
      {"volta_hgemm_64x64_nn", "gemm cublas cc=70 dtype=fp16 acc=fp16 tc=0 tile=64x64 layout=nn"},
      {"volta_cgemm_64x64_nn", "gemm cublas cc=70 tile=64x64 layout=nn"},
      {"ampere_s1688gemm_128x64_nn",
       "gemm cublas cc=80 dtype=tf32 acc=fp32 tc=1 tile=128x64 layout=nn"},
      {"turing_s1688gemm_128x64_nn", "gemm cublas cc=75 acc=fp32 tc=1 tile=128x64 layout=nn"},
      {"ampere_s16816gemm_128x64_nn", "gemm cublas cc=80 acc=fp32 tc=1 tile=128x64 layout=nn"},
      {"ampere_s1688tf32gemm_128x64_nn",
       "gemm cublas cc=80 dtype=tf32 acc=fp32 tc=1 tile=128x64 layout=nn"},
      {"sm75_xmma_gemm_i8i8_i8i32_f32_tn_n_tilesize128x128x64_stage2_warpsize2x2x1_tensor8x8x16",
       "gemm cublas cc=75 dtype=int8 acc=int32 tc=1 tile=128x128x64 stages=2 layout=tn"},
      {"sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize32x32x8_stage3_warpsize1x2x1_kernel",
       "gemm cublas cc=80 dtype=fp32 acc=fp32 tc=0 tile=32x32x8 stages=3 layout=nn"},
      {"sm80_xmma_gemm_tf32f32_tf32f32_f32_nn_n_tilesize32x32x8_stage3_warpsize1x2x1_kernel",
       "gemm cublas cc=80 dtype=tf32 acc=fp32 tc=1 tile=32x32x8 stages=3 layout=nn"},
      {"sm80_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize32x32x8_stage3_warpsize1x2x1_kernel",
       "gemm cublas cc=80 dtype=tf32 acc=fp32 tc=1 tile=32x32x8 stages=3 layout=nn"},
      {"nvjet_ddd_64x32_16x4_1x1_v_bz_NNT",
       "gemm cublas dtype=fp64 acc=fp64 tc=1 tile=64x32x16 stages=4 layout=nn"},
      {"nvjet_rrtst_64x32_16x4_1x1_v_bz_TNNT",
       "gemm cublas dtype=fp8 acc=fp32 tc=1 tile=64x32x16 stages=4 layout=tn"},
      {"nvjet_sss_64x32_16x4_1x1_v_bz_NT", "gemm cublas acc=fp32 tc=1 tile=64x32x16 stages=4"},
      {"nvjet_sss_tf32_64x32_16x4_1x1_v_bz_NTT",
       "gemm cublas dtype=tf32 acc=fp32 tc=1 tile=64x32x16 stages=4 layout=nt"},
      {"nvjet_hhhh_64x32_16x4x2_1x1_v_bz_NTTTN", "gemm cublas tc=1 tile=64x32"},
      {"fmha_cutlassF_bf16_aligned_64x128_rf_sm70",
       "attention memory_efficient_attention cc=70 dtype=bf16 tc=1 tile=64x128 dir=forward"},
      {"fmha_cutlassF_f16_aligned_64x128_rf_sm60",
       "attention memory_efficient_attention cc=60 dtype=fp16 tile=64x128 dir=forward"},
      {"cudnn_generated_fort_native_sdpa_sm100_flash_utcmma_f16_128x128",
       "attention cudnn cc=100 tc=1"},
      {"flash_bwd_convert_dkv_kernel", "attention flash_attention dir=dgrad"},
      {"void cutlass::device_kernel<flash::FlashAttnBwdSm100>()",
       "attention flash_attention cc=100 tc=1 dir=dgrad"},
      {"triton_poi_fused_cat_add_3", "elementwise triton"},
      {"triton_poi_fused_zeros_7", "fill triton"},
      {"void cudnn::ops::convertTensor_kernel<float, __half, float>(float)", "cast cudnn"},
  }};
  for (const auto& [name, facts] : kNames) {
    EXPECT_EQ(facts_text(parse_kernel_name(name)), facts) << name;
  }
}

void expect_sane(const KernelFacts& facts) {
  EXPECT_LT(static_cast<std::size_t>(facts.kernel_class), kClassNames.size());
  for (const std::int64_t size : {facts.tile_m, facts.tile_n, facts.tile_k}) {
    EXPECT_GE(size, 0);
    EXPECT_LE(size, 1000000);
  }
  EXPECT_GE(facts.stages, 0);
  EXPECT_GE(facts.alignment, 0);
}

TEST(KernelName, AnyBytesAreSafe) {
  std::mt19937 random(1);
  const std::string pieces = "<>(),:_ x0123456789abcnstdvgemZSm\"\\{}[]\xff\n";
  for (int round = 0; round < 3000; ++round) {
    std::string name;
    const auto length = random() % 200;
    for (std::size_t i = 0; i < length; ++i) name += pieces[random() % pieces.size()];
    expect_sane(parse_kernel_name(name));
  }
}

TEST(KernelName, CutAndSplicedRealNamesAreSafe) {
  std::mt19937 random(2);
  const auto names = known_names();
  ASSERT_FALSE(names.empty());
  for (int round = 0; round < 3000; ++round) {
    const std::string& first = names[random() % names.size()][1];
    const std::string& second = names[random() % names.size()][1];
    expect_sane(parse_kernel_name(first.substr(0, random() % (first.size() + 1)) +
                                  second.substr(random() % second.size())));
  }
}

TEST(KernelName, LongNamesAreSafe) {
  for (const std::string_view part : {"<", "a", "9", "64x64_", "cutlass_80_", "(", "tensor "}) {
    std::string name = "sm80_xmma_gemm_";
    while (name.size() < 300000) name += part;
    expect_sane(parse_kernel_name(name));
  }
  expect_sane(parse_kernel_name("ampere_sgemm_99999999999999999999x1_align99999999999_nn"));
  EXPECT_EQ(parse_kernel_name("").kernel_class, KernelClass::unknown);
}

}  // namespace
}  // namespace rooftile
