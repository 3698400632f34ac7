#include <fmt/format.h>

#include "rooftile/analysis/source/host_reads.h"
#include "rooftile/analysis/source/hot_path.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/step_waits.h"
#include "rooftile/analysis/source/value_places.h"
#include "rooftile/base/text.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace data_dependent_size {

constexpr std::string_view kDoc = R"md(
## What it finds
`nonzero()`, one-argument `torch.where`, `masked_select` or `unique` of a GPU tensor on each
training step.

## Why it costs time
The host has to learn the size before it can allocate the result, so it waits for the GPU each
time.

## How to fix
Work with a fixed size: `torch.where(mask, x, 0)` or a product with the mask in place of the
selection, `topk` with a fixed k. Where the mask comes from the data, compute the indices on the
host with the batch.

## How the saving is estimated
Not from the source alone. With a recording (`rooftile check train.py trace.json.gz`) the step
time says what there is to gain.

## When not to
- Tensors on the host; evaluation.
- One wait costs little, and which remedy fits hangs on what is done with the rows: information throughout.
- Results whose size is truly needed, as in sparse losses: then once per step.

## Evidence
- PyTorch documentation, `torch.nonzero`: "when input is on CUDA, torch.nonzero() causes
  host-device synchronization".
)md";

using namespace source;

const Expr* selected_tensor(const Call& call) {
  if (call.name.starts_with("numpy.")) return nullptr;
  const bool is_function = call.name == "torch.nonzero" || call.name == "torch.masked_select" ||
                           call.name == "torch.unique" || call.name == "torch.argwhere";
  const bool is_one_where = call.name == "torch.where" && call.arguments.size() == 1;
  if (is_function || is_one_where) {
    return call.arguments.empty() ? nullptr : call.arguments.front().value;
  }
  const bool is_method = call.method == "nonzero" || call.method == "masked_select" ||
                         call.method == "unique" || call.method == "argwhere";
  return is_method && call.receiver_type().kind != TypeKind::array ? call.receiver : nullptr;
}

// In the forward of a module and its methods for that, what is not known to be something else is a
// tensor.
bool is_in_forward(const Call& call) {
  const FunctionDef* function = call.function;
  const ClassDef* def = function == nullptr ? nullptr : function->class_def;
  return def != nullptr && (def->is_module || def->is_autograd_function) &&
         runs_in_forward(function);
}

// Unknown values that NumPy made or that a helper gave stay out.
bool may_be_tensor(const Expr* value) {
  const Type& type = *value->type;
  if (type.is(TypeKind::tensor)) return type.residence != Residence::host;
  if (!type.is(TypeKind::unknown)) return false;
  return value->kind != ExprKind::call || value->call()->receiver != nullptr;
}

// `weight.data.eq(1)`: no array has these.
bool works_like_tensor(const Expr* value) {
  const bool found = any_inside(value, [&](const Expr& part) {
    return part.call() != nullptr && part.call()->receiver != nullptr &&
           is_one_of(part.call()->method, {"eq", "ne", "ge", "gt", "le", "lt", "detach"});
  });
  return found && value->type->is(TypeKind::unknown);
}

// torch.nonzero(x), x.masked_select(mask): of a tensor, whatever else is known of it.
bool asks_for_tensor(const Call& call) {
  const bool is_function =
      call.name.starts_with("torch.") && !call.name.starts_with("torch.Tensor");
  return is_function || call.method == "masked_select";
}

// Lightning has moved all that its training step gets.
bool runs_in_lightning_step(const SourceFacts& facts, const Call& call) {
  return any_way(facts, call, [](const Way& way) {
    return way.trains() && way.start != nullptr && way.start->class_def != nullptr &&
           way.start->class_def->is_lightning_module;
  });
}

// `(labels.view(-1) > 0).nonzero()` in a forward of a module.
bool asks_for_places(const Call& call, const Expr* value) {
  return call.method == "nonzero" && call.receiver != nullptr && call.arguments.empty() &&
         value->kind == ExprKind::comparison && is_in_forward(call);
}

// def sequence_loss(logits, targets), which a step calls by way of what it was given.
bool computes_loss(const FunctionDef* function) {
  return function != nullptr && contains_any(lower(function->name), {"loss", "criterion"});
}

// In a forward or what it calls, or a loss, with nothing in it that is known as the host's.
bool is_tensor_by_use(const SourceFacts& facts, const Call& call, const Expr* value) {
  if (!asks_for_tensor(call) && !asks_for_places(call, value)) return false;
  const bool is_in_model = runs_in_forward(call.function) || computes_loss(call.function);
  if (!is_in_model && !runs_in_lightning_step(facts, call)) return false;
  const Type& type = *value->type;
  if (!type.is(TypeKind::unknown) && value->kind != ExprKind::comparison) return false;
  bool has_host = comes_from_numpy(value);
  visit(value, [&](const Expr& part) {
    has_host = has_host || part.type->is(TypeKind::array) ||
               (part.type->is(TypeKind::tensor) && part.type->residence == Residence::host);
    return !has_host;
  });
  return !has_host;
}

// In what a forward calls, tensors that nobody put on the host are where the module is.
bool is_tensor_in_helper(const Call& call, const Expr* value) {
  const Type& type = *value->type;
  if (works_like_tensor(value)) return runs_in_forward(call.function);
  return type.is(TypeKind::tensor) && !type.guessed && type.residence != Residence::host &&
         runs_in_forward(call.function);
}

// `model.loss(scores, labels)` that a training step calls: the module's method gets what the step
// moved, whether the device is known or not.
bool is_in_method_of_step(const Call& call, const Expr* value) {
  const FunctionDef* function = call.function;
  const bool is_method = function != nullptr && function->class_def != nullptr &&
                         function->class_def->is_module && !generates(*function) &&
                         function->name.find("loss") != std::string_view::npos;
  const Type& type = *value->type;
  return is_method && type.is(TypeKind::tensor) && !type.guessed &&
         type.residence != Residence::host;
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  for (const auto& file : facts.files) {
    if (!trains_on_gpu(facts, *file)) continue;
    for (const Call* call : file->calls) {
      const Expr* tensor = selected_tensor(*call);
      if (tensor == nullptr) continue;
      const bool is_tensor =
          is_gpu_value(tensor) || (is_in_forward(*call) && may_be_tensor(tensor)) ||
          is_tensor_in_helper(*call, tensor) || is_in_method_of_step(*call, tensor) ||
          is_tensor_by_use(facts, *call, tensor);
      if (!is_tensor) continue;
      if (!is_hot(facts, *call)) continue;
      Finding finding = finding_at(
          *call,
          fmt::format("`{}` has a size that depends on values: the host waits for the GPU to learn "
                      "it in every step",
                      code_text(*file, call->expr)),
          {"Find the indices on the host while the batch is made; where the rows need not be "
           "packed together, keep the size fixed: torch.where(mask, x, 0), or multiply by the mask",
           Exactness::exact_arithmetic});
      finding.evidence = {Evidence::published("on CUDA it causes host-device synchronization",
                                              "PyTorch documentation, torch.nonzero")};
      add_step(facts, *call->statement, finding);
      findings.push_back(std::move(finding));
    }
  }
  return findings;
}

}  // namespace data_dependent_size

extern const Rule launch_data_dependent_size{
    .id = "launch/data-dependent-size",
    .level = Level::info,
    .cause = Cause::none,
    .summary = "Data-dependent output size forces a sync in every step",
    .doc = data_dependent_size::kDoc,
    .in_scripts = data_dependent_size::find};

}  // namespace rooftile
