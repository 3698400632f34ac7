#include "rooftile/formats/pt2/expression.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <utility>
#include <vector>

#include "rooftile/base/text.h"

namespace rooftile::pt2_format {
namespace {

constexpr std::size_t kLongest = 16'384;
constexpr int kDeepest = 64;
constexpr double kLargest = 9e15;  // whole numbers below are exact

using Value = std::optional<double>;
using Values = std::vector<double>;

// As Python divides whole numbers.
Value floor_divide(double a, double b) {
  if (b == 0) return std::nullopt;
  double rest = std::fmod(a, b);
  if (rest != 0 && (rest < 0) != (b < 0)) rest += b;
  return (a - rest) / b;
}

Value modulo(double a, double b) {
  const Value whole = floor_divide(a, b);
  return whole ? Value(a - *whole * b) : std::nullopt;
}

double power(double a, double b) { return std::pow(a, b); }

// Functions of sympy and torch.utils._sympy.functions.
Value of_two(std::string_view name, double a, double b) {
  if (is_one_of(name, {"FloorDiv", "CleanDiv"})) return floor_divide(a, b);
  if (is_one_of(name, {"Mod", "PythonMod"})) return modulo(a, b);
  if (is_one_of(name, {"Pow", "PowByNatural", "FloatPow"})) return power(a, b);
  if (is_one_of(name, {"Rational", "IntTrueDiv", "FloatTrueDiv"})) {
    return b == 0 ? std::nullopt : Value(a / b);
  }
  if (name == "CeilDiv") {
    const Value down = floor_divide(-a, b);
    return down ? Value(-*down) : std::nullopt;
  }
  return std::nullopt;
}

Value of_one(std::string_view name, double a) {
  if (is_one_of(name, {"Integer", "ToFloat", "Float", "Identity"})) return a;
  if (is_one_of(name, {"floor", "FloorToInt"})) return std::floor(a);
  if (is_one_of(name, {"ceiling", "CeilToInt"})) return std::ceil(a);
  if (is_one_of(name, {"TruncToInt", "TruncToFloat", "trunc"})) return std::trunc(a);
  if (name == "RoundToInt") return std::nearbyint(a);
  if (name == "Abs") return std::abs(a);
  return std::nullopt;
}

Value call(std::string_view name, const Values& values) {
  if (values.empty()) return std::nullopt;
  double result = values.front();
  const bool adds = name == "Add", multiplies = name == "Mul", largest = name == "Max",
             smallest = name == "Min";
  if (adds || multiplies || largest || smallest) {
    for (std::size_t i = 1; i < values.size(); ++i) {
      if (adds) result += values[i];
      if (multiplies) result *= values[i];
      if (largest) result = std::max(result, values[i]);
      if (smallest) result = std::min(result, values[i]);
    }
    return result;
  }
  if (name == "ModularIndexing" && values.size() == 3) {
    const Value quotient = floor_divide(values[0], values[1]);
    return quotient ? modulo(*quotient, values[2]) : std::nullopt;
  }
  if (values.size() == 2) return of_two(name, values[0], values[1]);
  return values.size() == 1 ? of_one(name, values[0]) : std::nullopt;
}

// Recursive descent, with Python's precedence.
class Parser {
 public:
  Parser(std::string_view text, const Symbols& symbols) : text_(text), symbols_(symbols) {}

  Value whole() {
    const Value value = sum();
    skip_blanks();
    return at_ == text_.size() ? value : std::nullopt;
  }

 private:
  void skip_blanks() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }

