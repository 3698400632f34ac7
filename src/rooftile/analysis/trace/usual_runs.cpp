#include "rooftile/analysis/trace/usual_runs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "rooftile/analysis/trace/collective_shape.h"
#include "rooftile/analysis/trace/collectives.h"
#include "rooftile/analysis/trace/seconds.h"
#include "rooftile/base/text.h"
#include "rooftile/hardware/device_file.h"

namespace rooftile::trace {
namespace {

using ActivityRows = std::vector<std::uint32_t>;

// A few runs may be faster by chance; of many the tenth part counts as the fastest.
constexpr double kFastest = 0.1;
constexpr double kFastestOfWaits = 0.02;  // where most of them are seen to wait
constexpr std::size_t kFew = 3;           // runs unlike the others are at most one in so many
// A kernel that something else holds up; clocks and caches make far less.
constexpr double kFarLongerRun = 5;
constexpr Nanoseconds kVisibleExcess = 50'000;

class UsualRuns {
 public:
  UsualRuns(const Timeline& timeline, const Links& links, const KernelNames& names,
            const GpuTrack& track, const StepMarks& marks)
      : timeline_(timeline),
        links_(links),
        names_(names),
        track_(track),
        marks_(marks),
        beyond_(timeline.gpu.time.size()) {}

  std::vector<Nanoseconds> find() {
    find_own_work();
    find_collectives();
    find_kernels();
    if (std::ranges::none_of(beyond_, [](Nanoseconds time) { return time > 0; })) return {};
    return std::move(beyond_);
  }

 private:
  Nanoseconds duration(std::uint32_t row) const { return timeline_.gpu.time.duration(row); }
  Nanoseconds quantile_of(const ActivityRows& rows, double part) const {
    std::vector<Nanoseconds> times;
    for (const std::uint32_t row : rows) times.push_back(duration(row));
    const auto at =
        times.begin() + static_cast<std::ptrdiff_t>(part * static_cast<double>(times.size() - 1));
    std::ranges::nth_element(times, at);
    return *at;
  }
  void set_beyond(const ActivityRows& rows, Nanoseconds usual) {
    for (const std::uint32_t row : rows) {
      beyond_[row] = std::max<Nanoseconds>(0, duration(row) - usual);
    }
  }
  std::vector<ActivityRows> by_place(const ActivityRows& rows) const;
  void find_own_work();
  bool are_shorter_after_more_work(const ActivityRows& rows) const;
  void find_collectives();
  void find_without_size(const ActivityRows& rows, std::string_view kernel);
  bool moves_more(std::uint32_t row, const ActivityRows& others) const;
  void set_beyond_of_few(const ActivityRows& rows, double times, Nanoseconds least);
  void find_kernels();
  void find_kernels_alike(const ActivityRows& rows);
  bool has_fixed_work(std::uint32_t row) const;
  bool knows_work(std::uint32_t row) const;

