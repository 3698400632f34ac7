#include "rooftile/pipeline/sweep.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "rooftile/rooftile.h"

namespace rooftile {
namespace {

constexpr const char* kGpt2 = R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"],
  "n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024, "vocab_size": 50257,
  "torch_dtype": "bfloat16"})";

std::string config_file() {
  const std::string path = testing::TempDir() + "sweep_config.json";
  std::ofstream(path) << kGpt2;
  return path;
}

Device gpu() { return *find_device("a100_sxm_80gb"); }

SweepRequest request_of(const std::string& input, std::vector<std::int64_t> batches) {
  SweepRequest request;
  request.inputs = {input};
  request.batches = std::move(batches);
  return request;
}

TEST(Sweep, RowsAreThoseOfSingleChecks) {
  SweepRequest request = request_of(config_file(), {1, 3, 8});
  request.read.seq = 256;
  const auto result = sweep(request, gpu());
  ASSERT_TRUE(result) << to_string(result.error());
  const std::vector<SweepRow>& rows = result->curves.front().rows;
  ASSERT_EQ(rows.size(), 3U);
  for (const SweepRow& row : rows) {
    ReadOptions options = request.read;
    options.batch = row.batch;
    const auto workload = read_all(request.inputs, options);
    ASSERT_TRUE(workload);
    const Report report = check(*workload, gpu(), {});
    EXPECT_EQ(row.time, report.total) << row.batch;
    EXPECT_EQ(row.memory, report.memory.total) << row.batch;
    EXPECT_EQ(row.coverage.ops_with_time, report.coverage.ops_with_time) << row.batch;
  }
}

TEST(Sweep, LengthsHaveACurveEach) {
  SweepRequest request = request_of(config_file(), {1, 2});
  request.sequences = {128, 512};
  const auto result = sweep(request, gpu());
  ASSERT_TRUE(result);
  ASSERT_EQ(result->curves.size(), 2U);
  EXPECT_EQ(result->curves[1].sequence, 512);
  EXPECT_GT(result->curves[1].rows[0].time.expected, result->curves[0].rows[0].time.expected);
}

TEST(Sweep, LengthsShareOneTable) {
  SweepRequest request = request_of(config_file(), {1, 2});
  request.sequences = {128, 512};
  const std::string table = render_sweep_text(*sweep(request, gpu()), {});
  EXPECT_NE(table.find("seq  batch"), std::string::npos) << table;
  EXPECT_EQ(table.find("seq  batch"), table.rfind("seq  batch"));
  EXPECT_NE(table.find("run batch"), std::string::npos);
  request.batches = {1};
  const std::string lengths = render_sweep_text(*sweep(request, gpu()), {});
  EXPECT_NE(lengths.find("From seq 128 to 512, 4× as long"), std::string::npos) << lengths;
  EXPECT_EQ(lengths.find("Run batch"), std::string::npos);
}

// 69 GB of weights, 2.1 GB a sample.
TEST(Sweep, SaysWhatTakesTheMemory) {
  const std::string text =
      "workload batch=1\n"
      "gemm wide bf16 m=1 n=65536 k=65536 count=8\n"
      "elementwise act bf16 fn=relu elements=1000000000";
  const auto result = sweep(request_of(text, {1, 8}), *find_device("h100"));
  ASSERT_TRUE(result) << to_string(result.error());
  const SweepCurve& curve = result->curves.front();
  EXPECT_NEAR(curve.constant.value(), 68.7e9, 0.1e9);
  EXPECT_NEAR(curve.each_sample.value(), 2.1e9, 0.1e9);
  std::string shown = render_sweep_text(*result, {});
  std::ranges::replace(shown, '\n', ' ');
  EXPECT_NE(
      shown.find("Of 78.6 GiB usable memory: Largest batch that leaves a tenth of it free: 3"),
      std::string::npos)
      << shown;
  EXPECT_NE(shown.find("Weights take 64.0 GiB at any batch, each sample adds 1.96 GiB."),
            std::string::npos)
      << shown;
}

