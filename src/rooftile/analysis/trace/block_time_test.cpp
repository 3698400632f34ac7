#include "rooftile/analysis/trace/block_time.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "rooftile/hardware/device_file.h"

namespace rooftile {
namespace {

OpUse ran(const std::string& name, Body body, const std::string& kernel, std::uint32_t blocks,
          std::uint32_t threads = 512) {
  OpUse use;
  use.name = name;
  use.op = Op{};
  use.op->body = std::move(body);
  KernelUse main;
  main.name = kernel;
  main.launch.grid = {blocks, 1, 1};
  main.launch.block = {threads, 1, 1};
  use.kernels.push_back(main);
  return use;
}

OpUse over_list(const std::string& name, const std::string& sizes, std::uint32_t blocks) {
  OpUse use = ran("aten::" + name, Elementwise{name, 102714, 1},
                  "void at::native::multi_tensor_apply_kernel<TensorListMetadata<1>>()", blocks);
  use.arguments.dims = {{}};
  use.arguments.types = {"TensorList"};
  use.arguments.values = {sizes};
  return use;
}

double microseconds(const OpUse& use, const char* gpu = "h100") {
  const auto time = time_of_blocks(*find_device(gpu), use);
  return time ? time->value() * 1e6 : 0;
}

TEST(TimeOfBlocks, OfListsIsThatOfTheLargestTensorsFirstChunk) {
  // 65,536 of 100,514 elements, 2,048 at a time; 12,800 of the second list.
  const std::string large = "[[50257, 2], [24, 2]]", small = "[[100, 128], [128]]";
  EXPECT_NEAR(microseconds(over_list("_foreach_mul_", large, 29)), 32 * 0.21, 1e-6);
  EXPECT_NEAR(microseconds(over_list("_foreach_mul_", small, 4)), 7 * 0.21, 1e-6);
  EXPECT_NEAR(microseconds(over_list("_foreach_sqrt", large, 29)), 32 * 0.21 * 1.75, 1e-6);
  EXPECT_NEAR(microseconds(over_list("_foreach_mul_", "[[2048]]", 1)), 0.21, 1e-9);
  EXPECT_NEAR(microseconds(over_list("_foreach_mul_", "[[2049]]", 2)), 2 * 0.21, 1e-9);
  EXPECT_NEAR(microseconds(over_list("_foreach_mul_", "[[65537]]", 2)), 32 * 0.21, 1e-9);
  for (const char* division : {"_foreach_div_", "_foreach_sqrt_", "_fused_adamw_"}) {
    EXPECT_NEAR(microseconds(over_list(division, "[[2048]]", 1)), 0.21 * 1.75, 1e-9) << division;
  }
  for (const char* two_lists : {"_foreach_lerp_", "_foreach_addcmul_"}) {
    EXPECT_NEAR(microseconds(over_list(two_lists, "[[2048]]", 1)), 0.21 * 1.25, 1e-9) << two_lists;
  }
  // Sizes that were not recorded: the elements are shared out among the blocks.
  EXPECT_NEAR(microseconds(over_list("_foreach_mul_", "", 102714 / 2048)), 2 * 0.21, 1e-6);
}

TEST(TimeOfBlocks, OfBatchNormsIsThatOfTheirRounds) {
  const auto norm = [](std::uint32_t channels) {
    return ran("aten::cudnn_batch_norm", Normalization{},
               "void cudnn::bn_fw_tr_1C11_singleread<float, 512, true, 1, 2, 0>()", channels);
  };
  // 40 SMs with two blocks of 512 threads each.
  EXPECT_NEAR(microseconds(norm(80), "t4"), 1e4 / 1590, 1e-9);
  EXPECT_NEAR(microseconds(norm(81), "t4") / microseconds(norm(80), "t4"), 2, 1e-9);
  EXPECT_NEAR(microseconds(norm(512), "t4") / microseconds(norm(80), "t4"), 7, 1e-9);
  EXPECT_EQ(microseconds(norm(160), "a100"), microseconds(norm(1), "a100"));
  // 108 SMs with 2,048 blocks of one thread each; no thread was recorded.
  for (const std::uint32_t threads : {0U, 1U}) {
    const std::string kernel = "cudnn::bn_fw_tr_1C11_singleread<float>";
    const OpUse one = ran("aten::batch_norm", Normalization{}, kernel, 108 * 2048, threads);
    EXPECT_EQ(microseconds(one, "a100"), microseconds(norm(1), "a100"));
    const OpUse two = ran("aten::batch_norm", Normalization{}, kernel, 108 * 2048 + 1, threads);
    EXPECT_NEAR(microseconds(two, "a100") / microseconds(norm(1), "a100"), 2, 1e-9);
  }
  OpUse wide = norm(10);
  wide.kernels.front().launch.grid = {10, 4, 3};
  EXPECT_EQ(microseconds(wide, "t4"), microseconds(norm(120), "t4"));
}

// An SM holds 1,024 threads of Turing, 1,536 of the later desktop GPUs, else 2,048.
TEST(TimeOfBlocks, OfBatchNormsDependsOnTheThreadsOfAnSm) {
  struct Case {
    const char* gpu;
    std::uint32_t blocks_per_sm;  // of 512 threads
  };
  for (const Case& c : {Case{"t4", 2}, Case{"rtx_3060", 3}, Case{"rtx_4090", 3},
                        Case{"rtx_5090", 3}, Case{"a100", 4}, Case{"h100", 4}}) {
    const auto sms = static_cast<std::uint32_t>(find_device(c.gpu)->sms);
    const auto time = [&](std::uint32_t blocks) {
      return microseconds(
          ran("aten::batch_norm", Normalization{}, "bn_fw_tr_1C11_singleread", blocks), c.gpu);
    };
    EXPECT_EQ(time(c.blocks_per_sm * sms), time(1)) << c.gpu;
    EXPECT_NEAR(time(c.blocks_per_sm * sms + 1) / time(1), 2, 1e-9) << c.gpu;
  }
}

TEST(TimeOfBlocks, OfAMeanLossIsThatOfOneBlock) {
  OpUse loss = ran("aten::nll_loss_forward", Other{"nll_loss_forward", 0, 98304},
                   "void at::native::nll_loss_forward_reduce_cuda_kernel_2d<float>()", 1, 64);
  loss.arguments.dims = {{1024, 8192}, {1024}};
  EXPECT_NEAR(microseconds(loss), 16 * 0.5, 1e-6);
  loss.arguments.dims = {{1025, 8192}, {1025}};
  EXPECT_NEAR(microseconds(loss), 17 * 0.5, 1e-6);
  loss.kernels.front().launch.block = {1, 1, 1};
  EXPECT_NEAR(microseconds(loss), 1025 * 0.5, 1e-6);
  loss.arguments.dims.clear();
  EXPECT_EQ(microseconds(loss), 0);
}

TEST(TimeOfBlocks, OfOtherKernelsIsUnknown) {
  EXPECT_EQ(microseconds(ran("aten::add", Elementwise{"add", 1 << 20, 2},
                             "void at::native::vectorized_elementwise_kernel<4>()", 1024)),
            0);
  EXPECT_EQ(microseconds(OpUse{}), 0);
}

}  // namespace
}  // namespace rooftile
