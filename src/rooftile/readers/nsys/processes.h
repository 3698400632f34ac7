// Sorts the records of an export by process and makes a recording of each.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "rooftile/formats/nsys/database.h"
#include "rooftile/formats/nsys/records.h"
#include "rooftile/readers/nsys/tables.h"
#include "rooftile/workload/timeline.h"

namespace rooftile {

class NsysProcesses {
 public:
  // Both must outlive the object.
  NsysProcesses(const nsys_format::Database& database, const nsys_format::ExportInfo& info);

  // `global_id` names the record's process; null where it has too many before it, and the record is
  // then counted.
  NsysTables* tables_of(std::int64_t global_id);
  // The same, but only of a process that has records already.
  NsysTables* known_tables_of(std::int64_t global_id) const;
  bool has_calls() const;

  // Those with work on a GPU, by its number; where there is none, the one with most events, or an
  // empty recording. Events of all others are counted in the first one. Nothing is added after
  // that.
  std::vector<Timeline> finish();

 private:
  struct Process {
    Process(const nsys_format::ExportInfo& info, const nsys_format::TextLookup& texts)
        : tables(info, texts, timeline) {}
    Timeline timeline;
    NsysTables tables;
  };

  const nsys_format::ExportInfo& info_;
  nsys_format::TextLookup texts_;
  bool are_told_apart_;
  std::map<std::int64_t, std::unique_ptr<Process>> processes_;
  std::int64_t last_id_ = -1;
  NsysTables* last_ = nullptr;
  std::int64_t beyond_ = 0;
};

// Processes that each have a GPU of their own are the ranks of a job, numbered in this order. No
// rank is named where two share a GPU. All work on one.
void number_ranks(std::vector<Timeline>& processes);

}  // namespace rooftile
