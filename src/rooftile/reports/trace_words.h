// What a recording says about its time, in words and tables.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "rooftile/findings/report.h"
#include "rooftile/reports/layout.h"
#include "rooftile/workload/trace_summary.h"

namespace rooftile {

// "ProfilerStep marks": how steps were told apart; empty without steps.
std::string_view step_source_words(StepSource source);

// "537 MB to the GPU at 5.38 GB/s, 537 MB to the host at 1.73 GB/s, pageable"; empty without
// copies.
std::string transfers_words(const TraceSummary& trace);

// "ncu --kernel-name 'step'": how to look into a kernel.
std::string ncu_command(std::string_view kernel);

// "allocating GPU memory": why a GPU is idle.
std::string_view idle_words(IdleCause cause);

// The verdict on the time of a pass: how long, how busy the GPU is, and what was not recorded.
std::vector<std::string> trace_lines(const Report& report);

// Whether nothing, or next to nothing, of the recording is set aside.
bool is_judged_whole(const TraceSummary& trace);

// Whether there is a pass to tell of: without kernels there is none.
bool has_pass(const TraceSummary& trace);

// A part of the time of a pass.
struct PassPart {
  std::string name;
  Seconds time;  // in the window
  double share = 0;
};

// Where the time of a pass goes: compute, exposed communication and copies, idle by cause.
std::vector<PassPart> pass_parts(const TraceSummary& trace, bool is_of_several);
TextTable pass_table(const TraceSummary& trace, bool is_of_several);

// One row per rank, for several.
TextTable ranks_table(const Report& report);

}  // namespace rooftile