  const Timeline& timeline_;
  const Links& links_;
  const KernelNames& names_;
  const GpuTrack& track_;
  const StepMarks& marks_;
  std::vector<Nanoseconds> beyond_;  // by GPU activity
  std::unordered_map<std::uint32_t, Nanoseconds>
      worked_;  // before a collective, since the last one
  std::unordered_map<std::uint32_t, Nanoseconds>
      followed_;  // the longest kernel between a collective and the next one
};

void UsualRuns::find_own_work() {
  Nanoseconds sum = 0, longest = 0;
  std::uint32_t last = kNone;  // collective
  for (std::size_t i = 0; i < track_.rows.size(); ++i) {
    if (track_.classes[i] == GpuClass::compute) {
      sum += duration(track_.rows[i]);
      longest = std::max(longest, duration(track_.rows[i]));
    }
    if (track_.classes[i] != GpuClass::communication) continue;
    worked_[track_.rows[i]] = std::exchange(sum, 0);
    if (last != kNone) followed_[last] = longest;
    last = track_.rows[i];
    longest = 0;
  }
  if (last != kNone) followed_[last] = longest;
}

// Runs that take less time the more this rank did before them wait for the others.
bool UsualRuns::are_shorter_after_more_work(const ActivityRows& rows) const {
  constexpr double kClearly = -0.5;  // correlation
  const auto count = static_cast<double>(rows.size());
  double sum_x = 0, sum_y = 0, sum_xx = 0, sum_yy = 0, sum_xy = 0;
  for (const std::uint32_t row : rows) {
    const auto x = static_cast<double>(worked_.at(row)), y = static_cast<double>(duration(row));
    sum_x += x;
    sum_y += y;
    sum_xx += x * x;
    sum_yy += y * y;
    sum_xy += x * y;
  }
  const double spread = (count * sum_xx - sum_x * sum_x) * (count * sum_yy - sum_y * sum_y);
  return spread > 0 && count * sum_xy - sum_x * sum_y < kClearly * std::sqrt(spread);
}

// Runs at one place of every step, where each step has as many; else none.
std::vector<ActivityRows> UsualRuns::by_place(const ActivityRows& rows) const {
  constexpr std::size_t kFewestSteps = 3;
  if (marks_.steps.size() < kFewestSteps) return {};
  std::vector<ActivityRows> by_step(marks_.steps.size());
  for (const std::uint32_t row : rows) {
    const std::uint32_t call = links_.gpu_call[row];
    if (call == kNone) continue;
    const Nanoseconds called = timeline_.calls.time.start(call);
    const auto next = std::ranges::upper_bound(marks_.steps, called, {}, &Window::start);
    if (next == marks_.steps.begin() || !(next - 1)->contains(called)) continue;
    by_step[static_cast<std::size_t>(next - marks_.steps.begin()) - 1].push_back(row);
  }
  std::vector<ActivityRows> places(by_step.front().size());
  for (const ActivityRows& step : by_step) {
    if (step.size() != places.size()) return {};
    for (std::size_t place = 0; place < places.size(); ++place) {
      places[place].push_back(step[place]);
    }
  }
  return places;
}

// Whether two of these runs take the same time: they may do the same, and more than the others.
bool are_alike(std::vector<Nanoseconds> times) {
  constexpr double kSame = 1.2;
  std::ranges::sort(times);
  for (std::size_t i = 1; i < times.size(); ++i) {
    if (static_cast<double>(times[i]) < kSame * static_cast<double>(times[i - 1])) return true;
  }
  return false;
}

// Whether what works on a collective's data takes far longer than behind the others: it is larger.
bool UsualRuns::moves_more(std::uint32_t row, const ActivityRows& others) const {
  constexpr Nanoseconds kFarMore = 5;  // times
  std::vector<Nanoseconds> behind;
  for (const std::uint32_t other : others) behind.push_back(followed_.at(other));
  const Nanoseconds usual = median(std::move(behind));
  return usual > 0 && followed_.at(row) > kFarMore * usual;
}

// What a few runs take beyond the median, of those that take so many times as long.
void UsualRuns::set_beyond_of_few(const ActivityRows& rows, double times, Nanoseconds least) {
  const Nanoseconds usual = quantile_of(rows, 0.5);
  ActivityRows few;
  for (const std::uint32_t row : rows) {
    const bool is_long = static_cast<double>(duration(row)) > times * static_cast<double>(usual);
    if (is_long && duration(row) - usual >= least) few.push_back(row);
  }
  if (kFew * few.size() > rows.size() + 1) return;
  const bool is_collective = names_.class_of(rows.front()) == GpuClass::communication;
  if (is_collective) {
    std::erase_if(few, [&](std::uint32_t row) { return moves_more(row, rows); });
  }
  std::vector<Nanoseconds> lengths;
  for (const std::uint32_t row : few) lengths.push_back(duration(row));
  if (is_collective || !are_alike(std::move(lengths))) set_beyond(few, usual);
}

void UsualRuns::find_without_size(const ActivityRows& rows, std::string_view kernel) {
  const std::string name = lower(kernel);
  if (contains_any(name, {"notify", "barrier"})) {
    return set_beyond(rows, quantile_of(rows, 0));  // it moves nothing
  }
  const std::vector<ActivityRows> places = by_place(rows);
  for (const ActivityRows& place : places) set_beyond(place, quantile_of(place, 0));
  if (!places.empty() || rows.size() < kFew) return;
  constexpr Nanoseconds kLongWait = 10'000'000, kShortWait = 20'000;
  // Of an exchange of experts' tokens the layers send about as much, some in halves.
  constexpr std::size_t kMany = 20;
  if (rows.size() >= kMany && contains_any(name, {"dispatch", "combine"})) {
    const bool waits = are_shorter_after_more_work(rows);
    const Nanoseconds usual = quantile_of(rows, waits ? kFastestOfWaits : kFastest);
    ActivityRows late = rows;
    std::erase_if(late, [&](std::uint32_t row) { return duration(row) - usual < kShortWait; });
    return set_beyond(late, usual);
  }
  // NCCL's messages may be of any size, those of one exchange kernel are alike.
  const bool is_nccl = contains(name, "nccl");
  set_beyond_of_few(rows, is_nccl ? 10 : 2, is_nccl ? kLongWait : kShortWait);
}

constexpr double kSlowNetwork = 1;  // bytes per ns

// Where all ranks of the group sit in one machine whose GPUs NVLink joins: the slowest that a
// transfer there may be, in bytes per ns. Elsewhere that of a slow network.
double slowest_link(const Timeline& timeline, std::int64_t ranks) {
  constexpr double kPartOfLink = 0.1, kPerNanosecond = 1e-9;
  const auto in_machine = std::ssize(timeline.devices);
  const bool is_one_machine =
      ranks > 1 && ranks <= in_machine && timeline.world_size.value_or(ranks) <= in_machine;
  if (!is_one_machine) return kSlowNetwork;
  const auto device = find_device(timeline.devices.front().name);
  // Cards have NVLink only where a bridge joins two of them.
  if (!device || !device->nvlink_bandwidth || contains(device->id, "pcie")) return kSlowNetwork;
  return std::max(kSlowNetwork, kPartOfLink * device->nvlink_bandwidth->value() * kPerNanosecond);
}

// What a message takes at most; what takes longer waits.
Nanoseconds longest_transfer(double bytes, double link) {
  constexpr double kSlowestStart = 100'000, kWithNvlink = 40'000;  // ns
  const double start = link > kSlowNetwork ? kWithNvlink : kSlowestStart;
  return static_cast<Nanoseconds>(std::min(1e18, start + bytes / link));
}

void UsualRuns::find_collectives() {
  struct Runs {
    ActivityRows rows;
    double bytes = 0;
  };
  // By kind and group; runs of one shape.
  using Kind = std::tuple<std::optional<CollectiveKind>, std::string, std::int64_t>;
  std::map<Kind, std::map<CollectiveShape, Runs>> sized;
  std::map<std::pair<std::uint32_t, std::array<std::uint32_t, 3>>, ActivityRows> others;
  for (std::size_t i = 0; i < track_.rows.size(); ++i) {
    if (track_.classes[i] != GpuClass::communication) continue;
    const std::uint32_t row = track_.rows[i];
    CollectiveUse use;
    use.shape = collective_shape(timeline_, links_, row);
    use.kernel = timeline_.strings[timeline_.gpu.name[row]];
    const std::optional<Bytes> bytes = message_bytes(use);
    if (!bytes) {
      const LaunchShape& launch = timeline_.launches[timeline_.gpu.details[row]];
      others[{timeline_.gpu.name[row], launch.grid}].push_back(row);
      continue;
    }
    Runs& runs = sized[{kind_of(use), use.shape.group, use.shape.group_size}][use.shape];
    runs.rows.push_back(row);
    runs.bytes = bytes->value();
  }
  for (auto& [kind, shapes] : sized) {
    std::map<double, Nanoseconds, std::greater<>> fastest;  // by bytes: of those with as many
    for (auto& [shape, runs] : shapes) {
      const Nanoseconds usual = quantile_of(runs.rows, kFastest);
      const auto [at, is_new] = fastest.try_emplace(runs.bytes, usual);
      at->second = std::min(at->second, usual);
    }
    const double link = slowest_link(timeline_, std::get<2>(kind));
    Nanoseconds of_larger = std::numeric_limits<Nanoseconds>::max();
    for (auto& [bytes, usual] : fastest) of_larger = usual = std::min(usual, of_larger);
    for (const auto& [shape, runs] : shapes) {
      set_beyond(runs.rows, std::min(fastest.at(runs.bytes), longest_transfer(runs.bytes, link)));
    }
  }
  for (const auto& [key, rows] : others) {
    find_without_size(rows, timeline_.strings[key.first]);
  }
}

// Whether the launch says how much a kernel does: threads for so many elements, which lie one
// behind the other.
bool UsualRuns::has_fixed_work(std::uint32_t row) const {
  return contains(timeline_.strings[timeline_.gpu.name[row]], "vectorized_elementwise_kernel");
}

// Whether the arguments of the operator say as much: sizes, and how tensors lie in memory.
bool UsualRuns::knows_work(std::uint32_t row) const {
  const std::uint32_t op = links_.gpu_op[row];
  if (op == kNone || !timeline_.has_shapes) return false;
  if (!timeline_.strings[timeline_.ops.name[op]].starts_with("aten::")) return false;
  const OpArguments& arguments = timeline_.arguments[timeline_.ops.arguments[op]];
  const KernelClass kernel_class = names_.facts(row).kernel_class;
  const bool is_matrix =
      kernel_class == KernelClass::gemm || kernel_class == KernelClass::convolution;
  return !arguments.dims.empty() && (is_matrix || !arguments.strides.empty());
}

bool depends_on_data(KernelClass kernel_class) {
  switch (kernel_class) {
    case KernelClass::gemm:
    case KernelClass::convolution:
    case KernelClass::normalization:
    case KernelClass::softmax:
    case KernelClass::elementwise:
    case KernelClass::reduction:
    case KernelClass::layout_conversion:
    case KernelClass::cast:
    case KernelClass::copy:
    case KernelClass::fill:
    case KernelClass::optimizer:
    case KernelClass::pooling:
    case KernelClass::random:
      return false;
    default:
      return true;
  }
}

void UsualRuns::find_kernels_alike(const ActivityRows& rows) {
  constexpr std::size_t kFewest = 3;
  if (rows.size() < kFewest) return;
  if (has_fixed_work(rows.front()) || knows_work(rows.front())) {
    return set_beyond_of_few(rows, kFarLongerRun, kVisibleExcess);
  }
  for (const ActivityRows& place : by_place(rows)) {
    set_beyond_of_few(place, kFarLongerRun, kVisibleExcess);
  }
}

void UsualRuns::find_kernels() {
  // By name, launch and arguments of the operator.
  std::map<std::array<std::uint32_t, 3>, ActivityRows> alike;
  for (std::size_t i = 0; i < track_.rows.size(); ++i) {
    const std::uint32_t row = track_.rows[i];
    if (track_.classes[i] != GpuClass::compute) continue;
    if (depends_on_data(names_.facts(row).kernel_class)) continue;
    const std::uint32_t op = links_.gpu_op[row];
    const std::uint32_t arguments = op == kNone ? 0 : timeline_.ops.arguments[op];
    alike[{timeline_.gpu.name[row], timeline_.gpu.details[row], arguments}].push_back(row);
  }
  for (const auto& [key, rows] : alike) {
    const std::string_view name = timeline_.strings[key[0]];
    if (contains_any(lower(name), {"group", "moe", "expert"})) continue;  // counts are data
    find_kernels_alike(rows);
  }
}

}  // namespace

std::vector<Nanoseconds> times_beyond_usual(const Timeline& timeline, const Links& links,
                                            const KernelNames& names, const GpuTrack& track,
                                            const StepMarks& marks) {
  return UsualRuns(timeline, links, names, track, marks).find();
}

StretchedRuns stretched_runs(const Timeline& timeline, const GpuTrack& track,
                             const std::vector<Nanoseconds>& beyond) {
  StretchedRuns runs;
  if (beyond.empty()) return runs;
  Nanoseconds most = 0;
  for (std::size_t i = 0; i < track.rows.size(); ++i) {
    const std::uint32_t row = track.rows[i];
    if (track.classes[i] != GpuClass::compute || beyond[row] == 0) continue;
    ++runs.count;
    if (beyond[row] <= most) continue;
    most = beyond[row];
    runs.kernel = timeline.strings[timeline.gpu.name[row]];
    runs.longest = to_seconds(timeline.gpu.time.duration(row));
    runs.usual = to_seconds(timeline.gpu.time.duration(row) - most);
  }
  return runs;
}

}  // namespace rooftile::trace
