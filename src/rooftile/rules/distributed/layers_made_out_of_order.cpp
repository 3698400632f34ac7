#include <fmt/format.h>

#include <map>

#include "rooftile/analysis/source/evaluated_models.h"
#include "rooftile/analysis/source/hot_path.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace distributed_layers_made_out_of_order_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
`DistributedDataParallel(…, find_unused_parameters=True)` without `static_graph=True` around a user-defined
model of at least four layers, of which most pairs are made in `__init__` in another order than `forward`
runs them in.

## Why it costs time
DDP fills its buckets in the reverse order of `model.parameters()`, the order of `__init__`, and sums a bucket
once it is full and all before it are. With `find_unused_parameters=True` it never puts them in the order in
which gradients really arrive, as it does without it after the first step. Buckets then wait for gradients
that come last, and the exchange runs after the backward instead of beside it.

## How to fix
Make the layers in `__init__` in the order in which `forward` runs them. Without
`find_unused_parameters=True`, or with `static_graph=True`, DDP finds the order itself.

## How the saving is estimated
Not from the source alone. With a recording (`rooftile check train.py trace.json.gz`) the step time
says what there is to gain.

## When not to
- Models below one bucket (25 MB): there is nothing to overlap.
- Layers that run several times or under conditions are not counted.

## Evidence
- PyTorch notes, "Distributed Data Parallel", Internal Design: buckets are in about the reverse order of
  `Model.parameters()`.
- PyTorch `reducer.hpp`, `should_rebuild_buckets`: not under `find_unused_parameters`, unless the graph is
  static.
)md";

using namespace source;

constexpr std::size_t kFewLayers = 4;

// Places in __init__ of the layers with weights, in the order in which forward runs them; those
// that run twice, or are made under a condition or in a loop, are left out.
std::vector<std::size_t> order_of_uses(const ClassDef& def) {
  std::map<const Layer*, int> uses;
  for (const LayerUse& use : def.forward) ++uses[use.layer];
  std::vector<std::size_t> order;
  for (const LayerUse& use : def.forward) {
    const Layer* layer = use.layer;
    const bool is_plain =
        layer != nullptr && !layer->conditional && !layer->repeated && uses.at(layer) == 1;
    if (!is_plain) continue;
    const Type& type = *layer->made_by->expr->type;
    if (type.is(TypeKind::loss) || has_no_weights(type)) continue;
    order.push_back(static_cast<std::size_t>(layer - def.layers.data()));
  }
  return order;
}

// Whether more pairs run in another order than they are made in than in the same.
bool are_mostly_turned(const std::vector<std::size_t>& order) {
  std::int64_t more = 0;
  for (auto one = order.begin(); one != order.end(); ++one) {
    for (auto before = order.begin(); before != one; ++before) more += *before > *one ? 1 : -1;
  }
  return more > 0;
}

Finding finding_for(const Call& wrap, const ClassDef& def, const std::vector<std::size_t>& order) {
  Finding finding = finding_at(
      wrap,
      fmt::format("{} makes its layers in another order than it runs them in, and with "
                  "find_unused_parameters=True DDP keeps the order of __init__: buckets fill late",
                  def.name),
      {fmt::format("Make the layers of {} in the order in which forward runs them", def.name),
       Exactness::changes_training});
  finding.evidence = {Evidence::found(fmt::format("forward runs {} first, which is made behind {}",
                                                  def.layers[order.front()].attribute,
                                                  def.layers[order.back()].attribute)),
                      Evidence::published("buckets in the reverse order of parameters()",
                                          "PyTorch notes, Distributed Data Parallel"),
                      Evidence::published("not under find_unused_parameters",
                                          "PyTorch reducer, should_rebuild_buckets")};
  return finding;
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  for (const Call* wrap : launched_calls(facts, {"torch.nn.parallel.DistributedDataParallel"})) {
    if (wrap->arguments.empty() || wrap->unknown_arguments) continue;
    if (!facts.argument(*wrap, "find_unused_parameters", 7).is_true()) continue;
    const Value fixed = facts.argument(*wrap, "static_graph");
    const ClassDef* def = wrap->arguments.front().value->type->class_def;
    if (def == nullptr || (!fixed.absent() && !fixed.is_false())) continue;
    const std::vector<std::size_t> order = order_of_uses(*def);
    if (order.size() < kFewLayers || !are_mostly_turned(order)) continue;
    findings.push_back(finding_for(*wrap, *def, order));
  }
  return findings;
}

}  // namespace distributed_layers_made_out_of_order_rule

extern const Rule distributed_layers_made_out_of_order{
    .id = "distributed/layers-made-out-of-order",
    .level = Level::advice,
    .cause = Cause::none,
    .summary = "Layers are made in another order than they run in, and DDP cannot learn it",
    .doc = distributed_layers_made_out_of_order_rule::kDoc,
    .in_scripts = distributed_layers_made_out_of_order_rule::find};

}  // namespace rooftile
