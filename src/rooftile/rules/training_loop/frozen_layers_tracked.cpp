#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "rooftile/analysis/source/iteration.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/unowned_networks.h"
#include "rooftile/analysis/source/words.h"
#include "rooftile/base/text.h"
#include "rooftile/rules/source_finding.h"
#include "rooftile/script/reach/reach.h"

namespace rooftile {
namespace training_loop_frozen_layers_tracked_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
The only optimizer of a program gets the head of a library's network (`model.fc.parameters()`), the
whole network runs in the training step, and nothing freezes the rest. Or a network that no optimizer
gets (a loss network, a teacher) runs in the training step and is not frozen: a pretrained one in
`eval()`, or an own one of which all uses are seen.

## Why it costs time
Backward is two thirds of a step. Here nearly all of it is for gradients that nobody uses, and they
pile up, because `optimizer.zero_grad()` clears only those of the head.

## How to fix
`network.requires_grad_(False)` for a network that is not trained: gradients still flow through it
to its input. For a head: `model.requires_grad_(False)`, then `model.fc.requires_grad_(True)`,
before the optimizer is made.

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
    if (expr.call() == nullptr || expr.call()->receiver == nullptr) return true;
    if (expr.call()->method != "parameters" && expr.call()->method != "named_parameters")
      return true;
    const Expr& module = *expr.call()->receiver;
    const bool is_part =
        module.kind == ExprKind::attribute && module.children().front()->type->is(TypeKind::module);
    if (is_part) {
      parts.push_back({module.children().front(), module.word()});
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
    if (!program.has(*call->file)) continue;
    const bool is_same = is_same_object(call->expr->children().front(), &model);
    if (is_same && in_each_training_step(facts, *call)) return true;
  }
  return false;
}

void check_heads(const SourceFacts& facts, std::vector<Finding>& findings) {
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
    finding.evidence = {
        Evidence::found(fmt::format("{} comes from {}, nothing in the program freezes it", name,
                                    model->type->made_by->name)),
        Evidence::published("PyTorch tutorial, Transfer Learning for Computer Vision, ConvNet as "
                            "fixed feature extractor")};
    findings.push_back(std::move(finding));
  }
}

bool is_pretrained_network(const Call& call) {
  return call.name.starts_with("torchvision.models.") || call.name == "timm.create_model" ||
         call.name == "torch.hub.load" ||
         (call.name.starts_with("transformers.") && call.method == "from_pretrained");
}

// A library's network, or an own class around one: the feature extractor of a perceptual loss, a
// teacher.
bool is_feature_network(const Type& type) {
  const Call* made = type.made_by;
  if (!type.is(TypeKind::module) || made == nullptr || type.frozen) return false;
  if (is_pretrained_network(*made)) return true;
  if (type.class_def == nullptr) return false;
  const auto wraps = [](const FunctionDef* method) {
    return std::any_of(method->calls.begin(), method->calls.end(),
                       [](const Call* call) { return is_pretrained_network(*call); });
  };
  const std::string_view text = type.class_def->file->slice(type.class_def->statement->range);
  return std::any_of(type.class_def->methods.begin(), type.class_def->methods.end(), wraps) &&
         !has_word(text, "requires_grad") && !has_word(text, "no_grad") &&
         !has_word(text, "detach");
}

// What is done with the network besides calling it.
struct NetworkUse {
  bool is_evaluating = false;  // .eval() is called on it
  bool is_handed_on = false;   // to an optimizer, a wrapper or a function, or it is frozen
};

bool is_about(const Expr* expr, const Expr& network) {
  return expr != nullptr && is_same_object(expr, &network);
}

// Of `network.features[0].parameters()` too: who freezes or trains a part knows what is trained.
bool is_about_part(const Expr* expr, const Expr& network) {
  while (expr != nullptr && !is_about(expr, network)) {
    const bool is_part = expr->kind == ExprKind::attribute || expr->kind == ExprKind::subscript;
    expr = is_part ? expr->children()[0] : nullptr;
  }
  return expr != nullptr;
}

NetworkUse use_of(const Program& program, const Expr& network) {
  NetworkUse use;
  for (const File* file : program.files) {
    for (const Call* call : file->calls) {
      if (call->method == "eval" && is_about(call->receiver, network)) use.is_evaluating = true;
      for (const std::string_view method :
           {"parameters", "named_parameters", "requires_grad_", "train", "children"}) {
        const bool is_used = call->method == method && is_about_part(call->receiver, network);
        use.is_handed_on = use.is_handed_on || is_used;
      }
      // A function of the project is looked at itself: what it does with its parameter.
      const bool is_followed = call->target != nullptr && call->target->class_def == nullptr;
      if (call->name == "print" || is_followed) continue;
      for (const Argument& argument : call->arguments) {
        if (is_about(argument.value, network)) use.is_handed_on = true;
      }
    }
  }
  return use;
}

