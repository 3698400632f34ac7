#include "rooftile/readers/kineto/kineto_reader.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "rooftile/formats/kineto/kineto_stream.h"

namespace rooftile {
namespace {

Result<Timeline> read_text(std::string_view text) {
  const auto stream = stream_of(text, 4096);
  return read_kineto_bytes(*stream, "trace.json");
}

// The events of a trace in an object, as recent recordings are.
Timeline read_events(std::string_view events, std::string_view members = "") {
  auto timeline =
      read_text(fmt::format(R"({{"schemaVersion": 1{}, "traceEvents": [{}]}})", members, events));
  EXPECT_TRUE(timeline) << to_string(timeline.error());
  return timeline ? std::move(*timeline) : Timeline();
}

TEST(KinetoReader, SequenceNumbersBelowZeroAreNone) {
  const auto op = [](std::string_view number) {
    return fmt::format(R"({{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 1,
                           "dur": 1, "args": {{"Sequence number": {}}}}})",
                       number);
  };
  const Timeline t = read_events(op("-1") + "," + op("0") + "," + op("4294967294"));
  EXPECT_EQ(t.ops.sequence[0], 0U);
  EXPECT_EQ(t.ops.sequence[1], 1U);
  EXPECT_EQ(t.ops.sequence[2], 4294967295U);
  EXPECT_TRUE(t.skipped.empty());
  for (const char* number : {"-2", "4294967295"}) {
    EXPECT_EQ(read_events(op(number)).skipped.size(), 1U) << number;
  }
}

