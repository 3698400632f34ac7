// Which operators the kernels belong to, added up by operator, shape and place.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "rooftile/analysis/trace/busy.h"
#include "rooftile/analysis/trace/links.h"
#include "rooftile/analysis/trace/python_sites.h"
#include "rooftile/workload/trace_summary.h"

namespace rooftile::trace {

// The operator in whose row a kernel is listed, of those around its launch: the innermost whose
// arguments tell a neutral operation. That is aten::addmm rather than aten::linear, because it is
// the product that runs: its operands are transposed and reshaped already. Where none does, the
// outermost operator with a namespace: aten::to says more than the aten::copy_ inside. Ranges and
// autograd's nodes are no operators, but a node is better than nothing.
class Owners {
 public:
  Owners(const Timeline& timeline, const Links& links);

  // kNone where `op` and all around it are ranges.
  std::uint32_t of(std::uint32_t op);
  // What an operator computes by its own name and arguments; several for the backward of a
  // convolution, none where they do not tell.
  const std::vector<Op>& neutral(std::uint32_t op);

 private:
  std::uint32_t find(std::uint32_t op);

  const Timeline& timeline_;
  const Links& links_;
  std::vector<std::uint32_t> owners_;  // by op, plus 1; 0 = not looked up
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<Op>> neutral_;  // name, arguments
};

struct OpTable {
  std::vector<OpUse> ops;
  std::vector<KernelUse> orphans;
  Seconds kernel_time, kernel_time_in_steps, unclassified_time;
  std::int64_t kernels = 0;
};

// Every kernel of the recording, once. Rows beyond a limit are added up in one called "other".
OpTable tabulate_ops(const Timeline& timeline, const Links& links, const KernelNames& names,
                     PythonSites& sites, const Window& steps);

// Operators of a recording without a GPU, by their time on the host: the outermost whose arguments
// tell an operation. Their times say nothing about a GPU, so the operations are not measured.
std::vector<OpUse> tabulate_host_ops(const Timeline& timeline, const Links& links,
                                     PythonSites& sites);

}  // namespace rooftile::trace
