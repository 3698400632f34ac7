// Names of NVTX ranges that PyTorch pushes for operators (torch.autograd.profiler.emit_nvtx, and
// Nsight Systems' own --pytorch option): "aten::addmm, seq = 5, op_id = 9, sizes = [[8], [4, 2]]".
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace rooftile {

struct NvtxName {
  std::string_view name;  // without what follows it
  bool is_operator = false;
  std::optional<std::int64_t> sequence;
  std::string_view sizes;  // "[[8], [4, 2]]", empty where not recorded
};

// Any text; one that does not follow PyTorch's form is a name as a whole.
NvtxName parse_nvtx_name(std::string_view text);

// Empty where the text is not a list of lists of whole numbers.
std::optional<std::vector<std::vector<std::int64_t>>> parse_nvtx_sizes(std::string_view sizes);

}  // namespace rooftile
