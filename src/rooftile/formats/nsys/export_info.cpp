// What an export says about itself and the machine.
#include <algorithm>

#include "rooftile/base/text.h"
#include "rooftile/formats/nsys/records.h"

namespace rooftile::nsys_format {
namespace {

// Machines have far fewer; a hostile file may list millions.
constexpr std::size_t kMostInfoRows = 4096;

// Visits rows of a small table.
void read_small(const Database& database, std::string_view name,
                std::initializer_list<std::string_view> columns,
                const std::function<void(const Row&)>& visit) {
  const Table* const table = database.find(name);
  if (table == nullptr) return;
  std::size_t rows = 0;
  database.scan(*table, {columns.begin(), columns.size()}, [&](const Row& row) {
    if (++rows <= kMostInfoRows) visit(row);
  });
}

void read_meta_data(const Database& database, ExportInfo& info) {
  for (const char* table : {"META_DATA_EXPORT", "EXPORT_META_DATA"}) {
    read_small(database, table, {"name", "value"}, [&](const Row& row) {
      const std::string_view name = row.text(0);
      if (name == "EXPORT_PRODUCT_VERSION") info.product_version = row.text(1);
      if (name == "EXPORT_SCHEMA_VERSION") info.schema_version = row.text(1);
      if (name.ends_with("TIME_NORMALIZE")) info.is_time_normalized = row.text(1) == "true";
    });
  }
}

void read_gpus(const Database& database, ExportInfo& info) {
  read_small(database, "TARGET_INFO_GPU",
             {"id", "name", "totalMemory", "smCount", "computeMajor", "computeMinor"},
             [&](const Row& row) {
               info.gpus.push_back({row.integer(0), std::string(row.text(1)), row.integer(2),
                                    row.integer(3), row.integer(4), row.integer(5)});
             });
  // Of older exports; the size is in MiB.
  if (info.gpus.empty()) {
    read_small(database, "TARGET_INFO_CUDA_GPU",
               {"deviceId", "name", "globalMemorySize", "numMultiprocessors",
                "computeCapabilityMajor", "computeCapabilityMinor", "pid"},
               [&](const Row& row) {
                 constexpr std::int64_t kMost = 1 << 24, kMebibyte = 1 << 20;
                 const std::int64_t size = std::clamp<std::int64_t>(row.integer(2), 0, kMost);
                 info.gpus.push_back({row.integer(0), std::string(row.text(1)), size * kMebibyte,
                                      row.integer(3), row.integer(4), row.integer(5)});
                 info.visible.push_back({row.integer(0), row.integer(0), row.integer(6)});
               });
  }
  read_small(database, "TARGET_INFO_CUDA_DEVICE", {"gpuId", "cudaId", "pid"}, [&](const Row& row) {
    const auto gpu = row.find_integer(0), device = row.find_integer(1), pid = row.find_integer(2);
    if (gpu && device && pid) info.visible.push_back({*gpu, *device, *pid});
  });
}

}  // namespace

ExportInfo read_export_info(const Database& database) {
  ExportInfo info;
  read_meta_data(database, info);
  read_gpus(database, info);
  read_small(database, "TARGET_INFO_SESSION_START_TIME", {"utcEpochNs"}, [&](const Row& row) {
    info.session_start = std::max<std::int64_t>(0, row.integer(0));
  });
  read_small(database, "ENUM_CUDA_MEM_KIND", {"id", "label"}, [&](const Row& row) {
    if (lower(row.text(1)) == "pageable") info.pageable_kind = row.integer(0);
  });
  read_small(database, "TARGET_INFO_SYSTEM_ENV", {"name", "value"}, [&](const Row& row) {
    const std::string_view name = row.text(0), value = row.text(1);
    if (name == "DeviceEnvironment") info.environment = value;
    const bool is_windows = (name == "SoftwarePlatform" && value == "Windows") ||
                            (name == "SoftwareReleaseVersion" && contains(lower(value), "wsl"));
    info.is_windows = info.is_windows || is_windows;
  });
  return info;
}

bool has_export_tables(const Database& database) {
  if (database.find("META_DATA_EXPORT") != nullptr) return true;
  if (database.find("EXPORT_META_DATA") != nullptr) return true;
  if (database.find("StringIds") == nullptr) return false;
  return std::any_of(database.tables().begin(), database.tables().end(), [](const Table& table) {
    return table.name.starts_with("CUPTI_ACTIVITY_KIND_") || table.name == kRanges ||
           table.name.starts_with("TARGET_INFO_");
  });
}

}  // namespace rooftile::nsys_format
