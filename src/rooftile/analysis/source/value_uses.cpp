#include "rooftile/analysis/source/value_uses.h"

#include <algorithm>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "rooftile/analysis/source/loaders.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/words.h"
#include "rooftile/base/text.h"
#include "rooftile/workload/source_store.h"

namespace rooftile::source {
namespace {

constexpr std::size_t kMostFollowed = 400;

// Raises, exits or says something, and nothing else; where a NaN is met, the loop may end too.
bool only_ends(std::span<const Statement* const> block, bool is_for_nan) {
  return std::ranges::all_of(block, [&](const Statement* statement) {
    const bool stops = statement->kind == StatementKind::break_ ||
                       (statement->kind == StatementKind::return_ && statement->value == nullptr);
    if (statement->kind == StatementKind::raise_ || statement->kind == StatementKind::pass ||
        statement->kind == StatementKind::print || (is_for_nan && stops)) {
      return true;
    }
    const Call* call = statement->value == nullptr ? nullptr : statement->value->call();
    return statement->kind == StatementKind::expression && call != nullptr &&
           (is_one_of(call->name, {"print", "exit", "quit", "sys.exit", "breakpoint"}) ||
            is_one_of(call->method, {"set_trace", "embed", "warn", "warning", "info", "error",
                                     "debug", "critical"}));
  });
}

bool is_converter(const Call& call) {
  return is_one_of(call.name,
                   {"float", "int", "bool", "str", "round", "len", "abs", "sum", "min", "max",
                    "list", "tuple", "dict", "zip", "enumerate", "sorted", "reversed", "repr"}) ||
         starts_with_any(call.name, {"numpy.", "math."});
}

bool logs(const Call& call) {
  if (is_one_of(call.name, {"print", "wandb.log"})) return true;
  const std::string name = lower(call.method);
  return is_one_of(name, {"append", "extend", "update", "add", "write", "format", "info", "debug",
                          "warning", "join", "item", "appendleft", "insert"}) ||
         contains_any(name, {"log", "scalar", "print", "record", "report", "plot", "meter", "track",
                             "postfix", "description", "desc", "prog", "accumulat"});
}

bool takes_size(const Call& call) {
  return is_one_of(call.method, {"range",
                                 "split",
                                 "zeros",
                                 "ones",
                                 "empty",
                                 "full",
                                 "view",
                                 "reshape",
                                 "pad",
                                 "expand",
                                 "repeat",
                                 "arange",
                                 "linspace",
                                 "randint",
                                 "randperm",
                                 "multinomial",
                                 "topk",
                                 "narrow",
                                 "pack_padded_sequence",
                                 "new_zeros",
                                 "new_ones",
                                 "chunk",
                                 "repeat_interleave",
                                 "interpolate",
                                 "sample",
                                 "choice"});
}

// torch.tensor(x), x.to(device), x.cuda(): back on the GPU.
bool goes_to_gpu(const SourceFacts& facts, const Call& call) {
  if (call.receiver != nullptr && copies_to_device(facts, call)) return true;
  return is_one_of(call.name, {"torch.tensor", "torch.as_tensor", "torch.from_numpy",
                               "torch.Tensor", "torch.FloatTensor", "torch.full_like"}) ||
         is_one_of(call.method, {"fill_", "copy_", "mul_", "div_", "add_", "clamp_", "masked_fill",
                                 "new_tensor", "lerp_"});
}

class UseSearch {
 public:
  explicit UseSearch(const SourceFacts& facts) : facts_(facts) {}

  std::vector<ValueUse> uses;

  void follow(const Expr& expr) {
    if (!seen_.insert(&expr).second) return;
    if (seen_.size() > kMostFollowed) return end(UseKind::unknown, expr);
    if (expr.parent == nullptr) return leave_expression(expr);
    const Expr& parent = *expr.parent;
    switch (parent.kind) {
      case ExprKind::call:
        return enter_call(expr, *parent.call());
      case ExprKind::format:
        return end(UseKind::log, expr);
      case ExprKind::slice:
        return end(UseKind::size, expr);
      case ExprKind::subscript:
        return parent.children().front() == &expr ? follow(parent) : end(UseKind::index, expr);
      case ExprKind::binary:
        return follow_operation(expr, parent);
      case ExprKind::conditional:
        return parent.children()[1] == &expr ? end(UseKind::decision, expr) : follow(parent);
      case ExprKind::attribute:
        return follow_attribute(parent);
      case ExprKind::for_clause:  // Python goes through it
      case ExprKind::lambda:
      case ExprKind::yield:
      case ExprKind::await:
      case ExprKind::other:
        return end(UseKind::unknown, expr);
      default:
        return follow(parent);
    }
  }

 private:
  void end(UseKind kind, const Expr& expr, const Call* call = nullptr) {
    uses.push_back({kind, &expr, call});
  }

