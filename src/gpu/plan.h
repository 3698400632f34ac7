// What to measure, in which order. docs/measure.md lists the plans.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "gpu/bench.h"
#include "rooftile/workload/workload.h"

namespace rooftile::gpu {

struct PlanItem {
  Op op;  // named after its group
  Rotation rotation;

  const std::string& group() const { return op.name; }
};

using Plan = std::vector<PlanItem>;

// Operand sets of the measurements that the built-in constants of products were fitted to.
inline constexpr int kCalibrationSets = 6;
inline constexpr std::size_t kQuickPoints = 20, kFullPoints = 200;

// The first `points` products of data/plans/gemm_shapes.txt in the GPU's usual precision, and
// memory-bound operations; from 50 points on products in fp32 too. Interleaved, so that a run that
// is cut short has seen all of them.
Plan calibration_plan(std::size_t points, const Device& device);

struct Sweep {
  std::string_view name, what;  // one line
};
std::vector<Sweep> sweeps();
// An error names the nearest sweeps for an unknown one.
Result<Plan> sweep_plan(std::string_view name, const Device& device);

// "gemm products bf16 m=1 n=2 k=3": the text form without provenance and values; names the point.
std::string operation_text(const Op& op);

// The operation alone, without its place in a workload, with cold operands.
PlanItem workload_item(const Op& op);
// Every different operation of the workload once.
Plan workload_plan(const Workload& workload);

}  // namespace rooftile::gpu
