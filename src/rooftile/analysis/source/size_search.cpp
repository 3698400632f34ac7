#include "rooftile/analysis/source/size_search.h"

#include <algorithm>
#include <cmath>

#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/base/text.h"

namespace rooftile::source {
namespace {

constexpr int kMaxHops = 10;
constexpr int kMaxSizeVisits = 400;
constexpr int kMaxAssignments = 8;
constexpr std::size_t kMaxWrapperCalls = 64;
constexpr double kLargestSize = 1e9;

// Sizes are computed with fractions on the way: int(planes * (base_width / 64.0)).
using Size = std::optional<double>;

Size larger(Size a, Size b) {
  if (!a) return b;
  return b ? std::max(*a, *b) : a;
}

const Expr* given_for(const Call& call, const FunctionDef& function, std::size_t parameter) {
  const Argument* given = passed_argument(call, function, function.parameters[parameter].name);
  return given == nullptr ? nullptr : given->value;
}

bool is_number(const Value& value) {
  return value.kind == ValueKind::integer || value.kind == ValueKind::real;
}

class SizeSearch {
 public:
  SizeSearch(const SourceFacts& facts, const Program* program) : facts_(facts), program_(program) {}

  Size of(const Expr* expr, int hops) {
    if (expr == nullptr || hops > kMaxHops || ++visited_ > kMaxSizeVisits) return std::nullopt;
    const Value value = facts_.value(expr);
    if (is_number(value)) {
      const bool may_be_passed = expr->kind == ExprKind::name && expr->binding == nullptr &&
                                 value.certainty == Certainty::configurable;
      const Size passed = may_be_passed ? of_parameter(*expr, hops) : std::nullopt;
      return passed ? passed : value.real;
    }
    if (value.kind == ValueKind::list && value.found != nullptr) expr = value.found;
    switch (expr->kind) {
      case ExprKind::name:
        return of_name(*expr, hops);
      case ExprKind::attribute:
        return of_attribute(*expr, hops);
      case ExprKind::binary:
        return of_arithmetic(*expr, hops);
      case ExprKind::subscript:
        return expr->children.empty() ? std::nullopt : of(expr->children[0], hops + 1);
      case ExprKind::conditional:
        return larger(of(expr->children[0], hops), of(expr->children[2], hops));
      case ExprKind::list:
      case ExprKind::tuple:
      case ExprKind::dict:
        return in_list(*expr, hops);
      case ExprKind::comprehension:
        return expr->children.empty() ? std::nullopt : of(expr->children[0], hops + 1);
      case ExprKind::call:
        if (expr->call->name == "range") return of_range(*expr->call, hops);
        if (expr->call->name == "len") return of_length(*expr->call);
        return of_names_inside(*expr, hops);
      default:
        return of_names_inside(*expr, hops);
    }
  }

 private:
  // The last number of `range(4)` and `range(1, 4)`.
  Size of_range(const Call& range, int hops) {
    if (range.arguments.empty() || range.arguments.size() > 2) return std::nullopt;
    const Size end = of(range.arguments.back().value, hops + 1);
    return end && *end > 0 ? Size(*end - 1) : std::nullopt;
  }

  Size of_length(const Call& call) {
    if (call.arguments.size() != 1) return std::nullopt;
    const Value list = facts_.value(call.arguments[0].value);
    if (list.kind != ValueKind::list || list.found == nullptr) return std::nullopt;
    return static_cast<double>(list.found->children.size());
  }

  // 16 * 2 ** i for i in range(3)
  static Size power(double base, double exponent) {
    constexpr double kLargestExponent = 16;
    return exponent > kLargestExponent ? base : std::min(std::pow(base, exponent), kLargestSize);
  }

  Size of_names_inside(const Expr& expr, int hops) {
    Size largest;
    for (const Expr* part : expr.children) {
      const bool is_written = part->kind == ExprKind::integer || part->kind == ExprKind::real;
      if (!is_written && part != callee_of(expr)) largest = larger(largest, of(part, hops));
    }
    return largest;
  }

  static const Expr* callee_of(const Expr& expr) {
    return expr.call != nullptr ? expr.children.front() : nullptr;
  }

