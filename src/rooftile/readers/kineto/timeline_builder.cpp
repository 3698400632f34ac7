#include "rooftile/readers/kineto/timeline_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "rooftile/base/text.h"
#include "rooftile/formats/kineto/json_values.h"

namespace rooftile {
namespace {

// 73 years: sums of two stay far from the limits of 64 bits.
constexpr Nanoseconds kMostTime = Nanoseconds{1} << 61U;
constexpr std::size_t kMostUnknownCategories = 32;

// Times since the epoch are written in traces without baseTimeNanoseconds; this is September 2001.
constexpr Nanoseconds kEarliestEpochTime = 1'000'000'000'000'000'000;

// 0 = none, else +1; -1 in the trace also says none.
std::uint32_t sequence_in(std::string_view value, SkippedRecords& skipped) {
  if (value.empty()) return 0;
  const auto number = integer_in(value);
  if (number && *number >= -1 && *number < std::numeric_limits<std::uint32_t>::max()) {
    return static_cast<std::uint32_t>(*number + 1);
  }
  ++skipped["sequence numbers beyond 32 bits"];
  return 0;
}

// Where no operator is known, and always in recordings of 2022 and 2023, the profiler writes the
// correlation in place of the operator's id: joining by it would pair kernels with operators that
// have nothing to do with them.
std::uint32_t unless_copied(std::uint32_t external_id, std::uint32_t correlation) {
  return external_id == correlation ? 0 : external_id;
}

}  // namespace

std::optional<Nanoseconds> TimelineBuilder::start_of(const KinetoEvent& event) {
  const auto time = nanoseconds_in(event.time);
  if (!time) {
    ++timeline_.skipped["events without a readable time"];
    return std::nullopt;
  }
  if (!zero_) zero_ = *time;
  Nanoseconds start = 0;
  if (__builtin_sub_overflow(*time, *zero_, &start) || start > kMostTime || start < -kMostTime) {
    ++timeline_.skipped["events years away from the first"];
    return std::nullopt;
  }
  return start;
}

std::optional<TimelineBuilder::Span> TimelineBuilder::span_of(const KinetoEvent& event) {
  const auto duration = nanoseconds_in(event.duration);
  if (!duration) {
    ++timeline_.skipped["events without a readable duration"];
    return std::nullopt;
  }
  if (*duration < 0 || *duration > kMostTime) {
    ++timeline_.skipped["events with a duration below 0 or of years"];
    return std::nullopt;
  }
  const auto start = start_of(event);
  if (!start) return std::nullopt;
  return Span{*start, *duration};
}

std::uint16_t TimelineBuilder::thread_of(const KinetoEvent& event) {
  return threads_.index_of(event.process, event.thread, timeline_.skipped);
}

void TimelineBuilder::on_event(const KinetoEvent& event) {
  const EventClass event_class = class_of(event);
  knows_events_ = knows_events_ || event_class <= EventClass::memory;
  switch (event_class) {
    case EventClass::op:
      return add_op(event,
                    is_annotation_name(unquoted(event.name)) ? HostKind::annotation : HostKind::op);
    case EventClass::annotation:
      return add_op(event, HostKind::annotation);
    case EventClass::python:
      return add_python(event);
    case EventClass::foreign_call:
      header_.is_foreign = true;
      return add_call(event);
    case EventClass::call:
      return add_call(event);
    case EventClass::kernel:
      return add_gpu(event, GpuKind::kernel);
    case EventClass::copy:
      return add_gpu(event, GpuKind::copy);
    case EventClass::fill:
      return add_gpu(event, GpuKind::fill);
    case EventClass::memory:
      return add_memory(event);
    case EventClass::overhead:
      return add_overhead(event);
    case EventClass::unused:
      return;
    case EventClass::unknown:
      return skip_unknown(event);
  }
}

void TimelineBuilder::add_op(const KinetoEvent& event, HostKind kind) {
  const auto span = span_of(event);
  if (!span) return;
  SkippedRecords& skipped = timeline_.skipped;
  const KnownArgs args = known_args(event);
  HostOps& ops = timeline_.ops;
  ops.time.push_back(span->start, span->duration);
  ops.thread.push_back(thread_of(event));
  ops.kind.push_back(kind);
  ops.name.push_back(names_.index_of(unquoted(event.name), skipped));
  ops.external_id.push_back(ids_.index_of(args.external_id, skipped));
  ops.sequence.push_back(sequence_in(args.sequence, skipped));
  ops.arguments.push_back(tables_.arguments_of(args, skipped));
  ops.stack.push_back(names_.index_of(unquoted(args.call_stack), skipped));
  ops.module.push_back(names_.index_of(unquoted(args.module), skipped));
  ops.collective.push_back(tables_.collective_of(args));
  header_.with_shapes = header_.with_shapes || !args.dims.empty();
  header_.with_stack = header_.with_stack || args.call_stack.size() > 2;
}

void TimelineBuilder::add_overhead(const KinetoEvent& event) {
  const auto span = span_of(event);
  if (!span) return;
  timeline_.overheads.time.push_back(span->start, span->duration);
  timeline_.overheads.name.push_back(names_.index_of(unquoted(event.name), timeline_.skipped));
}

void TimelineBuilder::add_python(const KinetoEvent& event) {
  const auto span = span_of(event);
  if (!span) return;
  PythonCalls& python = timeline_.python;
  python.time.push_back(span->start, span->duration);
  python.thread.push_back(thread_of(event));
  python.name.push_back(names_.index_of(unquoted(event.name), timeline_.skipped));
  header_.with_stack = true;
}

void TimelineBuilder::add_call(const KinetoEvent& event) {
  const auto span = span_of(event);
  if (!span) return;
  const KnownArgs args = known_args(event);
  const std::string_view name = unquoted(event.name);
  RuntimeCalls& calls = timeline_.calls;
  calls.time.push_back(span->start, span->duration);
  calls.thread.push_back(thread_of(event));
  calls.name.push_back(names_.index_of(name, timeline_.skipped));
  const std::uint32_t correlation = ids_.index_of(args.correlation, timeline_.skipped);
  const std::uint32_t external_id = ids_.index_of(args.external_id, timeline_.skipped);
  calls.correlation.push_back(correlation);
  calls.external_id.push_back(unless_copied(external_id, correlation));
  header_.is_foreign = header_.is_foreign || name.starts_with("hip");
}

std::uint16_t TimelineBuilder::stream_of(const KinetoEvent& event, const KnownArgs& args) {
  GpuStream stream;
  const auto device = integer_in(args.device.empty() ? event.process : args.device);
  stream.device = static_cast<std::int32_t>(
      std::clamp<std::int64_t>(device.value_or(0), std::numeric_limits<std::int32_t>::min(),
                               std::numeric_limits<std::int32_t>::max()));
  std::string_view number = unquoted(args.stream.empty() ? event.thread : args.stream);
  if (number.starts_with("stream ")) number.remove_prefix(7);
  stream.stream = integer_in(trim(number)).value_or(0);
  return streams_.index_of(stream, timeline_.skipped);
}

void TimelineBuilder::add_gpu(const KinetoEvent& event, GpuKind kind) {
  const auto span = span_of(event);
  if (!span) return;
  SkippedRecords& skipped = timeline_.skipped;
  const KnownArgs args = known_args(event);
  const std::string_view name = unquoted(event.name);
  GpuActivities& gpu = timeline_.gpu;
  gpu.time.push_back(span->start, span->duration);
  gpu.kind.push_back(kind);
  gpu.stream.push_back(stream_of(event, args));
  gpu.name.push_back(names_.index_of(name, skipped));
  const std::uint32_t correlation = ids_.index_of(args.correlation, skipped);
  const std::uint32_t external_id = ids_.index_of(args.external_id, skipped);
  gpu.correlation.push_back(correlation);
  gpu.external_id.push_back(unless_copied(external_id, correlation));
  gpu.details.push_back(kind == GpuKind::kernel ? tables_.launch_of(args, skipped)
                                                : tables_.copy_of(name, args, skipped));
  header_.is_foreign = header_.is_foreign || is_foreign_kernel(name);
}

void TimelineBuilder::add_memory(const KinetoEvent& event) {
  const KnownArgs args = known_args(event);
  const auto bytes = integer_in(args.bytes);
  if (!bytes) {
    ++timeline_.skipped["memory events without bytes"];
    return;
  }
  const auto start = start_of(event);
  if (!start) return;
  MemoryEvents& memory = timeline_.memory;
  memory.at.push_back(*start);
  memory.bytes.push_back(*bytes);
  memory.allocated.push_back(integer_in(args.allocated).value_or(-1));
  memory.reserved.push_back(integer_in(args.reserved).value_or(-1));
  const auto device = integer_in(args.device_id).value_or(-1);
  const bool is_host = integer_in(args.device_type) == 0;
  const bool is_known = device >= 0 && device <= std::numeric_limits<std::int16_t>::max();
  memory.device.push_back(is_host || !is_known ? std::int16_t{-1}
                                               : static_cast<std::int16_t>(device));
  header_.with_memory = true;
}

void TimelineBuilder::skip_unknown(const KinetoEvent& event) {
  const std::string_view phase = unquoted(event.phase);
  if (phase.size() != 1) {
    ++timeline_.skipped["events without a phase"];
  } else if (phase != "X") {
    ++timeline_.skipped[fmt::format("events of phase {}", quoted(phase, 1))];
  } else if (event.category.empty()) {
    ++timeline_.skipped["events without a category"];
  } else {
    std::string name = fmt::format("events of category {}", quoted(unquoted(event.category)));
    if (!timeline_.skipped.contains(name) && ++unknown_categories_ > kMostUnknownCategories) {
      name = "events of other categories";
    }
    ++timeline_.skipped[name];
  }
}

// The profiler writes the frames that were open when it started with process and thread 0. They
// belong to the only other thread that has frames; with several, nobody knows.
void TimelineBuilder::join_python_threads() {
  PythonCalls& python = timeline_.python;
  std::optional<std::uint16_t> other;
  bool has_lost = false;
  const auto is_lost = [&](std::uint16_t thread) {
    return timeline_.threads[thread] == HostThread{0, 0};
  };
  for (std::size_t i = 0; i < python.thread.size(); ++i) {
    const std::uint16_t thread = python.thread[i];
    has_lost = has_lost || is_lost(thread);
    if (is_lost(thread)) continue;
    if (other && *other != thread) return;
    other = thread;
  }
  if (!has_lost || !other) return;
  for (std::size_t i = 0; i < python.thread.size(); ++i) {
    if (is_lost(python.thread[i])) python.thread.at(i) = *other;
  }
}

void TimelineBuilder::finish() {
  join_python_threads();
  timeline_.devices = std::move(header_.devices);
  timeline_.rank = header_.rank;
  timeline_.world_size = header_.world_size;
  timeline_.has_shapes = header_.with_shapes;
  timeline_.has_stacks = header_.with_stack;
  timeline_.has_memory = header_.with_memory;
  timeline_.is_foreign = header_.is_foreign;
  const Nanoseconds zero = zero_.value_or(0);
  const bool knows_epoch = header_.base > 0 || zero >= kEarliestEpochTime;
  Nanoseconds base = 0;
  if (knows_epoch && !__builtin_add_overflow(header_.base, zero, &base)) timeline_.base = base;
}

}  // namespace rooftile
