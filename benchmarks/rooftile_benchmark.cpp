// The stages of a check, each alone.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <string>

#include "rooftile/rooftile.h"
#include "rooftile/workload/training.h"
#include "rooftile/workload/workload_text.h"

namespace rooftile {
namespace {

// A decoder of `layers` layers in text form; every other one has an unaligned width.
std::string decoder_text(int layers) {
  std::string text;
  for (int i = 0; i < layers; ++i) {
    const std::string at = "layers." + std::to_string(i);
    const std::string mlp = i % 2 == 0 ? "11008" : "10922";
    text += "norm " + at + ".norm bf16 fn=rms rows=4096 cols=4096\n";
    text += "gemm " + at + ".qkv bf16 m=4096 n=12288 k=4096\n";
    text += "attention " + at + ".attention bf16 batch=2 heads=32 q=2048 d=128 causal=1\n";
    text += "gemm " + at + ".out bf16 m=4096 n=4096 k=4096\n";
    text += "gemm " + at + ".up bf16 m=4096 n=" + mlp + " k=4096\n";
    text += "gemm " + at + ".down bf16 m=4096 n=4096 k=" + mlp + "\n";
  }
  return text;
}

void start_up(benchmark::State& state) {
  for ([[maybe_unused]] auto _ : state) {
    if (std::system(ROOFTILE_BINARY " --version > /dev/null") != 0) state.SkipWithError("failed");
  }
}
BENCHMARK(start_up)->Unit(benchmark::kMillisecond)->UseRealTime();

void parse_text(benchmark::State& state) {
  const std::string text = decoder_text(1000);
  for ([[maybe_unused]] auto _ : state) benchmark::DoNotOptimize(parse_workload(text));
  state.SetItemsProcessed(state.iterations() * 6000);
}
BENCHMARK(parse_text)->Unit(benchmark::kMillisecond);

// Linear layers of many sizes; measured shapes and shapes between them.
std::vector<Op> linear_layers(Dtype dtype) {
  std::vector<Op> ops;
  for (std::int64_t m : {1, 16, 100, 512, 1000, 4096, 8192}) {
    for (std::int64_t n = 512; n <= 16384; n += 1016) {
      for (std::int64_t k : {64, 1024, 4096, 14336}) {
        Op op;
        op.body = Gemm{.m = m, .n = n, .k = k};
        op.dtypes = Dtypes(dtype);
        ops.push_back(std::move(op));
      }
    }
  }
  return ops;
}

void predict_gemms(benchmark::State& state, const char* gpu, bool residual,
                   Dtype dtype = Dtype::bf16) {
  Device device = *find_device(gpu);
  if (!residual) device.time_model = R"({"residual": false})";
  const TimeModel model(device);
  const std::vector<Op> ops = linear_layers(dtype);
  for ([[maybe_unused]] auto _ : state) {
    for (const Op& op : ops) benchmark::DoNotOptimize(model.estimate(op));
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(ops.size()));
}
BENCHMARK_CAPTURE(predict_gemms, h100_without_residual, "h100_sxm", false);
BENCHMARK_CAPTURE(predict_gemms, h100_with_residual, "h100_sxm", true);
BENCHMARK_CAPTURE(predict_gemms, h200_with_residual, "h200_sxm", true);
BENCHMARK_CAPTURE(predict_gemms, a100_without_residual, "a100_sxm_80gb", false);
BENCHMARK_CAPTURE(predict_gemms, t4_fp32_without_residual, "t4", false, Dtype::fp32);
BENCHMARK_CAPTURE(predict_gemms, t4_fp32_with_residual, "t4", true, Dtype::fp32);

void check_decoder(benchmark::State& state) {
  const Device device = *find_device("h100_sxm");
  const Workload workload = derive_training(*parse_workload(decoder_text(100)));
  for ([[maybe_unused]] auto _ : state) benchmark::DoNotOptimize(check(workload, device));
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(workload.ops.size()));
}
BENCHMARK(check_decoder)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace rooftile
