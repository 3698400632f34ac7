#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "rooftile/readers/reader.h"
#include "rooftile/workload/workload_text.h"

namespace rooftile {
namespace {

using testing::HasSubstr;

Result<Workload> read_text(const std::string& text) {
  const std::string path = testing::TempDir() + "timings_test.csv";
  std::ofstream(path) << text;
  Result<Input> input = read_input(path, {});
  std::filesystem::remove(path);
  return std::move(input).map([](Input read) { return std::move(read.workload); });
}

struct Case {
  const char* name;
  const char* text;
  const char* op;  // dims of the first operation
  double seconds;
};

class Timings : public testing::TestWithParam<Case> {};

TEST_P(Timings, OfOneOperation) {
  const auto workload = read_text(GetParam().text);
  ASSERT_TRUE(workload) << to_string(workload.error());
  ASSERT_EQ(workload->ops.size(), 1U);
  const Op& op = workload->ops.front();
  EXPECT_EQ(dims_text(op.body), GetParam().op);
  EXPECT_DOUBLE_EQ(op.measured->value(), GetParam().seconds);
}

INSTANTIATE_TEST_SUITE_P(
    All, Timings,
    testing::Values(Case{"columns", "gpu,kernel,m,n,k,time_us\nmine,\"sm80, a\",64,128,256,12.5\n",
                         "m=64 n=128 k=256", 12.5e-6},
                    Case{"empty_cells", "kind,dtype,m,n,k,batch,time_ms\ngemm,fp16,1,2,3,,2\n",
                         "m=1 n=2 k=3", 2e-3},
                    Case{"kind", "kind,dtype,rows,cols,time_s\r\nsoftmax,fp32,8,16,0.5\r\n",
                         "rows=8 cols=16", 0.5},
                    Case{"op", "# a comment\nop,time_us,anything\ngemm bf16 m=1 n=2 k=3,4,x\n",
                         "m=1 n=2 k=3", 4e-6},
                    Case{"named_op", "op,time_us\ngemm mine bf16 m=1 n=2 k=3 layout=nn,4\n",
                         "m=1 n=2 k=3 layout=nn", 4e-6},
                    Case{"quoted_op", "time_ns,op\n7,\"conv fp16 n=1 c=2 k=3 in=4x4 kernel=1x1\"\n",
                         "n=1 c=2 k=3 in=4x4 kernel=1x1", 7e-9}),
    [](const auto& each) { return each.param.name; });

TEST(TimingsErrors, NameTheLineAndTheFault) {
  const std::pair<const char*, const char*> cases[] = {
      {"m,n,k,time_us\n1,2,3\n", "line 2: found 3 columns, expected 4"},
      {"m,n,k,time_us\n1,2,3,-4\n", "expected a time above 0, found '-4'"},
      {"m,n,k,time_us\n1,2,3,0\n", "expected a time above 0, found '0'"},
      {"m,n,k,time_us\n1,2,3,soon\n", "expected a time above 0"},
      {"m,n,k,time_us\n1,2,3,nan\n", "expected a time above 0"},
      {"m,n,k,width,time_us\n1,2,3,4,5\n", "width"},
      {"m,n,k,time_us\n0,2,3,4\n", "line 2"},
      {"m,n,k,time_us\n", "holds no measured operation"},
  };
  for (const auto& [text, expected] : cases) {
    const auto workload = read_text(text);
    ASSERT_FALSE(workload) << text;
    EXPECT_THAT(to_string(workload.error()), HasSubstr(expected)) << text;
  }
}

TEST(TimingsErrors, OtherTablesAreNotTimings) {
  EXPECT_FALSE(read_text("name,age\nx,3\n"));
  EXPECT_FALSE(read_text("a,time_us\nx,3\n"));
}

}  // namespace
}  // namespace rooftile