TEST(KinetoReader, ReadsARecentTrace) {
  const Timeline t = read_events(R"json(
    {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#6", "pid": 5, "tid": 5,
     "ts": 1414456661601.577, "dur": 7894.065, "args": {"External id": 1537}},
    {"ph": "X", "cat": "cpu_op", "name": "aten::conv2d", "pid": 5, "tid": 5,
     "ts": 1414456661803.680, "dur": 105.941, "args": {"External id": 1538, "Sequence number": 0,
      "Concrete Inputs": ["", "", "[16, 16]", "1"],
      "Input type": ["c10::BFloat16", "TensorList", "ScalarList", "Scalar"],
      "Input Strides": [[150528, 50176, 224, 1], [[1], [1]], [], []],
      "Input Dims": [[4, 3, 224, 224], [[768], [768]], [], []]}},
    {"ph": "X", "cat": "python_function", "name": "train.py(88): step", "pid": 0, "tid": 0,
     "ts": 1414456661600.000, "dur": 8000, "args": {"Python id": 1}},
    {"ph": "X", "cat": "python_function", "name": "nn.Module: Linear_0", "pid": 5, "tid": 5,
     "ts": 1414456661800, "dur": 200, "args": {"Python id": 2}},
    {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 5, "tid": 5,
     "ts": 1414456661900, "dur": 5.5, "args": {"External id": 1538, "cbid": 211, "correlation": 9}},
    {"ph": "X", "cat": "cuda_runtime", "name": "cudaDeviceSynchronize", "pid": 5, "tid": 5,
     "ts": 1414456661950, "dur": 6, "args": {"External id": 10, "correlation": 10}},
    {"ph": "X", "cat": "kernel", "name": "sm90_xmma<4>", "pid": 0, "tid": 7,
     "ts": 1414456661910.25, "dur": 10.464, "args": {"External id": 1538, "queued": 0, "device": 0,
      "context": 1, "stream": 7, "correlation": 9, "registers per thread": 32,
      "shared memory": 2112, "grid": [1568, 1, 4], "block": [256, 1, 1]}},
    {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD (Pageable -> Device)", "pid": 0,
     "tid": 20, "ts": 1414456661920, "dur": 1, "args": {
  "device" : 0, "stream" : 20, "correlation" : 11, "bytes" : 4096}},
    {"ph": "X", "cat": "gpu_memset", "name": "Memset (Device)", "pid": 0, "tid": 7,
     "ts": 1414456661930, "dur": 1, "args": {"device": 0, "stream": 7, "correlation": 12,
      "bytes": 512}},
    {"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 5, "tid": 5,
     "ts": 1414456661820.890, "args": {"Total Reserved": 245366784, "Total Allocated": 216081408,
      "Bytes": -1204224, "Addr": 136093868752896, "Device Id": 0, "Device Type": 1}},
    {"ph": "s", "id": 9, "pid": 5, "tid": 5, "ts": 1, "cat": "ac2g", "name": "ac2g"},
    {"name": "process_name", "ph": "M", "ts": 1, "pid": 5, "tid": 0, "args": {"name": "python3"}},
    {"ph": "X", "cat": "gpu_user_annotation", "name": "ProfilerStep#6", "ts": 1, "dur": 1})json",
                                 R"(, "baseTimeNanoseconds": 1751410836000000000,
      "distributedInfo": {"backend": "nccl", "rank": 3, "world_size": 8},
      "deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85018279936,
                            "computeMajor": 9, "computeMinor": 0, "numSms": 167936,
                            "multiProcessorCount": 132}])");
  EXPECT_EQ(t.format, "Kineto");
  EXPECT_TRUE(t.skipped.empty());
  // The first event is the zero: 1751410836 s + 1414456.661601577 s.
  EXPECT_EQ(t.base, 1752825292661601577);

  ASSERT_EQ(t.ops.time.size(), 2U);
  EXPECT_EQ(t.ops.kind[0], HostKind::annotation);
  EXPECT_EQ(t.ops.kind[1], HostKind::op);
  EXPECT_EQ(t.ops.time.start(1), 202'103);
  EXPECT_EQ(t.ops.time.duration(1), 105'941);
  EXPECT_EQ(t.strings[t.ops.name[1]], "aten::conv2d");
  EXPECT_EQ(t.ops.external_id[1], 1538U);
  EXPECT_EQ(t.ops.sequence[0], 0U);
  EXPECT_EQ(t.ops.sequence[1], 1U);
  EXPECT_EQ(t.ops.arguments[0], 0U);
  const OpArguments& arguments = t.arguments[t.ops.arguments[1]];
  using Shapes = std::vector<std::vector<std::int64_t>>;
  using Texts = std::vector<std::string>;
  EXPECT_EQ(arguments.dims, (Shapes{{4, 3, 224, 224}, {}, {}, {}}));
  EXPECT_EQ(arguments.strides, (Shapes{{150528, 50176, 224, 1}, {}, {}, {}}));
  EXPECT_EQ(arguments.types, (Texts{"c10::BFloat16", "TensorList", "ScalarList", "Scalar"}));
  EXPECT_EQ(arguments.values, (Texts{"", "[[768], [768]]", "[16, 16]", "1"}));

  // Frames that were open at the start carry thread 0.
  ASSERT_EQ(t.python.time.size(), 2U);
  EXPECT_EQ(t.python.thread[0], t.ops.thread[0]);
  EXPECT_EQ(t.python.time.start(0), -1'577);
  EXPECT_EQ(t.strings[t.python.name[1]], "nn.Module: Linear_0");

  ASSERT_EQ(t.calls.time.size(), 2U);
  EXPECT_EQ(t.calls.correlation[0], 9U);
  EXPECT_EQ(t.calls.external_id[0], 1538U);
  EXPECT_EQ(t.calls.external_id[1], 0U);  // only its own correlation
  EXPECT_EQ(t.threads[t.calls.thread[0]], (HostThread{5, 5}));

  ASSERT_EQ(t.gpu.time.size(), 3U);
  EXPECT_EQ(t.gpu.time.end(0), 308'673 + 10'464);
  EXPECT_EQ(t.gpu.correlation[0], 9U);
  const LaunchShape& launch = t.launches[t.gpu.details[0]];
  EXPECT_EQ(launch.grid, (std::array<std::uint32_t, 3>{1568, 1, 4}));
  EXPECT_EQ(launch.block, (std::array<std::uint32_t, 3>{256, 1, 1}));
  EXPECT_EQ(launch.registers, 32U);
  EXPECT_EQ(launch.shared_bytes, 2112U);
  EXPECT_EQ(t.gpu.kind[1], GpuKind::copy);
  EXPECT_EQ(t.copies[t.gpu.details[1]], (CopyShape{CopyKind::host_to_device, true, 4096}));
  EXPECT_EQ(t.streams[t.gpu.stream[1]], (GpuStream{0, 20}));
  EXPECT_EQ(t.gpu.kind[2], GpuKind::fill);
  EXPECT_EQ(t.copies[t.gpu.details[2]].bytes, 512U);

  ASSERT_EQ(t.memory.at.size(), 1U);
  EXPECT_EQ(t.memory.bytes[0], -1204224);
  EXPECT_EQ(t.memory.allocated[0], 216081408);
  EXPECT_EQ(t.memory.reserved[0], 245366784);
  EXPECT_EQ(t.memory.device[0], 0);

  EXPECT_EQ(t.rank, 3);
  EXPECT_EQ(t.world_size, 8);
  ASSERT_EQ(t.devices.size(), 1U);
  EXPECT_EQ(t.devices[0], (TraceDevice{0, "NVIDIA H100 80GB HBM3", 85018279936, 132, 9, 0}));
  EXPECT_TRUE(t.has_shapes && t.has_stacks && t.has_memory);
  EXPECT_FALSE(t.is_foreign);
}

TEST(KinetoReader, ReadsATraceOf2021) {
  const Timeline t = read_events(R"json(
    {"ph": "X", "cat": "Operator", "name": "aten::empty", "pid": 25738, "tid": "25738",
     "ts": 1623142623460111, "dur": 25, "args": {"Device": 25738, "External id": 2,
      "Input Dims": [[]], "Input type": ["Int"], "Call stack": "a.py(1): f;b.py(54): <module>",
      "Module Hierarchy": "Net.fc"}},
    {"ph": "X", "cat": "Operator", "name": "ProfilerStep#5", "pid": 25738, "tid": "25738",
     "ts": 1623142623460112, "dur": 1, "args": {"External id": 4}},
    {"ph": "i", "s": "t", "name": "[memory]", "pid": 25738, "tid": 25738, "ts": 1623142623460121,
     "args": {"Device Type": 0, "Device Id": -1, "Bytes": 4}},
    {"ph": "X", "cat": "Runtime", "name": "cudaMemcpyAsync", "pid": 25738, "tid": "25738",
     "ts": 1623142623529088, "dur": 2022, "args": {"correlation": 34417, "external id": 537}},
    {"ph": "X", "cat": "Kernel", "name": "k", "pid": 0, "tid": "stream 7",
     "ts": 1623142623531625, "dur": 2, "args": {"correlation": 34441, "external id": 544}},
    {"ph": "X", "cat": "Memcpy", "name": "Memcpy DtoH (Device -> Pinned)", "pid": 1,
     "tid": "stream 7 ", "ts": 1623142623531625, "dur": 2, "args": {
  "bytes" : 8}},
    {"ph": "X", "cat": "Memset", "name": "Memset (Device)", "pid": 0, "tid": "stream 7",
     "ts": 1623142623531625, "dur": 2, "args": {"device": 0, "stream": 7}})json");
  EXPECT_TRUE(t.skipped.empty());
  EXPECT_EQ(t.base, 1623142623460111000);
  EXPECT_EQ(t.ops.kind[1], HostKind::annotation);
  EXPECT_EQ(t.strings[t.ops.stack[0]], "a.py(1): f;b.py(54): <module>");
  EXPECT_EQ(t.strings[t.ops.module[0]], "Net.fc");
  EXPECT_EQ(t.ops.stack[1], 0U);
  EXPECT_EQ(t.threads, (std::vector<HostThread>{{25738, 25738}}));
  EXPECT_EQ(t.calls.external_id[0], 537U);
  EXPECT_EQ(t.memory.device[0], -1);
  EXPECT_EQ(t.memory.allocated[0], -1);
  EXPECT_EQ(t.streams, (std::vector<GpuStream>{{0, 7}, {1, 7}}));
  EXPECT_EQ(t.gpu.details[0], 0U);
  EXPECT_EQ(t.copies[t.gpu.details[1]], (CopyShape{CopyKind::device_to_host, false, 8}));
}

TEST(KinetoReader, ReadsEventsWithoutCategories) {
  const auto t = read_text(R"json([
    {"name": "aten::empty", "ph": "X", "ts": 434.706, "dur": 4.123999999999967, "tid": 1,
     "pid": "CPU functions", "args": {}},
    {"name": "vectorized", "ph": "X", "ts": 440, "dur": 4, "tid": 0, "pid": "CUDA functions",
     "args": {}},
    {"name": "Memset (Device)", "ph": "X", "ts": 440, "dur": 4, "tid": 0, "pid": "CUDA functions"},
    {"name": "launch", "ph": "s", "ts": 440, "tid": 1, "pid": "CPU functions", "id": 1},
    {"name": "something", "ph": "X", "ts": 440, "dur": 4, "tid": 0, "pid": 1}])json");
  ASSERT_TRUE(t);
  EXPECT_EQ(t->ops.time.size(), 1U);
  EXPECT_EQ(t->ops.time.duration(0), 4124);
  EXPECT_EQ(t->gpu.kind[0], GpuKind::kernel);
  EXPECT_EQ(t->gpu.kind[1], GpuKind::fill);
  EXPECT_EQ(t->base, 0);
  EXPECT_EQ(t->skipped, (SkippedRecords{{"events without a category", 1}}));
}

TEST(KinetoReader, ReadsCollectives) {
  constexpr std::string_view kArgs =
      R"("Collective name": "allreduce", "In msg nelems": 2049000, "Out msg nelems": 2049000,
         "Group size": 2, "dtype": "Float", "Process Group Name": "0")";
  const Timeline t = read_events(fmt::format(
      R"({{"ph": "X", "cat": "cpu_op", "name": "record_param_comms", "pid": 1, "tid": 1, "ts": 1,
           "dur": 1, "args": {{"External id": 1, {0}}}}},
         {{"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce", "pid": 0, "tid": 1,
           "ts": 1, "dur": 1, "args": {{"device": 0, "stream": 1, "grid": [2, 1, 1],
           "block": [64, 1, 1], {0}}}}})",
      kArgs));
  const CollectiveShape expected{"allreduce", "Float", "0", 2049000, 2049000, 2};
  EXPECT_EQ(t.collectives[t.ops.collective[0]], expected);
  EXPECT_EQ(t.collectives[t.launches[t.gpu.details[0]].collective], expected);
  EXPECT_EQ(t.collectives.size(), 2U);
}

