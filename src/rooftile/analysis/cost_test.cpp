#include "rooftile/analysis/cost.h"

#include <gtest/gtest.h>

#include "rooftile/workload/workload_text.h"

namespace rooftile {
namespace {

Op op_of(std::string_view text) {
  const auto workload = parse_workload(text);
  EXPECT_TRUE(workload) << text;
  return workload->ops.at(0);
}

struct CostCase {
  std::string_view text;
  double flop, bytes;
  std::string_view derivation;
};

TEST(Cost, WorkAndMinimalTraffic) {
  const CostCase cases[] = {
      {"gemm a fp16 m=2 n=3 k=5", 60, 2 * (10 + 15 + 6), "2mnk; each operand once"},
      {"gemm a fp16 m=2 n=3 k=5 phase=wgrad", 60, 62, "the same product sizes"},
      {"gemm a fp16 m=2 n=3 k=5 batch=4", 240, 248, "four of them"},
      {"gemm a fp16 m=2 n=3 k=5 weight=activation phase=dgrad", 120, 124, "a gradient for each"},
      {"gemm a bf16 m=2 n=4 k=8 weight_dtype=int4 out_dtype=fp32", 128, 32 + 16 + 32,
       "4-bit weights, 4-byte output"},
      {"conv a fp16 n=1 c=2 k=4 in=8x8 kernel=3 pad=1", 2.0 * 64 * 4 * 18, 2 * (128 + 72 + 256),
       "2·P·Q·K·C·R·S"},
      {"conv a fp16 n=1 c=2 k=4 in=8x8 kernel=3 stride=2 pad=1 phase=dgrad", 2.0 * 16 * 4 * 18,
       2 * (128 + 72 + 64), "inserted zeros are not work"},
      {"conv a fp16 n=1 c=4 k=2 in=4x4 kernel=2 stride=2 transposed=1", 2.0 * 16 * 4 * 2 * 4,
       2 * (64 + 32 + 128), "each input meets each tap once"},
      {"conv a fp16 n=1 c=8 k=8 in=4x4 kernel=3 pad=1 groups=8", 2.0 * 16 * 8 * 9,
       2 * (128 + 72 + 128), "depthwise"},
      {"attention a fp16 batch=1 heads=2 q=4 d=8", 2.0 * 2 * 2 * 4 * 4 * 8, 2 * 4 * 2 * 4 * 8,
       "two products; q, k, v, out"},
      {"attention a fp16 batch=1 heads=1 q=4 d=8 causal=1", 2.0 * 2 * 10 * 8, 2 * 4 * 4 * 8,
       "1+2+3+4 visible pairs"},
      {"attention a fp16 batch=1 heads=1 q=4 d=8 causal=1 window=2", 2.0 * 2 * 7 * 8, 2 * 4 * 4 * 8,
       "1+2+2+2 visible pairs"},
      {"attention a fp16 batch=1 heads=1 q=2 kv=6 d=8 causal=1", 2.0 * 2 * 11 * 8,
       2 * (2 * 16 + 2 * 48), "5+6 visible pairs"},
      {"attention a fp16 batch=1 heads=1 q=2 kv=6 d=8 causal=1 window=3", 2.0 * 2 * 6 * 8,
       2 * (2 * 16 + 2 * 32), "3+3 visible pairs; the two windows hold four keys"},
      {"attention a fp16 batch=1 heads=8 kv_heads=2 q=1 kv=64 d=16", 2.0 * 2 * 8 * 64 * 16,
       2 * (2 * 8 * 16 + 2 * 2 * 64 * 16), "grouped queries share keys"},
      {"recurrent a fp16 cell=lstm batch=2 seq=3 input=4 hidden=5", 2.0 * 6 * 20 * (4 + 5),
       2 * (4 * 5 * 9 + 40 + 6 * (4 + 5)), "8·T·B·H·(I+H)"},
      {"norm a fp16 fn=layer rows=10 cols=10", 800, 400, "read once, written once"},
      {"elementwise a fp16 fn=relu elements=100", 100, 400, "intensity 0.25"},
      {"elementwise a fp16 fn=add elements=100 inputs=2", 100, 600, "two in, one out"},
      {"embedding a fp32 vocab=1000 width=64 lookups=96 bags=24", 96 * 64,
       4 * 64 * (96 + 24) + 16 * (96 + 24), "rows in, sums out; index and bag of each, and ends"},
      {"embedding a fp32 vocab=1000 width=64 lookups=4 bags=1", 4 * 64, 4 * 64 * (4 + 1) + 16 * 5,
       "one bag is summed like many"},
      {"embedding a fp32 vocab=1000 width=64 lookups=96 bags=24 phase=wgrad", 96 * 64,
       4 * 64 * (1000 + 2 * 96 + 24) + 8 * 96,
       "zeros of the whole table; rows read and written, a gradient for each bag"},
      {"recurrent a fp32 cell=lstm batch=3 seq=5 input=8 hidden=16 packed=1 tokens=10",
       2.0 * 10 * 64 * (8 + 16), 4 * (64 * (8 + 16 + 2) + 10 * (8 + 16)),
       "ten steps of sequences, whatever the longest is"},
      {"conv a fp16 n=2 c=4 k=8 in=4x4 kernel=1", 2.0 * 2 * 16 * 8 * 4, 2 * (128 + 32 + 256),
       "pointwise: a product over the positions"},
      {"pool a fp16 fn=max n=1 c=2 in=4x4 out=2x2 kernel=2x2", 2.0 * 4 * 4, 2 * (32 + 8),
       "a comparison for each element of the window; read once, written once"},
      {"embedding a fp16 vocab=9 width=8 lookups=4", 0, 2 * 2 * 32 + 32, "rows and indices"},
      {"optimizer a fp32 fn=adamw parameters=10", 120, 280, "7 tensors of fp32"},
      {"cast a fp32 elements=10 out_dtype=bf16", 0, 60, "4 + 2 bytes"},
      {"softmax a fp16 rows=10 cols=10", 500, 400, "read once, written once"},
      {"softmax a fp16 rows=10 cols=10 phase=dgrad", 500, 600, "the result and its gradient"},
      {"norm a fp16 fn=layer rows=10 cols=10 phase=dgrad", 800, 600, "the input and the gradient"},
      {"elementwise a fp16 fn=mul elements=100 inputs=2 phase=dgrad", 400, 1000,
       "a gradient of each"},
      {"elementwise a fp16 fn=add elements=100 inputs=2 phase=dgrad", 100, 600, "one for both"},
      {"elementwise a fp16 fn=where elements=100 inputs=3", 200, 800, "three in"},
      {"elementwise a fp16 fn=relu elements=100 moved_bytes=1000", 100, 1000, "as it is stated"},
      {"reduce a fp16 fn=sum elements=100 outputs=10", 100, 220, "all in, the sums out"},
      {"layout a fp16 elements=100", 0, 400, "read once, written once"},
      {"collective a fp16 fn=all_reduce elements=100 ranks=2", 0, 200, "the tensor"},
      {"optimizer a fp32 fn=sgd parameters=10", 120, 120, "3 tensors"},
      {"optimizer a fp32 fn=momentum parameters=10", 120, 200, "5 tensors"},
      {"optimizer a fp32 fn=adafactor parameters=10", 120, 120, "3 tensors"},
      {"other a fp16 fn=custom flop=7 bytes=9", 7, 9, "as it is stated"},
      {"embedding a fp16 vocab=9 width=8 lookups=4 phase=wgrad", 32, 2 * (72 + 3 * 32) + 32,
       "zeros of the table; rows read and written, a gradient for each"},
      {"attention a fp16 batch=1 heads=2 q=4 kv=6 d=8 fused=0", 2.0 * 2 * 2 * 24 * 8,
       2 * (4 * 2 * 16 + 4 * 48 + 2 * 96), "scores four times"},
      {"attention a fp16 batch=1 heads=2 q=4 d=8 phase=dgrad", 5 * 512, 2 * 512,
       "five products; twice the tensors"},
      {"attention a fp16 batch=1 heads=2 q=4 d=8 fused=0 phase=dgrad", 4 * 512,
       2 * 2 * (256 + 4 * 32), "nothing computed again"},
      {"attention a fp16 batch=1 heads=2 q=4 kv=40 d=8 window=3", 2.0 * 2 * 2 * 4 * 3 * 8,
       2 * (128 + 2 * 6 * 16), "3 keys for each of 4 queries, 6 in all"},
      {"attention a fp16 batch=1 heads=1 q=4 d=8 dv=4", 2.0 * 16 * (8 + 4), 2 * 4 * 2 * (8 + 4),
       "values of another width"},
      {"recurrent a fp16 cell=gru batch=2 seq=3 input=4 hidden=5 layers=2 directions=2",
       2.0 * 6 * 15 * 2 * (4 + 10 + 2 * 5),
       2 * (2 * 15 * (4 + 10 + 2 * 5 + 2 * 2) + 6 * (4 + 3 * 10)),
       "the second layer reads both directions"},
      {"recurrent a fp16 cell=lstm batch=2 seq=3 input=4 hidden=5 projection=2",
       2.0 * 6 * (20 * (4 + 2) + 2 * 5), 2 * (20 * (4 + 2 + 2) + 10 + 6 * (4 + 2)),
       "projected states"},
      {"recurrent a fp16 cell=lstm batch=2 seq=3 input=4 hidden=5 phase=wgrad", 2160, 548,
       "the same products"},
      {"conv a fp16 n=1 c=2 k=4 in=8x8 kernel=3 pad=1 phase=wgrad", 2.0 * 64 * 4 * 18,
       2 * (128 + 72 + 256), "the same products"},
      {"conv a fp16 n=1 c=4 k=2 in=4x4 kernel=2 stride=2 transposed=1 phase=dgrad",
       2.0 * 16 * 4 * 2 * 4, 2 * (64 + 32 + 128), "the same products"},
  };
  for (const CostCase& c : cases) {
    const Cost cost = count_cost(op_of(c.text));
    EXPECT_DOUBLE_EQ(cost.flop.value(), c.flop) << c.text << ": " << c.derivation;
    EXPECT_DOUBLE_EQ(cost.bytes.value(), c.bytes) << c.text << ": " << c.derivation;
  }
}

// Brute force over query and key positions.
TEST(Cost, VisiblePairsOfCausalWindows) {
  for (int q = 1; q <= 6; ++q) {
    for (int kv = q; kv <= 9; ++kv) {
      for (int window = 0; window <= 10; ++window) {
        double pairs = 0;
        for (int i = 0; i < q; ++i) {
          for (int j = 0; j < kv; ++j) {
            const int last = kv - q + i;
            if (j <= last && (window == 0 || j > last - window)) ++pairs;
          }
        }
        Op op;
        op.body = Attention{1, 1, 1, q, kv, 1, 1, true, window, true};
        EXPECT_NEAR(count_cost(op).flop.value(), 4 * pairs, 1e-9)
            << "q " << q << " kv " << kv << " window " << window;
      }
    }
  }
}

}  // namespace
}  // namespace rooftile
