#include "rooftile/analysis/trace/predict.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "rooftile/analysis/trace/windows.h"

namespace rooftile::trace {
namespace {

// A replay of the unchanged recording that misses its span by more has not understood it.
constexpr double kLargestError = 0.1;
constexpr double kProbedTime = 0.9;
// A batch that worker processes have ready still takes a moment to hand over: 0.1 to 1.4 ms in
// recordings with workers.
constexpr Nanoseconds kHandover = 1'000'000;
constexpr std::size_t kSteadySteps = 3;

double seconds_in(Nanoseconds time) { return static_cast<double>(time) * 1e-9; }

class Predictor {
 public:
  Predictor(Replay& replay, const Timeline& timeline, const Links& links,
            const std::vector<HostWait>& waits, const StepMarks& marks, const Window& steps,
            Nanoseconds late, const TimeBreakdown& time)
      : timeline_(timeline),
        links_(links),
        waits_(waits),
        steps_(steps),
        late_(late),
        time_(time),
        step_count_(std::max<std::size_t>(1, marks.steps.size())),
        replay_(replay),
        unchanged_(replay_.run({})) {}

  Predictions predict();

 private:
  // Seconds that a change saves: in the window, and of each step.
  struct Saved {
    double all = 0, step = 0;
  };
  Saved saved(const Change& change) {
    const ReplayTimes times = replay_.run(change);
    const double all = std::max(0.0, seconds_in(unchanged_.all - times.all));
    const double first = seconds_in(unchanged_.first_step - times.first_step);
    const auto steps = static_cast<double>(step_count_);
    if (step_count_ < kSteadySteps) return {all, all / steps};
    return {all, std::max(0.0, (all - first) / (steps - 1))};
  }
  double idle(IdleCause cause) const {
    const auto found = time_.idle_by_cause.find(cause);
    return found == time_.idle_by_cause.end() ? 0 : found->second.value();
  }
  bool is_of_unrecorded_wait(double share) const;
  std::vector<Window> waits_of(IdleCause cause) const;
  std::vector<Window> all_waits() const;
  std::vector<Window> loader_waits() const;
  std::vector<Window> launch_calls() const;
  std::vector<Window> work_in_operators() const;
  double total(IdleCause cause) const;
  void add(Remedy remedy, double low, const Saved& expected, double high);
  void add_waits(Remedy remedy, IdleCause cause, const Change& change);
  void add_launches();
  void add_optimizer();
  std::optional<double> share_saved_of(GpuClass kind);

