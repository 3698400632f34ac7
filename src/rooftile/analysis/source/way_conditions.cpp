#include "rooftile/analysis/source/way_conditions.h"

#include <algorithm>
#include <string_view>

#include "rooftile/analysis/source/asked_truth.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/step_guards.h"
#include "rooftile/base/text.h"

namespace rooftile::source {
namespace {

// `norm_type = float(norm_type)`: the number stays the same.
const Expr* before_conversion(const Expr* name) {
  const Expr* made = resolved(name);
  const bool converts = made != name && made->call() != nullptr &&
                        is_one_of(made->call()->name, {"float", "int", "str"}) &&
                        made->call()->arguments.size() == 1;
  return converts ? made->call()->arguments.front().value : name;
}

bool is_written_number(const Expr& expr) {
  return expr.kind == ExprKind::integer || expr.kind == ExprKind::real;
}

// `loss(x, y, **kwargs)` of keywords that are not seen leaves a switch and a number as they are.
// What a constructor gets is no batch, so that None is a setting too.
bool is_left_out(const Call& call, const Parameter& parameter) {
  if (!call.unknown_arguments) return true;
  const Expr* usual = parameter.default_value;
  if (usual == nullptr) return false;
  const bool is_constructor = call.target != nullptr && call.target->name == "__init__";
  const bool is_setting = usual->kind == ExprKind::boolean || is_written_number(*usual) ||
                          (usual->kind == ExprKind::none && is_constructor);
  return is_setting && std::ranges::all_of(call.arguments, [&](const Argument& argument) {
           return !argument.unpacked || call.file->slice(argument.range).starts_with("**");
         });
}

// What the way down here gives for a parameter: the argument, or the default that is left, by way
// of the parameters of callers. Null where neither is seen.
const Expr* given_on_the_way(const Context& context, const Expr* name) {
  const Expr* given = nullptr;
  for (std::size_t hops = 0; hops <= context.calls.size(); ++hops) {
    name = before_conversion(name);
    const FunctionDef* function = name->statement == nullptr ? nullptr : name->statement->function;
    if (function == nullptr || name->kind != ExprKind::name || name->binding() != nullptr) break;
    const auto& parameters = function->parameters;
    const auto found = std::ranges::find(parameters, name->word(), &Parameter::name);
    const auto call = std::ranges::find(context.calls, function, &Call::target);
    if (found == parameters.end()) break;
    if (call == context.calls.end()) return given;
    const Argument* argument = passed_argument(**call, *function, name->word());
    if (argument == nullptr) return is_left_out(**call, *found) ? found->default_value : nullptr;
    given = name = argument->value;
  }
  return given;
}

bool is_literal(const Expr& expr) {
  return is_written_number(expr) || expr.kind == ExprKind::none || expr.kind == ExprKind::boolean ||
         expr.kind == ExprKind::text;
}

// `inf`, math.inf, float("inf"): no number that is written out.
bool is_infinity(const Expr& expr) {
  if (is_one_of(last_name(&expr), {"inf", "Inf", "infty"})) return true;
  return expr.call() != nullptr && expr.call()->name == "float" &&
         !expr.call()->arguments.empty() &&
         expr.call()->arguments.front().value->word().starts_with("inf");
}

// Whether the literal that is passed on the way is the one that is asked for. Empty where a number
// could be spelled in another way.
std::optional<bool> is_the_same(const Expr& given, const Expr& asked) {
  if (is_infinity(asked)) return is_written_number(given) ? std::optional(false) : std::nullopt;
  if (!is_literal(asked)) return std::nullopt;
  if (is_written_number(given) && is_written_number(asked)) {
    const auto left = parse_number(given.word());
    const auto right = parse_number(asked.word());
    return left && right ? std::optional(*left == *right) : std::nullopt;
  }
  const bool may_be_equal = is_written_number(given) || given.kind == ExprKind::boolean;
  if (given.kind != asked.kind) {
    const bool is_open =
        may_be_equal && (is_written_number(asked) || asked.kind == ExprKind::boolean);
    return is_open ? std::nullopt : std::optional(false);
  }
  return given.kind == ExprKind::none || given.word() == asked.word();
}

// `if weight > 0:` of two numbers that are written.
std::optional<bool> is_ordered(const Expr& given, std::string_view word, const Expr& asked) {
  if (!is_written_number(given) || !is_written_number(asked)) return std::nullopt;
  const auto left = parse_number(given.word());
  const auto right = parse_number(asked.word());
  if (!left || !right) return std::nullopt;
  if (word == "<") return *left < *right;
  if (word == "<=") return *left <= *right;
  if (word == ">") return *left > *right;
  return word == ">=" ? std::optional(*left >= *right) : std::nullopt;
}

// `mode in ["train", "both"]`, and `"train" in mode`, of texts that are written.
std::optional<bool> is_contained(const Context& context, const Expr& left, const Expr& right) {
  if (left.kind == ExprKind::text) {
    const Expr* given = given_on_the_way(context, &right);
    const bool is_text = given != nullptr && given->kind == ExprKind::text;
    return is_text ? std::optional(contains(given->word(), left.word())) : std::nullopt;
  }
  const bool is_list =
      right.kind == ExprKind::list || right.kind == ExprKind::tuple || right.kind == ExprKind::set;
  const Expr* given = is_list ? given_on_the_way(context, &left) : nullptr;
  if (given == nullptr || !is_literal(*given)) return std::nullopt;
  std::optional<bool> found = false;
  for (const Expr* item : right.children()) {
    const std::optional<bool> same = is_the_same(*given, *item);
    if (same == true) return true;
    if (!same) found = std::nullopt;
  }
  return found;
}

// `cluster = None`, and `cluster = {…}` under `if epoch >= warmup:`: there is one for most of the
// training.
bool is_made_later(const Expr& given) {
  const FunctionDef* function = given.statement == nullptr ? nullptr : given.statement->function;
  bool found = false;
  const auto look = [&](const Statement& set) {
    const bool sets = set.kind == StatementKind::assignment && set.word == "=" &&
                      set.target != nullptr && set.target->kind == ExprKind::name &&
                      set.target->word() == given.word() && set.value != nullptr &&
                      set.value->kind != ExprKind::none;
    const Statement* branch = sets ? set.parent : nullptr;
    if (branch == nullptr || branch->kind != StatementKind::if_ || branch->value == nullptr) return;
    Guard guard;
    guard.expr = branch->value;
    guard.statement = branch;
    const bool is_first = std::ranges::find(branch->body, &set) != branch->body.end();
    found = found || (is_first && is_from_some_step_on(guard));
  };
  if (function != nullptr) for_statements(function->body, look);
  return found;
}

// `mask = lengths > 0`, torch.ones(n), x.to(device): a tensor, and never None.
bool is_surely_made(const Expr& given) {
  if (!given.type->is(TypeKind::tensor) || given.type->guessed) return false;
  const Expr* made = resolved(&given);
  if (made->kind == ExprKind::binary || made->kind == ExprKind::comparison) return true;
  return made->call() != nullptr && made->call()->target == nullptr &&
         made->call()->name.starts_with("torch.");
}

// `z is None`, `mode == "mask"`, `steps > 3`, of a parameter that is given.
std::optional<bool> compared_on_the_way(const Context& context, const Guard& guard,
                                        const Expr& given) {
  const Expr& expr = *guard.expr;
  const Expr& asked = *expr.children()[1];
  if (!is_one_of(expr.word(), {"==", "!=", "is", "is not"}))
    return is_ordered(given, expr.word(), asked);
  const bool asks_none = asked.kind == ExprKind::none;
  // `scaler = None; if args.amp: scaler = GradScaler()`: there are steps for either.
  const bool is_open = given.kind != ExprKind::none && chooses_backward(context, guard);
  if (asks_none && (is_open || is_made_later(given))) return std::nullopt;
  if (asks_none && may_be_none(given)) return expr.word() == "is" || expr.word() == "==";
  if (asks_none && is_surely_made(given)) return expr.word() == "is not" || expr.word() == "!=";
  if (!is_literal(given)) return std::nullopt;
  const std::optional<bool> same = is_the_same(given, asked);
  if (!same) return std::nullopt;
  return *same == (expr.word() == "==" || expr.word() == "is");
}

bool is_empty_list(const Expr* given) {
  return given != nullptr && given->children().empty() &&
         (given->kind == ExprKind::list || given->kind == ExprKind::tuple);
}

// `if len(gpu_ids) > 0:` where the caller leaves the default of `[]`.
bool asks_for_items_of_none(const Context& context, const Expr& expr) {
  const bool compares = expr.kind == ExprKind::comparison && expr.children().size() == 2 &&
                        is_one_of(expr.word(), {">", "!=", ">="});
  const Call* length = compares ? expr.children()[0]->call() : nullptr;
  const bool counts = length != nullptr && length->name == "len" && length->arguments.size() == 1;
  const std::string_view least = compares ? expr.children()[1]->word() : std::string_view();
  if (!counts || least != (expr.word() == ">=" ? "1" : "0")) return false;
  return is_empty_list(given_on_the_way(context, length->arguments.front().value));
}

std::optional<bool> holds(const Context& context, const Guard& guard, int depth);

// `proj is not None and count > proj`: one operand may decide alone.
std::optional<bool> decided_by_operands(const Context& context, const Guard& guard, int depth) {
  constexpr int kMaxDepth = 4;
  const bool is_and = guard.expr->word() == "and";
  if (depth > kMaxDepth || (!is_and && guard.expr->word() != "or")) return std::nullopt;
  bool all_known = true;
  for (const Expr* operand : guard.expr->children()) {
    Guard one = guard;
    one.expr = operand;
    const std::optional<bool> known = holds(context, one, depth + 1);
    if (known && *known != is_and) return known;
    all_known = all_known && known;
  }
  return all_known ? std::optional(is_and) : std::nullopt;
}

std::optional<bool> holds(const Context& context, const Guard& guard, int depth) {
  const bool is_condition = guard.kind == GuardKind::condition || guard.kind == GuardKind::option ||
                            guard.kind == GuardKind::training || guard.kind == GuardKind::once;
  if (!is_condition || guard.expr == nullptr) return std::nullopt;
  const Expr& expr = *guard.expr;
  if (expr.kind == ExprKind::logical) return decided_by_operands(context, guard, depth);
  if (expr.kind == ExprKind::name) {
    const Expr* given = given_on_the_way(context, &expr);
    if (given == nullptr) return std::nullopt;
    if (given->kind == ExprKind::none || is_empty_list(given)) return false;
    return given->kind == ExprKind::boolean ? std::optional(given->word() == "True") : std::nullopt;
  }
  const Call* call = expr.call();
  if (call != nullptr && call->method == "exists" && call->arguments.size() == 1) {
    const Expr* given = given_on_the_way(context, call->arguments.front().value);
    return given != nullptr && given->kind == ExprKind::none ? std::optional(false) : std::nullopt;
  }
  if (asks_for_items_of_none(context, expr)) return false;
  const bool compares = expr.kind == ExprKind::comparison && expr.children().size() == 2;
  if (compares && is_one_of(expr.word(), {"in", "not in"})) {
    const auto inside = is_contained(context, *expr.children()[0], *expr.children()[1]);
    return inside ? std::optional(*inside == (expr.word() == "in")) : std::nullopt;
  }
  const Expr* given = compares ? given_on_the_way(context, expr.children()[0]) : nullptr;
  return given == nullptr ? std::nullopt : compared_on_the_way(context, guard, *given);
}

// `SummaryWriter(folder)`, or an own function that makes one in a run with all defaults.
bool makes_writer(const SourceFacts& facts, const Call& call) {
  if (call.method.ends_with("SummaryWriter")) return true;
  return call.target != nullptr && std::ranges::any_of(call.target->calls, [&](const Call* inner) {
           return inner->method.ends_with("SummaryWriter") && is_reached_by_default(facts, *inner);
         });
}

// `if writer:` and `if writer is not None:` of one that is made before the loop.
bool is_writer_on_the_way(const SourceFacts& facts, const Context& context, const Expr& asked) {
  const bool asks_none = asked.kind == ExprKind::comparison && asked.word() == "is not" &&
                         asked.children().size() == 2 &&
                         asked.children()[1]->kind == ExprKind::none;
  const Expr* given = given_on_the_way(context, asks_none ? asked.children()[0] : &asked);
  const Statement* binding =
      given == nullptr || given->kind != ExprKind::name ? nullptr : given->binding();
  const Call* made =
      binding == nullptr || binding->value == nullptr ? nullptr : binding->value->call();
  const bool is_before = made != nullptr && context.step_loop != nullptr &&
                         !is_within(*binding, *context.step_loop->statement);
  return is_before && makes_writer(facts, *made);
}

}  // namespace

std::optional<bool> holds_on_the_way(const Context& context, const Guard& guard) {
  return holds(context, guard, 0);
}

bool lacks_items_on_the_way(const Context& context) {
  return std::ranges::any_of(context.guards, [&](const Guard& guard) {
    return guard.expr != nullptr && !guard.negated && asks_for_items_of_none(context, *guard.expr);
  });
}

bool is_setting_on_the_way(const SourceFacts& facts, const Context& context, const Guard& guard) {
  if (guard.kind != GuardKind::condition || guard.expr == nullptr) return false;
  const Expr& asked = *guard.expr;
  if (is_writer_on_the_way(facts, context, asked)) return true;
  // `kind == "a"` of a parameter that is given self.kind
  const bool compares = asked.kind == ExprKind::comparison && asked.children().size() == 2 &&
                        is_one_of(asked.word(), {"==", "!="}) &&
                        asked.children()[1]->kind == ExprKind::text;
  const Expr* given = given_on_the_way(context, compares ? asked.children()[0] : &asked);
  if (given == nullptr || given->kind != ExprKind::attribute) return false;
  const Expr* root = given;
  while (root->kind == ExprKind::attribute && !root->children().empty()) root = root->children()[0];
  return !given->type->is(TypeKind::tensor) &&
         is_one_of(root->word(), {"self", "args", "opt", "opts", "config", "cfg", "hparams"});
}

}  // namespace rooftile::source
