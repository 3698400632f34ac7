#include "rooftile/readers/nsys/nsys_reader.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "rooftile/base/run_limits.h"
#include "rooftile/readers/nsys/nsys_export.h"

namespace rooftile {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

std::vector<Timeline> timelines_of(const std::string& sql) {
  Result<std::vector<Timeline>> timelines = read_nsys_bytes(database_bytes(sql), "run.sqlite");
  EXPECT_TRUE(timelines) << to_string(timelines.error());
  return timelines ? std::move(*timelines) : std::vector<Timeline>(1);
}

Timeline timeline_of(const std::string& sql) {
  std::vector<Timeline> timelines = timelines_of(sql);
  EXPECT_EQ(timelines.size(), 1U);
  return std::move(timelines.front());
}

std::string error_of(const std::string& sql) {
  const auto timeline = read_nsys_bytes(database_bytes(sql), "run.sqlite");
  return timeline ? "no error" : to_string(timeline.error());
}

std::string empty_export() { return std::string(kNewSql) + std::string(kStringsSql); }

class NsysSchemas : public testing::TestWithParam<std::string_view> {};

TEST_P(NsysSchemas, GiveTheSameKernelsAndCalls) {
  const Timeline timeline = timeline_of(
      std::string(GetParam()) + std::string(kStringsSql) + std::string(kCallsSql) +
      kernel_sql("1000,1500,0,7,42,$P") + kernel_sql("1600,1600,0,13,43,$P") +
      with_ids("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES(900,950,0,$T,42,3,0,NULL),"
               "(955,990,1,$T,43,4,0,NULL),(10,20,0,$T,0,8,0,NULL);"));
  EXPECT_EQ(timeline.format, "Nsight Systems");
  ASSERT_EQ(timeline.gpu.time.size(), 2U);
  EXPECT_EQ(timeline.gpu.time.start(0), 1000);
  EXPECT_EQ(timeline.gpu.time.duration(0), 500);
  EXPECT_EQ(timeline.gpu.time.duration(1), 0);
  EXPECT_EQ(timeline.gpu.kind[0], GpuKind::kernel);
  EXPECT_EQ(timeline.gpu.correlation[0], 42U);
  EXPECT_EQ(timeline.strings[timeline.gpu.name[0]], "void gemm<float>()");
  EXPECT_THAT(timeline.streams, ElementsAre(GpuStream{0, 7}, GpuStream{0, 13}));
  LaunchShape shape;
  shape.grid = {108, 2, 1};
  shape.block = {128, 1, 1};
  shape.registers = 64;
  shape.shared_bytes = 3072;
  EXPECT_EQ(timeline.launches.size(), 2U);  // "not recorded", and the one both kernels have
  EXPECT_EQ(timeline.launches[timeline.gpu.details[1]], shape);
  ASSERT_EQ(timeline.calls.time.size(), 3U);
  EXPECT_EQ(timeline.strings[timeline.calls.name[0]], "cudaLaunchKernel");
  EXPECT_EQ(timeline.strings[timeline.calls.name[1]], "cuLaunchKernel");
  EXPECT_EQ(timeline.strings[timeline.calls.name[2]], "cudaGetDeviceProperties");
  EXPECT_EQ(timeline.calls.correlation[0], 42U);
  EXPECT_EQ(timeline.calls.correlation[2], 0U);
  EXPECT_THAT(timeline.threads, ElementsAre(HostThread{10, 21}));
  EXPECT_TRUE(timeline.skipped.empty());
}

INSTANTIATE_TEST_SUITE_P(Ages, NsysSchemas, testing::Values(kOldSql, kNewSql));

TEST(NsysReader, OrdersNames) {  // demangled, mangled, short
  const Timeline timeline = timeline_of(
      "CREATE TABLE META_DATA_EXPORT(name, value);" + std::string(kStringsSql) +
      "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start, end, demangledName, mangledName, shortName);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES(1,2,1,7,2),(1,2,NULL,7,2),(1,2,NULL,NULL,2),"
      "(1,2,99,7,2);");
  std::vector<std::string> names;
  for (std::size_t i = 0; i < timeline.gpu.name.size(); ++i) {
    names.push_back(timeline.strings[timeline.gpu.name[i]]);
  }
  EXPECT_THAT(names, ElementsAre("void gemm<float>()", "_Z4gemm", "gemm", "?"));
  EXPECT_THAT(timeline.skipped, ElementsAre(Pair("names that the table StringIds lacks", 1)));
}

// Versions and the stream of each thread are written in either order.
TEST(NsysReader, CallsAreNamedWithoutVersions) {
  const std::pair<const char*, const char*> cases[] = {
      {"cudaLaunchKernel_v7000", "cudaLaunchKernel"},
      {"cudaMemcpyAsync_ptsz_v7000", "cudaMemcpyAsync"},
      {"cuMemcpyHtoDAsync_v2_ptsz", "cuMemcpyHtoDAsync"},
      {"cuMemcpyHtoD_v2_ptds_v7000", "cuMemcpyHtoD"},
      {"cuda_vector", "cuda_vector"},
      {"cuda_v", "cuda_v"},
      {"_v2", "_v2"}};
  for (const auto& [recorded, name] : cases) {
    const Timeline timeline = timeline_of(
        with_ids(empty_export() + std::string(kCallsSql) +
                 fmt::format("INSERT INTO StringIds VALUES(901,'{}');", recorded) +
                 "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES(5,9,0,$T,3,901,0,NULL);"));
    ASSERT_EQ(timeline.calls.time.size(), 1U) << recorded;
    EXPECT_EQ(timeline.strings[timeline.calls.name[0]], name) << recorded;
  }
}

TEST(NsysReader, ReadsCopiesAndFills) {
  // Ids of Nsight Systems' own tables: kinds 1 HtoD, 2 DtoH, 8 DtoD, 10 PtoP, 11 unified memory
  // HtoD; memory 0 pageable, 1 pinned, 2 device.
  struct Case {
    const char* row;
    CopyShape shape;
    const char* name;
  };
  const std::vector<Case> cases{
      {"1,0,2", {CopyKind::host_to_device, true, 4096}, "Memcpy HtoD"},
      {"1,1,2", {CopyKind::host_to_device, false, 4096}, "Memcpy HtoD"},
      {"2,2,0", {CopyKind::device_to_host, true, 4096}, "Memcpy DtoH"},
      {"2,NULL,NULL", {CopyKind::device_to_host, false, 4096}, "Memcpy DtoH"},
      {"0,2,2", {CopyKind::unknown, false, 4096}, "Memcpy"},
      {"3,1,4", {CopyKind::host_to_device, false, 4096}, "Memcpy HtoD"},
      {"4,4,1", {CopyKind::device_to_host, false, 4096}, "Memcpy DtoH"},
      {"5,4,4", {CopyKind::device_to_device, false, 4096}, "Memcpy DtoD"},
      {"6,4,2", {CopyKind::device_to_device, false, 4096}, "Memcpy DtoD"},
      {"7,2,4", {CopyKind::device_to_device, false, 4096}, "Memcpy DtoD"},
      {"8,2,2", {CopyKind::device_to_device, false, 4096}, "Memcpy DtoD"},
      {"9,1,0", {CopyKind::host_to_host, true, 4096}, "Memcpy HtoH"},
      {"10,2,2", {CopyKind::peer_to_peer, false, 4096}, "Memcpy PtoP"},
      {"11,NULL,NULL", {CopyKind::migration_to_device, false, 4096}, "Migration HtoD"},
      {"12,NULL,NULL", {CopyKind::migration_to_host, false, 4096}, "Migration DtoH"},
      {"13,2,2", {CopyKind::device_to_device, false, 4096}, "Memcpy DtoD"},
      {"14,2,2", {CopyKind::unknown, false, 4096}, "Memcpy"},
      {"99,7,7", {CopyKind::unknown, false, 4096}, "Memcpy"},
      {"-1,2,2", {CopyKind::unknown, false, 4096}, "Memcpy"}};
  std::string sql = empty_export() +
                    "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY(start, end, deviceId, streamId,"
                    "correlationId, globalPid, bytes, copyKind, srcKind, dstKind);"
                    "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET(start, end, deviceId, streamId,"
                    "correlationId, globalPid, value, bytes, memKind);"
                    "INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET VALUES(1,2,0,7,9,0,0,512,2);";
  for (const Case& one : cases) {
    sql += std::string("INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES(5,9,0,7,1,0,4096,") +
           one.row + ");";
  }
  const Timeline timeline = timeline_of(sql);
  ASSERT_EQ(timeline.gpu.time.size(), cases.size() + 1);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    EXPECT_EQ(timeline.gpu.kind[i], GpuKind::copy);
    EXPECT_EQ(timeline.copies[timeline.gpu.details[i]], cases[i].shape) << cases[i].row;
    EXPECT_EQ(timeline.strings[timeline.gpu.name[i]], cases[i].name) << cases[i].row;
  }
  EXPECT_EQ(timeline.gpu.kind[cases.size()], GpuKind::fill);
  EXPECT_EQ(timeline.copies[timeline.gpu.details[cases.size()]].bytes, 512U);
  EXPECT_EQ(timeline.strings[timeline.gpu.name[cases.size()]], "Memset");
}

