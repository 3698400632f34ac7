#include "rooftile/analysis/trace/owners.h"

#include <algorithm>
#include <string_view>

#include "rooftile/aten/operator.h"

namespace rooftile::trace {
namespace {

std::uint32_t first_known(std::uint32_t a, std::uint32_t b) { return a != kNone ? a : b; }

bool is_node(RangeKind kind) { return kind == RangeKind::autograd || kind == RangeKind::other; }

// Operators that copy, convert, join or fill tensors and compute nothing, sorted.
constexpr std::string_view kDataMovers[] = {"_copy_from",
                                            "_to_copy",
                                            "cat",
                                            "clone",
                                            "constant_pad_nd",
                                            "contiguous",
                                            "copy_",
                                            "fill_",
                                            "flatten",
                                            "full",
                                            "pad",
                                            "repeat",
                                            "repeat_interleave",
                                            "reshape",
                                            "reshape_as",
                                            "stack",
                                            "tile",
                                            "to",
                                            "type_as",
                                            "zero_",
                                            "zeros",
                                            "zeros_like"};
static_assert(std::ranges::is_sorted(kDataMovers));

bool is_data_mover(std::string_view name) {
  constexpr std::string_view kPrefix = "aten::";
  return name.starts_with(kPrefix) &&
         std::ranges::binary_search(kDataMovers, name.substr(kPrefix.size()));
}

}  // namespace

Owners::Owners(const Timeline& timeline, const Links& links)
    : timeline_(timeline),
      links_(links),
      moves_data_(kinds_of<bool>(timeline.strings, timeline.ops.name, is_data_mover)),
      inside_(timeline.ops.time.size()),
      owners_(timeline.ops.time.size()) {
  for (std::size_t i = 0; i < timeline.gpu.time.size(); ++i) {
    if (timeline.gpu.kind[i] == GpuKind::kernel) mark_computation(links.gpu_op[i]);
  }
}

const std::vector<Op>& Owners::neutral(std::uint32_t op) {
  const HostOps& ops = timeline_.ops;
  const std::uint64_t key = (std::uint64_t{ops.name[op]} << 32U) | ops.arguments[op];
  const auto [at, is_new] = neutral_.try_emplace(key);
  if (is_new && ops.arguments[op] != 0) {
    at->second = aten_ops(timeline_.strings[ops.name[op]], timeline_.arguments[ops.arguments[op]]);
  }
  return at->second;
}

bool Owners::is_operation(std::uint32_t op) const {
  return timeline_.ops.kind[op] == HostKind::op &&
         links_.kind_of_op(timeline_, op) == RangeKind::operation;
}

// Notes in all around it what the innermost operator around a launch computes.
void Owners::mark_computation(std::uint32_t op) {
  for (; op != kNone; op = links_.op_parent[op]) {
    if (!is_operation(op)) continue;
    if (moves_data(op)) return;
    if (!neutral(op).empty()) break;
  }
  if (op == kNone) return;
  const std::uint8_t found =
      is_matrix_op(neutral(op).front()) ? computation | matrix_op : computation;
  for (op = links_.op_parent[op]; op != kNone; op = links_.op_parent[op]) {
    if ((inside_[op] & found) == found) return;
    inside_[op] |= found;
  }
}

// Whether what the operator computes is what another one inside it computes. The sums in the
// backward pass of attention are not the attention.
bool Owners::is_done_inside(std::uint32_t op) {
  const Inside own = is_matrix_op(neutral(op).front()) ? matrix_op : computation;
  return (inside_[op] & own) != 0;
}

std::uint32_t Owners::find(std::uint32_t op) {
  std::uint32_t outermost = kNone, unnamed = kNone;
  std::uint32_t mover = kNone;  // the outermost of those that do nothing but move data
  bool only_moves = true;       // all operators so far
  for (; op != kNone; op = links_.op_parent[op]) {
    if (timeline_.ops.kind[op] != HostKind::op) continue;
    if (!is_operation(op)) {
      if (unnamed == kNone && is_node(links_.kind_of_op(timeline_, op))) unnamed = op;
      continue;
    }
    const bool ends_moves = only_moves && mover != kNone && !moves_data(op);
    if (!neutral(op).empty()) {
      if (ends_moves) return mover;
      return outermost != kNone && is_done_inside(op) ? outermost : op;
    }
    if (ends_moves && inside_[op] != nothing) return mover;
    outermost = op;
    only_moves = only_moves && moves_data(op);
    mover = only_moves ? op : mover;
  }
  return first_known(outermost, unnamed);
}

std::uint32_t Owners::of(std::uint32_t op) {
  if (owners_[op] == 0) {
    const std::uint32_t owner = find(op);
    owners_[op] = owner == kNone ? kNone : owner + 1;
  }
  return owners_[op] == kNone ? kNone : owners_[op] - 1;
}

}  // namespace rooftile::trace
