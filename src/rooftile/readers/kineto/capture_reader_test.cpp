#include "rooftile/readers/kineto/capture_reader.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "rooftile/readers/reader.h"
#include "rooftile/workload/workload_text.h"

namespace rooftile {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

const std::string kHeader =
    R"({"version":1,"mode":"train","parameters":80,"weight_bytes":320,"batch":4,"notes":["a note"],)"
    R"("host_reads":{"model.py:7":2},"optimizer":{"class":"SGD","kind":"sgd","parameters":80}})";

std::string op_event(const std::string& name, const std::string& dims, const std::string& more) {
  return R"({"ph":"X","cat":"cpu_op","name":")" + name +
         R"(","ts":0,"dur":0,"args":{"Input Dims":)" + dims + "," + more + "}}";
}

const std::string kLinear = op_event(
    "aten::addmm", "[[8],[4,8],[8,8],[],[]]",
    R"("Input type":["float","float","float","Scalar","Scalar"],"Input Strides":[[1],[8,1],[1,8],[],[]],)"
    R"("Concrete Inputs":["","","","1","1"],"Output Dims":[[4,8]],"Output Strides":[[8,1]],)"
    R"("Output type":["float"],"Weights":[0,2],)"
    R"("Phase":"forward","Module Hierarchy":"fc","Source":"model.py:5","Reads":["v1"],)"
    R"("Writes":["v2"],"Sequence number":0)");
const std::string kGradient =
    op_event("aten::mm", "[[8,4],[4,8]]",
             R"("Input type":["float","float"],"Input Strides":[[1,8],[8,1]],)"
             R"("Concrete Inputs":["",""],"Phase":"backward","Sequence number":0)");

std::string capture(const std::string& header, const std::string& events) {
  return "{\"rooftileCapture\":" + header + ",\n\"traceEvents\":[\n" + events + "\n]}\n";
}

Result<Workload> read(const std::string& text) {
  return read_capture_bytes(*stream_of(text, 64), "model.rooftile.json");
}

TEST(Capture, ReadsAStep) {
  const auto workload = read(capture(kHeader, kLinear + "," + kGradient));
  ASSERT_TRUE(workload) << to_string(workload.error());
  EXPECT_EQ(workload->mode, Mode::training);
  EXPECT_EQ(workload->parameters, 80);
  EXPECT_EQ(workload->batch, 4);
  EXPECT_EQ(workload->weight_bytes, 320);
  ASSERT_EQ(workload->ops.size(), 3U);
  const Op& layer = workload->ops[0];
  EXPECT_EQ(layer.name, "fc");
  EXPECT_EQ(dims_text(layer.body), "m=4 n=8 k=8 bias=1");
  EXPECT_EQ(layer.source.file, "model.py");
  EXPECT_EQ(layer.source.line, 5);
  EXPECT_THAT(layer.inputs, ElementsAre("v1"));
  EXPECT_EQ(workload->ops[1].phase, Phase::wgrad);
  const auto& step = std::get<OptimizerStep>(workload->ops[2].body);
  EXPECT_EQ(step.fn, OptimizerKind::sgd);
  EXPECT_EQ(step.parameters, 80);
  EXPECT_THAT(workload->notes, Contains("a note"));
  EXPECT_THAT(workload->notes,
              Contains(HasSubstr("reads 2 values of the GPU, first at model.py:7")));
}

// Each tensor as the allocator rounds it: two live at most, and one of them is the gradient.
TEST(Capture, AModelOfARunningProgramHasItsOwnName) {
  const auto read_with = [](const std::string& more) {
    const auto workload = read(capture(
        R"({"version":1,"mode":"train")" + more + R"(,"optimizer":{"kind":"sgd","parameters":80}})",
        kLinear));
    return workload ? workload->sources.front() + "," + workload->ops.back().source.file : "";
  };
  EXPECT_EQ(read_with(R"(,"model":"Net","in_memory":true)"), "Net,Net");
  EXPECT_EQ(read_with(R"(,"model":"Net")"), "model.rooftile.json,model.rooftile.json");
  EXPECT_EQ(read_with(R"(,"in_memory":true)"), "model.rooftile.json,model.rooftile.json");
}

TEST(Capture, AnOptimizerLeavesRowsWithoutAGradient) {
  const auto workload = read(capture(
      R"({"version":1,"mode":"train","optimizer":{"kind":"sgd","parameters":80,"untouched":72}})",
      kLinear));
  ASSERT_TRUE(workload);
  EXPECT_EQ(std::get<OptimizerStep>(workload->ops.back().body).parameters, 8);
}