  void follow_operation(const Expr& expr, const Expr& parent) {
    if (parent.word() == "%" && parent.children()[0]->kind == ExprKind::text) {
      return end(UseKind::log, expr);
    }
    const bool with_tensor = std::ranges::any_of(
        parent.children(), [&](const Expr* side) { return side != &expr && is_gpu_value(side); });
    return with_tensor ? end(UseKind::tensors, expr) : follow(parent);
  }

  // `x.shape`, or the method of a call, whose result is followed.
  void follow_attribute(const Expr& attribute) {
    const Expr* outer = attribute.parent;
    const bool is_method =
        outer != nullptr && outer->call() != nullptr && outer->children().front() == &attribute;
    // Its shape and its place are no values of it.
    if (is_one_of(attribute.word(), {"shape", "size", "device", "dtype", "dim", "ndim", "numel"})) {
      return;
    }
    if (!is_method) return follow(attribute);
    const Call& call = *outer->call();
    if (goes_to_gpu(facts_, call)) return end(UseKind::tensors, *outer);
    return follow(*outer);
  }

  void enter_call(const Expr& given, const Call& call) {
    if (given.parent->children().front() == &given) return follow(*given.parent);  // f of f(x)
    if (call.target != nullptr && call.target->name != "__init__" &&
        call.name != "torch.nn.Module.__call__") {
      return enter_function(given, call);
    }
    if (goes_to_gpu(facts_, call)) return end(UseKind::tensors, given);
    if (takes_size(call)) return end(UseKind::size, given);
    if (is_converter(call)) return follow(*call.expr);
    if (logs(call)) return end(UseKind::log, given);
    if (call.name.starts_with("torch.") || call.receiver_type().is(TypeKind::tensor)) {
      return follow(*call.expr);
    }
    end(UseKind::host, given, &call);
  }

  void enter_function(const Expr& given, const Call& call) {
    const FunctionDef& function = *call.target;
    for (const Parameter& parameter : function.parameters) {
      const Argument* passed = passed_argument(call, function, parameter.name);
      if (passed == nullptr || passed->value != &given) continue;
      return follow_name(parameter.name, function.body, nullptr, function);
    }
    logs(call) ? end(UseKind::log, given) : end(UseKind::unknown, given);
  }

  // The uses of a variable that the statement, or with null the caller, sets.
  void follow_name(std::string_view name, std::span<const Statement* const> block,
                   const Statement* set, const FunctionDef& function) {
    if (!names_.insert({&function, set, std::string(name)}).second) return;
    const auto reads = [&](const Expr& part) {
      if (part.kind != ExprKind::name || part.word() != name) return;
      const bool is_target = part.statement->target == &part;
      const bool is_other = part.binding() != nullptr && part.binding() != set;
      if (!is_target && !is_other) follow(part);
    };
    for_statements(block, [&](const Statement& statement) {
      if (&statement == set || (set != nullptr && statement.range.begin < set->range.begin)) return;
      for_own_expressions(statement, [&](const Expr* expr) {
        visit(expr, [&](const Expr& part) {
          reads(part);
          return true;
        });
      });
    });
  }

  void follow_target(const Expr& target, const Statement& statement) {
    if (target.kind == ExprKind::tuple || target.kind == ExprKind::list) {
      for (const Expr* part : target.children()) follow_target(*part, statement);
      return;
    }
    if (target.kind == ExprKind::name) {
      if (statement.word != "=") return end(UseKind::log, target);  // a running total
      const auto block =
          statement.function != nullptr ? statement.function->body : statement.file->body;
      static const FunctionDef at_the_top;
      return follow_name(target.word(), block, &statement,
                         statement.function != nullptr ? *statement.function : at_the_top);
    }
    if (target.kind == ExprKind::subscript) return follow_item(target, statement);
    if (target.kind == ExprKind::attribute) return follow_member(target, statement);
    end(UseKind::unknown, target);
  }

  // `size[0] = n`, `metrics["loss"] = value`: what is done with the whole.
  void follow_item(const Expr& target, const Statement& statement) {
    const Expr* holder = target.children().front();
    while (holder->kind == ExprKind::subscript) holder = holder->children().front();
    if (is_gpu_value(holder)) return end(UseKind::tensors, target);
    if (target.children().back()->kind == ExprKind::text) return end(UseKind::log, target);
    if (holder->kind == ExprKind::name && statement.function != nullptr) {
      return follow_name(holder->word(), statement.function->body, &statement, *statement.function);
    }
    end(UseKind::log, target);
  }

