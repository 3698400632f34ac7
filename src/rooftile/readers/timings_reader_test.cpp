#include "rooftile/readers/timings_reader.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "rooftile/workload/workload_text.h"

namespace rooftile {
namespace {

// The operations, each with its line and time, or the error.
std::string read(std::string_view text) {
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

TEST(Timings, ColumnsSpellOneOperationEach) {
  EXPECT_EQ(read("gpu,dtype,m,n,k,time_us\nmine,bf16,64,128,256,12.5\n"),
            "t.csv:2 gemm row2 bf16 m=64 n=128 k=256 12.5 us\n");
  EXPECT_EQ(read("Kind, Name ,DTYPE,rows,cols,fn,time_ms\r\nnorm,a b,fp16,8,16,layer,2\r\n"
                 "softmax,,fp32,8,16,,0.5\n"),
            "t.csv:2 norm a%20b fp16 fn=layer rows=8 cols=16 2000 us\n"
            "t.csv:3 softmax row3 fp32 rows=8 cols=16 500 us\n");
}

TEST(Timings, CommentsAndEmptyLinesCountAsLines) {
  EXPECT_EQ(read("# a\n\nm,n,k,time_s\n \n#b\n1,2,3,1\n"),
            "t.csv:6 gemm row6 bf16 m=1 n=2 k=3 1e+06 us\n");
}

TEST(Timings, AColumnHoldsTheWholeOperation) {
  EXPECT_EQ(read("op,time_ns,kernel\ngemm a bf16 m=1 n=2 k=3,4000,\"x, \"\"y\"\"\"\n"
                 "gemm bf16 m=1 n=2 k=3,1500,\n"),
            "t.csv:2 gemm a bf16 m=1 n=2 k=3 4 us\nt.csv:3 gemm row3 bf16 m=1 n=2 k=3 1.5 us\n");
}

TEST(Timings, ErrorsNameTheLine) {
  EXPECT_EQ(read("m,n,k\n1,2,3\n"),
            "t.csv, line 1: found no column time_us, time_ms or time_s, expected one");
  EXPECT_EQ(read("m,n,k,time_us\n\n1,2,3\n"), "t.csv, line 3: found 3 columns, expected 4");
  EXPECT_EQ(read("m,n,k,time_us\n1,2,3,0\n"),
            "t.csv, line 2: time_us: expected a time above 0, found '0'");
  EXPECT_EQ(read("m,n,k,time_s\n1,2,3,1000001\n"),
            "t.csv, line 2: time_s: expected a time above 0, found '1000001'");
  EXPECT_EQ(read("m,n,k,time_s\n1,2,3,1e6\n"), "t.csv:2 gemm row2 bf16 m=1 n=2 k=3 1e+12 us\n");
  EXPECT_EQ(read("m,n,k,time_us\n# none\n"), "t.csv: holds no measured operation");
}

}  // namespace
}  // namespace rooftile