TEST(KinetoReader, KnowsOtherMakersAccelerators) {
  for (const std::string_view event :
       {R"("cat": "cuda_runtime", "name": "hipLaunchKernel")",
        R"("cat": "kernel", "name": "Cijk_A")", R"("cat": "xpu_runtime", "name": "urEnqueue")"}) {
    EXPECT_TRUE(
        read_events(fmt::format(R"({{"ph": "X", {}, "ts": 1, "dur": 1}})", event)).is_foreign)
        << event;
  }
  EXPECT_TRUE(
      read_events("", R"(, "deviceProperties": [{"name": "AMD Instinct MI250"}])").is_foreign);
  EXPECT_TRUE(read_events("", R"(, "hip_runtime_version": 60443483)").is_foreign);
  EXPECT_FALSE(read_events("", R"(, "deviceProperties": [{"name": "Tesla V100"}])").is_foreign);
}

TEST(KinetoReader, IdsBeyond32BitsStayDistinct) {
  const Timeline t = read_events(R"(
    {"ph": "X", "cat": "cuda_runtime", "name": "a", "ts": 1, "dur": 1,
     "args": {"correlation": 5000000000, "External id": 1}},
    {"ph": "X", "cat": "kernel", "name": "a", "ts": 1, "dur": 1,
     "args": {"correlation": 5000000000, "External id": 4294967297}},
    {"ph": "X", "cat": "kernel", "name": "a", "ts": 1, "dur": 1,
     "args": {"correlation": 99999999999999999999}})");
  EXPECT_EQ(t.calls.correlation[0], t.gpu.correlation[0]);
  EXPECT_NE(t.gpu.external_id[0], t.gpu.correlation[0]);
  EXPECT_NE(t.gpu.external_id[0], 1U);
  EXPECT_EQ(t.gpu.correlation[1], 0U);
  EXPECT_EQ(t.skipped, (SkippedRecords{{"ids that are no 64-bit number", 1}}));
}

