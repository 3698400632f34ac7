// A profiler's recording of one process, as tables: what the host did, what the GPUs did, and how
// the two belong together. Neutral: Kineto and Nsight Systems give the same tables.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "rooftile/workload/column.h"

namespace rooftile {

// Nanoseconds since the recording's own zero; durations too.
using Nanoseconds = std::int64_t;

// Every distinct text once; id 0 is the empty text.
class StringTable {
 public:
  StringTable() { id_of(""); }
  StringTable(StringTable&&) = default;
  StringTable& operator=(StringTable&&) = default;
  StringTable(const StringTable&) = delete;
  StringTable& operator=(const StringTable&) = delete;

  std::uint32_t id_of(std::string_view text) {
    if (const auto found = ids_.find(text); found != ids_.end()) return found->second;
    const auto id = static_cast<std::uint32_t>(texts_.size());
    ids_.emplace(texts_.emplace_back(text), id);
    return id;
  }
  const std::string& operator[](std::uint32_t id) const { return texts_[id]; }
  std::size_t size() const { return texts_.size(); }

 private:
  std::deque<std::string> texts_;  // a deque: the keys below point into it
  std::unordered_map<std::string_view, std::uint32_t> ids_;
};

// Start and duration of each row, in the recording's order, which need not be that of time. About 8
// bytes a row.
class EventTimes {
 public:
  std::size_t size() const { return start_.size(); }
  Nanoseconds start(std::size_t row) const { return start_[row]; }
  Nanoseconds duration(std::size_t row) const { return duration_[row]; }  // 0 or more
  Nanoseconds end(std::size_t row) const { return start_[row] + duration(row); }
  void push_back(Nanoseconds start, Nanoseconds duration) {
    start_.push_back(start);
    duration_.push_back(duration);
  }

 private:
  CompactColumn<true> start_;
  CompactColumn<false> duration_;
};

// Operators of the framework (aten::addmm, autograd nodes) and ranges that the user named
// (ProfilerStep#3, Optimizer.step#SGD.step, NVTX), as they nest on their thread.
enum class HostKind : std::uint8_t { op, annotation };

struct HostOps {
  EventTimes time;
  Column<std::uint16_t> thread;  // index into Timeline::threads
  Column<HostKind> kind;
  Column<std::uint32_t> name;         // StringTable
  Column<std::uint32_t> external_id;  // joins runtime calls and kernels; 0 = none
  Column<std::uint32_t> sequence;     // joins a forward op and its backward; 0 = none, else +1
  Column<std::uint32_t> arguments;    // index into Timeline::arguments; 0 = not recorded
  // Of recordings before 2023, empty text in newer ones: the Python frames around the operator,
  // innermost first, "train.py(54): step;train.py(80): <module>"; and the module around it.
  Column<std::uint32_t> stack, module;  // StringTable
  Column<std::uint32_t> collective;     // of record_param_comms: index into Timeline::collectives
};

// Python frames (with_stack) and modules (nn.Module: Linear_0), as they nest on their thread.
struct PythonCalls {
  EventTimes time;
  Column<std::uint16_t> thread;
  Column<std::uint32_t> name;  // "train.py(88): train_step" or "nn.Module: Linear_0"
};

// CUDA runtime and driver calls.
struct RuntimeCalls {
  EventTimes time;
  Column<std::uint16_t> thread;
  Column<std::uint32_t> name;  // cudaLaunchKernel, cudaMemcpyAsync, cudaStreamSynchronize …
  Column<std::uint32_t> correlation;  // joins what it starts on the GPU; 0 = none
  Column<std::uint32_t> external_id;  // the operator that called it; 0 = none
};

enum class GpuKind : std::uint8_t { kernel, copy, fill };
enum class CopyKind : std::uint8_t {
  unknown,
  host_to_device,
  device_to_host,
  device_to_device,
  peer_to_peer,
  host_to_host,
  // Pages of managed memory, moved where one side touches them or the program prefetches them.
  migration_to_device,
  migration_to_host
};

constexpr bool is_migration(CopyKind kind) {
  return kind == CopyKind::migration_to_device || kind == CopyKind::migration_to_host;
}

// What the profiler says of its own cost and of CUDA's loading: "Activity Buffer Request".
struct Overheads {
  EventTimes time;
  Column<std::uint32_t> name;
};

// Stretches in which the operating system had a thread off the CPU.
struct Sleeps {
  EventTimes time;
  Column<std::uint16_t> thread;
};

// What ran on the GPUs.
struct GpuActivities {
  EventTimes time;
  Column<GpuKind> kind;
  Column<std::uint16_t> stream;       // index into Timeline::streams
  Column<std::uint32_t> name;         // StringTable; kernels demangled where the trace has it
  Column<std::uint32_t> correlation;  // 0 = none
  Column<std::uint32_t> external_id;  // 0 = none
  Column<std::uint32_t> details;      // kernel: index into launches; copy, fill: into copies
};

// How a kernel was launched; 0 where not recorded.
struct LaunchShape {
  std::array<std::uint32_t, 3> grid{}, block{};
  std::uint32_t registers = 0, shared_bytes = 0;
  std::uint32_t collective = 0;  // index into Timeline::collectives; 0 = none recorded

