// Words that more than one renderer uses.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "rooftile/findings/report.h"
#include "rooftile/reports/layout.h"

namespace rooftile {

std::string_view mode_name(Mode mode);

// As machines name levels; `minor` is their word for what is below a warning.
std::string_view severity_word(Level level, std::string_view minor);

// What a fix does to the results, for readers: "same result up to rounding"; empty where nothing
// changes.
std::string_view exactness_text(const Finding& finding);

// As in normal_path(), printable.
std::string shown_path(const std::string& path);

// Where a finding is: "workload.txt:3" and "vocab". The path alone where nothing else is known; a
// path without line stands only where there are `several_inputs`.
struct PlaceText {
  std::string path, name;

  std::string joined() const {
    return path.empty() || name.empty() ? path + name : path + ' ' + name;
  }
};
PlaceText place_text(const Provenance& location, bool several_inputs);

// "saves 0.8–1.5 ms, 12 %", "saving unknown"; empty for information, which saves nothing.
std::string saving_text(const Finding& finding, const Report& report);

// Work that a reader left out, by reason: "98 × unknown shape (49 Add, 37 MatMul, …)". Empty for
// none.
std::string skipped_text(const Report& report);

// "17 of 18 operations": how much of the workload the time stands for; empty where there is none.
std::string coverage_text(const Report& report);

// "14 Python files, 3,200 lines; 1 of 2 programs trains on a GPU"; empty without scripts.
std::string scripts_text(const Report& report);

// "3 findings allowed by comments; 12 known from the baseline", empty where there are none.
std::string set_aside_text(const Report& report);

// The answer when there is no finding; says so when nothing could be judged.
std::string nothing_found_text(const Report& report);

// Of MemorySummary::verdict: "does not fit".
std::string_view fit_words(const std::string& verdict);

// "Largest batch that leaves a tenth of it free: 96; up to 107 would be tight.": of memory named
// before, `about` from one batch. Empty where none fits, or none is known.
std::string largest_batch_text(std::optional<std::int64_t> roomy, std::optional<std::int64_t> tight,
                               bool about);

// "batch 32, seq 2048", empty when the user fixed nothing.
std::string options_text(const Report& report);

// What the kernels do not tell: memory of a training step, and a host that is slower than the GPU.
std::vector<std::string> step_lines(const Report& report);

// Where the expected time goes, kinds below half a percent in one row; a column of bars on demand.
TextTable kinds_table(const Report& report, bool with_bars = false);

}  // namespace rooftile
