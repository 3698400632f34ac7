// Reads several files, side by side where their readers allow it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "rooftile/base/result.h"
#include "rooftile/readers/reader.h"
#include "rooftile/workload/trace_summary.h"
#include "rooftile/workload/workload.h"

namespace rooftile {

// What one file holds: a model in the wanted precision and mode, or recordings.
struct Piece {
  Workload model;
  std::vector<TraceSummary> traces;
};

// By path. The error is that of the first path, in the order given, that cannot be read.
Result<std::vector<Piece>> read_pieces(std::span<const std::string> paths,
                                       const ReadOptions& options);

}  // namespace rooftile
