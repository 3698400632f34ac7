#include "rooftile/pipeline/recorded.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>
#include <tuple>
#include <utility>

#include "rooftile/analysis/trace/neighbours.h"
#include "rooftile/aten/operator.h"
#include "rooftile/base/text.h"
#include "rooftile/hardware/mig.h"
#include "rooftile/rooftile.h"
#include "rooftile/workload/source_facts.h"
#include "rooftile/workload/trace_names.h"
#include "rooftile/workload/trace_summary.h"

namespace rooftile {

std::vector<KindShare> sorted_shares(const std::map<std::string, KindShare>& by_kind) {
  std::vector<KindShare> shares;
  for (const auto& [kind, share] : by_kind) shares.emplace_back(share).kind = kind;
  std::stable_sort(shares.begin(), shares.end(),
                   [](const KindShare& a, const KindShare& b) { return a.time > b.time; });
  return shares;
}

namespace {

std::string kind_of(const KernelUse& kernel) {
  if (kernel.name == kOtherKernels) return "further small kernels";
  if (kernel.name == kWholeGraph) return "CUDA graphs, kernels not recorded";
  if (kernel.facts.kernel_class == KernelClass::unknown) return "the program's own kernels";
  if (kernel.facts.kernel_class == KernelClass::sort) return "sort, scan, select";
  if (kernel.facts.kernel_class == KernelClass::pooling) return "pooling, upsampling";
  return std::string(name_of(kernel.facts.kernel_class));
}

}  // namespace

std::vector<KindShare> kernel_shares(const TraceSummary& trace) {
  std::map<std::string, KindShare> by_class;
  const double passes = table_steps(trace);
  const Seconds pass = pass_time(trace);
  const auto add = [&](const KernelUse& kernel) {
    KindShare& share = by_class[kind_of(kernel)];
    share.runs += static_cast<double>(kernel.count) / passes;
    share.time += kernel.time / passes;
    if (pass.value() > 0) share.share += kernel.time / passes / pass;
  };
  for (const OpUse& use : trace.ops) std::for_each(use.kernels.begin(), use.kernels.end(), add);
  std::for_each(trace.orphans.begin(), trace.orphans.end(), add);
  return sorted_shares(by_class);
}

void describe_recording(const Workload& workload, Report& report) {
  const TraceSummary& trace = workload.traces.front();
  report.device.name = trace.device              ? trace.device->name
                       : is_of_host_alone(trace) ? "a CPU"
                                                 : "a GPU that is not named";
  const Seconds pass = pass_time(trace);
  report.total = {pass, pass, pass};
  for (const Op& op : workload.ops) {
    report.coverage.ops += static_cast<double>(op.count);
  }
  report.kinds = kernel_shares(trace);
  report.coverage.ops_with_time = report.coverage.ops;
}

namespace {

// How far a known device is from a recorded one, in SMs and then in memory; empty where they are of
// different generations, or one is a tenth larger.
std::optional<std::pair<int, double>> distance(const Device& known, const TraceDevice& recorded) {
  constexpr int kNear = 10;  // a tenth
  if (known.compute_capability != 10 * recorded.major + recorded.minor) return std::nullopt;
  const int sms = std::abs(known.sms - recorded.sm_count);
  if (kNear * sms > recorded.sm_count) return std::nullopt;
  return std::pair(sms,
                   std::abs(known.dram_size.value() - static_cast<double>(recorded.memory_bytes)));
}

// Names of boards say where they are PCIe cards.
bool differs_in_board(const Device& known, const TraceDevice& recorded) {
  const auto is_card = [](std::string_view name) { return contains(lower(name), "pci"); };
  return is_card(known.name) != is_card(recorded.name);
}

// Words on the listed GPU of the same generation that has nearly as many SMs; none where none has.
std::string most_alike(const TraceDevice& recorded) {
  constexpr double kFar = 0.25;  // of the recorded one's SMs
  std::optional<Device> best;
  const auto apart = [&](const Device& known) { return std::abs(known.sms - recorded.sm_count); };
  for (const Device& known : built_in_devices()) {
    if (known.compute_capability != 10 * recorded.major + recorded.minor) continue;
    if (apart(known) > kFar * recorded.sm_count) continue;
    if (!best || apart(known) < apart(*best)) best = known;
  }
  if (!best) return "";
  return fmt::format("; of its generation, {} has {} SMs for its {}", best->id, best->sms,
                     recorded.sm_count);
}

Result<Device> nearest_device(const TraceDevice& recorded) {
  std::optional<Device> best;
  const auto rank = [&](const Device& known, const std::pair<int, double>& apart) {
    return std::pair(apart, differs_in_board(known, recorded));
  };
  for (const Device& known : built_in_devices()) {
    const auto apart = distance(known, recorded);
    if (!apart) continue;
    const bool is_nearer = !best || rank(known, *apart) < rank(*best, *distance(*best, recorded));
    if (is_nearer) best = known;
  }
  if (best) return *best;
  return fail(
      fmt::format("{} is not among the GPUs that `rooftile gpus` lists: name the nearest "
                  "with --gpu for advice that needs its rates{}",
                  rooftile::quoted(recorded.name), most_alike(recorded)));
}

// One name stands for several chips, as "Orin" does: the listed one may have other SMs.
Device named_device(Device known, const TraceDevice& recorded) {
  constexpr double kNear = 0.1;
  const int sms = recorded.sm_count;
  if (sms <= 0 || std::abs(known.sms - sms) <= kNear * sms) return known;
  if (auto other = nearest_device(recorded)) return *std::move(other);
  Device part = with_sms(known, sms);
  if (recorded.memory_bytes > 0) part.dram_size = Bytes(static_cast<double>(recorded.memory_bytes));
  return part;
}

}  // namespace

Result<Device> recorded_device(const Workload& workload) {
  if (workload.traces.empty()) return fail("found no recording");
  const TraceSummary& trace = workload.traces.front();
  if (trace.is_foreign) {
    return fail("recorded on another maker's GPU: its kernels are not judged");
  }
  if (!trace.device) return fail("the recording does not name its GPU: add --gpu for advice");
  if (auto device = find_device(trace.device->name)) {
    return named_device(*std::move(device), *trace.device);
  }
  return nearest_device(*trace.device);
}

namespace {

std::string tile_text(const KernelFacts& facts) {
  if (facts.tile_m <= 0 || facts.tile_n <= 0) return "";
  std::string text = fmt::format("{}x{}", facts.tile_m, facts.tile_n);
  if (facts.tile_k > 0) text += fmt::format("x{}", facts.tile_k);
  return text;
}

// Kernels of one name are one, however they were launched.
std::vector<RecordedKernel> merged_kernels(std::vector<RecordedKernel> kernels) {
  std::map<std::string, std::vector<const RecordedKernel*>> by_name;
  for (const RecordedKernel& kernel : kernels) by_name[kernel.name].push_back(&kernel);
  std::vector<RecordedKernel> merged_list;
  for (const auto& [name, parts] : by_name) {
    const RecordedKernel& most =
        **std::ranges::max_element(parts, {}, [](const auto* part) { return part->total; });
    RecordedKernel whole{name, most.kind, most.op, 0, {}, {}};
    std::vector<CountedSample> samples;
    for (const RecordedKernel* part : parts) {
      whole.count += part->count;
      whole.total += part->total;
      samples.push_back({&part->times, part->count});
    }
    whole.times = merged(samples);
    merged_list.push_back(std::move(whole));
  }
  std::ranges::stable_sort(merged_list, std::greater{}, &RecordedKernel::total);
  return merged_list;
}

RecordedKernel recorded_kernel(const KernelUse& kernel, const std::string& op) {
  return {kernel.name, kernel.facts.kernel_class, op, kernel.count, kernel.time, kernel.times};
}

void add_main_kernel(const KernelUse& main, const Device& device, RecordedRun& run) {
  run.kernel = main.name;
  run.tile = tile_text(main.facts);
  run.tensor_core = main.facts.tensor_core;
  double blocks = 1;
  for (const std::uint32_t size : main.launch.grid) blocks *= size;
  if (blocks > 0) run.blocks_per_sm = blocks / device.sms;
}

RecordedRun run_of(const OpUse& use, const Device& device) {
  RecordedRun run;
  run.calls = use.count;
  run.total = use.kernel_time;
  run.times = use.times;
  run.stage = use.stage;
  double kernels = 0;
  for (const KernelUse& kernel : use.kernels) {
    kernels += static_cast<double>(kernel.count);
    run.all_kernels.push_back(recorded_kernel(kernel, use.name));
  }
  run.kernels = kernels / static_cast<double>(std::max<std::int64_t>(use.count, 1));
  if (!use.kernels.empty()) add_main_kernel(use.kernels.front(), device, run);
  return run;
}

RecordedRun run_of(const KernelUse& kernel, const Device& device) {
  RecordedRun run;
  run.calls = kernel.count;
  run.total = kernel.time;
  run.times = kernel.times;
  run.stage = kernel.stage;
  run.kernels = 1;
  run.all_kernels = {recorded_kernel(kernel, "")};
  add_main_kernel(kernel, device, run);
  return run;
}

}  // namespace

std::vector<RecordedKernel> recorded_kernels(const Workload& workload) {
  std::vector<RecordedKernel> kernels;
  if (workload.traces.empty()) return kernels;
  const TraceSummary& trace = workload.traces.front();
  for (const OpUse& use : trace.ops) {
    for (const KernelUse& kernel : use.kernels) {
      kernels.push_back(recorded_kernel(kernel, use.name));
    }
  }
  for (const KernelUse& kernel : trace.orphans) kernels.push_back(recorded_kernel(kernel, ""));
  return merged_kernels(std::move(kernels));
}

std::optional<RecordedRun> recorded_run(const Workload& workload, std::size_t op,
                                        const Device& device) {
  if (!workload.ops[op].measured || workload.traces.empty()) return std::nullopt;
  const TraceSummary& trace = workload.traces.front();
  if (op < trace.ops.size()) return run_of(trace.ops[op], device);
  const std::size_t orphan = op - trace.ops.size();
  if (orphan >= trace.orphans.size()) return std::nullopt;
  return run_of(trace.orphans[orphan], device);
}

namespace {

// "32x3x224x224,64x3x7x7": the first tensors; empty where none was recorded.
std::string shapes_text(const OpArguments& arguments) {
  constexpr std::size_t kMostShapes = 3;
  std::vector<std::string> shapes;
  for (const std::vector<std::int64_t>& dims : arguments.dims) {
    if (dims.empty()) continue;
    if (shapes.size() == kMostShapes) return join(shapes, ",") + ",…";
    shapes.push_back(fmt::format("{}", fmt::join(dims, "x")));
  }
  return join(shapes, ",");
}

}  // namespace

void show_arguments(const Workload& workload, std::size_t op, OpRow& row) {
  if (workload.traces.empty() || op >= workload.traces.front().ops.size()) return;
  const OpUse& use = workload.traces.front().ops[op];
  if (use.op) return;
  const std::string shapes = shapes_text(use.arguments);
  if (!shapes.empty()) row.dims += " shapes=" + shapes;
  if (const auto dtype = dtype_of_arguments(use.arguments)) row.dtype = to_string(*dtype);
}

namespace {

// The first run takes the others in.
void merge_runs(const std::vector<const RecordedRun*>& others, RecordedRun& first) {
  if (!others.empty()) {
    std::vector<CountedSample> samples{{&first.times, first.calls}};
    double kernels = first.kernels * static_cast<double>(first.calls);
    for (const RecordedRun* run : others) {
      samples.push_back({&run->times, run->calls});
      kernels += run->kernels * static_cast<double>(run->calls);
      first.all_kernels.insert(first.all_kernels.end(), run->all_kernels.begin(),
                               run->all_kernels.end());
    }
    TimeSample times = merged(samples);
    for (const RecordedRun* run : others) {
      first.calls += run->calls;
      first.total += run->total;
    }
    first.times = std::move(times);
    first.kernels = kernels / static_cast<double>(std::max<std::int64_t>(1, first.calls));
  }
  first.all_kernels = merged_kernels(std::move(first.all_kernels));
}

// The mean over all runs: places of one shape may run other kernels.
void merge_predictions(const OpRow& row, OpRow& whole) {
  const double runs = static_cast<double>(whole.count), more = static_cast<double>(row.count);
  const auto mean = [&](auto a, auto b) { return (a * runs + b * more) * (1 / (runs + more)); };
  if (whole.time && row.time) whole.time = mean(*whole.time, *row.time);
  for (const auto part : {&RecordedRun::modelled, &RecordedRun::attainable}) {
    std::optional<Seconds>& time = (*whole.recorded).*part;
    if (const auto& other = (*row.recorded).*part; time && other) time = mean(*time, *other);
  }
}

}  // namespace

std::vector<OpRow> merged_rows(std::vector<OpRow> rows) {
  using Key = std::tuple<std::string, std::string, std::string, std::string, ServingStage>;
  std::map<Key, std::vector<std::size_t>> same;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const OpRow& row = rows[i];
    if (row.recorded) {
      same[{row.name, row.dtype, row.phase, row.dims, row.recorded->stage}].push_back(i);
    }
  }
  std::vector<OpRow> all;
  for (const auto& [key, members] : same) {
    OpRow& whole = rows[members.front()];
    std::vector<const RecordedRun*> others;
    for (const std::size_t i : std::span(members).subspan(1)) {
      others.push_back(&*rows[i].recorded);
      merge_predictions(rows[i], whole);
      whole.count += rows[i].count;
    }
    merge_runs(others, *whole.recorded);
    all.push_back(std::move(whole));
  }
  std::ranges::stable_sort(all, std::greater{},
                           [](const OpRow& row) { return row.recorded->total; });
  for (OpRow& row : rows) {
    if (!row.recorded) all.push_back(std::move(row));
  }
  return all;
}

