#include "rooftile/script/ir/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <iterator>

#include "rooftile/base/text.h"
#include "rooftile/script/ir/ssa_builder.h"

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

// Words of a line: "quoted", %3, b2, names.
class Line {
 public:
  Line(std::string_view text, std::size_t number) : rest_(trim(text)), number_(number) {}

  bool at_end() const { return rest_.empty(); }
  bool starts_with(char c) const { return rest_.starts_with(c); }

  std::string_view word() {
    const std::size_t end = std::min(rest_.find(' '), rest_.size());
    const std::string_view found = rest_.substr(0, end);
    rest_ = trim(rest_.substr(end));
    return found;
  }

  // Without its quotes; nothing where there is none.
  std::string quoted_word() {
    std::string text;
    if (!starts_with('"')) return text;
    std::size_t at = 1;
    for (; at < rest_.size() && rest_[at] != '"'; ++at) {
      const bool is_escape = rest_[at] == '\\' && at + 1 < rest_.size();
      if (is_escape) ++at;
      text += is_escape && rest_[at] == 'n' ? '\n' : rest_[at];
    }
    rest_ = trim(rest_.substr(std::min(at + 1, rest_.size())));
    return text;
  }

  // The number of %3 or b3.
  Result<std::uint32_t> number(char sign) {
    const std::string_view found = word();
    const auto value = found.starts_with(sign) ? parse_integer(found.substr(1)) : std::nullopt;
    if (!value || *value < 0 || *value >= kNone) {
      return error(fmt::format("{}, and a number", sign), found);
    }
    return static_cast<std::uint32_t>(*value);
  }

  tl::unexpected<Error> error(std::string_view expected, std::string_view found) const {
    return fail(fmt::format("expected {}, found \"{}\"", expected, found),
                fmt::format("line {}", number_));
  }

 private:
  std::string_view rest_;
  std::size_t number_;
};

class IrParser {
 public:
  Result<std::unique_ptr<const Function>> parse(std::string_view text) {
    std::size_t number = 0;
    for (const std::string_view each : split(text, '\n')) {
      Line line(each, ++number);
      if (line.at_end()) continue;
      if (Result<void> read = parse_line(line); !read) return tl::unexpected(read.error());
    }
    for (const auto& [place, line] : used_) {
      if (place >= function_->values.size()) return line.error("a value of this function", "%");
    }
    for (const auto& [place, line] : targets_) {
      if (place >= function_->blocks.size()) return line.error("a block of this function", "b");
    }
    gather_operands(*function_, {});
    return std::move(function_);
  }

 private:
  Result<void> parse_line(Line& line) {
    if (line.starts_with('%')) return value(line);
    const Line start = line;
    const std::string_view word = line.word();
    const auto kind = std::ranges::find(kKindNames, word);
    if (kind != kKindNames.end()) {
      function_->kind = static_cast<FunctionKind>(kind - kKindNames.begin());
      function_->name = keep(line.quoted_word());
      return {};
    }
    if (word.ends_with(':')) return block(start);
    if (function_->blocks.empty()) return line.error("a block", word);
    if (word == "exit") {
      const std::string_view name = keep(line.quoted_word());
      const Result<std::uint32_t> given = use(line);
      if (!given) return tl::unexpected(given.error());
      function_->at_exit.push_back({name, *given});
      return {};
    }
    return end(word, line);
  }

  std::string_view keep(std::string text) { return function_->words.emplace_back(std::move(text)); }

  Result<std::uint32_t> use(Line& line) {
    const Line start = line;
    const Result<std::uint32_t> found = line.number('%');
    if (found) used_.emplace_back(*found, start);
    return found;
  }

  Result<std::uint32_t> target(Line& line) {
    const Line start = line;
    const Result<std::uint32_t> found = line.number('b');
    if (found) targets_.emplace_back(*found, start);
    return found;
  }

  Result<void> block(Line line) {
    const std::string_view word = line.word();
    if (word != fmt::format("b{}:", function_->blocks.size())) {
      return line.error("the next block", word);
    }
    Block& made = function_->blocks.emplace_back();
    if (!line.at_end() && line.word() != "from") return line.error("from", "");
    while (!line.at_end()) {
      const Result<std::uint32_t> from = target(line);
      if (!from) return tl::unexpected(from.error());
      made.predecessors.push_back(*from);
    }
    return {};
  }

  Result<void> end(std::string_view word, Line& line) {
    Block& last = function_->blocks.back();
    if (word == "leave") return {};
    if (word != "goto" && word != "either" && word != "if") {
      return line.error("goto, either, if or leave", word);
    }
    if (word == "if") {
      const Result<std::uint32_t> condition = use(line);
      if (!condition) return tl::unexpected(condition.error());
      last.condition = *condition;
    }
    const Result<std::uint32_t> next = target(line);
    if (!next) return tl::unexpected(next.error());
    last.next = *next;
    if (word == "goto") return {};
    const Result<std::uint32_t> otherwise = target(line);
    if (!otherwise) return tl::unexpected(otherwise.error());
    last.otherwise = *otherwise;
    return {};
  }

  Result<void> value(Line& line) {
    const Result<std::uint32_t> id = line.number('%');
    if (!id) return tl::unexpected(id.error());
    if (function_->blocks.empty() || *id != function_->values.size()) {
      return line.error("the next value in a block", fmt::format("%{}", *id));
    }
    if (line.word() != "=") return line.error("=", "");
    const std::string_view name = line.word();
    const auto op = std::ranges::find(kOpNames, name);
    if (op == kOpNames.end()) return line.error("an operation", name);
    Instruction made;
    made.op = static_cast<Op>(op - kOpNames.begin());
    made.block = static_cast<BlockId>(function_->blocks.size() - 1);
    made.word = keep(line.quoted_word());
    std::vector<ValueId> operands;
    while (!line.at_end()) {
      const Result<std::uint32_t> operand = use(line);
      if (!operand) return tl::unexpected(operand.error());
      operands.push_back(*operand);
    }
    if (!operands.empty()) {
      made.operands = operand_lists_.emplace_back(std::move(operands));
    }
    function_->blocks.back().instructions.push_back(*id);
    if (made.op == Op::result) function_->results.push_back(*id);
    function_->values.push_back(made);
    return {};
  }

  std::unique_ptr<Function> function_ = std::make_unique<Function>();
  std::deque<std::vector<ValueId>> operand_lists_;
  std::vector<std::pair<std::uint32_t, Line>> used_, targets_;  // and where
};

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

Result<std::unique_ptr<const Function>> parse_ir(std::string_view text) {
  return IrParser().parse(text);
}

}  // namespace rooftile::script
