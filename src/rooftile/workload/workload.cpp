#include "rooftile/workload/workload.h"

namespace rooftile {

bool is_missing_work(std::string_view skipped_name) {
  return skipped_name != "shape computation" && skipped_name != "constant folding";
}

double count_parameters(const Workload& workload) {
  if (workload.parameters) return static_cast<double>(*workload.parameters);
  double sum = 0;
  for (const Op& op : workload.ops) {
    if (op.phase == Phase::forward) sum += static_cast<double>(op.count) * count_parameters(op);
  }
  return sum;
}

}  // namespace rooftile
