#include "rooftile/script/flow/known_value.h"

#include <algorithm>
#include <cmath>

#include "rooftile/base/text.h"

namespace rooftile::script {
namespace {

constexpr double kLargestWhole = 1e15;  // below 2^53, so that doubles hold it exactly
constexpr double kLargestPower = 64;

std::optional<double> calculate(std::string_view sign, double a, double b) {
  if (sign == "+") return a + b;
  if (sign == "-") return a - b;
  if (sign == "*") return a * b;
  if (sign == "/" && b != 0) return a / b;
  if (sign == "//" && b != 0) return std::floor(a / b);
  if (sign == "%" && b != 0) return a - b * std::floor(a / b);
  if (sign == "**" && std::abs(b) < kLargestPower) return std::pow(a, b);
  return std::nullopt;
}

std::optional<bool> compare(std::string_view sign, const Value& a, const Value& b) {
  const bool is_list = a.kind == ValueKind::list || b.kind == ValueKind::list;
  // A name of a library may be an alias of another one.
  const bool is_name = (a.kind == ValueKind::name || b.kind == ValueKind::name) && a.text != b.text;
  const bool is_none = a.kind == ValueKind::none || b.kind == ValueKind::none;
  if ((is_list || (is_name && a.kind == b.kind)) && !is_none) return std::nullopt;
  const bool is_one_truth = (a.kind == ValueKind::boolean) != (b.kind == ValueKind::boolean);
  if (is_one_truth && (is_numeric(a) || is_numeric(b))) return std::nullopt;  // 1 == True
  if (sign == "==" || sign == "is") return is_equal(a, b);
  if (sign == "!=" || sign == "is not") return !is_equal(a, b);
  if (!is_numeric(a) || !is_numeric(b)) return std::nullopt;
  if (sign == "<") return a.real < b.real;
  if (sign == ">") return a.real > b.real;
  if (sign == "<=") return a.real <= b.real;
  if (sign == ">=") return a.real >= b.real;
  return std::nullopt;
}

Value arithmetic(std::string_view sign, const Value& a, const Value& b, const source::Expr* found) {
  if (!is_numeric(a) || !is_numeric(b)) return constant_of(ValueKind::unknown, found);
  const std::optional<double> result = calculate(sign, a.real, b.real);
  if (!result || !std::isfinite(*result)) return constant_of(ValueKind::unknown, found);
  const bool is_whole = a.kind == ValueKind::integer && b.kind == ValueKind::integer &&
                        sign != "/" && std::abs(*result) < kLargestWhole &&
                        *result == std::floor(*result);
  return is_whole ? integer_constant(static_cast<std::int64_t>(*result), found)
                  : real_constant(*result, found);
}

}  // namespace

KnownValue KnownValue::anything() {
  KnownValue value;
  value.is_anything_ = true;
  return value;
}

KnownValue KnownValue::of(const Value& constant) {
  if (!constant.known()) return anything();
  KnownValue value;
  value.constants_.push_back(constant);
  return value;
}

std::optional<bool> KnownValue::truth() const {
  if (constants_.empty()) return std::nullopt;
  const bool first = constants_.front().is_true();
  const bool is_same =
      std::ranges::all_of(constants_, [&](const Value& each) { return each.is_true() == first; });
  return is_same ? std::optional(first) : std::nullopt;
}

bool KnownValue::is_configurable() const {
  return std::ranges::any_of(
      constants_, [](const Value& each) { return each.certainty == Certainty::configurable; });
}

bool KnownValue::join(const KnownValue& other) {
  if (is_anything_) return false;
  bool rose = false;
  for (const Value& each : other.constants_) {
    const auto same = std::ranges::find_if(
        constants_, [&](const Value& own) { return own.kind == each.kind && is_equal(own, each); });
    if (same == constants_.end()) {
      constants_.push_back(each);
      rose = true;
    } else if (same->certainty < each.certainty) {
      same->certainty = each.certainty;
      rose = true;
    }
  }
  if (!other.is_anything_ && constants_.size() <= kMaxConstants) return rose;
  *this = anything();
  return true;
}

bool KnownValue::weaken(Certainty at_least) {
  bool rose = false;
  for (Value& each : constants_) {
    rose = rose || each.certainty < at_least;
    each.certainty = std::max(each.certainty, at_least);
  }
  return rose;
}

Value constant_of(ValueKind kind, const source::Expr* found) {
  Value value;
  value.kind = kind;
  value.certainty = kind == ValueKind::unknown ? Certainty::unknown : Certainty::literal;
  value.found = found;
  return value;
}

Value integer_constant(std::int64_t number, const source::Expr* found) {
  Value value = constant_of(ValueKind::integer, found);
  value.integer = number;
  value.real = static_cast<double>(number);
  return value;
}

Value whole_constant(double number, const source::Expr* found) {
  return std::abs(number) < kLargestWhole
             ? integer_constant(static_cast<std::int64_t>(number), found)
             : constant_of(ValueKind::unknown, found);
}

Value real_constant(double number, const source::Expr* found) {
  Value value = constant_of(ValueKind::real, found);
  value.real = number;
  return value;
}

Value boolean_constant(bool truth, const source::Expr* found) {
  Value value = constant_of(ValueKind::boolean, found);
  value.boolean = truth;
  value.integer = truth ? 1 : 0;
  return value;
}

Value text_constant(std::string_view text, const source::Expr* found) {
  Value value = constant_of(ValueKind::text, found);
  value.text = text;
  return value;
}

Value number_constant(std::string_view written, const source::Expr* found) {
  std::string digits;
  for (const char c : written) {
    if (c != '_') digits += c;
  }
  if (const auto whole = parse_integer(digits)) return integer_constant(*whole, found);
  const auto number = parse_number(digits);
  return number ? real_constant(*number, found) : constant_of(ValueKind::unknown, found);
}

Value literal_constant(const source::Expr& expr) {
  switch (expr.kind) {
    case source::ExprKind::integer: {
      const Value value = number_constant(expr.word(), &expr);
      return value.kind == ValueKind::integer ? value : constant_of(ValueKind::unknown, &expr);
    }
    case source::ExprKind::real:
      return number_constant(expr.word(), &expr);
    case source::ExprKind::boolean:
      return boolean_constant(expr.word() == "True", &expr);
    case source::ExprKind::none:
      return constant_of(ValueKind::none, &expr);
    case source::ExprKind::text:
      return text_constant(expr.word(), &expr);
    default:
      return constant_of(ValueKind::unknown, &expr);
  }
}

bool is_numeric(const Value& value) {
  return value.kind == ValueKind::integer || value.kind == ValueKind::real;
}

bool is_equal(const Value& a, const Value& b) {
  if (is_numeric(a) && is_numeric(b)) return a.real == b.real;
  if (a.kind != b.kind) return false;
  if (a.kind == ValueKind::list) return a.found != nullptr && a.found == b.found;
  return a.boolean == b.boolean && a.text == b.text;
}

Value unary_constant(std::string_view sign, const Value& a, const source::Expr* found) {
  if (sign == "not") return boolean_constant(!a.is_true(), found);
  if (sign != "-" || !is_numeric(a)) return constant_of(ValueKind::unknown, found);
  Value value = a;
  value.found = found;
  value.integer = -value.integer;
  value.real = -value.real;
  return value;
}

namespace {

// Of a text in another one, or of what a list has, which holds only literals.
std::optional<bool> is_in(const Value& a, const Value& b) {
  if (a.kind == ValueKind::text && b.kind == ValueKind::text) return contains(b.text, a.text);
  if (b.kind != ValueKind::list || b.found == nullptr) return std::nullopt;
  const bool is_row =
      b.found->kind == source::ExprKind::list || b.found->kind == source::ExprKind::tuple;
  bool is_there = false;
  for (const source::Expr* item : b.found->children()) {
    const Value value = literal_constant(*item);
    if (!is_row || !value.known()) return std::nullopt;
    is_there = is_there || is_equal(a, value);
  }
  return is_there;
}

}  // namespace

Value binary_constant(std::string_view sign, const Value& a, const Value& b,
                      const source::Expr* found) {
  if (sign == "in" || sign == "not in") {
    const std::optional<bool> inside = is_in(a, b);
    return inside ? boolean_constant(*inside == (sign == "in"), found)
                  : constant_of(ValueKind::unknown, found);
  }
  constexpr std::string_view kComparisons[] = {"==", "!=", "is", "is not", "<", ">", "<=", ">="};
  if (!is_one_of(sign, kComparisons)) return arithmetic(sign, a, b, found);
  const std::optional<bool> truth = compare(sign, a, b);
  return truth ? boolean_constant(*truth, found) : constant_of(ValueKind::unknown, found);
}

}  // namespace rooftile::script
