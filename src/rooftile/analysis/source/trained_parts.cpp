#include "rooftile/analysis/source/trained_parts.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <vector>

#include "rooftile/analysis/source/head_training.h"
#include "rooftile/analysis/source/iteration.h"
#include "rooftile/analysis/source/layer_queries.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/base/text.h"
#include "rooftile/script/reach/default_settings.h"
#include "rooftile/script/reach/reach.h"
#include "rooftile/script/reach/sure.h"
#include "rooftile/script/reach/unused.h"
#include "rooftile/workload/source_store.h"

namespace rooftile::source {

bool is_named_loss(std::string_view name) {
  return contains_any(lower(name), {"loss", "criterion", "perceptual", "lpips"});
}

namespace {

// `getattr(networks, name)(width)`, `NETWORKS[name](width)`
bool is_chosen_at_run_time(const Call& call) {
  const Expr* callee = call.expr->children().front();
  return call.target == nullptr &&
         (callee->kind == ExprKind::subscript || callee->kind == ExprKind::call);
}

class Search {
 public:
  Search(const SourceFacts& facts, const Program& program, TrainedParts& parts)
      : facts_(facts), program_(program), parts_(parts) {}

  // A network by the expression that is called, or whose parameters are trained.
  void add_network(const Expr& network) {
    const Type& type = *network.type;
    if (type.frozen || type.is(TypeKind::loss) || is_named_loss(last_name(&network))) return;
    add_any(type);
  }

  // The same, frozen or not.
  void add_any(const Type& type) {
    // One of so many classes that they are not kept.
    const bool is_any = type.made_by != nullptr && type.made_by->target != nullptr &&
                        type.made_by->target->name == "__init__";
    if (type.classes().empty() && (type.made_by == nullptr || is_any)) {
      parts_.is_complete = false;
      return;
    }
    ++networks_;
    for (const ClassDef* def : type.classes()) add_class(*def);
    if (type.made_by == nullptr) return;
    add_made(*type.made_by);
  }

  void add_class(const ClassDef& def) {
    if (is_named_loss(def.name)) return;
    for (const ClassDef* each : lineage(&def)) {
      for (const FunctionDef* method : each->methods) add(*method);
    }
  }

  // All that is found leads on.
  void finish() {
    while (!open_.empty()) {
      const FunctionDef& function = *open_.back();
      open_.pop_back();
      for (const Parameter& parameter : function.parameters) add_value(parameter.default_value);
      for (const Call* call : function.calls) add_call(*call);
    }
    parts_.is_complete = parts_.is_complete && networks_ > 0;
  }

 private:
  void add(const FunctionDef& function) {
    if (runs_by_default(facts_, program_, *function.file) &&
        parts_.makers.insert(&function).second) {
      open_.push_back(&function);
    }
  }

  void add_made(const Call& made) {
    if (parts_.made.insert(&made).second) add_call(made);
  }

  // What a call makes, and the classes that it is given to make: ResNet(BasicBlock, layers).
  void add_call(const Call& call) {
    const Type& type = *call.expr->type;
    if (is_chosen_at_run_time(call)) parts_.is_complete = false;
    if (type.frozen || is_named_loss(call.method)) return;
    const bool is_network = type.is(TypeKind::module) && type.class_def != nullptr;
    if (is_network) add_class(*type.class_def);
    if (call.target != nullptr && !is_network) add(*call.target);
    for (const Argument& argument : call.arguments) add_value(argument.value);
  }

  void add_value(const Expr* value) {
    if (value == nullptr) return;
    const Type& type = *value->type;
    const Call* call = value->call();
    if (call != nullptr && is_chosen_at_run_time(*call)) parts_.is_complete = false;
    if (type.class_def != nullptr && type.class_def->is_module) add_class(*type.class_def);
    if (type.is(TypeKind::module) && type.made_by != nullptr && !type.frozen)
      add_made(*type.made_by);
    if (type.function != nullptr) add(*type.function);
  }

