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
  // Sizes that were not recorded: the elements are shared out among the blocks.
  EXPECT_NEAR(microseconds(over_list("_foreach_mul_", "", 102714 / 2048)), 2 * 0.21, 1e-6);
}

TEST(TimeOfBlocks, OfBatchNormsIsThatOfTheirRounds) {
  const auto norm = [](std::uint32_t channels) {
    return ran("aten::cudnn_batch_norm", Normalization{},
               "void cudnn::bn_fw_tr_1C11_singleread<float, 512, true, 1, 2, 0>()", channels);
  };
  // 40 SMs with two blocks of 512 threads each.
  EXPECT_NEAR(microseconds(norm(80), "t4"), 1e4 / 1590, 0.1);
  EXPECT_NEAR(microseconds(norm(81), "t4") / microseconds(norm(80), "t4"), 2, 1e-9);
  EXPECT_NEAR(microseconds(norm(512), "t4") / microseconds(norm(80), "t4"), 7, 1e-9);
  EXPECT_EQ(microseconds(norm(160), "a100"), microseconds(norm(1), "a100"));
}

TEST(TimeOfBlocks, OfAMeanLossIsThatOfOneBlock) {
  OpUse loss = ran("aten::nll_loss_forward", Other{"nll_loss_forward", 0, 98304},
                   "void at::native::nll_loss_forward_reduce_cuda_kernel_2d<float>()", 1, 64);
  loss.arguments.dims = {{1024, 8192}, {1024}};
  EXPECT_NEAR(microseconds(loss), 16 * 0.5, 1e-6);
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
