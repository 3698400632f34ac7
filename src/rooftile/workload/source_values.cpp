// What expressions evaluate to: constants followed, defaults marked.
#include <algorithm>
#include <cmath>

#include "rooftile/base/text.h"
#include "rooftile/workload/source_entries.h"
#include "rooftile/workload/source_store.h"

namespace rooftile::source {
namespace {

constexpr int kMaxDepth = 12;
// Callers of callers multiply.
constexpr int kMaxSteps = 2000;
constexpr std::size_t kMaxCallers = 1000;

Value of_kind(ValueKind kind, const Expr* expr) {
  Value value;
  value.kind = kind;
  value.certainty = kind == ValueKind::unknown ? Certainty::unknown : Certainty::literal;
  value.found = expr;
  return value;
}

Value of_number(double number, const Expr* expr) {
  Value value = of_kind(ValueKind::real, expr);
  value.real = number;
  return value;
}

Value of_integer(std::int64_t number, const Expr* expr) {
  Value value = of_kind(ValueKind::integer, expr);
  value.integer = number;
  value.real = static_cast<double>(number);
  return value;
}

Value of_boolean(bool truth, const Expr* expr) {
  Value value = of_kind(ValueKind::boolean, expr);
  value.boolean = truth;
  value.integer = truth ? 1 : 0;
  return value;
}

bool is_numeric(const Value& value) {
  return value.kind == ValueKind::integer || value.kind == ValueKind::real;
}

bool is_equal(const Value& a, const Value& b) {
  if (is_numeric(a) && is_numeric(b)) return a.real == b.real;
  if (a.kind != b.kind || a.kind == ValueKind::list) return false;
  return a.boolean == b.boolean && a.text == b.text;
}

Certainty weaker(Certainty a, Certainty b) { return std::max(a, b); }

Value parse_literal(const Expr& expr) {
  std::string digits;
  for (const char c : expr.word()) {
    if (c != '_') digits += c;
  }
  if (const auto whole = parse_integer(digits)) return of_integer(*whole, &expr);
  if (expr.kind == ExprKind::integer) return of_kind(ValueKind::unknown, &expr);
  const auto number = parse_number(digits);
  return number ? of_number(*number, &expr) : of_kind(ValueKind::unknown, &expr);
}

std::optional<double> calculate(std::string_view sign, double a, double b) {
  if (sign == "+") return a + b;
  if (sign == "-") return a - b;
  if (sign == "*") return a * b;
  if (sign == "/" && b != 0) return a / b;
  if (sign == "//" && b != 0) return std::floor(a / b);
  if (sign == "%" && b != 0) return a - b * std::floor(a / b);
  if (sign == "**" && std::abs(b) < 64) return std::pow(a, b);
  return std::nullopt;
}

class Evaluator {
 public:
  explicit Evaluator(const Store& store) : store_(store) {}

  Value evaluate(const Expr* expr, int depth) const {
    if (expr == nullptr || depth > kMaxDepth || ++steps_ > kMaxSteps) {
      return of_kind(ValueKind::unknown, expr);
    }
    switch (expr->kind) {
      case ExprKind::integer:
      case ExprKind::real:
        return parse_literal(*expr);
      case ExprKind::boolean:
        return of_boolean(expr->word() == "True", expr);
      case ExprKind::none:
        return of_kind(ValueKind::none, expr);
      case ExprKind::text: {
        Value value = of_kind(ValueKind::text, expr);
        value.text = expr->word();
        return value;
      }
      case ExprKind::list:
      case ExprKind::tuple:
      case ExprKind::dict:
        return of_kind(ValueKind::list, expr);
      case ExprKind::name:
        return name(*expr, depth);
      case ExprKind::attribute:
        return attribute(*expr, depth);
      case ExprKind::call:
        return call(*expr, depth);
      case ExprKind::subscript:
        return subscript(*expr, depth);
      default:
        return operation(*expr, depth);
    }
  }

 private:
  Value followed(const Expr* expr, int depth, Certainty at_least) const {
    Value value = evaluate(expr, depth + 1);
    if (value.known()) value.certainty = weaker(value.certainty, at_least);
    return value;
  }