TEST(NsysReader, CountsEventsWithImpossibleTimes) {
  const std::string columns = "(start, end, deviceId, streamId, correlationId, globalPid)";
  const Timeline timeline = timeline_of(with_ids(
      empty_export() + kernel_sql("20,10,0,7,42,$P") + "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY" +
      columns +
      ";INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES(9,5,0,7,1,$P),(9,4,0,7,1,$P);"
      "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET" +
      columns +
      ";INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET VALUES(9,5,0,7,1,$P),(9,4,0,7,1,$P),"
      "(9,3,0,7,1,$P);"
      "CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE" +
      columns + ";INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES(9,5,0,7,1,$P);" +
      std::string(kCallsSql) +
      "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES(9,5,0,$T,3,5,0,NULL);"
      "CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION(start, end, globalPid, correlationId,"
      "syncType); INSERT INTO CUPTI_ACTIVITY_KIND_SYNCHRONIZATION VALUES(9,5,$P,3,3);"));
  EXPECT_EQ(timeline.gpu.time.size() + timeline.calls.time.size(), 0U);
  EXPECT_THAT(timeline.skipped, ElementsAre(Pair("CUDA calls with impossible times", 1),
                                            Pair("CUDA graph runs with impossible times", 1),
                                            Pair("copies with impossible times", 2),
                                            Pair("fills with impossible times", 3),
                                            Pair("kernels with impossible times", 1),
                                            Pair("synchronizations with impossible times", 1)));
}

// No event of an export says which operator it belongs to.
TEST(NsysReader, LeavesOpenWhatIsNotRecorded) {
  const Timeline timeline = timeline_of(
      with_ids(empty_export() + std::string(kCallsSql) + std::string(kRangesSql) +
               kernel_sql("100,200,0,7,42,$P") +
               "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES(90,91,0,$T,42,3,0,NULL);"
               "INSERT INTO NVTX_EVENTS VALUES(10,90,59,NULL,'aten::mm, seq = 4',$T,NULL,NULL);"));
  ASSERT_EQ(timeline.gpu.time.size(), 1U);
  ASSERT_EQ(timeline.calls.time.size(), 1U);
  ASSERT_EQ(timeline.ops.time.size(), 1U);
  EXPECT_EQ(timeline.gpu.external_id[0], 0U);
  EXPECT_EQ(timeline.calls.external_id[0], 0U);
  EXPECT_EQ(timeline.ops.external_id[0], 0U);
  EXPECT_EQ(timeline.ops.arguments[0], 0U);
  EXPECT_EQ(timeline.ops.stack[0], 0U);
  EXPECT_EQ(timeline.ops.module[0], 0U);
  EXPECT_EQ(timeline.ops.collective[0], 0U);
  EXPECT_FALSE(timeline.has_shapes);
}

// What does not fit into 32 bits, or is negative, counts as not recorded.
TEST(NsysReader, KeepsNumbersOf32Bits) {
  struct Case {
    const char* recorded;
    std::uint32_t kept;
  };
  for (const Case& one : std::vector<Case>{
           {"4294967295", 4294967295U}, {"4294967296", 0}, {"-1", 0}, {"NULL", 0}, {"1", 1}}) {
    const Timeline timeline =
        timeline_of(empty_export() + kernel_sql(fmt::format("100,200,0,7,{},$P", one.recorded)));
    ASSERT_EQ(timeline.gpu.time.size(), 1U);
    EXPECT_EQ(timeline.gpu.correlation[0], one.kept) << one.recorded;
  }
  const auto shared_bytes = [](const char* of_launch) {
    const Timeline timeline = timeline_of(
        empty_export() + kernel_sql("100,200,0,7,42,$P") +
        fmt::format("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET dynamicSharedMemory={};", of_launch));
    return timeline.launches[timeline.gpu.details[0]].shared_bytes;
  };
  EXPECT_EQ(shared_bytes("2048"), 3072U);
  EXPECT_EQ(shared_bytes("4294966271"), 4294967295U);
  EXPECT_EQ(shared_bytes("4294966272"), 0U);
}

