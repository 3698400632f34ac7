#include "rooftile/workload/op.h"

#include <gtest/gtest.h>

#include "rooftile/workload/graph.h"
#include "rooftile/workload/workload_text.h"

namespace rooftile {
namespace {

Op op_of(std::string_view text) {
  const auto workload = parse_workload(text);
  EXPECT_TRUE(workload) << text;
  return workload->ops.at(0);
}

TEST(Parameters, CountedAsPyTorchDoes) {
  struct Case {
    std::string_view text;
    double expected;
    std::string_view source;
  };
  const Case cases[] = {
      {"gemm a fp32 m=1 n=1000 k=2048 bias=1", 2'049'000, "ResNet-50's fc layer"},
      {"conv a fp32 n=1 c=3 k=64 in=224x224 kernel=7 stride=2 pad=3", 9'408, "ResNet-50's conv1"},
      {"conv a fp32 n=1 c=32 k=32 in=8x8 kernel=3 groups=32", 288, "depthwise: 32·3·3"},
      {"recurrent a fp32 cell=lstm batch=1 seq=1 input=200 hidden=200 layers=2", 643'200,
       "nn.LSTM(200, 200, 2): 2·(4·200·(200+200) + 2·800)"},
      {"recurrent a fp32 cell=gru batch=1 seq=1 input=10 hidden=20 directions=2", 3'840,
       "nn.GRU(10, 20, bidirectional=True): 2·(60·30 + 120)"},
      {"recurrent a fp32 cell=lstm batch=1 seq=1 input=10 hidden=20 projection=5", 1'460,
       "nn.LSTM(10, 20, proj_size=5): 80·15 + 160 + 100"},
      {"norm a fp32 fn=layer rows=4 cols=768", 1'536, "weight and bias"},
      {"embedding a fp32 vocab=50257 width=768 lookups=4", 38'597'376, "GPT-2's wte"},
  };
  for (const Case& c : cases) EXPECT_EQ(count_parameters(op_of(c.text)), c.expected) << c.source;
}

TEST(OutputExtents, TransposedConvolution) {
  // PyTorch: (14-1)*2 - 2*1 + (3-1) + 1 + 1 = 28.
  const Op op =
      op_of("conv a fp32 n=1 c=8 k=8 in=14x14 kernel=3 stride=2 pad=1 output_pad=1 transposed=1");
  EXPECT_EQ(output_extents(std::get<Convolution>(op.body)), (Extents{28, 28}));
}

TEST(Graph, ProducersAndConsumers) {
  const auto workload = parse_workload(
      "gemm a fp16 m=1 n=1 k=1 from=x\n"
      "gemm b fp16 m=1 n=1 k=1 from=a\n"
      "elementwise c fp16 fn=add elements=1 inputs=2 from=a,b");
  const Graph graph(*workload);
  EXPECT_EQ(graph.producer("a"), 0U);
  EXPECT_EQ(graph.producer("x"), std::nullopt);
  EXPECT_EQ(graph.consumers("a"), (std::vector<std::size_t>{1, 2}));
  EXPECT_EQ(graph.sole_consumer(0), std::nullopt);
  EXPECT_EQ(graph.sole_consumer(1), 2U);
  EXPECT_EQ(graph.producer_of(2, 1), 1U);
  EXPECT_EQ(graph.producer_of(2, 5), std::nullopt);
}

// A decode step with or without speculation; not the windows of 16 keys that Hiera's 4 pooled
// queries see, nor a prompt behind a cache.
TEST(Op, FewQueriesOfManyKeysReadACache) {
  struct Case {
    std::int64_t queries, keys;
    bool reads;
  };
  for (const Case& c : {Case{1, 1025, true}, {8, 4096, true}, {4, 16, false}, {64, 4096, false}}) {
    Attention attention;
    attention.query_len = c.queries;
    attention.kv_len = c.keys;
    EXPECT_EQ(reads_cache(attention), c.reads) << c.queries << " of " << c.keys;
  }
}

}  // namespace
}  // namespace rooftile
