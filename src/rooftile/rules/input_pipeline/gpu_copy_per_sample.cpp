#include <fmt/format.h>

#include <algorithm>

#include "rooftile/analysis/source/loaders.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/base/text.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace gpu_copy_per_sample {

constexpr std::string_view kDoc = R"md(
## What it finds
`.cuda()`, `.to(device)` or `torch.tensor(x, device=device)` with a GPU in the `__getitem__` of a
dataset, or in a collate function, that a `DataLoader` uses.

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
    return expr != nullptr && expr->kind == ExprKind::subscript && expr->children().size() == 2 &&
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

void check_function(const SourceFacts& facts, const FunctionDef& function, std::string_view where,
                    std::vector<Finding>& findings) {
  for (const Call* call : function.calls) {
    if (!copies_to_gpu(facts, *call) || !is_reached_by_default(facts, *call)) continue;
    findings.push_back(finding_for(*call, where));
    return;
  }
  // What an item leads to may run once and keep its result.
  const Call* leads = function.name == "__getitem__" ? nullptr : copy_below(facts, function);
  if (leads != nullptr && !leads->receiver_type().is(TypeKind::device)) {
    findings.push_back(finding_for(*leads, where));
  }
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
    const auto own = collate_functions(facts, *loader);
    collates.insert(collates.end(), own.begin(), own.end());
  }
  for (const auto& file : facts.files) {
    if (!trains_on_gpu(facts, *file)) continue;
    for (const ClassDef* def : file->classes) {
      const FunctionDef* get = def->is_dataset ? def->method("__getitem__") : nullptr;
      if (get != nullptr && is_used(facts, *def)) {
        check_function(facts, *get, "__getitem__", findings);
      }
    }
    for (const FunctionDef* function : file->functions) {
      if (std::find(collates.begin(), collates.end(), function) == collates.end()) continue;
      check_function(facts, *function, "the collate function", findings);
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
