// From the input options to a workload and a GPU.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rooftile/cli/command_line.h"
#include "rooftile/rooftile.h"

namespace rooftile {

// Several files become one workload that runs them one after the other. Naming the GPU that it will
// be judged for, where it is known by now, saves time.
Result<Workload> read_inputs(const InputOptions& options, const Device* device = nullptr);

// The recordings in each of the files; a file without one is an error, which ends with `otherwise`.
Result<std::vector<TraceList>> read_recordings(const std::vector<std::string>& files,
                                               std::string_view otherwise = "");

// The GPU named by the flags; without one the error says how to name it.
Result<Device> pick_device(const InputOptions& options);

// What to judge, and on which GPU: the one named by the flags, else the one that it was recorded
// on, else the default one. Empty where that is not known; the reason is then among the workload's
// notes.
struct Subject {
  Workload workload;
  std::optional<Device> device;
};
Result<Subject> read_subject(const InputOptions& options);

// All rules, or those the patterns leave. A pattern that matches no rule is an error.
Result<std::vector<const Rule*>> pick_rules(const std::vector<std::string>& select,
                                            const std::vector<std::string>& ignore);

// The rule of this id, else those of an area ("gemm"), else those whose id ends in the name
// ("odd-vocabulary"); an error names the nearest ids.
Result<std::vector<const Rule*>> rules_named(std::string_view name);

}  // namespace rooftile