TEST(Sweep, TheLargestBatchIsFoundBetweenTheRows) {
  // Weights of 8 GB in bf16 and an output of 2^30 bytes for each sample: the end of 80 GiB lies
  // between 16 and 256 samples.
  const std::string text = "workload batch=1\ngemm a bf16 m=8192 n=65536 k=65536";
  const auto result = sweep(request_of(text, {1, 16, 256}), gpu());
  ASSERT_TRUE(result) << to_string(result.error());
  const SweepCurve& curve = result->curves.front();
  ASSERT_TRUE(curve.largest);
  ASSERT_TRUE(curve.largest_tight);
  EXPECT_LE(*curve.largest, *curve.largest_tight);
  const auto fit = [&](std::int64_t batch) {
    return sweep(request_of(text, {batch}), gpu())->curves.front().rows.front().fit;
  };
  EXPECT_EQ(fit(*curve.largest), "fits");
  EXPECT_NE(fit(*curve.largest + 1), "fits");
  EXPECT_NE(fit(*curve.largest_tight), "does_not_fit");
  EXPECT_EQ(fit(*curve.largest_tight + 1), "does_not_fit");
}

// 69 GB of weights, 2.1 GB a sample on 85.5 GB: nine tenths hold 3 samples, not 4.
constexpr const char* kWide =
    "workload batch=1\n"
    "gemm wide bf16 m=1 n=65536 k=65536 count=8\n"
    "elementwise act bf16 fn=relu elements=1000000000";

TEST(Sweep, TheLargestBatchThatFitsHasARow) {
  const Device device = *find_device("h100");
  const auto result = sweep(request_of(kWide, {1, 2, 4, 8}), device);
  ASSERT_TRUE(result) << to_string(result.error());
  const SweepCurve& curve = result->curves.front();
  ASSERT_EQ(curve.rows.size(), 5U);
  EXPECT_EQ(curve.rows[2].batch, 3);
  EXPECT_EQ(curve.largest, 3);
  ASSERT_NE(best_row(curve), nullptr);
  EXPECT_EQ(best_row(curve)->batch, 3);
}

TEST(Sweep, TheBatchToRunIsThatOfCheck) {
  for (const char* gpu_name : {"h100", "h200"}) {
    const Device device = *find_device(gpu_name);
    const auto result = sweep(request_of(kWide, {1, 2, 4, 8, 16, 32, 64}), device);
    ASSERT_TRUE(result) << to_string(result.error());
    const auto workload = read(kWide, {});
    ASSERT_TRUE(workload);
    const BatchCurve curve = curve_of(*workload, {}, {}, device);
    const auto better = find_better_batch(curve);
    ASSERT_TRUE(better);
    EXPECT_EQ(best_row(result->curves.front())->batch, curve.points[better->point].batch);
  }
}

// 103 GB of weights on 80 GB: no batch helps.
TEST(Sweep, SaysWhatMakesTheFirstBatchFit) {
  const std::string text = "workload batch=1\ngemm wide bf16 m=1 n=65536 k=65536 count=12";
  const auto result = sweep(request_of(text, {1, 2}), gpu());
  ASSERT_TRUE(result) << to_string(result.error());
  EXPECT_EQ(best_row(result->curves.front()), nullptr);
  const std::string shown = render_sweep_text(*result, {});
  EXPECT_NE(shown.find("weights in 8 bits"), std::string::npos) << shown;
}

// 8 µs of the host for each of 50 operations.
TEST(Sweep, SmallBatchesWaitForTheHost) {
  const std::string text = "workload batch=1\ngemm a bf16 m=64 n=256 k=256 count=50";
  const auto result = sweep(request_of(text, {1, 4096}), gpu());
  ASSERT_TRUE(result) << to_string(result.error());
  const std::vector<SweepRow>& rows = result->curves.front().rows;
  EXPECT_TRUE(rows[0].launch_bound);
  EXPECT_NEAR(rows[0].per_sample().value(), 600e-6, 1e-9);
  EXPECT_FALSE(rows[1].launch_bound);
  EXPECT_EQ(rows[1].step(), rows[1].time.expected);
  EXPECT_EQ(result->curves.front().launches, 50);
}

