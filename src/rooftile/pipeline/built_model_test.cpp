#include "rooftile/pipeline/built_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <string>

#include "tests/support/temporary_folder.h"

namespace rooftile {
namespace {

using testing::HasSubstr;

constexpr const char* kBuiltCapture =
    R"({"rooftileCapture":{"version":1,"model":"Net","mode":"inference","torch":"2.13",)"
    R"("parameters":64,"trainable_parameters":64,"weight_bytes":256,"weight_dtype":"float32",)"
    R"("input_bytes":128,"notes":["built"],"host_reads":{},"batch":4},"traceEvents":[)"
    R"({"ph":"X","cat":"cpu_op","name":"aten::mm","ts":0,"dur":0,"args":{)"
    R"("Input Dims":[[4,8],[8,8]],"Input type":["float","float"],"Input Strides":[[8,1],[8,1]],)"
    R"("Concrete Inputs":["",""],"Output Dims":[[4,8]],"Output type":["float"],)"
    R"("Phase":"forward","Module Hierarchy":"head","Source":"net.py:3"}}]})";

// A program in the place of Python, which writes down how it was called.
class FakePython {
 public:
  FakePython(const std::string& answer, int code) {
    const std::string script = "#!/bin/sh\necho \"$@\" >> " + folder_.string() + "/calls\ncat " +
                               folder_.write("answer", answer) + "\nexit " + std::to_string(code);
    const std::string path = folder_.write("python", script);
    ::chmod(path.c_str(), 0755);
    ::setenv("ROOFTILE_PYTHON", path.c_str(), 1);
  }
  ~FakePython() { ::unsetenv("ROOFTILE_PYTHON"); }
  FakePython(const FakePython&) = delete;
  FakePython& operator=(const FakePython&) = delete;
  std::string calls() const { return folder_.read("calls"); }

 private:
  TemporaryFolder folder_;
};

TEST(BuiltModel, IsCapturedOnceAndScaledForOtherBatches) {
  const FakePython python(kBuiltCapture, 0);
  const auto build = model_builder();
  ReadOptions options;
  options.batch = 4;
  options.mode = Mode::training;
  options.dtype = Dtype::bf16;
  const auto first = build("timm:net", options);
  ASSERT_TRUE(first) << to_string(first.error());
  EXPECT_EQ(first->sources, std::vector<std::string>{"timm:net"});
  EXPECT_EQ(first->batch, 4);
  options.batch = 8;
  const auto second = build("timm:net", options);
  ASSERT_TRUE(second) << to_string(second.error());
  EXPECT_EQ(second->batch, 8);
  EXPECT_EQ(python.calls(), "-m rooftile._build timm:net --mode=train --dtype=bf16 --batch=4\n");
}

TEST(BuiltModel, TheReasonIsThePackages) {
  const FakePython python("timm builds it where it is installed", 2);
  const auto refused = model_builder()("timm:net", {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "timm builds it where it is installed");
}

TEST(BuiltModel, NeedsThePackage) {
  const FakePython python("No module named rooftile", 1);
  const auto refused = model_builder()("timm:net", {});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("where its package rooftile is installed"));
}

TEST(BuiltModel, HasNoDecodeStep) {
  const FakePython python(kBuiltCapture, 0);
  ReadOptions options;
  options.mode = Mode::decode;
  EXPECT_FALSE(model_builder()("timm:net", options));
  EXPECT_EQ(python.calls(), "");
}

}  // namespace
}  // namespace rooftile