TEST(NsysReader, ReadsRangesAlone) {
  const Timeline timeline = timeline_of(
      "CREATE TABLE EXPORT_META_DATA(name, value);" + std::string(kStringsSql) +
      std::string(kRangesSql) +
      with_ids("INSERT INTO NVTX_EVENTS VALUES(10,90,59,NULL,'train step',$T,NULL,NULL),"
               "(20,30,60,5,NULL,$T,$T,6),"
               "(40,60,59,NULL,'aten::mm, seq = 4, op_id = 7, sizes = [[2, 3], [3, 8]]',$T,0,0),"
               "(61,62,59,NULL,'aten::mm, seq = 5, op_id = 8, sizes = [[2, 3], [3, 8]]',$T,0,0),"
               "(70,NULL,59,NULL,'open',$T,NULL,NULL),(75,NULL,34,NULL,'mark',$T,NULL,NULL),"
               "(-5,NULL,75,NULL,'domain',$T,NULL,NULL),(80,70,59,NULL,'back',$T,NULL,NULL),"
               "(81,82,59,NULL,NULL,$T,NULL,NULL);"));
  ASSERT_EQ(timeline.ops.time.size(), 4U);
  EXPECT_EQ(timeline.strings[timeline.ops.name[0]], "train step");
  EXPECT_EQ(timeline.ops.kind[0], HostKind::annotation);
  EXPECT_EQ(timeline.strings[timeline.ops.name[1]], "registered range");
  EXPECT_EQ(timeline.strings[timeline.ops.name[2]], "aten::mm");
  EXPECT_EQ(timeline.ops.kind[2], HostKind::op);
  EXPECT_EQ(timeline.ops.sequence[2], 5U);
  EXPECT_EQ(timeline.ops.sequence[0], 0U);
  EXPECT_EQ(timeline.ops.arguments[2], timeline.ops.arguments[3]);
  EXPECT_THAT(timeline.arguments[timeline.ops.arguments[2]].dims,
              ElementsAre(ElementsAre(2, 3), ElementsAre(3, 8)));
  EXPECT_TRUE(timeline.has_shapes);
  EXPECT_THAT(
      timeline.skipped,
      ElementsAre(Pair("NVTX marks", 1), Pair("NVTX ranges with impossible times", 1),
                  Pair("NVTX ranges without a name", 1), Pair("NVTX ranges without an end", 1)));
}

// ENUM_NSYS_EVENT_TYPE: marks of two kinds, ranges of four; the others name things.
TEST(NsysReader, KnowsRangesByTheirTypes) {
  const auto read = [](int type) {
    return timeline_of(with_ids(
        empty_export() + std::string(kRangesSql) +
        fmt::format("INSERT INTO NVTX_EVENTS VALUES(1,2,{},NULL,'a',$T,NULL,NULL);", type)));
  };
  for (const int type : {59, 60, 70, 71}) EXPECT_EQ(read(type).ops.time.size(), 1U) << type;
  for (const int type : {34, 65}) {
    EXPECT_EQ(read(type).ops.time.size(), 0U) << type;
    EXPECT_THAT(read(type).skipped, ElementsAre(Pair("NVTX marks", 1))) << type;
  }
  for (const int type : {33, 35, 58, 61, 64, 66, 69, 72, 75}) {
    EXPECT_EQ(read(type).ops.time.size(), 0U) << type;
    EXPECT_TRUE(read(type).skipped.empty()) << type;
  }
}

// Sequence numbers are kept with one added, in 32 bits; 0 is none.
TEST(NsysReader, KeepsSequenceNumbers) {
  const auto kept = [](const char* sequence) {
    const Timeline timeline = timeline_of(
        with_ids(empty_export() + std::string(kRangesSql) +
                 fmt::format("INSERT INTO NVTX_EVENTS VALUES(1,2,59,NULL,'aten::mm, seq = {}',"
                             "$T,NULL,NULL);",
                             sequence)));
    return timeline.ops.sequence[0];
  };
  EXPECT_EQ(kept("0"), 1U);
  EXPECT_EQ(kept("4294967294"), 4294967295U);
  EXPECT_EQ(kept("4294967295"), 0U);
  EXPECT_EQ(kept("9223372036854775807"), 0U);
  EXPECT_EQ(kept("-1"), 0U);
}

// Two GPUs, which processes 10 and 11 both call 0 where `visible` says so.
std::string two_gpus(const char* visible) {
  return empty_export() + std::string(kCallsSql) + std::string(kRangesSql) +
         "CREATE TABLE TARGET_INFO_GPU(id, name, totalMemory, smCount, computeMajor, computeMinor);"
         "INSERT INTO TARGET_INFO_GPU VALUES(3,'NVIDIA H100',80,132,9,0),(2,'NVIDIA A100',40,108,8,"
         "0); CREATE TABLE TARGET_INFO_CUDA_DEVICE(gpuId, cudaId, pid);"
         "INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES" +
         visible + ";";
}

// Older exports name the device that CUDA sees, and give its memory in MiB.
TEST(NsysReader, NamesTheGpuByTheOlderTable) {
  const std::vector<Timeline> ranks = timelines_of(
      empty_export() + std::string(kCallsSql) +
      "CREATE TABLE TARGET_INFO_CUDA_GPU(deviceId, name, globalMemorySize, numMultiprocessors, "
      "computeCapabilityMajor, computeCapabilityMinor, pid);"
      "INSERT INTO TARGET_INFO_CUDA_GPU VALUES(0,'Tesla V100-PCIE-32GB',32510,80,7,0,10);" +
      kernel_sql("100,200,0,7,42,$P"));
  ASSERT_EQ(ranks.size(), 1U);
  ASSERT_EQ(ranks[0].devices.size(), 1U);
  EXPECT_EQ(ranks[0].devices[0].name, "Tesla V100-PCIE-32GB");
  EXPECT_EQ(ranks[0].devices[0].sm_count, 80);
}

