#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rooftile/base/text.h"
#include "rooftile/rooftile.h"
#include "rooftile/workload/workload_text.h"

namespace rooftile {
namespace {

using testing::HasSubstr;
using testing::Not;

Finding fp32_finding(const char* text, const char* gpu = "a100_sxm_80gb") {
  const Rule* const rules[] = {find_rule("precision/fp32-on-tensor-core-gpu")};
  const Report report = check(*parse_workload(text), *find_device(gpu), rules);
  return report.findings.empty() ? Finding{} : report.findings.front();
}

constexpr const char* kConv =
    "conv body fp32 n=256 c=256 k=256 in=56x56 kernel=3x3 pad=1 layout=nhwc count=4\n";
constexpr const char* kBoth =
    "conv body fp32 n=64 c=256 k=256 in=28x28 kernel=3x3 pad=1 layout=nhwc\n"
    "gemm fc fp32 m=8192 n=8192 k=4096\n";

std::string facts_of(const Finding& finding) {
  std::string text;
  for (const Evidence& evidence : finding.evidence) text += to_string(evidence) + "; ";
  return text;
}

// torch.backends.cudnn.allow_tf32 is true, torch.backends.cuda.matmul.allow_tf32 is false: measured
// gains of TF32 over fp32 say nothing of convolutions.
TEST(Fp32OnTensorCoreGpu, ConvolutionsRunInTf32Already) {
  const Finding conv = fp32_finding(kConv);
  EXPECT_THAT(conv.message, HasSubstr("all weights are fp32 and run in TF32"));
  EXPECT_THAT(conv.message, Not(HasSubstr("and tf32")));
  EXPECT_THAT(conv.fix.text, Not(HasSubstr("TF32 alone")));
  const std::string evidence = facts_of(conv);
  EXPECT_THAT(evidence, HasSubstr("312 TFLOP/s in bf16, 156 TFLOP/s in tf32"));
  EXPECT_THAT(evidence, Not(HasSubstr("0.11 s")));

  const Finding both = fp32_finding(kBoth);
  EXPECT_THAT(both.message, HasSubstr("convolutions and recurrent layers run in TF32"));
  EXPECT_THAT(both.fix.text, HasSubstr("TF32 alone"));
  EXPECT_THAT(facts_of(both), HasSubstr("0.11 s"));
}

TEST(Fp32OnTensorCoreGpu, NoTf32BeforeAmpere) {
  const Finding conv = fp32_finding(kConv, "v100_sxm2");
  EXPECT_THAT(conv.message, HasSubstr("all GEMMs are fp32"));
  EXPECT_THAT(facts_of(conv), HasSubstr("ResNet-50 on a V100"));
}

}  // namespace
}  // namespace rooftile
