#include "rooftile/analysis/source/size_search.h"

#include <algorithm>
#include <cmath>

#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/base/text.h"
#include "rooftile/script/flow/sources.h"
#include "rooftile/script/reach/default_settings.h"
#include "rooftile/script/reach/sure.h"
#include "rooftile/script/reach/unused.h"
#include "rooftile/workload/source_store.h"

namespace rooftile::source {
namespace {

constexpr int kMaxHops = 10;
constexpr int kMaxSizeVisits = 400;
constexpr std::size_t kMaxWrapperCalls = 64;
constexpr double kLargestSize = 1e9;

// Sizes are computed with fractions on the way: int(planes * (base_width / 64.0)).
// What is not known is less than all else.
using Size = std::optional<double>;

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
    if (is_number(value)) return value.real;
    if (value.kind == ValueKind::list && value.found != nullptr) expr = value.found;
    switch (expr->kind) {
      case ExprKind::name:
        return of_name(*expr, hops);
      case ExprKind::attribute:
        return of_origins(*expr, hops);
      case ExprKind::binary:
        return of_arithmetic(*expr, hops);
      case ExprKind::subscript:
        if (const Size size = of_default_settings(*expr)) return size;
        return behind(expr->children()[0], hops);
      case ExprKind::conditional:
        return of_origins(*expr, hops);
      case ExprKind::list:
      case ExprKind::tuple:
      case ExprKind::dict:
        return in_list(*expr, hops);
      case ExprKind::comprehension:
        return behind(expr->children()[0], hops);
      case ExprKind::call:
        if (expr->call()->name == "min") return smallest_argument(*expr->call(), hops);
        if (expr->call()->name == "len") return of_length(*expr->call());
        return of_names_inside(*expr, hops);
      default:
        return of_names_inside(*expr, hops);
    }
  }

 private:
  Size behind(const Expr* expr, int hops) { return of(expr, hops + 1); }

  Size of_names_inside(const Expr& expr, int hops) {
    Size largest;
    for (const Expr* part : expr.children()) {
      const bool is_written = part->kind == ExprKind::integer || part->kind == ExprKind::real;
      if (!is_written && part != callee_of(expr)) largest = std::max({largest, of(part, hops)});
    }
    return largest;
  }

  // min(2 ** i, 8)
  Size smallest_argument(const Call& call, int hops) {
    Size smallest;
    for (const Argument& argument : call.arguments) {
      const Size size = behind(argument.value, hops);
      if (size) smallest = smallest ? std::min(*smallest, *size) : *size;
    }
    return smallest;
  }

  Size of_length(const Call& call) {
    if (call.arguments.size() != 1) return std::nullopt;
    const Value list = facts_.value(call.arguments[0].value);
    if (list.kind != ValueKind::list || list.found == nullptr) return std::nullopt;
    return static_cast<double>(list.found->children().size());
  }

  // The largest that the variable of a loop gets: n - 1 of range(n), one of the items of a list.
  Size of_passes(const Expr* iterable, int hops) {
    const Call* range = iterable->call();
    if (range == nullptr || range->name != "range" || range->arguments.empty()) {
      return behind(iterable, hops);
    }
    const std::size_t stop = range->arguments.size() == 1 ? 0 : 1;  // before it: the start
    const Size end = behind(range->arguments[stop].value, hops);
    return end ? Size(std::max(*end - 1, 0.0)) : end;
  }

  // What the variable of a comprehension goes through; null for other names, and for parts of it.
  static const Expr* clause_of(const Expr& name) {
    const Expr* source = comprehension_source(name);
    const bool is_whole = source != nullptr && source->parent->children()[0]->word() == name.word();
    return is_whole ? source : nullptr;
  }

  static const Expr* callee_of(const Expr& expr) {
    return expr.call() != nullptr ? expr.children().front() : nullptr;
  }

  // Two largest sizes need not meet in one layer: they are multiplied and added only where one of
  // the operands is known.
  Size of_arithmetic(const Expr& expr, int hops) {
    const Size left = of(expr.children()[0], hops);
    const Size right = of(expr.children()[1], hops);
    if (expr.word() == "%") return std::nullopt;
    if (!left || !right) return std::max({left, right});
    if (expr.word() == "**") return std::min(std::pow(*left, *right), kLargestSize);
    const bool is_of_lists = is_list(expr.children()[0]) || is_list(expr.children()[1]);
    if (is_of_lists && expr.word() == "*") return of(list_side(expr), hops);
    if (is_of_lists) return std::max({left, right});
    const bool is_right_known = is_number(facts_.value(expr.children()[1]));
    if (expr.word() == "-") return *left;
    if (is_one_of(expr.word(), {"//", "/"})) {
      if (!is_right_known || *right <= 0) return left;
      return expr.word() == "/" ? *left / *right : std::floor(*left / *right);
    }
    const bool meet = is_right_known || is_number(facts_.value(expr.children()[0])) ||
                      is_power(*expr.children()[0]) || is_power(*expr.children()[1]);
    if (!meet) return std::max({left, right});
    if (expr.word() == "*") return std::min(*left * *right, kLargestSize);
    if (expr.word() == "+") return std::min(*left + *right, kLargestSize);
    return std::max({left, right});
  }

