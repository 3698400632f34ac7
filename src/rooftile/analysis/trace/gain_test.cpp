#include "rooftile/analysis/trace/gain.h"

#include <gtest/gtest.h>

#include <utility>

#include "rooftile/analysis/trace/host_copies.h"
#include "rooftile/analysis/trace/op_gain.h"
#include "rooftile/analysis/trace/steady.h"
#include "rooftile/hardware/device_file.h"

namespace rooftile {
namespace {

// 10 ms, of which the GPU is busy for 9.
TraceSummary busy_trace() {
  TraceSummary trace;
  trace.time.span = milliseconds(10);
  trace.time.gpu_busy = trace.time.compute = milliseconds(9);
  trace.time.idle = milliseconds(1);
  trace.time.idle_by_cause[IdleCause::synchronization] = milliseconds(1);
  trace.kernel_time = trace.kernel_time_in_steps = milliseconds(9);
  return trace;
}

Range<Seconds> exactly(Seconds time) { return {time, time, time}; }

TEST(Gain, OfKernelTimeIsAllOfItWhereNothingOverlapsAndTheHostIsInTime) {
  EXPECT_EQ(gain_of_kernel_time(busy_trace(), exactly(milliseconds(2))), exactly(milliseconds(2)));
}

TEST(Gain, OfKernelTimeIsUncertainWhereKernelsOverlap) {
  TraceSummary trace = busy_trace();
  trace.kernel_time_in_steps = milliseconds(10.5);  // in 9 ms of busy GPU
  EXPECT_NEAR(gain_of_kernel_time(trace, exactly(milliseconds(2))).low.value(), 0.5e-3, 1e-12);
}

TEST(Gain, OfKernelTimeIsNotCertainWhereTheHostIsLate) {
  TraceSummary trace = busy_trace();
  trace.time.gpu_busy = trace.time.compute = milliseconds(6);
  trace.time.idle_by_cause = {{IdleCause::launch, milliseconds(4)}};
  const Range<Seconds> gain = gain_of_kernel_time(trace, exactly(milliseconds(2)));
  EXPECT_EQ(gain.low, Seconds(0));
  EXPECT_NEAR(gain.expected.value(), 1.2e-3, 1e-12);  // 6 of 10 ms are the GPU's
  EXPECT_EQ(gain.high, milliseconds(2));
}

TEST(Gain, OfIdleTimeIsItsShareOfTheReplay) {
  TraceSummary trace = busy_trace();
  const auto range = [](double low, double expected, double high) {
    return Range<Seconds>{milliseconds(low), milliseconds(expected), milliseconds(high)};
  };
  trace.predictions = {{Remedy::no_synchronization, range(0.4, 0.8, 1)}};
  EXPECT_EQ(gain_of_idle_time(trace, Remedy::no_synchronization, milliseconds(0.5)),
            range(0.2, 0.4, 0.5));
  EXPECT_EQ(gain_of_idle_time(trace, Remedy::ideal_loader, milliseconds(1)), range(0.5, 1, 1));
  // A replay that saves 3 to 9 ms where the GPU idles 1 ms has other causes too.
  trace.predictions = {{Remedy::no_synchronization, range(3, 5, 9)}};
  EXPECT_EQ(gain_of_idle_time(trace, Remedy::no_synchronization, milliseconds(1)),
            range(0.5, 1, 1));
}

TEST(Gain, OfIdleTimeIsThatOfTheCauseThatTheRemedyTakesAway) {
  const auto range = [](double low, double expected, double high) {
    return Range<Seconds>{milliseconds(low), milliseconds(expected), milliseconds(high)};
  };
  const std::pair<Remedy, IdleCause> cases[] = {
      {Remedy::ideal_loader, IdleCause::data_loading},
      {Remedy::no_synchronization, IdleCause::synchronization},
      {Remedy::no_synchronization, IdleCause::restart},
      {Remedy::batched_launches, IdleCause::launch},
      {Remedy::fused_optimizer, IdleCause::launch},
      {Remedy::no_allocation, IdleCause::allocator},
      {Remedy::asynchronous_copies, IdleCause::copy},
      {Remedy::hidden_communication, IdleCause::communication_wait}};
  for (const auto& [remedy, cause] : cases) {
    TraceSummary trace = busy_trace();
    trace.time.idle_by_cause = {{cause, milliseconds(1)}, {IdleCause::unknown, milliseconds(1)}};
    trace.predictions = {{remedy, range(0.4, 0.8, 1)}};
    EXPECT_EQ(gain_of_idle_time(trace, remedy, milliseconds(0.5)), range(0.2, 0.4, 0.5));
    EXPECT_EQ(gain_of_idle_time(trace, remedy, milliseconds(2)), range(0.4, 0.8, 1));
    trace.time.idle_by_cause.clear();
    EXPECT_EQ(gain_of_idle_time(trace, remedy, milliseconds(2)), range(0.4, 0.8, 1));
  }
}

TEST(Gain, OfKernelTimeStaysInBounds) {
  const auto range = [](double low, double expected, double high) {
    return Range<Seconds>{milliseconds(low), milliseconds(expected), milliseconds(high)};
  };
  TraceSummary trace = busy_trace();
  EXPECT_EQ(gain_of_kernel_time(trace, range(-2, -1, -0.5)), range(0, 0, 0));
  trace.kernel_time_share = 0.25;
  EXPECT_EQ(gain_of_kernel_time(trace, range(1, 2, 3)), range(0.5, 0.5, 3));
  trace.kernel_time_share = 2;
  EXPECT_EQ(gain_of_kernel_time(trace, range(1, 2, 3)), range(1, 2, 3));
  trace.kernel_time_share = -1;
  EXPECT_EQ(gain_of_kernel_time(trace, range(1, 2, 3)), range(0, 0, 3));
  trace.time.gpu_busy = Seconds();
  EXPECT_EQ(gain_of_kernel_time(trace, range(1, 2, 3)), range(0, 0, 0));
}

TEST(Gain, AHostThatIsLateForMoreThanATenthBoundsTheTime) {
  TraceSummary trace = busy_trace();
  for (const IdleCause cause : {IdleCause::launch, IdleCause::data_loading, IdleCause::allocator,
                                IdleCause::host_work, IdleCause::asleep}) {
    trace.time.idle_by_cause = {{cause, milliseconds(0.99)}};
    EXPECT_FALSE(is_host_bound(trace));
    trace.time.idle_by_cause = {{cause, milliseconds(1.01)}};
    EXPECT_TRUE(is_host_bound(trace));
  }
  trace.time.idle_by_cause = {{IdleCause::synchronization, milliseconds(5)}};
  EXPECT_FALSE(is_host_bound(trace));
}

TEST(Gain, SpeedupOfWhatIsLeft) {
  EXPECT_NEAR(speedup(busy_trace(), milliseconds(6)), 2.5, 1e-12);
  EXPECT_EQ(speedup(busy_trace(), milliseconds(10)), 1);
  EXPECT_EQ(speedup(busy_trace(), milliseconds(12)), 1);
}

// What happens once counts from a tenth of the window on.
TEST(SteadySpan, LeavesOutStartUpAndFirstCalls) {
  TraceSummary trace = busy_trace();
  trace.time.idle_by_cause = {{IdleCause::start_up, milliseconds(0.5)},
                              {IdleCause::module_loading, milliseconds(0.4)}};
  EXPECT_EQ(steady_span(trace), milliseconds(10));
  trace.time.idle_by_cause[IdleCause::module_loading] = milliseconds(2.5);
  EXPECT_NEAR(steady_span(trace).value(), 7e-3, 1e-12);
}

// Occupancy after the CUDA C++ Programming Guide's table for compute capability 8.0: 65536
// registers, 2048 threads and 164 KiB of shared memory, 1 KiB of them reserved for each block.
TEST(BlockWaves, AreLimitedByTheScarcestResource) {
  const Result<Device> device = find_device("a100_sxm_80gb");
  ASSERT_TRUE(device);
  struct Case {
    std::uint32_t threads, registers, shared;
    double per_sm;
  };
  for (const Case& c :
       {Case{128, 230, 98304, 1}, Case{128, 230, 0, 2}, Case{256, 32, 0, 8}, Case{1024, 64, 0, 1},
        Case{32, 16, 0, 32}, Case{128, 64, 40000, 4}, Case{768, 16, 0, 2}}) {
    const LaunchShape launch{{224, 1, 1}, {c.threads, 1, 1}, c.registers, c.shared, 0};
    const auto waves = block_waves(launch, *device);
    ASSERT_TRUE(waves);
    EXPECT_EQ(waves->per_sm, c.per_sm) << c.threads << ' ' << c.registers << ' ' << c.shared;
  }
  const auto tail = block_waves({{28, 8, 1}, {128, 1, 1}, 230, 98304, 0}, *device);
  EXPECT_EQ(tail->waves, 3);
  EXPECT_NEAR(tail->efficiency, 224.0 / 324, 1e-12);
  const auto one = block_waves({{1, 1, 1}, {128, 1, 1}, 32, 0, 0}, *device);
  ASSERT_TRUE(one);
  EXPECT_EQ(one->waves, 1);
  EXPECT_NEAR(one->efficiency, 1.0 / (16 * 108), 1e-12);
  const auto two = block_waves({{217, 1, 1}, {1024, 1, 1}, 16, 0, 0}, *device);
  ASSERT_TRUE(two);
  EXPECT_EQ(two->blocks, 217);
  EXPECT_EQ(two->per_sm, 2);
  EXPECT_EQ(two->waves, 2);
  EXPECT_NEAR(two->efficiency, 217.0 / 432, 1e-12);
  EXPECT_EQ(block_waves({{1, 1, 1}, {128, 1, 1}, 32, 0, 0}, *device)->per_sm, 16);
  EXPECT_EQ(block_waves({{1, 1, 1}, {128, 1, 1}, 33, 0, 0}, *device)->per_sm, 12);
  EXPECT_EQ(block_waves({{1, 1, 1}, {32, 1, 1}, 16, 40960, 0}, *device)->per_sm, 4);
  EXPECT_EQ(block_waves({{1, 1, 1}, {32, 1, 1}, 16, 200000, 0}, *device)->per_sm, 1);
  EXPECT_FALSE(block_waves({{28, 8, 1}, {128, 1, 1}, 0, 0, 0}, *device));
  EXPECT_FALSE(block_waves({{0, 0, 0}, {128, 1, 1}, 32, 0, 0}, *device));
  EXPECT_FALSE(block_waves({{28, 8, 1}, {0, 0, 0}, 32, 0, 0}, *device));
}

TEST(BlockWaves, LimitsOfTheGenerations) {
  struct Case {
    const char* gpu;
    double small, large;  // blocks of 32 and of 512 threads
  };
  for (const Case& c :
       {Case{"t4", 16, 2}, Case{"rtx_3060", 16, 3}, Case{"jetson_agx_orin_64gb", 16, 3},
        Case{"l4", 24, 3}, Case{"rtx_5090", 24, 3}, Case{"gb10", 24, 3}, Case{"jetson_thor", 24, 3},
        Case{"v100_sxm2_32gb", 32, 4}, Case{"h100_sxm", 32, 4}, Case{"b200", 32, 4}}) {
    const Result<Device> device = find_device(c.gpu);
    ASSERT_TRUE(device) << c.gpu;
    EXPECT_EQ(block_waves({{1, 1, 1}, {32, 1, 1}, 16, 0, 0}, *device)->per_sm, c.small) << c.gpu;
    EXPECT_EQ(block_waves({{1, 1, 1}, {512, 1, 1}, 16, 0, 0}, *device)->per_sm, c.large) << c.gpu;
  }
  // Before compute capability 8.0 a block takes no shared memory of its own.
  EXPECT_EQ(block_waves({{1, 1, 1}, {32, 1, 1}, 16, 32768, 0}, *find_device("t4"))->per_sm, 2);
}

TEST(Alignment, ShareOfTheRateThatIsLeft) {
  const TimeModel model(*find_device("h100_sxm"));
  // Whole vectors of 16 bytes lose nothing; elements of two bytes are at least that apart.
  EXPECT_NEAR(rate_left_by_alignment(model, Dtype::bf16, 16).expected, 1, 0.01);
  EXPECT_LT(rate_left_by_alignment(model, Dtype::bf16, 2).expected, 0.9);
  EXPECT_EQ(rate_left_by_alignment(model, Dtype::bf16, 1),
            rate_left_by_alignment(model, Dtype::bf16, 2));
}

TEST(RecordedOn, AGpuOfTheSameCapabilityAndNearlyTheSameSize) {
  const Result<Device> h100 = find_device("h100_sxm");
  ASSERT_TRUE(h100);
  TraceSummary trace;
  EXPECT_TRUE(is_recorded_on(trace, *h100));  // nothing else is known
  trace.device = TraceDevice{.sm_count = 132, .major = 9, .minor = 0};
  EXPECT_TRUE(is_recorded_on(trace, *h100));
  trace.device->sm_count = 120;  // a board that is not listed
  EXPECT_TRUE(is_recorded_on(trace, *h100));
  trace.device->sm_count = 119;
  EXPECT_FALSE(is_recorded_on(trace, *h100));
  trace.device->sm_count = 0;
  EXPECT_TRUE(is_recorded_on(trace, *h100));
  trace.device->minor = 1;
  EXPECT_FALSE(is_recorded_on(trace, *h100));
  trace.device = TraceDevice{.sm_count = 114, .major = 9, .minor = 0};
  EXPECT_FALSE(is_recorded_on(trace, *h100));
  trace.device = TraceDevice{};
  EXPECT_TRUE(is_recorded_on(trace, *h100));
  trace.device = TraceDevice{.sm_count = 28, .major = 8, .minor = 6};
  EXPECT_FALSE(is_recorded_on(trace, *h100));
  EXPECT_TRUE(is_recorded_on(trace, *find_device("rtx_3060")));
}

TEST(Uploads, OwnTheWaitsAtTheirPlace) {
  TraceSummary trace = busy_trace();
  CopyUse copy;
  copy.shape = {CopyKind::host_to_device, true, 1000};
  copy.site.op = "aten::copy_";
  copy.count = 1;
  copy.time = copy.exposed = milliseconds(1);
  SyncUse sync;
  sync.call = "cudaStreamSynchronize";
  sync.site = copy.site;
  sync.exposed = milliseconds(2);
  trace.copies = {copy};
  trace.syncs = {sync};
  ASSERT_EQ(uploads(trace).size(), 1U);
  EXPECT_EQ(uploads(trace).front().idle, milliseconds(2));
  copy.shape.kind = CopyKind::device_to_host;  // then it may be the result that is waited for
  trace.copies.push_back(copy);
  EXPECT_EQ(uploads(trace).front().idle, Seconds(0));
}

// 9 of 10 ms is the host at work: what kernels save beyond the tenth waits for it.
TEST(Gain, OfKernelTimeIsNoMoreThanTheHostLeaves) {
  TraceSummary trace = busy_trace();
  trace.host_busy = 0.9 * trace.time.span;
  const Range<Seconds> saved = exactly(0.5 * trace.time.span);
  const Range<Seconds> gain = gain_of_kernel_time(trace, saved);
  EXPECT_NEAR(gain.expected / trace.time.span, 0.1, 1e-9);
  EXPECT_EQ(gain.high, saved.high);
  // Nor do its waits for the loader get shorter.
  trace.time.idle_by_cause = {{IdleCause::data_loading, 0.04 * trace.time.span}};
  EXPECT_NEAR(gain_of_kernel_time(trace, saved).expected / trace.time.span, 0.06, 1e-9);
}

// The host needs 60 of 181 ms for its own work: no more than 121 can go.
TEST(Gain, NoMoreThanTheOtherWorkLeaves) {
  TraceSummary trace;
  trace.time.span = milliseconds(181);
  trace.time.compute = milliseconds(8);
  trace.host_busy = milliseconds(60);
  const Range<Seconds> gain =
      capped_by_work(trace, {milliseconds(100), milliseconds(150), milliseconds(240)});
  EXPECT_NEAR(to_milliseconds(gain.low), 100, 1e-9);
  EXPECT_NEAR(to_milliseconds(gain.expected), 121, 1e-9);
  EXPECT_NEAR(to_milliseconds(gain.high), 121, 1e-9);
}

// One place copies a pinned batch in 9 ms and a pageable mask in 1 ms, and waits 5 ms for both.
TEST(Gain, PinnedAndPageableCopiesOfAPlaceAreApart) {
  TraceSummary trace;
  const TraceSite site{"aten::copy_", "", {}};
  trace.copies = {{{CopyKind::host_to_device, false, 253'000'000},
                   site,
                   4,
                   milliseconds(9),
                   milliseconds(9),
                   {},
                   {},
                   {}},
                  {{CopyKind::host_to_device, true, 6'700},
                   site,
                   16,
                   milliseconds(1),
                   milliseconds(0.5),
                   {},
                   {},
                   {}}};
  trace.syncs = {{"cudaStreamSynchronize", site, 4, milliseconds(5), milliseconds(5)}};
  const std::vector<HostCopy> all = uploads(trace);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_FALSE(all[0].pageable);
  EXPECT_TRUE(all[1].pageable);
  EXPECT_EQ(all[1].count, 16);
  EXPECT_NEAR(to_milliseconds(all[1].exposed), 0.5, 1e-9);
  EXPECT_NEAR(to_milliseconds(all[1].idle), 0.5, 1e-9);
}

}  // namespace
}  // namespace rooftile