TEST(Sweep, TextIsScaledWhereItStatesItsBatch) {
  const std::string text = "workload batch=8\ngemm a bf16 m=1024 n=4096 k=4096";
  const auto result = sweep(request_of(text, {4, 8}), gpu());
  ASSERT_TRUE(result) << to_string(result.error());
  const auto half = read("gemm a bf16 m=512 n=4096 k=4096", {});
  EXPECT_EQ(result->curves[0].rows[0].time, check(*half, gpu(), {}).total);
}

TEST(Sweep, InputsWithoutABatchAreRefused) {
  const auto text = sweep(request_of("gemm a bf16 m=1024 n=4096 k=4096", {1, 2}), gpu());
  ASSERT_FALSE(text);
  EXPECT_NE(text.error().message.find("workload batch=8"), std::string::npos);
  EXPECT_FALSE(sweep(request_of("-", {1, 2}), gpu()));
}

TEST(Sweep, TheCurveForACheckStartsAtTheGivenBatch) {
  ReadOptions options;
  options.batch = 2;
  options.seq = 128;
  const std::vector<std::string> inputs{config_file()};
  const auto workload = read_all(inputs, options);
  ASSERT_TRUE(workload);
  const BatchCurve curve = curve_of(*workload, inputs, options, gpu());
  ASSERT_GE(curve.points.size(), 2U);
  EXPECT_EQ(curve.points[0].batch, 2);
  EXPECT_EQ(curve.points[1].batch, 4);
}

// Engines replay a decode step, so that its launches bound neither a check nor a row.
TEST(Sweep, DecodeStepsDoNotWaitForLaunches) {
  SweepRequest request = request_of(config_file(), {1, 2});
  request.read.mode = Mode::decode;
  request.read.past = 512;
  const auto result = sweep(request, gpu());
  ASSERT_TRUE(result) << to_string(result.error());
  const SweepRow& row = result->curves.front().rows.front();
  ASSERT_GT(row.launch.expected, row.time.expected);
  EXPECT_FALSE(row.launch_bound);
  EXPECT_EQ(row.step(), row.time.expected);
  ReadOptions options = request.read;
  options.batch = 1;
  const Report report = check(*read_all(request.inputs, options), gpu(), {});
  EXPECT_FALSE(report.launch_bound);
  EXPECT_EQ(report.host, row.launch);
  std::string shown = render_sweep_text(*result, {});
  std::ranges::replace(shown, '\n', ' ');
  EXPECT_NE(shown.find("longer than the GPU runs up to batch 2"), std::string::npos) << shown;
}

// The end of the range hides no better batch from the reader, and both name the same one.
TEST(Sweep, NamesTheBatchThatACheckNames) {
  SweepRequest request = request_of(config_file(), {1, 2});
  request.read.seq = 128;
  const auto result = sweep(request, gpu());
  ASSERT_TRUE(result) << to_string(result.error());
  const SweepCurve& curve = result->curves.front();
  ReadOptions options = request.read;
  options.batch = 1;
  const Workload workload = *read_all(request.inputs, options);
  const BatchCurve whole = curve_of(workload, request.inputs, options, gpu());
  const auto best = find_best_batch(whole);
  ASSERT_TRUE(best);
  ASSERT_GT(whole.points[*best].batch, 2);
  EXPECT_EQ(curve.best_beyond, whole.points[*best].batch);
  EXPECT_GT(curve.gain_beyond, 1);
  request.batches = {1, whole.points[*best].batch};
  EXPECT_EQ(sweep(request, gpu())->curves.front().best_beyond, std::nullopt);
}

}  // namespace
}  // namespace rooftile
