#include "rooftile/analysis/trace/predict.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "rooftile/analysis/trace/summarize.h"
#include "tests/support/timeline_text.h"

namespace rooftile {
namespace {

TraceSummary predicted(const std::string& text) {
  const auto timeline = parse_timeline(text);
  EXPECT_TRUE(timeline) << to_string(timeline.error());
  return summarize(*timeline);
}

void expect_us(const Range<Seconds>& saved, double low, double expected, double high) {
  EXPECT_NEAR(to_microseconds(saved.low), low, 1e-3);
  EXPECT_NEAR(to_microseconds(saved.expected), expected, 1e-3);
  EXPECT_NEAR(to_microseconds(saved.high), high, 1e-3);
}

Prediction prediction_of(const TraceSummary& summary, Remedy remedy) {
  const auto found = std::ranges::find(summary.predictions, remedy, &Prediction::remedy);
  EXPECT_NE(found, summary.predictions.end());
  return found == summary.predictions.end() ? Prediction{} : *found;
}

// Steps of 30 ms: 10 ms for the batch, 2 ms until the host waits for a kernel of 15 ms, and 4.97 ms
// behind it.
std::string loading(int steps, const std::string& loader) {
  return "repeat " + std::to_string(steps) + R"( every 30ms
mark main 0ms 30ms ProfilerStep#{i}
mark main 0ms 10ms enumerate(DataLoader)#)" +
         loader + R"(.__next__
op main 10ms 1ms aten::mm
call main 10ms 10us cudaLaunchKernel corr=1
kernel 7 10.02ms 15ms sgemm corr=1
call main 12ms 13.03ms cudaDeviceSynchronize
end
)";
}

// All but a millisecond to hand each batch over.
TEST(Predict, BatchesThatAreReady) {
  for (const char* loader : {"_SingleProcessDataLoaderIter", "_MultiProcessingDataLoaderIter"}) {
    const TraceSummary summary = predicted(loading(4, loader));
    EXPECT_NEAR(to_microseconds(summary.replayed_span.value_or(Seconds())), 120'000, 1e-3);
    const Prediction ideal = prediction_of(summary, Remedy::ideal_loader);
    expect_us(ideal.saved, 36'000, 36'000, 40'000);
    expect_us(ideal.saved_per_step, 9'000, 9'000, 10'000);
  }
}

// Then a step takes 10 + 2 + 4.97 ms and 5 us for the call, and the last kernel ends 15.02 ms
// behind its launch. Of three steps or more the first does not count for one step.
TEST(Predict, AHostThatDoesNotWait) {
  const Prediction four = prediction_of(predicted(loading(4, "_SingleProcessDataLoaderIter")),
                                        Remedy::no_synchronization);
  EXPECT_NEAR(to_microseconds(four.saved.expected), 120'000 - (3 * 16'975 + 10'000 + 15'020), 1e-3);
  EXPECT_NEAR(to_microseconds(four.saved.high), 4 * 13'030, 1e-3);
  EXPECT_NEAR(to_microseconds(four.saved_per_step.expected), 30'000 - 16'975, 1e-3);
  const Prediction two = prediction_of(predicted(loading(2, "_SingleProcessDataLoaderIter")),
                                       Remedy::no_synchronization);
  const double saved = 60'000 - (16'975 + 10'000 + 15'020);
  EXPECT_NEAR(to_microseconds(two.saved.expected), saved, 1e-3);
  EXPECT_NEAR(to_microseconds(two.saved_per_step.expected), saved / 2, 1e-3);
}

// Steps of 30 ms, in which the host waits for a kernel of 5 ms and a collective of 10 ms.
TEST(Predict, CollectivesThatTakeNoTime) {
  const TraceSummary summary = predicted(R"(
repeat 4 every 30ms
mark main 0ms 30ms ProfilerStep#{i}
op main 10ms 1ms aten::mm
call main 10ms 10us cudaLaunchKernel corr=1
call main 10.02ms 10us cudaLaunchKernel corr=2
kernel 7 10.03ms 5ms sgemm corr=1
kernel 7 15031us 10ms ncclDevKernel_AllReduce_Sum corr=2
call main 12ms 13036us cudaDeviceSynchronize
end
)");
  EXPECT_NEAR(to_microseconds(summary.replayed_span.value_or(Seconds())), 120'000, 1e-3);
  const Prediction hidden = prediction_of(summary, Remedy::hidden_communication);
  expect_us(hidden.saved, 0, 40'000, 40'000);
  expect_us(hidden.saved_per_step, 0, 10'000, 10'000);
  EXPECT_NEAR(summary.kernel_time_share.value_or(0), 1, 1e-9);
}

// In each step two launches of 10 us and an allocation of 2 ms.
TEST(Predict, CallsThatTakeNoTime) {
  const TraceSummary summary = predicted(R"(
repeat 4 every 30ms
mark main 0ms 30ms ProfilerStep#{i}
op main 10ms 1ms aten::mm
call main 10ms 10us cudaLaunchKernel corr=1
kernel 7 10.02ms 5ms sgemm corr=1
call main 21ms 2ms cudaMalloc
op main 24ms 3900us aten::add_
call main 27500us 10us cudaLaunchKernel corr=3
kernel 7 27520us 1ms add corr=3
end
)");
  const Prediction allocated = prediction_of(summary, Remedy::no_allocation);
  expect_us(allocated.saved, 8'000, 8'000, 8'000);
  expect_us(allocated.saved_per_step, 2'000, 2'000, 2'000);
  const Prediction launched = prediction_of(summary, Remedy::batched_launches);
  EXPECT_NEAR(to_microseconds(launched.saved.low), 80, 1e-3);
  EXPECT_NEAR(to_microseconds(launched.saved_per_step.low), 20, 1e-3);
}

// The host waits for each kernel, so that a shorter one shortens the step by as much.
TEST(Predict, ShorterKernels) {
  EXPECT_NEAR(predicted(loading(4, "_SingleProcessDataLoaderIter")).kernel_time_share.value_or(0),
              1, 1e-9);
  EXPECT_NEAR(predicted(loading(4, "_MultiProcessingDataLoaderIter")).kernel_time_share.value_or(1),
              0, 1e-9);
}

}  // namespace
}  // namespace rooftile
