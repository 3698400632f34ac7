#include <fmt/format.h>

#include "rooftile/analysis/source/compiled_code.h"
#include "rooftile/analysis/source/hot_path.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace compiled_before_ddp {

constexpr std::string_view kDoc = R"md(
## What it finds
`DistributedDataParallel` around a model that `torch.compile` made.

## Why it costs time
Compiled around DDP, the graph is split at the bounds of DDP's buckets, so that gradients are sent
while the backward pass still runs. Compiled inside of DDP, the backward pass is one graph and all
gradients come at its end: communication overlaps with nothing.

## How to fix
`model = DDP(model)` first, then `model = torch.compile(model)`.

## How the saving is estimated
Not from the source alone. A recording of several ranks shows the exposed communication.

## When not to
- FSDP and `fully_shard`, block by block.
- Only parts inside the model are compiled.
- An option picks the order.

## Evidence
- PyTorch documentation, notes on DistributedDataParallel, "TorchDynamo DDPOptimizer": apply DDP
  before compiling.
)md";

using namespace source;

// The call of torch.compile that made the module; null where it is not seen. It may stand in a
// branch before.
const Call* compile_behind(const SourceFacts& facts, const Call& ddp, const Expr& module) {
  const Expr* made = resolved(&module);
  if (made->call() != nullptr && made->call()->name == "torch.compile") return made->call();
  const Call* last = nullptr;
  for (const Call* call : compile_calls(facts)) {
    const bool is_before = call->file == ddp.file && call->function == ddp.function &&
                           call->open_paren < ddp.open_paren;
    if (!is_before) continue;
    const Expr* target = call->statement->target;
    const Expr* compiled = call->name == "torch.compile" ? target : call->receiver;
    const bool is_it = compiled != nullptr && last_name(compiled) == last_name(&module) &&
                       !last_name(&module).empty();
    if (is_it) last = call;
  }
  return last;
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  for (const Call* ddp : launched_calls(facts, {"torch.nn.parallel.DistributedDataParallel",
                                                "apex.parallel.DistributedDataParallel"})) {
    const Argument* module = ddp->argument("module", 0);
    if (module == nullptr || module->unpacked) continue;
    const Type& type = *module->value->type;
    if (type.ddp || type.fsdp) continue;
    const Call* compile = compile_behind(facts, *ddp, *module->value);
    if (compile == nullptr || !is_reached_by_default(facts, *compile)) continue;
    Finding finding = finding_at(
        *ddp,
        fmt::format("{} wraps a model that is compiled already: gradients are sent only when the "
                    "whole backward pass is over",
                    ddp->method),
        {"Wrap first and compile then: model = torch.compile(DDP(model))", Exactness::bit_exact});
    finding.evidence = {
        Evidence::found(fmt::format("compiled at {}", place_text(*compile, *ddp->file))),
        Evidence::published("DDP before compile",
                            "PyTorch notes on DistributedDataParallel, TorchDynamo DDPOptimizer")};
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace compiled_before_ddp

extern const Rule compile_compiled_before_ddp{
    .id = "compile/compiled-before-ddp",
    .level = Level::advice,
    .cause = Cause::none,
    .summary = "Model compiled before DistributedDataParallel wraps it",
    .doc = compiled_before_ddp::kDoc,
    .in_scripts = compiled_before_ddp::find};

}  // namespace rooftile
