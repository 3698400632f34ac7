// Two workloads on one GPU, operation by operation; a renderer needs nothing else.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "rooftile/findings/report.h"

namespace rooftile {

// An operation of both sides, or of one; times are of all its runs.
struct ComparedOp {
  std::optional<OpRow> before, after;
  // Time that the new side saves; below 0 where it takes longer. Narrower than the difference of
  // the two ranges, because two estimates of one model share most of their error.
  Range<Seconds> saving;
};

struct ComparedSide {
  std::vector<std::string> inputs;
  Range<Seconds> total;
  Flop flop;
  Bytes bytes;
  Coverage coverage;
};

struct Comparison {
  DeviceSummary device;
  ComparedSide before, after;
  Range<Seconds> saving;
  std::vector<ComparedOp> changed;  // the largest effect first
  double unchanged = 0;             // operations that are the same on both sides
  std::vector<std::string> notes;
};

// Which side the model holds to be faster; `unclear` where its range includes no difference,
// `unknown` where too few operations of a side have a time.
enum class Verdict { faster, slower, unclear, same, unknown };
Verdict verdict_of(const Comparison& comparison);

}  // namespace rooftile
