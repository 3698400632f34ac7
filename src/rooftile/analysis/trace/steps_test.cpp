#include "rooftile/analysis/trace/steps.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/timeline_text.h"

namespace rooftile::trace {
namespace {

struct Found {
  StepMarks marks;
  std::vector<Nanoseconds> bounds;
  Window window;
};

Found find(const char* text) {
  const auto timeline = parse_timeline(text);
  EXPECT_TRUE(timeline) << to_string(timeline.error());
  const Links links = link_events(*timeline);
  const GpuTrack track = busiest_gpu(*timeline, KernelNames(*timeline));
  Found found{find_steps(*timeline, links, track), {}, {}};
  if (!found.marks.steps.empty()) {
    found.bounds = step_bounds(found.marks, *timeline, links);
    found.window = {found.bounds.front(), found.bounds.back()};
  }
  return found;
}

TEST(Steps, OfTheProfiler) {
  const Found found = find(R"(
mark main 0us 10us ProfilerStep#3
mark main 10us 12us ProfilerStep#4
mark main 1us 2us Optimizer.step#SGD.step
call main 20us 1us cudaLaunchKernel corr=1
call main 30us 1us cudaLaunchKernel corr=2
kernel 7 21us 9us last corr=1
kernel 7 31us 9us after corr=2
)");
  EXPECT_EQ(found.marks.source, StepSource::profiler_step);
  EXPECT_EQ(found.marks.steps, (std::vector<Window>{{0, 10'000}, {10'000, 22'000}}));
  EXPECT_EQ(found.window, (Window{0, 30'000}));  // until the kernel that the steps launched is done
}

// A program's own loop: the same two kernels, and a wait for them. What comes before and after is
// done once.
TEST(Steps, RoundsOfALoopThatWaits) {
  const std::string loop = R"(
copy 7 0us 10us HtoD corr=90
call main 0us 5us cudaMemcpy corr=90
repeat 4 every 100us
call main 100us 5us cudaLaunchKernel corr=1
call main 110us 5us cudaLaunchKernel corr=2
kernel 7 110us 20us seed corr=1
kernel 7 130us 40us fit corr=2
call main 120us 52us cudaEventSynchronize
end
call main 600us 5us cudaLaunchKernel corr=91
kernel 7 610us 10us sum corr=91
copy 7 620us 10us DtoH corr=92
call main 615us 16us cudaMemcpy corr=92
)";
  const Found found = find(loop.c_str());
  EXPECT_EQ(found.marks.source, StepSource::repetition);
  EXPECT_EQ(found.marks.steps,
            (std::vector<Window>{
                {110'000, 210'000}, {210'000, 310'000}, {310'000, 410'000}, {410'000, 470'000}}));
}

// A layer that reads a size back within its operator is no step.
TEST(Steps, WaitsWithinOperatorsEndNoRound) {
  const std::string layers = R"(
repeat 4 every 100us
op main 100us 90us aten::nonzero id=1
call main 100us 5us cudaLaunchKernel corr=1 id=1
call main 110us 5us cudaLaunchKernel corr=2 id=1
kernel 7 110us 20us count corr=1
kernel 7 130us 40us select corr=2
call main 120us 52us cudaStreamSynchronize id=1
end
)";
  EXPECT_TRUE(find(layers.c_str()).marks.steps.empty());
}

// What was launched before outlasts, on another stream, most of what the step launches.
TEST(Steps, BeginWithTheirOwnWorkBesideALongKernel) {
  const Found found = find(R"(
call main 0us 1us cudaLaunchKernel corr=1
mark main 10us 10us ProfilerStep#1
call main 12us 1us cudaLaunchKernel corr=2
call main 14us 1us cudaLaunchKernel corr=3
kernel 8 2us 88us a corr=1
kernel 7 20us 60us b corr=2
kernel 7 80us 20us c corr=3
)");
  EXPECT_EQ(found.bounds, (std::vector<Nanoseconds>{10'000, 100'000}));
}

// The host is done with the step before the GPU: in a loop the GPU would not have waited for it.
TEST(Steps, OfOneThatFindsTheGpuIdleBeginWithItsWork) {
  const Found found = find(R"(
mark main 0us 30us ProfilerStep#1
call main 12us 1us cudaLaunchKernel corr=1
kernel 7 14us 86us a corr=1
)");
  EXPECT_EQ(found.bounds, (std::vector<Nanoseconds>{14'000, 100'000}));
}

// Nothing is recorded for a millisecond: the profiler starts.
TEST(Steps, BeginWhereTheRecordingDoes) {
  const auto with = [](const std::string& second) {
    const StepMarks marks = find((R"(
mark main 0us 3000us ProfilerStep#1
op main 1000us 100us aten::mul
call main 1010us 5us cudaLaunchKernel corr=1
kernel 7 1020us 5us a corr=1
mark main 3000us 3000us ProfilerStep#2
call main )" + second +
                                  R"( 5us cudaLaunchKernel corr=2
kernel 7 5010us 5us a corr=2
)")
                                     .c_str())
                                .marks;
    EXPECT_EQ(marks.silent_head, marks.steps.front().start);
    return marks.silent_head;
  };
  EXPECT_EQ(with("3100us"), 1'000'000);
  EXPECT_EQ(with("3900us"), 0);
}

TEST(Steps, LastUntilTheirWorkOnTheGpuIsDone) {
  // The host runs ahead. Step 1 launches until 52 us; step 2 launches nothing that ends later.
  const Found found = find(R"(
mark main 0us 10us ProfilerStep#1
mark main 12us 10us ProfilerStep#2
mark main 30us 10us ProfilerStep#3
call main 2us 1us cudaLaunchKernel corr=1
call main 11us 1us cudaLaunchKernel corr=2
call main 14us 1us cudaLaunchKernel corr=3
call main 32us 1us cudaLaunchKernel corr=4
kernel 7 3us 20us a corr=1
kernel 7 23us 29us b corr=2
kernel 8 15us 5us c corr=3
kernel 7 52us 8us d corr=4
)");
  EXPECT_EQ(found.bounds, (std::vector<Nanoseconds>{3'000, 52'000, 52'000, 60'000}));
}

TEST(Steps, OfRangesThatTheUserNames) {
  const Found found = find(
      "mark main 0us 10us iteration 1\nmark main 12us 10us iteration 2\nmark main 1us 3us forward");
  EXPECT_EQ(found.marks.source, StepSource::user_range);
  EXPECT_EQ(found.marks.steps.size(), 2U);
}

TEST(Steps, OfRangesWithWordsForTheKindOfStep) {
  const Found found = find(
      "mark main 0us 10us Warm-up Step 1\nmark main 12us 10us Warm-up Step 2\n"
      "mark main 30us 9us steps per epoch\nmark main 50us 9us Step Function");
  EXPECT_EQ(found.marks.source, StepSource::user_range);
  EXPECT_EQ(found.marks.steps.size(), 2U);
}

// An inner loop's "iteration" launches a small part of what the GPU computes.
TEST(Steps, CoverMostKernels) {
  const char* const text = R"(
mark main 0us 10us iteration 1
mark main 20us 10us iteration 2
call main 1us 1us cudaLaunchKernel corr=1
call main 10us 1us cudaLaunchKernel corr=2
call main 21us 1us cudaLaunchKernel corr=3
kernel 7 2us 5us a corr=1
kernel 7 13us {}us b corr=2
kernel 7 60us 5us a corr=3
)";
  const auto with = [&](const char* time) {
    std::string filled = text;
    filled.replace(filled.find("{}"), 2, time);
    return find(filled.c_str()).marks.source;
  };
  EXPECT_EQ(with("10"), StepSource::user_range);
  EXPECT_EQ(with("11"), StepSource::none);
}

TEST(Steps, BeginWhenWhatWasLaunchedBeforeIsDone) {
  const Found found = find(R"(
call main 1us 1us cudaLaunchKernel corr=1
mark main 10us 10us ProfilerStep#1
mark main 20us 10us ProfilerStep#2
call main 12us 1us cudaLaunchKernel corr=2
call main 22us 1us cudaLaunchKernel corr=3
kernel 7 3us 37us a corr=1
kernel 7 40us 20us b corr=2
kernel 7 60us 20us c corr=3
)");
  EXPECT_EQ(found.bounds, (std::vector<Nanoseconds>{40'000, 60'000, 80'000}));
}

// The kernels of one graph start one step.
TEST(Steps, BeginWithTheirGraphs) {
  const Found found = find(R"(
repeat 12 every 100us
call main 10us 5us cudaGraphLaunch corr=1
kernel 7 20us 5us a corr=1
kernel 7 30us 5us b corr=1
kernel 7 40us 5us c corr=1
kernel 7 50us 5us d corr=1
kernel 7 60us 5us e corr=1
end
)");
  EXPECT_EQ(found.marks.source, StepSource::repetition);
  EXPECT_EQ(found.marks.steps.size(), 12U);
  EXPECT_EQ(found.window, (Window{20'000, 1'165'000}));
}

// A recording of one step of an engine is one step.
TEST(Steps, OfOneStepOfAnEngine) {
  const Found found = find(R"(
mark main 0us 50us step[DECODE bs=32]
call main 10us 5us cudaGraphLaunch corr=1
kernel 7 20us 60us a corr=1
)");
  EXPECT_EQ(found.marks.source, StepSource::engine);
  EXPECT_EQ(found.marks.work, (std::vector<ServingStage>{ServingStage::decode}));
  EXPECT_EQ(found.bounds, (std::vector<Nanoseconds>{0, 80'000}));
}

TEST(Steps, OfServingEngines) {
  const Found vllm = find(R"(
mark main 0us 50us execute_300_context_2(sq300sk300)_generation_0(sq0sk0)
mark main 50us 10us execute_context_0(0)_generation_2(2)
mark main 52us 5us gpu_model_runner: forward
mark main 60us 20us execute_context_1(64)_generation_2(2)
)");
  EXPECT_EQ(vllm.marks.source, StepSource::engine);
  EXPECT_EQ(vllm.marks.steps.size(), 3U);
  EXPECT_EQ(vllm.marks.work, (std::vector<ServingStage>{ServingStage::prefill, ServingStage::decode,
                                                        ServingStage::mixed}));
  const Found tensorrt = find(R"(
mark main 0us 50us [Executor] _forward_step 7: 1 ctx reqs, 0 gen reqs
mark main 50us 10us [Executor] _forward_step 8: 0 ctx reqs, 4 gen reqs
)");
  EXPECT_EQ(tensorrt.marks.work,
            (std::vector<ServingStage>{ServingStage::prefill, ServingStage::decode}));
  const Found scheduler = find(R"(
mark main 0us 50us execute_new_1_cached_0
mark main 50us 10us execute_new_0_cached_4
)");
  EXPECT_EQ(scheduler.marks.work,
            (std::vector<ServingStage>{ServingStage::prefill, ServingStage::decode}));
  const Found sglang = find(R"(
mark main 0us 50us step[EXTEND bs=1 toks=2048]
mark main 50us 10us step[DECODE bs=32]
)");
  EXPECT_EQ(sglang.marks.work,
            (std::vector<ServingStage>{ServingStage::prefill, ServingStage::decode}));
}

// A prefill of 9 other kernels comes before 4 equal rounds.
TEST(Steps, RepetitionAfterSomethingElse) {
  std::vector<std::uint32_t> sequence{50, 51, 52, 53, 54, 55, 56, 57, 58};
  for (std::uint32_t i = 0; i < 40; ++i) sequence.push_back(i % 10);
  const std::vector<std::size_t> anchors{0, 9, 19, 29, 39};
  EXPECT_EQ(find_repetition(sequence, anchors), (Repetition{9, 10, 4}));
}

TEST(Steps, BetweenOptimizerSteps) {
  const Found found = find(R"(
repeat 4 every 100us
mark main 80us 10us Optimizer.step#AdamW.step
mark main 92us 1us Optimizer.step#Other.step
end
)");
  EXPECT_EQ(found.marks.source, StepSource::optimizer);
  EXPECT_EQ(found.marks.steps,
            (std::vector<Window>{{90'000, 190'000}, {190'000, 290'000}, {290'000, 390'000}}));
}

// What comes before the first mark is a step, too, where it has the work of one.
TEST(Steps, TheFirstBetweenOptimizerSteps) {
  const auto with = [](const char* first) {
    return find((std::string(first) + R"(
repeat 4 every 100us
call main 20us 5us cudaLaunchKernel corr=1
kernel 7 30us 5us a corr=1
mark main 80us 10us Optimizer.step#AdamW.step
end
)")
                    .c_str())
        .marks.steps.size();
  };
  EXPECT_EQ(with(""), 4U);
  EXPECT_EQ(with("call main 1us 5us cudaLaunchKernel corr=9\nkernel 7 8us 5us b corr=9\n"), 3U);
}

TEST(Steps, BetweenBatches) {
  const Found found =
      find("repeat 3 every 50us\nmark main 5us 1us enumerate(DataLoader)#_Iter.__next__\nend\n");
  EXPECT_EQ(found.marks.source, StepSource::data_loader);
  EXPECT_EQ(found.marks.steps, (std::vector<Window>{{5'000, 55'000}, {55'000, 105'000}}));
}

TEST(Steps, OfRepeatedKernels) {
  const Found found = find(R"(
repeat 5 every 100us
copy 7 0us 1us HtoD bytes=64
kernel 7 10us 5us a
kernel 7 20us 5us b
kernel 7 30us 5us a
end
)");
  EXPECT_EQ(found.marks.source, StepSource::repetition);
  ASSERT_EQ(found.marks.steps.size(), 5U);
  EXPECT_EQ(found.marks.steps[1], (Window{100'000, 200'000}));
}

// A hundred rounds of two kernels and nothing else beside copies before and after.
TEST(Steps, OfAllThereIs) {
  const auto with = [](const std::string& head) {
    return find((head + "repeat 100 every 100us\nkernel 7 10us 5us a\nkernel 7 20us 5us b\nend\n"
                        "copy 7 11000us 1us DtoH bytes=64\n")
                    .c_str())
        .marks.steps.size();
  };
  EXPECT_EQ(with("copy 7 0us 1us HtoD bytes=64\n"), 100U);
  EXPECT_EQ(with("kernel 7 0us 1us c\nkernel 7 2us 1us d\nkernel 7 4us 1us e\n"
                 "kernel 7 5us 1us f\nkernel 7 6us 1us g\n"),
            0U);
}

// The loop copies its arrays to the GPU and back for one kernel.
TEST(Steps, OneKernelWithItsInputAndResultIsOne) {
  const Found found = find(R"(
repeat 9 every 100us
copy 7 0us 1us HtoD bytes=64
kernel 7 10us 5us a
copy 7 20us 1us DtoH bytes=64
end
)");
  EXPECT_EQ(found.marks.steps.size(), 9U);
}

// The recording begins within a round, whose copy comes late in it.
TEST(Steps, RepetitionBeginsBeforeItsFirstCopy) {
  std::vector<std::uint32_t> sequence;
  for (std::uint32_t i = 0; i < 44; ++i) sequence.push_back(i % 10);
  const std::vector<std::size_t> anchors{8, 18, 28, 38};
  EXPECT_EQ(find_repetition(sequence, anchors), (Repetition{0, 10, 4}));
}

TEST(Steps, LayersAreNone) {
  const Found found =
      find("repeat 12 every 100us\nkernel 7 10us 5us a\nkernel 7 20us 5us b\nend\n");
  EXPECT_EQ(found.marks.source, StepSource::none);
}

TEST(Steps, OneKernelWithItsCopyIsNone) {
  const Found found =
      find("repeat 9 every 100us\ncopy 7 0us 1us HtoD bytes=64\nkernel 7 10us 5us a\nend\n");
  EXPECT_EQ(found.marks.source, StepSource::none);
}

// Weights are copied once, and layers repeat after them: their first is at a copy, no other is.
TEST(Steps, LayersBehindAnUploadAreNone) {
  const Found found = find(R"(
copy 7 0us 1us HtoD bytes=64
copy 7 2us 1us HtoD bytes=64
repeat 40 every 100us
kernel 7 10us 5us a
kernel 7 20us 5us b
kernel 7 30us 5us a
kernel 7 40us 5us c
end
)");
  EXPECT_EQ(found.marks.source, StepSource::none);
}

TEST(Steps, RepetitionAllowsOneInTwentyToDiffer) {
  std::vector<std::uint32_t> sequence;
  for (std::uint32_t i = 0; i < 400; ++i) sequence.push_back(i % 40);
  const std::vector<std::size_t> anchors{0, 20, 40};
  EXPECT_EQ(find_repetition(sequence, anchors), (Repetition{0, 40, 10}));
  for (std::size_t i = 0; i < 8; ++i) sequence[7 + 50 * i] = 1000;  // 15 of 360 differ
  EXPECT_EQ(find_repetition(sequence, anchors), (Repetition{0, 40, 10}));
  sequence[3] = sequence[123] = sequence[200] = 1000;  // 20
  EXPECT_EQ(find_repetition(sequence, anchors), std::nullopt);
}

TEST(Steps, ExactRepetitionIsTheShortestThatTheEndKeeps) {
  const std::vector<std::uint32_t> passes{9, 1, 2, 3, 1, 2, 3, 1, 2, 3};
  EXPECT_EQ(find_exact_repetition(passes), (Repetition{1, 3, 3}));
  // Layers have a head behind them.
  std::vector<std::uint32_t> layers = passes;
  layers.push_back(7);
  EXPECT_EQ(find_exact_repetition(layers), std::nullopt);
  std::vector<std::uint32_t> several;
  for (int pass = 0; pass < 4; ++pass) several.insert(several.end(), layers.begin(), layers.end());
  EXPECT_EQ(find_exact_repetition(several), (Repetition{0, layers.size(), 4}));
  EXPECT_EQ(find_exact_repetition({}), std::nullopt);
}

// Passes of 20 kernels with no copy, each of layers of 6 and a head of 2.
std::string passes(const char* round, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    for (int kernel = 0; kernel < 20; ++kernel) {
      const std::string id = std::to_string(1 + 20 * i + kernel);
      const std::string start = std::to_string(1000 * i + 40 * kernel);
      const std::string name = kernel < 18 ? "layer" + std::to_string(kernel % 6) : "head";
      text += "call main " + start + "us 5us cudaLaunchKernel corr=" + id + "\n";
      text += "kernel 7 " + start + ".5us 30us " + name + " corr=" + id + "\n";
    }
    if (*round != '\0') text += "mark main " + std::to_string(1000 * i) + round;
  }
  return text;
}

TEST(Steps, OfKernelsThatRepeatWithoutADifference) {
  const Found found = find(passes("", 5).c_str());
  EXPECT_EQ(found.marks.source, StepSource::repetition);
  EXPECT_EQ(found.marks.steps.size(), 5U);
  EXPECT_EQ(found.marks.rounds, 0U);
}

TEST(Steps, OfTheRoundsThatAProfilersStepHolds) {
  const Found found = find(("mark main 0us 5ms ProfilerStep#2\n" + passes("", 5)).c_str());
  EXPECT_EQ(found.marks.source, StepSource::repetition);
  EXPECT_EQ(found.marks.steps.size(), 5U);
  EXPECT_EQ(found.marks.rounds, 5U);
}

// What the constructor and the first of the optimizer's steps do comes before the first interval.
TEST(Steps, OfTheOptimizersStepsThatAProfilersStepHolds) {
  const Found found =
      find(("mark main 0us 5ms ProfilerStep#2\ncall main 1us 1us cudaLaunchKernel corr=900\n"
            "kernel 7 2us 1us init corr=900\n" +
            passes("us 900us Optimizer.step#Adam.step\n", 4))
               .c_str());
  EXPECT_EQ(found.marks.source, StepSource::optimizer);
  EXPECT_EQ(found.marks.steps.size(), 3U);
  EXPECT_EQ(found.marks.rounds, 3U);
}

// Two networks' optimizers in turn are one step.
TEST(Steps, OptimizersThatDoDifferentWorkAreNoRounds) {
  const Found found = find(R"(
mark main 0us 400us ProfilerStep#2
mark main 10us 10us Optimizer.step#Adam.step
mark main 110us 10us Optimizer.step#Adam.step
mark main 210us 10us Optimizer.step#Adam.step
call main 50us 5us cudaLaunchKernel corr=1
kernel 7 55us 5us a corr=1
call main 130us 5us cudaLaunchKernel corr=2
kernel 7 135us 5us a corr=2
call main 150us 5us cudaLaunchKernel corr=3
kernel 7 155us 5us a corr=3
)");
  EXPECT_EQ(found.marks.source, StepSource::profiler_step);
  EXPECT_EQ(found.marks.steps.size(), 1U);
}

TEST(Steps, OneRangeThatTheUserCallsAStepIsOne) {
  const Found found = find(R"(
mark main 0us 50us moe_train_step
call main 10us 5us cudaLaunchKernel corr=1
kernel 7 20us 60us a corr=1
)");
  EXPECT_EQ(found.marks.source, StepSource::user_range);
  EXPECT_EQ(found.marks.steps.size(), 1U);
}

// Nothing tells layers from passes where the recording ends within one.
TEST(Steps, NoneByRepetitionWhereTheRecordingEndsEarly) {
  std::string text = passes("", 5);
  text += "repeat 60 every 40us\ncall main 5ms 5us cudaLaunchKernel corr=5000\nend\n";
  EXPECT_EQ(find(text.c_str()).marks.source, StepSource::none);
}

// What the rounds do not cover is a tenth of a round's worth of three, and before a later anchor
// than the first a quarter in all.
TEST(Steps, RepetitionCoversNearlyAll) {
  const auto found = [](std::uint32_t head, std::uint32_t count,
                        const std::vector<std::size_t>& anchors) {
    std::vector<std::uint32_t> sequence;
    for (std::uint32_t i = 0; i < head; ++i) sequence.push_back(100 + i);
    for (std::uint32_t i = 0; i < count; ++i) sequence.push_back(i % 10);
    return find_repetition(sequence, anchors);
  };
  EXPECT_EQ(found(0, 29, {0, 10, 20}), std::nullopt);
  EXPECT_EQ(found(0, 30, {0, 10, 20}), (Repetition{0, 10, 3}));
  EXPECT_EQ(found(0, 33, {0, 10, 20}), (Repetition{0, 10, 3}));
  EXPECT_EQ(found(0, 34, {0, 10, 20}), std::nullopt);
  EXPECT_EQ(found(20, 30, {20, 30, 40}), (Repetition{20, 10, 3}));
  EXPECT_EQ(found(10, 30, {0, 10, 20, 30}), (Repetition{10, 10, 3}));
  EXPECT_EQ(found(11, 30, {0, 11, 21, 31}), std::nullopt);
  EXPECT_EQ(found(10, 33, {0, 10, 20, 30}), std::nullopt);
}

TEST(Steps, RepetitionDiffersInOneOfTwentyEntriesAtTheMost) {
  std::vector<std::uint32_t> sequence;
  for (std::uint32_t i = 0; i < 400; ++i) sequence.push_back(i % 40);
  // Each of the nine differs from the round before and from the one behind: 18 of 360.
  for (std::uint32_t i = 0; i < 9; ++i) sequence[47 + 37 * i] = 1000 + i;
  const std::vector<std::size_t> anchors{0, 20, 40};
  EXPECT_EQ(find_repetition(sequence, anchors), (Repetition{0, 40, 10}));
  sequence[3] = 2000;
  EXPECT_EQ(find_repetition(sequence, anchors), std::nullopt);
}

TEST(Steps, ExactRepetitionIsHalfOfTheSequence) {
  const auto found = [](std::uint32_t head, std::uint32_t rounds) {
    std::vector<std::uint32_t> sequence;
    for (std::uint32_t i = 0; i < head; ++i) sequence.push_back(100 + i);
    for (std::uint32_t i = 0; i < 3 * rounds; ++i) sequence.push_back(i % 3);
    return find_exact_repetition(sequence);
  };
  EXPECT_EQ(found(9, 3), (Repetition{9, 3, 3}));
  EXPECT_EQ(found(10, 3), std::nullopt);
  EXPECT_EQ(found(0, 2), std::nullopt);
}

// One round of twenty may lack the copy that begins the others.
TEST(Steps, NearlyEachRoundTakesInData) {
  const auto source = [](int first_without, int second_without) {
    std::string text;
    for (int round = 0; round < 20; ++round) {
      const bool lacks = round == first_without || round == second_without;
      const std::string at = std::to_string(1000 * round);
      text += "copy 7 " + at + "us 1us " + (lacks ? "DtoD" : "HtoD") + " bytes=64\n";
      for (int kernel = 1; kernel <= 40; ++kernel) {
        text += "kernel 7 " + std::to_string(1000 * round + 20 * kernel) + "us 10us k" +
                std::to_string(kernel) + "\n";
      }
    }
    return find(text.c_str()).marks.source;
  };
  EXPECT_EQ(source(10, 10), StepSource::repetition);
  EXPECT_EQ(source(10, 18), StepSource::none);
}

// Five rounds of 15 us of kernels in 435 us are three quarters of the kernels' time or of all.
TEST(Steps, OfRepeatedKernelsThatAreMostOfTheWork) {
  const auto source = [](int head, int start) {
    std::string text = "kernel 7 0us " + std::to_string(head) + "us init\nrepeat 5 every 100us\n";
    text += "copy 7 " + std::to_string(start) + "us 1us HtoD bytes=64\n";
    for (const int at : {10, 20, 30}) {
      text += "kernel 7 " + std::to_string(start + at) + "us 5us k" + std::to_string(at) + "\n";
    }
    return find((text + "end\n").c_str()).marks.source;
  };
  EXPECT_EQ(source(25, 1000), StepSource::repetition);
  EXPECT_EQ(source(26, 1000), StepSource::none);
  EXPECT_EQ(source(140, 145), StepSource::repetition);
  EXPECT_EQ(source(140, 146), StepSource::none);
}

// Without data that a round takes in: of 16 kernels or more, or a hundred rounds of nearly all
// there is.
TEST(Steps, OfKernelsAlone) {
  const auto steps = [](int head, int rounds, int kernels) {
    std::string text;
    for (int i = 0; i < head; ++i) {
      text += "kernel 7 " + std::to_string(2 * i) + "us 1us head" + std::to_string(i) + "\n";
    }
    text += "repeat " + std::to_string(rounds) + " every 100us\n";
    for (int i = 0; i < kernels; ++i) {
      text += "kernel 7 " + std::to_string(10 + 4 * i) + "us 3us k" + std::to_string(i) + "\n";
    }
    return find((text + "end\n").c_str()).marks.steps.size();
  };
  EXPECT_EQ(steps(0, 5, 16), 5U);
  EXPECT_EQ(steps(0, 5, 15), 0U);
  EXPECT_EQ(steps(0, 2, 16), 0U);
  EXPECT_EQ(steps(0, 100, 2), 100U);
  EXPECT_EQ(steps(0, 99, 2), 0U);
  EXPECT_EQ(steps(4, 100, 2), 100U);
  EXPECT_EQ(steps(5, 100, 2), 0U);
  EXPECT_EQ(steps(0, 100, 1), 0U);
}

// Rounds of 60 us, each followed by a wait, that are three quarters of the kernels' time; from ten
// on half of it, and three quarters of the activities.
TEST(Steps, RoundsOfALoopAreMostOfTheWork) {
  const auto steps = [](int rounds, int behind, int small = 0) {
    std::string text = "repeat " + std::to_string(rounds) + R"( every 100us
call main 100us 5us cudaLaunchKernel corr=1
call main 110us 5us cudaLaunchKernel corr=2
kernel 7 110us 20us seed corr=1
kernel 7 130us 40us fit corr=2
call main 120us 52us cudaEventSynchronize
end
call main 1600us 5us cudaLaunchKernel corr=91
kernel 7 1610us )" + std::to_string(behind) +
                       "us sum corr=91\n";
    for (int i = 0; i < small; ++i) {
      const std::string id = std::to_string(92 + i), at = std::to_string(10'000 + 10 * i);
      text += "call main " + at + "us 5us cudaMemsetAsync corr=" + id + "\n";
      text += "fill 7 " + at + ".5us 1us corr=" + id + "\n";
    }
    return find(text.c_str()).marks.steps.size();
  };
  EXPECT_EQ(steps(2, 10), 0U);
  EXPECT_EQ(steps(3, 10), 3U);
  EXPECT_EQ(steps(4, 80), 4U);
  EXPECT_EQ(steps(4, 81), 0U);
  EXPECT_EQ(steps(9, 400), 0U);
  EXPECT_EQ(steps(10, 400), 10U);
  EXPECT_EQ(steps(10, 600), 10U);
  EXPECT_EQ(steps(10, 601), 0U);
  EXPECT_EQ(steps(12, 720, 7), 12U);
  EXPECT_EQ(steps(12, 720, 8), 0U);
}

// Rounds of up to eight waits each.
TEST(Steps, RoundsOfALoopHoldSeveralWaits) {
  const auto steps = [](int waits) {
    std::string text = "repeat 4 every 1000us\n";
    for (int i = 0; i < waits; ++i) {
      const std::string at = std::to_string(50 * i), id = std::to_string(i + 1);
      text += "call main " + at + "us 5us cudaLaunchKernel corr=" + id + "\nkernel 7 " + at +
              ".5us 20us k" + id + " corr=" + id + "\ncall main " + std::to_string(50 * i + 10) +
              "us 15us cudaEventSynchronize\n";
    }
    return find((text + "end\n").c_str()).marks.steps.size();
  };
  EXPECT_EQ(steps(8), 4U);
  EXPECT_EQ(steps(9), 0U);
}

// At least 200 us, and twice what the second step is silent.
TEST(Steps, OnlyALongSilenceIsTheProfilers) {
  const auto head = [](int first, int second) {
    const StepMarks marks =
        find(("mark main 0us 3000us ProfilerStep#1\ncall main " + std::to_string(first) +
              "us 5us cudaLaunchKernel corr=1\n"
              "kernel 7 2500us 5us a corr=1\n"
              "mark main 3000us 3000us ProfilerStep#2\ncall main " +
              std::to_string(3000 + second) +
              "us 5us cudaLaunchKernel corr=2\n"
              "kernel 7 5500us 5us a corr=2\n")
                 .c_str())
            .marks;
    return marks.silent_head;
  };
  EXPECT_EQ(head(200, 10), 200'000);
  EXPECT_EQ(head(199, 10), 0);
  EXPECT_EQ(head(400, 200), 400'000);
  EXPECT_EQ(head(400, 201), 0);
}

// A fifth more or fewer activities.
TEST(Steps, HeadsWithAboutTheWorkOfAStepAreSteps) {
  const auto steps = [](int head) {
    std::string text;
    const auto add = [&](int at, int count) {
      for (int i = 0; i < count; ++i) {
        const std::string start = std::to_string(at + 5 * i);
        text += "call main " + start + "us 1us cudaLaunchKernel corr=" + start + "\nkernel 7 " +
                start + ".5us 2us a corr=" + start + "\n";
      }
    };
    add(1, head);
    for (int round = 0; round < 3; ++round) {
      if (round > 0) add(100 * round + 1, 5);
      text +=
          "mark main " + std::to_string(100 * round + 80) + "us 10us Optimizer.step#Adam.step\n";
    }
    return find(text.c_str()).marks.steps.size();
  };
  EXPECT_EQ(steps(3), 2U);
  EXPECT_EQ(steps(4), 3U);
  EXPECT_EQ(steps(6), 3U);
  EXPECT_EQ(steps(7), 2U);
}

TEST(Steps, MarksOfOptimizersAndLoadersAreThreeOrMore) {
  const auto steps = [](int count, const std::string& name) {
    return find(("repeat " + std::to_string(count) + " every 50us\nmark main 5us 1us " + name +
                 "\nend\n")
                    .c_str())
        .marks.steps.size();
  };
  for (const char* name : {"Optimizer.step#SGD.step", "enumerate(DataLoader)#_Iter.__next__"}) {
    EXPECT_EQ(steps(2, name), 0U) << name;
    EXPECT_EQ(steps(3, name), 2U) << name;
  }
}

// Of the thread that has most of them; ranges within others are left out, the longest first.
TEST(Steps, AreDisjointRangesOfOneThread) {
  const Found found = find(R"(
mark other 0us 5us ProfilerStep#1
mark main 10us 4us ProfilerStep#2
mark main 10us 20us ProfilerStep#1
mark main 29us 5us ProfilerStep#3
mark main 30us 20us ProfilerStep#4
)");
  EXPECT_EQ(found.marks.steps, (std::vector<Window>{{10'000, 30'000}, {30'000, 50'000}}));
}

}  // namespace
}  // namespace rooftile::trace
