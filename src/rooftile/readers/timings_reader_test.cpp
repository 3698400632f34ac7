#include "rooftile/readers/timings_reader.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

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

// The operations, each with its line and time, or the error.
std::string listed(std::string_view text) {
  const Result<Workload> workload = parse_timings(text, "t.csv");
  if (!workload) return to_string(workload.error());
  std::string all;
  for (const Op& op : workload->ops) {
    const std::string words = to_text(op);
    all += fmt::format("{}:{} {} {:.4g} us\n", op.source.file, op.source.line,
                       words.substr(0, words.find(" file=")), op.measured->value() * 1e6);
  }
  return all;
}

TEST(TimingsText, ColumnsSpellOneOperationEach) {
  EXPECT_EQ(listed("gpu,dtype,m,n,k,time_us\nmine,bf16,64,128,256,12.5\n"),
            "t.csv:2 gemm row2 bf16 m=64 n=128 k=256 12.5 us\n");
  EXPECT_EQ(listed("Kind, Name ,DTYPE,rows,cols,fn,time_ms\r\nnorm,a b,fp16,8,16,layer,2\r\n"
                   "softmax,,fp32,8,16,,0.5\n"),
            "t.csv:2 norm a%20b fp16 fn=layer rows=8 cols=16 2000 us\n"
            "t.csv:3 softmax row3 fp32 rows=8 cols=16 500 us\n");
}

TEST(TimingsText, CommentsAndEmptyLinesCountAsLines) {
  EXPECT_EQ(listed("# a\n\nm,n,k,time_s\n \n#b\n1,2,3,1\n"),
            "t.csv:6 gemm row6 bf16 m=1 n=2 k=3 1e+06 us\n");
}

TEST(TimingsText, AColumnHoldsTheWholeOperation) {
  EXPECT_EQ(listed("op,time_ns,kernel\ngemm a bf16 m=1 n=2 k=3,4000,\"x, \"\"y\"\"\"\n"
                   "gemm bf16 m=1 n=2 k=3,1500,\n"),
            "t.csv:2 gemm a bf16 m=1 n=2 k=3 4 us\nt.csv:3 gemm row3 bf16 m=1 n=2 k=3 1.5 us\n");
}

// RFC 4180: in quotes a doubled quote stands for one.
TEST(TimingsText, NamesMayHoldQuotesAndCommas) {
  EXPECT_EQ(listed("m,n,k,time_us,name\n1,2,3,4,\"say \"\"hi\"\", twice\"\n1,2,3,4,\"\"\n"
                   "1,2,3,4,\"a\"\"\"\n1,2,3,4,\"\"\"b\"\n1,2,3,4,\"c\""),
            "t.csv:2 gemm say%20\"hi\"%2C%20twice bf16 m=1 n=2 k=3 4 us\n"
            "t.csv:3 gemm row3 bf16 m=1 n=2 k=3 4 us\n"
            "t.csv:4 gemm a\" bf16 m=1 n=2 k=3 4 us\n"
            "t.csv:5 gemm \"b bf16 m=1 n=2 k=3 4 us\n"
            "t.csv:6 gemm c bf16 m=1 n=2 k=3 4 us\n");
}

TEST(TimingsText, ErrorsNameTheLine) {
  EXPECT_EQ(listed("m,n,k\n1,2,3\n"),
            "t.csv, line 1: found no column time_us, time_ms or time_s, expected one");
  EXPECT_EQ(listed("m,n,k,time_us\n\n1,2,3\n"), "t.csv, line 3: found 3 columns, expected 4");
  EXPECT_EQ(listed("m,n,k,time_us\n1,2,3,0\n"),
            "t.csv, line 2: time_us: expected a time above 0, found '0'");
  EXPECT_EQ(listed("m,n,k,time_s\n1,2,3,1000001\n"),
            "t.csv, line 2: time_s: expected a time above 0, found '1000001'");
  EXPECT_EQ(listed("m,n,k,time_s\n1,2,3,1e6\n"), "t.csv:2 gemm row2 bf16 m=1 n=2 k=3 1e+12 us\n");
  EXPECT_EQ(listed("m,n,k,time_us\n# none\n"), "t.csv: holds no measured operation");
}

}  // namespace
}  // namespace rooftile
