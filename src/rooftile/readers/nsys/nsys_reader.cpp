#include "rooftile/readers/nsys/nsys_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <optional>
#include <system_error>
#include <utility>

#include "rooftile/base/byte_stream.h"
#include "rooftile/base/file.h"
#include "rooftile/base/inflater.h"
#include "rooftile/base/run_limits.h"
#include "rooftile/base/text.h"
#include "rooftile/formats/nsys/database.h"
#include "rooftile/formats/nsys/records.h"
#include "rooftile/readers/nsys/processes.h"
#include "rooftile/readers/nsys/tables.h"
#include "rooftile/readers/reader.h"

namespace rooftile {
namespace {

using nsys_format::Database;
using nsys_format::ExportInfo;
using nsys_format::Scan;
using nsys_format::Table;
using Progress = std::function<void(std::uint64_t, std::uint64_t)>;

constexpr std::string_view kHowToExport =
    "export it with 'nsys export --type sqlite --output trace.sqlite FILE'";
constexpr std::array<std::string_view, 10> kReadTables{
    nsys_format::kKernels,     nsys_format::kCopies,      nsys_format::kFills,
    nsys_format::kGraphRuns,   nsys_format::kCalls,       nsys_format::kRanges,
    nsys_format::kSchedule,    nsys_format::kSystemCalls, nsys_format::kOverheads,
    nsys_format::kOwnOverheads};

bool is_own_file(std::string_view path) {
  const std::string name = lower(path);
  return name.ends_with(".nsys-rep") || name.ends_with(".qdrep") || name.ends_with(".qdstrm");
}

constexpr std::string_view kMagic = "SQLite format 3";

bool is_sqlite(std::string_view head) { return head.starts_with(kMagic); }

// Reports progress in the file's bytes, by the share of the rows that were read.
class RowProgress {
 public:
  RowProgress(const Database& database, const Progress& progress)
      : progress_(progress), bytes_(static_cast<double>(database.bytes())) {
    for (const std::string_view name : kReadTables) {
      if (const Table* table = database.find(name)) all_ += static_cast<double>(table->rows);
    }
    all_ = std::max(all_, 1.0);
  }

  void count_row() {
    if (++rows_ % kRowsPerReport == 0) report(std::min(1.0, static_cast<double>(rows_) / all_));
  }
  void finish() const { report(1); }

 private:
  static constexpr std::int64_t kRowsPerReport = 1 << 14;

  void report(double share) const {
    if (!progress_) return;
    progress_(static_cast<std::uint64_t>(bytes_ * share), static_cast<std::uint64_t>(bytes_));
  }

