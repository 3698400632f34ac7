#include "rooftile/workload/workload_bytes.h"

#include <gtest/gtest.h>

#include "rooftile/workload/workload_text.h"

namespace rooftile {
namespace {

// Every kind, with fields off their defaults.
constexpr std::string_view kText =
    "workload mode=training graph=runtime parameters=124 batch=8 sequence=64 kv_cache_bytes=12 "
    "recurrent_state_bytes=7 "
    "weight_bytes=99 unused=--seq "
    "source=a.onnx\n"
    "gemm g fp8 out_dtype=bf16 m=2 n=3 k=5 batch=7 layout=tn bias=1 x_stride=9 from=x,y to=z\n"
    "conv c fp16 n=2 c=8 k=16 in=7x9 kernel=3x3 stride=2x2 pad=1x1 pad_end=0x1 groups=4 "
    "layout=nhwc phase=wgrad\n"
    "attention a bf16 batch=1 heads=8 kv_heads=2 q=4 kv=9 d=64 dv=32 causal=1 window=5 fused=0\n"
    "recurrent r fp32 cell=gru batch=1 seq=2 input=3 hidden=4 layers=2 directions=2\n"
    "norm n fp32 fn=rms rows=3 cols=4 measured_s=0.25\n"
    "softmax s fp32 rows=3 cols=1000000000000\n"
    "pool p fp32 fn=average n=1 c=2 in=4x4 out=2x2 kernel=2x2 count=12\n"
    "elementwise e fp32 fn=add elements=5 inputs=2 walk=strided moved_bytes=44 walked=7 "
    "node=%20x module=m.0\n"
    "reduce d fp32 fn=sum elements=8 outputs=2\n"
    "embedding b fp32 vocab=9 width=8 lookups=7\n"
    "layout l fp32 elements=24 perm=0x2x3x1\n"
    "cast t fp32 out_dtype=fp16 elements=4\n"
    "collective o fp32 fn=all_to_all elements=4 ranks=8 link=pcie\n"
    "optimizer w fp32 fn=adamw parameters=100\n"
    "other u fp32 fn=scan flop=5 bytes=6\n"
    "skipped Loop 3\n"
    "note a%20note\n";

Workload sample() {
  const auto workload = parse_workload(kText, "a.onnx");
  EXPECT_TRUE(workload) << to_string(workload.error());
  return workload.value_or(Workload{});
}

TEST(WorkloadBytes, ReadBackTheSame) {
  const Workload workload = sample();
  EXPECT_EQ(workload.ops.size(), std::variant_size_v<Body>);
  const auto again = workload_from_bytes(to_bytes(workload));
  ASSERT_TRUE(again) << to_string(again.error());
  EXPECT_EQ(*again, workload);
}

TEST(WorkloadBytes, CutAnywhereIsAnError) {
  const std::string bytes = to_bytes(sample());
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_FALSE(workload_from_bytes(std::string_view(bytes).substr(0, length))) << length;
  }
  EXPECT_FALSE(workload_from_bytes(bytes + "x"));
}

TEST(WorkloadBytes, DimsOutOfRangeAreAnError) {
  Workload workload;
  workload.ops.emplace_back().body = Softmax{-5, 3};
  const auto read = workload_from_bytes(to_bytes(workload));
  ASSERT_FALSE(read);
  EXPECT_NE(read.error().message.find("rows=-5"), std::string::npos) << read.error().message;
}

TEST(WorkloadBytes, ABatchOutOfRangeIsAnError) {
  Workload workload;
  workload.batch = -1;
  EXPECT_FALSE(workload_from_bytes(to_bytes(workload)));
}

TEST(WorkloadBytes, UnknownEnumeratorsAreAnError) {
  Workload workload;
  workload.ops.emplace_back().body = Softmax{2, 3};
  workload.ops.back().dtypes = Dtypes(Dtype{99});
  EXPECT_FALSE(workload_from_bytes(to_bytes(workload)));
}

}  // namespace
}  // namespace rooftile