// `features = vgg(x).detach()`, or of the variable later: the graph ends there.
bool is_cut_off(const Call& call) {
  const Expr* outer = call.expr->parent;
  const auto cuts = [](const Expr* expr) {
    return expr != nullptr && expr->kind == ExprKind::attribute &&
           is_one_of(expr->word(), {"detach", "data", "detach_", "item"});
  };
  if (cuts(outer)) return true;
  const Statement* set = call.statement;
  const bool is_set = set->kind == StatementKind::assignment && set->value == call.expr &&
                      set->target->kind == ExprKind::name;
  if (!is_set || call.function == nullptr) return false;
  return std::ranges::any_of(call.function->calls, [&](const Call* each) {
    return each->receiver != nullptr && each->method == "detach" &&
           each->receiver->word() == set->target->word();
  });
}

// The network of `network(x)` and `network.encode(x)`; null for other calls.
const Expr* network_of(const Call& call) {
  const bool is_call = call.name == "torch.nn.Module.__call__";
  const bool is_method = !is_call && call.receiver != nullptr && call.target != nullptr &&
                         call.target->class_def != nullptr && call.target->class_def->is_module;
  const Expr* network = is_call     ? call.expr->children().front()
                        : is_method ? call.receiver
                                    : nullptr;
  return network != nullptr && network->type->is(TypeKind::module) ? network : nullptr;
}

// Calls of an iteration that record a graph through a network which nobody trains.
const Call* untrained_forward(const SourceFacts& facts, const Program& program,
                              const Iteration& iteration) {
  for (const IteratedCall& one : iteration.calls) {
    const Call& call = *one.call;
    const Expr* network = network_of(call);
    if (network == nullptr || is_inside_module(call)) continue;
    const bool is_feature = call.name == "torch.nn.Module.__call__" &&
                            is_feature_network(*network->type) && !is_cut_off(call);
    const bool is_unowned = is_in_no_optimizer(facts, call) && reaches_backward(call);
    if (!is_feature && !is_unowned) continue;
    const Ways& ways = ways_to(facts, call);
    const bool is_trained_through = std::ranges::any_of(
        ways, [](const Way& way) { return way.trains() && !way.is_off_by_default; });
    if (!is_trained_through || std::ranges::any_of(ways, &Way::gradients_off)) continue;
    if (is_unowned) return &call;
    const NetworkUse use = use_of(program, *network);
    if (use.is_evaluating && !use.is_handed_on) return &call;
  }
  return nullptr;
}

void check_networks(const SourceFacts& facts, std::vector<Finding>& findings) {
  std::unordered_set<const Call*> seen;
  for (const Program* program : training_programs(facts)) {
    for (const Loop* loop : program->training_loops) {
      const Call* call =
          untrained_forward(facts, *program, iteration_of(facts, loop->statement->body));
      if (call == nullptr || !seen.insert(call).second) continue;
      const Expr* network = network_of(*call);
      const std::string name = code_text(*call->file, network);
      Finding finding = finding_at(
          *call,
          fmt::format("{} is in no optimizer, but backward computes the gradients of its weights",
                      name),
          {fmt::format("Call {}.requires_grad_(False) where it is made: gradients still flow "
                       "through it to its input",
                       name),
           Exactness::bit_exact});
      const Call* made = network->type->made_by;
      finding.evidence = {
          made == nullptr ? Evidence::found(fmt::format("nothing in the program freezes {}", name))
                          : Evidence::found(fmt::format("{} made at {}, nothing in the program "
                                                        "freezes it",
                                                        name, place_text(*made, *call->file))),
          Evidence::published("PyTorch documentation, Autograd mechanics, Setting requires_grad")};
      findings.push_back(std::move(finding));
    }
  }
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  check_heads(facts, findings);
  check_networks(facts, findings);
  return findings;
}

}  // namespace training_loop_frozen_layers_tracked_rule

extern const Rule training_loop_frozen_layers_tracked{
    .id = "training_loop/frozen-layers-tracked",
    .level = Level::advice,
    .cause = Cause::none,
    .summary = "Layers that no optimizer trains still get gradients",
    .doc = training_loop_frozen_layers_tracked_rule::kDoc,
    .in_scripts = training_loop_frozen_layers_tracked_rule::find};

}  // namespace rooftile