  // Two largest sizes need not meet in one layer: they are multiplied and added only where one of
  // the operands is known.
  Size of_arithmetic(const Expr& expr, int hops) {
    const Size left = of(expr.children[0], hops);
    const Size right = of(expr.children[1], hops);
    if (!left || !right) return expr.word == "%" ? std::nullopt : larger(left, right);
    const bool is_of_lists = is_list(expr.children[0]) || is_list(expr.children[1]);
    if (is_of_lists) return expr.word == "*" ? of(list_side(expr), hops) : larger(left, right);
    const bool is_right_known = is_number(facts_.value(expr.children[1]));
    if (expr.word == "**") return power(*left, *right);
    if (expr.word == "-") return *left;
    if (expr.word == "//" || expr.word == "/") {
      return is_right_known && *right > 0 ? Size(*left / *right) : left;
    }
    const bool is_doubled =
        expr.word == "*" && (is_power(expr.children[0]) || is_power(expr.children[1]));
    if (!is_right_known && !is_doubled && !is_number(facts_.value(expr.children[0]))) {
      return larger(left, right);
    }
    if (expr.word == "*") return std::min(*left * *right, kLargestSize);
    if (expr.word == "+") return std::min(*left + *right, kLargestSize);
    return larger(left, right);
  }

  // 2 ** i
  bool is_power(const Expr* expr) const {
    return expr->kind == ExprKind::binary && expr->word == "**" &&
           is_number(facts_.value(expr->children[0]));
  }

  bool is_list(const Expr* expr) const {
    if (expr->kind == ExprKind::binary && !expr->children.empty()) {
      return is_list(expr->children[0]);
    }
    return facts_.value(expr).kind == ValueKind::list;
  }

  const Expr* list_side(const Expr& expr) const {
    return expr.children[is_list(expr.children[0]) ? 0 : 1];
  }

  Size in_list(const Expr& list, int hops) {
    Size largest;
    for (const Expr* item : list.children) {
      if (item->kind != ExprKind::text) largest = larger(largest, of(item, hops + 1));
    }
    return largest;
  }

  // What the name goes through in the comprehension around it; null for others.
  static const Expr* iterated(const Expr& name) {
    for (const Expr* outer = name.parent; outer != nullptr; outer = outer->parent) {
      if (outer->kind != ExprKind::comprehension) continue;
      for (const Expr* clause : outer->children) {
        if (clause->kind != ExprKind::for_clause || clause->children.size() < 2) continue;
        if (uses_variable(clause->children[0], name.word)) return clause->children[1];
      }
    }
    return nullptr;
  }

  Size of_name(const Expr& name, int hops) {
    if (const Expr* source = iterated(name)) return of(source, hops + 1);
    const Statement* binding = name.binding;
    if (binding == nullptr) return larger(of_parameter(name, hops), of_branches(name, hops));
    const bool is_followed =
        binding->kind == StatementKind::for_ || binding->kind == StatementKind::assignment;
    return is_followed ? of(binding->value, hops + 1) : of_parameter(name, hops);
  }

  // `if sizes is None: sizes = [64, 128]`, in the function of a parameter of that name. What the
  // passes of a loop set counts from its start.
  Size of_branches(const Expr& name, int hops) {
    const Statement* use = name.statement;
    if (use == nullptr || use->function == nullptr) return std::nullopt;
    std::uint32_t end = use->range.begin;
    for (const Statement* at = use; at != nullptr && at->function_def == nullptr; at = at->parent) {
      if (at->loop != nullptr) end = at->range.end + 1;
    }
    std::vector<const Statement*> set;
    for_statements(use->function->body, [&](const Statement& statement) {
      const Expr* target = statement.kind == StatementKind::assignment ? statement.target : nullptr;
      const bool is_it = target != nullptr && target->kind == ExprKind::name &&
                         target->word == name.word && statement.word == "=" &&
                         statement.range.end < end;
      if (is_it && set.size() < kMaxAssignments) set.push_back(&statement);
    });
    return largest_of(set, hops, name.word);
  }

  // self.width, set in a method of the class.
  Size of_attribute(const Expr& expr, int hops) {
    const FunctionDef* function = expr.statement != nullptr ? expr.statement->function : nullptr;
    const bool is_own = !expr.children.empty() && expr.children[0]->word == "self" &&
                        function != nullptr && function->class_def != nullptr;
    const FunctionDef* init = is_own ? function->class_def->method("__init__") : nullptr;
    if (init == nullptr) return std::nullopt;
    std::vector<const Statement*> set;
    for_statements(init->body, [&](const Statement& statement) {
      if (statement.kind != StatementKind::assignment || statement.target == nullptr) return;
      const Expr* target = statement.target;
      const bool is_row = target->kind == ExprKind::tuple;
      const auto is_it = [&](const Expr* one) {
        return one->kind == ExprKind::attribute && one->word == expr.word &&
               !one->children.empty() && one->children[0]->word == "self";
      };
      const bool sets_it = is_row ? std::ranges::any_of(target->children, is_it) : is_it(target);
      if (sets_it && set.size() < kMaxAssignments) set.push_back(&statement);
    });
    return largest_of(set, hops, expr.word);
  }

