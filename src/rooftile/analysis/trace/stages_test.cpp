#include "rooftile/analysis/trace/stages.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace rooftile::trace {
namespace {

TEST(Stages, AreToldByLabels) {
  const std::pair<ServingStage, std::vector<const char*>> cases[] = {
      {ServingStage::prefill,
       {"execute_context_1(128)_generation_0(0)", "execute_new_2_cached_0",
        "[Executor] _forward_step 7: 1 ctx reqs, 0 gen reqs", "step[EXTEND bs=1 toks=512]",
        "step[PREFILL bs=1]", "prefill", "prefill attention", "Prefill chunk 3"}},
      {ServingStage::decode,
       {"execute_context_0(0)_generation_16(16)", "execute_new_0_cached_10",
        "_forward_step 8: 0 ctx reqs, 10 gen reqs", "step[DECODE bs=32]", "decode", "decode_step 3",
        "decode token", "llm decode loop", "Decode Phase", "decode forward batch"}},
      {ServingStage::mixed,
       {"execute_context_1(64)_generation_2(2)", "execute_new_1_cached_4",
        "_forward_step 9: 2 ctx reqs, 4 gen reqs", "step[MIXED bs=3]", "prefill and decode"}},
      {ServingStage::none,
       {"execute_context_0(0)_generation_0(0)", "execute_new_0_cached_0", "execute_model",
        "execute_new_x_cached_1", "execute_context_1", "execute_generation_1(1)", "execute_new_1",
        "execute_cached_1", "_forward_step 9: 1 ctx reqs", "_forward_step 9: 1 gen reqs",
        "_forward_step 9: 0 ctx reqs, 0 gen reqs", "_forward_step 9: x ctx reqs, 1 gen reqs",
        "step[IDLE]", "decode jpeg", "decoder", "image decode", "forward", "prefilled", ""}}};
  for (const auto& [stage, labels] : cases) {
    for (const char* label : labels) EXPECT_EQ(stage_of_label(label), stage) << label;
  }
}

}  // namespace
}  // namespace rooftile::trace
