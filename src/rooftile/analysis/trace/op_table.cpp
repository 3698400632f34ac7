#include "rooftile/analysis/trace/op_table.h"

#include <algorithm>
#include <array>
#include <optional>
#include <unordered_map>

#include "rooftile/analysis/trace/grouped_times.h"
#include "rooftile/analysis/trace/kernel_context.h"
#include "rooftile/analysis/trace/kernel_streams.h"
#include "rooftile/analysis/trace/owners.h"
#include "rooftile/analysis/trace/recomputed.h"
#include "rooftile/analysis/trace/seconds.h"
#include "rooftile/analysis/trace/stages.h"
#include "rooftile/aten/operator.h"
#include "rooftile/base/text.h"

namespace rooftile::trace {
namespace {

constexpr std::size_t kMostRows = 4096;
// Of names with their launches, and then again of names alone.
constexpr std::size_t kMostKernelsOfRow = 64;
constexpr std::size_t kMostOrphans = 1024;

// Nanoseconds add up exactly; seconds would not.
struct KernelSum {
  std::uint32_t activity = 0;  // one of them, for its name and launch
  bool has_launch = true;      // all were launched alike
  std::int64_t count = 0;
  Nanoseconds time = 0;
  std::uint32_t id = 0;                     // among those of all rows
  ServingStage stage = ServingStage::none;  // where no operator has it
};

// Kernels of an operator that is several operations, as the backward of a convolution is, are told
// apart by the direction in their names.
enum class Part : std::uint8_t { whole, dgrad, wgrad };

// What an operator that owns kernels needs.
struct OwnerFacts {
  std::uint32_t op = kNone;
  std::uint32_t forward = kNone;  // the operator whose gradient it computes
  bool backward = false, optimizer = false;
  bool is_several = false;
  ServingStage stage = ServingStage::none;
  SiteRef site;
  std::array<std::uint32_t, 3> calls{kNone, kNone, kNone};  // by part
};

// A run of an operator, or of a part of it.
struct OpCall {
  std::uint32_t row = kNone;  // in the table
  Nanoseconds kernels = 0;
};

struct OpSum {
  OwnerFacts owner;  // one of them
  Part part = Part::whole;
  std::int64_t count = 0;
  Nanoseconds host = 0, kernel = 0;
  std::vector<KernelSum> kernels;
};

// Name, arguments, phase with stage, module, frame, arguments of the forward operator.
using OpKey = std::array<std::uint32_t, 6>;

std::uint64_t mixed(std::uint64_t a, std::uint64_t b) {
  return (a ^ (b + 0x9e3779b97f4a7c15U + (a << 6U) + (a >> 2U))) * 0xff51afd7ed558ccdU;
}

struct HashWords {
  std::size_t operator()(const OpKey& key) const {
    std::uint64_t hash = 0;
    for (const std::uint32_t word : key) hash = mixed(hash, word);
    return hash;
  }
  std::size_t operator()(const std::array<std::uint32_t, 3>& key) const {
    return mixed(mixed(key[0], key[1]), key[2]);
  }
};

bool is_in_optimizer(const Timeline& timeline, const Links& links, std::uint32_t op) {
  for (; op != kNone; op = links.op_parent[op]) {
    if (links.kind_of_op(timeline, op) == RangeKind::optimizer_step) return true;
  }
  return false;
}

// Backward operators run on a thread without Python frames: they belong where their forward
// operator was called.
std::vector<OwnerFacts> facts_of_owners(const Timeline& timeline, const Links& links,
                                        PythonSites& sites, Owners& owners, const Stages& stages,
                                        const std::vector<std::uint32_t>& ops) {
  const ForwardOps forward_ops(timeline, links);
  std::vector<OwnerFacts> facts;
  std::vector<SiteQuery> queries;
  Recomputed recomputed(timeline, links);
  for (const std::uint32_t op : ops) recomputed.add(op);
  for (const std::uint32_t op : ops) {
    OwnerFacts owner;
    owner.op = op;
    const bool is_in_node = is_backward(timeline, links, op);
    owner.backward = is_in_node && !recomputed.has(op);
    owner.optimizer = is_in_optimizer(timeline, links, op);
    owner.is_several = owners.neutral(op).size() > 1;
    owner.stage = stages.of(op);
    const std::uint32_t forward = is_in_node ? forward_ops.of(op) : kNone;
    if (owner.backward) owner.forward = forward;
    const std::uint32_t placed = forward != kNone ? forward : op;
    queries.push_back({timeline.ops.thread[placed], timeline.ops.time.start(placed), placed});
    facts.push_back(owner);
  }
  const std::vector<SiteRef> found = sites.at(queries);
  for (std::size_t i = 0; i < facts.size(); ++i) facts[i].site = found[i];
  return facts;
}

class OpTabulator {
 public:
  OpTabulator(const Timeline& timeline, const Links& links, const KernelNames& names,
              PythonSites& sites, const Cover& first_calls, const std::vector<Nanoseconds>& beyond)
      : timeline_(timeline),
        links_(links),
        names_(names),
        sites_(sites),
        first_calls_(first_calls),
        beyond_(beyond),
        stages_(timeline, links),
        owners_(timeline, links) {}

