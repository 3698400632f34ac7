// Prefill and decode, by the labels that serving engines give their steps.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "rooftile/analysis/trace/links.h"
#include "rooftile/workload/trace_summary.h"

namespace rooftile::trace {

// By the label of a range: "execute_context_3(512)_generation_32(32)" of vLLM, "step[DECODE bs=32]"
// of SGLang, "[Executor] _forward_step 7: 0 ctx reqs, 16 gen reqs" of TensorRT-LLM, and "prefill"
// or "decode" as users name ranges of their own.
ServingStage stage_of_label(std::string_view label);

// The stage of the innermost labelled range around an operator.
class Stages {
 public:
  Stages(const Timeline& timeline, const Links& links);

  ServingStage of(std::uint32_t op) const;

 private:
  const Timeline& timeline_;
  const Links& links_;
  std::vector<ServingStage> by_name_;
  bool has_any_ = false;
};

}  // namespace rooftile::trace
