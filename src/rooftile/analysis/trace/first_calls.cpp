#include "rooftile/analysis/trace/first_calls.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "rooftile/analysis/kernel_name.h"
#include "rooftile/analysis/trace/windows.h"
#include "rooftile/base/text.h"

namespace rooftile::trace {
namespace {

// Shorter ones say nothing: the host is held up that long now and then.
constexpr Nanoseconds kShortestSetUp = 100'000;
// Compilers take tens of milliseconds and more for a kernel.
constexpr Nanoseconds kShortestCompilation = 10'000'000;

bool is_of_library(std::string_view kernel) { return !parse_kernel_name(kernel).library.empty(); }

bool is_of_cudnn(std::string_view name) {
  return contains(name, "cudnn_") || contains(name, "miopen_");
}

// On the host these only ask a library, cuDNN or cuBLAS, which keeps its answer for each shape.
bool chooses_algorithms(std::string_view name) {
  constexpr std::array<std::string_view, 6> kProducts{
      "aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::_int_mm", "aten::_scaled_mm"};
  return is_of_cudnn(name) || std::ranges::find(kProducts, name) != kProducts.end();
}

// Whether a compiler makes the kernel when it is first needed: Triton, TorchScript's fuser
// ("fused_…"), nvFuser.
bool is_compiled_at_run_time(std::string_view kernel) {
  return kernel.starts_with("triton_") || kernel.starts_with("fused_") ||
         contains(kernel, "nvfuser") || contains(kernel, "CudaCodeGen");
}

// The value that one of `part` is at or below; 0 of none.
Nanoseconds nth_part(std::vector<Nanoseconds> values, std::size_t part) {
  if (values.empty()) return 0;
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(values.size() / part);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

bool is_far_longer(Nanoseconds length, Nanoseconds usual) {
  return length >= kShortestSetUp && length >= kFarLonger * usual;
}

}  // namespace

FirstCalls::FirstCalls(const Timeline& timeline, const Links& links)
    : timeline_(timeline), links_(links), has_operators_(trace::has_operators(timeline, links)) {
  std::map<std::uint32_t, std::uint32_t> first;  // launch call by the kernel's name
  for (std::uint32_t row = 0; row < timeline.gpu.time.size(); ++row) {
    const std::uint32_t call = links.gpu_call[row];
    if (call == kNone) continue;
    const auto [at, is_new] = first.try_emplace(timeline.gpu.name[row], call);
    if (is_new || start_of(call) < start_of(at->second)) at->second = call;
  }
  for (std::uint32_t row = 0; row < timeline.gpu.time.size(); ++row) {
    if (links.leftover[row]) first.erase(timeline.gpu.name[row]);  // it ran before
  }
  for (const auto& [name, call] : first) {
    calls_.emplace_back(start_of(call), call);
    kernels_.emplace(call, name);
  }
  std::sort(calls_.begin(), calls_.end());
  first.clear();
  for (std::uint32_t call = 0; call < timeline.calls.time.size(); ++call) {
    if (is_launch(links.kind_of_call(timeline, call))) {
      launches_.emplace_back(start_of(call), call);
    }
    const auto [at, is_new] = first.try_emplace(timeline.calls.name[call], call);
    if (is_new || start_of(call) < start_of(at->second)) at->second = call;
  }
  for (const auto& [name, call] : first) of_name_.push_back(call);
  std::sort(of_name_.begin(), of_name_.end());
  std::sort(launches_.begin(), launches_.end());
  of_thread_.resize(timeline.threads.size());
  kernels_of_thread_.resize(timeline.threads.size());
  for (const auto& launch : launches_) {
    const std::uint16_t thread = timeline.calls.thread[launch.second];
    of_thread_[thread].push_back(launch);
    if (links.kind_of_call(timeline, launch.second) == CallKind::launch) {
      kernels_of_thread_[thread].push_back(launch);
    }
  }
}

bool FirstCalls::is_first_call(std::uint32_t call) const {
  if (links_.kind_of_call(timeline_, call) == CallKind::load) return true;
  // To ask about a kernel loads it, as cudaOccupancyMaxActiveBlocksPerMultiprocessor does.
  const std::string_view name = timeline_.strings[timeline_.calls.name[call]];
  if (contains(name, "Occupancy") || contains(name, "Func")) return true;
  return std::ranges::binary_search(of_name_, call) ||
         std::ranges::binary_search(calls_, std::pair(start_of(call), call));
}

// Whether the host takes about as long before other launches of the kernel as before this one,
// its first: that is no set-up.
bool FirstCalls::recurs(std::uint32_t first, Nanoseconds length) const {
  const auto kernel = kernels_.find(first);
  if (kernel == kernels_.end()) return false;
  std::vector<Nanoseconds> before;
  std::uint32_t last = kNone;
  for (std::uint32_t row = 0; row < timeline_.gpu.time.size(); ++row) {
    const std::uint32_t call = links_.gpu_call[row];
    const bool is_other = timeline_.gpu.name[row] == kernel->second && call != first;
    if (!is_other || call == kNone || call == last) continue;
    before.push_back(time_before(call));
    last = call;
  }
  if (before.empty()) return false;
  return 4 * nth_part(std::move(before), 2) >= 3 * length;
}

std::uint32_t FirstCalls::next_first_kernel(Nanoseconds at, std::uint16_t thread,
                                            Nanoseconds length) const {
  const auto& launches = kernels_of_thread_[thread];
  const auto launch = std::ranges::lower_bound(launches, std::pair(at, 0U));
  if (launch == launches.end()) return 0;
  const auto kernel = kernels_.find(launch->second);
  if (kernel == kernels_.end()) return 0;
  const std::string_view name = timeline_.strings[kernel->second];
  const bool is_compiled = is_compiled_at_run_time(name) && launch->first == at;
  if (!is_cold() && !(is_compiled && length >= kShortestCompilation)) return 0;
  if (recurs(launch->second, length)) return 0;
  return is_compiled || (!has_operators_ && is_of_library(name)) ? kernel->second : 0;
}

bool FirstCalls::is_one(std::uint32_t op, Nanoseconds start, Nanoseconds end) {
  if (op == kNone || links_.kind_of_op(timeline_, op) != RangeKind::operation) return false;
  if (timeline_.ops.time.end(op) < end) return false;
  if (chooses_algorithms(timeline_.strings[timeline_.ops.name[op]]) && is_first_of_shape(op)) {
    return true;
  }
  const auto call = std::lower_bound(calls_.begin(), calls_.end(), std::pair(end, 0U));
  if (call == calls_.end() || call->first != end) return false;
  if (timeline_.calls.thread[call->second] != timeline_.ops.thread[op]) return false;
  const Nanoseconds usual_time = usual(timeline_.ops.name[op]);
  if (usual_time == 0) {
    // What a copy does before is work of its own, as a conversion is, unless later ones are
    // short; and an operator that has launched before is past its set-up.
    const CallKind kind = links_.kind_of_call(timeline_, call->second);
    if (kind != CallKind::launch || timeline_.ops.time.start(op) < start) return false;
  }
  return timeline_.ops.time.duration(op) >= kFarLonger * usual_time &&
         !recurs(call->second, end - start);
}

bool FirstCalls::sets_library_up(std::uint32_t op) {
  if (op == kNone) return false;
  const std::string_view name = timeline_.strings[timeline_.ops.name[op]];
  if (is_of_cudnn(name)) return is_first_of_shape(op);
  if (!chooses_algorithms(name)) return false;
  for (std::uint32_t row = 0; row < timeline_.ops.time.size(); ++row) {
    const bool is_earlier = timeline_.ops.time.start(row) < timeline_.ops.time.start(op);
    if (timeline_.ops.name[row] == timeline_.ops.name[op] && is_earlier) return false;
  }
  return true;
}

// Since the launch before, on the same thread, or the start of the operator around; 0 without
// one.
Nanoseconds FirstCalls::time_before(std::uint32_t launch) const {
  const auto& launches = of_thread_[timeline_.calls.thread[launch]];
  const auto next = std::ranges::lower_bound(launches, std::pair(start_of(launch), launch));
  if (next == launches.begin()) return 0;
  Nanoseconds from = timeline_.calls.time.end(std::prev(next)->second);
  for (std::uint32_t op = links_.call_op[launch]; op != kNone; op = links_.op_parent[op]) {
    const bool is_op = links_.kind_of_op(timeline_, op) == RangeKind::operation;
    const Nanoseconds start = timeline_.ops.time.start(op);
    if (is_op && start <= start_of(launch)) from = std::max(from, start);
  }
  return start_of(launch) - from;
}

// Milliseconds in a call that loads, or in a kernel's first launch: later ones take microseconds.
bool FirstCalls::is_cold() const {
  constexpr Nanoseconds kLong = 5'000'000;
  if (!is_cold_) {
    const RuntimeCalls& calls = timeline_.calls;
    is_cold_ = false;
    for (std::uint32_t call = 0; call < calls.time.size() && !*is_cold_; ++call) {
      const CallKind kind = links_.kind_of_call(timeline_, call);
      const bool is_first = kind == CallKind::launch && kernels_.contains(call);
      const bool loads = kind == CallKind::load || is_first;
      is_cold_ = kind == CallKind::start_up || (loads && calls.time.duration(call) >= kLong);
    }
  }
  return *is_cold_;
}

// Without recorded shapes only the first of a name is.
bool FirstCalls::is_first_of_shape(std::uint32_t op) {
  const HostOps& ops = timeline_.ops;
  if (first_of_shape_.empty()) {
    for (std::uint32_t row = 0; row < ops.time.size(); ++row) {
      const auto at = first_of_shape_.try_emplace({ops.name[row], ops.arguments[row]}, row).first;
      if (ops.time.start(row) < ops.time.start(at->second)) at->second = row;
    }
  }
  return first_of_shape_.at({ops.name[op], ops.arguments[op]}) == op;
}

// Median time of the operators of a name; 0 where too few tell.
Nanoseconds FirstCalls::usual(std::uint32_t name) {
  constexpr std::size_t kFewest = 3;
  const auto [known, is_new] = usual_.try_emplace(name, 0);
  if (!is_new) return known->second;
  std::vector<Nanoseconds> times;
  for (std::uint32_t op = 0; op < timeline_.ops.time.size(); ++op) {
    if (timeline_.ops.name[op] == name) times.push_back(timeline_.ops.time.duration(op));
  }
  if (times.size() < kFewest) return 0;
  return known->second = nth_part(std::move(times), 2);
}

bool FirstCalls::creates_context(std::uint32_t call) const {
  const RuntimeCalls& calls = timeline_.calls;
  const bool is_before = launches_.empty() || start_of(call) < launches_.front().first;
  if (!is_before || !std::ranges::binary_search(of_name_, call)) return false;
  std::vector<Nanoseconds> later;
  for (std::uint32_t other = 0; other < calls.time.size(); ++other) {
    if (other != call && calls.name[other] == calls.name[call]) {
      later.push_back(calls.time.duration(other));
    }
  }
  return !later.empty() && is_far_longer(calls.time.duration(call), nth_part(std::move(later), 2));
}

// Launches of kernels in their order, each with what its operator did since the launch before.
std::vector<FirstCalls::Launch> FirstCalls::kernel_launches(const Cover& held) const {
  std::vector<std::uint32_t> kernel_of(timeline_.calls.time.size());
  for (std::uint32_t row = 0; row < timeline_.gpu.time.size(); ++row) {
    const std::uint32_t call = links_.gpu_call[row];
    const bool is_kernel = call != kNone && timeline_.gpu.kind[row] == GpuKind::kernel;
    if (is_kernel) kernel_of[call] = timeline_.gpu.name[row];
  }
  std::vector<Launch> found;
  Nanoseconds reach = 0;  // the end of the launches before
  for (const auto& [called, call] : launches_) {
    const Nanoseconds returned = timeline_.calls.time.end(call);
    if (kernel_of[call] != 0 && links_.kind_of_call(timeline_, call) == CallKind::launch) {
      Nanoseconds from = called;
      for (std::uint32_t op = links_.call_op[call]; op != kNone; op = links_.op_parent[op]) {
        const RangeKind kind = links_.kind_of_op(timeline_, op);
        const bool is_op = kind == RangeKind::operation || kind == RangeKind::autograd;
        if (is_op) from = std::min(from, timeline_.ops.time.start(op));
      }
      if (!found.empty()) from = std::clamp(reach, from, called);
      found.push_back({call, kernel_of[call], from, called, returned,
                       called - from - held.within(from, called),
                       returned - called - held.within(called, returned), kernels_.contains(call)});
    }
    reach = found.empty() ? returned : std::max(reach, returned);
  }
  return found;
}

// What later launches take, of each kernel and of all.
class FirstCalls::UsualTimes {
 public:
  struct Times {
    Nanoseconds before = 0, in_call = 0;
  };