  bool take(std::string_view token) {
    skip_blanks();
    if (text_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    return true;
  }

  Value sum() {
    Value value = term();
    while (value) {
      const bool adds = take("+");
      if (!adds && !take("-")) break;
      const Value next = term();
      if (!next) return std::nullopt;
      value = adds ? *value + *next : *value - *next;
    }
    return value;
  }

  Value term() {
    Value value = factor();
    while (value) {
      static constexpr std::array<std::string_view, 4> kOperators{"//", "/", "*", "%"};
      const auto* const sign = std::find_if(kOperators.begin(), kOperators.end(),
                                            [&](std::string_view token) { return take(token); });
      if (sign == kOperators.end()) break;
      const Value next = factor();
      if (!next) return std::nullopt;
      value = *sign == "//"  ? floor_divide(*value, *next)
              : *sign == "%" ? modulo(*value, *next)
              : *sign == "*" ? Value(*value * *next)
                             : of_two("Rational", *value, *next);
    }
    return value;
  }

  Value factor() {
    if (++depth_ > kDeepest) return std::nullopt;
    Value value;
    if (take("-")) {
      value = factor();
      if (value) value = -*value;
    } else {
      value = atom();
      if (value && take("**")) {
        const Value exponent = factor();
        value = exponent ? Value(power(*value, *exponent)) : std::nullopt;
      }
    }
    --depth_;
    return value;
  }

  Value atom() {
    if (take("(")) {
      const Value value = sum();
      return take(")") ? value : std::nullopt;
    }
    const std::string_view word = take_word();
    if (word.empty()) return std::nullopt;
    if (std::isdigit(static_cast<unsigned char>(word.front())) != 0) return parse_number(word);
    if (word == "Symbol") return symbol();
    if (take("(")) return arguments_of(word);
    return value_of(word);
  }

  // Letters, digits and a decimal point.
  std::string_view take_word() {
    skip_blanks();
    const std::size_t begin = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 ||
                                  text_[at_] == '_' || text_[at_] == '.')) {
      ++at_;
    }
    return text_.substr(begin, at_ - begin);
  }

  Value value_of(std::string_view name) const {
    const auto found = symbols_.find(name);
    return found == symbols_.end() ? std::nullopt : Value(static_cast<double>(found->second));
  }

  std::optional<std::string_view> quoted_text() {
    for (const std::string_view quote : {"'", "\""}) {
      if (!take(quote)) continue;
      const std::size_t end = std::min(text_.find(quote, at_), text_.size());
      const std::string_view text = text_.substr(at_, end - at_);
      at_ = std::min(end + 1, text_.size());
      return text;
    }
    return std::nullopt;
  }

  // Symbol('s0', positive=True, integer=True).
  Value symbol() {
    if (!take("(")) return std::nullopt;
    const auto name = quoted_text();
    const std::size_t end = text_.find(')', at_);
    if (!name || end == std::string_view::npos) return std::nullopt;
    at_ = end + 1;
    return value_of(*name);
  }

  // Named ones are assumptions ("evaluate=False") and precisions.
  Value arguments_of(std::string_view name) {
    Values values;
    while (!take(")")) {
      const std::size_t before = at_;
      const bool is_named = !take_word().empty() && take("=");
      if (is_named) {
        take_word();
      } else {
        at_ = before;
        const auto text = quoted_text();  // Float('2.0', precision=53)
        const Value value = text ? parse_number(*text) : sum();
        if (!value) return std::nullopt;
        values.push_back(*value);
      }
      if (!take(",")) {
        if (!take(")")) return std::nullopt;
        break;
      }
    }
    return call(name, values);
  }

  std::string_view text_;
  const Symbols& symbols_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

std::optional<std::int64_t> evaluate(std::string_view expression, const Symbols& symbols) {
  if (expression.size() > kLongest) return std::nullopt;
  const Value value = Parser(expression, symbols).whole();
  if (!value || !std::isfinite(*value) || std::abs(*value) > kLargest) return std::nullopt;
  if (std::floor(*value) != *value) return std::nullopt;
  return static_cast<std::int64_t>(*value);
}

std::optional<std::string> symbol_name(std::string_view expression) {
  constexpr std::string_view kSymbol = "Symbol('";
  expression = trim(expression);
  if (expression.starts_with(kSymbol)) {
    expression.remove_prefix(kSymbol.size());
    const std::size_t quote = expression.find('\'');
    if (quote == std::string_view::npos) return std::nullopt;
    // Nothing but the assumptions may follow.
    if (expression.find(')') != expression.size() - 1) return std::nullopt;
    expression = expression.substr(0, quote);
  }
  const auto is_letter = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
  };
  const bool is_name = !expression.empty() &&
                       std::isdigit(static_cast<unsigned char>(expression.front())) == 0 &&
                       std::all_of(expression.begin(), expression.end(), is_letter);
  return is_name ? std::optional<std::string>(expression) : std::nullopt;
}

}  // namespace rooftile::pt2_format