  Value bound(const Statement& binding, std::string_view name, int depth) const {
    const Expr* value = assigned_value(binding, name);
    if (value == nullptr) return of_kind(ValueKind::unknown, nullptr);
    const Statement* home = binding.parent;
    const bool is_config =
        home != nullptr && home->class_def != nullptr && home->class_def->is_config;
    const bool replaceable = is_config || (binding.function == nullptr && binding.file->runs_exec);
    return followed(value, depth, replaceable ? Certainty::configurable : Certainty::constant);
  }

  Value full_name(const Expr& expr, int depth) const {
    const auto global = store_.globals.find(expr.full_name());
    if (global != store_.globals.end()) {
      const std::string_view last = expr.full_name().substr(expr.full_name().rfind('.') + 1);
      return bound(*global->second, last, depth);
    }
    Value value = of_kind(ValueKind::name, &expr);
    value.text = expr.full_name();
    return value;
  }

  Value name(const Expr& expr, int depth) const {
    if (expr.binding() != nullptr && expr.binding()->kind == StatementKind::assignment) {
      return bound(*expr.binding(), expr.word(), depth);
    }
    if (!expr.full_name().empty()) return full_name(expr, depth);
    if (expr.binding() == nullptr && expr.statement != nullptr) return parameter(expr, depth);
    return of_kind(ValueKind::unknown, &expr);
  }

  // What all callers pass, or else the default.
  Value parameter(const Expr& expr, int depth) const {
    for (const FunctionDef* def = expr.statement->function; def != nullptr; def = def->outer) {
      for (std::size_t i = 0; i < def->parameters.size(); ++i) {
        if (def->parameters[i].name == expr.word()) return parameter(*def, i, depth);
      }
    }
    return of_kind(ValueKind::unknown, &expr);
  }

  Value parameter(const FunctionDef& def, std::size_t index, int depth) const {
    const Parameter& parameter = def.parameters[index];
    // So many are kept; others may pass something else.
    if (def.callers.size() >= kMaxCallers) return of_kind(ValueKind::unknown, nullptr);
    std::optional<Value> common;
    for (const Call* caller : def.callers) {
      const Argument* given = passed_argument(*caller, def, parameter.name);
      // What is named is not among the `**options` that are not known.
      const bool is_open = caller->unknown_arguments && (given == nullptr || given->name.empty());
      const Value value = is_open ? parsed(*caller, parameter.name, depth + 1)
                          : given == nullptr
                              ? usual(def, parameter, depth + 1)
                              : followed(given->value, depth + 1, Certainty::constant);
      if (!value.known() || (common && !is_equal(*common, value))) {
        return of_kind(ValueKind::unknown, nullptr);
      }
      if (!common || value.certainty > common->certainty) common = value;
    }
    if (common) return *common;
    return usual(def, parameter, depth);
  }

  // Of a parameter that is not passed: its default, or that of its @click.option.
  Value usual(const FunctionDef& def, const Parameter& parameter, int depth) const {
    const bool has_options = std::ranges::any_of(def.decorators, [](const Expr* each) {
      return each->call() != nullptr && each->call()->name == "click.option";
    });
    const Option* found = parameter.default_value == nullptr && has_options
                              ? option(store_.options, parameter.name)
                              : nullptr;
    if (found == nullptr) return followed(parameter.default_value, depth, Certainty::configurable);
    return default_of(nearest(*found, def.file, parameter.name), nullptr, depth);
  }

  // train(**vars(args)): the option of that name.
  Value parsed(const Call& caller, std::string_view name, int depth) const {
    const Option* found = spreads_options(store_, caller) ? option(store_.options, name) : nullptr;
    if (found == nullptr) return of_kind(ValueKind::unknown, nullptr);
    return default_of(nearest(*found, caller.file, name), nullptr, depth);
  }

  Value default_of(const Option& option, const Expr* expr, int depth) const {
    if (option.several) return of_kind(ValueKind::unknown, expr);
    Value value = of_kind(option.is_required ? ValueKind::unknown : ValueKind::none, expr);
    const bool is_off = option.action == "store_true";
    if (is_off || option.action == "store_false") value = of_boolean(!is_off, expr);
    if (option.value != nullptr) {
      const bool is_quoted = option.is_number && option.value->kind == ExprKind::text;
      value = is_quoted ? parse_literal(*option.value) : evaluate(option.value, depth + 1);
    }
    if (value.known()) value.certainty = Certainty::configurable;
    return value;
  }