TEST(Capture, KindsOfOptimizers) {
  struct Case {
    const char* members;
    OptimizerKind kind;
    std::int64_t parameters;
  };
  for (const Case& c :
       {Case{R"("kind":"sgd","parameters":80)", OptimizerKind::sgd, 80},
        Case{R"("kind":"momentum","parameters":1)", OptimizerKind::momentum, 1},
        Case{R"("kind":"adam","parameters":80)", OptimizerKind::adam, 80},
        Case{R"("kind":"adafactor","parameters":80)", OptimizerKind::adafactor, 80},
        Case{R"("kind":"adamw","parameters":80)", OptimizerKind::adamw, 80},
        Case{R"("kind":"lion","parameters":80)", OptimizerKind::adamw, 80},
        Case{R"("kind":"sgd","parameters":80,"untouched":79)", OptimizerKind::sgd, 1},
        Case{R"("kind":"sgd","parameters":80,"untouched":90)", OptimizerKind::sgd, 1}}) {
    const auto workload = read(capture(
        fmt::format(R"({{"version":1,"mode":"train","optimizer":{{{}}}}})", c.members), kLinear));
    ASSERT_TRUE(workload) << c.members;
    ASSERT_EQ(workload->ops.size(), 2U) << c.members;
    const auto& step = std::get<OptimizerStep>(workload->ops.back().body);
    EXPECT_EQ(step.fn, c.kind) << c.members;
    EXPECT_EQ(step.parameters, c.parameters) << c.members;
    EXPECT_EQ(workload->ops.back().phase, Phase::optimizer);
  }
  for (const char* header :
       {R"({"version":1,"mode":"train","optimizer":{"kind":"sgd","parameters":0}})",
        R"({"version":1,"mode":"train","optimizer":{"kind":"sgd"}})",
        R"({"version":1,"mode":"eval","optimizer":{"kind":"sgd","parameters":80}})"}) {
    const auto workload = read(capture(header, kLinear));
    ASSERT_TRUE(workload) << header;
    EXPECT_EQ(workload->ops.size(), 1U) << header;
  }
}

// Values for each parameter, as large as those of the weights: 4 bytes.
TEST(Capture, StateOfTheOptimizer) {
  const auto state = [](std::string_view values, std::string_view mode = "train",
                        std::string_view parameters = R"("parameters":80,)") {
    const auto workload =
        read(capture(fmt::format(R"({{"version":1,"mode":"{}",{}"weight_bytes":320,"optimizer":)"
                                 R"({{"kind":"sgd","parameters":40,"state_per_parameter":{}}}}})",
                                 mode, parameters, values),
                     kLinear));
    return workload && workload->pass_memory ? workload->pass_memory->optimizer : -1;
  };
  EXPECT_EQ(state("2"), 40 * 2 * 4);
  EXPECT_EQ(state("0.5"), 40 * 2);
  EXPECT_EQ(state("16"), 40 * 16 * 4);
  for (const char* no_state : {"0", "17", "-1"}) EXPECT_EQ(state(no_state), 0) << no_state;
  EXPECT_EQ(state("2", "eval"), 0);
  EXPECT_EQ(state("2", "train", ""), 0);
}

TEST(Capture, SaysWhatTheHostReads) {
  const auto notes = [](std::string_view members) {
    const auto workload = read(capture(fmt::format(R"({{"version":1,{}}})", members), kLinear));
    return workload ? workload->notes : std::vector<std::string>{"refused"};
  };
  EXPECT_THAT(notes(R"("host_reads":{"a.py:1":1})"),
              ElementsAre("the program reads 1 value of the GPU, first at a.py:1: each makes the "
                          "CPU wait until the GPU has done all before it"));
  EXPECT_THAT(notes(R"("host_reads":{"a.py:1":1,"b.py:2":2})"),
              ElementsAre("the program reads 3 values of the GPU, first at a.py:1: each makes the "
                          "CPU wait until the GPU has done all before it"));
  EXPECT_THAT(notes(R"("host_reads":{"a.py:1":0})"), ElementsAre());
  std::string many = "\"1\"";
  for (int i = 2; i <= 17; ++i) many += fmt::format(",\"{}\"", i);
  EXPECT_EQ(notes(R"("notes":[)" + many + "]").size(), 16U);
  EXPECT_EQ(notes(R"("notes":[)" + many + "]").back(), "16");
}