  OpTable tabulate(const Window& window);

 private:
  void collect_owners();
  KernelClass class_of(std::uint32_t activity) const {
    return class_in_context(timeline_, links_, names_, activity);
  }
  // What it costs: without what something else held it up for.
  Nanoseconds own_time(std::uint32_t activity) const {
    const bool counts = beyond_.empty() || names_.class_of(activity) != GpuClass::compute;
    return timeline_.gpu.time.duration(activity) - (counts ? 0 : beyond_[activity]);
  }
  void add_kernel(std::uint32_t activity);
  std::uint32_t row_of(const OwnerFacts& owner, Part part);
  OpCall& call_of(OwnerFacts& owner, Part part);
  std::optional<Op> neutral_of(const OpSum& sum);
  KernelSum& kernel_of(std::uint32_t row, std::uint32_t activity, std::vector<KernelSum>& kernels,
                       std::size_t most);
  KernelSum& added(std::vector<KernelSum>& kernels, std::uint32_t activity, bool has_launch);
  KernelUse use_of(const KernelSum& sum, bool is_other) const;
  std::vector<KernelUse> uses_of(const std::vector<KernelSum>& sums, std::size_t most) const;
  OpUse use_of(const OpSum& sum);
  void take_samples();

  const Timeline& timeline_;
  const Links& links_;
  const KernelNames& names_;
  PythonSites& sites_;
  const Cover& first_calls_;
  const std::vector<Nanoseconds>& beyond_;  // by GPU activity; or empty
  Stages stages_;
  Owners owners_;
  std::vector<OwnerFacts> facts_;
  // By GPU activity: index into facts_, and once it is counted the id of its KernelSum.
  std::vector<std::uint32_t> fact_of_;
  std::vector<OpSum> rows_;
  std::vector<OpCall> calls_;
  std::uint32_t kernel_sums_ = 0;         // given an id
  std::vector<TimeSample> call_times_;    // by row
  std::vector<TimeSample> kernel_times_;  // by id
  std::vector<KernelSum> orphans_;
  std::unordered_map<OpKey, std::uint32_t, HashWords> row_ids_;
  std::unordered_map<std::array<std::uint32_t, 3>, std::uint32_t, HashWords> kernel_ids_;
};

void OpTabulator::collect_owners() {
  const GpuActivities& gpu = timeline_.gpu;
  fact_of_.assign(gpu.time.size(), kNone);
  std::vector<std::uint32_t> ops;
  std::unordered_map<std::uint32_t, std::uint32_t> index;
  for (std::size_t i = 0; i < gpu.time.size(); ++i) {
    if (gpu.kind[i] != GpuKind::kernel || links_.gpu_op[i] == kNone) continue;
    const std::uint32_t owner = owners_.of(links_.gpu_op[i]);
    if (owner == kNone) continue;
    const auto [at, is_new] = index.try_emplace(owner, static_cast<std::uint32_t>(ops.size()));
    if (is_new) ops.push_back(owner);
    fact_of_[i] = at->second;
  }
  calls_.reserve(ops.size());
  facts_ = facts_of_owners(timeline_, links_, sites_, owners_, stages_, ops);
}

std::uint32_t OpTabulator::row_of(const OwnerFacts& owner, Part part) {
  const HostOps& ops = timeline_.ops;
  const std::uint32_t phase = (owner.backward ? 1U : 0U) + (owner.optimizer ? 2U : 0U) +
                              (static_cast<std::uint32_t>(part) << 2U) +
                              (static_cast<std::uint32_t>(owner.stage) << 4U);
  const OpKey key{ops.name[owner.op],
                  ops.arguments[owner.op],
                  phase,
                  owner.site.module,
                  owner.site.frame,
                  owner.forward == kNone ? 0 : ops.arguments[owner.forward]};
  if (const auto known = row_ids_.find(key); known != row_ids_.end()) return known->second;
  if (rows_.size() > kMostRows) return static_cast<std::uint32_t>(kMostRows);
  const auto row = static_cast<std::uint32_t>(rows_.size());
  rows_.emplace_back();
  if (row == kMostRows) return row;
  row_ids_.emplace(key, row);
  rows_.back().owner = owner;
  rows_.back().part = part;
  return row;
}

OpCall& OpTabulator::call_of(OwnerFacts& owner, Part part) {
  std::uint32_t& call = owner.calls.at(static_cast<std::size_t>(part));
  if (call != kNone) return calls_[call];
  const bool is_first_part = std::all_of(owner.calls.begin(), owner.calls.end(),
                                         [](std::uint32_t other) { return other == kNone; });
  const std::uint32_t row = row_of(owner, part);
  ++rows_[row].count;
  if (is_first_part) {
    const EventTimes& time = timeline_.ops.time;
    rows_[row].host +=
        time.duration(owner.op) - first_calls_.within(time.start(owner.op), time.end(owner.op));
  }
  call = static_cast<std::uint32_t>(calls_.size());
  return calls_.emplace_back(OpCall{row, 0});
}

KernelSum& OpTabulator::added(std::vector<KernelSum>& kernels, std::uint32_t activity,
                              bool has_launch) {
  KernelSum sum;
  sum.activity = activity;
  sum.has_launch = has_launch;
  sum.id = kernel_sums_++;
  return kernels.emplace_back(sum);
}

// Up to `most` entries tell launches apart, as many more only names; the last holds the rest.
KernelSum& OpTabulator::kernel_of(std::uint32_t row, std::uint32_t activity,
                                  std::vector<KernelSum>& kernels, std::size_t most) {
  const bool has_launch = kernels.size() < most;
  std::array<std::uint32_t, 3> key{row, timeline_.gpu.name[activity],
                                   timeline_.gpu.details[activity]};
  if (const auto known = kernel_ids_.find(key); known != kernel_ids_.end()) {
    return kernels[known->second];
  }
  if (!has_launch) {
    key[2] = 0;  // not recorded
    const auto known = kernel_ids_.find(key);
    if (known != kernel_ids_.end()) return kernels[known->second];
  }
  if (kernels.size() < 2 * most) {
    kernel_ids_.emplace(key, static_cast<std::uint32_t>(kernels.size()));
    return added(kernels, activity, has_launch);
  }
  if (kernels.size() == 2 * most) return added(kernels, activity, false);
  return kernels.back();
}

void OpTabulator::add_kernel(std::uint32_t activity) {
  const Nanoseconds time = own_time(activity);
  KernelSum* kernel = nullptr;
  if (fact_of_[activity] != kNone) {
    OwnerFacts& owner = facts_[fact_of_[activity]];
    const KernelDirection direction = names_.facts(activity).direction;
    Part part = Part::whole;
    if (owner.is_several && direction == KernelDirection::dgrad) part = Part::dgrad;
    if (owner.is_several && direction == KernelDirection::wgrad) part = Part::wgrad;
    OpCall& call = call_of(owner, part);
    call.kernels += time;
    rows_[call.row].kernel += time;
    kernel = &kernel_of(call.row, activity, rows_[call.row].kernels, kMostKernelsOfRow);
  } else {
    // Rows end below these numbers.
    const ServingStage stage = stages_.of(links_.gpu_op[activity]);
    const std::uint32_t row = kNone - static_cast<std::uint32_t>(stage);
    kernel = &kernel_of(row, activity, orphans_, kMostOrphans);
    kernel->stage = stage;
  }
  ++kernel->count;
  kernel->time += time;
  fact_of_[activity] = kernel->id;
}

void OpTabulator::take_samples() {
  call_times_ = samples_by_group(
      rows_.size(), calls_.size(), [&](std::uint32_t call) { return calls_[call].row; },
      [&](std::uint32_t call) { return calls_[call].kernels; });
  kernel_times_ = samples_by_group(
      kernel_sums_, fact_of_.size(), [&](std::uint32_t row) { return fact_of_[row]; },
      [&](std::uint32_t row) { return own_time(row); });
}

KernelUse OpTabulator::use_of(const KernelSum& sum, bool is_other) const {
  KernelUse use;
  use.count = sum.count;
  use.time = to_seconds(sum.time);
  use.times = kernel_times_[sum.id];
  if (is_other) {
    use.name = kOtherKernels;
    return use;
  }
  use.stage = sum.stage;
  use.name = timeline_.strings[timeline_.gpu.name[sum.activity]];
  use.facts = names_.facts(sum.activity);
  use.facts.kernel_class = class_of(sum.activity);
  if (sum.has_launch) use.launch = timeline_.launches[timeline_.gpu.details[sum.activity]];
  return use;
}

std::vector<KernelUse> OpTabulator::uses_of(const std::vector<KernelSum>& sums,
                                            std::size_t most) const {
  std::vector<KernelUse> uses;
  for (std::size_t i = 0; i < sums.size(); ++i) uses.push_back(use_of(sums[i], i == 2 * most));
  std::stable_sort(uses.begin(), uses.end(),
                   [](const KernelUse& a, const KernelUse& b) { return a.time > b.time; });
  return uses;
}

// A product in the backward pass is a gradient: of the layer it belongs to where that can be told.
std::optional<Op> OpTabulator::neutral_of(const OpSum& sum) {
  const std::vector<Op>& ops = owners_.neutral(sum.owner.op);
  if (sum.owner.is_several) {
    const Phase phase = sum.part == Part::wgrad ? Phase::wgrad : Phase::dgrad;
    const auto found =
        std::find_if(ops.begin(), ops.end(), [&](const Op& op) { return op.phase == phase; });
    if (sum.part == Part::whole || found == ops.end()) return std::nullopt;
    return *found;
  }
  if (ops.empty()) return std::nullopt;
  if (!sum.owner.backward || !std::holds_alternative<Gemm>(ops.front().body)) return ops.front();
  const std::vector<Op> none;
  const std::vector<Op>& forward =
      sum.owner.forward == kNone ? none : owners_.neutral(sum.owner.forward);
  const bool has_strides =
      !timeline_.arguments[timeline_.ops.arguments[sum.owner.op]].strides.empty();
  return as_gradient(ops.front(), forward.size() == 1 ? forward.data() : nullptr, has_strides);
}

OpUse OpTabulator::use_of(const OpSum& sum) {
  OpUse use;
  use.count = sum.count;
  use.host_time = to_seconds(sum.host);
  use.kernel_time = to_seconds(sum.kernel);
  use.times = call_times_[static_cast<std::size_t>(&sum - rows_.data())];
  use.kernels = uses_of(sum.kernels, kMostKernelsOfRow);
  const OwnerFacts& owner = sum.owner;
  if (owner.op == kNone) {
    use.name = kOtherKernels;
    return use;
  }
  use.name = timeline_.strings[timeline_.ops.name[owner.op]];
  use.arguments = timeline_.arguments[timeline_.ops.arguments[owner.op]];
  use.site = {use.name, sites_.module_path(owner.site), sites_.source(owner.site)};
  use.phase = owner.optimizer ? Phase::optimizer : owner.backward ? Phase::dgrad : Phase::forward;
  use.stage = owner.stage;
  use.op = with_kernel(neutral_of(sum), use);
  if (use.op) {
    if (owner.backward && use.op->phase != Phase::forward) use.phase = use.op->phase;
    use.op->count = sum.count;
    use.op->source = use.site.source;
    use.op->source.module = use.site.module;
    use.op->measured = spread_of(use.times, use.count).median;
  }
  return use;
}

OpTable OpTabulator::tabulate(const Window& window) {
  const GpuActivities& gpu = timeline_.gpu;
  collect_owners();
  OpTable table;
  Nanoseconds total = 0, in_steps = 0, unclassified = 0, leftover = 0;
  for (std::uint32_t i = 0; i < gpu.time.size(); ++i) {
    if (gpu.kind[i] != GpuKind::kernel) continue;
    const Nanoseconds time = gpu.time.duration(i);
    ++table.kernels;
    total += time;
    if (class_of(i) == KernelClass::unknown) unclassified += time;
    if (links_.leftover[i]) {
      ++table.leftover;
      leftover += time;
    }
    if (links_.leftover[i] || !window.contains(gpu.time.start(i))) {
      fact_of_[i] = kNone;
      continue;
    }
    add_kernel(i);
    in_steps += time;
  }
  table.kernel_time = to_seconds(total);
  table.kernel_time_in_steps = to_seconds(in_steps);
  table.unclassified_time = to_seconds(unclassified);
  take_samples();
  table.leftover_time = to_seconds(leftover);
  for (const OpSum& row : rows_) table.ops.push_back(use_of(row));
  std::stable_sort(table.ops.begin(), table.ops.end(),
                   [](const OpUse& a, const OpUse& b) { return a.kernel_time > b.kernel_time; });
  table.orphans = uses_of(orphans_, kMostOrphans);
  return table;
}

}  // namespace

OpTable tabulate_ops(const Timeline& timeline, const Links& links, const KernelNames& names,
                     PythonSites& sites, const Window& window, const Cover& first_calls,
                     const std::vector<Nanoseconds>& beyond) {
  return OpTabulator(timeline, links, names, sites, first_calls, beyond).tabulate(window);
}

}  // namespace rooftile::trace
