#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "rooftile/base/text.h"
#include "rooftile/reports/reports.h"
#include "rooftile/reports/sample_report.h"

namespace rooftile {
namespace {

using testing::ElementsAre;

TEST(OpsCsv, HeaderAndRowsAreTheContract) {
  const std::string csv = render_ops_csv(sample_report());
  EXPECT_THAT(
      split(csv, '\n'),
      ElementsAre(
          "name,kind,dtype,phase,dims,count,flop,bytes,bound,time_s,time_low_s,time_high_s,"
          "launch_s,compute_s,memory_s,power_s,measured_s,kernels,kernel,tile,blocks_per_sm,"
          "tensor_core,flop_per_byte,ridge_flop_per_byte,calls,total_s,p10_s,p90_s,share_of_busy,"
          "stage",
          "qkv,gemm,bf16,forward,m=4096 n=2304 k=768,12,14495514624,28704768,math,2.5e-05,2e-05,"
          "3e-05,2e-06,2e-05,1e-05,2.1e-05,,,,,,,504.986,295.29,,,,,,",
          "\"act, \"\"gelu\"\"\",elementwise,bf16,forward,fn=gelu elements=12582912,12,12582912,"
          "50331648,memory,1.7e-05,1.6e-05,2e-05,2e-06,0,1.5e-05,0,,,,,,,0.25,,,,,,,",
          "lm_head,gemm,bf16,forward,m=4096 n=50257 k=768,1,316193636352,495190016,math,0.002,"
          "0.0015,0.0025,0,0,0,0,,,,,,,638.53,,,,,,,",
          "mystery,other,fp32,forward,fn=MyOp,1,,,,,,,,,,,,,,,,,,,,,,,,", ""));
}

TEST(OpsCsv, LineEndsInNamesAreQuoted) {
  Report report = sample_unknown_report();
  report.ops[0].name = "a\nb";
  EXPECT_THAT(render_ops_csv(report), testing::HasSubstr("\na b,other,"));
}

// Four calls of 10, 10, 20 and 100 µs: the median lies between the middle two, p10 0.3 of the way
// from the first to the second, p90 0.7 of that from the third to the last. The GPU works for 280
// µs.
Report sample_recorded_report() {
  Report report = sample_unknown_report();
  RecordedRun run;
  run.calls = 4;
  run.total = microseconds(140);
  run.times = {microseconds(10), microseconds(10), microseconds(20), microseconds(100)};
  run.kernels = 2;
  run.kernel = "sm80_gemm<a, b>";
  run.tile = "128x64";
  run.tensor_core = true;
  run.blocks_per_sm = 1.5;
  run.all_kernels = {{run.kernel, KernelClass::gemm, "aten::mm", 4, microseconds(130), {}},
                     {"fill", KernelClass::fill, "aten::mm", 4, microseconds(10), {}}};
  report.kernels = run.all_kernels;
  report.ops[0].recorded = run;
  TraceSummary trace;
  trace.whole.gpu_busy = microseconds(280);
  trace.kernel_time = microseconds(280);
  trace.modules = {{"Net_0",
                    2,
                    microseconds(500),
                    8,
                    microseconds(140),
                    microseconds(70),
                    microseconds(140),
                    {microseconds(60), microseconds(80)}}};
  // 32 MiB in 2 ms: 16.8 GB/s of 32.
  trace.transfers = {{CopyKind::host_to_device, true, Bytes(16 * 1048576.0), 1, Bytes(33554432),
                      milliseconds(2), BytesPerSecond(16.8e9), BytesPerSecond(16.8e9),
                      BytesPerSecond(16.8e9)}};
  trace.queue.emplace();
  trace.queue->launches = 8;
  trace.queue->delay = {microseconds(4), microseconds(6), microseconds(9)};
  trace.queue->depth_median = 3;
  trace.queue->kernels = 8;
  trace.queue->below_5us = 2;
  trace.queue->below_10us = 4;
  trace.queue->bins = {{4, microseconds(6), 8.0, 4, 1, 2}, {}, {4, microseconds(6), 1.0, 4, 1, 2}};
  report.traces = TraceList({trace});
  report.links.host = BytesPerSecond(32e9);
  return report;
}

TEST(OpsCsv, RecordedRunsFillTheLastColumns) {
  EXPECT_THAT(render_ops_csv(sample_recorded_report()),
              testing::HasSubstr(",1.5e-05,2,\"sm80_gemm<a, b>\",128x64,1.5,yes,,"
                                 ",4,0.00014,1e-05,7.6e-05,0.5,\n"));
}

TEST(OpsText, ATraceHasItsCopiesAndLaunches) {
  const std::string text = render_ops_text(sample_recorded_report(), {}, {OpsRows::op, true});
  EXPECT_THAT(text, testing::ContainsRegex("  fill .* 4 +10.0 µs +3.6 %.* fill\n"));
  EXPECT_THAT(text, testing::ContainsRegex("host to GPU +pageable +from 16.0 MiB .* 16.8 GB/s .* "
                                           "52 % +32.0 GB/s\n"));
  EXPECT_THAT(text, testing::HasSubstr("6.00 µs after the call has returned"));
  EXPECT_THAT(text, testing::HasSubstr("Short kernels: 25 % of 8 below 5 µs"));
  EXPECT_THAT(text, testing::HasSubstr("Waiting over time: █ ▂ (up to 8)\n"));
}

TEST(OpsText, ByModuleAndByKernel) {
  const Report report = sample_recorded_report();
  EXPECT_THAT(render_ops_text(report, {}, {OpsRows::module, false}),
              testing::ContainsRegex("Net_0 +2 +140 µs +50 % +70.0 µs +8 +70.0 µs +62–78 µs"));
  EXPECT_THAT(render_ops_text(report, {}, {OpsRows::kernel, false}),
              testing::ContainsRegex("fill +4 +10.0 µs +3.6 %.* fill +aten::mm"));
  EXPECT_THAT(render_ops_csv(report, OpsRows::module),
              testing::HasSubstr("\nNet_0,2,8,0.00014,7e-05,0.00014,0.5,7e-05,6.2e-05,7.8e-05,"));
}

TEST(OpsJson, ATraceHasItsTables) {
  const auto trace = nlohmann::json::parse(render_ops_json(sample_recorded_report()))["trace"];
  EXPECT_EQ(trace["modules"][0]["calls"], 2);
  EXPECT_DOUBLE_EQ(trace["modules"][0]["call_s"]["median"], 70e-6);
  EXPECT_EQ(trace["copies"][0]["limit_bytes_per_s"], 32e9);
  EXPECT_EQ(trace["queue"]["bins"].size(), 3u);
  EXPECT_TRUE(trace["queue"]["bins"][1]["delay_s"].is_null());
  EXPECT_TRUE(nlohmann::json::parse(render_ops_json(sample_report()))["trace"].is_null());
}

TEST(OpsJson, RecordedRunsHoldAllTheirKernels) {
  const auto json = nlohmann::json::parse(render_ops_json(sample_recorded_report()));
  const auto& run = json["ops"][0]["recorded"];
  EXPECT_EQ(run["calls"], 4);
  EXPECT_DOUBLE_EQ(run["measured_s"], 15e-6);
  EXPECT_DOUBLE_EQ(run["share_of_busy"], 0.5);
  EXPECT_TRUE(run["stage"].is_null());
  ASSERT_EQ(run["all_kernels"].size(), 2u);
  EXPECT_EQ(run["all_kernels"][1]["name"], "fill");
}

TEST(OpsJson, UnknownIsNull) {
  const Report report = sample_report();
  const auto json = nlohmann::json::parse(render_ops_json(report));
  EXPECT_EQ(json["schema"], "rooftile-ops/1");
  EXPECT_EQ(json["notes"], report.notes);
  EXPECT_EQ(json["skipped"], report.skipped);
  ASSERT_EQ(json["ops"].size(), 4u);
  EXPECT_EQ(json["ops"][0]["flop"], 14495514624);
  EXPECT_DOUBLE_EQ(json["ops"][0]["time_s"]["low"], 2e-05);
  for (const char* key : {"flop", "bytes", "bound", "time_s"}) {
    EXPECT_TRUE(json["ops"][3][key].is_null()) << key;
  }
}

TEST(OpsText, SaysWhatTheTimesStandFor) {
  Report report = sample_report();
  report.notes = {"seq 1024 assumed"};
  EXPECT_THAT(render_ops_text(report),
              testing::AllOf(testing::HasSubstr("\n\n"), testing::HasSubstr("\nExpected time "),
                             testing::HasSubstr("\nNote: seq 1024 assumed\n"),
                             testing::HasSubstr("\nTimes cover ")));
}

// 14.5 GFLOP by 28.7 MB are 505 flop per byte; 989.4 TFLOPS by 3.35 TB/s are 295.
TEST(OpsText, IntensityStandsBesideTheRidge) {
  EXPECT_THAT(render_ops_text(sample_report()),
              testing::ContainsRegex("qkv .* 505 +295 +math, power .* 20–30"));
}

TEST(OpsText, SharesAreOfAllRuns) {
  // 12 runs of 25 µs in 10 ms.
  EXPECT_THAT(render_ops_text(sample_report()), testing::ContainsRegex("qkv .* 20–30 µs +3.0 %\n"));
}

}  // namespace
}  // namespace rooftile