// Of arguments, else of the process and thread.
TEST(KinetoReader, StreamsOfTheGpu) {
  struct Case {
    const char* process_and_thread;
    const char* arguments;
    GpuStream stream;
  };
  const std::vector<Case> cases{
      {R"("pid": 5, "tid": 5)", R"("device": 2, "stream": 7)", {2, 7}},
      {R"("pid": 2, "tid": "stream 9")", "", {2, 9}},
      {R"("pid": 2, "tid": "stream  9 ")", "", {2, 9}},
      {R"("pid": 2, "tid": 9)", "", {2, 9}},
      {R"("pid": "GPU", "tid": "main")", "", {0, 0}},
      {R"("pid": 1, "tid": 1)", R"("device": 5000000000)", {2147483647, 1}},
      {R"("pid": -5000000000, "tid": 1)", "", {-2147483648, 1}}};
  for (const Case& c : cases) {
    const Timeline t =
        read_events(fmt::format(R"({{"ph": "X", "cat": "kernel", "name": "k", {}, "ts": 1, "dur": 1,
                         "args": {{{}}}}})",
                                c.process_and_thread, c.arguments));
    EXPECT_EQ(t.streams, (std::vector<GpuStream>{c.stream})) << c.process_and_thread;
  }
}

TEST(KinetoReader, ReadsOverheadsOfTheProfiler) {
  const Timeline t = read_events(R"(
    {"ph": "X", "cat": "overhead", "name": "Activity Buffer Request", "pid": -1, "tid": 0,
     "ts": 1, "dur": 2.5},
    {"ph": "X", "cat": "overhead", "name": "Lazy Function Loading", "pid": -1, "tid": 0,
     "ts": 4, "dur": 1})");
  ASSERT_EQ(t.overheads.time.size(), 2U);
  EXPECT_EQ(t.overheads.time.duration(0), 2'500);
  EXPECT_EQ(t.strings[t.overheads.name[0]], "Activity Buffer Request");
  EXPECT_EQ(t.overheads.time.start(1), 3'000);
  EXPECT_EQ(t.strings[t.overheads.name[1]], "Lazy Function Loading");
}

TEST(KinetoReader, CountsWhatItLeavesOut) {
  struct Case {
    const char* event;
    const char* name;
  };
  const Case cases[] = {
      {R"("ph": "X", "cat": "kernel", "dur": 1)", "events without a readable time"},
      {R"("ph": "X", "cat": "kernel", "ts": NaN, "dur": 1)", "events without a readable time"},
      {R"("ph": "X", "cat": "kernel", "ts": 1)", "events without a readable duration"},
      {R"("ph": "X", "cat": "kernel", "ts": 1, "dur": Infinity)",
       "events without a readable duration"},
      {R"("ph": "X", "cat": "kernel", "ts": 1, "dur": -1)",
       "events with a duration below 0 or of years"},
      {R"("ph": "X", "cat": "kernel", "ts": 9e15, "dur": 1)", "events years away from the first"},
      {R"("cat": "kernel", "ts": 1, "dur": 1)", "events without a phase"},
      {R"("ph": "B", "cat": "kernel", "ts": 1)", "events of phase 'B'"},
      {R"("ph": "X", "cat": "blink", "ts": 1, "dur": 1)", "events of category 'blink'"},
      {R"("ph": "i", "name": "[memory]", "ts": 1)", "memory events without bytes"},
  };
  for (const Case& c : cases) {
    const Timeline t = read_events(fmt::format(
        R"({{"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 1}}, {{{}}})", c.event));
    EXPECT_EQ(t.gpu.time.size(), 1U) << c.event;
    EXPECT_EQ(t.skipped, (SkippedRecords{{c.name, 1}})) << c.event;
  }
}

TEST(KinetoReader, NamesABoundedNumberOfUnknownCategories) {
  std::string events = R"({"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 1})";
  for (int i = 0; i < 80; ++i) {
    events += fmt::format(R"(, {{"ph": "X", "cat": "c{}", "ts": 1, "dur": 1}})", i % 40);
  }
  const SkippedRecords skipped = read_events(events).skipped;
  EXPECT_EQ(skipped.size(), 33U);
  EXPECT_EQ(skipped.at("events of category 'c0'"), 2);
  EXPECT_EQ(skipped.at("events of category 'c31'"), 2);
  EXPECT_EQ(skipped.at("events of other categories"), 16);
}

