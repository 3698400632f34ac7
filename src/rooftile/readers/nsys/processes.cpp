#include "rooftile/readers/nsys/processes.h"

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace rooftile {
namespace {

using nsys_format::Database;
using nsys_format::Table;

constexpr std::size_t kMostProcesses = 1024;

// Whether every event says which process it belongs to; old exports may not.
bool name_processes(const Database& database) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kColumns{
      {{nsys_format::kKernels, "globalPid"},
       {nsys_format::kCopies, "globalPid"},
       {nsys_format::kFills, "globalPid"},
       {nsys_format::kGraphRuns, "globalPid"},
       {nsys_format::kCalls, "globalTid"},
       {nsys_format::kRanges, "globalTid"}}};
  return std::ranges::all_of(kColumns, [&](const auto& entry) {
    const Table* const table = database.find(entry.first);
    return table == nullptr || table->has(entry.second);
  });
}

std::size_t events_of(const Timeline& timeline) {
  return timeline.gpu.time.size() + timeline.calls.time.size() + timeline.ops.time.size();
}

// The GPU that a process keeps busy longest; -1 without work on one.
std::int32_t main_gpu(const Timeline& timeline) {
  std::map<std::int32_t, Nanoseconds> busy;
  for (std::size_t row = 0; row < timeline.gpu.time.size(); ++row) {
    busy[timeline.streams[timeline.gpu.stream[row]].device] += timeline.gpu.time.duration(row);
  }
  const auto most = std::ranges::max_element(
      busy, [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == busy.end() ? -1 : most->first;
}

// The number by which the process calls its GPU, then the GPU's own: where each process sees all
// GPUs, ranks have the former.
std::pair<std::int64_t, std::int32_t> place_of(const Timeline& timeline,
                                               const nsys_format::ExportInfo& info) {
  const std::int32_t gpu = main_gpu(timeline);
  std::int64_t number = gpu;
  for (const nsys_format::VisibleGpu& visible : info.visible) {
    const bool is_of_process = !timeline.threads.empty() &&
                               (visible.process & kNsysIdMask) == timeline.threads.front().process;
    if (is_of_process && visible.gpu == gpu) number = visible.cuda_device;
  }
  return {number, gpu};
}

}  // namespace

void number_ranks(std::vector<Timeline>& processes) {
  std::set<std::int32_t> gpus;
  for (const Timeline& process : processes) gpus.insert(main_gpu(process));
  if (gpus.size() != processes.size()) return;
  for (std::size_t i = 0; i < processes.size(); ++i) {
    processes[i].rank = static_cast<std::int64_t>(i);
    processes[i].world_size = static_cast<std::int64_t>(processes.size());
  }
}

NsysProcesses::NsysProcesses(const Database& database, const nsys_format::ExportInfo& info)
    : info_(info),
      texts_(database, database.find("StringIds"), "id", "value"),
      are_told_apart_(name_processes(database)) {}

NsysTables* NsysProcesses::tables_of(std::int64_t global_id) {
  const std::int64_t id = are_told_apart_ ? nsys_process_of(global_id) : 0;
  if (id == last_id_) return last_;
  auto found = processes_.find(id);
  if (found == processes_.end()) {
    if (processes_.size() == kMostProcesses) {
      ++beyond_;
      return nullptr;
    }
    found = processes_.emplace(id, std::make_unique<Process>(info_, texts_)).first;
  }
  last_id_ = id;
  last_ = &found->second->tables;
  return last_;
}

NsysTables* NsysProcesses::known_tables_of(std::int64_t global_id) const {
  const auto found = processes_.find(are_told_apart_ ? nsys_process_of(global_id) : 0);
  return found == processes_.end() ? nullptr : &found->second->tables;
}

bool NsysProcesses::has_calls() const {
  return std::ranges::any_of(
      processes_, [](const auto& entry) { return entry.second->timeline.calls.time.size() > 0; });
}

std::vector<Timeline> NsysProcesses::finish() {
  std::vector<Timeline> recordings, others;
  for (auto& [id, process] : processes_) {
    const bool works = process->timeline.gpu.time.size() > 0;
    (works ? recordings : others).push_back(std::move(process->timeline));
  }
  std::ranges::stable_sort(recordings, {},
                           [&](const Timeline& recording) { return place_of(recording, info_); });
  std::string_view name = "events of processes without work on a GPU";
  if (recordings.empty()) {
    name = "events of other processes";
    const auto largest = std::ranges::max_element(others, {}, events_of);
    recordings.push_back(largest == others.end() ? Timeline() : std::move(*largest));
    if (largest != others.end()) others.erase(largest);
  }
  std::map<std::string, std::int64_t>& skipped = recordings.front().skipped;
  for (const Timeline& other : others) {
    if (events_of(other) > 0)
      skipped[std::string(name)] += static_cast<std::int64_t>(events_of(other));
    for (const auto& [reason, count] : other.skipped) skipped[reason] += count;
  }
  if (beyond_ > 0) skipped["events of processes beyond 1024"] += beyond_;
  return recordings;
}

}  // namespace rooftile
