#include "rooftile/analysis/trace/summarize.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "rooftile/analysis/trace/attention_uses.h"
#include "rooftile/analysis/trace/busy.h"
#include "rooftile/analysis/trace/busy_parts.h"
#include "rooftile/analysis/trace/critical_path.h"
#include "rooftile/analysis/trace/held_up.h"
#include "rooftile/analysis/trace/host_table.h"
#include "rooftile/analysis/trace/host_work.h"
#include "rooftile/analysis/trace/idle.h"
#include "rooftile/analysis/trace/lateness.h"
#include "rooftile/analysis/trace/launch_queue.h"
#include "rooftile/analysis/trace/links.h"
#include "rooftile/analysis/trace/lost_work.h"
#include "rooftile/analysis/trace/op_table.h"
#include "rooftile/analysis/trace/place_table.h"
#include "rooftile/analysis/trace/predict.h"
#include "rooftile/analysis/trace/python_sites.h"
#include "rooftile/analysis/trace/ranges.h"
#include "rooftile/analysis/trace/seconds.h"
#include "rooftile/analysis/trace/step_parts.h"
#include "rooftile/analysis/trace/steps.h"
#include "rooftile/analysis/trace/training_patterns.h"
#include "rooftile/analysis/trace/usual_runs.h"
#include "rooftile/analysis/trace/waits.h"