TEST(KinetoReader, TheHeaderSaysWhatWasRecorded) {
  const auto recorded = [](std::string_view value) {
    const Timeline t = read_events(
        "",
        fmt::format(R"(, "record_shapes": {0}, "with_stack": {0}, "profile_memory": {0})", value));
    return std::vector<bool>{t.has_shapes, t.has_stacks, t.has_memory};
  };
  for (const std::string_view yes : {"1", "true"}) {
    EXPECT_EQ(recorded(yes), (std::vector<bool>{true, true, true})) << yes;
  }
  for (const std::string_view no : {"0", "false", "-1", "null"}) {
    EXPECT_EQ(recorded(no), (std::vector<bool>{false, false, false})) << no;
  }
}

TEST(KinetoReader, ImpossibleNumbersOfADeviceAreUnknown) {
  const auto device = [](std::string_view members) {
    const Timeline t =
        read_events("", fmt::format(R"(, "deviceProperties": [{{"id": 1, {}}}])", members));
    EXPECT_EQ(t.devices.size(), 1U) << members;
    return t.devices.empty() ? TraceDevice{} : t.devices.front();
  };
  EXPECT_EQ(device(R"("totalGlobalMem": -1)").memory_bytes, 0U);
  EXPECT_EQ(device(R"("totalGlobalMem": 0)").memory_bytes, 0U);
  EXPECT_EQ(device(R"("totalGlobalMem": 1)").memory_bytes, 1U);
  EXPECT_EQ(device(R"("computeMajor": -8)").major, 0);
  EXPECT_EQ(device(R"("numSms": 167936)").sm_count, 0);
  EXPECT_EQ(device(R"("numSms": 108)").sm_count, 108);
  EXPECT_EQ(device(R"("multiProcessorCount": 132, "numSms": 108)").sm_count, 132);
}

