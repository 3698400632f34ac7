#include "rooftile/base/mangled_name.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "rooftile/base/text.h"

namespace rooftile {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// "13reduce_kernel…": the length and as many letters, taken off the text.
std::optional<std::string_view> take_identifier(std::string_view& text) {
  constexpr std::size_t kLongest = 4096;
  std::size_t length = 0, digits = 0;
  for (; digits < text.size() && is_digit(text[digits]); ++digits) {
    length = 10 * length + static_cast<std::size_t>(text[digits] - '0');
    if (length > kLongest) return std::nullopt;
  }
  if (digits == 0 || length == 0 || digits + length > text.size()) return std::nullopt;
  const std::string_view identifier = text.substr(digits, length);
  text.remove_prefix(digits + length);
  return identifier;
}

bool is_generic(std::string_view name) {
  return name == "Kernel" || name == "Kernel2" || name == "device_kernel";
}

// The first identifier in the arguments of a template that is no type of the language.
std::string_view first_argument(std::string_view arguments) {
  while (!arguments.empty()) {
    if (!is_digit(arguments.front())) {
      arguments.remove_prefix(1);
      continue;
    }
    const auto identifier = take_identifier(arguments);
    if (!identifier) return {};
    const bool is_scope = !arguments.empty() && is_digit(arguments.front());
    if (!is_scope) return *identifier;
  }
  return {};
}

}  // namespace

std::string function_of_mangled(std::string_view name) {
  if (!name.starts_with("_Z")) return "";
  name.remove_prefix(2);
  for (const std::string_view prefix : {"N", "St", "L"}) {
    if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
  }
  std::string_view function, scope;
  while (!name.empty() && is_digit(name.front())) {
    const auto identifier = take_identifier(name);
    if (!identifier) return "";
    scope = function;
    function = *identifier;
    if (name.starts_with('L')) name.remove_prefix(1);
  }
  if (function.empty()) return "";
  if (is_generic(function) && name.starts_with('I')) {
    const std::string_view argument = first_argument(name.substr(1));
    if (!argument.empty()) return std::string(argument);
  }
  if (function == "kernel" && !scope.empty()) return std::string(scope) + "::kernel";
  return std::string(function);
}

namespace {

// Where a bracket opens that holds more than the name of a namespace without one; the text's end
// where none does.
std::size_t opening(std::string_view name, char bracket) {
  std::size_t open = name.find(bracket);
  while (open != name.npos && (name.substr(open + 1).starts_with("anonymous") ||
                               name.substr(open + 1).starts_with("unnamed>"))) {
    open = name.find(bracket, open + 1);
  }
  return std::min(open, name.size());
}

// "kernel" of "a::b::kernel" is "b::kernel": alone it names nothing.
std::string_view without_scopes(std::string_view name) {
  const auto scope = name.rfind("::");
  if (scope == name.npos || scope + 2 == name.size()) return name;
  const auto outer = name.substr(0, scope).rfind("::");
  const std::string_view function = name.substr(scope + 2);
  if (function != "kernel") return function;
  return outer == name.npos ? name : name.substr(outer + 2);
}

}  // namespace

std::string function_of_kernel(std::string_view name) {
  if (std::string function = function_of_mangled(name); !function.empty()) return function;
  constexpr std::string_view kReturned = ">::type ";  // std::enable_if<…>::type kernel<…>
  std::string_view rest = name;
  if (const auto type = rest.find(kReturned);
      rest.starts_with("std::enable_if") && type != rest.npos)
    rest.remove_prefix(type + kReturned.size());
  if (rest.starts_with("void ")) rest.remove_prefix(5);
  const std::size_t arguments = opening(rest, '(');
  const std::size_t open = std::min(opening(rest, '<'), arguments);
  std::string_view function = without_scopes(trim(rest.substr(0, open)));
  if (is_generic(function) && open < arguments) {
    const std::string_view argument = rest.substr(open + 1);
    function = without_scopes(trim(argument.substr(0, argument.find_first_of("<>,"))));
  }
  return std::string(function.empty() ? name : function);
}

}  // namespace rooftile