  const Timeline& timeline_;
  const Links& links_;
  const std::vector<HostWait>& waits_;
  Window steps_;
  Nanoseconds late_;
  const TimeBreakdown& time_;
  std::size_t step_count_;
  Replay& replay_;
  ReplayTimes unchanged_;
  Predictions predictions_;
};

// Where the GPU's work shortens the window by little, the host limits, and that leaves the GPU
// idle. A host that does not waits for what the recording lacks, as an engine does for results that
// another process reads. share: of the GPU's time saved, the part that shortens the window.
bool Predictor::is_of_unrecorded_wait(double share) const {
  constexpr double kLittle = 0.5;
  constexpr double kHardly = 0.03;  // of the window
  const double own = idle(IdleCause::between_kernels) + idle(IdleCause::unrecorded_work) +
                     idle(IdleCause::migration) + idle(IdleCause::outside);
  return share < kLittle && time_.idle.value() - own < kHardly * time_.span.value();
}

std::vector<Window> Predictor::waits_of(IdleCause cause) const {
  std::vector<Window> windows;
  for (const HostWait& wait : waits_) {
    if (wait.cause == cause && steps_.contains(wait.start)) {
      windows.push_back({wait.start, std::min(wait.end, steps_.end)});
    }
  }
  return windows;
}

std::vector<Window> Predictor::all_waits() const {
  std::vector<Window> windows;
  for (const HostWait& wait : waits_) windows.push_back({wait.start, wait.end});
  return windows;
}

double Predictor::total(IdleCause cause) const {
  double sum = 0;
  for (const Window& window : waits_of(cause)) sum += seconds_in(window.span());
  return sum;
}

std::vector<Window> Predictor::launch_calls() const {
  std::vector<Window> windows;
  for (std::uint32_t call = 0; call < timeline_.calls.time.size(); ++call) {
    const CallKind kind = links_.kind_of_call(timeline_, call);
    if (kind != CallKind::launch && kind != CallKind::graph_launch) continue;
    if (!links_.launches[timeline_.calls.thread[call]]) continue;
    const Nanoseconds start = timeline_.calls.time.start(call);
    if (steps_.contains(start)) {
      windows.push_back({start, std::min(timeline_.calls.time.end(call), steps_.end)});
    }
  }
  return united(std::move(windows));
}

// Time of the launching threads in operators and calls, waits left out.
std::vector<Window> Predictor::work_in_operators() const {
  std::vector<Window> windows = launch_calls();
  const HostOps& ops = timeline_.ops;
  for (std::uint32_t op = 0; op < ops.time.size(); ++op) {
    const std::uint32_t parent = links_.op_parent[op];
    const bool is_inner = parent != kNone && ops.kind[parent] == HostKind::op;
    if (ops.kind[op] != HostKind::op || is_inner || !links_.launches[ops.thread[op]]) continue;
    const Window window{std::max(ops.time.start(op), steps_.start),
                        std::min(ops.time.end(op), steps_.end)};
    if (window.end > window.start) windows.push_back(window);
  }
  return without(united(std::move(windows)), all_waits());
}

void Predictor::add(Remedy remedy, double low, const Saved& expected, double high) {
  if (high <= 0) return;
  Prediction prediction;
  prediction.remedy = remedy;
  low = std::min(low, expected.all);
  high = std::max(high, expected.all);
  prediction.saved = {Seconds(low), Seconds(expected.all), Seconds(high)};
  const auto steps = static_cast<double>(step_count_);
  prediction.saved_per_step = {Seconds(std::min(low / steps, expected.step)),
                               Seconds(expected.step),
                               Seconds(std::max(high / steps, expected.step))};
  predictions_.remedies.push_back(prediction);
}

void Predictor::add_waits(Remedy remedy, IdleCause cause, const Change& change) {
  const double high = total(cause);
  const double after = cause == IdleCause::synchronization ? idle(IdleCause::restart) : 0;
  if (high > 0) add(remedy, idle(cause) + after, saved(change), high);
}

// Waits for the loader, all but the time to hand a batch over.
std::vector<Window> Predictor::loader_waits() const {
  std::vector<Window> windows = waits_of(IdleCause::data_loading);
  for (Window& window : windows) window.end = std::max(window.start, window.end - kHandover);
  return windows;
}

void Predictor::add_launches() {
  Change change;
  change.removed = launch_calls();
  if (change.removed.empty()) return;
  const double low = saved(change).all;
  const std::vector<Window> all = without({steps_}, all_waits());
  // Where no operator was recorded, nothing tells operators from what is between them.
  change.removed = has_operators(timeline_, links_) ? work_in_operators() : all;
  const Saved expected = saved(change);
  change.removed = all;
  add(Remedy::batched_launches, low, expected, saved(change).all);
}

// An optimizer over lists of tensors makes a few calls for hundreds.
void Predictor::add_optimizer() {
  constexpr Nanoseconds kLess = 10;  // times; assumed
  std::vector<Window> windows;
  for (std::uint32_t op = 0; op < timeline_.ops.time.size(); ++op) {
    if (links_.kind_of_op(timeline_, op) != RangeKind::optimizer_step) continue;
    const Nanoseconds start = timeline_.ops.time.start(op);
    const Nanoseconds kept = timeline_.ops.time.duration(op) / kLess;
    if (steps_.contains(start)) {
      windows.push_back({start, std::min(timeline_.ops.time.end(op) - kept, steps_.end)});
    }
  }
  Change change;
  change.removed = without(united(std::move(windows)), all_waits());
  if (change.removed.empty()) return;
  Saved expected = saved(change);
  // What the replay gains beyond that idle time may have another cause.
  const double most = idle(IdleCause::launch);
  expected.step *= expected.all > 0 ? std::min(1.0, most / expected.all) : 1;
  expected.all = std::min(expected.all, most);
  add(Remedy::fused_optimizer, 0, expected, most);
}

Predictions Predictor::predict() {
  const double recorded = time_.span.value();
  const double replayed = seconds_in(unchanged_.all - late_);
  predictions_.replayed_span = Seconds(replayed);
  if (std::abs(replayed - recorded) > kLargestError * recorded) {
    return std::move(predictions_);
  }
  Change change;
  change.removed = loader_waits();
  change.no_late_batches = true;
  add_waits(Remedy::ideal_loader, IdleCause::data_loading, change);
  change = {};
  change.removed = waits_of(IdleCause::allocator);
  add_waits(Remedy::no_allocation, IdleCause::allocator, change);
  change = {};
  change.no_synchronization = true;
  add_waits(Remedy::no_synchronization, IdleCause::synchronization, change);
  change = {};
  change.asynchronous_copies = true;
  add_waits(Remedy::asynchronous_copies, IdleCause::copy, change);
  add_launches();
  add_optimizer();
  change = {};
  change.no_communication = true;
  if (const double exposed = time_.exposed_communication.value(); exposed > 0) {
    const Saved hidden = saved(change);
    if (!is_of_unrecorded_wait(hidden.all / exposed)) {
      add(Remedy::hidden_communication, 0, hidden, exposed);
    }
  }
  predictions_.kernel_time_share = share_saved_of(GpuClass::compute);
  predictions_.copy_time_share = share_saved_of(GpuClass::copy);
  return std::move(predictions_);
}

// As without set-up, which hides what comes after it. While batches come late, what comes behind
// the last of them has none to wait for, as it would in a longer recording: it does not count.
std::optional<double> Predictor::share_saved_of(GpuClass kind) {
  const Nanoseconds end = replay_.last_late_batch();
  const double time = seconds_in(replay_.time_of(kind, {steps_.start, end}));
  if (time <= 0) return std::nullopt;
  const auto span = [&](const Change& change) {
    const ReplayTimes times = replay_.run(change);
    return end < steps_.end ? times.last_batch : times.all;
  };
  Change change;
  change.removed = united(waits_of(IdleCause::module_loading));
  const Nanoseconds steady = span(change);
  (kind == GpuClass::copy ? change.copy_time : change.kernel_time) = kProbedTime;
  const double saved = std::max(0.0, seconds_in(steady - span(change)));
  const double share = std::min(1.0, saved / (time * (1 - kProbedTime)));
  return is_of_unrecorded_wait(share) ? std::nullopt : std::optional(share);
}

}  // namespace

Predictions predict(Replay& replay, const Timeline& timeline, const Links& links,
                    const std::vector<HostWait>& waits, const StepMarks& marks, const Window& steps,
                    Nanoseconds late, const TimeBreakdown& time) {
  return Predictor(replay, timeline, links, waits, marks, steps, late, time).predict();
}

}  // namespace rooftile::trace
