// `model = create_model(opt)`, then `model.optimize_parameters()`: methods by their names, and
// those that override what a base class calls.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "rooftile/base/text.h"
#include "rooftile/readers/python/derive.h"
#include "rooftile/readers/python/passed_functions.h"
#include "rooftile/workload/source_store.h"

namespace rooftile::source {
namespace {

// A name that more classes define says too little.
constexpr std::size_t kMaxNamesakes = 16;
constexpr std::size_t kMaxNetworks = 48;  // to choose from, with the same methods
// Of one base class, whose objects are told apart by nothing but an option.
constexpr std::size_t kMaxOverrides = 64;
constexpr std::size_t kMaxLinkedCallers = 1000;

// Two words or more, as own methods have; of those, not the ones of libraries.
bool is_distinctive(std::string_view method) {
  const std::size_t bar = method.find('_', 1);
  if (method.starts_with('_') || bar == std::string_view::npos || bar + 1 == method.size()) {
    return false;
  }
  return !is_one_of(method,
                    {"state_dict",      "load_state_dict", "zero_grad",       "named_parameters",
                     "named_modules",   "set_epoch",       "add_scalar",      "add_argument",
                     "parse_args",      "from_pretrained", "save_pretrained", "add_module",
                     "register_buffer", "get_lr",          "set_description", "set_postfix",
                     "load_checkpoint", "save_checkpoint", "add_image",       "log_dict"});
}

bool has_unknown_receiver(const Call& call) {
  if (call.receiver == nullptr || call.target != nullptr) return false;
  const Type& type = *call.receiver->type;
  // One own module or another, by an option.
  const bool is_open = type.name.empty() || type.name == "torch.nn.Module";
  if (type.is(TypeKind::module) && type.class_def == nullptr && is_open) return true;
  if (type.guessed && type.class_def == nullptr) return true;  // an own optimizer by its name
  if (!call.name.empty()) return false;
  const bool is_object =
      type.is(TypeKind::host_object) && type.class_def == nullptr && type.name.empty();
  return type.is(TypeKind::unknown) || type.guessed || is_object;
}

// Only pass, raise, a text or nothing to return.
bool is_abstract(const FunctionDef& def) {
  return std::ranges::all_of(def.body, [](const Statement* statement) {
    switch (statement->kind) {
      case StatementKind::pass:
      case StatementKind::raise_:
        return true;
      case StatementKind::return_:
        return statement->value == nullptr || statement->value->kind == ExprKind::none;
      case StatementKind::expression:
        return statement->value != nullptr && (statement->value->kind == ExprKind::text ||
                                               statement->value->kind == ExprKind::ellipsis);
      default:
        return false;
    }
  });
}

class Linker {
 public:
  explicit Linker(SourceFacts& facts) : facts_(facts) {}

  void run() {
    for (const auto& file : facts_.files) {
      for (const FunctionDef* def : file->functions) {
        if (def->class_def != nullptr) methods_[def->name].push_back(def);
      }
      for (const Call* call : file->calls) {
        if (contains(call->method, "backward")) training_.insert(call->function);
      }
      for (const Statement* statement : file->statements) {
        note_member(*statement);
        note_returned(*statement);
        note_function(*statement);
      }
    }
    for (const auto& file : facts_.files) {
      for (const Call* call : file->calls) {
        link_passed(const_cast<Call&>(*call));
        link_returned(const_cast<Call&>(*call));
        link_step(*call);
        link_member(const_cast<Call&>(*call));
        link_held(const_cast<Call&>(*call));
        link_table(const_cast<Call&>(*call));
        if (has_unknown_receiver(*call)) {
          link_by_name(const_cast<Call&>(*call));
        } else {
          link_overrides(const_cast<Call&>(*call));
        }
      }
    }
  }

 private:
  // Where a variable stands: its function, or its file at the top.
  static const void* place_of(const Statement& statement) {
    return statement.function != nullptr ? static_cast<const void*>(statement.function)
                                         : static_cast<const void*>(statement.file);
  }

  // `self.loss_function = self.crf.likelihood`
  void note_member(const Statement& statement) {
    const bool sets = statement.kind == StatementKind::assignment &&
                      statement.target->kind == ExprKind::attribute && statement.value != nullptr;
    const FunctionDef* set = sets ? statement.value->type->function : nullptr;
    const ClassDef* owner = sets ? statement.target->children()[0]->type->class_def : nullptr;
    if (set != nullptr && owner != nullptr)
      members_[owner][statement.target->word()].push_back(set);
  }

  // self.loss_function(x, y)
  void link_member(Call& call) {
    if (call.receiver == nullptr) return;
    const auto owner = members_.find(call.receiver->type->class_def);
    if (owner == members_.end()) return;
    const auto set = owner->second.find(call.method);
    if (set == owner->second.end() || set->second.size() > kMaxNamesakes) return;
    // Set in several places: the type tells of one of them.
    if (call.target == nullptr || set->second.size() > 1) link(call, set->second);
  }