TEST(NsysReader, MakesARecordingOfEachProcess) {
  // Process 11 has the GPU of the lower number. Process 12 only names ranges.
  const std::vector<Timeline> ranks = timelines_of(
      two_gpus("(3,0,10),(2,0,11)") + kernel_sql("100,200,0,7,42,$P") +
      kernel_sql("110,150,0,7,42,$Q") + kernel_sql("160,170,0,7,43,$Q") +
      with_ids("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES(90,91,0,$T,42,3,0,NULL),"
               "(95,96,0,($Q|5),42,3,0,NULL),(97,98,0,($Q|5),43,3,0,NULL);"
               "INSERT INTO NVTX_EVENTS VALUES(10,90,59,NULL,'a',$T,NULL,NULL),"
               "(10,90,59,NULL,'b',($Q|5),NULL,NULL),(10,90,59,NULL,'c',(12<<24)|7,NULL,NULL),"
               "(10,NULL,59,NULL,'open',(12<<24)|7,NULL,NULL);"));
  ASSERT_EQ(ranks.size(), 2U);
  const Timeline &first = ranks[0], &second = ranks[1];
  EXPECT_EQ(first.rank, 0);
  EXPECT_EQ(second.rank, 1);
  EXPECT_EQ(first.world_size, 2);
  EXPECT_THAT(first.streams, ElementsAre(GpuStream{2, 7}));
  EXPECT_THAT(second.streams, ElementsAre(GpuStream{3, 7}));
  EXPECT_THAT(first.threads, ElementsAre(HostThread{11, 5}));
  EXPECT_THAT(second.threads, ElementsAre(HostThread{10, 21}));
  ASSERT_EQ(first.gpu.time.size(), 2U);
  ASSERT_EQ(second.gpu.time.size(), 1U);
  EXPECT_EQ(first.gpu.time.start(1), 160);
  EXPECT_EQ(first.gpu.correlation[0], 42U);
  EXPECT_EQ(second.gpu.correlation[0], 42U);
  EXPECT_EQ(first.calls.time.size(), 2U);
  EXPECT_EQ(second.calls.time.size(), 1U);
  ASSERT_EQ(first.ops.time.size(), 1U);
  EXPECT_EQ(first.strings[first.ops.name[0]], "b");
  EXPECT_EQ(first.file, "run.sqlite");
  EXPECT_EQ(second.file, "run.sqlite");
  for (const Timeline& rank : ranks) {
    EXPECT_THAT(rank.devices, ElementsAre(TraceDevice{2, "NVIDIA A100", 40, 108, 8, 0},
                                          TraceDevice{3, "NVIDIA H100", 80, 132, 9, 0}));
  }
  EXPECT_THAT(first.skipped, ElementsAre(Pair("NVTX ranges without an end", 1),
                                         Pair("events of processes without work on a GPU", 1)));
  EXPECT_TRUE(second.skipped.empty());
}

// Each process sees both GPUs; the second one to CUDA is the first to the driver. Of the number of
// the second process, 2^24 + 11, events keep 24 bits.
TEST(NsysReader, RanksHaveTheNumbersByWhichProcessesCallTheirGpus) {
  const std::vector<Timeline> ranks = timelines_of(
      two_gpus("(3,0,10),(2,1,10),(3,0,16777227),(2,1,16777227)") +
      kernel_sql("100,200,0,7,42,$P") + kernel_sql("110,150,1,7,42,$Q") +
      with_ids("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES(90,91,0,$T,42,3,0,NULL),"
               "(95,96,0,($Q|5),42,3,0,NULL);"));
  ASSERT_EQ(ranks.size(), 2U);
  EXPECT_THAT(ranks[0].streams, ElementsAre(GpuStream{3, 7}));
  EXPECT_THAT(ranks[1].streams, ElementsAre(GpuStream{2, 7}));
  EXPECT_EQ(ranks[1].rank, 1);
}

// A process that also starts a kernel on another one's GPU keeps its own number.
TEST(NsysReader, TheGpuThatIsBusiestNumbersARank) {
  const std::vector<Timeline> ranks = timelines_of(
      two_gpus("(3,0,10),(2,1,10),(3,0,11),(2,1,11)") + kernel_sql("100,200,0,7,42,$P") +
      kernel_sql("110,120,1,7,43,$P") + kernel_sql("110,250,1,7,42,$Q") +
      kernel_sql("110,130,0,7,43,$Q") +
      with_ids("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES(90,91,0,$T,42,3,0,NULL),"
               "(95,96,0,($Q|5),42,3,0,NULL);"));
  ASSERT_EQ(ranks.size(), 2U);
  EXPECT_EQ(ranks[0].rank, 0);
  EXPECT_EQ(ranks[1].rank, 1);
  EXPECT_THAT(ranks[0].threads, ElementsAre(HostThread{10, 21}));
  EXPECT_THAT(ranks[1].threads, ElementsAre(HostThread{11, 5}));
}

TEST(NsysReader, NumbersNoRanksThatShareAGpu) {
  const std::vector<Timeline> two =
      timelines_of(two_gpus("(2,0,10),(2,0,11)") + kernel_sql("100,200,0,7,42,$Q") +
                   kernel_sql("110,150,0,7,42,$P"));
  ASSERT_EQ(two.size(), 2U);
  EXPECT_EQ(two[0].gpu.time.start(0), 110);  // by process
  EXPECT_EQ(two[0].rank, std::nullopt);
  EXPECT_EQ(two[1].rank, std::nullopt);
}

TEST(NsysReader, KeepsTheLargestProcessWithoutGpus) {
  const Timeline timeline = timeline_of(
      empty_export() + std::string(kRangesSql) +
      with_ids("INSERT INTO NVTX_EVENTS VALUES(10,90,59,NULL,'a',$T,NULL,NULL),"
               "(10,90,59,NULL,'b',($Q|5),NULL,NULL),(10,90,59,NULL,'c',($Q|5),NULL,NULL);"));
  EXPECT_EQ(timeline.ops.time.size(), 2U);
  EXPECT_THAT(timeline.skipped, ElementsAre(Pair("events of other processes", 1)));
}

// Process 12 has nothing but a range that is still open.
TEST(NsysReader, NamesNoOtherProcessWithoutEvents) {
  const Timeline timeline =
      timeline_of(empty_export() + std::string(kRangesSql) +
                  with_ids("INSERT INTO NVTX_EVENTS VALUES(10,90,59,NULL,'a',$T,NULL,NULL),"
                           "(10,NULL,59,NULL,'open',(12<<24)|7,NULL,NULL);"));
  EXPECT_THAT(timeline.skipped, ElementsAre(Pair("NVTX ranges without an end", 1)));
}

