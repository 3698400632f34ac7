// The fields of a trace summary and their keys: one list for the writer and the reader of its file
// form. A field that a struct gains belongs here too, as an optional one: files written before lack
// it. Units are in the keys.
#pragma once

#include "rooftile/workload/trace_summary.h"

namespace rooftile {

// `visit(key, field)` for each field, in the order of the file.
template <class Visit>
void visit_summary(Visit& visit, TimeBreakdown& time) {
  visit("span_s", time.span);
  visit("gpu_busy_s", time.gpu_busy);
  visit("compute_s", time.compute);
  visit("communication_s", time.communication);
  visit("exposed_communication_s", time.exposed_communication);
  visit.optional("awaited_communication_s", time.awaited_communication);
  visit.optional("rank_waiting_s", time.rank_waiting);
  visit.optional("awaited_rank_waiting_s", time.awaited_rank_waiting);
  visit.optional("communication_beside_allocation_s", time.communication_beside_allocation);
  visit.optional("stretched_s", time.stretched);
  visit("copy_s", time.copy);
  visit("exposed_copy_s", time.exposed_copy);
  visit.optional("exposed_fill_s", time.exposed_fill);
  visit.optional("exposed_migration_s", time.exposed_migration);
  visit("idle_s", time.idle);
  visit("idle_by_cause_s", time.idle_by_cause);
}

template <class Visit>
void visit_summary(Visit& visit, Provenance& source) {
  visit("file", source.file);
  visit("line", source.line);
  visit("node", source.node);
  visit("module", source.module);
}

template <class Visit>
void visit_summary(Visit& visit, TraceSite& site) {
  visit("op", site.op);
  visit("module", site.module);
  visit("source", site.source);
}

template <class Visit>
void visit_summary(Visit& visit, KernelFacts& facts) {
  visit("class", facts.kernel_class);
  visit("library", facts.library);
  visit("compute_capability", facts.compute_capability);
  visit("dtype", facts.dtype);
  visit("accumulator", facts.accumulator);
  visit("tensor_core", facts.tensor_core);
  visit("tile_m", facts.tile_m);
  visit("tile_n", facts.tile_n);
  visit("tile_k", facts.tile_k);
  visit("stages", facts.stages);
  visit("split_k", facts.split_k);
  visit("alignment", facts.alignment);
  visit("layout", facts.layout);
  visit("direction", facts.direction);
}

template <class Visit>
void visit_summary(Visit& visit, LaunchShape& launch) {
  visit("grid", launch.grid);
  visit("block", launch.block);
  visit("registers", launch.registers);
  visit("shared_bytes", launch.shared_bytes);
  visit("collective", launch.collective);
}

template <class Visit>
void visit_summary(Visit& visit, KernelUse& kernel) {
  visit("name", kernel.name);
  visit.optional("stage", kernel.stage);
  visit("facts", kernel.facts);
  visit("launch", kernel.launch);
  visit("count", kernel.count);
  visit("time_s", kernel.time);
  visit.optional("times_s", kernel.times);
}

template <class Visit>
void visit_summary(Visit& visit, OpArguments& arguments) {
  visit("dims", arguments.dims);
  visit("strides", arguments.strides);
  visit("types", arguments.types);
  visit("values", arguments.values);
}

template <class Visit>
void visit_summary(Visit& visit, OpUse& use) {
  visit("name", use.name);
  visit("arguments", use.arguments);
  visit("phase", use.phase);
  visit.optional("stage", use.stage);
  visit("site", use.site);
  visit("count", use.count);
  visit("host_time_s", use.host_time);
  visit("kernel_time_s", use.kernel_time);
  visit.optional("times_s", use.times);
  visit("kernels", use.kernels);
  visit("op", use.op);
}

template <class Visit>
void visit_summary(Visit& visit, StretchedRuns& runs) {
  visit("count", runs.count);
  visit("kernel", runs.kernel);
  visit("longest_s", runs.longest);
  visit("usual_s", runs.usual);
}

template <class Visit>
void visit_summary(Visit& visit, SyncUse& sync) {
  visit("call", sync.call);
  visit("site", sync.site);
  visit("count", sync.count);
  visit("blocked_s", sync.blocked);
  visit("exposed_s", sync.exposed);
}

template <class Visit>
void visit_summary(Visit& visit, CopyShape& shape) {
  visit("kind", shape.kind);
  visit("pageable", shape.pageable);
  visit("bytes", shape.bytes);
}

template <class Visit>
void visit_summary(Visit& visit, CopyUse& copy) {
  visit("shape", copy.shape);
  visit("site", copy.site);
  visit("count", copy.count);
  visit("time_s", copy.time);
  visit("exposed_s", copy.exposed);
  visit("blocked_s", copy.blocked);
  visit.optional("in_line_s", copy.in_line);
  visit.optional("maker", copy.maker);
}

template <class Visit>
void visit_summary(Visit& visit, TransferUse& transfer) {
  visit("kind", transfer.kind);
  visit("pageable", transfer.pageable);
  visit("at_least_bytes", transfer.at_least);
  visit("count", transfer.count);
  visit("bytes", transfer.bytes);
  visit("time_s", transfer.time);
  visit("p10_bytes_per_s", transfer.p10);
  visit("median_bytes_per_s", transfer.median);
  visit("p90_bytes_per_s", transfer.p90);
}

template <class Visit>
void visit_summary(Visit& visit, PlaceUse& place) {
  visit("name", place.name);
  visit("calls", place.calls);
  visit("host_time_s", place.host_time);
  visit("kernels", place.kernels);
  visit("gpu_time_s", place.gpu_time);
  visit("backward_time_s", place.backward_time);
  visit("busy_s", place.busy);
  visit("times_s", place.times);
}

template <class Visit>
void visit_summary(Visit& visit, Spread& spread) {
  visit("p10", spread.p10);
  visit("median", spread.median);
  visit("p90", spread.p90);
}

template <class Visit>
void visit_summary(Visit& visit, LaunchQueue::Bin& bin) {
  visit("launches", bin.launches);
  visit("delay_s", bin.delay);
  visit("depth", bin.depth);
  visit("kernels", bin.kernels);
  visit("below_5us", bin.below_5us);
  visit("below_10us", bin.below_10us);
}

template <class Visit>
void visit_summary(Visit& visit, LaunchQueue& queue) {
  visit("launches", queue.launches);
  visit("delay_s", queue.delay);
  visit("depth_p10", queue.depth_p10);
  visit("depth_median", queue.depth_median);
  visit("depth_p90", queue.depth_p90);
  visit("kernels", queue.kernels);
  visit("below_5us", queue.below_5us);
  visit("below_10us", queue.below_10us);
  visit("time_below_5us_s", queue.time_below_5us);
  visit("time_below_10us_s", queue.time_below_10us);
  visit("bins", queue.bins);
}

template <class Visit>
void visit_summary(Visit& visit, CollectiveShape& shape) {
  visit("name", shape.name);
  visit("dtype", shape.dtype);
  visit("group", shape.group);
  visit("in_elements", shape.in_elements);
  visit("out_elements", shape.out_elements);
  visit("group_size", shape.group_size);
}

template <class Visit>
void visit_summary(Visit& visit, CollectiveUse& collective) {
  visit("shape", collective.shape);
  visit("kernel", collective.kernel);
  visit("count", collective.count);
  visit("time_s", collective.time);
  visit("exposed_s", collective.exposed);
  visit.optional("awaited_s", collective.awaited);
  visit.optional("waiting_s", collective.waiting);
  visit("misaligned", collective.misaligned);
  visit("runs_s", collective.runs);
  visit.optional("back_to_back", collective.back_to_back);
  visit.optional("in_backward", collective.in_backward);
  visit.optional("after_backward", collective.after_backward);
}

template <class Visit>
void visit_summary(Visit& visit, AttentionUse& attention) {
  visit("op", attention.op);
  visit("site", attention.site);
  visit("between", attention.between);
  visit("count", attention.count);
  visit("backward_count", attention.backward_count);
  visit("gemm_time_s", attention.gemm_time);
  visit("softmax_time_s", attention.softmax_time);
  visit("other_time_s", attention.other_time);
  visit("backward_time_s", attention.backward_time);
  visit("narrow_time_s", attention.narrow_time);
}

template <class Visit>
void visit_summary(Visit& visit, ConvBiasUse& bias) {
  visit("site", bias.site);
  visit("count", bias.count);
  visit("added_s", bias.added);
  visit("gradient_s", bias.gradient);
}

template <class Visit>
void visit_summary(Visit& visit, WeightCasts& casts) {
  visit("site", casts.site);
  visit("count", casts.count);
  visit("time_s", casts.time);
  visit("host_time_s", casts.host_time);
}

template <class Visit>
void visit_summary(Visit& visit, RecomputeUse& recomputed) {
  visit("kernels", recomputed.kernels);
  visit("time_s", recomputed.time);
}

template <class Visit>
void visit_summary(Visit& visit, LoaderUse& loader) {
  visit("name", loader.name);
  visit("in_process", loader.in_process);
  visit("count", loader.count);
  visit("waiting_s", loader.waiting);
  visit("exposed_s", loader.exposed);
  visit("interval_s", loader.interval);
  visit.optional("site", loader.site);
}

template <class Visit>
void visit_summary(Visit& visit, AllocatorUse& allocator) {
  visit("mallocs", allocator.mallocs);
  visit("frees", allocator.frees);
  visit.optional("from_pool", allocator.from_pool);
  visit("blocked_s", allocator.blocked);
  visit("exposed_s", allocator.exposed);
  visit("peak_allocated_bytes", allocator.peak_allocated);
  visit("peak_reserved_bytes", allocator.peak_reserved);
}

template <class Visit>
void visit_summary(Visit& visit, HostWorkUse& work) {
  visit("cause", work.cause);
  visit.optional("is_first", work.is_first);
  visit("name", work.name);
  visit("source", work.source);
  visit("count", work.count);
  visit("time_s", work.time);
  visit("exposed_s", work.exposed);
  visit.optional("shortest_s", work.shortest);
  visit.optional("longest_s", work.longest);
}

template <class Visit>
void visit_summary(Visit& visit, RangeUse& range) {
  visit("name", range.name);
  visit("count", range.count);
  visit("host_time_s", range.host_time);
  visit("kernels", range.kernels);
  visit("kernel_time_s", range.kernel_time);
  visit("idle_s", range.idle);
  visit.optional("site", range.site);
}

template <class Visit>
void visit_summary(Visit& visit, PointwiseUse& pointwise) {
  visit("kernels", pointwise.kernels);
  visit("runs", pointwise.runs);
  visit("time_s", pointwise.time);
  visit("compiled_time_s", pointwise.compiled_time);
}

template <class Visit>
void visit_summary(Visit& visit, GradientReductions& gradients) {
  visit("passes", gradients.passes);
  visit("reductions", gradients.reductions);
  visit("backward_s", gradients.backward);
  visit("before_first_s", gradients.before_first);
  visit("after_s", gradients.after);
}

template <class Visit>
void visit_summary(Visit& visit, StepLimit& limit) {
  visit("part", limit.part);
  visit("time_s", limit.time);
}

template <class Visit>
void visit_summary(Visit& visit, UnjudgedRange& range) {
  visit("name", range.name);
  visit("kernels", range.kernels);
  visit("kernel_time_s", range.kernel_time);
}

template <class Visit>
void visit_summary(Visit& visit, SlowStep& slow) {
  visit("step", slow.step);
  visit("part", slow.part);
  visit("beyond_median_s", slow.beyond);
}

template <class Visit>
void visit_summary(Visit& visit, StepApart& step) {
  visit("duration_s", step.duration);
  visit.optional("steps", step.steps);
  visit.optional("cut", step.is_cut);
  visit("part", step.part);
  visit("beyond_median_s", step.beyond);
}

template <class Visit>
void visit_summary(Visit& visit, Steps& steps) {
  visit("source", steps.source);
  visit("durations_s", steps.durations);
  visit.optional("work", steps.work);
  visit.optional("rounds", steps.rounds);
  visit.optional("silent_head_s", steps.silent_head);
  visit.optional("first_apart", steps.first_apart);
  visit.optional("last_apart", steps.last_apart);
  visit.optional("limits", steps.limits);
  visit.optional("slow", steps.slow);
}

template <class Visit>
void visit_summary(Visit& visit, PathPart& part) {
  visit("kind", part.kind);
  visit("name", part.name);
  visit("source", part.source);
  visit("count", part.count);
  visit("time_s", part.time);
}

template <class Visit>
void visit_summary(Visit& visit, PathShare& share) {
  visit("kind", share.kind);
  visit("time_s", share.time);
}

template <class Visit>
void visit_summary(Visit& visit, PathStep& step) {
  visit("shares", step.shares);
}

template <class Visit>
void visit_summary(Visit& visit, CriticalPath& path) {
  visit("parts", path.parts);
  visit("steps", path.steps);
}

template <class Visit>
void visit_summary(Visit& visit, Range<Seconds>& range) {
  visit("low", range.low);
  visit("expected", range.expected);
  visit("high", range.high);
}

template <class Visit>
void visit_summary(Visit& visit, Prediction& prediction) {
  visit("remedy", prediction.remedy);
  visit("saved_s", prediction.saved);
  visit("saved_per_step_s", prediction.saved_per_step);
}

template <class Visit>
void visit_summary(Visit& visit, TraceDevice& device) {
  visit("id", device.id);
  visit("name", device.name);
  visit("memory_bytes", device.memory_bytes);
  visit("sm_count", device.sm_count);
  visit("major", device.major);
  visit("minor", device.minor);
}

// What was recorded, and the time of all of it.
template <class Visit>
void visit_recording(Visit& visit, TraceSummary& summary) {
  visit("files", summary.files);
  visit("format", summary.format);
  visit("device", summary.device);
  visit("other_devices", summary.other_devices);
  visit.optional("listed_devices", summary.listed_devices);
  visit("rank", summary.rank);
  visit("world_size", summary.world_size);
  visit("has_shapes", summary.has_shapes);
  visit("has_stacks", summary.has_stacks);
  visit("has_memory", summary.has_memory);
  visit("is_foreign", summary.is_foreign);
  visit("whole", summary.whole);
  visit("time", summary.time);
  visit.optional("before_s", summary.before);
  visit.optional("time_slice_s", summary.time_slice);
  visit.optional("before_work", summary.before_work);
  visit("steps", summary.steps);
}

template <class Visit>
void visit_summary(Visit& visit, TraceSummary& summary) {
  visit_recording(visit, summary);
  visit("kernels", summary.kernels);
  visit("kernel_time_s", summary.kernel_time);
  visit("kernel_time_in_steps_s", summary.kernel_time_in_steps);
  visit("unclassified_time_s", summary.unclassified_time);
  visit.optional("leftover_kernels", summary.leftover_kernels);
  visit.optional("leftover_time_s", summary.leftover_time);
  visit.optional("kernel_launches", summary.kernel_launches);
  visit.optional("lost_launches", summary.lost_launches);
  visit("launches", summary.launches);
  visit("launch_time_s", summary.launch_time);
  visit("host_busy_s", summary.host_busy);
  visit("graph_launches", summary.graph_launches);
  visit.optional("has_tables_of_window", summary.has_tables_of_window);
  visit("ops", summary.ops);
  visit("orphans", summary.orphans);
  visit.optional("stretched", summary.stretched);
  visit("copies", summary.copies);
  visit.optional("transfers", summary.transfers);
  visit("collectives", summary.collectives);
  visit.optional("modules", summary.modules);
  visit.optional("annotations", summary.annotations);
  visit.optional("unjudged", summary.unjudged);
  visit.optional("queue", summary.queue);
  visit.optional("launches_block", summary.launches_block);
  visit.optional("steady_lateness_s", summary.steady_lateness);
  visit.optional("lightest_operator_s", summary.lightest_operator);
  visit.optional("attentions", summary.attentions);
  visit.optional("conv_bias", summary.conv_bias);
  visit.optional("recomputed", summary.recomputed);
  visit.optional("weight_casts", summary.weight_casts);
  visit("syncs", summary.syncs);
  visit("loaders", summary.loaders);
  visit("allocator", summary.allocator);
  visit.optional("host_work", summary.host_work);
  visit("ranges", summary.ranges);
  visit("pointwise", summary.pointwise);
  visit("gradients", summary.gradients);
  visit("between_collectives_s", summary.between_collectives);
  visit.optional("overlaps_exchanges", summary.overlaps_exchanges);
  visit.optional("critical_path", summary.path);
  visit("predictions", summary.predictions);
  visit("replayed_span_s", summary.replayed_span);
  visit("kernel_time_share", summary.kernel_time_share);
  visit("copy_time_share", summary.copy_time_share);
  visit("skipped", summary.skipped);
}

}  // namespace rooftile
