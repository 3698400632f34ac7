#include "rooftile/analysis/source/step_waits.h"

#include <algorithm>
#include <optional>
#include <unordered_set>

#include "rooftile/analysis/source/host_consumers.h"
#include "rooftile/analysis/source/host_reads.h"
#include "rooftile/analysis/source/hot_path.h"
#include "rooftile/analysis/source/loss_scaling.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/script/reach/reach.h"
#include "rooftile/workload/source_store.h"

namespace rooftile::source {
namespace {

void add_once(const Loop* loop, std::vector<const Loop*>& loops) {
  if (loop != nullptr && std::ranges::find(loops, loop) == loops.end()) loops.push_back(loop);
}

// `optimizer.step()` of a scaler reads on the host whether a gradient overflowed, but for a fused
// optimizer, which takes the flag on the GPU.
void add_scaled_steps(const SourceFacts& facts, std::unordered_set<const Loop*>& loops) {
  for (const ScaledPass& pass : scaled_passes(facts)) {
    for (const ScalingEvent& event : pass.events) {
      if (event.kind != ScalingKind::scaler_step || may_scaler_be_off(facts, event)) continue;
      const Call* made = event.optimizer == nullptr ? nullptr : event.optimizer->type->made_by;
      if (made != nullptr && facts.argument(*made, "fused").is_true()) continue;
      if (pass.iteration->loop != nullptr) loops.insert(pass.iteration->loop);
    }
  }
}

struct LoopsThatWait {
  std::optional<std::unordered_set<const Loop*>> loops;
};

}  // namespace

std::vector<const Loop*> step_loops_of(const SourceFacts& facts, const Statement& statement) {
  std::vector<const Loop*> loops;
  for (const Way& way : ways_to(facts, statement)) {
    if (way.trains()) add_once(way.step_loop, loops);
  }
  if (!loops.empty()) return loops;
  for (const Program* program : training_programs_of(facts, *statement.file)) {
    for (const Loop* loop : program->training_loops) add_once(loop, loops);
  }
  if (loops.size() > 1) loops.clear();
  return loops;
}

bool waits_anyway(const SourceFacts& facts, const Loop& loop) {
  auto& known = facts.store().kept<LoopsThatWait>().loops;
  if (!known) {
    known.emplace();
    add_scaled_steps(facts, *known);
    for (const auto& file : facts.files) {
      if (!trains_on_gpu(facts, *file)) continue;
      for (const HostRead& read : host_reads(facts, *file)) {
        if (!feeds_host(read) || !is_hot(facts, *read.statement)) continue;
        for (const Loop* each : step_loops_of(facts, *read.statement)) known->insert(each);
      }
    }
  }
  return known->contains(&loop);
}

}  // namespace rooftile::source
