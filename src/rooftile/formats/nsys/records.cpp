#include "rooftile/formats/nsys/records.h"

#include <initializer_list>

namespace rooftile::nsys_format {
namespace {

// Twice this still fits, so that differences and sums cannot overflow.
constexpr std::int64_t kLatest = std::int64_t{1} << 61;

Times times_of(const Row& row, int start, int end) {
  const auto first = row.find_integer(start), last = row.find_integer(end);
  if (!first || !last) return {};
  return {*first, *last, *first <= *last && *first > -kLatest && *last < kLatest};
}

// The first seven columns of every activity of a GPU.
constexpr int kGpuColumns = 7;

void fill_gpu_record(const Row& row, GpuRecord& record) {
  record.time = times_of(row, 0, 1);
  record.device = row.integer(2);
  record.context = row.integer(3);
  record.stream = row.integer(4);
  record.correlation = row.integer(5);
  record.global_pid = row.integer(6);
}

Scan scan_table(const Database& database, std::string_view name,
                std::initializer_list<std::string_view> columns,
                const std::function<void(const Row&)>& visit) {
  const Table* const table = database.find(name);
  if (table == nullptr) return {};
  return database.scan(*table, {columns.begin(), columns.size()}, visit);
}

Scan read_transfers(const Database& database, std::string_view table, bool is_copy,
                    const std::function<void(const TransferRecord&)>& visit) {
  return scan_table(database, table,
                    {"start", "end", "deviceId", "contextId", "streamId", "correlationId",
                     "globalPid", "bytes", "copyKind", is_copy ? "srcKind" : "memKind", "dstKind"},
                    [&](const Row& row) {
                      TransferRecord record;
                      fill_gpu_record(row, record);
                      record.bytes = row.integer(kGpuColumns);
                      record.copy_kind = row.integer(kGpuColumns + 1, -1);
                      record.source_kind = row.integer(kGpuColumns + 2, -1);
                      record.target_kind = row.integer(kGpuColumns + 3, -1);
                      visit(record);
                    });
}

Scan read_uncorrelated(const Database& database, std::string_view table,
                       const std::function<void(const CallRecord&)>& visit) {
  return scan_table(database, table, {"start", "end", "globalTid", "nameId"}, [&](const Row& row) {
    visit({times_of(row, 0, 1), row.integer(2), 0, row.integer(3)});
  });
}

}  // namespace

Scan read_kernels(const Database& database, const std::function<void(const KernelRecord&)>& visit) {
  constexpr int kName = kGpuColumns, kGrid = kName + 3, kBlock = kGrid + 3, kRest = kBlock + 3;
  return scan_table(
      database, kKernels,
      {"start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid",
       "demangledName", "mangledName", "shortName", "gridX", "gridY", "gridZ", "blockX", "blockY",
       "blockZ", "registersPerThread", "staticSharedMemory", "dynamicSharedMemory"},
      [&](const Row& row) {
        KernelRecord record;
        fill_gpu_record(row, record);
        auto name = row.find_integer(kName);
        for (int other = 1; !name && other < 3; ++other) name = row.find_integer(kName + other);
        record.name = name.value_or(0);
        for (int axis = 0; axis < 3; ++axis) {
          record.grid[static_cast<std::size_t>(axis)] = row.integer(kGrid + axis);
          record.block[static_cast<std::size_t>(axis)] = row.integer(kBlock + axis);
        }
        record.registers = row.integer(kRest);
        record.static_shared_bytes = row.integer(kRest + 1);
        record.dynamic_shared_bytes = row.integer(kRest + 2);
        visit(record);
      });
}

Scan read_copies(const Database& database,
                 const std::function<void(const TransferRecord&)>& visit) {
  return read_transfers(database, kCopies, true, visit);
}

Scan read_fills(const Database& database, const std::function<void(const TransferRecord&)>& visit) {
  return read_transfers(database, kFills, false, visit);
}

Scan read_graph_runs(const Database& database,
                     const std::function<void(const GraphRunRecord&)>& visit) {
  return scan_table(database, kGraphRuns,
                    {"start", "end", "deviceId", "contextId", "streamId", "correlationId",
                     "globalPid", "graphId"},
                    [&](const Row& row) {
                      GraphRunRecord record;
                      fill_gpu_record(row, record);
                      record.graph = row.integer(kGpuColumns);
                      visit(record);
                    });
}

Scan read_calls(const Database& database, const std::function<void(const CallRecord&)>& visit) {
  return scan_table(database, kCalls, {"start", "end", "globalTid", "correlationId", "nameId"},
                    [&](const Row& row) {
                      visit({times_of(row, 0, 1), row.integer(2), row.integer(3), row.integer(4)});
                    });
}

Scan read_system_calls(const Database& database,
                       const std::function<void(const CallRecord&)>& visit) {
  return read_uncorrelated(database, kSystemCalls, visit);
}

Scan read_overheads(const Database& database, const std::function<void(const CallRecord&)>& visit) {
  return read_uncorrelated(database, kOverheads, visit);
}

Scan read_own_overheads(const Database& database,
                        const std::function<void(const CallRecord&)>& visit) {
  return read_uncorrelated(database, kOwnOverheads, visit);
}

Scan read_schedule(const Database& database,
                   const std::function<void(const ScheduleRecord&)>& visit) {
  return scan_table(database, kSchedule, {"start", "globalTid", "isSchedIn"}, [&](const Row& row) {
    visit({row.integer(0), row.integer(1), row.integer(2) != 0});
  });
}

Scan read_waits(const Database& database, const std::function<void(const WaitRecord&)>& visit) {
  return scan_table(database, kWaits, {"start", "end", "globalPid", "correlationId", "syncType"},
                    [&](const Row& row) {
                      visit({times_of(row, 0, 1), row.integer(2), row.integer(3), row.integer(4)});
                    });
}

Scan read_ranges(const Database& database, const std::function<void(const RangeRecord&)>& visit) {
  return scan_table(database, kRanges, {"start", "end", "eventType", "globalTid", "text", "textId"},
                    [&](const Row& row) {
                      RangeRecord record;
                      record.time = times_of(row, 0, 1);
                      record.has_end = row.find_integer(1).has_value();
                      record.type = row.integer(2);
                      record.global_tid = row.integer(3);
                      record.text = row.text(4);
                      if (record.text.empty()) record.name = row.find_integer(5);
                      visit(record);
                    });
}

}  // namespace rooftile::nsys_format
