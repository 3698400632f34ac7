// The records of an Nsight Systems export that Rooftile reads, as the file has them. Tables and
// columns come and go with the version; what a file lacks is 0 here unless said otherwise.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rooftile/formats/nsys/database.h"

namespace rooftile::nsys_format {

// The tables that the functions below read.
inline constexpr std::string_view kKernels = "CUPTI_ACTIVITY_KIND_KERNEL";
inline constexpr std::string_view kCopies = "CUPTI_ACTIVITY_KIND_MEMCPY";
inline constexpr std::string_view kFills = "CUPTI_ACTIVITY_KIND_MEMSET";
inline constexpr std::string_view kGraphRuns = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE";
inline constexpr std::string_view kCalls = "CUPTI_ACTIVITY_KIND_RUNTIME";
inline constexpr std::string_view kWaits = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION";
inline constexpr std::string_view kRanges = "NVTX_EVENTS";
inline constexpr std::string_view kSystemCalls = "OSRT_API";
inline constexpr std::string_view kSchedule = "SCHED_EVENTS";
inline constexpr std::string_view kOverheads = "CUPTI_ACTIVITY_KIND_OVERHEAD";
inline constexpr std::string_view kOwnOverheads = "PROFILER_OVERHEAD";

// Nanoseconds since the start of the session.
struct Times {
  std::int64_t start = 0, end = 0;
  bool valid = false;  // both are recorded, in order and within 2^61
};

// What all activities of a GPU have.
struct GpuRecord {
  Times time;
  std::int64_t device = 0, context = 0, stream = 0;
  std::int64_t correlation = 0;
  std::int64_t global_pid = 0;
};

struct KernelRecord : GpuRecord {
  std::int64_t name = 0;  // StringIds: demangled, else mangled, else short
  std::array<std::int64_t, 3> grid{}, block{};
  std::int64_t registers = 0, static_shared_bytes = 0, dynamic_shared_bytes = 0;
};

// Copies and fills. The kinds are ids of ENUM_CUDA_MEMCPY_OPER and ENUM_CUDA_MEM_KIND; -1 = not
// recorded.
struct TransferRecord : GpuRecord {
  std::int64_t bytes = 0;
  std::int64_t copy_kind = -1, source_kind = -1, target_kind = -1;
};

struct GraphRunRecord : GpuRecord {
  std::int64_t graph = 0;
};

// CUDA runtime and driver calls; calls of the system; what CUPTI and the recorder do meanwhile.
struct CallRecord {
  Times time;
  std::int64_t global_tid = 0, correlation = 0;
  std::int64_t name = 0;  // StringIds
};

// A thread comes onto a CPU or leaves it.
struct ScheduleRecord {
  std::int64_t at = 0, global_tid = 0;
  bool runs = false;  // from then on
};

// A wait of the host, as CUPTI records it beside the call that waits.
struct WaitRecord {
  Times time;
  std::int64_t global_pid = 0, correlation = 0;
  std::int64_t kind = 0;  // ENUM_CUPTI_SYNC_TYPE
};

struct RangeRecord {
  Times time;
  std::int64_t type = 0;  // ENUM_NSYS_EVENT_TYPE
  bool has_end = false;
  std::int64_t global_tid = 0;
  std::string_view text;             // valid until the next record
  std::optional<std::int64_t> name;  // StringIds, where `text` is empty
};

// Each visits the records of its table; nothing happens where the file has no such table.
Scan read_kernels(const Database& database, const std::function<void(const KernelRecord&)>& visit);
Scan read_copies(const Database& database, const std::function<void(const TransferRecord&)>& visit);
Scan read_fills(const Database& database, const std::function<void(const TransferRecord&)>& visit);
Scan read_graph_runs(const Database& database,
                     const std::function<void(const GraphRunRecord&)>& visit);
Scan read_calls(const Database& database, const std::function<void(const CallRecord&)>& visit);
Scan read_system_calls(const Database& database,
                       const std::function<void(const CallRecord&)>& visit);
Scan read_schedule(const Database& database,
                   const std::function<void(const ScheduleRecord&)>& visit);
Scan read_overheads(const Database& database, const std::function<void(const CallRecord&)>& visit);
Scan read_own_overheads(const Database& database,
                        const std::function<void(const CallRecord&)>& visit);
Scan read_waits(const Database& database, const std::function<void(const WaitRecord&)>& visit);
Scan read_ranges(const Database& database, const std::function<void(const RangeRecord&)>& visit);

struct GpuInfo {
  std::int64_t id = 0;
  std::string name;
  std::int64_t memory_bytes = 0, sm_count = 0, major = 0, minor = 0;
};

// CUDA's number of a GPU in one process, which CUDA_VISIBLE_DEVICES changes.
struct VisibleGpu {
  std::int64_t gpu = 0, cuda_device = 0, process = 0;
};

struct ExportInfo {
  std::string product_version, schema_version;  // "2024.6.2.25", "3.16.1"; empty = not recorded
  bool is_time_normalized = false;              // timestamps count from the epoch already
  std::int64_t session_start = 0;               // since the epoch; 0 = not recorded
  std::vector<GpuInfo> gpus;
  std::vector<VisibleGpu> visible;
  std::int64_t pageable_kind = 0;  // id of pageable host memory in ENUM_CUDA_MEM_KIND
  std::string environment;         // of the profiled command: "A=1;B=2"
  bool is_windows = false;         // the GPU's driver is that of Windows, also below WSL
};

ExportInfo read_export_info(const Database& database);

// Whether the tables are those of an Nsight Systems export.
bool has_export_tables(const Database& database);

}  // namespace rooftile::nsys_format
