#include "rooftile/pipeline/recorded.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "rooftile/analysis/trace/measured_workload.h"
#include "rooftile/analysis/trace/summarize.h"
#include "rooftile/rooftile.h"
#include "tests/support/timeline_text.h"

namespace rooftile {
namespace {

std::vector<std::string> rows_of(const char* text) {
  const auto timeline = parse_timeline(text);
  EXPECT_TRUE(timeline) << to_string(timeline.error());
  const Report report =
      list_operations(measured_workload({summarize(*timeline)}), *find_device("v100"));
  std::vector<std::string> rows;
  for (const OpRow& row : report.ops) {
    rows.push_back(row.name + " " + row.dtype + " " + row.dims + " " + std::to_string(row.count));
  }
  return rows;
}

// Old recordings have no strides and paddings, so the convolution's output is not known.
TEST(ListOperations, TellsShapesOfOperatorsWithoutAForm) {
  EXPECT_EQ(
      rows_of(R"(
op main 0us 9us aten::conv2d dims=[[2,3,8,8],[4,3,3,3],[4]] types=[c10::Half,c10::Half,c10::Half]
op main 1us 7us aten::cudnn_convolution dims=[[2,3,8,8],[4,3,3,3]] types=[c10::Half,c10::Half]
call main 2us 1us cudaLaunchKernel corr=1
kernel 7 4us 9us implicit_convolve_sgemm corr=1
op main 20us 9us aten::conv2d dims=[[2,4,8,8],[4,4,1,1],[4]] types=[c10::Half,c10::Half,c10::Half]
call main 22us 1us cudaLaunchKernel corr=2
kernel 7 24us 5us implicit_convolve_sgemm corr=2
op main 40us 9us aten::strange
call main 42us 1us cudaLaunchKernel corr=3
kernel 7 44us 1us strange corr=3
)"),
      (std::vector<std::string>{"aten::conv2d fp16 fn=aten::conv2d shapes=2x3x8x8,4x3x3x3,4 1",
                                "aten::conv2d fp16 fn=aten::conv2d shapes=2x4x8x8,4x4x1x1,4 1",
                                "aten::strange fp32 fn=aten::strange 1"}));
}

// The inner operator's arguments give the product; where none tells, the outer one is named.
TEST(ListOperations, NamesTheOperatorThatTellsTheProduct) {
  EXPECT_EQ(rows_of(R"(
op main 0us 9us aten::linear dims=[[16,8],[32,8]] types=[float,float]
op main 1us 7us aten::mm dims=[[16,8],[8,32]] types=[float,float]
call main 2us 1us cudaLaunchKernel corr=1
kernel 7 4us 9us sgemm corr=1
op main 20us 9us aten::matmul
op main 21us 7us aten::mm
call main 22us 1us cudaLaunchKernel corr=2
kernel 7 24us 5us sgemm corr=2
)"),
            (std::vector<std::string>{"aten::mm fp32 m=16 n=32 k=8 layout=nn 1",
                                      "aten::matmul fp32 fn=aten::matmul 1"}));
}

std::string id_of(const std::string& name, const std::string& rest) {
  const auto timeline = parse_timeline("device 0 " + name + " " + rest + R"(
op main 0us 9us aten::mm
call main 2us 1us cudaLaunchKernel corr=1
kernel 7 4us 9us sgemm corr=1
)");
  EXPECT_TRUE(timeline) << to_string(timeline.error());
  const auto device = recorded_device(measured_workload({summarize(*timeline)}));
  return device ? device->id : to_string(device.error());
}

// Its 42.3 GB fit both boards with 40 GB; names of cards say PCIe.
TEST(RecordedDevice, ABoardThatIsNotListedIsNoCardUnlessItsNameSaysSo) {
  const std::string a100 = "sms=108 cc=8.0 memory=42314694656";
  EXPECT_EQ(id_of("NVIDIA-A100-PG509-200", a100), "a100_sxm_40gb");
  EXPECT_EQ(id_of("NVIDIA-A100X-PCIe", a100), "a100_pcie_40gb");
}

TEST(RecordedDevice, OneNameStandsForChipsOfSeveralSizes) {
  const auto timeline = parse_timeline(R"(
device 0 Orin sms=8 cc=8.7 memory=8000000000
kernel 7 4us 9us sgemm
)");
  ASSERT_TRUE(timeline) << to_string(timeline.error());
  const auto device = recorded_device(measured_workload({summarize(*timeline)}));
  ASSERT_TRUE(device);
  EXPECT_EQ(device->name, "Jetson AGX Orin 64 GB with 8 SMs");
  EXPECT_EQ(device->sms, 8);
  EXPECT_EQ(device->dram_size.value(), 8e9);
  const auto whole = find_device("jetson_agx_orin_64gb");
  ASSERT_TRUE(whole);
  EXPECT_DOUBLE_EQ(device->peak(Dtype::fp16)->value(), whole->peak(Dtype::fp16)->value() / 2);
}

// A laptop's GPU is a chip of the same generation with a few SMs less.
TEST(RecordedDevice, AListedOneOfNearlyAsManySmsStandsForOneThatIsNot) {
  EXPECT_EQ(id_of("Laptop-GPU", "sms=46 cc=12.0 memory=12820480000"), "rtx_5070");
}

TEST(RecordedDevice, AnUnknownOneIsToldWhichListedOneIsMostAlike) {
  EXPECT_EQ(
      id_of("Laptop-GPU", "sms=43 cc=12.0 memory=12820480000"),
      "'Laptop-GPU' is not among the GPUs that `rooftile gpus` lists: name the nearest with "
      "--gpu for advice that needs its rates; of its generation, rtx_5070 has 48 SMs for its 43");
  EXPECT_EQ(id_of("Laptop-GPU", "sms=46 cc=1.0 memory=12820480000"),
            "'Laptop-GPU' is not among the GPUs that `rooftile gpus` lists: name the nearest with "
            "--gpu for advice that needs its rates");
}

}  // namespace
}  // namespace rooftile
