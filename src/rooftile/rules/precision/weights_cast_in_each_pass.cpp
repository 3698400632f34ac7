#include <fmt/format.h>

#include "rooftile/analysis/trace/measured_workload.h"
#include "rooftile/rules/thresholds.h"
#include "rooftile/rules/trace_finding.h"

namespace rooftile {
namespace precision_weights_cast_in_each_pass_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
Inference under autocast that casts the fp32 weights of linear and convolution layers to 16 bits each
time they are used: casts inside the layer's operator, of the size of its weight or bias. Where shapes are not
recorded, all but the last one inside a layer, which may be its input's.

## Why it costs time
A cast reads four bytes and writes two for each weight, before the layer reads it again. Autocast keeps
its copies until the context ends, and none of weights without gradients. At small batches the casts
take as long as the layers.

## How to fix
Convert the weights once: `model.to(torch.bfloat16)`, or only the linear and convolution layers, and
leave autocast out. In training the casts are needed, because the weights change.

## How the saving is estimated
The time of the casts' kernels; the low end is half of it. Where the host sets the pace, the high end has
the host's time for them too, and likely is half of that.

## When not to
- Layers that need fp32, such as norms over many values, stay in fp32 or are converted back.

## Evidence
- PyTorch `aten/src/ATen/autocast_mode.cpp`, `cached_cast`: copies are kept for fp32 leaves that require
  gradients, and cleared when the outermost context ends.
- PyTorch documentation, torch.amp, "Autocasting".
)md";

constexpr double kMinShare = threshold::kShowsInARun;  // of the window

std::vector<TraceCase> judge(const TraceSummary& trace) {
  const WeightCasts& casts = trace.weight_casts;
  if (trains(trace)) return {};
  // Where the host is late, its own time for the casts counts as well.
  Range<Seconds> gain = gain_of_kernel_time(trace, {0.5 * casts.time, casts.time, casts.time});
  if (is_host_bound(trace)) {
    gain += Range<Seconds>{Seconds(0), 0.5 * casts.host_time, casts.host_time};
  }
  if (gain.expected < kMinShare * trace.time.span) return {};
  Finding finding = about_site(
      trace, casts.site,
      fmt::format("autocast casts fp32 weights to 16 bits in each pass: {} that take the GPU {} "
                  "and the host {}",
                  count_text(trace, casts.count, "cast"), cost_text(trace, casts.time),
                  cost_text(trace, casts.host_time)),
      {"Convert the weights once (model.to(torch.bfloat16), or only the linear and convolution "
       "layers) instead of running fp32 weights under autocast",
       Exactness::changes_numerics},
      gain);
  finding.count = casts.count;
  finding.evidence = {Evidence::published(
      "autocast keeps no copy of weights without gradients, and none beyond its context",
      "PyTorch, autocast_mode.cpp, cached_cast")};
  return {{"", std::move(finding)}};
}

std::vector<Finding> check(const RuleInput& input) {
  return judge_ranks(input.workload.traces, judge);
}

}  // namespace precision_weights_cast_in_each_pass_rule

extern const Rule precision_weights_cast_in_each_pass{
    .id = "precision/weights-cast-in-each-pass",
    .level = Level::advice,
    .cause = Cause::none,
    .summary = "Weights are cast to 16 bits in each pass",
    .doc = precision_weights_cast_in_each_pass_rule::kDoc,
    .in_traces = precision_weights_cast_in_each_pass_rule::check};

}  // namespace rooftile