// x is each number up to `last`.
std::string rows_sql(const std::string& table, int last, const std::string& values) {
  return fmt::format(
      "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < {}) "
      "INSERT INTO {} SELECT {} FROM c;",
      last, table, values);
}

TEST(NsysReader, ReadsThePartsOf1024Processes) {
  const auto skipped = [](int processes) {
    return timeline_of(empty_export() + std::string(kRangesSql) +
                       rows_sql("NVTX_EVENTS", processes, "1,2,59,NULL,'a',x<<24,NULL,NULL"))
        .skipped;
  };
  EXPECT_THAT(skipped(1024), ElementsAre(Pair("events of other processes", 1023)));
  EXPECT_THAT(skipped(1026), ElementsAre(Pair("events of other processes", 1023),
                                         Pair("events of processes beyond 1024", 2)));
}

// Each row on a stream or thread of its own.
TEST(NsysReader, TellsApartStreamsAndThreadsOf16Bits) {
  const std::string on_gpu = "(start, end, deviceId, streamId, correlationId, globalPid)";
  struct Case {
    std::string table, columns, values, beyond;
  };
  const std::vector<Case> cases{
      {"CUPTI_ACTIVITY_KIND_MEMCPY", on_gpu, "5,9,0,x,1,10<<24",
       "copies on more than 65536 streams"},
      {"CUPTI_ACTIVITY_KIND_MEMSET", on_gpu, "5,9,0,x,1,10<<24",
       "fills on more than 65536 streams"},
      {"CUPTI_ACTIVITY_KIND_GRAPH_TRACE", on_gpu, "5,9,0,x,1,10<<24",
       "CUDA graph runs on more than 65536 streams"},
      {"CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "(start, end, globalPid, correlationId, syncType)",
       "5,9,(10<<24)|x,3,3", "synchronizations on more than 65536 threads"},
      {"CUPTI_ACTIVITY_KIND_RUNTIME", "(start, end, globalTid, correlationId, nameId)",
       "5,9,(10<<24)|x,3,3", "CUDA calls on more than 65536 threads"},
      {"NVTX_EVENTS", "(start, end, eventType, text, globalTid)", "5,9,59,'a',(10<<24)|x",
       "NVTX ranges on more than 65536 threads"}};
  for (const Case& one : cases) {
    const auto read = [&](int rows) {
      return timeline_of(empty_export() +
                         fmt::format("CREATE TABLE {}{};", one.table, one.columns) +
                         rows_sql(one.table, rows, one.values));
    };
    EXPECT_EQ(read(65536).skipped.count(one.beyond), 0U) << one.beyond;
    EXPECT_EQ(read(65538).skipped[one.beyond], 2) << one.beyond;
  }
}

// The ranges are the last table of the file, and fill most of its pages.
TEST(NsysReader, CountsWhatDamageTakes) {
  constexpr std::size_t kPage = 4096;
  constexpr std::int64_t kRows = 5000;
  const std::string whole = database_bytes(
      with_ids(empty_export() + std::string(kRangesSql) +
               rows_sql("NVTX_EVENTS", kRows, "x,x+1,59,NULL,'some words',$T,NULL,NULL")));
  std::string bytes = whole;
  bytes.replace(whole.size() - 3 * kPage, 8, 8, '\xff');
  const auto damaged = read_nsys_bytes(bytes, "run.sqlite");
  ASSERT_TRUE(damaged) << to_string(damaged.error());
  const auto read = static_cast<std::int64_t>(damaged->front().ops.time.size());
  EXPECT_GT(read, kRows - 200);
  EXPECT_THAT(damaged->front().skipped,
              ElementsAre(Pair("NVTX_EVENTS: damaged rows", kRows - read)));
  const auto half = read_nsys_bytes(whole.substr(0, whole.size() / 2), "run.sqlite");
  ASSERT_TRUE(half) << to_string(half.error());
  EXPECT_GT(half->front().ops.time.size(), 1000U);
  EXPECT_THAT(half->front().skipped,
              ElementsAre(Pair("NVTX_EVENTS: rest of a damaged table", 1),
                          Pair("damaged file: whole tables may be missing", 1)));
  const auto none = read_nsys_bytes(whole.substr(0, 3 * kPage), "run.sqlite");
  ASSERT_FALSE(none);
  EXPECT_EQ(to_string(none.error()),
            "run.sqlite: is a damaged export of Nsight Systems: no event could be read; export it "
            "again");
}

TEST(NsysReader, TellsNoProcessesApartWithoutTheirIds) {
  // The table of kernels has no process: all are those of the only recording.
  const Timeline timeline =
      timeline_of("CREATE TABLE META_DATA_EXPORT(name, value);" + std::string(kStringsSql) +
                  std::string(kCallsSql) +
                  "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start, end, correlationId, shortName);"
                  "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES(10,20,42,2);" +
                  with_ids("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES"
                           "(1,2,0,$T,42,3,0,NULL),(3,4,0,($Q|5),43,3,0,NULL);"));
  EXPECT_EQ(timeline.gpu.time.size(), 1U);
  EXPECT_EQ(timeline.calls.time.size(), 2U);
  EXPECT_EQ(timeline.gpu.correlation[0], timeline.calls.correlation[0]);
  EXPECT_EQ(timeline.threads.size(), 2U);
}

TEST(NsysReader, TakesGraphRunsForTheirKernels) {
  const Timeline timeline = timeline_of(
      empty_export() + with_ids("CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE(start, end, deviceId,"
                                "streamId, correlationId, globalPid, graphId);"
                                "INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES"
                                "(10,60,0,7,5,$P,2),(70,90,0,7,6,$P,2);"));
  ASSERT_EQ(timeline.gpu.time.size(), 2U);
  EXPECT_EQ(timeline.strings[timeline.gpu.name[0]], "CUDA graph");
  EXPECT_EQ(timeline.gpu.kind[1], GpuKind::kernel);
  ASSERT_EQ(timeline.skipped.size(), 1U);
  EXPECT_EQ(timeline.skipped.begin()->second, 2);
}

