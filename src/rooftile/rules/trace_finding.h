// Findings about what a trace shows, told per step.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rooftile/analysis/trace/gain.h"
#include "rooftile/analysis/trace/use_groups.h"
#include "rooftile/rules/gate.h"
#include "rooftile/rules/rule.h"

namespace rooftile {

// What a rule found in the trace of one rank. Cases of equal key on several ranks are one finding.
struct TraceCase {
  std::string key;
  Finding finding;
};

using TraceJudge = std::function<std::vector<TraceCase>(const TraceSummary&)>;

// Judges each rank's trace and keeps, of the cases of one key, the one that saves most.
std::vector<Finding> judge_ranks(std::span<const TraceSummary> ranks, const TraceJudge& judge);
std::vector<Finding> judge_ranks(const RuleInput& input,
                                 std::vector<TraceCase> (*judge)(const RuleInput&,
                                                                 const TraceSummary&));

// True when a time summed over the window is worth a reader's minute.
bool is_visible(const TraceSummary& trace, Seconds in_window);
// Adds a case whose saving is, which the finding must have.
void add_if_visible(const TraceSummary& trace, std::string key, Finding finding,
                    std::vector<TraceCase>& cases);

// A finding about the trace as a whole; the saving is of the window and is told per step.
Finding about_trace(const TraceSummary& trace, std::string message, Fix fix,
                    std::optional<Range<Seconds>> saving = std::nullopt);

// The same at a place of the program.
Finding about_site(const TraceSummary& trace, const TraceSite& site, std::string message, Fix fix,
                   std::optional<Range<Seconds>> saving = std::nullopt);

// The same about operators of one shape: at the largest of them, or at the kernel.
Finding about_group(const TraceSummary& trace, const UseGroup& group, std::string message, Fix fix,
                    std::optional<Range<Seconds>> saving = std::nullopt);

// Operations of the workload that the operators became, so that rules of one cause exclude each
// other.
std::vector<std::size_t> workload_ops_of(const RuleInput& input, const UseGroup& group);

// "3.1 ms per step (7.2 %)", or "3.1 ms (7.2 % of the trace)" where no steps are known.
std::string cost_text(const TraceSummary& trace, Seconds in_window);
// "812 kernels per step", "3 kernels in 20 steps" for rare things, "7 kernels" where no steps are
// known.
std::string count_text(const TraceSummary& trace, std::int64_t in_window, std::string_view noun);
// Where the host or the loader sets the pace, says that kernel time saved shows only in part.
void note_pace(const TraceSummary& trace, Finding& finding);
// What shortens the GPU's work saves next to nothing as long as something else sets the pace: such
// a finding becomes information that says what has to come first.
void put_off(const TraceSummary& trace, Finding& finding);
// Kernels for each wait of the host for the GPU, where those leave it idle visibly and come every
// few kernels: a CUDA graph between two of them saves next to nothing. Else empty.
std::optional<double> kernels_between_waits(const TraceSummary& trace);
// The same where a wait reads a value of a few bytes, which decides what the host launches next.
std::optional<double> rounds_of(const TraceSummary& trace, const SyncUse& sync);
// "every 2.7 kernels", "after every kernel".
std::string pace_text(double kernels_between);
// How PyTorch calls an operator that makes a tensor from nothing but its size: "randn" of
// "aten::normal_"; empty for others.
std::optional<std::string_view> maker_of_tensors(std::string_view op);
// To call it for a tensor on the GPU; empty for others.
std::optional<Fix> made_on_gpu(std::string_view op);
// Whether a serving engine (vLLM, SGLang, TensorRT-LLM) runs the model: it names its steps in the
// trace, or the frames are its own.
bool is_served(const TraceSummary& trace);
// "train.py:88", else the module, else the operator; empty where nothing is known.
std::string place_text(const TraceSite& site);
// "aten::addmm 4096x768, 768x3072 in encoder.layer.0 (and 11 more places)", else the kernel's name.
std::string group_text(const UseGroup& group);

}  // namespace rooftile