  // config["workers"] of a dict that the given files write out.
  Value subscript(const Expr& expr, int depth) const {
    const Expr* item = written_item(store_, expr);
    if (item == nullptr) {
      const Option* found = option(store_.options, parsed_key(store_, expr));
      if (found == nullptr) return of_kind(ValueKind::unknown, &expr);
      return default_of(*found, &expr, depth);
    }
    return followed(item, depth + 1, Certainty::configurable);
  }

  Value attribute(const Expr& expr, int depth) const {
    if (const Expr* given = written_attribute(store_, expr)) {
      return followed(given, depth + 1, Certainty::configurable);
    }
    if (expr.binding() != nullptr && expr.binding()->kind == StatementKind::assignment) {
      return bound(*expr.binding(), expr.word(), depth);
    }
    if (!expr.full_name().empty() && !is_of_global(store_, expr)) return full_name(expr, depth);
    const Type& owner = expr.children().empty() ? unknown_type() : *expr.children()[0]->type;
    const Option* option = configured(expr);
    const bool plain =
        owner.is(TypeKind::unknown) || owner.is(TypeKind::host_object) || owner.guessed;
    if (option == nullptr || !plain) return of_kind(ValueKind::unknown, &expr);
    return default_of(*option, &expr, depth);
  }

  // Of cfg.train.workers the entry "train.workers", else the option "workers".
  const Option* configured(const Expr& expr) const {
    const Expr* root = &expr;
    while (root->kind == ExprKind::attribute && !root->children().empty())
      root = root->children()[0];
    if (expr.statement != nullptr && root != &expr && root->kind == ExprKind::name) {
      const std::string_view whole = expr.statement->file->slice(expr.range);
      for (std::size_t dot = whole.find('.'); dot != std::string_view::npos;
           dot = whole.find('.', dot + 1)) {
        if (const Option* found = option(store_.options, whole.substr(dot + 1))) {
          return &nearest(*found, expr.statement->file, expr.word());
        }
      }
    }
    const Option* found = option(store_.options, expr.word());
    if (found == nullptr || expr.statement == nullptr) return found;
    return &nearest(*found, expr.statement->file, expr.word());
  }

  static const Option* option(const std::unordered_map<std::string_view, Option>& options,
                              std::string_view name) {
    const auto found = options.find(name);
    return found == options.end() ? nullptr : &found->second;
  }

  // Of several options of one name the one that the reading file defines itself.
  const Option& nearest(const Option& found, const File* file, std::string_view name) const {
    const auto own = store_.file_options.find(file);
    const bool is_found = !found.several || own == store_.file_options.end();
    const Option* defined = is_found ? nullptr : option(own->second, name);
    return defined == nullptr ? found : *defined;
  }

  Value call(const Expr& expr, int depth) const {
    const Call& call = *expr.call();
    const auto argument = [&](std::size_t i) {
      return i < call.arguments.size() ? evaluate(call.arguments[i].value, depth + 1)
                                       : of_kind(ValueKind::unknown, &expr);
    };
    if (call.name == "int" || call.name == "float" || call.name == "bool" || call.name == "str") {
      Value value = argument(0);
      if (call.name == "int" && value.kind == ValueKind::real && std::abs(value.real) < 1e15) {
        const Certainty certainty = value.certainty;
        value = of_integer(static_cast<std::int64_t>(value.real), &expr);
        value.certainty = certainty;
      }
      return value;
    }
    const bool has_fallback =
        call.name == "os.environ.get" || call.name == "os.getenv" || is_fallback(call);
    const bool is_declared = call.name == "typer.Option" || call.name == "typer.Argument";
    if (has_fallback || is_declared) {
      const Expr* written = is_declared ? nullptr : written_get(store_, call);
      Value value =
          written != nullptr ? evaluate(written, depth + 1) : argument(is_declared ? 0 : 1);
      if (value.known()) value.certainty = Certainty::configurable;
      return value;
    }
    return of_kind(ValueKind::unknown, &expr);
  }