TEST(NsysReader, TakesWaitsWhereCallsAreMissing) {
  const std::string waits =
      "CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION(start, end, globalPid, correlationId,"
      "syncType); INSERT INTO CUPTI_ACTIVITY_KIND_SYNCHRONIZATION VALUES(5,9,$P,3,3);";
  const Timeline alone = timeline_of(with_ids(empty_export() + waits));
  ASSERT_EQ(alone.calls.time.size(), 1U);
  EXPECT_EQ(alone.strings[alone.calls.name[0]], "cudaStreamSynchronize");
  EXPECT_EQ(alone.calls.correlation[0], 3U);
  EXPECT_EQ(alone.calls.external_id[0], 0U);
  const Timeline both =
      timeline_of(with_ids(empty_export() + waits + std::string(kCallsSql) +
                           "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES(5,9,0,$T,3,5,0,NULL);"));
  ASSERT_EQ(both.calls.time.size(), 1U);
  EXPECT_EQ(both.strings[both.calls.name[0]], "cudaMemcpyAsync");
  EXPECT_TRUE(both.skipped.empty());
}

// ENUM_CUPTI_SYNC_TYPE.
TEST(NsysReader, NamesWaitsByTheirKind) {
  const std::pair<int, const char*> cases[] = {
      {-1, "synchronization"},    {0, "synchronization"},       {1, "cudaEventSynchronize"},
      {2, "cudaStreamWaitEvent"}, {3, "cudaStreamSynchronize"}, {4, "cudaDeviceSynchronize"},
      {5, "synchronization"}};
  for (const auto& [kind, name] : cases) {
    const Timeline timeline = timeline_of(with_ids(
        empty_export() +
        fmt::format("CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION(start, end, globalPid, "
                    "correlationId, syncType); INSERT INTO CUPTI_ACTIVITY_KIND_SYNCHRONIZATION "
                    "VALUES(5,9,$P,3,{});",
                    kind)));
    ASSERT_EQ(timeline.calls.time.size(), 1U);
    EXPECT_EQ(timeline.strings[timeline.calls.name[0]], name) << kind;
  }
}

// The most that a GPU is described with; what is negative is unknown.
TEST(NsysReader, KeepsWhatGpusHaveInRange) {
  const auto device = [](const char* values) {
    return timeline_of(empty_export() +
                       fmt::format("CREATE TABLE TARGET_INFO_GPU(id, name, totalMemory, smCount, "
                                   "computeMajor, computeMinor);"
                                   "INSERT INTO TARGET_INFO_GPU VALUES({});",
                                   values))
        .devices.front();
  };
  EXPECT_EQ(device("-1,'a',-1,-1,-1,-1"), (TraceDevice{0, "a", 0, 0, 0, 0}));
  EXPECT_EQ(device("1073741825,'a',1,1048577,1001,1001"),
            (TraceDevice{1 << 30, "a", 1, 1 << 20, 1000, 1000}));
  EXPECT_EQ(device("1073741823,'a',1,1048575,999,999"),
            (TraceDevice{(1 << 30) - 1, "a", 1, (1 << 20) - 1, 999, 999}));
}

TEST(NsysReader, CountsTablesOfOtherEvents) {
  const Timeline timeline =
      timeline_of(empty_export() +
                  "CREATE TABLE SAMPLES(start, end); INSERT INTO SAMPLES VALUES(1,2),(3,4);"
                  "CREATE TABLE GPU_METRICS(timestamp, value); INSERT INTO GPU_METRICS VALUES(1,2);"
                  "CREATE TABLE ENUM_X(id, label); INSERT INTO ENUM_X VALUES(1,'x');"
                  "CREATE TABLE SCHED_EVENTS(start);");
  EXPECT_THAT(timeline.skipped,
              ElementsAre(Pair("table 'GPU_METRICS'", 1), Pair("table 'SAMPLES'", 2)));
}

// Of threads that call CUDA, from a millisecond on; a read of a file and one that was scheduled
// out.
TEST(NsysReader, ReadsWhenThreadsSleep) {
  const Timeline timeline = timeline_of(with_ids(
      empty_export() + std::string(kCallsSql) +
      "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES(5,9,0,$T,3,5,0,NULL);"
      "CREATE TABLE OSRT_API(start, end, globalTid, nameId);"
      "INSERT INTO StringIds VALUES(901,'read'),(902,'mmap');"
      "INSERT INTO OSRT_API VALUES(100,3000100,$T,901),(200,3000100,$T,902),(300,400,$T,901);"
      "CREATE TABLE SCHED_EVENTS(start, isSchedIn, globalTid);"
      "INSERT INTO SCHED_EVENTS VALUES(5000000,0,$T),(7000000,1,$T),(8000000,1,$T);"));
  ASSERT_EQ(timeline.sleeps.time.size(), 2U);
  EXPECT_EQ(timeline.sleeps.time.start(0), 100);
  EXPECT_EQ(timeline.sleeps.time.duration(1), 2'000'000);
  EXPECT_TRUE(timeline.skipped.empty());
}

TEST(NsysReader, CountsSleepFromAMillisecondOn) {
  const auto sleeps = [](const char* name, const char* times) {
    return timeline_of(
               with_ids(empty_export() + std::string(kCallsSql) +
                        "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES(5,9,0,$T,3,5,0,NULL);"
                        "CREATE TABLE OSRT_API(start, end, globalTid, nameId);" +
                        fmt::format("INSERT INTO StringIds VALUES(901,'{}');"
                                    "INSERT INTO OSRT_API VALUES({},$T,901);",
                                    name, times)))
        .sleeps.time.size();
  };
  EXPECT_EQ(sleeps("read", "100,1000100"), 1U);
  EXPECT_EQ(sleeps("read", "100,1000099"), 0U);
  EXPECT_EQ(sleeps("read", "0,1000000"), 1U);
  EXPECT_EQ(sleeps("read", "-1,1000000"), 0U);
  for (const char* name : {"accept",
                           "accept4",
                           "clock_nanosleep",
                           "epoll_pwait",
                           "epoll_wait",
                           "nanosleep",
                           "poll",
                           "ppoll",
                           "pselect",
                           "pread",
                           "pread64",
                           "pthread_cond_clockwait",
                           "pthread_join",
                           "pthread_cond_timedwait",
                           "pthread_cond_wait",
                           "recv",
                           "recvfrom",
                           "recvmsg",
                           "select",
                           "sem_clockwait",
                           "sem_timedwait",
                           "sem_wait",
                           "usleep",
                           "sleep",
                           "waitpid"}) {
    EXPECT_EQ(sleeps(name, "100,1000100"), 1U) << name;
  }
  for (const char* name : {"write", "mmap", "ioctl", "open64"}) {
    EXPECT_EQ(sleeps(name, "100,1000100"), 0U) << name;
  }
}

