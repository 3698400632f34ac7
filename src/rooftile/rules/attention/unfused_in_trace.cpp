#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "rooftile/analysis/alignment.h"
#include "rooftile/analysis/trace/attention_parts.h"
#include "rooftile/analysis/trace/op_gain.h"
#include "rooftile/base/quantity_text.h"
#include "rooftile/base/text.h"
#include "rooftile/rules/trace_finding.h"

namespace rooftile {
namespace attention_unfused_in_trace {

Seconds time_of(const AttentionUse& use) {
  return use.gemm_time + use.softmax_time + use.other_time + use.backward_time;
}

// Of the window: what the kernels took less what one fused kernel takes for as many runs.
std::optional<Range<Seconds>> saved_by_fusing(const RuleInput& input, const TraceSummary& trace,
                                              const AttentionUse& use) {
  if (shape_of(use) == nullptr) {
    const Seconds most = use.softmax_time + use.other_time;
    return Range<Seconds>{Seconds(0), most, most} * table_part(trace);
  }
  Op fused = *use.op;
  std::get<Attention>(fused.body).fused = true;
  const auto forward = input.model.estimate(fused);
  fused.phase = Phase::dgrad;
  const auto backward = input.model.estimate(fused);
  if (!forward || (use.backward_count > 0 && !backward)) return std::nullopt;
  Range<Seconds> after = forward->time * static_cast<double>(use.count);
  if (use.backward_count > 0) after += backward->time * static_cast<double>(use.backward_count);
  const auto saved = [&](Seconds left) { return std::max(Seconds(0), time_of(use) - left); };
  return Range<Seconds>{saved(after.high), saved(after.expected), saved(after.low)} *
         table_part(trace);
}

bool adds_to_scores(const AttentionUse& use) {
  constexpr std::array<std::string_view, 4> kAdding{"masked_fill", "aten::add", "aten::where",
                                                    "aten::sub"};
  return std::ranges::any_of(use.between, [&](const std::string& name) {
    return std::ranges::any_of(kAdding, [&](auto part) { return contains(name, part); });
  });
}

Fix propose(const AttentionUse& use) {
  return {fmt::format("Use a fused attention kernel (scaled_dot_product_attention, "
                      "FlashAttention){}",
                      adds_to_scores(use) ? ", with the mask or bias as its attn_mask" : ""),
          Exactness::exact_arithmetic};
}

// " with 16 x 5185 x 5185 scores": heads of all samples, queries, keys.
std::string size_text(const AttentionUse& use) {
  const Attention* shape = shape_of(use);
  if (shape == nullptr) return "";
  return fmt::format(" with {} x {} x {} scores", shape->heads, shape->query_len, shape->kv_len);
}

std::string parts_text(const TraceSummary& trace, const AttentionUse& use) {
  const auto part = [&](Seconds time) {
    return time_text(per_step(trace, time * table_part(trace)));
  };
  std::string text =
      fmt::format("GEMMs {}, softmax {}", part(use.gemm_time), part(use.softmax_time));
  if (use.other_time > Seconds(0)) {
    text += fmt::format(", between them {} ({})", part(use.other_time), join(use.between, ", "));
  }
  if (use.backward_count > 0) text += fmt::format(", backward {}", part(use.backward_time));
  return text + (trace.steps.durations.empty() ? "" : " per step");
}

void note_odd_keys(const RuleInput& input, const TraceSummary& trace, const AttentionUse& use,
                   Finding& finding) {
  const Attention* shape = shape_of(use);
  if (shape == nullptr) return;
  const Dtype dtype = use.op->dtypes.input;
  const std::int64_t aligned = alignment_elements(dtype);
  if (!input.device().has_tensor_cores(dtype) || shape->kv_len % aligned == 0) return;
  std::string line =
      fmt::format("{} keys make score rows of {} bytes, no multiple of 16", shape->kv_len,
                  shape->kv_len * static_cast<std::int64_t>(size_in_bytes(dtype)));
  if (use.narrow_time > Seconds(0)) {
    line += fmt::format(": GEMM kernels with narrow loads take {} of it",
                        time_text(per_step(trace, use.narrow_time * table_part(trace))));
  }
  finding.evidence.push_back(Evidence::found(std::move(line)));
}

std::vector<std::size_t> ops_of(const RuleInput& input, const AttentionUse& use) {
  std::vector<std::size_t> ops;
  for (std::size_t i = 0; i < input.workload.ops.size(); ++i) {
    if (is_part_of(use, input.workload.ops[i])) ops.push_back(i);
  }
  return ops;
}

Finding describe(const RuleInput& input, const TraceSummary& trace, const AttentionUse& use,
                 const Range<Seconds>& gain) {
  Finding finding =
      about_site(trace, use.site,
                 fmt::format("attention{} is not fused and takes {} in {}", size_text(use),
                             cost_text(trace, time_of(use) * table_part(trace)),
                             count_text(trace, table_count(trace, use.count), "run")),
                 propose(use), gain);
  finding.count = use.count;
  finding.ops = ops_of(input, use);
  finding.evidence = {Evidence::measured(parts_text(trace, use))};
  note_odd_keys(input, trace, use, finding);
  if (shape_of(use) == nullptr) {
    finding.evidence.push_back(
        Evidence::found("shapes were not recorded: all but the GEMMs counts as saved at most"));
  }
  note_pace(trace, finding);
  return finding;
}

std::vector<TraceCase> judge(const RuleInput& input, const TraceSummary& trace) {
  std::vector<TraceCase> cases;
  if (trace.is_foreign || !is_recorded_on(trace, input.device())) return cases;
  for (const AttentionUse& use : trace.attentions) {
    const auto saved = saved_by_fusing(input, trace, use);
    if (!saved) continue;
    const Range<Seconds> gain = gain_of_kernel_time(trace, *saved);
    if (!is_visible(trace, gain.expected)) continue;
    cases.push_back({size_text(use) + join(use.between, " "), describe(input, trace, use, gain)});
  }
  return cases;
}

}  // namespace attention_unfused_in_trace

std::vector<Finding> unfused_attention_in_traces(const RuleInput& input) {
  return judge_ranks(input.workload.traces, [&](const TraceSummary& trace) {
    return attention_unfused_in_trace::judge(input, trace);
  });
}

}  // namespace rooftile
