#include "rooftile/base/mangled_name.h"

#include <gtest/gtest.h>

namespace rooftile {
namespace {

TEST(MangledName, NamesItsFunction) {
  EXPECT_EQ(function_of_mangled("_ZN2at6native13reduce_kernelILi512ELi1EEEvT_"), "reduce_kernel");
  EXPECT_EQ(function_of_mangled("_Z20magma_sgemmEx_kernelIfffLb1EEviii"), "magma_sgemmEx_kernel");
  EXPECT_EQ(function_of_mangled("_ZN8internal5gemvx6kernelIiEEvT_"), "gemvx::kernel");
}

TEST(MangledName, NamesTheArgumentOfAGenericFunction) {
  EXPECT_EQ(function_of_mangled("_ZN7cutlass6KernelI26cutlass_tensorop_s1688gemmEEvNT_6ParamsE"),
            "cutlass_tensorop_s1688gemm");
  EXPECT_EQ(function_of_mangled("_ZN7cutlass13device_kernelINS_4gemm6kernel13GemmUniversalIiEEEEv"),
            "GemmUniversal");
}

TEST(MangledName, OthersAreNone) {
  EXPECT_EQ(function_of_mangled("void at::native::reduce_kernel<512>(int)"), "");
  EXPECT_EQ(function_of_mangled("_Z"), "");
  EXPECT_EQ(function_of_mangled("_ZN9"), "");
  EXPECT_EQ(function_of_mangled("_ZN99999999999999999999999x"), "");
}

}  // namespace
}  // namespace rooftile