TEST(NsysReader, ReadsWhatCuptiAndTheRecorderDid) {
  const Timeline timeline = timeline_of(with_ids(
      empty_export() + std::string(kCallsSql) +
      "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES(5,9,0,$T,3,5,0,NULL);"
      "CREATE TABLE PROFILER_OVERHEAD(start, end, globalTid, nameId, returnValue);"
      "INSERT INTO StringIds VALUES(901,'CUDA profiling initialization');"
      "INSERT INTO PROFILER_OVERHEAD VALUES(10,40,$T,901,0),(50,45,$T,901,0),(60,70,NULL,901,0);"
      "CREATE TABLE CUPTI_ACTIVITY_KIND_OVERHEAD(start, end, globalTid, nameId, overheadType);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_OVERHEAD VALUES(3,4,$T,902,1),(3,4,$T+1,902,1);"
      "INSERT INTO StringIds VALUES(902,'Lazy Function Loading');"));
  ASSERT_EQ(timeline.overheads.time.size(), 2U);
  EXPECT_EQ(timeline.strings[timeline.overheads.name[0]], "Lazy Function Loading");
  EXPECT_EQ(timeline.overheads.time.start(1), 10);
  EXPECT_EQ(timeline.overheads.time.duration(1), 30);
  EXPECT_EQ(timeline.strings[timeline.overheads.name[1]], "CUDA profiling initialization");
  EXPECT_THAT(timeline.skipped, ElementsAre(Pair("work of the recorder with impossible times", 1)));
}

TEST(NsysReader, ReadsTheRankFromTheEnvironment) {
  struct Case {
    const char* environment;
    std::optional<std::int64_t> rank;
  };
  for (const Case& one : std::vector<Case>{{"A=1;RANK=3;WORLD_SIZE=8", 3},
                                           {"SLURM_PROCID=1;SLURM_NTASKS=2;X=", 1},
                                           {"OMPI_COMM_WORLD_RANK=0;OMPI_COMM_WORLD_SIZE=2", 0},
                                           {"RANK=7;WORLD_SIZE=8", 7},
                                           {"RANK=8;WORLD_SIZE=8", std::nullopt},
                                           {"RANK=-1;WORLD_SIZE=8", std::nullopt},
                                           {"RANK=3", std::nullopt},
                                           {"WORLD_SIZE=8", std::nullopt},
                                           {"RANK=9;WORLD_SIZE=8;SLURM_PROCID=1;SLURM_NTASKS=2", 1},
                                           {"RANK=0;WORLD_SIZE=1", std::nullopt},
                                           {"LOCAL_RANK=3;WORLD_SIZE=8", std::nullopt},
                                           {"RANK=9;WORLD_SIZE=8", std::nullopt},
                                           {"RANK=x;WORLD_SIZE=8", std::nullopt}}) {
    const Timeline timeline = timeline_of(
        empty_export() +
        "CREATE TABLE TARGET_INFO_SYSTEM_ENV(name, value); INSERT INTO TARGET_INFO_SYSTEM_ENV "
        "VALUES('DeviceEnvironment','" +
        one.environment + "'); CREATE TABLE TARGET_INFO_SESSION_START_TIME(utcEpochNs);" +
        "INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES(1700000000000000000);");
    EXPECT_EQ(timeline.rank, one.rank) << one.environment;
    EXPECT_EQ(timeline.base, 1700000000000000000) << one.environment;
  }
}

TEST(NsysReader, KnowsTheDriverOfWindows) {
  const auto in_batches = [](const char* name, const char* value) {
    return timeline_of(empty_export() +
                       fmt::format("CREATE TABLE TARGET_INFO_SYSTEM_ENV(name, value); INSERT INTO "
                                   "TARGET_INFO_SYSTEM_ENV VALUES('{}','{}');",
                                   name, value))
        .submits_in_batches;
  };
  EXPECT_TRUE(in_batches("SoftwarePlatform", "Windows"));
  EXPECT_TRUE(in_batches("SoftwareReleaseVersion", "6.6.87.2-microsoft-standard-WSL2"));
  EXPECT_FALSE(in_batches("SoftwarePlatform", "L4X"));
  EXPECT_FALSE(in_batches("SoftwareReleaseVersion", "5.15.0-113-generic"));
}

// Gzip of stored blocks, as RFC 1951 and 1952 define it.
std::string gzip_of(const std::string& bytes, std::uint32_t checksum) {
  const auto number = [](std::uint32_t value, int size) {
    std::string text;
    for (int i = 0; i < size; ++i) text += static_cast<char>(value >> (8 * i) & 0xff);
    return text;
  };
  constexpr std::size_t kMostInBlock = 65535;
  std::string file("\x1f\x8b\x08\0\0\0\0\0\0\x03", 10);
  for (std::size_t at = 0; at < bytes.size(); at += kMostInBlock) {
    const std::string block = bytes.substr(at, kMostInBlock);
    const auto size = static_cast<std::uint32_t>(block.size());
    file += at + kMostInBlock < bytes.size() ? '\0' : '\1';
    file += number(size, 2) + number(~size, 2) + block;
  }
  return file + number(checksum, 4) + number(static_cast<std::uint32_t>(bytes.size()), 4);
}

std::uint32_t crc32(const std::string& bytes) {
  std::uint32_t crc = ~0U;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int i = 0; i < 8; ++i) crc = crc >> 1U ^ ((crc & 1U) != 0 ? 0xedb88320U : 0U);
  }
  return ~crc;
}

TEST(NsysReader, ReadsCompressedExports) {
  const std::string bytes = database_bytes(std::string(kNewSql) + std::string(kStringsSql));
  const auto plain = read_nsys_bytes(bytes, "run.sqlite");
  ASSERT_TRUE(plain);
  const std::string path = testing::TempDir() + "compressed.sqlite.gz";
  const auto read = [&](const std::string& file) {
    std::ofstream(path, std::ios::binary) << file;
    EXPECT_TRUE(is_nsys(path, file.substr(0, 64)));
    return read_nsys(path);
  };
  const auto whole = read(gzip_of(bytes, crc32(bytes)));
  ASSERT_TRUE(whole) << to_string(whole.error());
  EXPECT_EQ(whole->front().gpu.time.size(), plain->front().gpu.time.size());
  EXPECT_EQ(whole->front().skipped, plain->front().skipped);
  const auto damaged = read(gzip_of(bytes, 0));
  ASSERT_TRUE(damaged) << to_string(damaged.error());
  EXPECT_EQ(damaged->front().gpu.time.size(), plain->front().gpu.time.size());
  EXPECT_EQ(damaged->front().skipped.at("gzip data has a wrong checksum"), 1);
  const auto other = read(gzip_of(database_bytes("CREATE TABLE users(a);"), 0));
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().message, HasSubstr("no export of Nsight Systems"));
  std::filesystem::remove(path);
}

