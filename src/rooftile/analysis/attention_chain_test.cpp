#include "rooftile/analysis/attention_chain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rooftile/workload/workload_text.h"

namespace rooftile {
namespace {

using testing::ElementsAre;

std::vector<AttentionChain> chains_in(std::string_view text) {
  const Result<Workload> workload = parse_workload(text);
  EXPECT_TRUE(workload);
  return find_attention_chains(*workload, Graph(*workload));
}

TEST(AttentionChain, ThroughScaleMaskAndDropout) {
  const auto chains = chains_in(
      "gemm scores fp16 batch=8 m=128 n=256 k=64 weight=activation from=q,k\n"
      "elementwise scaled fp16 fn=mul elements=262144 from=scores\n"
      "elementwise mask fp16 fn=not elements=32768 from=tokens\n"
      "elementwise masked fp16 fn=add elements=262144 inputs=2 from=mask,scaled\n"
      "softmax weights fp16 rows=1024 cols=256 from=masked\n"
      "elementwise dropped fp16 fn=dropout elements=262144 from=weights\n"
      "gemm out fp16 batch=8 m=128 n=32 k=256 layout=nn weight=activation from=dropped,v\n");
  ASSERT_EQ(chains.size(), 1u);
  EXPECT_THAT(chains[0].ops, ElementsAre(0, 1, 3, 4, 5, 6));
  EXPECT_EQ(chains[0].attention.heads, 8);
  EXPECT_EQ(chains[0].attention.query_len, 128);
  EXPECT_EQ(chains[0].attention.kv_len, 256);
  EXPECT_EQ(chains[0].attention.head_dim, 64);
  EXPECT_EQ(chains[0].attention.value_dim, 32);
}

// PyTorch's exporters set rows that see no key to zero.
TEST(AttentionChain, ThroughTheCheckForEmptyRows) {
  const auto chains = chains_in(
      "gemm scores fp16 batch=8 m=128 n=256 k=64 weight=activation from=q,k\n"
      "softmax weights fp16 rows=1024 cols=256 from=scores\n"
      "elementwise nan fp16 fn=is_nan elements=262144 from=weights\n"
      "elementwise safe fp16 fn=where elements=262144 inputs=2 from=nan,weights\n"
      "gemm out fp16 batch=8 m=128 n=32 k=256 layout=nn weight=activation from=safe,v\n");
  ASSERT_EQ(chains.size(), 1u);
  EXPECT_THAT(chains[0].ops, ElementsAre(0, 1, 2, 3, 4));
}

TEST(AttentionChain, SizesMustFit) {
  EXPECT_TRUE(chains_in("gemm scores fp16 m=128 n=256 k=64 weight=activation from=q\n"
                        "softmax weights fp16 rows=128 cols=256 from=scores\n"
                        "gemm out fp16 m=64 n=32 k=256 weight=activation from=weights\n")
                  .empty());
}

TEST(AttentionChain, WeightsAreNotAttention) {
  EXPECT_TRUE(chains_in("gemm logits fp16 m=128 n=256 k=64 from=x\n"
                        "softmax classes fp16 rows=128 cols=256 from=logits\n"
                        "gemm out fp16 m=128 n=32 k=256 from=classes\n")
                  .empty());
}

TEST(AttentionChain, AValueThatReadsItselfEnds) {
  EXPECT_TRUE(chains_in("elementwise loop fp16 fn=add elements=8 from=loop\n"
                        "softmax weights fp16 rows=1 cols=8 from=loop\n")
                  .empty());
}

}  // namespace
}  // namespace rooftile