  // 16 of `self.width, self.depth = 16, 28`
  static const Expr* part_for(const Statement& statement, std::string_view word) {
    const auto& targets = statement.target->children;
    const Expr* value = statement.value;
    const bool is_row = value != nullptr && value->kind == ExprKind::tuple &&
                        value->children.size() == targets.size();
    const auto found = std::ranges::find(targets, word, &Expr::word);
    const auto place = static_cast<std::size_t>(found - targets.begin());
    return is_row && found != targets.end() ? value->children[place] : nullptr;
  }

  // Of several alternatives those that a run with all defaults takes.
  Size largest_of(const std::vector<const Statement*>& set, int hops, std::string_view word) {
    Size largest;
    for (const Statement* statement : set) {
      if (set.size() > 1 && !is_reached_by_default(facts_, *statement)) continue;
      const Expr* value = statement->value;
      if (statement->target->kind == ExprKind::tuple) value = part_for(*statement, word);
      largest = larger(largest, of(value, hops + 1));
    }
    return largest;
  }

  Size of_parameter(const Expr& name, int hops) {
    const FunctionDef* function = name.statement != nullptr ? name.statement->function : nullptr;
    if (function == nullptr) return std::nullopt;
    for (std::size_t i = 0; i < function->parameters.size(); ++i) {
      if (function->parameters[i].name != name.word) continue;
      Size largest;
      bool is_left_out = false;
      for (const Call* caller : function->callers) {
        if (!is_in_program(*caller)) continue;
        const Expr* given = given_for(*caller, *function, i);
        is_left_out = is_left_out || given == nullptr;
        largest = larger(largest, of(given, hops + 1));
      }
      if (is_left_out || !largest) {
        largest = larger(largest, of(function->parameters[i].default_value, hops + 1));
      }
      return largest ? largest : of_namesake(*function, name.word, hops);
    }
    return std::nullopt;
  }

  // `block(planes)` of a class that was passed as a parameter has no known callers, but another
  // function of the file hands on a parameter of the same name: _make_layer(block, planes).
  Size of_namesake(const FunctionDef& function, std::string_view name, int hops) {
    Size largest;
    for (const FunctionDef* other : function.file->functions) {
      if (other == &function) continue;
      for (std::size_t i = 0; i < other->parameters.size(); ++i) {
        if (other->parameters[i].name != name) continue;
        for (const Call* caller : other->callers) {
          if (!is_in_program(*caller)) continue;
          largest = larger(largest, of(given_for(*caller, *other, i), hops + 1));
        }
      }
    }
    return largest;
  }

  bool is_in_program(const Call& call) const {
    return program_ == nullptr || program_->has(*call.file);
  }

  const SourceFacts& facts_;
  const Program* program_;
  int visited_ = 0;
};

// How many parameters stand before the `*args` that the layer hands on whole; empty when it
// does not.
std::optional<int> handed_on_after(const Call& layer) {
  const bool hands_on = layer.unknown_arguments && layer.function != nullptr &&
                        !layer.arguments.empty() && layer.arguments.front().unpacked;
  if (!hands_on) return std::nullopt;
  const Expr* starred = layer.arguments.front().value;
  if (starred->word != "*" || starred->children.empty()) return std::nullopt;
  const auto& parameters = layer.function->parameters;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const bool is_it = parameters[i].starred && parameters[i].name == starred->children[0]->word;
    const int own = layer.function->class_def != nullptr ? 1 : 0;
    if (is_it) return static_cast<int>(i) - own;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::int64_t> largest_size(const SourceFacts& facts, const Expr* expr,
                                         const Program* program) {
  const Size size = SizeSearch(facts, program).of(expr, 0);
  if (!size || !(std::abs(*size) <= kLargestSize)) return std::nullopt;
  return static_cast<std::int64_t>(*size);
}

std::vector<LayerSizes> layer_sizes(const SourceFacts& facts, const Program& program,
                                    const Call& layer, SizeParameter in, SizeParameter out) {
  const auto size_at = [&](const Call& call, SizeParameter which, int shift) {
    const Argument* found = call.argument(which.name, which.position + shift);
    const bool is_given = found != nullptr && !found->unpacked;
    return is_given ? largest_size(facts, found->value, &program) : std::nullopt;
  };
  const auto shift = handed_on_after(layer);
  if (!shift) return {{size_at(layer, in, 0), size_at(layer, out, 0)}};
  std::vector<LayerSizes> sizes;
  for (const Call* caller : layer.function->callers) {
    if (sizes.size() >= kMaxWrapperCalls) break;
    if (!program.has(*caller->file)) continue;
    sizes.push_back({size_at(*caller, in, *shift), size_at(*caller, out, *shift)});
  }
  return sizes;
}

}  // namespace rooftile::source
