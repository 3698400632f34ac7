// Builds a Timeline's tables from the records of one process: numbers threads, streams, names and
// shapes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "rooftile/formats/nsys/database.h"
#include "rooftile/formats/nsys/records.h"
#include "rooftile/workload/timeline.h"

namespace rooftile {

// Global ids hold the process in bits 24 to 47 and the thread below.
inline constexpr std::int64_t kNsysIdMask = 0xFFFFFF;

// The process that a global id of an export names.
std::int64_t nsys_process_of(std::int64_t global_id);

class NsysTables {
 public:
  // All must outlive the object; `texts` looks up in StringIds.
  NsysTables(const nsys_format::ExportInfo& info, const nsys_format::TextLookup& texts,
             Timeline& timeline);

  void add(const nsys_format::KernelRecord& record);
  void add_copy(const nsys_format::TransferRecord& record);
  void add_fill(const nsys_format::TransferRecord& record);
  void add(const nsys_format::GraphRunRecord& record);
  void add(const nsys_format::CallRecord& record);
  void add(const nsys_format::WaitRecord& record);
  void add(const nsys_format::RangeRecord& record);
  // Of threads that call CUDA or have ranges, so after those. By start.
  void add_system_call(const nsys_format::CallRecord& record);
  void add_overhead(const nsys_format::CallRecord& record);
  void add(const nsys_format::ScheduleRecord& record);

 private:
  // Each returns nothing where the Timeline's index is used up.
  std::optional<std::uint16_t> thread_of(std::int64_t global_tid);
  std::optional<std::uint16_t> stream_of(const nsys_format::GpuRecord& record);
  std::int32_t device_of(std::int64_t process, std::int64_t cuda_device) const;
  std::uint32_t name_of(std::int64_t string_id);
  std::uint32_t call_name_of(std::int64_t string_id);
  std::uint32_t launch_of(const nsys_format::KernelRecord& record);
  std::uint32_t copy_of(const CopyShape& shape);
  std::uint32_t arguments_of(std::string_view sizes);
  void skip(const std::string& name) { ++timeline_.skipped[name]; }
  void add_gpu(const nsys_format::GpuRecord& record, GpuKind kind, std::uint32_t name,
               std::uint32_t details, const char* plural);
  bool is_pageable(const nsys_format::TransferRecord& record) const;
  void add_sleep(std::int64_t global_tid, std::int64_t start, std::int64_t end);
  void add_named_range(const nsys_format::RangeRecord& record, std::string_view text);

  const nsys_format::ExportInfo& info_;
  Timeline& timeline_;
  const nsys_format::TextLookup& texts_;
  std::unordered_map<std::int64_t, std::uint32_t> names_, call_names_;
  std::unordered_map<std::int64_t, std::uint16_t> threads_;
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, std::uint16_t> streams_;
  std::map<LaunchShape, std::uint32_t> launches_;
  std::map<CopyShape, std::uint32_t> copies_;
  std::unordered_map<std::string, std::uint32_t> arguments_;
  std::pair<LaunchShape, std::uint32_t> last_launch_;
  std::unordered_map<std::int64_t, std::string> range_texts_;
  std::unordered_map<std::int64_t, std::int64_t> asleep_since_;  // by thread
};

}  // namespace rooftile
