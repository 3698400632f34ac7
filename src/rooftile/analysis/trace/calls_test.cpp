#include "rooftile/analysis/trace/calls.h"

#include <gtest/gtest.h>

namespace rooftile::trace {
namespace {

TEST(RangeKind, IsToldByTheName) {
  const std::pair<const char*, RangeKind> cases[] = {
      {"ProfilerStep#12", RangeKind::step},
      {"Optimizer.step#AdamW.step", RangeKind::optimizer_step},
      {"Optimizer.zero_grad#AdamW.zero_grad", RangeKind::other},
      {"enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", RangeKind::loader},
      {"my dataloader", RangeKind::loader},
      {"execute_context_2(512)_generation_3(3)", RangeKind::engine_step},
      {"autograd::engine::evaluate_function: MmBackward0", RangeKind::autograd},
      {"gloo:all_reduce", RangeKind::rank_wait},
      {"c10d::barrier", RangeKind::rank_wait},
      {"monitored_barrier", RangeKind::rank_wait},
      {"aten::mm", RangeKind::operation},
      {"train step", RangeKind::user_step},
      {"encoder", RangeKind::other},
  };
  for (const auto& [name, kind] : cases) EXPECT_EQ(range_kind(name), kind) << name;
}

}  // namespace
}  // namespace rooftile::trace
