// Remedies follow what the program of a trace is.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rooftile/analysis/trace/measured_workload.h"
#include "rooftile/analysis/trace/summarize.h"
#include "rooftile/hardware/device_file.h"
#include "rooftile/rules/rule.h"
#include "tests/support/timeline_text.h"

namespace rooftile {
namespace {

using testing::HasSubstr;
using testing::Not;

std::vector<Finding> findings_of(std::string_view text) {
  const auto timeline = parse_timeline(text);
  EXPECT_TRUE(timeline) << to_string(timeline.error());
  const Workload workload = measured_workload({summarize(*timeline)});
  const TimeModel model(*find_device("h100_sxm"));
  const Analysis analysis = analyse(workload, model);
  return run_rules({workload, analysis, model, Graph(workload)}, all_rules());
}

std::string fix_of(const std::vector<Finding>& findings, std::string_view rule) {
  for (const Finding& finding : findings) {
    if (finding.rule == rule) return finding.fix.text;
  }
  ADD_FAILURE() << "no finding of " << rule;
  return "";
}

// A solver in C++: a blocking copy to the GPU, kernels, a blocking copy back, a wait.
constexpr const char* kSolver = R"(
format Nsight Systems
repeat 5 every 2ms
mark main 0us 2ms step {i}
call main 5us 405us cudaMemcpy corr=1
copy 7 10us 390us HtoD pageable bytes=4000000 corr=1
call main 420us 4us cudaLaunchKernel corr=2
kernel 7 430us 500us void solve<float>(float*) corr=2
call main 440us 900us cudaMemcpy corr=3
copy 7 935us 400us DtoH pageable bytes=4000000 corr=3
call main 1700us 4us cudaLaunchKernel corr=4
kernel 7 1710us 100us void finish<float>(float*) corr=4
call main 1720us 180us cudaDeviceSynchronize
end
)";

TEST(Remedies, AProgramInCudaHearsNothingOfPyTorch) {
  const std::vector<Finding> findings = findings_of(kSolver);
  ASSERT_FALSE(findings.empty());
  for (const Finding& finding : findings) {
    for (const char* word : {"torch", "DataLoader", "pin_memory", "non_blocking", "Python"}) {
      EXPECT_THAT(finding.fix.text, Not(HasSubstr(word))) << finding.rule;
    }
  }
  EXPECT_THAT(fix_of(findings, "input_pipeline/unpinned-batches"), HasSubstr("cudaMallocHost"));
}

std::string upload_after(std::string_view maker, std::string_view dims) {
  return fmt::format(R"(
repeat 3 every 1ms
mark main 0us 1ms ProfilerStep#{{i}}
op main 0us 5us {0}
op main 1us 3us aten::fill_ dims={1}
op main 6us 420us aten::to id=1
op main 7us 415us aten::copy_ id=2 dims=[[1000,300],[1000,300]] types=[float,float]
call main 8us 405us cudaMemcpyAsync corr=1 id=2
copy 7 10us 400us HtoD pageable bytes=1200000 corr=1
call main 415us 6us cudaStreamSynchronize id=2
op main 450us 20us aten::mm id=3
call main 455us 4us cudaLaunchKernel corr=2 id=3
kernel 7 460us 500us ampere_sgemm_128x64_tn corr=2
end
)",
                     maker, dims);
}

TEST(Remedies, ATensorThatTheHostMakesIsMadeOnTheGpu) {
  const auto fix = [](std::string_view maker, std::string_view dims = "[[1000,300]]") {
    return fix_of(findings_of(upload_after(maker, dims)), "input_pipeline/unpinned-batches");
  };
  EXPECT_THAT(fix("aten::ones"), HasSubstr("torch.ones(..., device=\"cuda\"), or once before"));
  EXPECT_THAT(fix("aten::randn"), HasSubstr("torch.randn(..., device=\"cuda\")"));
  EXPECT_THAT(fix("aten::lift_fresh"), HasSubstr("torch.tensor(list)"));
  EXPECT_THAT(fix("aten::stack"), HasSubstr("pin_memory"));
  EXPECT_THAT(fix("aten::ones", "[[7]]"), HasSubstr("pin_memory"));  // another tensor
}

}  // namespace
}  // namespace rooftile
