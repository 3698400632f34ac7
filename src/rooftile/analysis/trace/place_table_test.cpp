#include "rooftile/analysis/trace/place_table.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "rooftile/analysis/trace/summarize.h"
#include "tests/support/timeline_text.h"

namespace rooftile {
namespace {

TraceSummary places_of(const std::string& text) {
  const auto timeline = parse_timeline(text.c_str());
  EXPECT_TRUE(timeline) << to_string(timeline.error());
  return summarize(*timeline);
}

const PlaceUse* find_place(const std::vector<PlaceUse>& places, const std::string& name) {
  for (const PlaceUse& place : places) {
    if (place.name == name) return &place;
  }
  return nullptr;
}

double micros(Seconds time) { return to_microseconds(time); }

// Two passes through Net with two layers. Forward: fc1 10 µs, fc2 20 µs. Backward on its own
// thread: 40 µs for fc2, whose operator has sequence number 4, beside a copy of 5 µs that belongs
// to none.
constexpr const char* kTwoLayers = R"(
repeat 2 every 1ms
mark main 0us 900us train
mark main 0us 300us forward
python main 0us 300us nn.Module: Net_0
python main 10us 90us nn.Module: Linear_0
op main 20us 40us aten::addmm id=1 seq=3
call main 30us 5us cudaLaunchKernel corr=1
kernel 7 40us 10us sgemm corr=1
python main 110us 90us nn.Module: Linear_1
op main 120us 40us aten::addmm id=2 seq=4
call main 130us 5us cudaLaunchKernel corr=2
kernel 7 140us 20us sgemm corr=2
mark main 400us 400us backward
op autograd 450us 60us autograd::engine::evaluate_function: AddmmBackward0 id=3 seq=4
op autograd 451us 50us AddmmBackward0 id=4 seq=4
op autograd 460us 30us aten::mm id=5
call autograd 465us 5us cudaLaunchKernel corr=3
kernel 7 480us 40us sgemm_b corr=3
call main 850us 5us cudaMemcpyAsync corr=4
copy 7 860us 5us DtoH bytes=4096 corr=4
end
)";

// Older recordings name the module of each operator: what it takes on the GPU, but no calls of it.
TEST(PlaceTable, ModulesThatOperatorsName) {
  auto timeline = parse_timeline(R"(
op main 0us 10us aten::addmm
call main 5us 2us cudaLaunchKernel corr=1
op main 20us 10us aten::relu
call main 25us 2us cudaLaunchKernel corr=2
op main 40us 10us aten::sum
call main 45us 2us cudaLaunchKernel corr=3
kernel 7 50us 30us gemm corr=1
kernel 7 80us 10us relu corr=2
kernel 7 90us 5us sum corr=3
)");
  ASSERT_TRUE(timeline);
  Column<std::uint32_t> modules;
  for (const char* module : {"Net.fc", "Net.relu", ""}) {
    modules.push_back(timeline->strings.id_of(module));
  }
  timeline->ops.module = std::move(modules);
  const std::vector<PlaceUse> places = summarize(*timeline).modules;
  ASSERT_EQ(places.size(), 2U);
  EXPECT_EQ(places[0].name, "Net.fc");
  EXPECT_NEAR(micros(places[0].gpu_time), 30, 1e-6);
  EXPECT_EQ(places[0].kernels, 1);
  EXPECT_EQ(places[1].name, "Net.relu");
  EXPECT_NEAR(micros(places[1].gpu_time), 10, 1e-6);
  for (const PlaceUse& place : places) {
    EXPECT_FALSE(place.calls);
    EXPECT_EQ(place.host_time, Seconds());
    EXPECT_EQ(place.times, TimeSample());
  }
}

TEST(PlaceTable, ModulesHaveTheirBackwardPass) {
  const TraceSummary summary = places_of(kTwoLayers);
  ASSERT_EQ(summary.modules.size(), 3U);
  const PlaceUse& net = summary.modules[0];
  EXPECT_EQ(net.name, "Net_0");
  EXPECT_EQ(net.calls, 2);
  EXPECT_EQ(net.kernels, 6);
  EXPECT_NEAR(micros(net.gpu_time), 2 * 70, 1e-6);
  EXPECT_NEAR(micros(net.backward_time), 2 * 40, 1e-6);
  EXPECT_NEAR(micros(spread_of(net.times, 2).median), 70, 1e-6);
  EXPECT_NEAR(micros(net.host_time), 600, 1e-6);
  // The outermost module is left out of the paths below it.
  const PlaceUse* const second = find_place(summary.modules, "Linear_1");
  ASSERT_NE(second, nullptr);
  EXPECT_NEAR(micros(second->gpu_time), 2 * 60, 1e-6);
  EXPECT_NEAR(micros(find_place(summary.modules, "Linear_0")->gpu_time), 20, 1e-6);
}

// The backward pass is that of the forward range's operators, and runs while the host is in
// "backward"; it counts for both, and once for the range around both.
TEST(PlaceTable, RangesHaveWhatTheyStartAndItsBackwardPass) {
  const TraceSummary summary = places_of(kTwoLayers);
  ASSERT_EQ(summary.annotations.size(), 3U);
  EXPECT_NEAR(micros(find_place(summary.annotations, "train")->gpu_time), 2 * 75, 1e-6);
  EXPECT_NEAR(micros(find_place(summary.annotations, "forward")->gpu_time), 2 * 70, 1e-6);
  EXPECT_NEAR(micros(find_place(summary.annotations, "backward")->gpu_time), 2 * 40, 1e-6);
}

// Kernels of 10 µs on two streams that overlap by half: 20 µs of kernels in 15 µs.
TEST(PlaceTable, OverlappingKernelsCountOnceInTheShare) {
  const TraceSummary summary = places_of(R"(
mark main 0us 100us a
mark main 5us 50us a
call main 10us 1us cudaLaunchKernel corr=1
kernel 7 20us 10us x corr=1
call main 12us 1us cudaLaunchKernel corr=2
kernel 8 25us 10us y corr=2
mark main 200us 10us ProfilerStep#4
mark main 220us 10us idle
)");
  ASSERT_EQ(summary.annotations.size(), 2U);
  const PlaceUse& a = summary.annotations[0];
  EXPECT_EQ(a.calls, 1);  // the inner one is the same range again
  EXPECT_EQ(a.kernels, 2);
  EXPECT_NEAR(micros(a.gpu_time), 20, 1e-6);
  EXPECT_NEAR(micros(a.busy), 15, 1e-6);
  EXPECT_NEAR(micros(a.host_time), 100, 1e-6);
  EXPECT_EQ(summary.annotations[1].name, "idle");
  EXPECT_EQ(summary.annotations[1].kernels, 0);
}

TEST(PlaceTable, ModulesThatRangesName) {
  const TraceSummary summary = places_of(R"(
mark main 0us 100us [pl][module]torch.nn.modules.linear.Linear: net.fc
call main 10us 1us cudaLaunchKernel corr=1
kernel 7 20us 10us x corr=1
mark main 200us 100us {'Module': 'model.layers.0', 'x': 1}
call main 210us 1us cudaLaunchKernel corr=2
kernel 7 220us 5us x corr=2
)");
  ASSERT_EQ(summary.modules.size(), 2U);
  EXPECT_EQ(summary.modules[0].name, "net.fc");
  EXPECT_EQ(summary.modules[1].name, "model.layers.0");
}

// Sixty-four ranges around a call or an activity are looked at.
TEST(PlaceTable, RangesNestUpToADepth) {
  const auto nested = [](int between) {
    const auto range = [](int depth, const std::string& name) {
      return "mark main " + std::to_string(depth) + "us " + std::to_string(1000 - 2 * depth) +
             "us " + name + "\n";
    };
    std::string text = range(0, "a");
    for (int depth = 1; depth <= between; ++depth)
      text += range(depth, "r" + std::to_string(depth));
    return places_of(text + range(between + 1, "a") +
                     "call main 500us 1us cudaLaunchKernel corr=1\nkernel 7 510us 10us x corr=1\n");
  };
  const TraceSummary shallow = nested(63);
  EXPECT_EQ(find_place(shallow.annotations, "a")->calls, 1);
  EXPECT_EQ(find_place(shallow.annotations, "a")->kernels, 1);
  const TraceSummary deep = nested(64);
  EXPECT_EQ(find_place(deep.annotations, "a")->calls, 2);
  EXPECT_EQ(find_place(deep.annotations, "a")->kernels, 1);
  EXPECT_EQ(find_place(deep.annotations, "r2")->kernels, 1);
  EXPECT_EQ(find_place(deep.annotations, "r1")->kernels, 0);
}

// Steps of a serving engine are one row for each kind.
TEST(PlaceTable, NumbersOfServingStepsAreLeftOut) {
  const TraceSummary summary = places_of(R"(
mark main 0us 100us step[DECODE bs=4]
mark main 100us 100us step[DECODE bs=16]
mark main 200us 100us step[EXTEND bs=1 toks=512]
mark main 300us 100us layer_1
)");
  ASSERT_EQ(summary.annotations.size(), 3U);
  EXPECT_EQ(find_place(summary.annotations, "step[DECODE bs=#]")->calls, 2);
  EXPECT_NE(find_place(summary.annotations, "layer_1"), nullptr);
}

// Three launches return at 1, 11 and 21 µs; their kernels begin at 5, 30 and 40 µs: 4, 19 and 19 µs
// later. At the returns 1, 1 and 2 of them wait.
TEST(LaunchQueue, DelayDepthAndShortKernels) {
  const TraceSummary summary = places_of(R"(
call main 0us 1us cudaLaunchKernel corr=1
call main 10us 1us cudaLaunchKernel corr=2
call main 20us 1us cudaLaunchKernel corr=3
kernel 7 5us 4us a corr=1
kernel 7 30us 9us b corr=2
kernel 7 40us 20us c corr=3
)");
  ASSERT_TRUE(summary.queue);
  const LaunchQueue& queue = *summary.queue;
  EXPECT_EQ(queue.launches, 3);
  EXPECT_NEAR(micros(queue.delay.median), 19, 1e-6);
  EXPECT_NEAR(micros(queue.delay.p10), 4 + 0.2 * 15, 1e-6);
  EXPECT_DOUBLE_EQ(queue.depth_median, 1);
  EXPECT_NEAR(queue.depth_p90, 1.8, 1e-9);
  EXPECT_EQ(queue.below_5us, 1);
  EXPECT_EQ(queue.below_10us, 2);
  EXPECT_NEAR(micros(queue.time_below_10us), 13, 1e-6);
  // Three bins of 20 µs: 0 to 20, 20 to 40, 40 to 60.
  ASSERT_EQ(queue.bins.size(), 3U);
  EXPECT_EQ(queue.bins[0].launches, 2);
  EXPECT_EQ(queue.bins[1].launches, 1);
  EXPECT_DOUBLE_EQ(queue.bins[1].depth.value_or(0), 2);
  EXPECT_FALSE(queue.bins[2].delay);
  EXPECT_EQ(queue.bins[2].kernels, 1);
}

TEST(LaunchQueue, AGraphIsOneLaunchAndABlockingCopyHasNoDelay) {
  const TraceSummary summary = places_of(R"(
call main 0us 2us cudaGraphLaunch corr=1
kernel 7 4us 4us a corr=1
kernel 7 30us 9us b corr=1
call main 50us 30us cudaMemcpy corr=2
copy 7 60us 10us DtoH pageable bytes=4096 corr=2
)");
  ASSERT_TRUE(summary.queue);
  EXPECT_EQ(summary.queue->launches, 2);
  EXPECT_NEAR(micros(summary.queue->delay.median), 1, 1e-6);  // of 0 and 2
  EXPECT_FALSE(places_of("kernel 7 5us 10us a\n").queue);
}

// Ranges of the training loop are where the user's code calls them, not where PyTorch is.
TEST(Ranges, NameTheLineThatCallsThem) {
  const TraceSummary summary = places_of(R"(
python main 0us 900us train.py(12): main
python main 5us 90us torch/utils/data/dataloader.py(630): __next__
mark main 10us 80us enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__
python main 100us 200us train.py(20): update
python main 110us 180us torch/optim/optimizer.py(484): wrapper
mark main 120us 100us Optimizer.step#SGD.step
call main 130us 5us cudaLaunchKernel corr=1
kernel 7 140us 10us sgd corr=1
)");
  ASSERT_EQ(summary.ranges.size(), 1U);
  EXPECT_EQ(summary.ranges[0].site.source.file, "train.py");
  EXPECT_EQ(summary.ranges[0].site.source.line, 20);
  ASSERT_EQ(summary.loaders.size(), 1U);
  EXPECT_EQ(summary.loaders[0].site.source.line, 12);
}

// 32 MB in 2 ms are 16 GB/s, 64 MB in 8 ms 8 GB/s: one class from 16 MiB, its median 12.
TEST(Transfers, RatesByDirectionPinningAndSize) {
  const TraceSummary summary = places_of(R"(
copy 7 0ms 2ms HtoD bytes=32000000 corr=1
copy 7 10ms 8ms HtoD bytes=64000000 corr=2
copy 7 20ms 1us HtoD bytes=100 corr=3
copy 7 30ms 1ms HtoD pageable bytes=4000000 corr=4
copy 7 40ms 1ms DtoD bytes=4000000 corr=5
)");
  ASSERT_EQ(summary.transfers.size(), 4U);
  const TransferUse& small = summary.transfers[0];
  EXPECT_EQ(small.at_least, Bytes(0));
  const TransferUse& large = summary.transfers[1];
  EXPECT_EQ(large.kind, CopyKind::host_to_device);
  EXPECT_FALSE(large.pageable);
  EXPECT_EQ(large.at_least, Bytes(16 * 1048576.0));
  EXPECT_EQ(large.count, 2);
  EXPECT_NEAR(large.median.value(), 12e9, 1);
  EXPECT_NEAR(large.p10.value(), 8.8e9, 1);
  EXPECT_TRUE(summary.transfers[2].pageable);
  EXPECT_EQ(summary.transfers[3].kind, CopyKind::device_to_device);
}

}  // namespace
}  // namespace rooftile
