#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "rooftile/analysis/source/loaders.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/base/text.h"
#include "rooftile/rules/source_finding.h"
#include "rooftile/script/flow/sources.h"

namespace rooftile {
namespace gpu_copy_per_sample {

constexpr std::string_view kDoc = R"md(
## What it finds
`.cuda()`, `.to(device)` or `torch.tensor(x, device=device)` with a GPU in the `__getitem__` of a
dataset, or for each sample in a collate function, that a `DataLoader` uses. A collate function that
copies its finished batch has one copy for each tensor of the batch: information, since it only keeps
worker processes and pinned memory out.

## Why it costs time
Each sample is a small copy of its own, for which the host waits. With workers it fails, since
CUDA cannot be used in forked processes.

## How to fix
Return host tensors, pin them (`pin_memory=True`), and copy the whole batch in the loop with
`non_blocking=True`.

## How the saving is estimated
Not from the source alone. With a recording (`rooftile check train.py trace.json.gz`) the step
time says what there is to gain.

## When not to
- Datasets that put everything on the device in `__init__`.

## Evidence
- PyTorch documentation, `torch.utils.data`: it is not recommended to return CUDA tensors in
  multi-process loading.
)md";

using namespace source;

// `settings["device"]` where each `x["device"] = device` of the program sets a GPU.
bool is_kept_gpu(const SourceFacts& facts, const File& file, const Expr& item) {
  const auto is_key = [](const Expr* expr) {
    return expr->kind == ExprKind::subscript && expr->children().size() == 2 &&
           expr->children()[1]->kind == ExprKind::text;
  };
  if (!is_key(&item)) return false;
  bool is_set = false;
  for (const Program* program : facts.programs_of(file)) {
    for (const File* one : program->files) {
      for (const Statement* each : one->statements) {
        const bool sets = each->kind == StatementKind::assignment && each->value != nullptr &&
                          is_key(each->target) &&
                          each->target->children()[1]->word() == item.children()[1]->word();
        if (!sets) continue;
        if (!is_gpu_device(facts, each->value)) return false;
        is_set = true;
      }
    }
  }
  return is_set;
}

// `torch.tensor(ids, device=device)`: made from data of the host.
bool makes_on_gpu(const SourceFacts& facts, const Call& call) {
  const bool makes = is_one_of(call.name, {"torch.tensor", "torch.as_tensor"});
  const Argument* device = makes ? call.argument("device") : nullptr;
  if (device == nullptr || device->unpacked) return false;
  const Type& type = *device->value->type;
  return (type.is(TypeKind::device) && type.residence == Residence::gpu) ||
         is_gpu_device(facts, device->value) || is_kept_gpu(facts, *call.file, *device->value);
}

bool copies_to_gpu(const SourceFacts& facts, const Call& call) {
  if (makes_on_gpu(facts, call)) return true;
  if (call.method == "cuda") return call.receiver != nullptr;
  return copies_to_device(facts, call) && !call.receiver_type().is(TypeKind::device);
}

// `enumerate(batch)`, `sorted(batch)`: the batch.
const Expr* iterated(const Expr* over) {
  while (over->call() != nullptr && over->call()->target == nullptr &&
         !over->call()->arguments.empty() &&
         is_one_of(over->call()->name,
                   {"enumerate", "sorted", "reversed", "range", "len", "list", "tuple", "zip"})) {
    const Argument& first = over->call()->arguments.front();
    if (first.unpacked) return nullptr;  // zip(*batch) goes over the columns
    over = first.value;
  }
  return over;
}

// Whether a loop goes over the samples that a collate function gets, or over what it took out of
// each of them; not over columns, over entries of a dictionary or over tensors of whole batches.
bool goes_over_samples(const SourceFacts& facts, const Expr* over) {
  const Expr* list = iterated(over);
  if (list == nullptr || list->call() != nullptr || list->kind == ExprKind::tuple ||
      list->kind == ExprKind::list) {
    return false;
  }
  using script::SourceStep;
  return script::find_source(facts, *list, [](const Expr& part) {
    const Statement* set = part.kind == ExprKind::name ? part.binding() : nullptr;
    const bool is_parameter = part.kind == ExprKind::name && set == nullptr;
    if (is_parameter) return SourceStep::found;
    const Call* call = part.call();
    const bool lists = call == nullptr ||
                       is_one_of(call->name, {"zip", "list", "tuple", "sorted", "map", "filter"});
    return lists ? SourceStep::go_on : SourceStep::stop;
  });
}

bool is_done_per_sample(const SourceFacts& facts, const Call& call) {
  for (const Expr* outer = call.expr->parent; outer != nullptr; outer = outer->parent) {
    if (outer->kind != ExprKind::comprehension) continue;
    for (const Expr* clause : outer->children()) {
      const bool is_loop = clause->kind == ExprKind::for_clause;
      if (is_loop && goes_over_samples(facts, clause->children().back())) return true;
    }
  }
  for (const Statement* at = call.statement; at != nullptr; at = at->parent) {
    if (at->kind == StatementKind::function) break;
    if (at->kind == StatementKind::for_ && goes_over_samples(facts, at->value)) return true;
  }
  return false;
}

Finding whole_batch_finding(const Call& call) {
  Finding finding = finding_at(
      call,
      "the collate function copies the finished batch to the GPU: it can run in no worker process, "
      "and the host waits for each of its copies",
      {"Return host tensors, set pin_memory=True, and copy the batch in the loop with "
       "non_blocking=True",
       Exactness::bit_exact});
  finding.own_level = Level::info;
  finding.evidence = {Evidence::published("CUDA tensors from workers are not recommended",
                                          "PyTorch documentation, torch.utils.data")};
  return finding;
}

Finding finding_for(const Call& call, std::string_view where) {
  Finding finding = finding_at(
      call,
      fmt::format("{} copies each sample to the GPU on its own: a small copy that the host waits "
                  "for",
                  where),
      {"Return host tensors, set pin_memory=True, and copy the whole batch in the loop with "
       "non_blocking=True",
       Exactness::bit_exact});
  finding.evidence = {Evidence::published("CUDA tensors from workers are not recommended",
                                          "PyTorch documentation, torch.utils.data")};
  return finding;
}

void check_items(const SourceFacts& facts, const FunctionDef& get, std::vector<Finding>& findings) {
  for (const Call* call : get.calls) {
    if (!copies_to_gpu(facts, *call) || !is_reached_by_default(facts, *call)) continue;
    findings.push_back(finding_for(*call, "__getitem__"));
    return;
  }
}

// The copies of the function, else the call that leads to one over other functions.
void check_collate(const SourceFacts& facts, const FunctionDef& collate,
                   std::vector<Finding>& findings) {
  std::vector<const Call*> copies;
  std::ranges::copy_if(collate.calls, std::back_inserter(copies), [&](const Call* call) {
    return copies_to_gpu(facts, *call) && is_reached_by_default(facts, *call);
  });
  const Call* leads = copies.empty() ? copy_below(facts, collate) : nullptr;
  if (leads != nullptr && !leads->receiver_type().is(TypeKind::device)) copies.push_back(leads);
  if (copies.empty()) return;
  const auto each = std::ranges::find_if(
      copies, [&](const Call* call) { return is_done_per_sample(facts, *call); });
  findings.push_back(each != copies.end() ? finding_for(**each, "the collate function")
                                          : whole_batch_finding(*copies.front()));
}

bool is_used(const SourceFacts& facts, const ClassDef& def) {
  for (const Call* dataset : facts.constructions(TypeKind::dataset)) {
    if (dataset->expr->type->class_def == &def) return true;
  }
  return false;
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  std::vector<const FunctionDef*> collates;
  for (const Call* loader : training_loaders(facts)) {
    const auto own = collate_functions(*loader);
    collates.insert(collates.end(), own.begin(), own.end());
  }
  for (const auto& file : facts.files) {
    if (!trains_on_gpu(facts, *file)) continue;
    for (const ClassDef* def : file->classes) {
      const FunctionDef* get = def->is_dataset ? def->method("__getitem__") : nullptr;
      if (get != nullptr && is_used(facts, *def)) {
        check_items(facts, *get, findings);
      }
    }
    for (const FunctionDef* function : file->functions) {
      if (std::find(collates.begin(), collates.end(), function) == collates.end()) continue;
      check_collate(facts, *function, findings);
    }
  }
  return findings;
}

}  // namespace gpu_copy_per_sample

extern const Rule input_pipeline_gpu_copy_per_sample{
    .id = "input_pipeline/gpu-copy-per-sample",
    .level = Level::warning,
    .cause = Cause::none,
    .summary = "Samples are copied to the GPU one by one",
    .doc = gpu_copy_per_sample::kDoc,
    .in_scripts = gpu_copy_per_sample::find};

}  // namespace rooftile
