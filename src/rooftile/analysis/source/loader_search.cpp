// The loader that a value comes out of, for loaders.h.
#include <algorithm>
#include <string_view>

#include "rooftile/analysis/source/host_makers.h"
#include "rooftile/analysis/source/loaders.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/returned_loaders.h"
#include "rooftile/analysis/source/variable_memo.h"
#include "rooftile/analysis/source/words.h"

namespace rooftile::source {
namespace {

constexpr int kMaxLoaderHops = 8;  // from value to value

// `copy_all(batch, lambda x: x.to(device))`: the call that gets the lambda, where the name is a
// parameter of that; null elsewhere.
const Call* call_with_lambda(const Expr& name) {
  for (const Expr* outer = name.parent; outer != nullptr; outer = outer->parent) {
    if (outer->kind != ExprKind::lambda || outer->children().empty()) continue;
    const std::uint32_t begin = outer->range.begin;
    const std::string_view head = std::string_view(name.statement->file->text)
                                      .substr(begin, outer->children()[0]->range.begin - begin);
    if (find_in_text(head, name.word()) != std::string::npos && outer->parent != nullptr) {
      return outer->parent->call();
    }
  }
  return nullptr;
}

// `x = …`, `x, y = …`
bool binds_variable(const Expr* target, std::string_view variable) {
  if (target == nullptr) return false;
  if (target->kind == ExprKind::tuple || target->kind == ExprKind::list) {
    return std::any_of(target->children().begin(), target->children().end(),
                       [&](const Expr* part) { return binds_variable(part, variable); });
  }
  return last_name(target) == variable;
}

// `features = extract(model, loader)`, which goes through the loader and gives back what it made of
// all batches.
bool collects_all(const Call& call) {
  const bool gets_loader = std::ranges::any_of(call.arguments, [](const Argument& argument) {
    return argument.value->type->is(TypeKind::loader);
  });
  if (call.target == nullptr || !gets_loader) return false;
  bool loops = false;
  bool yields = false;
  for_statements(call.target->body, [&](const Statement& statement) {
    loops = loops || statement.kind == StatementKind::for_;
    yields = yields || (statement.value != nullptr && statement.value->kind == ExprKind::yield);
  });
  return loops && !yields;
}

// Follows a value to the loader that it comes from.
class LoaderSearch {
 public:
  const Call* find(const Expr* value, int depth = 0) {
    if (value == nullptr || depth > kMaxLoaderHops) return nullptr;
    if (value->type != nullptr && value->type->is(TypeKind::loader) &&
        value->type->made_by != nullptr) {
      return value->type->made_by;
    }
    if (value->type != nullptr && value->type->is(TypeKind::number)) return nullptr;  // a size
    if (value->kind == ExprKind::name) return in_name(*value, depth);
    if (value->call() != nullptr) {
      if (value->call()->name == "torch.nn.Module.__call__") return nullptr;
      // New values, of the size that a batch has.
      if (value->call()->method.ends_with("_like") || is_maker(*value->call())) return nullptr;
      if (const Call* made = returned_loader(*value->call())) return made;
      if (collects_all(*value->call())) return nullptr;
      if (const Call* found = in_arguments(*value->call(), depth)) return found;
      return find(value->call()->receiver, depth + 1);
    }
    for (const Expr* child : value->children()) {
      if (const Call* found = find(child, depth + 1)) return found;
    }
    return nullptr;
  }

 private:
  const Call* in_name(const Expr& name, int depth) {
    if (const Expr* source = comprehension_source(name)) return find(source, depth + 1);
    const Statement* binding = name.binding();
    if (binding == nullptr) return in_unbound(name, depth);
    const bool gives_value = binding->kind == StatementKind::for_ ||
                             (binding->kind == StatementKind::assignment && binding->word == "=");
    if (!gives_value) return nullptr;
    // `x = x.cuda()`: the name inside has the binding before.
    return memo_.at(binding, {}, depth, [&] { return find(binding->value, depth + 1); });
  }

  const Call* in_unbound(const Expr& name, int depth) {
    if (name.statement == nullptr) return nullptr;
    if (const Call* call = call_with_lambda(name)) return in_arguments(*call, depth);
    const FunctionDef* function = name.statement->function;
    const void* scope = function == nullptr ? static_cast<const void*>(name.statement->file)
                                            : static_cast<const void*>(function);
    return memo_.at(scope, name.word(), depth, [&] {
      const Call* found = function == nullptr ? nullptr : passed(*function, name.word(), depth);
      return found != nullptr ? found : assigned(*name.statement, name.word(), depth);
    });
  }

  const Call* in_arguments(const Call& call, int depth) {
    for (const Argument& argument : call.arguments) {
      if (argument.value->kind == ExprKind::lambda) continue;
      if (const Call* found = find(argument.value, depth + 1)) return found;
    }
    return nullptr;
  }

  // What callers pass for a parameter.
  const Call* passed(const FunctionDef& function, std::string_view name, int depth) {
    for (const Call* caller : function.callers) {
      const Argument* argument = passed_argument(*caller, function, name);
      if (argument == nullptr) continue;
      if (const Call* found = find(argument->value, depth + 1)) return found;
    }
    return nullptr;
  }

  // Of a name that several branches bind.
  const Call* assigned(const Statement& use, std::string_view name, int depth) {
    for (const Statement* statement : use.file->statements) {
      const bool binds = statement->kind == StatementKind::assignment &&
                         statement->function == use.function && statement != &use &&
                         binds_variable(statement->target, name);
      if (!binds) continue;
      if (const Call* found = find(statement->value, depth + 1)) return found;
    }
    return nullptr;
  }

  VariableMemo memo_;
};

}  // namespace

const Expr* stepped_iterator(const Call& call) {
  if (call.method != "next" && call.method != "__next__") return nullptr;
  const bool is_function = call.receiver == nullptr && !call.arguments.empty();
  return is_function ? call.arguments.front().value : call.receiver;
}

const Call* loader_of(const Expr* value) { return LoaderSearch().find(value); }

}  // namespace rooftile::source