  UsualTimes(const FirstCalls& calls, const std::vector<Launch>& launches) {
    std::map<std::uint32_t, std::vector<Nanoseconds>> before, in_call, by_op;
    for (const Launch& launch : launches) {
      const std::uint32_t op = calls.links_.call_op[launch.call];
      if (op != kNone) by_op[calls.timeline_.ops.name[op]].push_back(launch.before);
      if (launch.is_first) continue;
      for (const std::uint32_t kernel : {launch.kernel, kAll}) {
        before[kernel].push_back(launch.before);
        in_call[kernel].push_back(launch.in_call);
      }
    }
    for (auto& [kernel, times] : before) {
      usual_[kernel] = {nth_part(std::move(times), 2), nth_part(std::move(in_call[kernel]), 2)};
    }
    for (auto& [name, times] : by_op) fastest_[name] = nth_part(std::move(times), 4);
  }
  // Empty of a kernel that runs once.
  std::optional<Times> of_kernel(std::uint32_t kernel) const {
    const auto found = usual_.find(kernel);
    return found == usual_.end() ? std::nullopt : std::optional(found->second);
  }
  Times of_all() const { return of_kernel(kAll).value_or(Times{}); }
  // Before a launch in operators of the name: a quarter takes less.
  Nanoseconds fastest(std::uint32_t name) const { return fastest_.at(name); }

