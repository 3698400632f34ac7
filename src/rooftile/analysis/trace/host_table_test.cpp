#include "rooftile/analysis/trace/host_table.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "rooftile/analysis/trace/summarize.h"
#include "tests/support/timeline_text.h"

namespace rooftile::trace {
namespace {

TraceSummary tables_of(const std::string& text) {
  const auto timeline = parse_timeline(text);
  EXPECT_TRUE(timeline) << to_string(timeline.error());
  return summarize(*timeline);
}

double in_us(Seconds time) { return to_microseconds(time); }

TEST(SteadySum, AFirstStepWithMoreThanThreeTimesAsMuchCountsAsTheOthers) {
  const auto over = [](std::size_t steps, Nanoseconds first, Nanoseconds rest) {
    SteadySum sum;
    sum.add(true, first);
    sum.add(false, rest);
    return sum.over(steps).value() * 1e9;
  };
  EXPECT_NEAR(over(3, 300, 200), 500, 1e-6);
  EXPECT_NEAR(over(3, 301, 200), 300, 1e-6);
  EXPECT_NEAR(over(4, 300, 300), 600, 1e-6);
  EXPECT_NEAR(over(4, 301, 300), 400, 1e-6);
  EXPECT_NEAR(over(2, 900, 100), 1000, 1e-6);
  EXPECT_NEAR(over(3, 900, 0), 900, 1e-6);
}

// 512 places are as many rows; of 600 the last 88 become one.
TEST(HostTable, PlacesBeyondTheMostAreOneRow) {
  for (const std::size_t places : {kMostSites, kMostSites + 88}) {
    std::string text = "kernel 7 0us 100ms a\nkernel 20 0us 1us nccl_all\n";
    for (std::size_t i = 0; i < places; ++i) {
      const std::size_t at = 100 * i;
      text += fmt::format(
          "op main {0}us 90us aten::op{1} id={1}\n"
          "call main {2}us 5us cudaMemcpyAsync corr={1} id={1}\n"
          "copy 9 {3}us 1us HtoD bytes=8 corr={1}\n"
          "call main {4}us 10us cudaStreamSynchronize id={1}\n"
          "kernel 20 {4}us 1us ncclDevKernel_AllReduce_{1}\n"
          "mark main {5}us 1us enumerate(DataLoader)#_Iter{1}.__next__\n",
          at, i + 1, at + 5, at + 20, at + 30, at + 95);
    }
    const TraceSummary summary = tables_of(text);
    const std::size_t rows = std::min(places, kMostSites + 1);
    const auto rest = static_cast<std::int64_t>(places - kMostSites);
    const auto count_of_rest = [](const auto& uses, auto is_rest) {
      std::int64_t count = 0;
      for (const auto& use : uses) count += is_rest(use) ? use.count : 0;
      return count;
    };
    EXPECT_EQ(summary.syncs.size(), rows);
    EXPECT_EQ(count_of_rest(summary.syncs, [](const SyncUse& use) { return use.call == "other"; }),
              rest);
    EXPECT_EQ(summary.loaders.size(), rows);
    EXPECT_EQ(
        count_of_rest(summary.loaders, [](const LoaderUse& use) { return use.name == "other"; }),
        rest);
    EXPECT_EQ(summary.collectives.size(), rows);
    EXPECT_EQ(summary.collectives.back().kernel == "other", rest > 0);
    EXPECT_EQ(summary.copies.size(), rows);
    EXPECT_EQ(
        count_of_rest(summary.copies, [](const CopyUse& use) { return use.site.op == "other"; }),
        rest);
  }
}

// A batch that is handed over in 1.5 ms was ready. Steps of 20 ms and half a millisecond more each.
// The count begins behind the longest row of batches in time, unless less than half is left.
TEST(HostTable, LateBatchesSinceTheLoaderIsBehind) {
  struct Case {
    std::vector<double> waits;  // ms
    double interval;
  };
  const std::vector<Case> cases{{{1.5, 1.5, 1.5, 1.5}, 0},
                                {{5, 5, 5, 5}, 20.5},
                                {{1, 1, 5, 5, 5, 5}, 21.5},
                                {{5, 1, 5, 5}, 21},
                                {{5, 5, 1, 5, 5}, 20.75},
                                {{5, 1, 1, 5, 5, 1, 5, 5}, 22.25},
                                {{5, 5, 1, 1, 5, 5, 5, 5}, 22.5},
                                {{5, 1, 5, 1, 5, 5}, 21},
                                {{5, 1, 1, 5}, 20.5},
                                {{1, 5}, 0},
                                {{1, 5, 1, 1}, 0}};
  for (const Case& c : cases) {
    std::string text;
    double at = 0;
    for (std::size_t i = 0; i < c.waits.size(); ++i) {
      const double length = 20 + static_cast<double>(i) / 2, got = at + c.waits[i];
      text += fmt::format(
          "mark main {0}ms {1}ms ProfilerStep#{2}\n"
          "mark main {0}ms {3}ms enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__\n"
          "call main {4}ms 10us cudaLaunchKernel corr={5}\nkernel 7 {6}ms 1ms gemm corr={5}\n",
          at, length, i, c.waits[i], got, i + 1, got + 0.1);
      at += length;
    }
    const TraceSummary summary = tables_of(text);
    ASSERT_EQ(summary.loaders.size(), 1U);
    EXPECT_NEAR(in_us(summary.loaders[0].interval), 1e3 * c.interval, 1e-3) << text;
  }
}

// What the host does in operators, with the Python code between two, and in calls outside of them.
TEST(HostTable, WorkOfTheHost) {
  const auto busy = [](int second, int length, const std::string& call, int call_length) {
    const TraceSummary summary =
        tables_of(fmt::format(R"(
op main 0us 10us aten::mm id=1
call main 2us 5us cudaLaunchKernel corr=1 id=1
kernel 7 10us 5ms a corr=1
op main {0}us {1}us aten::mm id=2
call main {2}us {4}us {3} corr=2 id=2
kernel 7 6ms 100us a corr=2
)",
                              second, length, second + 2, call, call_length));
    return in_us(summary.host_busy);
  };
  EXPECT_NEAR(busy(210, 10, "cudaLaunchKernel", 5), 220, 1e-3);
  EXPECT_NEAR(busy(211, 10, "cudaLaunchKernel", 5), 20, 1e-3);
  // Of a long launch call of a kernel 20 us are its own; it waits for room in the queue.
  EXPECT_NEAR(busy(300, 200, "cudaLaunchKernel", 99), 210, 1e-3);
  EXPECT_NEAR(busy(300, 200, "cudaLaunchKernel", 100), 130, 1e-3);
  EXPECT_NEAR(busy(300, 200, "cudaGraphLaunch", 100), 210, 1e-3);
}

TEST(HostTable, CountsLaunchesOfTheThreadsThatLaunch) {
  const TraceSummary summary = tables_of(R"(
op main 0us 10us aten::mm id=1
call main 2us 5us cudaLaunchKernel corr=1 id=1
kernel 7 10us 5ms a corr=1
call main 20us 7us cudaEventRecord
call other 40us 100us cudaEventQuery
op other 200us 100us aten::mm
op main 400us 30us aten::mm id=3
call main 405us 6us cudaGraphLaunch corr=3 id=3
kernel 7 6ms 100us a corr=3
)");
  EXPECT_EQ(summary.launches, 1);
  EXPECT_EQ(summary.graph_launches, 1);
  EXPECT_NEAR(in_us(summary.launch_time), 11, 1e-3);
  EXPECT_NEAR(in_us(summary.host_busy), 10 + 7 + 30, 1e-3);
}

TEST(HostTable, AllocationsThatComeBack) {
  const auto allocator = [](int steps) {
    return tables_of(fmt::format("repeat {} every 1ms\n", steps) + R"(
mark main 0us 1ms ProfilerStep#{i}
op main 0us 300us aten::mm id=1
call main 10us 100us cudaMalloc id=1
call main 120us 50us cudaFree id=1
call main 180us 20us cudaMallocAsync id=1
call main 210us 10us cudaMallocFromPoolAsync id=1
call main 250us 5us cudaLaunchKernel corr=1 id=1
kernel 7 260us 700us a corr=1
end
memory 10us 64 device=0 allocated=640 reserved=1000
memory 11us 64 device=0 allocated=600 reserved=1200
memory 12us 64 device=1 allocated=6400 reserved=9000
memory 13us 64 device=0 allocated=-1 reserved=0
)")
        .allocator;
  };
  // Those of the first step are part of its first calls.
  const AllocatorUse use = allocator(3);
  EXPECT_EQ(use.mallocs, 6);
  EXPECT_EQ(use.frees, 2);
  EXPECT_EQ(use.from_pool, 2);
  EXPECT_NEAR(in_us(use.blocked), 2 * 180, 1e-3);
  EXPECT_NEAR(in_us(use.exposed), 2 * 180, 1e-3);
  EXPECT_EQ(use.peak_allocated, Bytes(640));
  EXPECT_EQ(use.peak_reserved, Bytes(1200));
  EXPECT_EQ(allocator(1).mallocs, 0);
}

// At the borders of the classes, and three copies of 1, 2 and 3 GB/s.
TEST(Transfers, ByDirectionAndSize) {
  std::string text;
  int at = 0;
  for (const int bytes : {1, 65'535, 65'536, 1'048'575, 1'048'576, 16'777'215, 16'777'216,
                          268'435'455, 268'435'456}) {
    text += fmt::format("copy 7 {}us 10us HtoD bytes={}\n", at += 20, bytes);
  }
  for (const int gb_per_s : {3, 1, 2}) {
    text += fmt::format("copy 7 {}us 10us DtoH pageable bytes={}\n", at += 20, gb_per_s * 10'000);
  }
  // Neither says how fast it went.
  text += "copy 7 1ms 0us DtoD bytes=4096\ncopy 7 1ms 5us DtoD bytes=0\nfill 7 2ms 5us bytes=64\n";
  const std::vector<TransferUse> transfers = tables_of(text).transfers;
  ASSERT_EQ(transfers.size(), 6U);
  const std::vector<double> sizes{0, 65'536, 1'048'576, 16'777'216, 268'435'456};
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    EXPECT_EQ(transfers[i].kind, CopyKind::host_to_device);
    EXPECT_FALSE(transfers[i].pageable);
    EXPECT_EQ(transfers[i].at_least, Bytes(sizes[i]));
    EXPECT_EQ(transfers[i].count, i == 4 ? 1 : 2);
    EXPECT_NEAR(in_us(transfers[i].time), i == 4 ? 10 : 20, 1e-6);
  }
  EXPECT_EQ(transfers[1].bytes, Bytes(65'536 + 1'048'575));
  const TransferUse& down = transfers[5];
  EXPECT_EQ(down.kind, CopyKind::device_to_host);
  EXPECT_TRUE(down.pageable);
  EXPECT_EQ(down.count, 3);
  EXPECT_NEAR(down.p10.value(), 1.2e9, 1);
  EXPECT_NEAR(down.median.value(), 2e9, 1);
  EXPECT_NEAR(down.p90.value(), 2.8e9, 1);
}

// The copy to the other GPU holds up nothing on the judged one.
TEST(Copies, AreExposedWhereTheirGpuComputesNothing) {
  const TraceSummary summary = tables_of(R"(
kernel 0:7 0us 20ms gemm
op main 300us 100us aten::copy_ id=3
call main 310us 30us cudaMemcpyAsync corr=3 id=3
copy 1:7 400us 300us DtoH bytes=4096 corr=3
op main 500us 100us aten::copy_ id=4
call main 510us 30us cudaMemcpyAsync corr=4 id=4
copy 0:9 600us 300us HtoD bytes=4096 corr=4
copy 0:9 19900us 300us HtoD bytes=4096 corr=4
)");
  ASSERT_EQ(summary.copies.size(), 2U);
  EXPECT_EQ(summary.copies[0].count, 2);
  EXPECT_EQ(summary.copies[0].shape.bytes, 8192U);
  EXPECT_NEAR(in_us(summary.copies[0].time), 600, 1e-3);
  EXPECT_NEAR(in_us(summary.copies[0].exposed), 200, 1e-3);
  EXPECT_NEAR(in_us(summary.copies[0].in_line), 0, 1e-3);
  EXPECT_EQ(summary.copies[1].count, 1);
  EXPECT_NEAR(in_us(summary.copies[1].time), 300, 1e-3);
  EXPECT_NEAR(in_us(summary.copies[1].exposed), 0, 1e-3);
}

// What was copied to the GPU was made on the host just before, in up to two views or casts, and in
// this size.
TEST(Copies, NameTheOperatorThatMadeThem) {
  const auto maker = [](const std::vector<std::string>& before, const std::string& dims) {
    std::string text = "kernel 7 0us 10ms a\n";
    int at = 0;
    for (const std::string& op : before) {
      text += fmt::format("op main {}us 9us {} types=[float]\n", at, op);
      at += 10;
    }
    text += fmt::format(
        "op main {0}us 50us aten::to id=1 dims={1} types=[float]\n"
        "op main {2}us 40us aten::copy_ id=2 dims={1} types=[float]\n"
        "call main {3}us 5us cudaMemcpyAsync corr=1 id=2\ncopy 9 {3}us 5us HtoD bytes=64 corr=1\n",
        at, dims, at + 1, at + 5);
    const TraceSummary summary = tables_of(text);
    EXPECT_EQ(summary.copies.size(), 1U);
    return summary.copies.at(0).maker;
  };
  const std::string zeros = "aten::zeros dims=[[4,256]]", view = "aten::view dims=[[1024]]";
  const std::string dims = "[[4,256],[],[]]";
  EXPECT_EQ(maker({zeros}, dims), "aten::zeros");
  EXPECT_EQ(maker({zeros, view, view}, dims), "aten::zeros");
  EXPECT_EQ(maker({zeros, view, view, view}, dims), "");
  EXPECT_EQ(maker({"aten::zeros dims=[[4,255]]"}, dims), "");
  EXPECT_EQ(maker({"aten::empty dims=[[1024]]"}, dims), "");
  EXPECT_EQ(maker({zeros}, "[[]]"), "");
  EXPECT_EQ(maker({"aten::zeros dims=[[1000000,999999999]]"}, "[[1000000,999999999]]"),
            "aten::zeros");
  EXPECT_EQ(maker({"aten::zeros dims=[[1000000,1000000000]]"}, "[[1000000,1000000000]]"), "");
}

TEST(Copies, MakersAreKnownByWhatTheyCall) {
  const auto maker = [](int inner) {
    std::string text = "kernel 7 0us 10ms a\nop main 0us 900us aten::zeros\n";
    for (int i = 1; i < inner; ++i) {
      text += fmt::format("op main {}us 5us aten::empty dims=[[7]] types=[float]\n", 10 * i);
    }
    text += fmt::format("op main {}us 5us aten::fill_ dims=[[1024]] types=[float]\n", 10 * inner);
    return tables_of(text + R"(
op main 1000us 50us aten::to id=1 dims=[[1024]] types=[float]
call main 1005us 5us cudaMemcpyAsync corr=1 id=1
copy 9 1020us 5us HtoD bytes=4096 corr=1
)")
        .copies.at(0)
        .maker;
  };
  EXPECT_EQ(maker(15), "aten::zeros");
  EXPECT_EQ(maker(16), "");
}

// Launched by autograd; behind the backward pass until a layer of the next forward pass.
TEST(Collectives, InAndBehindTheBackwardPass) {
  const auto after_backward = [](const std::string& kernel) {
    const TraceSummary summary = tables_of(fmt::format(R"(
op main 0us 10us aten::mm id=1
call main 2us 3us cudaLaunchKernel corr=1 id=1
kernel 7 10us 5us ampere_sgemm_128x64_tn corr=1
call main 20us 3us cudaLaunchKernel corr=2
kernel 20 30us 5us ncclDevKernel_AllReduce_a corr=2
op grad 40us 10us MmBackward0 id=3
call grad 42us 3us cudaLaunchKernel corr=3 id=3
kernel 7 50us 5us ampere_sgemm_128x64_tn corr=3
op grad 55us 10us torch::autograd::AccumulateGrad id=4
call grad 57us 3us cudaLaunchKernel corr=4 id=4
kernel 20 60us 5us ncclDevKernel_AllReduce_a corr=4
call main 70us 3us cudaLaunchKernel corr=5
kernel 20 80us 5us ncclDevKernel_AllReduce_a corr=5
op main 90us 10us aten::op id=6
call main 92us 3us cudaLaunchKernel corr=6 id=6
kernel 7 100us 5us {} corr=6
call main 110us 3us cudaLaunchKernel corr=7
kernel 20 120us 5us ncclDevKernel_AllReduce_a corr=7
)",
                                                       kernel));
    const CollectiveUse& use = summary.collectives.at(0);
    EXPECT_EQ(use.count, 4);
    EXPECT_EQ(use.in_backward, 1);
    EXPECT_EQ(use.back_to_back, 1);
    EXPECT_EQ(use.runs.size(), 4U);
    EXPECT_NEAR(in_us(use.time), 20, 1e-6);
    EXPECT_NEAR(in_us(use.exposed), 20, 1e-6);
    return use.after_backward;
  };
  EXPECT_EQ(after_backward("multi_tensor_apply_kernel<A, FusedAdamMathFunctor>"), 2);
  EXPECT_EQ(after_backward("void at::native::vectorized_elementwise_kernel<4, relu>(int)"), 2);
  for (const char* layer :
       {"ampere_sgemm_128x64_tn", "volta_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1",
        "attn_fwd", "RNN_blockPersist_fp_LSTM<float>",
        "void at::native::vectorized_layer_norm_kernel<float>()",
        "void at::native::embedding_renorm_kernel()",
        "void at::native::index_elementwise_kernel<128, 4>(long)"}) {
    EXPECT_EQ(after_backward(layer), 1) << layer;
  }
}

TEST(Collectives, KeepTheTimesOfSoManyRuns) {
  std::string text;
  for (std::size_t i = 0; i < CollectiveUse::kMostRuns + 5; ++i) {
    text += fmt::format("kernel 20 {}us 5us ncclDevKernel_AllReduce\n", 10 * i);
  }
  const TraceSummary summary = tables_of(text);
  EXPECT_EQ(summary.collectives.at(0).runs.size(), CollectiveUse::kMostRuns);
  EXPECT_EQ(summary.collectives.at(0).count,
            static_cast<std::int64_t>(CollectiveUse::kMostRuns + 5));
}

// NCCL moves 16 bytes a thread.
TEST(Collectives, MessagesThatEndWithinSixteenBytes) {
  struct Case {
    const char* dtype;
    int elements;
    std::int64_t misaligned;
  };
  for (const Case& c :
       {Case{"Float", 4, 0}, Case{"Float", 5, 1}, Case{"Half", 8, 0}, Case{"Half", 12, 1},
        Case{"Double", 2, 0}, Case{"Double", 3, 1}, Case{"Byte", 16, 0}, Case{"Byte", 24, 1},
        Case{"Float", 1, 1}, Case{"Float", 0, 0}, Case{"Unheard", 5, 0}}) {
    const TraceSummary summary = tables_of(fmt::format(
        "kernel 20 0us 5us ncclDevKernel_AllReduce collective=allreduce dtype={} in={} ranks=8\n",
        c.dtype, c.elements));
    EXPECT_EQ(summary.collectives.at(0).misaligned, c.misaligned) << c.dtype << c.elements;
  }
}

// A quarter of four exchanges or more go out twice, with computation between.
TEST(Collectives, ExchangesOfExpertsInHalves) {
  struct Case {
    std::vector<std::string> runs;
    bool overlaps;
  };
  const std::string out = "dispatch", back = "combine", compute = "gemm";
  for (const Case& c :
       {Case{{out, compute, back, compute, out, compute, back}, false},
        Case{{out, compute, out, back}, false}, Case{{out, compute, out, back, back}, true},
        Case{{out, out, back, back}, false}, Case{{compute, out, back, out, back}, false},
        Case{{out, compute, out, back, out, back}, false},
        Case{{out, compute, "notify_" + out, out, back, back}, true}}) {
    std::string text;
    int at = 0;
    for (const std::string& run : c.runs) {
      const std::string name =
          run == compute ? run : "void deep_ep::internode::" + run + "<8>(Params)";
      text += fmt::format("kernel {} {}us 10us {}\n", run == compute ? 7 : 20, at += 20, name);
    }
    EXPECT_EQ(tables_of(text).overlaps_exchanges, c.overlaps) << text;
  }
}

}  // namespace
}  // namespace rooftile::trace
