#include "rooftile/readers/nsys/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "rooftile/readers/nsys/nvtx_name.h"
#include "rooftile/workload/trace_summary.h"

namespace rooftile {
namespace {

using nsys_format::CallRecord;
using nsys_format::GpuRecord;
using nsys_format::GraphRunRecord;
using nsys_format::KernelRecord;
using nsys_format::RangeRecord;
using nsys_format::ScheduleRecord;
using nsys_format::TransferRecord;
using nsys_format::WaitRecord;

constexpr std::size_t kMostIndices = std::numeric_limits<std::uint16_t>::max();

// Values of ENUM_NSYS_EVENT_TYPE.
bool is_range(std::int64_t type) { return type == 59 || type == 60 || type == 70 || type == 71; }
bool is_mark(std::int64_t type) { return type == 34 || type == 65; }

// ENUM_CUDA_MEMCPY_OPER, by id; arrays count as device memory.
constexpr std::array<CopyKind, 14> kCopyKinds{
    CopyKind::unknown,           CopyKind::host_to_device,   CopyKind::device_to_host,
    CopyKind::host_to_device,    CopyKind::device_to_host,   CopyKind::device_to_device,
    CopyKind::device_to_device,  CopyKind::device_to_device, CopyKind::device_to_device,
    CopyKind::host_to_host,      CopyKind::peer_to_peer,     CopyKind::migration_to_device,
    CopyKind::migration_to_host, CopyKind::device_to_device};
// Spelled like the names that Kineto gives to copies, by CopyKind.
constexpr std::array<std::string_view, 8> kCopyNames{
    "Memcpy",      "Memcpy HtoD", "Memcpy DtoH",    "Memcpy DtoD",
    "Memcpy PtoP", "Memcpy HtoH", "Migration HtoD", "Migration DtoH"};

// 0 where it does not fit; as a number without a sign, what is negative is too large.
std::uint32_t narrow(std::int64_t value) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint32_t>::max();
  return static_cast<std::uint64_t>(value) > kMost ? 0 : static_cast<std::uint32_t>(value);
}

// The entry of that number, else the first one, which is for what is unknown.
template <class Entries>
auto entry_of(const Entries& entries, std::int64_t number) {
  const auto at = static_cast<std::uint64_t>(number);
  return entries[at < entries.size() ? at : 0];
}

std::uint32_t bytes_sum(std::int64_t a, std::int64_t b) {
  const std::uint64_t sum = std::uint64_t{narrow(a)} + narrow(b);
  return narrow(static_cast<std::int64_t>(sum));
}

// cudaLaunchKernel_ptsz_v7000 -> cudaLaunchKernel: versions and per-thread streams are no part of
// the name that other recordings use.
std::string_view without_version(std::string_view name) {
  for (bool changed = true; changed;) {
    changed = false;
    const std::size_t at = name.rfind("_v");
    if (at != std::string_view::npos && at > 0 && at + 2 < name.size() &&
        std::all_of(name.begin() + static_cast<std::ptrdiff_t>(at) + 2, name.end(),
                    [](char c) { return c >= '0' && c <= '9'; })) {
      name = name.substr(0, at);
      changed = true;
    }
    for (const std::string_view suffix : {"_ptsz", "_ptds"}) {
      if (!name.ends_with(suffix)) continue;
      name.remove_suffix(suffix.size());
      changed = true;
    }
  }
  return name;
}

// ENUM_CUPTI_SYNC_TYPE, by id.
std::string_view wait_name(std::int64_t kind) {
  constexpr std::array<std::string_view, 5> kNames{"synchronization", "cudaEventSynchronize",
                                                   "cudaStreamWaitEvent", "cudaStreamSynchronize",
                                                   "cudaDeviceSynchronize"};
  return entry_of(kNames, kind);
}

// Calls of the operating system that return when something comes from outside the thread.
bool waits_in_system(std::string_view name) {
  constexpr std::array<std::string_view, 24> kWaits{"accept",
                                                    "accept4",
                                                    "clock_nanosleep",
                                                    "epoll_pwait",
                                                    "epoll_wait",
                                                    "nanosleep",
                                                    "poll",
                                                    "ppoll",
                                                    "pselect",
                                                    "pread",
                                                    "pread64",
                                                    "pthread_cond_clockwait",
                                                    "pthread_join",
                                                    "read",
                                                    "pthread_cond_timedwait",
                                                    "pthread_cond_wait",
                                                    "recv",
                                                    "recvfrom",
                                                    "recvmsg",
                                                    "select",
                                                    "sem_clockwait",
                                                    "sem_timedwait",
                                                    "sem_wait",
                                                    "usleep"};
  return std::ranges::find(kWaits, name) != kWaits.end() || name == "sleep" || name == "waitpid";
}

}  // namespace

