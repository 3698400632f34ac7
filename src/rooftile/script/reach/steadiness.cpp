#include "rooftile/script/reach/steadiness.h"

#include <algorithm>
#include <string_view>

#include "rooftile/base/text.h"

namespace rooftile::source {
namespace {

const Expr* root_of(const Expr& expr) {
  const Expr* root = &expr;
  while (root->kind == ExprKind::attribute) root = root->children()[0];
  return root;
}

bool names_settings(std::string_view word) {
  return contains(word, "arg") || word.starts_with("opt") || contains(word, "conf") ||
         contains(word, "cfg") || word == "hparams" || word == "hps" || contains(word, "params") ||
         word == "FLAGS";
}

bool is_fixed_root(const Expr& expr) {
  const Expr* root = root_of(expr);
  return root->kind == ExprKind::name && root != &expr &&
         (names_settings(root->word()) || root->word() == "self");
}

// cfg, self.cfg, self.cfg.model; no optimizer.
bool is_settings(const Expr& expr) {
  const Expr* root = root_of(expr);
  if (root->kind != ExprKind::name) return false;
  const Expr* named = root;
  if (root->word() == "self") {
    named = root->parent;
    if (root == &expr || named == nullptr || named->kind != ExprKind::attribute) return false;
  }
  return names_settings(named->word()) && named->word() != "kwargs" &&
         !contains(named->word(), "optim") && !expr.type->is(TypeKind::tensor);
}

const Statement* innermost_loop(const Statement* statement) {
  while (statement != nullptr && statement->loop == nullptr) statement = statement->parent;
  return statement;
}

bool has_literals_only(const Call& call) {
  return std::ranges::all_of(call.arguments, [](const Argument& argument) {
    const ExprKind kind = argument.value->kind;
    return !argument.unpacked &&
           (kind == ExprKind::text || kind == ExprKind::integer || kind == ExprKind::real ||
            kind == ExprKind::boolean || kind == ExprKind::none || kind == ExprKind::tuple);
  });
}

class Steadiness {
 public:
  Steadiness(const SourceFacts& facts, const Statement& statement)
      : facts_(facts), statement_(statement) {}

  bool holds(const Expr& expr) {
    switch (expr.kind) {
      case ExprKind::name:
        return is_steady_name(expr);
      case ExprKind::attribute:
        // `self.calls_since_redraw >= self.interval` is a count.
        if (contains_any(expr.word(), {"since_", "counter", "calls_"})) return false;
        return !expr.full_name().empty() || is_fixed_root(expr);
      case ExprKind::call:
        if (asks_what_it_is(*expr.call()) || gives_setting(*expr.call())) return true;
        // "numpy" in str(type(x)), int(version[0]) < 1
        if (expr.call()->name != "str" && expr.call()->name != "int") return false;
        break;
      case ExprKind::comparison:
        // `x is None` asks whether an option was given.
        if (expr.word() == "is" || expr.word() == "is not") return true;
        if (expr.children().size() == 2 && expr.children()[1]->kind == ExprKind::none) return true;
        break;
      default:
        break;
    }
    return std::ranges::all_of(expr.children(), [&](const Expr* child) { return holds(*child); });
  }

 private:
  static bool asks_what_it_is(const Call& call) {
    const std::string_view name = call.name;
    if (is_one_of(name, {"hasattr", "isinstance", "getattr", "len", "callable", "type",
                         "torch.is_tensor", "torch.is_grad_enabled"})) {
      return true;
    }
    if (name.ends_with("is_available") || name.ends_with("is_initialized")) return true;
    // `exists(mask)`, as many projects write `mask is not None`
    return call.method == "exists" && call.receiver == nullptr;
  }

  // cfg.get("kind", "none"), self.kind.startswith("a")
  bool gives_setting(const Call& call) {
    if (call.receiver == nullptr || call.target != nullptr || !has_literals_only(call))
      return false;
    if (is_one_of(call.method, {"startswith", "endswith", "lower", "upper", "strip", "split"})) {
      return holds(*call.receiver);
    }
    if (call.method != "get" || call.arguments.empty()) return false;
    const Expr& table = *call.receiver;
    return call.arguments.front().value->kind == ExprKind::text &&
           (is_settings(table) || (table.call() != nullptr && gives_setting(*table.call())));
  }

  // `kind = self.cfg.kind` in the loop.
  bool copies_setting(const Statement& binding) {
    constexpr int kMaxCopies = 3;
    const bool sets = binding.kind == StatementKind::assignment && binding.word == "=" &&
                      binding.value != nullptr && binding.target->kind == ExprKind::name &&
                      copies_ < kMaxCopies;
    if (!sets) return false;
    ++copies_;
    const Expr& value = *binding.value;
    if (value.kind == ExprKind::attribute) {
      return is_settings(value) || value.full_name().ends_with(".__version__");
    }
    return value.call() != nullptr && gives_setting(*value.call());
  }

  // Whether a variable keeps its value while the loop around the statement runs.
  bool is_steady_name(const Expr& expr) {
    if (!expr.full_name().empty()) return true;
    const Statement* loop = innermost_loop(statement_.parent);
    if (expr.binding() != nullptr && expr.binding()->function == statement_.function) {
      return (loop != nullptr && !is_within(*expr.binding(), *loop)) ||
             copies_setting(*expr.binding());
    }
    if (expr.binding() != nullptr) return true;  // of the module
    // `if optimizer:` asks whether one was given.
    const TypeKind kind = expr.type->kind;
    if (kind == TypeKind::optimizer || kind == TypeKind::scheduler || kind == TypeKind::scaler) {
      return true;
    }
    return facts_.value(&expr).known();
  }

  const SourceFacts& facts_;
  const Statement& statement_;
  int copies_ = 0;
};

}  // namespace

bool is_steady(const SourceFacts& facts, const Expr& expr, const Statement* statement) {
  return Steadiness(facts, *statement).holds(expr);
}

}  // namespace rooftile::source
