// What a wrapped model is used for: whether a training can reach its weights.
#include "rooftile/analysis/source/model_uses.h"

#include <algorithm>
#include <string_view>

#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/base/text.h"
#include "rooftile/script/reach/reach.h"

namespace rooftile::source {
namespace {

struct Uses {
  bool runs = false;         // model(x)
  bool records = false;      // model(x) with gradients on
  bool escapes = false;      // an optimizer takes it, or it is lost sight of
  bool is_switched = false;  // `head.train()`
  bool has_others = false;   // other attributes than those that move and switch it
  bool is_open = false;      // attributes that may lead to its weights or its parts
};

void follow_variable(const SourceFacts& facts, const File& file, ByteRange scope,
                     std::string_view name, int levels, Uses& uses);

// `evaluate(model, loader)`: what the function does with it.
void follow_model_argument(const SourceFacts& facts, const Call& call, const Expr& given,
                           int levels, Uses& uses) {
  const FunctionDef* target = call.target;
  if (target == nullptr || target->class_def != nullptr) {
    // Another branch wraps the model that it made.
    uses.escapes = uses.escapes || !is_one_of(call.name, {"print", "len", "isinstance", "hasattr",
                                                          "type", "torch.nn.DataParallel"});
    return;
  }
  const auto argument = std::ranges::find(call.arguments, &given, &Argument::value);
  const bool is_known = argument != call.arguments.end() && !argument->unpacked && levels > 0;
  std::string_view name = is_known ? argument->name : "";
  if (is_known && name.empty() && argument->position < target->parameters.size()) {
    name = target->parameters[argument->position].name;
  }
  if (name.empty()) {
    uses.escapes = true;
    return;
  }
  follow_variable(facts, *target->file, target->statement->range, name, levels - 1, uses);
}

// `SGD(model.parameters())`; a loop over the parameters freezes them or counts them.
bool hands_on_weights(const Expr& attribute) {
  if (attribute.word() != "parameters" && attribute.word() != "named_parameters") return false;
  if (attribute.statement != nullptr && attribute.statement->kind == StatementKind::for_) {
    return false;
  }
  for (const Expr* outer = attribute.parent; outer != nullptr; outer = outer->parent) {
    if (outer->kind == ExprKind::comprehension) return false;
  }
  return true;
}

// The call in `return model.cuda()`, which gives the model itself; null for other attributes.
const Expr* moved_model(const Expr& attribute) {
  const Expr* call = attribute.parent;
  const bool is_move = is_one_of(attribute.word(), {"cuda", "to", "float", "half", "bfloat16",
                                                    "double", "requires_grad_", "train"});
  return is_move && call != nullptr && call->call() != nullptr && call->children()[0] == &attribute
             ? call
             : nullptr;
}

void note_attribute(const Expr& attribute, std::string_view name, Uses& uses) {
  uses.escapes = uses.escapes || hands_on_weights(attribute);
  uses.is_switched = uses.is_switched || attribute.word() == "train";
  uses.has_others =
      uses.has_others || !is_one_of(attribute.word(), {"cuda", "to", "float", "half", "bfloat16",
                                                       "double", "train", "eval"});
  uses.is_open =
      uses.is_open || !is_one_of(attribute.word(), {"cuda", "to", "float", "half", "eval", "cpu",
                                                    "double", "load_state_dict", "requires_grad_"});
  const Expr* moved = moved_model(attribute);
  if (moved == nullptr || moved->statement == nullptr || moved->parent != nullptr) return;
  // `return model.cuda()`, `net = model.cuda()`; `model = model.cuda()` stays in sight.
  const Statement& statement = *moved->statement;
  const Expr* target = statement.target;
  const bool stays = target != nullptr && target->kind == ExprKind::name && target->word() == name;
  const bool is_kept = statement.kind == StatementKind::assignment && !stays;
  uses.escapes = uses.escapes || is_kept || statement.kind == StatementKind::return_;
}

void note_model_use(const SourceFacts& facts, const Expr& name, int levels, Uses& uses) {
  const Expr* outer = name.parent;
  const Statement* statement = name.statement;
  const Expr* target = statement == nullptr ? nullptr : statement->target;
  const bool is_set = target != nullptr && target->kind == ExprKind::name &&
                      target->word() == name.word() && statement->kind == StatementKind::assignment;
  if (statement != nullptr && statement->kind == StatementKind::delete_) return;
  if (outer == nullptr) {
    uses.escapes = uses.escapes || target != &name;
  } else if (outer->kind == ExprKind::attribute) {
    note_attribute(*outer, name.word(), uses);
  } else if (outer->call() != nullptr && outer->children()[0] == &name) {
    uses.runs = true;
    uses.records = uses.records || !without_gradients(facts, *outer->call());
  } else if (outer->call() != nullptr) {
    follow_model_argument(facts, *outer->call(), name, levels, uses);
  } else {
    // `model = model.cuda() if cuda else model`
    uses.escapes = uses.escapes || (outer->kind != ExprKind::comparison && !is_set);
  }
}

// The uses of a plain variable within a range of the file.
void follow_variable(const SourceFacts& facts, const File& file, ByteRange scope,
                     std::string_view name, int levels, Uses& uses) {
  for (const Statement* statement : file.statements) {
    const std::uint32_t at = statement->range.begin;
    if (at < scope.begin || at >= scope.end || uses.escapes) continue;
    for_own_expressions(*statement, [&](const Expr* expr) {
      visit(expr, [&](const Expr& part) {
        const bool is_use = part.kind == ExprKind::name && part.word() == name;
        if (is_use) note_model_use(facts, part, levels, uses);
        return !is_use;
      });
    });
  }
}

ByteRange scope_of(const Call& call) {
  if (call.function != nullptr) return call.function->statement->range;
  return {0, static_cast<std::uint32_t>(call.file->text.size())};
}

// `net = build(…)`, and all else that it is set to is made of itself.
bool is_made_here(const Call& wrap, std::string_view name) {
  const FunctionDef* function = wrap.function;
  const bool is_parameter =
      function != nullptr &&
      std::ranges::find(function->parameters, name, &Parameter::name) != function->parameters.end();
  bool is_made = false;
  for (const Statement* statement : wrap.file->statements) {
    const Expr* target = statement->target;
    if (statement->function != function || target == nullptr || !uses_variable(target, name)) {
      continue;
    }
    if (statement->value != nullptr && uses_variable(statement->value, name)) continue;
    const bool is_call = statement->kind == StatementKind::assignment &&
                         target->kind == ExprKind::name && statement->value != nullptr &&
                         statement->value->call() != nullptr;
    const bool is_part = target->kind == ExprKind::attribute || target->kind == ExprKind::subscript;
    if (!is_call && !is_part) return false;
    is_made = is_made || is_call;
  }
  return is_made && !is_parameter;
}

bool has_imported(const File& file, const File& other) {
  return std::ranges::find(file.imported, &other) != file.imported.end();
}

// One place that names the attribute: it runs there with gradients off, is moved, or is set anew.
bool keeps_weights_still(const SourceFacts& facts, const Expr& member, bool& runs) {
  const Expr* outer = member.parent;
  const Statement* statement = member.statement;
  if (outer == nullptr) return statement != nullptr && statement->target == &member;
  if (outer->kind == ExprKind::attribute) {
    return is_one_of(outer->word(), {"cuda", "to", "float", "half", "eval", "load_state_dict"});
  }
  if (outer->call() == nullptr) return false;
  if (outer->children()[0] != &member) return outer->call()->name == "torch.nn.DataParallel";
  runs = true;
  return without_gradients(facts, *outer->call());
}

}  // namespace

// `teacher = nn.DataParallel(teacher)` of a variable that only runs under no_grad from there on: a
// teacher, a frozen backbone, a model for evaluation.
bool runs_without_gradients(const SourceFacts& facts, const Call& call) {
  const Statement* wrap = call.statement;
  const bool is_plain = wrap != nullptr && wrap->kind == StatementKind::assignment &&
                        wrap->target != nullptr && wrap->target->kind == ExprKind::name;
  if (!is_plain) return false;
  const std::uint32_t end = call.function != nullptr
                                ? call.function->statement->range.end
                                : static_cast<std::uint32_t>(call.file->text.size());
  Uses uses;
  follow_variable(facts, *call.file, {wrap->range.end, end}, wrap->target->word(), kMaxCallDepth,
                  uses);
  // Who switches it to train() and runs it, be it by a method, trains it.
  if (uses.is_switched && (uses.runs || uses.has_others)) return false;
  // A variable of a function that is neither called nor handed on only took the weights of a file.
  return !uses.escapes && !uses.records && (uses.runs || call.function != nullptr);
}

bool meets_no_optimizer(const SourceFacts& facts, const Call& call) {
  const Statement* wrap = call.statement;
  const bool is_plain = wrap != nullptr && wrap->kind == StatementKind::assignment &&
                        wrap->target != nullptr && wrap->target->kind == ExprKind::name;
  // The same name before and behind, or a network that is made in the call itself.
  const Expr& model = *call.arguments.front().value;
  const bool is_same =
      is_plain && (model.call() != nullptr || last_name(&model) == wrap->target->word());
  if (!is_same || !is_made_here(call, wrap->target->word())) return false;
  Uses uses;
  follow_variable(facts, *call.file, scope_of(call), wrap->target->word(), kMaxCallDepth, uses);
  return uses.runs && !uses.escapes && !uses.is_switched && !uses.is_open;
}

bool is_member_without_gradients(const SourceFacts& facts, const Call& call) {
  const Expr* target = call.statement == nullptr ? nullptr : call.statement->target;
  const bool is_member = target != nullptr && target->kind == ExprKind::attribute &&
                         last_name(target->children()[0]) == "self";
  if (!is_member) return false;
  bool runs = false;
  bool is_still = true;
  for (const auto& file : facts.files) {
    if (file.get() != call.file && !has_imported(*file, *call.file)) continue;
    for (const Statement* statement : file->statements) {
      for_own_expressions(*statement, [&](const Expr* expr) {
        visit(expr, [&](const Expr& part) {
          const bool is_use = part.kind == ExprKind::attribute && part.word() == target->word();
          if (is_use) is_still = is_still && keeps_weights_still(facts, part, runs);
          return is_still;
        });
      });
      if (!is_still) return false;
    }
  }
  return runs;
}

}  // namespace rooftile::source
