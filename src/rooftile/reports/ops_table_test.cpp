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
          "tensor_core,flop_per_byte,ridge_flop_per_byte",
          "qkv,gemm,bf16,forward,m=4096 n=2304 k=768,12,14495514624,28704768,math,2.5e-05,2e-05,"
          "3e-05,2e-06,2e-05,1e-05,2.1e-05,,,,,,,504.986,295.29",
          "\"act, \"\"gelu\"\"\",elementwise,bf16,forward,fn=gelu elements=12582912,12,12582912,"
          "50331648,memory,1.7e-05,1.6e-05,2e-05,2e-06,0,1.5e-05,0,,,,,,,0.25,",
          "lm_head,gemm,bf16,forward,m=4096 n=50257 k=768,1,316193636352,495190016,math,0.002,"
          "0.0015,0.0025,0,0,0,0,,,,,,,638.53,",
          "mystery,other,fp32,forward,fn=MyOp,1,,,,,,,,,,,,,,,,,,", ""));
}

TEST(OpsCsv, LineEndsInNamesAreQuoted) {
  Report report = sample_unknown_report();
  report.ops[0].name = "a\nb";
  EXPECT_THAT(render_ops_csv(report), testing::HasSubstr("\n\"a\nb\",other,"));
}

TEST(OpsCsv, RecordedRunsFillTheLastColumns) {
  Report report = sample_unknown_report();
  report.ops[0].recorded = RecordedRun{.time = microseconds(12.5),
                                       .kernels = 2,
                                       .kernel = "sm80_gemm<a, b>",
                                       .tile = "128x64",
                                       .tensor_core = true,
                                       .blocks_per_sm = 1.5};
  EXPECT_THAT(render_ops_csv(report),
              testing::HasSubstr(",1.25e-05,2,\"sm80_gemm<a, b>\",128x64,1.5,yes,,\n"));
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