  // `loss = lambda a, b: own_loss(a, b)`: the function that it stands for.
  void note_function(const Statement& statement) {
    const bool sets = statement.kind == StatementKind::assignment &&
                      statement.target->kind == ExprKind::name && statement.word == "=" &&
                      statement.value != nullptr;
    if (!sets) return;
    const Expr& value = *statement.value;
    const bool is_lambda = value.kind == ExprKind::lambda;
    const Call* inner = is_lambda ? value.children().back()->call() : nullptr;
    const FunctionDef* function = inner != nullptr ? inner->target : nullptr;
    if (!is_lambda) function = value.type->function;
    if (function == nullptr) return;
    held_[place_of(statement)][statement.target->word()].push_back(function);
  }

  // `return train_slowly` of a function that makes several.
  void note_returned(const Statement& statement) {
    const bool returns = statement.kind == StatementKind::return_ && statement.value != nullptr;
    const FunctionDef* made = returns ? statement.value->type->function : nullptr;
    if (made != nullptr && made->outer == statement.function) {
      returned_[statement.function].push_back(made);
    }
  }

  // scaler.step(optimizer) runs the step of an own optimizer, optimizer.step(closure) the closure.
  static void link_step(const Call& call) {
    const FunctionDef* step = closure_of(call);
    const bool scales = call.method == "step" && call.receiver != nullptr &&
                        call.receiver->type->is(TypeKind::scaler) && !call.arguments.empty();
    const ClassDef* def = scales ? call.arguments[0].value->type->class_def : nullptr;
    if (def != nullptr) step = def->method("step");
    if (step == nullptr) return;
    std::vector<const Call*>& callers = const_cast<FunctionDef*>(step)->callers;
    if (std::ranges::find(callers, &call) == callers.end()) callers.push_back(&call);
  }

  // `train(x)` of `train = make_train(config)`: any of the functions that are made there.
  void link_returned(Call& call) {
    if (call.target == nullptr || call.target->outer == nullptr) return;
    if (call.function == call.target->outer) return;
    const auto made = returned_.find(call.target->outer);
    if (made != returned_.end() && made->second.size() > 1) link(call, made->second);
  }

  void link_by_name(Call& call) {
    // `model.predict(x)` of one network or another: a word of the project, whatever it is.
    const bool is_network = call.receiver->type->is(TypeKind::module) && call.name.empty() &&
                            !call.method.starts_with('_');
    if (!is_network && !is_distinctive(call.method)) return;
    const auto found = methods_.find(call.method);
    const std::size_t most = is_network ? kMaxNetworks : kMaxNamesakes;
    if (found == methods_.end() || found->second.size() > most) return;
    std::vector<const FunctionDef*> reached;
    for (const FunctionDef* def : found->second) {
      const bool fits = is_distinctive(call.method) || def->class_def->is_module;
      if (fits && reach(*call.file).contains(*def->file)) reached.push_back(def);
    }
    put_bases_last(reached);
    link(call, reached);
  }

  // What a derived class has in place of it stands for the method of a base class, but for one that
  // does its work by `super()`.
  void put_bases_last(std::vector<const FunctionDef*>& methods) const {
    std::stable_partition(methods.begin(), methods.end(), [&](const FunctionDef* def) {
      return std::ranges::none_of(methods, [&](const FunctionDef* other) {
        const bool replaces = other != def && derives(facts_, *other->class_def, *def->class_def);
        return replaces &&
               std::ranges::find(def->callers, other, &Call::function) == def->callers.end();
      });
    });
  }

  // `loss(a, b)` of a name that stands for functions.
  void link_held(Call& call) {
    const Expr& callee = *call.expr->children().front();
    // Set in several branches: the type tells of one of them.
    const bool is_known = call.target != nullptr && callee.binding() != nullptr;
    if (callee.kind != ExprKind::name || is_known) return;
    const bool is_parameter =
        call.function != nullptr &&
        std::ranges::find(call.function->parameters, callee.word(), &Parameter::name) !=
            call.function->parameters.end();
    if (is_parameter) return;
    for (const void* place : {place_of(*call.statement), static_cast<const void*>(call.file)}) {
      const auto names = held_.find(place);
      if (names == held_.end()) continue;
      const auto found = names->second.find(callee.word());
      if (found == names->second.end()) continue;
      if (call.target == nullptr || found->second.size() > 1) link(call, found->second);
      return;
    }
  }

