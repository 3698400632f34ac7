// What the nodes of flow.h come to.
#include <algorithm>
#include <cmath>
#include <string>

#include "rooftile/base/text.h"
#include "rooftile/script/flow/flow.h"

namespace rooftile::script {
namespace {

constexpr int kMaxBranchesOfPhi = 8;  // that a value passes to it, one inside the other

// A name stands for the value behind it.
ValueId behind_names(const Function& function, ValueId value) {
  while (function.values[value].op == Op::name) value = function.values[value].operands[0];
  return value;
}

bool is_none_constant(const Function& function, ValueId value) {
  const Instruction& made = function.values[value];
  return made.op == Op::constant && made.word == "None";
}

// What a value can be where a condition has the given truth. Returns whether a run may change that.
bool narrow_by(KnownValue& brought, const Function& function, ValueId value, ValueId condition,
               bool truth) {
  const ValueId asked = behind_names(function, condition);
  if (asked == behind_names(function, value)) {
    return brought.keep_if([&](const Value& each) { return each.is_true() == truth; });
  }
  const Instruction& made = function.values[asked];
  if (made.op != Op::operation) return false;
  if (made.word == "not") return narrow_by(brought, function, value, made.operands[0], !truth);
  const bool is_same = is_one_of(made.word, {"is", "=="});
  const bool is_other = is_one_of(made.word, {"is not", "!="});
  const bool asks_for_none =
      (is_same || is_other) && made.operands.size() == 2 &&
      is_none_constant(function, made.operands[1]) &&
      behind_names(function, made.operands[0]) == behind_names(function, value);
  if (!asks_for_none) return false;
  return brought.keep_if(
      [&](const Value& each) { return (each.kind == ValueKind::none) == (is_same == truth); });
}

// By the branches that lead to the phi.
bool narrow(KnownValue& brought, const Function& function, ValueId value, BlockId from,
            BlockId to) {
  bool is_changeable = false;
  for (int i = 0; i < kMaxBranchesOfPhi; ++i) {
    const Block& block = function.blocks[from];
    if (block.condition != kNone) {
      is_changeable =
          narrow_by(brought, function, value, block.condition, block.next == to) || is_changeable;
    }
    if (block.predecessors.size() != 1) break;
    to = from;
    from = block.predecessors.front();
  }
  return is_changeable;
}

KnownValue weakened(const Value& constant, Certainty at_least) {
  KnownValue value = KnownValue::of(constant);
  value.weaken(at_least);
  return value;
}

}  // namespace

const Instruction& Flow::instruction(const Node& node) const {
  return static_cast<const Function*>(node.key.owner)->values[node.key.id];
}

KnownValue Flow::joined(const Node& node, std::size_t from) const {
  KnownValue value;
  for (std::size_t i = from; i < node.dependencies.size(); ++i) {
    KnownValue brought = nodes_[node.dependencies[i].node].value;
    brought.weaken(node.dependencies[i].at_least);
    value.join(brought);
  }
  return value;
}

// Dependencies: the block, and its condition where it has one.
Flow::Reach Flow::reach_of_edge(const Node& node, std::size_t& next, BlockId from,
                                BlockId to) const {
  const Block& block = static_cast<const Function*>(node.key.owner)->blocks[from];
  const Reach reach = nodes_[node.dependencies[next++].node].reach;
  if (block.condition == kNone) return reach;
  const KnownValue& condition = nodes_[node.dependencies[next++].node].value;
  if (condition.is_never_made()) return Reach::never;  // not yet
  const std::optional<bool> truth = condition.truth();
  if (!truth || *truth == (block.next == to)) return reach;
  return condition.is_configurable() ? std::min(reach, Reach::if_configured) : Reach::never;
}

Flow::Reach Flow::reach_of_block(const Node& node) const {
  const auto& function = *static_cast<const Function*>(node.key.owner);
  if (node.key.id == 0) return Reach::always;
  Reach reach = Reach::never;
  std::size_t next = 0;
  for (const BlockId from : function.blocks[node.key.id].predecessors) {
    reach = std::max(reach, reach_of_edge(node, next, from, node.key.id));
  }
  return reach;
}

KnownValue Flow::of_phi(const Node& node) const {
  const auto& function = *static_cast<const Function*>(node.key.owner);
  const Instruction& phi = instruction(node);
  KnownValue value;
  bool is_changeable = false;
  std::size_t next = 0;
  const std::vector<BlockId>& from = function.blocks[phi.block].predecessors;
  for (std::size_t i = 0; i < from.size(); ++i) {
    const Reach reach = reach_of_edge(node, next, from[i], phi.block);
    KnownValue brought = nodes_[node.dependencies[next++].node].value;
    is_changeable = is_changeable || reach == Reach::if_configured;
    if (reach != Reach::always) continue;
    is_changeable = narrow(brought, function, phi.operands[i], from[i], phi.block) || is_changeable;
    value.join(brought);
  }
  if (is_changeable) value.weaken(Certainty::configurable);
  return value;
}

KnownValue Flow::of_results(const Node& node) const {
  KnownValue value;
  bool is_changeable = false;
  for (std::size_t i = 0; i < node.dependencies.size(); i += 2) {
    const Node& block = nodes_[node.dependencies[i].node];
    is_changeable = is_changeable || block.reach == Reach::if_configured;
    if (block.reach != Reach::always) continue;
    // The block alone stands for the end of the function.
    const bool is_end = i + 1 == node.dependencies.size();
    value.join(is_end ? KnownValue::of(constant_of(ValueKind::none, nullptr))
                      : nodes_[node.dependencies[i + 1].node].value);
  }
  if (is_changeable) value.weaken(Certainty::configurable);
  return value;
}

KnownValue Flow::of_operation(const Node& node) const {
  const Instruction& made = instruction(node);
  const KnownValue& a = nodes_[node.dependencies.front().node].value;
  const KnownValue& b = nodes_[node.dependencies.back().node].value;
  if (a.is_never_made() || b.is_never_made()) return {};
  if (a.is_anything() || b.is_anything() || node.dependencies.size() > 2) {
    return KnownValue::anything();
  }
  KnownValue value;
  for (const Value& left : a.constants()) {
    if (node.dependencies.size() == 1) {
      value.join(weakened(unary_constant(made.word, left, made.expr), left.certainty));
      continue;
    }
    for (const Value& right : b.constants()) {
      const Certainty certainty = std::max({left.certainty, right.certainty, Certainty::constant});
      value.join(weakened(binary_constant(made.word, left, right, made.expr), certainty));
    }
  }
  return value;
}

// int(x), float(x), bool(x), str(x)
KnownValue Flow::of_conversion(const Node& node) {
  const Instruction& made = instruction(node);
  const KnownValue& given = nodes_[node.dependencies.front().node].value;
  if (given.is_anything()) return KnownValue::anything();
  const std::string_view name = made.expr->call()->name;
  KnownValue value;
  for (const Value& each : given.constants()) {
    Value converted = each;
    if (name == "bool") {
      converted = boolean_constant(each.is_true(), made.expr);
    } else if (name == "str" && each.kind == ValueKind::integer) {
      converted = text_constant(graphs_.keep(std::to_string(each.integer)), made.expr);
    } else if (name == "str" && each.kind != ValueKind::text) {
      converted = constant_of(ValueKind::unknown, made.expr);  // "2.5", "None" are not written out
    } else if (name != "str" && each.kind == ValueKind::text) {
      converted = number_constant(each.text, made.expr);
    } else if (name == "int" && each.kind == ValueKind::boolean) {
      converted = integer_constant(each.integer, made.expr);
    } else if (name == "int" && each.kind == ValueKind::real) {
      converted = whole_constant(each.real, made.expr);
    }
    value.join(weakened(converted, each.certainty));
  }
  return value;
}

// min(a, b), max(a, b), abs(a), len(a) of single constants
KnownValue Flow::of_reduction(const Node& node) const {
  const Instruction& made = instruction(node);
  const std::string_view name = made.expr->call()->name;
  const Value* best = nullptr;
  Certainty certainty = Certainty::constant;
  for (const Dependency& each : node.dependencies) {
    const KnownValue& given = nodes_[each.node].value;
    if (given.is_never_made()) return {};
    const Value* one = given.only();
    if (one == nullptr || (name != "len" && !is_numeric(*one))) return KnownValue::anything();
    const bool is_better =
        best == nullptr || (name == "min" ? one->real < best->real : one->real > best->real);
    if (is_better) best = one;
    certainty = std::max(certainty, one->certainty);
  }
  if (best == nullptr) return KnownValue::anything();
  if (name == "min" || name == "max") return weakened(*best, certainty);
  if (name == "abs")
    return weakened(best->real < 0 ? unary_constant("-", *best, made.expr) : *best, certainty);
  const bool is_whole = best->kind == ValueKind::list && best->found != nullptr &&
                        best->found->kind != source::ExprKind::dict &&
                        std::ranges::none_of(best->found->children(), [](const Expr* item) {
                          return item->kind == source::ExprKind::starred;
                        });
  if (!is_whole) return KnownValue::anything();
  const auto count = static_cast<std::int64_t>(best->found->children().size());
  return weakened(integer_constant(count, made.expr), certainty);
}

// A loop of one pass counts no further than 0.
KnownValue Flow::of_index(const Node& node) const {
  const KnownValue& passes = nodes_[node.dependencies.front().node].value;
  if (passes.is_never_made()) return {};
  const Value* only = passes.only();
  const bool is_one = only != nullptr && only->is(std::int64_t{1});
  return is_one ? weakened(integer_constant(0, instruction(node).expr), only->certainty)
                : KnownValue::anything();
}

// f"cuda:{index}" of single constants, without formats
KnownValue Flow::of_format(const Node& node) {
  const Instruction& made = instruction(node);
  std::string text;
  Certainty certainty = Certainty::constant;
  std::size_t next = 0;
  for (std::size_t i = 0; i < made.word.size(); ++i) {
    const char c = made.word[i];
    if (c != '{') {
      if (c == '}' || c == '\\') return KnownValue::anything();
      text += c;
      continue;
    }
    const std::size_t end = made.word.find('}', i);
    if (end == std::string_view::npos || next == node.dependencies.size()) {
      return KnownValue::anything();
    }
    const std::string_view inside = made.word.substr(i + 1, end - i - 1);
    if (inside.find_first_of("{:!=") != std::string_view::npos) return KnownValue::anything();
    const KnownValue& given = nodes_[node.dependencies[next++].node].value;
    if (given.is_never_made()) return {};
    const Value* one = given.only();
    if (one == nullptr) return KnownValue::anything();
    if (one->kind == ValueKind::integer) {
      text += std::to_string(one->integer);
    } else if (one->kind == ValueKind::text) {
      text += one->text;
    } else {
      return KnownValue::anything();
    }
    certainty = std::max(certainty, one->certainty);
    i = end;
  }
  return weakened(text_constant(graphs_.keep(std::move(text)), made.expr), certainty);
}

}  // namespace rooftile::script