TEST(Capture, FollowsMemory) {
  const auto memory = [](int address, int bytes) {
    return fmt::format(
        R"({{"ph":"i","name":"[memory]","cat":"cpu_instant_event","ts":0,"args":{{"Bytes":{},"Addr":{}}}}},)",
        bytes, address);
  };
  const auto workload =
      read(capture(kHeader, memory(1, 128) + memory(2, 100) + kLinear + "," + memory(2, -100) +
                                kGradient + "," + memory(3, 300) + memory(1, -128) + kGradient));
  ASSERT_TRUE(workload);
  ASSERT_TRUE(workload->pass_memory);
  EXPECT_EQ(workload->pass_memory->gradients, 512);
  EXPECT_EQ(workload->pass_memory->activations, 512);
  EXPECT_EQ(workload->pass_memory->optimizer, 0);
}

TEST(Capture, CountsWhatItDoesNotKnow) {
  const auto workload = read(
      capture(kHeader,
              kLinear + "," + op_event("aten::linalg_qr", "[[8,8]]", R"("Input type":["float"])")));
  ASSERT_TRUE(workload);
  EXPECT_THAT(workload->skipped,
              ElementsAre(Pair("operator without a cost model: aten.linalg_qr", 1)));
}

// A copy of a transposed tensor is known by the strides of what it writes.
TEST(Capture, ReadsWhatIsWritten) {
  const std::string transposed =
      op_event("aten::clone", "[[8,4],[]]",
               R"("Input type":["float",""],"Input Strides":[[1,8],[]],"Concrete Inputs":["",""],)"
               R"("Output Dims":[[8,4]],"Output Strides":[[4,1]],"Output type":["float"])");
  const auto workload = read(capture(kHeader, kLinear + "," + transposed));
  ASSERT_TRUE(workload);
  EXPECT_TRUE(std::holds_alternative<LayoutConversion>(workload->ops.at(1).body));
  EXPECT_TRUE(std::get<Gemm>(workload->ops.at(0).body).weight_is_parameter);
}

TEST(Capture, ProductsInTf32WhereTheProgramAllowsIt) {
  const std::string relu =
      op_event("aten::relu", "[[4,8]]", R"("Input type":["float"],"Output Dims":[[4,8]])");
  const auto workload =
      read(capture(R"({"version":1,"allow_tf32":true})", kLinear + "," + kGradient + "," + relu));
  ASSERT_TRUE(workload);
  ASSERT_EQ(workload->ops.size(), 3U);
  EXPECT_EQ(workload->ops[0].dtypes.input, Dtype::tf32);
  EXPECT_EQ(workload->ops[1].dtypes.input, Dtype::tf32);
  EXPECT_EQ(workload->ops[2].dtypes.input, Dtype::fp32);
}

struct BadCase {
  const char* name;
  std::string text;
  const char* says;
};

class BadCapture : public testing::TestWithParam<BadCase> {};

TEST_P(BadCapture, IsRefused) {
  const auto workload = read(GetParam().text);
  ASSERT_FALSE(workload);
  EXPECT_THAT(to_string(workload.error()), HasSubstr(GetParam().says));
}

INSTANTIATE_TEST_SUITE_P(
    Capture, BadCapture,
    testing::Values(BadCase{"Newer", capture(R"({"version":2})", kLinear),
                            "version 2: this Rooftile reads version 1"},
                    BadCase{"NoVersion", capture("{}", kLinear), "without its header"},
                    BadCase{"NoOperator", capture(kHeader, ""), "without an operator"}),
    [](const auto& info) { return info.param.name; });

TEST(Capture, SizesOutOfBoundsCostTheOperatorOnly) {
  const auto workload = read(capture(
      kHeader,
      kLinear + "," +
          op_event("aten::mm", "[[99999999999999,4],[4,8]]", R"("Input type":["float","float"])") +
          "," +
          op_event("aten::zeros", "[[]]",
                   R"("Output Dims":[[9000000000000000000,9]],"Output type":["float"])")));
  ASSERT_TRUE(workload);
  EXPECT_THAT(workload->skipped, Contains(Pair("operator without a cost model: aten.mm", 1)));
}

TEST(Capture, IsTakenBeforeATrace) {
  const std::string path = testing::TempDir() + "model.rooftile.json";
  std::ofstream(path) << capture(kHeader, kLinear);
  const auto reader = find_reader(path);
  std::filesystem::remove(path);
  ASSERT_TRUE(reader);
  EXPECT_EQ((*reader)->name, "capture");
}

}  // namespace
}  // namespace rooftile
