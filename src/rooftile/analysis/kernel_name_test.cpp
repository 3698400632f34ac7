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
