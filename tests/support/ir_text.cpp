#include "tests/support/ir_text.h"

#include <fmt/format.h>

#include <array>
#include <iterator>
#include <string_view>

namespace rooftile::script {
namespace {

using namespace std::string_view_literals;

constexpr std::array kOpNames = {
    "undefined"sv,  "unknown"sv,   "parameter"sv, "free"sv,    "constant"sv,        "phi"sv,
    "name"sv,       "attribute"sv, "item"sv,      "call"sv,    "operation"sv,       "sequence"sv,
    "format"sv,     "starred"sv,   "element"sv,   "iterate"sv, "enter"sv,           "closure"sv,
    "definition"sv, "decorated"sv, "import"sv,    "wait"sv,    "store_attribute"sv, "store_item"sv,
    "store_free"sv, "result"sv};
static_assert(kOpNames.size() == static_cast<std::size_t>(Op::result) + 1);
constexpr std::array kKindNames = {"module"sv, "class"sv, "function"sv, "lambda"sv};

std::string in_quotes(std::string_view word) {
  std::string text = "\"";
  for (const char c : word) {
    if (c == '\n') {
      text += "\\n";
      continue;
    }
    if (c == '"' || c == '\\') text += '\\';
    text += c;
  }
  return text + '"';
}

std::string end_text(const Block& block) {
  if (block.next == kNone) return "leave";
  if (block.otherwise == kNone) return fmt::format("goto b{}", block.next);
  if (block.condition == kNone) return fmt::format("either b{} b{}", block.next, block.otherwise);
  return fmt::format("if %{} b{} b{}", block.condition, block.next, block.otherwise);
}

}  // namespace

std::string ir_text(const Function& function) {
  std::string text = fmt::format("{} {}\n", kKindNames.at(static_cast<std::size_t>(function.kind)),
                                 in_quotes(function.name));
  const auto out = std::back_inserter(text);
  for (BlockId id = 0; id < function.blocks.size(); ++id) {
    const Block& block = function.blocks[id];
    fmt::format_to(out, "b{}:{}", id, block.predecessors.empty() ? "" : " from");
    for (const BlockId from : block.predecessors) fmt::format_to(out, " b{}", from);
    text += '\n';
    for (const ValueId value : block.instructions) {
      const Instruction& each = function.values[value];
      fmt::format_to(out, "  %{} = {}", value, kOpNames.at(static_cast<std::size_t>(each.op)));
      if (!each.word.empty()) text += ' ' + in_quotes(each.word);
      for (const ValueId operand : each.operands) fmt::format_to(out, " %{}", operand);
      text += '\n';
    }
    text += "  " + end_text(block) + '\n';
  }
  for (const NamedValue& each : function.at_exit) {
    fmt::format_to(out, "exit {} %{}\n", in_quotes(each.name), each.value);
  }
  return text;
}

}  // namespace rooftile::script
