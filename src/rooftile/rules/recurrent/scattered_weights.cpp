#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "rooftile/analysis/source/layer_queries.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace scattered_weights {

constexpr std::string_view kDoc = R"md(
## What it finds
`nn.LSTM`, `nn.GRU` or `nn.RNN` in a model under `DataParallel` whose `forward` does not call
`flatten_parameters()`.

## Why it costs time
cuDNN wants the weights of all gates and layers in one piece of memory. `DataParallel` copies the
model to each GPU on every step, weight by weight, and the copies lie apart: cuDNN gathers them in
each forward pass and needs the memory twice.

## How to fix
`self.rnn.flatten_parameters()` before the layer's call in `forward`. Better: one process per GPU
with `DistributedDataParallel`.

## How the saving is estimated
Not from the source alone.

## When not to
- Under `DistributedDataParallel` or on one GPU the weights stay in one piece.
- Weight drop and weight norm replace the weights; there it cannot work.

## Evidence
- PyTorch warning "RNN module weights are not part of single contiguous chunk of memory".
- PyTorch documentation, `torch.nn.LSTM`, method `flatten_parameters`.
)md";

using namespace source;

// The class, and those of its layers below it.
void add_classes(const ClassDef* def, std::set<const ClassDef*>& classes) {
  if (def == nullptr || !classes.insert(def).second) return;
  for (const Layer& layer : def->layers) {
    add_classes(layer.made_by->expr->type->class_def, classes);
  }
}

// Classes of the models in the program that DataParallel wraps; they may be unknown.
struct Wrapped {
  std::set<const ClassDef*> classes;
  const Call* call = nullptr;
};

Wrapped wrapped_models(const SourceFacts& facts, const Program& program) {
  Wrapped wrapped;
  for (const Call* call : calls_in(facts, program,
                                   {"torch.nn.DataParallel", "torch.nn.parallel.data_parallel",
                                    "torch.nn.data_parallel"})) {
    const Argument* module = call->argument("module", 0);
    if (module == nullptr) continue;
    wrapped.call = wrapped.call == nullptr ? call : wrapped.call;
    add_classes(module->value->type->class_def, wrapped.classes);
  }
  return wrapped;
}

const Call* call_in_forward(const ClassDef& def, const Layer& layer) {
  for (const LayerUse& use : def.forward) {
    if (use.layer == &layer) return use.call;
  }
  return nullptr;
}

Finding finding_for(const Layer& layer, const Call& use, const Call& wrapper) {
  Fix fix{fmt::format("Call self.{}.flatten_parameters() before it", layer.attribute),
          Exactness::bit_exact};
  if (layer.attribute.find('.') == std::string_view::npos) {
    add_edit(insert_line_before(*use.statement,
                                fmt::format("self.{}.flatten_parameters()", layer.attribute)),
             fix);
    fix.safe = !fix.edits.empty();
  }
  Finding finding = finding_at(
      use,
      fmt::format(
          "DataParallel copies the weights of this {} one by one, and cuDNN gathers them on "
          "each step",
          layer.made_by->method),
      std::move(fix));
  finding.evidence = {
      Evidence::found(fmt::format("{} at {}", wrapper.method, place_text(wrapper, *use.file))),
      Evidence::published("RNN module weights are not part of single contiguous chunk of memory",
                          "PyTorch warning")};
  return finding;
}

void judge(const ClassDef& def, const Call& wrapper, std::vector<Finding>& findings) {
  const std::string_view text = def.file->slice(def.statement->range);
  if (text.find("flatten_parameters") != std::string_view::npos) return;
  for (const Layer& layer : def.layers) {
    if (!is_recurrent_layer(*layer.made_by)) continue;
    const Call* use = call_in_forward(def, layer);
    if (use == nullptr) continue;
    findings.push_back(finding_for(layer, *use, wrapper));
    return;
  }
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  std::set<const ClassDef*> told;
  for (const Program* program : training_programs(facts)) {
    if (mentions(*program, {"DistributedDataParallel"})) continue;
    const Wrapped wrapped = wrapped_models(facts, *program);
    if (wrapped.call == nullptr) continue;
    for (const ClassDef* def : facts.modules()) {
      if (!wrapped.classes.contains(def) || !told.insert(def).second) continue;
      judge(*def, *wrapped.call, findings);
    }
  }
  return findings;
}

}  // namespace scattered_weights

extern const Rule recurrent_scattered_weights{
    .id = "recurrent/scattered-weights",
    .level = Level::advice,
    .cause = Cause::none,
    .summary = "DataParallel scatters the weights of a recurrent layer",
    .doc = scattered_weights::kDoc,
    .in_scripts = scattered_weights::find};

}  // namespace rooftile