std::string ranges_of_one_thread(int count) {
  return database_bytes(with_ids(empty_export() + std::string(kRangesSql) +
                                 rows_sql("NVTX_EVENTS", count, "x,x+1,59,NULL,'a',$T,NULL,NULL")));
}

// Every 16384 rows, in bytes of the file as it is.
TEST(NsysReader, ReportsTheShareOfTheRows) {
  const std::string bytes = ranges_of_one_thread(40000), packed = gzip_of(bytes, crc32(bytes));
  const std::string path = testing::TempDir() + "progress.sqlite";
  for (const std::string& file : {bytes, packed}) {
    std::ofstream(path, std::ios::binary) << file;
    std::vector<double> shares;
    const auto read = read_nsys(path, [&](std::uint64_t done, std::uint64_t all) {
      EXPECT_EQ(all, file.size());
      shares.push_back(static_cast<double>(done) / static_cast<double>(all));
    });
    ASSERT_TRUE(read) << to_string(read.error());
    EXPECT_THAT(shares, ElementsAre(testing::DoubleNear(16384.0 / 40000, 1e-4),
                                    testing::DoubleNear(32768.0 / 40000, 1e-4), 1.0));
  }
  std::filesystem::remove(path);
}

TEST(NsysReader, LeavesOutWhatNoTimeIsLeftFor) {
  const std::string bytes = ranges_of_one_thread(5000);
  const std::string path = testing::TempDir() + "limit.sqlite.gz";
  std::ofstream(path, std::ios::binary) << gzip_of(bytes, crc32(bytes));
  const RunWatch watch({std::chrono::milliseconds(1), 0}, [](const std::string&) {});
  while (reading_must_end().empty()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const auto part = read_nsys_bytes(bytes, "run.sqlite");
  ASSERT_TRUE(part) << to_string(part.error());
  const auto read = static_cast<std::int64_t>(part->front().ops.time.size());
  EXPECT_LT(read, 5000);
  EXPECT_THAT(
      part->front().skipped,
      ElementsAre(Pair("NVTX_EVENTS: rest of the table: no time left to read (--max-time 0.001 s)",
                       5000 - read)));
  const auto packed = read_nsys(path);
  ASSERT_FALSE(packed);
  EXPECT_EQ(to_string(packed.error()),
            path +
                ": is a compressed SQLite database, which is read whole: no time left to read "
                "(--max-time 0.001 s); unpack it with 'gunzip -k FILE'");
  std::filesystem::remove(path);
}

TEST(NsysReader, SaysWhatIsNoExport) {
  EXPECT_THAT(
      error_of("CREATE TABLE users(a); CREATE TABLE orders(b);"),
      HasSubstr("run.sqlite: is an SQLite database, but no export of Nsight Systems: it has "
                "'users', 'orders'"));
  EXPECT_THAT(error_of("CREATE TABLE a(a); CREATE TABLE b(a); CREATE TABLE c(a);"
                       "CREATE TABLE d(a);"),
              testing::EndsWith("no export of Nsight Systems: it has 'a', 'b', 'c'"));
  EXPECT_THAT(error_of("CREATE TABLE a(a); DROP TABLE a;"), testing::EndsWith("it has no tables"));
  EXPECT_THAT(error_of("CREATE TABLE StringTable(a);"), HasSubstr("it has 'StringTable'"));
  EXPECT_THAT(error_of("CREATE TABLE StringTable(a);"
                       "CREATE TABLE CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL(b);"),
              HasSubstr("recording of nvprof"));
  const auto text = read_nsys_bytes("not a database at all", "run.sqlite");
  ASSERT_FALSE(text);
  EXPECT_THAT(text.error().message, HasSubstr("cannot be read"));
  EXPECT_TRUE(is_nsys("a.nsys-rep", "whatever"));
  EXPECT_TRUE(is_nsys("a.db", std::string_view("SQLite format 3\0", 16)));
  EXPECT_FALSE(is_nsys("a.json", "{}"));
}

TEST(NsysReader, SaysHowToExportARecording) {
  const std::string path = testing::TempDir() + "run.nsys-rep";
  std::ofstream(path, std::ios::binary) << "no database";
  const auto own = read_nsys(path);
  ASSERT_FALSE(own);
  EXPECT_EQ(own.error().where, path);
  EXPECT_THAT(own.error().message,
              HasSubstr("is a recording in Nsight Systems' own form; export it with 'nsys export"));
  std::filesystem::remove(path);
  const auto missing = read_nsys(path);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().where, path);
}

// A file may hold views, generated columns and virtual tables under the names of real ones.
TEST(NsysReader, NeverRunsCodeOfTheFile) {
  const Timeline view = timeline_of(
      std::string(kStringsSql) + std::string("CREATE TABLE META_DATA_EXPORT(name, value);") +
      "CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL "
      "SELECT x+1 FROM c) SELECT x AS start, x AS end FROM c;");
  EXPECT_EQ(view.gpu.time.size(), 0U);
  const Timeline generated = timeline_of(
      std::string(kStringsSql) + "CREATE TABLE META_DATA_EXPORT(name, value);" +
      "CREATE TABLE NVTX_EVENTS(start, end, eventType, text AS (hex(zeroblob(1000000))));"
      "INSERT INTO NVTX_EVENTS VALUES(1,2,59);");
  EXPECT_EQ(generated.ops.time.size(), 0U);
  EXPECT_THAT(generated.skipped, ElementsAre(Pair("NVTX ranges without a name", 1)));
  const auto forged = read_nsys_bytes(
      database_bytes(
          std::string(kStringsSql) + "CREATE TABLE META_DATA_EXPORT(name, value);" +
          "CREATE TABLE NVTX_EVENTS(start, end); PRAGMA writable_schema=ON;"
          "UPDATE sqlite_master SET sql='CREATE VIEW NVTX_EVENTS AS SELECT 1 AS start, 2 AS end,"
          " 59 AS eventType, ''x'' AS text' WHERE name='NVTX_EVENTS';"),
      "run.sqlite");
  EXPECT_TRUE(!forged || forged->front().ops.time.size() == 0U);
}

}  // namespace
}  // namespace rooftile
