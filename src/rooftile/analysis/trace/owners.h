// The operator in whose row a kernel is listed.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "rooftile/analysis/trace/links.h"
#include "rooftile/workload/op.h"

namespace rooftile::trace {

// Of the operators around a kernel's launch the innermost whose arguments tell a neutral operation.
// That is aten::addmm rather than aten::linear, because it is the GEMM that runs: its operands are
// transposed and reshaped already. Where none does, the outermost operator with a namespace:
// aten::to says more than the aten::copy_ inside. Ranges and autograd's nodes are no operators, but
// a node is better than nothing.
//
// An operator that consists of others owns only what it does itself: not the copies of an
// aten::reshape inside it, and nothing of another operator inside it where its own operation is
// that of a third one inside, as aten::matmul's is that of aten::bmm.
class Owners {
 public:
  Owners(const Timeline& timeline, const Links& links);

  // kNone where `op` and all around it are ranges.
  std::uint32_t of(std::uint32_t op);
  // What an operator computes by its own name and arguments; several for the backward of a
  // convolution, none where they do not tell.
  const std::vector<Op>& neutral(std::uint32_t op);

 private:
  // What operators inside another one compute, beyond moving data.
  enum Inside : std::uint8_t { nothing = 0, computation = 1, matrix_op = 2 };

  std::uint32_t find(std::uint32_t op);
  void mark_computation(std::uint32_t op);
  bool is_operation(std::uint32_t op) const;
  bool moves_data(std::uint32_t op) const { return moves_data_[timeline_.ops.name[op]]; }
  bool is_done_inside(std::uint32_t op);

  const Timeline& timeline_;
  const Links& links_;
  std::vector<bool> moves_data_;                                // by name
  std::vector<std::uint8_t> inside_;                            // by op
  std::vector<std::uint32_t> owners_;                           // by op, plus 1; 0 = not looked up
  std::unordered_map<std::uint64_t, std::vector<Op>> neutral_;  // by name and arguments
};

}  // namespace rooftile::trace