void learn_from_each_other(std::vector<OpRow>& rows) {
  std::vector<OpRow*> timed;
  std::vector<TimedOp> ops;
  for (OpRow& row : rows) {
    if (!row.time || !row.recorded || !row.recorded->modelled) continue;
    const RecordedRun& run = *row.recorded;
    timed.push_back(&row);
    ops.push_back(
        {run.family, run.kernel, *run.modelled, *row.time, spread_of(run.times, run.calls).median});
  }
  const std::vector<Range<Seconds>> times = learn_from_neighbours(ops);
  for (std::size_t i = 0; i < timed.size(); ++i) timed[i]->time = times[i];
}

std::optional<SourceSummary> script_summary(const Workload& workload) {
  const source::SourceFacts* facts = workload.source.get();
  if (facts == nullptr) return std::nullopt;
  SourceSummary summary;
  summary.files = std::ssize(facts->files);
  summary.passed_over = std::ssize(facts->not_relevant);
  for (const auto& file : facts->files) summary.lines += std::ssize(file->line_starts);
  summary.with_errors =
      std::ranges::count_if(facts->files, [](const auto& file) { return file->has_errors; });
  summary.programs = std::ssize(facts->programs);
  summary.training = std::count_if(facts->programs.begin(), facts->programs.end(),
                                   [](const source::Program& p) { return p.trains_on_gpu; });
  return summary;
}

}  // namespace rooftile