  const SourceFacts& facts_;
  const Program& program_;
  TrainedParts& parts_;
  std::vector<const FunctionDef*> open_;
  int networks_ = 0;
};

// What `model(x)` and `model.forward(x)` call, and not the layers of a model.
const Expr* called_network(const SourceFacts& facts, const Call& call) {
  if (!is_forward_call(call) || without_gradients(facts, call)) return nullptr;
  const bool is_plain = call.name == "torch.nn.Module.__call__";
  return is_plain ? call.expr->children().front() : call.receiver;
}

bool is_step_of_library(const FunctionDef& function) {
  const bool is_hook = function.name == "training_step" && function.class_def != nullptr &&
                       function.class_def->is_lightning_module;
  return function.is_training_step || is_hook;
}

TrainedParts found_parts(const SourceFacts& facts, const Program& program) {
  TrainedParts parts;
  parts.is_complete = true;
  Search search(facts, program, parts);
  const auto runs = [&](const File& file) { return runs_by_default(facts, program, file); };
  for (const Loop* loop : training_loops_in_reach(program)) {
    for (const IteratedCall& one : iteration_of(facts, loop->statement->body).calls) {
      const Expr* network = runs(*one.call->file) ? called_network(facts, *one.call) : nullptr;
      if (network != nullptr) search.add_network(*network);
    }
  }
  for (const Call* optimizer : constructions_in(facts, program, TypeKind::optimizer)) {
    if (!runs(*optimizer->file)) continue;
    for (const Expr* network : optimized_modules(*optimizer)) search.add_network(*network);
  }
  for (const File* file : program.files) {
    for (const FunctionDef* function : file->functions) {
      if (is_step_of_library(*function) && function->class_def != nullptr) {
        search.add_class(*function->class_def);
      }
    }
  }
  search.finish();
  return parts;
}

struct PartsByProgram {
  std::unordered_map<const Program*, TrainedParts> parts;
};

}  // namespace

const TrainedParts& trained_parts(const SourceFacts& facts, const Program& program) {
  auto& known = facts.store().kept<PartsByProgram>().parts;
  if (const auto found = known.find(&program); found != known.end()) return found->second;
  return known.emplace(&program, found_parts(facts, program)).first->second;
}

TrainedParts parts_of(const SourceFacts& facts, const Program& program, const Expr& network) {
  TrainedParts parts;
  parts.is_complete = true;
  Search search(facts, program, parts);
  search.add_any(*network.type);
  search.finish();
  return parts;
}

namespace {

// `self.body = make()`, and then `for p in self.body.parameters(): p.requires_grad = trainable`
// with a constant that is false.
bool is_frozen_member(const SourceFacts& facts, const Call& made) {
  const Statement* set = made.statement;
  const ClassDef* def = made.function == nullptr ? nullptr : made.function->class_def;
  if (def == nullptr || set->target == nullptr) return false;
  const std::string_view member = last_name(set->target);
  return std::ranges::any_of(def->file->statements, [&](const Statement* each) {
    const Statement* loop = each->parent;
    const bool switches = each->kind == StatementKind::assignment && each->value != nullptr &&
                          last_name(each->target) == "requires_grad" && each->function != nullptr &&
                          each->function->class_def == def && loop->kind == StatementKind::for_;
    const Call* listed = switches ? loop->value->call() : nullptr;
    return listed != nullptr && listed->method == "parameters" && listed->receiver != nullptr &&
           last_name(listed->receiver) == member && facts.value(each->value).is_false();
  });
}

}  // namespace

bool is_part(const TrainedParts& parts, const Call& made) {
  if (parts.made.contains(&made)) return true;
  for (const FunctionDef* function = made.function; function != nullptr;
       function = function->outer) {
    if (parts.makers.contains(function)) return true;
  }
  return false;
}

namespace {

// Nothing frozen, no loss, and nothing that no program makes.
bool may_be_trained(const SourceFacts& facts, const Call& made) {
  if (made.expr->type->frozen || is_frozen_member(facts, made)) return false;
  const ClassDef* def = made.function == nullptr ? nullptr : made.function->class_def;
  const bool is_loss = def != nullptr && is_named_loss(def->name);
  return !is_loss && !stands_in_unused(facts, *made.statement) &&
         !is_left_by_default(facts, *made.statement);
}

}  // namespace

std::string TrainedLayer::model_text() const {
  return is_certain ? "the model (" + layer.text + ")" : "the model";
}

std::optional<TrainedLayer> trained_layer(const SourceFacts& facts, const Program& program,
                                          FindLayer find) {
  const TrainedParts& parts = trained_parts(facts, program);
  auto layer = find(facts, program, [&](const Call& made) {
    return is_part(parts, made) && !is_frozen_member(facts, made) &&
           !is_left_by_default(facts, *made.statement);
  });
  if (layer) return TrainedLayer{*std::move(layer), true};
  if (parts.is_complete) return std::nullopt;
  layer = find(facts, program, [&](const Call& made) {
    return runs_by_default(facts, program, *made.file) && may_be_trained(facts, made);
  });
  return layer ? std::optional(TrainedLayer{*std::move(layer), false}) : std::nullopt;
}

}  // namespace rooftile::source