  Value operation(const Expr& expr, int depth) const {
    const std::size_t count = expr.children().size();
    if (expr.kind == ExprKind::unary && count == 1) return unary(expr, depth);
    if (expr.kind == ExprKind::logical) return logical(expr, depth);
    if (expr.kind == ExprKind::conditional && count == 3) return conditional(expr, depth);
    if (count != 2 || (expr.kind != ExprKind::binary && expr.kind != ExprKind::comparison)) {
      return of_kind(ValueKind::unknown, &expr);
    }
    const Value a = evaluate(expr.children()[0], depth + 1);
    const Value b = evaluate(expr.children()[1], depth + 1);
    if (!a.known() || !b.known()) return of_kind(ValueKind::unknown, &expr);
    Value value = expr.kind == ExprKind::binary ? arithmetic(expr, a, b) : compared(expr, a, b);
    if (value.known())
      value.certainty = weaker(weaker(a.certainty, b.certainty), Certainty::constant);
    return value;
  }

  static Value arithmetic(const Expr& expr, const Value& a, const Value& b) {
    if (!is_numeric(a) || !is_numeric(b)) return of_kind(ValueKind::unknown, &expr);
    const std::optional<double> result = calculate(expr.word(), a.real, b.real);
    if (!result || !std::isfinite(*result)) return of_kind(ValueKind::unknown, &expr);
    const bool whole = a.kind == ValueKind::integer && b.kind == ValueKind::integer &&
                       expr.word() != "/" && std::abs(*result) < 1e15 &&
                       *result == std::floor(*result);
    return whole ? of_integer(static_cast<std::int64_t>(*result), &expr)
                 : of_number(*result, &expr);
  }

  static Value compared(const Expr& expr, const Value& a, const Value& b) {
    const std::string_view sign = expr.word();
    if (a.kind == ValueKind::list || b.kind == ValueKind::list) {
      return of_kind(ValueKind::unknown, &expr);
    }
    if (sign == "==" || sign == "is") return of_boolean(is_equal(a, b), &expr);
    if (sign == "!=" || sign == "is not") return of_boolean(!is_equal(a, b), &expr);
    if (!is_numeric(a) || !is_numeric(b)) return of_kind(ValueKind::unknown, &expr);
    if (sign == "<") return of_boolean(a.real < b.real, &expr);
    if (sign == ">") return of_boolean(a.real > b.real, &expr);
    if (sign == "<=") return of_boolean(a.real <= b.real, &expr);
    if (sign == ">=") return of_boolean(a.real >= b.real, &expr);
    return of_kind(ValueKind::unknown, &expr);
  }

  Value unary(const Expr& expr, int depth) const {
    Value value = evaluate(expr.children()[0], depth + 1);
    if (expr.word() != "-" || !is_numeric(value)) return of_kind(ValueKind::unknown, &expr);
    value.integer = -value.integer;
    value.real = -value.real;
    return value;
  }

  Value logical(const Expr& expr, int depth) const {
    Value last = of_kind(ValueKind::unknown, &expr);
    for (const Expr* child : expr.children()) {
      last = evaluate(child, depth + 1);
      if (expr.word() == "not") break;
      if (!last.known()) return last;
      if (expr.word() == "and" ? last.is_false() : last.is_true()) return last;
    }
    if (expr.word() != "not" || !last.known()) return last;
    Value value = of_boolean(last.is_false(), &expr);
    value.certainty = last.certainty;
    return value;
  }

  Value conditional(const Expr& expr, int depth) const {
    const Value condition = evaluate(expr.children()[1], depth + 1);
    const Value yes = evaluate(expr.children()[0], depth + 1);
    const Value no = evaluate(expr.children()[2], depth + 1);
    if (condition.fixed()) return condition.is_true() ? yes : no;
    if (yes.known() && no.known() && is_equal(yes, no)) return yes;
    return of_kind(ValueKind::unknown, &expr);
  }

  const Store& store_;
  mutable int steps_ = 0;
};

}  // namespace

Value SourceFacts::value(const Expr* expr) const {
  Value value = Evaluator(*store_).evaluate(expr, 0);
  value.expr = expr;
  return value;
}

Value SourceFacts::argument(const Call& call, std::string_view name, int position) const {
  const Argument* given = call.argument(name, position);
  if (given != nullptr) return value(given->value);
  Value missing;
  missing.kind = call.unknown_arguments ? ValueKind::unknown : ValueKind::absent;
  return missing;
}

}  // namespace rooftile::source