  // `losses = {"boxes": self.loss_boxes, …}`, and then `losses[name](outputs)`: all of them.
  static void link_table(Call& call) {
    const Expr& callee = *call.expr->children().front();
    const bool picks = callee.kind == ExprKind::subscript;
    const Expr* items = picks ? callee.children().front()->type->items : nullptr;
    if (items == nullptr || items->children().size() > 2 * kMaxNamesakes) return;
    std::vector<const FunctionDef*> held;
    for (const Expr* item : items->children()) {
      if (item->type->function != nullptr) held.push_back(item->type->function);
    }
    if (held.size() > 1) link(call, held);
  }

  // `get_loss(batch)` of a parameter runs what the callers pass, also where they pass several.
  void link_passed(Call& call) {
    const FunctionDef* function = call.function;
    if (function == nullptr || call.receiver != nullptr) return;
    const Expr& callee = *call.expr->children().front();
    if (callee.kind != ExprKind::name || callee.binding() != nullptr) return;
    for (const Call* caller : function->callers) {
      const Argument* given = passed_argument(*caller, *function, callee.word());
      if (given == nullptr) continue;
      const FunctionDef* passed = given->value->type->function;
      if (passed != nullptr) link(call, {passed});
    }
  }

  // self.compute_loss() of a base class runs what the class of the object has.
  void link_overrides(Call& call) {
    const FunctionDef* target = call.target;
    if (target == nullptr) return link_derived(call);
    // super().run() leads to the base class alone.
    const Call* made = call.receiver == nullptr ? nullptr : call.receiver->call();
    if (made != nullptr && made->name == "super") return;
    const bool is_method =
        call.receiver != nullptr && target->class_def != nullptr && target->name == call.method &&
        call.receiver->type->class_def != nullptr && call.receiver->type->made_by == nullptr;
    if (!is_method) return;
    const auto found = methods_.find(call.method);
    if (found == methods_.end() || found->second.size() > kMaxOverrides) return;
    std::vector<const FunctionDef*> overrides;
    for (const FunctionDef* def : found->second) {
      if (def != target && derives(facts_, *def->class_def, *call.receiver->type->class_def)) {
        overrides.push_back(def);
      }
    }
    // What trains stands for all, not the one that only looks at the data.
    const auto trains = [&](const FunctionDef* def) { return training_.contains(def); };
    std::stable_partition(overrides.begin(), overrides.end(), trains);
    if (is_abstract(*target)) call.target = nullptr;
    link(call, overrides);
    if (call.target == nullptr) call.target = target;
  }

  // self.evaluate_pairs() of a base class that has no such method itself.
  void link_derived(Call& call) {
    const bool is_own = call.receiver != nullptr && call.receiver->kind == ExprKind::name &&
                        call.receiver->word() == "self" &&
                        call.receiver->type->class_def != nullptr && call.name.empty();
    const auto found = is_own ? methods_.find(call.method) : methods_.end();
    if (found == methods_.end() || found->second.size() > kMaxOverrides) return;
    std::vector<const FunctionDef*> derived;
    for (const FunctionDef* def : found->second) {
      if (derives(facts_, *def->class_def, *call.receiver->type->class_def)) derived.push_back(def);
    }
    link(call, derived);
  }

  // The first that does something is what the call stands for; all know that it leads to them.
  static void link(Call& call, const std::vector<const FunctionDef*>& functions) {
    for (const FunctionDef* def : functions) {
      if (is_abstract(*def)) continue;
      if (call.target == nullptr) call.target = def;
      std::vector<const Call*>& callers = const_cast<FunctionDef*>(def)->callers;
      const bool has_room = callers.size() < kMaxLinkedCallers;
      if (has_room && std::ranges::find(callers, &call) == callers.end()) callers.push_back(&call);
    }
  }

  // The file and all that it imports, also through others.
  const FileSet& reach(const File& file) {
    const auto [known, is_new] = reach_.try_emplace(&file);
    FileSet& seen = known->second;
    if (!is_new) return seen;
    for (const File* one : with_imported(file)) seen.insert(*one);
    return seen;
  }

  SourceFacts& facts_;
  std::unordered_map<std::string_view, std::vector<const FunctionDef*>> methods_;
  // Functions that a variable stands for.
  std::unordered_map<const void*,
                     std::unordered_map<std::string_view, std::vector<const FunctionDef*>>>
      held_;
  std::unordered_map<const File*, FileSet> reach_;
  // Functions that a class keeps in an attribute.
  std::unordered_map<const ClassDef*,
                     std::unordered_map<std::string_view, std::vector<const FunctionDef*>>>
      members_;
  // Functions inside of one that it returns.
  std::unordered_map<const FunctionDef*, std::vector<const FunctionDef*>> returned_;
  std::unordered_set<const FunctionDef*> training_;  // with a backward() in them
};

}  // namespace

void link_dynamic_calls(SourceFacts& facts) { Linker(facts).run(); }

}  // namespace rooftile::source