std::int64_t nsys_process_of(std::int64_t global_id) { return (global_id >> 24) & kNsysIdMask; }

NsysTables::NsysTables(const nsys_format::ExportInfo& info, const nsys_format::TextLookup& texts,
                       Timeline& timeline)
    : info_(info), timeline_(timeline), texts_(texts) {}

std::optional<std::uint16_t> NsysTables::thread_of(std::int64_t global_tid) {
  if (const auto found = threads_.find(global_tid); found != threads_.end()) return found->second;
  if (timeline_.threads.size() > kMostIndices) return std::nullopt;
  const auto index = static_cast<std::uint16_t>(timeline_.threads.size());
  timeline_.threads.push_back({nsys_process_of(global_tid), global_tid & kNsysIdMask});
  threads_.emplace(global_tid, index);
  return index;
}

std::int32_t NsysTables::device_of(std::int64_t process, std::int64_t cuda_device) const {
  std::int64_t device = cuda_device;
  for (const nsys_format::VisibleGpu& visible : info_.visible) {
    if ((visible.process & kNsysIdMask) == process && visible.cuda_device == cuda_device) {
      device = visible.gpu;
    }
  }
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  return static_cast<std::int32_t>(std::clamp<std::int64_t>(device, -1, kMost));
}

// Where records do not name their process, several may be in one table.
std::optional<std::uint16_t> NsysTables::stream_of(const GpuRecord& record) {
  const std::tuple key{record.global_pid, record.device, record.stream};
  if (const auto found = streams_.find(key); found != streams_.end()) return found->second;
  if (timeline_.streams.size() > kMostIndices) return std::nullopt;
  const auto index = static_cast<std::uint16_t>(timeline_.streams.size());
  timeline_.streams.push_back(
      {device_of(nsys_process_of(record.global_pid), record.device), record.stream});
  streams_.emplace(key, index);
  return index;
}

std::uint32_t NsysTables::name_of(std::int64_t string_id) {
  if (const auto found = names_.find(string_id); found != names_.end()) return found->second;
  const auto text = texts_.find(string_id);
  if (!text) skip("names that the table StringIds lacks");
  const std::uint32_t id = timeline_.strings.id_of(text.value_or("?"));
  names_.emplace(string_id, id);
  return id;
}

std::uint32_t NsysTables::call_name_of(std::int64_t string_id) {
  const auto found = call_names_.find(string_id);
  if (found != call_names_.end()) return found->second;
  const std::string name(without_version(timeline_.strings[name_of(string_id)]));
  const std::uint32_t id = timeline_.strings.id_of(name);
  call_names_.emplace(string_id, id);
  return id;
}

std::uint32_t NsysTables::launch_of(const KernelRecord& record) {
  LaunchShape shape;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    shape.grid[axis] = narrow(record.grid[axis]);
    shape.block[axis] = narrow(record.block[axis]);
  }
  shape.registers = narrow(record.registers);
  shape.shared_bytes = bytes_sum(record.static_shared_bytes, record.dynamic_shared_bytes);
  if (shape == last_launch_.first) return last_launch_.second;
  const auto [at, is_new] =
      launches_.try_emplace(shape, static_cast<std::uint32_t>(timeline_.launches.size()));
  if (is_new) timeline_.launches.push_back(shape);
  last_launch_ = {shape, at->second};
  return at->second;
}

