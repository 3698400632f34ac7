#include <fmt/format.h>

#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace training_loop_frozen_layers_tracked_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
The only optimizer of a program gets the head of a library's network (`model.fc.parameters()`), the
whole network runs in the training step, and nothing freezes the rest.

## Why it costs time
Backward is two thirds of a step. Here nearly all of it is for gradients that nobody uses, and they
pile up, because `optimizer.zero_grad()` clears only those of the head.

## How to fix
`model.requires_grad_(False)`, then `model.fc.requires_grad_(True)`, before the optimizer is made.

## How the saving is estimated
Not from the source alone. As a rule, forward is one third of a step and backward two thirds.

## When not to
- The other layers run under `no_grad`, are frozen, or belong to another optimizer.
- They have no parameters.

## Evidence
- PyTorch tutorial "Transfer Learning for Computer Vision", section "ConvNet as fixed feature
  extractor".
)md";

using namespace source;

// `model.fc` in `model.fc.parameters()`.
struct TrainedPart {
  const Expr* model = nullptr;
  std::string_view part;
};

std::vector<TrainedPart> parts_of(const Expr* parameters, bool& has_whole_model) {
  std::vector<TrainedPart> parts;
  visit(resolved(parameters), [&](const Expr& expr) {
    if (expr.call == nullptr || expr.call->receiver == nullptr) return true;
    if (expr.call->method != "parameters" && expr.call->method != "named_parameters") return true;
    const Expr& module = *expr.call->receiver;
    const bool is_part = module.kind == ExprKind::attribute && !module.children.empty() &&
                         module.children.front()->type != nullptr &&
                         module.children.front()->type->is(TypeKind::module);
    if (is_part) {
      parts.push_back({module.children.front(), module.word});
    } else {
      has_whole_model = true;
    }
    return false;
  });
  return parts;
}

bool is_freezing(const Program& program) {
  return mentions(program, {"requires_grad", "requires_grad_", "no_grad", "inference_mode",
                            "detach", "freeze", "frozen", "set_grad_enabled"});
}

// A library's network, of which the head alone is trained.
bool is_library_network(const Expr& model) {
  const Call* made = model.type->made_by;
  return made != nullptr && (made->name.starts_with("torchvision.models.") ||
                             made->name == "timm.create_model" || made->name == "torch.hub.load");
}

bool is_head(std::string_view part) {
  return part == "fc" || part == "classifier" || part == "head" || part == "heads";
}

bool is_called_in_training(const SourceFacts& facts, const Program& program, const Expr& model) {
  for (const Call* call : facts.calls("torch.nn.Module.__call__")) {
    if (call->expr->children.empty() || !contains(program, *call->file)) continue;
    const bool is_same = is_same_object(call->expr->children.front(), &model);
    if (is_same && facts.in_each_training_step(*call)) return true;
  }
  return false;
}

std::vector<Finding> check(const RuleInput& input) {
  if (input.workload.source == nullptr) return {};
  const SourceFacts& facts = *input.workload.source;
  std::vector<Finding> findings;
  for (const Program* program : training_programs(facts)) {
    const auto optimizers = constructions_in(facts, *program, TypeKind::optimizer);
    if (optimizers.size() != 1 || optimizers.front()->arguments.empty()) continue;
    if (is_freezing(*program)) continue;
    bool has_whole_model = false;
    const Call& optimizer = *optimizers.front();
    const auto parts = parts_of(optimizer.arguments.front().value, has_whole_model);
    if (parts.size() != 1 || has_whole_model) continue;
    const auto& [model, part] = parts.front();
    if (!is_library_network(*model) || !is_head(part)) continue;
    if (!is_called_in_training(facts, *program, *model)) continue;
    const std::string name = code_text(*optimizer.file, model);
    Finding finding = finding_at(
        optimizer,
        fmt::format(
            "only {}.{} is trained, but backward computes the gradients of all other layers "
            "of {} too",
            name, part, name),
        {fmt::format(
             "Call {0}.requires_grad_(False) and then {0}.{1}.requires_grad_(True) before the "
             "optimizer is made",
             name, part),
         Exactness::bit_exact});
    finding.evidence = {fmt::format("{} comes from {}, nothing in the program freezes it", name,
                                    model->type->made_by->name),
                        "PyTorch tutorial, Transfer Learning for Computer Vision, ConvNet as fixed "
                        "feature extractor"};
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace training_loop_frozen_layers_tracked_rule

extern const Rule training_loop_frozen_layers_tracked{
    .id = "training_loop/frozen-layers-tracked",
    .level = Level::advice,
    .cause = Cause::none,
    .summary = "layers that no optimizer trains still get gradients",
    .doc = training_loop_frozen_layers_tracked_rule::kDoc,
    .check = training_loop_frozen_layers_tracked_rule::check};

}  // namespace rooftile
