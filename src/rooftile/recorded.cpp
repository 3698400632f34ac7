#include "rooftile/recorded.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "rooftile/base/text.h"
#include "rooftile/rooftile.h"
#include "rooftile/workload/aten_op.h"
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

std::vector<KindShare> kernel_shares(const TraceSummary& trace) {
  std::map<std::string, KindShare> by_class;
  const double passes = recorded_steps(trace);
  const Seconds pass = pass_time(trace);
  const auto add = [&](const KernelUse& kernel) {
    const bool is_rest = kernel.name == kOtherKernels;
    KindShare& share = by_class[is_rest ? "further small kernels"
                                        : std::string(name_of(kernel.facts.kernel_class))];
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
  report.device.name = trace.device         ? trace.device->name
                       : trace.kernels == 0 ? "a host without GPU"
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

// How far a known device is from a recorded one; empty where they are different chips.
std::optional<double> distance(const Device& known, const TraceDevice& recorded) {
  if (known.compute_capability != 10 * recorded.major + recorded.minor) return std::nullopt;
  if (known.sms != recorded.sm_count) return std::nullopt;
  return std::abs(known.dram_size.value() - static_cast<double>(recorded.memory_bytes));
}

Result<Device> nearest_device(const TraceDevice& recorded) {
  std::optional<Device> best;
  for (Device& known : built_in_devices()) {
    const auto apart = distance(known, recorded);
    if (apart && (!best || *apart < *distance(*best, recorded))) best = std::move(known);
  }
  if (best) return *best;
  return fail(
      fmt::format("{} is not among the GPUs that `rooftile gpus` lists: name the nearest "
                  "with --gpu for advice",
                  rooftile::quoted(recorded.name)));
}

}  // namespace

Result<Device> recorded_device(const Workload& workload) {
  if (workload.traces.empty()) return fail("found no recording");
  const TraceSummary& trace = workload.traces.front();
  if (trace.is_foreign) {
    return fail("recorded on another maker's GPU: times are told, advice is for NVIDIA GPUs");
  }
  if (!trace.device) return fail("the recording does not name its GPU: add --gpu for advice");
  if (auto device = find_device(trace.device->name)) return device;
  return nearest_device(*trace.device);
}

namespace {

std::string tile_text(const KernelFacts& facts) {
  if (facts.tile_m <= 0 || facts.tile_n <= 0) return "";
  std::string text = fmt::format("{}x{}", facts.tile_m, facts.tile_n);
  if (facts.tile_k > 0) text += fmt::format("x{}", facts.tile_k);
  return text;
}

void add_kernels(const OpUse& use, const Device& device, RecordedRun& run) {
  double kernels = 0;
  for (const KernelUse& kernel : use.kernels) kernels += static_cast<double>(kernel.count);
  run.kernels = kernels / static_cast<double>(std::max<std::int64_t>(use.count, 1));
  if (use.kernels.empty()) return;
  const KernelUse& main = use.kernels.front();
  run.kernel = main.name;
  run.tile = tile_text(main.facts);
  run.tensor_core = main.facts.tensor_core;
  double blocks = 1;
  for (const std::uint32_t size : main.launch.grid) blocks *= size;
  if (blocks > 0) run.blocks_per_sm = blocks / device.sms;
}

}  // namespace

std::optional<RecordedRun> recorded_run(const Workload& workload, std::size_t op,
                                        const Device& device) {
  const std::optional<Seconds>& time = workload.ops[op].measured;
  if (!time || workload.traces.empty()) return std::nullopt;
  RecordedRun run{.time = *time,
                  .kernels = 1,
                  .kernel = {},
                  .tile = {},
                  .tensor_core = {},
                  .blocks_per_sm = {}};
  const std::vector<OpUse>& uses = workload.traces.front().ops;
  if (op < uses.size()) {
    add_kernels(uses[op], device, run);
  } else {
    run.kernel = workload.ops[op].name;
  }
  return run;
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

std::vector<OpRow> merged_rows(std::vector<OpRow> rows) {
  std::map<std::tuple<std::string, std::string, std::string, std::string>, std::size_t> first;
  std::vector<OpRow> merged;
  for (OpRow& row : rows) {
    const auto [same, is_new] =
        first.try_emplace({row.name, row.dtype, row.phase, row.dims}, merged.size());
    if (is_new || !row.recorded) {
      merged.push_back(std::move(row));
      continue;
    }
    OpRow& whole = merged[same->second];
    if (!whole.recorded) continue;
    const double runs = static_cast<double>(whole.count), more = static_cast<double>(row.count);
    const auto mean = [&](auto a, auto b) { return (a * runs + b * more) / (runs + more); };
    whole.recorded->time = mean(whole.recorded->time, row.recorded->time);
    whole.recorded->kernels = mean(whole.recorded->kernels, row.recorded->kernels);
    whole.count += row.count;
  }
  return merged;
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
