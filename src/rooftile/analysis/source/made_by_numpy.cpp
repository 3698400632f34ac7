#include "rooftile/analysis/source/made_by_numpy.h"

#include <algorithm>

#include "rooftile/analysis/source/filled_tensors.h"
#include "rooftile/analysis/source/value_places.h"
#include "rooftile/base/text.h"

namespace rooftile::source {

bool is_last_word(std::string_view name, std::string_view package, Words words) {
  if (!name.starts_with(package)) return false;
  const std::string_view last = name.substr(name.rfind('.') + 1);
  return std::find(words.begin(), words.end(), last) != words.end();
}

namespace {

bool is_numpy_maker(const Expr& expr) {
  if (expr.call() == nullptr) return false;
  const std::string_view name = expr.call()->name;
  // np.random.choice(n, k, p=weights.cpu().numpy()) is drawn by what the GPU has computed.
  const Argument* weights = expr.call()->argument("p");
  if (weights != nullptr && was_on_gpu(*weights->value)) return false;
  return name.starts_with("numpy.random.") ||
         is_last_word(name, "numpy.", {"zeros", "ones", "full", "eye", "arange", "linspace"});
}

// Of a name bound once here to such a value, and not filled with other values afterwards.
bool is_name_made_by_numpy(const Expr& name, Steps steps) {
  const Statement* binding = name.binding();
  const bool is_bound = binding != nullptr && binding->kind == StatementKind::assignment &&
                        binding->word == "=" && name.statement != nullptr &&
                        binding->function == name.statement->function &&
                        binding->target != nullptr && binding->target->kind == ExprKind::name;
  return is_bound && is_made_by_numpy(binding->value, steps.next()) &&
         !is_filled_between(name.word(), *binding, *name.statement);
}

}  // namespace

// np.zeros(n), np.ones(n) * np.random.binomial(…)[0], np.eye(n).astype(np.float32)
bool is_made_by_numpy(const Expr* expr, Steps steps) {
  if (expr == nullptr || steps.ended()) return false;
  switch (expr->kind) {
    case ExprKind::call:
      if (is_last_word(expr->call()->name, "numpy.", {"triu", "tril"})) {
        return !expr->call()->arguments.empty() &&
               is_made_by_numpy(expr->call()->arguments.front().value, steps.next());
      }
      return is_numpy_maker(*expr) || (expr->call()->method == "astype" &&
                                       is_made_by_numpy(expr->call()->receiver, steps.next()));
    case ExprKind::name:
      return is_name_made_by_numpy(*expr, steps);
    case ExprKind::subscript:
      return is_made_by_numpy(expr->children()[0], steps.next());
    case ExprKind::binary: {
      const auto fits = [&](const Expr* part) {
        return part->type->is(TypeKind::number) || is_made_by_numpy(part, steps.next());
      };
      return is_made_by_numpy(expr->children()[0], steps.next())
                 ? fits(expr->children()[1])
                 : fits(expr->children()[0]) && is_made_by_numpy(expr->children()[1], steps.next());
    }
    default:
      return false;
  }
}

}  // namespace rooftile::source
