#include "rooftile/workload/trace_summary_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "rooftile/workload/trace_names.h"
#include "rooftile/workload/workload_text.h"

namespace rooftile {
namespace {

using testing::HasSubstr;
using Json = nlohmann::ordered_json;

TimeBreakdown sample_breakdown(double start) {
  TimeBreakdown time;
  for (Seconds* part :
       {&time.span, &time.gpu_busy, &time.compute, &time.communication, &time.exposed_communication,
        &time.awaited_communication, &time.rank_waiting, &time.awaited_rank_waiting,
        &time.communication_beside_allocation, &time.stretched, &time.copy, &time.exposed_copy,
        &time.exposed_fill, &time.exposed_migration, &time.idle}) {
    *part = Seconds(start);
    start += 0.1;
  }
  time.idle_by_cause = {{IdleCause::data_loading, Seconds(0.25)},
                        {IdleCause::unknown, Seconds(1e-9)}};
  return time;
}

KernelUse sample_kernel() {
  KernelUse kernel;
  kernel.name = "void gemm<(int)4, \"x\">(\xc3\xa9)";
  kernel.facts = {KernelClass::gemm,
                  "cublas",
                  80,
                  Dtype::fp16,
                  Dtype::fp32,
                  true,
                  128,
                  64,
                  32,
                  3,
                  true,
                  8,
                  "tn",
                  KernelDirection::wgrad};
  kernel.launch = {{108, 2, 3}, {128, 4, 5}, 64, 49152, 7};
  kernel.count = 12;
  kernel.time = Seconds(0.1 + 0.2);  // no short decimal
  kernel.times = {Seconds(0.1), Seconds(0.2)};
  kernel.stage = ServingStage::mixed;
  return kernel;
}

TraceSite sample_site() { return {"aten::item", "model.layers", {"train.py", 88, "n", "m"}}; }

OpUse sample_op() {
  OpUse use;
  use.name = "aten::addmm";
  use.arguments = {{{768}, {4096, 768}, {}}, {{1}, {768, 1}, {}}, {"float", "Scalar"}, {"", "1."}};
  use.phase = Phase::dgrad;
  use.site = sample_site();
  use.count = 5;
  use.host_time = Seconds(0.5);
  use.kernel_time = Seconds(0.25);
  use.stage = ServingStage::decode;
  use.times = {Seconds(0.01), Seconds(0.02)};
  use.kernels = {sample_kernel()};
  use.op = parse_workload("gemm addmm bf16 m=4096 n=768 k=768 measured_s=0.001")->ops.front();
  return use;
}

void fill_lists(TraceSummary& summary) {
  summary.ops = {sample_op(), OpUse{}};
  summary.orphans = {sample_kernel()};
  summary.copies = {{{CopyKind::device_to_host, true, 1U << 31U},
                     sample_site(),
                     3,
                     Seconds(1),
                     Seconds(2),
                     Seconds(3),
                     Seconds(1.5),
                     "aten::ones"}};
  summary.collectives = {{{"all_reduce", "BFloat16", "0", 1024, 2048, 8},
                          "ncclDevKernel",
                          4,
                          Seconds(1),
                          Seconds(2),
                          Seconds(1.5),
                          Seconds(0.75),
                          2,
                          1,
                          3,
                          1,
                          {Seconds(0.5), Seconds(0.25)}}};
  summary.before = Seconds(7);
  summary.time_slice = Seconds(0.0025);
  summary.stretched = {2, "gemm", Seconds(0.5), Seconds(0.01)};
  summary.transfers = {{CopyKind::host_to_device, true, Bytes(65536), 4, Bytes(4e6), Seconds(1),
                        BytesPerSecond(1e9), BytesPerSecond(2e9), BytesPerSecond(3e9)}};
  summary.modules = {
      {"Net.fc", 3, Seconds(2), 9, Seconds(1), Seconds(0.5), Seconds(0.9), {Seconds(0.25)}}};
  summary.annotations = {{"forward", {}, Seconds(2), 9, Seconds(1), Seconds(), Seconds(1), {}}};
  summary.queue.emplace();
  summary.queue->launches = 5;
  summary.queue->bins = {{3, Seconds(1e-6), 2.5, 4, 1, 2}, {}};
  summary.launches_block = true;
  summary.steady_lateness = Seconds(6e-3);
  summary.lightest_operator = Seconds(2e-6);
  AttentionUse attention{std::nullopt, sample_site(), {"aten::mul"}, 2,          1,
                         Seconds(1),   Seconds(2),    Seconds(3),    Seconds(4), Seconds(0.5)};
  attention.op = sample_op().op;
  summary.attentions = {attention};
  summary.conv_bias = {sample_site(), 5, Seconds(1), Seconds(2)};
  summary.recomputed = {7, Seconds(3)};
  summary.weight_casts = {sample_site(), 4, Seconds(1), Seconds(2)};
  summary.path.parts = {{PathKind::host, "aten::mm", {"train.py", 12, "", ""}, 3, Seconds(2)}};
  summary.path.steps = {{{{PathKind::compute, Seconds(1)}, {PathKind::host, Seconds(2)}}}};
  summary.syncs = {{"cudaStreamSynchronize", sample_site(), 9, Seconds(1), Seconds(0.5)}};
  summary.loaders = {
      {"enumerate(DataLoader)", true, 7, Seconds(3), Seconds(2), Seconds(0.4), sample_site()}};
  summary.allocator = {5, 6, 3, Seconds(1), Seconds(2), Bytes(1e9), Bytes(2e9)};
  summary.host_work = {{IdleCause::host_work,
                        true,
                        "preprocess",
                        {"train.py", 33, "", ""},
                        2,
                        Seconds(0.4),
                        Seconds(0.3),
                        Seconds(0.1),
                        Seconds(0.3)}};
  summary.before_work = summary.host_work;
  summary.ranges = {
      {"Optimizer.step#SGD.step", 4, Seconds(1), 9, Seconds(2), Seconds(3), sample_site()}};
  summary.pointwise = {40, 20, Seconds(0.5), Seconds(0.25)};
  summary.gradients = {2, 6, Seconds(3), Seconds(2), Seconds(1)};
  summary.predictions = {{Remedy::batched_launches, {Seconds(0.1), Seconds(0.2), Seconds(0.3)}}};
  summary.skipped = {{"NVTX marks", 3}};
}

// Every field differs from that of an empty summary.
TraceSummary sample_summary() {
  TraceSummary summary;
  summary.files = {"rank0.json.gz"};
  summary.format = "Kineto";
  summary.device = {2, "NVIDIA H100", 85899345920, 132, 9, 1};
  summary.other_devices = 1;
  summary.listed_devices = 8;
  summary.rank = 3;
  summary.world_size = 8;
  summary.has_shapes = summary.has_stacks = summary.has_memory = summary.is_foreign = true;
  summary.whole = sample_breakdown(2);
  summary.time = sample_breakdown(1);
  summary.steps = {StepSource::user_range,
                   {Seconds(0.1), Seconds(0.3)},
                   {ServingStage::prefill, ServingStage::decode},
                   4,
                   Seconds(0.05),
                   StepApart{Seconds(0.9), 2, true, StepPart::idle_host_work, Seconds(0.7)},
                   StepApart{Seconds(0.8), 1, true, StepPart::compute, Seconds(0.6)},
                   {{StepPart::compute, Seconds(0.06)}, {StepPart::idle_copy, Seconds(0.2)}},
                   {{1, StepPart::idle_copy, Seconds(0.15)}}};
  summary.kernels = 1000;
  summary.kernel_time = Seconds(0.7);
  summary.kernel_time_in_steps = Seconds(0.6);
  summary.unclassified_time = Seconds(0.01);
  summary.leftover_kernels = 5;
  summary.leftover_time = Seconds(0.02);
  summary.kernel_launches = 1100;
  summary.lost_launches = 100;
  summary.has_tables_of_window = true;
  summary.unjudged = {{"evaluate", 40, Seconds(0.03)}};
  summary.launches = 900;
  summary.launch_time = Seconds(0.05);
  summary.host_busy = Seconds(0.9);
  summary.graph_launches = 2;
  summary.replayed_span = Seconds(0.98);
  summary.kernel_time_share = 0.75;
  summary.copy_time_share = 0.5;
  summary.between_collectives = Seconds(0.03);
  summary.overlaps_exchanges = true;
  fill_lists(summary);
  return summary;
}

TEST(TraceSummaryJson, ReadsBackToTheSame) {
  for (const TraceSummary& summary : {sample_summary(), TraceSummary{}}) {
    const std::string text = write_trace_summary(summary);
    const Result<TraceSummary> again = parse_trace_summary(text, "a.summary");
    ASSERT_TRUE(again) << to_string(again.error());
    EXPECT_EQ(write_trace_summary(*again), text);
    EXPECT_EQ(*again, summary);
  }
}

// A field that the sample forgets would look read back without being so.
void expect_all_differ(const Json& full, const Json& empty, const std::string& where) {
  for (const auto& [key, value] : full.items()) {
    if (key == "schema") continue;
    if (value.is_object() && empty[key].is_object() && !empty[key].empty()) {
      expect_all_differ(value, empty[key], where + "." + key);
    } else {
      EXPECT_NE(value, empty[key]) << where << "." << key;
    }
  }
}

TEST(TraceSummaryJson, SampleHasEveryField) {
  const Json full = Json::parse(write_trace_summary(sample_summary()));
  expect_all_differ(full, Json::parse(write_trace_summary({})), "");
  expect_all_differ(full["ops"][0], full["ops"][1], "ops");
}

TEST(TraceSummaryJson, NamesEveryEnumeratorOnce) {
  for (int i = 0; i <= static_cast<int>(IdleCause::unknown); ++i) {
    const auto cause = static_cast<IdleCause>(i);
    EXPECT_EQ(parse_name<IdleCause>(name_of(cause)), cause);
  }
  for (int i = 0; i <= static_cast<int>(KernelClass::other); ++i) {
    const auto kernel_class = static_cast<KernelClass>(i);
    EXPECT_EQ(parse_name<KernelClass>(name_of(kernel_class)), kernel_class);
  }
  EXPECT_EQ(name_of(IdleCause::between_kernels), "between_kernels");
  for (int i = 0; i <= static_cast<int>(StepPart::idle_unknown); ++i) {
    const auto part = static_cast<StepPart>(i);
    EXPECT_EQ(parse_name<StepPart>(name_of(part)), part);
  }
  for (int i = 0; i <= static_cast<int>(PathKind::unknown); ++i) {
    const auto kind = static_cast<PathKind>(i);
    EXPECT_EQ(parse_name<PathKind>(name_of(kind)), kind);
  }
  EXPECT_EQ(name_of(PathKind::pause), "pause");
  EXPECT_EQ(name_of(part_of(IdleCause::data_loading)), "idle.data_loading");
  EXPECT_EQ(name_of(StepSource::repetition), "repetition");
  EXPECT_EQ(name_of(Remedy::fused_optimizer), "fused_optimizer");
  EXPECT_EQ(name_of(CopyKind::peer_to_peer), "peer_to_peer");
  EXPECT_EQ(name_of(KernelDirection::wgrad), "wgrad");
  EXPECT_EQ(parse_name<Remedy>("magic"), std::nullopt);
}

std::string error_after(const std::string& from, const std::string& to) {
  std::string text = write_trace_summary(sample_summary());
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  if (at != std::string::npos) text.replace(at, from.size(), to);
  const Result<TraceSummary> summary = parse_trace_summary(text, "a.summary");
  return summary ? "no error" : to_string(summary.error());
}

TEST(TraceSummaryJson, NamesTheMistake) {
  struct Case {
    const char *from, *to, *error;
  };
  for (const Case& one : std::vector<Case>{
           {"\"kernels\": 1000", "\"kernels\": \"1000\"",
            "a.summary: kernels: found '\"1000\"', "
            "expected a whole number"},
           {"\"kernels\": 1000", "\"kernels\": 1e3", "expected a whole number"},
           {"\"kernels\": 1000", "\"kernels\": 99999999999999999999", "expected a whole number"},
           {"\"kernels\": 1000", "\"colonels\": 1000", "kernels: is missing"},
           {"\"kernels\": 1000", "\"extra\": 1, \"kernels\": 1000", "found 64 keys, expected 63"},
           {"\"data_loading\"", "\"coffee\"", "whole.idle_by_cause_s.coffee: is no cause"},
           {"\"class\": \"gemm\"", "\"class\": \"gems\"", "ops[0].kernels[0].facts.class"},
           {"\"sm_count\": 132", "\"sm_count\": 4294967296", "device.sm_count"},
           {"summary/1", "summary/2", "no trace summary of this version"},
           {"m=4096", "m=-1", "ops[0].op"}}) {
    EXPECT_THAT(error_after(one.from, one.to), HasSubstr(one.error)) << one.to;
  }
}

TEST(TraceSummaryJson, ReadsFilesOfEarlierVersions) {
  Json json = Json::parse(write_trace_summary(sample_summary()));
  json["steps"].erase("limits");
  json["steps"].erase("slow");
  TraceSummary expected = sample_summary();
  expected.steps.limits.clear();
  expected.steps.slow.clear();
  const Result<TraceSummary> summary = parse_trace_summary(json.dump(), "a.summary");
  ASSERT_TRUE(summary) << to_string(summary.error());
  EXPECT_EQ(*summary, expected);
}

TEST(TraceSummaryJson, ReadsSummariesThatFollowOneAnother) {
  TraceSummary odd;
  odd.files = {"a \"{\\\" name"};
  const std::string text = write_trace_summary(sample_summary()) + write_trace_summary(odd);
  const auto both = parse_trace_summaries(text, "a.summary");
  ASSERT_TRUE(both) << to_string(both.error());
  EXPECT_EQ(*both, (std::vector<TraceSummary>{sample_summary(), odd}));
  const auto broken = parse_trace_summaries(text + "{}", "a.summary");
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().where, "a.summary, summary 3");
  EXPECT_FALSE(parse_trace_summaries("", "a"));
  EXPECT_FALSE(parse_trace_summaries(text + " x", "a"));
}

TEST(TraceSummaryJson, BoundsWhatItReads) {
  const auto error_of_text = [](const std::string& text) {
    const Result<TraceSummary> summary = parse_trace_summary(text, "a");
    return summary ? "no error" : summary.error().message;
  };
  EXPECT_THAT(error_of_text(std::string(100000, '[')), HasSubstr("nested too deeply"));
  EXPECT_THAT(error_of_text("[" + std::string(5000000, ',')), HasSubstr("4 million values"));
  EXPECT_THAT(error_of_text(std::string((64U << 20U) + 1, ' ')), HasSubstr("64 MiB"));
  EXPECT_THAT(error_of_text("{\"schema\": "), HasSubstr("near byte"));
  EXPECT_THAT(error_of_text(""), HasSubstr("no JSON"));
  EXPECT_THAT(error_of_text("[]"), HasSubstr("no trace summary"));
  EXPECT_TRUE(is_trace_summary(write_trace_summary({}).substr(0, 100)));
  EXPECT_FALSE(is_trace_summary("{\"schemaVersion\": 1}"));
}

}  // namespace
}  // namespace rooftile
