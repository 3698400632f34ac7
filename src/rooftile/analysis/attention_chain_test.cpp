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

std::string chain(int before, int behind) {
  std::string text = "gemm scores fp16 batch=8 m=128 n=256 k=64 weight=activation from=q,k\n";
  std::string name = "scores";
  const auto add = [&](int count, const std::string& prefix) {
    for (int i = 0; i < count; ++i) {
      const std::string next = prefix + std::to_string(i);
      text += "elementwise " + next + " fp16 fn=add elements=262144 from=" + name + "\n";
      name = next;
    }
  };
  add(before, "b");
  text += "softmax weights fp16 rows=1024 cols=256 from=" + name + "\n";
  name = "weights";
  add(behind, "c");
  return text + "gemm out fp16 batch=8 m=128 n=32 k=256 layout=nn weight=activation from=" + name +
         ",v\n";
}

// Six operations before the softmax and six behind it.
TEST(AttentionChain, LongWaysAreSomethingElse) {
  EXPECT_EQ(chains_in(chain(0, 0)).size(), 1U);
  EXPECT_EQ(chains_in(chain(6, 6)).size(), 1U);
  EXPECT_EQ(chains_in(chain(7, 6)).size(), 0U);
  EXPECT_EQ(chains_in(chain(6, 7)).size(), 0U);
  EXPECT_EQ(chains_in(chain(0, 0)).at(0).attention.kv_heads, 8);
  EXPECT_EQ(chains_in(chain(0, 0)).at(0).attention.batch, 1);
  EXPECT_THAT(chains_in(chain(1, 1)).at(0).ops, ElementsAre(0, 1, 2, 3, 4));
}

TEST(AttentionChain, OnlyPointwiseOperationsLieBetween) {
  const std::string scores = "gemm scores fp16 m=128 n=256 k=64 weight=activation from=q\n";
  const std::string softmax = "softmax weights fp16 rows=128 cols=256 from=";
  const std::string out = "gemm out fp16 m=128 n=32 k=256 weight=activation from=";
  EXPECT_EQ(chains_in(scores + "cast c fp16 out_dtype=fp32 elements=32768 from=scores\n" + softmax +
                      "c\n" + out + "weights\n")
                .size(),
            1U);
  EXPECT_TRUE(chains_in(scores + "norm c fp16 fn=layer rows=128 cols=256 from=scores\n" + softmax +
                        "c\n" + out + "weights\n")
                  .empty());
  EXPECT_TRUE(chains_in(scores + softmax + "scores\n" +
                        "norm c fp16 fn=layer rows=128 cols=256 from=weights\n" + out + "c\n")
                  .empty());
  // A third operand may be the scores, a fourth one not.
  EXPECT_EQ(
      chains_in(scores + "elementwise c fp16 fn=where elements=32768 inputs=3 from=a,b,scores\n" +
                softmax + "c\n" + out + "weights\n")
          .size(),
      1U);
  EXPECT_TRUE(chains_in(scores +
                        "elementwise c fp16 fn=sum elements=32768 inputs=4 from=a,b,d,scores\n" +
                        softmax + "c\n" + out + "weights\n")
                  .empty());
  // Read again, by what is no check for empty rows.
  EXPECT_TRUE(chains_in(scores + softmax + "scores\n" + out + "weights\n" +
                        "elementwise c fp16 fn=relu elements=32768 from=weights\n")
                  .empty());
}

// Columns of the scores, of the softmax and of the values' rows; rows and heads.
TEST(AttentionChain, EverySizeMustFit) {
  const auto found = [](const char* scores, const char* softmax, const char* values) {
    return chains_in(std::string("gemm scores fp16 ") + scores +
                     " weight=activation from=q\nsoftmax weights fp16 " + softmax +
                     " from=scores\ngemm out fp16 " + values + " weight=activation from=weights\n")
        .size();
  };
  EXPECT_EQ(found("batch=2 m=8 n=16 k=4", "rows=16 cols=16", "batch=2 m=8 n=4 k=16"), 1U);
  EXPECT_EQ(found("batch=2 m=8 n=17 k=4", "rows=16 cols=16", "batch=2 m=8 n=4 k=16"), 0U);
  EXPECT_EQ(found("batch=2 m=8 n=16 k=4", "rows=16 cols=17", "batch=2 m=8 n=4 k=16"), 0U);
  EXPECT_EQ(found("batch=2 m=8 n=16 k=4", "rows=16 cols=16", "batch=2 m=8 n=4 k=17"), 0U);
  EXPECT_EQ(found("batch=2 m=8 n=16 k=4", "rows=16 cols=16", "batch=3 m=8 n=4 k=16"), 0U);
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
