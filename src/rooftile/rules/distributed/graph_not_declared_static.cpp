#include <fmt/format.h>

#include "rooftile/analysis/source/hot_path.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace graph_not_declared_static {

constexpr std::string_view kDoc = R"md(
## What it finds
`DistributedDataParallel` with `find_unused_parameters=True`, or in a program with activation
checkpointing, without `static_graph=True`.

## Why it costs time
The graph is searched again in each step, and checkpointing prevents the exchange from starting
early.

## How to fix
`static_graph=True`, if every step uses the same parameters in the same way.

## How the saving is estimated
Not from the source alone. With a recording (`rooftile check train.py trace.json.gz`) the step
time says what there is to gain.

## When not to
- Models with branches that depend on the data.

## Evidence
- PyTorch documentation, `DistributedDataParallel`, static_graph.
)md";

using namespace source;

bool has_checkpointing(const SourceFacts& facts, const File& file) {
  for (const Program* program : training_programs_of(facts, file)) {
    const auto calls = calls_in(
        facts, *program,
        {"torch.utils.checkpoint.checkpoint", "torch.utils.checkpoint.checkpoint_sequential"});
    if (!calls.empty()) return true;
  }
  return false;
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  for (const Call* call : launched_calls(facts, {"torch.nn.parallel.DistributedDataParallel"})) {
    const Value fixed = facts.argument(*call, "static_graph");
    if ((!fixed.absent() && !fixed.is_false()) || call->unknown_arguments) continue;
    const bool searches = facts.argument(*call, "find_unused_parameters", 7).is_true();
    if (!searches && !has_checkpointing(facts, *call->file)) continue;
    Fix fix{"Set static_graph=True if each step uses the same parameters", Exactness::bit_exact};
    if (fixed.absent()) add_edit(add_argument(*call, "static_graph", "True"), fix);
    Finding finding =
        finding_at(*call,
                   searches ? "DDP searches for unused parameters again in every step"
                            : "activation checkpointing keeps DDP from exchanging gradients early",
                   std::move(fix));
    finding.evidence = {
        Evidence::published("PyTorch documentation, DistributedDataParallel, static_graph")};
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace graph_not_declared_static

extern const Rule distributed_graph_not_declared_static{
    .id = "distributed/graph-not-declared-static",
    .level = Level::info,
    .cause = Cause::none,
    .summary = "DDP runs without static_graph although the graph never changes",
    .doc = graph_not_declared_static::kDoc,
    .in_scripts = graph_not_declared_static::find};

}  // namespace rooftile
