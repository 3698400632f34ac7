#include "tests/support/timeline_text.h"

#include <gtest/gtest.h>

namespace rooftile {
namespace {

TEST(TimelineText, ReadsEveryKindOfLine) {
  const auto timeline = parse_timeline(R"(
device 0 NVIDIA H100 80GB HBM3 sms=132 cc=9.0 memory=80000000000
rank 1 of 8   # a comment
mark main 0us 1ms ProfilerStep#1
op main 10us 120us aten::addmm id=3 seq=0 dims=[[768],[4096,768],[]] types=[float,float,Scalar]
python main 5us 900us train.py(88): train step
call main 20us 5us cudaLaunchKernel corr=9 id=3
kernel 7 30us 100us void gemm<float, 4>(int) corr=9 grid=8,2 block=256
copy 1:20 140us 1.5us HtoD pageable bytes=64 corr=10
fill 7 150us 10ns bytes=8
memory 3us -64 allocated=128 device=0
)");
  ASSERT_TRUE(timeline) << to_string(timeline.error());
  const Timeline& t = *timeline;
  EXPECT_EQ(t.devices.at(0).name, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(t.devices.at(0).sm_count, 132);
  EXPECT_EQ(t.world_size, 8);
  EXPECT_EQ(t.strings[t.ops.name[0]], "ProfilerStep#1");
  EXPECT_EQ(t.ops.sequence[1], 1U);
  EXPECT_EQ(t.arguments.at(t.ops.arguments[1]).dims,
            (std::vector<std::vector<std::int64_t>>{{768}, {4096, 768}, {}}));
  EXPECT_EQ(t.arguments.at(t.ops.arguments[1]).types.at(2), "Scalar");
  EXPECT_EQ(t.strings[t.python.name[0]], "train.py(88): train step");
  EXPECT_EQ(t.calls.correlation[0], 9U);
  EXPECT_EQ(t.strings[t.gpu.name[0]], "void gemm<float, 4>(int)");
  EXPECT_EQ(t.launches.at(t.gpu.details[0]).grid, (std::array<std::uint32_t, 3>{8, 2, 1}));
  EXPECT_EQ(t.streams.at(t.gpu.stream[1]), (GpuStream{1, 20}));
  EXPECT_TRUE(t.copies.at(t.gpu.details[1]).pageable);
  EXPECT_EQ(t.gpu.time.duration(1), 1500);
  EXPECT_EQ(t.memory.allocated[0], 128);
}

TEST(TimelineText, RepeatsWithIdsAndNamesOfTheirOwn) {
  const auto timeline = parse_timeline(
      "repeat 2 every 1ms\nmark main 0us 1ms ProfilerStep#{i}\nkernel 7 5us 2us k corr=4\nend\n");
  ASSERT_TRUE(timeline);
  EXPECT_EQ(timeline->strings[timeline->ops.name[1]], "ProfilerStep#1");
  EXPECT_EQ(timeline->gpu.time.start(1), 1'005'000);
  EXPECT_NE(timeline->gpu.correlation[0], timeline->gpu.correlation[1]);
}

TEST(TimelineText, NamesTheLineItCannotRead) {
  const auto timeline = parse_timeline("rank 0 of 2\nkernel 7 5us oops k\n");
  ASSERT_FALSE(timeline);
  EXPECT_EQ(timeline.error().where, "line 2");
}

}  // namespace
}  // namespace rooftile
