// What NVIDIA's deep learning performance guides state about models and operations, each with its
// smallest case and the neighbouring one that has to stay silent. Judged with all rules together,
// as a user sees it; the specs hold more cases of each rule.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <ostream>
#include <string>
#include <vector>

#include "rooftile/rooftile.h"
#include "rooftile/workload/training.h"
#include "rooftile/workload/workload_text.h"

namespace rooftile {
namespace {

Device gpu(std::string_view name) { return find_device(name).value(); }

Workload inference(std::string_view text) { return derive_inference(parse_workload(text).value()); }

std::vector<Finding> findings_of(std::string_view text, std::string_view device) {
  return check(inference(text), gpu(device)).findings;
}

bool has(const std::vector<Finding>& findings, std::string_view rule, Level least) {
  return std::ranges::any_of(findings, [&](const Finding& finding) {
    return finding.rule == rule && finding.level >= least;
  });
}

// Reported in any case, information included; or in none.
struct Case {
  std::string_view name, gpu, text, rule;
  bool reported;
};

void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }

class GuideCase : public testing::TestWithParam<Case> {};

TEST_P(GuideCase, IsReportedOrNot) {
  const Case& one = GetParam();
  EXPECT_EQ(has(findings_of(one.text, one.gpu), one.rule, Level::info), one.reported)
      << one.text << " on " << one.gpu << ": " << one.rule;
}

constexpr const char* kRow = "gemm/unaligned-row-stride";
constexpr const char* kChannels = "conv/unaligned-channels";
constexpr const char* kFirst = "conv/few-input-channels";
constexpr const char* kPersistent = "recurrent/one-change-from-persistent";
constexpr const char* kWrong = "precision/unsupported-dtype";
constexpr const char* kTiles = "gemm/partial-tiles";
constexpr const char* kWave = "gemm/partial-last-wave";
constexpr const char* kMemory = "gemm/memory-bound";

const Case kAlignment[] = {
    {"outputs_odd", "a100", "gemm g fp16 m=4096 n=4095 k=4096", kRow, true},
    {"outputs_of_8_bytes", "a100", "gemm g fp16 m=4096 n=4100 k=4096", kRow, true},
    {"outputs_aligned", "a100", "gemm g fp16 m=4096 n=4096 k=4096", kRow, false},
    {"inputs_odd", "a100", "gemm g fp16 m=4096 n=4096 k=4095", kRow, true},
    {"tokens_odd", "a100", "gemm g fp16 m=4095 n=4096 k=4096", kRow, false},
    {"tf32_of_2", "a100", "gemm g tf32 m=4096 n=4094 k=4096", kRow, true},
    {"tf32_of_4", "a100", "gemm g tf32 m=4096 n=4100 k=4096", kRow, false},
    {"int8_of_8", "a100", "gemm g int8 m=4096 n=4104 k=4096", kRow, true},
    {"int8_of_16", "a100", "gemm g int8 m=4096 n=4112 k=4096", kRow, false},
    {"fp8_of_8", "h100", "gemm g fp8 m=4096 n=4104 k=4096", "gemm/fp8-dims-not-multiple-of-16",
     true},
    {"fp8_of_16", "h100", "gemm g fp8 m=4096 n=4112 k=4096", "gemm/fp8-dims-not-multiple-of-16",
     false},
    {"fp16_of_8", "a100", "gemm g fp16 m=4096 n=4096 k=520", "gemm/partly-aligned-row", true},
    {"fp16_of_64", "a100", "gemm g fp16 m=4096 n=4096 k=512", "gemm/partly-aligned-row", false},
    {"int8_of_64", "a100", "gemm g int8 m=4096 n=576 k=4096", "gemm/partly-aligned-row", true},
    {"int8_of_128", "a100", "gemm g int8 m=4096 n=640 k=4096", "gemm/partly-aligned-row", false},
    {"sequence_125", "a100", "attention a fp16 batch=256 heads=12 q=125 kv=125 d=64 fused=0",
     "attention/odd-key-length", true},
    {"sequence_120", "a100", "attention a fp16 batch=256 heads=12 q=120 kv=120 d=64 fused=0",
     "attention/odd-key-length", false},
    // From 128 keys on a fused kernel mends it, and takes any length.
    {"sequence_197", "a100", "attention a fp16 batch=64 heads=12 q=197 kv=197 d=64 fused=0",
     "attention/unfused", true},
    {"sequence_197_fused", "a100", "attention a fp16 batch=64 heads=12 q=197 kv=197 d=64",
     "attention/odd-key-length", false},
    {"channels_in", "a100", "conv c fp16 n=32 c=30 k=64 in=56x56 kernel=3x3 pad=1x1 layout=nhwc",
     kChannels, true},
    {"channels_out", "a100", "conv c fp16 n=32 c=64 k=100 in=56x56 kernel=3x3 pad=1x1 layout=nhwc",
     kChannels, true},
    {"channels_tf32", "a100", "conv c tf32 n=32 c=66 k=64 in=56x56 kernel=3x3 pad=1x1 layout=nhwc",
     kChannels, true},
    {"channels_int8", "a100", "conv c int8 n=32 c=72 k=64 in=56x56 kernel=3x3 pad=1x1 layout=nhwc",
     kChannels, true},
    {"channels_64", "a100", "conv c fp16 n=32 c=64 k=64 in=56x56 kernel=3x3 pad=1x1 layout=nhwc",
     kChannels, false},
    {"channels_tf32_68", "a100",
     "conv c tf32 n=32 c=68 k=64 in=56x56 kernel=3x3 pad=1x1 layout=nhwc", kChannels, false},
    {"image_of_3", "v100",
     "conv c fp16 n=32 c=3 k=64 in=224x224 kernel=7x7 stride=2x2 pad=3x3 layout=nhwc", kFirst,
     true},
    {"image_of_4", "v100",
     "conv c fp16 n=32 c=4 k=64 in=224x224 kernel=7x7 stride=2x2 pad=3x3 layout=nhwc", kFirst,
     false},
    {"waveform", "t4", "conv c fp16 n=8 c=1 k=512 in=160000 kernel=10 stride=5", kFirst, false},
    {"lstm_650", "a100", "recurrent r fp16 cell=lstm batch=64 seq=50 input=650 hidden=650",
     "recurrent/unaligned-sizes", true},
    {"lstm_656", "a100", "recurrent r fp16 cell=lstm batch=64 seq=50 input=656 hidden=656",
     "recurrent/unaligned-sizes", false},
    {"embedding_100", "a100", "recurrent r fp16 cell=lstm batch=64 seq=50 input=100 hidden=200",
     kPersistent, true},
};

const Case kPrecision[] = {
    {"bf16_on_v100", "v100", "gemm g bf16 m=512 n=4096 k=4096", kWrong, true},
    {"bf16_on_t4", "t4", "gemm g bf16 m=512 n=4096 k=4096", kWrong, true},
    {"fp16_on_t4", "t4", "gemm g fp16 m=512 n=4096 k=4096", kWrong, false},
    {"bf16_on_a100", "a100", "gemm g bf16 m=512 n=4096 k=4096", kWrong, false},
    {"tf32_on_v100", "v100", "gemm g tf32 m=4096 n=4096 k=4096", kWrong, true},
    {"fp8_on_a100", "a100", "gemm g fp8 m=4096 n=4096 k=4096", kWrong, true},
    {"fp8_on_l40s", "l40s", "gemm g fp8 m=4096 n=4096 k=4096", kWrong, false},
    {"fp4_on_h100", "h100", "gemm g fp4 m=4096 n=4096 k=4096", kWrong, true},
    {"fp4_on_b200", "b200", "gemm g fp4 m=4096 n=4096 k=4096", kWrong, false},
    {"int8_on_v100", "v100", "gemm g int8 m=4096 n=4096 k=4096", kWrong, true},
    {"int4_on_h100", "h100", "gemm g int4 m=4096 n=4096 k=4096", kWrong, true},
    {"int4_on_a100", "a100", "gemm g int4 m=4096 n=4096 k=4096", kWrong, false},
    {"fp32_on_a100", "a100", "gemm g fp32 m=4096 n=4096 k=4096",
     "precision/fp32-on-tensor-core-gpu", true},
    {"fp32_on_p100", "p100", "gemm g fp32 m=4096 n=4096 k=4096",
     "precision/fp32-on-tensor-core-gpu", false},
    {"dense_weights", "a100", "gemm g fp16 m=4096 n=4096 k=4096", "gemm/dense-weights", true},
    {"dense_weights_on_v100", "v100", "gemm g fp16 m=4096 n=4096 k=4096", "gemm/dense-weights",
     false},
};

const Case kSizes[] = {
    {"few_tokens", "a100", "gemm g fp16 m=16 n=4096 k=4096", kMemory, true},
    {"tokens_64_on_v100", "v100", "gemm g fp16 m=64 n=4096 k=4096", kMemory, true},
    {"tokens_128_on_v100", "v100", "gemm g fp16 m=128 n=4096 k=4096", kMemory, true},
    {"tokens_256_on_v100", "v100", "gemm g fp16 m=256 n=4096 k=4096", kMemory, false},
    {"narrow_for_any_tokens", "a100", "gemm g fp16 m=65536 n=64 k=64", kMemory, true},
    {"one_row", "a100", "gemm g fp16 m=4 n=4095 k=4096", "gemm/single-row", true},
    {"many_rows", "a100", "gemm g fp16 m=256 n=4096 k=4096", "gemm/single-row", false},
    {"width_520", "a100", "gemm g fp16 m=4096 n=520 k=4096", kTiles, true},
    {"width_264", "a100", "gemm g fp16 m=4096 n=264 k=4096", kTiles, true},
    {"width_512", "a100", "gemm g fp16 m=4096 n=512 k=4096", kTiles, false},
    {"width_5128", "a100", "gemm g fp16 m=8192 n=5128 k=2048", kTiles, false},
    {"width_72_without_math", "a100", "gemm g fp16 m=64 n=72 k=4096", kTiles, false},
    {"channels_160", "a100", "conv c fp16 n=32 c=256 k=160 in=28x28 kernel=3x3 pad=1x1 layout=nhwc",
     "conv/channels-not-multiple-of-64", true},
    {"channels_256", "a100", "conv c fp16 n=32 c=256 k=256 in=28x28 kernel=3x3 pad=1x1 layout=nhwc",
     "conv/channels-not-multiple-of-64", false},
    {"wave_of_nine_tiles", "a100", "gemm g fp16 m=2304 n=1600 k=4096", kWave, true},
    {"one_full_wave", "a100", "gemm g fp16 m=2304 n=1536 k=4096", kWave, false},
    {"batch_256_of_convolutions", "a100",
     "conv c fp16 n=256 c=64 k=64 in=56x56 kernel=3x3 pad=1x1 layout=nhwc",
     "conv/partial-last-wave", false},
    {"depthwise", "a100",
     "conv c fp16 n=32 c=256 k=256 in=56x56 kernel=3x3 pad=1x1 groups=256 layout=nhwc",
     "conv/depthwise", true},
    {"dense", "a100", "conv c fp16 n=32 c=256 k=256 in=56x56 kernel=3x3 pad=1x1 layout=nhwc",
     "conv/depthwise", false},
    {"nchw", "a100", "conv c fp16 n=32 c=256 k=256 in=28x28 kernel=3x3 pad=1x1",
     "conv/nchw-on-tensor-cores", true},
    {"nhwc", "a100", "conv c fp16 n=32 c=256 k=256 in=28x28 kernel=3x3 pad=1x1 layout=nhwc",
     "conv/nchw-on-tensor-cores", false},
    {"small_recurrent", "a100", "recurrent r fp16 cell=lstm batch=64 seq=50 input=512 hidden=512",
     "recurrent/small", true},
    {"large_recurrent", "a100",
     "recurrent r fp16 cell=lstm batch=256 seq=50 input=1024 hidden=1024", "recurrent/small",
     false},
    {"batch_60", "a100", "recurrent r fp16 cell=lstm batch=60 seq=50 input=1024 hidden=1024",
     kPersistent, true},
    {"lstm_1000", "a100", "recurrent r fp16 cell=lstm batch=64 seq=50 input=1000 hidden=1000",
     kPersistent, true},
    {"lstm_1024", "a100", "recurrent r fp16 cell=lstm batch=64 seq=50 input=1024 hidden=1024",
     kPersistent, false},
    {"gates_apart", "a100",
     "gemm i fp16 m=64 n=512 k=512 from=x\n"
     "gemm f fp16 m=64 n=512 k=512 from=x\n"
     "gemm g fp16 m=64 n=512 k=512 from=x\n"
     "gemm o fp16 m=64 n=512 k=512 from=x\n",
     "gemm/split-projections", true},
    {"gates_that_fill_the_gpu", "a100",
     "gemm i fp16 m=8192 n=8192 k=8192 from=x\n"
     "gemm f fp16 m=8192 n=8192 k=8192 from=x\n",
     "gemm/split-projections", false},
    {"pointwise_chain", "a100",
     "elementwise a bf16 fn=add elements=8388608 from=x to=a\n"
     "elementwise b bf16 fn=mul elements=8388608 from=a to=b\n"
     "elementwise c bf16 fn=tanh elements=8388608 from=b to=c\n",
     "memory_bound/unfused-pointwise", true},
    {"gelu_as_one", "a100",
     "gemm g fp16 m=8192 n=4096 k=1024 from=x to=y\n"
     "elementwise a fp16 fn=gelu elements=33554432 from=y\n",
     "memory_bound/unfused-pointwise", false},
    {"mostly_pointwise", "a100",
     "gemm g fp16 m=8192 n=512 k=512 from=x to=y\n"
     "elementwise a fp16 fn=gelu elements=134217728 from=y\n",
     "memory_bound/dominates", true},
    {"mostly_products", "a100",
     "gemm g fp16 m=8192 n=4096 k=4096 from=x to=y\n"
     "elementwise a fp16 fn=gelu elements=33554432 from=y\n",
     "memory_bound/dominates", false},
};

const auto kName = [](const auto& info) { return std::string(info.param.name); };
INSTANTIATE_TEST_SUITE_P(Alignment, GuideCase, testing::ValuesIn(kAlignment), kName);
INSTANTIATE_TEST_SUITE_P(Precision, GuideCase, testing::ValuesIn(kPrecision), kName);
INSTANTIATE_TEST_SUITE_P(Sizes, GuideCase, testing::ValuesIn(kSizes), kName);

OpRow row_of(std::string_view text, std::string_view device) {
  return list_operations(inference(text), gpu(device)).ops.front();
}

// GPU Performance Background User's Guide, "Understanding Performance": 315 flop per byte at batch
// 512, about 1 at batch 1, on V100 with its 138.9.
TEST(Guides, IntensityAndRidgeStandBesideEachOther) {
  const OpRow wide = row_of("gemm g fp16 m=512 n=4096 k=1024", "v100");
  EXPECT_NEAR(wide.flop.value() / wide.bytes.value(), 315.08, 0.01);
  EXPECT_NEAR(wide.ridge.value().value(), 138.9, 0.1);
  EXPECT_EQ(wide.bound, "math");
  const OpRow thin = row_of("gemm g fp16 m=1 n=4096 k=1024", "v100");
  EXPECT_NEAR(thin.flop.value() / thin.bytes.value(), 0.999, 0.001);
  EXPECT_EQ(thin.bound, "memory");
}

// Peaks over bandwidths of the data sheets.
TEST(Guides, TheRidgeDependsOnGpuAndPrecision) {
  const auto ridge = [](std::string_view dtype, std::string_view device) {
    return row_of(fmt::format("gemm g {} m=4096 n=4096 k=4096", dtype), device)
        .ridge.value()
        .value();
  };
  EXPECT_NEAR(ridge("fp16", "a100"), 312e12 / 2.039e12, 0.5);
  EXPECT_NEAR(ridge("tf32", "a100"), 156e12 / 2.039e12, 0.5);
  EXPECT_NEAR(ridge("bf16", "h100"), 989e12 / 3.35e12, 0.5);
}

TEST(Guides, OperationsWithoutProductsWaitForMemory) {
  for (const char* text :
       {"elementwise r fp16 fn=relu elements=10000000",
        "pool p fp16 fn=max n=32 c=64 in=112x112 out=56x56 kernel=3x3",
        "norm b fp16 fn=batch rows=100352 cols=64", "norm l fp16 fn=layer rows=8192 cols=1024",
        "softmax s fp16 rows=8192 cols=1024"}) {
    EXPECT_EQ(row_of(text, "a100").bound, "memory") << text;
  }
  EXPECT_EQ(row_of("conv c fp16 n=32 c=256 k=256 in=28x28 kernel=3x3 pad=1x1", "a100").bound,
            "math");
}

// At 1 to 4 flop per byte no GPU waits for its Tensor Cores.
TEST(Guides, AttentionOverACacheWaitsForMemory) {
  for (const char* device : {"b200", "h100", "v100", "a100", "rtx_4090"}) {
    EXPECT_EQ(
        row_of("attention a fp16 batch=32 heads=32 kv_heads=8 q=1 kv=4096 d=128", device).bound,
        "memory")
        << device;
    // A cache of 67 MB stays in the L2 of a B200: then the launch is longer.
    EXPECT_NE(row_of("attention a fp16 batch=1 heads=32 q=1 kv=4096 d=128", device).bound, "math")
        << device;
  }
}

// Between memory and math, an odd width is never passed over in silence.
TEST(Guides, NoBlindWindowBetweenMemoryAndMath) {
  const auto speaks = [](int tokens, std::string_view device) {
    const auto found = findings_of(fmt::format("gemm g fp16 m={} n=4095 k=4096", tokens), device);
    return has(found, kRow, Level::advice) || has(found, kMemory, Level::advice);
  };
  for (const int tokens : {9, 16, 24, 32, 48, 64, 96, 128}) {
    for (const char* device : {"a100", "h100"})
      EXPECT_TRUE(speaks(tokens, device)) << tokens << ' ' << device;
  }
}

// What physics contradicts in a checklist is said where a reader looks it up.
TEST(Guides, PagesSayWhatIsNotReported) {
  const auto doc = [](std::string_view rule) { return std::string(find_rule(rule)->doc); };
  EXPECT_NE(doc(kRow).find("The number of tokens (m, the batch) need not be a multiple of 8"),
            std::string::npos);
  EXPECT_NE(doc(kRow).find("cuBLAS before 11.0 and cuDNN before 7.6.3"), std::string::npos);
  EXPECT_NE(doc("conv/partial-last-wave").find("divisible by 64, ideally 256"), std::string::npos);
}

// Doubling a layer takes less than twice the time while it does not fill the GPU.
TEST(Guides, LargerIsCheaperForEachUnit) {
  const TimeModel model(gpu("a100"));
  const auto time = [&](int tokens) {
    return model
        .estimate(
            parse_workload(fmt::format("gemm g fp16 m={} n=1024 k=1024", tokens))->ops.front())
        ->time.expected;
  };
  EXPECT_LT(time(2048), 2 * time(1024));
}

// Eight columns more cost a narrow layer more than a wide one: on average, for waves hide it.
TEST(Guides, SmallSizesMatterMost) {
  const TimeModel model(gpu("a100"));
  const auto mean_cost = [&](int width) {
    double sum = 0;
    const int heights[] = {512, 1024, 1536, 2048, 3072, 4096, 6144, 8192};
    for (const int tokens : heights) {
      const auto time = [&](int n) {
        const auto layer = parse_workload(fmt::format("gemm g bf16 m={} n={} k=2048", tokens, n));
        return model.estimate(layer->ops.front())->time.expected;
      };
      sum += time(width + 8) / time(width);
    }
    return sum / std::size(heights);
  };
  EXPECT_GT(mean_cost(512), mean_cost(5120));
}

}  // namespace
}  // namespace rooftile