 private:
  static constexpr std::uint32_t kAll = kNone;

  std::map<std::uint32_t, Times> usual_;  // by kernel
  std::map<std::uint32_t, Nanoseconds> fastest_;
};

// A library that chooses by shape takes its time for each, whatever kernel it chooses.
bool FirstCalls::is_of_new_shape(const Launch& launch, const UsualTimes& usual) {
  const std::uint32_t op = links_.call_op[launch.call];
  if (op == kNone || !is_cold()) return false;
  const std::uint32_t name = timeline_.ops.name[op];
  if (!chooses_algorithms(timeline_.strings[name])) return false;
  if (!timeline_.has_shapes) return is_far_longer(launch.before, usual.fastest(name));
  return is_far_longer(launch.before, usual.of_all().before) && is_first_of_shape(op);
}

std::vector<HostWait> FirstCalls::find(const Cover& held) {
  const std::vector<Launch> launches = kernel_launches(held);
  const UsualTimes usual(*this, launches);
  std::vector<HostWait> found;
  for (const Launch& launch : launches) {
    const auto later = usual.of_kernel(launch.kernel);
    const UsualTimes::Times others = later.value_or(usual.of_all());
    const bool may_be_one = launch.is_first && (later || is_cold());
    const std::uint32_t op = links_.call_op[launch.call];
    const HostWait one{launch.from,
                       launch.called,
                       IdleCause::module_loading,
                       timeline_.calls.thread[launch.call],
                       op == kNone,
                       op == kNone ? launch.call : op};
    if ((may_be_one && is_far_longer(launch.before, others.before)) ||
        is_of_new_shape(launch, usual)) {
      found.push_back(one);
    }
    if (may_be_one && is_far_longer(launch.in_call, others.in_call)) {
      found.push_back(one);
      found.back().start = launch.called;
      found.back().end = launch.returned;
    }
  }
  return found;
}

void add_first_calls(const Timeline& timeline, const Links& links, std::vector<HostWait>& waits) {
  const auto is_own_work = [](const HostWait& wait) {
    return wait.cause == IdleCause::host_work && !wait.is_call;
  };
  Cover others;  // loading that is recorded is a part of first calls
  for (const HostWait& wait : waits) {
    const bool may_be_one = wait.cause == IdleCause::module_loading || is_own_work(wait);
    if (!may_be_one) others.add(wait.start, wait.end);
  }
  const std::vector<HostWait> found = FirstCalls(timeline, links).find(others);
  if (found.empty()) return;
  std::vector<Window> first_calls, held;
  for (const HostWait& one : found) first_calls.push_back({one.start, one.end});
  first_calls = united(std::move(first_calls));
  for (const HostWait& wait : waits) {
    if (!is_own_work(wait)) held.push_back({wait.start, wait.end});
  }
  held = united(std::move(held));
  std::vector<HostWait> all;
  const auto add = [&](HostWait wait, const std::vector<Window>& holes) {
    const auto first = std::ranges::upper_bound(holes, wait.start, {}, &Window::end);
    const auto last = std::ranges::lower_bound(first, holes.end(), wait.end, {}, &Window::start);
    for (const Window& part : without({{wait.start, wait.end}}, {first, last})) {
      wait.start = part.start;
      wait.end = part.end;
      all.push_back(wait);
    }
  };
  for (const HostWait& wait : waits) {
    if (is_own_work(wait)) {
      add(wait, first_calls);
    } else {
      all.push_back(wait);
    }
  }
  for (const HostWait& one : found) add(one, held);
  waits = std::move(all);
}

}  // namespace rooftile::trace