  // `self.total += value`: kept; `self.sizes = value`: what the methods do with it.
  void follow_member(const Expr& target, const Statement& statement) {
    if (statement.word != "=") return end(UseKind::log, target);
    const FunctionDef* function = statement.function;
    const ClassDef* def = function == nullptr ? nullptr : function->class_def;
    if (def == nullptr || target.children().front()->word() != "self") {
      return end(UseKind::unknown, target);
    }
    const std::string name = "self." + std::string(target.word());
    for (const FunctionDef* method : def->methods) {
      if (!names_.insert({method, nullptr, name}).second) continue;
      for_statements(method->body, [&](const Statement& each) {
        for_own_expressions(each, [&](const Expr* expr) {
          visit(expr, [&](const Expr& part) {
            const bool is_it = part.kind == ExprKind::attribute && part.word() == target.word() &&
                               part.children().front()->word() == "self" && each.target != &part;
            if (is_it) follow(part);
            return true;
          });
        });
      });
    }
  }

  void leave_expression(const Expr& expr) {
    const Statement* statement = expr.statement;
    if (statement->target == &expr) return;  // an item that is set
    switch (statement->kind) {
      case StatementKind::assert_:
        return end(UseKind::check, expr);
      case StatementKind::if_: {
        const std::string asked = lower(statement->file->slice(statement->value->range));
        const bool is_for_nan = contains_any(asked, {"nan", "finite", "isinf"});
        const bool is_check =
            only_ends(statement->body, is_for_nan) && statement->otherwise.empty();
        return end(is_check ? UseKind::check : UseKind::decision, expr);
      }
      case StatementKind::while_:
        return end(UseKind::decision, expr);
      case StatementKind::for_:
        return end(UseKind::size, expr);
      case StatementKind::print:
      case StatementKind::raise_:
        return end(UseKind::log, expr);
      case StatementKind::assignment:
        return follow_target(*statement->target, *statement);
      case StatementKind::return_:
        return follow_result(expr, *statement);
      case StatementKind::expression:
        return;
      default:
        return end(UseKind::unknown, expr);
    }
  }

  void follow_result(const Expr& expr, const Statement& statement) {
    const FunctionDef* function = statement.function;
    if (function == nullptr || function->callers.empty()) return end(UseKind::unknown, expr);
    for (const Call* caller : function->callers) {
      if (caller->expr->parent != nullptr) {
        follow(*caller->expr);
        continue;
      }
      // `loss, accuracy = step(x)`: the part that is returned there.
      const Expr* value = statement.value;
      const Expr* target = caller->statement->target;
      const bool are_several = value != nullptr && value->kind == ExprKind::tuple &&
                               target != nullptr && target->kind == ExprKind::tuple &&
                               value->children().size() == target->children().size() &&
                               caller->statement->value == caller->expr;
      if (!are_several) {
        follow(*caller->expr);
        continue;
      }
      for (std::size_t i = 0; i < value->children().size(); ++i) {
        if (is_followed_in(*value->children()[i])) {
          follow_target(*target->children()[i], *caller->statement);
        }
      }
    }
  }

  // Whether what is followed stands in the part of the returned tuple.
  bool is_followed_in(const Expr& part) const {
    return any_inside(&part, [&](const Expr& inner) { return seen_.contains(&inner); });
  }

  struct Name {
    const FunctionDef* function;
    const Statement* set;
    std::string name;
    bool operator==(const Name&) const = default;
  };
  struct NameHash {
    std::size_t operator()(const Name& name) const {
      return std::hash<std::string>()(name.name) ^ std::hash<const void*>()(name.function) ^
             (std::hash<const void*>()(name.set) << 1U);
    }
  };

  const SourceFacts& facts_;
  std::unordered_set<const Expr*> seen_;
  std::unordered_set<Name, NameHash> names_;
};

struct UsesOfReads {
  std::unordered_map<const Expr*, std::vector<ValueUse>> by_read;
};

const std::vector<ValueUse>& known_uses(const SourceFacts& facts, const HostRead& read) {
  const auto [place, is_new] = facts.store().kept<UsesOfReads>().by_read.try_emplace(read.expr);
  if (!is_new) return place->second;
  UseSearch follower(facts);
  // A call that shows or logs gives nothing back.
  const bool shows = read.call != nullptr && logs(*read.call) && read.call->method != "item";
  const bool is_shown =
      shows || read.expr->kind == ExprKind::format || read.statement->kind == StatementKind::print;
  if (is_shown) {
    follower.uses.push_back({UseKind::log, read.expr, nullptr});
  } else {
    follower.follow(*read.expr);
  }
  return place->second = std::move(follower.uses);
}

}  // namespace

std::vector<ValueUse> uses_of(const SourceFacts& facts, const HostRead& read) {
  return known_uses(facts, read);
}

bool can_do_without(const SourceFacts& facts, const HostRead& read) {
  return std::ranges::all_of(known_uses(facts, read), [](const ValueUse& use) {
    return use.kind == UseKind::log || use.kind == UseKind::tensors || use.kind == UseKind::check;
  });
}

}  // namespace rooftile::source
