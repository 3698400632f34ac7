#include "rooftile/analysis/trace/kernel_streams.h"

#include <gtest/gtest.h>

#include "rooftile/aten/operator_cases.h"

namespace rooftile::trace {
namespace {

using aten_test::arguments_of;
using aten_test::canonical;
using aten_test::described;

std::string streams_of(std::string_view name, std::string_view arguments, std::string_view kernel) {
  OpUse use;
  use.name = name;
  use.arguments = arguments_of(arguments);
  use.kernels.emplace_back().name = kernel;
  use.kernels.back().launch.grid = {3, 1, 1};
  const auto op = with_kernel(aten_op(name, use.arguments), use);
  return op ? described(*op) : "";
}

constexpr std::string_view kStrided =
    "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<…> >(int, …)";
constexpr std::string_view kVectorized =
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float> >(int)";

TEST(KernelStreams, NamesTellTheWalk) {
  const std::string_view two = "8,16||float; 8,16||float; ||Scalar|1";
  EXPECT_EQ(streams_of("aten::add", two, kVectorized),
            canonical("elementwise fp32 fn=add elements=128 inputs=2"));
  // Shapes show nothing that is broadcast.
  EXPECT_EQ(streams_of("aten::add", two, kStrided),
            canonical("elementwise fp32 fn=add elements=128 inputs=2 walk=reordered"));
  EXPECT_EQ(streams_of("aten::add", two, "unknown"),
            canonical("elementwise fp32 fn=add elements=128 inputs=2"));
  // A tensor of no axes on the GPU is broadcast.
  EXPECT_EQ(streams_of("aten::mul", "8,16||float; ||float", kStrided),
            canonical("elementwise fp32 fn=mul elements=128 walk=strided"));
  EXPECT_EQ(streams_of("aten::copy_", "8,16||float; 8,16||float; ||Scalar|False", kVectorized),
            canonical("elementwise fp32 fn=copy elements=128"));
  // Strides that were recorded count more.
  EXPECT_EQ(streams_of("aten::copy_", "8,16|16,1|float; 8,16|1,8|float; ||Scalar|False", kStrided),
            canonical("layout fp32 elements=128 walk=transposed"));
}

// Kernels that go over elements tell nothing of what is not computed element by element.
TEST(KernelStreams, OtherOperationsKeepTheirWalk) {
  EXPECT_EQ(streams_of("aten::_softmax", "2,8,16||float; ||Scalar|2; ||Scalar|False", kStrided),
            canonical("softmax fp32 rows=16 cols=16"));
}

TEST(KernelStreams, ALossWhoseSumIsAnOperatorOfItsOwnWritesDifferences) {
  const std::string_view loss = "8,16||float; 8,16||float; ||Scalar|1";
  EXPECT_EQ(streams_of("aten::mse_loss", loss, kVectorized),
            canonical("elementwise fp32 fn=mse_loss elements=128 moved_bytes=1536"));
  EXPECT_EQ(streams_of("aten::mse_loss", loss, "unknown"),
            canonical("reduce fp32 fn=mse_loss elements=128 outputs=1 moved_bytes=1028"));
}

TEST(KernelStreams, NamesTellTheTypeOfLists) {
  const std::string_view list = "||TensorList|[[6, 16], [2, 16]]; ||Scalar|0";
  EXPECT_EQ(streams_of("aten::cat", list,
                       "void at::native::(anonymous namespace)::CatArrayBatchedCopy<bool, "
                       "unsigned int, 2, 64, 64>(bool*)"),
            canonical("elementwise bool fn=cat elements=128 walk=concatenated"));
  EXPECT_EQ(streams_of("aten::cat", list,
                       "void at::native::(anonymous namespace)::CatArrayBatchedCopy_contig<"
                       "at::native::(anonymous namespace)::OpaqueType<2u>, unsigned int>(…)"),
            canonical("elementwise fp16 fn=cat elements=128 walk=concatenated"));
  EXPECT_EQ(streams_of("aten::cat", list,
                       "void at::native::(anonymous namespace)::CatArrayBatchedCopy_vectorized<"
                       "at::native::(anonymous namespace)::OpaqueType<4u>, unsigned int>(…)"),
            canonical("elementwise fp32 fn=cat elements=128"));
  EXPECT_EQ(streams_of("aten::cat", list, "some_copy"), "");
}

// 3 blocks of 128 threads with 4 elements each; 4 bytes read and 4 written.
TEST(KernelStreams, IndexingIsAsLargeAsItsLaunch) {
  EXPECT_EQ(streams_of("aten::index", "50,100||float; |||",
                       "void at::native::index_elementwise_kernel<128, 4, at::native::…>(long)"),
            canonical("other fp32 fn=aten::index bytes=12288 walk=gathered moved_bytes=12288 "
                      "walked=1536"));
}

}  // namespace
}  // namespace rooftile::trace
