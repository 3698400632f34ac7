#include "rooftile/workload/workload.h"

#include <algorithm>
#include <utility>

#include "rooftile/workload/trace_summary.h"

namespace rooftile {

TraceList::TraceList(std::vector<TraceSummary> traces)
    : traces_(std::make_shared<const std::vector<TraceSummary>>(std::move(traces))) {}

const TraceSummary* TraceList::begin() const { return traces_ ? traces_->data() : nullptr; }
const TraceSummary* TraceList::end() const { return begin() + size(); }
std::size_t TraceList::size() const { return traces_ ? traces_->size() : 0; }

void TraceList::append(const TraceList& more) {
  std::vector<TraceSummary> all(begin(), end());
  all.insert(all.end(), more.begin(), more.end());
  *this = TraceList(std::move(all));
}

bool TraceList::operator==(const TraceList& other) const {
  return std::equal(begin(), end(), other.begin(), other.end());
}

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
