#include "rooftile/analysis/source/pointwise_function.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/words.h"
#include "rooftile/base/text.h"

namespace rooftile::source {
namespace {

bool is_pointwise_name(std::string_view name) {
  return is_one_of(name, {"erf",      "tanh",    "exp",     "expm1",      "sigmoid", "pow",
                          "sqrt",     "rsqrt",   "log",     "log1p",      "abs",     "square",
                          "sin",      "cos",     "clamp",   "clamp_min",  "relu",    "softplus",
                          "silu",     "gelu",    "elu",     "leaky_relu", "relu6",   "hardtanh",
                          "softsign", "add",     "sub",     "mul",        "div",     "neg",
                          "atan",     "maximum", "minimum", "logsigmoid", "erfc",    "reciprocal"});
}

// Counts what is computed of a function's tensors.
class ChainCounter {
 public:
  explicit ChainCounter(const FunctionDef& function) {
    for (const Parameter& parameter : function.parameters) {
      const bool is_self = function.class_def != nullptr && &parameter == &function.parameters[0];
      // A default stands for a number: beta=1.0.
      if (!is_self && parameter.default_value == nullptr) tensors_.insert(parameter.name);
    }
  }

  bool read(const Statement& statement) {
    const bool is_documentation =
        statement.kind == StatementKind::expression && statement.value->kind == ExprKind::text;
    if (is_documentation) return true;
    if (statement.kind == StatementKind::return_ && statement.value != nullptr) {
      return is_of_tensor(*statement.value) && !is_other_;
    }
    const Expr* target = statement.target;
    const bool is_plain = statement.kind == StatementKind::assignment &&
                          target->kind == ExprKind::name && statement.value != nullptr &&
                          statement.word == "=";
    if (!is_plain) return false;
    if (is_of_tensor(*statement.value)) tensors_.insert(target->word());
    return !is_other_;
  }

  int operations() const { return operations_; }
  bool has_call() const { return has_call_; }

 private:
  bool any_of_tensor(std::span<const Expr* const> parts) {
    bool any = false;
    for (const Expr* part : parts) any = is_of_tensor(*part) || any;
    return any;
  }

  bool is_of_tensor(const Expr& expr) {
    if (expr.kind == ExprKind::name) return tensors_.contains(expr.word());
    if (expr.call() != nullptr) return is_call_of_tensor(*expr.call());
    const bool any = any_of_tensor(expr.children());
    if (!any) return false;
    const bool is_arithmetic =
        (expr.kind == ExprKind::binary && is_one_of(expr.word(), {"+", "-", "*", "/", "**"})) ||
        (expr.kind == ExprKind::unary && expr.word() == "-");
    is_other_ = is_other_ || !is_arithmetic;
    ++operations_;
    return true;
  }

  bool is_call_of_tensor(const Call& call) {
    bool any = call.receiver != nullptr && is_of_tensor(*call.receiver);
    for (const Argument& argument : call.arguments) any = is_of_tensor(*argument.value) || any;
    if (!any) return false;
    // math.cos takes a number.
    const bool is_of_numbers = starts_with_any(call.name, {"math.", "numpy."});
    const bool is_library =
        call.target == nullptr && !is_of_numbers && is_pointwise_name(call.method);
    is_other_ = is_other_ || !is_library;
    has_call_ = true;
    ++operations_;
    return true;
  }

  std::set<std::string_view> tensors_;
  int operations_ = 0;
  bool is_other_ = false, has_call_ = false;
};

KnownActivation activation_of(const FunctionDef& function) {
  bool erf = false, tanh = false, softplus = false, relu6 = false, cubic = false, half = false;
  bool three = false;
  for (const Statement* statement : function.body) {
    visit(statement->value, [&](const Expr& part) {
      const std::string_view method = part.call() != nullptr ? part.call()->method : "";
      erf = erf || method == "erf";
      tanh = tanh || method == "tanh";
      softplus = softplus || method == "softplus";
      relu6 = relu6 || method == "relu6";
      cubic = cubic || (part.kind == ExprKind::real && part.word() == "0.044715");
      three = three || is_one_of(part.word(), {"3", "3.", "3.0"});
      half = half || (part.kind == ExprKind::real && (part.word() == "0.5" || part.word() == ".5"));
      return true;
    });
  }
  if (erf && half && !tanh) return KnownActivation::gelu;
  if (tanh && cubic && half) return KnownActivation::gelu_tanh;
  if (relu6 && three) return KnownActivation::hardswish;
  return tanh && softplus ? KnownActivation::mish : KnownActivation::none;
}

}  // namespace

std::optional<PointwiseFunction> pointwise_function(const FunctionDef& function) {
  if (function.body.empty() || function.body.back()->kind != StatementKind::return_) {
    return std::nullopt;
  }
  ChainCounter counter(function);
  for (const Statement* statement : function.body) {
    if (!counter.read(*statement)) return std::nullopt;
  }
  if (!counter.has_call()) return std::nullopt;
  return PointwiseFunction{counter.operations(), function.body.back(), activation_of(function)};
}

}  // namespace rooftile::source