namespace rooftile {
namespace {

using namespace trace;

TimeBreakdown breakdown(const Window& window, const BusySplit& split,
                        const std::vector<IdlePiece>& pieces) {
  TimeBreakdown time;
  time.span = to_seconds(window.span());
  time.gpu_busy = to_seconds(split.busy);
  time.compute = to_seconds(split.compute);
  time.communication = to_seconds(split.communication);
  time.exposed_communication = to_seconds(split.exposed_communication);
  time.copy = to_seconds(split.copy);
  time.exposed_copy = to_seconds(split.exposed_copy);
  time.exposed_fill = to_seconds(split.exposed_fill);
  time.exposed_migration = to_seconds(split.exposed_migration);
  time.idle = to_seconds(window.span() - split.busy);
  for (const auto& [cause, length] : idle_by_cause(pieces, window)) {
    time.idle_by_cause[cause] = to_seconds(length);
  }
  return time;
}

// The listed GPU of that number; where numbers do not match, as when the process saw only some of
// them, the one that all listed are equal to.
std::optional<TraceDevice> device_of(const Timeline& timeline, std::int32_t id) {
  const std::vector<TraceDevice>& devices = timeline.devices;
  const auto named = std::ranges::find(devices, id, &TraceDevice::id);
  if (named != devices.end()) return *named;
  if (devices.empty()) return std::nullopt;
  const bool are_equal = std::ranges::all_of(devices, [&](TraceDevice device) {
    device.id = devices.front().id;
    return device == devices.front();
  });
  return are_equal ? std::optional(devices.front()) : std::nullopt;
}

bool is_set_up(IdleCause cause) {
  return is_recorders(cause) || cause == IdleCause::start_up || cause == IdleCause::module_loading;
}

bool is_any(IdleCause /*cause*/) { return true; }

bool is_of_host(IdleCause cause) {
  return cause == IdleCause::host_work || cause == IdleCause::asleep ||
         cause == IdleCause::data_loading;
}

// Idle time in the window of the causes that count.
Nanoseconds within(const std::vector<IdlePiece>& pieces, const Window& window,
                   bool (*counts)(IdleCause)) {
  Nanoseconds sum = 0;
  for (const IdlePiece& piece : pieces) {
    const Nanoseconds length =
        std::min(piece.end, window.end) - std::max(piece.start, window.start);
    if (counts(piece.cause) && length > 0) sum += length;
  }
  return sum;
}

// From the first start to the last end on the GPU, of what was launched in the recording. Before it
// comes the host's work since the end of what was launched earlier, behind it what a function of
// the program does with the results, which Python stacks tell from the program's end.
Window part_with_work(const Timeline& timeline, const Links& links, const GpuTrack& track,
                      const std::vector<IdlePiece>& pieces, const Window& whole) {
  Window part{whole.end, whole.start};
  Nanoseconds before = whole.start;  // end of what was launched before the recording
  for (const std::uint32_t row : track.rows) {
    const Nanoseconds end = timeline.gpu.time.end(row);
    if (links.leftover[row]) {
      before = std::max(before, end);
      continue;
    }
    part.start = std::min(part.start, timeline.gpu.time.start(row));
    part.end = std::max(part.end, end);
  }
  if (part.start >= part.end) return whole;
  // A program that was at work already, and then at something else, does not start.
  const Window pause{before, part.start};
  if (before > whole.start && 2 * within(pieces, pause, is_of_host) > pause.span()) {
    part.start = pause.start;
  }
  const bool has_stacks = timeline.python.time.size() > 0;
  for (const IdlePiece& piece : pieces) {
    const bool is_of_program = piece.cause == IdleCause::host_work && has_stacks;
    if (is_of_program) part.end = std::max(part.end, piece.end);
  }
  return part;
}

// From the launch of the first work in `part` until the host has launched the last and waits only
// for its end, or launches what has no work in a recording that ends early.
Window host_part(const Timeline& timeline, const Links& links, const GpuTrack& track,
                 const std::vector<HostWait>& waits, const Window& part, const LostWork& lost) {
  Window host{part.start, part.start};
  for (const std::uint32_t row : track.rows) {
    const std::uint32_t call = links.gpu_call[row];
    if (call == kNone || !part.contains(timeline.gpu.time.start(row))) continue;
    host.start = std::min(host.start, timeline.calls.time.start(call));
    host.end = std::max(host.end, timeline.calls.time.end(call));
  }
  if (host.end == part.start) return part;  // no launch is known
  for (const HostWait& wait : waits) {
    if (!part.contains(wait.start)) continue;
    host.end = std::max(host.end, wait.end <= part.end ? wait.end : wait.start + 1);
  }
  host.end = std::min(host.end, part.end);
  if (ends_early(lost)) host.end = std::max(host.start + 1, std::min(host.end, lost.from));
  return host;
}

Nanoseconds set_up_within(const std::vector<IdlePiece>& pieces, const Window& window) {
  return within(pieces, window, is_set_up);
}

// Of the part with work what follows the first calls: most of the kernels, with little set-up left.
Window part_after_set_up(const Timeline& timeline, const GpuTrack& track,
                         const std::vector<IdlePiece>& pieces, const Window& part) {
  constexpr Nanoseconds kLittle = 10;  // a tenth
  std::vector<Nanoseconds> starts;
  for (const std::uint32_t row : track.rows) {
    if (timeline.gpu.kind[row] == GpuKind::kernel) starts.push_back(timeline.gpu.time.start(row));
  }
  for (const IdlePiece& piece : pieces) {
    if (!is_set_up(piece.cause) || piece.end <= part.start || piece.end >= part.end) continue;
    const auto rest = starts.end() - std::ranges::lower_bound(starts, piece.end);
    if (2 * rest < std::ssize(starts)) break;
    const Window after{piece.end, part.end};
    if (kLittle * set_up_within(pieces, after) < after.span()) return after;
  }
  return part;
}

// From the first kernel on where a program before it allocates memory and fills it with many
// tensors: its weights.
Window part_after_upload(const Timeline& timeline, const Links& links, const GpuTrack& track,
                         const Window& whole) {
  constexpr int kMany = 10;  // the inputs of a pass are fewer
  int uploads = 0;
  Nanoseconds first = whole.start;
  for (const std::uint32_t row : track.rows) {
    if (timeline.gpu.kind[row] == GpuKind::kernel) {
      const std::uint32_t call = links.gpu_call[row];
      if (call != kNone) first = timeline.calls.time.start(call);
      break;
    }
    const bool is_upload =
        timeline.gpu.kind[row] == GpuKind::copy &&
        timeline.copies[timeline.gpu.details[row]].kind == CopyKind::host_to_device;
    if (is_upload) ++uploads;
  }
  if (uploads < kMany) return whole;
  const RuntimeCalls& calls = timeline.calls;
  for (std::uint32_t call = 0; call < calls.time.size(); ++call) {
    const bool allocates = links.kind_of_call(timeline, call) == CallKind::allocation;
    if (allocates && calls.time.start(call) < first) return {first, whole.end};
  }
  return whole;
}

// Of a part in which the GPU has nothing to do for longer than all the rest, once, and then, or
// before, kernels that repeat and nearly all there are: those. What else there is, is done once.
Window part_beside_pause(const Timeline& timeline, const GpuTrack& track,
                         const std::vector<Gap>& gaps, const std::vector<IdlePiece>& pieces,
                         const Window& part) {
  constexpr std::size_t kHardly = 10, kLeast = 20, kRepeated = 4;
  const auto pause = std::ranges::find_if(gaps, [&](const Gap& gap) {
    const Nanoseconds length = gap.end - gap.start;
    return gap.start > part.start && gap.end < part.end && 2 * length > part.span() &&
           2 * set_up_within(pieces, {gap.start, gap.end}) < length;
  });
  if (pause == gaps.end()) return part;
  std::array<std::size_t, 2> kernels{};  // before and after
  std::array<std::set<std::uint32_t>, 2> names;
  for (const std::uint32_t row : track.rows) {
    const Nanoseconds start = timeline.gpu.time.start(row);
    if (timeline.gpu.kind[row] != GpuKind::kernel || !part.contains(start)) continue;
    const std::size_t side = start < pause->end ? 0 : 1;
    ++kernels.at(side);
    names.at(side).insert(timeline.gpu.name[row]);
  }
  const std::size_t most = kernels[1] >= kernels[0] ? 1 : 0;
  const bool repeats = kernels.at(most) >= kLeast &&
                       kernels.at(most) >= kRepeated * names.at(most).size() &&
                       kHardly * kernels.at(1 - most) <= kernels.at(most);
  if (!repeats) return part;
  return most == 1 ? Window{pause->end, part.end} : Window{part.start, pause->start};
}

// Without steps: the GPU's work, without the upload of a program's weights and, where they take
// more than half, without first calls or one long pause. What comes before and after is the
// program's start and end, or the recorder's.
Window steady_part(const Timeline& timeline, const Links& links, const GpuTrack& track,
                   const BusySplit& split, const std::vector<IdlePiece>& pieces,
                   const Window& whole) {
  constexpr std::size_t kLeastWork = 10;  // activities: fewer are no program
  const Window work = part_with_work(timeline, links, track, pieces, whole);
  if (track.rows.size() < kLeastWork) {
    const bool starts = !pieces.empty() && pieces.front().cause == IdleCause::start_up;
    return starts && track.rows.size() > 1 ? Window{work.start, whole.end} : whole;
  }
  if (const Window rest = part_beside_pause(timeline, track, split.gaps, pieces, work);
      rest != work) {
    return rest;
  }
  Window part = part_after_upload(timeline, links, track, work);
  const Nanoseconds set_up = part.start - work.start + set_up_within(pieces, part);
  if (2 * set_up > work.span()) part = part_after_set_up(timeline, track, pieces, part);
  // Less than a twentieth behind a long start says nothing, unless the GPU is busy in it.
  constexpr Nanoseconds kTooLittle = 20;
  const bool is_little = kTooLittle * part.span() < whole.span();
  return is_little && 2 * within(pieces, part, is_any) > part.span() ? whole : part;
}

void copy_facts(const Timeline& timeline, const GpuTrack& track, TraceSummary& summary) {
  if (!timeline.file.empty()) summary.files = {timeline.file};
  summary.format = timeline.format;
  summary.other_devices = static_cast<std::int64_t>(track.other_devices);
  summary.listed_devices = std::ssize(timeline.devices);
  summary.device = device_of(timeline, track.device);
  summary.rank = timeline.rank;
  summary.world_size = timeline.world_size;
  summary.has_shapes = timeline.has_shapes;
  summary.has_stacks = timeline.has_stacks;
  summary.has_memory = timeline.has_memory;
  summary.is_foreign = timeline.is_foreign;
  summary.skipped = timeline.skipped;
}

// Idle time of the window that each wait is to blame for.
void expose_waits(const std::vector<IdlePiece>& pieces, const Window& window,
                  std::vector<HostWait>& waits) {
  for (const IdlePiece& piece : pieces) {
    const Nanoseconds length =
        std::min(piece.end, window.end) - std::max(piece.start, window.start);
    if (piece.wait != kNone && length > 0) waits[piece.wait].exposed += length;
  }
}

Cover compute_cover(const Timeline& timeline, const GpuTrack& track) {
  Cover compute;
  for (std::size_t i = 0; i < track.rows.size(); ++i) {
    if (track.classes[i] != GpuClass::compute) continue;
    compute.add(timeline.gpu.time.start(track.rows[i]), timeline.gpu.time.end(track.rows[i]));
  }
  return compute;
}

void fill_tables(const HostView& view, const GpuTrack& track, const KernelNames& names,
                 const std::vector<Window>& held_up, const std::vector<Nanoseconds>& beyond,
                 TraceSummary& summary) {
  Cover first_calls;
  for (const HostWait& wait : view.waits) {
    if (wait.cause == IdleCause::module_loading) first_calls.add(wait.start, wait.end);
  }
  OpTable table =
      tabulate_ops(view.timeline, view.links, names, view.sites, view.window, first_calls, beyond);
  summary.has_tables_of_window = true;
  summary.kernels = table.kernels;
  summary.kernel_time = table.kernel_time;
  summary.kernel_time_in_steps = table.kernel_time_in_steps;
  summary.unclassified_time = table.unclassified_time;
  summary.leftover_kernels = table.leftover;
  summary.leftover_time = table.leftover_time;
  summary.ops = std::move(table.ops);
  summary.orphans = std::move(table.orphans);
  if (view.timeline.gpu.time.size() == 0) {
    summary.ops = tabulate_host_ops(view.timeline, view.links, view.sites);
  }
  summary.stretched = stretched_runs(view.timeline, track, beyond);
  const Cover compute = compute_cover(view.timeline, track);
  summary.syncs = tabulate_syncs(view);
  summary.loaders = tabulate_loaders(view);
  summary.allocator = tabulate_allocator(view, track.device);
  summary.copies = tabulate_copies(view, track, compute);
  summary.transfers = tabulate_transfers(view.timeline, track);
  Cover held;
  for (const Window& window : held_up) held.add(window.start, window.end);
  summary.collectives =
      tabulate_collectives(view.timeline, view.links, names, track, compute, held, beyond);
  summary.steady_lateness = steady_lateness(view.timeline, view.links, track, beyond);
  const LaunchCounts counts = count_launches(view);
  summary.launches = counts.launches;
  summary.graph_launches = counts.graphs;
  summary.launch_time = to_seconds(counts.launch_time);
  summary.host_busy = to_seconds(counts.busy);
}

// Operations that belong together, and tables by place of the program.
void find_patterns(HostView& view, const GpuTrack& track, const KernelNames& names,
                   const std::vector<IdlePiece>& pieces, const Window& window,
                   TraceSummary& summary) {
  PlaceTables places = tabulate_places(view.timeline, view.links, track);
  summary.modules = std::move(places.modules);
  summary.annotations = std::move(places.annotations);
  summary.unjudged = unjudged_ranges(view.timeline, view.links, track, window);
  AttentionUses attention = find_attention(view, names);
  summary.attentions = std::move(attention.uses);
  summary.conv_bias = find_conv_bias(view, names);
  summary.recomputed = find_recomputed(view);
  summary.weight_casts = find_weight_casts(view);
  summary.ranges =
      training_ranges(view.timeline, view.links, track, pieces, view.steps, view.sites);
  summary.pointwise =
      pointwise_runs(view.timeline, view.links, names, track, window, attention.is_part);
  summary.gradients = gradient_reductions(view.timeline, view.links, track, window);
  summary.overlaps_exchanges = overlaps_exchanges(view.timeline, track);
  summary.between_collectives = idle_between_collectives(view.timeline, track, pieces, window);
}

void take(Predictions predictions, TraceSummary& summary) {
  summary.predictions = std::move(predictions.remedies);
  summary.replayed_span = predictions.replayed_span;
  summary.kernel_time_share = predictions.kernel_time_share;
  summary.copy_time_share = predictions.copy_time_share;
}

void set_steps(const StepMarks& marks, HostView& view) {
  if (marks.steps.empty()) return;
  view.first_end = marks.steps.front().end;
  view.step_count = marks.steps.size();
  view.has_steps = true;
}

LostWork find_lost_work(const Timeline& timeline, const Links& links, TraceSummary& summary) {
  const LostWork lost = lost_work(timeline, links);
  summary.kernel_launches = lost.all;
  if (ends_early(lost)) summary.lost_launches = lost.launches;
  return lost;
}

void set_launches(const Timeline& timeline, const Links& links, const GpuTrack& track,
                  const std::vector<IdlePiece>& pieces, const Window& whole,
                  TraceSummary& summary) {
  summary.time_slice = to_seconds(time_slice_of(pieces));
  summary.queue = launch_queue(timeline, links, track, whole);
  summary.launches_block = launches_block(timeline, links, track);
  summary.lightest_operator = lightest_operator(timeline);
}

void set_before(const Timeline& timeline, const Links& links, const std::vector<HostWait>& waits,
                const Window& before, TraceSummary& summary) {
  if (before.span() <= 0) return;
  summary.before = to_seconds(before.span());
  summary.before_work = tabulate_all_work(timeline, links, waits, before);
}

}  // namespace

TraceSummary summarize(const Timeline& timeline) {
  TraceSummary summary;
  const Links links = link_events(timeline);
  const KernelNames names(timeline);
  const GpuTrack track = busiest_gpu(timeline, names);
  copy_facts(timeline, track, summary);
  const Window whole = whole_recording(timeline);
  const BusySplit split = split_busy(timeline, track, whole);
  std::vector<HostWait> waits = find_waits(timeline, links, track);
  const std::vector<IdlePiece> pieces = explain_gaps(timeline, links, track, split, waits);
  summary.whole = breakdown(whole, split, pieces);
  const Cover communication = communication_cover(timeline, track);
  const std::vector<Window> held_up = held_up_times(timeline, links, track, waits, communication,
                                                    usual_latency(timeline, links, track, split));
  summary.whole.awaited_communication = to_seconds(covered(communication, held_up, whole));

  const LostWork lost = find_lost_work(timeline, links, summary);
  StepMarks marks = find_steps(timeline, links, track);
  const std::vector<Nanoseconds> beyond = times_beyond_usual(timeline, links, names, track, marks);
  const BusyParts parts(timeline, track, beyond, waits, held_up);
  parts.set_parts(whole, summary.whole);
  const bool has_steps = !marks.steps.empty();
  const Window work = has_steps ? whole : steady_part(timeline, links, track, split, pieces, whole);
  std::vector<Nanoseconds> bounds =
      has_steps ? step_bounds(marks, timeline, links) : std::vector{work.start, work.end};
  StepsApart apart;
  if (has_steps) apart = set_apart(marks, bounds, timeline, track, pieces, lost);
  const Window window{bounds.front(), bounds.back()};
  const Window host_window = has_steps ? Window{marks.steps.front().start, marks.steps.back().end}
                                       : host_part(timeline, links, track, waits, work, lost);
  summary.time = window == whole ? summary.whole
                                 : breakdown(window, split_busy(timeline, track, window), pieces);
  summary.time.awaited_communication = to_seconds(covered(communication, held_up, window));
  parts.set_parts(window, summary.time);
  if (has_steps) {
    summary.steps =
        measure_steps(marks, bounds, timeline, track, pieces, parts.beside_allocation());
    summary.steps.first_apart = apart.first;
    summary.steps.last_apart = apart.last;
  }
  expose_waits(pieces, window, waits);
  expose_waits(parts.beside_allocation(), window, waits);
  PythonSites sites(timeline, links);
  if (!track.rows.empty() && timeline.calls.time.size() > 0) {
    Replay replay(timeline, links, track, split, waits, host_window,
                  has_steps ? marks.steps.front().end : host_window.end);
    summary.path = critical_path(timeline, links, track, waits, pieces, replay, sites, bounds);
    take(predict(replay, timeline, links, waits, marks, host_window,
                 window.start - host_window.start, summary.time),
         summary);
  }

  HostView view{timeline, links, waits, sites, host_window, window};
  set_steps(marks, view);
  fill_tables(view, track, names, held_up, beyond, summary);
  set_launches(timeline, links, track, pieces, whole, summary);
  summary.host_work = tabulate_other_work(timeline, links, waits, host_window);
  set_before(timeline, links, waits, {whole.start, window.start}, summary);
  find_patterns(view, track, names, pieces, window, summary);
  return summary;
}

}  // namespace rooftile