  auto operator<=>(const LaunchShape&) const = default;
};

// What a copy or fill moved.
struct CopyShape {
  CopyKind kind = CopyKind::unknown;
  bool pageable = false;  // one of the sides is host memory that is not pinned
  std::uint64_t bytes = 0;

  auto operator<=>(const CopyShape&) const = default;
};

// Arguments of a collective as recent PyTorch records them.
struct CollectiveShape {
  std::string name, dtype, group;  // "all_gather_into_tensor_coalesced", "BFloat16", "0"
  std::int64_t in_elements = 0, out_elements = 0, group_size = 0;

  auto operator<=>(const CollectiveShape&) const = default;
};

// Arguments of an operator: as many entries in each list as the operator has arguments.
struct OpArguments {
  std::vector<std::vector<std::int64_t>> dims, strides;  // empty for scalars and lists of tensors
  std::vector<std::string> types;                        // "c10::BFloat16", "float", "Scalar" …
  // "Concrete Inputs"; of a list of tensors their sizes, "[[2, 3], [4]]"; empty where none.
  std::vector<std::string> values;

  auto operator<=>(const OpArguments&) const = default;
};

// A change of the allocator's state, from memory profiling.
struct MemoryEvents {
  CompactColumn<true> at;
  CompactColumn<true> bytes;                // negative = freed
  CompactColumn<true> allocated, reserved;  // totals afterwards; -1 = not recorded
  Column<std::int16_t> device;              // -1 = host
};

struct TraceDevice {
  std::int32_t id = 0;
  std::string name;                // "NVIDIA H100 80GB HBM3"
  std::uint64_t memory_bytes = 0;  // 0 = not recorded
  int sm_count = 0, major = 0, minor = 0;

  bool operator==(const TraceDevice&) const = default;
};

struct GpuStream {
  std::int32_t device = 0;
  std::int64_t stream = 0;

  auto operator<=>(const GpuStream&) const = default;
};

struct HostThread {
  std::int64_t process = 0, thread = 0;

  auto operator<=>(const HostThread&) const = default;
};

struct Timeline {
  std::string file;
  std::string format;  // "Kineto", "Nsight Systems"
  StringTable strings;
  HostOps ops;
  PythonCalls python;
  RuntimeCalls calls;
  Overheads overheads;
  Sleeps sleeps;
  GpuActivities gpu;
  MemoryEvents memory;
  std::vector<HostThread> threads;
  std::vector<GpuStream> streams;
  // Distinct values, many rows each; entry 0 of each stands for "not recorded".
  std::vector<OpArguments> arguments{1};
  std::vector<LaunchShape> launches{1};
  std::vector<CopyShape> copies{1};
  std::vector<CollectiveShape> collectives{1};

  std::vector<TraceDevice> devices;
  std::optional<std::int64_t> rank, world_size;
  // What the profiler recorded; absent flags are false.
  bool has_shapes = false, has_stacks = false, has_memory = false;
  bool is_foreign = false;                      // recorded on another maker's accelerator
  bool submits_in_batches = false;              // the driver collects launches, as on Windows
  Nanoseconds base = 0;                         // the recording's zero since the epoch; 0 = unknown
  std::map<std::string, std::int64_t> skipped;  // records left out: name -> count
};

}  // namespace rooftile
