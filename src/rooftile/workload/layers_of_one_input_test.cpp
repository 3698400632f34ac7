#include "rooftile/workload/layers_of_one_input.h"

#include <gtest/gtest.h>

#include "rooftile/workload/workload_text.h"

namespace rooftile {
namespace {

std::vector<std::string> names(const Workload& workload) {
  std::vector<std::string> result;
  for (const Op& op : workload.ops) result.push_back(op.name);
  return result;
}

using Names = std::vector<std::string>;

TEST(LayersOfOneInput, BecomeOneInEachModule) {
  Workload workload = *parse_workload(
      "norm pre bf16 fn=rms rows=4 cols=512 from=x to=h\n"
      "gemm attn.q bf16 m=4 n=512 k=512 from=h to=q\n"
      "gemm attn.k bf16 m=4 n=128 k=512 bias=1 from=h to=k\n"
      "gemm attn.v bf16 m=4 n=128 k=512 from=h to=v\n"
      "gemm mlp.gate bf16 m=4 n=1024 k=512 from=h to=g\n"
      "gemm mlp.up bf16 m=4 n=1024 k=512 from=h to=u\n"
      "gemm other.k bf16 m=4 n=128 k=512 from=x to=o\n");
  join_layers_of_one_input(workload);
  EXPECT_EQ(names(workload), (Names{"pre", "attn.q+k+v", "mlp.gate+up", "other.k"}));
  const auto& qkv = std::get<Gemm>(workload.ops[1].body);
  EXPECT_EQ(qkv.n, 512 + 128 + 128);
  EXPECT_TRUE(qkv.bias);
  EXPECT_EQ(workload.ops[1].outputs, (Names{"q", "k", "v"}));
  EXPECT_EQ(Graph(workload).producer("v"), 1U);
}

TEST(LayersOfOneInput, RoutersAndAdaptersStayApart) {
  Workload workload = *parse_workload(
      "gemm mlp.gate bf16 m=4 n=64 k=512 from=h to=s\n"
      "softmax mlp.scores bf16 rows=4 cols=64 from=s to=p\n"
      "gemm mlp.up bf16 m=4 n=1024 k=512 from=h to=u\n"
      "gemm mlp.lora bf16 m=4 n=16 k=512 from=h to=a\n");
  const Workload before = workload;
  join_layers_of_one_input(workload);
  EXPECT_EQ(workload, before);
}

}  // namespace
}  // namespace rooftile
