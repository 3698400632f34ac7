#include <gtest/gtest.h>

#include "rooftile/readers/python/read_python.h"
#include "rooftile/rooftile.h"
#include "rooftile/rules/rule.h"
#include "rooftile/workload/workload_text.h"

namespace rooftile {
namespace {

Report check_on(const char* gpu, const char* text) {
  return check(parse_workload(text, "test").value(), find_device(gpu).value());
}

// T4's data sheet: 8.1 TFLOPS in FP32, 65 in FP16 on Tensor Cores. It has no bf16.
TEST(CheckedDevice, PeakIsOfThePrecisionThatRuns) {
  const DeviceSummary bf16 = check_on("t4", "gemm fc bf16 m=4096 n=4096 k=4096").device;
  EXPECT_EQ(bf16.peak_dtype, "fp32");
  EXPECT_EQ(bf16.peak, FlopPerSecond(8.1e12));
  const DeviceSummary fp16 = check_on("t4", "gemm fc fp16 m=4096 n=4096 k=4096").device;
  EXPECT_EQ(fp16.peak_dtype, "fp16");
  EXPECT_EQ(fp16.peak, FlopPerSecond(6.5e13));
}

// cuDNN's convolutions run in TF32 on an A100 (156 TFLOPS, data sheet), GEMMs in fp32 (19.5).
TEST(CheckedDevice, PeakOfConvolutionsIsCudnns) {
  const char* conv = "conv body fp32 n=32 c=256 k=256 in=28x28 kernel=3x3 pad=1";
  EXPECT_EQ(check_on("a100_sxm_80gb", conv).device.peak, FlopPerSecond(1.56e14));
  EXPECT_EQ(check_on("a100_sxm_80gb", "gemm fc fp32 m=4096 n=4096 k=4096").device.peak,
            FlopPerSecond(1.95e13));
}

// Sizes are advised on for the precision that the layers run in: none while it is the wrong one.
TEST(CheckedFindings, WrongPrecisionLeavesOutSizes) {
  const Report report = check_on("t4", "gemm fc bf16 m=1576 n=3072 k=768");
  ASSERT_FALSE(report.findings.empty());
  EXPECT_EQ(report.findings.front().rule, "precision/unsupported-dtype");
  EXPECT_EQ(report.findings.front().level, Level::warning);
  for (const Finding& finding : report.findings) EXPECT_FALSE(finding.rule.starts_with("gemm/"));
}

// PyTorch 1.1 turned the order round.
TEST(CheckedScripts, SchedulersOfOldPyTorchComeFirst) {
  const Rule* const rules[] = {find_rule("optimizer/scheduler-steps-first")};
  auto facts = std::make_shared<source::SourceFacts>(read_python_text("train.py", R"(
import torch
from torch import nn

net = nn.Linear(512, 512).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 30)
for epoch in range(90):
    scheduler.step()
    for x in loader:
        net(x.cuda()).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
)")
                                                         .value());
  Workload workload;
  workload.source = facts;
  EXPECT_EQ(run_rules(workload, rules).size(), 1U);
  facts->least_torch = source::TorchVersion{1, 0};
  EXPECT_TRUE(run_rules(workload, rules).empty());
}

// 1,023 more rows of 50,304 logits in 2 bytes: 98.2 MiB.
TEST(CheckedReport, APrefillNamesTheCostOfAllLogits) {
  const char* prefill =
      "workload batch=1 sequence=1024 kv_cache_bytes=1e6\n"
      "gemm up bf16 m=1024 n=3072 k=768\ngemm head bf16 m=1 n=50304 k=768\n";
  const auto notes = check_on("h100_sxm", prefill).notes;
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes.front().find("98.2 MiB more memory"), std::string::npos) << notes.front();
  const char* scoring =
      "workload batch=1 sequence=1024 kv_cache_bytes=1e6\n"
      "gemm up bf16 m=1024 n=3072 k=768\ngemm head bf16 m=1024 n=50304 k=768\n";
  EXPECT_TRUE(check_on("h100_sxm", scoring).notes.empty());
}

// What was left out may take any amount of memory; what is known and does not fit never will.
TEST(Check, MemoryOfAPartHasNoVerdictUnlessItDoesNotFit) {
  const auto verdict = [](std::int64_t width, std::int64_t left_out) {
    Workload workload = *parse_workload(
        "workload batch=1\ngemm a bf16 m=8 n=" + std::to_string(width) + " k=65536\n");
    if (left_out > 0) workload.skipped["unknown shape: MatMul"] = left_out;
    return check(workload, *find_device("h100")).memory.verdict;
  };
  EXPECT_EQ(verdict(65536, 0), "fits");
  EXPECT_EQ(verdict(65536, 9), "");
  EXPECT_EQ(verdict(1048576, 9), "does_not_fit");  // 137 GB of weights
}

}  // namespace
}  // namespace rooftile