std::uint32_t NsysTables::copy_of(const CopyShape& shape) {
  const auto [at, is_new] =
      copies_.try_emplace(shape, static_cast<std::uint32_t>(timeline_.copies.size()));
  if (is_new) timeline_.copies.push_back(shape);
  return at->second;
}

std::uint32_t NsysTables::arguments_of(std::string_view sizes) {
  if (sizes.empty()) return 0;
  const auto [at, is_new] = arguments_.try_emplace(std::string(sizes), 0);
  if (!is_new) return at->second;
  auto dims = parse_nvtx_sizes(sizes);
  if (!dims) {
    skip("sizes of operators in an unknown form");
    return 0;
  }
  OpArguments arguments;
  arguments.strides.resize(dims->size());
  arguments.types.resize(dims->size());
  arguments.values.resize(dims->size());
  arguments.dims = std::move(*dims);
  at->second = static_cast<std::uint32_t>(timeline_.arguments.size());
  timeline_.arguments.push_back(std::move(arguments));
  timeline_.has_shapes = true;
  return at->second;
}

void NsysTables::add_gpu(const GpuRecord& record, GpuKind kind, std::uint32_t name,
                         std::uint32_t details, const char* plural) {
  const auto stream = stream_of(record);
  if (!stream) return skip(fmt::format("{} on more than 65536 streams", plural));
  GpuActivities& gpu = timeline_.gpu;
  gpu.time.push_back(record.time.start, record.time.end - record.time.start);
  gpu.kind.push_back(kind);
  gpu.stream.push_back(*stream);
  gpu.name.push_back(name);
  gpu.correlation.push_back(narrow(record.correlation));
  gpu.external_id.push_back(0);
  gpu.details.push_back(details);
}

void NsysTables::add(const KernelRecord& record) {
  if (!record.time.valid) return skip("kernels with impossible times");
  add_gpu(record, GpuKind::kernel, name_of(record.name), launch_of(record), "kernels");
}

// The whole run of a graph stands for its kernels, which were not recorded.
void NsysTables::add(const GraphRunRecord& record) {
  if (!record.time.valid) return skip("CUDA graph runs with impossible times");
  skip("kernels of CUDA graph runs (nsys profile --cuda-graph-trace=node records them)");
  add_gpu(record, GpuKind::kernel, timeline_.strings.id_of(kWholeGraph), 0, "CUDA graph runs");
}

bool NsysTables::is_pageable(const TransferRecord& record) const {
  return record.source_kind == info_.pageable_kind || record.target_kind == info_.pageable_kind;
}

void NsysTables::add_copy(const TransferRecord& record) {
  if (!record.time.valid) return skip("copies with impossible times");
  CopyShape shape;
  shape.kind = entry_of(kCopyKinds, record.copy_kind);
  shape.pageable = is_pageable(record);
  shape.bytes = static_cast<std::uint64_t>(std::max<std::int64_t>(0, record.bytes));
  const std::string_view name = kCopyNames[static_cast<std::size_t>(shape.kind)];
  add_gpu(record, GpuKind::copy, timeline_.strings.id_of(name), copy_of(shape), "copies");
}

void NsysTables::add_fill(const TransferRecord& record) {
  if (!record.time.valid) return skip("fills with impossible times");
  CopyShape shape;
  shape.pageable = is_pageable(record);
  shape.bytes = static_cast<std::uint64_t>(std::max<std::int64_t>(0, record.bytes));
  add_gpu(record, GpuKind::fill, timeline_.strings.id_of("Memset"), copy_of(shape), "fills");
}

void NsysTables::add(const CallRecord& record) {
  if (!record.time.valid) return skip("CUDA calls with impossible times");
  const auto thread = thread_of(record.global_tid);
  if (!thread) return skip("CUDA calls on more than 65536 threads");
  RuntimeCalls& calls = timeline_.calls;
  calls.time.push_back(record.time.start, record.time.end - record.time.start);
  calls.thread.push_back(*thread);
  calls.name.push_back(call_name_of(record.name));
  calls.correlation.push_back(narrow(record.correlation));
  calls.external_id.push_back(0);
}

