// Reads several files, side by side where their readers allow it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rooftile/base/result.h"
#include "rooftile/readers/reader.h"
#include "rooftile/workload/trace_summary.h"
#include "rooftile/workload/workload.h"

namespace rooftile {

// What became of the options that set sizes and precision.
struct OptionUse {
  std::string_view takes;           // those of the format, as Reader has them
  std::vector<std::string> unused;  // those given that had no effect: "--seq", "--dim tokens"
};

// What one file holds: a model in the wanted precision and mode, or recordings.
struct Piece {
  Workload model;
  std::vector<TraceSummary> traces;
  OptionUse options;
};

// Those that are given, as flags.
std::vector<std::string> given_flags(const ReadOptions& options);

// The forward workload in the precision and mode that the options ask for.
Workload in_wanted_form(Workload workload, const ReadOptions& options);

// By path. The error is that of the first path, in the order given, that cannot be read.
Result<std::vector<Piece>> read_pieces(std::span<const std::string> paths,
                                       const ReadOptions& options);

}  // namespace rooftile
