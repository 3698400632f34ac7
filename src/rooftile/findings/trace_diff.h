// What changed between two recordings; a renderer needs nothing else. Times and counts are means
// over the paired ranks, per step where both sides have steps.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rooftile/base/units.h"

namespace rooftile {

struct ChangedTime {
  Seconds before, after;

  Seconds change() const { return after - before; }  // below 0: the second is faster
};

struct ChangedCount {
  double before = 0, after = 0;
};

struct TraceDiffSide {
  std::vector<std::string> files;
  std::string format, gpu;  // "Kineto", "NVIDIA A100-SXM4-80GB"; empty = not recorded
  std::int64_t ranks = 0;   // recordings given
  double steps = 0;         // complete steps of a rank, mean; 0 = none found
};

// One part of the span: "compute", "exposed_communication", "exposed_copy", "idle.data_loading" …
struct TraceDiffPart {
  std::string key;
  ChangedTime time;
};

// An operator at one shape. A side without it has no runs.
struct TraceDiffOp {
  std::string name, phase;                  // "aten::addmm", "backward"
  std::string shapes_before, shapes_after;  // "4096×768, 768×3072 BFloat16"; empty = not recorded
  ChangedCount runs;
  ChangedTime kernels, host;                // sums
  std::string kernel_before, kernel_after;  // the largest of its kernels
};

// A kernel by its name, or one that took the place of another under the same operator: then the
// names differ. A side without it has an empty name.
struct TraceDiffKernel {
  std::string before, after;
  std::string op;  // the operator by which two names belong together
  ChangedCount runs;
  ChangedTime time;  // sums
};

struct TraceDiff {
  TraceDiffSide before, after;
  bool is_per_step = false;
  std::int64_t paired_ranks = 0;
  ChangedTime span;
  // Robust standard deviation of the step, of the side where it is larger; empty with less than
  // three steps.
  std::optional<Seconds> spread;
  std::vector<TraceDiffPart> parts;  // add up to the span; the largest change first
  ChangedTime gpu_busy, communication, copy, kernel_time, launch_time;
  ChangedCount kernel_runs;
  // What changed by more than measurements do, the largest change first.
  std::vector<TraceDiffOp> ops;
  std::vector<TraceDiffKernel> kernels;
  double same_ops = 0, same_kernels = 0;  // the others
  std::vector<std::string> notes;
};

enum class TraceVerdict { faster, slower, noise };

// `noise` where the span changed by less than the steps vary, or by nothing worth a word.
TraceVerdict verdict_of(const TraceDiff& diff);

}  // namespace rooftile