TEST(KinetoReader, RefusesOtherChromeTraces) {
  const auto t = read_text(R"({"traceEvents": [{"ph": "X", "cat": "blink", "ts": 1, "dur": 1}]})");
  ASSERT_FALSE(t);
  EXPECT_EQ(to_string(t.error()),
            "trace.json: a Chrome trace without events of PyTorch's profiler: found events of "
            "category 'blink', expected categories such as kernel");
  EXPECT_TRUE(read_text(R"({"traceEvents": []})"));
}

TEST(KinetoReader, IsRecognisedByItsStart) {
  const std::string path = testing::TempDir() + "/recognised.json";
  const auto recognised = [&](const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
    return is_kineto(path, std::string_view(text).substr(0, 4096));
  };
  EXPECT_TRUE(recognised(R"({"schemaVersion": 1, "traceEvents": []})"));
  EXPECT_TRUE(recognised(R"({"schemaVersion": 1, "deviceProperties": [)"));
  EXPECT_TRUE(recognised(R"( [ {"name": "aten::empty", "ph": "X"}])"));
  EXPECT_TRUE(recognised("[[-1, 1, 37888, 7]]"));
  EXPECT_TRUE(recognised(R"({"schema": "1.0.1", "nodes": []})"));
  EXPECT_TRUE(
      recognised(R"({"metadata": ")" + std::string(10'000, 'x') + R"(", "traceEvents": [)"));
  EXPECT_FALSE(recognised(R"({"model_type": "bert"})"));
  EXPECT_FALSE(recognised(R"([{"op": "gemm"}])"));
  EXPECT_FALSE(recognised("gemm bf16 m=1 n=2 k=3"));
  EXPECT_FALSE(recognised(""));
  // gzip.compress(b'{"traceEvents": []}', mtime=0) and of b"hello", by Python
  EXPECT_TRUE(recognised(
      std::string({'\x1f', '\x8b', '\x08', '\x00', '\x00', '\x00', '\x00', '\x00', '\x02', '\x03',
                   '\xab', '\x56', '\x2a', '\x29', '\x4a', '\x4c', '\x4e', '\x75', '\x2d', '\x4b',
                   '\xcd', '\x2b', '\x29', '\x56', '\xb2', '\x52', '\x88', '\x8e', '\xad', '\x05',
                   '\x00', '\xd7', '\xde', '\x51', '\xaf', '\x13', '\x00', '\x00', '\x00'})));
  EXPECT_FALSE(recognised(
      std::string({'\x1f', '\x8b', '\x08', '\x00', '\x00', '\x00', '\x00', '\x00', '\x02',
                   '\x03', '\xcb', '\x48', '\xcd', '\xc9', '\xc9', '\x07', '\x00', '\x86',
                   '\xa6', '\x10', '\x36', '\x05', '\x00', '\x00', '\x00'})));
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace rooftile