  // 2 ** i: the last pass of a loop is as sure as the others.
  bool is_power(const Expr& expr) const {
    return expr.kind == ExprKind::binary && expr.word() == "**" &&
           is_number(facts_.value(expr.children()[0]));
  }

  bool is_list(const Expr* expr) const {
    if (expr->kind == ExprKind::binary) return is_list(expr->children()[0]);
    return facts_.value(expr).kind == ValueKind::list;
  }

  const Expr* list_side(const Expr& expr) const {
    return expr.children()[is_list(expr.children()[0]) ? 0 : 1];
  }

  Size in_list(const Expr& list, int hops) {
    Size largest;
    for (const Expr* item : list.children()) {
      if (item->kind != ExprKind::text) largest = std::max({largest, behind(item, hops)});
    }
    return largest;
  }

  Size of_name(const Expr& name, int hops) {
    const Statement* binding = name.binding();
    // A comprehension's variable is bound by the statement that it stands in.
    if (const Expr* iterable = clause_of(name)) return of_passes(iterable, hops);
    const bool is_pass = binding != nullptr && binding->kind == StatementKind::for_;
    if (is_pass && binding->target->kind == ExprKind::name) {
      return of_passes(binding->value, hops);
    }
    if (is_pass) return behind(binding->value, hops);
    return of_origins(name, hops);
  }

  // The largest of what it may be in the program.
  Size of_origins(const Expr& expr, int hops) {
    Size largest;
    const std::vector<const Expr*> all = script::origins(facts_, expr);
    for (const Expr* origin : all) {
      if (origin == &expr) continue;
      const Statement* at = origin->statement;
      const bool counts =
          is_in_program(*at->file) && (all.size() == 1 || (is_reached_by_default(facts_, *at) &&
                                                           !is_left_by_default(facts_, *at)));
      if (counts) largest = std::max({largest, behind(origin, hops)});
    }
    largest = std::max({largest, of_settings(expr)});
    return largest ? largest : of_namesake(expr, hops);
  }

  // `opt["net"]["width"]`
  Size of_default_settings(const Expr& item) const {
    const auto given =
        program_ == nullptr ? std::nullopt : default_setting(facts_, *program_, item);
    const auto size = given ? parse_integer(*given) : std::nullopt;
    return size ? Size(static_cast<double>(*size)) : std::nullopt;
  }

  // Of a parameter of a constructor what a settings file gives it.
  Size of_settings(const Expr& name) const {
    const FunctionDef* init = name.statement->function;
    const bool may_be = name.kind == ExprKind::name && name.binding() == nullptr &&
                        init != nullptr && init->name == "__init__" && init->class_def != nullptr;
    if (!may_be) return std::nullopt;
    const auto& by_class = facts_.store().kept<NamedInSettings>().sizes;
    const auto sizes = by_class.find(init->class_def->name);
    if (sizes == by_class.end()) return std::nullopt;
    const auto size = sizes->second.find(name.word());
    return size == sizes->second.end() ? std::nullopt : Size(static_cast<double>(size->second));
  }

  // `block(planes)` of a class that was passed as a parameter has no known callers, but another
  // function of the file hands on a parameter of the same name: _make_layer(block, planes).
  Size of_namesake(const Expr& name, int hops) {
    const FunctionDef* function = name.statement->function;
    if (function == nullptr || name.kind != ExprKind::name) return std::nullopt;
    Size largest;
    for (const FunctionDef* other : function->file->functions) {
      if (other == function) continue;
      for (std::size_t i = 0; i < other->parameters.size(); ++i) {
        if (other->parameters[i].name != name.word()) continue;
        for (const Call* caller : other->callers) {
          if (!is_in_program(*caller->file)) continue;
          largest = std::max({largest, behind(given_for(*caller, *other, i), hops)});
        }
      }
    }
    return largest;
  }

  bool is_in_program(const File& file) const { return program_ == nullptr || program_->has(file); }

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
  if (starred->word() != "*" || starred->children().empty()) return std::nullopt;
  const auto& parameters = layer.function->parameters;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const bool is_it =
        parameters[i].starred && parameters[i].name == starred->children()[0]->word();
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