// Stands in for the call where calls were not recorded; its thread is not known.
void NsysTables::add(const WaitRecord& record) {
  if (!record.time.valid) return skip("synchronizations with impossible times");
  const auto thread = thread_of(record.global_pid);
  if (!thread) return skip("synchronizations on more than 65536 threads");
  RuntimeCalls& calls = timeline_.calls;
  calls.time.push_back(record.time.start, record.time.end - record.time.start);
  calls.thread.push_back(*thread);
  calls.name.push_back(timeline_.strings.id_of(wait_name(record.kind)));
  calls.correlation.push_back(narrow(record.correlation));
  calls.external_id.push_back(0);
}

void NsysTables::add(const RangeRecord& record) {
  if (is_mark(record.type)) return skip("NVTX marks");
  if (!is_range(record.type)) return;  // names of domains, categories and threads
  if (!record.has_end) return skip("NVTX ranges without an end");
  if (!record.time.valid) return skip("NVTX ranges with impossible times");
  if (!record.name) return add_named_range(record, record.text);
  const auto [at, is_new] = range_texts_.try_emplace(*record.name);
  if (is_new) at->second = texts_.find(*record.name).value_or("");
  add_named_range(record, at->second);
}

void NsysTables::add_named_range(const RangeRecord& record, std::string_view text) {
  if (text.empty()) return skip("NVTX ranges without a name");
  const auto thread = thread_of(record.global_tid);
  if (!thread) return skip("NVTX ranges on more than 65536 threads");
  const NvtxName parsed = parse_nvtx_name(text);
  const std::int64_t sequence = parsed.sequence.value_or(-1);
  HostOps& ops = timeline_.ops;
  ops.time.push_back(record.time.start, record.time.end - record.time.start);
  ops.thread.push_back(*thread);
  ops.kind.push_back(parsed.is_operator ? HostKind::op : HostKind::annotation);
  ops.name.push_back(timeline_.strings.id_of(parsed.name));
  ops.external_id.push_back(0);
  const bool has_next = sequence < std::numeric_limits<std::int64_t>::max();
  ops.sequence.push_back(has_next ? narrow(sequence + 1) : 0);
  ops.arguments.push_back(arguments_of(parsed.sizes));
  ops.stack.push_back(0);
  ops.module.push_back(0);
  ops.collective.push_back(0);
}

void NsysTables::add_sleep(std::int64_t global_tid, std::int64_t start, std::int64_t end) {
  constexpr std::int64_t kShortest = 1'000'000;  // less is no cause of its own
  const auto thread = threads_.find(global_tid);
  if (thread == threads_.end() || start < 0 || end - start < kShortest) return;
  timeline_.sleeps.time.push_back(start, end - start);
  timeline_.sleeps.thread.push_back(thread->second);
}

void NsysTables::add_system_call(const CallRecord& record) {
  if (!record.time.valid) return;
  const auto name = texts_.find(record.name);
  if (name && waits_in_system(*name)) {
    add_sleep(record.global_tid, record.time.start, record.time.end);
  }
}

void NsysTables::add_overhead(const CallRecord& record) {
  if (!record.time.valid) return skip("work of the recorder with impossible times");
  if (!threads_.contains(record.global_tid)) return;
  timeline_.overheads.time.push_back(record.time.start, record.time.end - record.time.start);
  timeline_.overheads.name.push_back(name_of(record.name));
}

void NsysTables::add(const ScheduleRecord& record) {
  if (!record.runs) {
    asleep_since_[record.global_tid] = record.at;
    return;
  }
  const auto since = asleep_since_.find(record.global_tid);
  if (since == asleep_since_.end()) return;
  add_sleep(record.global_tid, since->second, record.at);
  asleep_since_.erase(since);
}

}  // namespace rooftile
