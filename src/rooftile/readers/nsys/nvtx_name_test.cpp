#include "rooftile/readers/nsys/nvtx_name.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace rooftile {
namespace {

struct NameCase {
  std::string text, name;
  bool is_operator;
  std::optional<std::int64_t> sequence;
  std::string sizes;
};

// The forms that getNvtxStr() of PyTorch's torch/csrc/profiler/util.cpp writes.
TEST(NvtxName, FollowsPyTorch) {
  const std::vector<NameCase> cases{
      {"aten::addmm, seq = 5, sizes = [[8], [4, 2], [2, 8], [], []]", "aten::addmm", true, 5,
       "[[8], [4, 2], [2, 8], [], []]"},
      {"aten::addmm, seq = 5, op_id = 12, sizes = [[8]], input_op_ids = [[3,0], []]", "aten::addmm",
       true, 5, "[[8]]"},
      {"AddmmBackward0, seq = 5, op_id = 12", "AddmmBackward0", true, 5, ""},
      {"aten::empty, op_id = 3, sizes = [[]]", "aten::empty", true, std::nullopt, "[[]]"},
      {"aten::relu", "aten::relu", true, std::nullopt, ""},
      {"autograd::engine::evaluate_function: MmBackward0, op_id = 2",
       "autograd::engine::evaluate_function: MmBackward0", true, std::nullopt, ""},
      {"Optimizer.step#SGD.step, op_id = 7", "Optimizer.step#SGD.step", false, std::nullopt, ""},
      {"forward", "forward", false, std::nullopt, ""},
      {"GpuLower::lower", "GpuLower::lower", false, std::nullopt, ""},
      {"loss, seq = many", "loss, seq = many", false, std::nullopt, ""},
      {"x, sizes = [[1]", "x, sizes = [[1]", false, std::nullopt, ""},
      {"x, seq = 1, sizes = [[1]] more", "x, seq = 1, sizes = [[1]] more", false, std::nullopt, ""},
      {"", "", false, std::nullopt, ""}};
  for (const NameCase& one : cases) {
    const NvtxName parsed = parse_nvtx_name(one.text);
    EXPECT_EQ(parsed.name, one.name) << one.text;
    EXPECT_EQ(parsed.is_operator, one.is_operator) << one.text;
    EXPECT_EQ(parsed.sequence, one.sequence) << one.text;
    EXPECT_EQ(parsed.sizes, one.sizes) << one.text;
  }
}

TEST(NvtxName, ReadsSizes) {
  using Lists = std::vector<std::vector<std::int64_t>>;
  EXPECT_EQ(parse_nvtx_sizes("[[8], [4, 2], []]"), (Lists{{8}, {4, 2}, {}}));
  EXPECT_EQ(parse_nvtx_sizes("[]"), Lists{});
  EXPECT_EQ(parse_nvtx_sizes("[[-1]]"), (Lists{{-1}}));
  for (const char* bad :
       {"", "[", "[[1, 2]", "[[1], [x]]", "[[[1]]]", "[[1]]]", "[[99999999999999999999]]"}) {
    EXPECT_FALSE(parse_nvtx_sizes(bad)) << bad;
  }
}

}  // namespace
}  // namespace rooftile