  const Progress& progress_;
  double bytes_, all_ = 0;
  std::int64_t rows_ = 0;
};

using Skipped = std::map<std::string, std::int64_t>;

void count_losses(std::string_view table, const Scan& scan, Skipped& skipped) {
  const auto count = [&](const std::string& what, std::int64_t rows) {
    if (rows > 0) skipped[fmt::format("{}: {}", table, what)] += rows;
  };
  const std::int64_t rests = scan.is_cut_off ? 1 : 0;
  if (const std::string_view limit = reading_must_end(); !limit.empty()) {
    return count(fmt::format("rest of the table: {}", limit), std::max(rests, scan.lost));
  }
  count("damaged rows", scan.lost);
  count("rest of a damaged table", rests);
}

std::int64_t global_id_of(const nsys_format::GpuRecord& record) { return record.global_pid; }
std::int64_t global_id_of(const nsys_format::WaitRecord& record) { return record.global_pid; }
std::int64_t global_id_of(const nsys_format::CallRecord& record) { return record.global_tid; }
std::int64_t global_id_of(const nsys_format::RangeRecord& record) { return record.global_tid; }

std::int64_t read_rows(const Database& database, NsysProcesses& processes, RowProgress& progress,
                       Skipped& skipped) {
  std::int64_t read = 0;
  const auto note = [&](std::string_view table, const Scan& scan) {
    count_losses(table, scan, skipped);
    read += scan.read;
  };
  const auto adder = [&](const auto& record) {
    if (NsysTables* const tables = processes.tables_of(global_id_of(record))) tables->add(record);
    progress.count_row();
  };
  note(nsys_format::kKernels, read_kernels(database, adder));
  note(nsys_format::kGraphRuns, read_graph_runs(database, adder));
  note(nsys_format::kCopies, read_copies(database, [&](const nsys_format::TransferRecord& record) {
         NsysTables* const tables = processes.tables_of(record.global_pid);
         if (tables != nullptr) tables->add_copy(record);
         progress.count_row();
       }));
  note(nsys_format::kFills, read_fills(database, [&](const nsys_format::TransferRecord& record) {
         NsysTables* const tables = processes.tables_of(record.global_pid);
         if (tables != nullptr) tables->add_fill(record);
         progress.count_row();
       }));
  note(nsys_format::kCalls, read_calls(database, adder));
  // Each wait repeats a call, so it only counts where calls were not recorded.
  if (!processes.has_calls()) note(nsys_format::kWaits, read_waits(database, adder));
  note(nsys_format::kRanges, read_ranges(database, adder));
  const std::int64_t events = read;  // these tell what kept threads, not what they did
  const auto known_adder = [&](void (NsysTables::*add)(const nsys_format::CallRecord&)) {
    return [&, add](const nsys_format::CallRecord& record) {
      NsysTables* const tables = processes.known_tables_of(record.global_tid);
      if (tables != nullptr) (tables->*add)(record);
      progress.count_row();
    };
  };
  note(nsys_format::kSystemCalls,
       read_system_calls(database, known_adder(&NsysTables::add_system_call)));
  note(nsys_format::kOverheads, read_overheads(database, known_adder(&NsysTables::add_overhead)));
  note(nsys_format::kOwnOverheads,
       read_own_overheads(database, known_adder(&NsysTables::add_overhead)));
  std::vector<nsys_format::ScheduleRecord> schedule;  // in the file by CPU
  note(nsys_format::kSchedule,
       read_schedule(database, [&](const nsys_format::ScheduleRecord& record) {
         if (processes.known_tables_of(record.global_tid) != nullptr) schedule.push_back(record);
         progress.count_row();
       }));
  std::ranges::stable_sort(schedule, {}, &nsys_format::ScheduleRecord::at);
  for (const nsys_format::ScheduleRecord& record : schedule) {
    processes.known_tables_of(record.global_tid)->add(record);
  }
  return events;
}

// Tables of other events: sampling, operating-system calls, GPU metrics …
void count_other_tables(const Database& database, Skipped& skipped) {
  for (const Table& table : database.tables()) {
    const bool is_read = std::ranges::find(kReadTables, table.name) != kReadTables.end();
    const bool is_known = table.name == nsys_format::kWaits || table.name == "DIAGNOSTIC_EVENT";
    const bool has_events = table.has("start") || table.has("timestamp");
    if (is_read || is_known || !has_events || table.rows <= 0) continue;
    skipped["table " + rooftile::quoted(table.name)] += table.rows;
  }
}

// "B=2" of "A=1;B=2", where it is a whole number.
std::optional<std::int64_t> variable(std::string_view environment, std::string_view name) {
  for (const std::string_view entry : split(environment, ';')) {
    if (entry.starts_with(name) && entry.substr(name.size()).starts_with('=')) {
      return parse_integer(entry.substr(name.size() + 1));
    }
  }
  return std::nullopt;
}

struct RankOf {
  std::int64_t rank, world_size;
};

// Launchers of ranks: torchrun, Open MPI, Slurm.
std::optional<RankOf> recorded_rank(const ExportInfo& info) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kLaunchers{
      {{"RANK", "WORLD_SIZE"},
       {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
       {"SLURM_PROCID", "SLURM_NTASKS"}}};
  for (const auto& [rank_name, size_name] : kLaunchers) {
    const auto rank = variable(info.environment, rank_name);
    const auto size = variable(info.environment, size_name);
    if (!rank || !size || *size < 2 || *rank < 0 || *rank >= *size) continue;
    return RankOf{*rank, *size};
  }
  return std::nullopt;
}

// The environment is that of the command which started all processes, so it numbers only one.
void set_ranks(const ExportInfo& info, std::vector<Timeline>& processes) {
  const std::optional<RankOf> recorded = recorded_rank(info);
  if (processes.size() > 1 && !recorded) number_ranks(processes);
  if (processes.size() > 1 || !recorded) return;
  processes.front().rank = recorded->rank;
  processes.front().world_size = recorded->world_size;
}

void describe(const ExportInfo& info, const std::string& path, Timeline& timeline) {
  timeline.file = path;
  timeline.format = "Nsight Systems";
  timeline.base = info.is_time_normalized ? 0 : info.session_start;
  timeline.submits_in_batches = info.is_windows;
  for (const nsys_format::GpuInfo& gpu : info.gpus) {
    timeline.devices.push_back(
        {static_cast<std::int32_t>(std::clamp<std::int64_t>(gpu.id, 0, 1 << 30)), gpu.name,
         static_cast<std::uint64_t>(std::max<std::int64_t>(0, gpu.memory_bytes)),
         static_cast<int>(std::clamp<std::int64_t>(gpu.sm_count, 0, 1 << 20)),
         static_cast<int>(std::clamp<std::int64_t>(gpu.major, 0, 1000)),
         static_cast<int>(std::clamp<std::int64_t>(gpu.minor, 0, 1000))});
  }
  std::ranges::sort(timeline.devices, {}, &TraceDevice::id);
}

// What another database is, as far as its tables tell.
Error not_an_export(const Database& database, const std::string& path) {
  if (database.find("StringTable") != nullptr &&
      database.find("CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL") != nullptr) {
    return {
        "is a recording of nvprof, which is not read; record with Nsight Systems: 'nsys profile' "
        "and 'nsys export --type sqlite'",
        path};
  }
  std::vector<std::string> names;
  for (const Table& table : database.tables()) {
    if (names.size() < 3) names.push_back(rooftile::quoted(table.name));
  }
  const std::string tables = names.empty() ? "it has no tables" : "it has " + join(names, ", ");
  return {fmt::format("is an SQLite database, but no export of Nsight Systems: {}", tables), path};
}

Result<std::vector<Timeline>> read_database(const Database& database, const std::string& path,
                                            const Progress& progress) {
  if (!nsys_format::has_export_tables(database)) {
    return tl::unexpected(not_an_export(database, path));
  }
  const ExportInfo info = read_export_info(database);
  RowProgress rows(database, progress);
  NsysProcesses processes(database, info);
  Skipped skipped;
  const std::int64_t read = read_rows(database, processes, rows, skipped);
  if (read == 0 && (database.is_damaged() || !skipped.empty())) {
    return fail("is a damaged export of Nsight Systems: no event could be read; " +
                    std::string("export it again"),
                path);
  }
  count_other_tables(database, skipped);
  if (database.is_damaged()) skipped["damaged file: whole tables may be missing"] = 1;
  std::vector<Timeline> recordings = processes.finish();
  for (Timeline& recording : recordings) describe(info, path, recording);
  set_ranks(info, recordings);
  for (const auto& [name, count] : skipped) recordings.front().skipped[name] += count;
  rows.finish();
  return recordings;
}

// SQLite reads a database in no order, so all of it must be in memory.
Result<std::vector<Timeline>> read_compressed(const std::string& path, const Progress& progress) {
  constexpr std::size_t kMost = std::size_t{512} << 20U;
  const auto stream = ByteStream::open(path);
  if (!stream) return tl::unexpected(stream.error());
  std::string bytes;
  for (auto block = (*stream)->next(); !block.empty(); block = (*stream)->next()) {
    const std::string_view limit = reading_must_end();
    if (bytes.size() + block.size() > kMost || !limit.empty()) {
      return fail(fmt::format("is a compressed SQLite database, which is read whole: {}; unpack it "
                              "with 'gunzip -k FILE'",
                              limit.empty() ? "it has more than 512 MiB" : limit),
                  path);
    }
    bytes += block;
  }
  std::string problem = (*stream)->problem();
  const Result<Database> database = Database::open_bytes(std::move(bytes));
  if (!database) return fail(database.error().message, path);
  Progress in_file;  // rows stand for the bytes of the file as it is
  std::error_code unknown;
  const auto size = std::filesystem::file_size(path, unknown);
  if (progress && !unknown) {
    in_file = [&](std::uint64_t done, std::uint64_t all) {
      const double share = static_cast<double>(done) / static_cast<double>(std::max(all, done));
      progress(static_cast<std::uint64_t>(share * static_cast<double>(size)), size);
    };
  }
  Result<std::vector<Timeline>> recordings = read_database(*database, path, in_file);
  if (recordings && !problem.empty()) recordings->front().skipped[problem] = 1;
  return recordings;
}

}  // namespace

bool is_nsys(std::string_view path, std::string_view head) {
  if (is_gzip(head)) {
    const auto inside = read_text_head(std::string(path), kMagic.size());
    return inside && is_sqlite(*inside);
  }
  return is_sqlite(head) || is_own_file(path);
}

Result<std::vector<Timeline>> read_nsys(const std::string& path, const Progress& progress) {
  const Result<std::string> head = read_head(path, kMagic.size());
  if (head && is_gzip(*head)) return read_compressed(path, progress);
  const Result<Database> database = Database::open(path);
  if (database) return read_database(*database, path, progress);
  Error error = database.error();
  if (is_own_file(path) && error.where.empty()) {
    error.message = fmt::format("is a recording in Nsight Systems' own form; {}", kHowToExport);
  }
  if (error.where.empty()) error.where = path;
  return tl::unexpected(error);
}

Result<std::vector<Timeline>> read_nsys_bytes(const std::string& bytes, const std::string& path) {
  const Result<Database> database = Database::open_bytes(bytes);
  if (!database) return fail(database.error().message, path);
  return read_database(*database, path, {});
}

namespace {

Result<std::vector<Timeline>> record_nsys(const std::string& path, const ReadOptions& options) {
  return read_nsys(path, options.progress);
}

}  // namespace

extern const Reader nsys_reader{.name = "nsys",
                                .recognises = is_nsys,
                                .record = record_nsys,
                                .reads_beside_others = true,
                                .instead_of_decode = {}};

}  // namespace rooftile
