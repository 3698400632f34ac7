// What a change to a recorded program gives back in the time of a step.
#pragma once

#include <vector>

#include "rooftile/workload/trace_summary.h"

namespace rooftile {

// Mean per step of a time summed over the window.
Seconds per_step(const TraceSummary& trace, Seconds in_window);

// The window's part, at most 1, of what a summary counts in the whole recording.
double window_part(const TraceSummary& trace);
std::int64_t window_count(const TraceSummary& trace, std::int64_t recorded);
// The same of what the tables of the window hold: all of it, but for summaries of earlier versions.
double table_part(const TraceSummary& trace);
std::int64_t table_count(const TraceSummary& trace, std::int64_t in_table);

// True when the host is seen to hold the GPU up for a good part of the window.
bool is_host_bound(const TraceSummary& trace);

// Kernel time at the least that ran while another kernel ran, on any stream.
Seconds overlapped_kernel_time(const TraceSummary& trace);

// Time of the window saved when kernels take `saved` less. Certain is only what neither overlap
// with other kernels nor a host that is late anyway can swallow; likely is the part that shortens
// the replayed window, or else the share of the time in which the GPU and not the host sets the
// pace.
Range<Seconds> gain_of_kernel_time(const TraceSummary& trace, const Range<Seconds>& saved);

// Time of the window saved when something goes away that leaves the GPU idle for `exposed`: all of
// it, and at the low end half, since the next thing that holds the host up may take over.
Range<Seconds> gain_of_idle_time(Seconds exposed);

// The same where the remedy has a replay: the share of `exposed` in what the remedy saves, if that
// is less.
Range<Seconds> gain_of_idle_time(const TraceSummary& trace, Remedy remedy, Seconds exposed);

// A gain of the window, held to what the window is longer than the work that stays: that of the
// host in operators and calls, and the computation on the GPU.
Range<Seconds> capped_by_work(const TraceSummary& trace, Range<Seconds> gain);

// How many times as fast the program is when the window is `saved` shorter.
double speedup(const TraceSummary& trace, Seconds saved);

}  // namespace rooftile
