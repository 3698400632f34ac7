// Sizes as expressions of symbols, as torch.export writes them: "Mul(Integer(2), Symbol('s0', …))"
// and "2*s0".
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace rooftile::pt2_format {

using Symbols = std::map<std::string, std::int64_t, std::less<>>;

// Empty where the expression is not understood, holds an unknown symbol or is no whole number.
std::optional<std::int64_t> evaluate(std::string_view expression, const Symbols& symbols);

// The name, where the expression is a symbol alone.
std::optional<std::string> symbol_name(std::string_view expression);

}  // namespace rooftile::pt2_format
