// What must hold of every estimate, on every GPU: a better GPU is never slower, more work never
// faster beyond the rounding of tiles, and the parts explain the total.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>

#include "rooftile/analysis/analysis.h"
#include "rooftile/analysis/time/time_model.h"
#include "rooftile/hardware/device_file.h"
#include "rooftile/workload/workload_text.h"

namespace rooftile {
namespace {

constexpr std::string_view kOps =
    "gemm g1 bf16 m=4096 n=4096 k=4096\n"
    "gemm g2 bf16 m=1 n=11008 k=4096\n"
    "gemm g3 bf16 m=64 n=64 k=16384\n"
    "gemm g4 fp16 m=8192 n=50257 k=768\n"
    "gemm g5 fp32 m=1000 n=1000 k=1000\n"
    "gemm g6 fp32 m=512 n=512 k=64 batch=192 layout=nn weight=activation\n"
    "gemm g7 fp8 out_dtype=bf16 m=4096 n=12288 k=4096\n"
    "gemm g8 bf16 m=2304 n=3072 k=4096 phase=wgrad\n"
    "conv c1 fp16 n=32 c=64 k=64 in=56x56 kernel=3x3 pad=1x1 layout=nhwc\n"
    "conv c2 fp32 n=32 c=256 k=512 in=28x28 kernel=1x1 stride=2x2\n"
    "conv c3 fp16 n=32 c=3 k=64 in=224x224 kernel=7x7 stride=2x2 pad=3x3\n"
    "conv c4 fp32 n=16 c=128 k=128 in=28x28 kernel=3x3 pad=1x1 phase=wgrad\n"
    "conv c5 fp16 n=16 c=96 k=96 groups=96 in=56x56 kernel=3x3 pad=1x1\n"
    "attention a1 bf16 batch=8 heads=32 q=2048 d=128 causal=1\n"
    "attention a2 bf16 batch=16 heads=32 kv_heads=8 q=1 kv=4096 d=128\n"
    "attention a3 fp16 batch=4 heads=16 q=512 d=64 fused=0\n"
    "recurrent r1 fp16 cell=lstm batch=64 seq=50 input=1024 hidden=1024\n"
    "norm n1 bf16 fn=layer rows=8192 cols=4096\n"
    "softmax s1 fp32 rows=65536 cols=512\n"
    "elementwise e1 bf16 fn=add elements=33554432 inputs=2\n"
    "embedding b1 bf16 vocab=50257 width=4096 lookups=8192\n"
    "layout l1 fp16 elements=33554432\n"
    "cast t1 fp32 out_dtype=bf16 elements=33554432\n"
    "optimizer o1 fp32 fn=adamw parameters=100000000\n";

constexpr std::array kDevices{"a100", "h100", "h200", "l40s", "v100", "t4", "p100", "rtx_pro_6000"};

std::vector<Op> sample_ops() {
  const auto workload = parse_workload(kOps);
  EXPECT_TRUE(workload) << to_string(workload.error());
  return workload ? workload->ops : std::vector<Op>{};
}

double seconds(const TimeModel& model, const Op& op) {
  const auto estimate = model.estimate(op);
  return estimate ? estimate->time.expected.value() : 0;
}

void scale_peaks(Device& device, double factor) {
  for (auto* peaks : {&device.tensor_core_peak, &device.cuda_core_peak}) {
    for (auto& [dtype, peak] : *peaks) peak = peak * factor;
  }
  if (device.power_limit) *device.power_limit = *device.power_limit * factor;
}

struct Improvement {
  const char* name;
  void (*apply)(Device& device);
  // Room for the mean over likely kernels, and, with other SMs, for tiles that fit them less well
  // and split keys that must be combined again.
  double tolerance;
};

constexpr std::array<Improvement, 3> kImprovements{{
    {"bandwidth", [](Device& d) { d.dram_bandwidth = d.dram_bandwidth * 1.5; }, 1.003},
    {"compute", [](Device& d) { scale_peaks(d, 1.5); }, 1.003},
    {"SMs",
     [](Device& d) {
       d.sms = d.sms * 3 / 2;
       scale_peaks(d, 1.5);
     },
     1.1},
}};

TEST(TimeProperties, ABetterGpuIsNeverSlower) {
  for (const char* name : kDevices) {
    Device device = *find_device(name);
    const TimeModel before(device);
    for (const Improvement& improvement : kImprovements) {
      Device better = device;
      better.id = "better";
      improvement.apply(better);
      // The same constants: a GPU under another name would lose those of its own.
      Device same = device;
      same.id = "better";
      const TimeModel reference(same), after(better);
      for (const Op& op : sample_ops()) {
        EXPECT_LE(seconds(after, op), improvement.tolerance * seconds(reference, op))
            << name << ", more " << improvement.name << ": " << to_text(op);
      }
    }
  }
}

// Doubles one size of an operation.
struct Growth {
  const char* key;
  std::function<bool(Op&)> apply;
};

template <class Body>
Growth growth(const char* key, std::int64_t Body::*size) {
  return {key, [size](Op& op) {
            auto* body = std::get_if<Body>(&op.body);
            if (body) body->*size *= 2;
            return body != nullptr;
          }};
}

std::vector<Growth> growths() {
  return {growth("m", &Gemm::m),
          growth("n", &Gemm::n),
          growth("k", &Gemm::k),
          growth("batch", &Gemm::batch),
          growth("conv n", &Convolution::n),
          growth("conv k", &Convolution::k),
          growth("attention batch", &Attention::batch),
          growth("kv", &Attention::kv_len),
          growth("hidden", &Recurrent::hidden),
          growth("seq", &Recurrent::seq),
          growth("rows", &Normalization::rows),
          growth("cols", &Softmax::cols),
          growth("elements", &Elementwise::elements)};
}

// A doubled size may meet a better tile, or a better alignment, but not by much.
TEST(TimeProperties, MoreWorkIsNotFaster) {
  constexpr double kRounding = 0.97;
  for (const char* name : kDevices) {
    const TimeModel model(*find_device(name));
    for (const Op& op : sample_ops()) {
      for (const Growth& growth : growths()) {
        Op larger = op;
        // Depthwise convolutions have groups, and odd sizes an alignment, that doubling changes.
        if (op.name == "c5" || op.name == "g4" || !growth.apply(larger)) continue;
        EXPECT_GE(seconds(model, larger), kRounding * seconds(model, op))
            << name << ", twice " << growth.key << ": " << to_text(op);
      }
    }
  }
}

// 8 columns beyond a multiple of 64 start tiles of their own. What the library prefers for each
// width may hide that, by up to 3 %.
TEST(TimeProperties, ColumnsBeyondAMultipleOf64AreNotFaster) {
  constexpr double kChoice = 0.97;
  for (const char* name : kDevices) {
    const TimeModel model(*find_device(name));
    for (const std::int64_t m : {128, 1000, 2304, 8192}) {
      for (const std::int64_t n : {64, 192, 512, 1408, 5120, 9600}) {
        for (const std::int64_t k : {256, 1408, 2048, 5824}) {
          Op aligned, more;
          aligned.dtypes = more.dtypes = Dtypes(Dtype::fp16);
          aligned.body = Gemm{.m = m, .n = n, .k = k};
          more.body = Gemm{.m = m, .n = n + 8, .k = k};
          EXPECT_GE(seconds(model, more), kChoice * seconds(model, aligned))
              << name << " " << m << " " << n << " " << k;
        }
      }
    }
  }
}

// NVIDIA, Get Started With Deep Learning Performance: 512 instead of 520 outputs gains more than
// 5120 instead of 5128. A wave may start at either for a single m, so over many.
TEST(TimeProperties, TheSmallestParameterMattersMost) {
  for (const char* name : {"a100", "h100", "h200", "l40s", "v100", "t4", "rtx_pro_6000", "b200"}) {
    const TimeModel model(*find_device(name));
    const auto cost_of_8_more = [&](std::int64_t n) {
      double product = 1;
      int count = 0;
      for (std::int64_t m = 256; m <= 8192; m += 256, ++count) {
        Op aligned, more;
        aligned.dtypes = more.dtypes = Dtypes(Dtype::fp16);
        aligned.body = Gemm{.m = m, .n = n, .k = 2048};
        more.body = Gemm{.m = m, .n = n + 8, .k = 2048};
        product *= seconds(model, more) / seconds(model, aligned);
      }
      return std::pow(product, 1.0 / count);
    };
    EXPECT_GT(cost_of_8_more(512), cost_of_8_more(5120) + 0.02) << name;
  }
}

TEST(TimeProperties, PartsExplainTheTotal) {
  for (const char* name : kDevices) {
    const TimeModel model(*find_device(name));
    for (const Op& op : sample_ops()) {
      const auto estimate = model.estimate(op);
      ASSERT_TRUE(estimate);
      const Seconds expected = estimate->time.expected;
      const Seconds overlapped = std::max({estimate->compute, estimate->memory, estimate->power});
      const Seconds sum = estimate->launch + estimate->compute + estimate->memory + estimate->power;
      EXPECT_LE(overlapped, expected * 1.02) << name << ": " << to_text(op);
      EXPECT_GE(sum, expected * 0.9) << name << ": " << to_text(op);
      EXPECT_LE(estimate->time.low, expected);
      EXPECT_GE(estimate->time.high, expected);
    }
  }
}

TEST(TimeProperties, AGpuWithTheRequiredNumbersOnlyIsPredictedWithAWiderRange) {
  Device known = *find_device("h100");
  Device bare = known;
  bare.id = "mine";
  bare.shared_memory_per_sm.reset();
  bare.power_limit.reset();
  bare.nvlink_bandwidth.reset();
  bare.pcie_bandwidth.reset();
  bare.cuda_core_clock.reset();
  bare.tensor_core_peak.erase(Dtype::fp8);
  const TimeModel model(bare), reference(known);
  for (const Op& op : sample_ops()) {
    const auto estimate = model.estimate(op), sure = reference.estimate(op);
    ASSERT_TRUE(estimate && sure);
    const auto width = [](const TimeEstimate& e) { return e.time.high / e.time.low; };
    EXPECT_GE(width(*estimate), 0.999 * width(*sure)) << to_text(op);
  }
}

struct Floor {
  double flop, bytes;
};

void expect_above_floor(const Device& device, const Op& op, FlopPerSecond peak, Floor floor) {
  const auto estimate = TimeModel(device).estimate(op);
  ASSERT_TRUE(estimate);
  const double math = floor.flop / peak.value();
  const double memory = (floor.bytes - device.l2_size.value()) / device.dram_bandwidth.value();
  constexpr double kRounding = 1e-9;
  EXPECT_GE(estimate->time.low.value(), (1 - kRounding) * std::max(math, memory))
      << device.id << ": " << to_text(op);
  EXPECT_GT(estimate->time.expected, estimate->time.low) << device.id << ": " << to_text(op);
}

// m·n·k of the product, 2 flop each; both operands once and the output.
void expect_gemm_above_floor(const Device& device, Dtype dtype, FlopPerSecond peak, Gemm gemm) {
  const Dtype out = size_in_bytes(dtype) < 2 ? Dtype::bf16 : dtype;
  Op op;
  op.dtypes = {dtype, dtype, out};
  op.body = gemm;
  const double m = to_double(gemm.m), n = to_double(gemm.n), k = to_double(gemm.k);
  const double bytes = size_in_bytes(dtype) * (m * k + n * k) + size_in_bytes(out) * m * n;
  expect_above_floor(device, op, peak, {2 * m * n * k, bytes});
}

// No clock is above the one of the data sheet's rates, and L2 is the only memory beside DRAM.
TEST(TimeProperties, NoGemmIsFasterThanTheDataSheetAllows) {
  for (const Device& device : built_in_devices()) {
    std::map<Dtype, FlopPerSecond> peaks = device.tensor_core_peak;
    peaks.insert(device.cuda_core_peak.begin(), device.cuda_core_peak.end());
    peaks.erase(Dtype::fp64);
    for (const auto& [dtype, peak] : peaks) {
      for (const Gemm& gemm :
           {Gemm{.m = 8192, .n = 8192, .k = 8192}, Gemm{.m = 4096, .n = 4096, .k = 4096},
            Gemm{.m = 2048, .n = 2048, .k = 16384}, Gemm{.m = 1, .n = 131072, .k = 8192},
            Gemm{.m = 64, .n = 65536, .k = 8192}}) {
        expect_gemm_above_floor(device, dtype, peak, gemm);
      }
    }
  }
}

// What each pass over memory moves, by hand.
TEST(TimeProperties, NoPassOverMemoryIsFasterThanItsBytes) {
  struct Case {
    std::string_view op;
    double bytes;
  };
  constexpr double kElements = 268435456;  // 2^28
  constexpr std::array<Case, 7> kCases{{
      {"elementwise e bf16 fn=add elements=268435456 inputs=2", 6 * kElements},
      {"norm n bf16 fn=layer rows=32768 cols=8192", 4 * kElements},
      {"softmax s fp32 rows=32768 cols=8192", 8 * kElements},
      {"layout l fp16 elements=268435456", 4 * kElements},
      {"cast t fp32 out_dtype=bf16 elements=268435456", 6 * kElements},
      {"optimizer o fp32 fn=adamw parameters=268435456", 28 * kElements},
      // Keys and values of 64 sequences of 8,192 tokens, 8 heads of 2 x 128.
      {"attention a fp16 batch=64 heads=32 kv_heads=8 q=1 kv=8192 d=128",
       2.0 * 64 * 8192 * 8 * 256},
  }};
  for (const Device& device : built_in_devices()) {
    for (const auto& [line, bytes] : kCases) {
      const Op op = parse_workload(std::string(line) + "\n")->ops.front();
      expect_above_floor(device, op, FlopPerSecond(1), {0, bytes});
    }
  }
}

// A decode step of Llama-3-8B behind 4,096 tokens: 32 layers of 4096 x (4096 + 2 x 1024 + 4096 + 3
// x 14336) weights, a head of 128,256 x 4096 and a cache of 32 x 4097 x 2 x 1024 elements, 2 bytes
// each. One layer's cache would fit the L2 of many GPUs, but all others pass before it is read
// again.
TEST(TimeProperties, NoStepIsFasterThanItsWeightsAndCacheComeFromDram) {
  constexpr std::string_view kStep =
      "gemm q bf16 m=1 n=4096 k=4096 count=32\n"
      "gemm k bf16 m=1 n=1024 k=4096 count=32\n"
      "gemm v bf16 m=1 n=1024 k=4096 count=32\n"
      "attention a bf16 batch=1 heads=32 kv_heads=8 q=1 kv=4097 d=128 count=32\n"
      "gemm o bf16 m=1 n=4096 k=4096 count=32\n"
      "gemm gate bf16 m=1 n=14336 k=4096 count=32\n"
      "gemm up bf16 m=1 n=14336 k=4096 count=32\n"
      "gemm down bf16 m=1 n=4096 k=14336 count=32\n"
      "gemm head bf16 m=1 n=128256 k=4096\n";
  constexpr double kWeights = 4096.0 * (32 * (2 * 4096 + 2 * 1024 + 3 * 14336) + 128256);
  constexpr double kCache = 32.0 * 4097 * 2 * 1024;
  const auto workload = parse_workload(kStep);
  ASSERT_TRUE(workload) << to_string(workload.error());
  for (const Device& device : built_in_devices()) {
    const double dram = 2 * (kWeights + kCache) - device.l2_size.value();
    const Range<Seconds> total = analyse(*workload, TimeModel(device)).total;
    EXPECT_GE(total.low.value(), 0.999999 * dram / device.dram_bandwidth.value()) << device.id;
  }
}

// A cache of 17 MB stays in L2 until the next step where 512 layers share 2 MB of weights, and does
// not where each has its own.
TEST(TimeProperties, WeightsThatLayersShareLeaveRoomForTheCache) {
  const TimeModel h100(*find_device("h100"));
  const auto cache_time = [&](const std::string& parameters) {
    const auto workload =
        parse_workload("workload " + parameters +
                       "\ngemm a bf16 m=1 n=1024 k=1024 count=512\n"
                       "attention b bf16 batch=1 heads=32 kv_heads=8 q=1 kv=4096 d=128\n");
    EXPECT_TRUE(workload) << to_string(workload.error());
    return analyse(*workload, h100).ops.at(1).time->time.expected;
  };
  const Seconds apart = cache_time("parameters=536870912");
  EXPECT_LT(cache_time("parameters=1048576"), apart);
  EXPECT_EQ(cache_time("batch=1"), apart) << "what the reader does not say is not shared";
  EXPECT_EQ(cache_time("parameters=600000000"), apart) << "biases and other parameters";
}

}  // namespace
}  // namespace rooftile
