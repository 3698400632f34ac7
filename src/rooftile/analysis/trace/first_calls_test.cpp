#include "rooftile/analysis/trace/first_calls.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/timeline_text.h"

namespace rooftile::trace {
namespace {

// Asks about the calls of a recording.
template <class Ask>
auto asked(const std::string& text, Ask ask) {
  const auto timeline = parse_timeline(text);
  EXPECT_TRUE(timeline) << to_string(timeline.error());
  const Links links = link_events(*timeline);
  FirstCalls calls(*timeline, links);
  return ask(calls, *timeline);
}

// Of 100 us and five times as long as later ones, before any launch.
TEST(FirstCalls, AnAllocationCreatesTheContext) {
  const auto creates = [](std::uint32_t call, int first, int later,
                          const std::string& before = "") {
    return asked(
        before + fmt::format("call main 1000us {}us cudaFree\n"
                             "call main 2000us {}us cudaFree\n"
                             "call main 3000us 5us cudaLaunchKernel corr=1\n"
                             "kernel 7 3010us 5us a corr=1\n",
                             first, later),
        [&](const FirstCalls& calls, const Timeline&) { return calls.creates_context(call); });
  };
  EXPECT_TRUE(creates(0, 100, 20));
  EXPECT_FALSE(creates(0, 99, 5));
  EXPECT_FALSE(creates(0, 100, 21));
  EXPECT_TRUE(creates(0, 105, 21));
  EXPECT_FALSE(creates(1, 100, 900));
  EXPECT_FALSE(creates(1, 900, 5, "call main 0us 5us cudaLaunchKernel corr=2\n"));
  EXPECT_FALSE(
      asked("call main 0us 900us cudaFree\n",
            [](const FirstCalls& calls, const Timeline&) { return calls.creates_context(0); }));
}

TEST(FirstCalls, LibrariesAreSetUpOnceOrForEachShape) {
  const std::string text = R"(
op main 0us 5us aten::mm dims=[[2,2]] types=[float]
op main 10us 5us aten::mm dims=[[3,3]] types=[float]
op main 20us 5us aten::cudnn_convolution dims=[[2,2]] types=[float]
op main 30us 5us aten::cudnn_convolution dims=[[3,3]] types=[float]
op main 40us 5us aten::cudnn_convolution dims=[[2,2]] types=[float]
op main 50us 5us aten::relu dims=[[2,2]] types=[float]
op main 60us 5us aten::_scaled_mm dims=[[2,2]] types=[float]
)";
  const auto sets_up = [&](std::uint32_t op) {
    return asked(text,
                 [&](FirstCalls& calls, const Timeline&) { return calls.sets_library_up(op); });
  };
  EXPECT_TRUE(sets_up(0));
  EXPECT_FALSE(sets_up(1));
  EXPECT_TRUE(sets_up(2));
  EXPECT_TRUE(sets_up(3));
  EXPECT_FALSE(sets_up(4));
  EXPECT_FALSE(sets_up(5));
  EXPECT_TRUE(sets_up(6));
  EXPECT_FALSE(sets_up(kNone));
}

// The name of the kernel that is launched next after `at_us`.
std::string next_first(const std::string& text, int at_us, Nanoseconds length) {
  return asked(text, [&](const FirstCalls& calls, const Timeline& timeline) {
    const Nanoseconds at = Nanoseconds{at_us} * 1000;
    return std::string(timeline.strings[calls.next_first_kernel(at, 0, length)]);
  });
}

// A launch of 5 ms shows a library starting.
std::string launches_of(const std::string& kernel, int first_us, const std::string& more = "") {
  return fmt::format(
             "call main 0us {}us cudaLaunchKernel corr=1\nkernel 7 10ms 1ms fill corr=1\n"
             "call main 60000us 10us cudaLaunchKernel corr=2\nkernel 7 61ms 1ms {} corr=2\n",
             first_us, kernel) +
         more;
}

TEST(FirstCalls, AKernelOfALibraryMayBeLaunchedForTheFirstTime) {
  const std::string gemm = "ampere_sgemm_128x64_nn";
  EXPECT_EQ(next_first(launches_of(gemm, 5000), 50'000, 8'000'000), gemm);
  EXPECT_EQ(next_first(launches_of(gemm, 4999), 50'000, 8'000'000), "");
  EXPECT_EQ(next_first(launches_of("my_kernel", 5000), 50'000, 8'000'000), "");
  EXPECT_EQ(next_first(launches_of(gemm, 5000), 60'001, 8'000'000), "");
  EXPECT_EQ(next_first(launches_of(gemm, 5000, "op main 0us 5us aten::mm\n"), 50'000, 8'000'000),
            "");
  // Three quarters of the time come back before the next launch.
  const auto again = [&](int at_us) {
    return next_first(launches_of(gemm, 5000,
                                  fmt::format("call main {}us 10us cudaLaunchKernel corr=3\n"
                                              "kernel 7 90ms 1ms {} corr=3\n",
                                              at_us, gemm)),
                      50'000, 8'000'000);
  };
  EXPECT_EQ(again(60'010 + 5'999), gemm);
  EXPECT_EQ(again(60'010 + 6'000), "");
  // The first launch of another thread follows nothing.
  const std::string elsewhere = "call other 80ms 10us cudaLaunchKernel corr=3\nkernel 7 90ms 1ms ";
  EXPECT_EQ(next_first(launches_of(gemm, 5000, elsewhere + gemm + " corr=3\n"), 50'000, 8'000'000),
            gemm);
  // Copies and launches of other threads between, however many.
  std::string others;
  for (int i = 0; i < 70; ++i) {
    others += fmt::format(
        "call main {0}us 1us cudaMemcpyAsync\ncall other {0}us 1us cudaLaunchKernel\n", 50'001 + i);
  }
  EXPECT_EQ(next_first(launches_of(gemm, 5000, others), 50'000, 8'000'000), gemm);
}

// A compiler takes ten milliseconds or more until the launch.
TEST(FirstCalls, AKernelMayBeCompiledBeforeItsLaunch) {
  for (const char* kernel : {"triton_poi_1", "fused_mul_2", "nvfuser_3", "CudaCodeGen::kernel1"}) {
    EXPECT_EQ(next_first(launches_of(kernel, 5), 60'000, 10'000'000), kernel);
    EXPECT_EQ(next_first(launches_of(kernel, 5), 60'000, 9'999'999), "") << kernel;
    EXPECT_EQ(next_first(launches_of(kernel, 5), 59'999, 10'000'000), "") << kernel;
  }
}

TEST(FirstCalls, CallsThatLoadOrAreTheFirstOfTheirName) {
  const std::string text = R"(
call main 0us 5us cuModuleLoadData
call main 10us 5us cuModuleLoadData
call main 20us 5us cudaOccupancyMaxActiveBlocksPerMultiprocessor
call main 30us 5us cudaOccupancyMaxActiveBlocksPerMultiprocessor
call main 40us 5us cudaFuncSetAttribute
call main 50us 5us cudaFuncSetAttribute
call main 60us 5us cudaLaunchKernel corr=1
call main 70us 5us cudaLaunchKernel corr=2
call main 80us 5us cudaLaunchKernel corr=3
kernel 7 100us 5us a corr=1
kernel 7 110us 5us b corr=2
kernel 7 120us 5us b corr=3
call main 130us 5us cudaEventQuery
call main 140us 5us cudaEventQuery
)";
  const std::vector<bool> expected{true, true, true,  true, true, true,
                                   true, true, false, true, false};
  for (std::uint32_t call = 0; call < expected.size(); ++call) {
    EXPECT_EQ(asked(text, [&](const FirstCalls& calls,
                              const Timeline&) { return calls.is_first_call(call); }),
              expected[call])
        << call;
  }
}

// The first of some calls of an operator launches a kernel for the first time after 40 us.
TEST(FirstCalls, AnOperatorThatTakesFiveTimesAsLong) {
  const auto is_one = [](int length, int later, int launch_after, int start_us) {
    std::string text = fmt::format(
        "op main 0us {}us aten::foo\ncall main 40us 5us cudaLaunchKernel corr=1\n"
        "kernel 7 50us 5us k corr=1\n",
        length);
    for (int i = 1; i <= later; ++i) {
      text += fmt::format(
          "op main {0}us 10us aten::foo\ncall main {1}us 1us cudaLaunchKernel corr={2}\n"
          "kernel 7 {3}us 5us k corr={2}\n",
          1000 * i, 1000 * i + launch_after, i + 1, 1000 * i + 20);
    }
    return asked(text, [&](FirstCalls& calls, const Timeline&) {
      const bool is_one = calls.is_one(0, Nanoseconds{start_us} * 1000, 40'000);
      EXPECT_EQ(calls.is_one(0, Nanoseconds{start_us} * 1000, 40'000), is_one);
      return is_one;
    });
  };
  EXPECT_TRUE(is_one(50, 3, 2, 0));
  EXPECT_FALSE(is_one(49, 3, 2, 0));
  // It takes as long before the later launches.
  EXPECT_TRUE(is_one(50, 3, 7, 30));
  EXPECT_FALSE(is_one(50, 3, 8, 30));
  EXPECT_TRUE(is_one(50, 2, 2, 0));
  EXPECT_FALSE(is_one(49, 2, 2, 0));
  // Too few calls tell how long it takes: one that begins within the stretch.
  EXPECT_TRUE(is_one(49, 1, 2, 0));
  EXPECT_FALSE(is_one(49, 1, 2, 1));
  EXPECT_FALSE(is_one(39, 3, 2, 0));
}

// The stretch ends where the operator launches a kernel, on its own thread.
TEST(FirstCalls, AnOperatorThatTakesUntilItsLaunch) {
  const auto is_one = [](const std::string& op, Nanoseconds end = 40'000, std::uint32_t row = 0,
                         const char* call = "cudaLaunchKernel corr=1\nkernel 7 50us 5us k corr=1") {
    const std::string text = fmt::format("{}\ncall main 40us 5us {}\n", op, call);
    return asked(text,
                 [&](FirstCalls& calls, const Timeline&) { return calls.is_one(row, 0, end); });
  };
  const std::string foo = "op main 0us 50us aten::foo";
  EXPECT_TRUE(is_one(foo));
  EXPECT_FALSE(is_one(foo, 39'000));
  EXPECT_FALSE(is_one(foo, 41'000));
  EXPECT_FALSE(is_one(foo, 40'000, kNone));
  EXPECT_FALSE(is_one(foo, 40'000, 0, "cudaMemcpyAsync corr=1\ncopy 7 50us 5us HtoD corr=1"));
  EXPECT_FALSE(is_one("mark main 0us 50us range"));
  EXPECT_FALSE(is_one("op other 0us 50us aten::foo"));
  // The library chooses for the first of its shape, whatever follows.
  const std::string mm = "op main 0us 50us aten::mm\nop main 60us 50us aten::mm";
  EXPECT_TRUE(is_one(mm, 45'000));
  EXPECT_FALSE(is_one(mm, 51'000));
  EXPECT_FALSE(is_one(mm, 100'000, 1));
}

}  // namespace
}  // namespace rooftile::trace
